// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/budget_edit.hpp"

#include <algorithm>
#include <set>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMaxListLength = 10000;

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ",") + name;
    }
    return text;
}

std::string to_text(BudgetSharing sharing) {
    switch (sharing) {
        case BudgetSharing::users:
            return "users";
        case BudgetSharing::pooled:
            return "pooled";
        case BudgetSharing::unset:
            break;
    }
    return "";
}

Status check_shares(const std::string& name, const char* word, std::int64_t shares) {
    if (shares < 0 || shares > kMaxShares) {
        return Error{"budget " + quoted(name) + ": " + word + " " + std::to_string(shares) +
                     (shares < 0 ? " is negative" : " is too large") + "; 0 to " +
                     std::to_string(kMaxShares) + " would be right"};
    }
    return {};
}

Status check_exists(const BudgetTree& tree, const std::string& name) {
    if (name == kRootBudget) {
        return Error{"budget 'root' is implied and cannot be changed"};
    }
    if (tree.find(name) == nullptr) {
        return Error{"budget " + quoted(name) + " does not exist"};
    }
    return {};
}

// One of the lists accounts, users, managers.
struct ListEdit {
    const char* word;
    const std::optional<std::vector<std::string>>& whole;
    const std::vector<std::string>& add;
    const std::vector<std::string>& remove;
    std::vector<std::string> Budget::*list;
    bool lower;
};

std::vector<ListEdit> list_edits(const BudgetEdit& edit) {
    return {{"account", edit.accounts, edit.add_accounts, edit.remove_accounts, &Budget::accounts,
             true},
            {"user", edit.users, edit.add_users, edit.remove_users, &Budget::users, false},
            {"manager", edit.managers, edit.add_managers, edit.remove_managers, &Budget::managers,
             false}};
}

Status edit_lists(Budget& budget, const BudgetEdit& edit) {
    for (const ListEdit& each : list_edits(edit)) {
        std::vector<std::string>& list = budget.*each.list;
        if (each.whole) {
            list = *each.whole;
        }
        const auto stored = [&](const std::string& name) {
            return each.lower ? lower_case(name) : name;
        };
        for (const std::string& name : each.remove) {
            const auto it = std::find(list.begin(), list.end(), stored(name));
            if (it == list.end()) {
                return Error{"budget " + quoted(budget.name) + " does not name " + each.word + " " +
                             quoted(name) + ", so it cannot be removed"};
            }
            list.erase(it);
        }
        for (const std::string& name : each.add) {
            list.push_back(stored(name));
        }
        if (list.size() > kMaxListLength) {
            return Error{"budget " + quoted(budget.name) + ": " + std::to_string(list.size()) +
                         " " + each.word + "s are too many; at most " +
                         std::to_string(kMaxListLength) + " are allowed"};
        }
    }
    return {};
}

Status edit_fields(Budget& budget, const BudgetEdit& edit) {
    if (edit.parent) {
        budget.parent = edit.parent->empty() ? std::string(kRootBudget) : *edit.parent;
    }
    if (edit.shares) {
        if (const Status status = check_shares(budget.name, "shares", *edit.shares); !status.ok()) {
            return status;
        }
        budget.shares = static_cast<std::uint32_t>(*edit.shares);
    }
    if (edit.own_shares) {
        if (const Status status = check_shares(budget.name, "own_shares", *edit.own_shares);
            !status.ok()) {
            return status;
        }
        budget.own_shares = static_cast<std::uint32_t>(*edit.own_shares);
    }
    if (edit.sharing) {
        budget.sharing = *edit.sharing;
    }
    return edit_lists(budget, edit);
}

bool changes_nothing(const BudgetEdit& edit) {
    const auto lists = list_edits(edit);
    return !edit.parent && !edit.shares && !edit.own_shares && !edit.sharing &&
           std::none_of(lists.begin(), lists.end(), [](const ListEdit& each) {
               return each.whole || !each.add.empty() || !each.remove.empty();
           });
}

Status check_parent(const BudgetTree& tree, const std::string& name, const std::string& parent) {
    if (!tree.contains(parent)) {
        return Error{"budget " + quoted(name) + ": its parent " + quoted(parent) +
                     " does not exist"};
    }
    if (parent == name || tree.is_below(parent, name)) {
        return Error{"budget " + quoted(name) + " cannot be below " + quoted(parent) +
                     (parent == name ? ", itself" : ", which is below it")};
    }
    return {};
}

std::string summary(const Budget& budget) {
    std::string text = "parent=" + budget.parent + " shares=" + std::to_string(budget.shares);
    if (budget.own_shares != 1) {
        text += " own_shares=" + std::to_string(budget.own_shares);
    }
    if (budget.sharing != BudgetSharing::unset) {
        text += " sharing=" + to_text(budget.sharing);
    }
    for (const auto& [word, list] : {std::pair{" accounts=", &budget.accounts},
                                     {" users=", &budget.users},
                                     {" managers=", &budget.managers}}) {
        if (!list->empty()) {
            text += word + joined(*list);
        }
    }
    return text;
}

// The budgets that the actor manages and that lie strictly above `name`.
std::vector<const Budget*> managed_above(const BudgetTree& tree, const std::set<std::string>& own,
                                         const std::string& name, const BudgetTree& rights) {
    std::vector<const Budget*> found;
    for (const Budget* b = tree.find(name); b != nullptr; b = tree.find(b->parent)) {
        if (own.contains(b->parent) && rights.find(b->parent) != nullptr) {
            found.push_back(rights.find(b->parent));
        }
    }
    return found;
}

}  // namespace

Result<BudgetTree> apply_edit(const BudgetTree& tree, const BudgetEdit& edit) {
    using Kind = BudgetEdit::Kind;
    if (edit.kind == Kind::load) {
        return BudgetTree::build(edit.tree);
    }
    if (const Status status = check_budget_name(edit.name); !status.ok()) {
        return status.failure();
    }
    std::map<std::string, Budget, std::less<>> budgets = tree.budgets();
    if (edit.kind == Kind::add) {
        if (edit.name == kRootBudget || tree.find(edit.name) != nullptr) {
            return Error{"budget " + quoted(edit.name) + " exists already"};
        }
        budgets[edit.name].name = edit.name;
    } else if (const Status status = check_exists(tree, edit.name); !status.ok()) {
        return status.failure();
    }
    if (edit.kind == Kind::remove) {
        if (const auto& children = tree.children(edit.name); !children.empty()) {
            return Error{"budget " + quoted(edit.name) + " has budgets below it (" +
                         quoted(children.front()) +
                         (children.size() > 1
                              ? " and " + std::to_string(children.size() - 1) + " more"
                              : "") +
                         "); delete or move them first"};
        }
        budgets.erase(edit.name);
    } else {
        if (edit.kind == Kind::modify && changes_nothing(edit)) {
            return Error{"budget " + quoted(edit.name) +
                         ": nothing to change is said; shares=40 would be something"};
        }
        if (edit.kind == Kind::move && (!edit.parent || edit.parent->empty())) {
            return Error{"budget " + quoted(edit.name) +
                         ": no new parent is said; parent=NAME would be right"};
        }
        if (edit.parent && !edit.parent->empty()) {
            if (const Status status = check_parent(tree, edit.name, *edit.parent); !status.ok()) {
                return status.failure();
            }
        }
        if (const Status status = edit_fields(budgets[edit.name], edit); !status.ok()) {
            return status.failure();
        }
    }
    std::vector<Budget> list;
    list.reserve(budgets.size());
    for (auto& [name, budget] : budgets) {
        list.push_back(std::move(budget));
    }
    return BudgetTree::build(std::move(list));
}

Status check_rights(const BudgetTree& before, const BudgetTree& after, const Actor& actor) {
    if (actor.is_operator) {
        return {};
    }
    // Rights come from the tree as it is, never from what the edit would make of it.
    std::set<std::string> own;
    for (const auto& [name, budget] : before.budgets()) {
        if (std::binary_search(budget.managers.begin(), budget.managers.end(), actor.user)) {
            own.insert(name);
        }
    }
    std::string own_names;
    for (const std::string& name : own) {
        if (own_names.size() < 200) {
            own_names += (own_names.empty() ? "" : ", ") + quoted(name);
        }
    }
    const auto refused = [&](const std::string& name) {
        return Error{"user " + quoted(actor.user) + " may not change budget " + quoted(name) +
                     (own.empty() ? "; he manages no budget, and only managers of a budget above "
                                    "it, Slurm operators and administrators may"
                                  : "; he manages " + own_names +
                                        " and may change only budgets strictly below")};
    };

    std::set<std::string> names;
    for (const auto& [name, budget] : before.budgets()) {
        names.insert(name);
    }
    for (const auto& [name, budget] : after.budgets()) {
        names.insert(name);
    }
    for (const std::string& name : names) {
        const Budget* old = before.find(name);
        const Budget* now = after.find(name);
        if (old != nullptr && now != nullptr && *old == *now) {
            continue;
        }
        if (old != nullptr && managed_above(before, own, name, before).empty()) {
            return refused(name);
        }
        if (now == nullptr) {
            continue;
        }
        const auto above = managed_above(after, own, name, before);
        if (above.empty()) {
            return refused(name);
        }
        const auto named_before = [&](const std::vector<std::string> Budget::*list,
                                      const std::string& word) {
            return old != nullptr &&
                   std::binary_search((old->*list).begin(), (old->*list).end(), word);
        };
        for (const std::string& account : now->accounts) {
            if (!named_before(&Budget::accounts, account) &&
                std::none_of(above.begin(), above.end(), [&](const Budget* b) {
                    return before.matches_account(*b, account);
                })) {
                return Error{"user " + quoted(actor.user) + " may not name account " +
                             quoted(account) + " in budget " + quoted(name) + ": his own budget " +
                             quoted(above.front()->name) + " does not match it"};
            }
        }
        for (const std::string& user : now->users) {
            if (!named_before(&Budget::users, user) &&
                std::none_of(above.begin(), above.end(),
                             [&](const Budget* b) { return BudgetTree::matches_user(*b, user); })) {
                return Error{"user " + quoted(actor.user) + " may not name user " + quoted(user) +
                             " in budget " + quoted(name) + ": his own budget " +
                             quoted(above.front()->name) + " does not match him"};
            }
        }
        // A budget named like an account pays for it: that must not take it from a stranger's.
        if (now->accounts.empty() && after.matches_account(*now, name) &&
            (old == nullptr || !before.matches_account(*old, name))) {
            for (const auto& [other, budget] : before.budgets()) {
                if (other != name && before.matches_account(budget, name) &&
                    std::none_of(above.begin(), above.end(), [&, &theirs = other](const Budget* b) {
                        return b->name == theirs || before.is_below(theirs, b->name);
                    })) {
                    return Error{"user " + quoted(actor.user) + " may not name a budget " +
                                 quoted(name) +
                                 ": it would take the account of that name from "
                                 "budget " +
                                 quoted(other)};
                }
            }
        }
    }
    return {};
}

std::vector<BudgetChange> tree_changes(const BudgetTree& before, const BudgetTree& after) {
    std::vector<BudgetChange> changes;
    auto old = before.budgets().begin();
    auto now = after.budgets().begin();
    const auto old_end = before.budgets().end();
    const auto now_end = after.budgets().end();
    while (old != old_end || now != now_end) {
        if (now == now_end || (old != old_end && old->first < now->first)) {
            changes.push_back({old->first, "budget", summary(old->second), ""});
            ++old;
            continue;
        }
        if (old == old_end || now->first < old->first) {
            changes.push_back({now->first, "budget", "", summary(now->second)});
            ++now;
            continue;
        }
        const Budget& a = old->second;
        const Budget& b = now->second;
        const auto differs = [&](const char* field, const std::string& x, const std::string& y) {
            if (x != y) {
                changes.push_back({a.name, field, x, y});
            }
        };
        differs("parent", a.parent, b.parent);
        differs("shares", std::to_string(a.shares), std::to_string(b.shares));
        differs("own_shares", std::to_string(a.own_shares), std::to_string(b.own_shares));
        differs("sharing", to_text(a.sharing), to_text(b.sharing));
        differs("accounts", joined(a.accounts), joined(b.accounts));
        differs("users", joined(a.users), joined(b.users));
        differs("managers", joined(a.managers), joined(b.managers));
        ++old;
        ++now;
    }
    return changes;
}

}  // namespace tranche
