// SPDX-License-Identifier: GPL-2.0-or-later
// New contract terms written into jobs (sbudget job JOBID set …).
//
// The terms live in the job's SPANK environment: slurmctld saves it, copies it to array tasks and
// brings it back at a restart, so an edit there outlives our own database.
#include <algorithm>
#include <ctime>

#include "common/config/contract_request.hpp"
#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/slurm_host.hpp"

namespace tranche {
namespace {

bool is_as_decided(const job_record_t* job, const ContractWrite& write) {
    if (job == nullptr || job->details == nullptr ||
        job->details->submit_time != static_cast<std::time_t>(write.submit_at) ||
        IS_JOB_COMPLETING(job)) {
        return false;
    }
    if (write.runs) {
        return IS_JOB_RUNNING(job) || IS_JOB_SUSPENDED(job);
    }
    if (!IS_JOB_PENDING(job)) {
        return false;
    }
    if (write.task == kNoTask || job->array_task_id == write.task) {
        return true;
    }
    return is_array_record(*job) &&
           write.task < static_cast<std::uint64_t>(bit_size(job->array_recs->task_id_bitmap)) &&
           bit_test(job->array_recs->task_id_bitmap, static_cast<bitoff_t>(write.task)) != 0;
}

// The record of that one task; the others stay together in a record that keeps the array's id.
// The caller's pointer is the task afterwards (job_array_split, job_mgr.c of 22.05.8).
void split_task_off(job_record_t& job, std::uint32_t task) {
    if (!is_array_record(job) || job.array_recs->task_cnt < 2) {
        return;
    }
    job.array_task_id = task;
    job_record_t* rest = job_array_split(&job);
    if (rest == nullptr) {
        job.array_task_id = NO_VAL;
        return;
    }
    rest->job_state = JOB_PENDING;
    rest->start_time = 0;
    inherit_entrance(rest->job_id, job.job_id);
}

void replace_contract_entries(job_record_t& job, const std::vector<std::string>& entries) {
    std::vector<char*> all;
    all.reserve(job.spank_job_env_size + entries.size());  // nothing below throws
    for (std::uint32_t i = 0; i < job.spank_job_env_size; ++i) {
        char* entry = job.spank_job_env[i];
        if (entry != nullptr && std::string_view(entry).starts_with(kSpankOptionPrefix)) {
            xfree(entry);
        } else if (entry != nullptr) {
            all.push_back(entry);  // another plugin's
        }
    }
    for (const std::string& entry : entries) {
        all.push_back(xstrdup(entry.c_str()));
    }
    xfree(job.spank_job_env);
    job.spank_job_env = static_cast<char**>(xcalloc(all.size() + 1, sizeof(char*)));
    std::copy(all.begin(), all.end(), job.spank_job_env);
    job.spank_job_env_size = static_cast<std::uint32_t>(all.size());
}

}  // namespace

Status SlurmHost::write_contracts(const std::vector<ContractWrite>& writes) {
    {
        const ControllerLock lock(kEvict);
        for (const ContractWrite& write : writes) {
            if (!is_as_decided(find_job_record(write.id), write)) {
                return Error{"record " + std::to_string(write.id) +
                             " has started, ended or changed meanwhile; ask again"};
            }
        }
        for (const ContractWrite& write : writes) {
            job_record_t* job = find_job_record(write.id);
            if (job == nullptr) {
                continue;
            }
            if (write.task != kNoTask) {
                split_task_off(*job, write.task);
            }
            replace_contract_entries(*job, write.entries);
            if (write.requeue && job->details != nullptr && job->batch_flag != 0) {
                job->details->requeue = 1;
            }
            if (write.takes_warning_back) {
                job_record_t* whole =
                    is_het_component(*job) ? find_job_record(job->het_job_id) : job;
                if (whole != nullptr && whole->details != nullptr && take_back_locked(*whole)) {
                    slurm_info("tranche: job %u goes on, its contract was changed", job->job_id);
                }
            }
        }
        last_job_update = std::time(nullptr);
    }
    schedule_job_save();
    return {};
}

}  // namespace tranche
