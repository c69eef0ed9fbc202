// SPDX-License-Identifier: GPL-2.0-or-later
// How good the estimates of start times are: takes them at many instants of a simulation and says
// beside each when the job did start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/budget_scheduler.hpp"
#include "sim/record.hpp"
#include "sim/scheduler.hpp"

namespace tranche::sim {

struct StartEstimate {
    std::int64_t at = 0;  // when it was made
    JobIndex job = 0;
    std::uint32_t rank = 0;
    std::int64_t expected_at = kNever;  // kNever: no date
};

// Does what the scheduler does, and asks it every `every_seconds` after a pass.
class EstimatingScheduler final : public Scheduler {
  public:
    EstimatingScheduler(Scheduler& scheduler, BudgetScheduler& policy, std::int64_t every_seconds)
        : scheduler_(scheduler), policy_(policy), every_seconds_(every_seconds) {}

    const char* name() const override { return scheduler_.name(); }
    void submitted(JobIndex job) override { scheduler_.submitted(job); }
    void left_queue(JobIndex job) override { scheduler_.left_queue(job); }
    void run_over(JobIndex job) override { scheduler_.run_over(job); }
    void changed(JobIndex job) override { scheduler_.changed(job); }
    void node_changed(std::uint32_t node) override { scheduler_.node_changed(node); }
    void event(const WorkloadEvent& event) override { scheduler_.event(event); }
    void pass(std::int64_t now, Orders& orders) override;
    std::int64_t wake_at() const override { return scheduler_.wake_at(); }

    std::vector<StartEstimate> take() { return std::move(estimates_); }

  private:
    Scheduler& scheduler_;
    BudgetScheduler& policy_;
    const std::int64_t every_seconds_;
    std::int64_t next_at_ = -1;
    std::vector<StartEstimate> estimates_;
};

// One JSON object a line: `at`, `job`, `class`, `rank`, `expected_at` (null: no date), `started_at`
// (null: never) and `left_at`, if it left the queue without a start.
std::string estimates_trace(const SimRecord& record, const std::vector<StartEstimate>& estimates);

}  // namespace tranche::sim
