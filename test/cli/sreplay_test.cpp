// SPDX-License-Identifier: GPL-2.0-or-later
// sreplay as a program: answers, exit codes, files, and the same bytes for the same input.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/wire/json.hpp"
#include "sim/random.hpp"
#include "tools/input_file.hpp"
#include "tools/sreplay_options.hpp"

namespace tranche {
namespace {

namespace fs = std::filesystem;

std::string read_all(const fs::path& name) {
    std::ifstream file(name, std::ios::binary);
    return {(std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()};
}

struct Answer {
    int code = -1;
    std::string out, err;
};

class Sreplay : public testing::Test {
  protected:
    void SetUp() override {
        static int number = 0;
        folder = fs::path(testing::TempDir()) /
                 ("tranche-sreplay-" + std::to_string(getpid()) + "-" + std::to_string(++number));
        fs::create_directories(folder);
        write("budgets.json",
              "{\"version\": 1, \"budgets\": [{\"name\": \"a\", \"shares\": 3},\n"
              " {\"name\": \"b\", \"shares\": 1}]}\n");
        std::string jobs = "job_id,submit,account,user,gpus,runtime,min_runtime,resumable\n";
        sim::Random random(3, "jobs");
        for (int i = 0; i < 300; ++i) {
            jobs += "J" + std::to_string(i) + "," + std::to_string(i * 211) + "," +
                    (random.below(2) == 0 ? "a" : "b") + ",u" + std::to_string(random.below(3)) +
                    "," + std::to_string(std::uint64_t{1} << random.below(4)) + "," +
                    std::to_string(random.between(60, 20000)) + "," +
                    std::to_string(random.between(0, 2) * 1800) + ",1\n";
        }
        write("jobs.csv", jobs);
    }
    void TearDown() override { fs::remove_all(folder); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name, std::ios::binary) << text;
    }
    std::string path(const std::string& name) const { return (folder / name).string(); }

    // The words go through a shell, in the folder; quotes are the caller's.
    Answer sreplay(const std::string& words, const std::string& before = "") const {
        const std::string command = "cd '" + folder.string() + "' && " + before + " '" +
                                    TRANCHE_BUILD_DIR "/sreplay' " + words + " 2>err.txt";
        Answer answer;
        FILE* pipe = popen(command.c_str(), "r");
        if (pipe == nullptr) {
            return answer;
        }
        char buffer[4096];
        for (std::size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
            answer.out.append(buffer, got);
        }
        const int status = pclose(pipe);
        answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        answer.err = read_all(folder / "err.txt");
        fs::remove(folder / "err.txt");
        return answer;
    }
    Answer run(const std::string& more = "") const {
        return sreplay("run --jobs=jobs.csv --cluster=2x8 --budgets=budgets.json " + more);
    }
    std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(folder)) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    fs::path folder;
};

TEST_F(Sreplay, run_answers_on_standard_output_in_text_json_and_fields) {
    const Answer text = run();
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.err, "");
    EXPECT_NE(text.out.find("300 jobs"), std::string::npos) << text.out;
    const Answer json = run("--json");
    ASSERT_EQ(json.code, 0);
    const auto parsed = parse_json(json.out, "answer");
    ASSERT_TRUE(parsed.ok()) << parsed.error();
    EXPECT_EQ(parsed->at("version").as_integer(), 1);
    EXPECT_EQ(parsed->at("policy").as_text(), "budget");
    EXPECT_EQ(parsed->at("jobs").as_integer(), 300);
    for (const char* key :
         {"policy", "finished", "simulated_seconds", "wall_seconds", "occupancy",
          "unallocated_fraction", "wait_seconds", "budgets", "demand_factor", "assemblies",
          "lost_gpu_hours", "goodput_fraction", "preemptions", "invariants"}) {
        const auto keys = parsed->keys();
        EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << key;
    }
    const Answer fields = run("-P");
    EXPECT_NE(fields.out.find("KEY|VALUE\n"), std::string::npos);
    EXPECT_NE(fields.out.find("\nwait_seconds.all.p90|"), std::string::npos) << fields.out;
    EXPECT_EQ(run("-nP").out.find("KEY|VALUE"), std::string::npos);
    const Answer timed = run("--json --timing");
    EXPECT_TRUE(parse_json(timed.out, "answer")->at("wall_seconds").is_number());
}

TEST_F(Sreplay, the_same_input_gives_the_same_bytes) {
    const std::string words =
        "--json --assume='users=4' --inject=debug:50/day --trace=t.txt --svg=t.svg --html=t.html";
    const Answer first = run(words);
    ASSERT_EQ(first.code, 0) << first.err;
    const std::string trace = read_all(folder / "t.txt"), svg = read_all(folder / "t.svg"),
                      html = read_all(folder / "t.html");
    EXPECT_GT(trace.size(), 1000U);
    EXPECT_EQ(run(words).out, first.out);
    EXPECT_EQ(read_all(folder / "t.txt"), trace);
    EXPECT_EQ(read_all(folder / "t.svg"), svg);
    EXPECT_EQ(read_all(folder / "t.html"), html);
    // Each line of the trace is an object, in the order of time.
    std::istringstream lines(trace);
    std::int64_t before = 0;
    for (std::string line; std::getline(lines, line);) {
        const auto json = parse_json(line, "line");
        ASSERT_TRUE(json.ok()) << line;
        EXPECT_GE(json->at("at").as_integer(), before);
        before = json->at("at").as_integer();
    }
}

TEST_F(Sreplay, the_order_of_lines_in_a_file_does_not_matter) {
    const Answer first = run("--json");
    std::istringstream lines(read_all(folder / "jobs.csv"));
    std::vector<std::string> jobs;
    for (std::string line; std::getline(lines, line);) {
        jobs.push_back(line);
    }
    std::reverse(jobs.begin() + 1, jobs.end());
    std::string text;
    for (const std::string& line : jobs) {
        text += line + "\n";
    }
    write("jobs.csv", text);
    EXPECT_EQ(run("--json").out, first.out);
}

TEST_F(Sreplay, standard_input_and_packed_files_are_read) {
    const Answer plain = run("--json");
    const std::string rest = " --cluster=2x8 --budgets=budgets.json --json";
    EXPECT_EQ(sreplay("run --jobs=-" + rest + " <jobs.csv").out, plain.out);
    EXPECT_EQ(sreplay("run --jobs=-" + rest, "gzip -c jobs.csv |").out, plain.out);
}

TEST_F(Sreplay, bad_files_are_refused_with_line_and_reason_and_no_file_is_left) {
    write("old.svg", "old");
    write("cycle.json",
          "{\"version\": 1, \"budgets\": [{\"name\": \"a\", \"parent\": \"b\"},\n"
          " {\"name\": \"b\", \"parent\": \"a\"}]}");
    write("bad.csv", "submit,gpus,runtime\n0,1,1\n0,-1,1\n0,x,1\n");
    write("large.csv", "submit,gpus,runtime\n0,1,1\n0,17,1\n");
    write("empty.csv", "");
    write("garbage.csv", std::string("\x7f"
                                     "ELF\x02\x01\0\0",
                                     8));
    write("events.json",
          "[{\"at\": 5, \"do\": \"set_shares\",\n \"budget\": \"x\", \"shares\": 1}]");
    write("config", "MaxMinRuntime=1h\nColour=blue\n");
    const std::vector<std::string> before = files();
    const struct {
        std::string words, told;
    } cases[] = {
        {"--jobs=none.csv", "file 'none.csv' cannot be read: No such file"},
        {"--jobs=.", "directory"},
        {"--jobs=empty.csv", "empty.csv: is empty"},
        {"--jobs=garbage.csv", "garbage.csv:1: this is not a text"},
        {"--jobs=bad.csv", "sreplay: bad.csv:3: gpus '-1'"},
        {"--jobs=bad.csv", "sreplay: bad.csv:4: gpus 'x'"},
        {"--jobs=large.csv", "large.csv:3: job 'L3' asks for 17 GPUs; the cluster has 16"},
        {"--budgets=cycle.json", "is below itself"},
        {"--budgets=jobs.csv", "jobs.csv is not JSON: line 1"},
        {"--events=events.json", "events.json:1: set_shares: there is no budget 'x'"},
        {"--config=config", "config:2: "},
        {"--cluster=none.json", "or the name of a file"},
        {"--cluster=budgets.json", "nodes is missing"},
        {"--until=soon", "'soon' is no instant"},
        {"--until=2024-01-01", "an instant of the calendar"},
        {"--until=0", "no job is submitted before that"},
        {"--assume=colour=blue", "assume: 'colour' is not known"},
        {"--inject=debug", "inject 'debug'"},
    };
    for (const auto& each : cases) {
        const Answer answer = run(each.words + " --svg=old.svg --html=new.html --trace=new.txt");
        EXPECT_EQ(answer.code, 1) << each.words;
        EXPECT_EQ(answer.out, "") << each.words;
        EXPECT_NE(answer.err.find(each.told), std::string::npos)
            << each.words << "\n"
            << answer.err << "lacks: " << each.told;
        EXPECT_TRUE(answer.err.starts_with("sreplay: ")) << answer.err;
    }
    EXPECT_EQ(files(), before);
    EXPECT_EQ(read_all(folder / "old.svg"), "old");
}

TEST_F(Sreplay, mistakes_of_several_files_are_told_together) {
    write("bad.csv", "submit,gpus,runtime\n0,-1,1\n");
    write("bad.json", "{\"version\": 1, \"budgets\": [{\"name\": \"-\"}]}");
    const Answer answer = run("--jobs=bad.csv --budgets=bad.json --cluster=0x0");
    EXPECT_EQ(answer.code, 1);
    EXPECT_NE(answer.err.find("bad.csv:2:"), std::string::npos);
    EXPECT_NE(answer.err.find("bad.json:1:"), std::string::npos) << answer.err;
    EXPECT_NE(answer.err.find("cluster '0x0'"), std::string::npos);
}

TEST_F(Sreplay, a_file_that_cannot_be_written_is_told_before_the_work) {
    for (const char* name : {"none/t.svg", "."}) {
        const Answer answer = run(std::string("--svg=") + name);
        EXPECT_EQ(answer.code, 1);
        EXPECT_NE(answer.err.find("cannot be written"), std::string::npos) << answer.err;
        EXPECT_EQ(answer.out, "");
    }
    EXPECT_EQ(run("--svg=/dev/null").code, 0);
    EXPECT_EQ(sreplay("run --jobs=jobs.csv --cluster=2x8 --json >/dev/full").code, 1);
}

TEST_F(Sreplay, mistakes_in_the_command_line_are_usage) {
    const struct {
        const char *words, *told;
    } cases[] = {
        {"", "what to do is missing"},
        {"replay", "'replay' is not known; run, compare, sweep, check or snapshot"},
        {"run", "--jobs=FILE is missing"},
        {"run --jobs=jobs.csv", "--cluster=NODESxGPUS is missing"},
        {"run --jobs=jobs.csv --cluster=2x8 more", "'more' is not expected"},
        {"run --jobs=jobs.csv --cluster=2x8 --policy=best", "policy 'best': budget, article"},
        {"run --jobs=jobs.csv --cluster=2x8 --policy=budget,fifo", "one of budget"},
        {"run --jobs=jobs.csv --cluster=2x8 --set=GraceTime", "KEY=VALUE"},
        {"run --jobs=jobs.csv --cluster=2x8 --set=GraceTime=x", "--set "},
        {"run --jobs=jobs.csv --cluster=2x8 --from=xml", "csv, sacct or swf"},
        {"run --jobs=jobs.csv --cluster=2x8 --seed=-1", "seed '-1'"},
        {"run --jobs=jobs.csv --cluster=2x8 --svg=", "--svg is empty"},
        {"run --jobs=jobs.csv --cluster=2x8 --array", "--array is not for run"},
        {"run --jobs=jobs.csv --cluster=2x8 --without=luck", "rule 'luck' is not known; known"},
        {"compare --jobs=jobs.csv --cluster=2x8 --trace=t", "--trace is not for compare"},
        {"compare --jobs=jobs.csv --cluster=2x8 --policy=budget,,fifo", "a part of the list is"},
        {"run --jobs=jobs.csv --cluster=2x8 -M lab", "--clusters is not for run"},
        {"run --jobs=jobs.csv --cluster=2x8 --set=GraceTime=1 --set=gracetime=2",
         "--set gracetime is there twice"},
        {"run --jobs=jobs.csv --cluster=2x8 --svg=-", "--svg '-': standard output has the answer"},
        {"run --jobs=jobs.csv --cluster=2x8 --svg=./jobs.csv", "is the same file as --jobs"},
        {"run --jobs=jobs.csv --cluster=2x8 --svg=new --html=./new", "is the same file as --html"},
        {"run --jobs=jobs.csv --cluster=2x8 --set=MaxMinRuntime=1h --set=DefaultMinRuntime=2h",
         "--set DefaultMinRuntime=2h: expected at most MaxMinRuntime"},
        {"sweep MaxMinRuntime=8h,1h --jobs=jobs.csv --cluster=2x8 --set=DefaultMinRuntime=2h",
         "DefaultMinRuntime=2h: expected at most MaxMinRuntime, which is "},
        {"sweep GraceTime=1,2 --jobs=jobs.csv --cluster=2x8 --set=GraceTime=3",
         "--set GraceTime is what the sweep changes"},
        {"sweep GraceTime=1,,2 --jobs=jobs.csv --cluster=2x8", "a part of the list is empty"},
        {"snapshot -", "snapshot '-'"},
        {"check", "check wants the files of scenarios"},
        {"sweep --jobs=jobs.csv --cluster=2x8", "sweep wants one KEY="},
        {"sweep GraceTime=1,1 --jobs=jobs.csv --cluster=2x8", "is there twice"},
        {"sweep Colour=1 --jobs=jobs.csv --cluster=2x8", "Colour"},
        {"sweep GraceTime=1 --array --jobs=jobs.csv --cluster=2x8", "SLURM_ARRAY_TASK_ID"},
        {"snapshot", "snapshot wants one file"},
    };
    for (const auto& each : cases) {
        const Answer answer = sreplay(each.words, "unset SLURM_ARRAY_TASK_ID;");
        EXPECT_EQ(answer.code, 2) << each.words << "\n" << answer.err;
        EXPECT_EQ(answer.out, "") << each.words;
        EXPECT_NE(answer.err.find(each.told), std::string::npos)
            << each.words << "\n"
            << answer.err << "lacks: " << each.told;
    }
}

TEST_F(Sreplay, work_without_contracts_and_jobs_without_a_budget_are_warned_of) {
    write("free.csv", "submit,account,gpus,runtime\n0,a,1,10\n5,c,1,10\n");
    const std::string words = "--jobs=free.csv --json ";
    const Answer free = run(words);
    EXPECT_EQ(free.code, 0);
    EXPECT_NE(free.err.find("warning: no job has a minimum runtime"), std::string::npos);
    EXPECT_NE(free.err.find("warning: no budget pays for 1 job of 'c'"), std::string::npos);
    EXPECT_TRUE(parse_json(free.out, "answer").ok());
    for (const char* more : {"--assume=min_runtime=runtime", "--set=DefaultMinRuntime=1h"}) {
        EXPECT_EQ(run(words + more).err.find("minimum runtime"), std::string::npos) << more;
    }
}

TEST_F(Sreplay, jobs_that_submission_would_refuse_are_warned_of) {
    const Answer answer = run("--set=MaxMinRuntime=20m --until=1h");
    EXPECT_NE(answer.err.find("jobs are refused: a minimum runtime above MaxMinRuntime, 20 min"),
              std::string::npos)
        << answer.err;
}

TEST_F(Sreplay, links_to_files_are_followed_and_stay) {
    write("target.svg", "old");
    fs::create_symlink("target.svg", folder / "link.svg");
    fs::create_symlink("new.html", folder / "link.html");
    ASSERT_EQ(run("--svg=link.svg --html=link.html").code, 0);
    EXPECT_TRUE(fs::is_symlink(folder / "link.svg"));
    EXPECT_TRUE(fs::is_symlink(folder / "link.html"));
    EXPECT_TRUE(read_all(folder / "target.svg").starts_with("<"));
    EXPECT_FALSE(fs::is_symlink(folder / "new.html"));
    EXPECT_GT(fs::file_size(folder / "new.html"), 1000U);
    fs::create_symlink("jobs.csv", folder / "link.csv");
    const std::string jobs = read_all(folder / "jobs.csv");
    EXPECT_EQ(run("--svg=link.csv").code, 2);
    EXPECT_EQ(run("--svg=/dev/stdout >answer.txt").code, 2);
    EXPECT_EQ(read_all(folder / "jobs.csv"), jobs);
    const Answer piped = run("--svg=/dev/stdout | cat");
    EXPECT_TRUE(piped.out.starts_with("<")) << piped.out.substr(0, 80);
    EXPECT_NE(piped.out.find("300 jobs"), std::string::npos);
}

TEST_F(Sreplay, names_cannot_act_on_the_terminal) {
    const std::string name = "e\x1b[31m\xc2\x9bx\xe2\x80\xae\xff";
    write("names.csv", "submit,account,gpus,runtime,min_runtime\n0," + name + ",1,10,10\n");
    write("names.json",
          "{\"cluster\": {\"nodes\": [{\"name\": \"n\", \"gpus\": 8}]}, \"until\": 9, "
          "\"budgets\": [{\"name\": \"A\"}], \"jobs\": [{\"id\": \"j\xe2\x80\xae\", \"budget\": "
          "\"A\", \"gpus\": 1, \"runtime\": 5}], \"expect\": [{\"job\": \"j\xe2\x80\xae\", "
          "\"runs\": 7}]}");
    for (const Answer& answer :
         {sreplay("run --jobs=names.csv --cluster=1x8 --budgets=budgets.json"),
          sreplay("run --jobs=names.csv --cluster=1x8 --budgets=budgets.json --json"),
          sreplay("check names.json"),
          sreplay("check $(printf 'no\\302\\233\\342\\200\\256.json')"),
          sreplay("run --jobs=jobs.csv --cluster=1x8 --policy=$(printf '\\302\\233')")}) {
        for (const std::string& text : {answer.out, answer.err}) {
            for (const char* bad : {"\x1b", "\xc2\x9b", "\xe2\x80\xae", "\xff"}) {
                EXPECT_EQ(text.find(bad), std::string::npos) << text;
            }
        }
    }
    EXPECT_NE(sreplay("check names.json").out.find("j\\u202e"), std::string::npos);
}

TEST_F(Sreplay, a_full_device_is_named) {
    const Answer answer = run("--json >/dev/full");
    EXPECT_EQ(answer.code, 1);
    EXPECT_EQ(answer.err, "sreplay: standard output: No space left on device\n");
    EXPECT_EQ(sreplay("--help >/dev/full").err, answer.err);
}

TEST_F(Sreplay, what_changes_nothing_is_warned_of) {
    EXPECT_NE(run("--policy=fifo --set=RaisedShare=2")
                  .err.find("warning: RaisedShare changes nothing: fifo does not read it"),
              std::string::npos);
    EXPECT_NE(sreplay("sweep LookbackWindow=1h,2h --policy=fairtree --jobs=jobs.csv "
                      "--cluster=2x8 --budgets=budgets.json")
                  .err.find("warning: LookbackWindow changes nothing: fairtree"),
              std::string::npos);
    EXPECT_NE(run("--policy=slots --without=ties").err.find("warning: --without changes nothing"),
              std::string::npos);
    EXPECT_NE(run("--set=ServicePort=7000").err.find("the simulation does not read it"),
              std::string::npos);
    EXPECT_EQ(run("--set=RaisedShare=2").err, "");
}

TEST_F(Sreplay, a_replay_whose_jobs_are_all_refused_delivers_nothing) {
    write("long.csv", "submit,account,gpus,runtime,min_runtime\n0,a,1,10,3600\n5,b,1,10,3600\n");
    const Answer answer = run("--jobs=long.csv --set=MaxMinRuntime=20m");
    EXPECT_EQ(answer.code, 0);
    EXPECT_NE(answer.err.find("no job is accepted"), std::string::npos) << answer.err;
    EXPECT_NE(answer.out.find("delivered            -  nothing was owed"), std::string::npos)
        << answer.out;
    EXPECT_EQ(answer.out.find("warning"), std::string::npos) << "said once";
    const Answer all = sreplay(
        "compare --jobs=long.csv --cluster=2x8 --budgets=budgets.json --set=MaxMinRuntime=20m");
    EXPECT_EQ(all.err.find("no job is accepted"), all.err.rfind("no job is accepted")) << all.err;
    write("defaulted.csv", "submit,account,gpus,runtime,interactive\n0,a,1,10,1\n5,b,1,10,0\n");
    EXPECT_NE(run("--jobs=defaulted.csv --set=MaxMinRuntime=20m").err.find("1 job was refused"),
              std::string::npos);
}

TEST_F(Sreplay, an_event_after_the_last_job_does_not_stretch_the_replay) {
    write("one.csv", "submit,account,gpus,runtime,min_runtime\n0,a,1,600,600\n");
    write("late.json", "[{\"at\": 900000, \"do\": \"drain\", \"node\": \"n1\"}]");
    const Answer plain = run("--jobs=one.csv --json");
    const Answer late = run("--jobs=one.csv --json --events=late.json");
    const auto json = parse_json(late.out, "answer");
    ASSERT_TRUE(json.ok()) << late.err;
    EXPECT_EQ(json->at("simulated_seconds").as_integer(), 600);
    EXPECT_NE(late.err.find("1 event never happened, since the replay was over before: drain at "
                            "900000"),
              std::string::npos)
        << late.err;
    EXPECT_EQ(plain.err, "");
    const Answer cut = run("--jobs=one.csv --until=300");
    EXPECT_NE(cut.err.find("warning: 1 job did not finish"), std::string::npos) << cut.err;
}

TEST_F(Sreplay, until_leaves_out_what_comes_later) {
    const Answer answer = run("--until=6h --json");
    const auto json = parse_json(answer.out, "answer");
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(json->at("jobs").as_integer(), 103);  // one each 211 s
    EXPECT_EQ(json->at("simulated_seconds").as_integer(), 6 * 3600);
}

TEST_F(Sreplay, settings_change_what_happens) {
    const std::string base = run("--json").out;
    EXPECT_NE(run("--json --set=LookbackWindow=1:00:00").out, base);
    write("config", "LookbackWindow=1:00:00\n");
    EXPECT_EQ(run("--json --config=config").out, run("--json --set=LookbackWindow=1:00:00").out);
    // --set goes before the file.
    EXPECT_EQ(run("--json --config=config --set=LookbackWindow=7-0").out, base);
}

TEST_F(Sreplay, sweep_has_a_line_for_each_value_in_order) {
    const std::string words =
        "--jobs=jobs.csv --cluster=2x8 --budgets=budgets.json --json LookbackWindow=7-0,1h,2h";
    const Answer answer = sreplay("sweep " + words);
    ASSERT_EQ(answer.code, 0) << answer.err;
    const auto json = parse_json(answer.out, "answer");
    ASSERT_TRUE(json.ok()) << json.error();
    ASSERT_EQ(json->at("values").size(), 3U);
    EXPECT_EQ(json->at("values").at(1).at("value").as_text(), "1h");
    EXPECT_EQ(json->at("values").at(1).at("result").pretty(),
              parse_json(run("--json --set=LookbackWindow=1h").out, "answer")->pretty());
    const Answer table = sreplay(
        "sweep --jobs=jobs.csv --cluster=2x8 --budgets=budgets.json -P LookbackWindow=7-0,1h");
    EXPECT_TRUE(table.out.starts_with("LookbackWindow|FINISHED|OCCUPANCY(%)|")) << table.out;
    EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 3);
    const Answer task =
        sreplay("sweep --array " + words, "SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=4");
    const auto one = parse_json(task.out, "answer");
    ASSERT_TRUE(one.ok()) << task.err;
    ASSERT_EQ(one->at("values").size(), 1U);
    EXPECT_EQ(one->at("values").at(std::size_t{0}).compact(), json->at("values").at(1).compact());
    EXPECT_EQ(sreplay("sweep --array " + words, "SLURM_ARRAY_TASK_ID=3").code, 2);
}

TEST_F(Sreplay, compare_sets_policies_side_by_side) {
    const std::string words =
        "compare --jobs=jobs.csv --cluster=2x8 --budgets=budgets.json --policy=budget,article";
    const Answer text = sreplay(words + " --svg=c.svg --html=c.html");
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_NE(text.out.find("article"), std::string::npos);
    EXPECT_TRUE(fs::exists(folder / "c.svg") && fs::exists(folder / "c.html"));
    const auto json = parse_json(sreplay(words + " --json").out, "answer");
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(sreplay(words + " --json").out, sreplay(words + " --json").out);
}

TEST_F(Sreplay, check_tells_the_first_expectation_that_fails_with_its_numbers) {
    const std::string scenario =
        "{\"name\": \"x\", \"about\": \"x\", \"cluster\": {\"nodes\": [{\"name\": \"n1\", "
        "\"gpus\": 8}]},\n\"budgets\": [{\"name\": \"A\"}], \"jobs\": [{\"id\": \"J\", \"budget\": "
        "\"A\", \"gpus\": 8, \"min_runtime\": 60, \"runtime\": 600}],\n\"until\": 1000,\n"
        "\"expect\": [{\"at\": 500, \"job\": \"J\", \"state\": \"STATE\"}]}";
    const auto with = [&](const std::string& state) {
        std::string text = scenario;
        return text.replace(text.find("STATE"), 5, state);
    };
    write("good.json", with("running"));
    write("bad.json", with("pending"));
    write("broken.json", with("asleep"));
    const Answer good = sreplay("check good.json");
    EXPECT_EQ(good.code, 0) << good.out << good.err;
    EXPECT_EQ(good.out, "1 of 1 scenario holds\n");
    const Answer bad = sreplay("check good.json bad.json");
    EXPECT_EQ(bad.code, 1);
    EXPECT_NE(bad.out.find("bad.json: fails\n"), std::string::npos) << bad.out;
    EXPECT_NE(bad.out.find("running"), std::string::npos) << bad.out;
    EXPECT_NE(bad.out.find("1 of 2 scenarios hold\n"), std::string::npos) << bad.out;
    const Answer broken = sreplay("check broken.json none.json");
    EXPECT_EQ(broken.code, 1);
    EXPECT_NE(broken.err.find("asleep"), std::string::npos) << broken.err;
    EXPECT_NE(broken.err.find("none.json"), std::string::npos) << broken.err;
    const auto json = parse_json(sreplay("check --json bad.json").out, "answer");
    ASSERT_TRUE(json.ok());
    EXPECT_FALSE(json->at("holds").as_boolean());
    EXPECT_EQ(sreplay("check -P good.json bad.json").out,
              "SCENARIO|RESULT\ngood.json|holds\nbad.json|fails\n");
}

// 2 x 8 GPUs; r holds n1 past its contract, s half of n2 with an hour of it left; the rest waits.
constexpr const char* kSnapshot = R"({"version": 1, "cluster": "lab", "at": 1700000000,
 "settings": {"GraceTime": "30"},
 "budgets": [{"name": "a", "shares": 1}, {"name": "b", "shares": 1}],
 "nodes": [{"name": "n1", "gpus": 8}, {"name": "n2", "gpus": 8},
           {"name": "n3", "gpus": 8, "usable": false}],
 "past": [{"budget": "a", "user": "u", "kind": "allocated", "gpu_seconds": 345601,
           "mean_age_seconds": 43200}],
 "jobs": [
  {"id": "1", "state": "running", "budget": "a", "user": "u", "gpus": 8, "min_runtime": 3600,
   "resumable": true, "submit": 1699990000, "time_limit": 90000, "kind": "allocated",
   "started_at": 1699992800, "contract_left": 0, "where": [{"node": "n1", "gpus": 8}]},
  {"id": "2", "state": "running", "budget": "a", "user": "u", "gpus": 4, "min_runtime": 7200,
   "resumable": true, "submit": 1699990000, "time_limit": 36000, "kind": "allocated",
   "started_at": 1699996400, "contract_left": 3600, "where": [{"node": "n2", "gpus": 4}]},
  {"id": "3", "state": "pending", "budget": "b", "user": "v", "gpus": 8, "nodes": 1,
   "min_runtime": 3600, "resumable": true, "submit": 1699999000, "time_limit": 7200},
  {"id": "4", "state": "pending", "budget": "b", "user": "v", "gpus": 2, "nodes": 1, "tasks": 3,
   "min_runtime": 0, "submit": 1699999500, "time_limit": 600},
  {"id": "5", "state": "pending", "budget": "b", "user": "v", "gpus": 8, "nodes": 1,
   "blocked": "held", "min_runtime": 3600, "submit": 1699999000}]})";

TEST_F(Sreplay, check_leaves_out_rules_and_lists_them) {
    const std::string file = TRANCHE_SOURCE_DIR "/test/scenarios/who_has_least_to_lose_goes.json";
    EXPECT_EQ(sreplay("check " + file).code, 0);
    EXPECT_EQ(sreplay("check --without=preempt-margin,ties " + file).code, 0);
    const Answer without = sreplay("check --without=least-to-lose " + file);
    EXPECT_EQ(without.code, 1);
    EXPECT_NE(without.out.find("\"job\":\"young\""), std::string::npos) << without.out;
    const Answer list = sreplay("check --list-rules -P -n");
    EXPECT_EQ(list.code, 0);
    EXPECT_NE(list.out.find("preempt-margin|PreemptMargin=0|"), std::string::npos) << list.out;
    EXPECT_NE(list.out.find("least-to-lose||"), std::string::npos);
    EXPECT_EQ(sreplay("run --list-rules").code, 2);
}

TEST_F(Sreplay, run_goes_on_from_a_snapshot) {
    write("now.json", kSnapshot);
    const Answer answer = sreplay("run --snapshot=now.json --trace=t.txt --json");
    ASSERT_EQ(answer.code, 0) << answer.err;
    const auto json = parse_json(answer.out, "answer");
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(json->at("jobs").as_integer(), 6);
    const std::string trace = read_all(folder / "t.txt");
    // What ran goes on where it was; the job of the other budget takes the run past its contract.
    EXPECT_NE(trace.find("{\"at\":1700000000,\"do\":\"start\",\"job\":\"1\""), std::string::npos)
        << trace;
    EXPECT_NE(trace.find("\"job\":\"2\",\"run\":1,\"budget\":\"a\",\"kind\":\"allocated\","
                         "\"express\":false,\"gpus\":4,\"where\":\"n2:4\","
                         "\"protected_until\":1700003600"),
              std::string::npos)
        << trace;
    EXPECT_NE(trace.find("\"do\":\"preempt\",\"job\":\"1\",\"for\":\"3\""), std::string::npos)
        << trace;
    EXPECT_EQ(trace.find("n3:"), std::string::npos) << trace;
    EXPECT_EQ(sreplay("run --snapshot=now.json --json").out, answer.out);
    // A limit of 10 h of which an hour is over.
    EXPECT_NE(trace.find("{\"at\":1700032400,\"do\":\"end\",\"job\":\"2\""), std::string::npos)
        << trace;
    const Answer shorter =
        sreplay("run --snapshot=now.json --assume=runtime=0.5*time_limit --trace=t.txt");
    EXPECT_EQ(shorter.code, 0) << shorter.err;
    EXPECT_NE(read_all(folder / "t.txt").find("{\"at\":1700014400,\"do\":\"end\",\"job\":\"2\""),
              std::string::npos);
}

TEST_F(Sreplay, a_snapshot_takes_more_jobs_settings_budgets_and_an_end) {
    write("now.json", kSnapshot);
    write("more.csv", "job_id,submit,gpus,runtime,account\n1,60,2,60,b\n");
    const Answer answer = sreplay(
        "run --snapshot=now.json --jobs=more.csv --set=LookbackWindow=2-0 --until=6h "
        "--budgets=budgets.json --json");
    ASSERT_EQ(answer.code, 0) << answer.err;
    const auto json = parse_json(answer.out, "answer");
    EXPECT_EQ(json->at("jobs").as_integer(), 7);
    EXPECT_EQ(json->at("simulated_seconds").as_integer(), 6 * 3600);
    EXPECT_EQ(sreplay("compare --snapshot=now.json").code, 0);
    EXPECT_EQ(sreplay("run --snapshot=now.json --policy=fifo").code, 2);
    EXPECT_EQ(sreplay("run --snapshot=now.json --cluster=2x8").code, 2);
    EXPECT_EQ(sreplay("run --snapshot=now.json --inject=debug:10/day").code, 1);
    EXPECT_EQ(sreplay("run --snapshot=now.json --inject=debug:10/day --until=1d").code, 0);
    EXPECT_EQ(sreplay("run --snapshot=now.json --until=0").code, 1);
}

TEST_F(Sreplay, a_bad_snapshot_is_refused) {
    const auto changed = [](const std::string& from, const std::string& to) {
        std::string text = kSnapshot;
        return text.replace(text.find(from), from.size(), to);
    };
    const struct {
        std::string text, told;
    } cases[] = {
        {"", "is not JSON"},
        {"{}", "version is missing"},
        {changed("\"gpus\": 8}, ", "\"gpus\": -8}, "), "nodes[0].gpus is -8"},
        {changed("\"n2\", \"gpus\": 4", "\"n9\", \"gpus\": 4"), "'n9', which is no node"},
        {changed("\"n2\", \"gpus\": 4", "\"n1\", \"gpus\": 4"), "holds more GPUs of n1"},
        {changed("GraceTime", "Colour"), "settings.Colour"},
        {changed("\"state\": \"pending\"", "\"state\": \"lost\""), "is 'lost'; pending, running"},
        {changed("\"id\": \"2\"", "\"id\": \"1\""), "job '1' is there twice"},
    };
    for (const auto& each : cases) {
        write("now.json", each.text);
        const Answer answer = sreplay("run --snapshot=now.json");
        EXPECT_EQ(answer.code, 1) << each.told;
        EXPECT_NE(answer.err.find(each.told), std::string::npos) << answer.err << each.told;
    }
}

TEST_F(Sreplay, slices_of_real_traces_are_replayed) {
    const std::string rest =
        " --assume='min_runtime=min(1h,runtime) resumable=1 users=10' --json 2>/dev/null";
    for (const auto& [file, cluster, jobs] :
         {std::tuple{"philly-4-days.csv.gz", "16x8", 1328}, {"hpc2n-300.swf", "60x4", 293}}) {
        const Answer answer = sreplay("run --jobs='" TRANCHE_SOURCE_DIR "/test/data/" +
                                      std::string(file) + "' --cluster=" + cluster + rest);
        const auto json = parse_json(answer.out, "answer");
        ASSERT_TRUE(json.ok()) << answer.err;
        EXPECT_EQ(json->at("jobs").as_integer(), jobs);
        const Json invariants = json->at("invariants");
        for (const std::string& key : invariants.keys()) {
            if (invariants.at(key.c_str()).is_boolean()) {
                EXPECT_TRUE(invariants.at(key.c_str()).as_boolean()) << key;
            }
        }
    }
}

}  // namespace
}  // namespace tranche
