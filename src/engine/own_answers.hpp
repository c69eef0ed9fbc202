// SPDX-License-Identifier: GPL-2.0-or-later
// What one user asks about his own work: `srank me` and `srank --try`.
//
// Readers of an immutable view; any thread.
#pragma once

#include "engine/answers.hpp"

namespace tranche {

// The viewer's budgets with their week, his runs, his queue with expected starts.
Json answer_me(const EngineView& view, const Viewer& viewer);

// When a job like that, submitted now, would start, and which smaller or shorter ones sooner.
// Estimated (outlook.hpp). The Error says what cannot be right about it.
Result<Json> answer_try(const EngineView& view, const Viewer& viewer, const Json& arguments);

}  // namespace tranche
