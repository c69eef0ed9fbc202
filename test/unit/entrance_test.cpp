// SPDX-License-Identifier: GPL-2.0-or-later
// What keeps jobs from starting where a pass would not start them.
#include "common/policy/entrance.hpp"

#include <gtest/gtest.h>

#include "support/situation.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;

Settings large_jobs() {
    Settings settings = scenario_settings();
    settings.reservations = 2;
    settings.max_assemblies = 1;
    settings.assembly_pause_seconds = 0;
    return settings;
}

// Four nodes of 8 GPUs; a job of three of them stands first and can be neither started nor planned.
struct Gathering : Situation {
    explicit Gathering(const Settings& with = large_jobs())
        : Situation({make_budget("a", 1), make_budget("b", 1)}, 0, with) {
        nodes(4);
    }
    PendingJob& gang(const std::string& name, const std::string& budget, std::uint32_t count) {
        PendingJob& job = waits(name, budget, 8 * count, kHour);
        job.shape.nodes = count;
        return job;
    }
    EntranceList entrance(std::vector<std::uint32_t> planned = {}) {
        pass({.one_plan_per_node = true});
        return entrance_of(view, ranking, standings, settings, result, planned,
                           {.most_entries = 3000, .slack_seconds = 10});
    }
    const EntranceRule* rule(const EntranceList& list, const std::string& name) const {
        for (const EntranceRule& rule : list.rules) {
            if (view.pending[rule.job].name == name) {
                return &rule;
            }
        }
        return nullptr;
    }
};

TEST(Entrance, who_would_stay_past_the_date_of_an_assembly_is_kept_off_its_nodes) {
    Gathering s;
    s.runs("r1", "b", 8, 0, 600, 2 * kHour);
    s.runs("r2", "b", 8, 1, 600, kHour);
    s.gang("big", "a", 4);
    s.waits("short", "b", 4, 600);
    s.waits("long", "b", 4, 4 * kHour);
    s.waits("free", "b", 4, 0);
    const EntranceList list = s.entrance();
    ASSERT_EQ(1U, s.result.assemblies.size());
    EXPECT_EQ(s.view.now + 2 * kHour - 600, s.result.assemblies[0].assembly.date_at);
    ASSERT_EQ(1U, s.result.keepings.size());
    EXPECT_FALSE(s.result.keepings[0].behind.has_value());
    EXPECT_EQ(nullptr, s.rule(list, "big"));
    EXPECT_EQ(nullptr, s.rule(list, "short"));
    EXPECT_EQ(nullptr, s.rule(list, "free"));
    // All its nodes are closed, which slurmctld would take for impossible: held until the date.
    const EntranceRule* held = s.rule(list, "long");
    ASSERT_NE(nullptr, held);
    EXPECT_EQ(kNoId, held->closed);
    EXPECT_EQ(s.view.now + 2 * kHour - 600 + 10, held->not_before_at);
}

TEST(Entrance, who_has_other_nodes_left_is_only_kept_off) {
    Gathering s;
    s.runs("r1", "b", 8, 0, 600, 2 * kHour);
    s.runs("r2", "b", 8, 1, 600, kHour);
    s.runs("r3", "b", 8, 2, 600, 3 * kHour);
    s.runs("r4", "b", 8, 3, 600, 4 * kHour);
    s.gang("big", "a", 3);
    s.waits("one", "b", 8, 4 * kHour);
    s.gang("two", "b", 2).min_runtime_seconds = 8 * kHour;
    const EntranceList list = s.entrance();
    const EntranceRule* one = s.rule(list, "one");
    ASSERT_NE(nullptr, one);
    ASSERT_NE(kNoId, one->closed);
    EXPECT_EQ((std::vector<NodeIndex>{0, 1, 2}), list.node_sets[one->closed]);
    EXPECT_EQ(0, one->not_before_at);
    const EntranceRule* two = s.rule(list, "two");
    ASSERT_NE(nullptr, two);
    EXPECT_EQ(kNoId, two->closed);
    EXPECT_NE(0, two->not_before_at);
}

TEST(Entrance, past_its_date_nobody_enters_free_work_neither) {
    Gathering s;
    for (const NodeIndex n : {0U, 3U}) {  // nobody can take these
        s.runs("r" + std::to_string(n), "b", 8, n, 3 * kHour, 0).kind = RunKind::outside;
    }
    PendingJob& big = s.gang("big", "a", 3);
    big.turn_at = s.view.now - kHour;
    s.waits("free", "b", 4, 0);
    s.waits("debug", "b", 4, 60);
    s.view.assemblies = {{big.id, {0, 1, 2}, s.view.now - kHour, s.view.now - 1}};
    s.view.grants = {{big.budget, s.view.now - kHour, 24000, kHour}};
    const EntranceList list = s.entrance();
    EXPECT_EQ("assembling", s.why("big"));
    EXPECT_TRUE(list.closed);
    for (const char* name : {"free", "debug"}) {
        const EntranceRule* rule = s.rule(list, name);
        ASSERT_NE(nullptr, rule) << name;
        ASSERT_NE(kNoId, rule->closed);
        EXPECT_EQ((std::vector<NodeIndex>{0, 1, 2}), list.node_sets[rule->closed]);
    }
    EXPECT_TRUE(waits_for_pass(list, s.view.now, false, false, 0, 1, 0));
}

TEST(Entrance, a_reservation_holds_for_those_behind_it) {
    Settings settings = large_jobs();
    settings.max_assemblies = 0;
    Gathering s(settings);
    for (NodeIndex n = 0; n < 4; ++n) {
        s.runs("r" + std::to_string(n), "b", n == 3 ? 4 : 8, n, 600, (n + 1) * kHour);
    }
    s.waits("before", "a", 8, 4 * kHour);
    s.waits("reserved", "a", 8, 4 * kHour);
    s.waits("behind", "a", 4, 4 * kHour).resumable = false;
    const EntranceList list = s.entrance();
    ASSERT_EQ(2U, s.result.keepings.size());
    EXPECT_EQ("contracts", s.why("before"));
    const EntranceRule* behind = s.rule(list, "behind");
    ASSERT_NE(nullptr, behind);
    ASSERT_NE(kNoId, behind->closed);
    EXPECT_EQ((std::vector<NodeIndex>{0, 1}), list.node_sets[behind->closed]);
    // The first is kept off nothing, the second off what is kept for the first.
    EXPECT_EQ(nullptr, s.rule(list, "before"));
    ASSERT_NE(nullptr, s.rule(list, "reserved"));
    EXPECT_EQ((std::vector<NodeIndex>{0}), list.node_sets[s.rule(list, "reserved")->closed]);
}

TEST(Entrance, a_held_claimant_has_no_assembly) {
    Gathering s;
    s.runs("r1", "b", 8, 0, 600, 2 * kHour);
    PendingJob& big = s.gang("big", "a", 4);
    big.turn_at = s.view.now - 60;
    big.block = StartBlock::held;
    s.view.assemblies = {{big.id, {0, 1, 2, 3}, s.view.now - 60, s.view.now + kHour}};
    s.pass({.one_plan_per_node = true});
    EXPECT_EQ((std::vector<JobId>{big.id}), s.result.dropped_assemblies);
    EXPECT_TRUE(s.result.keepings.empty());
}

// The headroom: 0.75 of four nodes, one node stays open.
Settings with_headroom() {
    Settings settings = scenario_settings();
    settings.max_protected_fraction_ppm = 750'000;
    return settings;
}

TEST(Entrance, only_as_many_jobs_as_may_come_under_contract_stay_free_to_start) {
    Gathering s(with_headroom());
    s.runs("r1", "b", 8, 0, 600, kHour);
    s.waits("starts", "a", 8, kHour).resumable = false;
    s.waits("allowed", "a", 8, kHour).resumable = false;
    s.waits("stopped", "a", 8, kHour).resumable = false;
    s.waits("resumes", "a", 8, kHour);
    s.waits("free", "a", 8, 0);
    const EntranceList list = s.entrance();
    EXPECT_EQ(nullptr, s.rule(list, "starts"));
    EXPECT_EQ(nullptr, s.rule(list, "allowed"));
    const EntranceRule* stopped = s.rule(list, "stopped");
    ASSERT_NE(nullptr, stopped);
    EXPECT_EQ("headroom", s.why("stopped"));
    EXPECT_EQ(s.view.now - 600 + kHour + 10, stopped->not_before_at);
    const EntranceRule* resumes = s.rule(list, "resumes");
    ASSERT_NE(nullptr, resumes);
    EXPECT_TRUE(resumes->as_free);
    EXPECT_EQ(0, resumes->not_before_at);
    EXPECT_EQ(nullptr, s.rule(list, "free"));
    EXPECT_EQ(0, list.headroom_left_gpus);
    EXPECT_TRUE(waits_for_pass(list, s.view.now, true, false, kHour, 1, 0));
    EXPECT_FALSE(waits_for_pass(list, s.view.now, true, true, kHour, 1, 0));
    EXPECT_FALSE(waits_for_pass(list, s.view.now, false, false, 0, 8, 0));
}

TEST(Entrance, jobs_that_wait_for_room_share_what_is_left_of_the_allowance_by_rank) {
    Gathering s(with_headroom());
    for (NodeIndex n = 0; n < 4; ++n) {
        s.runs("r" + std::to_string(n), "b", 8, n, 600, n < 2 ? kHour : 0).kind =
            n < 2 ? RunKind::allocated : RunKind::outside;
    }
    s.waits("first", "a", 8, kHour).resumable = false;
    s.waits("second", "a", 8, kHour).resumable = false;
    const EntranceList list = s.entrance();
    EXPECT_NE("headroom", s.why("first"));
    EXPECT_EQ(nullptr, s.rule(list, "first"));
    ASSERT_NE(nullptr, s.rule(list, "second"));
    EXPECT_NE(0, s.rule(list, "second")->not_before_at);
}

TEST(Entrance, an_array_may_start_as_many_tasks_as_the_headroom_allows) {
    Gathering s(with_headroom());
    PendingJob& array = s.waits("array", "a", 8, kHour);
    array.tasks = 10;
    array.resumable = false;
    const EntranceList list = s.entrance();
    const EntranceRule* rule = s.rule(list, "array");
    ASSERT_NE(nullptr, rule);
    EXPECT_EQ(3U, rule->tasks_now);
    EXPECT_NE(0, rule->not_before_at);
}

TEST(Entrance, who_asked_to_start_free_does_whatever_there_is) {
    Gathering s;
    s.waits("job", "a", 8, kHour).free_first = true;
    const EntranceList list = s.entrance();
    ASSERT_NE(nullptr, s.rule(list, "job"));
    EXPECT_TRUE(s.rule(list, "job")->as_free);
    ASSERT_EQ(1U, s.result.starts.size());
    EXPECT_TRUE(s.result.starts[0].as_free);
}

TEST(Entrance, a_planned_job_has_its_nodes_and_no_rule) {
    Gathering s(with_headroom());
    for (NodeIndex n = 0; n < 3; ++n) {
        s.runs("r" + std::to_string(n), "b", 8, n, 600, kHour);
    }
    s.waits("planned", "a", 8, kHour).resumable = false;
    EXPECT_NE(nullptr, s.rule(s.entrance(), "planned"));
    EXPECT_EQ(nullptr, s.rule(s.entrance({0}), "planned"));
}

TEST(Entrance, who_is_submitted_between_two_passes_waits_where_nodes_are_kept) {
    EntranceList list;
    EXPECT_FALSE(waits_for_pass(list, 1000, true, false, kHour, 8, 0));
    list.kept_until_at = 5000;
    EXPECT_FALSE(waits_for_pass(list, 1000, true, false, 3000, 8, 0));
    EXPECT_TRUE(waits_for_pass(list, 1000, true, false, 3995, 8, 0));
    EXPECT_TRUE(waits_for_pass(list, 1000, true, true, 3995, 8, 0));
    EXPECT_FALSE(waits_for_pass(list, 1000, false, false, 0, 8, 0));
    list = {};
    list.headroom_left_gpus = 16;
    EXPECT_FALSE(waits_for_pass(list, 1000, true, false, kHour, 8, 8));
    EXPECT_TRUE(waits_for_pass(list, 1000, true, false, kHour, 8, 9));
}

}  // namespace
}  // namespace tranche
