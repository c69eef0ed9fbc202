// SPDX-License-Identifier: GPL-2.0-or-later
// Start-up with a full ledger: DESIGN 5 asks for at most 2 s with 1 000 000 runs.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "common/store/ledger_database.hpp"
#include "common/store/ledger_replay.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kWindow = 7 * 86400;
constexpr std::int64_t kNow = 1'700'000'000;
constexpr std::int64_t kRuns = 1'000'000;

// A week of a million runs in 500 budgets on three levels, 4 users each; written once a process.
const std::string& million_runs() {
    static const std::string path = [] {
        std::string pattern = (std::filesystem::temp_directory_path() / "benchXXXXXX").string();
        const std::string folder = ::mkdtemp(pattern.data());
        std::atexit([] {
            std::filesystem::remove_all(million_runs().substr(0, million_runs().rfind('/')));
        });
        const std::string file = folder + "/usage.db";
        LedgerDatabase ledger = std::move(LedgerDatabase::open(file, kNow)).value();
        std::vector<Budget> budgets;
        std::vector<std::string> leaves;
        const auto add = [&](const std::string& name, const std::string& parent) {
            Budget budget;
            budget.name = name;
            budget.parent = parent;
            budgets.push_back(budget);
        };
        for (int a = 0; a < 5; ++a) {
            add("area" + std::to_string(a), "root");
            for (int p = 0; p < 10; ++p) {
                const std::string program = "program" + std::to_string(a) + "." + std::to_string(p);
                add(program, "area" + std::to_string(a));
                for (int j = 0; j < 9; ++j) {
                    leaves.push_back("project" + std::to_string(a) + "." + std::to_string(p) + "." +
                                     std::to_string(j));
                    add(leaves.back(), program);
                }
            }
        }
        LedgerBatch first;
        first.edits.emplace_back();
        first.edits[0].number = 1;
        first.edits[0].at = kNow - 2 * kWindow;
        first.edits[0].tree = std::move(BudgetTree::build(budgets)).value();
        if (!ledger.apply(first).ok()) {
            std::abort();
        }
        std::mt19937_64 random(1);
        constexpr std::int64_t kSlices = 100;
        for (std::int64_t slice = 0; slice < kSlices; ++slice) {
            LedgerBatch batch;
            for (std::int64_t i = 0; i < kRuns / kSlices; ++i) {
                const std::int64_t number = slice * (kRuns / kSlices) + i;
                const std::int64_t at = kNow - kWindow + number * (kWindow - 7200) / kRuns;
                SegmentRow row;
                row.key = {static_cast<JobId>(number + 1), at - 60, at};
                row.kind = random() % 4 == 0 ? RunKind::unallocated : RunKind::allocated;
                row.budget = leaves[random() % leaves.size()];
                row.user = "user" + std::to_string(random() % 4);
                row.account = row.budget;
                row.partition = "gpu";
                row.name = "train";
                row.gpus = 1 + static_cast<std::int64_t>(random() % 8);
                row.weight_milli = row.gpus * 1000;
                row.nodes = "node" + std::to_string(random() % 128);
                row.min_runtime_seconds = 3600;
                row.ended_at = row.charged_until =
                    at + 60 + static_cast<std::int64_t>(random() % 7000);
                row.end_reason = "completed";
                batch.ended.push_back(row);
            }
            if (!ledger.apply(batch).ok()) {
                std::abort();
            }
        }
        return file;
    }();
    return path;
}

void open_a_ledger_of_a_million_runs(benchmark::State& state) {
    const std::string& path = million_runs();
    for (auto _ : state) {
        benchmark::DoNotOptimize(LedgerDatabase::open(path, kNow).ok());
    }
}
BENCHMARK(open_a_ledger_of_a_million_runs)->Unit(benchmark::kMillisecond)->Iterations(3);

void load_a_million_runs(benchmark::State& state) {
    LedgerDatabase ledger = std::move(LedgerDatabase::open(million_runs(), kNow)).value();
    for (auto _ : state) {
        benchmark::DoNotOptimize(ledger.load(kNow - kWindow, kNow - 86400).value().closed.size());
    }
}
BENCHMARK(load_a_million_runs)->Unit(benchmark::kMillisecond)->Iterations(3);

void replay_a_million_runs(benchmark::State& state) {
    LedgerDatabase ledger = std::move(LedgerDatabase::open(million_runs(), kNow)).value();
    const LedgerContents contents = std::move(ledger.load(kNow - kWindow, kNow - 86400)).value();
    for (auto _ : state) {
        UsageLedger usage(UsageLedger::Rules{});
        replay(contents, usage);
        benchmark::DoNotOptimize(usage.standings(kNow).sides.size());
    }
}
BENCHMARK(replay_a_million_runs)->Unit(benchmark::kMillisecond)->Iterations(3);

void write_a_batch_of_twenty_starts(benchmark::State& state) {
    const std::string path = million_runs() + ".writing";
    LedgerDatabase ledger = std::move(LedgerDatabase::open(path, kNow)).value();
    JobId id = 0;
    for (auto _ : state) {
        LedgerBatch batch;
        for (int i = 0; i < 20; ++i) {
            SegmentRow row;
            row.key = {++id, kNow, kNow};
            row.budget = "project";
            batch.begun.push_back(row);
        }
        if (!ledger.apply(batch).ok()) {
            state.SkipWithError("not written");
        }
    }
}
BENCHMARK(write_a_batch_of_twenty_starts)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tranche
