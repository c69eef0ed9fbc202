// SPDX-License-Identifier: GPL-2.0-or-later
// Exact arithmetic against slow and obvious versions of itself. Fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/units/wide_int.hpp"
#include "common/units/window_integral.hpp"

namespace tranche {
namespace {

// Schoolbook multiplication in digits of 8 bits, least significant first.
std::vector<std::uint32_t> slow_product(UInt128 a, UInt128 b) {
    std::vector<std::uint32_t> digits(33, 0);
    for (int i = 0; i < 16; ++i) {
        std::uint32_t carry = 0;
        for (int j = 0; j < 16; ++j) {
            const auto x = static_cast<std::uint32_t>(a >> (8 * i)) & 0xff;
            const auto y = static_cast<std::uint32_t>(b >> (8 * j)) & 0xff;
            const std::uint32_t sum = digits[static_cast<std::size_t>(i + j)] + x * y + carry;
            digits[static_cast<std::size_t>(i + j)] = sum & 0xff;
            carry = sum >> 8;
        }
        digits[static_cast<std::size_t>(i + 16)] += carry;
    }
    std::reverse(digits.begin(), digits.end());
    return digits;
}

TEST(WideIntProperty, products_compare_as_schoolbook_multiplication_says) {
    std::mt19937_64 random(1);
    const auto number = [&] {
        const UInt128 wide = static_cast<UInt128>(random()) << 64 | random();
        return wide >> (random() % 128);
    };
    for (int i = 0; i < 20'000; ++i) {
        UInt128 a = number(), b = number(), c = number(), d = number();
        if (i % 3 == 0) {  // equal or nearly so
            c = b;
            d = a;
            if (i % 2 == 0) {
                d += 1 - random() % 3;
            }
        }
        const auto left = slow_product(a, b), right = slow_product(c, d);
        const auto expected = left < right   ? std::strong_ordering::less
                              : left > right ? std::strong_ordering::greater
                                             : std::strong_ordering::equal;
        ASSERT_TRUE(compare_products(a, b, c, d) == expected)
            << to_decimal(a) << " * " << to_decimal(b) << " and " << to_decimal(c) << " * "
            << to_decimal(d);
    }
}

struct Stay {
    std::int64_t from, to, level;
};

// Second by second: each second of age a..a+1 counts, times W, 2 W - (2 a + 1) when linear, W when
// flat, and 1 plainly.
struct Sums {
    Int128 plain = 0, faded = 0;
};
Sums slow_sums(const std::vector<Stay>& stays, std::int64_t now, const Window& window) {
    Sums sums;
    for (std::int64_t age = 0; age < window.length_seconds; ++age) {
        const std::int64_t second = now - age - 1;
        Int128 level = 0;
        for (const Stay& stay : stays) {
            level += stay.from <= second && second < stay.to ? stay.level : 0;
        }
        sums.plain += level;
        sums.faded +=
            level * (window.shape == WindowShape::linear ? 2 * window.length_seconds - (2 * age + 1)
                                                         : window.length_seconds);
    }
    return sums;
}

TEST(WindowIntegralProperty, equals_integration_second_by_second) {
    std::mt19937_64 random(2);
    for (int round = 0; round < 300; ++round) {
        const Window window{20 + static_cast<std::int64_t>(random() % 150),
                            round % 2 == 0 ? WindowShape::linear : WindowShape::flat};
        const std::int64_t origin = static_cast<std::int64_t>(random() % 2'000'000'000);
        WindowIntegral integral;
        std::vector<Stay> stays;
        const std::int64_t forever = static_cast<std::int64_t>(random() % 3);
        if (forever > 0) {
            integral.add_forever(forever);
            stays.push_back({INT64_MIN, INT64_MAX, forever});
        }
        std::vector<std::size_t> open;
        std::int64_t now = origin;
        for (int step = 0; step < 60; ++step) {
            const std::int64_t back = static_cast<std::int64_t>(
                random() % 4 == 0 ? random() % static_cast<std::uint64_t>(window.length_seconds * 2)
                                  : random() % 3);
            switch (random() % 3) {
                case 0: {  // begins, perhaps reported late
                    const std::int64_t level = 1 + static_cast<std::int64_t>(random() % 1000);
                    integral.add(now - back, level);
                    open.push_back(stays.size());
                    stays.push_back({now - back, INT64_MAX, level});
                    break;
                }
                case 1: {  // ends, perhaps with a refund
                    if (open.empty()) {
                        break;
                    }
                    const std::size_t which = random() % open.size();
                    Stay& stay = stays[open[which]];
                    stay.to = std::max(stay.from, now - back);
                    integral.add(stay.to, -stay.level);
                    open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
                    break;
                }
                default: {
                    integral.advance(now, window);
                    const Sums slow = slow_sums(stays, now, window);
                    ASSERT_TRUE(integral.plain(window) == slow.plain) << round << " " << step;
                    ASSERT_TRUE(integral.faded(window) == slow.faded) << round << " " << step;
                    now += static_cast<std::int64_t>(random() % 40);
                }
            }
        }
        // Everything open ends, and a window later only what holds for ever is left.
        for (const std::size_t which : open) {
            integral.add(now, -stays[which].level);
        }
        integral.advance(now + window.length_seconds, window);
        ASSERT_TRUE(integral.plain(window) == Int128{forever} * window.length_seconds);
        ASSERT_EQ(integral.empty(), forever == 0);
    }
}

TEST(WindowIntegralProperty, the_order_of_steps_does_not_matter) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 200; ++round) {
        const Window window{1000, WindowShape::linear};
        std::vector<std::pair<std::int64_t, std::int64_t>> steps;
        for (int i = 0; i < 40; ++i) {
            steps.emplace_back(static_cast<std::int64_t>(random() % 3000),
                               static_cast<std::int64_t>(random() % 100));
        }
        WindowIntegral one, other;
        for (const auto& [at, delta] : steps) {
            one.add(at, delta);
        }
        std::shuffle(steps.begin(), steps.end(), random);
        for (const auto& [at, delta] : steps) {
            other.add(at, delta);
            if (random() % 4 == 0) {
                other.advance(2000, window);  // earlier than some steps' values are asked for
            }
        }
        for (std::int64_t now = 3000; now < 4200; now += 100) {
            one.advance(now, window);
            other.advance(now, window);
            ASSERT_TRUE(one.faded(window) == other.faded(window));
            ASSERT_TRUE(one.plain(window) == other.plain(window));
        }
    }
}

}  // namespace
}  // namespace tranche
