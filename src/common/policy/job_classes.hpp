// SPDX-License-Identifier: GPL-2.0-or-later
// The pending jobs counted by what a pass asks of them, so that it can see without walking the
// queue that none of a kind can start or plan now.
//
// Jobs of one class differ only in the length of their contract: what the shortest cannot do, none
// of them can. Kept up to date by ClusterBook; cost of a change O(log jobs of the class).
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/model/cluster.hpp"

namespace tranche {

struct JobClass {
    BudgetId budget = kNoBudgetId;
    MemberId member = 0;  // of jobs that fit the lane
    JobShape shape;
    std::int64_t weight_milli = 0;
    bool allocated = false;
    bool resumable = false;
    bool plannable = false;
    bool lane = false;        // fits the express lane
    bool waits = false;       // was evicted for a claimant that has not started
    bool runs = false;        // runs free and waits for its turn
    bool on_demand = false;   // the same as --free-first: turns only when its GPUs are wanted
    bool whole_node = false;  // reservations are for it
    bool gang = false;        // may be assembled
    bool has_turn = false;    // its turn for an assembly has come

    std::multiset<std::int64_t> contracts;  // seconds

    std::size_t count() const noexcept { return contracts.size(); }
};

struct JobClasses {
    std::vector<JobClass> all;
    std::vector<std::uint32_t> filled;    // classes that have jobs, in no order
    std::vector<std::uint32_t> class_of;  // by index of ClusterView::pending
};

}  // namespace tranche
