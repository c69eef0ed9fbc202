// SPDX-License-Identifier: GPL-2.0-or-later
// Explanations in words, for `srank --why`, `srank --running` and the log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/model/past_run.hpp"
#include "common/model/preemption_record.hpp"
#include "common/policy/explain.hpp"
#include "common/report/people.hpp"

namespace tranche {

// Several lines, each ended by a line break. `name` is how the job is called, "12_3"; empty: its
// id.
std::string explanation_text(const PendingExplanation& explanation, const Moment& now,
                             const std::string& name = {});
std::string explanation_text(const RunningExplanation& explanation, const Moment& now,
                             const std::string& name = {});
std::string preemption_text(const PreemptionRecord& record, const Moment& now);
// One clause: "its contract was over and projA had used less of its funding than projB".
std::string preemption_reason_text(const PreemptionRecord& record);
// How a job ended, and its runs; empty if it never ran.
std::string past_text(const std::vector<PastRun>& runs, const Moment& now,
                      const std::string& name = {});
// One line each of the last few.
std::string runs_text(const std::vector<PastRun>& runs, const Moment& now);

// One sentence without a full stop: "the runs it could take are still under contract".
std::string wait_reason_text(WaitReason reason);
std::string take_reason_text(TakeReason reason);

// One word or clause for a column: "now", "in 25 min (14:05)", "when it has started".
std::string from_text(const TakeOutlook& outlook, const Moment& now);
std::string protected_text(const RunningExplanation& explanation, const Moment& now);

}  // namespace tranche
