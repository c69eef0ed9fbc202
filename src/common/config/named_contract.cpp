// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/named_contract.hpp"

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "common/model/budget_tree.hpp"

namespace tranche {

namespace {

bool is_letter_or_digit(char character) noexcept {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9');
}

// The next word, taken off `rest`; empty at the end.
std::string_view next_word(std::string_view& rest) noexcept {
    constexpr std::string_view kBlanks = " \t";
    const std::size_t first = rest.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        rest = {};
        return {};
    }
    rest.remove_prefix(first);
    const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
    rest.remove_prefix(word.size());
    return word;
}

Error option_twice(const std::string& where, std::string_view option) {
    return Error{where + std::string(option) + " is given twice"};
}

}  // namespace

Status check_contract_name(std::string_view name) {
    bool good =
        !name.empty() && name.size() <= kMaxContractNameLength && is_letter_or_digit(name[0]);
    for (char character : name) {
        good = good && (is_letter_or_digit(character) || character == '_' || character == '-' ||
                        character == '.');
    }
    if (good) {
        return {};
    }
    return Error{"contract name " + quoted(name) + ": expected 1 to " +
                 std::to_string(kMaxContractNameLength) +
                 " letters, digits, '_', '-' or '.', the first a letter or a digit"};
}

Result<NamedContract> parse_named_contract(std::string_view text) {
    NamedContract contract;
    const std::string_view name = next_word(text);
    const Status named = check_contract_name(name);
    if (!named.ok()) {
        return named.failure();
    }
    contract.name = std::string(name);
    const std::string where = "contract " + quoted(name) + ": ";
    for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
        const std::size_t equals = word.find('=');
        const std::string_view option = word.substr(0, equals);
        const std::string_view value =
            equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
        if (equal_ignoring_case(option, "resumable") || equal_ignoring_case(option, "free-first")) {
            std::optional<bool>& flag =
                equal_ignoring_case(option, "resumable") ? contract.resumable : contract.free_first;
            if (flag) {
                return option_twice(where, option);
            }
            if (equals == std::string_view::npos || equal_ignoring_case(value, "yes")) {
                flag = true;
            } else if (equal_ignoring_case(value, "no")) {
                flag = false;
            } else {
                return Error{where + std::string(option) + "=" + quoted(value) +
                             ": expected yes or no"};
            }
        } else if (equal_ignoring_case(option, "min-runtime")) {
            if (contract.min_runtime_seconds) {
                return option_twice(where, option);
            }
            const auto seconds = parse_time_span(value, PlainNumber::minutes);
            if (!seconds) {
                return Error{where + "min-runtime: " + seconds.error()};
            }
            contract.min_runtime_seconds = *seconds;
        } else if (equal_ignoring_case(option, "team-priority")) {
            if (contract.team_priority) {
                return option_twice(where, option);
            }
            const auto priority = parse_team_priority(value);
            if (!priority) {
                return Error{where + priority.error()};
            }
            contract.team_priority = *priority;
        } else if (equal_ignoring_case(option, "budget")) {
            if (!contract.budget.empty()) {
                return option_twice(where, option);
            }
            const Status good = check_budget_name(value);
            if (!good.ok()) {
                return Error{where + good.error()};
            }
            contract.budget = std::string(value);
        } else {
            return Error{where + "unknown option " + quoted(word) +
                         ": expected min-runtime=TIME, resumable, free-first, team-priority=WORD "
                         "or budget=NAME"};
        }
    }
    return contract;
}

std::string to_text(const NamedContract& contract) {
    std::string text = contract.name;
    if (contract.min_runtime_seconds) {
        text += " min-runtime=" + std::to_string(*contract.min_runtime_seconds) + "s";
    }
    if (contract.resumable) {
        text += *contract.resumable ? " resumable" : " resumable=no";
    }
    if (contract.team_priority) {
        text += " team-priority=" + std::string(to_text(*contract.team_priority));
    }
    if (contract.free_first) {
        text += *contract.free_first ? " free-first" : " free-first=no";
    }
    if (!contract.budget.empty()) {
        text += " budget=" + contract.budget;
    }
    return text;
}

}  // namespace tranche
