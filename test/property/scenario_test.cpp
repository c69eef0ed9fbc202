// SPDX-License-Identifier: GPL-2.0-or-later
// The scenario files, and what must hold in any of them, after every pass and for every
// preemption.
#include "sim/scenario.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "common/policy/pass.hpp"
#include "common/wire/json.hpp"
#include "sim/budget_scheduler.hpp"
#include "sim/record_checks.hpp"

namespace tranche::test {
namespace {

sim::Scenario scenario_of(const std::string& text, const std::string& name) {
    auto scenario = sim::read_scenario(text, name);
    EXPECT_TRUE(scenario.ok()) << scenario.error();
    return scenario.ok() ? std::move(*scenario) : sim::Scenario{};
}

sim::Scenario read_file(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return scenario_of(text.str(), path.filename().string());
}

std::vector<std::filesystem::path> scenario_files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(TRANCHE_SOURCE_DIR) + "/test/scenarios")) {
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

// What no pass may do.
void check_pass(const ClusterView& view, const PassResult& result) {
    std::vector<std::int64_t> free;
    for (const Node& node : view.nodes) {
        free.push_back(node.free_gpus);
    }
    std::set<JobId> planned_before;
    for (const Plan& plan : view.plans) {
        planned_before.insert(plan.claimant);
    }
    for (const StartDecision& start : result.starts) {
        for (const NodeShare& share : start.where) {
            free[share.node] -= share.gpus;
            ASSERT_GE(free[share.node], 0) << "more starts than room at " << view.now;
        }
    }
    std::set<std::uint32_t> victims;
    for (const PlanDecision& plan : result.plans) {
        ASSERT_FALSE(plan.victims.empty());
        ASSERT_FALSE(planned_before.contains(plan.plan.claimant)) << "two plans for one claimant";
        for (const VictimDecision& victim : plan.victims) {
            ASSERT_TRUE(victims.insert(victim.run).second) << "one victim of two plans";
            const Run& run = view.runs[victim.run];
            ASSERT_FALSE(run.under_contract(view.now)) << run.name << " inside its contract";
            ASSERT_EQ(run.leaving_for, 0U);
        }
        // The placement that the evictions make possible.
        std::vector<std::int64_t> room;
        for (const Node& node : view.nodes) {
            room.push_back(node.free_gpus);
        }
        for (const Run& run : view.runs) {
            const auto index = static_cast<std::uint32_t>(&run - view.runs.data());
            if (run.leaving_for != 0 || victims.contains(index)) {
                for (const NodeShare& share : run.where) {
                    room[share.node] += share.gpus;
                }
            }
        }
        std::int64_t sum = 0;
        for (const NodeShare& share : plan.plan.where) {
            ASSERT_GE(room[share.node], share.gpus) << "no room is made for the claimant";
            sum += share.gpus;
        }
        ASSERT_EQ(sum, view.pending[plan.job].shape.gpus);
    }
}

class Scenario : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Scenario, holds) {
    const sim::Scenario scenario = read_file(GetParam());
    EXPECT_EQ(scenario.name, GetParam().stem().string());
    const auto outcome = sim::check_scenario(scenario, [](sim::BudgetScheduler& scheduler) {
        scheduler.on_pass = [](const ClusterView& view, const Standings&,
                               const PassResult& result) { check_pass(view, result); };
    });
    for (const std::string& failure : outcome.failures) {
        ADD_FAILURE() << failure;
    }
    for (const std::string& violation : sim::check_invariants(outcome.record).violations) {
        ADD_FAILURE() << violation;
    }
}

INSTANTIATE_TEST_SUITE_P(Files, Scenario, testing::ValuesIn(scenario_files()),
                         [](const auto& file) { return file.param.stem().string(); });

// A random week of six budgets on three levels, two users each, with gangs, free work, sessions
// and debug jobs.
sim::Scenario random_week(std::uint32_t seed, bool lane) {
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) {
        return std::uniform_int_distribution<int>(from, to)(random);
    };
    Json scenario = Json::object();
    Json nodes = Json::array();
    nodes.append(Json::object().set("name", "n[1-6]").set("gpus", 8));
    scenario.set("cluster", Json::object().set("cycle", 600).set("boot", 60).set("nodes", nodes));
    Json config = Json::object();
    if (lane) {
        config.set("ExpressFraction", 1);
    }
    scenario.set("config", config);
    Json budgets = Json::array();
    const std::vector<std::pair<std::string, std::string>> tree = {
        {"P", "root"}, {"Q", "root"}, {"p1", "P"}, {"p2", "P"}, {"q1", "Q"}, {"x", "p1"}};
    for (const auto& [name, parent] : tree) {
        budgets.append(
            Json::object().set("name", name).set("parent", parent).set("shares", pick(1, 5)));
    }
    scenario.set("budgets", budgets);
    Json jobs = Json::array();
    const std::vector<std::string> payers = {"p1", "p2", "q1", "x", "P"};
    for (int i = 0; i < 220; ++i) {
        const int kind = pick(0, 9);
        const int gpus = kind == 0 ? 16 : kind < 4 ? 8 : pick(1, 4);
        const std::string budget = payers[static_cast<std::size_t>(pick(0, 4))];
        static const char* const priorities[] = {"low", "normal", "high", "urgent"};
        jobs.append(Json::object()
                        .set("id", "j" + std::to_string(i))
                        .set("at", pick(0, 4 * 86400))
                        .set("budget", budget)
                        .set("user", budget + std::to_string(pick(0, 1)))
                        .set("gpus", gpus)
                        .set("nodes", gpus > 8 ? 2 : 1)
                        .set("min_runtime", kind == 9   ? 0
                                            : kind == 8 ? 600
                                                        : 900 * pick(1, 16))
                        .set("runtime", pick(600, 100000))
                        .set("exit_seconds", pick(1, 90))
                        .set("resumable", pick(0, 3) != 0)
                        .set("interactive", pick(0, 15) == 0)
                        .set("team_priority", priorities[pick(0, 3)]));
    }
    scenario.set("jobs", jobs);
    scenario.set("until", 7 * 86400);
    scenario.set("expect", Json::array().append(
                               Json::object().set("metric", "preemptions").set("at_least", 0)));
    return scenario_of(scenario.compact(), "random week " + std::to_string(seed));
}

class RandomWeek : public testing::TestWithParam<int> {};

TEST_P(RandomWeek, no_pass_breaks_a_promise) {
    const auto outcome = sim::check_scenario(
        random_week(static_cast<std::uint32_t>(GetParam()), true),
        [](sim::BudgetScheduler& scheduler) {
            scheduler.on_pass = [](const ClusterView& view, const Standings&,
                                   const PassResult& result) { check_pass(view, result); };
        });
    EXPECT_GT(outcome.record.preemptions.size(), 20U) << "the workload is to be contended";
    for (const sim::PreemptionEvent& event : outcome.record.preemptions) {
        EXPECT_FALSE(event.inside_contract);
        EXPECT_NE(event.outcome, sim::PreemptionOutcome::wasted);
    }
    for (const std::string& violation : sim::check_invariants(outcome.record).violations) {
        ADD_FAILURE() << violation;
    }
}

// The controller forgets everything but its ledger, in the middle of each half-day.
TEST_P(RandomWeek, a_restart_changes_nothing) {
    // An event that changes nothing, so that both have passes at the same instants.
    const auto run_with = [](sim::EventKind kind) {
        sim::Scenario scenario = random_week(static_cast<std::uint32_t>(GetParam()), true);
        for (std::int64_t at = 21600; at < scenario.until; at += 43200) {
            sim::WorkloadEvent event;
            event.at = at;
            event.kind = kind;
            event.nodes = {"n1"};
            scenario.workload.events.push_back(event);
        }
        return sim::check_scenario(scenario).record;
    };
    const sim::SimRecord before = run_with(sim::EventKind::node_up);
    const sim::SimRecord after = run_with(sim::EventKind::restart);
    ASSERT_EQ(before.jobs.size(), after.jobs.size());
    for (std::size_t j = 0; j < before.jobs.size(); ++j) {
        ASSERT_EQ(before.jobs[j].first_start_at, after.jobs[j].first_start_at)
            << before.jobs[j].job.id;
        ASSERT_EQ(before.jobs[j].ended_at, after.jobs[j].ended_at) << before.jobs[j].job.id;
    }
}

// A victim's side had a larger ratio than its claimant's with the claimant's commitment in it. So
// at the same instant the victim may not take back, and in a chain of preemptions of one instant
// each further victim's side is larger still.
TEST_P(RandomWeek, a_victim_does_not_take_back) {
    const auto look = [](const ClusterView& view, const Standings& before,
                         const PassResult& result) {
        // As it was before the pass: all of it, and nothing that the pass itself has placed.
        Standings after = before;
        for (SideId id = 0; id < after.sides.size(); ++id) {
            after.side(id).placed = 0;
        }
        for (MemberId id = 0; id < after.members.size(); ++id) {
            after.member(id).placed = 0;
        }
        after.source = nullptr;
        const Settings settings = sim::scenario_defaults();
        for (const PlanDecision& plan : result.plans) {
            after.commit(plan.plan.budget, plan.plan.member, plan.plan.weight_milli,
                         plan.plan.commitment_seconds);
        }
        for (const PlanDecision& plan : result.plans) {
            const PendingJob& job = view.pending[plan.job];
            tranche::Run claimant;  // as if it ran and its contract were over already
            claimant.id = job.id;
            claimant.budget = job.budget;
            claimant.member = job.member;
            claimant.kind = RunKind::allocated;
            claimant.gpus = job.shape.gpus;
            claimant.team_priority = job.team_priority;
            for (const VictimDecision& victim : plan.victims) {
                const tranche::Run& run_of_victim = view.runs[victim.run];
                if (run_of_victim.kind != RunKind::allocated) {
                    continue;
                }
                PendingJob again;
                again.id = run_of_victim.id;
                again.budget = run_of_victim.budget;
                again.member = run_of_victim.member;
                again.weight_milli = run_of_victim.weight_milli;
                again.min_runtime_seconds = 1;
                again.team_priority = run_of_victim.team_priority;
                const TakeVerdict back =
                    may_take({&again, again.team_priority, false},
                             {&claimant, claimant.team_priority}, after, settings, view.now, 48000);
                ASSERT_FALSE(back.may)
                    << run_of_victim.name << " takes back from " << job.name << " at " << view.now;
                const TakeVerdict& verdict = victim.verdict;
                if (verdict.reason == TakeReason::smaller_ratio) {
                    ASSERT_TRUE(compare_ratio(verdict.claimant_charge, verdict.claimant_entitlement,
                                              verdict.victim_charge,
                                              verdict.victim_entitlement) < 0);
                }
            }
        }
    };
    const auto outcome =
        sim::check_scenario(random_week(static_cast<std::uint32_t>(GetParam()), false),
                            [&look](sim::BudgetScheduler& scheduler) { scheduler.on_pass = look; });
    EXPECT_FALSE(outcome.record.preemptions.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWeek, testing::Range(1, 7));

}  // namespace
}  // namespace tranche::test
