// SPDX-License-Identifier: GPL-2.0-or-later
// What of the published view one viewer may see (PrivateData), and how the rest is hidden.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/policy/explain.hpp"
#include "engine/answers.hpp"

namespace tranche {

inline constexpr std::string_view kHiddenBudget = "another budget";

// Outlived by the view and the viewer.
class Sight {
  public:
    Sight(const EngineView& view, const Viewer& viewer) : view_(view), viewer_(viewer) {
        if (sees_all_budgets()) {
            return;
        }
        for (const JobCard& card : view.cards) {
            if (card.uid == viewer.uid) {
                own_.push_back(card.budget);
            }
        }
        for (const auto& [name, budget] : view.tree->budgets()) {
            if (std::binary_search(budget.managers.begin(), budget.managers.end(), viewer.user)) {
                managed_.push_back(name);
            }
            if (BudgetTree::matches_user(budget, viewer.user)) {
                own_.push_back(name);
            }
        }
    }

    bool sees_all_jobs() const { return viewer_.is_operator || !viewer_.jobs_private; }
    bool sees_all_budgets() const { return viewer_.is_operator || !viewer_.usage_private; }
    bool job(const JobCard& card) const { return sees_all_jobs() || card.uid == viewer_.uid; }
    bool job_of(const std::string& user) const { return sees_all_jobs() || user == viewer_.user; }
    bool budget(const std::string& name) const {
        return sees_all_budgets() || std::find(own_.begin(), own_.end(), name) != own_.end() ||
               std::any_of(managed_.begin(), managed_.end(), [&](const std::string& above) {
                   return name == above || view_.tree->is_below(name, above);
               });
    }
    // Of a side's name, "progA (own)" too.
    bool side(const std::string& name) const {
        constexpr std::string_view kOwn = " (own)";
        const bool own = name.size() > kOwn.size() && name.ends_with(kOwn);
        return budget(own ? name.substr(0, name.size() - kOwn.size()) : name);
    }

    void hide(SideNumbers& numbers) const {
        if (!side(numbers.name)) {
            numbers = {std::string(kHiddenBudget), 0, 0};
        }
    }
    void hide_level(std::string& level) const {
        if (!level.empty() && level != kRootBudget && !budget(level)) {
            level = kHiddenBudget;
        }
    }
    void hide_job(JobId& job, std::string& user, std::string& budget_name) const {
        if (!job_of(user)) {
            job = 0;
            user.clear();
        }
        if (!budget(budget_name)) {
            budget_name = kHiddenBudget;
        }
    }
    void hide(TakeOutlook& outlook) const {
        hide_job(outlook.job, outlook.user, outlook.budget);
        if (!side(outlook.claimant_side.name) || !side(outlook.victim_side.name)) {
            outlook.over_milli_hours = 0;
        }
        hide(outlook.claimant_side);
        hide(outlook.victim_side);
        hide_level(outlook.level);
    }
    void hide(PendingExplanation& e) const {
        for (RankLoss& loss : e.losses) {
            hide_job(loss.job, loss.user, loss.budget);
            if (!side(loss.theirs.name) || !side(loss.ours.name)) {
                loss.behind_milli_hours = 0;
            }
            hide(loss.ours);
            hide(loss.theirs);
            hide_level(loss.level);
        }
        if (e.own_loss && !job_of(e.own_loss->user)) {
            e.own_loss->job = 0;
            e.own_loss->user.clear();
        }
        if (e.own_loss && !sees_all_budgets()) {
            e.own_loss->their_user_milli_hours = 0;
        }
        if (!sees_all_jobs()) {
            e.plan_victims.assign(e.plan_victims.size(), 0);
            e.waits_for = 0;
        }
        for (auto* list : {&e.could_take, &e.cannot_take}) {
            for (TakeOutlook& outlook : *list) {
                hide(outlook);
            }
        }
    }
    void hide(RunningExplanation& e) const {
        if (!sees_all_jobs()) {
            e.leaving_for = 0;
        }
        for (TakeOutlook& outlook : e.takers) {
            hide(outlook);
        }
    }
    // False: it is nothing of his.
    bool hide(PreemptionRecord& r) const {
        if (!sees_all_jobs() && !job_of(r.victim_user) && !job_of(r.claimant_user)) {
            return false;
        }
        hide_job(r.victim, r.victim_user, r.victim_budget);
        hide_job(r.claimant, r.claimant_user, r.claimant_budget);
        if (r.victim == 0) {
            r.victim_label.clear();
        }
        if (r.claimant == 0) {
            r.claimant_label.clear();
        }
        if (!side(r.victim_side)) {
            r.victim_side = kHiddenBudget;
            r.victim_charge_milli_hours = r.victim_funded_milli_hours = 0;
        }
        if (!side(r.claimant_side)) {
            r.claimant_side = kHiddenBudget;
            r.claimant_charge_milli_hours = r.claimant_funded_milli_hours = 0;
        }
        hide_level(r.level);
        return true;
    }

  private:
    const EngineView& view_;
    const Viewer& viewer_;
    std::vector<std::string> own_, managed_;
};

}  // namespace tranche
