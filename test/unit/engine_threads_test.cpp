// SPDX-License-Identifier: GPL-2.0-or-later
// The engine with its own threads: starts and stops in one process, and everybody at once. What is
// wrong here shows best under ThreadSanitizer.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

const Actor kRoot{0, "root", true};

int free_port() {
    const int number = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    int port = 0;
    if (bind(number, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        getsockname(number, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
        port = ntohs(address.sin_port);
    }
    close(number);
    return port;
}

std::size_t entries(const char* folder) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) {
        ++count;
    }
    return count;
}

// Nothing that people would wait for: cycles and graces as short as they can be.
std::string hasty_settings() {
    return "RankInterval=1\nGraceTime=0\nGraceTimeFree=0\nGraceTimeInteractive=0\n"
           "ExpressMinRuntime=5:00\nMaxProtectedFraction=1\nServicePort=" +
           std::to_string(free_port()) + "\n";
}

Wish wish(const std::string& account, std::int64_t gpus, std::int64_t min_runtime) {
    Wish out;
    out.account = account;
    out.user = "user-of-" + account;
    out.gpus = gpus;
    out.min_runtime_seconds = min_runtime;
    return out;
}

bool wait_for_view(const Engine& engine) {
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!engine.view() && std::chrono::steady_clock::now() < enough) {
        std::this_thread::yield();
    }
    return engine.view() != nullptr;
}

TEST(EngineThreads, starting_and_stopping_in_one_process_leaves_nothing_behind) {
    EngineRig rig(2, 8, hasty_settings());
    std::filesystem::create_directories(rig.state_directory());
    rig.cluster->submit(wish("a", 8, 600));
    rig.cluster->schedule();
    Engine engine;
    const auto round = [&](bool wait) {
        engine.start(std::make_unique<FakeHost>(rig.cluster), rig.options());
        EXPECT_TRUE(engine.running());
        if (wait) {
            EXPECT_TRUE(wait_for_view(engine));
        }
        engine.stop();
        EXPECT_FALSE(engine.running());
        EXPECT_EQ(nullptr, engine.view());
    };
    round(true);
    const std::size_t threads = entries("/proc/self/task");
    const std::size_t descriptors = entries("/proc/self/fd");
    for (int i = 0; i < 20; ++i) {
        round(i % 2 == 0);  // also before it has come up
        rig.cluster->tick();
    }
    EXPECT_EQ(threads, entries("/proc/self/task"));
    EXPECT_EQ(descriptors, entries("/proc/self/fd"));
    EXPECT_EQ(1u, rig.segments().size());
}

TEST(EngineThreads, one_that_does_not_run_answers_neutrally) {
    Engine engine;
    engine.stop();
    engine.reconfigure();
    engine.kick();
    EXPECT_EQ(nullptr, engine.view());
    EXPECT_EQ(0u, engine.place_for(1, "a", "ann", {}, true, {}).priority);
    EXPECT_FALSE(engine.stamp(1, 1000));
    EXPECT_FALSE(engine.edit(kRoot, {}, false).ok());
    EXPECT_EQ(nullptr, engine.host());
}

TEST(EngineThreads, everybody_at_once) {
    EngineRig rig(8, 8, hasty_settings());
    std::filesystem::create_directories(rig.state_directory());
    Engine engine;
    engine.start(std::make_unique<FakeHost>(rig.cluster), rig.options());
    ASSERT_TRUE(wait_for_view(engine));
    BudgetEdit load;
    load.kind = BudgetEdit::Kind::load;
    load.tree = {budget_of("a", 1), budget_of("b", 1), budget_of("c", 2)};
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!engine.edit(kRoot, load, false).ok() && std::chrono::steady_clock::now() < enough) {
        std::this_thread::yield();
    }

    std::atomic<bool> over{false};
    std::vector<std::thread> crowd;
    const auto joins = [&](auto&& body) {
        crowd.emplace_back([&over, body] {
            for (std::uint32_t round = 0; !over; ++round) {
                body(round);
                std::this_thread::yield();
            }
        });
    };
    const auto& cluster = rig.cluster;
    joins([&](std::uint32_t round) {  // users
        if (cluster->ids(HostJobState::pending).size() < 60) {
            Wish w = wish(std::string(1, static_cast<char>('a' + round % 3)), 1 + round % 8,
                          round % 4 == 0 ? 0 : 60 * (round % 9));
            w.runtime_seconds = 20 + round % 300;
            w.resumable = round % 3 != 0;
            w.interactive = round % 17 == 0;
            w.tasks = round % 11 == 0 ? 5 : 0;
            const JobId id = cluster->submit(w);
            engine.place_for(id, w.account, w.user, {}, true, {});
            engine.kick();
        }
    });
    joins([&](std::uint32_t round) {  // people who look
        if (const auto view = engine.view()) {
            for (const JobCard& card : view->cards) {
                engine.stamp(card.id, view->at);
            }
        }
        if (round % 8 == 0) {
            EXPECT_TRUE(engine.preemptions(0, kNever, 50).ok());
            EXPECT_TRUE(engine.edits(50).ok());
        }
    });
    joins([&](std::uint32_t round) {  // a manager who cannot decide
        BudgetEdit edit;
        edit.kind = BudgetEdit::Kind::modify;
        edit.name = std::string(1, static_cast<char>('a' + round % 3));
        edit.shares = 1 + round % 5;
        EXPECT_TRUE(engine.edit(kRoot, edit, round % 2 == 0).ok());
    });
    joins([&](std::uint32_t round) {  // an administrator
        if (round % 64 == 0) {
            rig.write_settings(hasty_settings() + (round % 128 == 0 ? "LookbackWindow=2-0\n" : ""));
            engine.reconfigure();
        }
        if (round % 256 == 0) {
            cluster->set_node("n3", round % 512 == 0, false);
        }
    });
    // The daemon: 2000 seconds, and the engine looks at least every twentieth.
    const auto cycles = [&] { return engine.view()->health.cycles; };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    for (int second = 0; second < 2000; ++second) {
        cluster->tick();
        cluster->schedule();
        const std::int64_t before = cycles();
        while (second % 20 == 0 && cycles() == before && std::chrono::steady_clock::now() < until) {
            engine.kick();
            std::this_thread::yield();
        }
    }
    over = true;
    for (std::thread& one : crowd) {
        one.join();
    }
    EXPECT_EQ(0, engine.view()->health.faults) << engine.view()->health.last_fault;
    EXPECT_TRUE(engine.view()->health.database_ok);
    EXPECT_LT(0, engine.view()->health.preemptions);
    engine.stop();
    // Segments of one run do not overlap.
    std::map<std::pair<JobId, std::int64_t>, std::int64_t> ends;
    for (const SegmentRow& row : rig.segments()) {
        std::int64_t& last = ends[{row.key.job_id, row.key.submit_at}];
        EXPECT_LE(last, row.key.begin_at) << "job " << row.key.job_id;
        last = row.ended_at == 0 ? kNever : row.ended_at;
    }
}

}  // namespace
}  // namespace tranche::test
