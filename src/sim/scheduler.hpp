// SPDX-License-Identifier: GPL-2.0-or-later
// The seam between the virtual cluster and the policies that run on it.
//
// The simulation owns jobs, nodes and time; a scheduler is told what changed and, in its pass, says
// what starts and who leaves. Everything due at one instant is applied before the pass of that
// instant. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/record.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

// A job as the simulation keeps it. `index` is its place in SimState::jobs.
struct SimJob {
    const WorkloadJob* spec = nullptr;
    JobState state = JobState::future;
    std::uint32_t nodes = 1;               // what `nodes` = 0 came to
    std::int64_t min_runtime_seconds = 0;  // what DefaultMinRuntime made of it
    bool resumable = true;                 // and not an interactive session
    bool allocated = false;   // its budget is funded now, it declared a minimum and has GPUs
    bool impossible = false;  // no set of nodes could ever hold it
    std::int64_t first_submit_at = 0;
    std::uint32_t runs = 0;
    std::int64_t work_left_seconds = 0;  // at the begin of the current or next run
    // Of the current run:
    std::vector<NodeShare> where;
    std::int64_t began_at = 0;
    std::int64_t works_at = 0;  // nodes have booted
    std::int64_t ends_at = 0;   // done, or at its time limit, if nobody disturbs it; kNever while
                                // suspended. Only a policy with exact estimates may look.
    RunKind kind = RunKind::unallocated;
    std::int64_t protected_until = 0;        // kNever while suspended inside its contract
    std::int64_t contract_left_seconds = 0;  // of a suspended run
    std::int64_t segment_at = 0;     // since when it has been what it is: free, allocated, resumed
    std::int64_t charged_until = 0;  // of a run that is over or suspended: less than its end where
                                     // refunded
    bool suspended = false;
    TeamPriority team_priority = TeamPriority::normal;
};

struct SimNodeState {
    std::int64_t free_gpus = 0;
    bool down = false;
    bool draining = false;  // drained, when nothing is left on it
    bool booted = false;
    std::string drain_reason;

    bool usable() const noexcept { return !down && !draining; }
};

// What a scheduler may read. Owned by the simulation, changes between the scheduler's calls and by
// its orders; jobs are added at the end.
struct SimState {
    std::int64_t now = 0;
    SimCluster cluster;
    std::vector<SimNodeState> nodes;  // by node of the cluster
    std::vector<SimJob> jobs;
};

struct StartOrder {
    JobIndex job = 0;
    std::vector<NodeShare> where;
    RunKind kind = RunKind::unallocated;
    std::int64_t contract_seconds = 0;  // protected from works_at on; kNever: to its end
    bool express = false;
};

struct LeaveOrder {
    JobIndex victim = 0;
    JobIndex claimant = kNoJob;      // kNoJob: a drain
    std::int64_t grace_seconds = 0;  // it leaves after min(exit_seconds, this)
    bool inside_contract = false;
    bool requeue_anyway = false;  // one that cannot resume too: it begins anew
    std::string reason;
};

// What a scheduler may do to the virtual cluster, at the instant of the pass.
class Orders {
  public:
    virtual ~Orders() = default;
    virtual void start(const StartOrder& order) = 0;
    virtual void leave(const LeaveOrder& order) = 0;
    // A free run becomes allocated in place, protected for that long from now.
    virtual void turn(JobIndex job, std::int64_t contract_seconds) = 0;
    virtual void assembly(const AssemblyRecord& record) = 0;  // the same job again: an update
};

class Scheduler {
  public:
    virtual ~Scheduler() = default;
    virtual const char* name() const = 0;

    // Told in the order in which it happens. A requeued job is submitted() again.
    virtual void submitted(JobIndex job) = 0;
    virtual void left_queue(JobIndex job) = 0;  // cancelled while pending
    // Its GPUs are free again. Its state is the new one, the rest still that of the run; a requeued
    // one is submitted() next.
    virtual void run_over(JobIndex job) = 0;
    virtual void changed(JobIndex job) = 0;             // suspended, resumed, another team priority
    virtual void node_changed(std::uint32_t node) = 0;  // drained, failed, back
    virtual void event(const WorkloadEvent& event) = 0;  // set_shares, add_budget, restart

    virtual void pass(std::int64_t now, Orders& orders) = 0;
    // The next instant after `now` at which a pass could do more than at the last one; kNever.
    virtual std::int64_t wake_at() const = 0;
};

}  // namespace tranche::sim
