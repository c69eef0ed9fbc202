// SPDX-License-Identifier: GPL-2.0-or-later
// Scenario files (DESIGN 4.6): a small cluster, its jobs and events, and what must come of them.
//
// Reading is strict: unknown keys, wrong types, and jobs, budgets and nodes that are not there are
// mistakes; up to 20 are reported, each with its place in the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "sim/record.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

class BudgetScheduler;

// A number of the file in thousandths, or a range of them.
struct Wanted {
    std::optional<std::int64_t> equals_milli, least_milli, most_milli;
    std::int64_t tolerance_milli = 0;

    bool holds(double value) const noexcept;
};

struct Expectation {
    enum class Kind : std::uint8_t {
        job_at,         // state, protected_until
        job,            // starts, runs
        order,          // of pending jobs
        budget_charge,  // charged_gpu_hours
        budget_gpus,
        budget_mean,  // over stretches
        node,         // state, gpus_used
        metric,
    };
    Kind kind = Kind::metric;
    std::string place;  // "expect[3]"
    std::string text;   // as in the file
    std::int64_t at = 0, from = 0, to = 0, every = 0;
    std::string name;  // of the job, budget, node or metric
    std::string of;    // the metric's budget or class
    std::string state;
    std::vector<std::string> order;
    std::optional<std::int64_t> protected_until, runs, gpus_used;
    std::optional<std::pair<std::int64_t, std::int64_t>> starts;
    Wanted wanted;
};

struct Scenario {
    std::string file, name, about, rule;
    SimCluster cluster;
    Settings settings;
    BudgetTree tree;
    // Of the tree with what events add: a budget and all above it.
    std::vector<std::pair<std::string, std::string>> ancestors;
    Workload workload;
    std::int64_t until = 0;
    std::vector<Expectation> expectations;
};

// The settings of a scenario that configures nothing.
Settings scenario_defaults();

Result<Scenario> read_scenario(std::string_view text, const std::string& file);

struct ScenarioOutcome {
    std::vector<std::string> failures;  // several lines each: which, what was found, the numbers
    SimRecord record;

    bool holds() const noexcept { return failures.empty(); }
};

// Runs it under the product's policy. `prepare` may look at the scheduler before it starts.
ScenarioOutcome check_scenario(const Scenario& scenario,
                               const std::function<void(BudgetScheduler&)>& prepare = {});

}  // namespace tranche::sim
