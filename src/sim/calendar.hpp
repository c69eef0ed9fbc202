// SPDX-License-Identifier: GPL-2.0-or-later
// Calendar instants in input files, as seconds since 1970.
//
// A text without a zone is taken as UTC, so that the same file gives the same answer everywhere;
// the hour of a change to summer time is not known here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::sim {

// "2024-05-01T12:30:00", with a blank for the T, without seconds or time, with a fraction (cut
// off), and with Z, +02, +0200 or +02:00 behind it. nullopt: none of these, or no such day. Years
// 1900 to 2200.
std::optional<std::int64_t> parse_calendar(std::string_view text) noexcept;

// "2024-05-01T12:30:00", UTC.
std::string format_calendar(std::int64_t at);

}  // namespace tranche::sim
