// SPDX-License-Identifier: GPL-2.0-or-later
// Why a job waits, short enough for squeue's reason column.
#pragma once

#include <optional>
#include <string>

#include "common/policy/outlook.hpp"
#include "common/policy/pass.hpp"
#include "common/report/people.hpp"

namespace tranche {

struct ReasonFacts {
    JobVerdict verdict;
    std::uint32_t rank = 0, ranked = 0;
    std::int64_t expected_at = kNever;  // its start; of an assembly its date
    std::string waits_for;              // the job it was preempted for; empty: none
    std::optional<NearestClaim> claim;  // where ratios are against it
    bool numbers = true;                // PrivateData=usage: none
};

// "contracts until 14:05"; empty where Slurm's own reason says more.
std::string reason_text(const ReasonFacts& facts, const Moment& now);

}  // namespace tranche
