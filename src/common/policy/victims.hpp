// SPDX-License-Identifier: GPL-2.0-or-later
// Which victims make room for a claimant at the least harm (DESIGN 2.5).
//
// Of the sets that suffice: fewest allocated GPUs, fewest GPUs, budgets most over their funding,
// lower team priority in the claimant's own budget, least to lose, node order; for express
// claimants runs that can resume come first. Exact for claimants of one node; for gangs exact node
// by node, then every victim that is not needed is dropped. A job leaves whole.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/model/cluster.hpp"

namespace tranche {

// What is left on each node for the job that is tried: free minus what plans and starts of this
// pass have taken (negative while victims of a plan still hold it).
struct RoomNode {
    std::int64_t gpus = 0;
    std::int64_t cpus = 0;
    std::int64_t memory_mib = 0;
    bool open = false;       // a job may be placed here
    bool plannable = false;  // a plan may use it: not kept for another claimant, not settling
    // Kept for a large job: contracts that begin here must be over by then (DESIGN 2.7).
    std::int64_t until = kNever;
};

struct VictimCost {
    std::int64_t final_gpus = 0;  // of runs that cannot resume (express claimants only)
    std::int64_t allocated_gpus = 0;
    std::int64_t gpus = 0;
    UInt128 over_funding = 0;  // the larger, the better a victim
    std::int64_t priority_gpus = 0;
    std::int64_t lost_gpu_seconds = 0;

    VictimCost& operator+=(const VictimCost& other) noexcept;
    // Less harm than the other.
    bool operator<(const VictimCost& other) const noexcept;
};

struct VictimCandidate {
    std::uint32_t run = 0;  // index into ClusterView::runs
    VictimCost cost;
};

struct VictimChoice {
    std::vector<std::uint32_t> runs;  // sorted
    std::vector<NodeShare> where;     // what the claimant takes, in the order of its members
    VictimCost cost;
};

// `candidates` by run index, each takeable by the claimant. nullopt: they do not suffice.
// `contract_end`: when the claimant's contract will be over, for nodes that are kept; 0: any.
std::optional<VictimChoice> choose_victims(const ClusterView& view,
                                           const std::vector<RoomNode>& room, const JobShape& shape,
                                           const std::vector<VictimCandidate>& candidates,
                                           std::int64_t contract_end = 0);

// Free room for the shape, best fit (least GPUs left over, then node order); nullopt: none.
std::optional<std::vector<NodeShare>> place_on_free(const ClusterView& view,
                                                    const std::vector<RoomNode>& room,
                                                    const JobShape& shape,
                                                    std::int64_t contract_end = 0);

// Whether that node may ever carry the shape's members: set, type, size.
bool node_suits(const ClusterView& view, const JobShape& shape, NodeIndex node,
                std::uint32_t member);

}  // namespace tranche
