// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/slurm_host.hpp"

#include <chrono>
#include <ctime>
#include <memory>
#include <optional>

#include "plugins/slurm/account_limits.hpp"
#include "plugins/slurm/complaints.hpp"
#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/shares.hpp"
#include "plugins/slurm/site_priority.hpp"
#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/user_names.hpp"

namespace tranche {
namespace {

constexpr std::size_t kJobsBetweenLooks = 32;
constexpr std::chrono::milliseconds kLongestRead{5};  // with read locks held

}  // namespace

std::int64_t SlurmHost::now() const {
    return std::time(nullptr);
}

// Everybody who wants to change a job waits while the records are read, so long queues are read in
// slices. Each job is read once; what changes between two slices is seen in the next cycle.
// False if the nodes were configured anew between two slices: then node numbers mean others.
bool SlurmHost::read_in_slices(HostSnapshot& out, std::vector<JobId>& stray) {
    out = HostSnapshot{};
    out.serial = next_entrance_serial();
    stray.clear();
    std::optional<NodeSets> sets;
    std::unique_ptr<ListWalk<job_record_t>> walk;
    std::time_t configured_at = 0, partitions_at = 0;
    for (bool more = true; more;) {
        const ControllerLock lock(kReadEverything);
        const auto begun = std::chrono::steady_clock::now();
        if (job_list == nullptr) {
            return true;
        }
        if (!walk) {
            out.now = std::time(nullptr);
            read_nodes(out.nodes);
            sets.emplace(out);
            for_each_in<part_record_t>(part_list, [&](part_record_t& partition) {
                out.partitions.push_back(text_of(partition.name));
            });
            out.jobs.reserve(static_cast<std::size_t>(list_count(job_list)));
            walk = std::make_unique<ListWalk<job_record_t>>(job_list);
            configured_at = slurm_conf.last_update;
        } else if (configured_at != slurm_conf.last_update ||
                   out.nodes.size() != static_cast<std::size_t>(node_record_count)) {
            return false;
        } else if (partitions_at != last_part_update) {
            sets->forget_partitions();
        }
        partitions_at = last_part_update;
        for (std::size_t read = 1;; ++read) {
            const job_record_t* job = walk->next();
            if (job == nullptr) {
                more = false;
                break;
            }
            if (has_stray_exclusion(*job)) {
                stray.push_back(job->job_id);
            }
            if (!IS_JOB_REVOKED(job)) {
                read_job(*job, *sets, out.now, out.jobs.emplace_back());
            }
            if (read % kJobsBetweenLooks == 0 &&
                std::chrono::steady_clock::now() - begun > kLongestRead) {
                break;
            }
        }
    }
    return true;
}

void SlurmHost::collect(HostSnapshot& out) {
    std::vector<JobId> stray;
    while (!read_in_slices(out, stray)) {
    }
    {
        const std::lock_guard lock(stray_mutex_);
        stray_ = std::move(stray);
    }
    for (HostJob& job : out.jobs) {
        if (job.user.empty()) {
            job.user = user_name(job.uid);
        }
        if (job.user.empty()) {
            job.user = std::to_string(job.uid);  // an account that was removed
        }
    }
    if (site_priority() == nullptr) {
        account_limits_tick(out.now);
        publish_shares();
    }
}

void SlurmHost::tell(JobId job, std::string_view text) {
    const std::string line(text);
    const ControllerLock lock(kReadJobs);
    if (job_record_t* record = find_job_record(job); record != nullptr) {
        srun_user_message(record, mutable_text(line.c_str()));
    }
}

void SlurmHost::wake() {
    schedule(false);
}

bool SlurmHost::is_operator(std::uint32_t uid) {
    return validate_operator(uid);
}

std::string SlurmHost::user_name(std::uint32_t uid) {
    return user_name_of(uid);
}

bool SlurmHost::is_private(std::string_view word) {
    const ControllerLock lock(kReadConfiguration);
    const std::uint16_t set = slurm_conf.private_data;
    return (word == "jobs" && (set & PRIVATE_DATA_JOBS) != 0) ||
           (word == "usage" && (set & PRIVATE_DATA_USAGE) != 0) ||
           (word == "accounts" && (set & PRIVATE_DATA_ACCOUNTS) != 0);
}

std::vector<std::string> SlurmHost::complaints() {
    std::vector<std::string> out;
    {
        const ControllerLock lock(kReadConfiguration);
        out = configuration_complaints();
    }
    if (std::string rehearsal = rehearsal_complaint(); !rehearsal.empty()) {
        out.push_back(std::move(rehearsal));
    }
    return out;
}

void SlurmHost::log(LogLevel level, std::string_view text) {
    const std::string line(text);
    switch (level) {
        case LogLevel::error:
            slurm_error("tranche: %s", line.c_str());
            break;
        case LogLevel::info:
            slurm_info("tranche: %s", line.c_str());
            break;
        case LogLevel::verbose:
            slurm_verbose("tranche: %s", line.c_str());
            break;
        case LogLevel::debug:
            slurm_debug("tranche: %s", line.c_str());
            break;
    }
}

}  // namespace tranche
