// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "sim/record_checks.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

// Does what the test says in each pass, and notes what it is told.
class Scripted final : public Scheduler {
  public:
    const char* name() const override { return "scripted"; }
    void submitted(JobIndex job) override { told += " +" + std::to_string(job); }
    void left_queue(JobIndex job) override { told += " ~" + std::to_string(job); }
    void run_over(JobIndex job) override { told += " -" + std::to_string(job); }
    void changed(JobIndex job) override { told += " *" + std::to_string(job); }
    void node_changed(std::uint32_t node) override { told += " n" + std::to_string(node); }
    void event(const WorkloadEvent& event) override { told += " " + event.budget; }
    void pass(std::int64_t now, Orders& orders) override {
        told += " |" + std::to_string(now);
        if (on_pass) {
            on_pass(now, orders);
        }
    }
    std::int64_t wake_at() const override { return wake; }

    std::function<void(std::int64_t, Orders&)> on_pass;
    std::string told;
    std::int64_t wake = kNever;
};

BudgetTree tree_of(std::vector<Budget> budgets) {
    auto tree = BudgetTree::build(std::move(budgets));
    EXPECT_TRUE(tree.ok());
    return *tree;
}

Budget budget(const std::string& name, std::uint32_t shares = 1,
              const std::string& parent = "root") {
    Budget made;
    made.name = name;
    made.parent = parent;
    made.shares = shares;
    return made;
}

WorkloadJob job(const std::string& id, std::int64_t at, std::int64_t gpus, std::int64_t runtime,
                std::int64_t minimum = 0, const std::string& payer = "A") {
    WorkloadJob made;
    made.id = id;
    made.submit_at = at;
    made.gpus = gpus;
    made.runtime_seconds = runtime;
    made.min_runtime_seconds = minimum;
    made.budget = made.user = payer;
    return made;
}

SimCluster cluster(std::int64_t nodes, std::int64_t gpus) {
    SimCluster made;
    for (std::int64_t n = 1; n <= nodes; ++n) {
        made.nodes.push_back({"n" + std::to_string(n), "", gpus});
    }
    made.cycle_seconds = 100000;
    return made;
}

WorkloadEvent event(std::int64_t at, EventKind kind, const std::string& name) {
    WorkloadEvent made;
    made.at = at;
    made.kind = kind;
    (kind == EventKind::cancel || kind == EventKind::suspend || kind == EventKind::resume_job
         ? made.job
         : made.reason) = name;
    if (made.job.empty()) {
        made.nodes = {name};
    }
    return made;
}

// A cluster, its workload and a script.
struct Rig {
    SimCluster nodes = cluster(2, 8);
    Settings settings;
    BudgetTree tree = tree_of({budget("A"), budget("B", 3)});
    Workload workload;
    SimOptions options{0, kNever, true};
    Scripted scheduler;

    SimRecord run() {
        simulation =
            std::make_unique<Simulation>(nodes, settings, tree, std::move(workload), options);
        return simulation->run(scheduler);
    }
    const SimJob& at(JobIndex index) const { return simulation->state().jobs[index]; }
    std::unique_ptr<Simulation> simulation;
};

StartOrder start(JobIndex index, NodeIndex node, std::int64_t gpus, std::int64_t contract = 0) {
    StartOrder order;
    order.job = index;
    order.where = {{node, gpus, 0, 0}};
    order.kind = contract > 0 ? RunKind::allocated : RunKind::unallocated;
    order.contract_seconds = contract;
    return order;
}

LeaveOrder leave(JobIndex victim, JobIndex claimant, std::int64_t grace = 60) {
    LeaveOrder order;
    order.victim = victim;
    order.claimant = claimant;
    order.grace_seconds = grace;
    order.reason = "because";
    return order;
}

TEST(Simulation, ends_then_events_then_submissions_come_before_the_pass_of_their_instant) {
    Rig rig;
    rig.workload.jobs = {job("a", 0, 8, 100), job("b", 100, 8, 50)};
    rig.workload.events = {event(100, EventKind::drain, "n2"),
                           event(100, EventKind::undrain, "n2")};
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        orders.start(start(now == 0 ? 0 : 1, 0, 8));
        rig.scheduler.on_pass = now == 0 ? rig.scheduler.on_pass : nullptr;
    };
    const SimRecord record = rig.run();
    EXPECT_EQ(rig.scheduler.told, " +0 |0 -0 n1 n1 +1 |100 -1 |150");
    EXPECT_EQ(record.end_at, 150);
    EXPECT_EQ(record.passes, 3U);
    EXPECT_EQ(record.jobs[1].first_start_at, 100);
    EXPECT_EQ(record.jobs[1].state, JobState::completed);
}

TEST(Simulation, passes_come_each_cycle_while_a_job_waits_and_when_the_scheduler_wishes) {
    Rig rig;
    rig.nodes.cycle_seconds = 30;
    rig.workload.jobs = {job("a", 0, 8, 100)};
    rig.options.until = 200;
    rig.scheduler.wake = 0;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        rig.scheduler.wake = now == 30 ? 47 : kNever;
        if (now == 77) {
            orders.start(start(0, 0, 8));
        }
        if (now == 177) {
            rig.scheduler.wake = 190;
        }
    };
    rig.workload.events = {event(199, EventKind::undrain, "n1")};
    rig.run();
    EXPECT_EQ(rig.scheduler.told, " +0 |0 |30 |47 |77 -0 |177 |190 n0 |199");
}

TEST(Simulation, it_is_over_when_nothing_can_happen_any_more) {
    Rig rig;
    rig.nodes.cycle_seconds = 30;
    rig.workload.jobs = {job("a", 5, 99, 100)};
    const SimRecord record = rig.run();
    EXPECT_EQ(record.begin_at, 0);
    EXPECT_EQ(record.end_at, 5);
    EXPECT_EQ(record.jobs[0].state, JobState::pending);
    EXPECT_EQ(record.demand_allocated_gpu_seconds + record.demand_free_gpu_seconds, 0)
        << "an impossible job demands nothing";
}

TEST(Simulation, a_victim_leaves_after_its_exit_or_the_grace_and_the_outcome_is_kept) {
    Rig rig;
    rig.workload.jobs = {job("v1", 0, 8, 10000), job("v2", 0, 8, 10000), job("c1", 100, 8, 500),
                         job("c2", 100, 8, 500)};
    rig.workload.jobs[1].exit_seconds = 1000;
    rig.workload.jobs[1].resumable = false;
    rig.workload.events = {event(150, EventKind::cancel, "c2")};
    rig.options.until = 1000;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8));
            orders.start(start(1, 1, 8));
        } else if (now == 100) {
            orders.leave(leave(0, 2));
            orders.leave(leave(1, 3));
        } else if (now == 130) {
            orders.start(start(2, 0, 8));
        }
    };
    const SimRecord record = rig.run();
    ASSERT_EQ(record.preemptions.size(), 2U);
    EXPECT_EQ(record.preemptions[0].outcome, PreemptionOutcome::started);
    EXPECT_TRUE(record.preemptions[0].requeued);
    EXPECT_EQ(record.preemptions[1].outcome, PreemptionOutcome::claimant_left);
    EXPECT_EQ(record.segments[0].end, SegmentEnd::preempted_requeued);
    EXPECT_EQ(record.segments[0].end_at, 130);
    EXPECT_EQ(record.segments[0].warned_at, 100);
    EXPECT_EQ(record.segments[0].taken_for, 2U);
    EXPECT_EQ(record.segments[1].end, SegmentEnd::preempted_ended);
    EXPECT_EQ(record.segments[1].end_at, 160);
    EXPECT_EQ(record.jobs[1].state, JobState::ended);
    EXPECT_EQ(record.lost_ended_gpu_seconds, 8 * 160) << "what cannot resume has lost all";
    EXPECT_EQ(record.jobs[0].preemptions, 1U);
    EXPECT_EQ(record.jobs[0].state, JobState::pending);
    EXPECT_EQ(rig.scheduler.told, " +0 +1 |0 +2 +3 |100 -0 +0 |130 ~3 |150 -1 |160 -2 |630");
    EXPECT_TRUE(check_invariants(record).all_hold());
}

TEST(Simulation, room_that_was_made_and_not_used_is_overtaken_or_wasted) {
    Rig rig;
    rig.workload.jobs = {job("v1", 0, 8, 10000), job("v2", 0, 4, 10000), job("c", 100, 4, 500)};
    rig.options.until = 400;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8));
            orders.start(start(1, 1, 4));
        } else if (now == 100) {
            orders.leave(leave(0, 2));
        } else if (now == 130) {
            orders.start(start(2, 1, 4));  // beside v2
        }
    };
    EXPECT_EQ(rig.run().preemptions.at(0).outcome, PreemptionOutcome::overtaken);

    Rig again;
    again.workload.jobs = {job("v1", 0, 8, 10000), job("v2", 0, 8, 10000), job("c", 100, 8, 500)};
    again.options.until = 400;
    again.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8));
            orders.start(start(1, 1, 8));
        } else if (now == 100) {
            orders.leave(leave(0, 2));
        } else if (now == 130) {
            orders.start(start(0, 0, 8));
            orders.leave(leave(1, 2));
        } else if (now == 160) {
            orders.start(start(2, 1, 8));
        }
    };
    const SimRecord record = again.run();
    ASSERT_EQ(record.preemptions.size(), 2U);
    EXPECT_EQ(record.preemptions[0].outcome, PreemptionOutcome::wasted);
    EXPECT_EQ(record.preemptions[1].outcome, PreemptionOutcome::started);
}

// 1000 s of work, checkpoints each 300 s, 50 s to start again. It is told at 640 and leaves at
// 670: the checkpoint of 600 counts, 70 s are lost. The second run works from 750 on and needs
// 400 s more: done at 1150.
TEST(Simulation, a_requeued_job_goes_on_from_its_last_checkpoint) {
    Rig rig;
    rig.workload.jobs = {job("v", 0, 8, 1000)};
    rig.workload.jobs[0].checkpoint_seconds = 300;
    rig.workload.jobs[0].restart_seconds = 50;
    rig.workload.jobs.push_back(job("c", 640, 16, 10));
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8));
        } else if (now == 640) {
            orders.leave(leave(0, 1));
        } else if (now == 670) {
            StartOrder gang = start(1, 0, 8);
            gang.where.push_back({1, 8, 0, 0});
            orders.start(gang);
        } else if (now == 680) {
            orders.start(start(0, 0, 8));
        }
    };
    const SimRecord record = rig.run();
    EXPECT_EQ(record.end_at, 680 + 50 + 400);
    EXPECT_EQ(record.lost_requeued_gpu_seconds, 8 * (70 + 50));
    EXPECT_EQ(record.used_gpu_seconds, 8 * (670 + 450) + 16 * 10);
    EXPECT_EQ(record.segments.back().run, 2U);
}

TEST(Simulation, the_end_of_a_contract_is_a_checkpoint_too) {
    Rig rig;
    rig.workload.jobs = {job("v", 0, 8, 1000, 500), job("c", 640, 8, 10)};
    rig.workload.jobs[0].checkpoint_seconds = 400;
    rig.options.until = 700;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8, 500));
        } else if (now == 640) {
            orders.leave(leave(0, 1));
        }
    };
    EXPECT_EQ(rig.run().lost_requeued_gpu_seconds, 8 * 170);
    EXPECT_EQ(rig.at(0).work_left_seconds, 500);
}

TEST(Simulation, boot_and_suspension_move_the_end_and_the_contract) {
    Rig rig;
    rig.nodes.boot_seconds = 60;
    rig.workload.jobs = {job("a", 0, 8, 1000, 500)};
    rig.workload.events = {event(100, EventKind::suspend, "a"),
                           event(400, EventKind::resume_job, "a")};
    std::int64_t until_at_200 = 0, left_at_200 = 0;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8, 500));
            EXPECT_EQ(rig.at(0).protected_until, 560);
        } else if (now == 100) {
            until_at_200 = rig.at(0).protected_until;
            left_at_200 = rig.at(0).contract_left_seconds;
        } else if (now == 400) {
            EXPECT_EQ(rig.at(0).protected_until, 860);
            EXPECT_EQ(rig.at(0).ends_at, 1360);
        }
    };
    const SimRecord record = rig.run();
    EXPECT_EQ(until_at_200, kNever);
    EXPECT_EQ(left_at_200, 460);
    EXPECT_EQ(record.end_at, 1360);
    ASSERT_EQ(record.segments.size(), 2U);
    EXPECT_EQ(record.segments[0].end, SegmentEnd::suspended);
    EXPECT_EQ(record.segments[1].begin_at, 400);
    EXPECT_EQ(record.segments[1].run, 1U);
    EXPECT_EQ(record.segments[0].slots, record.segments[1].slots);
    EXPECT_EQ(record.used_gpu_seconds, 8 * (100 + 960)) << "suspended time is not charged";
    EXPECT_EQ(record.idle_gpu_seconds, 8 * 1360) << "but its GPUs are held";
    EXPECT_TRUE(rig.scheduler.told.starts_with(" +0 |0 |60 *0 |100")) << rig.scheduler.told;
}

TEST(Simulation, a_time_limit_ends_a_job) {
    Rig rig;
    rig.workload.jobs = {job("a", 0, 8, 1000), job("b", 0, 8, 300)};
    rig.workload.jobs[0].time_limit_seconds = rig.workload.jobs[1].time_limit_seconds = 300;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8));
            orders.start(start(1, 1, 8));
        }
    };
    const SimRecord record = rig.run();
    EXPECT_EQ(record.segments[0].end, SegmentEnd::time_limit);
    EXPECT_EQ(record.jobs[0].state, JobState::ended);
    EXPECT_EQ(record.jobs[0].ended_at, 300);
    EXPECT_EQ(record.jobs[1].state, JobState::completed);
}

TEST(Simulation, of_endless_jobs_as_many_stay_submitted_and_copies_are_numbered_on) {
    Rig rig;
    rig.workload.jobs = {job("e.1", 0, 8, 100), job("e.2", 0, 8, 150)};
    rig.workload.jobs[0].endless = rig.workload.jobs[1].endless = true;
    rig.options.until = 400;
    rig.scheduler.on_pass = [&](std::int64_t, Orders& orders) {
        for (JobIndex j = 0; j < rig.simulation->state().jobs.size(); ++j) {
            for (NodeIndex n = 0; n < 2; ++n) {
                if (rig.at(j).state == JobState::pending &&
                    rig.simulation->state().nodes[n].free_gpus == 8) {
                    orders.start(start(j, n, 8));
                }
            }
        }
    };
    const SimRecord record = rig.run();
    ASSERT_EQ(record.jobs.size(), 8U);
    EXPECT_EQ(record.jobs[2].job.id, "e.3");
    EXPECT_EQ(record.jobs[2].submitted_at, 100);
    EXPECT_EQ(record.jobs[3].job.id, "e.4");
    EXPECT_EQ(record.jobs[3].submitted_at, 150);
    EXPECT_EQ(record.used_gpu_seconds, 16 * 400);
}

TEST(Simulation, hours_of_budgets_are_exact_integrals) {
    Rig rig;
    rig.workload.jobs = {job("a", 1000, 8, 5000, 600), job("b", 2000, 8, 100, 0, "B"),
                         job("w", 3000, 4, 100, 60, "B")};
    rig.options.until = 7200;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 1000) {
            orders.start(start(0, 0, 8, 600));
        } else if (now == 2000) {
            orders.start(start(1, 1, 8));
        }
    };
    const SimRecord record = rig.run();
    ASSERT_EQ(record.budgets.size(), 2U);
    const BudgetRecord &a = record.budgets[0], &b = record.budgets[1];
    ASSERT_EQ(a.hours.size(), 2U);
    EXPECT_EQ(a.hours[0].funded, 4 * 3600);
    EXPECT_EQ(b.hours[1].funded, 12 * 3600);
    EXPECT_EQ(a.hours[0].charged, 8 * 2600);
    EXPECT_EQ(a.hours[1].charged, 8 * 2400);
    EXPECT_EQ(a.hours[0].demand, 8 * 2600);
    EXPECT_EQ(b.hours[0].free, 800);
    EXPECT_EQ(b.hours[0].demand, 4 * 600) << "w waits; free work is no demand";
    EXPECT_EQ(b.hours[1].demand, 4 * 3600);
    EXPECT_EQ(record.demand_allocated_gpu_seconds, 8 * 5000 + 4 * 4200);
    EXPECT_EQ(record.demand_free_gpu_seconds, 800);
    EXPECT_EQ(record.available_gpu_seconds, 16 * 7200);
    EXPECT_DOUBLE_EQ(b.funded_fraction, 0.75);
    EXPECT_TRUE(record.jobs[0].allocated);
    EXPECT_TRUE(record.jobs[0].fits_lane);
    EXPECT_FALSE(record.jobs[1].fits_lane);
}

TEST(Simulation, a_failed_node_ends_its_runs_and_refunds_what_was_lost) {
    Rig rig;
    rig.workload.jobs = {job("old", 0, 8, 90000, 3600), job("young", 0, 8, 90000, 21600, "B")};
    rig.workload.events = {event(18000, EventKind::node_fail, "n1"),
                           event(18000, EventKind::node_fail, "n2"),
                           event(20000, EventKind::node_up, "n2")};
    rig.options.until = 21600;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8, 3600));
            orders.start(start(1, 1, 8, 21600));
        }
    };
    const SimRecord record = rig.run();
    EXPECT_EQ(record.segments[0].charged_until, 18000 - 3600);
    EXPECT_EQ(record.segments[1].charged_until, 0);
    std::int64_t charged[2] = {0, 0};
    for (int b = 0; b < 2; ++b) {
        for (const BudgetHour& hour : record.budgets[static_cast<std::size_t>(b)].hours) {
            charged[b] += hour.charged;
        }
    }
    EXPECT_EQ(charged[0], 8 * 14400);
    EXPECT_EQ(charged[1], 0);
    EXPECT_EQ(record.available_gpu_seconds, 16 * 18000 + 8 * 1600);
    EXPECT_EQ(record.jobs[0].state, JobState::pending);
    EXPECT_EQ(record.segments[0].end, SegmentEnd::node_failed);
}

TEST(Simulation, a_drain_is_recorded_until_the_node_is_empty_and_back) {
    Rig rig;
    rig.workload.jobs = {job("a", 0, 8, 500)};
    rig.workload.events = {event(100, EventKind::drain, "n1"), event(100, EventKind::drain, "n2"),
                           event(900, EventKind::undrain, "n1")};
    rig.options.until = 1000;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 8));
        }
    };
    const SimRecord record = rig.run();
    ASSERT_EQ(record.drains.size(), 2U);
    EXPECT_EQ(record.drains[0].empty_at, 500);
    EXPECT_EQ(record.drains[0].back_at, 900);
    EXPECT_EQ(record.drains[1].empty_at, 100);
    EXPECT_EQ(record.drains[1].back_at, -1);
    EXPECT_EQ(record.available_gpu_seconds, 16 * 100 + 8 * 100);
}

TEST(Simulation, edits_change_what_is_funded_from_then_on) {
    Rig rig;
    WorkloadEvent edit;
    edit.at = 1800;
    edit.kind = EventKind::set_shares;
    edit.budget = "A";
    edit.shares = 3;
    WorkloadEvent added;
    added.at = 3600;
    added.kind = EventKind::add_budget;
    added.budget = "C";
    added.parent = "root";
    added.shares = 2;
    rig.workload.events = {edit, added};
    rig.options.until = 7200;
    const SimRecord record = rig.run();
    EXPECT_EQ(rig.scheduler.told, " A |1800 C |3600");
    ASSERT_EQ(record.budgets.size(), 3U);
    EXPECT_EQ(record.budgets[0].hours[0].funded, 4 * 1800 + 8 * 1800);
    EXPECT_EQ(record.budgets[0].hours[1].funded, 6 * 3600);
    EXPECT_EQ(record.budgets[2].name, "C");
    EXPECT_EQ(record.budgets[2].hours[0].funded, 0);
    EXPECT_NEAR(static_cast<double>(record.budgets[2].hours[1].funded), 4 * 3600, 1);
}

TEST(Simulation, rows_are_the_first_free_ones_of_the_node) {
    Rig rig;
    rig.workload.jobs = {job("a", 0, 3, 100), job("b", 0, 2, 300), job("c", 100, 4, 100)};
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        if (now == 0) {
            orders.start(start(0, 0, 3));
            orders.start(start(1, 0, 2));
        } else if (now == 100) {
            orders.start(start(2, 0, 4));
        }
    };
    const SimRecord record = rig.run();
    EXPECT_EQ(record.segments[0].slots, (std::vector<std::uint16_t>{0, 1, 2}));
    EXPECT_EQ(record.segments[1].slots, (std::vector<std::uint16_t>{3, 4}));
    EXPECT_EQ(record.segments[2].slots, (std::vector<std::uint16_t>{0, 1, 2, 5}));
}

TEST(Simulation, a_free_run_that_turns_allocated_is_two_segments_of_one_run) {
    Rig rig;
    rig.workload.jobs = {job("a", 0, 8, 1000, 300)};
    rig.options.until = 1000;
    rig.scheduler.wake = 200;
    rig.scheduler.on_pass = [&](std::int64_t now, Orders& orders) {
        rig.scheduler.wake = now < 200 ? 200 : kNever;
        if (now == 0) {
            orders.start(start(0, 0, 8));
        } else if (now == 200) {
            orders.turn(0, 300);
        }
    };
    const SimRecord record = rig.run();
    ASSERT_EQ(record.segments.size(), 2U);
    EXPECT_EQ(record.segments[0].end, SegmentEnd::turned);
    EXPECT_EQ(record.segments[1].protected_until, 500);
    EXPECT_EQ(record.segments[1].run, 1U);
    EXPECT_EQ(record.budgets[0].hours[0].free, 8 * 200);
    EXPECT_EQ(record.budgets[0].hours[0].charged, 8 * 800);
}

TEST(Simulation, larger_minima_than_allowed_are_refused) {
    Rig rig;
    rig.workload.jobs = {job("a", 10, 8, 1000, 8 * 3600 + 1)};
    const SimRecord record = rig.run();
    EXPECT_EQ(record.jobs[0].state, JobState::refused);
    EXPECT_EQ(record.jobs[0].ended_at, 10);
    EXPECT_EQ(rig.scheduler.told, " |10");
}

TEST(Simulation, orders_that_cannot_be_executed_are_defects) {
    const auto with = [](std::function<void(Orders&)> order) {
        Rig rig;
        rig.workload.jobs = {job("a", 0, 8, 1000)};
        rig.scheduler.on_pass = [&](std::int64_t, Orders& orders) { order(orders); };
        rig.run();
    };
    EXPECT_THROW(with([](Orders& orders) { orders.start(start(0, 0, 7)); }), std::logic_error);
    EXPECT_THROW(with([](Orders& orders) { orders.leave(leave(0, 0)); }), std::logic_error);
    EXPECT_THROW(with([](Orders& orders) { orders.turn(0, 5); }), std::logic_error);
    EXPECT_THROW(with([](Orders& orders) {
                     orders.start(start(0, 0, 8));
                     orders.start(start(0, 1, 8));
                 }),
                 std::logic_error);
}

}  // namespace
}  // namespace tranche::sim
