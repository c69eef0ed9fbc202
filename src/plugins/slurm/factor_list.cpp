// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/factor_list.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>

#include "plugins/slurm/job_records.hpp"

namespace tranche {
namespace {

std::unordered_set<std::uint32_t> numbers(List list) {
    std::unordered_set<std::uint32_t> out;
    for_each_in<std::uint32_t>(list, [&](std::uint32_t& number) { out.insert(number); });
    return out;
}

std::set<std::string> words(const char* text) {
    std::set<std::string> out;
    const std::string all = text_of(text);
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find(',', at), all.size());
        out.insert(all.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

bool is_shown(const job_record_t& job) {
    const job_record_t* pointer = &job;  // the macros take one
    return IS_JOB_PENDING(pointer) && !IS_JOB_REVOKED(pointer) && job.priority != 0 &&
           job.details != nullptr;
}

// The partition's name is not copied: slurmctld packs the list before it lets go of it, and frees
// no names with it (slurm_destroy_priority_factors_object).
priority_factors_object_t* factors_of(const job_record_t& job, part_record_t& partition) {
    auto* object =
        static_cast<priority_factors_object_t*>(xcalloc(1, sizeof(priority_factors_object_t)));
    object->job_id = job.job_id;
    object->user_id = job.user_id;
    object->partition = partition.name;
    object->priority_site = NICE_OFFSET;
    object->nice = NICE_OFFSET;
    if (job.direct_set_prio != 0) {
        object->direct_prio = job.priority;
    } else {
        object->priority_fs = job.priority;
    }
    return object;
}

}  // namespace

List factor_list(const priority_factors_request_msg_t& request, uid_t uid) {
    const auto jobs = numbers(request.job_id_list);
    const auto users = numbers(request.uid_list);
    const auto partitions = words(request.partitions);
    const bool sees_all =
        (slurm_conf.private_data & PRIVATE_DATA_JOBS) == 0 || validate_operator(uid);
    List out = list_create(slurm_destroy_priority_factors_object);
    {
        const ControllerLock lock({NO_LOCK, READ_LOCK, READ_LOCK, READ_LOCK, NO_LOCK});
        for_each_in<job_record_t>(job_list, [&](job_record_t& job) {
            if (!is_shown(job) || (request.job_id_list != nullptr && !jobs.contains(job.job_id)) ||
                (request.uid_list != nullptr && !users.contains(job.user_id)) ||
                (!sees_all && job.user_id != uid &&
                 !assoc_mgr_is_user_acct_coord(acct_db_conn, uid, job.account))) {
                return;
            }
            const auto add = [&](part_record_t& partition) {
                if (request.partitions == nullptr || partitions.contains(text_of(partition.name))) {
                    list_append(out, factors_of(job, partition));
                }
            };
            if (job.part_ptr_list != nullptr) {
                for_each_in<part_record_t>(job.part_ptr_list, add);
            } else if (job.part_ptr != nullptr) {
                add(*job.part_ptr);
            }
        });
    }
    if (list_count(out) == 0) {
        FREE_NULL_LIST(out);
    }
    return out;
}

}  // namespace tranche
