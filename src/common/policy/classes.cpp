// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/classes.hpp"

#include <algorithm>

namespace tranche {
namespace {

constexpr std::int64_t kDay = 86400;

}  // namespace

std::vector<bool> members_that_may_raise(const ClusterView& view, const Standings& standings,
                                         const Settings& settings, RunKind kind) {
    std::vector<bool> has_pending(standings.members.size(), false);
    for (const PendingJob& job : view.pending) {
        has_pending[job.member] = true;
    }
    std::vector<UInt128> charges;
    charges.reserve(standings.members.size());
    for (const MemberStanding& member : standings.members) {
        charges.push_back(member.charge_of(kind));
    }
    return members_that_may_raise(has_pending, charges, standings, settings);
}

std::vector<bool> members_that_may_raise(const std::vector<bool>& has_pending,
                                         const std::vector<UInt128>& charges,
                                         const Standings& standings, const Settings& settings) {
    std::vector<bool> may(charges.size(), true);
    if (settings.raised_share_ppm == 0) {
        return may;
    }
    std::vector<UInt128> sums(standings.budgets.size(), 0);
    std::vector<std::uint64_t> users(standings.budgets.size(), 0);
    for (MemberId m = 0; m < charges.size(); ++m) {
        if (has_pending[m] || charges[m] > 0) {
            const BudgetId budget = standings.members[m].budget;
            sums[budget] += charges[m];
            ++users[budget];
        }
    }
    for (MemberId m = 0; m < charges.size(); ++m) {
        if (charges[m] > 0) {
            const BudgetId budget = standings.members[m].budget;
            may[m] = compare_products(charges[m], static_cast<UInt128>(users[budget]) * kPpm,
                                      sums[budget],
                                      static_cast<UInt128>(settings.raised_share_ppm)) <= 0;
        }
    }
    return may;
}

ExpressLane::ExpressLane(const ClusterView& view, const Standings& standings,
                         const Settings& settings, const std::vector<std::uint32_t>* express_runs)
    : view_(view), standings_(standings), settings_(settings) {
    limit_gpus_ = std::max(settings.express_gpus,
                           view.available_gpus() * settings.express_fraction_ppm / kPpm);
    const auto consider = [this](std::uint32_t r) {
        const Run& run = view_.runs[r];
        if (run.express && run.under_contract(view_.now)) {
            gpus_ += run.gpus;
            runs_.push_back(r);
        }
    };
    if (express_runs != nullptr) {
        std::for_each(express_runs->begin(), express_runs->end(), consider);
    } else {
        for (std::uint32_t r = 0; r < view.runs.size(); ++r) {
            consider(r);
        }
    }
    for (const Plan& plan : view.plans) {
        gpus_ += plan.express ? plan.gpus : 0;
    }
}

ExpressLane::UserUse& ExpressLane::use_of(std::string_view user) {
    for (UserUse& use : users_) {
        if (use.user == user) {
            return use;
        }
    }
    UserUse use;
    use.user = user;
    for (const std::uint32_t r : runs_) {
        const Run& run = view_.runs[r];
        use.gpus += standings_.members[run.member].user == user ? run.gpus : 0;
    }
    for (const Plan& plan : view_.plans) {
        if (plan.express && standings_.members[plan.member].user == user) {
            use.gpus += plan.gpus;
            use.gpu_seconds += plan.gpus * settings_.express_min_runtime_seconds;
        }
    }
    for (const ExpressUse& past : view_.express_uses) {
        const std::int64_t end = past.ended_at == 0 ? view_.now : past.ended_at;
        if (end > view_.now - kDay && past.user == user) {
            // Each start counts at least the lane's own minimum.
            const std::int64_t seconds = std::max(end - std::max(past.started_at, view_.now - kDay),
                                                  settings_.express_min_runtime_seconds);
            use.gpu_seconds += past.gpus * seconds;
        }
    }
    users_.push_back(use);
    return users_.back();
}

ExpressCap ExpressLane::check(std::string_view user, std::int64_t gpus) {
    return check(use_of(user), gpus);
}

ExpressCap ExpressLane::check(MemberId member, std::int64_t gpus) {
    if (by_member_.empty()) {
        by_member_.assign(standings_.members.size(), 0);
    }
    if (by_member_[member] == 0) {
        const UserUse& use = use_of(standings_.members[member].user);
        by_member_[member] = static_cast<std::uint32_t>(&use - users_.data()) + 1;
    }
    return check(users_[by_member_[member] - 1], gpus);
}

ExpressCap ExpressLane::check(const UserUse& use, std::int64_t gpus) const {
    if (use.gpus + gpus > settings_.express_gpus_per_user) {
        return ExpressCap::user_gpus;
    }
    if (gpus_ + gpus > limit_gpus_) {
        return ExpressCap::lane_gpus;
    }
    if (use.gpu_seconds + gpus * settings_.express_min_runtime_seconds >
        settings_.express_hours_per_user * 3600) {
        return ExpressCap::user_hours;
    }
    return ExpressCap::none;
}

void ExpressLane::add(std::string_view user, std::int64_t gpus) {
    gpus_ += settings_.has(Rule::express_caps_from_plan) ? gpus : 0;
    add_ranked(user, gpus);
}

void ExpressLane::add_ranked(std::string_view user, std::int64_t gpus) {
    gpus_ += settings_.has(Rule::express_caps_from_plan) ? 0 : gpus;
    UserUse& use = use_of(user);
    use.gpus += gpus;
    use.gpu_seconds += gpus * settings_.express_min_runtime_seconds;
}

std::int64_t protected_gpus_allowed(const ClusterView& view, const Settings& settings) {
    const std::int64_t nodes = view.usable_nodes_with_gpus();
    const std::int64_t gpus = view.available_gpus();
    if (nodes == 0) {
        return 0;
    }
    const std::int64_t open_nodes = nodes * (kPpm - settings.max_protected_fraction_ppm) / kPpm;
    return gpus - open_nodes * (gpus / nodes);
}

}  // namespace tranche
