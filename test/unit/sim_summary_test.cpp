// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "sim/summary.hpp"
#include "support/random_record.hpp"

namespace tranche::sim {
namespace {

// Two nodes with 8 GPUs, one day, two budgets with 8 GPUs each. By hand:
//   J1 A  8 GPUs, 0 h to 10 h, protected until 4 h, asked to leave at 9 h 59 min 30 s, requeued
//   J1 A  again, 12 h to 24 h, protected until 16 h, still running
//   J2 B  4 GPUs, 1 h to 2 h, fits the lane, completed; submitted at 0
//   J3 -  8 GPUs, 2 h to 6 h, free, on the second node, completed; submitted at 2 h
//   J4 B  16 GPUs, submitted at 10 h, never started
SimRecord day() {
    SimRecord record;
    record.policy = "budget";
    record.cluster.nodes = {{"n1", "", 8}, {"n2", "", 8}};
    record.end_at = 24 * 3600;
    const auto job = [&](const char* id, const char* budget, std::int64_t gpus,
                         std::int64_t submitted_at, std::int64_t first_start_at, JobState state) {
        JobRecord made;
        made.job.id = id;
        made.job.budget = budget;
        made.job.user = std::string("user of ") + id;
        made.job.gpus = gpus;
        made.submitted_at = submitted_at;
        made.first_start_at = first_start_at;
        made.state = state;
        record.jobs.push_back(made);
    };
    job("J1", "A", 8, 0, 0, JobState::running);
    job("J2", "B", 4, 0, 3600, JobState::completed);
    job("J3", "", 8, 7200, 7200, JobState::completed);
    job("J4", "B", 16, 36000, -1, JobState::pending);
    record.jobs[1].fits_lane = true;
    const auto segment = [&](JobIndex index, RunKind kind, SegmentEnd end, NodeIndex node,
                             std::int64_t gpus, std::int64_t begin_at, std::int64_t end_at,
                             std::int64_t protected_until) -> SegmentRecord& {
        SegmentRecord made;
        made.job = index;
        made.kind = kind;
        made.end = end;
        made.where = {{node, gpus, 0, 0}};
        made.begin_at = begin_at;
        made.end_at = made.charged_until = end_at;
        made.protected_until = protected_until;
        record.segments.push_back(made);
        return record.segments.back();
    };
    segment(0, RunKind::allocated, SegmentEnd::preempted_requeued, 0, 8, 0, 36000, 14400)
        .warned_at = 35970;
    segment(1, RunKind::allocated, SegmentEnd::completed, 1, 4, 3600, 7200, 4500);
    segment(2, RunKind::unallocated, SegmentEnd::completed, 1, 8, 7200, 21600, 0);
    segment(0, RunKind::allocated, SegmentEnd::still_running, 0, 8, 43200, 86400, 57600).run = 2;
    PreemptionEvent event;
    event.at = 35970;
    event.claimant = 3;
    event.requeued = true;
    event.outcome = PreemptionOutcome::claimant_left;
    record.preemptions.push_back(event);
    // Installed 16 x 24 h; one node was away for 6 h.
    record.installed_gpu_seconds = 16 * 86400;
    record.available_gpu_seconds = 16 * 86400 - 8 * 21600;
    // 8 x 10 h + 4 x 1 h + 8 x 4 h + 8 x 12 h = 212 GPU h.
    record.used_gpu_seconds = 212 * 3600;
    record.demand_allocated_gpu_seconds = 504 * 3600;
    record.demand_free_gpu_seconds = 84 * 3600;
    record.lost_requeued_gpu_seconds = 53 * 3600 / 2;
    record.lost_ended_gpu_seconds = 53 * 3600 / 2;
    BudgetRecord a, b;
    a.name = "A";
    b.name = "B";
    a.parent = b.parent = "root";
    a.funded_fraction = b.funded_fraction = 0.5;
    for (std::int64_t hour = 0; hour < 24; ++hour) {
        // A wants its 8 GPUs all day and has them but for two hours.
        const bool a_runs = hour < 10 || hour >= 12;
        a.hours.push_back({8 * 3600, 8 * 3600, a_runs ? 8 * 3600 : 0, 0});
        // B: J2 in the second hour, J4 wants 16 from the tenth on.
        b.hours.push_back({8 * 3600,
                           (hour == 1    ? 4
                            : hour >= 10 ? 16
                                         : 0) *
                               3600,
                           hour == 1 ? 4 * 3600 : 0, 0});
    }
    a.preemptions_suffered = b.preemptions_caused = 1;
    record.budgets = {a, b};
    return record;
}

TEST(SimSummary, KeyFiguresAreThoseComputedByHand) {
    const Summary summary = summarize(day());
    EXPECT_EQ(summary.jobs, 4U);
    EXPECT_EQ(summary.finished, 2U);
    EXPECT_EQ(summary.simulated_seconds, 86400);
    // 384 - 48 = 336 GPU h were available: 212 / 336, 32 / 336, 336 / 384.
    EXPECT_DOUBLE_EQ(summary.occupancy, 212.0 / 336);
    EXPECT_DOUBLE_EQ(summary.unallocated_fraction, 32.0 / 336);
    EXPECT_DOUBLE_EQ(summary.availability, 0.875);
    EXPECT_DOUBLE_EQ(summary.demand_allocated, 1.5);
    EXPECT_DOUBLE_EQ(summary.demand_free, 0.25);
    EXPECT_DOUBLE_EQ(summary.lost_requeued_gpu_hours, 26.5);
    EXPECT_DOUBLE_EQ(summary.goodput_fraction, 0.75);  // 1 - 53 / 212
    EXPECT_EQ(summary.preemptions.total, 1U);
    EXPECT_EQ(summary.preemptions.requeued, 1U);
    EXPECT_EQ(summary.preemptions.ended, 0U);
    EXPECT_EQ(summary.preemptions.claimant_left, 1U);
    EXPECT_EQ(summary.preemptions.inside_contract, 0U);
    EXPECT_TRUE(summary.invariants.all_hold()) << summary.invariants.violations.at(0);
}

TEST(SimSummary, OwedAndDeliveredAreSumsOverTheWholeRecord) {
    const Summary summary = summarize(day());
    ASSERT_EQ(summary.budgets.size(), 2U);
    // A: 24 x 8 owed, 22 x 8 charged. B: 4 + 14 x 8 = 116 owed, 4 charged.
    EXPECT_EQ(summary.budgets[0].owed_gpu_seconds, 192 * 3600);
    EXPECT_EQ(summary.budgets[0].charged_gpu_seconds, 176 * 3600);
    EXPECT_DOUBLE_EQ(summary.budgets[0].delivered_fraction(), 176.0 / 192);
    EXPECT_EQ(summary.budgets[1].owed_gpu_seconds, 116 * 3600);
    EXPECT_DOUBLE_EQ(summary.budgets[1].delivered_fraction(), 4.0 / 116);
    EXPECT_DOUBLE_EQ(summary.delivered_fraction, 180.0 / 308);
    EXPECT_EQ(summary.teams, 2U);
    EXPECT_EQ(summary.teams_at_95_percent, 0U);
    EXPECT_EQ(summary.worst_team, "B");
}

TEST(SimSummary, WhatIsChargedBeyondTheOwedDoesNotDeliverMore) {
    SimRecord record = day();
    // A charged 30 GPUs in its last hour: more than it was owed in all.
    record.budgets[0].hours.back().charged = 30 * 3600;
    EXPECT_DOUBLE_EQ(summarize(record).budgets[0].delivered_fraction(), 1.0);
    EXPECT_DOUBLE_EQ(summarize(record).delivered_fraction, 196.0 / 308);
}

TEST(SimSummary, AnInnerBudgetIsItsJobsAndAllThoseBelowIt) {
    SimRecord record = day();
    BudgetRecord above;
    above.name = "P";
    above.parent = "root";
    above.is_leaf = false;
    above.funded_fraction = 1;
    above.preemptions_suffered = 2;
    // Its own side: 10 GPU h owed, 3 of them charged.
    above.hours.push_back({10 * 3600, 12 * 3600, 3 * 3600, 3600});
    record.budgets[0].parent = record.budgets[1].parent = "P";
    record.budgets.push_back(above);
    const Summary summary = summarize(record);
    const BudgetSummary& sum = summary.budgets[2];
    EXPECT_EQ(sum.charged_gpu_seconds, (176 + 4 + 3) * 3600);
    EXPECT_EQ(sum.unallocated_gpu_seconds, 3600);
    EXPECT_EQ(sum.owed_gpu_seconds, (192 + 116 + 10) * 3600);
    EXPECT_DOUBLE_EQ(sum.delivered_fraction(), 183.0 / 318);
    EXPECT_EQ(sum.half_days_with_demand, 3U);
    EXPECT_EQ(sum.preemptions_suffered, 3U);
    EXPECT_EQ(sum.waits.count, 3U);  // J1, J2, J4
    // Each counts once in the whole, its own side as a third team.
    EXPECT_DOUBLE_EQ(summary.delivered_fraction, 183.0 / 318);
    EXPECT_EQ(summary.teams, 3U);
}

TEST(SimSummary, AHalfDayStarvesOnlyWithDemandInAllOfIt) {
    const Summary summary = summarize(day());
    // A wanted its funding in both half-days and got 10/12 and 12/12 of it. B wanted it in all of
    // the second only and got nothing.
    EXPECT_EQ(summary.budgets[0].half_days_with_demand, 2U);
    EXPECT_EQ(summary.budgets[0].starved_half_days, 0U);
    EXPECT_EQ(summary.budgets[1].half_days_with_demand, 1U);
    EXPECT_EQ(summary.budgets[1].starved_half_days, 1U);
    EXPECT_DOUBLE_EQ(summary.budgets[1].starved_fraction(), 1.0);
    EXPECT_DOUBLE_EQ(summary.starved_fraction, 1.0 / 3);
}

TEST(SimSummary, AQuarterOfTheFundingIsNotStarved) {
    SimRecord record = day();
    // Second half-day of B: 12 x 8 funded; 24 GPU h are a quarter.
    record.budgets[1].hours[20].charged = 24 * 3600;
    EXPECT_EQ(summarize(record).budgets[1].starved_half_days, 0U);
    record.budgets[1].hours[20].charged -= 1;
    EXPECT_EQ(summarize(record).budgets[1].starved_half_days, 1U);
}

TEST(SimSummary, WaitsAreByClassAndThoseWhoNeverStartedWaitUntilTheEnd) {
    SimRecord record = day();
    record.jobs[2].job.wait_class = "night";
    const Summary summary = summarize(record);
    ASSERT_EQ(summary.waits.size(), 5U);
    // Waits: J1 0, J2 3 600, J3 0, J4 86 400 - 36 000 = 50 400.
    EXPECT_EQ(summary.waits[0].name, "all");
    EXPECT_EQ(summary.waits[0].waits.count, 4U);
    EXPECT_EQ(summary.waits[0].waits.p50, 0);
    EXPECT_EQ(summary.waits[0].waits.p90, 50400);
    EXPECT_EQ(summary.waits[0].waits.max, 50400);
    EXPECT_DOUBLE_EQ(summary.waits[0].waits.mean, 13500);
    EXPECT_EQ(summary.waits[1].name, "debug");  // J2
    EXPECT_EQ(summary.waits[1].waits.p50, 3600);
    EXPECT_EQ(summary.waits[2].name, "small");  // J1, J3: 8 GPUs
    EXPECT_EQ(summary.waits[2].waits.count, 2U);
    EXPECT_EQ(summary.waits[3].name, "large");  // a quarter of 16: all four
    EXPECT_EQ(summary.waits[3].waits.count, 4U);
    EXPECT_EQ(summary.waits[4].name, "night");
    EXPECT_EQ(summary.waits[4].waits.count, 1U);
    ASSERT_EQ(summary.waits_by_size.size(), 3U);
    EXPECT_EQ(summary.waits_by_size[0].name, "2-4");
    EXPECT_EQ(summary.waits_by_size[1].name, "5-8");
    EXPECT_EQ(summary.waits_by_size[2].name, "9-16");
}

TEST(SimSummary, RefusedAndFutureJobsDoNotWait) {
    SimRecord record = day();
    record.jobs[3].state = JobState::refused;
    record.jobs[2].state = JobState::future;
    const Summary summary = summarize(record);
    EXPECT_EQ(summary.jobs, 3U);
    EXPECT_EQ(summary.waits[0].waits.count, 2U);
}

TEST(SimSummary, AJobThatLeftTheQueueWaitedUntilThen) {
    SimRecord record = day();
    record.jobs[3].state = JobState::cancelled;
    record.jobs[3].ended_at = 36900;
    EXPECT_EQ(summarize(record).waits[0].waits.max, 3600);
}

TEST(SimSummary, PercentilesAreByNearestRank) {
    const std::vector<std::int64_t> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    EXPECT_EQ(percentile(ten, 50), 5);  // rank ceil(0.5 x 10) = 5
    EXPECT_EQ(percentile(ten, 90), 9);
    EXPECT_EQ(percentile(ten, 91), 10);
    EXPECT_EQ(percentile(ten, 0), 1);
    EXPECT_EQ(percentile(ten, 100), 10);
    EXPECT_EQ(percentile({}, 90), std::nullopt);
}

SimRecord waiting(std::size_t jobs) {
    SimRecord record;
    record.end_at = 1000000;
    record.cluster.nodes = {{"n1", "", 64}};
    for (std::size_t i = 0; i < jobs; ++i) {
        JobRecord job;
        job.job.id = std::to_string(i);
        job.job.gpus = 1;
        job.first_start_at = static_cast<std::int64_t>(i + 1);
        job.state = JobState::completed;
        record.jobs.push_back(job);
    }
    return record;
}

TEST(SimSummary, AP90OfFewerThan200JobsHasAnInterval) {
    const WaitSummary few = summarize(waiting(100)).waits[0].waits;
    ASSERT_TRUE(few.p90_interval.has_value());
    EXPECT_EQ(few.p90, 90);
    // The bootstrap's p90 of the values 1 to 100 is at most k with the chance that 90 or more of
    // 100 draws are at most k: about normal with a deviation of 3 around 90, so 84 to 96 hold 95 %.
    EXPECT_NEAR(static_cast<double>(few.p90_interval->low), 84, 1);
    EXPECT_NEAR(static_cast<double>(few.p90_interval->high), 96, 1);
    EXPECT_TRUE(summarize(waiting(199)).waits[0].waits.p90_interval.has_value());
    EXPECT_FALSE(summarize(waiting(200)).waits[0].waits.p90_interval.has_value());
    const WaitSummary one = summarize(waiting(1)).waits[0].waits;
    EXPECT_EQ(one.p90_interval->low, 1);
    EXPECT_EQ(one.p90_interval->high, 1);
}

TEST(SimSummary, TheJsonHasTheFieldsOfTheDesignUnderTheirNames) {
    SimRecord record = day();
    record.wall_seconds = 1.5;
    AssemblyRecord assembly;
    assembly.job = 3;
    assembly.turn_at = 40000;
    assembly.granted_at = 41000;
    record.assemblies.push_back(assembly);
    const Json json = summary_to_json(record);
    for (const char* key :
         {"version", "policy", "jobs", "finished", "simulated_seconds", "occupancy",
          "unallocated_fraction", "wait_seconds", "budgets", "demand_factor", "assemblies",
          "lost_gpu_hours", "goodput_fraction", "preemptions", "invariants"}) {
        EXPECT_FALSE(json.at(key).is_null()) << key;
    }
    EXPECT_TRUE(json.at("wall_seconds").is_null());
    EXPECT_EQ(summary_to_json(record, {true}).at("wall_seconds").as_thousandths(), 1500);
    const Json all = json.at("wait_seconds").at("all");
    EXPECT_EQ(all.keys(),
              (std::vector<std::string>{"count", "p50", "p90", "mean", "max", "p90_interval"}));
    EXPECT_EQ(json.at("wait_seconds").keys(),
              (std::vector<std::string>{"all", "debug", "small", "large"}));
    const Json budget = json.at("budgets").at(std::size_t{1});
    EXPECT_EQ(budget.at("name").as_text(), "B");
    EXPECT_EQ(budget.at("owed_gpu_hours").as_thousandths(), 116000);
    EXPECT_EQ(budget.at("charged_gpu_hours").as_thousandths(), 4000);
    EXPECT_EQ(budget.at("funded_fraction").as_thousandths(), 500);
    EXPECT_EQ(budget.at("starved_fraction").as_thousandths(), 1000);
    EXPECT_EQ(budget.at("preemptions").at("caused").as_integer(), 1);
    EXPECT_EQ(budget.at("wait_seconds").at("count").as_integer(), 2);
    EXPECT_EQ(json.at("demand_factor").at("allocated").as_thousandths(), 1500);
    EXPECT_EQ(json.at("lost_gpu_hours").at("ended").as_thousandths(), 26500);
    const Json first = json.at("assemblies").at(std::size_t{0});
    EXPECT_EQ(first.at("job").as_text(), "J4");
    EXPECT_EQ(first.at("granted_at").as_integer(), 41000);
    EXPECT_TRUE(first.at("started_at").is_null());
    for (const std::string& rule : json.at("invariants").keys()) {
        EXPECT_TRUE(json.at("invariants").at(rule.c_str()).as_boolean()) << rule;
    }
}

TEST(SimSummary, AClassThatIsNoUtf8IsRepairedInItsKey) {
    SimRecord record = day();
    record.jobs[0].job.wait_class = "night\xff";
    const Json json = summary_to_json(record);
    EXPECT_EQ(json.at("wait_seconds").at("night\xEF\xBF\xBD").at("count").as_integer(), 1);
}

TEST(SimSummary, TheSameRecordGivesTheSameBytes) {
    const SimRecord record = random_record({});
    SimRecord again = random_record({});
    again.wall_seconds = 12;
    EXPECT_EQ(summary_to_json(record).pretty(), summary_to_json(again).pretty());
    EXPECT_EQ(summary_text(record), summary_text(again));
    EXPECT_NE(summary_text(record, {true}), summary_text(again, {true}));
}

TEST(SimSummary, WhoWaitsLongerIsListedByTheGrowthOfTheP90) {
    SimRecord before = day();
    SimRecord after = day();
    after.jobs[0].first_start_at = 100;          // A: 0 -> 100
    after.jobs[1].first_start_at = 3600 + 5000;  // J2: 3 600 -> 8 600; B keeps J4's 50 400
    const GrowthLists lists = largest_growth(before, after);
    ASSERT_EQ(lists.users.size(), 2U);
    EXPECT_EQ(lists.users[0].name, "user of J2");
    EXPECT_EQ(lists.users[0].p90_before, 3600);
    EXPECT_EQ(lists.users[0].p90_after, 8600);
    EXPECT_EQ(lists.users[1].name, "user of J1");
    ASSERT_EQ(lists.budgets.size(), 1U);
    EXPECT_EQ(lists.budgets[0].name, "A");
    EXPECT_EQ(largest_growth(before, after, 1).users.size(), 1U);
    EXPECT_TRUE(largest_growth(after, after).users.empty());
}

TEST(SimSummary, TablesFitInEightyColumns) {
    RandomRecordShape shape;
    shape.nodes = 16;
    shape.hours = 100;
    shape.jobs = 2000;
    shape.teams = 12;
    const SimRecord record = random_record(shape);
    const SimRecord* const five[] = {&record, &record, &record, &record, &record};
    for (const std::string& text : {summary_text(record), comparison_text(five)}) {
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = text.find('\n', at);
            EXPECT_LE(end - at, 84U) << text.substr(at, end - at);  // bytes; some are two a column
            at = end + 1;
        }
    }
}

TEST(SimSummary, JobsWithoutABudgetWaitInTheRowOfNone) {
    SimRecord record = day();
    record.jobs[3].job.budget = "unknown";
    BudgetRecord none;
    none.name = "(none)";
    record.budgets.push_back(none);
    const Summary summary = summarize(record);
    std::uint64_t leaves = 0;
    for (const BudgetSummary& budget : summary.budgets) {
        leaves += budget.is_leaf ? budget.waits.count : 0;
    }
    EXPECT_EQ(summary.budgets.back().waits.count, 2U);
    EXPECT_EQ(leaves, summary.waits[0].waits.count);
}

TEST(SimSummary, TheHeadingOfAComparisonIsTheLongestReplay) {
    SimRecord record = day(), longer = day();
    longer.end_at = record.end_at + 86400;
    const SimRecord* const both[] = {&record, &longer};
    const std::string text = comparison_text(both);
    EXPECT_NE(text.substr(0, text.find('\n')).find("2.0 d"), std::string::npos) << text;
}

TEST(SimSummary, AReaderIsToldOfJobsThatWereEndedOrNeverStarted) {
    SimRecord record = day();
    record.segments[0].end = SegmentEnd::preempted_ended;
    record.notes = closing_notes(record);
    ASSERT_EQ(record.notes.size(), 3U);
    EXPECT_EQ(record.notes[0], "warning: 1 job never started");
    EXPECT_EQ(record.notes[1], "warning: 1 job did not finish");
    EXPECT_EQ(record.notes[2], "1 job that cannot resume was ended by preemption");
    const std::string text = summary_text(record);
    EXPECT_NE(text.find("Note: 1 job that cannot"), std::string::npos) << text;
    EXPECT_EQ(text.find("warning"), std::string::npos) << "said on standard error, once";
}

TEST(SimSummary, AnEmptyRecordHasNoFiguresAndBreaksNothing) {
    const SimRecord nothing;
    const Summary summary = summarize(nothing);
    EXPECT_EQ(summary.occupancy, 0);
    EXPECT_EQ(summary.delivered_fraction, 1);
    EXPECT_TRUE(summary.invariants.all_hold());
    EXPECT_TRUE(summary_to_json(nothing).at("wait_seconds").at("all").at("p90").is_null());
    EXPECT_FALSE(summary_text(nothing).empty());
    EXPECT_EQ(comparison_text({}), "");
}

// Each invariant, proved by a record that breaks it.

TEST(SimInvariants, ARunAskedToLeaveInsideItsContractIsFound) {
    SimRecord record = day();
    record.segments[0].warned_at = 14399;  // protected until 14 400
    EXPECT_FALSE(check_invariants(record).no_preemption_inside_contract);
    record.segments[0].warned_at = 14400;
    EXPECT_TRUE(check_invariants(record).no_preemption_inside_contract);
    record.segments[0].warned_at = 100;
    record.segments[0].end = SegmentEnd::node_failed;
    EXPECT_TRUE(check_invariants(record).no_preemption_inside_contract);
    record.segments[0].end = SegmentEnd::drained_ended;
    EXPECT_FALSE(check_invariants(record).no_preemption_inside_contract);
}

TEST(SimInvariants, AnOverfilledNodeIsFoundButNotOneThatIsHandedOver) {
    SimRecord record = day();
    EXPECT_TRUE(check_invariants(record).no_node_overfilled);  // J3 begins when J2 ends
    record.segments[2].begin_at = 7199;
    const Invariants found = check_invariants(record);
    EXPECT_FALSE(found.no_node_overfilled);
    ASSERT_FALSE(found.violations.empty());
    EXPECT_EQ(found.violations[0],
              "node n2: 12 of its 8 GPUs are held at 7199, by job J3, run 1 too");
}

TEST(SimInvariants, TwoRunsOnOneGpuAreFound) {
    SimRecord record = day();
    record.segments[1].slots = {0, 1, 2, 3};
    record.segments[2].slots = {0, 1, 2, 3, 4, 5, 6, 7};
    EXPECT_TRUE(check_invariants(record).no_node_overfilled);
    record.jobs[2].job.gpus = 4;
    record.segments[2].where[0].gpus = 4;
    record.segments[2].slots = {3, 4, 5, 6};
    record.segments[2].begin_at = 5000;  // 4 + 4 GPUs fit, but not both on the fourth
    EXPECT_FALSE(check_invariants(record).no_node_overfilled);
}

TEST(SimInvariants, GpuTimeThatDoesNotAddUpIsFound) {
    SimRecord record = day();
    ++record.used_gpu_seconds;
    EXPECT_FALSE(check_invariants(record).segments_sum_to_used);
}

TEST(SimInvariants, AChargeForFreeWorkIsFound) {
    SimRecord record = day();
    record.budgets[1].hours[3].charged = 1;  // B held exactly the 4 GPU h that it was charged
    EXPECT_FALSE(check_invariants(record).only_allocated_runs_charged);
    record = day();
    record.segments[2].kind = RunKind::allocated;  // J3 has no budget
    EXPECT_FALSE(check_invariants(record).only_allocated_runs_charged);
    record = day();
    record.budgets.emplace_back().hours.push_back({0, 0, 0, 32 * 3600});  // of jobs without one
    EXPECT_TRUE(check_invariants(record).only_allocated_runs_charged);
    record.segments[2].kind = RunKind::allocated;
    EXPECT_FALSE(check_invariants(record).only_allocated_runs_charged);
}

TEST(SimInvariants, ABudgetMayBeChargedForThoseBelowIt) {
    SimRecord record = day();
    BudgetRecord above;
    above.name = "P";
    above.is_leaf = false;
    above.hours.push_back({0, 0, 180 * 3600, 0});
    record.budgets[0].parent = record.budgets[1].parent = "P";
    record.budgets.push_back(above);
    EXPECT_TRUE(check_invariants(record).only_allocated_runs_charged);
    record.budgets[2].hours[0].charged += 1;
    EXPECT_FALSE(check_invariants(record).only_allocated_runs_charged);
}

TEST(SimInvariants, AJobThatRunsTwiceAtOnceIsFound) {
    SimRecord record = day();
    record.segments[3].begin_at = 35999;
    EXPECT_FALSE(check_invariants(record).runs_of_a_job_disjoint);
}

TEST(SimInvariants, AGangThatIsNotOnItsNodesIsFound) {
    const auto holds = [](const SimRecord& record) {
        return check_invariants(record).gangs_on_exactly_their_nodes;
    };
    SimRecord record = day();
    record.jobs[1].job.nodes = 2;
    EXPECT_FALSE(holds(record));
    record.segments[1].where = {{0, 2, 0, 0}, {1, 2, 0, 0}};
    EXPECT_TRUE(holds(record));
    record.segments[1].where = {{0, 3, 0, 0}, {1, 1, 0, 0}};
    EXPECT_FALSE(holds(record));
    record.segments[1].where = {{1, 2, 0, 0}, {1, 2, 0, 0}};
    EXPECT_FALSE(holds(record));
    record.segments[1].where = {{0, 2, 0, 0}, {1, 1, 0, 0}};
    EXPECT_FALSE(holds(record));
    record = day();
    record.jobs[1].job.gpu_type = "h100";
    EXPECT_FALSE(holds(record));
    record.cluster.nodes[1].gpu_type = "h100";
    EXPECT_TRUE(holds(record));
}

TEST(SimInvariants, OfManyViolationsTheFirstTwentyAreTold) {
    SimRecord record = day();
    for (int i = 0; i < 100; ++i) {
        record.segments.push_back(record.segments[0]);
    }
    EXPECT_EQ(check_invariants(record).violations.size(), 20U);
}

TEST(SimInvariants, RandomRecordsHoldThemAll) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        RandomRecordShape shape;
        shape.seed = seed;
        shape.with_slots = seed % 2 == 0;
        const Invariants found = check_invariants(random_record(shape));
        EXPECT_TRUE(found.all_hold()) << seed << ": " << found.violations.at(0);
    }
}

}  // namespace
}  // namespace tranche::sim
