// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/sreplay_options.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "common/base/quoted.hpp"
#include "common/config/settings.hpp"
#include "sim/rule_words.hpp"

namespace tranche {
namespace {

using Verb = ReplayCommand::Verb;

struct VerbWord {
    Verb verb;
    const char* word;
};
constexpr VerbWord kVerbs[] = {{Verb::run, "run"},
                               {Verb::compare, "compare"},
                               {Verb::check, "check"},
                               {Verb::sweep, "sweep"},
                               {Verb::snapshot, "snapshot"}};

std::string joined(const std::vector<std::string>& words, const char* between) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : between) + word;
    }
    return text;
}

std::string known_rules() {
    std::vector<std::string> names;
    for (const sim::RuleSwitch& rule : sim::rule_switches()) {
        names.emplace_back(rule.name);
    }
    return joined(names, ", ");
}

std::string known_policies() {
    return joined({std::begin(kReplayPolicies), std::end(kReplayPolicies)}, ", ");
}

// Of "a,,b" and "a,".
Status check_parts(const std::string& what, const std::string& list, char separator) {
    std::size_t begin = 0;
    for (bool more = true; more;) {
        const std::size_t end = list.find(separator, begin);
        more = end != std::string::npos;
        if (trimmed(std::string_view(list).substr(begin, more ? end - begin : end)).empty()) {
            return Error{what + " " + quoted(list) + ": a part of the list is empty"};
        }
        begin = end + 1;
    }
    return {};
}

// Options that mean something only to some of the verbs.
Status check_options(const CommandLine& line, Verb verb, const char* word) {
    static const std::set<std::string> common = {"help", "usage",     "version",
                                                 "json", "parsable2", "noheader"};
    static const std::set<std::string> replay = {
        "jobs",   "from",   "cluster", "budgets", "policy",   "set",     "config", "until",
        "assume", "inject", "events",  "seed",    "snapshot", "without", "timing"};
    for (const auto& each : line.given) {
        const std::string& name = each.first;
        const bool is_replay = verb == Verb::run || verb == Verb::compare || verb == Verb::sweep;
        const bool fits =
            common.contains(name) || (is_replay && replay.contains(name)) ||
            ((name == "svg" || name == "html") && (verb == Verb::run || verb == Verb::compare)) ||
            (name == "clusters" && verb == Verb::snapshot) ||
            ((name == "trace" || name == "estimates") && verb == Verb::run) ||
            (name == "array" && verb == Verb::sweep) ||
            ((name == "without" || name == "list-rules") && verb == Verb::check);
        if (!fits) {
            return Error{"--" + name + " is not for " + word};
        }
    }
    return {};
}

Status read_policies(const CommandLine& line, ReplayCommand& command) {
    if (line.has("policy")) {
        if (const Status status = check_parts("policy", line.value("policy"), ','); !status.ok()) {
            return status;
        }
    }
    command.policies = split_list(line.value("policy"));
    if (!line.has("policy")) {
        if (command.verb == Verb::compare) {
            command.policies.assign(std::begin(kReplayPolicies), std::end(kReplayPolicies));
            if (!command.snapshot_file.empty()) {
                command.policies = {"budget", "article"};
            }
        } else {
            command.policies = {"budget"};
        }
    }
    std::set<std::string> seen;
    for (const std::string& policy : command.policies) {
        if (std::find(std::begin(kReplayPolicies), std::end(kReplayPolicies), policy) ==
            std::end(kReplayPolicies)) {
            return Error{"policy " + quoted(policy) + ": " + known_policies() + " would be right"};
        }
        if (!seen.insert(policy).second) {
            return Error{"policy " + policy + " is there twice"};
        }
    }
    if (command.policies.empty() ||
        (command.verb != Verb::compare && command.policies.size() > 1)) {
        return Error{"policy " + quoted(line.value("policy")) + ": " +
                     (command.verb == Verb::compare ? "one or more of " : "one of ") +
                     known_policies() + " would be right"};
    }
    return {};
}

Status read_settings(const CommandLine& line, ReplayCommand& command) {
    Settings trial;
    for (const std::string& word : line.values("set")) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos || equals == 0) {
            return Error{"--set " + quoted(word) +
                         ": KEY=VALUE, such as LookbackWindow=3-0, would be right"};
        }
        command.settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
        if (const Status status =
                apply_setting(trial, command.settings.back().first, command.settings.back().second);
            !status.ok()) {
            return Error{"--set " + status.error()};
        }
        const std::string& name = command.settings.back().first;
        const bool again =
            std::count_if(command.settings.begin(), command.settings.end(), [&](const auto& each) {
                return equal_ignoring_case(each.first, name);
            }) > 1;
        if (again && !equal_ignoring_case(name, "Contract")) {
            return Error{"--set " + name + " is there twice"};
        }
        if (command.verb == Verb::sweep && equal_ignoring_case(name, command.sweep_key)) {
            return Error{"--set " + name + " is what the sweep changes"};
        }
    }
    return {};
}

Status read_sweep(const std::vector<std::string>& words, ReplayCommand& command) {
    const Error form{
        "sweep wants one KEY=VALUE,VALUE,…, such as MaxMinRuntime=1h,4h,8h; values with a comma "
        "are parted by ';'"};
    if (words.size() != 1) {
        return form;
    }
    const std::size_t equals = words.front().find('=');
    if (equals == std::string::npos || equals == 0) {
        return form;
    }
    command.sweep_key = words.front().substr(0, equals);
    const std::string values = words.front().substr(equals + 1);
    const char separator = values.find(';') == std::string::npos ? ',' : ';';
    if (!trimmed(values).empty()) {
        if (const Status status = check_parts("sweep", values, separator); !status.ok()) {
            return status;
        }
    }
    command.sweep_values = split_list(values, separator);
    if (command.sweep_values.empty()) {
        return form;
    }
    std::set<std::string> seen;
    for (const std::string& value : command.sweep_values) {
        Settings trial;
        if (const Status status = apply_setting(trial, command.sweep_key, value); !status.ok()) {
            return Error{"sweep " + status.error()};
        }
        if (!seen.insert(value).second) {
            return Error{"sweep: value " + quoted(value) + " is there twice"};
        }
    }
    return {};
}

}  // namespace

const CommandTable& sreplay_table() {
    static const std::string more = [] {
        return "Policies: budget (Tranche), article (its rules as first published), slots (limits "
               "of\nconcurrent GPUs), fairtree (stock Slurm), fifo; all with backfill.\n"
               "FILEs may be packed with gzip; - is standard input. See sreplay(1) and\n"
               "tranche-scenario(5).\n";
    }();
    static const CommandTable table = [] {
        CommandTable made;
        made.name = "sreplay";
        made.about = "Replays jobs on a simulated cluster under Tranche's policy and others.";
        made.usages = {"run --jobs=FILE --cluster=NODESxGPUS|FILE --budgets=FILE [OPTIONS]",
                       "run --snapshot=FILE [OPTIONS]",
                       "compare --jobs=FILE --cluster=… --budgets=FILE [OPTIONS]",
                       "sweep KEY=VALUE,VALUE,… --jobs=FILE --cluster=… --budgets=FILE [OPTIONS]",
                       "check SCENARIO.json …",
                       "snapshot FILE"};
        made.options = common_options();
        for (OptionRow& row : made.options) {
            if (row.letter == 'M') {  // --cluster is the simulated one
                row = {'M', "clusters", "NAME", "snapshot: ask the controller of that cluster"};
            }
        }
        const std::vector<OptionRow> own = {
            {'\0', "jobs", "FILE", "the jobs: CSV, sacct -P, or Standard Workload Format"},
            {'\0', "from", "FORMAT", "csv, sacct or swf; default: by looking at the file"},
            {'\0', "cluster", "SIZE", "NODESxGPUS such as 128x8, or a JSON file"},
            {'\0', "budgets", "FILE",
             "as sbudget dump writes it; default: one for each account, all alike"},
            {'\0', "policy", "NAME", "budget (default); of compare a list, default all"},
            {'\0', "config", "FILE", "a tranche.conf"},
            {'\0', "set", "KEY=VALUE", "one setting of tranche.conf; may repeat"},
            {'\0', "until", "TIME", "when to stop; default: when all is done"},
            {'\0', "assume", "RULES", "fill in what the jobs do not say"},
            {'\0', "inject", "RULES", "add debug jobs: 'debug:120/day'; may repeat"},
            {'\0', "events", "FILE", "drains, failures, edits, as in a scenario"},
            {'\0', "seed", "NUMBER", "of all that is drawn; default 1"},
            {'\0', "snapshot", "FILE", "go on from what sreplay snapshot wrote"},
            {'\0', "svg", "FILE", "write the timeline as a picture"},
            {'\0', "html", "FILE", "write a page with timeline, waits and shares"},
            {'\0', "trace", "FILE", "write every decision, one JSON object a line"},
            {'\0', "estimates", "FILE", "write hourly what starts were expected, and what came"},
            {'\0', "array", nullptr, "sweep: only the value of this task of a job array"},
            {'\0', "without", "RULES", "leave out rules of the policy, to see what they are for"},
            {'\0', "list-rules", nullptr, "check: list the rules that can be left out"},
            {'\0', "timing", nullptr, "say how long it took, also in JSON"}};
        made.options.insert(made.options.end(), own.begin(), own.end());
        made.more = more.c_str();
        return made;
    }();
    return table;
}

Result<ReplayCommand> replay_command(const CommandLine& line) {
    const char* const verbs = "run, compare, sweep, check or snapshot";
    if (line.words.empty()) {
        return Error{std::string("what to do is missing: ") + verbs};
    }
    const auto* const found =
        std::find_if(std::begin(kVerbs), std::end(kVerbs),
                     [&](const VerbWord& each) { return line.words.front() == each.word; });
    if (found == std::end(kVerbs)) {
        return Error{quoted(line.words.front()) + " is not known; " + verbs + " would be right"};
    }
    ReplayCommand command;
    command.verb = found->verb;
    const std::vector<std::string> words(line.words.begin() + 1, line.words.end());
    if (const Status status = check_options(line, command.verb, found->word); !status.ok()) {
        return status.failure();
    }
    if (line.has("without")) {
        if (const Status status = check_parts("--without", line.value("without"), ',');
            !status.ok()) {
            return status.failure();
        }
    }
    for (const std::string& name : split_list(line.value("without"))) {
        const sim::RuleSwitch* const rule = sim::find_rule_switch(name);
        if (rule == nullptr) {
            return Error{"rule " + quoted(name) + " is not known; known are " + known_rules()};
        }
        command.without.push_back(rule);
    }
    if (command.verb == Verb::check) {
        command.files = words;
        command.lists_rules = line.has("list-rules");
        if (words.empty() && !command.lists_rules) {
            return Error{"check wants the files of scenarios"};
        }
        return command;
    }
    if (command.verb == Verb::snapshot) {
        command.files = words;
        if (words.size() != 1) {
            return Error{"snapshot wants one file to write"};
        }
        return command;
    }
    if (command.verb == Verb::sweep) {
        if (const Status status = read_sweep(words, command); !status.ok()) {
            return status.failure();
        }
    } else if (!words.empty()) {
        return Error{quoted(words.front()) +
                     " is not expected; files are given by options, as in "
                     "--jobs=FILE"};
    }
    command.jobs_file = line.value("jobs");
    command.cluster = line.value("cluster");
    command.budgets_file = line.value("budgets");
    command.events_file = line.value("events");
    command.config_file = line.value("config");
    command.snapshot_file = line.value("snapshot");
    command.until = line.value("until");
    command.assume = line.value("assume");
    command.inject = line.values("inject");
    command.svg_file = line.value("svg");
    command.html_file = line.value("html");
    command.trace_file = line.value("trace");
    command.estimates_file = line.value("estimates");
    command.is_array_task = line.has("array");
    command.timing = line.has("timing");
    for (const auto& each : line.given) {
        if (each.second.empty() && each.first != "json" && each.first != "parsable2" &&
            each.first != "noheader" && each.first != "array" && each.first != "timing") {
            return Error{"--" + each.first + " is empty"};
        }
    }
    if (command.snapshot_file.empty()) {
        if (command.jobs_file.empty()) {
            return Error{"--jobs=FILE is missing: the jobs to replay"};
        }
        if (command.cluster.empty()) {
            return Error{"--cluster=NODESxGPUS is missing, such as 128x8"};
        }
    }
    if (line.has("from")) {
        command.format = sim::parse_workload_format(line.value("from"));
        if (!command.format) {
            return Error{"--from " + quoted(line.value("from")) +
                         ": csv, sacct or swf would be right"};
        }
    }
    if (line.has("seed")) {
        const auto seed = sim::parse_seed(line.value("seed"));
        if (!seed.ok()) {
            return seed.failure();
        }
        command.seed = *seed;
    }
    if (const Status status = read_policies(line, command); !status.ok()) {
        return status.failure();
    }
    if (const Status status = read_settings(line, command); !status.ok()) {
        return status.failure();
    }
    for (const std::string& policy : command.policies) {
        if (!command.snapshot_file.empty() && policy != "budget" && policy != "article") {
            return Error{"--snapshot goes with the policies budget and article, not with " +
                         policy};
        }
    }
    if (!command.snapshot_file.empty() && !command.cluster.empty()) {
        return Error{"--cluster is not for --snapshot, which has its own"};
    }
    return command;
}

Status check_merged(const Settings& settings, const ReplayCommand& command,
                    const std::string& swept) {
    // How the command line says a key; empty if it does not.
    const auto said = [&](const char* key) -> std::string {
        if (!swept.empty() && equal_ignoring_case(command.sweep_key, key)) {
            return "sweep " + std::string(key) + "=" + swept;
        }
        for (const auto& set : command.settings) {
            if (equal_ignoring_case(set.first, key)) {
                return "--set " + std::string(key) + "=" + set.second;
            }
        }
        return {};
    };
    const std::int64_t cap = settings.max_min_runtime_seconds;
    const std::string cap_said = said("MaxMinRuntime");
    const auto check = [&](const char* key, std::int64_t seconds, bool written,
                           const std::string& value) -> Status {
        const std::string key_said = said(key);
        if (seconds <= cap || (key_said.empty() && !written)) {
            return {};
        }
        if (key_said.empty() && !cap_said.empty()) {
            return Error{cap_said + ": expected at least " + key + ", which is " + value + " here"};
        }
        return Error{(key_said.empty() ? "--config: " + std::string(key) + "=" + value : key_said) +
                     ": expected at most MaxMinRuntime, which is " +
                     setting_value(settings, "MaxMinRuntime") + " here"};
    };
    const Settings plain;
    Status status = check("DefaultMinRuntime", settings.default_min_runtime_seconds.value_or(0),
                          settings.default_min_runtime_seconds.has_value(),
                          setting_value(settings, "DefaultMinRuntime"));
    if (status.ok()) {
        status =
            check("DefaultMinRuntimeInteractive", settings.default_min_runtime_interactive_seconds,
                  settings.default_min_runtime_interactive_seconds !=
                      plain.default_min_runtime_interactive_seconds,
                  setting_value(settings, "DefaultMinRuntimeInteractive"));
    }
    for (const NamedContract& contract : settings.contracts) {
        if (status.ok()) {
            status = check("Contract", contract.min_runtime_seconds.value_or(0), true,
                           quoted(contract.name));
        }
    }
    return status;
}

std::vector<std::string> settings_without_effect(const ReplayCommand& command) {
    // What only slurmctld and its neighbours do.
    static constexpr std::string_view kOfTheCluster[] = {
        "RequeueIsResumable", "Partitions",   "Contract",          "RankInterval",  "RepairProgram",
        "RepairTimeout",      "MaxRepairing", "MaxDrainFraction",  "NotifyProgram", "DryRun",
        "ServicePort",        "DatabasePath", "DryRunPriorityType"};
    // What the simulated cluster reads under each policy.
    static constexpr std::string_view kOfAll[] = {
        "MaxMinRuntime",     "DefaultMinRuntime", "DefaultMinRuntimeInteractive",
        "RefundMax",         "ExpressGPUs",       "ExpressNodes",
        "ExpressMinRuntime", "RefundNodeFailure"};
    static constexpr std::string_view kOfSlots[] = {"GraceTime", "LookbackWindow", "WindowShape",
                                                    "EntitlementHistory"};
    const auto has = [](const auto& list, std::string_view name) {
        return std::any_of(std::begin(list), std::end(list),
                           [&](std::string_view each) { return equal_ignoring_case(each, name); });
    };
    std::vector<std::string> names;
    for (const auto& set : command.settings) {
        names.push_back(set.first);
    }
    if (!command.sweep_key.empty()) {
        names.push_back(command.sweep_key);
    }
    std::vector<std::string> warnings;
    if (!command.without.empty() &&
        std::none_of(command.policies.begin(), command.policies.end(), [](const std::string& each) {
            return each == "budget" || each == "article";
        })) {
        warnings.push_back("warning: --without changes nothing: " + joined(command.policies, ", ") +
                           " has none of these rules");
    }
    for (const std::string& name : names) {
        const bool is_read = !has(kOfTheCluster, name) &&
                             (has(kOfAll, name) ||
                              std::any_of(command.policies.begin(), command.policies.end(),
                                          [&](const std::string& policy) {
                                              return policy == "budget" || policy == "article" ||
                                                     (policy == "slots" && has(kOfSlots, name));
                                          }));
        if (!is_read) {
            warnings.push_back("warning: " + name + " changes nothing: " +
                               (has(kOfTheCluster, name)
                                    ? "the simulation does not read it"
                                    : joined(command.policies, ", ") + " does not read it"));
        }
    }
    return warnings;
}

}  // namespace tranche
