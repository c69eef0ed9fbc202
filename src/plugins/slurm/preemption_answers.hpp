// SPDX-License-Identifier: GPL-2.0-or-later
// What preempt/contract says to slurmctld. Job read lock held by the caller; nothing waits.
#pragma once

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Logs an error where slurm.conf names this plugin but not the one that the engine lives in: then
// nobody is ever preempted.
void complain_without_engine();

// Stamps the contract into the claimant's environment, once in each start attempt. Job write lock.
void note_start_attempt(const job_record_t& offered, job_record_t& claimant);

// SLURM_SUCCESS, or SLURM_ERROR for a question that is not known.
int answer_preemption(const job_record_t* job, slurm_preempt_data_type_t kind, void* answer);

}  // namespace tranche
