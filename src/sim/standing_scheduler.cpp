// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/standing_scheduler.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tranche::sim {

StandingScheduler::StandingScheduler(BudgetScheduler& scheduler, const SimState& state,
                                     std::vector<StandingRun> runs)
    : scheduler_(scheduler), state_(state), runs_(std::move(runs)) {}

void StandingScheduler::put_back(Orders& orders) {
    std::unordered_map<std::string_view, JobIndex> indices;
    for (JobIndex job = 0; job < state_.jobs.size(); ++job) {
        indices.emplace(state_.jobs[job].spec->id, job);
    }
    for (const StandingRun& run : runs_) {
        const auto it = indices.find(run.job);
        // One that the settings refuse now is not there.
        if (it == indices.end() || state_.jobs[it->second].state != JobState::pending) {
            continue;
        }
        StartOrder order;
        order.job = it->second;
        order.where = run.where;
        order.kind = run.kind;
        order.express = run.express;
        // An allocated run past its contract was under one: it is over in a second.
        order.contract_seconds =
            run.kind == RunKind::allocated ? std::max<std::int64_t>(run.contract_seconds, 1) : 0;
        scheduler_.adopt(order, orders);
    }
}

void StandingScheduler::pass(std::int64_t now, Orders& orders) {
    if (!has_begun_) {
        has_begun_ = true;
        put_back(orders);
        wake_at_ = now + 1;
        return;
    }
    wake_at_ = kNever;
    scheduler_.pass(now, orders);
}

std::int64_t StandingScheduler::wake_at() const {
    return wake_at_ != kNever ? wake_at_ : scheduler_.wake_at();
}

}  // namespace tranche::sim
