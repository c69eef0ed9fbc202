// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/store/ledger_database.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/store/ledger_replay.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;  // 2023-11-14 22:13:20 UTC

class LedgerDatabaseTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "ledgerXXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        path_ = folder_ + "/usage.db";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    LedgerDatabase open_ledger() {
        Result<LedgerDatabase> opened = LedgerDatabase::open(path_, kNow);
        EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error());
        return std::move(opened).value();
    }
    void run_sql(const std::string& sql) {
        sqlite3* raw = nullptr;
        ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
            << sqlite3_errmsg(raw);
        sqlite3_close(raw);
    }
    static void apply(LedgerDatabase& ledger, const LedgerBatch& batch) {
        const Status status = ledger.apply(batch);
        ASSERT_TRUE(status.ok()) << status.error();
    }
    static LedgerContents load(LedgerDatabase& ledger, std::int64_t since = 0) {
        Result<LedgerContents> contents = ledger.load(since, since);
        EXPECT_TRUE(contents.ok()) << (contents.ok() ? "" : contents.error());
        return std::move(contents).value();
    }

    std::string folder_, path_;
};

BudgetTree tree_of(std::vector<Budget> budgets) {
    Result<BudgetTree> tree = BudgetTree::build(std::move(budgets));
    EXPECT_TRUE(tree.ok()) << (tree.ok() ? "" : tree.error());
    return std::move(tree).value();
}

Budget budget(const std::string& name, std::uint32_t shares, const std::string& parent = "root") {
    Budget out;
    out.name = name;
    out.parent = parent;
    out.shares = shares;
    return out;
}

SegmentRow segment_row(JobId job, std::int64_t begin_at, const std::string& budget = "projA") {
    SegmentRow row;
    row.key = {job, begin_at - 100, begin_at};
    row.kind = RunKind::allocated;
    row.team_priority = TeamPriority::high;
    row.resumable = true;
    row.interactive = true;
    row.express = true;
    row.budget = budget;
    row.user = "alice";
    row.account = "proja";
    row.partition = "gpu";
    row.name = "train 'em; \"all\"";
    row.gpus = 8;
    row.weight_milli = 16000;
    row.nodes = "n[1-2]";
    row.min_runtime_seconds = 7200;
    row.ready_at = begin_at + 30;
    row.protected_until = begin_at + 7230;
    row.run = 3;
    row.leaving_for = 77;
    return row;
}

SegmentRow closed_row(SegmentRow row, std::int64_t ended_at, std::int64_t refund = 0) {
    row.ended_at = ended_at;
    row.charged_until = ended_at - refund;
    row.end_reason = refund > 0 ? "node-failure" : "completed";
    return row;
}

PreemptionRecord preemption_row(JobId victim, JobId claimant, std::int64_t planned_at) {
    PreemptionRecord row;
    row.victim = victim;
    row.claimant = claimant;
    row.planned_at = planned_at;
    row.victim_budget = "projA";
    row.claimant_budget = "projB";
    row.victim_user = "alice";
    row.claimant_user = "bob";
    row.reason = "smaller-ratio";
    row.level = "root";
    row.victim_side = "projA";
    row.claimant_side = "projB";
    row.victim_charge_milli_hours = 1'234'567;
    row.victim_funded_milli_hours = 1'000'000;
    row.claimant_charge_milli_hours = 5;
    row.claimant_funded_milli_hours = 6;
    row.contract_ended_at = planned_at - 10;
    row.warned_at = planned_at;
    row.nodes = "n3";
    return row;
}

LedgerBatch whole_batch() {
    LedgerBatch batch;
    TreeEditRow edit;
    edit.number = 1;
    edit.at = 1000;
    edit.user = "root";
    edit.reason = "the first tree";
    edit.changes = {{"projA", "budget", "", "shares=35"}, {"projB", "budget", "", "shares=65"}};
    Budget first = budget("projA", 35), second = budget("projB", 65);
    first.accounts = {"old", "proja"};
    second.sharing = BudgetSharing::pooled;
    second.users = {"bob"};
    second.managers = {"carol"};
    edit.tree = tree_of({first, second});
    batch.edits = {edit};
    batch.begun = {segment_row(1, 2000), segment_row(2, 2500, "")};
    batch.ended = {closed_row(segment_row(3, 2000, "projB"), 3000, 600)};
    batch.jobs = {{1, 1900, 3, kNever, 0, 2600, 900}, {3, 1900, 1, 3600, 77, 0, kNever}};
    batch.preemptions = {preemption_row(3, 77, 2900)};
    batch.plans = {{{77,
                     "projB",
                     "bob",
                     16000,
                     7200,
                     16,
                     2900,
                     true,
                     {{"n1", 8, 64, 512}, {"n2", 8, 32, 256}},
                     {3, 1}}}};
    batch.capacity = {{1000, 64000}, {2000, 56000}};
    return batch;
}

void expect_whole_batch(const LedgerContents& contents) {
    LedgerBatch batch = whole_batch();
    EXPECT_EQ(contents.trees, batch.edits);
    EXPECT_EQ(contents.last_edit_number, 1);
    EXPECT_EQ(contents.open, batch.begun);
    ASSERT_EQ(contents.closed.size(), 1U);
    const ClosedSegment& closed = contents.closed[0];
    EXPECT_EQ(closed.key, batch.ended[0].key);
    EXPECT_EQ(contents.names[closed.budget], "projB");
    EXPECT_EQ(contents.names[closed.user], "alice");
    EXPECT_EQ(closed.kind, RunKind::allocated);
    EXPECT_EQ(closed.weight_milli, 16000);
    EXPECT_EQ(closed.charged_until, 2400);
    EXPECT_EQ(contents.jobs, batch.jobs);
    EXPECT_EQ(contents.plans, *batch.plans);
    ASSERT_EQ(contents.preemptions.size(), 1U);
    batch.preemptions[0].id = contents.preemptions[0].id;
    EXPECT_GT(contents.preemptions[0].id, 0);
    EXPECT_EQ(contents.preemptions, batch.preemptions);
    EXPECT_EQ(contents.capacity, batch.capacity);
    EXPECT_EQ(contents.first_allocated_at, 2000);
}

TEST_F(LedgerDatabaseTest, what_was_written_is_there_after_a_restart) {
    {
        LedgerDatabase ledger = open_ledger();
        EXPECT_EQ(ledger.set_aside(), "");
        EXPECT_EQ(ledger.opened_version(), kLedgerSchemaVersion);
        apply(ledger, whole_batch());
        expect_whole_batch(load(ledger));
    }
    LedgerDatabase again = open_ledger();
    EXPECT_EQ(again.epoch(), 2);
    expect_whole_batch(load(again));
}

TEST_F(LedgerDatabaseTest, a_batch_written_twice_changes_nothing) {
    LedgerDatabase ledger = open_ledger();
    apply(ledger, whole_batch());
    apply(ledger, whole_batch());
    expect_whole_batch(load(ledger));
}

TEST_F(LedgerDatabaseTest, a_late_begin_does_not_open_a_closed_segment_again) {
    LedgerDatabase ledger = open_ledger();
    const SegmentRow row = segment_row(1, 2000);
    LedgerBatch begin, end;
    begin.begun = {row};
    end.ended = {closed_row(row, 2600)};
    apply(ledger, begin);
    apply(ledger, end);
    apply(ledger, begin);
    const LedgerContents contents = load(ledger);
    EXPECT_TRUE(contents.open.empty());
    ASSERT_EQ(contents.closed.size(), 1U);
    EXPECT_EQ(contents.closed[0].charged_until, 2600);
    EXPECT_LT(contents.closed[0].begun_batch, contents.closed[0].ended_batch);
}

TEST_F(LedgerDatabaseTest, an_open_segment_takes_changes_and_a_closed_one_a_later_refund) {
    LedgerDatabase ledger = open_ledger();
    SegmentRow row = segment_row(1, 2000);
    row.ready_at = row.protected_until = 0;
    row.leaving_for = 0;
    LedgerBatch batch;
    batch.begun = {row};
    apply(ledger, batch);
    row = segment_row(1, 2000);
    batch.begun = {row};
    apply(ledger, batch);
    EXPECT_EQ(load(ledger).open, std::vector<SegmentRow>{row});

    LedgerBatch end;
    end.ended = {closed_row(row, 5000)};
    apply(ledger, end);
    end.ended = {closed_row(row, 5000, 1800)};
    apply(ledger, end);
    const LedgerContents contents = load(ledger);
    ASSERT_EQ(contents.closed.size(), 1U);
    EXPECT_EQ(contents.closed[0].charged_until, 3200);
    const auto whole = ledger.segments(0, 10000, 10);
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(*whole, end.ended);
}

TEST_F(LedgerDatabaseTest, load_leaves_out_what_ended_before_the_window) {
    LedgerDatabase ledger = open_ledger();
    LedgerBatch batch;
    batch.ended = {closed_row(segment_row(1, 1000), 2000), closed_row(segment_row(2, 1000), 2001),
                   closed_row(segment_row(3, 1500), 2500, 600)};
    batch.capacity = {{1000, 1}, {1500, 2}, {2500, 3}};
    batch.preemptions = {preemption_row(1, 9, 1999), preemption_row(2, 9, 2000)};
    apply(ledger, batch);
    const LedgerContents contents = load(ledger, 2000);
    ASSERT_EQ(contents.closed.size(), 1U);
    EXPECT_EQ(contents.closed[0].key.job_id, 2U);
    EXPECT_EQ(contents.capacity, (std::vector<CapacityRow>{{1500, 2}, {2500, 3}}));
    ASSERT_EQ(contents.preemptions.size(), 1U);
    EXPECT_EQ(contents.preemptions[0].victim, 2U);
    EXPECT_EQ(contents.first_allocated_at, 1000);
}

TEST_F(LedgerDatabaseTest, trees_come_from_the_one_that_held_at_the_window_s_begin) {
    LedgerDatabase ledger = open_ledger();
    const auto edit = [](std::int64_t number, std::int64_t at, BudgetTree tree) {
        TreeEditRow row;
        row.number = number;
        row.at = at;
        row.user = "root";
        row.tree = std::move(tree);
        return row;
    };
    const BudgetTree first = tree_of({budget("a", 1), budget("b", 1)});
    const BudgetTree second = tree_of({budget("a", 2), budget("b", 1), budget("c", 3, "b")});
    const BudgetTree third = tree_of({budget("a", 2)});
    const BudgetTree fourth = tree_of({budget("a", 2), budget("b", 9)});
    for (const auto& [number, tree] : {std::pair{1, first}, {2, second}, {3, third}, {4, fourth}}) {
        LedgerBatch batch;
        batch.edits = {edit(number, number * 1000, tree)};
        apply(ledger, batch);
    }
    const LedgerContents contents = load(ledger, 2500);
    ASSERT_EQ(contents.trees.size(), 3U);
    EXPECT_EQ(contents.trees[0].tree, second);
    EXPECT_EQ(contents.trees[1].tree, third);
    EXPECT_EQ(contents.trees[2].tree, fourth);
    EXPECT_EQ(contents.last_edit_number, 4);
    EXPECT_EQ(load(ledger, 0).trees.size(), 4U);
}

TEST_F(LedgerDatabaseTest, edits_and_preemptions_are_listed_newest_first) {
    LedgerDatabase ledger = open_ledger();
    LedgerBatch batch = whole_batch();
    TreeEditRow second = batch.edits[0];
    second.number = 2;
    second.at = 1500;
    second.reason = "";
    second.changes = {{"projA", "shares", "35", "40"}};
    batch.edits.push_back(second);
    batch.preemptions.push_back(preemption_row(4, 78, 3900));
    apply(ledger, batch);
    const auto edits = ledger.edits(0, 2000, 10);
    ASSERT_TRUE(edits.ok());
    ASSERT_EQ(edits->size(), 2U);
    EXPECT_EQ((*edits)[0].number, 2);
    EXPECT_EQ((*edits)[0].changes[0].after, "40");
    EXPECT_EQ((*edits)[1].changes.size(), 2U);
    EXPECT_EQ((*edits)[1].reason, "the first tree");
    EXPECT_EQ(ledger.edits(1001, 2000, 10).value().size(), 1U);
    EXPECT_EQ(ledger.edits(0, 2000, 1).value().size(), 1U);
    const auto preemptions = ledger.preemptions(2900, 3900, 10);
    ASSERT_TRUE(preemptions.ok());
    ASSERT_EQ(preemptions->size(), 2U);
    EXPECT_EQ((*preemptions)[0].victim, 4U);
    EXPECT_EQ(ledger.preemptions(2901, 3899, 10).value().size(), 0U);
}

TEST_F(LedgerDatabaseTest, a_preemption_s_outcome_is_added_to_its_record) {
    LedgerDatabase ledger = open_ledger();
    LedgerBatch batch;
    batch.preemptions = {preemption_row(3, 77, 2900)};
    apply(ledger, batch);
    batch.preemptions[0].gone_at = 2960;
    batch.preemptions[0].claimant_started_at = 2961;
    batch.preemptions[0].outcome = "started";
    apply(ledger, batch);
    LedgerContents contents = load(ledger);
    ASSERT_EQ(contents.preemptions.size(), 1U);
    contents.preemptions[0].id = 0;
    EXPECT_EQ(contents.preemptions, batch.preemptions);
}

TEST_F(LedgerDatabaseTest, a_job_s_history_is_found_by_its_id_its_task_or_its_component) {
    LedgerDatabase ledger = open_ledger();
    LedgerBatch batch;
    SegmentRow row = whole_batch().ended.at(0);
    for (const JobId id : {500, 501, 502, 600}) {
        row.key.job_id = id;
        batch.ended.push_back(row);
    }
    batch.parts = {{501, 500, 3, false}, {500, 500, 4, false}, {502, 502, 0, true}};
    batch.preemptions = {preemption_row(501, 600, 2900)};
    apply(ledger, batch);
    const auto ids = [&](std::uint32_t id, std::int64_t part, bool is_component) {
        const auto history = ledger.history(id, part, is_component, 10);
        EXPECT_TRUE(history.ok());
        std::vector<JobId> found;
        for (const SegmentRow& segment : history->segments) {
            found.push_back(segment.key.job_id);
        }
        return found;
    };
    EXPECT_EQ(ids(500, 3, false), (std::vector<JobId>{501}));
    EXPECT_EQ(ids(500, 4, false), (std::vector<JobId>{500}));
    EXPECT_EQ(ids(500, -1, false), (std::vector<JobId>{500, 501}));
    EXPECT_EQ(ids(502, 0, true), (std::vector<JobId>{502}));
    EXPECT_EQ(ids(502, 0, false), std::vector<JobId>());
    EXPECT_EQ(ids(600, -1, false), (std::vector<JobId>{600}));
    EXPECT_EQ(ids(999, -1, false), std::vector<JobId>());
    ASSERT_EQ(ledger.history(500, 3, false, 10)->preemptions.size(), 1U);
    // As claimant, too.
    ASSERT_EQ(ledger.history(600, -1, false, 10)->preemptions.size(), 1U);
}

TEST_F(LedgerDatabaseTest, plans_are_replaced_as_a_whole_or_left_alone) {
    LedgerDatabase ledger = open_ledger();
    apply(ledger, whole_batch());
    apply(ledger, LedgerBatch{});
    EXPECT_EQ(load(ledger).plans.size(), 1U);
    LedgerBatch none;
    none.plans.emplace();
    none.jobs_gone = {1};
    apply(ledger, none);
    EXPECT_TRUE(load(ledger).plans.empty());
    EXPECT_EQ(load(ledger).jobs, (std::vector<JobRow>{{3, 1900, 1, 3600, 77, 0, kNever}}));
}

TEST_F(LedgerDatabaseTest, a_batch_with_a_mistake_is_not_written_at_all) {
    LedgerDatabase ledger = open_ledger();
    LedgerBatch batch = whole_batch();
    batch.edits[0].number = 5;
    apply(ledger, batch);
    LedgerBatch wrong;
    wrong.begun = {segment_row(9, 9000, "unheard-of")};
    wrong.edits = {whole_batch().edits[0]};
    wrong.edits[0].number = 4;
    const Status status = ledger.apply(wrong);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().find("edit 4"), std::string::npos) << status.error();
    EXPECT_EQ(load(ledger).open.size(), 2U);
    // A name that the lost transaction had met is met again.
    wrong.edits.clear();
    apply(ledger, wrong);
    EXPECT_EQ(load(ledger).open.back().budget, "unheard-of");
}

TEST_F(LedgerDatabaseTest, appended_batches_are_as_good_as_written_one_by_one) {
    LedgerDatabase ledger = open_ledger();
    LedgerBatch first = whole_batch(), second;
    second.jobs = {{1, 1900, 4, kNever, 0}};
    second.ended = {closed_row(segment_row(1, 2000), 4000)};
    second.plans.emplace();
    first.jobs_gone = {1, 3};
    first.append(second);
    apply(ledger, first);
    const LedgerContents contents = load(ledger);
    EXPECT_EQ(contents.jobs, second.jobs);
    EXPECT_EQ(contents.open.size(), 1U);
    EXPECT_EQ(contents.closed.size(), 2U);
    EXPECT_TRUE(contents.plans.empty());
}

TEST_F(LedgerDatabaseTest, the_second_opener_wins_and_the_first_writes_no_more) {
    LedgerDatabase first = open_ledger();
    apply(first, whole_batch());
    LedgerDatabase second = open_ledger();
    LedgerBatch batch;
    batch.begun = {segment_row(8, 8000)};
    EXPECT_FALSE(first.fenced());
    const Status status = first.apply(batch);
    EXPECT_TRUE(first.fenced());
    EXPECT_FALSE(second.fenced());
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().find("another controller has opened it since (epoch 2, ours is 1)"),
              std::string::npos)
        << status.error();
    EXPECT_FALSE(first.load(0, 0).ok());
    EXPECT_EQ(load(second).open.size(), 2U);
    apply(second, batch);
    EXPECT_EQ(load(second).open.size(), 3U);
    EXPECT_FALSE(first.apply(batch).ok());
}

TEST_F(LedgerDatabaseTest, opening_anew_does_not_take_the_file_back_from_another_owner) {
    std::int64_t epoch = 0;
    {
        LedgerDatabase first = open_ledger();
        epoch = first.epoch();
    }
    {
        Result<LedgerDatabase> again = LedgerDatabase::open(path_, kNow, epoch);
        ASSERT_TRUE(again.ok());
        EXPECT_GT(again->epoch(), epoch);
        epoch = again->epoch();
    }
    LedgerDatabase other = open_ledger();
    const Result<LedgerDatabase> refused = LedgerDatabase::open(path_, kNow, epoch);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().find("another controller"), std::string::npos);
    apply(other, whole_batch());
}

TEST_F(LedgerDatabaseTest, a_locked_file_is_an_error_and_works_again_later) {
    LedgerDatabase ledger = open_ledger();
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
    const Status status = ledger.apply(whole_batch());
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().find("in use by another program"), std::string::npos);
    EXPECT_FALSE(LedgerDatabase::open(path_, kNow).ok());
    sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr);
    sqlite3_close(other);
    apply(ledger, whole_batch());
    expect_whole_batch(load(ledger));
}

TEST_F(LedgerDatabaseTest, a_file_that_is_no_database_is_set_aside) {
    const std::string rubbish(10000, 'x');
    std::ofstream(path_) << rubbish;
    {
        LedgerDatabase ledger = open_ledger();
        EXPECT_EQ(ledger.set_aside(), path_ + ".corrupt-20231114T221320");
        EXPECT_NE(ledger.set_aside_reason(), "");
        std::ifstream kept(ledger.set_aside());
        EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), rubbish);
        apply(ledger, whole_batch());
        expect_whole_batch(load(ledger));
    }
    std::ofstream(path_) << rubbish;
    LedgerDatabase again = open_ledger();
    EXPECT_EQ(again.set_aside(), path_ + ".corrupt-20231114T221320-2");
    EXPECT_TRUE(load(again).open.empty());
}

TEST_F(LedgerDatabaseTest, a_file_with_a_damaged_page_is_set_aside) {
    {
        LedgerDatabase ledger = open_ledger();
        LedgerBatch batch;
        for (JobId id = 1; id <= 2000; ++id) {
            batch.begun.push_back(segment_row(id, 2000));
        }
        apply(ledger, batch);
    }
    const auto size = std::filesystem::file_size(path_);
    {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(size / 2 / 4096 * 4096));
        file << std::string(4096, '\xff');
    }
    LedgerDatabase ledger = open_ledger();
    EXPECT_NE(ledger.set_aside(), "");
    EXPECT_TRUE(load(ledger).open.empty());
    apply(ledger, whole_batch());
}

TEST_F(LedgerDatabaseTest, a_truncated_file_is_set_aside_and_an_empty_one_begun) {
    {
        LedgerDatabase ledger = open_ledger();
        apply(ledger, whole_batch());
    }
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
    EXPECT_NE(open_ledger().set_aside(), "");
    std::filesystem::resize_file(path_, 0);
    LedgerDatabase ledger = open_ledger();
    EXPECT_EQ(ledger.set_aside(), "");
    apply(ledger, whole_batch());
}

TEST_F(LedgerDatabaseTest, an_older_schema_is_brought_up_to_date_and_keeps_its_rows) {
    run_sql(std::string(ledger_schema_step(1)) +
            "PRAGMA application_id=" + std::to_string(kLedgerApplicationId) +
            "; PRAGMA user_version=1;"
            "UPDATE owner SET epoch = 41, batch = 7;"
            "INSERT INTO name VALUES (1, 'projA'), (2, 'alice'), (3, 'gpu');"
            "INSERT INTO segment VALUES (1, 5, 900, 1000, 2000, 1900, 0, 8000, 1, 2, 1, 3, 'old', "
            "8, 'n1', 1, 1, 0, 0, 3600, 1000, 4600, 1, 0, 'completed', 6, 7);"
            "INSERT INTO first_use VALUES (1, 1000, 1000);");
    {
        LedgerDatabase ledger = open_ledger();
        EXPECT_EQ(ledger.set_aside(), "");
        EXPECT_EQ(ledger.opened_version(), 1);
        EXPECT_EQ(ledger.epoch(), 42);
        const LedgerContents contents = load(ledger);
        ASSERT_EQ(contents.closed.size(), 1U);
        EXPECT_EQ(contents.closed[0].key.job_id, 5U);
        EXPECT_EQ(contents.closed[0].charged_until, 1900);
        LedgerBatch batch;
        batch.preemptions = {preemption_row(5, 6, 2000)};
        batch.capacity = {{2000, 8000}};
        apply(ledger, batch);
        EXPECT_EQ(load(ledger).preemptions.size(), 1U);
    }
    EXPECT_EQ(open_ledger().opened_version(), kLedgerSchemaVersion);
}

TEST_F(LedgerDatabaseTest, a_newer_schema_and_a_stranger_s_database_are_refused_untouched) {
    { open_ledger(); }
    run_sql("PRAGMA user_version=99");
    const auto newer = LedgerDatabase::open(path_, kNow);
    ASSERT_FALSE(newer.ok());
    EXPECT_NE(newer.error().find("version 99"), std::string::npos) << newer.error();

    std::filesystem::remove(path_);
    run_sql("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')");
    const auto foreign = LedgerDatabase::open(path_, kNow);
    ASSERT_FALSE(foreign.ok());
    EXPECT_NE(foreign.error().find("another program"), std::string::npos) << foreign.error();
    run_sql("INSERT INTO recipes VALUES ('bread')");
}

TEST_F(LedgerDatabaseTest, a_missing_folder_is_named) {
    const auto opened = LedgerDatabase::open(folder_ + "/nowhere/usage.db", kNow);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().find(folder_ + "/nowhere/usage.db"), std::string::npos);
    EXPECT_NE(opened.error().find("No such file"), std::string::npos) << opened.error();
}

TEST_F(LedgerDatabaseTest, only_its_owner_can_read_the_file) {
    { open_ledger(); }
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(LedgerDatabaseTest, nothing_is_left_beside_the_file_while_nobody_writes) {
    LedgerDatabase ledger = open_ledger();
    apply(ledger, whole_batch());
    EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
    EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
    if (std::filesystem::exists(path_ + "-journal")) {
        EXPECT_EQ(std::filesystem::file_size(path_ + "-journal"), 0U);
    }
}

TEST_F(LedgerDatabaseTest, changes_of_contracts_are_kept_once_each_the_newest_first) {
    LedgerBatch batch;
    batch.contract_edits = {
        {5000, 5, "ann", 12, "12_3", "ann", "", {{"min-runtime", "01:00:00", "02:00:00"}}},
        {6000,
         6,
         "root",
         12,
         "12",
         "ann",
         "asked by mail",
         {{"resumable", "no", "yes"}, {"free-first", "no", "yes"}}}};
    {
        LedgerDatabase ledger = open_ledger();
        apply(ledger, batch);
        apply(ledger, batch);
    }
    LedgerDatabase ledger = open_ledger();
    const auto all = ledger.contract_edits(100);
    ASSERT_TRUE(all.ok()) << all.error();
    EXPECT_EQ(*all,
              (std::vector<ContractEditRow>{batch.contract_edits[1], batch.contract_edits[0]}));
}

TEST_F(LedgerDatabaseTest, a_transaction_that_died_half_way_is_rolled_back_at_the_next_open) {
    std::filesystem::path copy = folder_ + "/copy.db";
    {
        LedgerDatabase ledger = open_ledger();
        apply(ledger, whole_batch());
    }
    {
        // The state on disk while another process is inside a large transaction.
        sqlite3* raw = nullptr;
        ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
        ASSERT_EQ(
            sqlite3_exec(raw,
                         "PRAGMA cache_size=5; PRAGMA cache_spill=1; BEGIN; "
                         "DELETE FROM segment; "
                         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                         "WHERE i < 5000) INSERT INTO job SELECT i + 10, 0, 0, 0, 0, 0, 0 FROM n;",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
        std::filesystem::copy_file(path_, copy);
        std::filesystem::copy_file(path_ + "-journal", copy.string() + "-journal");
        EXPECT_GT(std::filesystem::file_size(copy.string() + "-journal"), 0U);
        sqlite3_close(raw);
    }
    path_ = copy;
    LedgerDatabase ledger = open_ledger();
    EXPECT_EQ(ledger.set_aside(), "");
    expect_whole_batch(load(ledger));
}

TEST_F(LedgerDatabaseTest, a_replayed_ledger_charges_every_run_once) {
    LedgerDatabase ledger = open_ledger();
    apply(ledger, whole_batch());
    apply(ledger, whole_batch());
    UsageLedger::Rules rules;
    rules.window.length_seconds = 50000;
    UsageLedger usage(rules);
    replay(load(ledger), usage);
    const Standings& standings = usage.standings(4000);
    // Job 1: 2000 s at 16 weighted GPUs; job 3: 400 s, 600 were refunded.
    const auto plain = [&](const char* budget) {
        return static_cast<std::int64_t>(
            standings.sides[2 * usage.find_budget(budget)].usage.plain[0]);
    };
    EXPECT_EQ(plain("projA"), 2000 * 16000);
    EXPECT_EQ(plain("projB"), 400 * 16000);
    EXPECT_EQ(usage.open_count(), 2U);
    // What slurmctld reports again is known.
    EXPECT_FALSE(usage.begin(segment_row(1, 2000).segment()));
    EXPECT_FALSE(usage.begin(segment_row(3, 2000, "projB").segment()));
}

}  // namespace
}  // namespace tranche
