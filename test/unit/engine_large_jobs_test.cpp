// SPDX-License-Identifier: GPL-2.0-or-later
// Large jobs, the headroom and --free-first, from the pass to what the host is told and the ledger
// keeps.
#include <gtest/gtest.h>

#include <set>

#include "engine/engine_cycle.hpp"
#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr std::int64_t kHour = 3600;

constexpr char kLarge[] =
    "ExpressFraction=0\nMaxProtectedFraction=1\nReservations=0\nGraceTime=5\n";

Wish wish(const std::string& account, std::int64_t gpus, std::int64_t min_runtime) {
    Wish out;
    out.account = account;
    out.user = "user-of-" + account;
    out.gpus = gpus;
    out.min_runtime_seconds = min_runtime;
    return out;
}

Wish gang(const std::string& account, std::uint32_t nodes, std::int64_t min_runtime) {
    Wish out = wish(account, 8 * nodes, min_runtime);
    out.nodes = nodes;
    return out;
}

std::vector<Budget> two_budgets() {
    return {budget_of("a", 1), budget_of("b", 1)};
}

std::set<std::string> nodes_of(const AssemblyRow& row) {
    return {row.nodes.begin(), row.nodes.end()};
}

AssemblyRow assembly_of(EngineRig& rig, JobId id) {
    const auto view = rig.engine->view();
    const AssemblyRow* row = view->assembly(id);
    return row == nullptr ? AssemblyRow() : *row;
}

// Four nodes full of protected jobs of b, their contracts ending one after the other.
struct FullCluster {
    explicit FullCluster(EngineRig& rig, std::uint32_t nodes = 4, std::int64_t step = 600) {
        for (std::uint32_t n = 0; n < nodes; ++n) {
            jobs.push_back(rig.cluster->submit(wish("b", 8, kHour + step * n)));
        }
        rig.run(2);
        for (const JobId job : jobs) {
            EXPECT_TRUE(rig.is_running(job));
        }
    }
    std::vector<JobId> jobs;
};

TEST(EngineLargeJobs, half_the_cluster_is_gathered_as_contracts_end_and_starts_at_its_date) {
    EngineRig rig(4, 8, kLarge);
    rig.begin(two_budgets());
    FullCluster full(rig);
    const JobId big = rig.cluster->submit(gang("a", 2, kHour));
    rig.run(1);
    const AssemblyRow granted = assembly_of(rig, big);
    EXPECT_NE(0, granted.turn_at);
    EXPECT_NE(0, granted.granted_at);
    EXPECT_EQ((std::set<std::string>{"n1", "n2"}), nodes_of(granted));
    const std::int64_t second_end = rig.run_of(full.jobs[1])->protected_until;
    EXPECT_EQ(second_end, granted.date_at);
    EXPECT_EQ("assembling", rig.wait_reason(big));

    // A job of two hours would stay past the date: kept off. One of ten minutes is not.
    const JobId too_long = rig.cluster->submit(wish("a", 8, 2 * kHour));
    const JobId brief = rig.cluster->submit(wish("a", 8, 600));
    rig.run(1);
    EXPECT_EQ((std::vector<std::string>{"n1", "n2"}), rig.cluster->closed_to(too_long));
    EXPECT_TRUE(rig.cluster->closed_to(brief).empty());
    rig.cluster->cancel(brief);

    rig.run(second_end - rig.cluster->now());
    EXPECT_TRUE(rig.is_pending(big));
    EXPECT_TRUE(rig.is_pending(too_long));
    rig.run(1);
    rig.run(5);
    EXPECT_TRUE(rig.is_running(big));
    EXPECT_EQ("n1,n2", rig.nodes_of(big));
    rig.run(1);
    const AssemblyRow started = assembly_of(rig, big);
    EXPECT_EQ("started", started.outcome);
    EXPECT_EQ(rig.cluster->job(big)->start_at, started.started_at);
    EXPECT_LE(started.started_at - granted.turn_at, kHour + 600 + 5 + 2);
    EXPECT_TRUE(rig.cluster->closed_to(too_long).empty());
    for (const PreemptionRecord& record : rig.preemptions()) {
        EXPECT_EQ("assembly", record.reason);
        EXPECT_GE(record.warned_at, record.contract_ended_at);
    }
}

TEST(EngineLargeJobs, a_restart_knows_the_assembly_its_turn_and_whom_it_held_back) {
    EngineRig rig(4, 8, kLarge);
    rig.begin(two_budgets());
    FullCluster full(rig);
    const JobId big = rig.cluster->submit(gang("a", 2, kHour));
    const JobId wide = rig.cluster->submit(gang("b", 3, 8 * kHour));
    rig.run(2);
    const AssemblyRow before = assembly_of(rig, big);
    ASSERT_NE(0, before.granted_at);
    // Only two nodes would be left to it.
    EXPECT_TRUE(rig.cluster->closed_to(wide).empty());
    EXPECT_EQ(before.date_at + 10, rig.cluster->begin_at(wide));
    EXPECT_EQ(StartBlock::none, rig.cluster->job(wide)->block);
    rig.restart();
    EXPECT_EQ(before, assembly_of(rig, big));
    EXPECT_EQ(StartBlock::none, rig.cluster->job(wide)->block);
    ASSERT_EQ(1U, rig.engine->view()->view.assemblies.size());
    EXPECT_EQ(before.turn_at,
              rig.engine->view()
                  ->view.pending[static_cast<std::size_t>(rig.card(big)->pending_index)]
                  .turn_at);
    rig.cluster->cancel(big);
    rig.run(2);
    // Its user's own begin time is back.
    EXPECT_EQ(0, rig.cluster->begin_at(wide));
    EXPECT_EQ("claimant-left", assembly_of(rig, big).outcome);
    rig.restart();
    EXPECT_EQ("claimant-left", assembly_of(rig, big).outcome);
    EXPECT_EQ(1U, rig.engine->view()->view.grants.size());
}

TEST(EngineLargeJobs, a_node_that_drains_is_replaced_and_the_date_follows) {
    EngineRig rig(4, 8, kLarge);
    rig.begin(two_budgets());
    FullCluster full(rig);
    const JobId big = rig.cluster->submit(gang("a", 2, kHour));
    rig.run(2);
    const AssemblyRow before = assembly_of(rig, big);
    rig.cluster->set_node("n1", true, true);
    rig.run(2);
    const AssemblyRow after = assembly_of(rig, big);
    EXPECT_EQ((std::set<std::string>{"n2", "n3"}), nodes_of(after));
    EXPECT_EQ(before.turn_at, after.turn_at);
    EXPECT_EQ(before.granted_at, after.granted_at);
    EXPECT_EQ(rig.run_of(full.jobs[2])->protected_until, after.date_at);
}

TEST(EngineLargeJobs, free_work_uses_the_gathered_nodes_until_the_date) {
    EngineRig rig(4, 8, kLarge);
    rig.begin(two_budgets());
    FullCluster full(rig);
    const JobId big = rig.cluster->submit(gang("a", 2, kHour));
    rig.run(2);
    rig.cluster->cancel(full.jobs[0]);
    const JobId free_run = rig.cluster->submit(wish("b", 8, 0));
    rig.run(2);
    EXPECT_TRUE(rig.is_running(free_run));
    EXPECT_EQ("n1", rig.nodes_of(free_run));
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(big); }, 2 * kHour));
    EXPECT_EQ("n1,n2", rig.nodes_of(big));
    // Then it left for the claimant, not for another.
    ASSERT_FALSE(rig.preemptions().empty());
    EXPECT_EQ(big, rig.preemptions()[0].claimant);
}

TEST(EngineLargeJobs, nodes_that_are_free_before_the_date_are_taken_at_once) {
    EngineRig rig(4, 8, kLarge);
    rig.begin(two_budgets());
    FullCluster full(rig);
    const JobId big = rig.cluster->submit(gang("a", 2, kHour));
    const JobId other = rig.cluster->submit(wish("a", 8, 600));
    rig.run(2);
    ASSERT_NE(0, assembly_of(rig, big).granted_at);
    rig.cluster->cancel(full.jobs[0]);
    rig.cluster->cancel(full.jobs[1]);
    rig.run(2);
    EXPECT_TRUE(rig.is_running(big));
    EXPECT_EQ("n1,n2", rig.nodes_of(big));
    EXPECT_TRUE(rig.is_pending(other));
    EXPECT_TRUE(rig.preemptions().empty());
}

TEST(EngineLargeJobs, a_task_of_an_array_is_gathered_for_under_a_record_of_its_own) {
    EngineRig rig(4, 8, kLarge);
    rig.begin(two_budgets());
    FullCluster full(rig);
    Wish tasks = gang("a", 2, kHour);
    tasks.tasks = 2;
    const JobId array = rig.cluster->submit(tasks);
    rig.run(3);
    const auto view = rig.engine->view();
    ASSERT_EQ(1U, view->view.assemblies.size());
    EXPECT_NE(array, view->view.assemblies[0].claimant);
    const JobId task = view->view.assemblies[0].claimant;
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(task); }, 2 * kHour));
}

// The headroom: twenty nodes, one stays open.
constexpr char kHeadroom[] = "ExpressFraction=0\nReservations=0\nMaxAssemblies=0\nGraceTime=5\n";

TEST(EngineHeadroom, a_job_that_cannot_resume_waits_and_one_that_can_runs_free_and_turns) {
    EngineRig rig(20, 8, kHeadroom);
    rig.begin(two_budgets());
    std::vector<JobId> protected_runs;
    for (int i = 0; i < 19; ++i) {
        protected_runs.push_back(rig.cluster->submit(wish("b", 8, kHour + 60 * i)));
    }
    rig.run(2);
    Wish final_one = wish("a", 8, kHour);
    final_one.resumable = false;
    const JobId waits = rig.cluster->submit(final_one);
    rig.step();
    rig.run(3);
    EXPECT_TRUE(rig.is_pending(waits));
    EXPECT_EQ("headroom", rig.wait_reason(waits));
    EXPECT_GT(rig.cluster->begin_at(waits), rig.cluster->now());
    EXPECT_EQ(StartBlock::none, rig.cluster->job(waits)->block);

    const JobId resumes = rig.cluster->submit(wish("a", 8, kHour));
    rig.step();
    rig.run(2);
    ASSERT_TRUE(rig.is_running(resumes));
    EXPECT_EQ(RunKind::unallocated, rig.run_of(resumes)->kind);
    EXPECT_TRUE(rig.run_of(resumes)->wants_turn);
    EXPECT_EQ(0, rig.charged("a"));
    // A contract ends, and with it the allowance grows: the first in the queue gets it.
    rig.cluster->cancel(protected_runs[0]);
    rig.run(3);
    EXPECT_TRUE(rig.is_running(waits));
    EXPECT_EQ(RunKind::unallocated, rig.run_of(resumes)->kind);
    rig.cluster->cancel(protected_runs[1]);
    rig.run(3);
    EXPECT_EQ(RunKind::allocated, rig.run_of(resumes)->kind);
    rig.run(kHour);
    rig.stop();
    std::vector<SegmentRow> segments;
    for (const SegmentRow& row : rig.segments()) {
        if (row.key.job_id == resumes) {
            segments.push_back(row);
        }
    }
    ASSERT_EQ(2U, segments.size());
    EXPECT_EQ(RunKind::unallocated, segments[0].kind);
    EXPECT_EQ("turned", segments[0].end_reason);
    EXPECT_EQ(RunKind::allocated, segments[1].kind);
    EXPECT_EQ(1U, segments[1].run);
}

TEST(EngineHeadroom, one_scheduling_pass_does_not_start_more_than_may_come_under_contract) {
    EngineRig rig(20, 8, kHeadroom);
    rig.begin(two_budgets());
    Wish one = wish("a", 8, kHour);
    one.resumable = false;
    std::vector<JobId> jobs;
    for (int i = 0; i < 25; ++i) {
        jobs.push_back(rig.cluster->submit(one));
    }
    Wish tasks = wish("b", 8, kHour);
    tasks.tasks = 25;
    tasks.resumable = false;
    rig.cluster->submit(tasks);
    rig.run(5);
    EXPECT_EQ(19U, rig.cluster->ids(HostJobState::running).size());
}

TEST(EngineHeadroom, tasks_of_a_resumable_array_beyond_the_headroom_run_free) {
    EngineRig rig(20, 8, kHeadroom);
    rig.begin(two_budgets());
    Wish tasks = wish("b", 8, kHour);
    tasks.tasks = 30;
    rig.cluster->submit(tasks);
    rig.run(5);
    EXPECT_EQ(20U, rig.cluster->ids(HostJobState::running).size());
    int allocated = 0;
    const auto view = rig.engine->view();
    for (const auto& run : view->view.runs) {
        allocated += run.kind == RunKind::allocated ? 1 : 0;
    }
    EXPECT_EQ(19, allocated);
}

TEST(EngineFreeFirst, a_job_runs_free_and_turns_when_a_job_behind_it_would_be_given_its_gpus) {
    EngineRig rig(1, 8, kLarge);
    rig.begin(two_budgets());
    Wish first = wish("a", 8, kHour);
    first.free_first = true;
    const JobId job = rig.cluster->submit(first);
    rig.run(600);
    ASSERT_TRUE(rig.is_running(job));
    EXPECT_EQ(RunKind::unallocated, rig.run_of(job)->kind);
    EXPECT_TRUE(rig.run_of(job)->free_first);
    EXPECT_EQ(0, rig.charged("a"));
    rig.restart();
    EXPECT_TRUE(rig.run_of(job)->free_first);
    // Free work does not take its GPUs: it goes on free.
    rig.cluster->submit(wish("b", 8, 0));
    rig.run(5);
    EXPECT_EQ(RunKind::unallocated, rig.run_of(job)->kind);
    const JobId behind = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(3);
    ASSERT_TRUE(rig.is_running(job));
    EXPECT_EQ(RunKind::allocated, rig.run_of(job)->kind);
    EXPECT_TRUE(rig.is_pending(behind));
    EXPECT_TRUE(rig.preemptions().empty());
    EXPECT_EQ(1U, rig.card(job)->runs);
    const std::int64_t until = rig.run_of(job)->protected_until;
    EXPECT_LE(kHour - 3, until - rig.cluster->now());
}

TEST(EngineFreeFirst, who_stands_before_it_takes_its_gpus) {
    EngineRig rig(1, 8, kLarge);
    rig.begin(two_budgets());
    Wish first = wish("a", 8, kHour);
    first.free_first = true;
    const JobId job = rig.cluster->submit(first);
    rig.run(5);
    Wish urgent = wish("a", 8, kHour);
    urgent.team_priority = TeamPriority::urgent;
    const JobId before = rig.cluster->submit(urgent);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(before); }, 60));
    EXPECT_TRUE(rig.is_pending(job));
}

}  // namespace
}  // namespace tranche::test
