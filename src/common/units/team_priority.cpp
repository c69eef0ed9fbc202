// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/units/team_priority.hpp"

#include <string>

#include "common/base/quoted.hpp"

namespace tranche {

namespace {

constexpr TeamPriority kAllPriorities[] = {TeamPriority::low, TeamPriority::normal,
                                           TeamPriority::high, TeamPriority::urgent};

}  // namespace

std::string_view to_text(TeamPriority priority) noexcept {
    switch (priority) {
        case TeamPriority::low:
            return "low";
        case TeamPriority::normal:
            return "normal";
        case TeamPriority::high:
            return "high";
        case TeamPriority::urgent:
            return "urgent";
    }
    return "normal";
}

Result<TeamPriority> parse_team_priority(std::string_view text) {
    for (TeamPriority priority : kAllPriorities) {
        if (equal_ignoring_case(text, to_text(priority))) {
            return priority;
        }
    }
    return Error{"team priority " + quoted(text) + ": write low, normal, high or urgent"};
}

}  // namespace tranche
