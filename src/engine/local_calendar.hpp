// SPDX-License-Identifier: GPL-2.0-or-later
// Instants as people on this machine read them, for words that users see.
#pragma once

#include <cstdint>
#include <ctime>

#include "common/report/people.hpp"

namespace tranche {

inline CalendarTime local_calendar(std::int64_t at) {
    const auto instant = static_cast<std::time_t>(at);
    std::tm broken{};
    if (localtime_r(&instant, &broken) == nullptr) {
        return {};
    }
    return {broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday,
            broken.tm_hour,        broken.tm_min,     broken.tm_sec};
}

}  // namespace tranche
