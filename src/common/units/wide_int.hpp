// SPDX-License-Identifier: GPL-2.0-or-later
// 128-bit integers and the comparison of their 256-bit products.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace tranche {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

// a * b against c * d, without overflow. The one place where ratios are compared.
std::strong_ordering compare_products(UInt128 a, UInt128 b, UInt128 c, UInt128 d) noexcept;

// The same with a small factor on each side: m * a * b against n * c * d. The products m * a and
// n * c must fit in 128 bits (charges need 96, factors 20).
inline std::strong_ordering compare_scaled_products(std::uint64_t m, UInt128 a, UInt128 b,
                                                    std::uint64_t n, UInt128 c,
                                                    UInt128 d) noexcept {
    return compare_products(a * m, b, c * n, d);
}

// Decimal digits, for messages and tests.
std::string to_decimal(UInt128 value);

}  // namespace tranche
