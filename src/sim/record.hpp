// SPDX-License-Identifier: GPL-2.0-or-later
// What happened in one simulated run of a workload: the only thing that reports and pictures read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/cluster.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

using JobIndex = std::uint32_t;  // into SimRecord::jobs
inline constexpr JobIndex kNoJob = 0xffffffff;

enum class JobState : std::uint8_t {
    future,  // not submitted yet
    pending,
    running,
    leaving,
    completed,  // did its work
    ended,      // preempted without being resumable, at its time limit, or its node failed
    cancelled,
    refused,  // at submission
};

enum class SegmentEnd : std::uint8_t {
    still_running,
    completed,
    time_limit,
    preempted_requeued,
    preempted_ended,
    drained_requeued,
    drained_ended,
    node_failed,
    cancelled,
    turned,     // free until here, allocated from here on
    suspended,  // the run goes on later
};

// One uninterrupted stay of a job on its GPUs at one kind (a run, or a part of one).
struct SegmentRecord {
    JobIndex job = 0;
    std::uint32_t run = 1;  // 1, 2, … of the job
    RunKind kind = RunKind::unallocated;
    bool express = false;
    SegmentEnd end = SegmentEnd::still_running;
    JobIndex taken_for = kNoJob;  // the claimant
    std::int64_t begin_at = 0, end_at = 0;
    std::int64_t charged_until = 0;    // less than end_at where refunded
    std::int64_t protected_until = 0;  // 0: free
    std::int64_t warned_at = 0;        // 0: never
    std::vector<NodeShare> where;      // nodes and GPUs
    std::vector<std::uint16_t> slots;  // for pictures: the GPU rows it holds, node by node of
                                       // `where`, share.gpus numbers each (0-based on the node)
};

struct JobRecord {
    WorkloadJob job;
    JobState state = JobState::future;
    std::int64_t submitted_at = 0;
    std::int64_t first_start_at = -1;  // -1: never
    std::int64_t ended_at = -1;
    std::uint32_t runs = 0;
    std::uint32_t preemptions = 0;
    bool fits_lane = false;  // debug (DESIGN 1, wait classes)
    bool allocated = false;  // its budget was funded and it declared a minimum
};

enum class PreemptionOutcome : std::uint8_t { open, started, wasted, overtaken, claimant_left };

struct PreemptionEvent {
    std::int64_t at = 0;
    JobIndex claimant = kNoJob;
    JobIndex victim = 0;
    bool requeued = false;  // else ended
    bool inside_contract = false;
    PreemptionOutcome outcome = PreemptionOutcome::open;
    std::string reason;  // TakeReason's word; the baselines use their own
};

struct AssemblyRecord {
    JobIndex job = 0;
    std::int64_t turn_at = 0, granted_at = -1, date_at = -1, started_at = -1;
};

struct DrainRecord {
    std::string node, reason;
    std::int64_t at = 0;
    std::int64_t empty_at = -1;  // -1: not yet
    std::int64_t back_at = -1;
};

// Of one budget in one hour that starts at a multiple of 3600: GPU seconds. Of an inner budget:
// of its own jobs, without its children's.
struct BudgetHour {
    std::int64_t funded = 0;   // funded fraction x available; of an inner budget its own side's
    std::int64_t demand = 0;   // allocated running + allocated pending that could start
    std::int64_t charged = 0;  // allocated runs, plain
    std::int64_t free = 0;     // unallocated runs
};

struct BudgetRecord {
    std::string name, parent;
    bool is_leaf = true;
    double funded_fraction = 0;     // at the end; of an inner budget with all below it
    std::vector<BudgetHour> hours;  // from the hour of the record's begin_at on
    std::uint64_t preemptions_suffered = 0, preemptions_caused = 0;
};

struct SimRecord {
    std::string policy;
    SimCluster cluster;
    std::int64_t begin_at = 0, end_at = 0;
    std::int64_t installed_gpu_seconds = 0, available_gpu_seconds = 0, used_gpu_seconds = 0;
    std::int64_t idle_gpu_seconds = 0;  // of usable nodes, held by nobody
    std::int64_t demand_allocated_gpu_seconds = 0, demand_free_gpu_seconds = 0;
    std::int64_t lost_requeued_gpu_seconds = 0, lost_ended_gpu_seconds = 0;
    double wall_seconds = 0;  // what the simulation took; not in files that are compared
    std::uint64_t passes = 0;
    std::vector<JobRecord> jobs;  // in the workload's order, then those added by the simulation
    std::vector<SegmentRecord> segments;  // by begin_at
    std::vector<PreemptionEvent> preemptions;
    std::vector<AssemblyRecord> assemblies;
    std::vector<DrainRecord> drains;
    std::vector<BudgetRecord> budgets;  // by name; "(none)" last, if jobs had no budget
    std::vector<std::string> notes;     // "seed 7: 1 680 debug jobs were added", warnings
};

}  // namespace tranche::sim
