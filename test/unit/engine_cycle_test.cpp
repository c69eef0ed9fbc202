// SPDX-License-Identifier: GPL-2.0-or-later
// The engine on a fake cluster in virtual seconds: what a cycle does to jobs, plans and the ledger.
#include "engine/engine_cycle.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr std::int64_t kHour = 3600;

// No lane and no headroom: small clusters, where nothing but contracts and ratios decide.
constexpr char kPlain[] = "ExpressFraction=0\nMaxProtectedFraction=1\n";

Wish wish(const std::string& account, std::int64_t gpus, std::int64_t min_runtime) {
    Wish out;
    out.account = account;
    out.user = "user-of-" + account;
    out.gpus = gpus;
    out.min_runtime_seconds = min_runtime;
    return out;
}

std::vector<Budget> two_budgets() {
    return {budget_of("a", 1), budget_of("b", 1)};
}

std::size_t place_in_queue(EngineRig& rig, JobId id) {
    const auto view = rig.engine->view();
    for (std::size_t i = 0; i < view->ranking.size(); ++i) {
        if (view->view.pending[view->ranking[i].job].id == id) {
            return i;
        }
    }
    return 999;
}

TEST(EngineCycle, an_expired_contract_yields_at_its_end_with_no_other_event) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(2);
    ASSERT_TRUE(rig.is_running(victim));
    const std::int64_t contract_ends = rig.run_of(victim)->protected_until;
    EXPECT_EQ(rig.cluster->job(victim)->start_at + kHour, contract_ends);
    rig.run(100);
    const JobId claimant = rig.cluster->submit(wish("b", 8, kHour));
    rig.run(contract_ends - rig.cluster->now() - 1);
    EXPECT_EQ("contracts", rig.wait_reason(claimant));
    EXPECT_EQ(contract_ends, rig.engine->view()->pass.wake_at);
    // That is when the engine's thread wakes by itself.
    EXPECT_EQ(std::chrono::milliseconds(1000), rig.engine->due_in());
    EXPECT_TRUE(rig.preemptions().empty());
    rig.run(1);
    ASSERT_EQ(1u, rig.preemptions().size());
    EXPECT_EQ(contract_ends, rig.preemptions()[0].warned_at);
    rig.run(59);
    EXPECT_TRUE(rig.is_running(victim));
    rig.run(1);
    EXPECT_TRUE(rig.is_pending(victim));
    EXPECT_TRUE(rig.is_running(claimant));
    rig.run(1);
    const PreemptionRecord record = rig.preemptions()[0];
    EXPECT_EQ("started", record.outcome);
    EXPECT_EQ(contract_ends + 60, record.gone_at);
    EXPECT_EQ(contract_ends + 60, record.claimant_started_at);
    EXPECT_EQ("a", record.victim_side);
    EXPECT_EQ("b", record.claimant_side);
}

TEST(EngineCycle, a_preempted_job_keeps_its_place_and_first_submission) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 1800));
    const std::int64_t first_submit = rig.cluster->now();
    rig.run(60);
    const JobId sibling = rig.cluster->submit(wish("a", 8, 1800));
    Wish short_one = wish("b", 8, 1800);
    short_one.runtime_seconds = 2000;
    const JobId claimant = rig.cluster->submit(short_one);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 3000));
    rig.run(2);
    EXPECT_EQ(first_submit, rig.card(victim)->first_submit_at);
    EXPECT_EQ(1u, rig.card(victim)->runs);
    // Slurm's own delay of two minutes is lifted, and before its sibling as on the first day.
    EXPECT_LT(place_in_queue(rig, victim), place_in_queue(rig, sibling));
    rig.restart();
    EXPECT_EQ(first_submit, rig.card(victim)->first_submit_at);
    ASSERT_TRUE(rig.run_until([&] { return !rig.is_pending(victim); }, 3000));
    EXPECT_TRUE(rig.is_pending(sibling));
    rig.run(1);
    EXPECT_EQ(2u, rig.card(victim)->runs);
    // The whole contract again: it was not the lane that took its room.
    EXPECT_EQ(1800, rig.run_of(victim)->contract_seconds);
}

TEST(EngineCycle, a_free_run_yields_at_once) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId free_run = rig.cluster->submit(wish("a", 8, 0));
    rig.run(5);
    ASSERT_TRUE(rig.is_running(free_run));
    const JobId claimant = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(1);
    ASSERT_EQ(1u, rig.preemptions().size());
    EXPECT_EQ("free", rig.preemptions()[0].reason.substr(0, 4));
    rig.run(10);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_TRUE(rig.is_pending(free_run));
    ASSERT_EQ(1u, rig.cluster->told(free_run).size());
    EXPECT_NE(std::string::npos, rig.cluster->told(free_run)[0].find("free of charge"));
}

TEST(EngineCycle, a_run_that_cannot_resume_is_ended) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish not_resumable = wish("a", 8, 600);
    not_resumable.resumable = false;
    const JobId victim = rig.cluster->submit(not_resumable);
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 700));
    EXPECT_EQ(HostJobState::finished, rig.state(victim));
    EXPECT_EQ(RunEnd::preempted, rig.cluster->job(victim)->end);
    rig.run(1);
    EXPECT_EQ("started", rig.preemptions().at(0).outcome);
}

TEST(EngineCycle, a_polite_victim_is_requeued_before_its_grace_is_over) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish polite = wish("a", 8, 600);
    polite.exit_seconds = 7;
    const JobId victim = rig.cluster->submit(polite);
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.run(7);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_TRUE(rig.is_pending(victim));
}

TEST(EngineCycle, tasks_of_one_array_start_in_the_order_in_which_their_rooms_become_free) {
    for (const bool first_leaves_first : {true, false}) {
        EngineRig rig(2, 8, kPlain);
        rig.begin({budget_of("a", 1), budget_of("b", 1)});
        for (const std::int64_t exit_seconds : {7, 20}) {
            Wish polite = wish("a", 8, 600);
            polite.exit_seconds = first_leaves_first ? exit_seconds : 27 - exit_seconds;
            rig.cluster->submit(polite);
            rig.run(5);
        }
        rig.run(600);
        const JobId waits = rig.cluster->submit(wish("a", 8, 600));
        Wish array = wish("b", 8, 600);
        array.tasks = 2;
        rig.cluster->submit(array);
        ASSERT_TRUE(rig.run_until([&] { return rig.preemptions().size() == 2; }, 20));
        rig.run(10);
        EXPECT_EQ(2u, rig.cluster->ids(HostJobState::running).size());  // one has left, one came
        EXPECT_TRUE(rig.is_pending(waits));
        rig.run(15);
        EXPECT_TRUE(rig.is_pending(waits));
        for (const PreemptionRecord& record : rig.preemptions()) {
            EXPECT_EQ("started", record.outcome);
        }
    }
}

TEST(EngineCycle, a_slow_epilog_is_no_waste) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    rig.cluster->set_completing_seconds(90);
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.run(59);
    EXPECT_TRUE(rig.is_running(victim));
    rig.run(40);
    rig.restart();
    rig.run(55);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_EQ("started", rig.preemptions().at(0).outcome);
}

// The room is there and the claimant does not start: wasted once slurmctld has tried in vain, and
// not before a much longer patience is over where nobody tries at all.
TEST(EngineCycle, a_plan_is_wasted_only_when_its_claimant_was_really_tried_on_the_room) {
    for (const auto refusal :
         {FakeCluster::Refusal::tried_in_vain, FakeCluster::Refusal::never_tried}) {
        EngineRig rig(1, 8, kPlain);
        rig.begin(two_budgets());
        const JobId victim = rig.cluster->submit(wish("a", 8, 600));
        rig.run(5);
        const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
        rig.cluster->refuse(claimant, refusal);
        ASSERT_TRUE(rig.run_until([&] { return rig.is_pending(victim); }, 700));
        EXPECT_EQ(std::chrono::milliseconds(2000), rig.engine->due_in());  // it wakes Slurm again
        const std::int64_t patience = refusal == FakeCluster::Refusal::tried_in_vain ? 60 : 600;
        rig.run(patience);
        EXPECT_EQ("", rig.preemptions().at(0).outcome);
        EXPECT_TRUE(rig.is_pending(victim));  // nobody else's meanwhile
        rig.run(2);
        EXPECT_EQ("wasted", rig.preemptions().at(0).outcome);
        EXPECT_EQ(1, rig.engine->view()->health.wasted);
        rig.run(10);
        EXPECT_TRUE(rig.is_running(victim));
        // Nobody is evicted for it again at once.
        rig.run(560);
        EXPECT_EQ(1u, rig.preemptions().size());
    }
}

TEST(EngineCycle, a_claimant_that_starts_late_on_its_room_wastes_nothing) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    rig.cluster->refuse(claimant, FakeCluster::Refusal::never_tried);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_pending(victim); }, 700));
    rig.run(300);
    rig.cluster->refuse(claimant, FakeCluster::Refusal::none);
    rig.run(2);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_EQ("started", rig.preemptions().at(0).outcome);
    EXPECT_EQ(0, rig.engine->view()->health.wasted);
}

TEST(EngineCycle, a_session_is_warned_quietly_and_signalled_a_minute_before_its_end) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish session = wish("a", 8, 600);
    session.interactive = true;
    session.resumable = false;
    const JobId victim = rig.cluster->submit(session);
    rig.run(5);
    rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    const std::int64_t warned_at = rig.preemptions()[0].warned_at;
    rig.run(300);
    rig.restart();
    rig.run(239);
    EXPECT_TRUE(rig.cluster->last_calls(victim).empty());
    rig.run(20);
    EXPECT_EQ(std::vector<std::int64_t>{warned_at + 540}, rig.cluster->last_calls(victim));
    rig.run(41);
    EXPECT_EQ(RunEnd::preempted, rig.cluster->job(victim)->end);
    EXPECT_EQ(warned_at + 600, rig.cluster->job(victim)->end_at);
}

TEST(EngineCycle, a_plan_survives_a_restart_in_the_grace) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId first = rig.cluster->submit(wish("a", 8, 600));
    const JobId second = rig.cluster->submit(wish("a", 8, 7200));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    const JobId free_job = rig.cluster->submit(wish("a", 8, 0));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    const std::int64_t warned_at = rig.cluster->now();
    rig.run(20);
    rig.stop();
    rig.run(10);                   // slurmctld's plugins are away for a while
    rig.cluster->unpin(claimant);  // lost with slurmctld
    rig.start();
    EXPECT_EQ(1u, rig.engine->view()->view.plans.size());
    EXPECT_EQ(RunState::leaving, rig.run_of(first)->state);
    rig.run(29);
    EXPECT_TRUE(rig.is_running(first));
    rig.run(1);
    EXPECT_EQ(warned_at + 60, rig.cluster->now());
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_TRUE(rig.is_running(second));
    EXPECT_TRUE(rig.is_pending(free_job));
    rig.run(1);
    ASSERT_EQ(1u, rig.preemptions().size());
    EXPECT_EQ("started", rig.preemptions()[0].outcome);
    EXPECT_EQ(0u, rig.engine->view()->health.faults);
}

TEST(EngineCycle, a_warning_that_was_lost_with_the_daemon_is_given_again) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId first = rig.cluster->submit(wish("a", 8, 600));
    rig.cluster->submit(wish("a", 8, 7200));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.stop();
    rig.cluster->forget_warning(first);
    rig.run(10);
    rig.start();
    EXPECT_TRUE(rig.cluster->is_warned(first));
    rig.run(60);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_TRUE(rig.is_pending(first));
    ASSERT_EQ(1u, rig.preemptions().size());
    EXPECT_EQ("started", rig.preemptions()[0].outcome);
}

TEST(EngineCycle, a_lost_warning_is_not_given_again_where_nobody_is_preempted_any_more) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId first = rig.cluster->submit(wish("a", 8, 600));
    rig.cluster->submit(wish("a", 8, 7200));
    rig.run(5);
    rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    const std::size_t told = rig.cluster->told(first).size();
    rig.stop();
    rig.cluster->forget_warning(first);
    rig.write_settings(std::string(kPlain) + "DryRun=yes");
    rig.start();
    rig.run(70);
    EXPECT_EQ(told, rig.cluster->told(first).size());
    EXPECT_TRUE(rig.is_running(first));
    EXPECT_EQ(RunState::running, rig.run_of(first)->state);
}

TEST(EngineCycle, a_victim_whose_warning_is_gone_leaves_for_nobody) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId first = rig.cluster->submit(wish("a", 8, 600));
    rig.cluster->submit(wish("a", 8, 7200));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.run(5);
    rig.cluster->forget_warning(first);  // by somebody else
    rig.run(5);
    rig.cluster->cancel(claimant);
    rig.run(5);
    EXPECT_EQ(RunState::running, rig.run_of(first)->state);
    EXPECT_EQ(0u, rig.engine->view()->view.plans.size());
}

TEST(EngineCycle, a_job_that_was_just_requeued_warns_its_own_victim_once) {
    EngineRig rig(2, 8, "GraceTime=5\nGraceTimeFree=5\n");
    rig.begin({budget_of("a", 4), budget_of("b", 1)});
    Wish stubborn = wish("b", 8, 1000);
    stubborn.resumable = false;
    const JobId other = rig.cluster->submit(stubborn);
    const JobId victim = rig.cluster->submit(wish("a", 8, 1000));
    rig.run(1100);
    const JobId debug = rig.cluster->submit(wish("a", 8, 600));
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(debug); }, 30));
    ASSERT_TRUE(rig.is_pending(victim));
    rig.step();  // in the second of its requeue it cannot be made eligible yet
    rig.step();
    rig.run(30);
    EXPECT_EQ(1u, rig.cluster->told(other).size());
    EXPECT_EQ(2u, rig.preemptions().size());
}

TEST(EngineCycle, a_claimant_that_leaves_in_the_grace_gives_its_victims_back) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.run(30);
    rig.cluster->cancel(claimant);
    rig.run(100);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_EQ(RunState::running, rig.run_of(victim)->state);
    EXPECT_EQ("taken-back", rig.preemptions().at(0).outcome);
    EXPECT_EQ(0, rig.engine->view()->health.claimant_left);
}

TEST(EngineCycle, a_claimant_that_is_changed_in_the_grace_is_planned_anew) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId first = rig.cluster->submit(wish("a", 8, 600));
    const JobId second = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    Wish gang = wish("b", 16, 60);
    gang.nodes = 2;
    const JobId claimant = rig.cluster->submit(gang);
    ASSERT_TRUE(rig.run_until([&] { return rig.preemptions().size() == 2; }, 700));
    rig.run(10);
    rig.cluster->reshape(claimant, 1, 8);
    rig.run(120);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_NE(rig.is_running(first), rig.is_running(second));
    EXPECT_EQ(0, rig.engine->view()->health.wasted);
    int taken_back = 0, started = 0;
    for (const PreemptionRecord& record : rig.preemptions()) {
        taken_back += record.outcome == "taken-back" ? 1 : 0;
        started += record.outcome == "started" ? 1 : 0;
    }
    EXPECT_EQ(2, taken_back);
    EXPECT_EQ(1, started);
}

TEST(EngineCycle, a_claimant_that_leaves_after_the_grace_is_counted) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    rig.cluster->set_completing_seconds(5);
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return rig.state(victim) == HostJobState::completing; }, 700));
    rig.cluster->cancel(claimant);
    rig.run(10);
    EXPECT_EQ("claimant-left", rig.preemptions().at(0).outcome);
    EXPECT_EQ(1, rig.engine->view()->health.claimant_left);
    EXPECT_TRUE(rig.is_running(victim));  // it waits for nobody any more
}

TEST(EngineCycle, a_claimant_that_finds_other_room_gives_back_who_is_still_in_grace) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    const JobId other = rig.cluster->submit(wish("a", 8, 7200));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.run(5);
    rig.cluster->cancel(other);
    rig.cluster->unpin(claimant);  // an administrator's hand
    rig.cluster->schedule();
    ASSERT_TRUE(rig.is_running(claimant));
    rig.run(100);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_EQ(RunState::running, rig.run_of(victim)->state);
    EXPECT_EQ("taken-back", rig.preemptions().at(0).outcome);
}

TEST(EngineCycle, a_claimant_that_finds_other_room_after_the_eviction_has_overtaken_its_plan) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    rig.cluster->set_completing_seconds(20);
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    const JobId other = rig.cluster->submit(wish("a", 8, 7200));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return rig.state(victim) == HostJobState::completing; }, 700));
    rig.cluster->set_completing_seconds(0);
    rig.cluster->cancel(other);
    rig.cluster->unpin(claimant);
    rig.cluster->schedule();
    ASSERT_TRUE(rig.is_running(claimant));
    rig.run(2);
    EXPECT_EQ("overtaken", rig.preemptions().at(0).outcome);
    EXPECT_EQ(1, rig.engine->view()->health.overtaken);
    rig.run(25);
    EXPECT_TRUE(rig.is_running(victim));
}

TEST(EngineCycle, a_plan_whose_node_drains_or_vanishes_is_dropped_and_made_anew) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId first = rig.cluster->submit(wish("a", 8, 600));
    const JobId second = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    const std::string node = rig.preemptions()[0].nodes;
    const JobId victim = rig.preemptions()[0].victim;
    rig.run(5);
    rig.cluster->set_node(node, true, true);
    rig.run(1);
    ASSERT_EQ(2u, rig.preemptions().size());
    EXPECT_EQ("taken-back", rig.preemptions()[0].outcome);
    EXPECT_EQ(victim == first ? second : first, rig.preemptions()[1].victim);
    rig.run(61);
    EXPECT_TRUE(rig.is_running(claimant));
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_EQ(0, rig.engine->view()->health.faults);
}

}  // namespace
}  // namespace tranche::test
