// SPDX-License-Identifier: GPL-2.0-or-later
// What `sreplay snapshot` wrote: a cluster in the middle of its work, to go on from.
//
// Instants are seconds since 1970. A job's runtime is not known there: it is its time limit, or a
// week without one, unless assume() says `runtime`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "sim/scheduler.hpp"
#include "sim/workload.hpp"
#include "sim/workload_file.hpp"

namespace tranche::sim {

// A run that was there before the workload begins.
struct StandingRun {
    std::string job;  // its id
    std::vector<NodeShare> where;
    RunKind kind = RunKind::unallocated;
    bool express = false;
    std::int64_t elapsed_seconds = 0;
    std::int64_t contract_seconds = 0;  // what is left of it
};

struct Snapshot {
    std::int64_t at = 0;
    SimCluster cluster;
    BudgetTree tree;
    Settings settings;
    ReadWorkload jobs;  // pending and running, by submission; zero_at is `at`
    std::vector<StandingRun> runs;
    std::vector<PastUse> past;
    std::vector<WorkloadEvent> events;  // drains of nodes that take nothing new
};

Result<Snapshot> read_snapshot(std::string_view text, const std::string& file);

// Takes off the runtime and time limit of running jobs what they have behind them; after assume().
void take_off_elapsed(Snapshot& snapshot);

// Past use as stretches that add up to the same GPU time at the same mean age, within the window.
std::vector<PastUse> past_of(const std::string& budget, const std::string& user, RunKind kind,
                             std::int64_t gpu_seconds, std::int64_t mean_age_seconds,
                             std::int64_t at, std::int64_t window_seconds);

}  // namespace tranche::sim
