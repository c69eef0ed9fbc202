// SPDX-License-Identifier: GPL-2.0-or-later
// The engine with its threads and its service, and everybody at once: submissions, ends, edits of
// the tree and of contracts, reconfigurations, questions over the network, stops and starts. What
// is wrong here shows best under ThreadSanitizer.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/wire/budgets_json.hpp"
#include "engine/engine.hpp"
#include "support/engine_rig.hpp"
#include "support/private_munge.hpp"
#include "tools/service_client.hpp"

namespace tranche::test {
namespace {

using Clock = std::chrono::steady_clock;

const Actor kRoot{0, "root", true};
constexpr int kSeconds = 1200;  // of the cluster
constexpr auto kPatience = std::chrono::seconds(240);

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

// Says something that is no request, and goes.
void knock(int port, std::uint32_t round) {
    const int number = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (connect(number, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        const std::string words("\0\0\0\x05helloMUNGE:x:", 18);
        const std::size_t most = round % words.size();
        [[maybe_unused]] const auto sent = send(number, words.data(), most, MSG_NOSIGNAL);
        if (round % 3 == 0) {
            char answer[64];
            [[maybe_unused]] const auto got =
                recv(number, answer, sizeof answer, round % 2 == 0 ? MSG_DONTWAIT : MSG_PEEK);
        }
    }
    close(number);
}

Wish drawn_wish(std::uint32_t round) {
    Wish out;
    out.account = std::string(1, static_cast<char>('a' + round % 3));
    out.user = "user-of-" + out.account;
    out.gpus = 1 + round % 8;
    out.min_runtime_seconds = round % 4 == 0 ? 0 : 60 * (round % 9);
    out.runtime_seconds = 20 + round % 300;
    out.resumable = round % 3 != 0;
    out.interactive = round % 17 == 0;
    out.tasks = round % 11 == 0 ? 5 : 0;
    out.spared = round % 13 == 0;
    out.partition = round % 7 == 0 ? "other" : "gpu";
    return out;
}

class Stress : public testing::Test {
  protected:
    Stress() : rig(8, 8, settings(0)) {
        std::filesystem::create_directories(rig.state_directory());
        options = rig.options();
        options.munge_socket = munge.ready() ? munge.socket() : "/nosuch/munge";
        options.slurm_user_uid = geteuid();
    }

    std::string settings(std::uint32_t round) const {
        static constexpr const char* kMore[] = {
            "",
            "DryRun=yes\n",
            "Partitions=gpu\n",
            "PreemptWithinBudget=both\nMaxPreemptionsPerHour=500\n",
            "LookbackWindow=2-0\nPartitions=gpu,nosuch\n",
            "Policy=article\n",
            "this is wrong\n",
        };
        return "RankInterval=1\nGraceTime=0\nGraceTimeFree=0\nGraceTimeInteractive=0\n"
               "ExpressMinRuntime=5:00\nServicePort=" +
               std::to_string(port) + "\n" + kMore[round % std::size(kMore)];
    }

    void start(Engine& engine) {
        engine.start(std::make_unique<FakeHost>(rig.cluster), options);
        const auto enough = Clock::now() + kPatience;
        while (!engine.view() && Clock::now() < enough) {
            std::this_thread::yield();
        }
    }

    // Until it succeeds.
    bool edit(Engine& engine, const BudgetEdit& edit) {
        const auto enough = Clock::now() + kPatience;
        while (Clock::now() < enough) {
            if (engine.edit(kRoot, edit, false).ok()) {
                return true;
            }
            std::this_thread::yield();
        }
        return false;
    }

    Result<Json> ask(const std::string& method, const Json& arguments = Json::object()) const {
        const ServiceAddress address{
            "test", {"127.0.0.1"}, port, options.munge_socket, options.slurm_user_uid};
        return ask_service(address, method, arguments, {200, 5000});
    }

    const int port = free_port();
    PrivateMunge munge;  // before there are threads
    EngineRig rig;
    EngineOptions options;
};

TEST_F(Stress, everybody_at_once_and_stops_and_starts_meanwhile) {
    Engine engine;
    start(engine);
    BudgetEdit load;
    load.kind = BudgetEdit::Kind::load;
    load.tree = {budget_of("a", 1), budget_of("b", 1), budget_of("c", 2)};
    ASSERT_TRUE(edit(engine, load));

    std::atomic<bool> over{false};
    std::atomic<int> answered{0}, edited{0}, changed{0};
    std::vector<std::thread> crowd;
    const auto joins = [&](auto&& body) {
        crowd.emplace_back([&over, body] {
            for (std::uint32_t round = 0; !over; ++round) {
                body(round);
                std::this_thread::yield();
            }
        });
    };
    const auto cluster = rig.cluster;
    joins([&](std::uint32_t round) {  // users
        const auto pending = cluster->ids(HostJobState::pending);
        if (pending.size() < 60) {
            const Wish wish = drawn_wish(round);
            const JobId id = cluster->submit(wish);
            engine.place_for(id, wish.account, wish.user, {}, true, {});
            engine.kick();
        } else if (round % 16 == 0) {
            cluster->cancel(pending[round % pending.size()]);
        }
        if (const auto running = cluster->ids(HostJobState::running);
            round % 32 == 0 && !running.empty()) {
            const JobId id = running[round % running.size()];
            round % 64 == 0 ? cluster->cancel(id) : cluster->requeue(id);
        }
    });
    joins([&](std::uint32_t) {  // slurmctld's entry points
        if (const auto view = engine.view()) {
            for (const JobCard& card : view->cards) {
                engine.note_start_attempt(card.id);
                engine.stamp(card.id, view->at);
            }
        }
    });
    joins([&](std::uint32_t round) {  // owners
        const auto ids =
            cluster->ids(round % 2 == 0 ? HostJobState::pending : HostJobState::running);
        if (ids.empty()) {
            return;
        }
        ContractQuestion question;
        question.job.id = ids[round % ids.size()];
        question.checkpointed = round % 3 == 0;
        if (!question.checkpointed) {
            question.edit.min_runtime = std::to_string(1 + round % 9) + "m";
        }
        question.only_try = round % 5 == 0;
        changed += engine.change_contract(kRoot, question).ok() ? 1 : 0;
    });
    joins([&](std::uint32_t round) {  // managers
        BudgetEdit edit;
        edit.kind = BudgetEdit::Kind::modify;
        edit.name = std::string(1, static_cast<char>('a' + round % 3));
        edit.shares = 1 + round % 5;
        edited += engine.edit(kRoot, edit, round % 2 == 0).ok() ? 1 : 0;
        if (round % 8 == 0) {
            [[maybe_unused]] const auto edits = engine.edits(50);
            [[maybe_unused]] const auto contracts = engine.contract_edits(50);
            [[maybe_unused]] const auto preemptions = engine.preemptions(0, kNever, 50);
            [[maybe_unused]] const auto history = engine.history(round % 100, -1, false, 10);
        }
    });
    for (int client = 0; client < 2; ++client) {
        joins([&, client](std::uint32_t round) {  // over the network
            static constexpr const char* kMethods[] = {
                "health",      "queue", "running", "tree",     "budget",
                "preemptions", "edits", "dump",    "snapshot", "contract_edits"};
            if (!munge.ready()) {
                knock(port, round);
                return;
            }
            Json arguments = Json::object();
            std::string method =
                kMethods[(round + static_cast<std::uint32_t>(client) * 3) % std::size(kMethods)];
            if (round % 11 == 0) {
                method = "why";
                const auto ids = cluster->ids(HostJobState::running);
                arguments.set("job_id", ids.empty() ? 1 : ids[round % ids.size()]);
            } else if (round % 13 == 0) {
                method = "edit";
                BudgetEdit edit;
                edit.kind = BudgetEdit::Kind::modify;
                edit.name = "c";
                edit.shares = 1 + round % 7;
                arguments.set("edit", edit_to_json(edit));
            } else if (round % 17 == 0) {
                knock(port, round);
                return;
            }
            answered += ask(method, arguments).ok() ? 1 : 0;
        });
    }
    joins([&](std::uint32_t round) {  // an administrator
        rig.write_settings(settings(round));
        engine.reconfigure();
        cluster->set_node("n3", round % 4 != 0, round % 4 == 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });

    // The daemon: the engine looks at least every twentieth second, and is stopped and started.
    const auto until = Clock::now() + kPatience;
    const auto cycles = [&] {
        const auto view = engine.view();
        return view ? view->health.cycles : 0;
    };
    std::int64_t preempted = 0;
    for (int second = 0; second < kSeconds && Clock::now() < until; ++second) {
        cluster->tick();
        cluster->schedule();
        const std::int64_t before = cycles();
        while (second % 20 == 0 && cycles() == before && Clock::now() < until) {
            engine.kick();
            std::this_thread::yield();
        }
        if (second % 400 == 399) {
            const auto view = engine.view();
            preempted += view->health.preemptions;
            EXPECT_EQ(0, view->health.faults) << view->health.last_fault;
            engine.stop();
            start(engine);
        }
    }
    over = true;
    for (std::thread& one : crowd) {
        one.join();
    }
    ASSERT_NE(nullptr, engine.view());
    EXPECT_EQ(0, engine.view()->health.faults) << engine.view()->health.last_fault;
    EXPECT_LT(0, preempted);
    EXPECT_LT(0, edited);
    EXPECT_LT(0, changed);
    if (munge.ready()) {
        EXPECT_LT(0, answered);
    }
    engine.stop();
}

}  // namespace
}  // namespace tranche::test
