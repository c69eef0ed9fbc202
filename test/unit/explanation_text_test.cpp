// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/report/explanation_text.hpp"

#include <gtest/gtest.h>

#include <ctime>

#include "common/report/people.hpp"
#include "common/wire/explanation_json.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;  // 2023-11-14T22:13:20 UTC

CalendarTime utc(std::int64_t at) {
    const auto instant = static_cast<time_t>(at);
    std::tm broken{};
    gmtime_r(&instant, &broken);
    return {broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday,
            broken.tm_hour,        broken.tm_min,     broken.tm_sec};
}

const Moment kMoment{kNow, utc};

PendingExplanation example() {
    PendingExplanation e;
    e.job = 3;
    e.budget = "projB";
    e.user = "new";
    e.band = Band::allocated;
    e.rank = 3;
    e.ranked = 37;
    e.reason = WaitReason::contracts;
    e.express_cap = ExpressCap::user_hours;
    e.gpus = 4;
    e.commitment_milli_hours = 8000;
    RankLoss loss;
    loss.level = "progA";
    loss.depth = 1;
    loss.ours = {"projB", 304000, 336000};
    loss.theirs = {"projA", 500000, 1008000};
    loss.behind_milli_hours = 137334;
    loss.job = 2;
    loss.budget = "projA";
    loss.user = "ann";
    loss.jobs = 1;
    e.losses.push_back(loss);
    e.own_loss = OwnLoss{OwnOrder::user_charge, 9, "ben", 12000, 7000, 2};
    e.plan_victims = {12};
    e.waits_for = 8;
    TakeOutlook may;
    may.job = 14;
    may.budget = "projC";
    may.user = "old";
    may.gpus = 4;
    may.may = true;
    may.from_at = kNow + 1500;
    may.reason = TakeReason::smaller_ratio;
    may.level = "root";
    may.claimant_side = {"progA", 812000, 1344000};
    may.victim_side = {"progB", 904000, 1344000};
    e.could_take.push_back(may);
    e.could_take_count = 1;
    e.could_take_gpus_later = 4;
    TakeOutlook not_yet = may;
    not_yet.may = false;
    not_yet.from_at = 0;
    not_yet.reason = TakeReason::ratio_too_large;
    not_yet.over_milli_hours = 153667;
    e.cannot_take.push_back(not_yet);
    e.cannot_take_count = 7;
    e.next_change_at = kNow + 1500;
    return e;
}

TEST(ExplanationText, numbers_are_written_for_people) {
    EXPECT_EQ(people_gpu_hours(0), "0.0");
    EXPECT_EQ(people_gpu_hours(910049), "910.0");
    EXPECT_EQ(people_gpu_hours(910050), "910.1");
    EXPECT_EQ(people_gpu_hours(999999), "1000.0");
    EXPECT_EQ(people_gpu_hours(-150), "-0.2");
    EXPECT_EQ(people_gpu_hours(INT64_MIN), "-9223372036854775.8");
    EXPECT_EQ(people_ratio(812), "0.81");
    EXPECT_EQ(people_ratio(996), "1.00");
    EXPECT_EQ(people_ratio(6), "0.006");
    EXPECT_EQ(people_ratio(0), "0.00");
    EXPECT_EQ(people_ratio(12345), "12.35");
    EXPECT_EQ(people_ratio(std::nullopt), "-");
    EXPECT_EQ(people_duration(45), "45 s");
    EXPECT_EQ(people_duration(1500), "25 min");
    EXPECT_EQ(people_duration(11400), "3 h 10 min");
    EXPECT_EQ(people_duration(3 * 86400), "3 d");
    EXPECT_EQ(people_when(kNow + 1500, kMoment), "in 25 min (22:38)");
    EXPECT_EQ(people_when(kNow - 30, kMoment), "30 s ago (22:12:50)");
    EXPECT_EQ(people_when(kNow + 7200, kMoment), "in 2 h (Nov 15 00:13)");
    EXPECT_EQ(people_when(kNow, kMoment), "now");
    EXPECT_EQ(people_instant(kNow, utc), "2023-11-14T22:13:20");
}

TEST(ExplanationText, a_pending_job_reads_as_sentences_with_both_sides_numbers) {
    const std::string text = explanation_text(example(), kMoment);
    for (const char* part :
         {"Job 3 of projB (new) is pending: allocated, rank 3 of 37, 4 GPUs\n",
          "Waits: the runs it could take are still under contract (contracts)\n",
          "ExpressHoursPerUser is reached\n", "takes the room of job 12\n",
          "  below progA, job 2 of projA (ann) goes first:\n",
          "    projB  used 304.0 of 336.0 GPU h, ratio 0.90\n",
          "    projA  used 500.0 of 1008.0 GPU h, ratio 0.50\n",
          "    projB is 137.3 GPU h above the other's ratio\n",
          "inside projB, 2 jobs go first; the last is job 9 of ben: that user has used 7.0 GPU h, "
          "this one 12.0\n",
          "counts 8.0 GPU h when it starts\n", "(0 GPUs now, 4 later",
          "  job 14 of projC (old), 4 GPUs: in 25 min (22:38), the claimant's side has the smaller "
          "ratio; below root: progA 812.0 of 1344.0 GPU h (0.60) with it, progB 904.0 of 1344.0 "
          "GPU h (0.67)\n",
          "153.7 GPU h too much\n", "  and 6 more\n",
          "Next change by itself: in 25 min (22:38)\n"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
    }
}

TEST(ExplanationText, one_gpu_is_not_a_plural) {
    PendingExplanation pending = example();
    pending.could_take_gpus_now = 1;
    const std::string text = explanation_text(pending, kMoment);
    EXPECT_NE(text.find("(1 GPU now, 4 later"), std::string::npos) << text;
}

TEST(ExplanationText, explanations_survive_the_wire) {
    const PendingExplanation pending = example();
    const auto json = parse_json(to_json(pending).compact(), "it");
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(pending_explanation_from_json(json.value()), pending);
    PendingExplanation bare;
    bare.band = Band::unallocated;
    EXPECT_EQ(pending_explanation_from_json(to_json(bare)), bare);

    RunningExplanation running;
    running.job = 12;
    running.budget = "projA";
    running.user = "old";
    running.allocated = true;
    running.state = RunState::suspended;
    running.resumable = true;
    running.gpus = 4;
    running.started_at = kNow - 7200;
    running.takers = pending.could_take;
    running.takers_count = 3;
    running.takeable_from_at = kNow + 5;
    for (const std::int64_t until : {std::int64_t{0}, kNow + 60, kNever}) {
        running.protected_until = until;
        EXPECT_EQ(running_explanation_from_json(to_json(running)), running);
    }

    PreemptionRecord record;
    record.id = 5;
    record.victim = 12;
    record.claimant = 1;
    record.victim_budget = "projA";
    record.claimant_budget = "progB";
    record.victim_user = "old";
    record.claimant_user = "new";
    record.reason = "smaller-ratio";
    record.level = "root";
    record.victim_side = "progA";
    record.claimant_side = "progB";
    record.victim_charge_milli_hours = 804000;
    record.victim_funded_milli_hours = 1344000;
    record.claimant_charge_milli_hours = 612000;
    record.claimant_funded_milli_hours = 1344000;
    record.contract_ended_at = kNow - 600;
    record.planned_at = kNow - 90;
    record.warned_at = kNow - 90;
    record.gone_at = kNow - 30;
    record.claimant_started_at = kNow - 29;
    record.nodes = "n2";
    record.outcome = "started";
    EXPECT_EQ(preemption_from_json(to_json(record)), record);
    const std::string text = preemption_text(record, kMoment);
    EXPECT_NE(text.find("Job 12 of projA (old) was preempted 90 s ago"), std::string::npos) << text;
    EXPECT_NE(text.find("for job 1 of progB (new) on n2"), std::string::npos) << text;
    EXPECT_NE(text.find("progB  used 612.0 of 1344.0 GPU h, ratio 0.46"), std::string::npos)
        << text;
}

TEST(ExplanationText, a_running_job_says_until_when_and_who) {
    RunningExplanation e;
    e.job = 14;
    e.budget = "projB";
    e.user = "old";
    e.allocated = true;
    e.gpus = 4;
    e.started_at = kNow - 3600;
    e.protected_until = kNow + 1500;
    std::string text = explanation_text(e, kMoment);
    EXPECT_NE(text.find("Protected until 22:38, 25 min from now\n"), std::string::npos) << text;
    EXPECT_NE(text.find("Nobody who waits now could take it\n"), std::string::npos) << text;
    e.protected_until = kNow - 600;
    e.takers = example().could_take;
    e.takers[0].from_at = kNow;
    e.takers_count = 1;
    text = explanation_text(e, kMoment);
    EXPECT_NE(text.find("Its contract ended 10 min ago (22:03)\n"), std::string::npos) << text;
    EXPECT_NE(text.find("  job 14 of projC (old), 4 GPUs: now,"), std::string::npos) << text;
    e.allocated = false;
    EXPECT_NE(explanation_text(e, kMoment).find("may be ended at any second"), std::string::npos);
}

TEST(ExplanationText, a_suspended_run_has_begun) {
    RunningExplanation e;
    e.job = 14;
    e.allocated = true;
    e.state = RunState::suspended;
    e.protected_until = kNever;
    e.contract_left_seconds = 1200;
    EXPECT_EQ(protected_text(e, kMoment), "suspended, 20 min left");
    const std::string text = explanation_text(e, kMoment);
    EXPECT_NE(text.find("is suspended"), std::string::npos) << text;
    EXPECT_NE(text.find("20 min are left when it goes on"), std::string::npos) << text;
    EXPECT_EQ(running_explanation_from_json(to_json(e)), e);
}

TEST(ExplanationText, a_job_that_is_gone_says_how_it_ended_and_who_took_its_place) {
    PastRun run;
    run.job = 124;
    run.number = 2;
    run.budget = "projA";
    run.user = "old";
    run.allocated = true;
    run.gpus = 8;
    run.nodes = "n1";
    run.began_at = kNow - 5400;
    run.ended_at = kNow - 1800;
    run.charged_milli_hours = 8000;
    run.end = "completed";
    EXPECT_EQ(past_run_from_json(to_json(run)), run);
    const std::string text = past_text({run}, kMoment, "123_4");
    EXPECT_NE(text.find("Job 123_4 of projA (old) completed 30 min ago"), std::string::npos)
        << text;
    EXPECT_NE(text.find("run 2: 20:43 to 21:43 (1 h), 8 GPUs on n1, charged 8.0 GPU h, completed"),
              std::string::npos)
        << text;
    PreemptionRecord record;
    record.victim = 124;
    record.victim_label = "123_4";
    record.claimant = 130;
    record.claimant_label = "129+0";
    record.reason = "express";
    record.planned_at = record.warned_at = kNow - 90;
    record.gone_at = kNow - 30;
    record.claimant_started_at = kNow - 20;
    record.claimant_nodes = "n3";
    record.outcome = "overtaken";
    EXPECT_EQ(preemption_from_json(to_json(record)), record);
    const std::string why = preemption_text(record, kMoment);
    EXPECT_NE(why.find("Job 123_4 of no budget was preempted"), std::string::npos) << why;
    EXPECT_NE(why.find("for job 129+0"), std::string::npos) << why;
    EXPECT_NE(why.find("a debug job needed the room"), std::string::npos) << why;
    EXPECT_NE(why.find("started elsewhere on n3"), std::string::npos) << why;
}

TEST(ExplanationText, every_reason_has_words) {
    for (int i = 0; i <= static_cast<int>(WaitReason::preemption_limit); ++i) {
        EXPECT_NE(wait_reason_text(static_cast<WaitReason>(i)), "unknown");
        EXPECT_NE(to_text(static_cast<WaitReason>(i)), "unknown");
    }
    for (int i = 0; i <= static_cast<int>(TakeReason::underfunded_and_final); ++i) {
        EXPECT_NE(take_reason_text(static_cast<TakeReason>(i)), "unknown");
    }
}

}  // namespace
}  // namespace tranche
