// SPDX-License-Identifier: GPL-2.0-or-later
// Edits of the budget tree and who may make them (DESIGN 2.1, 4.2). Pure values: an edit makes a
// new tree or is refused as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/budget_tree.hpp"

namespace tranche {

struct BudgetEdit {
    enum class Kind : std::uint8_t { add, modify, remove, move, load };
    Kind kind = Kind::add;
    std::string name;                                // all but load
    std::optional<std::string> parent;               // add (root if not said), move
    std::optional<std::int64_t> shares, own_shares;  // as asked, range checked by apply_edit
    std::optional<BudgetSharing> sharing;
    std::optional<std::vector<std::string>> accounts, users, managers;  // the whole new list
    std::vector<std::string> add_accounts, remove_accounts;             // accounts+= and accounts-=
    std::vector<std::string> add_users, remove_users;
    std::vector<std::string> add_managers, remove_managers;
    std::vector<Budget> tree;  // load: replaces the tree
    std::string reason;
};

// Who asks. `is_operator`: SlurmUser, root and Slurm's operators and administrators.
struct Actor {
    std::uint32_t uid = 0;
    std::string user;
    bool is_operator = false;
};

struct BudgetChange {
    std::string budget;
    std::string field;  // "shares", "parent", …; "budget" where it is added or deleted
    std::string before;
    std::string after;
};

// The tree after the edit, or why it is refused.
Result<BudgetTree> apply_edit(const BudgetTree& tree, const BudgetEdit& edit);

// Whether the actor may make it: managers strictly below their budget, naming there only accounts
// and users that their own budget matches.
Status check_rights(const BudgetTree& before, const BudgetTree& after, const Actor& actor);

// What differs, by budget and field, in the order of names.
std::vector<BudgetChange> tree_changes(const BudgetTree& before, const BudgetTree& after);

}  // namespace tranche
