// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/words.hpp"

#include <array>
#include <cstdio>

#include "common/wire/json.hpp"

namespace tranche::sim {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kDatesFrom = 315532800;  // 1980-01-01, in epoch seconds

struct Date {
    std::int64_t year = 1970;
    int month = 1, day = 1;
};

// Days since 1970-01-01 in the Gregorian calendar; years begin in March, so that the leap day is
// the last of a year.
Date date_of(std::int64_t days) {
    days += 719468;  // since 0000-03-01
    const std::int64_t era = days / 146097;
    const std::int64_t of_era = days % 146097;
    const std::int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const std::int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const std::int64_t month = (5 * of_year + 2) / 153;
    Date out;
    out.day = static_cast<int>(of_year - (153 * month + 2) / 5 + 1);
    out.month = static_cast<int>(month < 10 ? month + 3 : month - 9);
    out.year = era * 400 + year + (out.month <= 2 ? 1 : 0);
    return out;
}

template <typename... Values>
std::string written(const char* format, Values... values) {
    char text[64];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

std::string clock_text(std::int64_t of_day) {
    return written("%02d:%02d", static_cast<int>(of_day / 3600),
                   static_cast<int>(of_day / 60 % 60));
}

std::int64_t day_of(std::int64_t at) {
    return at >= 0 ? at / kDay : -((-at + kDay - 1) / kDay);
}

}  // namespace

std::string grouped(std::int64_t value) {
    std::string digits = std::to_string(value);
    const std::size_t least = digits[0] == '-' ? 1 : 0;
    for (std::size_t at = digits.size(); at > least + 3; at -= 3) {
        digits.insert(at - 3, 1, ' ');
    }
    return digits;
}

std::string short_duration(std::int64_t seconds) {
    if (seconds < 0) {
        return "-" + short_duration(-seconds);
    }
    const auto value = static_cast<double>(seconds);
    if (seconds < 120) {
        return std::to_string(seconds) + " s";
    }
    if (seconds < 7200) {
        return written(seconds < 600 ? "%.1f min" : "%.0f min", value / 60);
    }
    if (seconds < 2 * kDay) {
        return written("%.1f h", value / 3600);
    }
    return written("%.1f d", value / static_cast<double>(kDay));
}

std::string cluster_text(const SimRecord& record) {
    const auto nodes = static_cast<std::int64_t>(record.cluster.nodes.size());
    const std::int64_t gpus = record.cluster.gpus();
    return grouped(nodes) + (nodes == 1 ? " node, " : " nodes, ") + grouped(gpus) +
           (gpus == 1 ? " GPU" : " GPUs");
}

std::string instant_text(std::int64_t at) {
    const std::int64_t day = day_of(at);
    const std::string clock = clock_text(at - day * kDay);
    if (at < kDatesFrom) {
        return "d" + std::to_string(day) + " " + clock;
    }
    const Date date = date_of(day);
    return written("%04d-%02d-%02d ", static_cast<int>(date.year), date.month, date.day) + clock;
}

std::string axis_text(std::int64_t at, std::int64_t step) {
    const std::int64_t day = day_of(at);
    const std::int64_t of_day = at - day * kDay;
    if (of_day != 0) {
        return step < 60 ? clock_text(of_day) + written(":%02d", static_cast<int>(of_day % 60))
                         : clock_text(of_day);
    }
    if (at < kDatesFrom) {
        return day == 0 && step < kDay ? "00:00" : "day " + std::to_string(day);
    }
    const Date date = date_of(day);
    return written("%02d-%02d", date.month, date.day);
}

std::int64_t axis_step(std::int64_t seconds, std::int64_t marks) {
    constexpr std::array<std::int64_t, 21> kSteps = {
        1,    5,        10,       30,       60,        300,       600,
        900,  1800,     3600,     2 * 3600, 3 * 3600,  6 * 3600,  12 * 3600,
        kDay, 2 * kDay, 4 * kDay, 7 * kDay, 14 * kDay, 28 * kDay, 91 * kDay};
    for (const std::int64_t step : kSteps) {
        if (seconds / step <= marks) {
            return step;
        }
    }
    return (seconds / marks / kDay + 1) * kDay;
}

std::string printable(std::string_view text) {
    std::string out(text);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto byte = static_cast<unsigned char>(out[i]);
        // C1 controls are two bytes in UTF-8.
        const bool c1 =
            byte == 0xC2 && i + 1 < out.size() && static_cast<unsigned char>(out[i + 1]) < 0xA0;
        if (byte < 0x20 || byte == 0x7F) {
            out[i] = '?';
        } else if (c1) {
            out.replace(i, 2, "?");
        }
    }
    return out;
}

std::string escaped(std::string_view text) {
    std::string out;
    const std::string good = Json::text(printable(text)).as_text();  // UTF-8
    for (const char c : good) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::size_t shown_columns(std::string_view text) {
    std::size_t columns = 0;
    for (const char c : text) {
        columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    }
    return columns;
}

}  // namespace tranche::sim
