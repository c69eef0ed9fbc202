// SPDX-License-Identifier: GPL-2.0-or-later
// Where a budget stands for a new job, from the engine's published view.
//
// Threads: any; the view is immutable and must outlive the lookup. Cost: a tree match and a few
// divisions; the place in the queue is worked out by ranking anew, and only in a small queue, as
// the caller holds Slurm's locks.
#pragma once

#include "engine/engine_view.hpp"
#include "engine/submission.hpp"

namespace tranche {

// Up to so many pending jobs the place of a new one is worked out.
inline constexpr std::size_t kSmallQueue = 200;

class ViewBudgetLookup final : public BudgetLookup {
  public:
    explicit ViewBudgetLookup(const EngineView& view) : view_(view) {}

    Result<BudgetStanding> resolve(const StandingQuestion& question) const override;

  private:
    const EngineView& view_;
};

}  // namespace tranche
