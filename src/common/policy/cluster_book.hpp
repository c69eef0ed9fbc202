// SPDX-License-Identifier: GPL-2.0-or-later
// A cluster kept up to date change by change, for a host that makes a pass after each: the work of
// a pass follows from what can happen in it, not from the length of the queue.
//
// Decides by the same objects as run_pass() on a fresh view. A property test compares: what one
// decision makes possible may come in the next round of the same instant instead. Slots are indices
// into view().pending and view().runs; they stay until removed and are used again after. Jobs are
// governed and of one task. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/model/lazy_standings.hpp"
#include "common/policy/job_classes.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/pass_sums.hpp"
#include "common/policy/ranked_queue.hpp"

namespace tranche {

class ClusterBook {
  public:
    // Both outlive this. Nodes are empty.
    ClusterBook(const Settings& settings, UsageLedger& ledger, std::vector<Node> nodes);
    ClusterBook(const ClusterBook&) = delete;
    ClusterBook& operator=(const ClusterBook&) = delete;

    const ClusterView& view() const { return view_; }
    // The standings at the instant last advanced to.
    const Standings& standings() const { return *standings_now_; }

    // Time goes on: contracts that end become takeable. Before all else that happens at `now`.
    void advance(std::int64_t now);

    // Which nodes a job may use, for JobShape::node_set; 0 is all of them.
    std::uint32_t node_set(std::vector<bool> allowed);

    std::uint32_t add_pending(PendingJob job);
    void remove_pending(std::uint32_t slot);
    // Applies a change to a pending job that its place in the queue depends on.
    template <typename Change>
    void change_pending(std::uint32_t slot, Change&& change) {
        unqueue(slot);
        change(view_.pending[slot]);
        enqueue(slot);
    }

    std::uint32_t add_run(Run run);
    void remove_run(std::uint32_t slot);
    template <typename Change>
    void change_run(std::uint32_t slot, Change&& change) {
        uncount(slot);
        change(view_.runs[slot]);
        count(slot);
    }

    void add_plan(Plan plan, std::uint32_t pending_slot);
    void remove_plan(JobId claimant);  // its claimant, if it still waits, is queued again
    void set_assembly(const Assembly& assembly);
    void remove_assembly(JobId claimant);
    void add_grant(const AssemblyGrant& grant) { view_.grants.push_back(grant); }
    void add_express_use(const ExpressUse& use) { view_.express_uses.push_back(use); }
    void end_express_use(const std::string& user, std::int64_t started_at, std::int64_t ended_at);
    void note_evictions(std::int64_t count);

    void change_node(NodeIndex node, bool usable, bool draining, std::int64_t drain_started_at);
    // After an edit of the tree, or when the settings changed.
    void rebuild();

    PassResult pass();
    // Sums as run_pass() would make them from the view; for tests.
    const PassSums& sums() const { return sums_; }

  private:
    struct RunAccount {
        std::uint64_t version = 0;
        bool committed = false, takeable = false;
        std::int64_t commit_until = 0, commit_seconds = 0;
        std::int64_t protected_gpus = 0;
    };
    struct Review {
        std::int64_t at;
        std::uint32_t run;
        std::uint64_t version;
        bool operator>(const Review& other) const noexcept {
            return std::tie(at, run) > std::tie(other.at, other.run);
        }
    };
    void enqueue(std::uint32_t slot);
    void unqueue(std::uint32_t slot);
    std::uint32_t class_for(const PendingJob& job, bool allocated);
    void describe(JobClass& jobs) const;
    ClassGroup& group_of(const JobClass& jobs);
    void fill(std::uint32_t c);
    void unfill(std::uint32_t c);
    void count(std::uint32_t slot);
    void uncount(std::uint32_t slot);
    void hold(const Run& run, std::int64_t sign);
    void set_takeable(std::uint32_t slot, bool takeable);
    void owe(const Plan& plan, std::int64_t sign);

    const Settings& settings_;
    CommitmentSums commitments_;
    LazyStandings lazy_;
    Standings* standings_now_ = nullptr;
    ClusterView view_;
    PassSums sums_;
    JobClasses classes_;
    std::unordered_map<std::string, std::vector<std::uint32_t>> class_index_;
    std::map<std::pair<BudgetId, bool>, std::uint32_t> colours_;  // classes of each so far
    RankedQueue queue_;
    std::vector<bool> queued_;  // by slot of pending
    std::vector<std::uint32_t> free_pending_, free_runs_;
    std::vector<RunAccount> accounts_;
    std::vector<std::uint32_t> group_of_;  // by budget: place in PassSums::groups; 0 is free runs
    std::uint64_t versions_ = 0;
    std::priority_queue<Review, std::vector<Review>, std::greater<>> reviews_;
    std::deque<std::pair<std::int64_t, std::int64_t>> evictions_;  // instant, how many
};

}  // namespace tranche
