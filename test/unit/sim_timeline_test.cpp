// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <set>

#include "sim/report_html.hpp"
#include "sim/timeline.hpp"
#include "sim/timeline_svg.hpp"
#include "sim/words.hpp"
#include "support/random_record.hpp"

namespace tranche::sim {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

// J1 of team A on GPUs 0-2 and 5 of the second node, from 0 to 100, protected until 40.
SimRecord one_run() {
    SimRecord record;
    record.policy = "budget";
    record.cluster.nodes = {{"n1", "", 4}, {"n2", "", 8}};
    record.end_at = 200;
    JobRecord job;
    job.job.id = "J1";
    job.job.budget = "A";
    job.job.gpus = 4;
    record.jobs.push_back(job);
    SegmentRecord segment;
    segment.kind = RunKind::allocated;
    segment.end = SegmentEnd::preempted_requeued;
    segment.where = {{1, 4, 0, 0}};
    segment.slots = {5, 0, 1, 2};
    segment.end_at = 100;
    segment.protected_until = 40;
    record.segments.push_back(segment);
    return record;
}

TEST(SimTimeline, ARunIsOneBarOnEachStretchOfItsRows) {
    const SimRecord record = one_run();
    const SimRecord* const records[] = {&record};
    const Timeline timeline = lay_out(record, TeamColours(records));
    EXPECT_EQ(timeline.rows(), 12U);
    ASSERT_EQ(timeline.bars.size(), 2U);
    // Node n2 begins at row 4: GPUs 0-2 are rows 4-6, GPU 5 is row 9.
    EXPECT_EQ(timeline.bars[0].row, 4U);
    EXPECT_EQ(timeline.bars[0].rows, 3U);
    EXPECT_EQ(timeline.bars[1].row, 9U);
    EXPECT_EQ(timeline.bars[1].rows, 1U);
    EXPECT_EQ(timeline.bars[0].open_from, 40);
    EXPECT_TRUE(timeline.bars[0].preempted);
}

TEST(SimTimeline, AFreeRunMayBeInterruptedFromItsBegin) {
    SimRecord record = one_run();
    record.segments[0].kind = RunKind::unallocated;
    record.segments[0].protected_until = 0;
    const SimRecord* const records[] = {&record};
    EXPECT_EQ(lay_out(record, TeamColours(records)).bars[0].open_from, 0);
    record.segments[0].protected_until = kNever;
    EXPECT_EQ(lay_out(record, TeamColours(records)).bars[0].open_from, 100);
}

TEST(SimTimeline, RunsWithoutRowsAreGivenFreeOnes) {
    RandomRecordShape shape;
    shape.with_slots = false;
    shape.jobs = 200;
    const SimRecord record = random_record(shape);
    const SimRecord* const records[] = {&record};
    const Timeline timeline = lay_out(record, TeamColours(records));
    std::vector<std::int64_t> free_at(timeline.rows(), 0);
    std::int64_t gpu_seconds = 0;
    for (const Bar& bar : timeline.bars) {
        for (std::uint32_t row = bar.row; row < bar.row + bar.rows; ++row) {
            ASSERT_LT(row, timeline.rows());
            EXPECT_LE(free_at[row], bar.begin_at);
            free_at[row] = bar.end_at;
            gpu_seconds += bar.end_at - bar.begin_at;
        }
    }
    EXPECT_EQ(gpu_seconds, record.used_gpu_seconds);
}

TEST(SimTimeline, HueIsByTeamAndShadeByWorkload) {
    SimRecord record = one_run();
    const auto add = [&](const char* id, const char* budget, const char* user, const char* name,
                         const char* array, const char* parent) {
        JobRecord job;
        job.job.id = id;
        job.job.budget = budget;
        job.job.user = user;
        job.job.name = name;
        job.job.array = array;
        job.job.parent = parent;
        record.jobs.push_back(job);
        return record.jobs.size() - 1;
    };
    const std::size_t first = add("J2", "B", "u", "train", "", "");
    const std::size_t same = add("J3", "B", "u", "train", "", "");
    const std::size_t other = add("J4", "B", "v", "train", "", "");
    const std::size_t array = add("J5", "B", "u", "train", "7", "");
    const std::size_t parent = add("J6", "B", "u", "train", "7", "sweep");
    const SimRecord* const records[] = {&record};
    const TeamColours colours(records);
    EXPECT_EQ(colours.teams(), (std::vector<std::string>{"A", "B"}));
    const auto shade = [&](std::size_t job) { return colours.shade_of(record.jobs[job].job); };
    EXPECT_EQ(shade(first), shade(same));
    EXPECT_NE(shade(first), shade(other));
    EXPECT_NE(shade(first), shade(array));
    EXPECT_NE(shade(array), shade(parent));
    EXPECT_EQ(colours.team_of(record.jobs[first].job), 1U);
    EXPECT_EQ(colours.team_of(WorkloadJob{}), TeamColours::kNoTeam);
}

TEST(SimTimeline, AllColoursDiffer) {
    std::set<std::string> all;
    for (std::size_t team = 0; team < kHues; ++team) {
        for (std::size_t shade = 0; shade < kShades; ++shade) {
            EXPECT_TRUE(all.insert(team_colour(team, shade)).second);
        }
    }
    EXPECT_STREQ(team_colour(kHues, 0), team_colour(0, 0));
}

TEST(SimTimelineSvg, HasABarATitleAnOpenPartAndARedEdge) {
    const SimRecord record = one_run();
    const SimRecord* const records[] = {&record};
    const std::string svg = timeline_svg(records);
    EXPECT_EQ(count_of(svg, "<title>"), 2U);  // of the two stretches
    EXPECT_NE(svg.find("J1, 4 GPUs\nA, run 1\n"), std::string::npos);
    EXPECT_NE(svg.find("preempted, queued again"), std::string::npos);
    EXPECT_EQ(count_of(svg, "<path class=\"open\""), 1U);
    EXPECT_EQ(count_of(svg, "<path class=\"taken\""), 2U);  // and in the legend
    EXPECT_NE(svg.find("may be interrupted"), std::string::npos);
    EXPECT_NE(svg.find(">n2</text>"), std::string::npos);
}

TEST(SimTimelineSvg, ManyBarsStayBelowThreeMegabytesAndThePictureSaysSo) {
    RandomRecordShape shape;
    shape.nodes = 32;
    shape.hours = 336;
    shape.jobs = 30000;
    shape.mean_runtime_seconds = 1800;
    const SimRecord record = random_record(shape);
    const SimRecord* const records[] = {&record, &record};
    const std::string svg = timeline_svg(records);
    EXPECT_LT(svg.size(), 3000000U);
    EXPECT_NE(svg.find("bars are too short for this width"), std::string::npos);
    EXPECT_EQ(svg, timeline_svg(records));
}

TEST(SimTimelineSvg, TwoPoliciesStandSideBySideAndMoreBelowEachOther) {
    const SimRecord record = one_run();
    const SimRecord* const records[] = {&record, &record, &record};
    const auto width = [&](std::size_t count, TimelineOptions::Layout layout) {
        const std::string svg = timeline_svg(std::span(records, count), {"", layout});
        const std::size_t at = svg.find("width=\"") + 7;
        return std::stoi(svg.substr(at));
    };
    using Layout = TimelineOptions::Layout;
    EXPECT_EQ(width(2, Layout::automatic), width(2, Layout::side_by_side));
    EXPECT_EQ(width(3, Layout::automatic), width(1, Layout::automatic));
    EXPECT_EQ(width(2, Layout::stacked), width(1, Layout::automatic));
}

TEST(SimReportHtml, LoadsNothingAndHoldsTheTables) {
    const SimRecord a = random_record({});
    const SimRecord* const records[] = {&a, &a};
    const std::string page = report_html(records);
    EXPECT_EQ(page, report_html(records));
    for (const char* part : {"http:", "https:", "src=", "@import", "url("}) {
        // The name space of SVG is no address that is loaded.
        const std::size_t known = part == std::string("http:")
                                      ? count_of(page, "http://www.w3.org/2000/svg")
                                  : part == std::string("url(") ? count_of(page, "url(#")
                                                                : 0;
        EXPECT_EQ(count_of(page, part), known) << part;
    }
    EXPECT_NE(page.find("Waits by class"), std::string::npos);
    EXPECT_NE(page.find("Budgets over the whole time"), std::string::npos);
    EXPECT_EQ(report_html({}), "");
}

TEST(SimWords, DurationsHaveOneUnit) {
    EXPECT_EQ(short_duration(0), "0 s");
    EXPECT_EQ(short_duration(119), "119 s");
    EXPECT_EQ(short_duration(150), "2.5 min");
    EXPECT_EQ(short_duration(1800), "30 min");
    EXPECT_EQ(short_duration(7200), "2.0 h");
    EXPECT_EQ(short_duration(86400 * 3), "3.0 d");
    EXPECT_EQ(short_duration(-60), "-60 s");
}

TEST(SimWords, NumbersAreGroupedByThousands) {
    EXPECT_EQ(grouped(0), "0");
    EXPECT_EQ(grouped(999), "999");
    EXPECT_EQ(grouped(-1234), "-1 234");
    EXPECT_EQ(grouped(1234567), "1 234 567");
}

TEST(SimWords, InstantsAreOfTheWorkloadOrOfTheCalendar) {
    EXPECT_EQ(instant_text(0), "d0 00:00");
    EXPECT_EQ(instant_text(2 * 86400 + 5 * 3600 + 120), "d2 05:02");
    EXPECT_EQ(instant_text(-60), "d-1 23:59");
    EXPECT_EQ(instant_text(951782400), "2000-02-29 00:00");
    EXPECT_EQ(instant_text(1795960800), "2026-11-29 14:00");
    EXPECT_EQ(axis_text(0, 3600), "00:00");
    EXPECT_EQ(axis_text(0, 86400), "day 0");
    EXPECT_EQ(axis_text(1795910400, 86400), "11-29");
}

TEST(SimWords, AxesHaveRoundSteps) {
    EXPECT_EQ(axis_step(4 * 3600, 18), 900);
    EXPECT_EQ(axis_step(14 * 86400, 18), 86400);
    EXPECT_EQ(axis_step(10, 20), 1);
    EXPECT_GT(axis_step(86400LL * 100000, 10), 0);
}

TEST(SimWords, TextOfStrangersIsHarmless) {
    EXPECT_EQ(printable("a\nb\x1b[0m\x7f\xc2\x9b"), "a?b?[0m??");
    EXPECT_EQ(escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
    EXPECT_EQ(escaped("\xff"), "\xEF\xBF\xBD");
    EXPECT_EQ(shown_columns("für"), 3U);
}

}  // namespace
}  // namespace tranche::sim
