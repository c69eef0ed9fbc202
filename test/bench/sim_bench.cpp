// SPDX-License-Identifier: GPL-2.0-or-later
// The simulator under the product's policy: an overloaded cluster of 1 024 GPUs, by jobs. What a
// pass costs is to stay the same when ten times as many jobs wait.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "sim/baselines.hpp"
#include "sim/budget_scheduler.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

constexpr int kTeams = 15, kNodes = 128, kGpusPerNode = 8;
constexpr double kJobsPerDay = 50'000.0 / 30;

BudgetTree teams() {
    std::vector<Budget> budgets;
    for (int t = 0; t < kTeams; ++t) {
        Budget budget;
        budget.name = "team" + std::to_string(t);
        budget.shares = 1 + static_cast<std::uint32_t>(t % 4);
        budgets.push_back(budget);
    }
    return *BudgetTree::build(budgets);
}

// 50 000 jobs in 30 days ask for 2.4 times the cluster; one in twenty is small and short enough for
// the express lane.
Workload overload(std::int64_t jobs) {
    std::mt19937_64 random(7);
    const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
    const double span = static_cast<double>(jobs) / kJobsPerDay * 86400;
    Workload workload;
    double asked = 0;
    for (std::int64_t i = 0; i < jobs; ++i) {
        WorkloadJob job;
        job.id = std::to_string(i);
        job.submit_at = static_cast<std::int64_t>(uniform() * span);
        job.budget = "team" + std::to_string(random() % kTeams);
        job.user = job.budget + "-" + std::to_string(random() % 10);
        const double size = uniform();
        job.gpus = size < .5    ? 1
                   : size < .65 ? 2
                   : size < .8  ? 4
                   : size < .93 ? 8
                   : size < .97 ? 16
                   : size < .99 ? 32
                                : 64;
        job.runtime_seconds = static_cast<std::int64_t>(1800 + 6 * 3600 * -std::log(1 - uniform()));
        job.min_runtime_seconds = static_cast<std::int64_t>(3600 * (1 + random() % 8));
        if (uniform() < .05) {
            job.gpus = 1 + static_cast<std::int64_t>(random() % 8);
            job.runtime_seconds = 600;
            job.min_runtime_seconds = 900;
        } else if (uniform() < .15) {
            job.min_runtime_seconds = 0;
        }
        job.restart_seconds = 300;
        job.checkpoint_seconds = 1800;
        asked += static_cast<double>(job.gpus * job.runtime_seconds);
        workload.jobs.push_back(job);
    }
    const double scale = 2.4 * kNodes * kGpusPerNode * span / asked;
    for (WorkloadJob& job : workload.jobs) {
        if (job.runtime_seconds > 600) {
            job.runtime_seconds =
                static_cast<std::int64_t>(static_cast<double>(job.runtime_seconds) * scale);
        }
        job.min_runtime_seconds = std::min(*job.min_runtime_seconds, job.runtime_seconds);
    }
    return workload;
}

void simulated_days_of_an_overload(benchmark::State& state) {
    const Workload workload = overload(state.range(0));
    const BudgetTree tree = teams();
    SimCluster cluster;
    for (int n = 0; n < kNodes; ++n) {
        cluster.nodes.push_back({"n" + std::to_string(n), "", kGpusPerNode});
    }
    Settings settings;
    SimOptions options;
    options.until =
        static_cast<std::int64_t>(static_cast<double>(state.range(0)) / kJobsPerDay * 86400);
    std::uint64_t passes = 0;
    std::size_t preemptions = 0;
    for (auto iteration : state) {
        Simulation simulation(cluster, settings, tree, workload, options);
        BudgetScheduler scheduler(simulation.state(), settings, tree, {}, simulation.begin_at());
        const SimRecord record = simulation.run(scheduler);
        passes = record.passes;
        preemptions = record.preemptions.size();
    }
    state.SetComplexityN(state.range(0));
    state.counters["passes"] = static_cast<double>(passes);
    state.counters["preemptions"] = static_cast<double>(preemptions);
    state.counters["jobs_per_second"] = benchmark::Counter(
        static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(simulated_days_of_an_overload)
    ->RangeMultiplier(5)
    ->Range(2000, 50000)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->Complexity();

}  // namespace
}  // namespace tranche::sim
