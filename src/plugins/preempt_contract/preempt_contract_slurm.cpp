// SPDX-License-Identifier: GPL-2.0-or-later
// preempt/contract: Slurm's entry points, each a call to what it is about.
//
// Slurm itself evicts nobody: the engine plans and evicts. What remains is to say so, to tell how a
// warned job would have to be ended if the engine were gone, and the moment of each start attempt.
// Loaded in standby as well, never finalised: it owns nothing.
#include "plugins/slurm/guarded.hpp"
#include "plugins/slurm/preemption_answers.hpp"
#include "plugins/slurm/slurm_headers.hpp"

using namespace tranche;

extern "C" {

extern const char plugin_name[] = "Preemption by scheduling contracts";
extern const char plugin_type[] = "preempt/contract";
extern const std::uint32_t plugin_version = SLURM_VERSION_NUMBER;

// Inside slurmctld's reading of its configuration, in standby too.
int init() {
    return guarded("preempt/contract init", SLURM_SUCCESS, [] {
        complain_without_engine();
        return SLURM_SUCCESS;
    });
}

int fini() {
    return SLURM_SUCCESS;
}

// Asked by the queue's sort before it compares priorities: with "no" the priorities decide.
bool preempt_p_job_preempt_check(job_queue_rec_t*, job_queue_rec_t*) {
    return false;
}

// Job write lock held. slurmctld offers every job of its list in each start attempt of `claimant`.
bool preempt_p_preemptable(job_record_t* victim, job_record_t* claimant) {
    guarded("preempt_p_preemptable", [&] { note_start_attempt(*victim, *claimant); });
    return false;
}

// Job read lock held at least; `job` is null where preemption as a whole is meant.
int preempt_p_get_data(job_record_t* job, slurm_preempt_data_type_t kind, void* answer) {
    return guarded("preempt_p_get_data", SLURM_ERROR,
                   [&] { return answer_preemption(job, kind, answer); });
}

}  // extern "C"
