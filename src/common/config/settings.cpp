// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/settings.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <limits>
#include <map>

#include "common/base/quoted.hpp"
#include "common/config/named_contract.hpp"
#include "common/config/time_format.hpp"

namespace tranche {

namespace {

constexpr std::int64_t kDaySeconds = 86400;
constexpr std::int64_t kYearSeconds = 366 * kDaySeconds;
constexpr std::size_t kMostMistakes = 20;
constexpr std::size_t kLongestValue = 4096;
constexpr std::size_t kLongestFile = 1 << 20;
constexpr std::string_view kAlnum =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

struct Key;
using SetKey = Status (*)(const Key&, Settings&, std::string_view);
using PrintKey = std::string (*)(const Key&, const Settings&);

// One row of the table; `number`, `flag` and `words` are set where the row's functions use them.
struct Key {
    std::string_view name;
    std::string_view type;
    std::string_view unit;
    std::string_view article_value;
    std::string_view text;
    SetKey set;
    PrintKey print;
    std::int64_t Settings::*number = nullptr;
    std::int64_t least = 0;
    std::int64_t most = 0;
    bool Settings::*flag = nullptr;
    std::string Settings::*words = nullptr;
};

// Written so that both people and parse_time_span() read it.
std::string time_text(std::int64_t seconds) {
    if (seconds < 900) {
        return std::to_string(seconds);
    }
    std::string text = format_time_span(seconds);
    if (seconds < 3600) {
        return text.substr(3);  // 15:00
    }
    return text[0] == '0' ? text.substr(1) : text;  // 8:00:00
}

// 950000 of a million is "0.95".
std::string decimal_text(std::int64_t value, std::int64_t one) {
    std::string text = std::to_string(value / one);
    std::string digits = std::to_string(one + value % one).substr(1);
    while (!digits.empty() && digits.back() == '0') {
        digits.pop_back();
    }
    return digits.empty() ? text : text + "." + digits;
}

// "0.95" in parts of `one` (a power of ten); nullopt if it is no such number.
std::optional<std::int64_t> parse_decimal(std::string_view text, std::int64_t one) {
    const std::size_t dot = text.find('.');
    const std::string_view whole = text.substr(0, dot);
    const std::string_view digits =
        dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
    if (whole.size() + digits.size() == 0 || whole.size() > 12 ||
        (dot != std::string_view::npos && digits.empty())) {
        return std::nullopt;
    }
    std::int64_t value = 0;
    for (char character : whole) {
        if (character < '0' || character > '9') {
            return std::nullopt;
        }
        value = value * 10 + (character - '0');
    }
    if (value > std::numeric_limits<std::int64_t>::max() / one / 10) {
        return std::nullopt;
    }
    std::int64_t rest = 0;
    std::int64_t scale = one;
    for (char character : digits) {
        if (character < '0' || character > '9') {
            return std::nullopt;
        }
        if (scale == 1 && character != '0') {
            return std::nullopt;  // more decimals than are kept
        }
        if (scale > 1) {
            scale /= 10;
            rest += scale * (character - '0');
        }
    }
    return value * one + rest;
}

Error wrong_value(const Key& key, std::string_view value, const std::string& expected) {
    return Error{std::string(key.name) + "=" + quoted(value) + ": expected " + expected};
}

std::string time_range(const Key& key) {
    return time_text(key.least) + " to " + time_text(key.most);
}

std::string decimal_range(const Key& key) {
    return decimal_text(key.least, kPpm) + " to " + decimal_text(key.most, kPpm);
}

std::string count_range(const Key& key) {
    return std::to_string(key.least) + " to " + std::to_string(key.most);
}

Status set_time(const Key& key, Settings& settings, std::string_view value) {
    const auto seconds = parse_time_span(value, PlainNumber::seconds);
    if (!seconds) {
        return Error{std::string(key.name) + ": " + seconds.error()};
    }
    if (*seconds < key.least || *seconds > key.most) {
        return wrong_value(key, value, "a time from " + time_range(key));
    }
    settings.*key.number = *seconds;
    return {};
}

std::string print_time(const Key& key, const Settings& settings) {
    return time_text(settings.*key.number);
}

Status set_decimal(const Key& key, Settings& settings, std::string_view value) {
    const auto ppm = parse_decimal(value, kPpm);
    if (!ppm || *ppm < key.least || *ppm > key.most) {
        return wrong_value(key, value,
                           "a number from " + decimal_range(key) + " with at most six decimals");
    }
    settings.*key.number = *ppm;
    return {};
}

std::string print_decimal(const Key& key, const Settings& settings) {
    return decimal_text(settings.*key.number, kPpm);
}

Status set_count(const Key& key, Settings& settings, std::string_view value) {
    const auto count = parse_decimal(value, 1);
    if (!count || *count < key.least || *count > key.most) {
        return wrong_value(key, value, "a whole number from " + count_range(key));
    }
    settings.*key.number = *count;
    return {};
}

std::string print_count(const Key& key, const Settings& settings) {
    return std::to_string(settings.*key.number);
}

Status set_flag(const Key& key, Settings& settings, std::string_view value) {
    if (equal_ignoring_case(value, "yes") || equal_ignoring_case(value, "true")) {
        settings.*key.flag = true;
    } else if (equal_ignoring_case(value, "no") || equal_ignoring_case(value, "false")) {
        settings.*key.flag = false;
    } else {
        return wrong_value(key, value, "yes or no");
    }
    return {};
}

std::string print_flag(const Key& key, const Settings& settings) {
    return settings.*key.flag ? "yes" : "no";
}

Status set_path(const Key& key, Settings& settings, std::string_view value) {
    if (!value.empty() && value[0] != '/') {
        return wrong_value(key, value, "an absolute path, or nothing");
    }
    settings.*key.words = std::string(value);
    return {};
}

std::string print_words(const Key& key, const Settings& settings) {
    return settings.*key.words;
}

Status set_plugin_type(const Key& key, Settings& settings, std::string_view value) {
    constexpr std::string_view kPrefix = "priority/";
    const std::string_view name =
        value.size() > kPrefix.size() ? value.substr(kPrefix.size()) : std::string_view{};
    if (!starts_with_ignoring_case(value, kPrefix) || name.empty() ||
        name.find_first_not_of(std::string(kAlnum) + "_") != std::string_view::npos ||
        equal_ignoring_case(name, "budget")) {
        return wrong_value(key, value, "another priority plugin, as priority/multifactor");
    }
    settings.*key.words = std::string(value);
    return {};
}

// Items between commas, without the blanks around them; an empty value is no item.
std::vector<std::string> parse_list(std::string_view value) {
    std::vector<std::string> items;
    while (!value.empty()) {
        const std::size_t comma = value.find(',');
        items.emplace_back(trimmed(value.substr(0, comma)));
        if (comma == std::string_view::npos) {
            break;
        }
        value.remove_prefix(comma + 1);
        if (value.empty()) {
            items.emplace_back();  // a comma at the end
        }
    }
    return items;
}

std::string print_list(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) {
        text += (text.empty() ? "" : ",") + item;
    }
    return text;
}

Status set_policy(const Key& key, Settings& settings, std::string_view value);

std::string print_policy(const Key&, const Settings& settings) {
    return settings.policy == PolicyName::article ? "article" : "tranche";
}

Status set_window_shape(const Key& key, Settings& settings, std::string_view value) {
    if (equal_ignoring_case(value, "linear")) {
        settings.window_shape = WindowShape::linear;
    } else if (equal_ignoring_case(value, "flat")) {
        settings.window_shape = WindowShape::flat;
    } else {
        return wrong_value(key, value, "linear or flat");
    }
    return {};
}

std::string print_window_shape(const Key&, const Settings& settings) {
    return settings.window_shape == WindowShape::flat ? "flat" : "linear";
}

Status set_default_min_runtime(const Key& key, Settings& settings, std::string_view value) {
    if (value.empty()) {
        settings.default_min_runtime_seconds.reset();
        settings.require_min_runtime = false;
        return {};
    }
    if (equal_ignoring_case(value, "require")) {
        settings.default_min_runtime_seconds.reset();
        settings.require_min_runtime = true;
        return {};
    }
    const auto seconds = parse_time_span(value, PlainNumber::seconds);
    if (!seconds) {
        return Error{std::string(key.name) + ": " + seconds.error() + "; or `require`"};
    }
    if (*seconds > key.most) {
        return wrong_value(key, value, "a time from " + time_range(key) + ", or `require`");
    }
    settings.default_min_runtime_seconds = *seconds;
    settings.require_min_runtime = false;
    return {};
}

std::string print_default_min_runtime(const Key&, const Settings& settings) {
    if (settings.require_min_runtime) {
        return "require";
    }
    return settings.default_min_runtime_seconds ? time_text(*settings.default_min_runtime_seconds)
                                                : "";
}

Status set_partitions(const Key& key, Settings& settings, std::string_view value) {
    std::vector<std::string> names = parse_list(value);
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].empty() || names[i].find_first_of(" \t\"'=") != std::string::npos) {
            return wrong_value(key, value, "names of partitions between commas");
        }
        if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
            names.begin() + static_cast<std::ptrdiff_t>(i)) {
            return Error{std::string(key.name) + ": partition " + quoted(names[i]) +
                         " is named twice"};
        }
    }
    settings.partitions = std::move(names);
    return {};
}

std::string print_partitions(const Key&, const Settings& settings) {
    return print_list(settings.partitions);
}

Status set_contract(const Key& key, Settings& settings, std::string_view value) {
    if (trimmed(value).empty()) {
        return {};
    }
    auto contract = parse_named_contract(value);
    if (!contract) {
        return Error{std::string(key.name) + ": " + contract.error()};
    }
    if (settings.find_contract(contract->name) != nullptr) {
        return Error{std::string(key.name) + ": the contract " + quoted(contract->name) +
                     " is defined twice"};
    }
    settings.contracts.push_back(std::move(contract.value()));
    return {};
}

std::string print_contracts(const Key&, const Settings& settings) {
    std::string text;
    for (const NamedContract& contract : settings.contracts) {
        text += (text.empty() ? "" : "\n") + to_text(contract);
    }
    return text;
}

Status set_sharing(const Key& key, Settings& settings, std::string_view value) {
    if (equal_ignoring_case(value, "users")) {
        settings.sharing = Sharing::users;
    } else if (equal_ignoring_case(value, "pooled")) {
        settings.sharing = Sharing::pooled;
    } else {
        return wrong_value(key, value, "users or pooled");
    }
    return {};
}

std::string print_sharing(const Key&, const Settings& settings) {
    return settings.sharing == Sharing::pooled ? "pooled" : "users";
}

constexpr std::string_view kPreemptWithinWords[] = {"no", "users", "priority", "both"};

Status set_preempt_within(const Key& key, Settings& settings, std::string_view value) {
    for (std::size_t i = 0; i < std::size(kPreemptWithinWords); ++i) {
        if (equal_ignoring_case(value, kPreemptWithinWords[i])) {
            settings.preempt_within_budget = static_cast<PreemptWithinBudget>(i);
            return {};
        }
    }
    return wrong_value(key, value, "no, users, priority or both");
}

std::string print_preempt_within(const Key&, const Settings& settings) {
    return std::string(
        kPreemptWithinWords[static_cast<std::size_t>(settings.preempt_within_budget)]);
}

Status set_victim_protection(const Key& key, Settings& settings, std::string_view value) {
    if (equal_ignoring_case(value, "full")) {
        settings.express_victim_protection_seconds.reset();
        return {};
    }
    const auto seconds = parse_time_span(value, PlainNumber::seconds);
    if (!seconds) {
        return Error{std::string(key.name) + ": " + seconds.error() + "; or `full`"};
    }
    if (*seconds > key.most) {
        return wrong_value(key, value, "a time from " + time_range(key) + ", or `full`");
    }
    settings.express_victim_protection_seconds = *seconds;
    return {};
}

std::string print_victim_protection(const Key&, const Settings& settings) {
    return settings.express_victim_protection_seconds
               ? time_text(*settings.express_victim_protection_seconds)
               : "full";
}

constexpr std::int64_t kMostWeightMilli = 1'000'000;

bool is_weight_name(std::string_view name) noexcept {
    if (name == "gpu" || name == "cpu") {
        return true;
    }
    constexpr std::string_view kTyped = "gpu:";
    return name.size() > kTyped.size() && name.substr(0, kTyped.size()) == kTyped &&
           name.find_first_of(" \t\"'=:", kTyped.size()) == std::string_view::npos;
}

Status set_charge_weights(const Key& key, Settings& settings, std::string_view value) {
    std::vector<ChargeWeight> weights;
    for (const std::string& item : parse_list(value)) {
        const std::size_t equals = item.find('=');
        const std::string name = item.substr(0, equals);
        const auto milli =
            parse_decimal(equals == std::string::npos ? std::string_view{}
                                                      : std::string_view(item).substr(equals + 1),
                          1000);
        if (!is_weight_name(name) || !milli || *milli > kMostWeightMilli) {
            return wrong_value(key, item,
                               "gpu=WEIGHT, gpu:TYPE=WEIGHT or cpu=WEIGHT, weights from 0 to 1000 "
                               "with at most three decimals");
        }
        for (const ChargeWeight& other : weights) {
            if (equal_ignoring_case(other.name, name)) {
                return Error{std::string(key.name) + ": " + quoted(name) + " is weighted twice"};
            }
        }
        weights.push_back({name, *milli});
    }
    if (weights.empty()) {
        return wrong_value(key, value, "at least one weight, as gpu=1");
    }
    settings.charge_weights = std::move(weights);
    return {};
}

std::string print_charge_weights(const Key&, const Settings& settings) {
    std::vector<std::string> items;
    for (const ChargeWeight& weight : settings.charge_weights) {
        items.push_back(weight.name + "=" + decimal_text(weight.milli, 1000));
    }
    return print_list(items);
}

Status set_drain_reasons(const Key& key, Settings& settings, std::string_view value) {
    std::vector<std::string> patterns = parse_list(value);
    for (const std::string& pattern : patterns) {
        if (pattern.empty()) {
            return wrong_value(key, value, "patterns between commas, none of them empty");
        }
    }
    settings.drain_reasons = std::move(patterns);
    return {};
}

std::string print_drain_reasons(const Key&, const Settings& settings) {
    return print_list(settings.drain_reasons);
}

constexpr Key time_key(std::string_view name, std::int64_t Settings::*number, std::int64_t least,
                       std::int64_t most, std::string_view text,
                       std::string_view article_value = {}) {
    return {name,       "time", "seconds", article_value, text,    set_time,
            print_time, number, least,     most,          nullptr, nullptr};
}

constexpr Key decimal_key(std::string_view name, std::int64_t Settings::*number, std::int64_t least,
                          std::int64_t most, std::string_view text,
                          std::string_view article_value = {}) {
    return {name,          "number", "",    article_value, text,    set_decimal,
            print_decimal, number,   least, most,          nullptr, nullptr};
}

constexpr Key count_key(std::string_view name, std::int64_t Settings::*number, std::int64_t least,
                        std::int64_t most, std::string_view unit, std::string_view text,
                        std::string_view article_value = {}) {
    return {name,        "whole number", unit,  article_value, text,    set_count,
            print_count, number,         least, most,          nullptr, nullptr};
}

constexpr Key flag_key(std::string_view name, bool Settings::*flag, std::string_view text,
                       std::string_view article_value = {}) {
    return {name,    "yes or no", "", article_value, text,   set_flag, print_flag,
            nullptr, 0,           0,  flag,          nullptr};
}

constexpr Key words_key(std::string_view name, std::string_view type, std::string Settings::*words,
                        SetKey set, std::string_view text) {
    return {name, type, "", {}, text, set, print_words, nullptr, 0, 0, nullptr, words};
}

constexpr Key own_key(std::string_view name, std::string_view type, std::string_view unit,
                      SetKey set, PrintKey print, std::string_view text,
                      std::string_view article_value = {}, std::int64_t most = 0) {
    return {name, type, unit, article_value, text, set, print, nullptr, 0, most, nullptr, nullptr};
}

// The order is that of the example file and of the man page.
constexpr Key kKeys[] = {
    own_key("Policy", "tranche or article", "", set_policy, print_policy,
            "The set of rules. `article` sets the keys below to what the published system did, as "
            "literally as it can be read; a key that is set itself wins, wherever it stands."),
    time_key("LookbackWindow", &Settings::lookback_window_seconds, 60, kYearSeconds,
             "How far back use counts against a budget."),
    own_key("WindowShape", "linear or flat", "", set_window_shape, print_window_shape,
            "How use fades inside the window. linear: an hour used just now counts twice, half a "
            "window ago once, a window ago nothing. flat: each counts once, and last week's "
            "pattern repeats.",
            "flat"),
    flag_key("EntitlementHistory", &Settings::entitlement_history,
             "Whether an edit of shares changes the rate from now on (yes) or is applied to the "
             "whole past window (no).",
             "no"),
    flag_key("Commitments", &Settings::commitments,
             "Whether a run counts what is left of its contract, and a job placed in the list its "
             "whole contract, so that a burst of one budget cannot take a whole pass.",
             "no"),
    time_key("MaxMinRuntime", &Settings::max_min_runtime_seconds, 1, kYearSeconds,
             "The longest minimum runtime that may be asked for."),
    own_key("DefaultMinRuntime", "time, require, or not set", "seconds", set_default_min_runtime,
            print_default_min_runtime,
            "The minimum runtime of batch jobs that ask for none. `require` refuses them and names "
            "the line to add; 0 lets them run free, to be ended at any second; 1:00:00 is kind to "
            "old scripts. Not set is 0, with a warning at each start.",
            {}, kYearSeconds),
    time_key("DefaultMinRuntimeInteractive", &Settings::default_min_runtime_interactive_seconds, 0,
             kYearSeconds, "The minimum runtime of salloc and srun jobs that ask for none."),
    flag_key("RequeueIsResumable", &Settings::requeue_is_resumable,
             "Whether an explicit --requeue counts as --resumable."),
    own_key("Partitions", "list of partitions", "", set_partitions, print_partitions,
            "The partitions whose jobs have budgets and contracts. Not set: those that have a node "
            "with GPUs."),
    own_key(
        "Contract", "NAME and options, may repeat", "", set_contract, print_contracts,
        "A named set of submission options for --contract=NAME, as `Contract=debug "
        "min-runtime=15m team-priority=high`; the options are min-runtime (a plain number is "
        "minutes, as in --min-runtime), resumable, free-first, team-priority and budget. Options "
        "that a job gives itself win."),
    own_key("Sharing", "users or pooled", "", set_sharing, print_sharing,
            "How users of one budget stand to each other where the budget does not say. users: who "
            "used less goes first. pooled: first come, first served.",
            "pooled"),
    decimal_key("RaisedShare", &Settings::raised_share_ppm, 0, 1000 * kPpm,
                "How much of the mean user's use a user may have before urgent and high count as "
                "normal (only with Sharing=users). 0: no limit.",
                "0"),
    time_key("RankInterval", &Settings::rank_interval_seconds, 1, 3600,
             "How often the queue is ranked."),
    decimal_key("PreemptMargin", &Settings::preempt_margin_ppm, 0, kPpm - 1,
                "By how much a claimant's ratio must be below its victim's, so that two budgets do "
                "not swap jobs back and forth.",
                "0"),
    own_key("PreemptWithinBudget", "no, users, priority or both", "", set_preempt_within,
            print_preempt_within,
            "Whether jobs of one budget may preempt each other after their contracts: those of "
            "users who used less, those of higher team priority, both, or none."),
    time_key("GraceTime", &Settings::grace_time_seconds, 0, kDaySeconds,
             "From the warning to the requeue or end of an allocated batch job."),
    time_key("GraceTimeFree", &Settings::grace_time_free_seconds, 0, kDaySeconds,
             "The same for a job that runs free."),
    time_key("GraceTimeInteractive", &Settings::grace_time_interactive_seconds, 0, kDaySeconds,
             "The same for allocated salloc and srun jobs."),
    count_key("ExpressGPUs", &Settings::express_gpus, 1, 1'000'000, "GPUs",
              "The largest job of the express lane."),
    count_key("ExpressNodes", &Settings::express_nodes, 1, 100'000, "nodes",
              "The most nodes of a job of the express lane."),
    time_key("ExpressMinRuntime", &Settings::express_min_runtime_seconds, 1, kYearSeconds,
             "The longest minimum runtime of a job of the express lane."),
    count_key("ExpressGPUsPerUser", &Settings::express_gpus_per_user, 0, 1'000'000, "GPUs",
              "The most GPUs one user may hold through the express lane."),
    decimal_key("ExpressFraction", &Settings::express_fraction_ppm, 0, kPpm,
                "The part of the GPUs that the express lane may hold, but at least ExpressGPUs. 0: "
                "no express lane.",
                "0"),
    count_key("ExpressHoursPerUser", &Settings::express_hours_per_user, 0, 1'000'000'000,
              "GPU hours",
              "The most GPU hours one user may use through the express lane in a day, each start "
              "counting at least GPUs x ExpressMinRuntime."),
    own_key("ExpressVictimProtection", "time or full", "seconds", set_victim_protection,
            print_victim_protection,
            "For how long at most the next run of a job that the express lane evicted is "
            "protected. full: for its whole minimum again.",
            "full", kYearSeconds),
    decimal_key("MaxProtectedFraction", &Settings::max_protected_fraction_ppm, 1, kPpm,
                "The part of the available GPUs that may be under contract, express jobs aside; "
                "what is kept open is rounded down to whole nodes.",
                "1"),
    count_key("Reservations", &Settings::reservations, 0, 1000, "jobs",
              "How many waiting jobs of a whole node or more have nodes kept for them.", "0"),
    count_key("MaxAssemblies", &Settings::max_assemblies, 0, 1000, "jobs",
              "How many large jobs may have nodes gathered for them at a time.", "0"),
    time_key("AssemblyPause", &Settings::assembly_pause_seconds, 0, kYearSeconds,
             "From one grant of an assembly to the next."),
    decimal_key("AssemblyMinFraction", &Settings::assembly_min_fraction_ppm, 1, kPpm,
                "The part of the nodes of its kind from which on a job may be assembled."),
    own_key("ChargeWeights", "list of NAME=WEIGHT", "plain GPUs", set_charge_weights,
            print_charge_weights,
            "What one GPU of a type, or one CPU, costs, with at most three decimals, as "
            "gpu=1,gpu:h100=2,cpu=0.01. A type that is not listed costs what gpu says, and that is "
            "1 unless said; CPUs cost nothing unless said. A change is for new runs."),
    flag_key("RefundNodeFailure", &Settings::refund_node_failure,
             "Whether a run that ends by node failure is refunded what was lost.", "no"),
    time_key("RefundMax", &Settings::refund_max_seconds, 0, kYearSeconds,
             "The most time past its contract that a run is refunded."),
    count_key("MaxPreemptionsPerHour", &Settings::max_preemptions_per_hour, 0, 1'000'000, "jobs",
              "The most evictions in the cluster in an hour. 0: no limit."),
    own_key("DrainReasons", "list of patterns", "", set_drain_reasons, print_drain_reasons,
            "Drains with a reason that matches one of these (* stands for any text, case does not "
            "matter) empty the node as the contracts on it end."),
    time_key("DrainGangWait", &Settings::drain_gang_wait_seconds, 0, kYearSeconds,
             "How long a job of several nodes may stay on a draining node past its contract until "
             "its replacement nodes are there. 0: not at all.",
             "0"),
    words_key("RepairProgram", "path", &Settings::repair_program, set_path,
              "Run when a drained node is empty. Not set: nothing is run."),
    time_key("RepairTimeout", &Settings::repair_timeout_seconds, 1, kYearSeconds,
             "How long RepairProgram may take."),
    count_key("MaxRepairing", &Settings::max_repairing, 0, 100'000, "nodes",
              "How many nodes may be under repair at once."),
    decimal_key("MaxDrainFraction", &Settings::max_drain_fraction_ppm, 0, kPpm,
                "The part of the nodes that the health probe may drain."),
    words_key("NotifyProgram", "path", &Settings::notify_program, set_path,
              "Run to tell the owner of a batch job with --mail-type=REQUEUE or END that its "
              "contract ends in 15 minutes, and that the job is preempted and why; see tranche(7). "
              "Not set: nothing is run."),
    flag_key("DryRun", &Settings::dry_run,
             "Whether everything is computed, recorded and shown, and nothing is done."),
    words_key("DryRunPriorityType", "priority plugin", &Settings::dry_run_priority_type,
              set_plugin_type, "The plugin that orders the queue while DryRun=yes."),
    count_key("ServicePort", &Settings::service_port, 1, 65535, "",
              "The TCP port of the query service inside slurmctld."),
    words_key("DatabasePath", "path", &Settings::database_path, set_path,
              "The ledger's file. Not set: usage.db under StateSaveLocation. On a disk that the "
              "backup controller does not see, a takeover loses the ledger."),
};

const Key* find_key(std::string_view name) noexcept {
    for (const Key& key : kKeys) {
        if (equal_ignoring_case(key.name, name)) {
            return &key;
        }
    }
    return nullptr;
}

Status set_policy(const Key& key, Settings& settings, std::string_view value) {
    if (equal_ignoring_case(value, "tranche")) {
        settings.policy = PolicyName::tranche;
        return {};
    }
    if (!equal_ignoring_case(value, "article")) {
        return wrong_value(key, value, "tranche or article");
    }
    for (const Key& other : kKeys) {
        if (!other.article_value.empty()) {
            const Status status = other.set(other, settings, other.article_value);
            if (!status.ok()) {
                return status;
            }
        }
    }
    settings.policy = PolicyName::article;
    return {};
}

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& character : result) {
        if (character >= 'A' && character <= 'Z') {
            character = static_cast<char>(character - 'A' + 'a');
        }
    }
    return result;
}

// Levenshtein's distance.
std::size_t edit_distance(std::string_view left, std::string_view right) {
    std::vector<std::size_t> row(right.size() + 1);
    for (std::size_t j = 0; j <= right.size(); ++j) {
        row[j] = j;
    }
    for (std::size_t i = 1; i <= left.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= right.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min(
                {above + 1, row[j - 1] + 1, diagonal + (left[i - 1] == right[j - 1] ? 0u : 1u)});
            diagonal = above;
        }
    }
    return row[right.size()];
}

Error unknown_key(std::string_view name) {
    const std::string wanted = lower(name.substr(0, 64));
    std::string_view nearest;
    std::size_t least = std::max<std::size_t>(2, wanted.size() / 3) + 1;
    for (const Key& key : kKeys) {
        const std::size_t distance = edit_distance(wanted, lower(key.name));
        if (distance < least) {
            least = distance;
            nearest = key.name;
        }
    }
    std::string text = "unknown setting " + quoted(name);
    text += nearest.empty() ? "; tranche.conf(5) lists them"
                            : ": did you mean " + std::string(nearest) + "?";
    return Error{text};
}

struct Assignment {
    std::size_t line = 0;
    std::string name;
    std::string value;
};

// One line of the file, taken apart. A `#` outside of quotes begins a comment.
class LineReader {
  public:
    LineReader(std::string_view line, std::size_t number) : rest_(line), number_(number) {}

    Status read(std::vector<Assignment>& assignments) {
        for (;;) {
            skip_blanks();
            if (at_end()) {
                return {};
            }
            std::size_t length = 0;
            while (length < rest_.size() && is_name(rest_[length])) {
                ++length;
            }
            const std::string name(rest_.substr(0, length));
            rest_.remove_prefix(length);
            skip_blanks();
            if (name.empty() || rest_.empty() || rest_[0] != '=') {
                const std::string found = name.empty() ? std::string(rest_) : name;
                return Error{"found " + quoted(found) +
                             " where Key=Value was expected (values with blanks stand in double "
                             "quotes)"};
            }
            rest_.remove_prefix(1);
            auto value = equal_ignoring_case(name, "Contract") ? rest_of_line() : one_value();
            if (!value) {
                return value.failure();
            }
            assignments.push_back({number_, name, std::move(value.value())});
        }
    }

  private:
    static bool is_name(char character) noexcept {
        return kAlnum.find(character) != std::string_view::npos || character == '_';
    }
    static bool is_blank(char character) noexcept { return character == ' ' || character == '\t'; }

    void skip_blanks() noexcept {
        while (!rest_.empty() && is_blank(rest_[0])) {
            rest_.remove_prefix(1);
        }
    }
    bool at_end() const noexcept { return rest_.empty() || rest_[0] == '#'; }

    // `Key=` before another Key=Value, a comment or the end of the line has no value.
    bool next_is_assignment() const noexcept {
        std::size_t length = 0;
        while (length < rest_.size() && is_name(rest_[length])) {
            ++length;
        }
        return length > 0 && length < rest_.size() && rest_[length] == '=';
    }

    Result<std::string> one_value() {
        const bool had_blank = !rest_.empty() && is_blank(rest_[0]);
        skip_blanks();
        if (at_end() || (had_blank && next_is_assignment())) {
            return std::string();
        }
        std::string value;
        while (!rest_.empty() && !is_blank(rest_[0]) && rest_[0] != '#') {
            if (rest_[0] != '"') {
                value += rest_[0];
                rest_.remove_prefix(1);
                continue;
            }
            const std::size_t closing = rest_.find('"', 1);
            if (closing == std::string_view::npos) {
                return Error{"the quote before " + quoted(rest_.substr(1)) + " is never closed"};
            }
            value += rest_.substr(1, closing - 1);
            rest_.remove_prefix(closing + 1);
        }
        return value;
    }

    Result<std::string> rest_of_line() {
        skip_blanks();
        std::string_view value = rest_.substr(0, rest_.find('#'));
        rest_ = {};
        value = trimmed(value);
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            value = value.substr(1, value.size() - 2);
        }
        if (value.find('"') != std::string_view::npos) {
            return Error{"Contract=" + quoted(value) +
                         ": expected options without quotes, as "
                         "debug min-runtime=15m team-priority=high"};
        }
        return std::string(value);
    }

    std::string_view rest_;
    std::size_t number_;
};

class Mistakes {
  public:
    explicit Mistakes(const std::string& file_name) : file_name_(file_name) {}

    void add(std::size_t line, const std::string& text) {
        if (++count_ <= kMostMistakes) {
            text_ +=
                (text_.empty() ? "" : "\n") + file_name_ + ":" + std::to_string(line) + ": " + text;
        }
    }
    bool any() const noexcept { return count_ > 0; }
    Error failure() const {
        if (count_ <= kMostMistakes) {
            return Error{text_};
        }
        return Error{text_ + "\n" + file_name_ + ": and " + std::to_string(count_ - kMostMistakes) +
                     " more mistakes"};
    }

  private:
    std::string file_name_;
    std::string text_;
    std::size_t count_ = 0;
};

// Times that are written in the file and are above the cap of the file.
void check_against_cap(const Settings& settings, const std::vector<Assignment>& assignments,
                       Mistakes& mistakes) {
    const std::int64_t cap = settings.max_min_runtime_seconds;
    const std::string expected =
        ": expected at most MaxMinRuntime, which is " + time_text(cap) + " here";
    for (const Assignment& assignment : assignments) {
        std::optional<std::int64_t> seconds;
        if (equal_ignoring_case(assignment.name, "DefaultMinRuntime")) {
            seconds = settings.default_min_runtime_seconds;
        } else if (equal_ignoring_case(assignment.name, "DefaultMinRuntimeInteractive")) {
            seconds = settings.default_min_runtime_interactive_seconds;
        } else if (equal_ignoring_case(assignment.name, "Contract")) {
            const auto contract = parse_named_contract(assignment.value);
            if (contract.ok()) {
                seconds = contract->min_runtime_seconds;
            }
        }
        if (seconds && *seconds > cap) {
            mistakes.add(assignment.line, std::string(find_key(assignment.name)->name) + "=" +
                                              quoted(assignment.value) + expected);
        }
    }
}

std::string row_range(const Key& key) {
    if (key.set == set_time) {
        return time_range(key);
    }
    if (key.set == set_decimal) {
        return decimal_range(key);
    }
    if (key.set == set_count) {
        return count_range(key);
    }
    return key.most > 0 ? time_range(key) : "";
}

std::vector<SettingRow> make_table() {
    const Settings defaults;
    std::vector<SettingRow> rows;
    for (const Key& key : kKeys) {
        rows.push_back({std::string(key.name), std::string(key.type), row_range(key),
                        key.print(key, defaults), std::string(key.unit), std::string(key.text),
                        std::string(key.article_value)});
    }
    return rows;
}

// Words in lines of at most `width` columns, each after `indent`.
std::string wrapped(std::string_view text, std::string_view indent, std::size_t width) {
    std::string result;
    std::string line;
    while (!text.empty()) {
        const std::size_t blank = text.find(' ');
        const std::string_view word = text.substr(0, blank);
        if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
            result += std::string(indent) + line + "\n";
            line.clear();
        }
        line += (line.empty() ? "" : " ") + std::string(word);
        text = blank == std::string_view::npos ? std::string_view{} : text.substr(blank + 1);
    }
    return result + std::string(indent) + line + "\n";
}

bool needs_quotes(std::string_view value) noexcept {
    return value.find_first_of(" \t#") != std::string_view::npos;
}

// A roff text: a backslash or a leading dot would be commands.
std::string roff_text(std::string_view text) {
    std::string result;
    for (char character : text) {
        if (character == '\\') {
            result += "\\e";
        } else if (character == '-') {
            result += "\\-";
        } else {
            result += character;
        }
    }
    return result.empty() || (result[0] != '.' && result[0] != '\'') ? result : "\\&" + result;
}

}  // namespace

std::int64_t Settings::gpu_weight_milli(std::string_view gpu_type) const noexcept {
    std::int64_t plain = 1000;
    for (const ChargeWeight& weight : charge_weights) {
        if (weight.name == "gpu") {
            plain = weight.milli;
        } else if (!gpu_type.empty() && weight.name.size() > 4 &&
                   starts_with_ignoring_case(weight.name, "gpu:") &&
                   equal_ignoring_case(std::string_view(weight.name).substr(4), gpu_type)) {
            return weight.milli;
        }
    }
    return plain;
}

std::int64_t Settings::cpu_weight_milli() const noexcept {
    for (const ChargeWeight& weight : charge_weights) {
        if (weight.name == "cpu") {
            return weight.milli;
        }
    }
    return 0;
}

const NamedContract* Settings::find_contract(std::string_view name) const noexcept {
    for (const NamedContract& contract : contracts) {
        if (equal_ignoring_case(contract.name, name)) {
            return &contract;
        }
    }
    return nullptr;
}

const std::vector<SettingRow>& settings_table() {
    static const std::vector<SettingRow> table = make_table();
    return table;
}

std::string setting_value(const Settings& settings, std::string_view name) {
    const Key* key = find_key(name);
    return key == nullptr ? std::string() : key->print(*key, settings);
}

Status apply_setting(Settings& settings, std::string_view name, std::string_view value) {
    const Key* key = find_key(name);
    if (key == nullptr) {
        return unknown_key(name);
    }
    if (value.size() > kLongestValue) {
        return Error{std::string(key->name) + "=" + quoted(value) + ": expected at most " +
                     std::to_string(kLongestValue) + " bytes"};
    }
    for (char character : value) {
        if (static_cast<unsigned char>(character) < 0x20 && character != '\t') {
            return Error{std::string(key->name) + "=" + quoted(value) +
                         ": expected a value without control characters"};
        }
    }
    return key->set(*key, settings, value);
}

namespace {

// What can be read of the text; the rest is in `mistakes`.
Settings read_settings(std::string_view text, const Settings& defaults, Mistakes& mistakes) {
    if (text.size() > kLongestFile) {
        mistakes.add(1, "the file has " + std::to_string(text.size()) +
                            " bytes: expected at most " + std::to_string(kLongestFile));
        return defaults;
    }
    std::vector<Assignment> assignments;
    std::size_t number = 0;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        ++number;
        const Status status = LineReader(trimmed(text.substr(0, end)), number).read(assignments);
        if (!status.ok()) {
            mistakes.add(number, status.error());
        }
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }

    // Policy sets other keys, so it goes first wherever it stands.
    std::stable_partition(assignments.begin(), assignments.end(), [](const Assignment& assignment) {
        return equal_ignoring_case(assignment.name, "Policy");
    });
    Settings settings = defaults;
    std::map<const Key*, std::size_t> lines;
    for (const Assignment& assignment : assignments) {
        const Key* key = find_key(assignment.name);
        const bool may_repeat = key != nullptr && key->set == set_contract;
        if (key != nullptr && !may_repeat) {
            const auto [earlier, is_new] = lines.emplace(key, assignment.line);
            if (!is_new) {
                mistakes.add(assignment.line, std::string(key->name) + " is already set in line " +
                                                  std::to_string(earlier->second) +
                                                  ": expected once");
                continue;
            }
        }
        const Status status = apply_setting(settings, assignment.name, assignment.value);
        if (!status.ok()) {
            mistakes.add(assignment.line, status.error());
        }
    }
    if (!mistakes.any()) {
        check_against_cap(settings, assignments, mistakes);
    }
    return settings;
}

}  // namespace

Result<Settings> parse_settings(std::string_view text, const std::string& file_name,
                                const Settings& defaults) {
    Mistakes mistakes(file_name);
    Settings settings = read_settings(text, defaults, mistakes);
    if (mistakes.any()) {
        return mistakes.failure();
    }
    return settings;
}

Settings readable_settings(std::string_view text) {
    Mistakes ignored("");
    return read_settings(text, Settings(), ignored);
}

std::string example_settings_file() {
    std::string text =
        "# SPDX-License-Identifier: GPL-2.0-or-later\n"
        "# tranche.conf: the settings of Tranche, beside slurm.conf. Lines are Key=Value; names "
        "of\n"
        "# keys in any case; # begins a comment; values with blanks stand in double quotes. Times\n"
        "# are seconds, minutes:seconds, hours:minutes:seconds, days-hours:minutes:seconds, or "
        "30s,\n"
        "# 15m, 2h, 1d. Each key is shown with its default. `scontrol reconfigure` reads the file\n"
        "# again; one with a mistake is refused as a whole and the old settings stay in use.\n";
    for (const SettingRow& row : settings_table()) {
        text += "\n" + wrapped(row.text, "# ", 96);
        std::string kind = "Type: " + row.type;
        if (!row.unit.empty()) {
            kind += "; unit: " + row.unit;
        }
        if (!row.range.empty()) {
            kind += "; range: " + row.range;
        }
        if (!row.article_value.empty()) {
            kind += "; Policy=article: " + row.article_value;
        }
        text += wrapped(kind + ".", "# ", 96);
        text += "#" + row.name + "=" +
                (needs_quotes(row.default_value) ? "\"" + row.default_value + "\""
                                                 : row.default_value) +
                "\n";
    }
    return text;
}

std::string settings_manual_section() {
    std::string text;
    for (const SettingRow& row : settings_table()) {
        text += ".TP\n\\fB" + row.name + "\\fR=\\fI" + roff_text(row.type) + "\\fR\n";
        text += wrapped(roff_text(row.text), "", 96);
        std::string kind = row.default_value.empty() ? "Default: not set"
                                                     : "Default: " + roff_text(row.default_value);
        if (!row.unit.empty()) {
            kind += "; unit: " + row.unit;
        }
        if (!row.range.empty()) {
            kind += "; range: " + roff_text(row.range);
        }
        if (!row.article_value.empty()) {
            kind += "; Policy=article: " + roff_text(row.article_value);
        }
        text += ".br\n" + wrapped(kind + ".", "", 96);
    }
    return text;
}

bool matches_drain_reason(const Settings& settings, const std::string& reason) {
    return std::any_of(settings.drain_reasons.begin(), settings.drain_reasons.end(),
                       [&reason](const std::string& pattern) {
                           return fnmatch(pattern.c_str(), reason.c_str(), 0) == 0;
                       });
}

}  // namespace tranche
