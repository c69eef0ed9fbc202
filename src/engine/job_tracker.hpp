// SPDX-License-Identifier: GPL-2.0-or-later
// Follows the host's jobs from snapshot to snapshot: when runs begin, pause, turn and end, what
// the ledger gets of it, and the policy's view of the same instant.
//
// One thread. No clock of its own: instants come with the snapshots. Everything it wants written
// goes into a LedgerBatch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/config/contract_request.hpp"
#include "common/config/settings.hpp"
#include "common/model/usage_ledger.hpp"
#include "common/store/ledger_rows.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

class JobTracker {
  public:
    // Takes over the open segments and jobs of an earlier life.
    void restore(const LedgerContents& contents);

    // Tells a ledger that was built anew of the open segments; those it knows are passed over.
    void reopen_segments(UsageLedger& ledger) const;

    // Compares with the snapshot before. Runs that began and ended are told to the ledger.
    void observe(const HostSnapshot& snapshot, const Settings& settings, const BudgetTree& tree,
                 UsageLedger& ledger, LedgerBatch& out);

    // The policy's view of the snapshot last observed, its commitments not yet counted.
    void fill(const HostSnapshot& snapshot, const Settings& settings, UsageLedger& ledger,
              ClusterView& view, std::vector<JobCard>& cards) const;

    // Should these start before the next pass, they start by the lane, or free (--free-first, or
    // because of the headroom); a task that has no record yet as its array's.
    void expect_starts(std::unordered_set<JobId> express, std::unordered_set<JobId> as_free);
    // A free run of an allocated job turns allocated in place.
    void turn(JobId id, std::int64_t at, UsageLedger& ledger, LedgerBatch& out);

    // The victim of a plan: it leaves for the claimant, and is told what its next run gets.
    void set_leaving(JobId victim, JobId claimant, bool express, const Settings& settings,
                     LedgerBatch& out);
    // The contract was changed while it waited or ran; a run gets what is left of the new one.
    void change_contract(const HostJob& job, const ContractTerms& before,
                         const ContractTerms& after, std::int64_t now, UsageLedger& ledger,
                         LedgerBatch& out);
    // Its owner has just written a checkpoint. False: it does not run.
    bool checkpointed(JobId id, std::int64_t at, LedgerBatch& out);
    // The last notice of its run (JobRow).
    std::int64_t noticed_seconds(JobId id) const;
    void set_noticed(JobId id, std::int64_t seconds, LedgerBatch& out);
    // The claimant has started or left; `stays`: the victim keeps running after all.
    void clear_leaving(JobId victim, bool stays, LedgerBatch& out);
    // What keeps a pending job from starting, Slurm's own delay of a requeue apart.
    StartBlock block_of(const HostJob& job) const;
    // Jobs that were requeued and wait for nobody: to be made eligible.
    std::vector<JobId> to_release(const HostSnapshot& snapshot) const;

    // Whether a claimant needs another room than its plan makes: it was changed since.
    static bool wants_other_room(const HostJob& claimant, const HostSnapshot& snapshot,
                                 const Plan& plan);

    std::size_t open_runs() const;
    const SegmentRow* open_segment(JobId id) const;

  private:
    struct Tracked {
        JobRow row;
        ContractTerms terms;
        std::string budget;                 // that would pay for the next run
        std::optional<SegmentRow> segment;  // of the current run, open
        std::int64_t contract_seconds = 0;  // of the current run
        std::int64_t started_at = 0;        // of the current run; after a restart of its segment
        std::int64_t weight_milli = 0;      // of the current run while it works
        std::int64_t paused_at = 0;         // suspended since; 0: not
        std::int64_t left_seconds = 0;      // of the contract, while suspended
        std::int64_t suspended_before = 0;  // suspended_seconds then; 0 where not known
        bool wants_turn = false;
        bool unseen_task = false;  // of an array, split off by the host as it started
        JobId leaving_for = 0;
        std::vector<std::string> node_names;
        std::int64_t ended_submit_at = -1;  // the run with that submit time is over
        std::uint64_t seen = 0;             // the last snapshot it was in
    };

    // A run by the lane that ended within the last day.
    struct PastExpress {
        JobId job = 0;
        std::int64_t submit_at = 0;
        ExpressUse use;
    };

    static bool is_put_off(const HostJob& job, const Tracked& tracked);
    static void join_components(ClusterView& view, const std::vector<JobCard>& cards);
    void restore_express(const LedgerContents& contents);
    void read_terms(const HostJob& job, const Settings& settings, const BudgetTree& tree,
                    Tracked& tracked);
    void begin_run(const HostJob& job, const HostSnapshot& snapshot, const Settings& settings,
                   UsageLedger& ledger, Tracked& tracked, LedgerBatch& out);
    void follow_run(const HostJob& job, const HostSnapshot& snapshot, const Settings& settings,
                    UsageLedger& ledger, Tracked& tracked, LedgerBatch& out);
    void end_run(std::int64_t at, RunEnd end, const HostSnapshot& snapshot,
                 const Settings& settings, UsageLedger& ledger, Tracked& tracked, LedgerBatch& out);
    // False: the ledger knows the charge already.
    bool open_segment(std::int64_t at, Tracked& tracked, UsageLedger& ledger, LedgerBatch& out);
    void close_segment(std::int64_t at, std::int64_t charged_until, const std::string& reason,
                       Tracked& tracked, UsageLedger& ledger, LedgerBatch& out);

    std::unordered_map<JobId, Tracked> jobs_;
    std::unordered_set<JobId> express_, as_free_;
    std::vector<PastExpress> past_express_;
    std::uint64_t round_ = 0;
};

// What a job's GPUs (and CPUs, where they have a price) cost, in thousandths.
std::int64_t held_weight_milli(const HostJob& job, const Settings& settings);

std::string_view to_text(RunEnd end) noexcept;  // "completed", "node-failure", …

}  // namespace tranche
