// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's time formats, read and written.
//
// All values are seconds. Fields behind the first may be 60 or more, as Slurm allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

inline constexpr std::int64_t kLongestTimeSpanSeconds = std::int64_t{36500} * 86400;

// What a number without a colon, a dash or a letter means.
enum class PlainNumber : std::uint8_t { minutes, seconds };

// Reads minutes (or seconds), minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes, days-hours:minutes:seconds, and 30s, 15m, 2h, 1d, 1h30m. Refuses everything
// else, negative times and those above kLongestTimeSpanSeconds; the Error names the text and the
// formats.
Result<std::int64_t> parse_time_span(std::string_view text, PlainNumber plain);

// "1-02:03:04"; without days "02:03:04". Negative ones with a minus in front.
std::string format_time_span(std::int64_t seconds);

// For people: "2 h", "1 h 30 min", "45 s", "7 d"; units that are zero are left out.
std::string format_duration(std::int64_t seconds);

}  // namespace tranche
