// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of the policy by name, so that the simulator can leave one out and show what it is
// for. Nothing else ever does: Settings::rules_off is no key of tranche.conf.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tranche {

enum class Rule : std::uint8_t {
    contract,             // nobody is preempted before its contract is over
    contract_after_boot,  // the contract's clock starts when the run could work
    reservations,         // large jobs are given the nodes that can be free soonest
    entrance,             // until that date others start there only if they are over by then
    assembly,             // the largest jobs get their nodes gathered
    assembly_payment,     // the next grant comes when the last one is paid for
    drain,                // sick nodes empty as the contracts on them end
    drain_gang_wait,      // a gang gets its replacement first
    count_
};

struct RuleName {
    Rule rule;
    std::string_view name;  // "contract-after-boot"
    std::string_view text;
};
std::span<const RuleName> rule_names() noexcept;
std::optional<Rule> parse_rule(std::string_view name) noexcept;

}  // namespace tranche
