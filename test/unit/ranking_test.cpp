// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/ranking.hpp"

#include "support/situation.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;

std::vector<Budget> equals(std::initializer_list<const char*> names) {
    std::vector<Budget> budgets;
    for (const char* name : names) {
        budgets.push_back(make_budget(name, 1));
    }
    return budgets;
}

TEST(Ranking, ties_go_to_larger_shares_then_to_the_older_job) {
    Situation s(
        {make_budget("A", 1), make_budget("B", 1), make_budget("C", 2), make_budget("D", 1)});
    s.nodes(1).used("D", 1, -kHour, 0);
    s.waits("d", "D", 8, kHour);
    s.waits("b", "B", 8, kHour);
    s.waits("a", "A", 8, kHour);
    s.waits("c", "C", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"c", "b", "a", "d"}));
}

TEST(Ranking, ties_of_everything_but_the_name_go_by_name) {
    Situation s(equals({"B", "A"}));
    s.nodes(1);
    s.waits("b", "B", 8, kHour).first_submit_at = 7;
    s.waits("a", "A", 8, kHour).first_submit_at = 7;
    EXPECT_EQ(s.order(), (Names{"a", "b"}));
}

TEST(Ranking, a_placed_job_counts_before_the_next_is_chosen) {
    Situation s({make_budget("A", 2), make_budget("B", 1)});
    s.nodes(1);
    for (int i = 1; i <= 4; ++i) {
        s.waits("a" + std::to_string(i), "A", 8, kHour);
    }
    for (int i = 1; i <= 2; ++i) {
        s.waits("b" + std::to_string(i), "B", 8, kHour);
    }
    // Ratios in jobs: A 0, B 0 (a1, larger shares); A .5, B 0 (b1); A .5, B 1 (a2); A 1, B 1 (a3);
    // A 1.5, B 1 (b2); a4.
    EXPECT_EQ(s.order(), (Names{"a1", "b1", "a2", "a3", "b2", "a4"}));
}

TEST(Ranking, without_commitments_a_burst_takes_the_whole_cycle) {
    Settings settings = scenario_settings();
    settings.commitments = false;
    Situation s(equals({"A", "B"}), 0, settings);
    s.nodes(1).used("B", 1, -60, 0);
    s.waits("b1", "B", 8, kHour);
    s.waits("a1", "A", 8, kHour);
    s.waits("a2", "A", 8, kHour);
    s.waits("a3", "A", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"a1", "a2", "a3", "b1"}));
}

TEST(Ranking, recent_use_weighs_more_than_old_use) {
    // 80 GPU hours six days ago count 22, 40 GPU hours until now count 79.
    Situation s(equals({"A", "B", "C"}));
    s.nodes(1).used("A", 8, -540000, -504000).used("B", 8, -18000, 0);
    s.waits("b", "B", 8, kHour);
    s.waits("a", "A", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"a", "b"}));
    const auto hours = [&](const char* budget) {
        return static_cast<double>(s.standings.sides[2 * s.ledger.find_budget(budget)].charge()) /
               (604800.0 * 1000 * 3600);
    };
    EXPECT_NEAR(hours("A"), 80 * (2 - 2 * 522000.0 / 604800), 0.01);
    EXPECT_NEAR(hours("B"), 40 * (2 - 2 * 9000.0 / 604800), 0.01);

    Settings flat = scenario_settings();
    flat.window_shape = WindowShape::flat;
    Situation f(equals({"A", "B"}), 0, flat);
    f.nodes(1).used("A", 8, -540000, -504000).used("B", 8, -18000, 0);
    f.waits("b", "B", 8, kHour);
    f.waits("a", "A", 8, kHour);
    EXPECT_EQ(f.order(), (Names{"b", "a"}));
}

TEST(Ranking, a_contract_counts_from_its_start) {
    // a1 signed for 8 h a minute ago: 64 GPU h at once, above B's 35 (20 GPU h, weight 1.76).
    Situation s(equals({"A", "B"}));
    s.nodes(2).used("B", 1, -108000, -36000);
    s.runs("a1", "A", 8, 0, 60, 8 * kHour);
    s.waits("a2", "A", 8, kHour);
    s.waits("b", "B", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"b", "a2"}));
    s.settings.commitments = false;
    EXPECT_EQ(s.order(), (Names{"a2", "b"}));
}

TEST(Ranking, team_priority_orders_only_its_own_budget) {
    Situation s(equals({"A", "B"}));
    s.nodes(1).used("A", 10, -36000, 0).used("B", 1, -36000, 0);
    PendingJob& low = s.waits("a-low", "A", 8, kHour);
    low.team_priority = TeamPriority::low;
    s.waits("a-urgent", "A", 8, kHour).team_priority = TeamPriority::urgent;
    s.waits("a-high", "A", 8, kHour).team_priority = TeamPriority::high;
    s.waits("a-normal", "A", 8, kHour);
    s.waits("b-low", "B", 8, kHour).team_priority = TeamPriority::low;
    EXPECT_EQ(s.order(), (Names{"b-low", "a-urgent", "a-high", "a-normal", "a-low"}));
}

TEST(Ranking, users_of_one_budget_take_turns_by_charge) {
    Situation s(equals({"A"}));
    s.nodes(1).used("A", 1, -kHour, 0, "hog");
    for (int i = 1; i <= 3; ++i) {
        s.waits("h" + std::to_string(i), "A", 1, kHour, "hog");
    }
    for (int i = 1; i <= 3; ++i) {
        s.waits("k" + std::to_string(i), "A", 1, kHour, "k");
    }
    // The hog's hour counts a little less than 2: k1, k2 (0 and 1 h), then h1 (1.99), k3 (2), …
    EXPECT_EQ(s.order(), (Names{"k1", "k2", "h1", "k3", "h2", "h3"}));

    s.settings.sharing = Sharing::pooled;
    Situation pooled(equals({"A"}), 0, s.settings);
    pooled.nodes(1).used("A", 1, -kHour, 0, "hog");
    pooled.waits("h1", "A", 1, kHour, "hog");
    pooled.waits("h2", "A", 1, kHour, "hog");
    pooled.waits("k1", "A", 1, kHour, "k");
    EXPECT_EQ(pooled.order(), (Names{"h1", "h2", "k1"}));
}

TEST(Ranking, a_budget_s_own_sharing_beats_the_setting) {
    std::vector<Budget> budgets = equals({"A"});
    budgets[0].sharing = BudgetSharing::pooled;
    Situation s(budgets);
    s.nodes(1).used("A", 1, -kHour, 0, "hog");
    s.waits("h1", "A", 1, kHour, "hog");
    s.waits("k1", "A", 1, kHour, "k");
    EXPECT_EQ(s.order(), (Names{"h1", "k1"}));
}

TEST(Ranking, nice_then_first_submission_then_job_id_order_one_user_s_jobs) {
    Situation s(equals({"A"}));
    s.nodes(1);
    s.waits("nice", "A", 1, kHour).nice = 10;
    s.waits("young", "A", 1, kHour).first_submit_at = 50;
    s.waits("old", "A", 1, kHour).first_submit_at = 40;
    s.waits("old-too", "A", 1, kHour).first_submit_at = 40;
    s.waits("eager", "A", 1, kHour).nice = -10;
    EXPECT_EQ(s.order(), (Names{"eager", "old", "old-too", "young", "nice"}));
}

TEST(Ranking, urgent_for_ever_is_normal) {
    // RaisedShare 1.5: the hog used 20 GPU h, his two colleagues none: mean 6.7.
    Settings settings = scenario_settings();
    settings.raised_share_ppm = 1'500'000;
    Situation s(equals({"A"}), 0, settings);
    s.nodes(1).used("A", 8, -9000, 0, "hog");
    s.waits("h1", "A", 8, kHour, "hog").team_priority = TeamPriority::urgent;
    s.waits("k2", "A", 8, kHour, "k");
    s.waits("m1", "A", 8, kHour, "m");
    s.waits("k1", "A", 8, kHour, "k").team_priority = TeamPriority::urgent;
    // k1 counts 8 h before k2 is looked at, so m comes between.
    EXPECT_EQ(s.order(), (Names{"k1", "m1", "k2", "h1"}));
    s.settings.raised_share_ppm = 3'100'000;
    EXPECT_EQ(s.order().front(), "k1");
    EXPECT_EQ(s.order()[1], "h1");
}

TEST(Ranking, low_stays_low_for_a_user_above_his_share) {
    Settings settings = scenario_settings();
    settings.raised_share_ppm = 1'000'000;
    Situation s(equals({"A"}), 0, settings);
    s.nodes(1).used("A", 8, -9000, 0, "hog");
    s.waits("low", "A", 8, kHour, "hog").team_priority = TeamPriority::low;
    s.waits("high", "A", 8, kHour, "hog").team_priority = TeamPriority::high;
    s.waits("k", "A", 8, kHour, "k");
    EXPECT_EQ(s.order(), (Names{"k", "high", "low"}));
}

TEST(Ranking, an_inner_budget_s_own_jobs_compete_as_one_more_child) {
    Situation s({make_budget("P", 1), make_budget("p1", 1, "P"), make_budget("C", 1)});
    s.nodes(1);
    s.waits("own1", "P", 8, kHour);
    s.waits("own2", "P", 8, kHour);
    s.waits("k1", "p1", 8, kHour);
    s.waits("k2", "p1", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"own1", "k1", "own2", "k2"}));
}

TEST(Ranking, own_shares_weigh_the_own_side) {
    std::vector<Budget> budgets = {make_budget("P", 1), make_budget("p1", 1, "P")};
    budgets[0].own_shares = 3;
    Situation s(budgets);
    s.nodes(1);
    for (int i = 1; i <= 3; ++i) {
        s.waits("k" + std::to_string(i), "p1", 8, kHour);
    }
    for (int i = 1; i <= 4; ++i) {
        s.waits("own" + std::to_string(i), "P", 8, kHour);
    }
    // Ratios: own 0, k 0 -> own (larger shares); own 1/3, k 0 -> k; own 1/3, 2/3, tie at 1 -> own.
    EXPECT_EQ(s.order(), (Names{"own1", "k1", "own2", "own3", "own4", "k2", "k3"}));
}

TEST(Ranking, arrays_rank_task_by_task) {
    Situation s(equals({"A", "B"}));
    s.nodes(1);
    s.waits("a", "A", 4, kHour).tasks = 3;
    s.waits("b", "B", 4, kHour).tasks = 3;
    EXPECT_EQ(s.order(), (Names{"a", "b", "a", "b", "a", "b"}));
    EXPECT_EQ(s.ranking[2].first_task, 1U);
    EXPECT_EQ(s.ranking[4].first_task, 2U);
}

TEST(Ranking, an_array_s_tasks_beyond_what_could_start_stay_one_block) {
    Situation s(equals({"A", "B"}));
    s.nodes(1);
    s.waits("a", "A", 8, kHour).tasks = 1000;
    s.waits("b", "B", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"a", "b", "a*999"}));
    std::uint32_t tasks = 0;
    for (const RankedEntry& entry : s.ranking) {
        EXPECT_EQ(entry.job == 0 ? entry.first_task : 0, entry.job == 0 ? tasks : 0);
        tasks += entry.job == 0 ? entry.tasks : 0;
    }
    EXPECT_EQ(tasks, 1000U);
}

TEST(Ranking, jobs_that_could_not_start_are_listed_but_add_nothing) {
    Situation s(equals({"A", "B"}));
    s.nodes(1);
    s.waits("held", "A", 8, kHour).block = StartBlock::held;
    s.waits("dependent", "A", 8, kHour).block = StartBlock::dependency;
    s.waits("a", "A", 8, kHour);
    s.waits("b", "B", 8, kHour);
    s.waits("a2", "A", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"held", "dependent", "a", "b", "a2"}));
    EXPECT_FALSE(s.ranking[0].counts);
    EXPECT_TRUE(s.ranking[2].counts);
    EXPECT_EQ(s.ranking[2].tag_charge, 0U);
    EXPECT_GT(s.ranking[4].tag_charge, 0U);
}

TEST(Ranking, free_jobs_follow_by_free_use_and_those_without_shares_come_last) {
    Situation s(
        {make_budget("A", 1), make_budget("B", 1), make_budget("Z", 0), make_budget("C", 1)});
    s.nodes(1)
        .used("A", 2, -kHour, 0, "", RunKind::unallocated)
        .used("B", 6, -kHour, 0, "", RunKind::unallocated)
        .used("C", 8, -kHour, 0);
    // Declaring a minimum or urgent does not make a budget without shares allocated.
    s.waits("z", "Z", 8, kHour).team_priority = TeamPriority::urgent;
    s.waits("b", "B", 8, 0);
    s.waits("a", "A", 8, 0);
    s.waits("none", "", 8, kHour);
    s.waits("c", "C", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"c", "a", "b", "z", "none"}));
    EXPECT_EQ(s.ranking[0].band, Band::allocated);
    EXPECT_EQ(s.ranking[1].band, Band::unallocated);
}

TEST(Ranking, jobs_without_weight_are_free_work) {
    Situation s(equals({"A"}));
    s.nodes(1);
    s.waits("cpu", "A", 0, kHour);
    s.waits("gpu", "A", 1, kHour);
    EXPECT_EQ(s.order(), (Names{"gpu", "cpu"}));
    EXPECT_EQ(s.ranking[1].band, Band::unallocated);
}

Settings with_lane() {
    Settings settings = scenario_settings();
    settings.express_fraction_ppm = kPpm;
    return settings;
}

TEST(Ranking, express_jobs_stand_first_by_first_submission_and_count) {
    Situation s(equals({"A", "B"}), 0, with_lane());
    s.nodes(4).used("A", 8, -kHour, 0);
    s.waits("b", "B", 8, kHour);
    s.waits("a-debug", "A", 1, 900);
    s.waits("b-debug", "B", 1, 900, "other");
    s.waits("too-long", "B", 1, 901);
    s.waits("too-large", "B", 9, 900);
    s.waits("second-run", "B", 1, 900).runs_before = 1;
    s.waits("free", "B", 1, 0);
    const Names order = s.order();
    EXPECT_EQ(order[0], "a-debug");
    EXPECT_EQ(order[1], "b-debug");
    EXPECT_EQ(order.back(), "free");
    for (std::size_t i = 0; i < order.size(); ++i) {
        EXPECT_EQ(s.ranking[i].band == Band::express, i < 2) << order[i];
    }
    // b is the first of the others: b-debug's quarter of an hour counts on its side.
    EXPECT_EQ(order[2], "b");
    EXPECT_EQ(s.ranking[2].tag_charge,
              s.standings.window.at_weight_one(900) * static_cast<UInt128>(1000));
}

TEST(Ranking, the_express_band_holds_no_more_of_a_user_than_his_caps_allow) {
    Settings settings = with_lane();
    settings.express_gpus_per_user = 2;
    settings.express_gpus = 4;
    settings.express_fraction_ppm = 1;
    Situation s(equals({"A", "B"}), 0, settings);
    s.nodes(1);
    for (int i = 1; i <= 4; ++i) {
        s.waits("u" + std::to_string(i), "A", 1, 900, "u");
    }
    s.waits("v1", "A", 1, 900, "v");
    s.waits("v2", "A", 2, 900, "v");
    s.waits("w1", "A", 1, 900, "w");
    s.waits("w2", "A", 1, 900, "w");
    s.waits("b", "B", 1, kHour);
    Names express, others;
    const Names order = s.order();
    for (std::size_t i = 0; i < order.size(); ++i) {
        (s.ranking[i].band == Band::express ? express : others).push_back(order[i]);
    }
    // u may hold 2 GPUs, v's second would be his third. The lane's own 4 count from the plan.
    EXPECT_EQ(express, (Names{"u1", "u2", "v1", "w1", "w2"}));
    EXPECT_EQ(others.front(), "b");
    EXPECT_EQ(others.size(), 4U);
}

TEST(Ranking, an_array_fills_the_lane_and_goes_on_outside_it) {
    Situation s(equals({"A", "B"}), 0, with_lane());
    s.nodes(4);
    s.waits("debug", "A", 2, 900).tasks = 20;  // 8 GPUs a user: four tasks
    s.waits("b", "B", 8, kHour);
    EXPECT_EQ(s.order(), (Names{"debug*4", "b", "debug*16"}));
    EXPECT_EQ(s.ranking[0].band, Band::express);
    EXPECT_EQ(s.ranking[2].band, Band::allocated);
    EXPECT_EQ(s.ranking[2].first_task, 4U);
}

TEST(Ranking, claimants_whose_plan_stands_come_before_all) {
    Situation s(equals({"A", "B"}), 0, with_lane());
    s.nodes(1).used("A", 8, -kHour, 0);
    s.waits("debug", "B", 1, 900);
    const PendingJob& a = s.waits("a", "A", 8, kHour);
    Plan plan;
    plan.claimant = a.id;
    plan.budget = a.budget;
    plan.member = a.member;
    plan.gpus = 8;
    plan.weight_milli = 8000;
    plan.commitment_seconds = kHour;
    s.view.plans.push_back(plan);
    EXPECT_EQ(s.order(), (Names{"a", "debug"}));
    EXPECT_EQ(s.ranking[0].band, Band::plan);
}

TEST(Ranking, jobs_that_budgets_do_not_govern_come_by_their_own_use) {
    Situation s(equals({"A", "B"}), 0, with_lane());
    s.nodes(1).used("A", 1, -kHour, 0, "", RunKind::outside);
    s.waits("a-out", "A", 1, 900).governed = false;
    s.waits("b-out", "B", 1, 900).governed = false;
    s.waits("a", "A", 1, kHour);
    EXPECT_EQ(s.order(), (Names{"a", "b-out", "a-out"}));
}

TEST(Ranking, an_empty_queue_has_an_empty_ranking) {
    Situation s(equals({"A"}));
    s.nodes(1);
    EXPECT_TRUE(s.order().empty());
}

TEST(SpacedPriorities, descend_inside_their_band) {
    const std::vector<Band> bands = {Band::plan,      Band::express,   Band::express,
                                     Band::allocated, Band::allocated, Band::unallocated};
    const auto out = spaced_priorities(bands, std::vector<std::uint32_t>(bands.size(), 0));
    for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_GT(out[i], band_floor(bands[i]));
        EXPECT_LT(out[i],
                  bands[i] == Band::plan ? 4294000000U : band_floor(bands[i]) + 1000000000U);
        if (i > 0) {
            EXPECT_GT(out[i - 1], out[i]);
        }
    }
}

TEST(SpacedPriorities, one_new_job_changes_nobody_else) {
    std::vector<Band> bands(1000, Band::allocated);
    const auto first = spaced_priorities(bands, std::vector<std::uint32_t>(1000, 0));
    for (const std::size_t place : {0U, 1U, 500U, 1000U}) {
        std::vector<std::uint32_t> previous = first;
        previous.insert(previous.begin() + static_cast<std::ptrdiff_t>(place), 0);
        std::vector<Band> more(1001, Band::allocated);
        const auto second = spaced_priorities(more, previous);
        for (std::size_t i = 0; i < second.size(); ++i) {
            if (i != place) {
                EXPECT_EQ(second[i], previous[i]) << place;
            }
            if (i > 0) {
                EXPECT_GT(second[i - 1], second[i]);
            }
        }
    }
}

TEST(SpacedPriorities, a_job_that_moved_is_the_only_one_to_change) {
    std::vector<Band> bands(100, Band::allocated);
    auto previous = spaced_priorities(bands, std::vector<std::uint32_t>(100, 0));
    const std::uint32_t moved = previous.back();
    previous.pop_back();
    previous.insert(previous.begin() + 3, moved);
    const auto out = spaced_priorities(bands, previous);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        changed += out[i] != previous[i] ? 1 : 0;
        if (i > 0) {
            EXPECT_GT(out[i - 1], out[i]);
        }
    }
    EXPECT_EQ(changed, 1U);
}

TEST(SpacedPriorities, neighbours_without_room_between_them_are_spread_anew) {
    std::vector<Band> bands(3, Band::unallocated);
    const std::vector<std::uint32_t> previous = {1500000001, 0, 1500000000};
    const auto out = spaced_priorities(bands, previous);
    EXPECT_GT(out[0], out[1]);
    EXPECT_GT(out[1], out[2]);
}

}  // namespace
}  // namespace tranche
