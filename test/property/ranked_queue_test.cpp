// SPDX-License-Identifier: GPL-2.0-or-later
// The queue that is taken job by job against the list that is made at once.
#include "common/policy/ranked_queue.hpp"

#include <gtest/gtest.h>

#include "support/random_situation.hpp"

namespace tranche {
namespace {

Settings settings_of(std::uint64_t seed) {
    Settings settings = scenario_settings();
    settings.commitments = seed % 5 != 0;
    settings.raised_share_ppm = seed % 3 == 0 ? 0 : 1'500'000;
    settings.express_fraction_ppm = seed % 2 == 0 ? 0 : 300'000;
    return settings;
}

// Jobs of one task each that could start if there were room, and no plans.
void simplify(ClusterView& view) {
    for (PendingJob& job : view.pending) {
        job.tasks = 1;
        job.governed = true;
        job.block = StartBlock::none;
    }
    view.plans.clear();
}

std::vector<std::uint32_t> taken(RankedQueue& queue, const WantedJobs* wanted,
                                 std::vector<Band>* bands = nullptr) {
    std::vector<std::uint32_t> jobs;
    RankedEntry entry;
    queue.show_only(wanted);
    while (queue.next(entry)) {
        jobs.push_back(entry.job);
        if (bands != nullptr) {
            bands->push_back(entry.band);
        }
    }
    return jobs;
}

class RankedQueueProperty : public testing::TestWithParam<int> {};

TEST_P(RankedQueueProperty, gives_the_same_order_as_the_whole_list) {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
        RandomOptions options;
        options.levels = GetParam();
        options.near_ties = seed % 4 == 0;
        options.jobs = seed % 10 == 0 ? 600 : 60;
        RandomSituation random(seed, options, settings_of(seed));
        Situation& s = random.situation;
        simplify(s.view);
        s.stand();
        std::vector<std::uint32_t> express;
        for (std::uint32_t r = 0; r < s.view.runs.size(); ++r) {
            if (s.view.runs[r].express) {
                express.push_back(r);
            }
        }
        RankedQueue queue(s.view, s.settings, express);
        for (std::uint32_t i = 0; i < s.view.pending.size(); ++i) {
            queue.insert(i, is_allocated(s.view.pending[i], s.standings),
                         static_cast<std::uint8_t>(random.below(64)), 0, s.standings);
            queue.count_pending(s.view.pending[i].member, 1);
        }
        std::vector<std::uint32_t> whole;
        for (const RankedEntry& entry : rank_queue(s.view, s.standings, s.settings)) {
            whole.push_back(entry.job);
        }
        queue.begin(s.standings);
        ASSERT_EQ(taken(queue, nullptr), whole) << "seed " << seed;
        // Some jobs leave, and come back.
        for (std::uint32_t i = 0; i < s.view.pending.size(); i += 3) {
            queue.erase(i);
        }
        for (std::uint32_t i = 0; i < s.view.pending.size(); i += 3) {
            queue.insert(i, is_allocated(s.view.pending[i], s.standings), 7, 0, s.standings);
        }
        queue.begin(s.standings);
        ASSERT_EQ(taken(queue, nullptr), whole) << "seed " << seed;
    }
}

TEST_P(RankedQueueProperty, passing_over_what_is_not_wanted_leaves_the_order_of_the_rest) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        RandomOptions options;
        options.levels = GetParam();
        options.near_ties = seed % 4 == 0;
        options.jobs = seed % 10 == 0 ? 900 : 60;
        options.budgets = seed % 3 == 0 ? 2 : 8;
        RandomSituation random(seed, options, settings_of(seed));
        Situation& s = random.situation;
        simplify(s.view);
        s.stand();
        const std::vector<std::uint32_t> none;
        RankedQueue queue(s.view, s.settings, none);
        std::vector<std::uint8_t> colours;
        for (std::uint32_t i = 0; i < s.view.pending.size(); ++i) {
            colours.push_back(static_cast<std::uint8_t>(random.below(seed % 2 == 0 ? 4 : 64)));
            queue.insert(i, is_allocated(s.view.pending[i], s.standings), colours[i], 0,
                         s.standings);
            queue.count_pending(s.view.pending[i].member, 1);
        }
        queue.begin(s.standings);
        std::vector<Band> bands;
        const std::vector<std::uint32_t> whole = taken(queue, nullptr, &bands);
        WantedJobs wanted;
        wanted.everything = false;
        wanted.version = 1;
        wanted.unallocated = random.random() & random.random();
        for (std::size_t b = 0; b < s.standings.budgets.size(); ++b) {
            wanted.allocated.push_back(random.below(4) == 0 ? 0
                                                            : random.random() & random.random());
        }
        const auto is_wanted = [&](std::size_t place) {
            const PendingJob& job = s.view.pending[whole[place]];
            const std::uint64_t of = bands[place] == Band::unallocated
                                         ? wanted.unallocated
                                         : wanted.allocated[job.budget];
            return bands[place] == Band::express || (of >> colours[whole[place]] & 1) != 0;
        };
        std::vector<std::uint32_t> expected;
        for (std::size_t i = 0; i < whole.size(); ++i) {
            if (is_wanted(i)) {
                expected.push_back(whole[i]);
            }
        }
        queue.begin(s.standings);
        std::vector<std::uint32_t> found;
        const auto keep_wanted = [&](const std::vector<std::uint32_t>& given) {
            for (const std::uint32_t job : given) {
                const auto place = static_cast<std::size_t>(
                    std::find(whole.begin(), whole.end(), job) - whole.begin());
                if (is_wanted(place)) {
                    found.push_back(job);
                }
            }
        };
        keep_wanted(taken(queue, &wanted));
        ASSERT_EQ(found, expected) << "seed " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Levels, RankedQueueProperty, testing::Values(1, 2, 3));

}  // namespace
}  // namespace tranche
