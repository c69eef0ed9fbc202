// SPDX-License-Identifier: GPL-2.0-or-later
// The timeline of a simulated run as one SVG picture: a row for each GPU, a bar for each run.
//
// Hue by team (the budget that pays), shade by parent workload; hatched while the run may be
// interrupted; a red edge where it was preempted. Bars too short to be seen are merged with their
// neighbours and the picture says how many, so that a file stays below 3 MB.
#pragma once

#include <span>
#include <string>

#include "sim/record.hpp"

namespace tranche::sim {

struct TimelineOptions {
    enum class Layout { automatic, side_by_side, stacked };  // automatic: two side by side
    std::string title;                                       // empty: the cluster and the policies
    Layout layout = Layout::automatic;
};

// One panel for each record. Colours mean the same in all of them.
std::string timeline_svg(std::span<const SimRecord* const> records,
                         const TimelineOptions& options = {});

}  // namespace tranche::sim
