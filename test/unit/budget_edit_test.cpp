// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/budget_edit.hpp"

#include <gtest/gtest.h>

namespace tranche {
namespace {

using Kind = BudgetEdit::Kind;

Budget budget(const char* name, const char* parent = "root", std::uint32_t shares = 1) {
    Budget made;
    made.name = name;
    made.parent = parent;
    made.shares = shares;
    return made;
}

// root -> progA(40: account proga, managed by alice) -> projA(35), projB(5); progB(60).
BudgetTree small_tree() {
    Budget prog_a = budget("progA", "root", 40);
    prog_a.accounts = {"proga", "vision"};
    prog_a.users = {"ann", "ben"};
    prog_a.managers = {"alice"};
    Budget proj_a = budget("projA", "progA", 35);
    proj_a.managers = {"carl"};
    const Budget proj_b = budget("projB", "progA", 5);
    const Budget prog_b = budget("progB", "root", 60);
    auto tree = BudgetTree::build({prog_a, proj_a, proj_b, prog_b});
    EXPECT_TRUE(tree.ok()) << (tree.ok() ? "" : tree.error());
    return tree.value();
}

BudgetEdit edit_of(Kind kind, const std::string& name) {
    BudgetEdit edit;
    edit.kind = kind;
    edit.name = name;
    return edit;
}

std::string refusal(const BudgetEdit& edit) {
    const auto tree = apply_edit(small_tree(), edit);
    EXPECT_FALSE(tree.ok());
    return tree.ok() ? "" : tree.error();
}

void expect_one_short_line(const std::string& text) {
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), 500u) << text;
}

TEST(BudgetEdit, an_added_budget_is_below_root_unless_said) {
    BudgetEdit edit = edit_of(Kind::add, "progC");
    edit.shares = 7;
    edit.accounts = std::vector<std::string>{"ProgC", "x"};
    edit.add_users = {"zoe"};
    const auto tree = apply_edit(small_tree(), edit);
    ASSERT_TRUE(tree.ok()) << tree.error();
    const Budget* added = tree->find("progC");
    ASSERT_NE(added, nullptr);
    EXPECT_EQ(added->parent, "root");
    EXPECT_EQ(added->shares, 7u);
    EXPECT_EQ(added->accounts, (std::vector<std::string>{"progc", "x"}));
    EXPECT_EQ(added->users, (std::vector<std::string>{"zoe"}));
    EXPECT_EQ(tree->budgets().size(), 5u);
}

TEST(BudgetEdit, lists_are_set_extended_and_reduced) {
    BudgetEdit edit = edit_of(Kind::modify, "progA");
    edit.add_accounts = {"Robots"};
    edit.remove_accounts = {"VISION"};
    edit.users = std::vector<std::string>{"ben"};
    edit.sharing = BudgetSharing::pooled;
    const auto tree = apply_edit(small_tree(), edit);
    ASSERT_TRUE(tree.ok()) << tree.error();
    EXPECT_EQ(tree->find("progA")->accounts, (std::vector<std::string>{"proga", "robots"}));
    EXPECT_EQ(tree->find("progA")->users, (std::vector<std::string>{"ben"}));
    EXPECT_EQ(tree->find("progA")->sharing, BudgetSharing::pooled);
    EXPECT_EQ(tree->find("progA")->shares, 40u);
}

TEST(BudgetEdit, bad_names_are_refused_in_one_short_line) {
    for (const std::string& name :
         {std::string(""), std::string("a b"), std::string("a\"b"), std::string("a'b"),
          std::string("a\nb"), std::string("-a"), std::string("../x"), std::string("a\0b", 3),
          std::string(10000, 'x'), std::string("é"), std::string("a;drop table")}) {
        expect_one_short_line(refusal(edit_of(Kind::add, name)));
        if (name == "-a") {
            continue;  // Slurm knows accounts like that
        }
        BudgetEdit account = edit_of(Kind::modify, "projA");
        account.accounts = std::vector<std::string>{name};
        expect_one_short_line(refusal(account));
        BudgetEdit manager = edit_of(Kind::modify, "projA");
        manager.add_managers = {name};
        expect_one_short_line(refusal(manager));
    }
    EXPECT_NE(refusal(edit_of(Kind::add, "root")).find("exists already"), std::string::npos);
    EXPECT_NE(refusal(edit_of(Kind::add, "projA")).find("exists already"), std::string::npos);
}

TEST(BudgetEdit, shares_out_of_range_are_refused_with_the_range) {
    for (const std::int64_t shares :
         {std::int64_t{-1}, std::int64_t{65536}, INT64_MAX, INT64_MIN}) {
        BudgetEdit edit = edit_of(Kind::modify, "projA");
        edit.shares = shares;
        const std::string text = refusal(edit);
        EXPECT_NE(text.find("'projA'"), std::string::npos) << text;
        EXPECT_NE(text.find(std::to_string(shares)), std::string::npos) << text;
        EXPECT_NE(text.find("0 to 65535"), std::string::npos) << text;
        BudgetEdit own = edit_of(Kind::add, "new");
        own.own_shares = shares;
        EXPECT_NE(refusal(own).find("own_shares"), std::string::npos);
    }
    BudgetEdit zero = edit_of(Kind::modify, "projA");
    zero.shares = 0;
    EXPECT_TRUE(apply_edit(small_tree(), zero).ok());
    zero.shares = 65535;
    EXPECT_TRUE(apply_edit(small_tree(), zero).ok());
}

TEST(BudgetEdit, what_does_not_exist_or_is_root_cannot_be_changed) {
    for (const Kind kind : {Kind::modify, Kind::remove, Kind::move}) {
        BudgetEdit edit = edit_of(kind, "nobody");
        edit.parent = "root";
        EXPECT_NE(refusal(edit).find("'nobody' does not exist"), std::string::npos);
        edit.name = "root";
        EXPECT_NE(refusal(edit).find("'root' is implied"), std::string::npos);
    }
    BudgetEdit orphan = edit_of(Kind::add, "new");
    orphan.parent = "nobody";
    EXPECT_NE(refusal(orphan).find("parent 'nobody' does not exist"), std::string::npos);
    EXPECT_NE(refusal(edit_of(Kind::modify, "projA")).find("nothing to change"), std::string::npos);
    EXPECT_NE(refusal(edit_of(Kind::move, "projA")).find("parent=NAME"), std::string::npos);
    BudgetEdit unnamed = edit_of(Kind::modify, "progA");
    unnamed.remove_users = {"zoe"};
    EXPECT_NE(refusal(unnamed).find("does not name user 'zoe'"), std::string::npos);
}

TEST(BudgetEdit, a_budget_with_children_is_not_deleted) {
    const std::string text = refusal(edit_of(Kind::remove, "progA"));
    EXPECT_NE(text.find("'progA' has budgets below it"), std::string::npos) << text;
    EXPECT_NE(text.find("'projA' and 1 more"), std::string::npos) << text;
    const auto tree = apply_edit(small_tree(), edit_of(Kind::remove, "projB"));
    ASSERT_TRUE(tree.ok());
    EXPECT_EQ(tree->find("projB"), nullptr);
}

TEST(BudgetEdit, a_budget_cannot_be_moved_below_itself) {
    BudgetEdit edit = edit_of(Kind::move, "progA");
    edit.parent = "projA";
    EXPECT_NE(refusal(edit).find("which is below it"), std::string::npos);
    edit.parent = "progA";
    EXPECT_NE(refusal(edit).find("itself"), std::string::npos);
    edit.parent = "progB";
    const auto tree = apply_edit(small_tree(), edit);
    ASSERT_TRUE(tree.ok());
    EXPECT_EQ(tree->depth("projA"), 3u);
}

TEST(BudgetEdit, load_refuses_cycles_and_orphans_as_a_whole) {
    BudgetEdit edit;
    edit.kind = Kind::load;
    edit.tree = {budget("a", "b"), budget("b", "a"), budget("c")};
    EXPECT_NE(refusal(edit).find("is below itself"), std::string::npos);
    edit.tree = {budget("a", "nobody")};
    EXPECT_NE(refusal(edit).find("'nobody' does not exist"), std::string::npos);
    edit.tree = {budget("a"), budget("a")};
    EXPECT_NE(refusal(edit).find("defined twice"), std::string::npos);
    edit.tree = {budget("a"), budget("b", "a")};
    const auto tree = apply_edit(small_tree(), edit);
    ASSERT_TRUE(tree.ok());
    EXPECT_EQ(tree->budgets().size(), 2u);
}

Status rights(const BudgetEdit& edit, const Actor& actor) {
    const BudgetTree before = small_tree();
    const auto after = apply_edit(before, edit);
    EXPECT_TRUE(after.ok()) << (after.ok() ? "" : after.error());
    return after.ok() ? check_rights(before, after.value(), actor) : Status(after.failure());
}

const Actor kAlice{1000, "alice", false};  // manages progA
const Actor kCarl{1001, "carl", false};    // manages projA
const Actor kEve{1002, "eve", false};      // manages nothing
const Actor kOperator{0, "root", true};

TEST(BudgetRights, managers_change_only_what_is_strictly_below) {
    BudgetEdit below = edit_of(Kind::modify, "projA");
    below.shares = 50;
    BudgetEdit own = edit_of(Kind::modify, "progA");
    own.shares = 99;
    BudgetEdit sibling = edit_of(Kind::modify, "progB");
    sibling.shares = 1;
    EXPECT_TRUE(rights(below, kAlice).ok());
    EXPECT_FALSE(rights(own, kAlice).ok());
    EXPECT_FALSE(rights(sibling, kAlice).ok());
    EXPECT_FALSE(rights(below, kCarl).ok());
    EXPECT_FALSE(rights(below, kEve).ok());
    for (const BudgetEdit& edit : {below, own, sibling}) {
        EXPECT_TRUE(rights(edit, kOperator).ok());
    }
    const Status refused = rights(own, kAlice);
    EXPECT_NE(refused.error().find("'alice' may not change budget 'progA'"), std::string::npos);
    EXPECT_NE(refused.error().find("strictly below"), std::string::npos);
}

TEST(BudgetRights, managers_add_move_and_delete_below_their_budget_only) {
    BudgetEdit add = edit_of(Kind::add, "new");
    add.parent = "projB";
    EXPECT_TRUE(rights(add, kAlice).ok());
    EXPECT_FALSE(rights(add, kCarl).ok());
    add.parent = "root";
    EXPECT_FALSE(rights(add, kAlice).ok());
    add.parent = "progB";
    EXPECT_FALSE(rights(add, kAlice).ok());
    EXPECT_TRUE(rights(edit_of(Kind::remove, "projB"), kAlice).ok());
    EXPECT_FALSE(rights(edit_of(Kind::remove, "progB"), kAlice).ok());
    BudgetEdit move = edit_of(Kind::move, "projB");
    move.parent = "projA";
    EXPECT_TRUE(rights(move, kAlice).ok());
    move.parent = "progB";
    EXPECT_FALSE(rights(move, kAlice).ok());
    move.name = "progB";
    move.parent = "progA";
    EXPECT_FALSE(rights(move, kAlice).ok());
}

TEST(BudgetRights, nobody_makes_himself_a_manager) {
    BudgetEdit grant = edit_of(Kind::modify, "progB");
    grant.add_managers = {"alice"};
    EXPECT_FALSE(rights(grant, kAlice).ok());
    // In a load that adds the right and uses it at once.
    BudgetEdit load;
    load.kind = Kind::load;
    const BudgetTree before = small_tree();
    for (const auto& [name, budget] : before.budgets()) {
        load.tree.push_back(budget);
        if (name == "projA") {
            load.tree.back().managers = {"carl", "eve"};
        }
    }
    load.tree.push_back(budget("below", "projA"));
    EXPECT_FALSE(rights(load, kEve).ok());
    EXPECT_TRUE(rights(load, kAlice).ok());
}

TEST(BudgetRights, managers_name_only_what_their_own_budget_matches) {
    BudgetEdit edit = edit_of(Kind::modify, "projB");
    edit.accounts = std::vector<std::string>{"vision"};
    edit.users = std::vector<std::string>{"ann"};
    EXPECT_TRUE(rights(edit, kAlice).ok());
    edit.accounts = std::vector<std::string>{"stranger"};
    EXPECT_NE(rights(edit, kAlice).error().find("account 'stranger'"), std::string::npos);
    edit.accounts.reset();
    edit.users = std::vector<std::string>{"zoe"};
    EXPECT_NE(rights(edit, kAlice).error().find("user 'zoe'"), std::string::npos);
    EXPECT_TRUE(rights(edit, kOperator).ok());
}

TEST(BudgetRights, a_managers_budget_takes_no_strangers_account_by_its_name) {
    BudgetEdit edit = edit_of(Kind::add, "PROGB");
    edit.parent = "projA";
    const auto after = apply_edit(small_tree(), edit);
    ASSERT_FALSE(after.ok());
    EXPECT_NE(after.error().find("differ only in case"), std::string::npos);
}

TEST(BudgetChanges, every_difference_is_listed_by_name_with_old_and_new) {
    const BudgetTree before = small_tree();
    BudgetEdit edit = edit_of(Kind::modify, "projA");
    edit.shares = 40;
    edit.own_shares = 2;
    edit.sharing = BudgetSharing::users;
    edit.accounts = std::vector<std::string>{"b", "a"};
    edit.managers = std::vector<std::string>{};
    edit.parent = "progB";
    const auto after = apply_edit(before, edit);
    ASSERT_TRUE(after.ok()) << after.error();
    std::string text;
    for (const BudgetChange& change : tree_changes(before, after.value())) {
        text += change.budget + "." + change.field + ":" + change.before + ">" + change.after + ";";
    }
    EXPECT_EQ(text,
              "projA.parent:progA>progB;projA.shares:35>40;projA.own_shares:1>2;"
              "projA.sharing:>users;projA.accounts:>a,b;projA.managers:carl>;");
    EXPECT_TRUE(tree_changes(before, before).empty());

    const auto gone = apply_edit(before, edit_of(Kind::remove, "projB"));
    ASSERT_TRUE(gone.ok());
    const auto deleted = tree_changes(before, gone.value());
    ASSERT_EQ(deleted.size(), 1u);
    EXPECT_EQ(deleted[0].field, "budget");
    EXPECT_EQ(deleted[0].before, "parent=progA shares=5");
    EXPECT_EQ(deleted[0].after, "");
    const auto added = tree_changes(gone.value(), before);
    ASSERT_EQ(added.size(), 1u);
    EXPECT_EQ(added[0].after, "parent=progA shares=5");
}

}  // namespace
}  // namespace tranche
