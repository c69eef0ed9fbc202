// SPDX-License-Identifier: GPL-2.0-or-later
// Team priority: the order a team gives its own jobs, without effect outside its budget.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

// A larger one goes first (DESIGN 2.4).
enum class TeamPriority : std::uint8_t { low, normal, high, urgent };

// The word users write: low, normal, high or urgent.
std::string_view to_text(TeamPriority priority) noexcept;

// Reads that word, in any case.
Result<TeamPriority> parse_team_priority(std::string_view text);

}  // namespace tranche
