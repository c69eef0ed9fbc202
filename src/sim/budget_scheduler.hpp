// SPDX-License-Identifier: GPL-2.0-or-later
// The product's policy on the virtual cluster: the core ranks the queue and decides each pass,
// this translates. Policies `budget` and `article` differ by their Settings only.
//
// JobIds of the core are JobIndex + 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "common/model/cluster.hpp"
#include "common/model/usage_ledger.hpp"
#include "common/policy/cluster_book.hpp"
#include "common/policy/pass.hpp"
#include "sim/scheduler.hpp"

namespace tranche::sim {

class BudgetScheduler final : public Scheduler {
  public:
    // `state` must outlive it. `past` is what the ledger holds at `begin_at`.
    BudgetScheduler(const SimState& state, const Settings& settings, const BudgetTree& tree,
                    std::vector<PastUse> past, std::int64_t begin_at);
    ~BudgetScheduler() override;

    const char* name() const override;
    void submitted(JobIndex job) override;
    void left_queue(JobIndex job) override;
    void run_over(JobIndex job) override;
    void changed(JobIndex job) override;
    void node_changed(std::uint32_t node) override;
    void event(const WorkloadEvent& event) override;
    void pass(std::int64_t now, Orders& orders) override;
    std::int64_t wake_at() const override { return wake_at_; }

    // A run that was there before the begin: started by its host, not by a pass. The job waits.
    void adopt(const StartOrder& order, Orders& orders);

    // To look at between passes; they change nothing.
    std::vector<JobIndex> ranked(std::int64_t now);  // the pending jobs, best first
    Standings standings(std::int64_t now);           // commitments included
    // When the first jobs of the queue are expected to start; kNever: no date.
    std::vector<std::pair<JobIndex, std::int64_t>> expected(std::int64_t now);
    // Why a pending or running job is where it is, several lines.
    std::string explain(JobIndex job, std::int64_t now);

    // Called after each round of a pass. Jobs and runs of the view whose id is 0 are empty places.
    std::function<void(const ClusterView&, const Standings&, const PassResult&)> on_pass;

  private:
    struct JobNotes;
    struct LedgerStep;
    struct Boot;

    void open_ledger();
    void open_book();
    void restart();
    void replay(const LedgerStep& step);
    void record(const LedgerStep& step);
    void begin_segment(JobIndex job);
    void end_segment(JobIndex job, std::int64_t charged_until);
    void place(JobIndex job);
    void sync();
    void finish_boots();
    void add_pending(JobIndex job);
    void add_run(JobIndex job);
    void add_turn(JobIndex job);
    void remove_turn(JobIndex job);
    void release_waiting(JobIndex claimant);
    void drop_plan(JobIndex claimant);
    void warn(JobIndex job, JobId claimant, const std::string& reason, bool express,
              Orders& orders);
    void start(const StartDecision& decision, Orders& orders);
    void follow(const PassResult& result, Orders& orders);
    void follow_large(const PassResult& result, Orders& orders);
    ClusterView snapshot(std::vector<JobIndex>* pending_jobs) const;
    PendingJob pending_job(JobIndex job);
    Run run_of(JobIndex job) const;
    TeamPriority priority_of(const SimJob& job) const;
    std::int64_t first_submit_of(const SimJob& job) const;
    std::int64_t weight_of(const SimJob& job) const;
    bool drains_by_contract(const SimNodeState& node) const;

    const SimState& state_;
    const Settings settings_;
    BudgetTree tree_;
    const std::vector<PastUse> past_;
    const std::int64_t begin_at_;
    std::unique_ptr<UsageLedger> ledger_;
    std::unique_ptr<ClusterBook> book_;
    std::vector<LedgerStep> steps_;  // since begin_at, for a restart
    std::vector<BudgetTree> trees_;
    std::vector<JobNotes> notes_;                                  // by job
    std::vector<std::int64_t> drain_started_at_;                   // by node
    std::unordered_map<JobIndex, std::vector<JobIndex>> waiting_;  // evicted jobs by claimant
    std::unordered_map<JobIndex, AssemblyRecord> assemblies_;
    std::vector<Boot> boots_;  // a heap
    std::int64_t wake_at_ = kNever;
};

}  // namespace tranche::sim
