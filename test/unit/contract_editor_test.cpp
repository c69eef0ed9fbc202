// SPDX-License-Identifier: GPL-2.0-or-later
// `sbudget job` on a fake cluster: what an edit does to jobs, runs, plans and the ledger.
#include "engine/contract_editor.hpp"

#include <gtest/gtest.h>

#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr char kPlain[] = "ExpressFraction=0\nMaxProtectedFraction=1\n";

const Actor kOwner = {1000, "ann", false};
const Actor kStranger = {2000, "eve", false};
const Actor kOperator = {0, "root", true};

Wish wish(const std::string& account, std::int64_t gpus, std::int64_t min_runtime) {
    Wish out;
    out.account = account;
    out.gpus = gpus;
    out.min_runtime_seconds = min_runtime;
    return out;
}

ContractQuestion question(std::int64_t job, const char* key, const char* word) {
    ContractQuestion out;
    out.job.id = job;
    *word_of(out.edit, key) = word;
    return out;
}

// Asks and lets the engine make its next cycle.
Result<ContractOutcome> ask(EngineRig& rig, const Actor& actor, const ContractQuestion& question) {
    ContractEditor& editor = rig.engine->contracts();
    const auto posted = editor.post(actor, question);
    rig.step();
    return editor.wait(posted, std::chrono::milliseconds(0));
}

ContractOutcome done(const Result<ContractOutcome>& outcome) {
    EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error());
    return outcome.ok() ? *outcome : ContractOutcome{};
}

void expect_refused(const Result<ContractOutcome>& outcome, const std::string& expected) {
    ASSERT_FALSE(outcome.ok()) << "done; expected: " << expected;
    EXPECT_NE(outcome.error().find(expected), std::string::npos) << outcome.error();
}

ContractTerms stored(EngineRig& rig, JobId id) {
    return parse_stored_terms(rig.cluster->job(id)->contract_entries).value();
}

// A run whose contract is over, the claimant that was planned for its room, and its warning out.
struct Warned {
    explicit Warned(EngineRig& rig) {
        rig.begin({budget_of("a", 1), budget_of("b", 1)});
        victim = rig.cluster->submit(wish("a", 8, 600));
        rig.run(10);
        claimant = rig.cluster->submit(wish("b", 8, 300));
        EXPECT_TRUE(rig.run_until([&] { return rig.cluster->is_warned(victim); }, 700));
    }
    JobId victim = 0, claimant = 0;
};

TEST(ContractEditor, the_owner_of_a_waiting_job_changes_what_it_will_get) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    rig.cluster->submit(wish("a", 8, kHour));
    rig.run(2);
    const JobId waits = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(1);
    const ContractOutcome outcome = done(ask(rig, kOwner, question(waits, "min-runtime", "2h")));
    EXPECT_TRUE(outcome.applied);
    EXPECT_EQ(outcome.changes,
              (std::vector<ContractChange>{{"min-runtime", "01:00:00", "02:00:00"}}));
    EXPECT_EQ(stored(rig, waits).min_runtime_seconds, 2 * kHour);
    EXPECT_EQ(rig.card(waits)->terms.min_runtime_seconds, 2 * kHour);
    // Also after the next snapshot, and in another life without the ledger.
    rig.run(2);
    EXPECT_EQ(rig.card(waits)->terms.min_runtime_seconds, 2 * kHour);
    rig.stop();
    std::filesystem::remove_all(rig.state_directory());
    rig.start();
    EXPECT_EQ(rig.card(waits)->terms.min_runtime_seconds, 2 * kHour);
}

TEST(ContractEditor, trying_changes_nothing) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(2);
    ContractQuestion asked = question(job, "min-runtime", "30m");
    asked.only_try = true;
    const ContractOutcome outcome = done(ask(rig, kOwner, asked));
    EXPECT_EQ(outcome.changes.size(), 1u);
    EXPECT_FALSE(outcome.applied);
    EXPECT_EQ(stored(rig, job).min_runtime_seconds, kHour);
    EXPECT_EQ(rig.run_of(job)->contract_seconds, kHour);
}

TEST(ContractEditor, an_edit_is_recorded_with_who_when_old_and_new) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(2);
    ContractQuestion asked = question(job, "min-runtime", "30m");
    asked.reason = "shorter than thought";
    done(ask(rig, kOwner, asked));
    done(ask(rig, kOperator, question(job, "team-priority", "high")));
    rig.restart();
    const auto edits = rig.engine->contract_edits(10);
    ASSERT_TRUE(edits.ok()) << edits.error();
    ASSERT_EQ(edits->size(), 2u);
    EXPECT_EQ((*edits)[0].user, "root");
    const ContractEditRow& first = (*edits)[1];
    EXPECT_EQ(first.user, "ann");
    EXPECT_EQ(first.owner, "ann");
    EXPECT_EQ(first.job_name, std::to_string(job));
    EXPECT_EQ(first.reason, "shorter than thought");
    EXPECT_EQ(first.at, rig.cluster->now());
    EXPECT_EQ(first.changes,
              (std::vector<ContractChange>{{"min-runtime", "01:00:00", "00:30:00"}}));
}

TEST(ContractEditor, strangers_and_impossible_wishes_are_refused_by_name) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    Wish short_one = wish("a", 8, kHour);
    short_one.runtime_seconds = 5;
    const JobId over = rig.cluster->submit(short_one);
    rig.run(10);
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(2);
    expect_refused(ask(rig, kStranger, question(job, "min-runtime", "30m")),
                   "job 2 is 'ann''s; its owner and operators may change it, not 'eve'");
    expect_refused(ask(rig, kOwner, question(99, "min-runtime", "30m")), "job 99 is not known");
    expect_refused(ask(rig, kOwner, question(over, "min-runtime", "30m")), "job 1 has ended");
    expect_refused(ask(rig, kOwner, question(job, "min-runtime", "9h")), "job 2: min-runtime='9h'");
    expect_refused(ask(rig, kOwner, question(job, "min-runtime", "2h")), "give up protection");
    EXPECT_EQ(stored(rig, job).min_runtime_seconds, kHour);
    EXPECT_TRUE(rig.engine->contract_edits(10)->empty());
}

TEST(ContractEditor, a_shorter_minimum_ends_a_running_contract_earlier) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1), budget_of("b", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, 2 * kHour));
    rig.run(100);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 600));
    rig.run(2);
    const std::int64_t began = rig.cluster->job(job)->start_at;
    const ContractOutcome outcome = done(ask(rig, kOwner, question(job, "min-runtime", "10m")));
    ASSERT_EQ(outcome.notes.size(), 1u);
    EXPECT_NE(outcome.notes[0].find("TRANCHE_PROTECTED_UNTIL"), std::string::npos);
    EXPECT_EQ(rig.run_of(job)->protected_until, began + 600);
    rig.restart();
    EXPECT_EQ(rig.run_of(job)->protected_until, began + 600);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 700));
    // Also what the run was charged for is what it used.
    EXPECT_EQ(rig.run_of(job), nullptr);
}

TEST(ContractEditor, without_any_minimum_a_run_stays_allocated_and_charged) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(50);
    done(ask(rig, kOwner, question(job, "min-runtime", "0")));
    EXPECT_EQ(rig.run_of(job)->kind, RunKind::allocated);
    EXPECT_FALSE(rig.run_of(job)->under_contract(rig.cluster->now()));
    rig.restart();
    EXPECT_EQ(rig.run_of(job)->kind, RunKind::allocated);
    EXPECT_FALSE(rig.run_of(job)->wants_turn);
    rig.run(50);
    EXPECT_GE(rig.charged("a"), 8 * 99);
}

TEST(ContractEditor, a_suspended_run_gets_what_is_left_of_the_new_contract) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(100);
    rig.cluster->suspend(job);
    rig.run(1000);
    done(ask(rig, kOwner, question(job, "min-runtime", "30m")));
    rig.cluster->resume(job);
    rig.run(2);
    const std::int64_t began = rig.cluster->job(job)->start_at;
    EXPECT_NEAR(static_cast<double>(rig.run_of(job)->protected_until - began - 1800), 1000, 2);
}

TEST(ContractEditor, an_operator_saves_a_warned_run_and_its_plan_is_over) {
    EngineRig rig(1, 8, kPlain);
    const Warned w(rig);
    const ContractOutcome outcome =
        done(ask(rig, kOperator, question(w.victim, "min-runtime", "2h")));
    EXPECT_FALSE(rig.cluster->is_warned(w.victim));
    ASSERT_FALSE(outcome.notes.empty());
    EXPECT_NE(outcome.notes.back().find("its warning is taken back"), std::string::npos);
    ASSERT_EQ(rig.preemptions().size(), 1u);
    EXPECT_EQ(rig.preemptions()[0].outcome, "taken-back");
    // Well past the grace and the claimant's patience.
    rig.run(200);
    EXPECT_TRUE(rig.is_running(w.victim));
    EXPECT_EQ(rig.wait_reason(w.claimant), "contracts");
    EXPECT_EQ(rig.preemptions().size(), 1u);
    // It is taken when the new contract is over.
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(w.claimant); }, 2 * kHour));
    EXPECT_GE(rig.cluster->job(w.claimant)->start_at, rig.preemptions()[0].planned_at + 6000);
}

TEST(ContractEditor, an_edit_that_protects_no_more_leaves_the_warning_out) {
    EngineRig rig(1, 8, kPlain);
    const Warned w(rig);
    done(ask(rig, kOperator, question(w.victim, "team-priority", "high")));
    done(ask(rig, kOwner, question(w.victim, "min-runtime", "5m")));
    EXPECT_TRUE(rig.cluster->is_warned(w.victim));
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(w.claimant); }, 70));
}

TEST(ContractEditor, a_saved_run_keeps_the_other_victims_of_its_plan_too) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1), budget_of("b", 1)});
    const JobId one = rig.cluster->submit(wish("a", 4, 600));
    const JobId other = rig.cluster->submit(wish("a", 4, 600));
    rig.run(10);
    const JobId claimant = rig.cluster->submit(wish("b", 8, 300));
    ASSERT_TRUE(rig.run_until(
        [&] { return rig.cluster->is_warned(one) && rig.cluster->is_warned(other); }, 700));
    done(ask(rig, kOperator, question(one, "min-runtime", "2h")));
    EXPECT_FALSE(rig.cluster->is_warned(one));
    EXPECT_FALSE(rig.cluster->is_warned(other));
    rig.run(100);
    EXPECT_TRUE(rig.is_running(one) && rig.is_running(other) && rig.is_pending(claimant));
}

TEST(ContractEditor, a_claimant_that_gives_up_its_minimum_takes_nobodys_room) {
    EngineRig rig(1, 8, kPlain);
    const Warned w(rig);
    done(ask(rig, kOwner, question(w.claimant, "min-runtime", "0")));
    EXPECT_FALSE(rig.cluster->is_warned(w.victim));
    rig.run(100);
    EXPECT_TRUE(rig.is_running(w.victim));
    EXPECT_EQ(rig.preemptions()[0].outcome, "taken-back");
}

TEST(ContractEditor, a_claimant_that_wants_more_is_judged_anew) {
    EngineRig rig(1, 8, kPlain);
    const Warned w(rig);
    const std::int64_t planned_at = rig.preemptions()[0].planned_at;
    rig.run(5);
    done(ask(rig, kOwner, question(w.claimant, "min-runtime", "7m")));
    rig.run(1);
    ASSERT_EQ(rig.preemptions().size(), 2u);
    EXPECT_GT(rig.preemptions()[1].planned_at, planned_at);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(w.claimant); }, 70));
}

TEST(ContractEditor, an_array_is_changed_as_a_whole_or_task_by_task) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    Wish array = wish("a", 8, kHour);
    array.tasks = 5;
    const JobId id = rig.cluster->submit(array);
    rig.run(3);  // one task runs
    const auto terms_by_task = [&] {
        std::map<std::uint32_t, std::int64_t> out;
        HostSnapshot snapshot;
        rig.cluster->collect(snapshot);
        for (const HostJob& job : snapshot.jobs) {
            const auto minimum = parse_stored_terms(job.contract_entries)->min_runtime_seconds;
            if (job.array_task != kNoTask) {
                out[job.array_task] = minimum;
            }
            for (std::uint32_t task = 0; task < 5; ++task) {
                if (list_holds(job.array_tasks, task)) {
                    out[task] = minimum;
                }
            }
        }
        return out;
    };
    ContractQuestion one = question(id, "min-runtime", "30m");
    one.job.array_task = 3;
    done(ask(rig, kOwner, one));
    EXPECT_EQ(terms_by_task(), (std::map<std::uint32_t, std::int64_t>{
                                   {0, kHour}, {1, kHour}, {2, kHour}, {3, 1800}, {4, kHour}}));
    // Raised as a whole: the running task stays as it is, and that is said.
    const ContractOutcome outcome = done(ask(rig, kOwner, question(id, "min-runtime", "2h")));
    EXPECT_EQ(terms_by_task(),
              (std::map<std::uint32_t, std::int64_t>{
                  {0, kHour}, {1, 2 * kHour}, {2, 2 * kHour}, {3, 2 * kHour}, {4, 2 * kHour}}));
    ASSERT_EQ(outcome.notes.size(), 1u);
    EXPECT_NE(outcome.notes[0].find("job " + std::to_string(id) + "_0: min-runtime"),
              std::string::npos)
        << outcome.notes[0];
    one.job.array_task = 9;
    expect_refused(ask(rig, kOwner, one), "_9 is not known");
}

TEST(ContractEditor, a_heterogeneous_job_has_one_contract) {
    EngineRig rig(2, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    Wish leader = wish("a", 8, kHour);
    leader.het_job_id = 1;
    const JobId first = rig.cluster->submit(leader);
    const JobId second = rig.cluster->submit(leader);
    rig.run(2);
    done(ask(rig, kOwner, question(second, "min-runtime", "30m")));
    EXPECT_EQ(stored(rig, first).min_runtime_seconds, 1800);
    EXPECT_EQ(stored(rig, second).min_runtime_seconds, 1800);
    EXPECT_EQ(rig.run_of(first)->contract_seconds, 1800);
    ContractQuestion part = question(first, "min-runtime", "10m");
    part.job.het_offset = 1;
    expect_refused(ask(rig, kOwner, part), "share one contract; say job 1");
}

TEST(ContractEditor, a_free_run_whose_job_gets_a_minimum_waits_for_its_turn) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, 0));
    rig.run(20);
    expect_refused(ask(rig, kOwner, question(job, "min-runtime", "1h")), "give up protection");
    done(ask(rig, kOperator, question(job, "min-runtime", "1h")));
    rig.run(2);
    ASSERT_EQ(rig.run_of(job)->kind, RunKind::allocated);
    EXPECT_NEAR(static_cast<double>(rig.run_of(job)->protected_until),
                static_cast<double>(rig.cluster->now() + kHour), 3);
    EXPECT_LE(rig.charged("a"), 8 * 4);
}

TEST(ContractEditor, a_run_that_has_just_written_a_checkpoint_is_taken_first) {
    for (const bool says_so : {false, true}) {
        EngineRig rig(2, 8, kPlain);
        rig.begin({budget_of("a", 1), budget_of("b", 1)});
        const JobId older = rig.cluster->submit(wish("a", 8, 600));
        rig.run(100);
        const JobId newer = rig.cluster->submit(wish("a", 8, 600));
        rig.run(1400);
        ContractQuestion asked;
        asked.job.id = older;
        asked.checkpointed = true;
        if (says_so) {
            EXPECT_TRUE(done(ask(rig, kOwner, asked)).applied);
            rig.restart();
            EXPECT_EQ(rig.run_of(older)->checkpointed_at, rig.cluster->now());
        }
        rig.cluster->submit(wish("b", 8, 300));
        rig.run(2);
        ASSERT_EQ(rig.preemptions().size(), 1u);
        EXPECT_EQ(rig.preemptions()[0].victim, says_so ? older : newer);
    }
}

TEST(ContractEditor, a_checkpoint_is_of_one_run) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    ContractQuestion asked;
    asked.job.id = job;
    asked.checkpointed = true;
    expect_refused(ask(rig, kOwner, asked), "job 1 does not run");
    rig.run(5);
    expect_refused(ask(rig, kStranger, asked), "its owner and operators may");
    done(ask(rig, kOwner, asked));
    EXPECT_NE(rig.run_of(job)->checkpointed_at, 0);
    rig.cluster->requeue(job);
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(job); }, 200));
    rig.run(1);
    EXPECT_EQ(rig.run_of(job)->checkpointed_at, 0);
}

TEST(ContractEditor, nothing_is_promised_while_the_ledger_is_not_open) {
    EngineRig rig(1, 8, kPlain);
    rig.make_directory = false;
    rig.start(std::chrono::milliseconds(0));
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.step();
    expect_refused(ask(rig, kOwner, question(job, "min-runtime", "30m")), "ledger is not open");
    rig.engine->contracts().refuse_all("the controller is stopping");
    const auto posted = rig.engine->contracts().post(kOwner, question(job, "min-runtime", "30m"));
    expect_refused(rig.engine->contracts().wait(posted, std::chrono::seconds(1)), "is stopping");
}

TEST(ContractEditor, a_question_that_nobody_takes_up_is_withdrawn) {
    EngineRig rig(1, 8, kPlain);
    rig.begin({budget_of("a", 1)});
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.step();
    ContractEditor& editor = rig.engine->contracts();
    const auto posted = editor.post(kOwner, question(job, "min-runtime", "30m"));
    expect_refused(editor.wait(posted, std::chrono::milliseconds(1)), "nothing was changed");
    rig.step();
    EXPECT_EQ(stored(rig, job).min_runtime_seconds, kHour);
}

}  // namespace
}  // namespace tranche::test
