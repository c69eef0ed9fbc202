// SPDX-License-Identifier: GPL-2.0-or-later
// What people are told before it happens, and the program that tells it.
#include "engine/notices.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr std::int64_t kHour = 3600;

Wish wish(const std::string& account, std::int64_t min_runtime) {
    Wish out;
    out.account = account;
    out.gpus = 8;
    out.min_runtime_seconds = min_runtime;
    return out;
}

// A program of the test's own; its notices are appended to `log`.
class Program {
  public:
    explicit Program(const std::string& body) {
        static int number = 0;
        folder_ = std::filesystem::path(testing::TempDir()) /
                  ("tranche-notify-" + std::to_string(getpid()) + "-" + std::to_string(++number));
        std::filesystem::create_directories(folder_);
        std::ofstream(path()) << "#!/bin/sh\nlog=" << log() << "\n" << body << "\n";
        chmod(path().c_str(), 0755);
    }
    ~Program() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    std::string path() const { return (folder_ / "program").string(); }
    std::string log() const { return (folder_ / "log").string(); }
    std::vector<std::string> lines() const {
        std::ifstream file(log());
        std::vector<std::string> out;
        for (std::string line; std::getline(file, line);) {
            out.push_back(line);
        }
        return out;
    }
    // Real seconds: the program is a real one.
    bool has_written(std::size_t count) const {
        for (int i = 0; i < 2000 && lines().size() < count; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return lines().size() >= count;
    }

  private:
    std::filesystem::path folder_;
};

bool appears(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return holds();
}

TEST(Notices, each_comes_once_and_only_those_that_fit) {
    const struct {
        std::int64_t left, contract, noticed, due;
    } cases[] = {
        {7200, 7200, kNever, 0},
        {3601, 7200, kNever, 0},
        {3600, 7200, kNever, 3600},
        {3599, 7200, 3600, 0},
        {900, 7200, 3600, 900},
        {899, 7200, 900, 0},
        {300, 7200, 900, 300},
        {10, 7200, 300, 0},
        {0, 7200, kNever, 0},
        {3600, 3600, kNever, 0},
        {900, 3600, kNever, 900},
        {600, 900, kNever, 0},
        {300, 900, kNever, 300},
        {300, 300, kNever, 0},
        {200, 200, kNever, 0},
        // What was missed meanwhile is not told after the fact, the last of it is.
        {200, 7200, kNever, 300},
        {800, 7200, kNever, 900},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(notice_due(c.left, c.contract, c.noticed), c.due)
            << c.left << " of " << c.contract << " after " << c.noticed;
    }
}

TEST(Notices, a_session_hears_of_its_contracts_end_across_restarts) {
    EngineRig rig(1, 8, "GraceTimeInteractive=600");
    rig.begin({budget_of("a", 1)});
    Wish session = wish("a", 2 * kHour);
    session.interactive = true;
    session.resumable = false;
    const JobId id = rig.cluster->submit(session);
    rig.run(3590);
    EXPECT_TRUE(rig.cluster->told(id).empty());
    rig.run(20);
    ASSERT_EQ(rig.cluster->told(id).size(), 1u);
    EXPECT_NE(rig.cluster->told(id)[0].find("tranche: the contract of job 1 ends in "),
              std::string::npos);
    EXPECT_NE(rig.cluster->told(id)[0].find("10 min after a warning"), std::string::npos);
    rig.restart();
    rig.run(10);
    EXPECT_EQ(rig.cluster->told(id).size(), 1u);
    rig.run(2700);
    EXPECT_EQ(rig.cluster->told(id).size(), 2u);
    // Down while the last one was due: it comes late rather than not at all.
    rig.run(500);
    rig.stop();
    rig.run(200);
    rig.start();
    rig.run(2);
    EXPECT_EQ(rig.cluster->told(id).size(), 3u);
    rig.restart();
    rig.run(1000);
    EXPECT_EQ(rig.cluster->told(id).size(), 3u);
}

TEST(Notices, a_batch_job_hears_nothing_on_a_terminal) {
    EngineRig rig(1, 8);
    rig.begin({budget_of("a", 1)});
    const JobId id = rig.cluster->submit(wish("a", 1800));
    rig.run(2000);
    EXPECT_TRUE(rig.cluster->told(id).empty());
}

TEST(Notices, a_longer_contract_has_notices_of_its_own) {
    EngineRig rig(1, 8);
    rig.begin({budget_of("a", 1)});
    Wish session = wish("a", 1800);
    session.interactive = true;
    session.resumable = false;
    const JobId id = rig.cluster->submit(session);
    rig.run(1000);
    EXPECT_EQ(rig.cluster->told(id).size(), 1u);
    ContractQuestion question;
    question.job.id = id;
    question.edit.min_runtime = "3h";
    const auto posted = rig.engine->contracts().post({0, "root", true}, question);
    rig.step();
    ASSERT_TRUE(rig.engine->contracts().wait(posted, std::chrono::milliseconds(0)).ok());
    rig.run(10);
    EXPECT_EQ(rig.cluster->told(id).size(), 1u);
    rig.run(3 * kHour - 1000);
    EXPECT_EQ(rig.cluster->told(id).size(), 4u);
}

TEST(Notices, the_owner_who_asked_hears_of_the_end_and_of_the_preemption_with_its_reason) {
    const Program program(
        "echo \"$TRANCHE_NOTICE|$TRANCHE_JOB_ID|$TRANCHE_USER|$TRANCHE_MAIL_USER|$TRANCHE_BUDGET|"
        "$TRANCHE_REASON|$TRANCHE_REQUEUE|$TRANCHE_TEXT\" >> $log");
    EngineRig rig(1, 8,
                  "ExpressFraction=0\nMaxProtectedFraction=1\nNotifyProgram=" + program.path());
    rig.begin({budget_of("a", 1), budget_of("b", 1)});
    Wish asks = wish("a", 1800);
    asks.wants_mail = true;
    const JobId victim = rig.cluster->submit(asks);
    rig.run(950);
    ASSERT_TRUE(program.has_written(1));
    EXPECT_EQ(program.lines()[0].substr(0, 43), "contract-ending|1|ann|ann|a|||the contract ");
    const JobId claimant = rig.cluster->submit(wish("b", 600));
    ASSERT_TRUE(rig.run_until([&] { return rig.is_running(claimant); }, 1000));
    ASSERT_TRUE(program.has_written(2));
    EXPECT_EQ(program.lines()[1].substr(0, 39), "preempted|1|ann|ann|a|smaller-ratio|yes");
    EXPECT_NE(program.lines()[1].find("job 1 makes room for job 2 of ann"), std::string::npos);
    rig.run(100);
    EXPECT_EQ(program.lines().size(), 2u);
    EXPECT_TRUE(rig.is_pending(victim));
}

TEST(Notices, a_program_that_hangs_or_fails_blocks_nobody_and_is_complained_of) {
    const Program hangs("echo begun >> $log; sleep 1000 & sleep 1000");
    const Program fails("exit 3");
    std::mutex mutex;
    std::vector<std::string> complaints;
    const auto complained = [&](const std::string& part) {
        const std::lock_guard lock(mutex);
        return std::any_of(complaints.begin(), complaints.end(), [&](const std::string& text) {
            return text.find(part) != std::string::npos;
        });
    };
    Notifier::Limits limits;
    limits.waiting = 4;
    limits.run = std::chrono::milliseconds(1000);
    Notifier notifier(
        [&](const std::string& text) {
            const std::lock_guard lock(mutex);
            complaints.push_back(text);
        },
        limits);
    notifier.put({hangs.path(), "a hang", {}});
    ASSERT_TRUE(hangs.has_written(1));
    notifier.put({fails.path(), "a failure", {}});
    notifier.put({"/nowhere/at-all", "nothing", {}});
    for (int i = 0; i < 10; ++i) {
        notifier.put({fails.path(), "too much", {}});
    }
    EXPECT_TRUE(
        appears([&] { return complained("for a hang did not end in 1 s and was killed"); }));
    EXPECT_TRUE(appears([&] { return complained("for a failure ended with status 3"); }));
    EXPECT_TRUE(appears(
        [&] { return complained("/nowhere/at-all for nothing cannot be run: No such file"); }));
    EXPECT_TRUE(appears([&] { return complained("8 notices were dropped"); }));
    // A stop does not wait for the time limit either.
    Notifier other([](const std::string&) {});
    other.put({hangs.path(), "a hang", {}});
    ASSERT_TRUE(hangs.has_written(2));
    other.stop();
}

TEST(Notices, the_program_gets_nothing_of_the_daemon) {
    const Program program(
        "echo $(ls /proc/self/fd | wc -l) $(env | grep -c -v -e ^TRANCHE_TEXT= -e ^PWD= -e ^_= "
        "-e ^SHLVL= -e ^OLDPWD=) \"$(grep SigBlk /proc/self/status | tr -d '[:space:]')\" "
        "\"$TRANCHE_TEXT\" >> $log");
    const int leak = open("/dev/null", O_RDONLY);  // without close-on-exec
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Notifier notifier([](const std::string& text) { ADD_FAILURE() << text; });
    notifier.put({program.path(), "a look", {"TRANCHE_TEXT=two words"}});
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ASSERT_TRUE(program.has_written(1));
    // Standard input, output and error, and the folder that ls reads.
    EXPECT_EQ(program.lines()[0], "4 0 SigBlk:0000000000000000 two words");
    close(leak);
}

}  // namespace
}  // namespace tranche::test
