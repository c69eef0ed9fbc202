// SPDX-License-Identifier: GPL-2.0-or-later
// What the engine's ledger holds: every second of every run exactly once, whatever happens to
// jobs, engines and files.
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>

#include "support/engine_rig.hpp"

namespace tranche::test {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr char kPlain[] = "ExpressFraction=0\nMaxProtectedFraction=1\n";
Wish wish(const std::string& account, std::int64_t gpus, std::int64_t min_runtime) {
    Wish out;
    out.account = account;
    out.user = "user-of-" + account;
    out.gpus = gpus;
    out.min_runtime_seconds = min_runtime;
    return out;
}

std::vector<Budget> two_budgets() {
    return {budget_of("a", 1), budget_of("b", 1)};
}

// GPU seconds that each job held without being suspended, second by second.
class Witness {
  public:
    explicit Witness(const EngineRig& rig) : rig_(rig) {}
    // What holds GPUs now holds them for the second that begins.
    void look() {
        for (const HostJobState state : {HostJobState::configuring, HostJobState::running}) {
            for (const JobId id : rig_.cluster->ids(state)) {
                const HostJob job = rig_.cluster->job(id).value();
                for (const auto& [type, gpus] : job.held_gpus) {
                    held[id] += gpus;
                }
            }
        }
    }
    std::map<JobId, std::int64_t> held;

  private:
    const EngineRig& rig_;
};

std::map<JobId, std::int64_t> charged_by_job(const std::vector<SegmentRow>& rows,
                                             std::int64_t now) {
    std::map<JobId, std::int64_t> out;
    for (const SegmentRow& row : rows) {
        const std::int64_t until = row.ended_at == 0 ? now : row.charged_until;
        out[row.key.job_id] += (until - row.key.begin_at) * row.weight_milli / 1000;
    }
    return out;
}

// A small busy cluster: contracts that end, an eviction, a requeue by hand, a suspension, short
// runs, a node that boots, free work.
void submit_at(EngineRig& rig, std::int64_t second, std::int64_t boot_seconds) {
    const auto submit = [&](const char* account, std::int64_t gpus, std::int64_t contract,
                            std::int64_t runtime, std::int64_t boot = 0) {
        Wish w = wish(account, gpus, contract);
        w.runtime_seconds = runtime;
        w.boot_seconds = boot;
        return rig.cluster->submit(w);
    };
    switch (second) {
        case 1:
            submit("a", 8, 60, kNever);  // 1: evicted for 4
            submit("a", 4, 40, 90);      // 2
            submit("b", 4, 40, kNever,
                   boot_seconds);  // 3: boots, is suspended, cut down at the end
            break;
        case 20:
            submit("b", 8, 30, 50);  // 4
            break;
        case 95:
            submit("b", 2, 0, 3);  // 5: free and short
            break;
        case 100:
            rig.cluster->suspend(3);
            break;
        case 121:
            rig.cluster->resume(3);
            break;
        case 150:
            rig.cluster->requeue(3);
            break;
        case 160:
            submit("a", 4, 20, 1);  // 6: one second
            break;
        default:
            break;
    }
}
constexpr std::int64_t kStory = 260;

struct Told {
    std::map<JobId, std::int64_t> charged;
    std::size_t preemptions = 0;
    std::vector<std::tuple<JobId, std::int64_t, RunKind, std::int64_t>> segments;
    std::vector<std::int64_t> events;  // seconds at which a job changed its state
};

// `cut_at`: the engine is stopped after that second and back after `away` more; `lost`: what it
// wrote in its last seconds never reached the disk.
Told tell(std::int64_t cut_at, std::int64_t away, std::int64_t lost) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    Witness witness(rig);
    Told out;
    std::string before;
    const std::string copy = (rig.directory / "copy.db").string();
    for (std::int64_t second = 1; second <= kStory; ++second) {
        // Slurm moves the start of a run to the end of its boot: whoever was away then cannot know
        // when it was allocated.
        submit_at(rig, second, away > 0 ? 0 : 6);
        if (second == cut_at - lost && lost > 0) {
            EXPECT_TRUE(rig.engine->preemptions(0, kNever, 1).ok());  // all written
            std::filesystem::copy_file(rig.database_path(), copy);
        }
        witness.look();
        rig.run(1);
        std::string states;
        for (JobId id = 1; id <= 6; ++id) {
            if (const auto job = rig.cluster->job(id)) {
                states += static_cast<char>('0' + static_cast<int>(job->state));
            }
        }
        if (states != before) {
            out.events.push_back(second);
            before = states;
        }
        if (second == cut_at) {
            rig.stop();
            if (lost > 0) {
                std::filesystem::rename(copy, rig.database_path());
            }
        }
        if (second == cut_at + away && cut_at > 0) {
            rig.start();
            EXPECT_EQ(0, rig.engine->view()->health.faults);
        }
    }
    rig.step();
    out.preemptions = rig.preemptions().size();
    rig.stop();
    const auto rows = rig.segments();
    out.charged = charged_by_job(rows, rig.cluster->now());
    for (const SegmentRow& row : rows) {
        out.segments.emplace_back(row.key.job_id, row.key.begin_at, row.kind, row.protected_until);
    }
    for (const auto& [id, held] : witness.held) {
        const std::int64_t charged = out.charged[id];
        EXPECT_EQ(held, charged) << "job " << id << " with the engine cut at " << cut_at << " for "
                                 << away << " s, " << lost << " s lost";
    }
    return out;
}

TEST(EngineLedger, every_run_is_charged_once_wherever_the_engine_is_cut) {
    const Told whole = tell(0, 0, 0);
    EXPECT_EQ(1u, whole.preemptions);
    ASSERT_LT(10u, whole.events.size());
    for (const std::int64_t event : whole.events) {
        for (const std::int64_t cut : {event, event + 1}) {
            const Told resumed = tell(cut, 0, 0);
            EXPECT_EQ(whole.charged, resumed.charged) << "cut at " << cut;
            EXPECT_EQ(whole.segments, resumed.segments) << "cut at " << cut;
            EXPECT_EQ(whole.preemptions, resumed.preemptions) << "cut at " << cut;
        }
    }
}

TEST(EngineLedger, every_run_is_charged_once_though_the_engine_was_away) {
    for (const std::int64_t event : tell(0, 0, 0).events) {
        tell(event, 12, 0);
    }
}

TEST(EngineLedger, every_run_is_charged_once_though_the_last_writes_are_lost) {
    for (const std::int64_t event : tell(0, 0, 0).events) {
        if (event > 2) {
            tell(event + 1, 0, 2);
        }
    }
}

TEST(EngineLedger, two_runs_of_one_job_are_two_charges) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(11);
    rig.cluster->requeue(job);
    rig.run(10);
    rig.stop();
    const auto rows = rig.segments();
    ASSERT_EQ(2u, rows.size());
    EXPECT_EQ(1u, rows[0].run);
    EXPECT_EQ("requeued", rows[0].end_reason);
    EXPECT_EQ(2u, rows[1].run);
    EXPECT_NE(rows[0].key.submit_at, rows[1].key.submit_at);
}

TEST(EngineLedger, a_suspended_run_costs_nothing_and_its_contract_waits) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, 1000));
    rig.run(101);
    const std::int64_t protected_until = rig.run_of(job)->protected_until;
    rig.cluster->suspend(job);
    rig.run(300);
    EXPECT_EQ(kNever, rig.run_of(job)->protected_until);
    EXPECT_EQ(protected_until - rig.cluster->now() + 300, rig.run_of(job)->contract_seconds);
    rig.restart();
    rig.run(200);
    EXPECT_EQ(1u, rig.card(job)->runs);
    EXPECT_EQ(kNever, rig.run_of(job)->protected_until);
    rig.cluster->resume(job);
    rig.run(1);
    EXPECT_NEAR(static_cast<double>(protected_until + 500),
                static_cast<double>(rig.run_of(job)->protected_until), 1.0);
    rig.run(99);
    EXPECT_NEAR(8.0 * 200, static_cast<double>(rig.charged("a")), 16.0);
    EXPECT_EQ(8000, rig.run_of(job)->weight_milli);
}

TEST(EngineLedger, the_end_of_a_suspension_is_exact_though_seen_late) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, 1000));
    rig.run(11);
    const std::int64_t protected_until = rig.run_of(job)->protected_until;
    rig.cluster->suspend(job);
    rig.run(10);
    const auto blind = [&](int seconds) {
        for (int i = 0; i < seconds; ++i) {
            rig.cluster->tick();
        }
    };
    blind(3);
    rig.cluster->resume(job);
    blind(4);
    rig.step();
    EXPECT_EQ(protected_until + 13, rig.run_of(job)->protected_until);
}

TEST(EngineLedger, a_resized_run_pays_what_it_holds) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(101);
    const std::int64_t protected_until = rig.run_of(job)->protected_until;
    rig.cluster->resize(job, 2);
    rig.run(100);
    EXPECT_EQ(2000, rig.run_of(job)->weight_milli);
    EXPECT_EQ(protected_until, rig.run_of(job)->protected_until);
    rig.stop();
    const auto rows = rig.segments();
    ASSERT_EQ(2u, rows.size());
    EXPECT_EQ("resized", rows[0].end_reason);
    EXPECT_EQ(1u, rows[1].run);
    EXPECT_EQ(rows[0].ended_at, rows[1].key.begin_at);
    EXPECT_EQ(2, rows[1].gpus);
}

TEST(EngineLedger, a_resize_in_the_second_of_the_start_is_charged_from_the_next_one) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.cluster->tick();
    rig.step();
    rig.cluster->schedule();
    rig.step();
    rig.cluster->resize(job, 4);
    rig.step();
    rig.run(101);
    // 8 GPUs for a second, 4 for the hundred after it.
    EXPECT_EQ(8 + 4 * 100, rig.charged("a"));
}

TEST(EngineLedger, a_run_that_its_node_failed_inside_its_contract_is_refunded_whole) {
    EngineRig rig(2, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(1001);
    EXPECT_EQ(8 * 1000, rig.charged("a"));
    rig.cluster->set_node(rig.nodes_of(job), false, false);
    rig.run(1);
    EXPECT_EQ(0, rig.charged("a"));
    rig.stop();
    EXPECT_EQ("node-failure", rig.segments().at(0).end_reason);
}

TEST(EngineLedger, past_its_contract_a_failed_run_gets_an_hour_back_at_most) {
    EngineRig rig(2, 8, std::string(kPlain) + "RefundMax=10:00\n");
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, 1000));
    rig.run(1301);
    rig.cluster->set_node(rig.nodes_of(job), false, false);
    rig.run(1);
    EXPECT_EQ(8 * 1000, rig.charged("a"));  // back to its contract's end
    rig.cluster->cancel(job);
    const JobId other = rig.cluster->submit(wish("b", 8, 1000));
    rig.run(2001);
    rig.cluster->set_node(rig.nodes_of(other), false, false);
    rig.run(1);
    EXPECT_EQ(8 * 1400, rig.charged("b"));
}

TEST(EngineLedger, the_clock_of_a_contract_starts_when_the_node_has_booted) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish slow = wish("a", 8, 1000);
    slow.boot_seconds = 90;
    const JobId job = rig.cluster->submit(slow);
    rig.run(1);
    const std::int64_t allocated_at = rig.cluster->now();
    rig.run(50);
    EXPECT_EQ(kNever, rig.run_of(job)->protected_until);
    EXPECT_EQ(8 * 50, rig.charged("a"));  // the charge starts at the allocation
    rig.restart();
    EXPECT_EQ(kNever, rig.run_of(job)->protected_until);
    rig.run(60);
    EXPECT_EQ(allocated_at + 90 + 1000, rig.run_of(job)->protected_until);
    EXPECT_EQ(8 * 110, rig.charged("a"));
}

TEST(EngineLedger, a_run_between_two_looks_is_charged) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish brief = wish("a", 8, 600);
    brief.runtime_seconds = 3;
    const JobId job = rig.cluster->submit(brief);
    rig.step();
    rig.cluster->schedule();
    for (int i = 0; i < 4; ++i) {
        rig.cluster->tick();  // nobody looks
    }
    ASSERT_EQ(HostJobState::finished, rig.state(job));
    rig.step();
    EXPECT_EQ(8 * 3, rig.charged("a"));
    rig.restart();
    rig.run(5);
    EXPECT_EQ(8 * 3, rig.charged("a"));
}

TEST(EngineLedger, runs_that_ended_while_the_engine_was_away_end_when_they_did) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish one = wish("a", 8, 600);
    one.runtime_seconds = 100;
    rig.cluster->submit(one);
    rig.run(50);
    rig.stop();
    rig.run(200);
    rig.start();
    EXPECT_EQ(8 * 100, rig.charged("a"));
}

TEST(EngineLedger, without_its_file_the_engine_ranks_and_evicts_nobody) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    const JobId job = rig.cluster->submit(wish("a", 8, kHour));
    rig.run(100);
    rig.cluster->suspend(job);
    rig.run(10);
    rig.cluster->resume(job);
    rig.run(10);  // its open segment is not the first of the run
    rig.stop();
    std::filesystem::rename(rig.state_directory(), rig.directory / "away");
    rig.make_directory = false;
    rig.start(std::chrono::milliseconds(20));
    const JobId claimant = rig.cluster->submit(wish("b", 8, kHour));
    rig.run(100);
    EXPECT_FALSE(rig.engine->view()->health.database_ok);
    EXPECT_TRUE(rig.is_running(job));
    EXPECT_FALSE(rig.load_tree(two_budgets()).ok());
    EXPECT_TRUE(rig.is_pending(claimant));
    std::filesystem::rename(rig.directory / "away", rig.state_directory());
    rig.engine->wait_for_ledger(std::chrono::seconds(20));
    rig.run(1);
    EXPECT_TRUE(rig.engine->view()->health.database_ok);
    // As if the file had been there all the time.
    EXPECT_EQ(RunKind::allocated, rig.run_of(job)->kind);
    EXPECT_NEAR(8.0 * (rig.cluster->now() - FakeCluster::kZero - 10),
                static_cast<double>(rig.charged("a")), 16.0);
    EXPECT_EQ(1u, rig.card(job)->runs);
    rig.stop();
    for (const SegmentRow& row : rig.segments()) {
        EXPECT_EQ(RunKind::allocated, row.kind);
    }
}

TEST(EngineLedger, a_file_that_cannot_be_written_is_caught_up_with_later) {
    EngineRig rig(1, 8, kPlain);
    rig.begin(two_budgets());
    Wish brief = wish("a", 8, 600);
    brief.runtime_seconds = 50;
    rig.run(2);
    EXPECT_TRUE(rig.engine->preemptions(0, kNever, 1).ok());
    std::filesystem::rename(rig.state_directory(), rig.directory / "away");
    rig.cluster->submit(brief);
    rig.run(20);
    for (int i = 0; i < 2000 && rig.engine->view()->health.database_ok; ++i) {
        rig.step();
    }
    EXPECT_FALSE(rig.engine->view()->health.database_ok);
    rig.run(60);
    EXPECT_EQ(8 * 50, rig.charged("a"));
    EXPECT_TRUE(rig.logged("going on in memory"));
    std::filesystem::rename(rig.directory / "away", rig.state_directory());
    for (int i = 0; i < 200000 && !rig.engine->view()->health.database_ok; ++i) {
        rig.step();
    }
    EXPECT_TRUE(rig.engine->view()->health.database_ok);
    rig.restart();
    EXPECT_EQ(8 * 50, rig.charged("a"));
}

TEST(EngineLedger, a_corrupt_file_is_set_aside) {
    EngineRig rig(1, 8, kPlain);
    std::filesystem::create_directories(rig.state_directory());
    std::ofstream(rig.database_path()) << std::string(8192, 'x');
    rig.begin(two_budgets());
    EXPECT_TRUE(rig.logged("was set aside"));
    EXPECT_TRUE(rig.engine->view()->health.database_ok);
    const JobId job = rig.cluster->submit(wish("a", 8, 600));
    rig.run(5);
    EXPECT_TRUE(rig.is_running(job));
}

TEST(EngineLedger, what_is_asked_knows_all_that_was_put_before) {
    const auto path = std::filesystem::path(testing::TempDir()) /
                      ("tranche-writer-" + std::to_string(getpid()) + ".db");
    std::filesystem::remove(path);
    {
        LedgerWriter writer(path.string(), kHour, [] { return std::int64_t{1000}; });
        for (std::int64_t n = 1; n <= 50; ++n) {
            LedgerBatch batch;
            PreemptionRecord record;
            record.victim = static_cast<JobId>(n);
            record.planned_at = n;
            batch.preemptions.push_back(record);
            writer.put(std::move(batch));
            const auto rows = writer.preemptions(0, kNever, 1000);
            ASSERT_TRUE(rows.ok()) << rows.error();
            ASSERT_EQ(static_cast<std::size_t>(n), rows->size());
        }
    }
    std::filesystem::remove(path);
}

TEST(EngineLedger, a_file_system_that_hangs_holds_up_no_stop) {
    struct Gate {
        std::mutex mutex;
        std::condition_variable opened;
        bool open = false;
        bool passed = false;
    };
    const auto gate = std::make_shared<Gate>();
    const auto path = std::filesystem::path(testing::TempDir()) /
                      ("tranche-hang-" + std::to_string(getpid()) + ".db");
    {
        // The first thing that opening asks for is the time: it hangs there.
        LedgerWriter writer(path.string(), kHour, [gate] {
            std::unique_lock lock(gate->mutex);
            gate->opened.wait(lock, [&] { return gate->open; });
            gate->passed = true;
            gate->opened.notify_all();
            return std::int64_t{1000};
        });
        EXPECT_FALSE(writer.contents(std::chrono::milliseconds(1)));
        EXPECT_FALSE(writer.put_and_wait({}, std::chrono::milliseconds(1)).ok());
        EXPECT_FALSE(writer.stop(std::chrono::milliseconds(1)));
        EXPECT_TRUE(writer.stop());
    }
    std::unique_lock lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
    gate->opened.wait(lock, [&] { return gate->passed; });
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace tranche::test
