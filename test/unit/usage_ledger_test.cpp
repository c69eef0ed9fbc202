// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/usage_ledger.hpp"

#include "support/situation.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kWeek = 168 * kHour;
constexpr std::int64_t kStart = 100 * kWeek;

class Ledger {
  public:
    explicit Ledger(const std::vector<Budget>& budgets, UsageLedger::Rules rules = {})
        : usage(rules) {
        edit(0, budgets);
    }
    // Times are relative to kStart.
    void edit(std::int64_t at, const std::vector<Budget>& budgets) {
        usage.set_tree(kStart + at, make_tree(budgets));
    }
    SegmentKey begin(std::int64_t at, const std::string& budget, std::int64_t gpus,
                     const std::string& user = "u", RunKind kind = RunKind::allocated) {
        const SegmentKey key{++last_id_, kStart + at, kStart + at};
        EXPECT_TRUE(usage.begin({key, budget, user, kind, gpus * 1000}));
        return key;
    }
    bool end(const SegmentKey& key, std::int64_t until) { return usage.end(key, kStart + until); }
    // The first charge: from here on trees are edits.
    void first_charge() { end(begin(0, "", 1), 0); }

    const Standings& at(std::int64_t now) { return usage.standings(kStart + now); }
    SideId side(const std::string& budget) { return 2 * usage.find_budget(budget); }
    double gpu_hours(std::int64_t now, const std::string& budget,
                     RunKind kind = RunKind::allocated) {
        return static_cast<double>(
                   at(now).sides[side(budget)].usage.plain[static_cast<std::size_t>(kind)]) /
               3.6e6;
    }
    // The entitlement in hours of its whole level, faded; 168 = all of it for a week.
    double entitled(std::int64_t now, SideId of) {
        return static_cast<double>(at(now).sides[of].entitlement) / 4294967296.0 / kWeek / kHour;
    }
    double entitled(std::int64_t now, const std::string& budget) {
        return entitled(now, side(budget));
    }

    UsageLedger usage;

  private:
    JobId last_id_ = 0;
};

// w(age) = 2 (1 - age / week), integrated over the last `hours`.
double faded(double hours) {
    return 2 * hours - hours * hours / 168;
}

TEST(UsageLedger, the_first_tree_holds_for_ever) {
    Ledger ledger({make_budget("A", 3), make_budget("B", 1)});
    EXPECT_DOUBLE_EQ(ledger.entitled(0, "A"), 126);
    EXPECT_DOUBLE_EQ(ledger.entitled(0, "B"), 42);
    // As long as nothing was charged, so does the next.
    ledger.edit(kHour, {make_budget("A", 1), make_budget("B", 1)});
    EXPECT_DOUBLE_EQ(ledger.entitled(kHour, "A"), 84);
    const SegmentKey free = ledger.begin(kHour, "A", 8, "u", RunKind::unallocated);
    ledger.end(free, 2 * kHour);
    ledger.edit(2 * kHour, {make_budget("A", 1), make_budget("B", 3)});
    EXPECT_DOUBLE_EQ(ledger.entitled(2 * kHour, "A"), 42);
    ledger.begin(2 * kHour, "A", 8);
    ledger.edit(2 * kHour, {make_budget("A", 3), make_budget("B", 1)});
    EXPECT_DOUBLE_EQ(ledger.entitled(2 * kHour, "A"), 42);
}

TEST(UsageLedger, an_edit_changes_the_rate_and_not_the_past) {
    Ledger ledger({make_budget("A", 35), make_budget("D", 10), make_budget("B", 55)});
    ledger.first_charge();
    ledger.edit(0, {make_budget("A", 5), make_budget("D", 40), make_budget("B", 55)});
    EXPECT_NEAR(ledger.entitled(0, "A"), 168 * .35, 1e-6);
    EXPECT_NEAR(ledger.entitled(0, "D"), 168 * .10, 1e-6);
    EXPECT_NEAR(ledger.entitled(24 * kHour, "A"), (168 - faded(24)) * .35 + faded(24) * .05, 1e-5);
    EXPECT_NEAR(ledger.entitled(24 * kHour, "D"), (168 - faded(24)) * .10 + faded(24) * .40, 1e-5);
    EXPECT_NEAR(ledger.entitled(24 * kHour, "B"), 168 * .55, 1e-5);
    EXPECT_NEAR(ledger.entitled(kWeek, "A"), 168 * .05, 1e-5);
}

TEST(UsageLedger, zeroed_shares_are_weighed_by_their_past) {
    // The numbers of the scenario zeroed_shares_keep_running_contract: 174 and 162 half-hours.
    Ledger ledger({make_budget("A", 1), make_budget("Z", 1)});
    ledger.begin(0, "Z", 8);
    ledger.edit(kHour, {make_budget("A", 1), make_budget("Z", 0)});
    EXPECT_NEAR(2 * ledger.entitled(4 * kHour, "A"), 174, 0.1);
    EXPECT_NEAR(2 * ledger.entitled(4 * kHour, "Z"), 162, 0.1);
    EXPECT_EQ(ledger.at(4 * kHour).budgets[ledger.usage.find_budget("Z")].funded_fraction, 0U);
    EXPECT_FALSE(ledger.at(4 * kHour).funded(ledger.usage.find_budget("Z")));
}

TEST(UsageLedger, a_budget_added_later_counts_as_having_been_there_for_eight_hours) {
    Ledger ledger({make_budget("A", 1)});
    ledger.first_charge();
    ledger.edit(24 * kHour, {make_budget("A", 1), make_budget("B", 3)});
    EXPECT_NEAR(ledger.entitled(24 * kHour, "B"), faded(8) * .75, 1e-5);
    EXPECT_NEAR(ledger.entitled(24 * kHour, "A"), 168, 1e-5);
    EXPECT_NEAR(ledger.entitled(34 * kHour, "B"), faded(18) * .75, 1e-5);
    EXPECT_NEAR(ledger.entitled(34 * kHour, "A"), 168 - faded(10) * .75, 1e-5);
}

TEST(UsageLedger, so_does_one_added_below_another_budget) {
    Ledger ledger({make_budget("P", 1), make_budget("p1", 1, "P")});
    ledger.first_charge();
    ledger.edit(24 * kHour,
                {make_budget("P", 1), make_budget("p1", 1, "P"), make_budget("p2", 1, "P")});
    EXPECT_NEAR(ledger.entitled(24 * kHour, "p2"), faded(8) / 2, 1e-5);
}

TEST(UsageLedger, a_raise_from_zero_counts_at_most_since_the_budget_lost_its_shares) {
    Ledger ledger({make_budget("A", 1), make_budget("B", 1), make_budget("C", 0)});
    ledger.first_charge();
    const auto with = [](std::uint32_t b, std::uint32_t c) {
        return std::vector<Budget>{make_budget("A", 1), make_budget("B", b), make_budget("C", c)};
    };
    ledger.edit(10 * kHour, with(0, 0));
    ledger.edit(12 * kHour, with(1, 0));
    // Two hours were missing; they count as given (no gain and no loss by the detour).
    EXPECT_NEAR(ledger.entitled(20 * kHour, "B"), 84, 1e-5);
    ledger.edit(20 * kHour, with(0, 0));
    ledger.edit(40 * kHour, with(1, 0));
    // 20 hours were missing, 8 of them count.
    EXPECT_NEAR(ledger.entitled(40 * kHour, "B"), (168 - faded(20) + faded(8)) / 2, 1e-5);
    // One that never had shares.
    ledger.edit(60 * kHour, with(1, 2));
    EXPECT_NEAR(ledger.entitled(60 * kHour, "C"), faded(8) / 2, 1e-5);
}

TEST(UsageLedger, shares_of_zero_and_back_gain_nothing_even_many_times) {
    Ledger ledger({make_budget("A", 1), make_budget("B", 1)});
    ledger.first_charge();
    for (int i = 1; i <= 50; ++i) {
        ledger.edit(i * 60, {make_budget("A", 1), make_budget("B", i % 2 == 0 ? 1U : 0U)});
    }
    EXPECT_LE(ledger.entitled(3600, "B"), 84.0001);
    EXPECT_NEAR(ledger.entitled(3600, "B"), 84, 0.001);
}

TEST(UsageLedger, charges_are_exact_over_the_window) {
    // Scenario window_is_sharp: 16 GPUs on day 0.
    Ledger ledger({make_budget("A", 1)});
    const SegmentKey key = ledger.begin(0, "A", 16);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(12 * kHour, "A"), 192);
    EXPECT_TRUE(ledger.end(key, 24 * kHour));
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(144 * kHour, "A"), 384);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(180 * kHour, "A"), 192);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(192 * kHour, "A"), 0);
}

TEST(UsageLedger, a_replayed_segment_is_charged_once) {
    Ledger ledger({make_budget("A", 1)});
    const Segment segment{{7, kStart, kStart}, "A", "u", RunKind::allocated, 8000};
    EXPECT_TRUE(ledger.usage.begin(segment));
    EXPECT_FALSE(ledger.usage.begin(segment));
    EXPECT_TRUE(ledger.usage.is_open(segment.key));
    EXPECT_TRUE(ledger.end(segment.key, kHour));
    EXPECT_FALSE(ledger.end(segment.key, kHour));
    EXPECT_FALSE(ledger.usage.begin(segment));
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "A"), 8);
    // The job's next segment, and its next run, are new.
    Segment next = segment;
    next.key.begin_at = kStart + kHour;
    EXPECT_TRUE(ledger.usage.begin(next));
    EXPECT_TRUE(ledger.end(next.key, 2 * kHour));
    next.key.submit_at = next.key.begin_at = kStart + 2 * kHour;
    EXPECT_TRUE(ledger.usage.begin(next));
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(2 * kHour, "A"), 16);
}

TEST(UsageLedger, ended_segments_are_remembered_for_a_day_and_not_for_ever) {
    Ledger ledger({make_budget("A", 1)});
    Segment last;
    for (JobId id = 1; id <= 5000; ++id) {
        last = {{id, kStart, kStart}, "A", "u", RunKind::allocated, 1000};
        ledger.usage.begin(last);
        ledger.end(last.key, 60);
    }
    EXPECT_FALSE(ledger.usage.begin(last));
    ledger.at(25 * kHour);
    EXPECT_EQ(ledger.usage.open_count(), 0U);
    EXPECT_TRUE(ledger.usage.begin(last));
}

TEST(UsageLedger, a_refund_reaches_into_the_past) {
    Ledger ledger({make_budget("A", 1)});
    const SegmentKey key = ledger.begin(0, "A", 8);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(5 * kHour, "A"), 40);
    ledger.end(key, 4 * kHour);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(5 * kHour, "A"), 32);
    const SegmentKey lost = ledger.begin(5 * kHour, "A", 8);
    ledger.end(lost, 5 * kHour);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(6 * kHour, "A"), 32);
    // Never before its begin.
    const SegmentKey wrong = ledger.begin(6 * kHour, "A", 8);
    ledger.end(wrong, kHour);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(7 * kHour, "A"), 32);
}

TEST(UsageLedger, free_use_and_use_outside_are_kept_apart) {
    Ledger ledger({make_budget("A", 1)});
    ledger.begin(0, "A", 8, "u", RunKind::unallocated);
    ledger.begin(0, "A", 4, "u", RunKind::outside);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "A"), 0);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "A", RunKind::unallocated), 8);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "A", RunKind::outside), 4);
}

TEST(UsageLedger, every_ancestor_pays_and_an_inner_budget_s_own_side_apart) {
    Ledger ledger({make_budget("P", 1), make_budget("p1", 1, "P"), make_budget("q", 1, "p1")});
    ledger.begin(0, "q", 1);
    ledger.begin(0, "P", 2);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "q"), 1);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "p1"), 1);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "P"), 3);
    EXPECT_DOUBLE_EQ(
        static_cast<double>(ledger.at(kHour).sides[ledger.side("P") + 1].usage.plain[0]) / 3.6e6,
        2);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(kHour, "root"), 3);
}

TEST(UsageLedger, the_own_side_exists_while_accounts_name_it_or_once_a_job_did) {
    std::vector<Budget> tree = {make_budget("P", 1), make_budget("p1", 3, "P")};
    Ledger silent(tree);
    EXPECT_DOUBLE_EQ(silent.entitled(0, "p1"), 168);
    tree[0].accounts = {"p"};
    Ledger named(tree);
    EXPECT_DOUBLE_EQ(named.entitled(0, "p1"), 126);
    EXPECT_DOUBLE_EQ(named.entitled(0, named.side("P") + 1), 42);
    silent.begin(0, "P", 1);
    EXPECT_EQ(silent.at(0).sides[silent.side("p1")].fraction, kFractionOne * 3 / 4);
}

TEST(UsageLedger, funded_fraction_is_the_product_from_the_root) {
    std::vector<Budget> tree = {make_budget("P", 1), make_budget("Q", 1), make_budget("p1", 3, "P"),
                                make_budget("p2", 1, "P")};
    Ledger ledger(tree);
    const auto funded = [&](const char* name) {
        return static_cast<double>(
                   ledger.at(0).budgets[ledger.usage.find_budget(name)].funded_fraction) /
               4294967296.0;
    };
    EXPECT_DOUBLE_EQ(funded("p1"), 0.375);
    EXPECT_DOUBLE_EQ(funded("p2"), 0.125);
    EXPECT_DOUBLE_EQ(funded("Q"), 0.5);
    EXPECT_DOUBLE_EQ(funded("P"), 0);  // nobody's jobs are its own
}

TEST(UsageLedger, a_moved_budget_takes_its_charge_along_and_leaves_the_ancestors_theirs) {
    Ledger ledger({make_budget("P", 1), make_budget("Q", 1), make_budget("x", 1, "P"),
                   make_budget("y", 1, "P"), make_budget("z", 1, "Q")});
    const SegmentKey key = ledger.begin(0, "x", 8);
    ledger.edit(2 * kHour, {make_budget("P", 1), make_budget("Q", 1), make_budget("x", 1, "Q"),
                            make_budget("y", 1, "P"), make_budget("z", 1, "Q")});
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(3 * kHour, "P"), 16);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(3 * kHour, "Q"), 8);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(3 * kHour, "x"), 24);
    EXPECT_NEAR(ledger.entitled(3 * kHour, "x"), 84, 1e-6);  // as if always there
    // A refund that reaches back over the move is taken from the present ancestors only in part.
    ledger.end(key, kHour);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(3 * kHour, "x"), 8);
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(3 * kHour, "Q"), 0);
}

TEST(UsageLedger, a_deleted_budget_s_charge_stays_and_comes_back_with_its_name) {
    Ledger ledger({make_budget("P", 1), make_budget("x", 1, "P"), make_budget("y", 1, "P")});
    const SegmentKey key = ledger.begin(0, "x", 8);
    ledger.end(key, kHour);
    ledger.edit(2 * kHour, {make_budget("P", 1), make_budget("y", 1, "P")});
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(3 * kHour, "P"), 8);
    EXPECT_FALSE(ledger.at(3 * kHour).budgets[ledger.usage.find_budget("x")].exists);
    ledger.edit(4 * kHour,
                {make_budget("P", 1), make_budget("x", 1, "P"), make_budget("y", 1, "P")});
    EXPECT_DOUBLE_EQ(ledger.gpu_hours(5 * kHour, "x"), 8);
    EXPECT_NEAR(ledger.entitled(5 * kHour, "x"), 84, 1e-5);
}

TEST(UsageLedger, a_deleted_budget_that_comes_back_elsewhere_is_raised_from_zero) {
    Ledger ledger({make_budget("P", 1), make_budget("x", 1, "P"), make_budget("y", 1, "P"),
                   make_budget("Q", 1), make_budget("z", 1, "Q")});
    ledger.first_charge();
    ledger.edit(0, {make_budget("P", 1), make_budget("y", 1, "P"), make_budget("Q", 1),
                    make_budget("z", 1, "Q")});
    ledger.edit(20 * kHour, {make_budget("P", 1), make_budget("y", 1, "P"), make_budget("Q", 1),
                             make_budget("z", 1, "Q"), make_budget("x", 1, "Q")});
    EXPECT_NEAR(ledger.entitled(20 * kHour, "x"), (168 - faded(20) + faded(8)) / 2, 1e-5);
}

TEST(UsageLedger, without_entitlement_history_today_s_shares_count) {
    UsageLedger::Rules rules;
    rules.entitlement_history = false;
    Ledger ledger({make_budget("A", 1), make_budget("B", 1)}, rules);
    ledger.first_charge();
    ledger.edit(kHour, {make_budget("A", 3), make_budget("B", 1)});
    EXPECT_DOUBLE_EQ(ledger.entitled(kHour, "A"), 126);
}

TEST(UsageLedger, users_of_a_budget_are_told_apart) {
    Ledger ledger({make_budget("A", 1), make_budget("B", 1)});
    ledger.begin(0, "A", 1, "alice");
    ledger.begin(0, "A", 2, "bob");
    ledger.begin(0, "B", 4, "alice");
    const Standings& standings = ledger.at(kHour);
    const auto member = [&](const char* budget, const char* user) {
        const MemberId id = ledger.usage.member_id(ledger.usage.find_budget(budget), user);
        return static_cast<std::int64_t>(standings.members[id].usage.plain[0]) / 3'600'000;
    };
    EXPECT_EQ(member("A", "alice"), 1);
    EXPECT_EQ(member("A", "bob"), 2);
    EXPECT_EQ(member("B", "alice"), 4);
}

TEST(Standings, ratios_are_shown_so_that_one_is_what_was_funded) {
    Ledger ledger({make_budget("A", 1), make_budget("B", 3)});
    ledger.begin(-kWeek, "A", 2);
    ledger.begin(-kWeek, "B", 3);
    const Standings& standings = ledger.at(0);
    EXPECT_EQ(shown_ratio_milli(standings, ledger.side("A"), 8000), 1000U);
    EXPECT_EQ(shown_ratio_milli(standings, ledger.side("B"), 8000), 500U);
    EXPECT_EQ(shown_ratio_milli(standings, 2 * kNoBudgetId, 8000), 0U);
    EXPECT_EQ(entitled_fraction(standings, ledger.side("B")), kFractionOne * 3 / 4);
}

TEST(Standings, budgets_part_at_the_first_level_on_which_they_differ) {
    Ledger ledger({make_budget("P", 1), make_budget("Q", 1), make_budget("p1", 1, "P"),
                   make_budget("p2", 1, "P"), make_budget("p11", 1, "p1")});
    const Standings& standings = ledger.at(0);
    const auto id = [&](const char* name) { return ledger.usage.find_budget(name); };
    EXPECT_EQ(parting_sides(standings, id("p11"), id("Q")).a, ledger.side("P"));
    EXPECT_EQ(parting_sides(standings, id("p11"), id("p2")).a, ledger.side("p1"));
    EXPECT_EQ(parting_sides(standings, id("p11"), id("p2")).level, 1U);
    EXPECT_EQ(parting_sides(standings, id("P"), id("p2")).a, ledger.side("P") + 1);
    EXPECT_EQ(parting_sides(standings, id("p2"), id("p2")).a, kNoId);
    EXPECT_EQ(parting_sides(standings, kNoBudgetId, id("p2")).a, 2 * kNoBudgetId);
}

TEST(Standings, sides_that_were_never_funded_come_last_by_charge) {
    EXPECT_TRUE(compare_ratio(100, 1, 0, 0) < 0);
    EXPECT_TRUE(compare_ratio(0, 0, 100, 1) > 0);
    EXPECT_TRUE(compare_ratio(1, 0, 2, 0) < 0);
    EXPECT_TRUE(compare_ratio(2, 0, 2, 0) == 0);
    EXPECT_TRUE(compare_ratio(1, 3, 2, 6) == 0);
    EXPECT_TRUE(compare_ratio(0, 5, 0, 7) == 0);
}

}  // namespace
}  // namespace tranche
