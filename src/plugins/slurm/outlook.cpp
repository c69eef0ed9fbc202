// SPDX-License-Identifier: GPL-2.0-or-later
// What squeue and scontrol show of pending jobs: our reason instead of Priority or Resources, and
// an expected start.
//
// state_desc, where it is set, is shown instead of the reason's name. Passes free it and set
// start_time to 0 (node_scheduler.c, backfill.c of 22.05.8); nothing else in slurmctld reads either
// of a pending job. So both are written anew after each pass, and only where they differ:
// last_job_update stays as it is, for a change of it costs a backfill cycle.
#include "plugins/slurm/outlook.hpp"

#include <ctime>

#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/slurm_host.hpp"

namespace tranche {
namespace {

constexpr const char* kMark = "tranche: ";

// Limits, holds, dependencies, failures: theirs is the better information. WAIT_TIME and
// WAIT_NODE_NOT_AVAIL are ours as well: the engine gives no text to a job with a begin time of its
// user's, or whose nodes are down.
bool may_be_replaced(const job_record_t& job) {
    switch (job.state_reason) {
        case WAIT_NO_REASON:
        case WAIT_PRIORITY:
        case WAIT_RESOURCES:
        case WAIT_TIME:
        case WAIT_NODE_NOT_AVAIL:
            return job.priority != 0;
        default:
            return false;
    }
}

bool is_shown(const job_record_t& job, const Outlook& outlook, std::time_t now) {
    const bool reason = outlook.reason.empty() || outlook.reason == text_of(job.state_desc);
    const auto start = static_cast<std::time_t>(outlook.start_at);
    return reason && (start <= now || job.start_time == start);
}

bool waits(const job_record_t* job) {
    return job != nullptr && IS_JOB_PENDING(job) && !IS_JOB_COMPLETING(job);
}

}  // namespace

std::uint64_t SlurmHost::passes() const {
    return std::uint64_t{slurmctld_diag_stats.schedule_cycle_counter} +
           slurmctld_diag_stats.bf_cycle_counter;
}

void SlurmHost::set_outlook(const std::vector<Outlook>& jobs) {
    const std::time_t now = std::time(nullptr);
    std::unordered_map<JobId, Outlook> next;
    next.reserve(jobs.size());
    for (const Outlook& outlook : jobs) {
        next.emplace(outlook.id, outlook);
    }
    {
        const ControllerLock lock(kReadJobs);
        bool differs = false;
        for (const Outlook& outlook : jobs) {
            const job_record_t* job = find_job_record(outlook.id);
            if (waits(job) && may_be_replaced(*job) && !is_shown(*job, outlook, now)) {
                differs = true;
                break;
            }
        }
        for (const auto& [id, outlook] : shown_) {
            differs = differs || (!next.contains(id) && !outlook.reason.empty());
        }
        if (!differs) {
            return;
        }
    }
    const ControllerLock lock(kWriteJobs);
    for (const auto& [id, outlook] : shown_) {
        if (next.contains(id)) {
            continue;
        }
        // Held, limited or put off meanwhile: no pass would take our words away.
        job_record_t* job = find_job_record(id);
        if (waits(job) && !outlook.reason.empty() && outlook.reason == text_of(job->state_desc)) {
            xfree(job->state_desc);
        }
    }
    for (const Outlook& outlook : jobs) {
        job_record_t* job = find_job_record(outlook.id);
        if (!waits(job) || !may_be_replaced(*job)) {
            continue;
        }
        if (!outlook.reason.empty() && outlook.reason != text_of(job->state_desc)) {
            xfree(job->state_desc);
            job->state_desc = xstrdup(outlook.reason.c_str());
        }
        if (outlook.start_at > now) {
            job->start_time = static_cast<std::time_t>(outlook.start_at);
        }
    }
    shown_ = std::move(next);
}

void comment_on(job_record_t& job, const std::string& text) {
    const std::string had = text_of(job.system_comment);
    if (text.empty() || (!had.empty() && had.rfind(kMark, 0) != 0)) {
        return;  // a burst buffer's or another plugin's
    }
    xfree(job.system_comment);
    job.system_comment = xstrdup((kMark + text).c_str());
}

}  // namespace tranche
