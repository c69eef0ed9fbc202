// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/explain.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "common/policy/classes.hpp"
#include "common/policy/victims.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kFreeJobSeconds = 3600;  // what a free job counts when placed (ranking)
constexpr std::size_t kMostClaimants = 400;

std::int64_t clamped(UInt128 value) noexcept {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    return value > static_cast<UInt128>(kMost) ? kMost : static_cast<std::int64_t>(value);
}

RunKind kind_of(Band band, const PendingJob& job) noexcept {
    if (!job.governed) {
        return RunKind::outside;
    }
    return band == Band::unallocated ? RunKind::unallocated : RunKind::allocated;
}

// What a placed entry counts on its sides (DESIGN 2.4).
UInt128 placed_amount(const PendingJob& job, std::uint32_t tasks, RunKind kind,
                      const ExplainInput& input) noexcept {
    if (job.block != StartBlock::none) {
        return 0;
    }
    const std::int64_t seconds = kind != RunKind::allocated   ? kFreeJobSeconds
                                 : input.settings.commitments ? job.contract_seconds()
                                                              : 0;
    return input.standings.window.at_weight_one(seconds) * static_cast<UInt128>(job.weight_milli) *
           tasks;
}

// ours - share of theirs that the entitlements give, at least 0, in milli hours: by so much our
// side is above the other's ratio. `margin_ppm` lowers the other's.
std::int64_t above(const Standings& standings, UInt128 ours, UInt128 our_entitlement,
                   UInt128 theirs, UInt128 their_entitlement, std::int64_t margin_ppm) noexcept {
    const std::int64_t our_hours = faded_milli_hours(ours, standings.window);
    if (our_entitlement == 0 || their_entitlement == 0) {
        return our_hours;
    }
    // Entitlements relative to 2^32: the product with 63 bits of hours fits.
    int shift = 0;
    while ((our_entitlement >> shift) >= (UInt128{1} << 60) ||
           (their_entitlement >> shift) >= (UInt128{1} << 60)) {
        ++shift;
    }
    const UInt128 theirs_scaled =
        static_cast<UInt128>(faded_milli_hours(theirs, standings.window)) *
        (our_entitlement >> shift) / std::max<UInt128>(their_entitlement >> shift, 1);
    const std::int64_t level = clamped(theirs_scaled);
    const auto lowered =
        clamped(static_cast<UInt128>(level) * static_cast<UInt128>(kPpm - margin_ppm) / kPpm);
    return std::max<std::int64_t>(our_hours - lowered, 0);
}

void fill_sides(TakeOutlook& outlook, const TakeVerdict& verdict, const ExplainInput& input) {
    const Standings& standings = input.standings;
    if (verdict.sides.a == kNoId) {
        return;
    }
    outlook.level = level_name(standings, verdict.sides);
    outlook.claimant_side =
        side_numbers(standings, verdict.sides.a, verdict.claimant_charge, input.available_milli);
    outlook.victim_side =
        side_numbers(standings, verdict.sides.b, verdict.victim_charge, input.available_milli);
    if (verdict.reason == TakeReason::ratio_too_large) {
        outlook.over_milli_hours = above(
            standings, verdict.claimant_charge, verdict.claimant_entitlement, verdict.victim_charge,
            verdict.victim_entitlement, input.settings.preempt_margin_ppm);
    }
}

Claimant claimant_of(const ExplainInput& input, const RankedEntry& entry,
                     const std::vector<bool>& may_raise) {
    const PendingJob& job = input.view.pending[entry.job];
    const bool counts = input.standings.budgets[job.budget].pooled || may_raise[job.member];
    return {&job, effective_priority(job.team_priority, counts), entry.band == Band::express};
}

Victim victim_of(const ExplainInput& input, const Run& run, const std::vector<bool>& may_raise) {
    const bool counts = input.standings.budgets[run.budget].pooled || may_raise[run.member];
    return {&run, effective_priority(run.team_priority, counts)};
}

bool on_suitable_node(const ClusterView& view, const Run& run, const JobShape& shape) {
    return std::any_of(run.where.begin(), run.where.end(), [&](const NodeShare& share) {
        return view.nodes[share.node].usable &&
               node_suits(view, shape, share.node, shape.nodes - 1);
    });
}

std::int64_t from_when(const Run& run, std::int64_t now) noexcept {
    return std::max({now, run.kind == RunKind::allocated ? run.protected_until : 0,
                     run.others_protected_until});
}

// The ranking up to the job, replayed: what each side and member counted at each placement.
class Replay {
  public:
    explicit Replay(const ExplainInput& input) : input_(input) {}

    UInt128 side_charge(SideId side, RunKind kind) const {
        return input_.standings.sides[side].charge_of(kind) + found(sides_, side);
    }
    UInt128 member_charge(MemberId member, RunKind kind) const {
        return input_.standings.members[member].charge_of(kind) + found(members_, member);
    }
    void place(const RankedEntry& entry, RunKind kind) {
        const PendingJob& job = input_.view.pending[entry.job];
        const UInt128 amount = placed_amount(job, entry.tasks, kind, input_);
        if (amount == 0) {
            return;
        }
        for (const SideId side : input_.standings.budgets[job.budget].path) {
            sides_[side] += amount;
        }
        members_[job.member] += amount;
    }

  private:
    static UInt128 found(const std::unordered_map<std::uint32_t, UInt128>& map, std::uint32_t key) {
        const auto it = map.find(key);
        return it == map.end() ? 0 : it->second;
    }
    const ExplainInput& input_;
    std::unordered_map<std::uint32_t, UInt128> sides_, members_;
};

void explain_rank(const ExplainInput& input, std::size_t position, PendingExplanation& out) {
    const ClusterView& view = input.view;
    const Standings& standings = input.standings;
    const RankedEntry& entry = input.ranking[position];
    const PendingJob& job = view.pending[entry.job];
    const RunKind kind = kind_of(entry.band, job);
    const std::vector<bool> may_raise =
        members_that_may_raise(view, standings, input.settings, kind);

    Replay replay(input);
    std::unordered_map<SideId, std::size_t> by_side;
    std::vector<std::size_t> last_at;  // by index into losses
    for (std::size_t i = 0; i < position; ++i) {
        const RankedEntry& before = input.ranking[i];
        if (!before.counts) {
            continue;  // held and the like: listed, but in nobody's way
        }
        const PendingJob& other = view.pending[before.job];
        const RunKind other_kind = kind_of(before.band, other);
        if (before.band != entry.band || other_kind != kind) {
            ++out.before_in_better_bands;
            // Plans count in the standings already; express jobs count when they are placed.
            if (before.band == Band::express && kind == RunKind::allocated) {
                replay.place(before, other_kind);
            }
            continue;
        }
        if (other.budget == job.budget) {
            OwnLoss loss = out.own_loss.value_or(OwnLoss{});
            ++loss.jobs;
            loss.job = other.id;
            loss.user = standings.members[other.member].user;
            const Claimant ours = claimant_of(input, entry, may_raise);
            const Claimant theirs = claimant_of(input, before, may_raise);
            if (theirs.priority != ours.priority) {
                loss.why = OwnOrder::team_priority;
            } else if (!standings.budgets[job.budget].pooled && other.member != job.member) {
                loss.why = OwnOrder::user_charge;
                loss.our_user_milli_hours =
                    faded_milli_hours(replay.member_charge(job.member, kind), standings.window);
                loss.their_user_milli_hours =
                    faded_milli_hours(replay.member_charge(other.member, kind), standings.window);
            } else {
                loss.why = other.nice != job.nice ? OwnOrder::nice : OwnOrder::submission;
            }
            out.own_loss = loss;
        } else if (entry.band == Band::allocated || entry.band == Band::unallocated) {
            const PartingSides sides = parting_sides(standings, job.budget, other.budget);
            if (sides.a != kNoId) {
                const auto [it, is_new] = by_side.try_emplace(sides.b, out.losses.size());
                if (is_new) {
                    out.losses.emplace_back();
                    last_at.push_back(0);
                }
                RankLoss& loss = out.losses[it->second];
                last_at[it->second] = i;
                const UInt128 ours = replay.side_charge(sides.a, kind);
                const UInt128 theirs = replay.side_charge(sides.b, kind);
                loss.level = level_name(standings, sides);
                loss.depth = sides.level;
                loss.ours = side_numbers(standings, sides.a, ours, input.available_milli);
                loss.theirs = side_numbers(standings, sides.b, theirs, input.available_milli);
                loss.behind_milli_hours =
                    above(standings, ours, standings.sides[sides.a].entitlement, theirs,
                          standings.sides[sides.b].entitlement, 0);
                loss.job = other.id;
                loss.budget = standings.budgets[other.budget].name;
                loss.user = standings.members[other.member].user;
                ++loss.jobs;
            }
        }
        replay.place(before, other_kind);
    }
    std::vector<std::size_t> order(out.losses.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return last_at[a] > last_at[b]; });
    std::vector<RankLoss> sorted;
    for (const std::size_t i : order) {
        if (sorted.size() < input.most) {
            sorted.push_back(std::move(out.losses[i]));
        }
    }
    out.losses = std::move(sorted);
}

void explain_victims(const ExplainInput& input, const RankedEntry& entry, PendingExplanation& out) {
    const ClusterView& view = input.view;
    const std::vector<bool> may_raise =
        members_that_may_raise(view, input.standings, input.settings, RunKind::allocated);
    const Claimant claimant = claimant_of(input, entry, may_raise);
    for (const Run& run : view.runs) {
        if (!on_suitable_node(view, run, claimant.job->shape)) {
            continue;
        }
        const TakeVerdict verdict =
            may_take(claimant, victim_of(input, run, may_raise), input.standings, input.settings,
                     view.now, input.available_milli, true);
        TakeOutlook outlook;
        outlook.job = run.id;
        outlook.budget = input.standings.budgets[run.budget].name;
        outlook.user = input.standings.members[run.member].user;
        outlook.gpus = run.gpus;
        outlook.may = verdict.may;
        outlook.reason = verdict.reason;
        fill_sides(outlook, verdict, input);
        if (!verdict.may) {
            ++out.cannot_take_count;
            out.cannot_take.push_back(std::move(outlook));
            continue;
        }
        outlook.from_at = from_when(run, view.now);
        outlook.suspended = run.state == RunState::suspended;
        ++out.could_take_count;
        (outlook.from_at <= view.now ? out.could_take_gpus_now : out.could_take_gpus_later) +=
            run.gpus;
        if (outlook.from_at > view.now) {
            out.next_change_at = std::min(out.next_change_at, outlook.from_at);
        }
        out.could_take.push_back(std::move(outlook));
    }
    std::sort(out.could_take.begin(), out.could_take.end(),
              [](const TakeOutlook& a, const TakeOutlook& b) {
                  return std::tie(a.from_at, a.job) < std::tie(b.from_at, b.job);
              });
    std::sort(out.cannot_take.begin(), out.cannot_take.end(),
              [](const TakeOutlook& a, const TakeOutlook& b) {
                  // Rules stay, ratios change: those first.
                  const bool a_stays = a.reason != TakeReason::ratio_too_large;
                  const bool b_stays = b.reason != TakeReason::ratio_too_large;
                  return std::tie(a_stays, a.over_milli_hours, a.job) <
                         std::tie(b_stays, b.over_milli_hours, b.job);
              });
    out.could_take.resize(std::min(out.could_take.size(), input.most));
    out.cannot_take.resize(std::min(out.cannot_take.size(), input.most));
}

}  // namespace

std::string_view to_text(Band band) noexcept {
    switch (band) {
        case Band::plan:
            return "plan";
        case Band::express:
            return "express";
        case Band::allocated:
            return "allocated";
        case Band::unallocated:
            break;
    }
    return "unallocated";
}

std::string_view to_text(ExpressCap cap) noexcept {
    switch (cap) {
        case ExpressCap::user_gpus:
            return "user-gpus";
        case ExpressCap::lane_gpus:
            return "lane-gpus";
        case ExpressCap::user_hours:
            return "user-hours";
        case ExpressCap::none:
            break;
    }
    return "none";
}

std::string_view to_text(OwnOrder order) noexcept {
    switch (order) {
        case OwnOrder::team_priority:
            return "team-priority";
        case OwnOrder::user_charge:
            return "user-charge";
        case OwnOrder::nice:
            return "nice";
        case OwnOrder::submission:
            break;
    }
    return "submission";
}

std::optional<std::int64_t> SideNumbers::ratio_milli() const noexcept {
    if (entitled_milli_hours <= 0) {
        return std::nullopt;
    }
    return clamped(static_cast<UInt128>(charge_milli_hours) * 1000 /
                   static_cast<UInt128>(entitled_milli_hours));
}

std::int64_t faded_milli_hours(UInt128 charge, const Window& window) noexcept {
    // Milli-weighted GPU seconds / 3600 = thousandths of a GPU hour.
    return clamped(charge / static_cast<UInt128>(window.length_seconds) / 3600);
}

std::int64_t plain_milli_hours(Int128 milli_seconds) noexcept {
    return milli_seconds <= 0 ? 0 : clamped(static_cast<UInt128>(milli_seconds) / 3600);
}

std::string side_name(const Standings& standings, SideId side) {
    const std::string& name = standings.budgets[side / 2].name;
    return side % 2 == 1 ? name + " (own)" : name;
}

std::string level_name(const Standings& standings, const PartingSides& sides) {
    const BudgetId budget = sides.a / 2;
    // An own side competes below its own budget.
    return standings.budgets[sides.a % 2 == 1 ? budget : standings.budgets[budget].parent].name;
}

SideNumbers side_numbers(const Standings& standings, SideId side, UInt128 charge,
                         std::int64_t available_milli) {
    SideNumbers numbers;
    numbers.name = side_name(standings, side);
    numbers.charge_milli_hours = faded_milli_hours(charge, standings.window);
    const UInt128 entitled = static_cast<UInt128>(entitled_fraction(standings, side)) *
                             static_cast<UInt128>(std::max<std::int64_t>(available_milli, 0)) *
                             static_cast<UInt128>(standings.window.length_seconds) / 3600;
    numbers.entitled_milli_hours = clamped(entitled >> kFractionBits);
    return numbers;
}

std::optional<PendingExplanation> explain_pending(const ExplainInput& input,
                                                  std::uint32_t pending_index) {
    const auto at = std::find_if(
        input.ranking.begin(), input.ranking.end(),
        [pending_index](const RankedEntry& entry) { return entry.job == pending_index; });
    if (at == input.ranking.end() || pending_index >= input.view.pending.size()) {
        return std::nullopt;
    }
    const std::size_t position = static_cast<std::size_t>(at - input.ranking.begin());
    const PendingJob& job = input.view.pending[pending_index];
    PendingExplanation out;
    out.job = job.id;
    out.budget = input.standings.budgets[job.budget].name;
    out.user = input.standings.members[job.member].user;
    out.band = at->band;
    out.rank = static_cast<std::uint32_t>(position + 1);
    out.ranked = static_cast<std::uint32_t>(input.ranking.size());
    out.counts = at->counts;
    out.gpus = job.shape.gpus;
    out.waits_for = job.waits_for;
    const RunKind kind = kind_of(at->band, job);
    out.commitment_milli_hours =
        faded_milli_hours(placed_amount(job, 1, kind, input), input.standings.window);
    if (input.verdicts != nullptr && pending_index < input.verdicts->size()) {
        const JobVerdict& verdict = (*input.verdicts)[pending_index];
        out.reason = verdict.reason;
        out.express_cap = verdict.express_cap;
        out.next_change_at = verdict.next_change_at;
    }
    for (const Plan& plan : input.view.plans) {
        if (plan.claimant == job.id) {
            out.plan_victims = plan.victims;
        }
    }
    explain_rank(input, position, out);
    if (is_allocated(job, input.standings)) {
        explain_victims(input, *at, out);
    }
    if (out.next_change_at != kNever && out.next_change_at <= input.view.now) {
        out.next_change_at = kNever;
    }
    return out;
}

RunningExplainer::RunningExplainer(const ExplainInput& input)
    : input_(input),
      may_raise_(
          members_that_may_raise(input.view, input.standings, input.settings, RunKind::allocated)) {
    // Of each budget the first in the list, and the one that commits least: if not even that one
    // may take a run, none of the budget's may.
    struct Pair {
        std::size_t first = 0, smallest = 0;  // into the ranking
    };
    std::map<std::pair<BudgetId, bool>, Pair> by_budget;
    const auto commits = [&](std::size_t i) {
        const PendingJob& job = input_.view.pending[input_.ranking[i].job];
        return job.weight_milli * job.contract_seconds();
    };
    for (std::size_t i = 0; i < input_.ranking.size(); ++i) {
        const RankedEntry& entry = input_.ranking[i];
        const PendingJob& job = input_.view.pending[entry.job];
        if (!entry.counts || !is_allocated(job, input_.standings)) {
            continue;
        }
        const auto [it, is_new] =
            by_budget.try_emplace({job.budget, entry.band == Band::express}, Pair{i, i});
        if (!is_new && commits(i) < commits(it->second.smallest)) {
            it->second.smallest = i;
        }
    }
    std::set<std::size_t> chosen;  // by rank
    for (const auto& [key, pair] : by_budget) {
        chosen.insert({pair.first, pair.smallest});
    }
    for (const std::size_t i : chosen) {
        if (claimants_.size() < kMostClaimants) {
            claimants_.push_back(&input_.ranking[i]);
        }
    }
}

RunningExplanation RunningExplainer::explain(std::uint32_t run_index) const {
    const ClusterView& view = input_.view;
    const Run& run = view.runs[run_index];
    RunningExplanation out;
    out.job = run.id;
    out.budget = input_.standings.budgets[run.budget].name;
    out.user = input_.standings.members[run.member].user;
    out.allocated = run.kind == RunKind::allocated;
    out.state = run.state;
    out.resumable = run.resumable;
    out.gpus = run.gpus;
    out.started_at = run.started_at;
    out.protected_until = out.allocated ? run.protected_until : 0;
    out.contract_left_seconds = run.commitment_seconds(view.now);
    out.checkpointed_at = run.checkpointed_at;
    out.leaving_for = run.leaving_for;
    out.spared = run.spared;
    const Victim victim = victim_of(input_, run, may_raise_);
    for (const RankedEntry* entry : claimants_) {
        const Claimant claimant = claimant_of(input_, *entry, may_raise_);
        if (!on_suitable_node(view, run, claimant.job->shape)) {
            continue;
        }
        const TakeVerdict verdict = may_take(claimant, victim, input_.standings, input_.settings,
                                             view.now, input_.available_milli, true);
        if (!verdict.may) {
            continue;
        }
        ++out.takers_count;
        const std::int64_t from = from_when(run, view.now);
        out.takeable_from_at = std::min(out.takeable_from_at, from);
        if (out.takers.size() >= input_.most) {
            continue;
        }
        TakeOutlook outlook;
        outlook.job = claimant.job->id;
        outlook.budget = input_.standings.budgets[claimant.job->budget].name;
        outlook.user = input_.standings.members[claimant.job->member].user;
        outlook.gpus = claimant.job->shape.gpus;
        outlook.may = true;
        outlook.from_at = from;
        outlook.suspended = run.state == RunState::suspended;
        outlook.reason = verdict.reason;
        fill_sides(outlook, verdict, input_);
        out.takers.push_back(std::move(outlook));
    }
    return out;
}

}  // namespace tranche
