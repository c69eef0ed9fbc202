// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/job_records.hpp"

#include <algorithm>
#include <string_view>

#include "common/config/contract_request.hpp"
#include "plugins/slurm/entrance.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kSecondsAMinute = 60;

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
    return by > 0 ? (value + by - 1) / by : value;
}

std::int64_t known(std::uint64_t value) {
    return value == NO_VAL64 || value == NO_CONSUME_VAL64 ? 0 : static_cast<std::int64_t>(value);
}
std::int64_t known(std::uint32_t value) {
    return value == NO_VAL || value == INFINITE ? 0 : value;
}
std::int64_t known(std::uint16_t value) {
    return value == NO_VAL16 || value == INFINITE16 ? 0 : value;
}

bool is_gpu(const gres_state_t& gres) {
    return gres.gres_name != nullptr && std::strcmp(gres.gres_name, "gpu") == 0;
}

std::int64_t limit_seconds(const job_record_t& job) {
    std::uint32_t minutes = job.time_limit;
    if (minutes == NO_VAL && job.part_ptr != nullptr) {
        minutes = job.part_ptr->default_time != NO_VAL ? job.part_ptr->default_time
                                                       : job.part_ptr->max_time;
    }
    return minutes == NO_VAL || minutes == INFINITE ? kNever : minutes * kSecondsAMinute;
}

HostJobState state_of(const job_record_t& job) {
    const job_record_t* pointer = &job;  // the macros take one
    if (IS_JOB_COMPLETING(pointer)) {
        return HostJobState::completing;
    }
    if (IS_JOB_PENDING(pointer)) {
        return HostJobState::pending;
    }
    if (IS_JOB_SUSPENDED(pointer)) {
        return HostJobState::suspended;
    }
    if (IS_JOB_RUNNING(pointer)) {
        // WAIT_PROLOG: PrologFlags=Alloc and the prolog is not over (node_scheduler.c).
        return IS_JOB_CONFIGURING(pointer) || job.state_reason == WAIT_PROLOG
                   ? HostJobState::configuring
                   : HostJobState::running;
    }
    return HostJobState::finished;
}

bool on_dead_node(const job_record_t& job) {
    if (job.node_bitmap == nullptr) {
        return false;
    }
    const bitoff_t size = bit_size(job.node_bitmap);
    for (bitoff_t i = 0; i < size && i < node_record_count; ++i) {
        if (bit_test(job.node_bitmap, i) != 0 && IS_NODE_DOWN(node_record_table_ptr[i])) {
            return true;
        }
    }
    return false;
}

RunEnd end_of(const job_record_t& job) {
    const job_record_t* pointer = &job;
    switch (job.job_state & JOB_STATE_BASE) {
        case JOB_PENDING:
            if (!IS_JOB_COMPLETING(pointer)) {
                return job.restart_cnt > 0 ? RunEnd::requeued : RunEnd::unknown;
            }
            return on_dead_node(job) ? RunEnd::node_failure : RunEnd::requeued;
        case JOB_COMPLETE:
            return RunEnd::completed;
        case JOB_CANCELLED:
            return RunEnd::cancelled;
        case JOB_TIMEOUT:
        case JOB_DEADLINE:
            return RunEnd::timeout;
        case JOB_NODE_FAIL:
        case JOB_BOOT_FAIL:
            return RunEnd::node_failure;
        case JOB_PREEMPTED:
            return RunEnd::preempted;
        case JOB_FAILED:
        case JOB_OOM:
            return RunEnd::failed;
        default:
            return RunEnd::unknown;
    }
}

// The words of a blank-separated line.
bool has_word(const char* line, std::string_view word) {
    std::string_view rest = line != nullptr ? std::string_view(line) : std::string_view();
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        if (rest.substr(0, end) == word) {
            return true;
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
}

bool asked_for_requeue(const job_record_t& job) {
    if (job.details == nullptr || job.details->requeue == 0) {
        return false;
    }
    return slurm_conf.job_requeue == 0 || has_word(job.details->submit_line, "--requeue");
}

bool refuses_requeue(const job_record_t& job) {
    return job.details != nullptr && job.details->requeue == 0 &&
           (slurm_conf.job_requeue != 0 || has_word(job.details->submit_line, "--no-requeue"));
}

// What the job holds: per node in the order of its node bitmap, as Slurm's arrays are.
void read_holdings(const job_record_t& job, HostJob& out) {
    const job_resources* resources = job.job_resrcs;
    if (resources == nullptr || resources->node_bitmap == nullptr) {
        return;
    }
    const bitoff_t size = bit_size(resources->node_bitmap);
    std::uint32_t member = 0;
    for (bitoff_t i = 0; i < size && member < resources->nhosts; ++i) {
        if (bit_test(resources->node_bitmap, i) == 0) {
            continue;
        }
        NodeShare share;
        share.node = static_cast<NodeIndex>(i);
        share.cpus = resources->cpus != nullptr ? resources->cpus[member] : 0;
        share.memory_mib =
            resources->memory_allocated != nullptr ? known(resources->memory_allocated[member]) : 0;
        out.held_cpus += share.cpus;
        out.where.push_back(share);
        ++member;
    }
    for_each_in<gres_state_t>(job.gres_list_alloc, [&](gres_state_t& gres) {
        if (!is_gpu(gres)) {
            return;
        }
        const auto& gpus = *static_cast<const gres_job_state_t*>(gres.gres_data);
        std::int64_t count = 0;
        if (gpus.gres_cnt_node_alloc != nullptr) {
            for (std::uint32_t i = 0; i < gpus.node_cnt && i < out.where.size(); ++i) {
                const std::int64_t here = known(gpus.gres_cnt_node_alloc[i]);
                out.where[i].gpus += here;
                count += here;
            }
        }
        if (count == 0) {
            return;
        }
        const std::string type = text_of(gpus.type_name);
        const auto same = std::find_if(out.held_gpus.begin(), out.held_gpus.end(),
                                       [&](const auto& entry) { return entry.first == type; });
        if (same != out.held_gpus.end()) {
            same->second += count;
        } else {
            out.held_gpus.emplace_back(type, count);
        }
    });
}

}  // namespace

GpuRequest requested_gpus(const job_record_t& job, std::int64_t nodes) {
    GpuRequest out;
    const job_details* details = job.details;
    if (details == nullptr) {
        return out;
    }
    std::int64_t tasks = known(details->num_tasks);
    if (tasks == 0) {
        tasks = std::max<std::int64_t>(1, known(details->ntasks_per_node)) * nodes;
    }
    std::int64_t sockets = 1;
    if (details->mc_ptr != nullptr) {
        sockets = std::max<std::int64_t>(1, known(details->mc_ptr->sockets_per_node));
    }
    bool several_types = false;
    for_each_in<gres_state_t>(job.gres_list_req, [&](gres_state_t& gres) {
        if (!is_gpu(gres)) {
            return;
        }
        const auto& want = *static_cast<const gres_job_state_t*>(gres.gres_data);
        std::int64_t count = 0;
        if (want.gres_per_job != 0) {
            count = known(want.gres_per_job);
        } else if (want.gres_per_node != 0) {
            count = known(want.gres_per_node) * nodes;
        } else if (want.gres_per_task != 0) {
            count = known(want.gres_per_task) * tasks;
        } else if (want.gres_per_socket != 0) {
            count = known(want.gres_per_socket) * sockets * nodes;
        }
        out.gpus += count;
        const std::string type = text_of(want.type_name);
        several_types = several_types || (!out.type.empty() && !type.empty() && type != out.type);
        if (!type.empty()) {
            out.type = type;
        }
        out.cpus_per_gpu =
            std::max(out.cpus_per_gpu, want.cpus_per_gres != 0 ? known(want.cpus_per_gres)
                                                               : known(want.def_cpus_per_gres));
        out.memory_mib_per_gpu =
            std::max(out.memory_mib_per_gpu, want.mem_per_gres != 0 ? known(want.mem_per_gres)
                                                                    : known(want.def_mem_per_gres));
    });
    if (several_types) {
        out.type.clear();
    }
    return out;
}

JobShape requested_shape(const job_record_t& job, const SetSummary& set) {
    JobShape shape;
    const job_details* details = job.details;
    if (details == nullptr) {
        return shape;
    }
    std::int64_t nodes = std::max<std::int64_t>(1, known(details->min_nodes));
    const std::int64_t max_nodes =
        known(details->max_nodes) != 0 ? known(details->max_nodes) : INT32_MAX;
    const std::int64_t min_cpus =
        std::max<std::int64_t>(1, known(details->orig_min_cpus) != 0 ? known(details->orig_min_cpus)
                                                                     : known(details->min_cpus));
    const GpuRequest gpus = requested_gpus(job, nodes);
    // --gpus=16 or -n 100 without -N spread over as few nodes as hold them.
    nodes = std::max({nodes, set.most_gpus > 0 ? divide_up(gpus.gpus, set.most_gpus) : 1,
                      set.most_cpus > 0 ? divide_up(min_cpus, set.most_cpus) : 1});
    nodes = std::max<std::int64_t>(std::min(nodes, max_nodes), known(details->min_nodes));
    shape.nodes = static_cast<std::uint32_t>(std::max<std::int64_t>(1, nodes));
    shape.gpus = gpus.gpus;
    shape.gpu_type = gpus.type;
    shape.exclusive = details->whole_node == WHOLE_NODE_REQUIRED ||
                      (job.part_ptr != nullptr && job.part_ptr->max_share == 0);
    if (shape.exclusive) {
        // Whole nodes come with all their GPUs, asked for or not.
        shape.gpus = std::max(shape.gpus, set.fewest_gpus * shape.nodes);
    }
    const std::int64_t most_gpus_here = shape.gpus_on(0);
    shape.cpus_per_node = std::max({divide_up(min_cpus, shape.nodes), known(details->pn_min_cpus),
                                    gpus.cpus_per_gpu * most_gpus_here});
    if ((slurm_conf.select_type_param & (CR_CORE | CR_SOCKET)) != 0 && set.most_threads > 1) {
        shape.cpus_per_node = divide_up(shape.cpus_per_node, set.most_threads) * set.most_threads;
    }
    if ((slurm_conf.select_type_param & CR_MEMORY) != 0) {
        const std::uint64_t asked = details->pn_min_memory;
        if ((asked & MEM_PER_CPU) != 0) {
            shape.memory_mib_per_node =
                static_cast<std::int64_t>(asked & ~MEM_PER_CPU) * shape.cpus_per_node;
        } else if (asked != 0 && asked != NO_VAL64) {
            shape.memory_mib_per_node = static_cast<std::int64_t>(asked);
        } else if (gpus.memory_mib_per_gpu != 0) {
            shape.memory_mib_per_node = gpus.memory_mib_per_gpu * most_gpus_here;
        } else {
            shape.memory_mib_per_node = set.fewest_memory_mib;  // none said: all of the node
        }
    }
    return shape;
}

StartBlock start_block(const job_record_t& job, std::int64_t now) {
    // slurmctld sets the priority to 0 as well where it finds a job non-runnable.
    if (job.state_reason == FAIL_BAD_CONSTRAINTS) {
        return StartBlock::impossible;
    }
    if (job.priority == 0) {
        return StartBlock::held;
    }
    if ((job.bit_flags & JOB_DEPENDENT) != 0 || job.state_reason == WAIT_DEPENDENCY ||
        job.state_reason == WAIT_DEP_INVALID) {
        return StartBlock::dependency;
    }
    if (own_begin_time(job) > now) {
        return StartBlock::begin_time;
    }
    const std::uint32_t reason = job.state_reason;
    const bool by_limit = (reason >= WAIT_PART_NODE_LIMIT && reason <= WAIT_PART_INACTIVE) ||
                          (reason >= WAIT_LICENSES && reason <= WAIT_RESERVATION) ||
                          (reason >= FAIL_ACCOUNT && reason <= WAIT_QOS_TIME_LIMIT) ||
                          reason == WAIT_QOS || reason == WAIT_ACCOUNT ||
                          reason == FAIL_DOWN_PARTITION ||
                          (reason >= WAIT_QOS_GRP_CPU && reason <= WAIT_ASSOC_MAX_SUB_JOB) ||
                          reason == WAIT_ARRAY_TASK_LIMIT || reason == WAIT_BURST_BUFFER_RESOURCE ||
                          reason == WAIT_BURST_BUFFER_STAGING ||
                          (reason >= WAIT_ASSOC_GRP_UNK && reason <= WAIT_QOS_MIN_BB) ||
                          (reason >= WAIT_QOS_MAX_BB_PER_ACCT && reason <= WAIT_FED_JOB_LOCK) ||
                          (reason >= WAIT_PN_MEM_LIMIT && reason <= WAIT_RESV_DELETED);
    return by_limit ? StartBlock::limit : StartBlock::none;
}

std::vector<std::string> contract_entries(const job_record_t& job) {
    std::vector<std::string> out;
    for (std::uint32_t i = 0; i < job.spank_job_env_size; ++i) {
        const char* entry = job.spank_job_env[i];
        if (entry != nullptr && std::string_view(entry).starts_with(kSpankOptionPrefix)) {
            out.emplace_back(entry);
        }
    }
    return out;
}

std::vector<std::string> partition_names(const job_record_t& job) {
    std::vector<std::string> out;
    for_each_in<part_record_t>(job.part_ptr_list, [&](part_record_t& partition) {
        out.push_back(text_of(partition.name));
    });
    if (out.empty()) {
        out.push_back(text_of(job.part_ptr != nullptr ? job.part_ptr->name : job.partition));
    }
    return out;
}

bool is_spared(const job_record_t& job) {
    return job.part_ptr != nullptr && job.part_ptr->preempt_mode == PREEMPT_MODE_OFF;
}

bool is_array_record(const job_record_t& job) {
    return job.array_recs != nullptr && job.array_task_id == NO_VAL &&
           job.array_recs->task_id_bitmap != nullptr;
}

bool is_het_component(const job_record_t& job) {
    return job.het_job_id != 0 && job.het_job_list == nullptr;
}

void read_job(const job_record_t& job, NodeSets& sets, std::int64_t now, HostJob& out) {
    const job_details* details = job.details;
    out.id = job.job_id;
    out.array_job_id = job.array_job_id;
    if (job.array_task_id != NO_VAL) {
        out.array_task = job.array_task_id;
    }
    if (is_array_record(job)) {
        out.array_tasks_pending = job.array_recs->task_cnt;
        char* tasks = bit_fmt_full(job.array_recs->task_id_bitmap);
        out.array_tasks = text_of(tasks);
        xfree(tasks);
    }
    out.het_job_id = job.het_job_id;
    out.het_offset = job.het_job_offset;
    out.name = text_of(job.name);
    out.account = text_of(job.account);
    out.user = text_of(job.user_name);
    out.partitions = partition_names(job);
    out.uid = job.user_id;
    out.state = state_of(job);
    out.end = end_of(job);
    out.priority = job.priority;
    out.restarts = job.restart_cnt;
    out.admin_priority = job.direct_set_prio != 0;
    out.batch = job.batch_flag != 0;
    out.start_at = job.start_time;
    out.end_at = job.end_time;
    out.suspended_seconds = job.tot_sus_time;
    if (out.state == HostJobState::suspended) {
        out.suspended_at = job.suspend_time;
    }
    out.time_limit_seconds = limit_seconds(job);
    out.time_min_seconds = known(job.time_min) * kSecondsAMinute;
    out.host_reason = text_of(job_reason_string(static_cast<job_state_reason>(job.state_reason)));
    if (is_held_back(job)) {
        out.host_reason = text_of(job_reason_string(WAIT_NO_REASON));
    }
    if (details != nullptr) {
        out.submit_at = details->submit_time;
        out.eligible_at = own_begin_time(job);
        out.nice =
            static_cast<std::int64_t>(details->nice) - static_cast<std::int64_t>(NICE_OFFSET);
        out.requeue = details->requeue != 0 && out.batch;
    }
    out.contract_entries = contract_entries(job);
    // Where a contract is stored it has been thought of; else the line that was typed must tell.
    out.explicit_requeue = out.contract_entries.empty() && asked_for_requeue(job);
    out.refuses_requeue = refuses_requeue(job);
    out.wants_notices = (job.mail_type & (MAIL_JOB_END | MAIL_JOB_REQUEUE)) != 0;
    if (out.wants_notices) {
        out.mail_user = text_of(job.mail_user);
    }
    const std::uint32_t set = sets.of(job);
    out.shape = requested_shape(job, sets.summary(set));
    out.shape.node_set = set;
    if (out.state == HostJobState::pending) {
        out.block = start_block(job, now);
        out.start_at = 0;
        out.end_at = 0;
    } else if (out.state != HostJobState::finished) {
        read_holdings(job, out);
    }
    out.governed = false;
    if (out.state != HostJobState::pending && job.part_ptr != nullptr) {
        // Of several partitions the one that it runs on.
        out.partitions = {text_of(job.part_ptr->name)};
        out.governed = sets.has_gpus(*job.part_ptr);
        out.spared = is_spared(job);
    } else if (job.part_ptr_list != nullptr) {
        for_each_in<part_record_t>(job.part_ptr_list, [&](part_record_t& partition) {
            out.governed = out.governed || sets.has_gpus(partition);
        });
    } else if (job.part_ptr != nullptr) {
        out.governed = sets.has_gpus(*job.part_ptr);
    }
    out.partition = out.partitions.front();
}

}  // namespace tranche
