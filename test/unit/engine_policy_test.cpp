// SPDX-License-Identifier: GPL-2.0-or-later
// Arrays, the lane, the headroom, edits and settings, through the engine's own cycle.
#include <gtest/gtest.h>

#include <set>

#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr char kPlain[] = "ExpressFraction=0\nMaxProtectedFraction=1\n";
const Actor kRoot{0, "root", true};

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

std::int64_t running_of(EngineRig& rig, const std::string& account) {
    std::int64_t count = 0;
    for (const JobId id : rig.cluster->ids(HostJobState::running)) {
        count += rig.cluster->job(id)->account == account ? 1 : 0;
    }
    return count;
}

TEST(EnginePolicy, two_arrays_of_two_budgets_start_by_turns) {
    EngineRig rig(4, 2, kPlain);
    rig.begin(two_budgets());
    Wish many = wish("a", 1, kHour);
    many.tasks = 20;
    rig.cluster->submit(many);
    many.account = "b";
    many.user = "user-of-b";
    rig.cluster->submit(many);
    rig.step();
    rig.cluster->schedule();
    EXPECT_EQ(4, running_of(rig, "a"));
    EXPECT_EQ(4, running_of(rig, "b"));
    rig.run(1);
    for (const JobId id : rig.cluster->ids(HostJobState::running)) {
        EXPECT_EQ(rig.cluster->job(id)->submit_at, rig.card(id)->first_submit_at);
    }
    // In the order of the tasks' numbers.
    std::set<std::uint32_t> tasks;
    for (const JobId id : rig.cluster->ids(HostJobState::running)) {
        tasks.insert(rig.cluster->job(id)->array_task);
    }
    EXPECT_EQ((std::set<std::uint32_t>{0, 1, 2, 3}), tasks);
}

TEST(EnginePolicy, an_array_and_single_jobs_start_by_turns) {
    EngineRig rig(4, 2, kPlain);
    rig.begin(two_budgets());
    Wish many = wish("a", 1, kHour);
    many.tasks = 1000;
    rig.cluster->submit(many);
    for (int i = 0; i < 20; ++i) {
        rig.cluster->submit(wish("b", 1, kHour));
    }
    rig.step();
    rig.cluster->schedule();
    EXPECT_EQ(4, running_of(rig, "a"));
    EXPECT_EQ(4, running_of(rig, "b"));
}

TEST(EnginePolicy, tasks_of_an_array_are_claimants_with_a_record_of_their_own) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    rig.cluster->submit(wish("a", 8, 600));
    rig.cluster->submit(wish("a", 8, 600));
    rig.run(1200);
    Wish many = wish("b", 8, 300);
    many.tasks = 5;
    const JobId array = rig.cluster->submit(many);
    rig.run(61);
    EXPECT_EQ(1, running_of(rig, "b"));
    rig.run(2);  // tasks get their rooms one after the other
    EXPECT_EQ(2, running_of(rig, "b"));
    rig.run(2);
    ASSERT_EQ(2u, rig.preemptions().size());
    for (const PreemptionRecord& record : rig.preemptions()) {
        EXPECT_EQ("started", record.outcome);
        EXPECT_NE(array, record.claimant);
        EXPECT_EQ(array, rig.cluster->job(record.claimant)->array_job_id);
    }
    EXPECT_TRUE(rig.is_pending(array));
}

TEST(EnginePolicy, a_debug_job_evicts_and_its_victim_comes_back_protected_for_an_hour_at_most) {
    EngineRig rig(1, 8, "MaxProtectedFraction=1\n");
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 2 * kHour));
    rig.run(2 * kHour + 10);
    Wish debug = wish("b", 2, 300);
    debug.runtime_seconds = 120;
    const JobId quick = rig.cluster->submit(debug);
    rig.run(61);
    EXPECT_TRUE(rig.is_running(quick));
    rig.run(1);
    EXPECT_TRUE(rig.run_of(quick)->express);
    EXPECT_EQ("express", rig.preemptions().at(0).reason);
    rig.restart();  // neither the place nor the cap is forgotten
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(victim); }, 200));
    rig.run(1);
    EXPECT_EQ(kHour, rig.run_of(victim)->contract_seconds);
    EXPECT_EQ(2u, rig.card(victim)->runs);
    // And only that one run.
    rig.cluster->requeue(victim);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(victim); }, 200));
    rig.run(1);
    EXPECT_EQ(2 * kHour, rig.run_of(victim)->contract_seconds);
}

TEST(EnginePolicy, the_caps_of_the_lane_survive_a_restart) {
    EngineRig rig(4, 8, "MaxProtectedFraction=1\n");
    rig.begin(two_budgets());
    for (int i = 0; i < 4; ++i) {
        rig.cluster->submit(wish("a", 8, 600));
    }
    rig.run(900);
    Wish debug = wish("b", 8, 300);
    debug.runtime_seconds = 500;
    const JobId first = rig.cluster->submit(debug);
    ASSERT_TRUE(rig.run_until([&] { return rig.state(first) == HostJobState::finished; }, 900));
    rig.run(2);
    const auto gpu_seconds = [&] {
        std::int64_t sum = 0;
        for (const ExpressUse& use : rig.engine->view()->view.express_uses) {
            sum += use.user == "user-of-b" ? use.gpus * (use.ended_at - use.started_at) : 0;
        }
        return sum;
    };
    EXPECT_EQ(8 * 500, gpu_seconds());
    rig.restart();
    EXPECT_EQ(8 * 500, gpu_seconds());
}

TEST(EnginePolicy, the_headroom_lets_a_job_start_free_and_turns_it_in_place) {
    EngineRig rig(20, 1, "ExpressFraction=0\nMaxProtectedFraction=0.95\n");
    rig.begin(two_budgets());
    Wish brief = wish("a", 1, 600);
    brief.runtime_seconds = 900;
    std::vector<JobId> jobs;
    for (int i = 0; i < 19; ++i) {
        brief.min_runtime_seconds = i == 0 ? 300 : 3000;
        brief.runtime_seconds = 5000;
        jobs.push_back(rig.cluster->submit(brief));
    }
    rig.run(2);
    const JobId last = rig.cluster->submit(wish("b", 1, 1000));
    rig.run(3);
    ASSERT_TRUE(rig.is_running(last));
    EXPECT_EQ(RunKind::unallocated, rig.run_of(last)->kind);
    EXPECT_TRUE(rig.run_of(last)->wants_turn);
    rig.run(100);
    rig.restart();  // it is remembered that it waits for its turn
    EXPECT_TRUE(rig.run_of(last)->wants_turn);
    EXPECT_EQ(0, rig.charged("b"));
    ASSERT_TRUE(rig.run_until([&] { return rig.run_of(last)->kind == RunKind::allocated; }, 300));
    const std::int64_t turned_at = rig.run_of(jobs[0])->protected_until;
    EXPECT_GE(turned_at + 1, rig.cluster->now());
    EXPECT_EQ(turned_at + 1000, rig.run_of(last)->protected_until);
    EXPECT_EQ(1u, rig.card(last)->runs);
    rig.run(50);
    EXPECT_EQ(rig.cluster->now() - turned_at, rig.charged("b"));
    rig.stop();
    std::int64_t segments = 0;
    for (const SegmentRow& row : rig.segments()) {
        segments += row.key.job_id == last ? 1 : 0;
    }
    EXPECT_EQ(2, segments);
}

TEST(EnginePolicy, a_free_run_whose_budget_lost_its_shares_does_not_turn) {
    EngineRig rig(20, 1, "ExpressFraction=0\nMaxProtectedFraction=0.95\n");
    rig.begin(two_budgets());
    for (int i = 0; i < 19; ++i) {
        rig.cluster->submit(wish("a", 1, 300));
    }
    rig.run(2);
    const JobId last = rig.cluster->submit(wish("b", 1, 1000));
    rig.run(3);
    ASSERT_TRUE(rig.run_of(last)->wants_turn);
    BudgetEdit edit;
    edit.kind = BudgetEdit::Kind::modify;
    edit.name = "b";
    edit.shares = 0;
    ASSERT_TRUE(rig.engine->edit(kRoot, edit, false).ok());
    rig.run(400);
    EXPECT_EQ(RunKind::unallocated, rig.run_of(last)->kind);
    EXPECT_EQ(0, rig.charged("b"));
}

TEST(EnginePolicy, a_manager_edits_below_his_budget_and_nowhere_else) {
    EngineRig rig(1, 8, kPlain);
    auto tree = two_budgets();
    tree[0].managers = {"mia"};
    tree.push_back(budget_of("a1", 1, "a"));
    rig.begin(tree);
    const Actor mia{1001, "mia", false};
    BudgetEdit edit;
    edit.kind = BudgetEdit::Kind::modify;
    edit.name = "a1";
    edit.shares = 7;
    edit.reason = "deadline";
    const auto below = rig.engine->edit(mia, edit, false);
    ASSERT_TRUE(below.ok()) << below.error();
    EXPECT_TRUE(below->applied);
    rig.step();
    EXPECT_EQ(7u, rig.engine->view()->tree->find("a1")->shares);
    edit.name = "b";
    EXPECT_FALSE(rig.engine->edit(mia, edit, false).ok());
    edit.name = "a";
    EXPECT_FALSE(rig.engine->edit(mia, edit, false).ok());
    EXPECT_FALSE(rig.engine->edit({1002, "bob", false}, edit, false).ok());
    const auto edits = rig.engine->edits(10);
    ASSERT_TRUE(edits.ok());
    EXPECT_EQ("mia", edits->front().user);
    EXPECT_EQ("deadline", edits->front().reason);
    rig.restart();
    EXPECT_EQ(7u, rig.engine->view()->tree->find("a1")->shares);
    EXPECT_EQ(1u, rig.engine->view()->tree->find("b")->shares);
}

TEST(EnginePolicy, a_tried_edit_changes_nothing) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    BudgetEdit edit;
    edit.kind = BudgetEdit::Kind::modify;
    edit.name = "b";
    edit.shares = 9;
    const auto tried = rig.engine->edit(kRoot, edit, true);
    ASSERT_TRUE(tried.ok());
    EXPECT_FALSE(tried->applied);
    EXPECT_EQ(1u, tried->changes.size());
    rig.step();
    EXPECT_EQ(1u, rig.engine->view()->tree->find("b")->shares);
}

TEST(EnginePolicy, a_budget_with_a_running_job_is_not_deleted) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(3);
    BudgetEdit edit;
    edit.kind = BudgetEdit::Kind::remove;
    edit.name = "a";
    const auto refused = rig.engine->edit(kRoot, edit, false);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(std::string::npos, refused.error().find("job " + std::to_string(job)));
    rig.cluster->cancel(job);
    rig.run(1);
    EXPECT_TRUE(rig.engine->edit(kRoot, edit, false).ok());
    rig.run(1);
    EXPECT_EQ(nullptr, rig.engine->view()->tree->find("a"));
}

TEST(EnginePolicy, a_bad_settings_file_keeps_the_good_one) {
    EngineRig rig(1, 8, std::string(kPlain) + "GraceTime=17\n");
    rig.begin(two_budgets());
    const std::int64_t grace = rig.engine->settings().grace_time_seconds;
    rig.write_settings("GraceTime=soon\n");
    rig.engine->reload_settings();
    rig.step();
    EXPECT_EQ(grace, rig.engine->settings().grace_time_seconds);
    EXPECT_EQ(0, rig.engine->settings().express_fraction_ppm);
    ASSERT_FALSE(rig.engine->view()->health.complaints.empty());
    rig.write_settings("GraceTime=34\n");
    rig.engine->reload_settings();
    rig.step();
    EXPECT_EQ(2 * grace, rig.engine->settings().grace_time_seconds);
    EXPECT_TRUE(rig.engine->view()->health.complaints.empty());
    std::filesystem::remove(rig.settings_path());
    rig.engine->reload_settings();
    rig.step();
    EXPECT_EQ(2 * grace, rig.engine->settings().grace_time_seconds);
    std::filesystem::create_directory(rig.settings_path());  // opens, and reads as nothing
    rig.engine->reload_settings();
    rig.step();
    EXPECT_EQ(2 * grace, rig.engine->settings().grace_time_seconds);
    EXPECT_FALSE(rig.engine->view()->health.complaints.empty());
}

TEST(EnginePolicy, a_bad_settings_file_at_a_start_preempts_nobody_until_it_is_right) {
    EngineRig rig(1, 8, std::string(kPlain) + "GraceTime=1\nServicePort=7001\n");
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    rig.write_settings(std::string(kPlain) + "GraceTime=1\nServicePort=7001\nFoo=1\n");
    rig.restart();
    EXPECT_EQ(7001, rig.engine->settings().service_port);  // where the commands look
    EXPECT_FALSE(rig.engine->view()->health.complaints.empty());
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    rig.run(700);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_EQ(0, rig.engine->view()->health.preemptions);
    rig.write_settings(std::string(kPlain) + "GraceTime=1\nServicePort=7001\n");
    rig.engine->reload_settings();
    EXPECT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 100));
}

TEST(EnginePolicy, a_changed_window_is_computed_anew_from_all_that_is_kept) {
    EngineRig rig(1, 8, std::string(kPlain) + "LookbackWindow=1:00:00\nMaxMinRuntime=30:00\n");
    rig.begin(two_budgets());
    Wish early = wish("a", 8, 600);
    early.runtime_seconds = 600;
    rig.cluster->submit(early);
    rig.run(2 * kHour);
    rig.cluster->submit(early);
    rig.run(100);
    EXPECT_EQ(8 * 99, rig.charged("a"));  // the first one is older than the window
    rig.write_settings(std::string(kPlain) + "LookbackWindow=4:00:00\nMaxMinRuntime=30:00\n");
    rig.engine->reload_settings();
    rig.step();
    EXPECT_EQ(8 * 699, rig.charged("a"));
    rig.run(100);
    EXPECT_EQ(8 * 799, rig.charged("a"));  // the open one is charged once
    EXPECT_EQ(4 * kHour, rig.engine->view()->standings.window.length_seconds);
}

TEST(EnginePolicy, a_dry_run_takes_warnings_back_and_evicts_nobody) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId victim = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until([&] { return !rig.preemptions().empty(); }, 700));
    rig.write_settings(std::string(kPlain) + "DryRun=yes\n");
    rig.engine->reload_settings();
    rig.run(200);
    EXPECT_TRUE(rig.is_running(victim));
    EXPECT_EQ("taken-back", rig.preemptions().at(0).outcome);
    EXPECT_EQ(1, rig.engine->view()->health.preemptions);
}

}  // namespace
}  // namespace tranche::test
