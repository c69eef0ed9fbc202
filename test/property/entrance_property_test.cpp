// SPDX-License-Identifier: GPL-2.0-or-later
// The list of what jobs may not enter says the same as the pass that it was made from, on random
// clusters. Fixed seeds.
#include <algorithm>
#include <map>

#include "common/policy/classes.hpp"
#include "common/policy/entrance.hpp"
#include "common/policy/pass_sums.hpp"
#include "common/policy/victims.hpp"
#include "support/random_situation.hpp"

namespace tranche {
namespace {

Settings settings_of(std::uint64_t seed) {
    Settings settings = scenario_settings();
    settings.reservations = static_cast<std::int64_t>(seed % 3);
    settings.max_assemblies = static_cast<std::int64_t>(seed % 2);
    settings.express_fraction_ppm = seed % 5 == 0 ? kPpm / 3 : 0;
    settings.max_protected_fraction_ppm = seed % 4 == 0 ? 700'000 : kPpm;
    return settings;
}

struct Listed {
    explicit Listed(Situation& situation) : s(situation) {
        s.pass({.one_plan_per_node = true});
        std::vector<std::uint32_t> planned;
        for (const PlanDecision& plan : s.result.plans) {
            if (s.view.pending[plan.job].tasks == 1) {
                planned.push_back(plan.job);  // a task of an array gets a record of its own first
            }
        }
        list = entrance_of(s.view, s.ranking, s.standings, s.settings, s.result, planned);
        for (const EntranceRule& rule : list.rules) {
            rules[rule.job] = rule;
        }
    }
    bool may_enter(std::uint32_t job, NodeIndex node) const {
        const auto rule = rules.find(job);
        if (rule == rules.end()) {
            return true;
        }
        if (rule->second.not_before_at > s.view.now) {
            return false;
        }
        if (rule->second.closed == kNoId) {
            return true;
        }
        const auto& closed = list.node_sets[rule->second.closed];
        return std::find(closed.begin(), closed.end(), node) == closed.end();
    }

    Situation& s;
    EntranceList list;
    std::map<std::uint32_t, EntranceRule> rules;
};

TEST(EntranceProperty, whom_the_pass_kept_off_nodes_finds_no_room_that_it_may_enter) {
    std::size_t refused = 0;
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
        RandomSituation random(seed, {.nodes = 8, .runs = 12, .jobs = 30}, settings_of(seed));
        Situation& s = random.situation;
        const Listed listed(s);
        if (std::any_of(s.result.verdicts.begin(), s.result.verdicts.end(),
                        [](const JobVerdict& verdict) {
                            return verdict.reason == WaitReason::room_coming;
                        })) {
            continue;  // room that the pass has promised is not in its result
        }
        std::vector<RoomNode> room = sums_of(s.view, s.settings, true).room;
        for (const StartDecision& start : s.result.starts) {
            for (const NodeShare& share : start.where) {
                room[share.node].gpus -= share.gpus;
            }
        }
        for (const PlanDecision& plan : s.result.plans) {
            for (const NodeShare& share : plan.plan.where) {
                room[share.node].open = false;
            }
        }
        for (std::uint32_t job = 0; job < s.view.pending.size(); ++job) {
            const auto rule = listed.rules.find(job);
            if (s.result.verdicts[job].reason != WaitReason::kept_nodes ||
                (rule != listed.rules.end() && rule->second.as_free)) {
                continue;  // free, because of the headroom, it may enter
            }
            ++refused;
            std::vector<RoomNode> open = room;
            for (NodeIndex n = 0; n < open.size(); ++n) {
                open[n].open = open[n].open && listed.may_enter(job, n);
            }
            ASSERT_FALSE(place_on_free(s.view, open, s.view.pending[job].shape))
                << "seed " << seed << " " << s.view.pending[job].name;
        }
    }
    EXPECT_GT(refused, 100U);
}

TEST(EntranceProperty, whose_contract_is_over_by_then_is_kept_off_nothing) {
    std::size_t kept_off = 0, let_in = 0;
    for (std::uint64_t seed = 1; seed <= 600; ++seed) {
        RandomSituation random(seed, {.nodes = 8, .runs = 12, .jobs = 30}, settings_of(seed));
        Situation& s = random.situation;
        const Listed listed(s);
        for (std::uint32_t p = 0; p < s.ranking.size(); ++p) {
            const RankedEntry& entry = s.ranking[p];
            const PendingJob& job = s.view.pending[entry.job];
            const bool planned = std::any_of(
                s.result.plans.begin(), s.result.plans.end(),
                [&](const PlanDecision& plan) { return plan.job == entry.job && job.tasks == 1; });
            if (planned || entry.first_task > 0 || !is_allocated(job, s.standings)) {
                continue;
            }
            const auto rule = listed.rules.find(entry.job);
            for (const NodeKeeping& keeping : s.result.keepings) {
                const bool applies =
                    keeping.claimant != job.id && (!keeping.behind || p > *keeping.behind);
                const bool stays =
                    keeping.closed || s.view.now + job.contract_seconds() > keeping.until_at;
                const bool as_free = rule != listed.rules.end() && rule->second.as_free;
                for (const NodeIndex n : keeping.nodes) {
                    if (applies && stays && !as_free &&
                        node_suits(s.view, job.shape, n, job.shape.nodes - 1)) {
                        ++kept_off;
                        ASSERT_FALSE(listed.may_enter(entry.job, n)) << "seed " << seed;
                    }
                }
            }
            const bool may_all = std::all_of(
                s.result.keepings.begin(), s.result.keepings.end(), [&](const NodeKeeping& k) {
                    return k.claimant == job.id || (k.behind && p <= *k.behind) ||
                           (!k.closed && s.view.now + job.contract_seconds() + 10 <= k.until_at);
                });
            if (may_all && entry.tasks == job.tasks) {
                ++let_in;
                ASSERT_TRUE(rule == listed.rules.end() || rule->second.closed == kNoId)
                    << "seed " << seed;
            }
        }
    }
    EXPECT_GT(kept_off, 1000U);
    EXPECT_GT(let_in, 1000U);
}

TEST(EntranceProperty, who_is_left_free_to_start_fits_into_the_headroom_all_together) {
    std::size_t held = 0;
    for (std::uint64_t seed = 4; seed <= 1200; seed += 4) {
        RandomSituation random(seed, {.nodes = 8, .runs = 6, .jobs = 30}, settings_of(seed));
        Situation& s = random.situation;
        const Listed listed(s);
        const std::int64_t allowed = protected_gpus_allowed(s.view, s.settings);
        std::int64_t sum = sums_of(s.view, s.settings, true).protected_gpus;
        std::map<std::uint32_t, bool> seen;
        for (const PlanDecision& plan : s.result.plans) {
            sum += plan.plan.express || plan.plan.gpus > allowed ? 0 : plan.plan.gpus;
        }
        for (const RankedEntry& entry : s.ranking) {
            const PendingJob& job = s.view.pending[entry.job];
            const bool planned = std::any_of(
                s.result.plans.begin(), s.result.plans.end(),
                [&](const PlanDecision& plan) { return plan.job == entry.job && job.tasks == 1; });
            if (entry.band != Band::allocated || planned || job.shape.gpus > allowed ||
                seen[entry.job]) {
                continue;
            }
            seen[entry.job] = true;
            const bool large = std::any_of(
                s.result.assemblies.begin(), s.result.assemblies.end(),
                [&](const AssemblyDecision& a) { return a.assembly.claimant == job.id; });
            const auto rule = listed.rules.find(entry.job);
            const bool stays = rule == listed.rules.end() ||
                               (!rule->second.as_free && rule->second.not_before_at == 0);
            held += stays ? 0 : 1;
            sum += large ? job.shape.gpus
                         : job.shape.gpus * (stays ? job.tasks : rule->second.tasks_now);
        }
        // What is under contract already may be more than is allowed now.
        if (sums_of(s.view, s.settings, true).protected_gpus <= allowed) {
            ASSERT_LE(sum, allowed + (s.result.assemblies.empty() ? 0 : 1000)) << "seed " << seed;
        }
    }
    EXPECT_GT(held, 500U);
}

}  // namespace
}  // namespace tranche
