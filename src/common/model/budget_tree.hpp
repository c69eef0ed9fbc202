// SPDX-License-Identifier: GPL-2.0-or-later
// The budget tree as managers see it: names, shares, and whose jobs each budget pays for.
//
// A BudgetTree is a value: an edit makes a new one or is refused as a whole (DESIGN 2.1). The root
// is implied, is called "root", and has no shares of its own. Budgets are ordered by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.hpp"

namespace tranche {

inline constexpr std::string_view kRootBudget = "root";
inline constexpr std::uint32_t kMaxShares = 65535;
inline constexpr std::size_t kMaxBudgetNameLength = 64;
inline constexpr std::size_t kMaxBudgetDepth = 16;  // levels below the root

// How the users of one budget stand to each other; `unset` follows the setting Sharing=.
enum class BudgetSharing : std::uint8_t { unset, users, pooled };

struct Budget {
    std::string name;
    std::string parent{kRootBudget};
    std::uint32_t shares = 1;      // weight among its siblings, 0 to 65535
    std::uint32_t own_shares = 1;  // weight of its own jobs among its children, 0 to 65535
    BudgetSharing sharing = BudgetSharing::unset;
    std::vector<std::string> accounts;  // sorted, lower case as sacctmgr stores them
    std::vector<std::string> users;     // sorted
    std::vector<std::string> managers;  // sorted

    bool operator==(const Budget&) const = default;
};

// How a job came to its budget.
enum class BudgetMatchKind : std::uint8_t { none, account_and_user, account, user };

struct BudgetMatch {
    std::string name;  // empty for none
    BudgetMatchKind kind = BudgetMatchKind::none;
};

class BudgetTree {
  public:
    BudgetTree() = default;

    // Validates the whole: names, shares, parents that exist, no cycle, no depth above
    // kMaxBudgetDepth, no two equal matches. Reports up to 20 mistakes, one a line.
    static Result<BudgetTree> build(std::vector<Budget> budgets);

    const Budget* find(std::string_view name) const;  // nullptr for root and unknown names
    bool contains(std::string_view name) const {
        return name == kRootBudget || find(name) != nullptr;
    }
    const std::map<std::string, Budget, std::less<>>& budgets() const { return budgets_; }
    const std::vector<std::string>& children(std::string_view name) const;  // by name
    bool is_below(std::string_view name, std::string_view ancestor) const;  // strictly
    std::size_t depth(std::string_view name) const;                         // root is 0
    bool has_children(std::string_view name) const { return !children(name).empty(); }

    // Whether the budget names an account or a user by itself, so that it has a side of its own
    // beside its children (DESIGN 2.1). One that only shares its name with an account has that
    // side from its first job on.
    bool matches_anything(std::string_view name) const;
    bool matches_account(const Budget& budget, std::string_view account) const;
    static bool matches_user(const Budget& budget, std::string_view user);

    // The budget that pays for a job (DESIGN 2.1). With `requested`, that one, or an Error that
    // says which budgets match.
    Result<BudgetMatch> match(std::string_view account, std::string_view user,
                              std::string_view requested = {}) const;

    bool operator==(const BudgetTree& other) const { return budgets_ == other.budgets_; }

  private:
    std::map<std::string, Budget, std::less<>> budgets_;
    std::map<std::string, std::vector<std::string>, std::less<>> children_;
    // By lower-case account and by user: names of the budgets that match, deepest first.
    std::unordered_map<std::string, std::vector<std::string>> by_account_;
    std::unordered_map<std::string, std::vector<std::string>> by_user_;
};

// 1 to kMaxBudgetNameLength of letters, digits and "_ - . + @", the first a letter or digit.
Status check_budget_name(std::string_view name);

// Lower case, as sacctmgr stores account names.
std::string lower_case(std::string_view text);

}  // namespace tranche
