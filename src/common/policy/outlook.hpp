// SPDX-License-Identifier: GPL-2.0-or-later
// When waiting jobs will start, as far as can be told today: an estimate.
//
// The list is played forward with the policy's own ranking and pass: contracts end when they end,
// runs at their time limits, victims at the end of their grace, and nobody else is submitted.
// Ratios follow what is used meanwhile. Runs that end before their limits make starts earlier than
// estimated, jobs that come and rank better make them later; doc/experiments/start_times.md has
// how often an estimate holds.
//
// Pure. Cost: a ranking and a pass of the jobs that are followed at each of at most `most_passes`
// instants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/ranking.hpp"

namespace tranche {

struct OutlookOptions {
    std::size_t most_jobs = 200;  // of the list, from its head
    std::int64_t horizon_seconds = 2 * 86400;
    std::size_t most_passes = 300;
};

// By index into `view.pending`: the instant at which the job (of an array, its first task) is
// expected to start; kNever where none is, within the horizon or at all. `standings` hold the
// commitments of runs and plans, `ranking` is theirs.
std::vector<std::int64_t> expected_starts(const ClusterView& view,
                                          const std::vector<RankedEntry>& ranking,
                                          const Standings& standings, const Settings& settings,
                                          const PassRules& rules,
                                          const OutlookOptions& options = {});

// Of the runs over their contract that ratios keep from a claimant, the one it is nearest to.
struct NearestClaim {
    std::string side;                // the claimant's, where the two part
    std::int64_t ratio_milli = 0;    // with its own commitment
    std::int64_t allowed_milli = 0;  // below which it could take that run
};
std::optional<NearestClaim> nearest_claim(const ClusterView& view, const Standings& standings,
                                          const Settings& settings, const PendingJob& job,
                                          std::int64_t available_milli);

}  // namespace tranche
