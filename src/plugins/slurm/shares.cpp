// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/shares.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <unordered_map>

#include "engine/engine.hpp"

namespace tranche {
namespace {

constexpr double kMilli = 1000.0;
constexpr double kUnused = 1e9;  // LevelFS of who has used nothing

// One association's numbers.
struct Row {
    double used_gpu_seconds = 0;
    double of_all = 0;  // part of what all budgets used
    double ratio = 0;   // 1 = used what was funded
};

double plain_seconds(const Usage& usage) {
    return static_cast<double>(usage.plain[static_cast<std::size_t>(RunKind::allocated)]) / kMilli;
}

class Numbers {
  public:
    explicit Numbers(const EngineView& view) : view_(view) {
        const Standings& standings = view.standings;
        for (BudgetId id = 0; id < standings.budgets.size(); ++id) {
            if (standings.budgets[id].exists) {
                by_name_.emplace(standings.budgets[id].name, id);
            }
        }
        for (const MemberStanding& member : standings.members) {
            if (member.budget != kNoId) {
                members_.emplace(std::to_string(member.budget) + '/' + member.user, &member);
            }
        }
        all_ = 2 * kRootId < standings.sides.size()
                   ? plain_seconds(standings.sides[2 * kRootId].usage)
                   : 0;
    }

    Row row(const slurmdb_assoc_rec_t& association) const {
        Row out;
        const std::string account = text_of(association.acct);
        const std::string user = text_of(association.user);
        const auto match = view_.tree->match(account, user);
        if (!match.ok() || match.value().name.empty()) {
            return out;
        }
        const auto known = by_name_.find(match.value().name);
        const Standings& standings = view_.standings;
        if (known == by_name_.end() || 2 * known->second >= standings.sides.size()) {
            return out;
        }
        const SideId side = 2 * known->second;
        out.ratio = ratio(side);
        out.used_gpu_seconds = plain_seconds(standings.sides[side].usage);
        if (!user.empty()) {
            const auto member = members_.find(std::to_string(known->second) + '/' + user);
            out.used_gpu_seconds =
                member != members_.end() ? plain_seconds(member->second->usage) : 0;
        }
        out.of_all = all_ > 0 ? std::min(1.0, out.used_gpu_seconds / all_) : 0;
        return out;
    }

  private:
    // As shown_ratio_milli(), in floating point: sshare prints six decimals.
    double ratio(SideId side) const {
        const Standings& standings = view_.standings;
        const double charge = static_cast<double>(standings.sides[side].charge());
        const double funded = static_cast<double>(entitled_fraction(standings, side)) /
                              static_cast<double>(kFractionOne) *
                              static_cast<double>(view_.available_weight_milli) *
                              static_cast<double>(standings.window.full());
        return funded > 0 ? charge / funded : charge > 0 ? kUnused : 0;
    }

    const EngineView& view_;
    std::unordered_map<std::string, BudgetId> by_name_;
    std::unordered_map<std::string, const MemberStanding*> members_;
    double all_ = 0;
};

}  // namespace

double fair_share_factor(long double usage, long double shares) noexcept {
    if (shares <= 0 || !(usage >= 0)) {
        return 0;
    }
    return std::pow(2.0, -static_cast<double>(usage / shares));
}

void publish_shares() {
    if (assoc_mgr_root_assoc == nullptr) {
        return;
    }
    const auto view = Engine::instance().view();
    if (view == nullptr || view->tree == nullptr) {
        return;
    }
    static std::atomic<std::int64_t> published_at{0};
    if (published_at.exchange(view->at) == view->at) {
        return;
    }
    const Numbers numbers(*view);
    // assoc, file, qos, res, tres, user, wckey.
    assoc_mgr_lock_t levels = {WRITE_LOCK, NO_LOCK, NO_LOCK, NO_LOCK, NO_LOCK, NO_LOCK, NO_LOCK};
    assoc_mgr_lock(&levels);
    for_each_in<slurmdb_assoc_rec_t>(assoc_mgr_assoc_list, [&](slurmdb_assoc_rec_t& association) {
        if (association.usage == nullptr) {
            return;
        }
        const Row row = numbers.row(association);
        slurmdb_assoc_usage_t& usage = *association.usage;
        usage.usage_raw = row.used_gpu_seconds;
        usage.usage_norm = row.of_all;
        // sshare itself turns this into the factor, with the association's shares.
        usage.usage_efctv = row.ratio * usage.shares_norm;
        usage.level_fs = row.ratio > 0 ? 1 / row.ratio : kUnused;
        usage.fs_factor = fair_share_factor(row.ratio, 1);
    });
    assoc_mgr_unlock(&levels);
}

void keep_share(slurmdb_assoc_rec_t& association) {
    // slurmctld marks what it wants computed with NO_VAL; nobody must read that as a number.
    if (association.usage != nullptr &&
        association.usage->usage_efctv == static_cast<long double>(NO_VAL)) {
        association.usage->usage_efctv = 0;
    }
}

}  // namespace tranche
