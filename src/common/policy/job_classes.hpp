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
    bool lane = false;               // fits the express lane
    bool waits = false;              // was evicted for a claimant that has not started
    bool runs = false;               // runs free and waits for its turn
    bool free_first = false;         // starts free, and turns only when its GPUs are wanted
    bool whole_node = false;         // reservations are for it
    bool gang = false;               // may be assembled
    bool has_turn = false;           // its turn for an assembly has come
    std::uint32_t shape_number = 0;  // the same for classes of one shape
    std::uint8_t colour = 0;         // see WantedJobs: of the budget's classes, or of all free ones

    std::multiset<std::int64_t> contracts;  // seconds

    std::size_t count() const noexcept { return contracts.size(); }
};

// The classes of one budget's allocated jobs, or of all free jobs.
struct ClassGroup {
    std::vector<std::uint32_t> filled;  // classes that have jobs, in no order
    // Of jobs that wait for room, whatever their shape: what the smallest commitment counts, in
    // milli-weighted seconds, and the GPUs of the smallest largest member.
    std::multiset<std::int64_t> amounts;
    std::int64_t least_member = kNever;
    std::uint32_t special = 0;  // filled classes of jobs that run already, or have a turn
};

struct JobClasses {
    std::vector<JobClass> all;
    std::vector<std::uint32_t> class_of;  // by index of ClusterView::pending
    std::vector<ClassGroup> allocated;    // by BudgetId
    ClassGroup free;
    std::vector<BudgetId> budgets;  // those with filled classes, in no order
    std::vector<JobShape> shapes;   // by shape_number
    std::uint32_t gangs = 0;        // filled classes that may be assembled and wait
};

}  // namespace tranche
