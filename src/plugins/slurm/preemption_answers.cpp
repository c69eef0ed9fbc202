// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/preemption_answers.hpp"

#include <ctime>

#include "engine/engine.hpp"
#include "plugins/slurm/environment.hpp"
#include "plugins/slurm/job_priority.hpp"
#include "plugins/slurm/job_records.hpp"

namespace tranche {
namespace {

std::uint32_t grace_of(const job_record_t& job) {
    const auto view = Engine::instance().view();
    if (view == nullptr || view->settings == nullptr) {
        return 0;
    }
    const Settings& settings = *view->settings;
    const JobCard* card = view->card(job.job_id);
    if (card == nullptr || card->run_index < 0) {
        return static_cast<std::uint32_t>(settings.grace_time_free_seconds);
    }
    return static_cast<std::uint32_t>(
        grace_seconds(view->view.runs[static_cast<std::size_t>(card->run_index)], settings));
}

}  // namespace

void complain_without_engine() {
    if (running_in_slurmctld() && text_of(slurm_conf.priority_type) != "priority/budget") {
        slurm_error(
            "tranche: PreemptType=preempt/contract does nothing with PriorityType=%s; write "
            "PriorityType=priority/budget",
            text_of(slurm_conf.priority_type).c_str());
    }
}

// All jobs are offered, the claimant itself too; of a het job only the leader and its components
// in their order, so that the leader stands for each of them (preempt.c of 22.05.8).
void note_start_attempt(const job_record_t& offered, job_record_t& claimant) {
    const bool once = &offered == &claimant ||
                      (claimant.het_job_id != 0 && offered.job_id == claimant.het_job_id);
    if (!once) {
        return;
    }
    const JobId id = is_het_component(claimant) ? claimant.het_job_id : claimant.job_id;
    Engine::instance().note_start_attempt(id);
    if (const auto stamp = start_stamp(claimant, std::time(nullptr)); stamp.has_value()) {
        stamp_environment(claimant, *stamp);
    }
}

int answer_preemption(const job_record_t* job, slurm_preempt_data_type_t kind, void* answer) {
    switch (kind) {
        case PREEMPT_DATA_ENABLED:
            *static_cast<bool*>(answer) = slurm_conf.preempt_mode != PREEMPT_MODE_OFF;
            return SLURM_SUCCESS;
        case PREEMPT_DATA_MODE:
            *static_cast<std::uint16_t*>(answer) =
                job == nullptr       ? static_cast<std::uint16_t>(slurm_conf.preempt_mode)
                : is_spared(*job)    ? PREEMPT_MODE_OFF
                : is_resumable(*job) ? PREEMPT_MODE_REQUEUE
                                     : PREEMPT_MODE_CANCEL;
            return SLURM_SUCCESS;
        case PREEMPT_DATA_PRIO:
            *static_cast<std::uint32_t*>(answer) = job != nullptr ? job->priority : 0;
            return SLURM_SUCCESS;
        case PREEMPT_DATA_GRACE_TIME:
            *static_cast<std::uint32_t*>(answer) = job != nullptr ? grace_of(*job) : 0;
            return SLURM_SUCCESS;
    }
    return SLURM_ERROR;
}

}  // namespace tranche
