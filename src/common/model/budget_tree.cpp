// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/budget_tree.hpp"

#include <algorithm>

namespace tranche {
namespace {

constexpr std::size_t kMaxMistakes = 20;

bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '+' || c == '@';
}

// The value as it may be shown in a message: short, one line, nothing that acts on a terminal.
std::string shown(std::string_view text) {
    std::string out;
    for (char c : text.substr(0, 40)) {
        out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
    }
    return text.size() > 40 ? out + "… (" + std::to_string(text.size()) + " characters)" : out;
}

void sort_unique(std::vector<std::string>& names) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
}

class Mistakes {
  public:
    void add(const std::string& text) {
        if (++count_ <= kMaxMistakes) {
            text_ += text_.empty() ? text : "\n" + text;
        }
    }
    bool any() const { return count_ > 0; }
    Error error() const {
        if (count_ <= kMaxMistakes) {
            return {text_};
        }
        return {text_ + "\nand " + std::to_string(count_ - kMaxMistakes) + " more mistakes"};
    }

  private:
    std::size_t count_ = 0;
    std::string text_;
};

}  // namespace

std::string lower_case(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') {
            c = static_cast<char>(c - 'A' + 'a');
        }
    }
    return out;
}

Status check_budget_name(std::string_view name) {
    const std::string rule = "; a name has 1 to " + std::to_string(kMaxBudgetNameLength) +
                             " letters, digits and _ - . + @ and begins with a letter or digit";
    if (name.empty()) {
        return Error{"a budget without a name" + rule};
    }
    const char first = name.front();
    const bool good_first = is_name_char(first) && first != '_' && first != '-' && first != '.' &&
                            first != '+' && first != '@';
    if (name.size() > kMaxBudgetNameLength || !good_first ||
        !std::all_of(name.begin(), name.end(), is_name_char)) {
        return Error{"budget name '" + shown(name) + "' is not allowed" + rule};
    }
    return {};
}

const Budget* BudgetTree::find(std::string_view name) const {
    const auto it = budgets_.find(name);
    return it == budgets_.end() ? nullptr : &it->second;
}

const std::vector<std::string>& BudgetTree::children(std::string_view name) const {
    static const std::vector<std::string> none;
    const auto it = children_.find(name);
    return it == children_.end() ? none : it->second;
}

bool BudgetTree::is_below(std::string_view name, std::string_view ancestor) const {
    for (const Budget* b = find(name); b != nullptr; b = find(b->parent)) {
        if (b->parent == ancestor) {
            return true;
        }
    }
    return false;
}

std::size_t BudgetTree::depth(std::string_view name) const {
    std::size_t depth = 0;
    for (const Budget* b = find(name); b != nullptr; b = find(b->parent)) {
        ++depth;
    }
    return depth;
}

bool BudgetTree::matches_account(const Budget& budget, std::string_view account) const {
    const auto it = by_account_.find(lower_case(account));
    return it != by_account_.end() &&
           std::find(it->second.begin(), it->second.end(), budget.name) != it->second.end();
}

bool BudgetTree::matches_user(const Budget& budget, std::string_view user) {
    return std::binary_search(budget.users.begin(), budget.users.end(), user);
}

bool BudgetTree::matches_anything(std::string_view name) const {
    const Budget* budget = find(name);
    return budget != nullptr && (!budget->accounts.empty() || !budget->users.empty());
}

Result<BudgetTree> BudgetTree::build(std::vector<Budget> budgets) {
    BudgetTree tree;
    Mistakes mistakes;
    std::map<std::string, std::string> by_lower_case;
    for (Budget& budget : budgets) {
        if (const Status status = check_budget_name(budget.name); !status.ok()) {
            mistakes.add(status.error());
            continue;
        }
        if (budget.name == kRootBudget) {
            mistakes.add("budget 'root' is implied and cannot be defined or changed");
            continue;
        }
        if (budget.parent.empty()) {
            budget.parent = kRootBudget;
        }
        for (const auto& [shares, word] :
             {std::pair{budget.shares, "shares"}, {budget.own_shares, "own_shares"}}) {
            if (shares > kMaxShares) {
                mistakes.add("budget '" + budget.name + "': " + word + " " +
                             std::to_string(shares) + " is too large; 0 to " +
                             std::to_string(kMaxShares) + " would be right");
            }
        }
        for (std::string& account : budget.accounts) {
            account = lower_case(account);
        }
        sort_unique(budget.accounts);
        sort_unique(budget.users);
        sort_unique(budget.managers);
        for (const auto& [names, word] : {std::pair{&budget.accounts, "account"},
                                          {&budget.users, "user"},
                                          {&budget.managers, "manager"}}) {
            for (const std::string& name : *names) {
                if (name.empty() || name.size() > kMaxBudgetNameLength ||
                    !std::all_of(name.begin(), name.end(), is_name_char)) {
                    mistakes.add("budget '" + budget.name + "': " + word + " '" + shown(name) +
                                 "' is not a name Slurm could know");
                }
            }
        }
        std::string name = budget.name;
        if (lower_case(name) == kRootBudget) {
            mistakes.add("budget '" + name + "' differs from root only in case");
            continue;
        }
        const auto [twin, is_new] = by_lower_case.emplace(lower_case(name), name);
        if (!is_new && twin->second != name) {
            // Accounts have no case in Slurm: both would pay for the same one.
            mistakes.add("budgets '" + twin->second + "' and '" + name + "' differ only in case");
            continue;
        }
        if (!tree.budgets_.emplace(name, std::move(budget)).second) {
            mistakes.add("budget '" + name + "' is defined twice");
        }
    }
    if (mistakes.any()) {
        return mistakes.error();
    }

    for (const auto& [name, budget] : tree.budgets_) {
        if (!tree.contains(budget.parent)) {
            mistakes.add("budget '" + name + "': its parent '" + shown(budget.parent) +
                         "' does not exist");
            continue;
        }
        // No more steps than a tree may have levels: a long chain must not cost its square.
        std::size_t depth = 1;
        const Budget* above = tree.find(budget.parent);
        while (above != nullptr && above->name != name && depth <= kMaxBudgetDepth) {
            above = tree.find(above->parent);
            ++depth;
        }
        if (above != nullptr && above->name == name) {
            mistakes.add("budget '" + name + "' is below itself: its parent '" + budget.parent +
                         "' leads back to it");
        } else if (above != nullptr || depth > kMaxBudgetDepth) {
            mistakes.add("budget '" + name + "' would be at least " +
                         std::to_string(kMaxBudgetDepth + 1) + " levels below root" +
                         (above == nullptr ? "" : ", if it reaches root at all") + "; at most " +
                         std::to_string(kMaxBudgetDepth) + " are allowed");
        }
        tree.children_[budget.parent].push_back(name);
    }
    if (mistakes.any()) {
        return mistakes.error();
    }

    for (const auto& [name, budget] : tree.budgets_) {
        for (const std::string& account : budget.accounts) {
            tree.by_account_[account].push_back(name);
        }
        for (const std::string& user : budget.users) {
            tree.by_user_[user].push_back(name);
        }
    }
    for (const auto& [name, budget] : tree.budgets_) {
        // A budget named like an account pays for it unless an account is named somewhere for it.
        if (budget.accounts.empty() && !tree.by_account_.contains(lower_case(name))) {
            tree.by_account_[lower_case(name)].push_back(name);
        }
    }
    const auto check_equal = [&](auto& index, const char* word) {
        std::map<std::string, std::vector<std::string>> sorted(index.begin(), index.end());
        for (auto& [key, names] : sorted) {
            auto& list = index[key];
            std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) {
                return tree.depth(a) > tree.depth(b);
            });
            for (std::size_t i = 1; i < list.size(); ++i) {
                if (tree.depth(list[i]) == tree.depth(list[i - 1])) {
                    mistakes.add(std::string(word) + " '" + key + "' is named by '" + list[i - 1] +
                                 "' and by '" + list[i] +
                                 "' on the same level; only one of them can pay for it");
                }
            }
        }
    };
    check_equal(tree.by_account_, "account");
    check_equal(tree.by_user_, "user");
    if (mistakes.any()) {
        return mistakes.error();
    }
    return tree;
}

Result<BudgetMatch> BudgetTree::match(std::string_view account, std::string_view user,
                                      std::string_view requested) const {
    static const std::vector<std::string> none;
    const auto account_it = by_account_.find(lower_case(account));
    const auto user_it = by_user_.find(std::string(user));
    const auto& by_account = account_it == by_account_.end() ? none : account_it->second;
    const auto& by_user = user_it == by_user_.end() ? none : user_it->second;

    const auto kind_of = [&](const std::string& name) {
        const bool a = std::find(by_account.begin(), by_account.end(), name) != by_account.end();
        const bool u = std::find(by_user.begin(), by_user.end(), name) != by_user.end();
        return a && u ? BudgetMatchKind::account_and_user
               : a    ? BudgetMatchKind::account
               : u    ? BudgetMatchKind::user
                      : BudgetMatchKind::none;
    };
    if (!requested.empty()) {
        if (find(requested) == nullptr) {
            return Error{"budget '" + shown(requested) + "' does not exist"};
        }
        const std::string name(requested);
        if (const BudgetMatchKind kind = kind_of(name); kind != BudgetMatchKind::none) {
            return BudgetMatch{name, kind};
        }
        std::string matching;
        for (const auto* list : {&by_account, &by_user}) {
            for (const std::string& candidate : *list) {
                if (matching.find("'" + candidate + "'") == std::string::npos) {
                    matching += (matching.empty() ? "'" : ", '") + candidate + "'";
                }
            }
        }
        return Error{"budget '" + name + "' does not pay for account '" + shown(account) +
                     "' or user '" + shown(user) + "'" +
                     (matching.empty() ? "; no budget does" : "; these do: " + matching)};
    }
    for (const std::string& name : by_account) {  // deepest first
        if (kind_of(name) == BudgetMatchKind::account_and_user) {
            return BudgetMatch{name, BudgetMatchKind::account_and_user};
        }
    }
    if (!by_account.empty()) {
        return BudgetMatch{by_account.front(), BudgetMatchKind::account};
    }
    if (!by_user.empty()) {
        return BudgetMatch{by_user.front(), BudgetMatchKind::user};
    }
    return BudgetMatch{};
}

}  // namespace tranche
