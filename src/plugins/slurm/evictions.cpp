// SPDX-License-Identifier: GPL-2.0-or-later
// A victim's way out: warning, grace, end, and back into the queue.
//
// Slurm's own path ends a grace only at its sweep, every 30 seconds, so the engine's clock decides
// here. preempt_time and end_time are set as Slurm sets them: they are saved with the job, and if
// this process's threads die the sweep still ends what was warned (preempt.c, job_mgr.c
// of 22.05.8).
#include <algorithm>
#include <ctime>

#include "plugins/slurm/environment.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/outlook.hpp"
#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/slurm_host.hpp"

namespace tranche {
namespace {

constexpr std::time_t kYearSeconds = 365 * 24 * 3600;  // Slurm's end of a job without a limit

// The job, or the leader that stands for all components; nullptr if it is not known any more.
job_record_t* leader(JobId id) {
    job_record_t* job = find_job_record(id);
    if (job != nullptr && is_het_component(*job)) {
        job = find_job_record(job->het_job_id);
    }
    return job;
}

template <typename Body>
void for_each_component(job_record_t& job, Body&& body) {
    if (job.het_job_list == nullptr) {
        body(job);
    } else {
        for_each_in<job_record_t>(job.het_job_list, body);
    }
}

bool holds_nodes(const job_record_t* job) {
    return (IS_JOB_RUNNING(job) || IS_JOB_SUSPENDED(job)) && !IS_JOB_COMPLETING(job);
}

// Left by itself, as far as anybody can tell: neither cancelled nor struck down.
bool left_politely(const job_record_t* job) {
    return IS_JOB_COMPLETE(job) || IS_JOB_FAILED(job) || IS_JOB_TIMEOUT(job);
}

std::time_t unclamped_end(const job_record_t& job) {
    if (job.time_limit == INFINITE || job.time_limit == NO_VAL) {
        return job.start_time + kYearSeconds;
    }
    return job.start_time + static_cast<std::time_t>(job.time_limit) * 60 + job.tot_sus_time;
}

// A user's own --signal replaces the SIGTERM, as in Slurm: whoever asked for a signal to write a
// checkpoint must not be killed by another meanwhile. Steps only; a batch script hears nothing
// unless --signal=B: says so.
void signal_warning(job_record_t& job) {
    if (job.warn_signal != 0 && (job.warn_flags & WARN_SENT) == 0) {
        send_job_warn_signal(&job, true);
        return;
    }
    job_signal(&job, SIGCONT, 0, 0, false);
    job_signal(&job, SIGTERM, 0, 0, false);
}

int kill_for_good(job_record_t& job) {
    return job.het_job_list != nullptr ? het_job_signal(&job, SIGKILL, 0, 0, true)
                                       : job_signal(&job, SIGKILL, 0, 0, true);
}

// MaxBatchRequeue counts by this field; a preemption is nobody's failure.
void forget_retries(job_record_t& job) {
    for_each_component(job, [](job_record_t& component) {
        if (component.batch_flag > 1) {
            component.batch_flag = 1;
        }
    });
}

// Between the last exit of a victim that goes by itself and its requeue no pass may see it ended:
// jobs that depend on it would be released or refused. So its COMPLETING is kept up from the
// warning on by the mark of a running EpilogSlurmctld, until it is requeued (prep_slurmctld.c,
// dependencies wait for the end of COMPLETING); its nodes become free meanwhile. The mark is not
// saved: if this process ends, the job ends as it would have.
bool is_held_open(const job_record_t& job) {
    return job.epilog_running && job.prep_epilog_cnt == 0;
}

void hold_open(job_record_t& job) {
    for_each_component(job, [](job_record_t& component) { component.epilog_running = true; });
}

void let_end(job_record_t& job) {
    for_each_component(job, [](job_record_t& component) {
        const job_record_t* pointer = &component;  // the macro takes one
        if (!is_held_open(component)) {
            return;
        }
        component.epilog_running = false;
        if (component.node_cnt == 0 && IS_JOB_COMPLETING(pointer)) {
            cleanup_completing(&component);
            batch_requeue_fini(&component);
        }
    });
}

bool requeue_preempted(job_record_t& job) {
    const int rc = job_requeue(0, job.job_id, nullptr, true, 0);
    forget_retries(job);
    for_each_component(job, restore_time_limit);
    if (rc != SLURM_SUCCESS) {
        slurm_error("tranche: job %u cannot be requeued: %s", job.job_id, slurm_strerror(rc));
    }
    return rc == SLURM_SUCCESS;
}

// A victim that has ended by itself inside its grace comes back as the others do. True: it did.
bool leave_politely(const Eviction& eviction, job_record_t& job) {
    const job_record_t* pointer = &job;
    if (!eviction.requeue || job.preempt_time == 0 || IS_JOB_PENDING(pointer) ||
        !left_politely(pointer)) {
        return false;
    }
    job.preempt_time = 0;  // asked once, whatever the answer
    comment_on(job, eviction.comment);
    requeue_preempted(job);
    return true;
}

}  // namespace

Status SlurmHost::warn(const Eviction& eviction) {
    const std::string name = "job " + std::to_string(eviction.victim);
    const ControllerLock lock(kEvict);
    job_record_t* job = leader(eviction.victim);
    if (job == nullptr || job->details == nullptr) {
        return Error{name + " is not known to slurmctld any more"};
    }
    if (!holds_nodes(job)) {
        return Error{name + " does not run any more"};
    }
    const job_record_t* pointer = job;  // the macro takes one
    if (IS_JOB_CONFIGURING(pointer)) {
        return Error{name + " is still configuring and is not taken"};
    }
    if (is_spared(*job)) {
        return Error{name + " is on a partition with PreemptMode=OFF and is not taken"};
    }
    if (job->preempt_time != 0) {
        return {};  // warned before, perhaps by the slurmctld before this one
    }
    const std::time_t now = std::time(nullptr);
    warned_[job->job_id] = {job->details->submit_time, job->end_time, false};
    const std::time_t grace =
        static_cast<std::time_t>(std::max<std::int64_t>(0, eviction.grace_seconds));
    for_each_component(*job, [&](job_record_t& component) {
        component.preempt_time = now;
        component.end_time = std::min(component.end_time, now + grace);
    });
    last_job_update = now;
    schedule_job_save();  // soon: a warning that is lost with the daemon is given again
    if (!eviction.message.empty()) {
        srun_user_message(job, mutable_text(eviction.message.c_str()));
    }
    if (eviction.requeue) {
        hold_open(*job);
    }
    if (grace > 0 && !eviction.quiet) {
        for_each_component(*job, signal_warning);
    }
    slurm_info("tranche: job %u was warned for job %u and has %ld s", job->job_id,
               eviction.claimant, static_cast<long>(grace));
    return {};
}

void SlurmHost::last_call(const Eviction& eviction) {
    const ControllerLock lock(kEvict);
    job_record_t* job = leader(eviction.victim);
    if (job == nullptr || !holds_nodes(job) || job->preempt_time == 0) {
        return;
    }
    const std::string text = "tranche: job " + std::to_string(job->job_id) +
                             " ends within a minute for job " + std::to_string(eviction.claimant) +
                             "; save your work now";
    srun_user_message(job, mutable_text(text.c_str()));
    for_each_component(*job, signal_warning);
}

EvictionState SlurmHost::follow(const Eviction& eviction, std::int64_t grace_ends_at) {
    // Asked every few milliseconds: read locks unless something is due.
    {
        const ControllerLock lock(kReadJobs);
        const job_record_t* job = leader(eviction.victim);
        if (job == nullptr) {
            return EvictionState::gone;
        }
        if (holds_nodes(job) && job->preempt_time != 0 && std::time(nullptr) < grace_ends_at &&
            (!eviction.requeue || job->epilog_running)) {
            return EvictionState::in_grace;
        }
        if (IS_JOB_COMPLETING(job) && !is_held_open(*job) &&
            (IS_JOB_PENDING(job) || !eviction.requeue || !left_politely(job))) {
            return EvictionState::leaving;
        }
    }
    const ControllerLock lock(kEvict);
    job_record_t* job = leader(eviction.victim);
    if (job == nullptr) {
        warned_.erase(eviction.victim);
        return EvictionState::gone;
    }
    const job_record_t* pointer = job;
    if (holds_nodes(job)) {
        if (job->preempt_time == 0) {
            // Taken back, or gone and started anew meanwhile.
            const auto known = warned_.find(job->job_id);
            const bool was_ended = known != warned_.end() && known->second.ended;
            let_end(*job);
            return was_ended ? EvictionState::gone : EvictionState::not_ours;
        }
        if (std::time(nullptr) < grace_ends_at) {
            if (eviction.requeue) {
                hold_open(*job);  // a restart has forgotten it
            }
            return EvictionState::in_grace;
        }
        let_end(*job);
        warned_[job->job_id].ended = true;
        comment_on(*job, eviction.comment);  // before the end is recorded
        if (!eviction.requeue || !requeue_preempted(*job)) {
            if (const int rc = kill_for_good(*job); rc != SLURM_SUCCESS) {
                slurm_error("tranche: job %u cannot be ended: %s", job->job_id, slurm_strerror(rc));
                return EvictionState::in_grace;
            }
        }
        slurm_info("tranche: job %u makes room for job %u", job->job_id, eviction.claimant);
    } else {
        if (leave_politely(eviction, *job)) {
            warned_[job->job_id].ended = true;
        }
        let_end(*job);
    }
    return IS_JOB_COMPLETING(pointer) ? EvictionState::leaving : EvictionState::gone;
}

// Under the job write lock, of a leader that holds its nodes. False: it was not warned.
bool SlurmHost::take_back_locked(job_record& job) {
    let_end(job);
    const auto known = warned_.find(job.job_id);
    const bool remembered =
        known != warned_.end() && known->second.submit_at == job.details->submit_time;
    bool was_warned = false;
    for_each_component(job, [&](job_record_t& component) {
        if (component.preempt_time == 0) {
            return;
        }
        was_warned = true;
        component.preempt_time = 0;
        component.end_time = remembered && &component == &job
                                 ? static_cast<std::time_t>(known->second.end_at)
                                 : unclamped_end(component);
        component.warn_flags &= static_cast<std::uint16_t>(~WARN_SENT);
    });
    if (known != warned_.end()) {
        warned_.erase(known);
    }
    last_job_update = std::time(nullptr);
    return was_warned;
}

bool SlurmHost::take_back(const Eviction& eviction) {
    const ControllerLock lock(kEvict);
    job_record_t* job = leader(eviction.victim);
    if (job == nullptr || job->details == nullptr) {
        return false;
    }
    if (!holds_nodes(job)) {
        leave_politely(eviction, *job);
        let_end(*job);
        return false;
    }
    take_back_locked(*job);
    slurm_info("tranche: job %u goes on, the warning for job %u is taken back", job->job_id,
               eviction.claimant);
    return true;
}

bool SlurmHost::release_requeued(JobId id) {
    const ControllerLock lock(kWriteJobs);
    job_record_t* job = leader(id);
    if (job == nullptr || job->details == nullptr) {
        return true;
    }
    const std::time_t now = std::time(nullptr);
    bool ready = true;
    for_each_component(*job, [&](job_record_t& component) {
        const job_record_t* pointer = &component;
        if (IS_JOB_COMPLETING(pointer)) {
            ready = false;
        }
        // slurmd keeps a revoked credential until it sees one that is a second younger
        // (slurm_cred.c), and the revocation is not later than this run's submit time.
        if (IS_JOB_PENDING(pointer) && component.details->submit_time >= now) {
            ready = false;
        }
    });
    if (!ready) {
        return false;
    }
    warned_.erase(job->job_id);
    int delay_seconds = 0;
    slurm_cred_ctx_get(slurmctld_config.cred_ctx, SLURM_CRED_OPT_EXPIRY_WINDOW, &delay_seconds);
    for_each_component(*job, [&](job_record_t& component) {
        const job_record_t* pointer = &component;
        if (!IS_JOB_PENDING(pointer)) {
            return;
        }
        job_details& details = *component.details;
        // Only the delay of the requeue itself (batch_requeue_fini), no --begin of the user's.
        if (details.begin_time > now &&
            details.begin_time <= details.submit_time + delay_seconds + 2) {
            details.begin_time = 0;  // the next pass makes the job eligible and tells slurmdbd
            if (component.state_reason == WAIT_TIME) {
                component.state_reason = WAIT_NO_REASON;
            }
            last_job_update = now;
        }
        component.warn_flags &= static_cast<std::uint16_t>(~WARN_SENT);
        component.preempt_time = 0;
        restore_time_limit(component);
    });
    forget_retries(*job);
    return true;
}

}  // namespace tranche
