// SPDX-License-Identifier: GPL-2.0-or-later
// A budget tree from a file as `sbudget dump` writes it, with all mistakes and their lines.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.hpp"
#include "common/model/budget_tree.hpp"

namespace tranche::sim {

Result<BudgetTree> read_budgets(std::string_view text, const std::string& file);

}  // namespace tranche::sim
