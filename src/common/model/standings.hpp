// SPDX-License-Identifier: GPL-2.0-or-later
// What every budget and every user in it has used and was funded, at one instant: plain numbers.
//
// At each level of the tree sides compete: the child budgets and, for an inner budget with jobs of
// its own, its own side (DESIGN 2.1). SideId 2 b is budget b with all below it, 2 b + 1 is b's own
// side. A member is one user in one budget.
//
// Units: `faded` and `commitment` are milli-weighted GPU seconds times the window's length
// (WindowIntegral); `entitlement` is in 2^-32 of the level, times the window's length squared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/units/wide_int.hpp"
#include "common/units/window_integral.hpp"

namespace tranche {

using BudgetId = std::uint32_t;
using SideId = std::uint32_t;
using MemberId = std::uint32_t;

inline constexpr BudgetId kRootId = 0;
inline constexpr BudgetId kNoBudgetId = 1;  // jobs that no budget pays for: beside root's children
inline constexpr std::uint32_t kNoId = 0xffffffff;
inline constexpr int kFractionBits = 32;
inline constexpr std::uint64_t kFractionOne = std::uint64_t{1} << kFractionBits;

// How a run counts. `outside`: on partitions that budgets do not govern, in CPU time.
enum class RunKind : std::uint8_t { allocated, unallocated, outside };
inline constexpr std::size_t kRunKinds = 3;

struct Usage {
    UInt128 faded[kRunKinds] = {};
    Int128 plain[kRunKinds] = {};  // milli-weighted GPU seconds in the window
};

struct SideStanding {
    Usage usage;
    UInt128 commitment = 0;         // of allocated runs and of plans that stand
    UInt128 entitlement = 0;        // 0: never funded in the window
    UInt128 entitlement_plain = 0;  // not faded, in 2^-32 seconds
    std::uint32_t shares = 0;
    std::uint64_t fraction = 0;  // of its level today, in 2^-32
    UInt128 placed = 0;          // commitments of what the pass at work has started and planned

    // What a claim is judged by.
    UInt128 charge() const noexcept { return charge_of(RunKind::allocated) + placed; }
    // What orders jobs of that kind: the faded charge, and for allocated ones the commitments.
    UInt128 charge_of(RunKind kind) const noexcept {
        return usage.faded[static_cast<std::size_t>(kind)] +
               (kind == RunKind::allocated ? commitment : 0);
    }
};

struct MemberStanding {
    BudgetId budget = kNoId;
    std::string user;
    Usage usage;
    UInt128 commitment = 0;
    UInt128 placed = 0;

    UInt128 charge() const noexcept { return charge_of(RunKind::allocated) + placed; }
    // What orders jobs of that kind: the faded charge, and for allocated ones the commitments.
    UInt128 charge_of(RunKind kind) const noexcept {
        return usage.faded[static_cast<std::size_t>(kind)] +
               (kind == RunKind::allocated ? commitment : 0);
    }
};

struct BudgetPlace {
    std::string name;
    BudgetId parent = kRootId;
    bool exists = false;
    bool pooled = false;                // users of it are not told apart
    std::vector<SideId> path;           // sides from the top level down to where its jobs compete
    std::uint64_t funded_fraction = 0;  // of the cluster, where its own jobs compete, in 2^-32
};

struct Standings;

// Evaluates a side or member when it is first asked for: a pass that looks at the head of the queue
// needs few of them.
class StandingsSource {
  public:
    virtual ~StandingsSource() = default;
    virtual void evaluate_side(Standings& standings, SideId side) = 0;
    virtual void evaluate_member(Standings& standings, MemberId member) = 0;
};

struct Standings {
    std::int64_t at = 0;
    Window window;
    std::vector<BudgetPlace> budgets;  // by BudgetId
    // By SideId and MemberId; read through side() and member().
    std::vector<SideStanding> sides;
    std::vector<MemberStanding> members;

    // nullptr: everything is evaluated.
    StandingsSource* source = nullptr;
    std::uint64_t stamp = 0;
    std::vector<std::uint64_t> side_stamps, member_stamps;

    SideStanding& side(SideId id) {
        if (source != nullptr && side_stamps[id] != stamp) {
            source->evaluate_side(*this, id);
        }
        return sides[id];
    }
    MemberStanding& member(MemberId id) {
        if (source != nullptr && member_stamps[id] != stamp) {
            source->evaluate_member(*this, id);
        }
        return members[id];
    }
    const SideStanding& side(SideId id) const { return const_cast<Standings*>(this)->side(id); }
    const MemberStanding& member(MemberId id) const {
        return const_cast<Standings*>(this)->member(id);
    }

    // Counts `seconds` more of a contract on that budget and member.
    void commit(BudgetId budget, MemberId member, std::int64_t weight_milli,
                std::int64_t seconds) noexcept {
        const UInt128 amount = window.at_weight_one(seconds) * static_cast<UInt128>(weight_milli);
        for (const SideId side : budgets[budget].path) {
            sides[side].commitment += amount;
        }
        members[member].commitment += amount;
    }
    // The same for what the pass at work starts or plans: the ranking has counted it already.
    void place(BudgetId budget, MemberId member_id, std::int64_t weight_milli,
               std::int64_t seconds) {
        const UInt128 amount = window.at_weight_one(seconds) * static_cast<UInt128>(weight_milli);
        for (const SideId id : budgets[budget].path) {
            side(id).placed += amount;
        }
        member(member_id).placed += amount;
    }
    bool funded(BudgetId budget) const noexcept { return budgets[budget].funded_fraction > 0; }
};

// Smaller ratio of charge to entitlement first; sides that were never funded last, by charge.
// Exact (DESIGN 2.3).
std::strong_ordering compare_ratio(UInt128 charge_a, UInt128 entitlement_a, UInt128 charge_b,
                                   UInt128 entitlement_b) noexcept;

// Where two budgets part: the sides of `a` and `b` at the first level on which they differ;
// {kNoId, kNoId} when they compete in the same place.
struct PartingSides {
    SideId a = kNoId;
    SideId b = kNoId;
    std::size_t level = 0;  // 0: directly below the root
};
PartingSides parting_sides(const Standings& standings, BudgetId a, BudgetId b) noexcept;

// Faded charge and commitments over what was funded of `available_milli`, in thousandths, for
// people: 1000 = used what was funded; UINT64_MAX where nothing was funded but something used.
std::uint64_t shown_ratio_milli(const Standings& standings, SideId side,
                                std::int64_t available_milli);

// GPU time that a side was funded over the window, plain, in milli-weighted GPU seconds:
// the mean of its part of each level times the capacity over the window.
std::int64_t funded_milli_seconds(const Standings& standings, SideId side,
                                  Int128 capacity_milli_seconds) noexcept;

// The part of the cluster that a side was entitled to over the window, faded, in 2^-32.
std::uint64_t entitled_fraction(const Standings& standings, SideId side) noexcept;

}  // namespace tranche
