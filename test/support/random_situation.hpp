// SPDX-License-Identifier: GPL-2.0-or-later
// Random small clusters with budgets, past use, edits, runs and a queue; small numbers, so that
// ties and near ties are common. The same seed gives the same cluster.
#pragma once

#include <random>

#include "support/situation.hpp"

namespace tranche {

struct RandomOptions {
    int budgets = 8;
    int levels = 3;
    int nodes = 6;
    int runs = 20;
    int jobs = 40;
    bool near_ties = false;  // all sides of about the same, large use
    bool gangs = true;
};

class RandomSituation {
  public:
    explicit RandomSituation(std::uint64_t seed, const RandomOptions& options = {},
                             const Settings& settings = scenario_settings())
        : random(seed), situation(random_budgets(options), 100'000, settings) {
        Situation& s = situation;
        s.nodes(options.nodes);
        for (std::size_t i = 0; i < names_.size() * 2; ++i) {
            const std::string& budget = names_[below(names_.size())];
            const std::int64_t begin = options.near_ties
                                           ? -300'000 - below(3)
                                           : -static_cast<std::int64_t>(below(500'000));
            s.used(budget, options.near_ties ? 1000 : 1 + below(16), begin,
                   options.near_ties ? 0 : std::min<std::int64_t>(begin + below(40'000), 0), user(),
                   below(4) == 0 ? RunKind::unallocated : RunKind::allocated);
        }
        for (int i = 0; i < options.runs; ++i) {
            const auto node = static_cast<NodeIndex>(below(s.view.nodes.size()));
            const std::int64_t free = s.view.nodes[node].free_gpus;
            if (free == 0) {
                continue;
            }
            const std::string& budget = names_[below(names_.size())];
            const bool funded = s.ledger.tree().find(budget)->shares > 0;
            const std::int64_t min_runtime = funded && below(3) > 0 ? 600 * (1 + below(20)) : 0;
            Run& run = s.runs("r" + std::to_string(i), budget, 1 + below(free), node,
                              below(12) * 1000, min_runtime, user());
            run.resumable = below(4) > 0;
            run.interactive = !run.resumable && below(2) == 0;
            run.express = run.kind == RunKind::allocated && below(5) == 0;
            run.team_priority = static_cast<TeamPriority>(below(4));
            const auto state = below(12);
            run.state = state == 0   ? RunState::configuring
                        : state == 1 ? RunState::suspended
                                     : RunState::running;
            if (run.state == RunState::configuring && run.kind == RunKind::allocated) {
                run.protected_until = kNever;
            }
        }
        for (int i = 0; i < options.jobs; ++i) {
            const std::string budget = below(15) == 0 ? "" : names_[below(names_.size())];
            PendingJob& job = s.waits("j" + std::to_string(i), budget, 1 + below(8),
                                      below(5) == 0 ? 0 : 300 * (1 + below(16)), user());
            job.team_priority = static_cast<TeamPriority>(below(4));
            job.first_submit_at = static_cast<std::int64_t>(1000 + below(6));
            job.nice = below(4) == 0 ? static_cast<std::int64_t>(below(3)) : 0;
            job.resumable = below(3) > 0;
            job.runs_before = static_cast<std::uint32_t>(below(2));
            job.governed = below(12) > 0;
            if (below(5) == 0) {  // a task of an array, its id younger than its number says
                job.order = std::uint64_t{s.view.pending[0].id} << 32 | (1000U - job.id);
            }
            if (below(6) == 0) {
                job.block = static_cast<StartBlock>(below(5));
            }
            if (below(6) == 0) {
                job.tasks = static_cast<std::uint32_t>(2 + below(60));
            } else if (options.gangs && below(4) == 0) {
                job.shape.nodes = static_cast<std::uint32_t>(2 + below(3));
                job.shape.gpus = static_cast<std::int64_t>(job.shape.nodes * (1 + below(8)));
                job.weight_milli = job.shape.gpus * 1000;
            }
        }
    }

    std::int64_t below(std::uint64_t limit) { return static_cast<std::int64_t>(random() % limit); }

    std::mt19937_64 random;

  private:
    std::vector<std::string> names_;

  public:
    Situation situation;

  private:
    std::vector<Budget> random_budgets(const RandomOptions& options) {
        std::vector<Budget> budgets;
        std::vector<int> depth;
        for (int i = 0; i < options.budgets; ++i) {
            Budget budget =
                make_budget("b" + std::to_string(i),
                            static_cast<std::uint32_t>(below(6) == 0 ? 0 : 1 + below(3)));
            int level = 1;
            if (!names_.empty() && options.levels > 1 && below(3) > 0) {
                const auto parent = static_cast<std::size_t>(below(names_.size()));
                if (depth[parent] < options.levels) {
                    budget.parent = names_[parent];
                    level = depth[parent] + 1;
                }
            }
            budget.sharing = below(4) == 0 ? BudgetSharing::pooled : BudgetSharing::unset;
            names_.push_back(budget.name);
            depth.push_back(level);
            budgets.push_back(budget);
        }
        return budgets;
    }
    std::string user() { return "u" + std::to_string(below(3)); }
};

}  // namespace tranche
