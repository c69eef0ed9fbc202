// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/submission.hpp"

#include <gtest/gtest.h>

namespace tranche {
namespace {

// Two budgets of account a: one with shares, one without.
class TwoBudgets : public BudgetLookup {
  public:
    Result<BudgetStanding> resolve(const StandingQuestion& question) const override {
        BudgetStanding standing;
        if (question.account != "a") {
            if (!question.requested_budget.empty()) {
                return Error{"budget '" + question.requested_budget + "' does not match"};
            }
            return standing;
        }
        standing.name = question.requested_budget.empty() ? "funded" : question.requested_budget;
        if (standing.name != "funded" && standing.name != "poor") {
            return Error{"budget '" + standing.name + "' does not exist"};
        }
        standing.funded = standing.name == "funded";
        standing.charged_gpu_milli_hours = 500'000;
        standing.funded_gpu_milli_hours = 1'000'000;
        standing.ratio_milli = 500;
        standing.queue_length = 3;
        standing.position = 2;
        return standing;
    }
};

std::string entry(const std::string& name, const std::string& value) {
    return "_SLURM_SPANK_OPTION_contract_" + name + "=" + value;
}

class Submission : public testing::Test {
  protected:
    Submission() {
        view.account = "a";
        view.user_name = "u";
        view.gpus = {{"", 8}};
    }

    SubmissionVerdict answer() { return answer_submission(view, {&settings, &budgets}); }

    void expect_refused(const std::string& expected) {
        const SubmissionVerdict verdict = answer();
        EXPECT_FALSE(verdict.accepted);
        EXPECT_NE(verdict.message.find(expected), std::string::npos) << verdict.message;
        EXPECT_FALSE(verdict.rewrites_spank_entries);
    }

    Settings settings;
    TwoBudgets budgets;
    SubmissionView view;
};

TEST_F(Submission, a_contract_is_stored_and_its_price_is_named) {
    view.spank_entries = {"X=1", entry("min_runtime", "2h"), entry("resumable", "(null)")};
    const SubmissionVerdict verdict = answer();
    ASSERT_TRUE(verdict.accepted) << verdict.message;
    EXPECT_EQ(verdict.message,
              "protected for 2 h, resumable, costs 16 GPU h; funded used 500 of the 1 000 GPU h "
              "funded in the last 7 days (0.50), 2nd of 3 in the queue");
    EXPECT_TRUE(verdict.sets_requeue);
    EXPECT_EQ(verdict.spank_entries, (std::vector<std::string>{"X=1", entry("min_runtime", "7200s"),
                                                               entry("resumable", "(null)")}));
    EXPECT_EQ(parse_stored_terms(verdict.spank_entries), verdict.terms);
}

TEST_F(Submission, a_rehearsal_says_what_it_is_and_refuses_nobody_for_a_missing_minimum) {
    settings.dry_run = true;
    view.spank_entries = {entry("min_runtime", "2h")};
    EXPECT_TRUE(answer().message.ends_with(
        "in the queue; a rehearsal (DryRun=yes): nobody is preempted yet"))
        << answer().message;
    settings.require_min_runtime = true;
    view.spank_entries.clear();
    const SubmissionVerdict verdict = answer();
    EXPECT_TRUE(verdict.accepted);
    EXPECT_EQ(0, verdict.terms.min_runtime_seconds);
    EXPECT_NE(verdict.message.find("later it will be refused: this cluster asks how long"),
              std::string::npos)
        << verdict.message;
    view.spank_entries = {entry("min_runtime", "9h")};
    expect_refused("MaxMinRuntime");
    settings.dry_run = false;
    view.spank_entries.clear();
    expect_refused("this cluster asks how long");
}

TEST_F(Submission, the_price_is_weighted_by_type) {
    settings.charge_weights = {{"gpu", 1000}, {"gpu:h100", 2500}, {"cpu", 10}};
    view.gpus = {{"h100", 2}, {"", 1}};
    view.cpus = 100;
    view.spank_entries = {entry("min_runtime", "1h")};
    EXPECT_NE(answer().message.find("costs 7 GPU h"), std::string::npos) << answer().message;
}

TEST_F(Submission, a_job_that_says_nothing_gets_the_default_stored) {
    const SubmissionVerdict free = answer();
    EXPECT_TRUE(free.accepted);
    EXPECT_EQ(free.spank_entries, std::vector<std::string>{entry("min_runtime", "0s")});
    EXPECT_NE(free.message.find("runs free"), std::string::npos);
    view.interactive = true;
    EXPECT_EQ(answer().spank_entries, std::vector<std::string>{entry("min_runtime", "3600s")});
}

TEST_F(Submission, jobs_outside_the_partitions_are_left_alone) {
    settings.require_min_runtime = true;
    view.under_contract = false;
    const SubmissionVerdict verdict = answer();
    EXPECT_TRUE(verdict.accepted);
    EXPECT_FALSE(verdict.rewrites_spank_entries);
    EXPECT_EQ(verdict.message, "");
}

TEST_F(Submission, jobs_without_gpus_are_not_asked_for_a_minimum) {
    settings.require_min_runtime = true;
    expect_refused("#SBATCH --min-runtime=1h");
    view.gpus.clear();
    EXPECT_TRUE(answer().accepted);
    EXPECT_EQ(answer().message, "");
}

TEST_F(Submission, a_budget_that_does_not_exist_or_match_refuses_the_job) {
    view.spank_entries = {entry("budget", "nowhere")};
    expect_refused("budget 'nowhere' does not exist");
    view.account = "b";
    expect_refused("does not match");
}

TEST_F(Submission, a_job_without_funded_budget_is_told_that_it_is_unallocated) {
    view.spank_entries = {entry("min_runtime", "1h"), entry("budget", "poor")};
    EXPECT_TRUE(answer().accepted);
    EXPECT_NE(answer().message.find("unallocated: budget poor"), std::string::npos);
    view.account = "b";
    view.spank_entries = {entry("min_runtime", "1h")};
    EXPECT_TRUE(answer().accepted);
    EXPECT_NE(answer().message.find("unallocated: no budget pays"), std::string::npos);
}

TEST_F(Submission, the_controller_refuses_what_a_foreign_client_sends) {
    view.spank_entries = {entry("min_runtime", "9h")};
    expect_refused("MaxMinRuntime");
    view.spank_entries = {entry("min_runtime", "2h")};
    view.time_limit_seconds = 3600;
    expect_refused("above the job's time limit of 1 h");
    view.time_limit_seconds.reset();
    view.spank_entries = {entry("resumable", "(null)")};
    view.requeue = false;
    expect_refused("contradict each other");
    view.requeue.reset();
    view.interactive = true;
    expect_refused("is for batch jobs");
    view.interactive = false;
    view.spank_entries = {};
    view.script = "#!/bin/sh\n#SBATCH --min-runtime=x\n";
    expect_refused("#SBATCH --min-runtime: 'x' is not a time");
    view.script.clear();
    view.environment = {"TRANCHE_REQUEST_TEAM_PRIORITY=max"};
    expect_refused("TRANCHE_REQUEST_TEAM_PRIORITY='max'");
}

TEST_F(Submission, a_silent_component_of_a_heterogeneous_job_inherits) {
    settings.require_min_runtime = true;
    view.follows_leader = true;
    const SubmissionVerdict silent = answer();
    EXPECT_TRUE(silent.accepted);
    EXPECT_FALSE(silent.rewrites_spank_entries);
    view.spank_entries = {entry("min_runtime", "1h")};
    EXPECT_TRUE(answer().rewrites_spank_entries);
}

TEST_F(Submission, a_heterogeneous_job_is_resumable_as_a_whole) {
    view.follows_leader = true;
    view.leader_resumable = true;
    const SubmissionVerdict silent = answer();
    EXPECT_TRUE(silent.accepted) << silent.message;
    EXPECT_TRUE(silent.sets_requeue);
    view.spank_entries = {entry("min_runtime", "1h")};
    EXPECT_TRUE(answer().sets_requeue);
    EXPECT_TRUE(answer().terms.resumable);
    EXPECT_TRUE(parse_stored_terms(answer().spank_entries)->resumable);
    view.requeue = false;
    expect_refused("--no-requeue of a later component");
    view.requeue.reset();
    view.leader_resumable = false;
    EXPECT_FALSE(answer().sets_requeue);
    view.spank_entries.push_back(entry("resumable", "(null)"));
    expect_refused("say it for the first component");
    view.leader_resumable.reset();  // sbatch --test-only asks about each component alone
    EXPECT_TRUE(answer().accepted);
    view.interactive = true;
    view.leader_resumable = false;
    expect_refused("is for batch jobs");
}

TEST_F(Submission, a_refused_component_says_that_the_whole_job_is) {
    view.spank_entries = {entry("min_runtime", "9h")};
    EXPECT_EQ(answer().message.rfind("--min-runtime=", 0), 0u) << answer().message;
    view.follows_leader = true;
    EXPECT_EQ(answer().message.rfind("the whole job is refused: --min-runtime=", 0), 0u)
        << answer().message;
}

TEST_F(Submission, without_an_engine_the_form_alone_is_checked) {
    view.spank_entries = {entry("min_runtime", "100h"), entry("contract", "any")};
    const SubmissionVerdict verdict = answer_submission(view, {});
    EXPECT_TRUE(verdict.accepted);
    EXPECT_FALSE(verdict.rewrites_spank_entries);
    EXPECT_EQ(verdict.message, "");
    view.spank_entries = {entry("min_runtime", "soon")};
    EXPECT_FALSE(answer_submission(view, {}).accepted);
    view.follows_leader = true;
    EXPECT_FALSE(answer_submission(view, {}).accepted);
}

TEST_F(Submission, huge_numbers_do_not_overflow) {
    settings.charge_weights = {{"gpu", 1'000'000}};
    settings.max_min_runtime_seconds = 366 * 86400;
    view.gpus = {{"", std::int64_t{1} << 60}};
    view.spank_entries = {entry("min_runtime", "366-0")};
    EXPECT_TRUE(answer().accepted);
}

TEST_F(Submission, changes_that_break_the_contract_are_refused) {
    ModificationView change;
    change.spank_entries = {entry("min_runtime", "7200s"), entry("resumable", "(null)")};
    EXPECT_TRUE(check_modification(change).ok());
    change.new_requeue = true;
    change.new_time_limit_seconds = 7200;
    EXPECT_TRUE(check_modification(change).ok());
    change.new_time_limit_seconds = 7199;
    EXPECT_NE(check_modification(change).error().find("TimeLimit=01:59:59 is below"),
              std::string::npos);
    change.new_time_limit_seconds.reset();
    change.new_time_min_seconds = 60;
    EXPECT_NE(check_modification(change).error().find("TimeMin=00:01:00 is below"),
              std::string::npos);
    change.new_time_min_seconds.reset();
    change.new_requeue = false;
    EXPECT_NE(check_modification(change).error().find("Requeue=0: the job is resumable"),
              std::string::npos);
    change.spank_entries = {entry("min_runtime", "7200s")};
    EXPECT_TRUE(check_modification(change).ok());
    change.spank_entries = {};
    change.new_time_limit_seconds = 1;
    EXPECT_TRUE(check_modification(change).ok());
}

}  // namespace
}  // namespace tranche
