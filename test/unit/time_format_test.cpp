// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/time_format.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tranche {
namespace {

TEST(TimeFormat, every_format_of_slurm_is_read) {
    const struct {
        const char* text;
        std::int64_t as_option;   // a plain number is minutes
        std::int64_t as_setting;  // a plain number is seconds
    } cases[] = {
        {"0", 0, 0},
        {"90", 90 * 60, 90},
        {" 5 ", 300, 5},
        {"15:00", 900, 900},
        {"1:30", 90, 90},
        {"90:00", 5400, 5400},
        {"1:75", 135, 135},
        {"8:00:00", 28800, 28800},
        {"0:00:07", 7, 7},
        {"48:00:00", 172800, 172800},
        {"1-0", 86400, 86400},
        {"1-2", 93600, 93600},
        {"1-2:30", 95400, 95400},
        {"7-00:00:00", 604800, 604800},
        {"1-02:03:04", 93784, 93784},
        {"30s", 30, 30},
        {"15m", 900, 900},
        {"2h", 7200, 7200},
        {"2H", 7200, 7200},
        {"1d", 86400, 86400},
        {"1h30m", 5400, 5400},
        {"1d2h3m4s", 93784, 93784},
        {"36500-0", kLongestTimeSpanSeconds, kLongestTimeSpanSeconds},
    };
    for (const auto& c : cases) {
        const auto option = parse_time_span(c.text, PlainNumber::minutes);
        ASSERT_TRUE(option.ok()) << c.text << ": " << option.error();
        EXPECT_EQ(option.value(), c.as_option) << c.text;
        const auto setting = parse_time_span(c.text, PlainNumber::seconds);
        ASSERT_TRUE(setting.ok()) << c.text << ": " << setting.error();
        EXPECT_EQ(setting.value(), c.as_setting) << c.text;
    }
}

TEST(TimeFormat, garbage_is_refused_with_one_line_that_names_the_formats) {
    const char* cases[] = {"",     " ",        "x",         "2x",   "h",       "-",         ":",
                           "1:",   ":1",       "1-",        "-1-",  "1:2:3:4", "1-2:3:4:5", "1-2-3",
                           "2h1d", "1h1h",     "1h30",      "1.5h", "1.5",     "1 h",       "0x10",
                           "+5",   "INFINITE", "UNLIMITED", "2 2",  "1:-5",    "\n5\n5",    "１５"};
    for (const char* text : cases) {
        const auto span = parse_time_span(text, PlainNumber::minutes);
        ASSERT_FALSE(span.ok()) << text << " was read as " << span.value();
        EXPECT_NE(span.error().find("days-hours:minutes:seconds"), std::string::npos) << text;
        EXPECT_EQ(span.error().find('\n'), std::string::npos) << text;
    }
}

TEST(TimeFormat, negative_times_are_called_negative) {
    for (const char* text : {"-1", "-5:00", "-2h", "-9223372036854775808"}) {
        const auto span = parse_time_span(text, PlainNumber::minutes);
        ASSERT_FALSE(span.ok()) << text;
        EXPECT_NE(span.error().find("is negative"), std::string::npos) << span.error();
    }
}

TEST(TimeFormat, times_that_overflow_are_called_too_long) {
    const char* cases[] = {"36501-0",
                           "36500-0:0:1",
                           "9223372036854775807",
                           "9223372036854775808",
                           "18446744073709551616",
                           "99999999999999999999999999999999999999",
                           "106751991167301d",
                           "153722867280912931m",
                           "9223372036854775807:59",
                           "1-9223372036854775807:59:59",
                           "2147483648h"};
    for (const char* text : cases) {
        const auto span = parse_time_span(text, PlainNumber::minutes);
        ASSERT_FALSE(span.ok()) << text << " was read as " << span.value();
        EXPECT_NE(span.error().find("36500 days"), std::string::npos) << span.error();
    }
}

TEST(TimeFormat, a_long_text_gives_a_short_error) {
    const auto span = parse_time_span(std::string(10000, 'z'), PlainNumber::minutes);
    ASSERT_FALSE(span.ok());
    EXPECT_LT(span.error().size(), 400u);
    EXPECT_NE(span.error().find("10000 bytes"), std::string::npos);
}

TEST(TimeFormat, spans_are_written_as_slurm_writes_them) {
    const struct {
        std::int64_t seconds;
        const char* clock;
        const char* duration;
    } cases[] = {
        {0, "00:00:00", "0 s"},        {45, "00:00:45", "45 s"},
        {900, "00:15:00", "15 min"},   {5400, "01:30:00", "1 h 30 min"},
        {7200, "02:00:00", "2 h"},     {86399, "23:59:59", "23 h 59 min 59 s"},
        {86400, "1-00:00:00", "1 d"},  {93784, "1-02:03:04", "1 d 2 h 3 min 4 s"},
        {604800, "7-00:00:00", "7 d"}, {-5, "-00:00:05", "-5 s"},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(format_time_span(c.seconds), c.clock);
        EXPECT_EQ(format_duration(c.seconds), c.duration);
    }
    EXPECT_EQ(format_time_span(std::numeric_limits<std::int64_t>::min()),
              "-106751991167300-15:30:08");
}

TEST(TimeFormat, what_is_written_is_read_back) {
    for (std::int64_t seconds : {0, 1, 59, 60, 61, 3599, 3600, 86399, 86400, 604800, 99999999}) {
        const auto span = parse_time_span(format_time_span(seconds), PlainNumber::minutes);
        ASSERT_TRUE(span.ok()) << span.error();
        EXPECT_EQ(span.value(), seconds);
    }
}

}  // namespace
}  // namespace tranche
