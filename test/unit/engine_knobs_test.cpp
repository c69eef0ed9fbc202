// SPDX-License-Identifier: GPL-2.0-or-later
// What the settings do that an administrator turns, through the engine's own cycle.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/policy/explain.hpp"
#include "common/store/ledger_replay.hpp"
#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr char kPlain[] = "ExpressFraction=0\nMaxProtectedFraction=1\nGraceTime=1\n";

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

bool complains(const EngineRig& rig, const std::string& part) {
    const auto view = rig.engine->view();
    const auto& lines = view->health.complaints;
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos;
    });
}

void reconfigure(EngineRig& rig, const std::string& settings) {
    rig.write_settings(settings);
    rig.engine->reload_settings();
    rig.step();
}

// Rehearsal.

TEST(EngineKnobs, a_rehearsal_leaves_the_order_alone_and_shows_its_own) {
    EngineRig rig(1, 8, std::string(kPlain) + "DryRun=yes\n");
    rig.rehearses = true;
    rig.begin(two_budgets());
    rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    const JobId more = rig.cluster->submit(wish("a", 8, 600));
    const JobId first = rig.cluster->submit(wish("b", 8, 600));
    rig.cluster->set_priorities({{more, 1000}, {first, 17}});  // the site's own plugin
    rig.run(5);
    EXPECT_EQ(1000u, rig.cluster->job(more)->priority);
    EXPECT_EQ(17u, rig.cluster->job(first)->priority);
    EXPECT_EQ(17u, rig.card(first)->priority);
    const auto view = rig.engine->view();
    ASSERT_EQ(2u, view->ranking.size());
    EXPECT_EQ(first, view->view.pending[view->ranking[0].job].id);
    EXPECT_TRUE(view->health.rehearses);
    // Arrays stay whole.
    Wish many = wish("b", 1, 600);
    many.tasks = 10;
    const JobId array = rig.cluster->submit(many);
    rig.run(5);
    EXPECT_EQ(10u, rig.cluster->job(array)->array_tasks_pending);
}

TEST(EngineKnobs, a_rehearsal_records_once_whom_it_would_have_evicted) {
    EngineRig rig(1, 8, std::string(kPlain) + "DryRun=yes\n");
    rig.rehearses = true;
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 60));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 60));
    rig.run(200);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_TRUE(rig.is_pending(claimant));
    const auto records = rig.preemptions();
    ASSERT_EQ(1u, records.size());
    EXPECT_EQ(victim, records[0].victim);
    EXPECT_EQ(claimant, records[0].claimant);
    EXPECT_EQ("rehearsed", records[0].outcome);
    EXPECT_EQ(0, records[0].warned_at);
    EXPECT_EQ(1, rig.engine->view()->health.rehearsed);
    EXPECT_EQ(0, rig.engine->view()->health.preemptions);
    // What would have been counts in no limit after a restart in earnest.
    rig.rehearses = false;
    rig.write_settings(std::string(kPlain) + "MaxPreemptionsPerHour=1\n");
    rig.restart();
    EXPECT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 60));
}

TEST(EngineKnobs, a_rehearsal_ends_at_a_restart_only) {
    EngineRig rig(1, 8, std::string(kPlain) + "DryRun=yes\n");
    rig.rehearses = true;
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 60));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 60));
    reconfigure(rig, std::string(kPlain) + "DryRun=no\nGraceTimeFree=7\n");
    EXPECT_TRUE(rig.engine->settings().dry_run);
    EXPECT_EQ(7, rig.engine->settings().grace_time_free_seconds);  // the rest is in force
    EXPECT_TRUE(complains(rig, "DryRun=no takes effect at the next restart of slurmctld"));
    EXPECT_TRUE(rig.logged("DryRun=no takes effect"));
    rig.run(200);
    EXPECT_TRUE(rig.is_running(victim));
    rig.rehearses = false;
    rig.restart();
    EXPECT_FALSE(complains(rig, "DryRun"));
    EXPECT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 60));
}

TEST(EngineKnobs, a_rehearsal_begun_by_reconfigure_stops_evictions_but_keeps_the_order) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 60));
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 60));
    reconfigure(rig, std::string(kPlain) + "DryRun=yes\n");
    EXPECT_TRUE(complains(rig, "from the next restart of slurmctld on"));
    rig.run(100);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_LT(2000000000u, rig.cluster->job(claimant)->priority);  // ranked all the same
    reconfigure(rig, kPlain);
    EXPECT_FALSE(complains(rig, "DryRun"));
    EXPECT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 60));
}

// Partitions.

TEST(EngineKnobs, jobs_outside_partitions_are_neither_victims_nor_claimants) {
    EngineRig rig(1, 8, std::string(kPlain) + "Partitions=gpu\n");
    rig.begin(two_budgets());
    Wish outside = wish("a", 8, 60);
    outside.partition = "other";
    const JobId victim = rig.cluster->submit(outside);
    rig.run(5);
    ASSERT_NE(nullptr, rig.run_of(victim));
    EXPECT_EQ(RunKind::outside, rig.run_of(victim)->kind);
    const JobId inside = rig.cluster->submit(wish("b", 8, 60));
    rig.run(200);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_TRUE(rig.preemptions().empty());
    EXPECT_EQ(0, rig.charged("a"));
    // The other way round.
    rig.cluster->cancel(victim);
    rig.run(100);
    ASSERT_TRUE(rig.is_running(inside));
    rig.cluster->submit(outside);
    rig.run(200);
    EXPECT_TRUE(rig.is_running(inside));
}

TEST(EngineKnobs, without_partitions_the_same_job_is_a_victim) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish outside = wish("a", 8, 60);
    outside.partition = "other";
    rig.cluster->submit(outside);
    rig.run(5);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 60));
    EXPECT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 200));
}

TEST(EngineKnobs, a_partition_that_is_not_there_is_named) {
    EngineRig rig(1, 8, std::string(kPlain) + "Partitions=gpu,nosuch\n");
    rig.begin(two_budgets());
    EXPECT_TRUE(complains(rig,
                          "Partitions='nosuch': there is no such partition; there are gpu, "
                          "other"));
    EXPECT_TRUE(rig.logged("Partitions='nosuch'"));
    reconfigure(rig, std::string(kPlain) + "Partitions=gpu\n");
    EXPECT_FALSE(complains(rig, "nosuch"));
    reconfigure(rig, std::string(kPlain) + "Partitions=gppu\n");
    EXPECT_TRUE(complains(rig, "gppu"));
}

// PreemptMode=OFF of a partition.

TEST(EngineKnobs, a_run_of_a_partition_with_preempt_mode_off_is_no_candidate) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    Wish spared = wish("a", 8, 60);
    spared.spared = true;
    const JobId first = rig.cluster->submit(spared);
    rig.run(2);
    const JobId second = rig.cluster->submit(wish("a", 8, 60));
    rig.run(100);
    ASSERT_TRUE(rig.run_of(first)->spared);
    // Two claimants: there is one victim.
    const JobId claimant = rig.cluster->submit(wish("b", 8, 600));
    const JobId next = rig.cluster->submit(wish("b", 8, 600));
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 60));
    rig.run(60);
    EXPECT_TRUE(rig.is_running(first));
    EXPECT_TRUE(rig.is_pending(second));
    EXPECT_TRUE(rig.is_pending(next));
    EXPECT_EQ(1u, rig.preemptions().size());
    EXPECT_FALSE(rig.logged("no plan for job"));  // not even tried
    const auto view = rig.engine->view();
    const ExplainInput input{view->view,
                             view->ranking,
                             view->standings,
                             *view->settings,
                             view->available_weight_milli,
                             &view->pass.verdicts};
    const auto why =
        explain_pending(input, static_cast<std::uint32_t>(view->card(next)->pending_index));
    ASSERT_TRUE(why);
    const auto said =
        std::find_if(why->cannot_take.begin(), why->cannot_take.end(),
                     [&](const TakeOutlook& outlook) { return outlook.job == first; });
    ASSERT_NE(why->cannot_take.end(), said);
    EXPECT_EQ(TakeReason::spared, said->reason);
    const RunningExplanation running =
        RunningExplainer(input).explain(static_cast<std::uint32_t>(view->card(first)->run_index));
    EXPECT_TRUE(running.spared);
    EXPECT_TRUE(running.takers.empty());
}

TEST(EngineKnobs, a_free_run_of_such_a_partition_is_no_candidate_either) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish spared = wish("a", 8, 0);
    spared.spared = true;
    const JobId run = rig.cluster->submit(spared);
    rig.run(5);
    rig.cluster->submit(wish("b", 8, 600));
    rig.run(60);
    EXPECT_TRUE(rig.is_running(run));
    EXPECT_FALSE(rig.logged("no plan for job"));
}

// MaxPreemptionsPerHour.

TEST(EngineKnobs, evictions_of_the_last_hour_are_counted_across_a_restart) {
    EngineRig rig(2, 8, std::string(kPlain) + "MaxPreemptionsPerHour=1\n");
    rig.begin({budget_of("a", 1), budget_of("b", 9)});
    rig.cluster->submit(wish("a", 8, 60));
    rig.cluster->submit(wish("a", 8, 60));
    rig.run(100);
    const JobId first = rig.cluster->submit(wish("b", 8, 60));
    const JobId second = rig.cluster->submit(wish("b", 8, 60));
    rig.run(100);
    EXPECT_EQ(1u, rig.preemptions().size());
    const JobId waits = rig.is_running(first) ? second : first;
    EXPECT_EQ("preemption-limit", rig.wait_reason(waits));
    rig.restart();
    rig.run(1000);
    EXPECT_EQ(1u, rig.preemptions().size());
    EXPECT_EQ("preemption-limit", rig.wait_reason(waits));
    rig.run(2700);  // the first one is an hour ago
    EXPECT_EQ(2u, rig.preemptions().size());
}

// A longer window that is asked for while the ledger is still being read.

TEST(EngineKnobs, a_run_is_charged_once_whatever_window_its_ledger_was_read_for) {
    constexpr std::int64_t kNow = 1'000'000'000;
    LedgerContents contents;
    contents.since_at = kNow - 2 * 86400;
    contents.read_at = kNow;
    contents.names = {"", "a", "ann"};
    ClosedSegment closed;
    closed.key = {7, kNow - 700, kNow - 600};
    closed.budget = 1;
    closed.user = 2;
    closed.weight_milli = 1000;
    closed.charged_until = kNow - 100;
    closed.begun_batch = 1;
    closed.ended_batch = 2;
    contents.closed = {closed};
    UsageLedger::Rules rules;
    rules.window = {7 * 86400, WindowShape::linear};
    UsageLedger ledger(rules);
    replay(contents, ledger);
    EXPECT_FALSE(ledger.begin({closed.key, "a", "ann", RunKind::allocated, 1000}));
}

// What a reconfiguration cannot change.

TEST(EngineKnobs, another_ledger_or_port_is_kept_for_the_next_restart_and_said) {
    EngineRig rig(1, 8, std::string(kPlain) + "ServicePort=7001\n");
    rig.begin(two_budgets());
    reconfigure(rig, std::string(kPlain) + "ServicePort=7002\nDatabasePath=/nosuch/x.db\n");
    EXPECT_EQ(7001, rig.engine->settings().service_port);
    EXPECT_EQ("", rig.engine->settings().database_path);
    EXPECT_TRUE(complains(rig, "ServicePort=7002 takes effect at the next restart of slurmctld"));
    EXPECT_TRUE(complains(rig,
                          "DatabasePath=/nosuch/x.db takes effect at the next restart of "
                          "slurmctld; no ledger can be kept in /nosuch: No such file"));
    EXPECT_TRUE(rig.engine->view()->health.database_ok);
    rig.stop();
    rig.start(std::chrono::milliseconds(50));
    EXPECT_EQ(7002, rig.engine->settings().service_port);
    EXPECT_FALSE(rig.engine->view()->health.database_ok);
}

}  // namespace
}  // namespace tranche::test
