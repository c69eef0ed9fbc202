// SPDX-License-Identifier: GPL-2.0-or-later
// One preemption check: DESIGN 5 asks for at most 100 ns, without allocation or lock.
#include <benchmark/benchmark.h>

#include <random>

#include "common/model/usage_ledger.hpp"
#include "common/policy/preemption.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;

// Claimants and victims in 1 000 budgets on five levels, so that they part on any of them.
struct Pairs {
    Settings settings;
    Standings standings;
    std::vector<PendingJob> jobs;
    std::vector<Run> runs;

    Pairs() {
        std::mt19937_64 random(1);
        std::vector<Budget> budgets;
        for (int i = 0; i < 1000; ++i) {
            Budget budget;
            budget.name = "budget" + std::to_string(i);
            budget.parent = i < 4 || i >= 900 ? "root" : "budget" + std::to_string(i / 4 - 1);
            budget.shares = static_cast<std::uint32_t>(1 + random() % 100);
            budgets.push_back(budget);
        }
        UsageLedger ledger(UsageLedger::Rules{});
        ledger.set_tree(0, std::move(BudgetTree::build(budgets)).value());
        for (JobId id = 1; id <= 4096; ++id) {
            const std::string budget = "budget" + std::to_string(random() % 1000);
            const std::int64_t begin = kNow - static_cast<std::int64_t>(random() % 500'000);
            ledger.begin({{id, begin, begin}, budget, "u", RunKind::allocated, 8000});
            Run run;
            run.id = id;
            run.budget = ledger.find_budget(budget);
            run.member = ledger.member_id(run.budget, "u");
            run.kind = RunKind::allocated;
            run.resumable = true;
            run.protected_until = begin + 1;
            runs.push_back(run);
            PendingJob job;
            job.budget = ledger.find_budget("budget" + std::to_string(random() % 1000));
            job.member = ledger.member_id(job.budget, "v");
            job.weight_milli = 8000;
            job.min_runtime_seconds = 3600;
            jobs.push_back(job);
        }
        standings = ledger.standings(kNow);
    }
};

void check_a_preemption(benchmark::State& state) {
    static const Pairs pairs;
    const bool express = state.range(0) != 0;
    std::size_t i = 0;
    std::int64_t allowed = 0;
    for (auto _ : state) {
        const PendingJob& job = pairs.jobs[i % 4096];
        const Run& run = pairs.runs[(i * 7) % 4096];
        allowed += may_take({&job, TeamPriority::normal, express}, {&run, TeamPriority::normal},
                            pairs.standings, pairs.settings, kNow, 8'000'000)
                           .may
                       ? 1
                       : 0;
        ++i;
    }
    state.counters["allowed"] = static_cast<double>(allowed) / static_cast<double>(i);
}
BENCHMARK(check_a_preemption)->ArgName("express")->Arg(0)->Arg(1);

}  // namespace
}  // namespace tranche
