// SPDX-License-Identifier: GPL-2.0-or-later
// Which classes of jobs could do anything at this point of a pass: where none could, the rest of
// the queue need not be looked at.
#pragma once

#include "common/policy/pass_drains.hpp"
#include "common/policy/ratio_key.hpp"

namespace tranche::passing {

class PassHead : public PassDrains {
  public:
    PassHead(const ClusterView& view, const PassSums& sums, const JobClasses* classes,
             RankSource& ranking, RaiseRights& rights, Standings& standings,
             const Settings& settings, const PassRules& rules)
        : PassDrains(view, sums, classes, ranking, rights, standings, settings, rules) {
        if (classes_ != nullptr) {
            visited_.assign(classes_->all.size(), 0);
            live_.assign(classes_->all.size(), false);
            wanted_.too_long.assign(classes_->all.size(), kNever);
        }
    }

  protected:
    bool nothing_left() {
        if (classes_ == nullptr) {
            return false;
        }
        if (classes_dirty_ || looked_for_first_ != must_see_first()) {
            look_for_live_classes();
        }
        return live_jobs_ == 0 && !must_see_first();
    }

    // A gang's turn has come when nobody waits before it.
    bool must_see_first() const {
        return gangs_wait_ && (!somebody_waits_ || !settings_.has(Rule::assembly_turn));
    }

    void look_for_live_classes() {
        classes_dirty_ = false;
        live_jobs_ = 0;
        gangs_wait_ = rules_.large_jobs && classes_->gangs > 0 && settings_.max_assemblies > 0;
        most_ = most_future_ = room_sum_ = 0;
        for (NodeIndex n = 0; n < room_.size(); ++n) {
            if (room_[n].open && room_[n].gpus > 0) {
                most_ = std::max(most_, room_[n].gpus);
                room_sum_ += room_[n].gpus;
            }
            if (future_[n].open || future_[n].plannable) {
                most_future_ = std::max(most_future_, future_[n].gpus);
            }
        }
        looked_for_first_ = must_see_first();
        ++wanted_.version;
        futures_with_.clear();
        wanted_.everything = looked_for_first_ || all_shown_;
        wanted_.unallocated = 0;
        wanted_.allocated.assign(standings_.budgets.size(), 0);
        appetites_.resize(standings_.budgets.size());
        std::fill(live_.begin(), live_.end(), false);
        look_at(classes_->free, wanted_.unallocated);
        for (const BudgetId budget : classes_->budgets) {
            const ClassGroup& group = classes_->allocated[budget];
            if (group.least_member <= most_ || group.least_member <= most_future_ ||
                group.special > 0 || all_live_ ||
                (!sums_.takeable.empty() && !group.amounts.empty() &&
                 (lane_is_open() || appetite_of(budget) != 0))) {
                look_at(group, wanted_.allocated[budget]);
            }
        }
        if (live_jobs_ > 0 && !wanted_.everything) {
            want_large();
        }
    }

    // Marks the classes that are live; wanted too are those that turn allocated if somebody behind
    // them would take their GPUs.
    void look_at(const ClassGroup& group, std::uint64_t& wanted) {
        for (const std::uint32_t c : group.filled) {
            const JobClass& jobs = classes_->all[c];
            const auto left = static_cast<std::int64_t>(jobs.count()) - visited_[c];
            live_[c] = left > 0 && *jobs.contracts.begin() < wanted_.too_long[c] && is_live(jobs);
            if (live_[c]) {
                live_jobs_ += left;
            }
            if (live_[c] || (jobs.runs && jobs.free_first)) {
                wanted |= std::uint64_t{1} << jobs.colour;
            }
        }
    }

    // Jobs that will be given a reservation when they cannot start.
    void want_large() {
        if (!rules_.large_jobs || reserved_ >= settings_.reservations) {
            return;
        }
        for (const BudgetId budget : classes_->budgets) {
            for (const std::uint32_t c : classes_->allocated[budget].filled) {
                const JobClass& jobs = classes_->all[c];
                if (jobs.whole_node && !jobs.waits && !jobs.runs) {
                    wanted_.allocated[budget] |= std::uint64_t{1} << jobs.colour;
                }
            }
        }
    }

    // The latest end of a contract for which there is room of that shape now; -1: none at all. Of
    // gangs, as if all members were as large as the smallest.
    std::int64_t room_until(std::uint32_t shape_number, const std::vector<RoomNode>& room,
                            std::vector<std::pair<std::uint64_t, std::int64_t>>& known) {
        if (known.size() < classes_->shapes.size()) {
            known.resize(classes_->shapes.size(), {0, 0});
        }
        if (known[shape_number].first == wanted_.version) {
            return known[shape_number].second;
        }
        const JobShape& shape = classes_->shapes[shape_number];
        const std::uint32_t smallest = shape.nodes - 1;
        untils_.clear();
        for (NodeIndex n = 0; n < room.size(); ++n) {
            const RoomNode& node = room[n];
            if (node.open && node.gpus >= shape.gpus_on(smallest) &&
                node.cpus >= shape.cpus_per_node && node.memory_mib >= shape.memory_mib_per_node &&
                node_suits(view_, shape, n, smallest)) {
                untils_.push_back(node.until);
            }
        }
        std::int64_t until = -1;
        if (untils_.size() >= shape.nodes) {
            const auto last = untils_.begin() + static_cast<std::ptrdiff_t>(smallest);
            std::nth_element(untils_.begin(), last, untils_.end(), std::greater<>());
            until = *last;
        }
        known[shape_number] = {wanted_.version, until};
        return until;
    }

    bool lane_is_open() { return lane().has_room(1); }

    bool is_live(const JobClass& jobs) {
        if (jobs.waits) {
            return false;
        }
        if (jobs.has_turn && gangs_wait_ && standing_assemblies_ < settings_.max_assemblies) {
            const std::int64_t at =
                next_grant_at(view_, standings_, settings_, jobs.budget, available_milli_);
            if (at <= view_.now) {
                return true;
            }
            wake_at(at);
        }
        const std::int64_t gpus = jobs.shape.gpus;
        const bool express = jobs.lane && lane().has_room(gpus) &&
                             lane().check(jobs.member, gpus) == ExpressCap::none;
        const bool over_headroom = jobs.allocated &&
                                   (!express || !settings_.has(Rule::headroom_for_express)) &&
                                   is_over_headroom(gpus);
        if (jobs.runs) {
            return !jobs.free_first && jobs.allocated && !over_headroom;
        }
        const std::int64_t least = *jobs.contracts.begin();
        const bool as_free =
            over_headroom && jobs.resumable && settings_.has(Rule::headroom_starts_free);
        const bool starts_free = jobs.free_first && !express && settings_.has(Rule::free_first);
        if (over_headroom && !as_free) {
            return false;
        }
        const std::int64_t largest_member = jobs.shape.gpus_on(0);
        if (largest_member <= most_ && gpus <= room_sum_ &&
            room_until(jobs.shape_number, room_, room_until_) >=
                (jobs.allocated && !as_free && !starts_free ? view_.now + least : 0)) {
            return true;
        }
        if ((!jobs.allocated && settings_.has(Rule::free_never_takes)) || !jobs.plannable ||
            as_free) {
            return false;
        }
        if (largest_member <= most_future_ &&
            room_until(jobs.shape_number, future_, future_until_) >= view_.now + least) {
            return true;
        }
        if (express) {
            return !sums_.takeable.empty();
        }
        return could_plan(jobs, least);
    }

    const KeyMaker& keys_of(SideId side, const SideStanding& standing) {
        if (keys_.size() < standings_.sides.size()) {
            keys_.resize(standings_.sides.size());
            keys_known_.resize(standings_.sides.size(), false);
        }
        if (!keys_known_[side]) {
            keys_known_[side] = true;
            keys_[side] = KeyMaker(standing.entitlement);
        }
        return keys_[side];
    }

    RatioKey claimant_key(SideId side, UInt128 own) {
        const SideStanding& standing = standings_.side(side);
        return keys_of(side, standing).key(standing.charge() + own);
    }
    // Of this look at the classes.
    RatioKey victim_key(SideId side) {
        if (victim_keys_.size() < standings_.sides.size()) {
            victim_keys_.resize(standings_.sides.size(), {0, 0});
        }
        auto& known = victim_keys_[side];
        if (known.first != wanted_.version) [[unlikely]] {
            const SideStanding& standing = standings_.side(side);
            known.first = wanted_.version;
            known.second =
                keys_of(side, standing)
                    .key(standing.charge() *
                         static_cast<UInt128>(kPpm - settings_.preempt_margin_ppm) / kPpm);
        }
        return known.second;
    }

    // Whether a claimant of that budget and commitment may take runs of the group whose contract is
    // over. Most are told by their keys. The claimant's key is remembered from group to group.
    bool may_take_group(const TakeableGroup& group, BudgetId budget, UInt128 own) {
        if (group.free) {
            return true;
        }
        const std::vector<SideId>& ours = standings_.budgets[budget].path;
        const std::vector<SideId>& theirs = standings_.budgets[group.budget].path;
        PartingSides sides{ours.front(), theirs.front(), 0};
        if (sides.a == sides.b) {
            sides = parting_sides(standings_, budget, group.budget);
        }
        if (sides.a == kNoId) {
            return settings_.preempt_within_budget != PreemptWithinBudget::no;
        }
        if (claimant_.side != sides.a || claimant_.own != own ||
            claimant_.version != wanted_.version) {
            claimant_ = {sides.a, own, wanted_.version, claimant_key(sides.a, own)};
        }
        return claimant_.key < victim_key(sides.b) + 4 * kKeySlack;
    }

    // Whose runs the jobs of one budget might take at best, with its smallest commitment: a bit
    // each of PassSums::groups, the last bit for all beyond the 63rd.
    struct Appetite {
        std::uint64_t version = 0;  // of the look it was found in
        std::uint64_t groups = 0;
    };
    // What those groups could give at best: by node where they have runs, what is free there, what
    // leaves, and theirs.
    struct Potential {
        std::uint64_t version = 0;
        std::uint64_t groups = 0;
        std::vector<std::int64_t> gpus;
    };
    static std::uint64_t bit_of(std::size_t group) {
        return std::uint64_t{1} << std::min<std::size_t>(group, 63);
    }

    UInt128 own_commitment(std::int64_t amount) const {
        return settings_.commitments && settings_.has(Rule::own_commitment)
                   ? static_cast<UInt128>(amount) *
                         static_cast<UInt128>(standings_.window.length_seconds)
                   : 0;
    }

    // By node, with what claimants of that budget and commitment might take.
    bool sum_potential(BudgetId budget, std::int64_t amount) {
        bool hungry = false;
        potential_.resize(room_.size());
        for (NodeIndex n = 0; n < room_.size(); ++n) {
            potential_[n] = future_[n].plannable ? future_[n].gpus : -1;
        }
        for (const TakeableGroup& group : sums_.groups) {
            if (group.runs.empty() || !may_take_group(group, budget, own_commitment(amount))) {
                continue;
            }
            hungry = true;
            for (NodeIndex n = 0; n < room_.size(); ++n) {
                potential_[n] += group.gpus[n];
            }
        }
        return hungry;
    }

    std::int64_t least_amount(BudgetId budget) const {
        return *classes_->allocated[budget].amounts.begin();
    }

    std::uint64_t appetite_of(BudgetId budget) {
        Appetite& appetite = appetites_[budget];
        if (appetite.version == wanted_.version) {
            return appetite.groups;
        }
        appetite.version = wanted_.version;
        appetite.groups = 0;
        const UInt128 own = own_commitment(least_amount(budget));
        for (std::size_t g = 0; g < sums_.groups.size(); ++g) {
            if (!sums_.groups[g].runs.empty() && may_take_group(sums_.groups[g], budget, own)) {
                appetite.groups |= bit_of(g);
            }
        }
        return appetite.groups;
    }

    // Budgets often have the same appetite.
    const Potential& potential_of(std::uint64_t groups) {
        Potential* spare = nullptr;
        for (Potential& known : potentials_) {
            if (known.version != wanted_.version) {
                spare = &known;
            } else if (known.groups == groups) {
                return known;
            }
        }
        Potential& potential = spare != nullptr ? *spare : potentials_.emplace_back();
        potential.version = wanted_.version;
        potential.groups = groups;
        potential.gpus.clear();
        allowed_.clear();
        for (std::size_t g = 0; g < sums_.groups.size(); ++g) {
            if (!sums_.groups[g].runs.empty() && (groups & bit_of(g)) != 0) {
                allowed_.push_back(&sums_.groups[g]);
            }
        }
        ++count_number_;
        counted_.resize(room_.size(), 0);
        for (const TakeableGroup* group : allowed_) {
            for (const std::uint32_t r : group->runs) {
                for (const NodeShare& share : view_.runs[r].where) {
                    if (counted_[share.node] == count_number_) {
                        continue;
                    }
                    counted_[share.node] = count_number_;
                    std::int64_t at_best = future_[share.node].gpus;
                    for (const TakeableGroup* other : allowed_) {
                        at_best += other->gpus[share.node];
                    }
                    if (future_[share.node].plannable) {
                        potential.gpus.push_back(at_best);
                    }
                }
            }
        }
        return potential;
    }

    // How many nodes could give a job so many GPUs, at most.
    std::uint32_t nodes_with(std::uint64_t groups, std::int64_t gpus) {
        const Potential& potential = potential_of(groups);
        const auto enough = [gpus](std::int64_t at_best) { return at_best >= gpus; };
        return static_cast<std::uint32_t>(
                   std::count_if(potential.gpus.begin(), potential.gpus.end(), enough)) +
               futures_with(gpus);
    }

    // How many nodes will have so many GPUs when those that leave have left.
    std::uint32_t futures_with(std::int64_t gpus) {
        if (gpus > most_future_) {
            return 0;
        }
        for (const auto& known : futures_with_) {
            if (known.first == gpus) {
                return known.second;
            }
        }
        std::uint32_t nodes = 0;
        for (const RoomNode& node : future_) {
            nodes += node.gpus >= gpus && node.plannable ? 1 : 0;
        }
        futures_with_.emplace_back(gpus, nodes);
        return nodes;
    }

    // Whether what the shortest contract of the class might take would make room enough.
    bool could_plan(const JobClass& jobs, std::int64_t least) {
        if (all_live_) {
            return true;
        }
        if (sums_.takeable.empty()) {
            return false;
        }
        const std::int64_t need = jobs.shape.gpus_on(jobs.shape.nodes - 1);
        const std::uint64_t groups = appetite_of(jobs.budget);
        if (groups == 0 || nodes_with(groups, need) < jobs.shape.nodes) {
            return false;
        }
        if (!refusals_.empty() && by_budget_alone(false)) {
            const ClaimantKey key{jobs.shape,        jobs.budget,          0,
                                  jobs.weight_milli, TeamPriority::normal, false};
            const auto refused = refusals_.find(key);
            if (refused != refusals_.end() && refused->second.contract_seconds <= least) {
                return false;
            }
        }
        if (!sum_potential(jobs.budget, jobs.weight_milli * least)) {
            return false;
        }
        const std::int64_t contract_end = view_.now + least;
        std::uint32_t nodes = 0;
        for (NodeIndex n = 0; n < room_.size(); ++n) {
            if (potential_[n] >= need && future_[n].until >= contract_end &&
                node_suits(view_, jobs.shape, n, jobs.shape.nodes - 1) &&
                ++nodes == jobs.shape.nodes) {
                return true;
            }
        }
        return false;
    }

    std::vector<std::int64_t> visited_;
    std::vector<bool> live_;
    std::vector<std::int64_t> potential_;
    std::vector<std::pair<std::uint64_t, std::int64_t>> room_until_, future_until_;
    std::vector<std::int64_t> untils_;
    std::vector<std::pair<std::int64_t, std::uint32_t>> futures_with_;
    std::vector<const TakeableGroup*> allowed_;
    std::vector<std::uint32_t> counted_;  // by node
    std::uint32_t count_number_ = 0;
    std::vector<Appetite> appetites_;  // by budget
    std::vector<Potential> potentials_;
    std::vector<KeyMaker> keys_;  // by side
    std::vector<bool> keys_known_;
    std::vector<std::pair<std::uint64_t, RatioKey>> victim_keys_;  // by side: look, key
    struct {
        SideId side = kNoId;
        UInt128 own = 0;
        std::uint64_t version = 0;
        RatioKey key = 0;
    } claimant_;
    std::int64_t live_jobs_ = 0;
    std::int64_t most_ = 0, most_future_ = 0, room_sum_ = 0;  // free GPUs of a node, and of all
    WantedJobs wanted_;
    bool looked_for_first_ = false;
    bool gangs_wait_ = false;
};

}  // namespace tranche::passing
