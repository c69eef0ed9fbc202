// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/units/wide_int.hpp"

#include <algorithm>

namespace tranche {
namespace {

struct UInt256 {
    UInt128 high;
    UInt128 low;
};

UInt256 multiply(UInt128 a, UInt128 b) noexcept {
    const UInt128 mask = ~std::uint64_t{0};
    const UInt128 a0 = a & mask, a1 = a >> 64, b0 = b & mask, b1 = b >> 64;
    const UInt128 p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
    const UInt128 middle = (p00 >> 64) + (p01 & mask) + (p10 & mask);
    return {p11 + (p01 >> 64) + (p10 >> 64) + (middle >> 64), (middle << 64) | (p00 & mask)};
}

}  // namespace

std::strong_ordering compare_products(UInt128 a, UInt128 b, UInt128 c, UInt128 d) noexcept {
    if (((a | b | c | d) >> 64) == 0) {
        const UInt128 left = a * b, right = c * d;
        return left < right   ? std::strong_ordering::less
               : left > right ? std::strong_ordering::greater
                              : std::strong_ordering::equal;
    }
    const UInt256 left = multiply(a, b), right = multiply(c, d);
    if (left.high != right.high) {
        return left.high < right.high ? std::strong_ordering::less : std::strong_ordering::greater;
    }
    if (left.low != right.low) {
        return left.low < right.low ? std::strong_ordering::less : std::strong_ordering::greater;
    }
    return std::strong_ordering::equal;
}

std::string to_decimal(UInt128 value) {
    std::string digits;
    do {
        digits.push_back(static_cast<char>('0' + static_cast<int>(value % 10)));
        value /= 10;
    } while (value != 0);
    std::reverse(digits.begin(), digits.end());
    return digits;
}

}  // namespace tranche
