// SPDX-License-Identifier: GPL-2.0-or-later
// What a trace does not say about its jobs, filled in by rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.hpp"
#include "sim/workload_file.hpp"

namespace tranche::sim {

// The text of the man page and of errors.
inline constexpr std::string_view kAssumeNames =
    "runtime (of a snapshot), min_runtime, time_limit, exit_seconds, restart_seconds, "
    "checkpoint_seconds, nodes (expressions), resumable, interactive, free_first (1 or 0), "
    "team_priority, class, account "
    "(words), users (a number) and seed";

// "min_runtime=min(1h,runtime) resumable=1 users=10": sets what the file does not say, and adds a
// note for each rule. users=N: each job without a user gets one of N users of its account, all
// alike, drawn from the seed and the account's name; seed=N in the rules goes before `seed`. A
// value that no job can have is an error, with the first job that would get it.
Status assume(ReadWorkload& workload, std::string_view rules, std::uint64_t seed,
              const SimCluster& cluster);

}  // namespace tranche::sim
