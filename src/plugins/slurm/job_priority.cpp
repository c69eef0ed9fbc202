// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/job_priority.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include "common/config/contract_request.hpp"
#include "engine/engine.hpp"
#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/queue_order.hpp"
#include "plugins/slurm/site_priority.hpp"
#include "plugins/slurm/slurm_host.hpp"
#include "plugins/slurm/user_names.hpp"

namespace tranche {
namespace {

// Whether budgets govern one of the job's partitions: those of Partitions=, or those with GPUs.
bool is_governed(const job_record_t& job) {
    const auto view = Engine::instance().view();
    bool governed = false;
    const auto look = [&](const part_record_t& partition) {
        if (view != nullptr && view->settings != nullptr && !view->settings->partitions.empty()) {
            const auto& names = view->settings->partitions;
            governed = governed || std::find(names.begin(), names.end(), text_of(partition.name)) !=
                                       names.end();
            return;
        }
        // The partition's nodes by name of their GRES would cost a walk: its TRES say it where
        // slurmdbd knows GPUs, and a job that asks for GPUs says it itself.
        governed = governed || job.gres_list_req != nullptr ||
                   text_of(partition.tres_fmt_str).find("gres/gpu") != std::string::npos;
    };
    if (job.part_ptr_list != nullptr) {
        for_each_in<part_record_t>(job.part_ptr_list, look);
    } else if (job.part_ptr != nullptr) {
        look(*job.part_ptr);
    }
    return governed;
}

JobShape shape_at_submission(const job_record_t& job) {
    JobShape shape;
    if (job.details != nullptr) {
        shape.nodes = std::max<std::uint32_t>(1, job.details->min_nodes);
        shape.exclusive = job.details->whole_node == WHOLE_NODE_REQUIRED;
    }
    const GpuRequest gpus = requested_gpus(job, shape.nodes);
    shape.gpus = gpus.gpus;
    shape.gpu_type = gpus.type;
    if (job.details != nullptr && job.details->min_cpus != NO_VAL) {
        shape.cpus_per_node = (job.details->min_cpus + shape.nodes - 1) / shape.nodes;
    }
    return shape;
}

std::string owner(const job_record_t& job) {
    if (job.user_name != nullptr) {
        return job.user_name;
    }
    if (job.assoc_ptr != nullptr && job.assoc_ptr->user != nullptr) {
        return job.assoc_ptr->user;
    }
    return remembered_user_name(job.user_id);
}

}  // namespace

std::uint32_t engine_priority(std::uint32_t last_priority, job_record_t& job) {
    renew_entrance(job);
    if (job.direct_set_prio != 0 && job.priority > 0) {
        return job.priority;
    }
    const JobId id = is_het_component(job) ? job.het_job_id : job.job_id;
    QueuePlace place;
    if (!rehearses()) {
        place = Engine::instance().place_for(
            id, text_of(job.account), owner(job), contract_entries(job), is_governed(job),
            shape_at_submission(job), is_array_record(job) ? job.array_recs->task_cnt : 1);
    }
    if (place.not_before_at != 0) {
        hold_back(job, place.not_before_at);
    }
    std::uint32_t priority = place.priority;
    if (priority == 0) {
        const bool has_one = job.priority != 0 && job.priority != NO_VAL;
        priority =
            has_one ? job.priority
                    : std::max<std::uint32_t>(1, last_priority != NO_VAL ? last_priority - 1 : 1);
    }
    spread_priority(job, priority);
    Engine::instance().kick();
    return priority;
}

std::optional<StartStamp> start_stamp(const job_record_t& job, std::int64_t now) {
    const JobId id = is_het_component(job) ? job.het_job_id : job.job_id;
    if (auto stamp = Engine::instance().stamp(id, now); stamp.has_value()) {
        return stamp;
    }
    return Engine::instance().stamp_of_new(text_of(job.account), owner(job), contract_entries(job),
                                           is_governed(job), shape_at_submission(job), now);
}

bool is_resumable(const job_record_t& job) {
    if (job.batch_flag == 0 || job.details == nullptr || job.details->requeue == 0) {
        return false;
    }
    const auto view = Engine::instance().view();
    if (view != nullptr) {
        if (const JobCard* card = view->card(job.job_id); card != nullptr) {
            return card->terms.resumable;
        }
    }
    const auto terms = parse_stored_terms(contract_entries(job));
    return terms.has_value() && terms->resumable;
}

void start_engine() {
    EngineOptions options;
    options.cluster = text_of(slurm_conf.cluster_name);
    options.settings_path = settings_path();
    options.rehearses = rehearses();
    options.state_directory = text_of(slurm_conf.state_save_location);
    // AuthInfo=socket=PATH,ttl=...
    const std::string auth = text_of(slurm_conf.authinfo);
    for (std::size_t at = 0; at < auth.size();) {
        const std::size_t end = std::min(auth.find(',', at), auth.size());
        constexpr std::string_view kSocket = "socket=";
        const std::string_view word = std::string_view(auth).substr(at, end - at);
        if (word.starts_with(kSocket)) {
            options.munge_socket = word.substr(kSocket.size());
        }
        at = end + 1;
    }
    options.slurm_user_uid = slurm_conf.slurm_user_id;
    Engine::instance().start(std::make_unique<SlurmHost>(), options);
}

}  // namespace tranche
