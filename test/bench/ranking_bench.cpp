// SPDX-License-Identifier: GPL-2.0-or-later
// One rank cycle of 100 000 pending jobs and 10 000 budgets in 5 levels beside std::sort of 100 000
// 64-bit keys in the same run: DESIGN 5 asks for at most 4 times as much.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/model/usage_ledger.hpp"
#include "common/policy/ranking.hpp"

namespace tranche {
namespace {

constexpr std::size_t kJobs = 100'000;
constexpr int kBudgets = 10'000;
constexpr std::int64_t kNow = 1'700'000'000;

struct Queue {
    ClusterView view;
    Settings settings;
    Standings standings;
    std::vector<std::uint64_t> keys;
};

// Budgets of 4 children and of some more at the bottom: 4, 16, 64, 256 inner ones and 9 660 leaves;
// 3 users each; all with use of their own in the window.
const Queue& queue() {
    static const Queue queue = [] {
        Queue q;
        std::mt19937_64 random(1);
        std::vector<Budget> budgets;
        std::vector<std::string> level = {"root"};
        std::vector<std::string> leaves;
        const auto add = [&](const std::string& parent) {
            Budget budget;
            budget.name = "budget" + std::to_string(budgets.size());
            budget.parent = parent;
            budget.shares = static_cast<std::uint32_t>(1 + random() % 100);
            budgets.push_back(budget);
            return budget.name;
        };
        for (int depth = 0; depth < 4; ++depth) {
            std::vector<std::string> next;
            for (const std::string& parent : level) {
                for (int i = 0; i < 4; ++i) {
                    next.push_back(add(parent));
                }
            }
            level = next;
        }
        while (budgets.size() < static_cast<std::size_t>(kBudgets)) {
            leaves.push_back(add(level[budgets.size() % level.size()]));
        }
        UsageLedger ledger(UsageLedger::Rules{});
        ledger.set_tree(0, std::move(BudgetTree::build(budgets)).value());
        JobId id = 0;
        for (const std::string& leaf : leaves) {
            for (int u = 0; u < 3; ++u) {
                const std::int64_t begin = kNow - static_cast<std::int64_t>(random() % 600'000);
                const SegmentKey key{++id, begin, begin};
                ledger.begin({key, leaf, "user" + std::to_string(u), RunKind::allocated,
                              static_cast<std::int64_t>(1000 * (1 + random() % 64))});
                ledger.end(key, std::min<std::int64_t>(
                                    kNow, begin + static_cast<std::int64_t>(random() % 100'000)));
            }
        }
        for (int n = 0; n < 1024; ++n) {
            Node node;
            node.gpus = node.free_gpus = 8;
            q.view.nodes.push_back(node);
        }
        q.view.now = kNow;
        q.view.node_sets.emplace_back(1024, true);
        for (std::size_t i = 0; i < kJobs; ++i) {
            PendingJob job;
            job.id = ++id;
            job.budget = ledger.find_budget(leaves[random() % leaves.size()]);
            job.member = ledger.member_id(job.budget, "user" + std::to_string(random() % 3));
            job.shape.gpus = static_cast<std::int64_t>(1 + random() % 8);
            job.weight_milli = job.shape.gpus * 1000;
            job.min_runtime_seconds = random() % 5 == 0 ? 0 : 60 * (30 + random() % 450);
            job.first_submit_at = kNow - static_cast<std::int64_t>(random() % 500'000);
            job.team_priority = static_cast<TeamPriority>(random() % 4);
            job.runs_before = 1;
            q.view.pending.push_back(job);
            q.keys.push_back(random());
        }
        q.standings = ledger.standings(kNow);
        return q;
    }();
    return queue;
}

void sort_100000_keys(benchmark::State& state) {
    const Queue& q = queue();
    for (auto _ : state) {
        state.PauseTiming();
        std::vector<std::uint64_t> keys = q.keys;
        state.ResumeTiming();
        std::sort(keys.begin(), keys.end());
        benchmark::DoNotOptimize(keys.data());
    }
}
BENCHMARK(sort_100000_keys)->Unit(benchmark::kMillisecond)->MinTime(1);

void rank_100000_jobs_of_10000_budgets(benchmark::State& state) {
    const Queue& q = queue();
    for (auto _ : state) {
        benchmark::DoNotOptimize(rank_queue(q.view, q.standings, q.settings).data());
    }
}
BENCHMARK(rank_100000_jobs_of_10000_budgets)->Unit(benchmark::kMillisecond)->MinTime(2);

void space_100000_priorities(benchmark::State& state) {
    const Queue& q = queue();
    std::vector<Band> bands;
    for (const RankedEntry& entry : rank_queue(q.view, q.standings, q.settings)) {
        bands.push_back(entry.band);
    }
    const auto previous = spaced_priorities(bands, std::vector<std::uint32_t>(bands.size(), 0));
    for (auto _ : state) {
        benchmark::DoNotOptimize(spaced_priorities(bands, previous).data());
    }
}
BENCHMARK(space_100000_priorities)->Unit(benchmark::kMillisecond)->MinTime(1);

}  // namespace
}  // namespace tranche
