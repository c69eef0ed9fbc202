// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/outlook.hpp"

#include <gtest/gtest.h>

#include "common/report/reason_text.hpp"
#include "engine/outlook_keeper.hpp"
#include "engine/own_answers.hpp"
#include "engine/restart_notes.hpp"
#include "support/fake_host.hpp"
#include "support/situation.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kZero = Situation::kZero;

CalendarTime utc(std::int64_t at) {
    const std::int64_t day = at % 86400;
    return {2026,
            11,
            static_cast<int>(1 + at / 86400 % 28),
            static_cast<int>(day / 3600),
            static_cast<int>(day / 60 % 60),
            static_cast<int>(day % 60)};
}

std::vector<std::int64_t> starts_of(Situation& s, const OutlookOptions& options = {}) {
    s.order();
    std::vector<std::int64_t> starts =
        expected_starts(s.view, s.ranking, s.standings, s.settings, {}, options);
    for (std::int64_t& at : starts) {
        at = at == kNever ? -1 : at - kZero;
    }
    return starts;
}

// One node of 8 that B holds under contract for another half hour; a grace of 60 s.
TEST(Outlook, a_claimant_starts_when_the_contract_and_the_grace_are_over) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(1);
    s.used("B", 8, -2 * kHour, -kHour);
    s.runs("r", "B", 8, 0, kHour / 2, kHour).time_limit_seconds = 24 * kHour;
    s.waits("a", "A", 8, kHour).time_limit_seconds = 2 * kHour;
    EXPECT_EQ(starts_of(s), (std::vector<std::int64_t>{kHour / 2 + 60}));
}

TEST(Outlook, jobs_follow_each_other_by_their_time_limits) {
    Situation s({make_budget("A", 1)});
    s.nodes(1);
    s.runs("r", "A", 8, 0, 0, kHour).time_limit_seconds = 2 * kHour;
    s.waits("first", "A", 8, kHour).time_limit_seconds = 3 * kHour;
    s.waits("second", "A", 8, kHour).time_limit_seconds = 3 * kHour;
    s.settings.preempt_within_budget = PreemptWithinBudget::no;
    EXPECT_EQ(starts_of(s), (std::vector<std::int64_t>{2 * kHour, 5 * kHour}));
    // Without a limit there is no date, and beyond the horizon neither.
    s.view.runs[0].time_limit_seconds = kNever;
    EXPECT_EQ(starts_of(s), (std::vector<std::int64_t>{-1, -1}));
    s.view.runs[0].time_limit_seconds = 2 * kHour;
    EXPECT_EQ(starts_of(s, {.horizon_seconds = 4 * kHour}),
              (std::vector<std::int64_t>{2 * kHour, -1}));
    EXPECT_EQ(starts_of(s, {.most_jobs = 1}), (std::vector<std::int64_t>{2 * kHour, -1}));
}

TEST(Outlook, held_jobs_have_no_date_and_hold_nobody_up) {
    Situation s({make_budget("A", 1)});
    s.nodes(1);
    s.runs("r", "A", 8, 0, 0, kHour).time_limit_seconds = 2 * kHour;
    s.waits("held", "A", 8, kHour).block = StartBlock::held;
    s.waits("free", "A", 8, kHour);
    s.settings.preempt_within_budget = PreemptWithinBudget::no;
    EXPECT_EQ(starts_of(s), (std::vector<std::int64_t>{-1, 2 * kHour}));
}

TEST(Outlook, a_victim_comes_back_and_the_view_stays_as_it_was) {
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(1);
    s.used("B", 8, -2 * kHour, -kHour);
    s.runs("r", "B", 8, 0, 2 * kHour, kHour).time_limit_seconds = 24 * kHour;
    s.waits("a", "A", 8, kHour).time_limit_seconds = kHour;
    const std::size_t runs = s.view.runs.size();
    EXPECT_EQ(starts_of(s), (std::vector<std::int64_t>{60}));
    EXPECT_EQ(s.view.runs.size(), runs);
    EXPECT_EQ(s.view.pending.size(), 1U);
}

TEST(Outlook, an_assembly_has_its_date) {
    Situation s({make_budget("A", 1)});
    s.nodes(2);
    s.runs("r", "A", 8, 0, 0, kHour);
    s.runs("q", "A", 8, 1, 0, kHour);
    PendingJob& large = s.waits("large", "A", 16, kHour);
    large.shape.nodes = 2;
    s.view.assemblies.push_back({large.id, {0, 1}, kZero, kZero + kHour});
    const auto starts = starts_of(s);
    ASSERT_EQ(starts.size(), 1U);
    EXPECT_GE(starts[0], kHour);
    EXPECT_LE(starts[0], kHour + 120);
}

TEST(Outlook, the_nearest_claim_says_what_would_do) {
    // A has used 8 h x 8 GPUs, B half of that, and A's job wants B's run.
    Situation s({make_budget("A", 1), make_budget("B", 1)});
    s.nodes(1);
    s.used("A", 8, -20 * kHour, -12 * kHour);
    s.used("B", 8, -12 * kHour, -8 * kHour);
    s.runs("r", "B", 8, 0, 2 * kHour, kHour);
    s.waits("a", "A", 8, kHour);
    s.stand();
    const auto claim = nearest_claim(s.view, s.standings, s.settings, s.view.pending[0], 8000);
    ASSERT_TRUE(claim.has_value());
    EXPECT_EQ(claim->side, "A");
    EXPECT_GT(claim->ratio_milli, claim->allowed_milli);
    EXPECT_FALSE(nearest_claim(s.view, s.standings, s.settings, s.waits("b", "B", 8, kHour), 8000)
                     .has_value());
}

TEST(ReasonText, says_it_in_few_words) {
    const Moment now{14 * kHour, utc};
    const auto text = [&](WaitReason reason, std::int64_t next = kNever,
                          std::int64_t expected = kNever) {
        ReasonFacts facts;
        facts.verdict.reason = reason;
        facts.verdict.next_change_at = next;
        facts.expected_at = expected;
        facts.rank = 3;
        facts.ranked = 9;
        return reason_text(facts, now);
    };
    EXPECT_EQ(text(WaitReason::contracts, 14 * kHour + 300), "contracts until 14:05");
    EXPECT_EQ(text(WaitReason::planned, kNever, 14 * kHour + 120),
              "victims leaving, starts about 14:02");
    EXPECT_EQ(text(WaitReason::assembling, kNever, 86400 + 16 * kHour),
              "large job: nodes gathered until Nov 02 16:00");
    EXPECT_EQ(text(WaitReason::none), "rank 3 of 9");
    // What Slurm knows better.
    for (const WaitReason own :
         {WaitReason::held, WaitReason::dependency, WaitReason::begin_time, WaitReason::limit,
          WaitReason::impossible, WaitReason::nodes_unavailable}) {
        EXPECT_EQ(text(own), "");
    }
    for (int i = 0; i <= static_cast<int>(WaitReason::assembling); ++i) {
        const std::string words =
            text(static_cast<WaitReason>(i), 86400 + kHour, 86400 + 16 * kHour);
        EXPECT_LE(words.size(), 70U) << words;
    }
    ReasonFacts facts;
    facts.verdict.reason = WaitReason::ratio;
    facts.claim = NearestClaim{"projA", 1320, 950};
    EXPECT_EQ(reason_text(facts, now), "projA is over its share: 1.32, 0.95 would do");
    facts.numbers = false;
    EXPECT_EQ(reason_text(facts, now), "its budget is over its share");
}

class KeeperTest : public testing::Test {
  protected:
    KeeperTest() : situation_({make_budget("A", 1), make_budget("B", 1)}) {
        situation_.nodes(1);
        situation_.used("B", 8, -2 * kHour, -kHour);
        situation_.runs("r", "B", 8, 0, kHour / 2, kHour).time_limit_seconds = 24 * kHour;
        situation_.waits("a", "A", 8, kHour);
        situation_.waits("held", "A", 8, kHour).block = StartBlock::held;
        publish();
    }
    void publish() {
        situation_.pass();
        auto view = std::make_shared<EngineView>();
        view->at = situation_.view.now;
        view->settings = std::make_shared<Settings>(situation_.settings);
        view->view = situation_.view;
        view->standings = situation_.standings;
        view->ranking = situation_.ranking;
        view->pass = situation_.result;
        view->available_weight_milli = 8000;
        view->health.cycles = ++cycles_;
        view_ = std::move(view);
    }

    Situation situation_;
    std::int64_t cycles_ = 0, milliseconds_ = 0;
    std::shared_ptr<const EngineView> view_;
    std::shared_ptr<test::FakeCluster> cluster_ = std::make_shared<test::FakeCluster>(1, 8);
    test::FakeHost host_{cluster_};
    OutlookKeeper keeper_{host_, [this] { return view_; }, utc, [this] { return milliseconds_; }};
};

TEST_F(KeeperTest, what_a_pass_wiped_out_is_written_again) {
    keeper_.estimate();
    ASSERT_EQ(keeper_.starts()->size(), 1U);
    keeper_.look();
    const std::vector<Outlook> shown = cluster_->shown_outlook();
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown[0].id, situation_.view.pending[0].id);
    EXPECT_TRUE(shown[0].reason.starts_with("contracts until ")) << shown[0].reason;
    // Rounded up to a minute.
    EXPECT_EQ(shown[0].start_at % 60, 0);
    EXPECT_NEAR(static_cast<double>(shown[0].start_at - kZero), kHour / 2 + 60, 60);
    cluster_->schedule();
    EXPECT_TRUE(cluster_->shown_outlook().empty());
    keeper_.look();
    EXPECT_EQ(cluster_->shown_outlook(), shown);
}

TEST_F(KeeperTest, nothing_is_written_while_nothing_has_happened) {
    keeper_.look();
    cluster_->set_outlook({});
    milliseconds_ += 100;
    keeper_.look();
    EXPECT_TRUE(cluster_->shown_outlook().empty());
    milliseconds_ += 200;  // what updates of jobs may have wiped out
    keeper_.look();
    EXPECT_FALSE(cluster_->shown_outlook().empty());
}

TEST_F(KeeperTest, estimates_are_made_now_and_then_only) {
    keeper_.estimate();
    const auto first = keeper_.starts();
    publish();
    milliseconds_ += 1000;
    keeper_.estimate();
    EXPECT_EQ(keeper_.starts(), first);
    milliseconds_ += 10000;
    keeper_.estimate();
    EXPECT_NE(keeper_.starts(), first);
}

TEST_F(KeeperTest, a_rehearsal_shows_nothing) {
    situation_.settings.dry_run = true;
    publish();
    keeper_.look();
    EXPECT_TRUE(cluster_->shown_outlook().empty());
}

class TryTest : public KeeperTest {
  protected:
    TryTest() {
        situation_.settings.preempt_within_budget = PreemptWithinBudget::no;
        for (PendingJob& job : situation_.view.pending) {
            job.time_limit_seconds = 2 * kHour;
        }
        publish();
        auto view = std::make_shared<EngineView>(*view_);
        Budget a = make_budget("A", 1);
        a.users = {"ann"};
        view->tree = std::make_shared<BudgetTree>(make_tree({a, make_budget("B", 1)}));
        view_ = std::move(view);
    }
    Result<Json> answer(const Json& arguments) {
        Viewer viewer;
        viewer.uid = 1000;
        viewer.user = "ann";
        return answer_try(*view_, viewer, arguments);
    }
};

// The node is B's for half an hour, then that of the job that waits already, for two hours at most.
TEST_F(TryTest, a_job_that_is_not_there_is_ranked_and_dated_and_what_is_sooner_is_really_sooner) {
    const auto json = answer(Json::object().set("gpus", 8).set("min_runtime_seconds", 2 * kHour));
    ASSERT_TRUE(json.ok()) << json.error();
    EXPECT_EQ(json->at("budget").as_text(), "A");
    const Json asked = json->at("asked");
    EXPECT_EQ(asked.at("rank").as_integer(), 2);
    EXPECT_EQ(asked.at("class").as_text(), "allocated");
    const std::int64_t start = asked.at("expected_start_at").as_integer();
    EXPECT_GE(start, kZero + kHour / 2 + 2 * kHour);
    const Json sooner = json->at("sooner");
    for (std::size_t i = 0; i < sooner.size(); ++i) {
        EXPECT_LT(sooner.at(i).at("expected_start_at").as_integer(), start);
        EXPECT_LE(sooner.at(i).at("gpus").as_integer(), 8);
    }
    EXPECT_EQ(view_->view.pending.size(), 2U);
}

TEST_F(TryTest, what_cannot_be_right_is_refused) {
    EXPECT_FALSE(answer(Json::object().set("gpus", 9).set("nodes", 1)).ok());
    EXPECT_FALSE(answer(Json::object().set("gpus", 8).set("gpu_type", "h100")).ok());
    EXPECT_FALSE(answer(Json::object().set("mem", 4)).ok());
    EXPECT_FALSE(answer(Json::object().set("budget", "C")).ok());
    EXPECT_FALSE(answer(Json::object().set("team_priority", "highest")).ok());
    EXPECT_FALSE(answer(Json::object().set("min_runtime_seconds", 100 * kHour)).ok());
    // Nothing said: a whole node, for as long as a job that declares nothing.
    const auto json = answer(Json::object());
    ASSERT_TRUE(json.ok()) << json.error();
    EXPECT_EQ(json->at("asked").at("gpus").as_integer(), 8);
    EXPECT_EQ(json->at("asked").at("class").as_text(), "unallocated");
}

TEST(RestartNotes, the_next_run_hears_once_why_the_one_before_it_ended) {
    auto cluster = std::make_shared<test::FakeCluster>(1, 8);
    test::FakeHost host(cluster);
    std::int64_t milliseconds = 0;
    RestartNotes notes(host, utc, [&] { return milliseconds; });
    EngineView view;
    view.at = 15 * kHour;
    JobCard card;
    card.id = 7;
    card.runs = 2;
    card.run_index = 0;
    view.cards = {card};
    tranche::Run run;
    run.id = 7;
    run.started_at = view.at - 10;
    view.view.runs = {run};
    PreemptionRecord record;
    record.victim = 7;
    record.claimant = 9;
    record.claimant_user = "ann";
    record.claimant_label = "8_1";
    record.reason = "express";
    record.planned_at = view.at - 600;
    record.outcome = "started";
    view.recent_preemptions = {record};
    EXPECT_TRUE(notes.step(view));  // its script may not be up yet
    EXPECT_TRUE(cluster->told(7).empty());
    milliseconds += 3000;
    EXPECT_FALSE(notes.step(view));
    EXPECT_FALSE(notes.step(view));
    ASSERT_EQ(cluster->told(7).size(), 1U);
    EXPECT_EQ(cluster->told(7)[0],
              "tranche: run 2: run 1 was preempted 10 min ago (14:50) for job 8_1 of ann: its "
              "contract was over and a debug job needed the room");
    // A warning that was taken back ended no run.
    view.cards[0].runs = 3;
    view.recent_preemptions[0].outcome = "taken-back";
    EXPECT_TRUE(notes.step(view));
    milliseconds += 3000;
    EXPECT_FALSE(notes.step(view));
    EXPECT_EQ(cluster->told(7).size(), 1U);
}

}  // namespace
}  // namespace tranche
