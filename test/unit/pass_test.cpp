// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/pass.hpp"

#include "support/situation.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;

Settings with_lane() {
    Settings settings = scenario_settings();
    settings.express_fraction_ppm = kPpm;
    return settings;
}

TEST(Pass, one_pass_interleaves_budgets) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(8);
    for (int i = 0; i < 64; ++i) {
        s.waits("a", "A", 1, 4 * kHour);
    }
    for (int i = 0; i < 64; ++i) {
        s.waits("b", "B", 1, 4 * kHour);
    }
    s.pass();
    const Names started = s.started();
    EXPECT_EQ(started.size(), 64U);
    EXPECT_EQ(std::count(started.begin(), started.end(), "a"), 32);
    EXPECT_TRUE(s.result.plans.empty());
}

TEST(Pass, arrays_of_two_budgets_share_the_room) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(4);
    s.waits("a", "A", 1, 4 * kHour).tasks = 64;
    s.waits("b", "B", 1, 4 * kHour).tasks = 64;
    s.pass();
    const Names started = s.started();
    EXPECT_EQ(started.size(), 32U);
    EXPECT_EQ(std::count(started.begin(), started.end(), "a"), 16);
}

TEST(Pass, a_free_job_yields_at_once_and_an_allocated_one_when_its_contract_is_over) {
    for (const auto& [age, min_runtime, plan] : {std::tuple{600L, 0L, true},
                                                 {600L, kHour, false},
                                                 {kHour - 1, kHour, false},
                                                 {kHour, kHour, true}}) {
        Situation s({make_budget("A", 1), make_budget("B", 1)});
        s.nodes(1).used("B", 8, -20 * kHour, -10 * kHour);
        s.runs("b", "B", 8, 0, age, min_runtime);
        s.waits("a", "A", 8, kHour);
        s.pass();
        EXPECT_EQ(s.planned(), plan ? Names{"a<b"} : Names{}) << age << " " << min_runtime;
        EXPECT_EQ(s.why("a"), plan ? "planned" : "contracts");
        if (!plan) {
            EXPECT_EQ(s.result.verdicts[0].next_change_at, s.view.runs[0].protected_until);
            EXPECT_EQ(s.result.wake_at, s.view.runs[0].protected_until);
        }
    }
}

TEST(Pass, a_run_whose_node_still_boots_is_not_taken) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(1).used("B", 8, -20 * kHour, -10 * kHour);
    tranche::Run& run = s.runs("b", "B", 8, 0, 9 * kHour, kHour);
    s.waits("a", "A", 8, kHour);
    for (const RunState state : {RunState::configuring, RunState::leaving, RunState::completing}) {
        run.state = state;
        run.leaving_for = state == RunState::leaving ? 999 : 0;
        s.pass();
        EXPECT_TRUE(s.result.plans.empty());
    }
    run.state = RunState::suspended;
    run.leaving_for = 0;
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<b"});
}

TEST(Pass, a_component_is_as_protected_as_the_best_of_its_job) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(2).used("B", 8, -20 * kHour, -10 * kHour);
    s.runs("paid", "B", 8, 0, 600, kHour);
    tranche::Run& free = s.runs("free", "B", 8, 1, 600, 0);
    s.waits("a", "A", 8, kHour);
    free.others_protected_until = s.view.runs[0].protected_until;
    s.pass();
    EXPECT_EQ(s.planned(), Names{});
    EXPECT_EQ(s.why("a"), "contracts");
    free.others_protected_until = 0;
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<free"});
}

// Components of 8 and of 4 GPUs, on nodes of their own: room for both is made at once, or for none.
TEST(Pass, a_heterogeneous_job_is_planned_as_a_whole_or_not_at_all) {
    for (const bool second_is_over : {true, false}) {
        Situation s({make_budget("A", 1), make_budget("B", 1)});
        s.nodes(2).used("B", 8, -20 * kHour, -10 * kHour);
        s.runs("b1", "B", 8, 0, 2 * kHour, kHour);
        s.runs("b2", "B", 8, 1, second_is_over ? 2 * kHour : 600, kHour);
        const JobId second = s.waits("second", "A", 4, kHour).id;
        tranche::PendingJob& first = s.waits("first", "A", 8, kHour);
        first.companions.push_back({second, s.view.pending[0].shape, 4000});
        s.view.pending[0].goes_with = first.id;
        s.pass();
        if (!second_is_over) {
            EXPECT_TRUE(s.result.plans.empty());
            EXPECT_EQ(s.why("first"), "contracts");
            EXPECT_EQ(s.why("second"), "contracts");
            continue;
        }
        ASSERT_EQ(1U, s.result.plans.size());
        const Plan& plan = s.result.plans[0].plan;
        EXPECT_EQ(first.id, plan.claimant);
        EXPECT_EQ(2U, plan.victims.size());
        EXPECT_EQ(12, plan.gpus);
        EXPECT_EQ(12000, plan.weight_milli);
        ASSERT_EQ(2U, plan.where.size());  // in the order of the components
        EXPECT_EQ(8, plan.where[0].gpus);
        EXPECT_EQ(4, plan.where[1].gpus);
        EXPECT_NE(plan.where[0].node, plan.where[1].node);
        EXPECT_EQ(s.why("second"), "planned");
    }
}

TEST(Pass, a_heterogeneous_job_starts_on_free_room_only_as_a_whole) {
    for (const int nodes : {1, 2}) {
        Situation s({make_budget("A", 1)});
        s.nodes(nodes);
        const JobId second = s.waits("second", "A", 1, kHour).id;
        tranche::PendingJob& first = s.waits("first", "A", 2, kHour);
        first.companions.push_back({second, s.view.pending[0].shape, 1000});
        s.view.pending[0].goes_with = first.id;
        s.pass();
        EXPECT_EQ(nodes == 2 ? 1U : 0U, s.result.starts.size());
        EXPECT_EQ(s.why("second"), s.why("first"));
    }
}

TEST(Pass, a_hair_is_not_enough) {
    // A with its own 14 GPU h is at 29.6 of B's 31.8: 0.93.
    Settings settings = scenario_settings();
    settings.preempt_margin_ppm = 100'000;
    const auto planned_at = [&](std::int64_t now) {
        Situation s({make_budget("A", 1), make_budget("B", 1)}, now, settings);
        s.nodes(1).used("A", 2, -4 * kHour, 0);
        s.runs("b", "B", 8, 0, now, kHour);
        s.waits("a", "A", 8, 6300);
        s.pass();
        EXPECT_EQ(s.why("a"), s.result.plans.empty() ? "ratio" : "planned");
        return !s.result.plans.empty();
    };
    EXPECT_FALSE(planned_at(7200));
    EXPECT_FALSE(planned_at(7320));
    EXPECT_TRUE(planned_at(7620));
    settings.preempt_margin_ppm = 0;
    EXPECT_TRUE(planned_at(7200));
}

TEST(Pass, the_second_claimant_adds_what_the_first_has_planned) {
    // B has used 48 GPU h by weight on two nodes; A's first adds 32 (< 0.95 x 48), the second 64.
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(2);
    s.runs("b1", "B", 8, 0, 5400, kHour);
    s.runs("b2", "B", 8, 1, 5400, kHour);
    s.waits("a1", "A", 8, 4 * kHour);
    s.waits("a2", "A", 8, 4 * kHour);
    s.pass();
    ASSERT_EQ(s.result.plans.size(), 1U);
    EXPECT_EQ(s.why("a1"), "planned");
    EXPECT_EQ(s.why("a2"), "ratio");
}

TEST(Pass, jobs_that_merely_wait_do_not_count_against_those_behind_them) {
    // A's first claimant is large and finds nothing; the second is judged without it.
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(1, 8, "b").nodes(1, 8, "c");
    s.view.nodes[1].usable = false;
    s.runs("b", "B", 8, 0, 5400, kHour);
    s.waits("a1", "A", 8, 100 * kHour).shape.gpu_type = "c";
    s.waits("a2", "A", 8, kHour).shape.gpu_type = "b";
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a2<b"});
    EXPECT_EQ(s.why("a1"), "nodes-unavailable");
}

TEST(Pass, the_victim_is_who_is_most_over_its_funding) {
    // Both funded a twelfth: x1 100 of 100 below X, y1 1 of 1 below Y; x1 used more.
    Situation s({make_budget("X", 1), make_budget("Y", 1), make_budget("C", 10),
                 make_budget("x1", 100, "X"), make_budget("y1", 1, "Y")});
    s.nodes(2).used("x1", 8, -90000, 0).used("y1", 8, -72000, 0);
    s.runs("y", "y1", 8, 0, 3600, 600);
    s.runs("x", "x1", 8, 1, 3600, 600);
    s.waits("c", "C", 8, 600);
    s.pass();
    EXPECT_EQ(s.planned(), Names{"c<x"});
}

TEST(Pass, the_smallest_set_that_suffices_goes_youngest_first) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(2);
    s.runs("W", "F", 8, 0, 600, 0);
    for (int i = 1; i <= 8; ++i) {
        s.runs("U" + std::to_string(i), "F", 1, 1, 600 - 10 * i, 0);
    }
    s.waits("P1", "A", 1, kHour);
    s.waits("P2", "A", 1, kHour);
    s.pass();
    EXPECT_EQ(s.planned(), (Names{"P1<U8", "P2<U7"}));
}

TEST(Pass, free_work_goes_before_expired_contracts) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(2).used("B", 8, -50 * kHour, 0);
    s.runs("expired", "B", 1, 0, 2 * kHour, kHour);
    s.runs("pad", "B", 7, 0, 60, 4 * kHour);
    s.runs("free", "A", 8, 1, 40 * kHour, 0);
    s.waits("a", "A", 1, kHour);
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<free"});
}

TEST(Pass, of_free_runs_the_one_with_least_to_lose_goes) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(2);
    s.runs("old", "F", 8, 0, 5 * kHour, 0);
    s.runs("young", "F", 8, 1, kHour, 0);
    s.waits("a", "A", 8, kHour);
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<young"});
    s.view.runs[0].checkpointed_at = s.view.now - 60;
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<old"});
    s.view.runs[0].resumable = false;  // has its whole run to lose
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<young"});
}

TEST(Pass, infeasible_claimants_harm_nobody) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(3, 8, "a").nodes(1, 8, "b");
    s.view.nodes[3].usable = false;
    for (NodeIndex n = 0; n < 3; ++n) {
        s.runs("U", "F", 8, n, 60, 0);
    }
    s.waits("P", "A", 8, kHour).shape.gpu_type = "b";
    s.pass();
    EXPECT_TRUE(s.result.plans.empty());
    EXPECT_EQ(s.why("P"), "nodes-unavailable");
    s.view.nodes[3].usable = true;
    s.pass();
    EXPECT_EQ(s.started(), Names{"P"});
}

TEST(Pass, a_job_that_never_fits_blocks_nobody) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(2);
    s.runs("U1", "F", 8, 0, 60, 0);
    s.runs("U2", "F", 8, 1, 60, 0);
    PendingJob& big = s.waits("big", "A", 32, kHour);
    big.shape.nodes = 4;
    s.waits("wide", "A", 9, kHour);
    s.waits("next", "A", 8, kHour);
    mark_impossible(s.view);
    EXPECT_EQ(big.block, StartBlock::impossible);
    s.pass();
    EXPECT_EQ(s.why("big"), "impossible");
    EXPECT_EQ(s.why("wide"), "impossible");
    ASSERT_EQ(s.result.plans.size(), 1U);
    EXPECT_EQ(s.why("next"), "planned");
}

TEST(Pass, a_gang_takes_all_or_nothing) {
    const auto plans = [](std::int64_t now) {
        Situation s({make_budget("A", 3), make_budget("B", 1)}, now);
        s.nodes(4);
        for (NodeIndex i = 0; i < 4; ++i) {
            s.runs("b" + std::to_string(i), "B", 8, i, now - 1800 * i, 7200);
        }
        s.waits("a", "A", 32, 4 * kHour).shape.nodes = 4;
        s.pass();
        return s.planned();
    };
    EXPECT_EQ(plans(12590), Names{});
    EXPECT_EQ(plans(12600), Names{"a<b0,b1,b2,b3"});
}

TEST(Pass, a_run_on_two_nodes_leaves_whole_and_counts_once) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(3);
    tranche::Run& wide = s.runs("wide", "F", 4, 0, 60, 0);
    wide.where.push_back({1, 4, 0, 0});
    wide.gpus = 8;
    s.view.nodes[1].free_gpus -= 4;
    s.runs("p0", "F", 4, 0, 60, kHour);
    s.runs("p1", "F", 4, 1, 60, kHour);
    s.runs("p2", "F", 8, 2, 60, kHour);
    s.waits("a", "A", 8, kHour).shape.nodes = 2;
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<wide"});
    ASSERT_EQ(s.result.plans[0].plan.where.size(), 2U);
    EXPECT_EQ(s.result.plans[0].plan.where[0].gpus, 4);
}

TEST(Pass, of_a_gang_s_victims_those_not_needed_in_the_end_stay) {
    // n1 is cheapest with u (2 GPUs) alone; n2 needs the wide run, which frees n1 too.
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(2);
    tranche::Run& wide = s.runs("wide", "F", 6, 0, 60, 0);
    wide.where.push_back({1, 8, 0, 0});
    wide.gpus = 14;
    s.view.nodes[1].free_gpus -= 8;
    s.runs("u", "F", 2, 0, 60, 0);
    s.waits("a", "A", 4, kHour).shape.nodes = 2;
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<wide"});
}

TEST(Pass, nodes_without_room_of_another_kind_are_not_taken) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(1);
    s.view.nodes[0].cpus = 64;
    s.view.nodes[0].free_cpus = 8;
    s.runs("few", "F", 1, 0, 60, 0).where[0].cpus = 4;
    s.runs("many", "F", 2, 0, 60, 0).where[0].cpus = 52;
    s.waits("a", "A", 1, kHour).shape.cpus_per_node = 40;
    s.pass();
    EXPECT_EQ(s.planned(), Names{"a<many"});
}

TEST(Pass, within_a_budget_the_setting_decides) {
    const auto plans = [](PreemptWithinBudget within, const char* claimant_user,
                          TeamPriority claimant, TeamPriority victim) {
        Settings settings = scenario_settings();
        settings.preempt_within_budget = within;
        Situation s({make_budget("A", 1)}, 0, settings);
        s.nodes(1);
        s.runs("v", "A", 8, 0, 4 * kHour, kHour, "u").team_priority = victim;
        s.waits("c", "A", 8, kHour, claimant_user).team_priority = claimant;
        s.pass();
        return !s.result.plans.empty();
    };
    using P = TeamPriority;
    using W = PreemptWithinBudget;
    EXPECT_FALSE(plans(W::no, "k", P::urgent, P::low));
    EXPECT_FALSE(plans(W::no, "k", P::normal, P::normal));
    EXPECT_TRUE(plans(W::priority, "u", P::high, P::normal));
    EXPECT_FALSE(plans(W::priority, "u", P::normal, P::normal));
    EXPECT_FALSE(plans(W::priority, "k", P::normal, P::normal));
    EXPECT_TRUE(plans(W::users, "k", P::normal, P::normal));
    EXPECT_FALSE(plans(W::users, "u", P::normal, P::normal));
    EXPECT_FALSE(plans(W::users, "k", P::urgent, P::low));
    EXPECT_FALSE(plans(W::users, "k", P::low, P::urgent));
    EXPECT_TRUE(plans(W::both, "k", P::urgent, P::low));
    EXPECT_TRUE(plans(W::both, "k", P::normal, P::normal));
    EXPECT_FALSE(plans(W::both, "k", P::low, P::normal));
}

TEST(Pass, users_of_a_pooled_budget_do_not_take_from_each_other) {
    Settings settings = scenario_settings();
    settings.sharing = Sharing::pooled;
    Situation s({make_budget("A", 1)}, 0, settings);
    s.nodes(1);
    s.runs("v", "A", 8, 0, 4 * kHour, kHour, "u");
    s.waits("c", "A", 8, kHour, "k");
    s.pass();
    EXPECT_TRUE(s.result.plans.empty());
}

TEST(Pass, free_work_takes_nothing_and_starts_on_idle_gpus) {
    Situation s({make_budget("A", 1), make_budget("Z", 0)});
    s.nodes(2);
    s.runs("f", "A", 8, 0, kHour, 0);
    s.waits("z", "Z", 8, kHour);
    s.waits("a-free", "A", 8, 0);
    s.pass();
    EXPECT_EQ(s.started(), Names{"a-free"});
    EXPECT_TRUE(s.result.plans.empty());
    EXPECT_EQ(s.why("z"), "idle-gpus");
}

TEST(Pass, a_debug_job_takes_any_expired_run_even_of_its_own_user) {
    Situation s({make_budget("A", 1), make_budget("B", 1)}, 0, with_lane());
    s.nodes(2).used("A", 16, -20 * kHour, 0);
    s.runs("train", "A", 8, 0, 9000, 7200);
    s.runs("b1", "B", 8, 1, 9000, 14400);
    s.waits("debug", "A", 8, 900);
    s.pass();
    EXPECT_EQ(s.planned(), Names{"debug<train"});
    EXPECT_TRUE(s.result.plans[0].plan.express);
    EXPECT_EQ(s.result.plans[0].victims[0].verdict.reason, TakeReason::express);
}

TEST(Pass, sessions_and_underfunded_runs_that_cannot_resume_are_not_taken_for_debug_jobs) {
    Situation s({make_budget("A", 1), make_budget("B", 1), make_budget("C", 8)}, 0, with_lane());
    s.nodes(2).used("A", 8, -30 * kHour, 0);
    tranche::Run& session = s.runs("session", "A", 1, 0, 7200, kHour);
    session.interactive = true;
    session.resumable = false;
    s.runs("once", "C", 7, 0, 7200, kHour).resumable = false;
    s.runs("train", "A", 8, 1, 7200, kHour);
    s.waits("debug", "B", 1, 900);
    s.pass();
    EXPECT_EQ(s.planned(), Names{"debug<train"});
    EXPECT_EQ(s.may("debug", "session", true).reason, TakeReason::interactive_session);
    EXPECT_EQ(s.may("debug", "once", true).reason, TakeReason::underfunded_and_final);
    // As an ordinary job it may take the session of a budget that used more.
    EXPECT_EQ(s.may("debug", "session").reason, TakeReason::smaller_ratio);
}

TEST(Pass, a_debug_job_never_takes_an_express_run_of_its_own_user) {
    Situation s({make_budget("A", 1), make_budget("B", 1)}, 0, with_lane());
    s.settings.express_gpus_per_user = 100;
    s.nodes(1);
    s.runs("mine", "A", 4, 0, 7200, 900, "u").express = true;
    s.runs("yours", "A", 4, 0, 7200, 900, "v").express = true;
    s.waits("debug", "B", 4, 900, "u");
    s.pass();
    EXPECT_EQ(s.planned(), Names{"debug<yours"});
    EXPECT_EQ(s.may("debug", "mine", true).reason, TakeReason::express_own_user);
}

TEST(Pass, an_express_claimant_prefers_runs_that_can_resume) {
    Situation s({make_budget("A", 1), make_budget("B", 1)}, 0, with_lane());
    s.nodes(2).used("A", 16, -80 * kHour, 0);
    s.runs("once", "A", 1, 0, 7200, kHour).resumable = false;
    s.runs("pad", "B", 7, 0, 60, 4 * kHour);
    s.runs("train", "A", 8, 1, 7200, kHour);
    s.waits("debug", "B", 1, 900);
    s.pass();
    EXPECT_EQ(s.planned(), Names{"debug<train"});
}

TEST(Pass, headroom_starts_the_last_job_free) {
    // 20 nodes, 5 % kept open is one node.
    Settings settings = scenario_settings();
    settings.max_protected_fraction_ppm = 950'000;
    Situation s({make_budget("A", 1)}, 0, settings);
    s.nodes(20);
    for (int i = 1; i <= 20; ++i) {
        s.waits("a" + std::to_string(i), "A", 8, 4 * kHour);
    }
    s.waits("once", "A", 8, kHour).resumable = false;
    s.pass();
    ASSERT_EQ(s.result.starts.size(), 20U);
    for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(s.result.starts[i].as_free, i == 19) << i;
    }
    EXPECT_EQ(s.why("once"), "headroom");
}

TEST(Pass, contracts_on_a_draining_node_use_up_no_headroom) {
    // Both halves of the cluster were given away; one drains: the other is what is available.
    Settings settings = scenario_settings();
    for (const std::int64_t fraction : {kPpm, kPpm / 2}) {
        settings.max_protected_fraction_ppm = fraction;
        Situation s({make_budget("A", 1)}, 0, settings);
        s.nodes(3);
        s.view.nodes[0].usable = false;
        s.runs("on-the-sick-node", "A", 8, 0, 60, 4 * kHour);
        s.waits("a", "A", 8, kHour);
        s.pass();
        ASSERT_EQ(s.started(), Names{"a"});
        EXPECT_FALSE(s.result.starts[0].as_free) << fraction;
    }
}

TEST(Pass, headroom_does_not_stop_express_jobs_nor_those_larger_than_it_allows) {
    Settings settings = with_lane();
    settings.max_protected_fraction_ppm = 500'000;
    Situation s({make_budget("A", 1)}, 0, settings);
    s.nodes(4);
    s.runs("r1", "A", 8, 0, 60, 4 * kHour);
    s.runs("r2", "A", 8, 1, 60, 4 * kHour);
    s.waits("debug", "A", 8, 900);
    PendingJob& stopped = s.waits("stopped", "A", 8, kHour);
    stopped.resumable = false;
    s.pass();
    EXPECT_EQ(s.started(), Names{"debug"});
    EXPECT_FALSE(s.result.starts[0].as_free);
    EXPECT_EQ(s.why("stopped"), "headroom");

    Situation large({make_budget("A", 1)}, 0, settings);
    large.nodes(4);
    large.waits("large", "A", 24, 4 * kHour).shape.nodes = 3;
    large.pass();
    ASSERT_EQ(large.started(), Names{"large"});
    EXPECT_FALSE(large.result.starts[0].as_free);
}

TEST(Pass, no_more_evictions_than_the_hour_allows) {
    Settings settings = scenario_settings();
    settings.max_preemptions_per_hour = 3;
    Situation s({make_budget("A", 1), make_budget("F", 1)}, 0, settings);
    s.nodes(4);
    for (NodeIndex i = 0; i < 4; ++i) {
        s.runs("f", "F", 8, i, 60, 0);
        s.waits("a" + std::to_string(i), "A", 8, kHour);
    }
    s.view.evictions_last_hour = 1;
    s.pass();
    EXPECT_EQ(s.result.plans.size(), 2U);
    EXPECT_EQ(s.why("a2"), "preemption-limit");
}

TEST(Pass, an_evicted_job_does_not_start_before_its_claimant_has) {
    Situation s({make_budget("A", 1)});
    s.nodes(1);
    s.waits("v", "A", 8, kHour).waits_for = 77;
    s.pass();
    EXPECT_TRUE(s.result.starts.empty());
    EXPECT_EQ(s.why("v"), "claimant-first");
}

TEST(Pass, a_plan_keeps_its_room_until_its_claimant_starts) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(1);
    tranche::Run& victim = s.runs("v", "B", 8, 0, 2 * kHour, kHour);
    const PendingJob& c = s.waits("c", "A", 4, kHour);
    s.waits("other", "A", 4, kHour);
    s.waits("third", "A", 4, kHour);
    Plan plan;
    plan.claimant = c.id;
    plan.budget = c.budget;
    plan.member = c.member;
    plan.gpus = 4;
    plan.weight_milli = 4000;
    plan.commitment_seconds = kHour;
    plan.where = {{0, 4, 0, 0}};
    plan.victims = {victim.id};
    s.view.plans.push_back(plan);
    victim.state = RunState::leaving;
    victim.leaving_for = c.id;
    s.pass();
    EXPECT_EQ(s.why("c"), "planned");
    // The victim frees eight: one more has room without a victim of its own, the next has not.
    EXPECT_EQ(s.why("other"), "room-coming");
    EXPECT_TRUE(s.result.starts.empty());
    EXPECT_TRUE(s.result.plans.empty());

    s.view.runs.clear();
    s.view.nodes[0].free_gpus = 8;
    s.pass();
    EXPECT_EQ(s.started(), (Names{"c", "other"}));
}

TEST(Pass, a_free_run_that_waits_for_its_turn_turns_when_contracts_end) {
    Settings settings = scenario_settings();
    settings.max_protected_fraction_ppm = 500'000;
    Situation s({make_budget("A", 1)}, 0, settings);
    s.nodes(2);
    tranche::Run& held = s.runs("held", "A", 8, 0, kHour, 2 * kHour);
    tranche::Run& free = s.runs("free", "A", 8, 1, kHour, 0);
    free.wants_turn = true;
    PendingJob& turn = s.waits("free", "A", 8, 2 * kHour);
    turn.turn_run = 1;
    s.pass();
    EXPECT_TRUE(s.result.turns.empty());
    EXPECT_EQ(s.why("free"), "headroom");
    held.protected_until = 0;
    s.pass();
    EXPECT_EQ(s.result.turns, std::vector<std::uint32_t>{1});
    EXPECT_TRUE(s.result.starts.empty());
}

TEST(Pass, one_plan_per_node_where_the_host_can_keep_no_more) {
    Situation s({make_budget("A", 1), make_budget("F", 1)});
    s.nodes(2);
    for (NodeIndex n = 0; n < 2; ++n) {
        for (int i = 0; i < 8; ++i) {
            s.runs("f", "F", 1, n, 60, 0);
        }
    }
    for (int i = 0; i < 3; ++i) {
        s.waits("a" + std::to_string(i), "A", 1, kHour);
    }
    s.pass();
    EXPECT_EQ(s.result.plans.size(), 3U);
    s.pass(PassRules{.one_plan_per_node = true});
    ASSERT_EQ(s.result.plans.size(), 2U);
    EXPECT_NE(s.result.plans[0].plan.where[0].node, s.result.plans[1].plan.where[0].node);
}

TEST(Pass, grace_is_by_class) {
    Settings settings;
    tranche::Run run;
    EXPECT_EQ(grace_seconds(run, settings), 10);
    run.interactive = true;
    EXPECT_EQ(grace_seconds(run, settings), 10);
    run.kind = RunKind::allocated;
    EXPECT_EQ(grace_seconds(run, settings), 600);
    run.interactive = false;
    EXPECT_EQ(grace_seconds(run, settings), 60);
}

TEST(Pass, an_empty_cluster_decides_nothing) {
    Situation s({make_budget("A", 1)});
    s.waits("a", "A", 1, kHour);
    s.pass();
    EXPECT_TRUE(s.result.starts.empty());
    EXPECT_EQ(s.why("a"), "nodes-unavailable");
}

TEST(Preemption, a_budget_whose_shares_went_to_zero_is_weighed_by_its_past) {
    // Z lost its shares at 1:00; at 4:00 A with its own 8 GPU h stands against Z's 32, weighed
    // twice: 8 / 174 against 63 / 162, both in halves of an hour of the window's 168.
    Situation s({make_budget("A", 1), make_budget("Z", 1)}, 4 * kHour);
    s.nodes(1);
    s.runs("z", "Z", 8, 0, 4 * kHour, 4 * kHour);
    s.edit(kHour, {make_budget("A", 1), make_budget("Z", 0)});
    s.waits("a", "A", 8, kHour);
    const TakeVerdict verdict = s.may("a", "z");
    EXPECT_TRUE(verdict.may);
    const double window = 604800;
    const auto entitled = [&](UInt128 value) {  // full hours of the level, as in DESIGN 2.3
        return static_cast<double>(value) / 4294967296.0 / window / 3600;
    };
    // w(age) integrated over the last 3 h: 2 x 3 - 9 / 168 = 5.95 h of 168.
    EXPECT_NEAR(entitled(verdict.victim_entitlement), (168 - 5.946) / 2, 0.01);
    EXPECT_NEAR(entitled(verdict.claimant_entitlement), (168 - 5.946) / 2 + 5.946, 0.01);
    EXPECT_NEAR(static_cast<double>(verdict.claimant_charge) / window / 3.6e6, 8, 0.01);
    EXPECT_NEAR(static_cast<double>(verdict.victim_charge) / window / 3.6e6,
                8 * (2 * 4 - 16.0 / 168), 0.01);
}

TEST(Preemption, a_claimant_without_past_funding_takes_nothing_allocated) {
    Situation s({make_budget("A", 1), make_budget("B", 0)});
    s.nodes(1);
    s.runs("a", "A", 8, 0, 2 * kHour, kHour);
    s.waits("b", "B", 8, kHour);
    EXPECT_EQ(s.may("b", "a").reason, TakeReason::claimant_is_free);
}

TEST(Preemption, the_level_where_two_budgets_part_decides) {
    // a2 used nothing, but A as a whole used more than B.
    Situation s({make_budget("A", 1), make_budget("B", 1), make_budget("a1", 1, "A"),
                 make_budget("a2", 1, "A")});
    s.nodes(2).used("a1", 8, -40 * kHour, 0).used("B", 8, -20 * kHour, 0);
    s.runs("b", "B", 8, 0, 2 * kHour, kHour);
    s.runs("a", "a1", 8, 1, 2 * kHour, kHour);
    s.waits("c", "a2", 8, kHour);
    const TakeVerdict against_b = s.may("c", "b");
    EXPECT_FALSE(against_b.may);
    EXPECT_EQ(against_b.reason, TakeReason::ratio_too_large);
    EXPECT_EQ(against_b.sides.level, 0U);
    const TakeVerdict against_a = s.may("c", "a");
    EXPECT_TRUE(against_a.may);
    EXPECT_EQ(against_a.sides.level, 1U);
}

}  // namespace
}  // namespace tranche
