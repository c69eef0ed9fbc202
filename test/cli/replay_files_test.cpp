// SPDX-License-Identifier: GPL-2.0-or-later
// What sreplay reads: jobs in three formats, clusters, budgets, events, rules; good and bad.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "common/base/quoted.hpp"
#include "sim/assume.hpp"
#include "sim/budgets_file.hpp"
#include "sim/calendar.hpp"
#include "sim/cluster_file.hpp"
#include "sim/events_file.hpp"
#include "sim/inject.hpp"
#include "sim/random.hpp"
#include "sim/rule_words.hpp"
#include "sim/workload_file.hpp"
#include "tools/input_file.hpp"

namespace tranche::sim {
namespace {

std::string test_file(const std::string& name) {
    return std::string(TRANCHE_SOURCE_DIR) + "/test/data/" + name;
}

ReadWorkload read_good(const std::string& text,
                       std::optional<WorkloadFormat> format = std::nullopt) {
    auto read = read_workload(text, "f", format);
    EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error());
    return read.ok() ? std::move(*read) : ReadWorkload();
}

std::string mistakes_of(const std::string& text,
                        std::optional<WorkloadFormat> format = std::nullopt) {
    const auto read = read_workload(text, "f", format);
    EXPECT_FALSE(read.ok()) << text;
    return read.ok() ? "" : read.error();
}

Budget budget_of(const std::string& name) {
    Budget budget;
    budget.name = name;
    return budget;
}

SimCluster of_size(const std::string& size) {
    const auto cluster = parse_cluster(size);
    EXPECT_TRUE(cluster.ok()) << size;
    return cluster.ok() ? *cluster : SimCluster();
}

bool has_note(const ReadWorkload& read, const std::string& note) {
    return std::find(read.notes.begin(), read.notes.end(), note) != read.notes.end();
}

ReadWorkload read_slice(const std::string& name) {
    const auto file = InputFile::open(test_file(name));
    EXPECT_TRUE(file.ok());
    return read_good(std::string(file->text()));
}

TEST(WorkloadCsv, columns_stand_in_any_order_and_what_is_not_said_has_its_default) {
    const ReadWorkload read = read_good(
        "runtime,gpus,submit,job_id,min_runtime,resumable,team_priority,name,time_limit\r\n"
        "1:00:00,8,60,J1,30m,1,high,\"a, \"\"b\"\"\",unlimited\r\n"
        "# a remark\r\n"
        "\r\n"
        "90,1,0,,,,,,\r\n");
    ASSERT_EQ(read.jobs.size(), 2U);
    const WorkloadJob& late = read.jobs[1];
    EXPECT_EQ(late.id, "J1");
    EXPECT_EQ(late.submit_at, 60);
    EXPECT_EQ(late.gpus, 8);
    EXPECT_EQ(late.runtime_seconds, 3600);
    EXPECT_EQ(late.min_runtime_seconds, 1800);
    EXPECT_TRUE(late.resumable && late.says_resumable);
    EXPECT_EQ(late.team_priority, TeamPriority::high);
    EXPECT_EQ(late.name, "a, \"b\"");
    EXPECT_EQ(late.time_limit_seconds, kNever);
    const WorkloadJob& early = read.jobs[0];
    EXPECT_EQ(early.id, "L5");  // its line
    EXPECT_FALSE(early.min_runtime_seconds.has_value());
    EXPECT_FALSE(early.resumable || early.says_resumable);
    EXPECT_EQ(early.exit_seconds, 30);
    EXPECT_TRUE(read.says_contracts);
    EXPECT_FALSE(read.zero_at.has_value());
}

TEST(WorkloadCsv, instants_of_the_calendar_are_utc_unless_they_name_a_zone) {
    const ReadWorkload read =
        read_good("submit,gpus,runtime\n2024-05-01T12:30:00,1,5\n2024-05-01 14:30:00+02:00,1,6\n");
    ASSERT_EQ(read.jobs.size(), 2U);
    EXPECT_EQ(read.jobs[0].submit_at, 1714566600);
    EXPECT_EQ(read.jobs[1].submit_at, 1714566600);
    EXPECT_EQ(read.zero_at, 1714521600);  // that midnight
    EXPECT_EQ(*parse_instant("1d", read.zero_at), 1714521600 + 86400);
    EXPECT_EQ(*parse_instant("2024-05-03", read.zero_at), 1714521600 + 2 * 86400);
    EXPECT_FALSE(parse_instant("2024-05-03", std::nullopt).ok());
    EXPECT_EQ(format_calendar(1714566600), "2024-05-01T12:30:00");
    EXPECT_EQ(parse_calendar("2023-02-29"), std::nullopt);
    EXPECT_EQ(parse_calendar("1969-12-31T23:59:59Z"), -1);
    EXPECT_EQ(format_calendar(-1), "1969-12-31T23:59:59");
}

TEST(WorkloadCsv, headers_of_published_traces_are_known) {
    const ReadWorkload helios = read_good(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
        "queue\n"
        "17,u1,vc2,8,64,1,COMPLETED,2020-04-01 00:08:31,2020-04-01 00:09:31,x,600,60\n"
        "18,u1,vc2,0,64,1,COMPLETED,2020-04-01 00:08:31,x,x,600,60\n");
    ASSERT_EQ(helios.jobs.size(), 1U);
    EXPECT_EQ(helios.jobs[0].account, "vc2");
    EXPECT_EQ(helios.jobs[0].gpus, 8);
    EXPECT_EQ(helios.jobs[0].nodes, 1);
    EXPECT_EQ(helios.jobs[0].runtime_seconds, 600);
    EXPECT_NE(helios.notes.back().find("1 job without GPUs"), std::string::npos);
    const ReadWorkload acme = read_good(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,"
        "duration,queue,gpu_time\n"
        "a1,u9,2,16,100,Pretrain,FAILED,2023-03-01 08:00:00+08:00,x,x,700.0,5,11200.0\n");
    ASSERT_EQ(acme.jobs.size(), 1U);
    EXPECT_EQ(acme.jobs[0].wait_class, "pretrain");
    EXPECT_EQ(acme.jobs[0].gpus, 16);
    EXPECT_EQ(acme.jobs[0].nodes, 2);
    EXPECT_TRUE(acme.jobs[0].gpu_type.empty());
    const ReadWorkload spot = read_good(
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
        "job_type\n"
        "j1,org_1,A100,12,0.5,4,3600,120,Spot\n"
        "j2,org_1,A100,12,8,2,3700,120,HP\n");
    ASSERT_EQ(spot.jobs.size(), 2U);
    EXPECT_EQ(spot.jobs[0].gpus, 4);  // a part of a GPU is a whole one
    EXPECT_EQ(spot.jobs[0].min_runtime_seconds, 0);
    EXPECT_EQ(spot.jobs[0].gpu_type, "A100");
    EXPECT_EQ(spot.jobs[1].gpus, 16);
    EXPECT_FALSE(spot.jobs[1].min_runtime_seconds.has_value());
}

TEST(WorkloadCsv, unsorted_jobs_are_sorted_and_ties_keep_the_order_of_the_file) {
    const ReadWorkload read =
        read_good("job_id,submit,gpus,runtime\nc,9,1,1\na,3,1,1\nd,9,1,1\nb,3,1,1\n");
    std::string order;
    for (const WorkloadJob& job : read.jobs) {
        order += job.id;
    }
    EXPECT_EQ(order, "abcd");
    EXPECT_EQ(read.origins[2].line, 2U);
}

TEST(WorkloadCsv, each_mistake_is_told_with_its_line_and_what_would_be_right) {
    const std::string head = "submit,gpus,runtime\n";
    const struct {
        std::string text, told;
    } cases[] = {
        {"", "f: is empty"},
        {"\n\n", "f: is empty"},
        {head, "f: there is no job in it"},
        {"submit,gpus\n", "f:1: there is no column runtime; submit, gpus and runtime must"},
        {"gpus,colour\n",
         "f:1: column 'colour' is not known; known are job_id, submit, account, user"},
        {"gpus,gpus,submit,runtime\n", "f:1: column 'gpus' is there twice"},
        {head + "0,1\n", "f:2: has 2 fields; the header has 3"},
        {head + "0,1,5\n-1,1,5\n", "f:3: submit '-1': a number of seconds from 0"},
        {head + "now,1,5\n", "f:2: submit 'now': a number of seconds or an instant as"},
        {head + ",1,5\n", "f:2: submit '': a value would be right"},
        {head + "0,-3,5\n", "f:2: gpus '-3': a number from 0 to 1000000 would be right"},
        {head + "0,1e99,5\n", "f:2: gpus '1e99'"},
        {head + "0,9999999999999999999999,5\n", "f:2: gpus '9999999999999999999999'"},
        {head + "0,1,-5\n", "f:2: runtime '-5'"},
        {head + "0,1,nan\n", "f:2: runtime 'nan'"},
        {head + "0,1,99999999999999\n", "f:2: runtime '99999999999999'"},
        {head + "0,0,5\n", "f: no job is left: 1 without GPUs, 0 never ran"},
        {head + "0,1,5\n800000000,1,5\n", "f:3: submitted 25 years after the first job"},
        {"submit,gpus,runtime,nodes\n0,2,5,4\n", "f:2: 2 GPUs on 4 nodes"},
        {"submit,gpus,runtime,nodes\n0,2,5,0\n", "f:2: nodes '0': a number from 1"},
        {"submit,gpus,runtime,resumable\n0,2,5,maybe\n", "f:2: resumable 'maybe': 1 or 0"},
        {"submit,gpus,runtime,team_priority\n0,2,5,max\n", "f:2: team_priority 'max': low, normal"},
        {"job_id,submit,gpus,runtime\n7,0,1,5\n8,1,1,5\n7,2,1,5\n",
         "f:4: job_id '7' is that of line 2 already"},
        {head + "0,1,\"5\n", "f:2: a double quote is opened and not closed"},
        {head + "0,1,5\n2024-05-01,1,5\n", "f: some submissions are calendar instants"},
        {std::string("ab\0c", 4), "f:1: this is not a text"},
        {"submit,gpus,runtime\n\x01\x02\x03\n", "f:2: this is not a text"},
    };
    for (const auto& each : cases) {
        const std::string told = mistakes_of(each.text);
        EXPECT_TRUE(told.starts_with(each.told))
            << each.told << "\n  is not how it begins: " << told;
    }
}

TEST(WorkloadCsv, a_part_of_a_gpu_is_a_whole_one_and_said) {
    const ReadWorkload read = read_good("submit,gpus,runtime\n0,0.5,60\n1,1.2,60\n2,8.0,60\n");
    EXPECT_EQ(read.jobs[0].gpus, 1);
    EXPECT_EQ(read.jobs[1].gpus, 2);
    EXPECT_EQ(read.jobs[2].gpus, 8);
    EXPECT_TRUE(has_note(read, "2 jobs ask for a part of a GPU and get a whole one"));
}

TEST(WorkloadCsv, a_job_that_outran_its_limit_has_its_runtime_for_a_limit) {
    const ReadWorkload read =
        read_good("submit,gpus,runtime,time_limit\n0,1,61,60\n1,1,60,60\n2,1,9,unlimited\n");
    EXPECT_EQ(read.jobs[0].time_limit_seconds, 61);
    EXPECT_EQ(read.jobs[1].time_limit_seconds, 60);
    EXPECT_EQ(read.jobs[2].time_limit_seconds, kNever);
    EXPECT_TRUE(
        has_note(read, "1 job ran longer than its time limit, which is raised to its runtime"));
}

TEST(WorkloadCsv, other_separators_are_named) {
    EXPECT_EQ(mistakes_of("submit;gpus;runtime\n0;1;5\n"),
              "f:1: the columns are separated by ';'; ',' would be right");
    EXPECT_EQ(mistakes_of("submit\tgpus\truntime\n0\t1\t5\n"),
              "f:1: the columns are separated by tabs; ',' would be right");
}

TEST(WorkloadCsv, twenty_mistakes_are_told_and_how_many_more_there_are) {
    std::string text = "submit,gpus,runtime\n";
    for (int i = 0; i < 123; ++i) {
        text += "x,1,1\n";
    }
    const std::string told = mistakes_of(text);
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 20);
    EXPECT_NE(told.find("f:21: submit 'x'"), std::string::npos);
    EXPECT_EQ(told.find("f:22:"), std::string::npos);
    EXPECT_TRUE(told.ends_with("\n\u2026 and 103 more")) << told;
}

TEST(WorkloadCsv, a_text_of_strangers_is_quoted_and_cut) {
    const std::string told = mistakes_of(
        "submit,gpus,runtime\n" + std::string(100000, 'x') + "\t\x7f,1,1\n", WorkloadFormat::csv);
    EXPECT_LT(told.size(), 300U);
}

TEST(WorkloadSacct, steps_are_left_out_and_restarts_are_one_job) {
    const ReadWorkload read = read_good(
        "JobID|JobName|Submit|Start|End|Account|User|AllocTRES|NNodes|ElapsedRaw|TimelimitRaw|"
        "State\n"
        "12|train|2024-05-01T12:30:00|2024-05-01T12:31:00|2024-05-01T13:31:00|acc|bob|"
        "billing=8,cpu=8,gres/gpu:h100=4,gres/gpu=4,mem=10G,node=1|1|3600|120|PREEMPTED\n"
        "12.batch|batch|2024-05-01T12:30:00|2024-05-01T12:31:00|x|acc||cpu=8,gres/gpu=4|1|3600||"
        "COMPLETED\n"
        "12|train|2024-05-01T13:31:00|2024-05-01T14:31:00|2024-05-01T16:31:00|acc|bob|gres/gpu=4|"
        "1|7200|120|COMPLETED\n"
        "13_4|a|2024-05-01T11:00:00|2024-05-01T12:31:00|Unknown|acc|eve|cpu=8,gres/gpu=2|2|60|"
        "UNLIMITED|RUNNING\n"
        "14|p|2024-05-01T11:00:00|Unknown|Unknown|acc|eve|cpu=8,gres/gpu=2|1|0|60|PENDING\n"
        "15|c|2024-05-01T11:00:00|2024-05-01T12:31:00|x|acc|eve|cpu=8|1|60|60|COMPLETED\n");
    ASSERT_EQ(read.jobs.size(), 2U);
    EXPECT_EQ(read.jobs[0].id, "13_4");
    EXPECT_EQ(read.jobs[0].array, "13");
    EXPECT_EQ(read.jobs[0].time_limit_seconds, kNever);
    EXPECT_EQ(read.jobs[0].nodes, 2);
    const WorkloadJob& train = read.jobs[1];
    EXPECT_EQ(train.runtime_seconds, 10800);
    EXPECT_EQ(train.time_limit_seconds, 10800);  // held for each of the two runs
    EXPECT_EQ(train.gpu_type, "h100");
    EXPECT_EQ(train.gpus, 4);
    EXPECT_EQ(train.user, "bob");
    EXPECT_EQ(train.submit_at, *parse_calendar("2024-05-01T12:30:00"));
    std::string notes;
    for (const std::string& note : read.notes) {
        notes += note + "\n";
    }
    EXPECT_NE(notes.find("1 job without GPUs"), std::string::npos) << notes;
    EXPECT_NE(notes.find("1 job that never ran"), std::string::npos) << notes;
    EXPECT_NE(notes.find("1 job still runs"), std::string::npos) << notes;
    EXPECT_NE(notes.find("1 row of jobs that were restarted"), std::string::npos) << notes;
}

TEST(WorkloadSacct, each_mistake_is_told_with_its_line) {
    const std::string head = "JobID|Submit|AllocTRES|ElapsedRaw\n";
    EXPECT_NE(mistakes_of("JobID|Submit\n1|2\n").find("f:1: there is no column AllocTRES"),
              std::string::npos);
    EXPECT_NE(mistakes_of(head + "1|2024-05-01T00:00:00|gres/gpu=1\n").find("f:2: has 3 fields"),
              std::string::npos);
    EXPECT_NE(mistakes_of(head + "x|2024-05-01T00:00:00|gres/gpu=1|5\n").find("f:2: JobID 'x'"),
              std::string::npos);
    EXPECT_NE(mistakes_of(head + "1|yesterday|gres/gpu=1|5\n").find("f:2: Submit 'yesterday'"),
              std::string::npos);
    EXPECT_NE(mistakes_of(head + "1|2024-05-01T00:00:00|gres/gpu=1|-5\n").find("f:2: ElapsedRaw"),
              std::string::npos);
}

TEST(WorkloadSwf, the_slice_of_hpc2n_is_read) {
    const ReadWorkload read = read_slice("hpc2n-300.swf");
    EXPECT_EQ(read.jobs.size(), 293U);
    EXPECT_EQ(read.jobs[0].gpus, 30);
    EXPECT_EQ(read.jobs[0].runtime_seconds, 31405);
    EXPECT_EQ(read.jobs[0].time_limit_seconds, 37980);
    EXPECT_EQ(read.jobs[0].user, "u1");
    EXPECT_EQ(read.jobs[0].account, "g1");
    EXPECT_TRUE(has_note(read, "6 jobs that never ran, or for an unknown time, are left out"));
}

TEST(WorkloadSacct, a_table_without_bars_is_known_for_what_it_is) {
    const std::string table =
        "JobID           JobName     Submit\n------------ ---------- ----------\n1  a  b\n";
    for (const auto format :
         {std::optional<WorkloadFormat>(), std::optional(WorkloadFormat::sacct)}) {
        EXPECT_TRUE(mistakes_of(table, format)
                        .starts_with("f:1: this is a table as sacct prints it without -P"))
            << mistakes_of(table, format);
    }
}

TEST(WorkloadSacct, a_name_with_bars_is_read_where_it_is_the_last_column) {
    const std::string rest = "|2024-05-01T00:00:00|gres/gpu=1|5";
    EXPECT_EQ(
        read_good("JobID|Submit|AllocTRES|ElapsedRaw|JobName\n1" + rest + "|a|b|c\n").jobs[0].name,
        "a|b|c");
    EXPECT_EQ(
        read_good("JobID|Submit|AllocTRES|ElapsedRaw|JobName|\n1" + rest + "|a|b|\n").jobs[0].name,
        "a|b");
    EXPECT_NE(mistakes_of("JobID|JobName|Submit|AllocTRES|ElapsedRaw\n1|a|b" + rest + "\n")
                  .find("f:2: has 6 fields; the heading has 5; where a JobName has a '|' in it, "
                        "JobName as the last column of sacct -o would be right"),
              std::string::npos);
}

TEST(WorkloadSacct, a_job_that_outran_its_limit_is_not_cut_by_it) {
    const ReadWorkload read = read_good(
        "JobID|Submit|AllocTRES|ElapsedRaw|TimelimitRaw|State\n"
        "1|2024-05-01T00:00:00|gres/gpu=1|75|1|COMPLETED\n"
        "2|2024-05-01T00:00:00|gres/gpu=1|61|1|COMPLETED\n");
    EXPECT_EQ(read.jobs[0].time_limit_seconds, 75);
    EXPECT_TRUE(has_note(
        read, "2 jobs ran longer than their time limits, which are raised to their runtimes"));
}

TEST(WorkloadSacct, gpus_of_several_types_are_of_any_and_said) {
    const ReadWorkload read = read_good(
        "JobID|Submit|AllocTRES|ElapsedRaw\n"
        "1|2024-05-01T00:00:00|gres/gpu=3,gres/gpu:a100=1,gres/gpu:h100=1,gres/gpu:v100=1|5\n"
        "2|2024-05-01T00:00:00|gres/gpu:a100=2|5\n");
    EXPECT_EQ(read.jobs[0].gpus, 3);
    EXPECT_EQ(read.jobs[0].gpu_type, "");
    EXPECT_EQ(read.jobs[1].gpu_type, "a100");
    EXPECT_TRUE(has_note(read, "1 job had GPUs of several types and may get any"));
}

TEST(WorkloadSacct, a_recycled_id_of_another_user_is_another_job) {
    const ReadWorkload read = read_good(
        "JobID|Submit|Account|User|AllocTRES|ElapsedRaw\n"
        "7|2023-05-01T00:00:00|a|bob|gres/gpu=1|50\n"
        "7|2024-05-01T00:00:00|b|eve|gres/gpu=2|60\n"
        "7|2024-05-01T01:00:00|b|eve|gres/gpu=2|70\n");
    ASSERT_EQ(read.jobs.size(), 2U);
    EXPECT_EQ(read.jobs[0].id, "7");
    EXPECT_EQ(read.jobs[0].runtime_seconds, 50);
    EXPECT_EQ(read.jobs[1].id, "7#2");
    EXPECT_EQ(read.jobs[1].gpus, 2);
    EXPECT_EQ(read.jobs[1].runtime_seconds, 130);
    EXPECT_TRUE(has_note(
        read, "1 job has the JobID of another account's or user's job and is told from it by '#'"));
}

TEST(WorkloadSwf, a_job_that_outran_its_limit_is_not_cut_by_it) {
    const ReadWorkload read = read_good("1 0 5 160 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n");
    EXPECT_EQ(read.jobs[0].time_limit_seconds, 160);
    EXPECT_EQ(read.notes.back(),
              "1 job ran longer than its time limit, which is raised to its runtime");
}

TEST(WorkloadSwf, each_mistake_is_told_with_its_line) {
    const std::string good = "1 0 5 60 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n";
    EXPECT_EQ(read_good("; Version: 2.2\n" + good).jobs.size(), 1U);
    EXPECT_NE(mistakes_of(good + "2 0 5 60 4\n").find("f:2: has 5 fields"), std::string::npos);
    EXPECT_NE(mistakes_of("; x\n2 0 5 a 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n")
                  .find("f:2: run time 'a'"),
              std::string::npos);
    EXPECT_NE(mistakes_of("2 -7 5 60 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n")
                  .find("f:1: submit time '-7'"),
              std::string::npos);
}

TEST(WorkloadFile, the_slice_of_philly_is_read_packed_as_it_is) {
    const ReadWorkload read = read_slice("philly-4-days.csv.gz");
    EXPECT_EQ(read.jobs.size(), 1328U);
    EXPECT_FALSE(read.says_contracts);
    EXPECT_TRUE(
        std::is_sorted(read.jobs.begin(), read.jobs.end(),
                       [](const auto& a, const auto& b) { return a.submit_at < b.submit_at; }));
}

// Whatever bytes come: an answer or mistakes, never a fault.
TEST(WorkloadFile, garbage_is_refused_or_read_and_nothing_else_happens) {
    const std::string seeds[] = {
        "submit,gpus,runtime,nodes,min_runtime\n0,8,100,1,50\n5,\"2\",7,,1h\n",
        "JobID|Submit|AllocTRES|ElapsedRaw|TimelimitRaw\n1|2024-05-01T00:00:00|gres/gpu=1|5|6\n",
        "; c\n1 0 5 60 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n"};
    Random random(7, "garbage");
    for (int round = 0; round < 3000; ++round) {
        std::string text = seeds[random.below(3)];
        for (std::uint64_t change = random.below(8); change > 0; --change) {
            const std::size_t at = random.below(text.size());
            switch (random.below(3)) {
                case 0:
                    text[at] = static_cast<char>(random.below(256));
                    break;
                case 1:
                    text.erase(at, random.below(6));
                    break;
                default:
                    text.insert(at, text.substr(random.below(text.size()), random.below(9)));
            }
            if (text.empty()) {
                break;
            }
        }
        const auto read = read_workload(text, "f");
        if (read.ok()) {
            EXPECT_EQ(read->jobs.size(), read->origins.size());
            EXPECT_FALSE(read->jobs.empty());
        } else {
            EXPECT_TRUE(read.error().starts_with("f:")) << read.error();
        }
    }
}

TEST(InputFile, damaged_and_missing_files_are_one_clear_error) {
    const std::string folder = testing::TempDir();
    const auto error_of = [](const std::string& name) {
        const auto file = InputFile::open(name);
        EXPECT_FALSE(file.ok()) << name;
        return file.ok() ? "" : file.error();
    };
    EXPECT_NE(error_of(folder + "/none").find("No such file"), std::string::npos);
    EXPECT_NE(error_of(folder).find("directory"), std::string::npos);
    std::ifstream whole(test_file("philly-4-days.csv.gz"), std::ios::binary);
    std::string packed((std::istreambuf_iterator<char>(whole)), std::istreambuf_iterator<char>());
    const std::string name = folder + "/tranche-damaged-" + std::to_string(getpid()) + ".gz";
    std::ofstream(name, std::ios::binary) << packed.substr(0, packed.size() / 2);
    EXPECT_NE(error_of(name).find("its end is missing"), std::string::npos);
    packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
    std::ofstream(name, std::ios::binary) << packed;
    EXPECT_NE(error_of(name).find("cannot be unpacked"), std::string::npos);
    const auto short_file = InputFile::open(test_file("philly-4-days.csv.gz"), 1000);
    EXPECT_FALSE(short_file.ok());
    EXPECT_NE(error_of("/dev/zero").find("is not a text: it has control characters"),
              std::string::npos);
    std::remove(name.c_str());
}

TEST(ClusterFile, sizes_types_and_json_are_read) {
    const auto plain = parse_cluster("128x8");
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(plain->nodes.size(), 128U);
    EXPECT_EQ(plain->nodes.back().name, "n128");
    EXPECT_EQ(plain->gpus(), 1024);
    const auto typed = parse_cluster("2x8:h100+1x4:a100");
    ASSERT_TRUE(typed.ok());
    EXPECT_EQ(typed->nodes[2].gpu_type, "a100");
    EXPECT_EQ(typed->gpus(), 20);
    for (const char* bad : {"", "8", "x8", "8x", "0x8", "8x0", "-1x8", "8x8:", "99999999x1",
                            "1x999999999", "8x8+", "50000x100"}) {
        const auto cluster = parse_cluster(bad);
        ASSERT_FALSE(cluster.ok()) << bad;
        EXPECT_NE(cluster.error().find("would be right"), std::string::npos) << cluster.error();
    }
    const auto read = [](const std::string& text) {
        const auto json = parse_json(text, "f");
        return cluster_from_json(*json, "cluster");
    };
    const auto file = read(
        "{\"nodes\": [{\"name\": \"g[08-10,12]\", \"gpus\": 8, \"type\": \"h100\"}], \"boot\": "
        "60}");
    ASSERT_TRUE(file.ok()) << file.error();
    EXPECT_EQ(file->nodes[0].name, "g08");
    EXPECT_EQ(file->nodes[3].name, "g12");
    EXPECT_EQ(file->boot_seconds, 60);
    for (const char* bad :
         {"{}", "{\"nodes\": []}", "{\"nodes\": [{\"name\": \"n1\"}]}",
          "{\"nodes\": [{\"name\": \"n[1-\", \"gpus\": 8}]}",
          "{\"nodes\": [{\"name\": \"n[1-2]\", \"gpus\": 8}, {\"name\": \"n2\", \"gpus\": 8}]}",
          "{\"nodes\": [{\"name\": \"n[1-99999999]\", \"gpus\": 8}]}",
          "{\"nodes\": [{\"name\": \"n1\", \"gpus\": -8}]}",
          "{\"nodes\": [{\"name\": \"n1\", \"gpus\": 8}], \"cycles\": 3}"}) {
        EXPECT_FALSE(read(bad).ok()) << bad;
    }
}

TEST(ClusterFile, a_job_that_the_cluster_can_never_hold_is_a_mistake_with_its_line) {
    const auto cluster = parse_cluster("4x8:h100");
    const auto told = [&](const std::string& row) {
        const ReadWorkload read =
            read_good("job_id,submit,gpus,runtime,nodes,type\nok,0,32,5,,\n" + row);
        const Status status = check_fits(read, *cluster);
        return status.ok() ? std::string() : status.error();
    };
    EXPECT_EQ(told("a,1,32,5,4,h100\n"), "");
    EXPECT_EQ(told("a,1,33,5,,\n"), "f:3: job 'a' asks for 33 GPUs; the cluster has 32");
    EXPECT_EQ(told("a,1,9,5,1,\n"),
              "f:3: job 'a' asks for 9 GPUs on 1 node; the cluster's 4 nodes have at most 8 each");
    EXPECT_EQ(told("a,1,5,5,5,\n"),
              "f:3: job 'a' asks for 5 GPUs on 5 nodes; the cluster's 4 nodes have at most 8 each");
    EXPECT_NE(told("a,1,1,5,,a100\n").find("type 'a100', which the cluster does not have"),
              std::string::npos);
}

TEST(BudgetsFile, mistakes_have_their_lines) {
    const auto told = [](const std::string& text) {
        const auto tree = read_budgets(text, "f");
        EXPECT_FALSE(tree.ok()) << text;
        return tree.ok() ? "" : tree.error();
    };
    EXPECT_TRUE(read_budgets("{\"version\": 1, \"budgets\": [{\"name\": \"a\"}]}", "f").ok());
    EXPECT_NE(told("").find("f is not JSON: line 1"), std::string::npos) << told("");
    EXPECT_NE(told("{\"version\": 1,\n \"budgets\": [\n").find("f is not JSON: line 3"),
              std::string::npos);
    EXPECT_TRUE(told("[]").starts_with("f:1: "));
    EXPECT_EQ(told("{\"version\": 1, \"budgets\": []}"), "f: there is no budget in it");
    const std::string wrong = told(
        "{\"version\": 1, \"budgets\": [\n"
        "  {\"name\": \"a\", \"shares\": -1},\n"
        "  {\"name\": \"b\"},\n"
        "  {\"name\": \"c\", \"share\": 1}]}\n");
    EXPECT_NE(wrong.find("f:2: budget 'a'.shares is -1"), std::string::npos) << wrong;
    EXPECT_NE(wrong.find("f:4: budget 'c' has an unknown key 'share'"), std::string::npos) << wrong;
    const std::string tree = told(
        "{\"version\": 1, \"budgets\": [\n"
        "  {\"name\": \"a\", \"parent\": \"b\"},\n"
        "  {\"name\": \"b\", \"parent\": \"a\"},\n"
        "  {\"name\": \"c\", \"parent\": \"nowhere\"}]}\n");
    EXPECT_NE(tree.find("is below itself"), std::string::npos) << tree;
    EXPECT_NE(tree.find("f:4: budget 'c': its parent 'nowhere' does not exist"), std::string::npos)
        << tree;
}

TEST(EventsFile, events_are_sorted_and_mistakes_have_their_lines) {
    const auto good = read_events(
        "[\n {\"at\": 600, \"do\": \"drain\", \"node\": \"n[1-2]\", \"reason\": "
        "\"gpu-health:x\"},\n"
        " {\"at\": \"5m\", \"do\": \"set_shares\", \"budget\": \"a\", \"shares\": 4}]",
        "f");
    ASSERT_TRUE(good.ok()) << good.error();
    EXPECT_EQ(good->events[0].kind, EventKind::set_shares);
    EXPECT_EQ(good->events[0].at, 300);
    EXPECT_EQ(good->lines[0], 3U);
    EXPECT_EQ(good->events[1].nodes, (std::vector<std::string>{"n1", "n2"}));
    const auto bad = read_events(
        "[\n {\"at\": -1, \"do\": \"restart\"},\n {\"at\": 1, \"do\": \"explode\"},\n 7,\n"
        " {\"at\": 1, \"do\": \"cancel\"},\n"
        " {\"at\": 1, \"do\": \"restart\", \"node\": \"n1\"}]",
        "f");
    ASSERT_FALSE(bad.ok());
    for (const char* told :
         {"f:2: events[0].at", "f:3: events[1].do 'explode'", "f:4: events[2]",
          "f:5: events[3].job is missing", "f:6: events[4] has an unknown key"}) {
        EXPECT_NE(bad.error().find(told), std::string::npos) << told << "\n" << bad.error();
    }
    EXPECT_FALSE(read_events("{}", "f").ok());
}

TEST(EventsFile, jobs_nodes_and_budgets_that_are_not_there_are_mistakes) {
    const auto tree = BudgetTree::build({budget_of("a")});
    const auto cluster = parse_cluster("2x8");
    const ReadWorkload jobs = read_good("job_id,submit,gpus,runtime\nj1,0,1,1\n");
    const auto events = read_events(
        "[{\"at\": 1, \"do\": \"cancel\", \"job\": \"j1\"},\n"
        "{\"at\": 1, \"do\": \"cancel\", \"job\": \"j2\"},\n"
        "{\"at\": 1, \"do\": \"node_fail\", \"node\": \"n[2-3]\"},\n"
        "{\"at\": 1, \"do\": \"set_shares\", \"budget\": \"b\", \"shares\": 1},\n"
        "{\"at\": 2, \"do\": \"add_budget\", \"name\": \"b\", \"shares\": 1},\n"
        "{\"at\": 3, \"do\": \"set_shares\", \"budget\": \"b\", \"shares\": 1},\n"
        "{\"at\": 3, \"do\": \"add_budget\", \"name\": \"b\", \"shares\": 1}]",
        "f");
    ASSERT_TRUE(events.ok()) << events.error();
    const Status status = check_events(*events, "f", jobs.jobs, *cluster, *tree);
    EXPECT_EQ(status.error(),
              "f:2: cancel: there is no job 'j2'\n"
              "f:3: node_fail: there is no node 'n3'\n"
              "f:4: set_shares: there is no budget 'b'\n"
              "f:7: add_budget: budget 'b' is there already");
}

TEST(Budgets, a_job_is_charged_to_the_budget_of_its_account_and_the_others_run_free) {
    ReadWorkload jobs = read_good(
        "job_id,submit,gpus,runtime,account,user\n1,0,1,1,PhysA,x\n2,0,1,1,other,bob\n"
        "3,0,1,1,third,y\n");
    Budget of_bob = budget_of("b");
    of_bob.users = {"bob"};
    const auto tree = BudgetTree::build({budget_of("physa"), of_bob});
    ASSERT_TRUE(tree.ok());
    assign_budgets(jobs, *tree);
    EXPECT_EQ(jobs.jobs[0].budget, "physa");
    EXPECT_EQ(jobs.jobs[1].budget, "b");
    EXPECT_EQ(jobs.jobs[2].budget, "");
    EXPECT_EQ(jobs.notes.back(), "warning: no budget pays for 1 job of 'third'; it runs free");
}

TEST(Budgets, without_a_file_each_account_is_one) {
    ReadWorkload jobs = read_good(
        "job_id,submit,gpus,runtime,account,user\n1,0,1,1,Phys A,x\n2,0,1,1,root,y\n"
        "3,0,1,1,,z\n4,0,1,1,Phys A,z\n");
    const auto budgets = budgets_of_accounts(jobs);
    ASSERT_TRUE(budgets.ok());
    const auto tree = BudgetTree::build(*budgets);
    ASSERT_TRUE(tree.ok()) << tree.error();
    for (const WorkloadJob& job : jobs.jobs) {
        EXPECT_NE(tree->find(job.budget), nullptr) << job.id;
    }
    EXPECT_EQ(tree->budgets().size(), 3U);
}

TEST(Budgets, accounts_that_only_look_alike_keep_apart_and_a_note_says_what_was_renamed) {
    const std::string same(64, 'x');
    ReadWorkload jobs = read_good(
        "job_id,submit,gpus,runtime,account,user\n1,0,1,1,a b,\n2,0,1,1,a_b,\n3,0,1,1,A_B,\n"
        "4,0,1,1,root,\n5,0,1,1,,a_b\n6,0,1,1," +
        same + "1,\n7,0,1,1," + same + "2,\n8,0,1,1,,\n");
    const auto budgets = budgets_of_accounts(jobs);
    ASSERT_TRUE(budgets.ok());
    EXPECT_TRUE(BudgetTree::build(*budgets).ok());
    EXPECT_EQ(jobs.jobs[0].budget, "a_b.2");
    EXPECT_EQ(jobs.jobs[1].budget, "a_b");
    EXPECT_EQ(jobs.jobs[2].budget, "a_b");
    EXPECT_EQ(jobs.jobs[3].budget, "root_");
    EXPECT_EQ(jobs.jobs[4].budget, "a_b.3");
    EXPECT_EQ(jobs.jobs[5].budget, same);
    EXPECT_EQ(jobs.jobs[6].budget, same.substr(2) + ".2");
    EXPECT_EQ(jobs.jobs[7].budget, "");
    EXPECT_TRUE(has_note(jobs, "accounts are the same in upper and lower case: 'A_B' is a_b"));
    const std::string& renamed = jobs.notes[jobs.notes.size() - 2];
    EXPECT_TRUE(
        renamed.starts_with("budgets whose names are not their owners' own: account 'a b' is "
                            "a_b.2, account 'root' is root_"))
        << renamed;
    EXPECT_NE(renamed.find("user 'a_b' is a_b.3"), std::string::npos) << renamed;
}

TEST(Rules, expressions_are_evaluated_and_mistakes_told) {
    RuleValues values;
    values.runtime = 1800;
    values.gpus = 8;
    values.nodes = 2;
    const struct {
        const char* text;
        std::int64_t result;
    } good[] = {{"90", 90},
                {"1h", 3600},
                {"1.5h", 5400},
                {"8:00:00", 28800},
                {"1h30m", 5400},
                {"min(1h,runtime)", 1800},
                {"max(1h, runtime, 2*gpus)", 3600},
                {"0.5*runtime + 1m", 960},
                {"(1+2)*3-4/2", 7},
                {"runtime/nodes", 900}};
    for (const auto& each : good) {
        const auto expression = RuleExpression::parse(each.text);
        ASSERT_TRUE(expression.ok()) << expression.error();
        const auto value = expression->evaluate(values);
        ASSERT_TRUE(value.ok()) << each.text << " " << value.error();
        EXPECT_EQ(*value, each.result) << each.text;
    }
    for (const char* bad : {"", "min(", "min 3", "foo", "1x", "2*", "1 2", "()", "1e400", "--1",
                            "min(1h,)", "runtime)"}) {
        EXPECT_FALSE(RuleExpression::parse(bad).ok()) << bad;
    }
    EXPECT_FALSE(RuleExpression::parse(std::string(5000, '(')).ok());
    std::string deep = "1";
    for (int i = 0; i < 5000; ++i) {
        deep += "+1";
    }
    EXPECT_EQ(*RuleExpression::parse(deep)->evaluate(values), 5001);
    EXPECT_EQ(RuleExpression::parse("gpus-100")->evaluate(values).error(), "is negative, -92");
    EXPECT_EQ(RuleExpression::parse("1/(gpus-8)")->evaluate(values).error(), "divides by zero");
}

TEST(Rules, assumptions_fill_in_only_what_the_file_does_not_say) {
    ReadWorkload jobs = read_good(
        "job_id,submit,gpus,runtime,account,user,min_runtime,resumable\n"
        "1,0,1,9000,a,x,600,0\n2,0,1,9000,a,,,\n3,0,1,60,a,,,\n");
    ASSERT_TRUE(
        assume(jobs, "min_runtime=min(1h, runtime) resumable=1 users=3", 5, of_size("4x8")).ok());
    EXPECT_EQ(jobs.jobs[0].min_runtime_seconds, 600);
    EXPECT_FALSE(jobs.jobs[0].resumable);
    EXPECT_EQ(jobs.jobs[0].user, "x");
    EXPECT_EQ(jobs.jobs[1].min_runtime_seconds, 3600);
    EXPECT_TRUE(jobs.jobs[1].resumable);
    EXPECT_TRUE(jobs.jobs[1].user.starts_with("a-user"));
    EXPECT_EQ(jobs.jobs[2].min_runtime_seconds, 60);
    EXPECT_EQ(jobs.notes.back(), "assumed users=3 of 2 jobs, drawn with seed 5");
    for (const char* bad :
         {"", "users", "users=0", "min_runtime", "min_runtime=", "speed=3", "resumable=2",
          "min_runtime=1h min_runtime=2h", "team_priority=top", "users=3 seed=-1", "users=2.5"}) {
        EXPECT_FALSE(assume(jobs, bad, 1, of_size("4x8")).ok()) << bad;
    }
}

TEST(Rules, what_is_drawn_depends_on_the_seed_alone) {
    const auto drawn = [](std::uint64_t seed) {
        ReadWorkload jobs = read_slice("philly-4-days.csv.gz");
        EXPECT_TRUE(assume(jobs, "users=10", seed, of_size("128x8")).ok());
        EXPECT_TRUE(inject(jobs, "debug:120/day", seed, of_size("128x8")).ok());
        std::string text;
        for (const WorkloadJob& job : jobs.jobs) {
            text += job.id + " " + std::to_string(job.submit_at) + " " + job.user + " " +
                    std::to_string(job.gpus) + " " + std::to_string(job.runtime_seconds) + "\n";
        }
        return text;
    };
    EXPECT_EQ(drawn(1), drawn(1));
    EXPECT_NE(drawn(1), drawn(2));
    // The published numbers of xoshiro256** after splitmix64 from 0.
    std::uint64_t state = 0;
    EXPECT_EQ(splitmix64(state), 0xe220a8397b1dcdafU);
    EXPECT_EQ(splitmix64(state), 0x6e789e6aa1b965f4U);
    EXPECT_EQ(Random(0).next(), 0x99ec5f36cb75f2b4U);
}

TEST(Rules, added_jobs_are_as_many_as_asked_for_and_of_the_traces_own_users) {
    ReadWorkload jobs =
        read_good("job_id,submit,gpus,runtime,account,user\n1,0,1,9000,a,x\n2,172799,1,9000,b,y\n");
    ASSERT_TRUE(inject(jobs, "debug:120/day min=10m gpus=2 seed=3", 1, of_size("4x8")).ok());
    EXPECT_EQ(jobs.jobs.size(), 242U);
    EXPECT_EQ(jobs.origins.size(), 242U);
    std::int64_t before = 0;
    for (const WorkloadJob& job : jobs.jobs) {
        EXPECT_GE(job.submit_at, before);
        before = job.submit_at;
        if (job.wait_class == "debug") {
            EXPECT_TRUE((job.account == "a" && job.user == "x") ||
                        (job.account == "b" && job.user == "y"));
            EXPECT_EQ(job.gpus, 2);
            EXPECT_EQ(job.min_runtime_seconds, 600);
            EXPECT_TRUE(job.runtime_seconds >= 75 && job.runtime_seconds <= 600);
        }
    }
    EXPECT_EQ(jobs.notes.back(),
              "240 debug jobs were added, 120 a day, minimum 10 min, 2 GPUs, with seed 3");
    for (const char* bad :
         {"", "debug", "debug:120", "debug:0/day", "debug:x/day", ":3/day", "debug:1/week",
          "debug:1/day gpus=0", "debug:1/day min=0", "debug:1/day colour=1",
          "debug:1/day debug:2/day", "debug:1.5/day", "debug:1/day gpus=1.5"}) {
        EXPECT_FALSE(inject(jobs, bad, 1, of_size("4x8")).ok()) << bad;
    }
}

TEST(Rules, added_jobs_that_the_cluster_could_never_hold_are_refused) {
    ReadWorkload jobs = read_good("submit,gpus,runtime,account\n0,1,9000,a\n86399,1,9000,a\n");
    EXPECT_EQ(inject(jobs, "debug:10/day gpus=1000", 1, of_size("30x8")).error(),
              "inject 'debug:10/day gpus=1000': each job asks for 1000 GPUs; the cluster has 240; "
              "gpus=N with 1 to 240 would be right");
    EXPECT_EQ(inject(jobs, "debug:10/day", 1, of_size("1x4")).error(),
              "inject 'debug:10/day': without gpus=N some job asks for 8 GPUs; the cluster has 4; "
              "gpus=N with 1 to 4 would be right");
    EXPECT_TRUE(inject(jobs, "debug:1/day gpus=1", 1, of_size("1x4")).ok());
    EXPECT_EQ(jobs.notes.back(),
              "1 debug job was added, 1 a day, minimum 15 min, 1 GPU, with seed 1");
}

TEST(Rules, the_same_rule_twice_adds_jobs_at_other_instants) {
    ReadWorkload jobs = read_good("submit,gpus,runtime,account\n0,1,9000,a\n86399,1,9000,a\n");
    ASSERT_TRUE(inject(jobs, "debug:1/hour", 1, of_size("4x8"), 0).ok());
    std::set<std::int64_t> first;
    for (const WorkloadJob& job : jobs.jobs) {
        first.insert(job.submit_at);
    }
    ASSERT_TRUE(inject(jobs, "debug:1/hour", 1, of_size("4x8"), 1).ok());
    std::size_t others = 0;
    for (const WorkloadJob& job : jobs.jobs) {
        others += first.contains(job.submit_at) ? 0U : 1U;
    }
    EXPECT_EQ(jobs.jobs.size(), 50U);
    EXPECT_GT(others, 20U);
}

TEST(Rules, an_assumption_that_no_job_can_have_is_refused_with_the_first_job) {
    const auto told = [](const std::string& rules) {
        ReadWorkload jobs =
            read_good("job_id,submit,gpus,runtime,account\nbig,0,16,9000,a\nsmall,1,1,60,a\n");
        const Status status = assume(jobs, rules, 1, of_size("4x8"));
        return status.ok() ? std::string() : status.error();
    };
    EXPECT_EQ(
        told("min_runtime=runtime/(gpus-1)"),
        "assume: min_runtime=runtime/(gpus-1) divides by zero, first of job 'small' of line 3");
    EXPECT_EQ(told("min_runtime=runtime-1h"),
              "assume: min_runtime=runtime-1h is negative, -3540, first of job 'small' of line 3");
    EXPECT_EQ(told("nodes=0"), "assume: nodes=0 is no node, first of job 'big' of line 2");
    EXPECT_EQ(told("nodes=2"),
              "assume: nodes=2 is 2 nodes for 1 GPU, first of job 'small' of line 3");
    EXPECT_EQ(told("nodes=5"),
              "assume: nodes=5 asks for 16 GPUs on 5 nodes; the cluster's 4 nodes have at most 8 "
              "each, first of job 'big' of line 2");
    EXPECT_EQ(told("nodes=min(2,gpus)"), "");
}

TEST(Rules, an_assumption_of_no_job_is_a_warning) {
    ReadWorkload jobs = read_good("submit,gpus,runtime,user\n0,1,9000,x\n");
    ASSERT_TRUE(assume(jobs, "users=3", 1, of_size("1x8")).ok());
    EXPECT_EQ(jobs.notes.back(), "warning: assumed users=3 of no job: the file says it of each");
}

}  // namespace
}  // namespace tranche::sim
