// SPDX-License-Identifier: GPL-2.0-or-later
// One scheduling pass: who starts on free room, who gets a plan and whom it evicts, and why the
// others wait (DESIGN 2.5, 2.6).
//
// The pass decides; the host acts. Jobs are tried in the order of the ranking; what starts or is
// planned takes its room and counts its commitment before the next is tried, jobs that merely
// wait do not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/classes.hpp"
#include "common/policy/preemption.hpp"
#include "common/policy/ranking.hpp"

namespace tranche {

enum class WaitReason : std::uint8_t {
    none,
    starting,  // there is room: it starts in this pass
    planned,   // its plan stands: victims are leaving
    held,
    dependency,
    begin_time,
    limit,              // an account or QOS limit of Slurm's
    impossible,         // no set of nodes could ever hold it
    nodes_unavailable,  // the nodes that could hold it are down or draining
    claimant_first,     // was evicted for a job that has not started yet
    idle_gpus,          // free work: waits until GPUs are idle
    contracts,          // the runs it could take are still under contract
    ratio,              // runs are over their contract, but its side has used too much
    own_budget,         // runs are over their contract, but they are its own budget's
    room_coming,        // runs that leave already make room for it
    room,               // nothing it could take makes enough room
    headroom,           // only MaxProtectedFraction is in the way
    express_cap,        // an ordinary job for this run: a cap of the lane is reached
    preemption_limit,   // MaxPreemptionsPerHour
    kept_nodes,         // there is room, on nodes that are kept for a large job
    assembling,         // its nodes are being gathered
};

std::string_view to_text(WaitReason reason) noexcept;  // "starting", "idle-gpus", …

struct StartDecision {
    std::uint32_t job = 0;  // index into ClusterView::pending
    std::vector<NodeShare> where;
    bool as_free = false;  // headroom: starts free, keeps its place, turns allocated later
    bool express = false;
};

struct VictimDecision {
    std::uint32_t run = 0;  // index into ClusterView::runs
    TakeVerdict verdict;
};

struct PlanDecision {
    std::uint32_t job = 0;
    Plan plan;
    std::vector<VictimDecision> victims;
};

struct JobVerdict {
    WaitReason reason = WaitReason::none;
    ExpressCap express_cap = ExpressCap::none;
    std::int64_t next_change_at = kNever;  // when contracts alone could change it
};

// A run that leaves a node in contract drain (DESIGN 2.8).
struct DrainDecision {
    std::uint32_t run = 0;  // index into ClusterView::runs
    // Of a gang that moves: where its job starts again, and who else leaves for that.
    std::optional<Plan> move;
    std::vector<VictimDecision> victims;
};

struct AssemblyDecision {
    std::uint32_t job = 0;
    Assembly assembly;     // new, or with other nodes than the one that stands
    bool granted = false;  // new: it is a grant
};

// Nodes that are kept for a large job: what a host that leaves the starting to a scheduler of its
// own has to forbid (entrance.hpp). Only of passes that look at every job.
struct NodeKeeping {
    JobId claimant = 0;
    std::vector<NodeIndex> nodes;
    std::int64_t until_at = 0;  // contracts that begin there must be over by then
    bool closed = false;        // nobody enters, free work neither
    // It holds for what stands behind that entry of the ranking; nullopt: for everybody.
    std::optional<std::uint32_t> behind;
};

struct PassRules {
    bool one_plan_per_node = false;  // Slurm can keep a node for one claimant only
    bool large_jobs = true;          // reservations and assemblies
    bool drains = true;
};

struct PassResult {
    std::vector<StartDecision> starts;
    std::vector<PlanDecision> plans;   // new ones
    std::vector<std::uint32_t> turns;  // indices into runs: turn allocated in place
    std::vector<DrainDecision> drains;
    std::vector<AssemblyDecision> assemblies;
    std::vector<JobId> dropped_assemblies;  // their claimants no longer fit
    std::vector<std::uint32_t> turns_come;  // indices into pending: their turn for an assembly
    std::vector<JobVerdict> verdicts;       // by index into pending
    std::int64_t wake_at = kNever;          // the next contract end or other known instant
    std::vector<NodeKeeping> keepings;
    // GPUs that may still come under contract, and when the next contract ends; kNever: no part is
    // kept open, no contract runs.
    std::int64_t headroom_left_gpus = kNever;
    std::int64_t next_contract_end_at = kNever;

    bool decides() const noexcept {
        return !starts.empty() || !plans.empty() || !turns.empty() || !drains.empty() ||
               !assemblies.empty() || !dropped_assemblies.empty() || !turns_come.empty();
    }
};

// Whether the nodes of its set could hold the shape if they were empty; `usable_only` leaves out
// nodes that are down or draining.
bool could_fit(const ClusterView& view, const JobShape& shape, bool usable_only);

// Gives StartBlock::impossible to the pending jobs that no set of nodes could ever hold.
void mark_impossible(ClusterView& view);

PassResult run_pass(const ClusterView& view, const std::vector<RankedEntry>& ranking,
                    const Standings& standings, const Settings& settings,
                    const PassRules& rules = {});

struct PassSums;
struct JobClasses;

// Whether urgent and high count for a member (DESIGN 2.4, RaisedShare).
class RaiseRights {
  public:
    virtual ~RaiseRights() = default;
    virtual bool may_raise(MemberId member) = 0;
};

// The same for a host that keeps the sums from pass to pass: it takes the queue job by job and
// stops where no other job can start or plan. Verdicts are not given. `standings` collects what the
// pass places (Standings::place).
PassResult run_head_pass(const ClusterView& view, const PassSums& sums, const JobClasses& classes,
                         RankSource& ranking, RaiseRights& rights, Standings& standings,
                         const Settings& settings, const PassRules& rules = {});

// How long victims of each class are given (DESIGN 2.5).
std::int64_t grace_seconds(const Run& run, const Settings& settings) noexcept;

}  // namespace tranche
