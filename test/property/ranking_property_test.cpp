// SPDX-License-Identifier: GPL-2.0-or-later
// The ranking against one written straight from DESIGN 2.4, in quadratic time. Fixed seeds.
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "support/random_situation.hpp"

namespace tranche {
namespace {

struct Placed {
    JobId id;
    std::uint32_t first_task, tasks;
    Band band;
    bool counts;

    bool operator==(const Placed&) const = default;
};

std::string text_of(const std::vector<Placed>& list) {
    std::string text;
    for (const Placed& p : list) {
        text += std::to_string(p.id) + (p.tasks > 1 ? "*" + std::to_string(p.tasks) : "") + "/" +
                std::to_string(static_cast<int>(p.band)) + " ";
    }
    return text;
}

std::vector<Placed> placed_of(const ClusterView& view, const std::vector<RankedEntry>& ranking) {
    std::vector<Placed> out;
    for (const RankedEntry& entry : ranking) {
        out.push_back(
            {view.pending[entry.job].id, entry.first_task, entry.tasks, entry.band, entry.counts});
    }
    return out;
}

class NaiveRanker {
  public:
    NaiveRanker(const ClusterView& view, const Standings& standings, const Settings& settings)
        : view_(view),
          standings_(standings),
          settings_(settings),
          placed_(view.pending.size(), 0) {}

    std::vector<Placed> rank() {
        for (const Plan& plan : view_.plans) {
            for (std::size_t i = 0; i < view_.pending.size(); ++i) {
                if (view_.pending[i].id == plan.claimant) {
                    put(i, view_.pending[i].tasks, Band::plan, true);
                }
            }
        }
        express();
        for (const RunKind kind : {RunKind::allocated, RunKind::unallocated, RunKind::outside}) {
            rank_kind(kind);
        }
        return out_;
    }

  private:
    RunKind kind_of(const PendingJob& job) const {
        return !job.governed                   ? RunKind::outside
               : is_allocated(job, standings_) ? RunKind::allocated
                                               : RunKind::unallocated;
    }

    void put(std::size_t job, std::uint32_t tasks, Band band, bool counts) {
        const JobId id = view_.pending[job].id;
        if (!out_.empty() && out_.back().id == id && out_.back().band == band) {
            out_.back().tasks += tasks;
        } else {
            out_.push_back({id, placed_[job], tasks, band, counts});
        }
        placed_[job] += tasks;
    }

    void express() {
        ExpressLane lane(view_, standings_, settings_);
        std::vector<std::size_t> order(view_.pending.size());
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            const PendingJob &x = view_.pending[a], &y = view_.pending[b];
            return std::pair(x.first_submit_at, x.order_key()) <
                   std::pair(y.first_submit_at, y.order_key());
        });
        for (const std::size_t i : order) {
            const PendingJob& job = view_.pending[i];
            while (placed_[i] < job.tasks && kind_of(job) == RunKind::allocated &&
                   job.block == StartBlock::none && fits_lane(job, settings_) &&
                   lane.check(user_of(job), job.shape.gpus) == ExpressCap::none) {
                lane.add_ranked(user_of(job), job.shape.gpus);
                put(i, 1, Band::express, true);
                if (settings_.commitments) {
                    standings_.commit(job.budget, job.member, job.weight_milli,
                                      job.contract_seconds());
                }
            }
        }
    }

    const std::string& user_of(const PendingJob& job) const {
        return standings_.members[job.member].user;
    }

    // The job that this set of jobs, all of sides below `level`, would place next.
    std::size_t next_of(const std::vector<std::size_t>& jobs, std::size_t level, RunKind kind) {
        // By side on this level.
        std::map<SideId, std::vector<std::size_t>> sides;
        for (const std::size_t job : jobs) {
            const auto& path = standings_.budgets[view_.pending[job].budget].path;
            if (path.size() == level) {
                return next_in_budget(jobs, kind);  // all of one budget
            }
            sides[path[level]].push_back(job);
        }
        SideId best = kNoId;
        std::size_t best_job = 0;
        for (const auto& [side, list] : sides) {
            const std::size_t job = next_of(list, level + 1, kind);
            if (best == kNoId || goes_first(side, job, best, best_job, kind)) {
                best = side;
                best_job = job;
            }
        }
        return best_job;
    }

    bool goes_first(SideId a, std::size_t job_a, SideId b, std::size_t job_b, RunKind kind) const {
        const SideStanding &x = standings_.sides[a], &y = standings_.sides[b];
        const auto entitlement = [&](const SideStanding& s) {
            return kind == RunKind::allocated || s.shares > 0 ? s.entitlement : UInt128{0};
        };
        const auto charge = [&](SideId side) {
            const auto it = added_.find(side);
            return standings_.sides[side].charge_of(kind) + (it == added_.end() ? 0 : it->second);
        };
        const auto order = compare_ratio(charge(a), entitlement(x), charge(b), entitlement(y));
        if (order != 0) {
            return order < 0;
        }
        if (x.shares != y.shares) {
            return x.shares > y.shares;
        }
        const PendingJob &p = view_.pending[job_a], &q = view_.pending[job_b];
        if (p.first_submit_at != q.first_submit_at) {
            return p.first_submit_at < q.first_submit_at;
        }
        return std::tie(standings_.budgets[a / 2].name, a) <
               std::tie(standings_.budgets[b / 2].name, b);
    }

    std::size_t next_in_budget(const std::vector<std::size_t>& jobs, RunKind kind) const {
        const auto key = [&](std::size_t i) {
            const PendingJob& job = view_.pending[i];
            const bool pooled = standings_.budgets[job.budget].pooled;
            const TeamPriority priority =
                effective_priority(job.team_priority, pooled || may_raise_[job.member]);
            const auto it = member_added_.find(job.member);
            const UInt128 charge = pooled ? 0
                                          : standings_.members[job.member].charge_of(kind) +
                                                (it == member_added_.end() ? 0 : it->second);
            return std::tuple(-static_cast<int>(priority), charge, pooled ? 0 : job.member,
                              job.nice, job.first_submit_at, job.order_key());
        };
        // Users of equal charge: who has the older first job (his own order puts it first).
        std::map<MemberId, std::size_t> first_of;
        for (const std::size_t i : jobs) {
            const auto k = key(i);
            const MemberId member = std::get<2>(k);
            const auto it = first_of.find(member);
            if (it == first_of.end() || k < key(it->second)) {
                first_of[member] = i;
            }
        }
        std::size_t best = first_of.begin()->second;
        for (const auto& [member, i] : first_of) {
            const auto k = key(i), b = key(best);
            if (std::tuple(std::get<0>(k), std::get<1>(k), std::get<4>(k), std::get<5>(k)) <
                std::tuple(std::get<0>(b), std::get<1>(b), std::get<4>(b), std::get<5>(b))) {
                best = i;
            }
        }
        return best;
    }

    void rank_kind(RunKind kind) {
        added_.clear();
        member_added_.clear();
        may_raise_ = members_that_may_raise(view_, standings_, settings_, kind);
        std::vector<std::size_t> jobs;
        for (std::size_t i = 0; i < view_.pending.size(); ++i) {
            if (kind_of(view_.pending[i]) == kind && placed_[i] < view_.pending[i].tasks) {
                jobs.push_back(i);
            }
        }
        while (!jobs.empty()) {
            const std::size_t i = next_of(jobs, 0, kind);
            const PendingJob& job = view_.pending[i];
            // One task more than the whole cluster could hold one by one; the rest is a block.
            const std::int64_t could_start =
                view_.available_gpus() / std::max<std::int64_t>(job.shape.gpus, 1) + 1;
            const std::uint32_t tasks =
                static_cast<std::int64_t>(placed_[i]) >= could_start ? job.tasks - placed_[i] : 1;
            const bool counts = job.block == StartBlock::none;
            put(i, tasks, kind == RunKind::allocated ? Band::allocated : Band::unallocated, counts);
            if (counts) {
                const std::int64_t seconds = kind != RunKind::allocated ? 3600
                                             : settings_.commitments    ? job.contract_seconds()
                                                                        : 0;
                const UInt128 amount = standings_.window.at_weight_one(seconds) *
                                       static_cast<UInt128>(job.weight_milli) * tasks;
                for (const SideId side : standings_.budgets[job.budget].path) {
                    added_[side] += amount;
                }
                member_added_[job.member] += amount;
            }
            if (placed_[i] == job.tasks) {
                jobs.erase(std::find(jobs.begin(), jobs.end(), i));
            }
        }
    }

    const ClusterView& view_;
    Standings standings_;
    const Settings& settings_;
    std::vector<std::uint32_t> placed_;
    std::vector<Placed> out_;
    std::map<SideId, UInt128> added_;
    std::map<MemberId, UInt128> member_added_;
    std::vector<bool> may_raise_;
};

Settings settings_of(std::uint64_t seed) {
    Settings settings = scenario_settings();
    settings.express_fraction_ppm = seed % 2 == 0 ? kPpm / 5 : 0;
    settings.express_gpus = 4;
    settings.express_gpus_per_user = 5;
    settings.raised_share_ppm = seed % 3 == 0 ? 1'500'000 : 0;
    settings.commitments = seed % 5 != 0;
    settings.sharing = seed % 7 == 0 ? Sharing::pooled : Sharing::users;
    settings.window_shape = seed % 4 == 0 ? WindowShape::flat : WindowShape::linear;
    return settings;
}

TEST(RankingProperty, equals_the_design_written_down_naively) {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        RandomOptions options;
        options.near_ties = seed % 3 == 0;
        options.levels = 1 + static_cast<int>(seed % 4);
        RandomSituation random(seed, options, settings_of(seed));
        Situation& s = random.situation;
        const PendingJob& planned = s.view.pending[seed % s.view.pending.size()];
        if (seed % 4 == 1 && planned.tasks == 1 && planned.block == StartBlock::none) {
            Plan plan;
            plan.claimant = planned.id;
            plan.budget = planned.budget;
            plan.member = planned.member;
            plan.weight_milli = planned.weight_milli;
            plan.commitment_seconds = planned.contract_seconds();
            s.view.plans.push_back(plan);
        }
        s.stand();
        const auto fast = placed_of(s.view, rank_queue(s.view, s.standings, s.settings));
        const auto slow = NaiveRanker(s.view, s.standings, s.settings).rank();
        ASSERT_TRUE(fast == slow) << "seed " << seed << "\n"
                                  << text_of(fast) << "\n"
                                  << text_of(slow);
    }
}

TEST(RankingProperty, the_order_of_the_input_does_not_matter) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        RandomSituation random(seed, {}, settings_of(seed));
        Situation& s = random.situation;
        s.stand();
        const auto first = placed_of(s.view, rank_queue(s.view, s.standings, s.settings));
        for (int i = 0; i < 3; ++i) {
            std::shuffle(s.view.pending.begin(), s.view.pending.end(), random.random);
            std::shuffle(s.view.runs.begin(), s.view.runs.end(), random.random);
            const auto again = placed_of(s.view, rank_queue(s.view, s.standings, s.settings));
            ASSERT_TRUE(first == again) << "seed " << seed;
        }
    }
}

TEST(RankingProperty, every_task_stands_exactly_once_and_bands_descend) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        RandomSituation random(seed, {}, settings_of(seed));
        Situation& s = random.situation;
        s.order();
        std::vector<std::uint32_t> tasks(s.view.pending.size(), 0);
        Band band = Band::plan;
        for (const RankedEntry& entry : s.ranking) {
            ASSERT_EQ(entry.first_task, tasks[entry.job]) << seed;
            tasks[entry.job] += entry.tasks;
            ASSERT_GE(entry.band, band);
            band = entry.band;
        }
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            ASSERT_EQ(tasks[i], s.view.pending[i].tasks);
        }
    }
}

TEST(RankingProperty, ratios_that_differ_in_the_tenth_digit_are_ordered_exactly) {
    // A key of 64 bits alone could not tell: charges differ by parts of 4 * 10^9.
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        std::mt19937_64 random(seed);
        std::vector<Budget> budgets;
        for (int i = 0; i < 100; ++i) {
            budgets.push_back(make_budget("b" + std::to_string(i),
                                          static_cast<std::uint32_t>(1 + random() % 50)));
        }
        Situation s(budgets);
        s.nodes(1);
        for (int i = 0; i < 100; ++i) {
            const std::int64_t shares = budgets[static_cast<std::size_t>(i)].shares;
            s.used("b" + std::to_string(i),
                   shares * 4'000'000'000 + static_cast<std::int64_t>(random() % 100), -250'000, 0);
            s.waits("j" + std::to_string(i), "b" + std::to_string(i), 1, 60);
        }
        s.stand();
        const auto fast = placed_of(s.view, rank_queue(s.view, s.standings, s.settings));
        const auto slow = NaiveRanker(s.view, s.standings, s.settings).rank();
        ASSERT_TRUE(fast == slow) << "seed " << seed;
    }
}

TEST(SpacedPrioritiesProperty, a_living_queue_keeps_its_order_and_changes_few) {
    std::mt19937_64 random(5);
    struct Entry {
        Band band;
        std::uint32_t priority;
    };
    std::vector<Entry> queue;
    std::size_t cycles_with_more = 0;
    for (int cycle = 0; cycle < 400; ++cycle) {
        std::size_t touched = 0;
        for (std::uint64_t i = random() % 5; i > 0; --i) {
            const Band band = static_cast<Band>(random() % 4);
            const std::size_t place = queue.empty() ? 0 : random() % (queue.size() + 1);
            queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(place), {band, 0});
            ++touched;
        }
        if (!queue.empty() && random() % 2 == 0) {  // one moves
            const std::size_t from = random() % queue.size();
            const Entry moved = queue[from];
            queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(from));
            queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(random() % (queue.size() + 1)),
                         moved);
            ++touched;
        }
        if (queue.size() > 200) {
            queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(random() % queue.size()));
        }
        std::stable_sort(queue.begin(), queue.end(),
                         [](const Entry& a, const Entry& b) { return a.band < b.band; });
        std::vector<Band> bands;
        std::vector<std::uint32_t> previous;
        for (const Entry& entry : queue) {
            bands.push_back(entry.band);
            previous.push_back(entry.priority);
        }
        const auto out = spaced_priorities(bands, previous);
        std::size_t changed = 0;
        for (std::size_t i = 0; i < out.size(); ++i) {
            changed += out[i] != previous[i] ? 1 : 0;
            ASSERT_GT(out[i], band_floor(bands[i]));
            if (i > 0) {
                ASSERT_GT(out[i - 1], out[i]);
            }
            queue[i].priority = out[i];
        }
        cycles_with_more += changed > touched ? 1 : 0;
    }
    EXPECT_LE(cycles_with_more, 20U);
}

}  // namespace
}  // namespace tranche
