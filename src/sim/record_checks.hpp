// SPDX-License-Identifier: GPL-2.0-or-later
// Rules that no policy may break, checked anew from the segments of a record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/record.hpp"

namespace tranche::sim {

struct Invariants {
    bool no_preemption_inside_contract = true;  // drains too
    bool no_node_overfilled = true;             // at any instant, and no GPU has two runs
    bool segments_sum_to_used = true;           // of GPU time
    bool only_allocated_runs_charged = true;
    bool runs_of_a_job_disjoint = true;
    bool gangs_on_exactly_their_nodes = true;
    std::vector<std::string> violations;  // the first 20, in words

    bool all_hold() const noexcept {
        return no_preemption_inside_contract && no_node_overfilled && segments_sum_to_used &&
               only_allocated_runs_charged && runs_of_a_job_disjoint &&
               gangs_on_exactly_their_nodes;
    }
};

// Cost: n log n in segments.
Invariants check_invariants(const SimRecord& record);

// Of a segment: on all its nodes.
std::int64_t gpus_of(const SegmentRecord& segment) noexcept;

// Until when it held its GPUs, as far as the record goes.
std::int64_t end_of(const SimRecord& record, const SegmentRecord& segment) noexcept;

}  // namespace tranche::sim
