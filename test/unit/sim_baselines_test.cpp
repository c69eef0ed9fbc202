// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "sim/baselines.hpp"
#include "sim/record_checks.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

WorkloadJob job(const std::string& id, std::int64_t at, std::int64_t gpus, std::int64_t runtime,
                const std::string& payer = "A", const std::string& user = "u") {
    WorkloadJob made;
    made.id = id;
    made.submit_at = at;
    made.gpus = gpus;
    made.runtime_seconds = runtime;
    made.budget = payer;
    made.user = user;
    made.exit_seconds = 5;
    return made;
}

struct Rig {
    SimCluster cluster;
    Settings settings;
    std::vector<Budget> budgets;
    Workload workload;
    std::int64_t until = kNever;

    explicit Rig(std::int64_t nodes, std::int64_t gpus,
                 const std::vector<std::pair<std::string, std::uint32_t>>& shares = {{"A", 1}}) {
        for (std::int64_t n = 1; n <= nodes; ++n) {
            cluster.nodes.push_back({"n" + std::to_string(n), "", gpus});
        }
        for (const auto& [name, weight] : shares) {
            Budget budget;
            budget.name = name;
            budget.shares = weight;
            budgets.push_back(budget);
        }
    }

    SimRecord run(const std::string& policy) {
        const auto tree = BudgetTree::build(budgets);
        EXPECT_TRUE(tree.ok());
        SimOptions options;
        options.begin_at = 0;
        options.until = until;
        Simulation simulation(cluster, settings, *tree, workload, options);
        auto scheduler = policy == "fifo" ? make_fifo(simulation.state())
                         : policy == "slots"
                             ? make_slots(simulation.state(), settings, *tree)
                             : make_fairtree(simulation.state(), *tree, simulation.begin_at());
        SimRecord record = simulation.run(*scheduler);
        EXPECT_EQ(record.policy, policy);
        for (const std::string& violation : check_invariants(record).violations) {
            ADD_FAILURE() << violation;
        }
        return record;
    }
};

std::int64_t start_of(const SimRecord& record, const std::string& id) {
    for (const JobRecord& job : record.jobs) {
        if (job.job.id == id) {
            return job.first_start_at;
        }
    }
    ADD_FAILURE() << id;
    return -2;
}

// 8 GPUs; wide can start at 100. short is over by then; narrow is not but leaves wide its 6.
TEST(Fifo, who_does_not_delay_the_head_goes_before_it) {
    Rig rig(1, 8);
    rig.workload.jobs = {job("first", 0, 4, 100),  job("wide", 1, 6, 50),
                         job("long", 2, 4, 98),    job("short", 3, 2, 90),
                         job("narrow", 4, 2, 500), job("late", 5, 2, 20000)};
    const SimRecord record = rig.run("fifo");
    EXPECT_EQ(start_of(record, "wide"), 100);
    EXPECT_EQ(start_of(record, "long"), 2);
    EXPECT_EQ(start_of(record, "short"), 100) << "long and first have all GPUs until 100";
    EXPECT_EQ(start_of(record, "narrow"), 150);
    EXPECT_EQ(start_of(record, "late"), 150);
}

TEST(Fifo, a_long_job_beside_a_reservation_may_not_delay_it) {
    Rig rig(1, 8);
    rig.workload.jobs = {job("first", 0, 4, 100), job("wide", 1, 6, 50), job("long", 2, 4, 99),
                         job("narrow", 3, 2, 500)};
    const SimRecord record = rig.run("fifo");
    EXPECT_EQ(start_of(record, "narrow"), 3) << "2 GPUs beside wide's 6";
    EXPECT_EQ(start_of(record, "wide"), 100);
    EXPECT_EQ(start_of(record, "long"), 150) << "99 s from 2 on would be over at 101";
}

TEST(Fifo, gangs_take_nodes_of_their_own_and_types_are_kept_apart) {
    Rig rig(4, 8);
    rig.cluster.nodes[3].gpu_type = "h100";
    WorkloadJob gang = job("gang", 1, 17, 100), typed = job("typed", 2, 4, 10);
    gang.nodes = 3;
    typed.gpu_type = "h100";
    rig.workload.jobs = {job("small", 0, 2, 1000), gang, typed};
    const SimRecord record = rig.run("fifo");
    EXPECT_EQ(start_of(record, "gang"), 1);
    const SegmentRecord& segment = record.segments.at(1);
    ASSERT_EQ(segment.where.size(), 3U);
    EXPECT_EQ(segment.where[0].gpus, 6);
    EXPECT_EQ(segment.where[0].node, 0U) << "best fit: beside small";
    EXPECT_EQ(segment.where[1].gpus, 6);
    EXPECT_EQ(segment.where[2].gpus, 5);
    EXPECT_EQ(record.segments.at(2).where.at(0).node, 3U);
}

TEST(Fifo, a_job_that_never_fits_blocks_nobody) {
    Rig rig(1, 8);
    rig.workload.jobs = {job("huge", 0, 9, 100), job("a", 1, 8, 10)};
    EXPECT_EQ(start_of(rig.run("fifo"), "a"), 1);
}

TEST(Fifo, a_failed_node_gives_its_jobs_their_old_places_back) {
    Rig rig(2, 8);
    rig.workload.jobs = {job("a", 0, 8, 1000), job("b", 0, 8, 300), job("c", 5, 8, 10)};
    WorkloadEvent fail;
    fail.at = 100;
    fail.kind = EventKind::node_fail;
    fail.nodes = {"n1"};
    rig.workload.events = {fail};
    const SimRecord record = rig.run("fifo");
    EXPECT_EQ(record.jobs[0].runs, 2U);
    EXPECT_EQ(record.segments.at(2).begin_at, 300);
    EXPECT_EQ(start_of(record, "c"), 1200) << "a had 900 s left";
}

// One GPU. v has used it for 1000 s when w comes; both have jobs waiting. At the next period (1200)
// v is known to have used everything, so w's job goes first although it came later.
TEST(FairTree, the_user_with_less_usage_goes_first) {
    Rig rig(1, 1);
    rig.workload.jobs = {job("v1", 0, 1, 1250, "A", "v"), job("v2", 900, 1, 100, "A", "v"),
                         job("w1", 1000, 1, 100, "A", "w")};
    const SimRecord record = rig.run("fairtree");
    EXPECT_EQ(start_of(record, "w1"), 1250);
    EXPECT_EQ(start_of(record, "v2"), 1350);
}

TEST(FairTree, usage_counts_from_the_next_period_on_and_ties_go_by_submission) {
    Rig rig(1, 1);
    rig.workload.jobs = {job("v1", 0, 1, 200, "A", "v"), job("v2", 10, 1, 50, "A", "v"),
                         job("w1", 20, 1, 100, "A", "w")};
    const SimRecord record = rig.run("fairtree");
    EXPECT_EQ(start_of(record, "v2"), 200) << "nobody's usage is known before 300";
    EXPECT_EQ(start_of(record, "w1"), 250);
}

// B has three times A's share: after equal use its users go first; inside B the one who used less.
TEST(FairTree, accounts_come_before_their_users) {
    Rig rig(1, 2, {{"A", 1}, {"B", 3}});
    rig.workload.jobs = {job("a1", 0, 1, 700, "A", "a"), job("b1", 0, 1, 700, "B", "b"),
                         job("a2", 1, 1, 100, "A", "new"), job("b2", 2, 1, 100, "B", "b"),
                         job("b3", 3, 1, 100, "B", "other")};
    const SimRecord record = rig.run("fairtree");
    EXPECT_EQ(start_of(record, "b3"), 700);
    EXPECT_EQ(start_of(record, "b2"), 700);
    EXPECT_EQ(start_of(record, "a2"), 800);
}

// v used 4 GPU h long ago, w 1 GPU h just now. After four half-lives v counts a quarter hour.
TEST(FairTree, usage_fades_by_half_lives) {
    Rig rig(1, 4);
    rig.workload.jobs = {job("v1", 0, 4, 3600, "A", "v")};
    const std::int64_t later = std::int64_t{28} * 86400;
    rig.workload.jobs.push_back(job("w1", later, 4, 900, "A", "w"));
    rig.workload.jobs.push_back(job("w2", later + 600, 4, 10, "A", "w"));
    rig.workload.jobs.push_back(job("v2", later + 700, 4, 10, "A", "v"));
    const SimRecord record = rig.run("fairtree");
    EXPECT_EQ(start_of(record, "v2"), later + 900);
    EXPECT_EQ(start_of(record, "w2"), later + 910);
}

TEST(FairTree, backfilling_goes_by_time_limits) {
    Rig rig(1, 8);
    rig.workload.jobs = {job("first", 0, 4, 100), job("wide", 1, 8, 50), job("small", 2, 4, 90)};
    rig.workload.jobs[0].time_limit_seconds = 400;
    rig.workload.jobs[2].time_limit_seconds = 300;
    const SimRecord record = rig.run("fairtree");
    EXPECT_EQ(start_of(record, "small"), 2) << "over by 400";
    EXPECT_EQ(start_of(record, "wide"), 100) << "first ended sooner than its limit";
}

// 16 GPUs, limits of 8. A's second job runs beyond the limit on idle GPUs; B's job takes it.
TEST(Slots, beyond_the_limit_runs_are_preemptible_and_queue_again) {
    Rig rig(2, 8, {{"A", 1}, {"B", 1}});
    rig.workload.jobs = {job("a1", 0, 8, 1000), job("a2", 0, 8, 1000), job("b1", 100, 8, 200, "B"),
                         job("b2", 100, 8, 200, "B")};
    const SimRecord record = rig.run("slots");
    EXPECT_EQ(start_of(record, "a2"), 0);
    EXPECT_EQ(start_of(record, "b1"), 105);
    ASSERT_EQ(record.preemptions.size(), 1U);
    EXPECT_EQ(record.jobs[record.preemptions[0].victim].job.id, "a2");
    EXPECT_EQ(record.preemptions[0].outcome, PreemptionOutcome::started);
    EXPECT_EQ(start_of(record, "b2"), 305) << "B's limit is full: it waits, and is within it then";
    EXPECT_EQ(record.jobs[1].runs, 2U);
}

TEST(Slots, even_a_debug_job_waits_for_its_teams_limit) {
    Rig rig(2, 8, {{"A", 1}, {"B", 1}});
    rig.workload.jobs = {job("a1", 0, 8, 5000), job("b1", 0, 8, 9000, "B"),
                         job("debug", 100, 1, 60)};
    rig.workload.jobs[2].min_runtime_seconds = 600;
    const SimRecord record = rig.run("slots");
    EXPECT_EQ(start_of(record, "debug"), 5000);
    EXPECT_TRUE(record.jobs[2].fits_lane);
    EXPECT_TRUE(record.preemptions.empty());
}

TEST(Slots, a_job_larger_than_the_limit_runs_on_idle_gpus_only) {
    Rig rig(2, 8, {{"A", 1}, {"B", 1}});
    WorkloadJob gang = job("gang", 0, 16, 100);
    gang.nodes = 2;
    rig.workload.jobs = {job("b1", 0, 8, 500, "B"), gang, job("b2", 550, 8, 10, "B")};
    rig.workload.jobs[1].resumable = false;
    const SimRecord record = rig.run("slots");
    EXPECT_EQ(start_of(record, "gang"), 500);
    EXPECT_EQ(start_of(record, "b2"), 555);
    EXPECT_EQ(record.jobs[1].runs, 2U) << "what cannot resume queues again and begins anew";
    EXPECT_EQ(record.lost_requeued_gpu_seconds, 16 * 55);
    EXPECT_EQ(record.end_at, 565 + 100);
}

TEST(Slots, the_fewest_gpus_are_taken_and_then_the_youngest_run) {
    Rig rig(2, 8, {{"A", 1}, {"B", 1}});
    rig.workload.jobs = {job("a0", 0, 8, 9000), job("x", 1, 4, 9000), job("y", 2, 2, 9000),
                         job("z", 3, 2, 9000), job("b", 100, 2, 50, "B")};
    const SimRecord record = rig.run("slots");
    ASSERT_EQ(record.preemptions.size(), 1U);
    EXPECT_EQ(record.jobs[record.preemptions[0].victim].job.id, "z");
}

TEST(Slots, a_claimant_that_leaves_gives_its_claim_back) {
    Rig rig(2, 8, {{"A", 1}, {"B", 1}});
    rig.workload.jobs = {job("a1", 0, 8, 9000), job("a2", 0, 8, 9000), job("b1", 100, 8, 50, "B")};
    rig.workload.jobs[1].exit_seconds = 50;
    WorkloadEvent cancel;
    cancel.at = 120;
    cancel.kind = EventKind::cancel;
    cancel.job = "b1";
    rig.workload.events = {cancel};
    const SimRecord record = rig.run("slots");
    EXPECT_EQ(record.preemptions.at(0).outcome, PreemptionOutcome::claimant_left);
    EXPECT_EQ(record.segments.at(2).begin_at, 150) << "a2 starts again at once";
}

}  // namespace
}  // namespace tranche::sim
