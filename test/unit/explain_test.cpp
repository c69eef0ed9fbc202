// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/explain.hpp"

#include <gtest/gtest.h>

#include "common/model/usage_ledger.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;
constexpr std::int64_t kHour = 3600;

Budget budget(const char* name, const char* parent, std::uint32_t shares) {
    Budget made;
    made.name = name;
    made.parent = parent;
    made.shares = shares;
    return made;
}

// Three budgets that run jobs, on two levels; 16 GPUs, a flat window of 168 hours, 2688 GPU hours:
//   progA 1/2 (1344) -> projA 3/4 of it (1008), used 500
//                       projB 1/4 of it (336),  used 300
//   progB 1/2 (1344),                           used 600
// Four nodes of 4 GPUs are full: run 11 of progB and run 14 of projB are under contract for one
// more hour (each counts 4 GPU hours more), run 12 of projA is past its contract, run 13 is free.
// Each pending job wants 4 GPUs for 2 hours, 8 GPU hours: 1 of progB, 2 of projA, 3 of projB.
class ExplainTest : public testing::Test {
  protected:
    void SetUp() override {
        settings_.window_shape = WindowShape::flat;
        UsageLedger::Rules rules;
        rules.window = settings_.window();
        UsageLedger ledger(rules);
        const auto tree =
            BudgetTree::build({budget("progA", "root", 1), budget("progB", "root", 1),
                               budget("projA", "progA", 3), budget("projB", "progA", 1)});
        ASSERT_TRUE(tree.ok()) << tree.error();
        ledger.set_tree(kNow - 100 * kHour, tree.value());
        std::uint32_t id = 900;
        for (const auto& [name, gpus] : {std::pair{"projA", 100}, {"projB", 60}, {"progB", 120}}) {
            Segment past;
            past.key = {++id, kNow - 6 * kHour, kNow - 6 * kHour};
            past.budget = name;
            past.user = "old";
            past.kind = RunKind::allocated;
            past.weight_milli = gpus * 1000;
            ASSERT_TRUE(ledger.begin(past));
            ASSERT_TRUE(ledger.end(past.key, kNow - kHour));  // 5 hours
        }
        view_.now = kNow;
        view_.node_sets.push_back(std::vector<bool>(4, true));
        for (int n = 0; n < 4; ++n) {
            Node node;
            node.name = "n" + std::to_string(n + 1);
            node.gpus = 4;
            node.cpus = 64;
            node.memory_mib = 64000;
            node.free_cpus = 32;
            node.free_memory_mib = 32000;
            view_.nodes.push_back(node);
        }
        add_run(ledger, 11, "progB", 0, RunKind::allocated, kNow + kHour);
        add_run(ledger, 12, "projA", 1, RunKind::allocated, kNow - 600);
        add_run(ledger, 13, "projA", 2, RunKind::unallocated, 0);
        add_run(ledger, 14, "projB", 3, RunKind::allocated, kNow + kHour);
        add_pending(ledger, 1, "progB");
        add_pending(ledger, 2, "projA");
        add_pending(ledger, 3, "projB");
        standings_ = ledger.standings(kNow);
        add_commitments(standings_, view_, settings_);
        ranking_ = rank_queue(view_, standings_, settings_);
    }

    void add_run(UsageLedger& ledger, JobId id, const char* budget, NodeIndex node, RunKind kind,
                 std::int64_t protected_until) {
        tranche::Run run;
        run.id = id;
        run.budget = ledger.budget_id(budget);
        run.member = ledger.member_id(run.budget, "old");
        run.kind = kind;
        run.where = {{node, 4, 32, 32000}};
        run.gpus = 4;
        run.weight_milli = 4000;
        run.started_at = kNow - 2 * kHour;
        run.protected_until = protected_until;
        run.contract_seconds = 3 * kHour;
        run.resumable = true;
        view_.runs.push_back(run);
    }

    void add_pending(UsageLedger& ledger, JobId id, const char* budget, const char* user = "new",
                     std::int64_t min_runtime = 2 * kHour) {
        PendingJob job;
        job.id = id;
        job.budget = ledger.budget_id(budget);
        job.member = ledger.member_id(job.budget, user);
        job.shape.gpus = 4;
        job.shape.cpus_per_node = 1;
        job.shape.memory_mib_per_node = 1;
        job.weight_milli = 4000;
        job.min_runtime_seconds = min_runtime;
        job.first_submit_at = kNow - 500 + id;
        view_.pending.push_back(job);
    }

    ExplainInput input() const { return {view_, ranking_, standings_, settings_, 16000}; }

    PendingExplanation why(std::uint32_t index) const {
        const auto explanation = explain_pending(input(), index);
        EXPECT_TRUE(explanation.has_value());
        return explanation.value_or(PendingExplanation{});
    }

    Settings settings_;
    ClusterView view_;
    Standings standings_;
    std::vector<RankedEntry> ranking_;
};

TEST_F(ExplainTest, the_level_both_sides_numbers_and_the_victims_are_named) {
    // 3 stands behind 2: below progA, projB 304 of 336 against projA 500 of 1008; it would be
    // level at 500/3 = 166.67, so it is 137.33 GPU hours behind.
    const PendingExplanation third = why(2);
    EXPECT_EQ(third.rank, 3u);
    EXPECT_EQ(third.ranked, 3u);
    ASSERT_EQ(third.losses.size(), 2u);
    const RankLoss& nearest = third.losses[0];
    EXPECT_EQ(nearest.level, "progA");
    EXPECT_EQ(nearest.depth, 1u);
    EXPECT_EQ(nearest.job, 2u);
    EXPECT_EQ(nearest.ours, (SideNumbers{"projB", 304000, 336000}));
    EXPECT_EQ(nearest.theirs, (SideNumbers{"projA", 500000, 1008000}));
    EXPECT_EQ(nearest.ours.ratio_milli(), 904);
    EXPECT_EQ(nearest.theirs.ratio_milli(), 496);
    EXPECT_NEAR(static_cast<double>(nearest.behind_milli_hours), 137333, 1);
    // And behind 1: below root, progA 804 against progB 604, both of 1344.
    const RankLoss& far = third.losses[1];
    EXPECT_EQ(far.level, "root");
    EXPECT_EQ(far.depth, 0u);
    EXPECT_EQ(far.job, 1u);
    EXPECT_EQ(far.ours, (SideNumbers{"progA", 804000, 1344000}));
    EXPECT_EQ(far.theirs, (SideNumbers{"progB", 604000, 1344000}));
    EXPECT_EQ(far.behind_milli_hours, 200000);

    // 1 of progB, 604 + 8 of its own against 804 of progA: run 12 now, run 14 in an hour, free
    // run 13 now; never its own budget's run 11.
    const PendingExplanation first = why(0);
    EXPECT_TRUE(first.losses.empty());
    ASSERT_EQ(first.could_take.size(), 3u);
    EXPECT_EQ(first.could_take[0].job, 12u);
    EXPECT_EQ(first.could_take[0].from_at, kNow);
    EXPECT_EQ(first.could_take[0].reason, TakeReason::smaller_ratio);
    EXPECT_EQ(first.could_take[0].level, "root");
    EXPECT_EQ(first.could_take[0].claimant_side, (SideNumbers{"progB", 612000, 1344000}));
    EXPECT_EQ(first.could_take[0].victim_side, (SideNumbers{"progA", 804000, 1344000}));
    EXPECT_EQ(first.could_take[1].job, 13u);
    EXPECT_EQ(first.could_take[1].reason, TakeReason::free_run);
    EXPECT_EQ(first.could_take[2].job, 14u);
    EXPECT_EQ(first.could_take[2].from_at, kNow + kHour);
    EXPECT_EQ(first.could_take_gpus_now, 8);
    EXPECT_EQ(first.could_take_gpus_later, 4);
    EXPECT_EQ(first.next_change_at, kNow + kHour);
    ASSERT_EQ(first.cannot_take.size(), 1u);
    EXPECT_EQ(first.cannot_take[0].job, 11u);
    EXPECT_EQ(first.cannot_take[0].reason, TakeReason::same_budget);
}

TEST_F(ExplainTest, held_jobs_are_in_nobodys_way) {
    view_.pending[1].block = StartBlock::held;
    ranking_ = rank_queue(view_, standings_, settings_);
    for (const RankLoss& loss : why(2).losses) {
        EXPECT_NE(loss.job, 2u);
    }
    // Of the same budget, too.
    view_.pending[1].budget = view_.pending[2].budget;
    view_.pending[1].member = view_.pending[2].member;
    ranking_ = rank_queue(view_, standings_, settings_);
    EXPECT_FALSE(why(2).own_loss.has_value());
    view_.pending[1].block = StartBlock::none;
    ranking_ = rank_queue(view_, standings_, settings_);
    EXPECT_TRUE(why(2).own_loss.has_value());
}

TEST_F(ExplainTest, a_suspended_run_keeps_what_is_left_of_its_contract) {
    tranche::Run& run = view_.runs[3];
    run.state = RunState::suspended;
    run.protected_until = kNever;
    run.contract_seconds = 1200;
    const RunningExplanation e = RunningExplainer(input()).explain(3);
    EXPECT_EQ(e.state, RunState::suspended);
    EXPECT_EQ(e.contract_left_seconds, 1200);
}

TEST_F(ExplainTest, a_run_out_of_reach_says_by_how_many_gpu_hours) {
    // 3 of projB against run 12 of projA: 312 of 336 against 0.95 x 500 of 1008: level at
    // 0.95 x 166.67 = 158.33, so 153.67 too much.
    const PendingExplanation third = why(2);
    ASSERT_EQ(third.could_take_count, 1u);
    EXPECT_EQ(third.could_take[0].job, 13u);
    const auto out_of_reach =
        std::find_if(third.cannot_take.begin(), third.cannot_take.end(),
                     [](const TakeOutlook& outlook) { return outlook.job == 12; });
    ASSERT_NE(out_of_reach, third.cannot_take.end());
    EXPECT_EQ(out_of_reach->reason, TakeReason::ratio_too_large);
    EXPECT_EQ(out_of_reach->level, "progA");
    EXPECT_NEAR(static_cast<double>(out_of_reach->over_milli_hours), 153667, 2);
    EXPECT_EQ(third.next_change_at, kNever);
}

TEST_F(ExplainTest, a_running_job_says_who_could_take_it_and_when) {
    const RunningExplainer explainer(input());
    const RunningExplanation over = explainer.explain(1);  // run 12
    EXPECT_EQ(over.job, 12u);
    EXPECT_EQ(over.protected_until, kNow - 600);
    ASSERT_EQ(over.takers.size(), 1u);
    EXPECT_EQ(over.takers[0].job, 1u);
    EXPECT_EQ(over.takeable_from_at, kNow);
    const RunningExplanation later = explainer.explain(3);  // run 14: 1 and 2 may, in an hour
    ASSERT_EQ(later.takers_count, 2u);
    EXPECT_EQ(later.takers[0].job, 1u);
    EXPECT_EQ(later.takers[1].job, 2u);
    EXPECT_EQ(later.takers[1].level, "progA");
    EXPECT_EQ(later.takeable_from_at, kNow + kHour);
    const RunningExplanation free = explainer.explain(2);  // run 13: all three
    EXPECT_EQ(free.takers_count, 3u);
    EXPECT_EQ(free.protected_until, 0);
    const RunningExplanation safe = explainer.explain(0);  // run 11: progB is below progA
    EXPECT_EQ(safe.takers_count, 0u);
    EXPECT_EQ(safe.takeable_from_at, kNever);
}

TEST_F(ExplainTest, a_small_job_behind_a_large_one_of_its_budget_is_seen) {
    // progB would stand at 604 + 200 with its first job, above 0.95 x 804; with the second at 612.
    view_.pending.push_back(view_.pending[0]);
    view_.pending.back().id = 4;
    view_.pending.back().first_submit_at += 100;
    view_.pending[0].min_runtime_seconds = 50 * kHour;
    ranking_ = rank_queue(view_, standings_, settings_);
    const RunningExplanation over = RunningExplainer(input()).explain(1);
    ASSERT_EQ(over.takers.size(), 1u);
    EXPECT_EQ(over.takers[0].job, 4u);
}

TEST_F(ExplainTest, jobs_placed_before_count_on_both_sides) {
    // Progressive: a second job of progB is placed when progB counts the first one's 8 GPU hours.
    view_.pending.push_back(view_.pending[0]);
    view_.pending.back().id = 4;
    view_.pending.back().first_submit_at += 100;
    ranking_ = rank_queue(view_, standings_, settings_);
    const PendingExplanation third = why(2);
    const auto root_level = std::find_if(third.losses.begin(), third.losses.end(),
                                         [](const RankLoss& loss) { return loss.level == "root"; });
    ASSERT_NE(root_level, third.losses.end());
    EXPECT_EQ(root_level->job, 4u);
    EXPECT_EQ(root_level->jobs, 2u);
    EXPECT_EQ(root_level->theirs.charge_milli_hours, 612000);
    const PendingExplanation fourth = why(3);
    ASSERT_TRUE(fourth.own_loss.has_value());
    EXPECT_EQ(fourth.own_loss->job, 1u);
    EXPECT_EQ(fourth.own_loss->why, OwnOrder::submission);
}

TEST_F(ExplainTest, inside_a_budget_the_reason_is_named) {
    const auto with = [&](auto change) {
        ClusterView saved = view_;
        view_.pending.push_back(view_.pending[0]);
        view_.pending.back().id = 4;
        view_.pending.back().first_submit_at += 100;
        change();
        ranking_ = rank_queue(view_, standings_, settings_);
        const auto& entry = ranking_.front();
        const std::uint32_t behind = entry.job == 0 ? 3 : 0;
        const PendingExplanation explanation = why(behind);
        view_ = saved;
        return explanation.own_loss.value_or(OwnLoss{});
    };
    const OwnLoss urgent = with([&] { view_.pending[3].team_priority = TeamPriority::urgent; });
    EXPECT_EQ(urgent.job, 4u);
    EXPECT_EQ(urgent.why, OwnOrder::team_priority);
    const OwnLoss nice = with([&] { view_.pending[0].nice = 100; });
    EXPECT_EQ(nice.job, 4u);
    EXPECT_EQ(nice.why, OwnOrder::nice);
    const OwnLoss charge = with([&] { view_.pending[0].member = view_.runs[0].member; });
    EXPECT_EQ(charge.job, 4u);
    EXPECT_EQ(charge.why, OwnOrder::user_charge);
    EXPECT_EQ(charge.our_user_milli_hours, 604000);
    EXPECT_EQ(charge.their_user_milli_hours, 0);
}

TEST_F(ExplainTest, free_work_stands_behind_all_allocated_jobs_and_takes_nothing) {
    view_.pending[0].min_runtime_seconds = 0;
    ranking_ = rank_queue(view_, standings_, settings_);
    const PendingExplanation free = why(0);
    EXPECT_EQ(free.band, Band::unallocated);
    EXPECT_EQ(free.before_in_better_bands, 2u);
    EXPECT_TRUE(free.losses.empty());
    EXPECT_EQ(free.could_take_count + free.cannot_take_count, 0u);
}

TEST_F(ExplainTest, a_pass_adds_its_verdict_and_a_standing_plan_its_victims) {
    const PassResult pass = run_pass(view_, ranking_, standings_, settings_);
    ExplainInput with_verdicts = input();
    with_verdicts.verdicts = &pass.verdicts;
    const auto third = explain_pending(with_verdicts, 2);
    ASSERT_TRUE(third.has_value());
    EXPECT_EQ(third->reason, pass.verdicts[2].reason);
    EXPECT_NE(third->reason, WaitReason::none);

    Plan plan;
    plan.claimant = 1;
    plan.budget = view_.pending[0].budget;
    plan.member = view_.pending[0].member;
    plan.victims = {12};
    view_.plans.push_back(plan);
    ranking_ = rank_queue(view_, standings_, settings_);
    const PendingExplanation planned = why(0);
    EXPECT_EQ(planned.band, Band::plan);
    EXPECT_EQ(planned.plan_victims, std::vector<JobId>{12});
    EXPECT_FALSE(explain_pending(input(), 99).has_value());
}

TEST_F(ExplainTest, large_numbers_do_not_overflow) {
    for (SideStanding& side : standings_.sides) {
        side.commitment = UInt128{1} << 95;
    }
    ranking_ = rank_queue(view_, standings_, settings_);
    const PendingExplanation third = why(2);
    ASSERT_FALSE(third.losses.empty());
    EXPECT_GE(third.losses[0].behind_milli_hours, 0);
    EXPECT_GT(third.losses[0].ours.charge_milli_hours, 0);
}

}  // namespace
}  // namespace tranche
