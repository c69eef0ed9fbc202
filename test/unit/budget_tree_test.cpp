// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/budget_tree.hpp"

#include "support/situation.hpp"

namespace tranche {
namespace {

Budget with_accounts(Budget budget, std::vector<std::string> accounts,
                     std::vector<std::string> users = {}) {
    budget.accounts = std::move(accounts);
    budget.users = std::move(users);
    return budget;
}

std::string refusal(std::vector<Budget> budgets) {
    const Result<BudgetTree> tree = BudgetTree::build(std::move(budgets));
    return tree.ok() ? "accepted" : tree.error();
}

TEST(BudgetTree, bad_trees_are_refused_with_the_object_and_what_would_be_right) {
    struct Case {
        std::vector<Budget> budgets;
        const char* part;
    };
    const std::vector<Case> cases = {
        {{make_budget("", 1)}, "without a name"},
        {{make_budget("a b", 1)}, "'a b' is not allowed"},
        {{make_budget("x'y", 1)}, "is not allowed"},
        {{make_budget("a\nb", 1)}, "'a?b' is not allowed"},
        {{make_budget("-a", 1)}, "begins with a letter or digit"},
        {{make_budget(std::string(10'000, 'a'), 1)}, "(10000 characters)"},
        {{make_budget(std::string(65, 'a'), 1)}, "1 to 64"},
        {{make_budget("root", 1)}, "'root' is implied"},
        {{make_budget("a", 65536)}, "shares 65536 is too large; 0 to 65535"},
        {{make_budget("a", 1), make_budget("a", 2)}, "defined twice"},
        {{make_budget("a", 1, "nowhere")}, "its parent 'nowhere' does not exist"},
        {{make_budget("a", 1, "b"), make_budget("b", 1, "a")}, "is below itself"},
        {{make_budget("a", 1, "a")}, "is below itself"},
        {{make_budget("team", 1), make_budget("Team", 1)}, "differ only in case"},
        {{make_budget("ROOT", 1)}, "differs from root only in case"},
        {{with_accounts(make_budget("a", 1), {"x"}), with_accounts(make_budget("b", 1), {"X"})},
         "account 'x' is named by 'a' and by 'b'"},
        {{with_accounts(make_budget("a", 1), {}, {"u"}),
          with_accounts(make_budget("b", 1), {}, {"u"})},
         "user 'u' is named by"},
        {{with_accounts(make_budget("a", 1), {"no good"})}, "account 'no good'"},
    };
    for (const Case& c : cases) {
        const std::string text = refusal(c.budgets);
        EXPECT_NE(text.find(c.part), std::string::npos) << c.part << ": " << text;
        EXPECT_LT(text.size(), 1000U);
    }
}

TEST(BudgetTree, seventeen_levels_are_one_too_many) {
    std::vector<Budget> chain;
    for (int i = 1; i <= 16; ++i) {
        chain.push_back(
            make_budget("b" + std::to_string(i), 1, i == 1 ? "root" : "b" + std::to_string(i - 1)));
    }
    EXPECT_EQ(refusal(chain), "accepted");
    chain.push_back(make_budget("b17", 1, "b16"));
    EXPECT_NE(refusal(chain).find("17 levels below root"), std::string::npos);
}

TEST(BudgetTree, many_mistakes_are_counted_and_not_all_told) {
    std::vector<Budget> budgets;
    for (int i = 0; i < 1000; ++i) {
        budgets.push_back(make_budget("b" + std::to_string(i), 1, "nowhere"));
    }
    const std::string text = refusal(budgets);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
    EXPECT_NE(text.find("and 980 more mistakes"), std::string::npos);
}

TEST(BudgetTree, the_order_of_input_does_not_matter) {
    std::vector<Budget> budgets = {make_budget("a", 1), make_budget("b", 2, "a"),
                                   make_budget("c", 3, "b")};
    const BudgetTree forward = make_tree(budgets);
    std::reverse(budgets.begin(), budgets.end());
    EXPECT_TRUE(forward == make_tree(budgets));
    EXPECT_EQ(forward.depth("c"), 3U);
    EXPECT_TRUE(forward.is_below("c", "a"));
    EXPECT_TRUE(forward.is_below("c", "root"));
    EXPECT_FALSE(forward.is_below("a", "a"));
    EXPECT_FALSE(forward.is_below("a", "c"));
}

TEST(BudgetTree, jobs_go_to_account_and_user_then_account_then_user_then_none) {
    const BudgetTree tree = make_tree({
        with_accounts(make_budget("both", 1), {"acc"}, {"alice"}),
        with_accounts(make_budget("deep", 1, "both"), {"acc"}),
        with_accounts(make_budget("byuser", 1), {}, {"bob"}),
        make_budget("named", 1),
        with_accounts(make_budget("given", 1), {"other"}),
    });
    const auto match = [&](const char* account, const char* user) {
        return tree.match(account, user).value().name;
    };
    EXPECT_EQ(match("acc", "alice"), "both");  // account and user, though deep is deeper
    EXPECT_EQ(match("acc", "carol"), "deep");
    EXPECT_EQ(match("ACC", "carol"), "deep");
    EXPECT_EQ(match("acc", "bob"), "deep");
    EXPECT_EQ(match("nothing", "bob"), "byuser");
    EXPECT_EQ(match("named", "carol"), "named");
    EXPECT_EQ(match("given", "carol"), "");  // it names another account
    EXPECT_EQ(match("nothing", "carol"), "");
    EXPECT_EQ(match("", ""), "");
}

TEST(BudgetTree, a_requested_budget_must_match) {
    const BudgetTree tree =
        make_tree({with_accounts(make_budget("a", 1), {"acc"}),
                   with_accounts(make_budget("b", 1), {}, {"alice"}), make_budget("c", 1)});
    EXPECT_EQ(tree.match("acc", "alice", "b").value().name, "b");
    EXPECT_EQ(tree.match("acc", "alice", "a").value().name, "a");
    const auto wrong = tree.match("acc", "alice", "c");
    ASSERT_FALSE(wrong.ok());
    EXPECT_NE(wrong.error().find("these do: 'a', 'b'"), std::string::npos) << wrong.error();
    const auto unknown = tree.match("acc", "alice", "nowhere");
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.error().find("'nowhere' does not exist"), std::string::npos);
    EXPECT_FALSE(tree.match("x", "y", "a").ok());
    EXPECT_FALSE(tree.match("acc", "alice", "root").ok());
}

}  // namespace
}  // namespace tranche
