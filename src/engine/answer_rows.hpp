// SPDX-License-Identifier: GPL-2.0-or-later
// Rows and looks that several answers of the query service share.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "common/policy/explain.hpp"
#include "common/wire/job_name.hpp"
#include "common/wire/json.hpp"
#include "engine/engine_view.hpp"
#include "engine/sight.hpp"

namespace tranche {

Json answer_heading(const EngineView& view);  // version, cluster, at
ExplainInput explain_input(const EngineView& view);
Json card_row(const JobCard& card);
void set_where(Json& row, const EngineView& view, const Run& run);  // "nodes"

// "expected_start_at", where there is a date.
void set_expected_start(Json& row, const EngineView& view, JobId job);

std::int64_t funded_milli_hours(const EngineView& view, SideId side);
std::optional<std::int64_t> ratio_of(const EngineView& view, SideId side);
void set_side_numbers(Json& json, const EngineView& view, SideId side);

// An id alone stands for all tasks and components.
bool is_named(const JobCard& card, const JobName& name);
// The job itself; of an array as a whole the record of the tasks without one of their own, else
// any. nullptr: not known.
const JobCard* find_card(const EngineView& view, const JobName& name);

// The numbers of a budget's sides on each level, worked out once.
class LevelCache {
  public:
    LevelCache(const EngineView& view, const Sight& sight) : view_(view), sight_(sight) {}
    void set(Json& row, BudgetId budget);  // nothing, where the viewer may not see it

  private:
    const EngineView& view_;
    const Sight& sight_;
    std::unordered_map<BudgetId, Json> levels_;
};

}  // namespace tranche
