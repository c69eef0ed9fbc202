// SPDX-License-Identifier: GPL-2.0-or-later
// What keeps pending jobs from starting where, or while, a pass would not start them (DESIGN 2.6,
// 2.7): for a host whose scheduler starts jobs by itself, in the order of their priorities, on
// whatever it finds free.
//
// A job is kept off nodes by an exclusion. One that would be left with fewer nodes than it needs is
// held until an instant instead: schedulers take a job that no node may hold for impossible, for
// ever. Each list is whole and replaces the one before.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/pass.hpp"

namespace tranche {

struct EntranceRule {
    std::uint32_t job = 0;             // index into ClusterView::pending
    std::uint32_t closed = kNoId;      // index into EntranceList::node_sets; kNoId: none
    std::int64_t closed_until_at = 0;  // when the first of those nodes may open to it
    std::int64_t not_before_at = 0;    // held until then; 0: not held
    // Of an array's record: so many tasks may come under contract now, apart from the rest.
    std::uint32_t tasks_now = 0;
    bool as_free = false;  // if it starts before the next pass, it starts free (headroom)
};

struct EntranceList {
    std::vector<std::vector<NodeIndex>> node_sets;
    std::vector<EntranceRule> rules;  // one a job at most; jobs without one may start anywhere
    // For jobs that are submitted before the next pass.
    std::int64_t kept_until_at = 0;  // the first instant at which any kept node opens; 0: none kept
    bool closed = false;             // some nodes are closed to free work as well
    std::int64_t headroom_left_gpus = kNever;
};

struct EntranceLimits {
    std::uint32_t most_entries = 3000;  // of the ranking: more no scheduler looks at in one pass
    // The host's scheduler starts jobs up to that long after the pass, and holds end so much later
    // than what they wait for: the next pass lifts them in time.
    std::int64_t slack_seconds = 10;
};

// `planned`: jobs whose plans stand since this pass, by index into pending; they have their nodes.
EntranceList entrance_of(const ClusterView& view, const std::vector<RankedEntry>& ranking,
                         const Standings& standings, const Settings& settings,
                         const PassResult& pass, const std::vector<std::uint32_t>& planned,
                         const EntranceLimits& limits = {});

// Whether a job that no pass has seen yet has to wait for the next one before it may start.
// `unranked_gpus`: of other such jobs that were let through since the last pass.
bool waits_for_pass(const EntranceList& entrance, std::int64_t now, bool allocated, bool express,
                    std::int64_t contract_seconds, std::int64_t gpus, std::int64_t unranked_gpus,
                    const EntranceLimits& limits = {});

}  // namespace tranche
