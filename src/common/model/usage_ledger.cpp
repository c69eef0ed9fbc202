// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/usage_ledger.hpp"

#include <algorithm>

namespace tranche {
namespace {

// How long an ended segment may still be reported again: far longer than slurmctld keeps a job.
constexpr std::int64_t kRememberedSeconds = 86400;

constexpr SideId side_of(BudgetId budget) {
    return 2 * budget;
}
constexpr SideId own_side_of(BudgetId budget) {
    return 2 * budget + 1;
}
void read_faded(WindowIntegral* kinds, std::int64_t now, const Window& window, Usage& usage) {
    for (const RunKind kind : {RunKind::allocated, RunKind::unallocated}) {
        const auto k = static_cast<std::size_t>(kind);
        if (kinds[k].empty()) {
            usage.faded[k] = 0;
            continue;
        }
        kinds[k].advance(now, window);
        const Int128 faded = kinds[k].faded(window);
        usage.faded[k] = faded > 0 ? static_cast<UInt128>(faded) : 0;
    }
}
std::uint64_t fraction_of(std::uint64_t shares, std::uint64_t sum) {
    return sum == 0 ? 0 : (shares << kFractionBits) / sum;
}

}  // namespace

UsageLedger::UsageLedger(const Rules& rules) : rules_(rules) {
    budget_id(kRootBudget);
    budget_id("(none)");  // not a name that a tree allows
    exists_[kRootId] = exists_[kNoBudgetId] = true;
    place_sides(0);
}

BudgetId UsageLedger::find_budget(std::string_view name) const {
    if (name.empty()) {
        return kNoBudgetId;
    }
    const auto it = ids_.find(std::string(name));
    return it == ids_.end() ? kNoId : it->second;
}

BudgetId UsageLedger::budget_id(std::string_view name) {
    if (const BudgetId known = find_budget(name); known != kNoId) {
        return known;
    }
    const auto id = static_cast<BudgetId>(names_.size());
    ids_.emplace(name, id);
    names_.emplace_back(name);
    parents_.push_back(kRootId);
    exists_.push_back(false);
    own_seen_.push_back(false);
    sides_.resize(names_.size() * 2);
    sides_[side_of(id)].parent = kRootId;
    sides_[own_side_of(id)].parent = id;
    paths_.push_back(path_of(id));
    ++tree_version_;
    return id;
}

MemberId UsageLedger::member_id(BudgetId budget, std::string_view user) {
    const auto [it, is_new] = member_ids_.try_emplace(std::pair{budget, std::string(user)},
                                                      static_cast<MemberId>(members_.size()));
    if (is_new) {
        members_.emplace_back();
        standings_.members.push_back({budget, std::string(user), {}, 0});
    }
    return it->second;
}

std::vector<SideId> UsageLedger::path_of(BudgetId budget) const {
    std::vector<SideId> path;
    for (BudgetId b = budget; b != kRootId; b = parents_[b]) {
        path.push_back(side_of(b));
    }
    std::reverse(path.begin(), path.end());
    if (budget < names_.size() && budget != kNoBudgetId &&
        (budget == kRootId || tree_.has_children(names_[budget]))) {
        path.push_back(own_side_of(budget));
    }
    return path;
}

void UsageLedger::set_fraction(std::int64_t at, SideId id, BudgetId parent, std::uint32_t shares,
                               std::uint64_t sum, std::uint64_t sum_before) {
    Side& side = sides_[id];
    const std::uint64_t fraction = fraction_of(shares, sum);
    if (!charged_ || (side.parent != parent && side.fraction != 0)) {
        // The first tree, or a moved budget at its new level: as if it had always been so. One that
        // had no shares until now moves none: it is raised from zero.
        side.entitlement = WindowIntegral();
        side.entitlement.add_forever(static_cast<std::int64_t>(fraction));
    } else if (fraction != side.fraction) {
        if (side.fraction == 0) {
            std::int64_t since = at - rules_.backdate_seconds;
            if (side.was_funded) {
                since = std::max(since, side.unfunded_since);
            }
            const std::uint64_t before = fraction_of(shares, sum_before + shares);
            side.entitlement.add(since, static_cast<std::int64_t>(before));
            side.entitlement.add(
                at, static_cast<std::int64_t>(fraction) - static_cast<std::int64_t>(before));
        } else {
            side.entitlement.add(
                at, static_cast<std::int64_t>(fraction) - static_cast<std::int64_t>(side.fraction));
        }
    }
    if (fraction == 0 && side.fraction != 0) {
        side.unfunded_since = at;
        side.was_funded = charged_;
    }
    side.parent = parent;
    side.fraction = fraction;
    side.shares = shares;
}

void UsageLedger::place_sides(std::int64_t at) {
    // Sums of the levels before this edit, from what each side still holds.
    std::vector<std::uint64_t> before(names_.size(), 0), after(names_.size(), 0);
    for (SideId id = 0; id < sides_.size(); ++id) {
        if (id != side_of(kRootId)) {
            before[sides_[id].parent] += sides_[id].shares;
        }
    }
    std::vector<BudgetId> parents(sides_.size(), kNoId);
    std::vector<std::uint32_t> shares(sides_.size(), 0);
    for (BudgetId b = 0; b < names_.size(); ++b) {
        const Budget* budget = tree_.find(names_[b]);
        const bool leaf = !tree_.has_children(names_[b]);
        parents[side_of(b)] = parents_[b];
        parents[own_side_of(b)] = b;
        if (budget != nullptr) {
            shares[side_of(b)] = budget->shares;
            const bool active = tree_.matches_anything(names_[b]) || own_seen_[b];
            shares[own_side_of(b)] = leaf                         ? std::max(1U, budget->own_shares)
                                     : active && rules_.own_sides ? budget->own_shares
                                                                  : 0;
        }
    }
    for (SideId id = 0; id < sides_.size(); ++id) {
        if (id != side_of(kRootId)) {
            after[parents[id]] += shares[id];
        }
    }
    for (SideId id = 0; id < sides_.size(); ++id) {
        if (id != side_of(kRootId)) {
            set_fraction(at, id, parents[id], shares[id], after[parents[id]], before[parents[id]]);
        }
    }
    for (BudgetId b = 0; b < names_.size(); ++b) {
        paths_[b] = path_of(b);
    }
    ++tree_version_;
}

void UsageLedger::set_tree(std::int64_t at, const BudgetTree& tree) {
    tree_ = tree;
    for (const auto& [name, budget] : tree_.budgets()) {
        budget_id(name);
    }
    for (BudgetId b = 2; b < names_.size(); ++b) {
        const Budget* budget = tree_.find(names_[b]);
        exists_[b] = budget != nullptr;
        if (budget != nullptr) {
            parents_[b] = budget_id(budget->parent);
        }
    }
    place_sides(at);
    repay_open_segments(at);
}

void UsageLedger::activate_own_side(std::int64_t at, BudgetId budget) {
    if (own_seen_[budget]) {
        return;
    }
    own_seen_[budget] = true;
    if (tree_.has_children(names_[budget]) && !tree_.matches_anything(names_[budget])) {
        place_sides(at);
    }
}

// Where the money of each running segment goes after the tree changed: what was charged so far
// stays with the former ancestors (DESIGN 2.1, `move`).
void UsageLedger::repay_open_segments(std::int64_t at) {
    for (auto& [key, segment] : open_) {
        std::vector<SideId> sides{side_of(kRootId), own_side_of(segment.budget)};
        for (BudgetId b = segment.budget; b != kRootId; b = parents_[b]) {
            sides.push_back(side_of(b));
        }
        const auto kind = static_cast<std::size_t>(segment.kind);
        std::vector<Payer> payers;
        for (const Payer& payer : segment.payers) {
            if (std::find(sides.begin(), sides.end(), payer.side) != sides.end()) {
                payers.push_back(payer);
            } else {
                sides_[payer.side].charges.kinds[kind].add(at, -segment.weight_milli);
            }
        }
        for (const SideId side : sides) {
            if (std::none_of(payers.begin(), payers.end(),
                             [side](const Payer& p) { return p.side == side; })) {
                sides_[side].charges.kinds[kind].add(at, segment.weight_milli);
                payers.push_back({side, at});
            }
        }
        segment.payers = std::move(payers);
    }
}

bool UsageLedger::begin(const Segment& segment) {
    if (const auto last = closed_.find(segment.key.job_id);
        last != closed_.end() && std::pair(segment.key.submit_at, segment.key.begin_at) <=
                                     std::pair(last->second.submit_at, last->second.begin_at)) {
        return false;
    }
    const auto [it, is_new] = open_.try_emplace(segment.key);
    if (!is_new) {
        return false;
    }
    OpenSegment& open = it->second;
    open.budget = segment.budget.empty() ? kNoBudgetId : budget_id(segment.budget);
    open.member = member_id(open.budget, segment.user);
    open.kind = segment.kind;
    open.weight_milli = segment.weight_milli;
    open.begin_at = segment.key.begin_at;
    activate_own_side(segment.key.begin_at, open.budget);
    charged_ = charged_ || segment.kind == RunKind::allocated;
    const auto kind = static_cast<std::size_t>(open.kind);
    const auto pay = [&](SideId side) {
        sides_[side].charges.kinds[kind].add(open.begin_at, open.weight_milli);
        open.payers.push_back({side, open.begin_at});
    };
    pay(side_of(kRootId));
    pay(own_side_of(open.budget));
    for (BudgetId b = open.budget; b != kRootId; b = parents_[b]) {
        pay(side_of(b));
    }
    members_[open.member].kinds[kind].add(open.begin_at, open.weight_milli);
    return true;
}

bool UsageLedger::end(const SegmentKey& key, std::int64_t charged_until) {
    const auto it = open_.find(key);
    if (it == open_.end()) {
        return false;
    }
    const OpenSegment& open = it->second;
    const auto kind = static_cast<std::size_t>(open.kind);
    for (const Payer& payer : open.payers) {
        sides_[payer.side].charges.kinds[kind].add(std::max(charged_until, payer.since),
                                                   -open.weight_milli);
    }
    members_[open.member].kinds[kind].add(std::max(charged_until, open.begin_at),
                                          -open.weight_milli);
    const auto [last, is_first] = closed_.try_emplace(key.job_id);
    if (is_first || std::pair(last->second.submit_at, last->second.begin_at) <
                        std::pair(key.submit_at, key.begin_at)) {
        last->second = {key.submit_at, key.begin_at, charged_until};
    }
    open_.erase(it);
    return true;
}

void UsageLedger::charge(BudgetId budget, MemberId member, RunKind kind, std::int64_t at,
                         std::int64_t delta_milli) {
    activate_own_side(at, budget);
    charged_ = charged_ || kind == RunKind::allocated;
    const auto k = static_cast<std::size_t>(kind);
    sides_[side_of(kRootId)].charges.kinds[k].add(at, delta_milli);
    sides_[own_side_of(budget)].charges.kinds[k].add(at, delta_milli);
    for (BudgetId b = budget; b != kRootId; b = parents_[b]) {
        sides_[side_of(b)].charges.kinds[k].add(at, delta_milli);
    }
    members_[member].kinds[k].add(at, delta_milli);
}

void UsageLedger::forget_closed(std::int64_t now) {
    if (closed_.size() < 2 * closed_kept_ + 1024) {
        return;
    }
    std::erase_if(closed_, [&](const auto& entry) {
        return entry.second.charged_until <= now - kRememberedSeconds;
    });
    closed_kept_ = closed_.size();
}

const Standings& UsageLedger::standings(std::int64_t now) {
    const auto read = [&](Charges& charges, Usage& usage) {
        for (std::size_t kind = 0; kind < kRunKinds; ++kind) {
            WindowIntegral& integral = charges.kinds[kind];
            integral.advance(now, rules_.window);
            usage.plain[kind] = integral.plain(rules_.window);
            const Int128 faded = integral.faded(rules_.window);
            usage.faded[kind] = faded > 0 ? static_cast<UInt128>(faded) : 0;
        }
    };
    forget_closed(now);
    standings_.at = now;
    standings_.window = rules_.window;
    standings_.sides.resize(sides_.size());
    for (SideId id = 0; id < sides_.size(); ++id) {
        Side& side = sides_[id];
        SideStanding& standing = standings_.sides[id];
        read(side.charges, standing.usage);
        standing.commitment = 0;
        standing.shares = side.shares;
        standing.fraction = side.fraction;
        if (rules_.entitlement_history) {
            side.entitlement.advance(now, rules_.window);
            const Int128 faded = side.entitlement.faded(rules_.window);
            standing.entitlement = faded > 0 ? static_cast<UInt128>(faded) : 0;
            const Int128 plain = side.entitlement.plain(rules_.window);
            standing.entitlement_plain = plain > 0 ? static_cast<UInt128>(plain) : 0;
        } else {
            standing.entitlement = rules_.window.full() * side.fraction;
            standing.entitlement_plain =
                static_cast<UInt128>(rules_.window.length_seconds) * side.fraction;
        }
    }
    for (MemberId id = 0; id < members_.size(); ++id) {
        read(members_[id], standings_.members[id].usage);
        standings_.members[id].commitment = 0;
    }
    read_budgets(standings_.budgets);
    return standings_;
}

void UsageLedger::read_budgets(std::vector<BudgetPlace>& budgets) const {
    budgets.resize(names_.size());
    for (BudgetId b = 0; b < names_.size(); ++b) {
        BudgetPlace& standing = budgets[b];
        const Budget* budget = tree_.find(names_[b]);
        standing.name = names_[b];
        standing.parent = parents_[b];
        standing.exists = exists_[b];
        standing.pooled = budget == nullptr || budget->sharing == BudgetSharing::unset
                              ? rules_.pooled_by_default
                              : budget->sharing == BudgetSharing::pooled;
        standing.path = paths_[b];
        UInt128 fraction = kFractionOne;
        for (const SideId side : standing.path) {
            fraction = (fraction * sides_[side].fraction) >> kFractionBits;
        }
        if (!rules_.shares_for_promise) {
            fraction = std::max(fraction, UInt128{1});
        }
        standing.funded_fraction = exists_[b] && b >= 2 ? static_cast<std::uint64_t>(fraction) : 0;
        if (!rules_.levels && standing.path.size() > 1) {
            standing.path.erase(standing.path.begin(), standing.path.end() - 1);
        }
    }
}

void UsageLedger::read_side(std::int64_t now, SideId id, SideStanding& standing) {
    Side& side = sides_[id];
    read_faded(side.charges.kinds, now, rules_.window, standing.usage);
    standing.shares = side.shares;
    standing.fraction = side.fraction;
    if (rules_.entitlement_history) {
        side.entitlement.advance(now, rules_.window);
        const Int128 faded = side.entitlement.faded(rules_.window);
        standing.entitlement = faded > 0 ? static_cast<UInt128>(faded) : 0;
    } else {
        standing.entitlement = rules_.window.full() * side.fraction;
    }
}

void UsageLedger::read_member(std::int64_t now, MemberId id, MemberStanding& standing) {
    read_faded(members_[id].kinds, now, rules_.window, standing.usage);
}

}  // namespace tranche
