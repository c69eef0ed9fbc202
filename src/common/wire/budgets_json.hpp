// SPDX-License-Identifier: GPL-2.0-or-later
// Budgets, edits of them and what an edit changed, as JSON (DESIGN 4.2: dump and load).
#pragma once

#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/budget_edit.hpp"
#include "common/model/budget_tree.hpp"
#include "common/wire/json.hpp"

namespace tranche {

// What `sbudget dump` writes: {"version": 1, "budgets": […]}, parents before their children,
// siblings by name. Lists and words that say nothing are left out of none: a dump is complete.
Json budgets_to_json(const BudgetTree& tree);
Json budget_to_json(const Budget& budget);

// What `sbudget load` reads; any order, root implied. Only "name" must be there. The form is
// checked here, the tree as a whole by apply_edit.
Result<std::vector<Budget>> parse_budgets(std::string_view text, const std::string& what);
Result<std::vector<Budget>> budgets_from_json(const Json& json);

Json edit_to_json(const BudgetEdit& edit);
Result<BudgetEdit> edit_from_json(const Json& json);

Json changes_to_json(const std::vector<BudgetChange>& changes);
std::vector<BudgetChange> changes_from_json(const Json& json);

}  // namespace tranche
