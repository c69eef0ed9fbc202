// SPDX-License-Identifier: GPL-2.0-or-later
// Every decision of a simulated run with its reason, one JSON object a line, by time.
//
// Keys: `at` (seconds), `do`: start, turn, preempt, end, drain, assembly; and what belongs to it.
// Decisions of one instant stand in the order end, drain, preempt, assembly, turn, start.
#pragma once

#include <string>

#include "sim/record.hpp"

namespace tranche::sim {

// Cost: n log n in segments.
std::string decision_trace(const SimRecord& record);

// The word for how a run ended: "completed", "preempted-requeued", …
const char* to_text(SegmentEnd end) noexcept;
const char* to_text(PreemptionOutcome outcome) noexcept;

}  // namespace tranche::sim
