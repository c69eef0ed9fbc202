// SPDX-License-Identifier: GPL-2.0-or-later
// The product's policy on the virtual cluster: the core ranks the queue and decides each pass,
// this translates. Policies `budget` and `article` differ by their Settings only.
//
// JobIds of the core are JobIndex + 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "common/model/cluster.hpp"
#include "common/model/usage_ledger.hpp"
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

    // To look at between passes; they change nothing.
    std::vector<JobIndex> ranked(std::int64_t now);  // the pending jobs, best first
    Standings standings(std::int64_t now);           // commitments included
    // Why a pending or running job is where it is, several lines.
    std::string explain(JobIndex job, std::int64_t now);

    // Called after each round of a pass.
    std::function<void(const ClusterView&, const Standings&, const PassResult&)> on_pass;

  private:
    struct JobNotes;
    struct LedgerStep;

    void open_ledger();
    void rebuild_ledger();
    void replay(const LedgerStep& step);
    void record(const LedgerStep& step);
    void begin_segment(JobIndex job);
    void end_segment(JobIndex job, std::int64_t charged_until);
    void place(JobIndex job);
    void drop_plan(JobIndex claimant);
    void follow(const ClusterView& view, const PassResult& result, std::int64_t now,
                Orders& orders);
    ClusterView view(std::int64_t now);
    PendingJob pending_job(JobIndex job) const;
    Run run_of(JobIndex job, std::int64_t now) const;
    std::int64_t weight_of(const SimJob& job) const;

    const SimState& state_;
    const Settings settings_;
    BudgetTree tree_;
    const std::vector<PastUse> past_;
    const std::int64_t begin_at_;
    std::unique_ptr<UsageLedger> ledger_;
    std::vector<LedgerStep> steps_;  // since begin_at, for a restart
    std::vector<BudgetTree> trees_;
    std::vector<JobNotes> notes_;  // by job
    std::set<JobIndex> pending_, running_;
    std::vector<Plan> plans_;
    std::vector<ExpressUse> express_;
    std::vector<std::int64_t> evictions_;
    std::int64_t wake_at_ = kNever;
};

}  // namespace tranche::sim
