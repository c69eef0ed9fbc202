// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/budget_lookup.hpp"

#include <gtest/gtest.h>

#include "common/model/usage_ledger.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kWeek = 7 * 86400;
constexpr std::int64_t kHour = 3600;

Budget budget(const char* name, std::uint32_t shares) {
    Budget result;
    result.name = name;
    result.shares = shares;
    return result;  // its account is its name
}

// 32 GPUs; budgets a (3 shares), b (1 share) and none (no shares). Each was there for ever.
class BudgetLookupTest : public testing::Test {
  protected:
    BudgetLookupTest() : ledger_({}) {
        const auto tree = BudgetTree::build({budget("a", 3), budget("b", 1), budget("none", 0)});
        EXPECT_TRUE(tree.ok());
        view.tree = std::make_shared<BudgetTree>(*tree);
        view.settings = std::make_shared<Settings>();
        ledger_.set_tree(0, *tree);
        Node node;
        node.name = "n1";
        node.gpus = 32;
        view.view.nodes.push_back(node);
        view.available_weight_milli = 32'000;
        publish(kWeek);
    }

    // A run of so many GPUs that is over.
    void used(const char* name, std::int64_t gpus, std::int64_t from, std::int64_t to) {
        Segment segment;
        segment.key = {++last_job_, from, from};
        segment.budget = name;
        segment.user = "u";
        segment.kind = RunKind::allocated;
        segment.weight_milli = gpus * 1000;
        EXPECT_TRUE(ledger_.begin(segment));
        EXPECT_TRUE(ledger_.end(segment.key, to));
    }

    void waits(const char* name, std::int64_t gpus) {
        PendingJob job;
        job.id = ++last_job_;
        job.budget = ledger_.budget_id(name);
        job.member = ledger_.member_id(job.budget, "u");
        job.shape.gpus = gpus;
        job.weight_milli = gpus * 1000;
        job.min_runtime_seconds = kHour;
        view.view.pending.push_back(job);
    }

    void publish(std::int64_t now) {
        view.at = now;
        view.view.now = now;
        view.standings = ledger_.standings(now);
        view.funded_milli_seconds.clear();
        for (SideId side = 0; side < view.standings.sides.size(); ++side) {
            view.funded_milli_seconds.push_back(
                funded_milli_seconds(view.standings, side, Int128{32'000} * kWeek));
        }
    }

    Result<BudgetStanding> ask(const char* account, const char* requested = "") {
        StandingQuestion question;
        question.account = account;
        question.user_name = "new";
        question.requested_budget = requested;
        question.gpus = 16;
        question.weight_milli = 16'000;
        question.min_runtime_seconds = kHour;
        return ViewBudgetLookup(view).resolve(question);
    }

    EngineView view;
    UsageLedger ledger_;
    std::uint32_t last_job_ = 0;
};

TEST_F(BudgetLookupTest, charge_funding_and_ratio_are_those_of_the_window) {
    // A whole window of 12 GPUs: half of the 24 that 3 of 4 shares fund.
    used("a", 12, 0, kWeek);
    publish(kWeek);
    const auto standing = ask("a");
    ASSERT_TRUE(standing.ok()) << standing.error();
    EXPECT_EQ(standing->name, "a");
    EXPECT_TRUE(standing->funded);
    EXPECT_EQ(standing->charged_gpu_milli_hours, 12 * 168 * 1000);
    EXPECT_EQ(standing->funded_gpu_milli_hours, 24 * 168 * 1000);
    ASSERT_TRUE(standing->ratio_milli.has_value());
    EXPECT_NEAR(static_cast<double>(*standing->ratio_milli), 500, 1);
}

TEST_F(BudgetLookupTest, the_place_is_the_one_the_next_ranking_gives) {
    // Tags in GPU hours over the funded fraction (3/4 and 1/4). Inside a budget users share: after
    // u's first job (earlier submission) comes the new user, who has no charge yet.
    // Asking for a: a's u 0, new 8/.75 = 10.7, u 32; b's 0, 32, 64: u of a, u of b, then it.
    // Asking for b: a's 0, 10.7; b's u 0, new 8/.25 = 32: a, b, a, then it.
    for (int i = 0; i < 3; ++i) {
        waits("b", 8);
    }
    for (int i = 0; i < 2; ++i) {
        waits("a", 8);
    }
    publish(kWeek);
    const auto standing = ask("a");
    ASSERT_TRUE(standing.ok());
    EXPECT_EQ(standing->queue_length, 6);
    EXPECT_EQ(standing->position, 3);
    EXPECT_EQ(ask("b")->position, 4);
}

TEST_F(BudgetLookupTest, in_a_long_queue_the_place_is_not_worked_out) {
    for (std::size_t i = 0; i <= kSmallQueue; ++i) {
        waits("b", 1);
    }
    publish(kWeek);
    const auto standing = ask("a");
    ASSERT_TRUE(standing.ok());
    EXPECT_EQ(standing->position, 0);
    EXPECT_EQ(standing->queue_length, static_cast<std::int64_t>(kSmallQueue) + 2);
}

TEST_F(BudgetLookupTest, a_budget_without_shares_is_not_funded) {
    const auto standing = ask("none");
    ASSERT_TRUE(standing.ok());
    EXPECT_EQ(standing->name, "none");
    EXPECT_FALSE(standing->funded);
    EXPECT_EQ(standing->position, 0);
}

TEST_F(BudgetLookupTest, an_account_that_no_budget_pays_for_has_none) {
    const auto standing = ask("elsewhere");
    ASSERT_TRUE(standing.ok());
    EXPECT_EQ(standing->name, "");
    EXPECT_FALSE(standing->funded);
}

TEST_F(BudgetLookupTest, a_budget_that_does_not_exist_or_match_is_an_error) {
    const auto missing = ask("a", "nowhere");
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().find("nowhere"), std::string::npos);
    EXPECT_FALSE(ask("a", "b").ok());
    EXPECT_TRUE(ask("a", "a").ok());
}

TEST_F(BudgetLookupTest, a_budget_newer_than_the_view_is_not_funded_yet) {
    const auto tree = BudgetTree::build({budget("a", 3), budget("b", 1), budget("fresh", 1)});
    ASSERT_TRUE(tree.ok());
    view.tree = std::make_shared<BudgetTree>(*tree);
    const auto standing = ask("fresh");
    ASSERT_TRUE(standing.ok());
    EXPECT_EQ(standing->name, "fresh");
    EXPECT_FALSE(standing->funded);
}

}  // namespace
}  // namespace tranche
