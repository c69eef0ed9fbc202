// SPDX-License-Identifier: GPL-2.0-or-later
// Ratios of charge to entitlement as 64-bit keys: what most comparisons of a ranking are settled
// by.
#pragma once

#include <bit>
#include <cstdint>

#include "common/units/wide_int.hpp"

namespace tranche {

inline constexpr std::int64_t kFreeJobSeconds = 3600;  // what a free job counts when placed

// A ratio as a 64-bit key that orders like it: 9 bits of exponent, 55 of mantissa. Exact to a few
// units of the last place; nearer ones are settled by the exact comparison.
using RatioKey = std::uint64_t;

inline constexpr RatioKey kKeySlack = 8;
inline constexpr RatioKey kNeverFundedKey =
    ~RatioKey{0} - 2 * kKeySlack;  // larger than any ratio's

inline int bits_of(UInt128 value) noexcept {
    const auto high = static_cast<std::uint64_t>(value >> 64);
    return high != 0 ? 128 - std::countl_zero(high)
                     : 64 - std::countl_zero(static_cast<std::uint64_t>(value));
}

// The value's leading 64 bits; `shift` is by how much they were moved down (up if negative).
inline std::uint64_t leading(UInt128 value, int& shift) noexcept {
    shift = bits_of(value) - 64;
    return static_cast<std::uint64_t>(shift >= 0 ? value >> shift : value << -shift);
}

// Makes keys of charges over one entitlement, without a division each.
class KeyMaker {
  public:
    explicit KeyMaker(UInt128 entitlement = 0) noexcept {
        if (entitlement == 0) {
            return;
        }
        const std::uint64_t e = leading(entitlement, shift_);
        const UInt128 quotient = (UInt128{1} << 127) / e;  // 2^63 .. 2^64
        reciprocal_ =
            (quotient >> 64) != 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(quotient);
    }
    RatioKey key(UInt128 charge) const noexcept {
        if (reciprocal_ == 0) {
            return kNeverFundedKey;
        }
        if (charge == 0) {
            return 0;
        }
        int shift = 0;
        const std::uint64_t c = leading(charge, shift);
        const auto q = static_cast<std::uint64_t>((static_cast<UInt128>(c) * reciprocal_) >> 64);
        const int large = static_cast<int>(q >> 63);  // q is 2^62 .. 2^64
        const auto exponent = static_cast<std::uint64_t>(shift - shift_ + large + 160);
        return exponent << 55 | (q << (2 - large)) >> 9;
    }

  private:
    std::uint64_t reciprocal_ = 0;  // 0: never funded
    int shift_ = 0;
};

}  // namespace tranche
