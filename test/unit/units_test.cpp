// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "common/units/team_priority.hpp"
#include "common/units/wide_int.hpp"
#include "common/units/window_integral.hpp"

namespace tranche {
namespace {

constexpr UInt128 kMax128 = ~UInt128{0};

TEST(WideInt, products_of_256_bits_are_compared_exactly) {
    EXPECT_TRUE(compare_products(kMax128, kMax128, kMax128, kMax128) == 0);
    EXPECT_TRUE(compare_products(kMax128, kMax128 - 1, kMax128, kMax128) < 0);
    EXPECT_TRUE(compare_products(kMax128, kMax128, kMax128 - 1, kMax128) > 0);
    // (2^127 + 1)(2^127 - 1) = 2^254 - 1 < 2^127 * 2^127.
    const UInt128 half = UInt128{1} << 127;
    EXPECT_TRUE(compare_products(half + 1, half - 1, half, half) < 0);
    EXPECT_TRUE(compare_products(half, half, half + 1, half - 1) > 0);
    EXPECT_TRUE(compare_products(0, kMax128, 1, 0) == 0);
    EXPECT_TRUE(compare_products(1, 1, 0, kMax128) > 0);
    EXPECT_TRUE(compare_scaled_products(950'000, 1, 2, 1'000'000, 1, 2) < 0);
    EXPECT_TRUE(compare_scaled_products(1'000'000, 19, 1, 950'000, 20, 1) == 0);
}

TEST(WideInt, decimal_digits_of_the_largest_number) {
    EXPECT_EQ(to_decimal(0), "0");
    EXPECT_EQ(to_decimal(kMax128), "340282366920938463463374607431768211455");
}

TEST(TeamPriority, words_are_read_in_any_case_and_others_refused) {
    for (const char* word : {"low", "normal", "high", "urgent"}) {
        const auto read = parse_team_priority(word);
        ASSERT_TRUE(read.ok());
        EXPECT_EQ(to_text(*read), word);
    }
    EXPECT_EQ(parse_team_priority("URGENT").value(), TeamPriority::urgent);
    for (const char* word : {"", "urgentt", "0"}) {
        const auto read = parse_team_priority(word);
        ASSERT_FALSE(read.ok()) << word;
        EXPECT_NE(read.error().find("low"), std::string::npos) << read.error();
    }
    EXPECT_LT(TeamPriority::low, TeamPriority::normal);
    EXPECT_LT(TeamPriority::high, TeamPriority::urgent);
}

TEST(WindowIntegral, a_stay_counts_as_the_formula_says) {
    // For ages a > b: 2 W (a - b) - (a^2 - b^2).
    const Window window{1000, WindowShape::linear};
    WindowIntegral integral;
    integral.add(100, 3);
    integral.add(400, -3);
    integral.advance(600, window);
    const std::int64_t a = 500, b = 200;
    EXPECT_EQ(static_cast<std::int64_t>(integral.faded(window)),
              3 * (2 * 1000 * (a - b) - (a * a - b * b)));
    EXPECT_EQ(static_cast<std::int64_t>(integral.plain(window)), 900);
    EXPECT_EQ(integral.level(), 0);
}

TEST(WindowIntegral, steady_use_counts_as_in_a_plain_sum) {
    for (const WindowShape shape : {WindowShape::linear, WindowShape::flat}) {
        const Window window{604800, shape};
        WindowIntegral integral;
        integral.add_forever(7);
        integral.advance(5'000'000, window);
        EXPECT_TRUE(integral.faded(window) == static_cast<Int128>(7 * window.full()));
        EXPECT_TRUE(integral.plain(window) == Int128{7} * 604800);
        EXPECT_EQ(integral.level(), 7);
    }
}

TEST(WindowIntegral, what_left_the_window_is_gone_to_the_second) {
    const Window window{100, WindowShape::flat};
    WindowIntegral integral;
    integral.add(0, 1);
    integral.add(10, -1);
    for (std::int64_t now = 10; now <= 120; ++now) {
        integral.advance(now, window);
        const std::int64_t left = now <= 100 ? 10 : std::max<std::int64_t>(110 - now, 0);
        EXPECT_EQ(static_cast<std::int64_t>(integral.plain(window)), left) << now;
    }
    EXPECT_TRUE(integral.empty());
}

TEST(WindowIntegral, a_step_of_the_same_instant_taken_back_leaves_nothing) {
    const Window window{100, WindowShape::linear};
    WindowIntegral integral;
    integral.add(50, 5);
    integral.add(50, -5);
    integral.advance(90, window);
    EXPECT_TRUE(integral.faded(window) == 0);
    integral.add(60, 0);
    EXPECT_TRUE(integral.plain(window) == 0);
}

}  // namespace
}  // namespace tranche
