// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers, spans and instants of a simulation as its tables and pictures show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/record.hpp"

namespace tranche::sim {

std::string grouped(std::int64_t value);            // "12 345", with plain spaces
std::string short_duration(std::int64_t seconds);   // "24 s", "4.5 min", "1.8 h", "2.3 d"
std::string cluster_text(const SimRecord& record);  // "32 nodes, 256 GPUs"

// Of the workload's zero: "d2 06:30"; instants after 1980 are dates in UTC, "2026-11-29 14:05".
std::string instant_text(std::int64_t at);
// The same where its axis has a mark each `step` seconds: "06:00", "day 2", "11-29".
std::string axis_text(std::int64_t at, std::int64_t step);
// Distance of marks on a time axis that has room for about `marks` of them.
std::int64_t axis_step(std::int64_t seconds, std::int64_t marks);

// What others wrote: control characters become '?', so that they cannot act on a terminal.
std::string printable(std::string_view text);
// In XML and HTML, in elements and quoted attributes; what XML cannot hold becomes '?'.
std::string escaped(std::string_view text);
std::size_t shown_columns(std::string_view text);  // UTF-8 sequences count one

}  // namespace tranche::sim
