// SPDX-License-Identifier: GPL-2.0-or-later
// One preemption as it is recorded and shown (DESIGN 2.5). Names and texts are those of the instant
// it was planned.
#pragma once

#include <cstdint>
#include <string>

#include "common/model/cluster.hpp"

namespace tranche {

struct PreemptionRecord {
    std::int64_t id = 0;  // of the database, 0: not written yet
    JobId victim = 0, claimant = 0;
    // As people call them where that is not the id: "123_4", "123+1".
    std::string victim_label, claimant_label;
    std::string victim_budget, claimant_budget, victim_user, claimant_user;
    std::string reason;                      // TakeReason's word
    std::string level;                       // name of the budget below which the two sides part
    std::string victim_side, claimant_side;  // names of the sides
    std::int64_t victim_charge_milli_hours = 0, victim_funded_milli_hours = 0;      // GPU hours
    std::int64_t claimant_charge_milli_hours = 0, claimant_funded_milli_hours = 0;  // faded
    std::int64_t contract_ended_at = 0, planned_at = 0, warned_at = 0, gone_at = 0;
    std::int64_t claimant_started_at = 0;
    std::string nodes;           // of the plan
    std::string claimant_nodes;  // where it started
    // "", "started", "wasted", "overtaken", "claimant-left", "taken-back"
    std::string outcome;

    bool operator==(const PreemptionRecord&) const = default;
};

}  // namespace tranche
