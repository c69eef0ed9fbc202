// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers and instants as people read them.
//
// The core knows no time zone: whoever prints brings the function that breaks an instant down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tranche {

struct CalendarTime {
    int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};
using CalendarOf = CalendarTime (*)(std::int64_t at);

// Now, and how instants are broken down.
struct Moment {
    std::int64_t at = 0;
    CalendarOf calendar = nullptr;
};

std::string people_gpu_hours(std::int64_t milli_hours);             // "910.0"
std::string people_ratio(std::optional<std::int64_t> ratio_milli);  // "0.81", "0.006", "-"
std::string people_duration(std::int64_t seconds);                  // "25 min", "3 h 10 min"
std::string people_when(std::int64_t at, const Moment& now);        // "in 25 min (14:05)"
std::string people_clock(std::int64_t at, const Moment& now);       // "14:05", "Dec 02 14:05"
std::string people_minute(std::int64_t at, const Moment& now);      // the same without seconds
std::string people_instant(std::int64_t at, CalendarOf calendar);   // "2026-11-29T14:05:00"

}  // namespace tranche
