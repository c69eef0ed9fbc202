// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/report/people.hpp"

#include <cstdio>

namespace tranche {
namespace {

constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

template <typename... Values>
std::string written(const char* format, Values... values) {
    char text[96];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

}  // namespace

std::string people_gpu_hours(std::int64_t milli_hours) {
    const bool negative = milli_hours < 0;
    const auto magnitude = negative ? 0 - static_cast<std::uint64_t>(milli_hours)
                                    : static_cast<std::uint64_t>(milli_hours);
    const std::uint64_t tenths = magnitude / 100 + (magnitude % 100 >= 50 ? 1 : 0);
    return std::string(negative && tenths > 0 ? "-" : "") + std::to_string(tenths / 10) + "." +
           std::to_string(tenths % 10);
}

std::string people_ratio(std::optional<std::int64_t> ratio_milli) {
    if (!ratio_milli) {
        return "-";
    }
    if (*ratio_milli > 0 && *ratio_milli < 100) {
        return written("0.%03d", static_cast<int>(*ratio_milli));
    }
    const std::int64_t hundredths = *ratio_milli / 10 + (*ratio_milli % 10 >= 5 ? 1 : 0);
    char text[32];
    std::snprintf(text, sizeof text, "%lld.%02lld", static_cast<long long>(hundredths / 100),
                  static_cast<long long>(hundredths % 100));
    return text;
}

std::string people_duration(std::int64_t seconds) {
    if (seconds < 0) {
        return "-" + people_duration(-seconds);
    }
    const auto two = [](std::int64_t large, const char* large_unit, std::int64_t small,
                        const char* small_unit) {
        std::string text = std::to_string(large) + large_unit;
        return small == 0 ? text : text + " " + std::to_string(small) + small_unit;
    };
    if (seconds < 120) {
        return std::to_string(seconds) + " s";
    }
    if (seconds < 3600) {
        return std::to_string((seconds + 30) / 60) + " min";
    }
    if (seconds < 2 * 86400) {
        const std::int64_t minutes = (seconds + 30) / 60;
        return two(minutes / 60, " h", minutes % 60, " min");
    }
    const std::int64_t hours = (seconds + 1800) / 3600;
    return two(hours / 24, " d", hours % 24, " h");
}

std::string people_clock(std::int64_t at, const Moment& now) {
    const std::int64_t apart = at > now.at ? at - now.at : now.at - at;
    const CalendarTime there = now.calendar(at), here = now.calendar(now.at);
    if (apart < 86400 && there.day == here.day) {
        return apart < 120 ? written("%02d:%02d:%02d", there.hour, there.minute, there.second)
                           : written("%02d:%02d", there.hour, there.minute);
    }
    return written("%s %02d %02d:%02d", kMonths[(there.month + 11) % 12], there.day, there.hour,
                   there.minute);
}

std::string people_minute(std::int64_t at, const Moment& now) {
    const CalendarTime there = now.calendar(at), here = now.calendar(now.at);
    const bool today = there.day == here.day && there.month == here.month;
    return today ? written("%02d:%02d", there.hour, there.minute)
                 : written("%s %02d %02d:%02d", kMonths[(there.month + 11) % 12], there.day,
                           there.hour, there.minute);
}

std::string people_when(std::int64_t at, const Moment& now) {
    if (at == now.at) {
        return "now";
    }
    const std::string clock = " (" + people_clock(at, now) + ")";
    return at > now.at ? "in " + people_duration(at - now.at) + clock
                       : people_duration(now.at - at) + " ago" + clock;
}

std::string people_instant(std::int64_t at, CalendarOf calendar) {
    const CalendarTime time = calendar(at);
    return written("%04d-%02d-%02dT%02d:%02d:%02d", time.year, time.month, time.day, time.hour,
                   time.minute, time.second);
}

}  // namespace tranche
