// SPDX-License-Identifier: GPL-2.0-or-later
// Explanations and preemption records as JSON, both ways. GPU hours are decimal numbers; instants
// that never come are left out.
#pragma once

#include "common/model/past_run.hpp"
#include "common/model/preemption_record.hpp"
#include "common/policy/explain.hpp"
#include "common/wire/json.hpp"

namespace tranche {

Json to_json(const PendingExplanation& explanation);
Json to_json(const RunningExplanation& explanation);
Json to_json(const PreemptionRecord& record);
Json to_json(const PastRun& run);

// What to_json wrote; what is missing has its default.
PendingExplanation pending_explanation_from_json(const Json& json);
RunningExplanation running_explanation_from_json(const Json& json);
PreemptionRecord preemption_from_json(const Json& json);
PastRun past_run_from_json(const Json& json);

// An instant, left out where it is 0 or never comes.
void set_instant(Json& json, const char* key, std::int64_t at);
// null where nothing was funded.
void set_ratio(Json& json, const char* key, std::optional<std::int64_t> ratio_milli);

}  // namespace tranche
