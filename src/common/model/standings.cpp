// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/standings.hpp"

#include <algorithm>
#include <limits>

namespace tranche {

std::strong_ordering compare_ratio(UInt128 charge_a, UInt128 entitlement_a, UInt128 charge_b,
                                   UInt128 entitlement_b) noexcept {
    if (entitlement_a == 0 || entitlement_b == 0) {
        if (entitlement_a != entitlement_b) {
            return entitlement_a == 0 ? std::strong_ordering::greater : std::strong_ordering::less;
        }
        return charge_a < charge_b   ? std::strong_ordering::less
               : charge_a > charge_b ? std::strong_ordering::greater
                                     : std::strong_ordering::equal;
    }
    return compare_products(charge_a, entitlement_b, charge_b, entitlement_a);
}

PartingSides parting_sides(const Standings& standings, BudgetId a, BudgetId b) noexcept {
    if (a == b) {
        return {};
    }
    const auto& path_a = standings.budgets[a].path;
    const auto& path_b = standings.budgets[b].path;
    const std::size_t shorter = std::min(path_a.size(), path_b.size());
    for (std::size_t level = 0; level < shorter; ++level) {
        if (path_a[level] != path_b[level]) {
            return {path_a[level], path_b[level], level};
        }
    }
    // An inner budget's path ends in its own side, so of two different budgets neither path can
    // begin with the whole other one.
    return {};
}

std::int64_t funded_milli_seconds(const Standings& standings, SideId side,
                                  Int128 capacity_milli_seconds) noexcept {
    const auto length = static_cast<UInt128>(standings.window.length_seconds);
    UInt128 product = kFractionOne;
    for (const SideId step : standings.budgets[side / 2].path) {
        product = (product * (standings.side(step).entitlement_plain / length)) >> kFractionBits;
        if (step == side) {
            break;
        }
    }
    return static_cast<std::int64_t>((static_cast<Int128>(product) * capacity_milli_seconds) >>
                                     kFractionBits);
}

std::uint64_t entitled_fraction(const Standings& standings, SideId side) noexcept {
    // The product of the mean fractions of all levels; each <= 1, so 64 bits hold.
    const UInt128 full = standings.window.full();
    UInt128 product = kFractionOne;
    const auto& path = standings.budgets[side / 2].path;
    for (const SideId step : path) {
        product = (product * (standings.side(step).entitlement / full)) >> kFractionBits;
        if (step == side) {
            break;
        }
    }
    return static_cast<std::uint64_t>(product);
}

std::uint64_t shown_ratio_milli(const Standings& standings, SideId side,
                                std::int64_t available_milli) {
    const UInt128 charge = standings.side(side).charge();
    const UInt128 funded = (static_cast<UInt128>(entitled_fraction(standings, side)) *
                            static_cast<UInt128>(std::max<std::int64_t>(available_milli, 0)) *
                            standings.window.full()) >>
                           kFractionBits;
    if (funded == 0) {
        return charge == 0 ? 0 : std::numeric_limits<std::uint64_t>::max();
    }
    const UInt128 ratio = charge * 1000 / funded;
    return ratio > std::numeric_limits<std::uint64_t>::max()
               ? std::numeric_limits<std::uint64_t>::max()
               : static_cast<std::uint64_t>(ratio);
}

}  // namespace tranche
