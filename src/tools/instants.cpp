// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/instants.hpp"

#include <charconv>
#include <ctime>
#include <optional>
#include <string>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kDaySeconds = 86400;

// A number of exactly or at most so many digits at the text's begin, taken off it.
std::optional<int> take_number(std::string_view& text, std::size_t most) {
    std::size_t digits = 0;
    while (digits < text.size() && digits < most && text[digits] >= '0' && text[digits] <= '9') {
        ++digits;
    }
    int number = 0;
    if (digits == 0 ||
        std::from_chars(text.data(), text.data() + digits, number).ec != std::errc()) {
        return std::nullopt;
    }
    text.remove_prefix(digits);
    return number;
}

bool take(std::string_view& text, char c) {
    if (text.empty() || text.front() != c) {
        return false;
    }
    text.remove_prefix(1);
    return true;
}

// HH:MM[:SS], and nothing behind it.
bool read_clock(std::string_view text, std::tm& out) {
    const auto hour = take_number(text, 2);
    const bool has_minute = hour && take(text, ':');
    const auto minute = has_minute ? take_number(text, 2) : std::nullopt;
    const bool has_second = minute && take(text, ':');
    const auto second = has_second ? take_number(text, 2) : std::optional<int>(0);
    if (!hour || !minute || !second || !text.empty() || *hour > 23 || *minute > 59 ||
        *second > 59) {
        return false;
    }
    out.tm_hour = *hour;
    out.tm_min = *minute;
    out.tm_sec = *second;
    return true;
}

std::optional<std::int64_t> unit_seconds(std::string_view unit) {
    struct Unit {
        const char* name;
        std::int64_t seconds;
    };
    constexpr Unit kUnits[] = {{"seconds", 1},
                               {"minutes", 60},
                               {"hours", 3600},
                               {"days", kDaySeconds},
                               {"weeks", 7 * kDaySeconds}};
    if (unit.empty()) {
        return 1;
    }
    for (const Unit& each : kUnits) {
        if (starts_with_ignoring_case(each.name, unit)) {
            return each.seconds;
        }
    }
    return std::nullopt;
}

std::optional<std::int64_t> read_relative(std::string_view rest, std::int64_t now) {
    if (rest.empty()) {
        return now;
    }
    const bool later = rest.front() == '+';
    if (!later && rest.front() != '-') {
        return std::nullopt;
    }
    rest.remove_prefix(1);
    const auto count = take_number(rest, 8);
    const auto unit = unit_seconds(rest);
    if (!count || !unit) {
        return std::nullopt;
    }
    return later ? now + *count * *unit : now - *count * *unit;
}

std::optional<std::int64_t> read_instant(std::string_view text, std::int64_t now) {
    if (starts_with_ignoring_case(text, "now")) {
        return read_relative(text.substr(3), now);
    }
    const auto there = static_cast<std::time_t>(now);
    std::tm broken{};
    if (localtime_r(&there, &broken) == nullptr) {
        return std::nullopt;
    }
    std::tm out{};
    out.tm_year = broken.tm_year;
    out.tm_mon = broken.tm_mon;
    out.tm_mday = broken.tm_mday;
    out.tm_isdst = -1;
    if (equal_ignoring_case(text, "yesterday")) {
        --out.tm_mday;
    } else if (!equal_ignoring_case(text, "today") && !read_clock(text, out)) {
        const auto year = take_number(text, 4);
        const bool has_month = year && take(text, '-');
        const auto month = has_month ? take_number(text, 2) : std::nullopt;
        const bool has_day = month && take(text, '-');
        const auto day = has_day ? take_number(text, 2) : std::nullopt;
        if (!year || !month || !day || *year < 1970 || *month < 1 || *month > 12 || *day < 1 ||
            *day > 31) {
            return std::nullopt;
        }
        out.tm_year = *year - 1900;
        out.tm_mon = *month - 1;
        out.tm_mday = *day;
        if (!text.empty() && !((take(text, 'T') || take(text, ' ')) && read_clock(text, out))) {
            return std::nullopt;
        }
    }
    const std::time_t at = std::mktime(&out);
    return at < 0 ? std::nullopt : std::optional<std::int64_t>(at);
}

}  // namespace

Result<std::int64_t> parse_instant(std::string_view text, std::int64_t now) {
    if (const auto at = read_instant(text, now)) {
        return *at;
    }
    return Error{"time " + quoted(text) +
                 "; 2026-11-30, 2026-11-30T14:05, 14:05, today, yesterday, now or now-2hours would "
                 "be right"};
}

}  // namespace tranche
