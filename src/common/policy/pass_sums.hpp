// SPDX-License-Identifier: GPL-2.0-or-later
// What a pass needs to know of all runs and plans, summed up: made from a view, or kept up to date
// change by change (ClusterBook).
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/victims.hpp"

namespace tranche {

// The takeable runs of one budget, or the free ones of all.
struct TakeableGroup {
    BudgetId budget = kNoBudgetId;
    bool free = false;
    std::vector<std::uint32_t> runs;  // sorted
    std::vector<std::int32_t> gpus;   // by node
};

struct PassSums {
    std::vector<RoomNode> empty;                      // held by no run, whatever plans say
    std::vector<RoomNode> room;                       // the same less what standing plans will take
    std::vector<RoomNode> future;                     // when all that leave have left
    std::vector<std::vector<std::uint32_t>> runs_on;  // by node, sorted
    // Settled runs that are free or past their contract, sorted: what somebody might take.
    std::vector<std::uint32_t> takeable;
    // The same by budget; left empty where all jobs are looked at anyway.
    std::vector<TakeableGroup> groups;
    std::vector<std::uint32_t> express_runs;  // indices
    std::int64_t available_gpus = 0;
    std::int64_t allowed_protected_gpus = 0;  // headroom
    std::int64_t protected_gpus = 0;          // under contract, planned or assembled; not express
    std::int64_t next_contract_end_at = kNever;
};

// Whether the contract of a run is no obstacle at `now`, by the run alone.
bool is_takeable(const Run& run, std::int64_t now) noexcept;

// `one_plan_per_node`: nothing else is placed on a node that a plan will use.
PassSums sums_of(const ClusterView& view, const Settings& settings, bool one_plan_per_node);

}  // namespace tranche
