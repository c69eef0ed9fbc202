// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/slurm_host.hpp"

#include <ctime>

#include "plugins/slurm/account_limits.hpp"
#include "plugins/slurm/complaints.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/shares.hpp"
#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/user_names.hpp"

namespace tranche {

std::int64_t SlurmHost::now() const { return std::time(nullptr); }

void SlurmHost::collect(HostSnapshot& out) {
    out = HostSnapshot{};
    {
        const ControllerLock lock(kReadEverything);
        out.now = std::time(nullptr);
        read_nodes(out.nodes);
        NodeSets sets(out);
        if (job_list != nullptr) {
            out.jobs.reserve(static_cast<std::size_t>(list_count(job_list)));
        }
        for_each_in<job_record_t>(job_list, [&](job_record_t& job) {
            const job_record_t* pointer = &job;  // the macro takes one
            if (!IS_JOB_REVOKED(pointer)) {
                out.jobs.push_back(read_job(job, sets, out.now));
            }
        });
    }
    for (HostJob& job : out.jobs) {
        if (job.user.empty()) {
            job.user = user_name(job.uid);
        }
    }
    account_limits_tick(out.now);
    publish_shares();
}

void SlurmHost::tell(JobId job, std::string_view text) {
    const std::string line(text);
    const ControllerLock lock(kReadJobs);
    if (job_record_t* record = find_job_record(job); record != nullptr) {
        srun_user_message(record, mutable_text(line.c_str()));
    }
}

void SlurmHost::wake() { schedule(false); }

bool SlurmHost::is_operator(std::uint32_t uid) { return validate_operator(uid); }

std::string SlurmHost::user_name(std::uint32_t uid) { return user_name_of(uid); }

bool SlurmHost::is_private(std::string_view word) {
    const ControllerLock lock(kReadConfiguration);
    const std::uint16_t set = slurm_conf.private_data;
    return (word == "jobs" && (set & PRIVATE_DATA_JOBS) != 0) ||
           (word == "usage" && (set & PRIVATE_DATA_USAGE) != 0) ||
           (word == "accounts" && (set & PRIVATE_DATA_ACCOUNTS) != 0);
}

std::vector<std::string> SlurmHost::complaints() {
    const ControllerLock lock(kReadConfiguration);
    return configuration_complaints();
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
