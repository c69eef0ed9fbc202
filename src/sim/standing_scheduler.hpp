// SPDX-License-Identifier: GPL-2.0-or-later
// The product's policy on a cluster that is in the middle of its work: puts the runs of a snapshot
// back before its first pass.
#pragma once

#include <vector>

#include "sim/budget_scheduler.hpp"
#include "sim/snapshot_file.hpp"

namespace tranche::sim {

class StandingScheduler final : public Scheduler {
  public:
    // Both must outlive it. The first pass only puts back what stands: nodes that take nothing new
    // drain a second later (Snapshot::events).
    StandingScheduler(BudgetScheduler& scheduler, const SimState& state,
                      std::vector<StandingRun> runs);

    const char* name() const override { return scheduler_.name(); }
    void submitted(JobIndex job) override { scheduler_.submitted(job); }
    void left_queue(JobIndex job) override { scheduler_.left_queue(job); }
    void run_over(JobIndex job) override { scheduler_.run_over(job); }
    void changed(JobIndex job) override { scheduler_.changed(job); }
    void node_changed(std::uint32_t node) override { scheduler_.node_changed(node); }
    void event(const WorkloadEvent& event) override { scheduler_.event(event); }
    void pass(std::int64_t now, Orders& orders) override;
    std::int64_t wake_at() const override;

  private:
    void put_back(Orders& orders);

    BudgetScheduler& scheduler_;
    const SimState& state_;
    std::vector<StandingRun> runs_;
    std::int64_t wake_at_ = kNever;  // of the pass after the first
    bool has_begun_ = false;
};

}  // namespace tranche::sim
