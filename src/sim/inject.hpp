// SPDX-License-Identifier: GPL-2.0-or-later
// Debug jobs that a trace lacks, added by a seeded rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/result.hpp"
#include "sim/workload_file.hpp"

namespace tranche::sim {

// "debug:120/day gpus=4 min=15m seed=7": in each day from the first submission (or `from`) to the
// last (or `until`) that many jobs at instants that are all alike, in a broken last day as many as
// its part of a day is worth. Each is of one of the accounts of the trace and of one of its users,
// all alike. GPUs: 1, 2, 4 or 8, or gpus=N. Minimum runtime: 15 min, or min=TIME; runtime: from an
// eighth of the minimum to the minimum, all alike. Their class is the word in front of the colon.
// A note says it, with the seed. "/hour" is 24 times as many a day. `number` is the rule's place
// among the rules of one run, from 0: the same rule twice adds other jobs each time. Jobs that the
// cluster could never hold are an error.
Status inject(ReadWorkload& workload, std::string_view rules, std::uint64_t seed,
              const SimCluster& cluster, std::size_t number = 0, std::int64_t until = kNever,
              std::optional<std::int64_t> from = std::nullopt);

}  // namespace tranche::sim
