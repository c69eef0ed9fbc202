// SPDX-License-Identifier: GPL-2.0-or-later
// The cluster that is kept up to date, whose passes look at the head of the queue only, against a
// pass over a fresh view that looks at every job.
#include "common/policy/cluster_book.hpp"

#include <gtest/gtest.h>

#include <random>

#include "common/policy/classes.hpp"
#include "common/policy/ranking.hpp"
#include "sim/budget_scheduler.hpp"
#include "sim/scenario.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

Workload random_workload(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::uint64_t limit) {
        return static_cast<std::int64_t>(random() % limit);
    };
    Workload workload;
    for (int i = 0; i < 260; ++i) {
        WorkloadJob job;
        job.id = "j" + std::to_string(i);
        job.submit_at = below(43200);
        job.budget = std::string("ABCDE").substr(static_cast<std::size_t>(below(5)), 1);
        job.user = job.budget + std::to_string(below(3));
        const std::int64_t kind = below(10);
        job.gpus = kind < 6 ? 1 + below(4) : 4 * (1 + below(4));
        job.nodes = job.gpus > 4 && below(2) == 0 ? job.gpus / 4 : 0;
        if (below(25) == 0) {
            job.nodes = 8;
            job.gpus = 32;
        }
        job.runtime_seconds = 300 + below(20000);
        job.min_runtime_seconds =
            below(5) == 0 ? 0 : std::min<std::int64_t>(job.runtime_seconds, 300 * (1 + below(40)));
        job.exit_seconds = below(60);
        job.resumable = below(4) > 0;
        job.interactive = below(12) == 0;
        job.free_first = below(10) == 0;
        job.team_priority = static_cast<TeamPriority>(below(4));
        job.time_limit_seconds = below(3) == 0 ? kNever : job.runtime_seconds + below(4000);
        workload.jobs.push_back(job);
    }
    const auto event = [&](std::int64_t at, EventKind what, const std::string& node) {
        WorkloadEvent change;
        change.at = at;
        change.kind = what;
        change.nodes = {node};
        change.reason = "gpu-health:missing";
        workload.events.push_back(change);
    };
    event(9000 + below(9000), EventKind::drain, "n3");
    event(20000 + below(9000), EventKind::node_fail, "n5");
    event(31000, EventKind::undrain, "n3");
    event(32000, EventKind::node_up, "n5");
    WorkloadEvent edit;
    edit.at = 15000;
    edit.kind = EventKind::set_shares;
    edit.budget = "C";
    edit.shares = 5;
    workload.events.push_back(edit);
    return workload;
}

ClusterView without_empty_places(const ClusterView& all) {
    ClusterView view = all;
    view.pending.clear();
    view.runs.clear();
    view.plan_jobs.clear();
    std::vector<std::int64_t> run_at(all.runs.size(), -1);
    for (std::size_t r = 0; r < all.runs.size(); ++r) {
        if (all.runs[r].id != 0) {
            run_at[r] = static_cast<std::int64_t>(view.runs.size());
            view.runs.push_back(all.runs[r]);
        }
    }
    for (const PendingJob& job : all.pending) {
        if (job.id != 0) {
            view.pending.push_back(job);
            if (job.turn_run >= 0) {
                view.pending.back().turn_run = run_at[static_cast<std::size_t>(job.turn_run)];
            }
        }
    }
    return view;
}

std::string text_of(const std::vector<NodeShare>& where) {
    std::string text;
    for (const NodeShare& share : where) {
        text += " n" + std::to_string(share.node) + "x" + std::to_string(share.gpus);
    }
    return text;
}

// Every decision by names, in its order.
std::string text_of(const PassResult& result, const ClusterView& view) {
    std::string text;
    for (const StartDecision& start : result.starts) {
        text += "start " + view.pending[start.job].name + (start.as_free ? " free" : "") +
                (start.express ? " express" : "") + text_of(start.where) + "\n";
    }
    for (const PlanDecision& plan : result.plans) {
        text += "plan " + view.pending[plan.job].name + text_of(plan.plan.where) + " from";
        for (const VictimDecision& victim : plan.victims) {
            text += " " + view.runs[victim.run].name + ":" +
                    std::string(to_text(victim.verdict.reason));
        }
        text += "\n";
    }
    for (const std::uint32_t run : result.turns) {
        text += "turn " + view.runs[run].name + "\n";
    }
    for (const DrainDecision& drain : result.drains) {
        text += "drain " + view.runs[drain.run].name +
                (drain.move ? " to" + text_of(drain.move->where) : "") + "\n";
    }
    for (const AssemblyDecision& assembly : result.assemblies) {
        text += "assembly " + view.pending[assembly.job].name + " at " +
                std::to_string(assembly.assembly.date_at) + "\n";
    }
    for (const std::uint32_t job : result.turns_come) {
        text += "its turn " + view.pending[job].name + "\n";
    }
    for (const JobId job : result.dropped_assemblies) {
        text += "dropped " + std::to_string(job) + "\n";
    }
    return text;
}

// What one plan makes possible (a side that has been given more may lose a run, a victim frees more
// than its claimant takes) is seen at once by one of the two passes, by the other in the next round
// of the same instant: such plans are left out where the other has them not.
std::string without_later_plans(const std::string& text, const std::string& other) {
    std::string left;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at) + 1;
        const std::string line = text.substr(at, end - at);
        if (line.rfind("plan ", 0) != 0 || other.find(line) != std::string::npos) {
            left += line;
        }
        at = end;
    }
    return left;
}

class ClusterBookProperty : public testing::TestWithParam<int> {};

TEST_P(ClusterBookProperty, decides_what_a_pass_over_all_jobs_decides) {
    const auto seed = static_cast<std::uint64_t>(GetParam());
    Settings settings = scenario_defaults();
    settings.express_fraction_ppm = seed % 2 == 0 ? 150'000 : 0;
    settings.express_gpus = 4;
    settings.reservations = static_cast<std::int64_t>(seed % 3);
    settings.max_assemblies = static_cast<std::int64_t>(seed / 2 % 2);
    settings.assembly_pause_seconds = 3600;
    settings.max_protected_fraction_ppm = seed % 4 == 1 ? 900'000 : kPpm;
    settings.raised_share_ppm = seed % 3 == 0 ? 1'500'000 : 0;
    settings.preempt_within_budget = seed % 5 == 0   ? PreemptWithinBudget::both
                                     : seed % 5 == 1 ? PreemptWithinBudget::users
                                                     : PreemptWithinBudget::no;
    settings.preempt_margin_ppm = seed % 2 == 0 ? 50'000 : 0;
    SimCluster cluster;
    cluster.cycle_seconds = 30;
    for (int n = 1; n <= 20; ++n) {
        cluster.nodes.push_back({"n" + std::to_string(n), n > 16 ? "big" : "", 4});
    }
    std::vector<Budget> budgets;
    for (const char* name : {"A", "B", "P", "C", "D", "E"}) {
        Budget budget;
        budget.name = name;
        budget.shares = 1 + static_cast<std::uint32_t>(budgets.size() % 3);
        if (seed % 2 == 1 && (budget.name == "C" || budget.name == "D")) {
            budget.parent = "P";
        }
        budgets.push_back(budget);
    }
    const BudgetTree tree = *BudgetTree::build(budgets);
    SimOptions options;
    options.until = 86400;
    Simulation simulation(cluster, settings, tree, random_workload(seed), options);
    BudgetScheduler scheduler(simulation.state(), settings, tree, {}, simulation.begin_at());
    int decided = 0, later = 0, other = 0;
    scheduler.on_pass = [&](const ClusterView& view, const Standings&, const PassResult& result) {
        const ClusterView fresh = without_empty_places(view);
        const Standings standings = scheduler.standings(view.now);
        const auto ranking = rank_queue(fresh, standings, settings);
        const PassResult whole = run_pass(fresh, ranking, standings, settings);
        const std::string head = text_of(result, view);
        const std::string all = text_of(whole, fresh);
        if (head != all) {
            ++later;
            // Where a start by another job fills the headroom, a free start becomes possible on
            // nodes that are kept; the head has passed that job by then.
            const bool by_headroom = settings.max_protected_fraction_ppm < kPpm;
            if (without_later_plans(head, all) != without_later_plans(all, head)) {
                ++other;
                ASSERT_TRUE(by_headroom) << "at second " << view.now << " the head\n"
                                         << head << "all\n"
                                         << all;
            }
        }
        decided += result.decides() ? 1 : 0;
    };
    const SimRecord record = simulation.run(scheduler);
    EXPECT_GT(decided, 100);
    EXPECT_LT(later, decided / 10);
    EXPECT_LT(other, decided / 50);
    EXPECT_GT(record.preemptions.size(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ClusterBookProperty, testing::Range(1, 17));

}  // namespace
}  // namespace tranche::sim
