// SPDX-License-Identifier: GPL-2.0-or-later
// What no pass may ever do, on random clusters; victim sets against all subsets. Fixed seeds.
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "common/policy/victims.hpp"
#include "support/random_situation.hpp"

namespace tranche {
namespace {

Settings settings_of(std::uint64_t seed) {
    Settings settings = scenario_settings();
    settings.express_fraction_ppm = seed % 2 == 0 ? kPpm / 3 : 0;
    settings.raised_share_ppm = seed % 3 == 0 ? 1'500'000 : 0;
    settings.max_protected_fraction_ppm = seed % 4 == 0 ? 700'000 : kPpm;
    settings.preempt_within_budget = static_cast<PreemptWithinBudget>(seed % 4);
    settings.preempt_margin_ppm = seed % 5 == 0 ? 0 : 50'000;
    settings.max_preemptions_per_hour = seed % 6 == 0 ? 4 : 0;
    return settings;
}

std::map<NodeIndex, std::int64_t> gpus_by_node(const std::vector<NodeShare>& where) {
    std::map<NodeIndex, std::int64_t> gpus;
    for (const NodeShare& share : where) {
        gpus[share.node] += share.gpus;
    }
    return gpus;
}

void expect_placement_suits(const Situation& s, const JobShape& shape,
                            const std::vector<NodeShare>& where) {
    ASSERT_EQ(where.size(), shape.nodes);
    std::set<NodeIndex> nodes;
    std::int64_t gpus = 0;
    for (std::uint32_t member = 0; member < where.size(); ++member) {
        nodes.insert(where[member].node);
        gpus += where[member].gpus;
        ASSERT_TRUE(s.view.nodes[where[member].node].usable);
        ASSERT_TRUE(node_suits(s.view, shape, where[member].node, member));
    }
    ASSERT_EQ(nodes.size(), shape.nodes);
    ASSERT_EQ(gpus, shape.gpus);
}

TEST(PassProperty, nothing_starts_without_room_and_no_plan_is_without_a_placement) {
    std::size_t plans = 0, starts = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        RandomSituation random(seed, {.jobs = 60}, settings_of(seed));
        Situation& s = random.situation;
        const PassResult& result = s.pass();
        std::vector<std::int64_t> free_now, free_later;
        for (const Node& node : s.view.nodes) {
            free_now.push_back(node.free_gpus);
            free_later.push_back(node.free_gpus);
        }
        for (const StartDecision& start : result.starts) {
            expect_placement_suits(s, s.view.pending[start.job].shape, start.where);
            for (const auto& [node, gpus] : gpus_by_node(start.where)) {
                free_now[node] -= gpus;
                free_later[node] -= gpus;
            }
            ++starts;
        }
        std::set<std::uint32_t> victims;
        for (const PlanDecision& plan : result.plans) {
            expect_placement_suits(s, s.view.pending[plan.job].shape, plan.plan.where);
            ASSERT_FALSE(plan.victims.empty());
            for (const VictimDecision& victim : plan.victims) {
                ASSERT_TRUE(victims.insert(victim.run).second) << "taken twice, seed " << seed;
                for (const auto& [node, gpus] : gpus_by_node(s.view.runs[victim.run].where)) {
                    free_later[node] += gpus;
                }
            }
            for (const auto& [node, gpus] : gpus_by_node(plan.plan.where)) {
                free_later[node] -= gpus;
            }
            ++plans;
        }
        for (const NodeIndex node : {0U, 1U, 2U, 3U, 4U, 5U}) {
            ASSERT_GE(free_now[node], 0) << "seed " << seed;
            ASSERT_GE(free_later[node], 0) << "seed " << seed;
        }
        if (testing::Test::HasFatalFailure()) {
            return;
        }
    }
    EXPECT_GT(starts, 300U);
    EXPECT_GT(plans, 200U);
}

TEST(PassProperty, no_contract_is_ever_broken_and_only_settled_runs_leave) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        RandomSituation random(seed, {}, settings_of(seed));
        Situation& s = random.situation;
        const PassResult& result = s.pass();
        for (const PlanDecision& plan : result.plans) {
            const PendingJob& claimant = s.view.pending[plan.job];
            ASSERT_TRUE(is_allocated(claimant, s.standings));
            ASSERT_EQ(claimant.block, StartBlock::none);
            for (const VictimDecision& victim : plan.victims) {
                const tranche::Run& run = s.view.runs[victim.run];
                ASSERT_TRUE(victim.verdict.may);
                ASSERT_FALSE(run.under_contract(s.view.now)) << "seed " << seed;
                ASSERT_TRUE(run.state == RunState::running || run.state == RunState::suspended);
                if (plan.plan.express) {
                    ASSERT_FALSE(run.kind == RunKind::allocated && run.interactive);
                }
            }
        }
        // Nor by any pair, whatever was planned.
        for (const PendingJob& job : s.view.pending) {
            for (const tranche::Run& run : s.view.runs) {
                for (const bool express : {false, true}) {
                    const TakeVerdict verdict = may_take(
                        {&job, job.team_priority, express}, {&run, run.team_priority}, s.standings,
                        s.settings, s.view.now, s.view.available_gpus() * 1000);
                    ASSERT_FALSE(verdict.may && run.under_contract(s.view.now));
                    ASSERT_FALSE(verdict.may && !is_allocated(job, s.standings));
                }
            }
        }
    }
}

TEST(PassProperty, each_victim_of_a_plan_is_needed) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        RandomSituation random(seed, {.jobs = 3}, settings_of(seed));
        Situation& s = random.situation;
        const PassResult& result = s.pass();
        if (result.plans.empty()) {
            continue;
        }
        // The first plan of a pass: only the starts before it have taken room.
        const PlanDecision& plan = result.plans.front();
        for (const VictimDecision& dropped : plan.victims) {
            std::vector<std::int64_t> free;
            for (const Node& node : s.view.nodes) {
                free.push_back(node.free_gpus);
            }
            for (const VictimDecision& victim : plan.victims) {
                if (victim.run != dropped.run) {
                    for (const auto& [node, gpus] : gpus_by_node(s.view.runs[victim.run].where)) {
                        free[node] += gpus;
                    }
                }
            }
            bool short_of_room = false;
            for (const auto& [node, gpus] : gpus_by_node(plan.plan.where)) {
                short_of_room = short_of_room || free[node] < gpus;
            }
            ASSERT_TRUE(short_of_room || !result.starts.empty()) << "seed " << seed;
        }
    }
}

TEST(PassProperty, headroom_and_the_lane_s_caps_are_never_exceeded) {
    for (std::uint64_t seed = 4; seed <= 1200; seed += 4) {
        Settings settings = settings_of(seed);
        settings.express_fraction_ppm = kPpm / 6;
        settings.express_gpus_per_user = 6;
        RandomSituation random(seed, {.runs = 10, .jobs = 60, .gangs = false}, settings);
        Situation& s = random.situation;
        const PassResult& result = s.pass();
        const std::int64_t allowed = protected_gpus_allowed(s.view, settings);
        ASSERT_LT(allowed, s.view.available_gpus());
        std::int64_t before = 0, started = 0, lane = 0;
        std::map<std::string, std::int64_t> user_lane;
        const auto in_lane = [&](MemberId member, std::int64_t gpus) {
            lane += gpus;
            user_lane[s.standings.members[member].user] += gpus;
        };
        for (const tranche::Run& run : s.view.runs) {
            if (!run.under_contract(s.view.now)) {
                continue;
            }
            if (run.express) {
                in_lane(run.member, run.gpus);
            } else {
                before += run.gpus;
            }
        }
        const std::int64_t lane_before = lane;
        const auto user_before = user_lane;
        for (const StartDecision& start : result.starts) {
            const PendingJob& job = s.view.pending[start.job];
            if (start.express) {
                in_lane(job.member, job.shape.gpus);
            } else if (is_allocated(job, s.standings) && !start.as_free) {
                started += job.shape.gpus;
            }
            ASSERT_FALSE(start.as_free && !job.resumable);
        }
        for (const PlanDecision& plan : result.plans) {
            const PendingJob& job = s.view.pending[plan.job];
            if (plan.plan.express) {
                in_lane(job.member, job.shape.gpus);
            } else {
                started += job.shape.gpus;
            }
        }
        if (started > 0) {
            ASSERT_LE(before + started, allowed) << "seed " << seed;
        }
        if (lane > lane_before) {
            ASSERT_LE(lane,
                      std::max(settings.express_gpus,
                               s.view.available_gpus() * settings.express_fraction_ppm / kPpm));
        }
        for (const auto& [user, gpus] : user_lane) {
            const auto it = user_before.find(user);
            if (it == user_before.end() || gpus > it->second) {
                ASSERT_LE(gpus, settings.express_gpus_per_user) << "seed " << seed;
            }
        }
    }
}

TEST(PassProperty, evictions_stay_below_the_hour_s_limit) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Settings settings = settings_of(seed);
        settings.max_preemptions_per_hour = 3;
        RandomSituation random(seed, {}, settings);
        random.situation.view.evictions_last_hour = 1;
        std::size_t evictions = 0;
        for (const PlanDecision& plan : random.situation.pass().plans) {
            evictions += plan.victims.size();
        }
        ASSERT_LE(evictions, 2U);
    }
}

// The cluster after the plans were carried out: claimants run, victims wait again.
void carry_out(Situation& s, const PassResult& result) {
    std::vector<Run> runs;
    std::vector<PendingJob> pending;
    std::set<std::uint32_t> left;
    std::set<std::uint32_t> gone;
    const auto start = [&](const PendingJob& job, const std::vector<NodeShare>& where, bool express,
                           bool free) {
        Run run;
        run.id = job.id;
        run.name = job.name;
        run.budget = job.budget;
        run.member = job.member;
        run.kind =
            is_allocated(job, s.standings) && !free ? RunKind::allocated : RunKind::unallocated;
        run.where = where;
        run.gpus = job.shape.gpus;
        run.weight_milli = job.weight_milli;
        run.started_at = s.view.now;
        run.contract_seconds = job.contract_seconds();
        run.protected_until =
            run.kind == RunKind::allocated ? s.view.now + run.contract_seconds : 0;
        run.team_priority = job.team_priority;
        run.resumable = true;
        run.express = express;
        runs.push_back(run);
        s.ledger.begin(
            {{job.id, s.view.now, s.view.now},
             s.standings.budgets[job.budget].exists ? s.standings.budgets[job.budget].name : "",
             s.standings.members[job.member].user,
             run.kind,
             run.weight_milli});
        for (const NodeShare& share : where) {
            s.view.nodes[share.node].free_gpus -= share.gpus;
        }
    };
    const Standings before = s.standings;
    for (const PlanDecision& plan : result.plans) {
        for (const VictimDecision& victim : plan.victims) {
            const tranche::Run& run = s.view.runs[victim.run];
            left.insert(victim.run);
            for (const NodeShare& share : run.where) {
                s.view.nodes[share.node].free_gpus += share.gpus;
            }
            PendingJob job;
            job.id = run.id;
            job.name = run.name;
            job.budget = run.budget;
            job.member = run.member;
            job.shape.nodes = static_cast<std::uint32_t>(run.where.size());
            job.shape.gpus = run.gpus;
            job.weight_milli = run.weight_milli;
            job.min_runtime_seconds = run.contract_seconds;
            job.first_submit_at = run.first_submit_at;
            job.team_priority = run.team_priority;
            job.resumable = true;
            job.runs_before = 1;
            pending.push_back(job);
        }
    }
    for (const StartDecision& decision : result.starts) {
        gone.insert(decision.job);
        start(s.view.pending[decision.job], decision.where, decision.express, decision.as_free);
    }
    for (const PlanDecision& plan : result.plans) {
        gone.insert(plan.job);
        start(s.view.pending[plan.job], plan.plan.where, plan.plan.express, false);
    }
    for (std::uint32_t i = 0; i < s.view.runs.size(); ++i) {
        if (!left.contains(i)) {
            runs.push_back(s.view.runs[i]);
        }
    }
    for (std::uint32_t i = 0; i < s.view.pending.size(); ++i) {
        if (!gone.contains(i)) {
            pending.push_back(s.view.pending[i]);
        }
    }
    s.view.runs = runs;
    s.view.pending = pending;
}

// Settings for chains: a flat tree, no lane, other budgets only.
Settings chain_settings(std::uint64_t seed) {
    Settings settings = scenario_settings();
    settings.preempt_within_budget = PreemptWithinBudget::no;
    settings.preempt_margin_ppm = seed % 2 == 0 ? 0 : 50'000;
    return settings;
}

void make_single_tasks(Situation& s) {
    for (PendingJob& job : s.view.pending) {
        job.tasks = 1;
        job.block = StartBlock::none;
    }
}

TEST(PassProperty, a_victim_does_not_take_back_from_its_claimant) {
    std::size_t checked = 0;
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
        RandomSituation random(seed, {.runs = 60, .gangs = false}, chain_settings(seed));
        Situation& s = random.situation;
        make_single_tasks(s);
        struct Pair {
            JobId claimant, victim;
        };
        std::vector<Pair> pairs;
        PassResult result = s.pass();
        if (result.plans.empty() || !result.starts.empty()) {
            continue;
        }
        // The first plan alone: a later one of the same side, against a side that has used more,
        // may well raise it above this victim's; then contracts protect the claimant.
        result.plans.resize(1);
        for (const VictimDecision& victim : result.plans[0].victims) {
            if (victim.verdict.reason == TakeReason::smaller_ratio) {
                pairs.push_back({result.plans[0].plan.claimant, s.view.runs[victim.run].id});
            }
        }
        carry_out(s, result);
        s.stand();
        for (const Pair& pair : pairs) {
            const auto job = std::find_if(s.view.pending.begin(), s.view.pending.end(),
                                          [&](const PendingJob& j) { return j.id == pair.victim; });
            const auto run =
                std::find_if(s.view.runs.begin(), s.view.runs.end(),
                             [&](const tranche::Run& r) { return r.id == pair.claimant; });
            ASSERT_TRUE(job != s.view.pending.end() && run != s.view.runs.end());
            const TakeVerdict verdict =
                may_take({&*job, job->team_priority, false}, {&*run, run->team_priority},
                         s.standings, s.settings, s.view.now, s.view.available_gpus() * 1000, true);
            ASSERT_FALSE(verdict.may) << "seed " << seed;
            ++checked;
        }
    }
    EXPECT_GT(checked, 50U);
}

TEST(PassProperty, in_a_chain_each_further_victim_s_side_has_a_strictly_larger_ratio) {
    std::size_t longest = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        RandomSituation random(seed, {.budgets = 10, .levels = 1, .runs = 30, .gangs = false},
                               chain_settings(seed));
        Situation& s = random.situation;
        make_single_tasks(s);
        // A victim that claims in turn: the side it was taken from, as it was then.
        struct Taken {
            UInt128 charge, entitlement;
            std::size_t length;
        };
        std::map<JobId, Taken> taken;
        std::size_t rounds = 0;
        for (;; ++rounds) {
            ASSERT_LT(rounds, 60U) << "seed " << seed;
            const PassResult result = s.pass();
            if (result.plans.empty() && result.starts.empty()) {
                break;
            }
            std::map<JobId, Taken> next = taken;
            for (const PlanDecision& plan : result.plans) {
                const auto before = taken.find(plan.plan.claimant);
                for (const VictimDecision& victim : plan.victims) {
                    if (victim.verdict.reason != TakeReason::smaller_ratio) {
                        continue;
                    }
                    std::size_t length = 1;
                    if (before != taken.end()) {
                        ASSERT_TRUE(compare_ratio(before->second.charge, before->second.entitlement,
                                                  victim.verdict.victim_charge,
                                                  victim.verdict.victim_entitlement) < 0)
                            << "seed " << seed;
                        length = before->second.length + 1;
                    }
                    longest = std::max(longest, length);
                    next[s.view.runs[victim.run].id] = {victim.verdict.victim_charge,
                                                        victim.verdict.victim_entitlement, length};
                }
            }
            taken = std::move(next);
            carry_out(s, result);
        }
    }
    EXPECT_GE(longest, 2U);
}

TEST(PassProperty, the_order_of_the_input_does_not_matter) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        RandomSituation random(seed, {}, settings_of(seed));
        Situation& s = random.situation;
        const auto shown = [&] {
            s.pass();
            Names names = s.started();
            for (const PlanDecision& plan : s.result.plans) {
                names.push_back(s.view.pending[plan.job].name);
                std::set<std::string> victims;
                for (const VictimDecision& victim : plan.victims) {
                    victims.insert(s.view.runs[victim.run].name);
                }
                names.insert(names.end(), victims.begin(), victims.end());
            }
            return names;
        };
        const Names first = shown();
        std::shuffle(s.view.pending.begin(), s.view.pending.end(), random.random);
        ASSERT_EQ(first, shown()) << "seed " << seed;
    }
}

TEST(VictimsProperty, one_node_claimants_get_the_cheapest_of_all_subsets) {
    std::mt19937_64 random(9);
    for (int round = 0; round < 400; ++round) {
        Situation s({make_budget("A", 1)});
        s.nodes(3);
        std::vector<VictimCandidate> candidates;
        for (NodeIndex node = 0; node < 3; ++node) {
            while (s.view.nodes[node].free_gpus > static_cast<std::int64_t>(random() % 4)) {
                const auto gpus = static_cast<std::int64_t>(
                    1 + random() % static_cast<std::uint64_t>(s.view.nodes[node].free_gpus));
                s.runs("r", "A", std::min<std::int64_t>(gpus, 3), node, 0, 0);
            }
        }
        for (std::uint32_t r = 0; r < s.view.runs.size(); ++r) {
            if (random() % 5 == 0) {
                continue;  // under contract
            }
            VictimCandidate candidate;
            candidate.run = r;
            const std::int64_t gpus = s.view.runs[r].gpus;
            candidate.cost.gpus = gpus;
            candidate.cost.allocated_gpus = random() % 2 == 0 ? gpus : 0;
            candidate.cost.final_gpus = random() % 4 == 0 ? gpus : 0;
            candidate.cost.over_funding = random() % 5 * static_cast<UInt128>(gpus);
            candidate.cost.priority_gpus = static_cast<std::int64_t>(random() % 3) * gpus;
            candidate.cost.lost_gpu_seconds = static_cast<std::int64_t>(random() % 10) * gpus;
            candidates.push_back(candidate);
        }
        std::vector<RoomNode> room;
        for (const Node& node : s.view.nodes) {
            room.push_back({node.free_gpus, 0, 0, true, true});
        }
        JobShape shape;
        shape.gpus = static_cast<std::int64_t>(1 + random() % 8);
        const auto chosen = choose_victims(s.view, room, shape, candidates);

        std::optional<VictimCost> best;
        for (NodeIndex node = 0; node < 3; ++node) {
            std::vector<VictimCandidate> here;
            for (const VictimCandidate& c : candidates) {
                if (s.view.runs[c.run].where[0].node == node) {
                    here.push_back(c);
                }
            }
            for (std::uint32_t mask = 0; mask < (1U << here.size()); ++mask) {
                std::int64_t gpus = room[node].gpus;
                VictimCost cost;
                for (std::size_t i = 0; i < here.size(); ++i) {
                    if ((mask >> i & 1) != 0) {
                        gpus += s.view.runs[here[i].run].gpus;
                        cost += here[i].cost;
                    }
                }
                if (gpus >= shape.gpus && (!best || cost < *best)) {
                    best = cost;
                }
            }
        }
        ASSERT_EQ(chosen.has_value(), best.has_value()) << round;
        if (best) {
            ASSERT_FALSE(chosen->cost < *best || *best < chosen->cost) << round;
            VictimCost sum;
            for (const std::uint32_t run : chosen->runs) {
                sum += std::find_if(candidates.begin(), candidates.end(),
                                    [run](const VictimCandidate& c) { return c.run == run; })
                           ->cost;
            }
            ASSERT_FALSE(sum < *best || *best < sum);
        }
    }
}

TEST(VictimsProperty, where_cpus_and_memory_bind_the_set_is_the_cheapest_too) {
    std::mt19937_64 random(10);
    for (int round = 0; round < 200; ++round) {
        Situation s({make_budget("A", 1)});
        s.nodes(1);
        s.view.nodes[0].cpus = 64;
        s.view.nodes[0].memory_mib = 100;
        std::vector<VictimCandidate> candidates;
        std::int64_t cpus = 64, memory = 100;
        for (std::uint32_t r = 0; r < 7; ++r) {
            tranche::Run& run = s.runs("r", "A", 1, 0, 0, 0);
            run.where[0].cpus = static_cast<std::int64_t>(random() % 10);
            run.where[0].memory_mib = static_cast<std::int64_t>(random() % 15);
            cpus -= run.where[0].cpus;
            memory -= run.where[0].memory_mib;
            VictimCandidate candidate;
            candidate.run = r;
            candidate.cost.gpus = 1;
            candidate.cost.lost_gpu_seconds = static_cast<std::int64_t>(random() % 20);
            candidates.push_back(candidate);
        }
        const std::vector<RoomNode> room = {{1, cpus, memory, true, true}};
        JobShape shape;
        shape.gpus = static_cast<std::int64_t>(1 + random() % 4);
        shape.cpus_per_node = cpus + static_cast<std::int64_t>(random() % 20);
        shape.memory_mib_per_node = memory + static_cast<std::int64_t>(random() % 25);
        const auto chosen = choose_victims(s.view, room, shape, candidates);
        std::optional<VictimCost> best;
        for (std::uint32_t mask = 0; mask < 128; ++mask) {
            NodeShare sum{0, 1, cpus, memory};
            VictimCost cost;
            for (std::size_t i = 0; i < 7; ++i) {
                if ((mask >> i & 1) != 0) {
                    const NodeShare& share = s.view.runs[i].where[0];
                    sum.gpus += share.gpus;
                    sum.cpus += share.cpus;
                    sum.memory_mib += share.memory_mib;
                    cost += candidates[i].cost;
                }
            }
            if (sum.gpus >= shape.gpus && sum.cpus >= shape.cpus_per_node &&
                sum.memory_mib >= shape.memory_mib_per_node && (!best || cost < *best)) {
                best = cost;
            }
        }
        ASSERT_EQ(chosen.has_value(), best.has_value()) << round;
        if (best) {
            ASSERT_FALSE(chosen->cost < *best || *best < chosen->cost) << round;
        }
    }
}

}  // namespace
}  // namespace tranche
