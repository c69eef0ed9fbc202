// SPDX-License-Identifier: GPL-2.0-or-later
// A job's priority as slurmctld keeps it: the number, the one for each partition, and what sprio
// shows.
#pragma once

#include <cstdint>

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Fills priority_array of a job of several partitions and the factors behind sprio and
// UsageThreshold. Job write lock, partition read lock. False if nothing had to change.
bool spread_priority(job_record_t& job, std::uint32_t priority);

}  // namespace tranche
