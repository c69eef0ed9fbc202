// SPDX-License-Identifier: GPL-2.0-or-later
// TRANCHE_* in a job's environment (DESIGN 4.1), set by slurmctld alone.
#pragma once

#include "engine/engine.hpp"
#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Writes the contract into the variables that slurmctld adds to the environment of a batch script
// and sends with the allocation to salloc and srun (details->env_sup). Job write lock. Called in
// every start attempt, so that the last one before the start is right to the second.
void stamp_environment(job_record_t& job, const StartStamp& stamp);

// Gives a requeued job back the time limit that it asked for, where backfill lowered it for
// --time-min. Job write lock.
void restore_time_limit(job_record_t& job);

}  // namespace tranche
