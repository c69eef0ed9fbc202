// SPDX-License-Identifier: GPL-2.0-or-later
// tranche-run with real processes: what runs, what hears a signal, what comes back.
#include "tools/tranche_run.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace tranche {
namespace {

namespace fs = std::filesystem;

class TrancheRun : public testing::Test {
  protected:
    void SetUp() override {
        static int number = 0;
        folder = fs::path(testing::TempDir()) /
                 ("tranche-run-" + std::to_string(getpid()) + "-" + std::to_string(++number));
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }

    // Starts `words` after tranche-run, in the folder; `step`: as a task of a step, in a process
    // group of its own as slurmstepd has it.
    pid_t start(const std::string& words, bool step = false, const char* rank = "0") {
        const pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            if (chdir(folder.c_str()) != 0) {
                _exit(99);
            }
            unsetenv("SLURM_STEP_ID");
            if (step) {
                setenv("SLURM_STEP_ID", "0", 1);
                setenv("SLURM_PROCID", rank, 1);
            }
            const std::string line =
                "exec '" TRANCHE_BUILD_DIR "/tranche-run' " + words + " 2>>err >>out";
            execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
            _exit(99);
        }
        setpgid(child, child);
        return child;
    }
    static int exit_code(pid_t child) {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    int run(const std::string& words) { return exit_code(start(words)); }

    std::string text(const std::string& name) const {
        std::ifstream file(folder / name);
        std::ostringstream all;
        all << file.rdbuf();
        return all.str();
    }
    bool appears(const std::string& name) const {
        for (int i = 0; i < 2000 && !fs::exists(folder / name); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return fs::exists(folder / name);
    }

    fs::path folder;
};

TEST_F(TrancheRun, the_exit_code_and_output_are_the_programs) {
    EXPECT_EQ(run("--on-preempt=false sh -c 'echo hello; exit 7'"), 7);
    EXPECT_EQ(text("out"), "hello\n");
    EXPECT_EQ(run("--on-preempt=false -- sh -c 'kill -KILL $$'"), 128 + SIGKILL);
    EXPECT_EQ(run("-p false true"), 0);
    EXPECT_EQ(run("--on-preempt=false ./nowhere"), 127);
    EXPECT_NE(text("err").find("tranche-run: ./nowhere: No such file"), std::string::npos);
    // Options behind the program are the program's.
    EXPECT_EQ(run("--on-preempt=false sh -c 'echo \"$@\"' x --signal=USR1"), 0);
    EXPECT_NE(text("out").find("--signal=USR1"), std::string::npos);
}

TEST_F(TrancheRun, at_the_warning_the_command_runs_once_while_the_program_goes_on) {
    const pid_t child = start(
        "--on-preempt='echo $TRANCHE_NOTICE $TRANCHE_SIGNAL >> notice; "
        "kill -0 $TRANCHE_PROGRAM_PID && kill -USR1 $TRANCHE_PROGRAM_PID; sleep 0.3; echo end >> "
        "notice' sh -c 'trap \"touch saved\" USR1; touch up; while :; do sleep 0.05; done'",
        true);
    ASSERT_TRUE(appears("up"));
    // slurmstepd signals all processes of a step.
    kill(-child, SIGTERM);
    ASSERT_TRUE(appears("notice"));
    kill(child, SIGTERM);
    EXPECT_EQ(exit_code(child), 128 + SIGKILL);
    EXPECT_TRUE(fs::exists(folder / "saved"));
    EXPECT_EQ(text("notice"), "preempted 15\nend\n");
}

TEST_F(TrancheRun, a_program_that_ends_meanwhile_does_not_cut_the_command_short) {
    const pid_t child = start(
        "--on-preempt='touch begun; sleep 0.5; touch saved' "
        "sh -c 'touch up; while [ ! -e begun ]; do sleep 0.02; done; exit 3'",
        true);
    ASSERT_TRUE(appears("up"));
    kill(-child, SIGTERM);
    EXPECT_EQ(exit_code(child), 3);
    EXPECT_TRUE(fs::exists(folder / "saved"));
}

TEST_F(TrancheRun, in_a_batch_script_the_program_is_shielded_by_nothing_and_ended_afterwards) {
    const pid_t child = start("--on-preempt='touch saved' sh -c 'touch up; exec sleep 1000'");
    ASSERT_TRUE(appears("up"));
    kill(child, SIGTERM);
    EXPECT_EQ(exit_code(child), 128 + SIGTERM);
    EXPECT_TRUE(fs::exists(folder / "saved"));
}

TEST_F(TrancheRun, other_signals_are_passed_on_where_only_we_hear_them) {
    const pid_t child = start(
        "--on-preempt=false sh -c 'trap \"echo usr1 >> heard; exit 5\" USR1; touch up; while :; do "
        "sleep 0.05; done'");
    ASSERT_TRUE(appears("up"));
    kill(child, SIGUSR1);
    EXPECT_EQ(exit_code(child), 5);
    EXPECT_EQ(text("heard"), "usr1\n");
}

TEST_F(TrancheRun, another_signal_may_be_the_warning) {
    const pid_t child =
        start("--signal=usr2 --on-preempt='touch saved' sh -c 'touch up; exec sleep 1000'", true);
    ASSERT_TRUE(appears("up"));
    kill(-child, SIGUSR2);
    EXPECT_EQ(exit_code(child), 128 + SIGTERM);
    EXPECT_TRUE(fs::exists(folder / "saved"));
}

TEST_F(TrancheRun, only_the_first_task_runs_the_command_if_that_is_wished) {
    const pid_t child = start(
        "--first-task --kill-after=0 --on-preempt='touch saved' sh -c 'touch up; exec sleep 1000'",
        true, "1");
    ASSERT_TRUE(appears("up"));
    kill(-child, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it goes on inside the grace";
    kill(-child, SIGTERM);
    EXPECT_EQ(exit_code(child), 128 + SIGKILL);
    EXPECT_FALSE(fs::exists(folder / "saved"));
}

TEST_F(TrancheRun, mistakes_are_named_with_what_is_right) {
    const struct {
        const char* words;
        const char* expected;
    } cases[] = {
        {"true", "--on-preempt='touch checkpoint-now' PROGRAM would be right"},
        {"--on-preempt=true", "no program is said"},
        {"--on-preempt=true --signal=KILL true", "--signal='KILL': TERM, INT, HUP"},
        {"--on-preempt=true --kill-after=soon true", "--kill-after='soon' is not a whole number"},
        {"--bogus", "'--bogus'"},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(run(c.words), 2) << c.words;
        EXPECT_NE(text("err").find(c.expected), std::string::npos) << text("err");
        fs::remove(folder / "err");
    }
    EXPECT_EQ(run("--help"), 0);
    EXPECT_NE(text("out").find("--first-task"), std::string::npos);
}

}  // namespace
}  // namespace tranche
