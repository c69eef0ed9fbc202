// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/queue_order.hpp"

#include <algorithm>
#include <chrono>

#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/slurm_host.hpp"

namespace tranche {
namespace {

constexpr std::size_t kChangesBetweenLooks = 128;
constexpr std::chrono::milliseconds kLongestWrite{3};  // with the job write lock held

// False if the job had that priority already.
bool write_priority(job_record_t& job, std::uint32_t priority) {
    const job_record_t* pointer = &job;  // the macro takes one
    if (!IS_JOB_PENDING(pointer) || job.priority == 0 || job.direct_set_prio != 0) {
        return false;
    }
    const bool differs = job.priority != priority;
    job.priority = priority;
    return spread_priority(job, priority) || differs;
}

bool write_change(const PriorityChange& change) {
    job_record_t* job = find_job_record(change.id);
    if (job == nullptr || is_het_component(*job)) {
        return false;
    }
    if (job->het_job_list == nullptr) {
        return write_priority(*job, change.priority);
    }
    bool changed = false;
    for_each_in<job_record_t>(job->het_job_list, [&](job_record_t& component) {
        changed = write_priority(component, change.priority) || changed;
    });
    return changed;
}

}  // namespace

bool spread_priority(job_record_t& job, std::uint32_t priority) {
    bool changed = false;
    if (job.part_ptr_list != nullptr) {
        const int partitions = list_count(job.part_ptr_list);
        if (job.priority_array == nullptr) {
            // The array is in the list's order, and both schedulers take the list as sorted.
            list_sort(job.part_ptr_list, priority_sort_part_tier);
            job.priority_array = static_cast<std::uint32_t*>(
                xcalloc(static_cast<std::size_t>(partitions) + 1, sizeof(std::uint32_t)));
        }
        for (int i = 0; i < partitions; ++i) {
            changed = changed || job.priority_array[i] != priority;
            job.priority_array[i] = priority;
        }
    }
    if (job.prio_factors != nullptr) {
        // sprio sums the factors up; a QOS with UsageThreshold compares the same field with a
        // number from 0 to 1 and so lets every job pass.
        job.prio_factors->priority_fs = priority;
        job.prio_factors->priority_site = NICE_OFFSET;
        job.prio_factors->nice = NICE_OFFSET;
    }
    return changed;
}

void SlurmHost::set_priorities(const std::vector<PriorityChange>& changes) {
    if (changes.empty()) {
        return;
    }
    // 100 000 changes would keep everybody out for tens of milliseconds: in slices.
    for (std::size_t next = 0; next < changes.size();) {
        const ControllerLock lock(kWriteJobs);
        const auto begun = std::chrono::steady_clock::now();
        bool changed = false;
        do {
            const std::size_t end = std::min(next + kChangesBetweenLooks, changes.size());
            for (; next < end; ++next) {
                changed = write_change(changes[next]) || changed;
            }
        } while (next < changes.size() && std::chrono::steady_clock::now() - begun < kLongestWrite);
        if (changed) {
            last_job_update = time(nullptr);
        }
    }
}

// As slurmctld splits arrays itself (job_scheduler.c, aftercorr): the old pointer becomes the task
// with a new id, the returned one is the rest with the old id.
std::vector<JobId> SlurmHost::split_array(JobId array_record, std::uint32_t count) {
    std::vector<JobId> ids;
    const ControllerLock lock(kWriteJobs);
    while (ids.size() < count) {
        job_record_t* task = find_job_record(array_record);
        const job_record_t* pointer = task;
        if (task == nullptr || !IS_JOB_PENDING(pointer) || !is_array_record(*task) ||
            task->array_recs->task_cnt < 2) {
            break;
        }
        const bitoff_t first = bit_ffs(task->array_recs->task_id_bitmap);
        if (first < 0) {
            break;
        }
        task->array_task_id = static_cast<std::uint32_t>(first);
        job_record_t* rest = job_array_split(task);
        if (rest == nullptr) {
            task->array_task_id = NO_VAL;
            break;
        }
        rest->job_state = JOB_PENDING;
        rest->start_time = 0;
        inherit_entrance(array_record, task->job_id);
        ids.push_back(task->job_id);
    }
    if (!ids.empty()) {
        last_job_update = time(nullptr);
    }
    return ids;
}

}  // namespace tranche
