// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/budget_lookup.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace tranche {

namespace {

constexpr std::size_t kSmallTree = 500;
constexpr std::int64_t kSecondsPerHour = 3600;
// Behind every job that is there, wherever all else is equal.
constexpr JobId kNewJob = std::numeric_limits<JobId>::max();

BudgetId budget_id(const Standings& standings, const std::string& name) {
    for (BudgetId id = 0; id < standings.budgets.size(); ++id) {
        if (standings.budgets[id].exists && standings.budgets[id].name == name) {
            return id;
        }
    }
    return kNoBudgetId;
}

MemberId member_id(Standings& standings, BudgetId budget, const std::string& user) {
    for (MemberId id = 0; id < standings.members.size(); ++id) {
        if (standings.members[id].budget == budget && standings.members[id].user == user) {
            return id;
        }
    }
    MemberStanding member;
    member.budget = budget;
    member.user = user;
    standings.members.push_back(std::move(member));
    return static_cast<MemberId>(standings.members.size() - 1);
}

// The new job's place among the pending ones, 1 = next; 0 if working it out would take too long.
std::int64_t place_of(const EngineView& view, const StandingQuestion& question, BudgetId budget) {
    if (view.view.pending.size() > kSmallQueue || view.standings.budgets.size() > kSmallTree ||
        view.standings.members.size() > kSmallTree) {
        return 0;
    }
    Standings standings = view.standings;
    ClusterView cluster;
    cluster.now = view.view.now;
    cluster.pending = view.view.pending;
    cluster.plans = view.view.plans;
    cluster.express_uses = view.view.express_uses;
    for (const Run& run : view.view.runs) {
        if (run.express) {
            cluster.runs.push_back(run);
        }
    }
    Node all;  // ranking asks only how many GPUs there are
    all.gpus = view.view.available_gpus();
    cluster.nodes.push_back(all);

    PendingJob job;
    job.id = kNewJob;
    job.budget = budget;
    job.member = member_id(standings, budget, question.user_name);
    job.shape.gpus = question.gpus;
    job.shape.nodes = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(question.nodes, 1, std::numeric_limits<std::int32_t>::max()));
    job.weight_milli = question.weight_milli;
    job.min_runtime_seconds = question.min_runtime_seconds;
    job.first_submit_at = view.view.now;
    job.team_priority = question.team_priority;
    cluster.pending.push_back(job);

    const auto index = static_cast<std::uint32_t>(cluster.pending.size() - 1);
    std::unordered_set<std::uint32_t> before;
    for (const RankedEntry& entry : rank_queue(cluster, standings, *view.settings)) {
        if (entry.job == index) {
            return static_cast<std::int64_t>(before.size()) + 1;
        }
        before.insert(entry.job);
    }
    return 0;
}

}  // namespace

Result<BudgetStanding> ViewBudgetLookup::resolve(const StandingQuestion& question) const {
    const auto match =
        view_.tree->match(question.account, question.user_name, question.requested_budget);
    if (!match) {
        return match.failure();
    }
    BudgetStanding standing;
    standing.name = match->name;
    standing.queue_length = static_cast<std::int64_t>(view_.view.pending.size()) + 1;
    const BudgetId id = match->name.empty() ? kNoBudgetId : budget_id(view_.standings, match->name);
    if (id == kNoBudgetId || view_.standings.budgets[id].path.empty()) {
        return standing;
    }
    const SideId side = view_.standings.budgets[id].path.back();
    const auto allocated = static_cast<std::size_t>(RunKind::allocated);
    standing.funded = view_.standings.funded(id);
    standing.charged_gpu_milli_hours = static_cast<std::int64_t>(
        view_.standings.sides[side].usage.plain[allocated] / kSecondsPerHour);
    if (side < view_.funded_milli_seconds.size()) {
        standing.funded_gpu_milli_hours = view_.funded_milli_seconds[side] / kSecondsPerHour;
    }
    const std::uint64_t ratio =
        shown_ratio_milli(view_.standings, side, view_.available_weight_milli);
    if (ratio <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        standing.ratio_milli = static_cast<std::int64_t>(ratio);
    }
    if (standing.funded && question.min_runtime_seconds > 0 && question.weight_milli > 0) {
        standing.position = place_of(view_, question, id);
    }
    return standing;
}

}  // namespace tranche
