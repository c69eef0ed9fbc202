// SPDX-License-Identifier: GPL-2.0-or-later
// The policies that the product's is compared with. They know nothing of contracts: what a job
// declares only tells under which kind its run is recorded.
//
// All place by best fit, gangs on nodes of their own, and know typed GPUs. `state` must outlive
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "sim/scheduler.hpp"

namespace tranche::sim {

// First come, first served, with EASY backfilling: the head of the queue has a reservation, and
// whoever does not delay it may go before. Estimates are exact.
std::unique_ptr<Scheduler> make_fifo(const SimState& state);

struct FairTreeOptions {
    std::int64_t half_life_seconds = 7 * 86400;  // PriorityDecayHalfLife
    std::int64_t period_seconds = 300;           // PriorityCalcPeriod
};

// Stock Slurm: priority/multifactor with FairShare as the only weight, budgets as accounts, each
// user with one share in the account of his jobs; then by submission. EASY backfilling, a node of a
// reservation is closed as a whole; estimates are time limits, and exact where a job has none. No
// preemption. Source of the algorithm: Slurm 22.05, priority/multifactor, Fair Tree; tied accounts
// are not merged there, contrary to its documentation. Usage is GPU seconds.
std::unique_ptr<Scheduler> make_fairtree(const SimState& state, const BudgetTree& tree,
                                         std::int64_t begin_at,
                                         const FairTreeOptions& options = {});

// Priorities and slots, the system that the article replaced, by the recipe of DESIGN 4.5: every
// job HIGH; a team's jobs are opted out of preemption while the GPUs of such runs of the team are
// within its limit, which is its funded GPUs; beyond it a job runs, preemptible, on idle GPUs only.
// Who is within the limit takes preemptible runs where there is no room: fewest GPUs, then the
// youngest. Whether a run is opted out is decided at its start. Preempted jobs queue again, at the
// end, also those that cannot resume. Order: first come, first served; of a team's limit strictly,
// of idle GPUs whatever fits.
std::unique_ptr<Scheduler> make_slots(const SimState& state, const Settings& settings,
                                      const BudgetTree& tree);

}  // namespace tranche::sim
