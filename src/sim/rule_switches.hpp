// SPDX-License-Identifier: GPL-2.0-or-later
// Every rule of the policy that can be left out, to see what it is for: by a setting that gives the
// policy without it, or, where no setting does, by a bit that only the simulator sets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/config/settings.hpp"
#include "common/model/usage_ledger.hpp"

namespace tranche::sim {

struct RuleSwitch {
    std::string_view name;      // "preempt-margin"
    std::string_view text;      // what the rule says
    std::string_view settings;  // that leave it out, "PreemptMargin=0"; empty: `rule` does
    std::optional<Rule> rule;
};

std::span<const RuleSwitch> rule_switches() noexcept;  // in the order of the policy
const RuleSwitch* find_rule_switch(std::string_view name) noexcept;

Settings without_rule(Settings settings, const RuleSwitch& rule);

// What a ledger is kept by.
UsageLedger::Rules ledger_rules(const Settings& settings);

}  // namespace tranche::sim
