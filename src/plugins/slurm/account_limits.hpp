// SPDX-License-Identifier: GPL-2.0-or-later
// The bookkeeping behind Slurm's account and QOS limits, which is a priority plugin's duty:
// GrpTRESRunMins, GrpTRESMins and GrpWall.
//
// slurmctld adds a run's TRES x time limit to the run-seconds of its QOS, its partition's QOS and
// its association up to the root when it starts (acct_policy.c); the plugin takes it away as the
// run goes on and when it ends, and adds what was used to the decaying usage that the limits
// compare with. Same arithmetic as priority/multifactor 22.05.8, so that limits mean the same: this
// is Slurm's own, in floating point, and has nothing to do with budgets.
//
// Without slurmdbd or enforced limits there is nothing to do.
#pragma once

#include <cstdint>

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Forgets what a former life of the plugin in this process knew. Nothing is locked or read.
void account_limits_start();

// Does what is due, every PriorityCalcPeriod; the first call also takes away what runs had used
// before this slurmctld started. Called without locks; takes {job, partition} read and the
// association manager's locks, and writes a file of 16 bytes outside them.
void account_limits_tick(std::int64_t now);

// Job write lock held, partition read lock.
void account_limits_job_end(job_record_t& job);

// After `scontrol reconfigure`. No locks held.
void account_limits_reconfigure(bool whole_limits_were_added);

}  // namespace tranche
