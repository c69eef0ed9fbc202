// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/contract_request.hpp"

#include <algorithm>

#include "common/base/quoted.hpp"
#include "common/config/named_contract.hpp"
#include "common/config/time_format.hpp"
#include "common/model/budget_tree.hpp"

namespace tranche {

namespace {

constexpr std::string_view kNoValue = "(null)";  // what Slurm sends for a flag

struct Option {
    std::string_view name;      // "--" + name on the command line
    std::string_view entry;     // behind kSpankOptionPrefix
    std::string_view variable;  // behind kRequestVariablePrefix
    std::optional<AskedWord> ContractRequest::*word;
    bool is_flag;
};

constexpr Option kOptions[] = {
    {"min-runtime", "min_runtime", "MIN_RUNTIME", &ContractRequest::min_runtime, false},
    {"resumable", "resumable", "RESUMABLE", &ContractRequest::resumable, true},
    {"team-priority", "team_priority", "TEAM_PRIORITY", &ContractRequest::team_priority, false},
    {"budget", "budget", "BUDGET", &ContractRequest::budget, false},
    {"contract", "contract", "CONTRACT", &ContractRequest::contract, false},
    {"free-first", "free_first", "FREE_FIRST", &ContractRequest::free_first, true},
};

std::string said(const AskedWord& word) {
    return word.said_by + "=" + quoted(word.value);
}

std::optional<bool> parse_flag(std::string_view value) noexcept {
    for (std::string_view yes : {std::string_view(""), kNoValue, std::string_view("yes"),
                                 std::string_view("true"), std::string_view("1")}) {
        if (equal_ignoring_case(value, yes)) {
            return true;
        }
    }
    for (std::string_view no : {"no", "false", "0"}) {
        if (equal_ignoring_case(value, no)) {
            return false;
        }
    }
    return std::nullopt;
}

// Takes a word into the request, reading flags.
Status take_word(const Option& option, std::string_view value, std::string said_by,
                 ContractRequest& request) {
    AskedWord word{std::string(value), std::move(said_by)};
    if (option.is_flag) {
        const auto flag = parse_flag(value);
        if (!flag) {
            return Error{said(word) + ": expected yes or no"};
        }
        word.value = *flag ? "yes" : "no";
    }
    request.*option.word = std::move(word);
    return {};
}

std::string known_names(std::string_view before) {
    std::string text;
    for (const Option& option : kOptions) {
        const bool is_variable = before == kRequestVariablePrefix;
        text += (text.empty() ? "" : ", ") + std::string(before) +
                std::string(is_variable ? option.variable : option.name);
    }
    return text;
}

// NAME=VALUE with NAME below `prefix`: its option, else an Error; nullptr: another name.
Status read_pair(std::string_view pair, std::string_view prefix, bool is_variable,
                 ContractRequest& request) {
    if (pair.substr(0, prefix.size()) != prefix) {
        return {};
    }
    pair.remove_prefix(prefix.size());
    const std::size_t equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
    for (const Option& option : kOptions) {
        if (name == (is_variable ? option.variable : option.entry)) {
            const std::string said_by = is_variable ? std::string(prefix) + std::string(name)
                                                    : "--" + std::string(option.name);
            return take_word(option, value, said_by, request);
        }
    }
    if (is_variable) {
        return Error{"unknown variable " + quoted(std::string(prefix) + std::string(name)) +
                     ": known are " + known_names(prefix)};
    }
    return Error{"unknown contract option " + quoted(name) + ": known are " + known_names("--")};
}

bool is_space(char character) noexcept {
    return character == ' ' || character == '\t' || character == '\r' || character == '\v' ||
           character == '\f';
}

// The next word of an #SBATCH line, quotes and backslashes taken off as sbatch does; nullopt at
// the end or at a comment.
std::optional<std::string> next_argument(std::string_view& rest) {
    while (!rest.empty() && is_space(rest[0])) {
        rest.remove_prefix(1);
    }
    if (rest.empty() || rest[0] == '#') {
        return std::nullopt;
    }
    std::string word;
    char quote = '\0';
    while (!rest.empty() && (quote != '\0' || !is_space(rest[0]))) {
        const char character = rest[0];
        rest.remove_prefix(1);
        if (character == '\\' && quote != '\'' && !rest.empty()) {
            word += rest[0];
            rest.remove_prefix(1);
        } else if (quote == '\0' && (character == '"' || character == '\'')) {
            quote = character;
        } else if (character == quote && quote != '\0') {
            quote = '\0';
        } else {
            word += character;
        }
    }
    return word;
}

Status read_directive(std::string_view line, ContractRequest& request) {
    while (auto argument = next_argument(line)) {
        for (const Option& option : kOptions) {
            const std::string written = "--" + std::string(option.name);
            if (argument->compare(0, written.size(), written) != 0) {
                continue;
            }
            std::string value;
            if (argument->size() > written.size()) {
                if ((*argument)[written.size()] != '=') {
                    continue;
                }
                value = argument->substr(written.size() + 1);
            } else if (!option.is_flag) {
                auto next = next_argument(line);
                if (!next) {
                    return Error{"#SBATCH " + written + ": expected a value"};
                }
                value = std::move(*next);
            }
            const Status status = take_word(option, value, "#SBATCH " + written, request);
            if (!status.ok()) {
                return status;
            }
            break;
        }
    }
    return {};
}

// #SBATCH lines up to the first command or the second component of a heterogeneous job, as sbatch
// reads them.
Status read_script(std::string_view script, ContractRequest& request) {
    constexpr std::string_view kDirective = "#SBATCH";
    while (!script.empty()) {
        const std::size_t end = script.find('\n');
        std::string_view line = script.substr(0, end);
        script.remove_prefix(end == std::string_view::npos ? script.size() : end + 1);
        if (line.substr(0, kDirective.size()) == kDirective) {
            line.remove_prefix(kDirective.size());
            const std::string_view words = trimmed(line);
            if (starts_with_ignoring_case(words, "hetjob") ||
                starts_with_ignoring_case(words, "packjob")) {
                return {};
            }
            const Status status = read_directive(line, request);
            if (!status.ok()) {
                return status;
            }
            continue;
        }
        const std::string_view bare = trimmed(line);
        if (!bare.empty() && bare[0] != '#') {
            return {};
        }
    }
    return {};
}

Result<std::int64_t> read_min_runtime(const AskedWord& word) {
    auto seconds = parse_time_span(word.value, PlainNumber::minutes);
    if (!seconds) {
        return Error{word.said_by + ": " + seconds.error()};
    }
    return seconds;
}

Result<TeamPriority> read_team_priority(const AskedWord& word) {
    auto priority = parse_team_priority(word.value);
    if (!priority) {
        return Error{said(word) + ": write low, normal, high or urgent"};
    }
    return priority;
}

Status check_name(const AskedWord& word, Status (*check)(std::string_view)) {
    const Status status = check(word.value);
    if (!status.ok()) {
        return Error{word.said_by + ": " + status.error()};
    }
    return {};
}

Status check_resumable(const AskedWord& word, const ContractCircumstances& circumstances) {
    if (word.value != "yes") {
        return {};
    }
    if (circumstances.interactive) {
        return Error{word.said_by +
                     " is for batch jobs: a session of salloc or srun cannot be requeued; leave it "
                     "out"};
    }
    if (circumstances.requeue == false) {
        return Error{word.said_by +
                     " and --no-requeue contradict each other: a resumable job is requeued when "
                     "its contract is over; leave one of them out"};
    }
    return {};
}

std::string contract_names(const Settings& settings) {
    constexpr std::size_t kMostNames = 10;
    std::string text;
    for (std::size_t i = 0; i < settings.contracts.size() && i < kMostNames; ++i) {
        text += (text.empty() ? "" : ", ") + settings.contracts[i].name;
    }
    if (settings.contracts.size() > kMostNames) {
        text += ", …";
    }
    return text;
}

// A minimum that was asked for, by itself or by a named contract.
Status check_minimum(std::int64_t seconds, const std::string& written, const Settings& settings,
                     const ContractCircumstances& circumstances) {
    if (seconds > settings.max_min_runtime_seconds) {
        return Error{written + ": a run is protected for at most " +
                     format_duration(settings.max_min_runtime_seconds) +
                     " here (MaxMinRuntime); ask for no more"};
    }
    if (circumstances.time_limit_seconds && seconds > *circumstances.time_limit_seconds) {
        return Error{written + " is above the job's time limit of " +
                     format_duration(*circumstances.time_limit_seconds) +
                     ": raise --time or lower the minimum"};
    }
    if (circumstances.time_min_seconds && seconds > *circumstances.time_min_seconds) {
        return Error{written + " is above --time-min, " +
                     format_duration(*circumstances.time_min_seconds) +
                     ": raise --time-min or lower the minimum"};
    }
    return {};
}

std::int64_t within_circumstances(std::int64_t seconds,
                                  const ContractCircumstances& circumstances) {
    if (circumstances.time_limit_seconds) {
        seconds = std::min(seconds, *circumstances.time_limit_seconds);
    }
    if (circumstances.time_min_seconds) {
        seconds = std::min(seconds, *circumstances.time_min_seconds);
    }
    return std::max<std::int64_t>(seconds, 0);
}

bool wants_free_first(const ContractRequest& request, const NamedContract* contract) {
    return request.free_first ? request.free_first->value == "yes"
                              : contract != nullptr && contract->free_first.value_or(false);
}

Result<const NamedContract*> find_named_contract(const ContractRequest& request,
                                                 const Settings& settings) {
    if (!request.contract) {
        return static_cast<const NamedContract*>(nullptr);
    }
    const Status named = check_name(*request.contract, check_contract_name);
    if (!named.ok()) {
        return named.failure();
    }
    const NamedContract* contract = settings.find_contract(request.contract->value);
    if (contract == nullptr) {
        return Error{said(*request.contract) + ": no such contract; " +
                     (settings.contracts.empty() ? std::string("none is defined on this cluster")
                                                 : "this cluster has " + contract_names(settings))};
    }
    return contract;
}

}  // namespace

Result<ContractRequest> read_request(const std::vector<std::string>& spank_entries,
                                     std::string_view script,
                                     const std::vector<std::string>& environment) {
    // The last one written wins, so the weakest source goes first.
    ContractRequest request;
    for (const std::string& variable : environment) {
        const Status status = read_pair(variable, kRequestVariablePrefix, true, request);
        if (!status.ok()) {
            return status.failure();
        }
    }
    Status status = read_script(script, request);
    if (!status.ok()) {
        return status.failure();
    }
    for (const std::string& entry : spank_entries) {
        status = read_pair(entry, kSpankOptionPrefix, false, request);
        if (!status.ok()) {
            return status.failure();
        }
    }
    return request;
}

Status read_word(std::string_view option_name, std::string_view value, std::string said_by,
                 ContractRequest& request) {
    for (const Option& option : kOptions) {
        if (option.name == option_name) {
            return take_word(option, value, std::move(said_by), request);
        }
    }
    return Error{"unknown contract option " + quoted(option_name) + ": known are " +
                 known_names("--")};
}

Status check_option(std::string_view option_name, std::string_view value) {
    ContractRequest request;
    const Status status = read_word(option_name, value, "--" + std::string(option_name), request);
    return status.ok() ? check_request(request, {}) : status;
}

Status check_request(const ContractRequest& request, const ContractCircumstances& circumstances) {
    if (request.min_runtime) {
        const auto seconds = read_min_runtime(*request.min_runtime);
        if (!seconds) {
            return seconds.failure();
        }
    }
    if (request.team_priority) {
        const auto priority = read_team_priority(*request.team_priority);
        if (!priority) {
            return priority.failure();
        }
    }
    if (request.budget) {
        const Status status = check_name(*request.budget, check_budget_name);
        if (!status.ok()) {
            return status;
        }
    }
    if (request.contract) {
        const Status status = check_name(*request.contract, check_contract_name);
        if (!status.ok()) {
            return status;
        }
    }
    return request.resumable ? check_resumable(*request.resumable, circumstances) : Status{};
}

Result<ContractTerms> resolve_terms(const ContractRequest& request, const Settings& settings,
                                    const ContractCircumstances& circumstances) {
    const Status sound = check_request(request, circumstances);
    if (!sound.ok()) {
        return sound.failure();
    }
    const auto found = find_named_contract(request, settings);
    if (!found) {
        return found.failure();
    }
    const NamedContract* contract = *found;

    ContractTerms terms = default_terms(settings, circumstances.interactive);
    if (request.min_runtime || (contract != nullptr && contract->min_runtime_seconds)) {
        std::string written;
        if (request.min_runtime) {
            terms.min_runtime_seconds = *read_min_runtime(*request.min_runtime);
            written = said(*request.min_runtime);
        } else {
            terms.min_runtime_seconds = *contract->min_runtime_seconds;
            written = "the minimum runtime of contract " + quoted(contract->name) + ", " +
                      format_duration(terms.min_runtime_seconds) + ",";
        }
        const Status status =
            check_minimum(terms.min_runtime_seconds, written, settings, circumstances);
        if (!status.ok()) {
            return status.failure();
        }
        terms.declared_min_runtime = true;
    } else if (settings.require_min_runtime && !circumstances.interactive &&
               circumstances.costs_something) {
        return Error{
            "this cluster asks how long a run must be to be worth having: add the line "
            "#SBATCH --min-runtime=1h (or another time; 0 = runs free, may be ended at any "
            "second)"};
    } else {
        terms.min_runtime_seconds = within_circumstances(terms.min_runtime_seconds, circumstances);
    }

    if (request.resumable) {
        terms.resumable = request.resumable->value == "yes";
    } else if (!circumstances.interactive && circumstances.requeue != false) {
        terms.resumable = contract != nullptr && contract->resumable
                              ? *contract->resumable
                              : circumstances.requeue == true && settings.requeue_is_resumable;
    }
    if (request.team_priority) {
        terms.team_priority = *read_team_priority(*request.team_priority);
    } else if (contract != nullptr && contract->team_priority) {
        terms.team_priority = *contract->team_priority;
    }
    if (request.budget) {
        terms.budget = request.budget->value;
    } else if (contract != nullptr) {
        terms.budget = contract->budget;
    }
    terms.free_first = wants_free_first(request, contract);
    return terms;
}

std::vector<std::string> store_terms(const std::vector<std::string>& spank_entries,
                                     const ContractTerms& terms) {
    std::vector<std::string> entries;
    for (const std::string& entry : spank_entries) {
        if (entry.compare(0, kSpankOptionPrefix.size(), kSpankOptionPrefix) != 0) {
            entries.push_back(entry);
        }
    }
    const std::string prefix(kSpankOptionPrefix);
    entries.push_back(prefix + "min_runtime=" + std::to_string(terms.min_runtime_seconds) + "s");
    if (terms.resumable) {
        entries.push_back(prefix + "resumable=" + std::string(kNoValue));
    }
    if (terms.team_priority != TeamPriority::normal) {
        entries.push_back(prefix + "team_priority=" + std::string(to_text(terms.team_priority)));
    }
    if (!terms.budget.empty()) {
        entries.push_back(prefix + "budget=" + terms.budget);
    }
    if (terms.free_first) {
        entries.push_back(prefix + "free_first=" + std::string(kNoValue));
    }
    return entries;
}

namespace {

// Each entry that can be read alone; the others count as not said.
ContractRequest readable_entries(const std::vector<std::string>& spank_entries) {
    ContractRequest request;
    for (const std::string& entry : spank_entries) {
        ContractRequest one;
        if (!read_pair(entry, kSpankOptionPrefix, false, one).ok() ||
            !check_request(one, {}).ok()) {
            continue;
        }
        for (const Option& option : kOptions) {
            if (one.*option.word) {
                request.*option.word = std::move(one.*option.word);
            }
        }
    }
    return request;
}

}  // namespace

std::optional<ContractTerms> parse_stored_terms(const std::vector<std::string>& spank_entries) {
    const ContractRequest request = readable_entries(spank_entries);
    if (!request.min_runtime) {
        return std::nullopt;
    }
    ContractTerms terms;
    terms.min_runtime_seconds = *read_min_runtime(*request.min_runtime);
    terms.resumable = request.resumable && request.resumable->value == "yes";
    if (request.team_priority) {
        terms.team_priority = *read_team_priority(*request.team_priority);
    }
    if (request.budget) {
        terms.budget = request.budget->value;
    }
    terms.free_first = wants_free_first(request, nullptr);
    terms.declared_min_runtime = true;
    return terms;
}

ContractTerms default_terms(const Settings& settings, bool interactive) {
    ContractTerms terms;
    terms.min_runtime_seconds =
        std::min(interactive ? settings.default_min_runtime_interactive_seconds
                             : settings.default_min_runtime_seconds.value_or(0),
                 settings.max_min_runtime_seconds);
    return terms;
}

ContractTerms terms_of_job(const std::vector<std::string>& spank_entries, const Settings& settings,
                           bool interactive) {
    ContractRequest request = readable_entries(spank_entries);
    const NamedContract* contract =
        request.contract ? settings.find_contract(request.contract->value) : nullptr;
    ContractTerms terms = default_terms(settings, interactive);
    if (request.min_runtime) {
        terms.min_runtime_seconds = *read_min_runtime(*request.min_runtime);
        terms.declared_min_runtime = true;
    } else if (contract != nullptr && contract->min_runtime_seconds) {
        terms.min_runtime_seconds = *contract->min_runtime_seconds;
        terms.declared_min_runtime = true;
    }
    terms.min_runtime_seconds =
        std::min(terms.min_runtime_seconds, settings.max_min_runtime_seconds);
    if (!interactive) {
        terms.resumable = request.resumable
                              ? request.resumable->value == "yes"
                              : contract != nullptr && contract->resumable.value_or(false);
    }
    if (request.team_priority) {
        terms.team_priority = *read_team_priority(*request.team_priority);
    } else if (contract != nullptr && contract->team_priority) {
        terms.team_priority = *contract->team_priority;
    }
    terms.budget = request.budget        ? request.budget->value
                   : contract != nullptr ? contract->budget
                                         : std::string();
    terms.free_first = wants_free_first(request, contract);
    return terms;
}

}  // namespace tranche
