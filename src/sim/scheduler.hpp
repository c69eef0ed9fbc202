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

// A job as the simulation keeps it. `index` is its place in Simulation::jobs().
struct SimJob {
    const WorkloadJob* spec = nullptr;
    JobState state = JobState::future;
    std::uint32_t nodes = 1;  // what `nodes` = 0 came to
    std::int64_t first_submit_at = 0;
    std::uint32_t runs = 0;
    // Of the current run:
    std::vector<NodeShare> where;
    std::int64_t began_at = 0;
    std::int64_t works_at = 0;  // nodes have booted
    RunKind kind = RunKind::unallocated;
    std::int64_t protected_until = 0;
    bool suspended = false;
    TeamPriority team_priority = TeamPriority::normal;
};

struct StartOrder {
    JobIndex job = 0;
    std::vector<NodeShare> where;
    RunKind kind = RunKind::unallocated;
    std::int64_t contract_seconds = 0;  // protected from works_at on
    bool express = false;
};

struct LeaveOrder {
    JobIndex victim = 0;
    JobIndex claimant = kNoJob;      // kNoJob: a drain
    std::int64_t grace_seconds = 0;  // it leaves after min(exit_seconds, this)
    bool inside_contract = false;
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
    virtual void left_queue(JobIndex job) = 0;       // cancelled while pending
    virtual void run_over(JobIndex job) = 0;         // its GPUs are free again; before submitted()
    virtual void changed(JobIndex job) = 0;          // suspended, resumed, another team priority
    virtual void node_changed(std::uint32_t node) = 0;  // drained, failed, back
    virtual void event(const WorkloadEvent& event) = 0;  // set_shares, add_budget, restart

    virtual void pass(std::int64_t now, Orders& orders) = 0;
    // The next instant after `now` at which a pass could do more than at the last one; kNever.
    virtual std::int64_t wake_at() const = 0;
};

}  // namespace tranche::sim
