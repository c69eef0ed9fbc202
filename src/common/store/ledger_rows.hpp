// SPDX-License-Identifier: GPL-2.0-or-later
// What the ledger database holds, as plain values.
//
// Instants are epoch seconds, 0 where not known yet; weights are in thousandths of a GPU. Nodes
// are named, never numbered: numbers change with slurm.conf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/contract_edit.hpp"
#include "common/model/budget_edit.hpp"
#include "common/model/budget_tree.hpp"
#include "common/model/cluster.hpp"
#include "common/model/preemption_record.hpp"
#include "common/model/usage_ledger.hpp"

namespace tranche {

// A segment of a run (UsageLedger) with what people want to know about it. Its key identifies it.
struct SegmentRow {
    SegmentKey key;
    std::int64_t ended_at = 0;       // 0: still open
    std::int64_t charged_until = 0;  // of a closed one; earlier than ended_at after a refund
    RunKind kind = RunKind::unallocated;
    TeamPriority team_priority = TeamPriority::normal;
    bool resumable = false;
    bool interactive = false;
    bool express = false;
    std::string budget;  // empty: no budget pays
    std::string user;
    std::string account;
    std::string partition;
    std::string name;
    std::int64_t gpus = 0;
    std::int64_t weight_milli = 0;
    std::string nodes;
    std::int64_t min_runtime_seconds = 0;
    std::int64_t ready_at = 0;         // when the run could work: its contract's clock began
    std::int64_t protected_until = 0;  // 0 for free runs and while it is not ready
    std::uint32_t run = 1;             // of the job: 1, 2, …
    JobId leaving_for = 0;
    std::string end_reason;  // "completed", "node-failure", …; empty while open

    Segment segment() const { return {key, budget, user, kind, weight_milli}; }
    bool operator==(const SegmentRow&) const = default;
};

// What must be kept of a job from run to run.
struct JobRow {
    JobId id = 0;
    std::int64_t first_submit_at = 0;
    std::uint32_t runs = 0;                        // that began
    std::int64_t protection_cap_seconds = kNever;  // of its next run
    JobId waits_for = 0;  // the claimant it was evicted for, until that one has started
    std::int64_t checkpointed_at = 0;  // of its run: its owner said so; 0: never
    // Of its run's notices before its contract's end: the one that came last, by how many seconds
    // it comes before the end; kNever: none yet.
    std::int64_t noticed_seconds = kNever;

    bool operator==(const JobRow&) const = default;
};

// A task of an array or a component of a heterogeneous job that ran, by which people know it.
struct PartRow {
    JobId id = 0;
    std::uint32_t whole = 0;   // the array's or the first component's id
    std::uint32_t number = 0;  // of the task or the component
    bool is_component = false;

    bool operator==(const PartRow&) const = default;
};

// What is known of a job from its runs, also after slurmctld has forgotten it.
struct JobHistory {
    std::vector<SegmentRow> segments;           // by begin
    std::vector<PreemptionRecord> preemptions;  // as victim or claimant, by time
    std::vector<PartRow> parts;                 // of the job that was asked for
};

// An edit of the budget tree, with the whole tree that holds from `at` on. Numbers rise by time of
// arrival, from 1.
struct TreeEditRow {
    std::int64_t number = 0;
    std::int64_t at = 0;
    std::string user;
    std::string reason;
    std::vector<BudgetChange> changes;
    BudgetTree tree;  // not filled in by LedgerDatabase::edits()

    bool operator==(const TreeEditRow& other) const;
};

// A change of a contract that was signed already, as somebody asked for it. Numbers rise by time.
struct ContractEditRow {
    std::int64_t number = 0;
    std::int64_t at = 0;
    std::string user;
    JobId job = 0;
    std::string job_name;  // as it was named: "12", "12_4"
    std::string owner;
    std::string reason;
    std::vector<ContractChange> changes;

    bool operator==(const ContractEditRow&) const = default;
};

struct PlanNodeRow {
    std::string node;
    std::int64_t gpus = 0;
    std::int64_t cpus = 0;
    std::int64_t memory_mib = 0;

    bool operator==(const PlanNodeRow&) const = default;
};

// A plan that stands (Plan), by names.
struct PlanRow {
    JobId claimant = 0;
    std::string budget;
    std::string user;
    std::int64_t weight_milli = 0;
    std::int64_t commitment_seconds = 0;
    std::int64_t gpus = 0;
    std::int64_t made_at = 0;
    bool express = false;
    std::vector<PlanNodeRow> nodes;
    std::vector<JobId> victims;

    bool operator==(const PlanRow&) const = default;
};

// A job whose turn for an assembly came (DESIGN 2.7), and what became of it. Key: claimant,
// turn_at.
struct AssemblyRow {
    JobId claimant = 0;
    std::int64_t turn_at = 0;
    std::string budget;
    std::string user;
    std::int64_t gpus = 0;
    std::int64_t weight_milli = 0;
    std::int64_t commitment_seconds = 0;
    std::int64_t granted_at = 0;  // 0: not yet
    std::int64_t date_at = 0;
    std::vector<std::string> nodes;
    std::int64_t started_at = 0;
    std::int64_t ended_at = 0;  // 0: it stands, or its turn does
    std::string outcome;        // "started", "claimant-left", "no-longer-fits"

    bool stands() const { return granted_at != 0 && ended_at == 0; }
    bool operator==(const AssemblyRow&) const = default;
};

// A job whose begin time was put off because it may not start yet: until when, and what it was.
struct HeldBackRow {
    JobId job = 0;
    std::int64_t until_at = 0;
    std::int64_t begin_at = 0;

    bool operator==(const HeldBackRow&) const = default;
};

// What the cluster could give from that instant on.
struct CapacityRow {
    std::int64_t at = 0;
    std::int64_t available_weight_milli = 0;

    bool operator==(const CapacityRow&) const = default;
};

// What is written in one transaction, in this order. Everything has a key, so that a batch may be
// written again: nothing changes then.
struct LedgerBatch {
    std::vector<TreeEditRow> edits;  // one whose number is known already is passed over
    std::vector<SegmentRow> begun;   // new ones, and open ones that changed; closed ones stay
    std::vector<SegmentRow> ended;   // closed ones, whole; also when a refund comes later
    std::vector<JobRow> jobs;
    std::vector<JobId> jobs_gone;               // nothing need be kept of them any more
    std::vector<PreemptionRecord> preemptions;  // key: victim, claimant, planned_at
    std::optional<std::vector<PlanRow>> plans;  // all that stand now; nullopt: as before
    std::vector<CapacityRow> capacity;
    std::vector<PartRow> parts;                   // key: id
    std::vector<ContractEditRow> contract_edits;  // one whose number is known is passed over
    std::vector<AssemblyRow> assemblies;
    std::optional<std::vector<HeldBackRow>> held_back;  // all of now; nullopt: as before

    bool empty() const;
    // Adds what `later` holds, as if both had been written one after the other.
    void append(LedgerBatch later);
};

// A closed segment in few bytes: a window may hold a million.
struct ClosedSegment {
    SegmentKey key;
    std::uint32_t budget = 0;  // index into LedgerContents::names
    std::uint32_t user = 0;
    RunKind kind = RunKind::unallocated;
    std::int64_t weight_milli = 0;
    std::int64_t charged_until = 0;
    std::int64_t begun_batch = 0;
    std::int64_t ended_batch = 0;
};

// What a start needs.
struct LedgerContents {
    std::int64_t since_at = 0;
    std::int64_t read_at = 0;  // 0: one window of the ledger after `since_at`
    // The tree that held at `since_at`, if any did, then all later ones, by number.
    std::vector<TreeEditRow> trees;
    std::vector<std::int64_t> tree_batches;  // beside it
    std::vector<SegmentRow> open;            // in the order they were written
    std::vector<std::int64_t> open_batches;  // beside it
    std::vector<ClosedSegment> closed;       // charged in part after `since_at`
    // Whole, ended after the same instant as `preemptions`: the express lane's caps count them.
    std::vector<SegmentRow> express;
    std::vector<std::string> names;             // of budgets and users of `closed`
    std::vector<JobRow> jobs;                   // by id
    std::vector<PlanRow> plans;                 // by made_at
    std::vector<PreemptionRecord> preemptions;  // planned after the instant asked for
    std::vector<CapacityRow> capacity;          // the one at `since_at` and later ones
    // Those that are not over, and of each budget the last grant; by turn_at.
    std::vector<AssemblyRow> assemblies;
    std::vector<HeldBackRow> held_back;
    std::int64_t first_allocated_at = kNever;  // begin of the first allocated segment ever
    // Begin of each budget's first segment ever: an inner one has its own side from then on.
    std::vector<std::pair<std::string, std::int64_t>> first_uses;
    std::int64_t last_edit_number = 0;
};

}  // namespace tranche
