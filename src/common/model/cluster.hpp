// SPDX-License-Identifier: GPL-2.0-or-later
// One instant of a cluster as plain values: nodes, pending jobs, runs and plans. Both hosts fill
// it, the policy reads it.
//
// Instants are epoch seconds (scenario seconds in the simulator); weights are in thousandths of a
// GPU; memory is in MiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/model/standings.hpp"
#include "common/units/team_priority.hpp"

namespace tranche {

using JobId = std::uint32_t;
using NodeIndex = std::uint32_t;
inline constexpr std::int64_t kNever = INT64_MAX;

struct Node {
    std::string name;
    std::string gpu_type;  // empty: untyped
    std::int64_t gpus = 0;
    std::int64_t cpus = 0;
    std::int64_t memory_mib = 0;
    std::int64_t free_gpus = 0;  // not held by any run, leaving ones included
    std::int64_t free_cpus = 0;
    std::int64_t free_memory_mib = 0;
    bool usable = true;     // up and not draining: counts as available, new runs may start
    bool settling = false;  // a run is completing there: nothing can start until it is over
    // Contract drain (DESIGN 2.8): not usable, and each run leaves at its own contract's end.
    bool draining = false;
    std::int64_t drain_started_at = 0;
};

// What a job needs. GPUs are the job's total and spread evenly over its nodes, the first of them
// taking one more where that does not come out even.
struct JobShape {
    std::uint32_t nodes = 1;
    std::int64_t gpus = 0;
    std::int64_t cpus_per_node = 0;
    std::int64_t memory_mib_per_node = 0;
    std::string gpu_type;        // empty: any
    bool exclusive = false;      // whole nodes, with all their GPUs
    std::uint32_t node_set = 0;  // index into ClusterView::node_sets: where it may run

    std::int64_t gpus_on(std::uint32_t member) const noexcept {
        return gpus / nodes + (member < gpus % nodes ? 1 : 0);
    }
    bool operator==(const JobShape&) const = default;
};

// What another component of a heterogeneous job needs, on nodes of its own.
struct Companion {
    JobId id = 0;
    JobShape shape;
    std::int64_t weight_milli = 0;
};

// Why a pending job could not start even if there were room (DESIGN 1, demand).
enum class StartBlock : std::uint8_t { none, held, dependency, begin_time, limit, impossible };

struct PendingJob {
    JobId id = 0;
    std::string name;
    BudgetId budget = kNoBudgetId;
    MemberId member = 0;
    JobShape shape;                 // of one task
    std::uint32_t tasks = 1;        // of an array, still pending in this record
    std::int64_t weight_milli = 0;  // of one task; 0: costs nothing
    std::int64_t min_runtime_seconds = 0;
    std::int64_t time_limit_seconds = kNever;
    std::int64_t first_submit_at = 0;              // kept over requeues
    std::int64_t protection_cap_seconds = kNever;  // of the next run, after an express eviction
    std::int64_t nice = 0;                         // smaller goes first
    std::uint32_t runs_before = 0;
    TeamPriority team_priority = TeamPriority::normal;
    StartBlock block = StartBlock::none;
    bool resumable = false;
    bool interactive = false;
    bool free_first = false;
    bool governed = true;   // false: outside Partitions=
    bool plannable = true;  // false: the host cannot evict for it (a component of a larger job)
    std::int64_t turn_run = -1;  // >= 0: this job runs free as that run and waits for its turn
    // The last tie between jobs submitted together: by job id, and the tasks of an array by their
    // number whatever ids they have. 0: by `id`.
    std::uint64_t order = 0;
    // A heterogeneous job is tried as a whole: its first component stands for the others.
    std::vector<Companion> companions;
    JobId goes_with = 0;       // such another component: that first one's id
    JobId waits_for = 0;       // evicted for that claimant, which has not started yet; 0: none
    std::int64_t turn_at = 0;  // when its turn for an assembly came (DESIGN 2.7); 0: not yet

    std::uint64_t order_key() const noexcept {
        return order != 0 ? order : std::uint64_t{id} << 32;
    }
    std::int64_t contract_seconds() const noexcept {
        return min_runtime_seconds < protection_cap_seconds ? min_runtime_seconds
                                                            : protection_cap_seconds;
    }
    // Of all components.
    std::int64_t whole_gpus() const noexcept {
        std::int64_t sum = shape.gpus;
        for (const Companion& companion : companions) {
            sum += companion.shape.gpus;
        }
        return sum;
    }
    std::int64_t whole_weight_milli() const noexcept {
        std::int64_t sum = weight_milli;
        for (const Companion& companion : companions) {
            sum += companion.weight_milli;
        }
        return sum;
    }
};

enum class RunState : std::uint8_t { configuring, running, suspended, leaving, completing };

struct NodeShare {
    NodeIndex node = 0;
    std::int64_t gpus = 0;
    std::int64_t cpus = 0;
    std::int64_t memory_mib = 0;
};

struct Run {
    JobId id = 0;
    std::string name;
    BudgetId budget = kNoBudgetId;
    MemberId member = 0;
    RunKind kind = RunKind::unallocated;
    RunState state = RunState::running;
    std::vector<NodeShare> where;
    std::int64_t gpus = 0;             // on all nodes
    std::int64_t weight_milli = 0;     // on all nodes
    std::int64_t started_at = 0;       // charged from here
    std::int64_t protected_until = 0;  // 0 for free runs; kNever while the node still boots
    // Until then another component of the same heterogeneous job is under contract; a job leaves
    // whole.
    std::int64_t others_protected_until = 0;
    std::int64_t time_limit_seconds = kNever;
    std::int64_t checkpointed_at = 0;  // its owner said so; 0: never
    TeamPriority team_priority = TeamPriority::normal;
    bool resumable = false;
    bool interactive = false;
    bool express = false;
    bool wants_turn = false;  // started free though its job is allocated (headroom)
    bool free_first = false;  // it asked for that: it turns only when somebody would take its GPUs
    bool spared = false;      // the host lets nobody take it (PreemptMode=OFF of its partition)
    std::int64_t contract_seconds = 0;
    std::int64_t first_submit_at = 0;
    JobId leaving_for = 0;
    std::optional<JobShape> shape;  // what its job needs; nullopt: what it holds

    // What is left of the contract at `now`; a run that still configures has all of it.
    std::int64_t commitment_seconds(std::int64_t now) const noexcept {
        if (kind != RunKind::allocated || state == RunState::completing) {
            return 0;
        }
        if (protected_until == kNever) {
            return contract_seconds;
        }
        return protected_until > now ? protected_until - now : 0;
    }
    bool under_contract(std::int64_t now) const noexcept {
        return kind == RunKind::allocated && protected_until > now;
    }
};

// Claimant, victims, nodes: what will be evicted for whom, decided at one instant (DESIGN 2.5).
struct Plan {
    JobId claimant = 0;
    BudgetId budget = kNoBudgetId;
    MemberId member = 0;
    std::int64_t weight_milli = 0;
    std::int64_t commitment_seconds = 0;
    std::int64_t gpus = 0;
    std::vector<NodeShare> where;  // what the claimant will take
    std::vector<JobId> victims;
    std::int64_t made_at = 0;
    bool express = false;
};

// A use of the express lane within the last day (its caps, DESIGN 2.6).
struct ExpressUse {
    std::string user;
    std::int64_t gpus = 0;
    std::int64_t started_at = 0;
    std::int64_t ended_at = 0;  // 0: still running
    std::int64_t protected_until = 0;
};

// A large claimant's nodes that are being gathered as contracts on them end (DESIGN 2.7).
struct Assembly {
    JobId claimant = 0;
    std::vector<NodeIndex> nodes;
    std::int64_t granted_at = 0;
    std::int64_t date_at = 0;  // the last of those contracts' ends: it plans then
};

// A grant as it is remembered: the next one must be paid for.
struct AssemblyGrant {
    BudgetId budget = kNoBudgetId;
    std::int64_t granted_at = 0;
    std::int64_t weight_milli = 0;
    std::int64_t commitment_seconds = 0;
};

struct ClusterView {
    std::int64_t now = 0;
    std::vector<Node> nodes;
    // Each: true where a job of that set may run. Set 0 exists when any job is there.
    std::vector<std::vector<bool>> node_sets;
    std::vector<PendingJob> pending;
    std::vector<Run> runs;
    std::vector<Plan> plans;  // that stand, by made_at
    // By plan: index of its claimant in `pending`, kept by hosts that keep the view (ClusterBook).
    std::vector<std::uint32_t> plan_jobs;
    std::vector<Assembly> assemblies;   // that stand: their claimants have not started
    std::vector<AssemblyGrant> grants;  // by granted_at; for each budget at least the last one
    std::vector<ExpressUse> express_uses;
    std::int64_t evictions_last_hour = 0;

    std::int64_t available_gpus() const noexcept {
        std::int64_t sum = 0;
        for (const Node& node : nodes) {
            sum += node.usable ? node.gpus : 0;
        }
        return sum;
    }
    std::int64_t usable_nodes_with_gpus() const noexcept {
        std::int64_t count = 0;
        for (const Node& node : nodes) {
            count += node.usable && node.gpus > 0 ? 1 : 0;
        }
        return count;
    }
};

}  // namespace tranche
