// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/rules.hpp"

#include <array>

namespace tranche {
namespace {

constexpr std::array<RuleName, static_cast<std::size_t>(Rule::count_)> kNames = {{
    {Rule::contract, "contract", "nobody is preempted before its contract is over"},
    {Rule::contract_after_boot, "contract-after-boot",
     "the contract's clock starts when the run could work"},
    {Rule::reservations, "reservations",
     "large jobs are given the nodes that can be free for them soonest"},
    {Rule::entrance, "entrance",
     "until a large job's date others start on its nodes only if they are over by then"},
    {Rule::assembly, "assembly", "the largest jobs get their nodes gathered"},
    {Rule::assembly_payment, "assembly-payment", "the next grant comes when the last is paid for"},
    {Rule::drain, "drain", "sick nodes empty as the contracts on them end"},
    {Rule::drain_gang_wait, "drain-gang-wait", "a gang on a sick node gets its replacement first"},
}};

}  // namespace

std::span<const RuleName> rule_names() noexcept {
    return kNames;
}

std::optional<Rule> parse_rule(std::string_view name) noexcept {
    for (const RuleName& row : kNames) {
        if (row.name == name) {
            return row.rule;
        }
    }
    return std::nullopt;
}

}  // namespace tranche
