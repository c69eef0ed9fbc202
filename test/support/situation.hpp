// SPDX-License-Identifier: GPL-2.0-or-later
// One instant of a small cluster, written as a scenario file would: budgets, past use, running and
// pending jobs by name. Times are seconds from the scenario's zero, `now` is the instant that is
// looked at.
//
// The settings are a scenario's (DESIGN 4.6): no lane, no headroom, no RaisedShare,
// PreemptWithinBudget=both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/model/usage_ledger.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/ranking.hpp"

namespace tranche {

inline Settings scenario_settings() {
    Settings settings;
    settings.reservations = 0;
    settings.max_assemblies = 0;
    settings.assembly_pause_seconds = 0;
    settings.express_fraction_ppm = 0;
    settings.max_protected_fraction_ppm = kPpm;
    settings.raised_share_ppm = 0;
    settings.preempt_within_budget = PreemptWithinBudget::both;
    return settings;
}

inline Budget make_budget(std::string name, std::uint32_t shares, std::string parent = "root") {
    Budget budget;
    budget.name = std::move(name);
    budget.parent = std::move(parent);
    budget.shares = shares;
    return budget;
}

inline BudgetTree make_tree(std::vector<Budget> budgets) {
    Result<BudgetTree> tree = BudgetTree::build(std::move(budgets));
    EXPECT_TRUE(tree.ok()) << (tree.ok() ? "" : tree.error());
    return tree.ok() ? std::move(tree).value() : BudgetTree();
}

inline UsageLedger::Rules rules_of(const Settings& settings) {
    UsageLedger::Rules rules;
    rules.window = settings.window();
    rules.backdate_seconds = settings.max_min_runtime_seconds;
    rules.entitlement_history = settings.entitlement_history;
    rules.pooled_by_default = settings.sharing == Sharing::pooled;
    return rules;
}

class Situation {
  public:
    // The scenario's zero as an instant: 0 itself means "not known" in records.
    static constexpr std::int64_t kZero = 1'000'000;

    explicit Situation(const std::vector<Budget>& budgets, std::int64_t now = 0,
                       Settings with = scenario_settings())
        : settings(std::move(with)), ledger(rules_of(settings)) {
        view.now = kZero + now;
        view.node_sets.emplace_back();
        view.pending.reserve(1000);  // references stay valid
        view.runs.reserve(1000);
        ledger.set_tree(kZero - 2 * settings.lookback_window_seconds, make_tree(budgets));
    }

    Situation& nodes(int count, std::int64_t gpus = 8, const std::string& type = "") {
        for (int i = 0; i < count; ++i) {
            Node node;
            node.name = "n" + std::to_string(view.nodes.size() + 1);
            node.gpu_type = type;
            node.gpus = node.free_gpus = gpus;
            view.nodes.push_back(node);
            view.node_sets[0].push_back(true);
        }
        return *this;
    }

    Situation& edit(std::int64_t at, const std::vector<Budget>& budgets) {
        ledger.set_tree(kZero + at, make_tree(budgets));
        return *this;
    }

    // The user is the budget's name where none is said.
    Situation& used(const std::string& budget, std::int64_t gpus, std::int64_t from,
                    std::int64_t to, const std::string& user = "",
                    RunKind kind = RunKind::allocated) {
        const SegmentKey key{next_id_++, kZero + from, kZero + from};
        ledger.begin({key, budget, user.empty() ? budget : user, kind, gpus * 1000});
        ledger.end(key, kZero + to);
        return *this;
    }

    PendingJob& waits(const std::string& name, const std::string& budget, std::int64_t gpus,
                      std::int64_t min_runtime, const std::string& user = "") {
        PendingJob job;
        job.id = next_id_++;
        job.name = name;
        job.budget = ledger.budget_id(budget);
        job.member = ledger.member_id(job.budget, user.empty() ? budget : user);
        ledger.activate_own_side(view.now, job.budget);
        job.shape.gpus = gpus;
        job.weight_milli = gpus * 1000;
        job.min_runtime_seconds = min_runtime;
        job.first_submit_at = job.id;
        job.resumable = true;
        view.pending.push_back(job);
        return view.pending.back();
    }

    // On the node of that index; started `age` seconds ago; free where it declares nothing.
    Run& runs(const std::string& name, const std::string& budget, std::int64_t gpus, NodeIndex node,
              std::int64_t age, std::int64_t min_runtime, const std::string& user = "") {
        Run run;
        run.id = next_id_++;
        run.name = name;
        run.budget = ledger.budget_id(budget);
        run.member = ledger.member_id(run.budget, user.empty() ? budget : user);
        run.kind = min_runtime > 0 ? RunKind::allocated : RunKind::unallocated;
        run.where = {{node, gpus, 0, 0}};
        run.gpus = gpus;
        run.weight_milli = gpus * 1000;
        run.started_at = view.now - age;
        run.protected_until = min_runtime > 0 ? run.started_at + min_runtime : 0;
        run.contract_seconds = min_runtime;
        run.resumable = true;
        run.first_submit_at = run.id;
        view.nodes[node].free_gpus -= gpus;
        ledger.begin({{run.id, run.started_at, run.started_at},
                      budget,
                      user.empty() ? budget : user,
                      run.kind,
                      run.weight_milli});
        view.runs.push_back(run);
        return view.runs.back();
    }

    const Standings& stand() {
        standings = ledger.standings(view.now);
        add_commitments(standings, view, settings);
        return standings;
    }

    // Names of the pending jobs, best first; an array's blocks as "name*tasks".
    std::vector<std::string> order() {
        stand();
        ranking = rank_queue(view, standings, settings);
        std::vector<std::string> names;
        for (const RankedEntry& entry : ranking) {
            const std::string& name = view.pending[entry.job].name;
            names.push_back(entry.tasks == 1 ? name : name + "*" + std::to_string(entry.tasks));
        }
        return names;
    }

    const PassResult& pass(const PassRules& rules = {}) {
        order();
        result = run_pass(view, ranking, standings, settings, rules);
        return result;
    }
    std::vector<std::string> started() {
        std::vector<std::string> names;
        for (const StartDecision& start : result.starts) {
            names.push_back(view.pending[start.job].name);
        }
        return names;
    }
    // "claimant<victim,victim" for each plan.
    std::vector<std::string> planned() {
        std::vector<std::string> texts;
        for (const PlanDecision& plan : result.plans) {
            std::string text = view.pending[plan.job].name + "<";
            for (std::size_t i = 0; i < plan.victims.size(); ++i) {
                text += (i > 0 ? "," : "") + view.runs[plan.victims[i].run].name;
            }
            texts.push_back(text);
        }
        return texts;
    }
    std::string why(const std::string& name) {
        for (std::size_t i = 0; i < view.pending.size(); ++i) {
            if (view.pending[i].name == name) {
                return std::string(to_text(result.verdicts[i].reason));
            }
        }
        return "not there";
    }
    TakeVerdict may(const std::string& claimant, const std::string& victim, bool express = false) {
        stand();
        const auto job = std::find_if(view.pending.begin(), view.pending.end(),
                                      [&](const PendingJob& j) { return j.name == claimant; });
        const auto run = std::find_if(view.runs.begin(), view.runs.end(),
                                      [&](const Run& r) { return r.name == victim; });
        return may_take({&*job, job->team_priority, express}, {&*run, run->team_priority},
                        standings, settings, view.now, view.available_gpus() * 1000);
    }

    Settings settings;
    UsageLedger ledger;
    ClusterView view;
    Standings standings;
    std::vector<RankedEntry> ranking;
    PassResult result;

  private:
    JobId next_id_ = 1;
};

using Names = std::vector<std::string>;

}  // namespace tranche
