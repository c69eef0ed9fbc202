// SPDX-License-Identifier: GPL-2.0-or-later
// job_submit/contract: checks and completes what a submission asks of its contract, stores it with
// the job, and tells the user what was understood and what it costs.
//
// The decision is engine/submission's; here Slurm's records become plain values and back. Loaded in
// standby and with any priority plugin; without a running engine only the form of a request is
// checked.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/quoted.hpp"
#include "common/config/gpu_request.hpp"
#include "engine/budget_lookup.hpp"
#include "engine/engine.hpp"
#include "engine/submission.hpp"
#include "plugins/slurm/guarded.hpp"
#include "plugins/slurm/slurm_headers.hpp"

extern "C" {
#include "src/common/uid.h"

extern const char plugin_name[] = "Tranche: contracts of submitted jobs";
extern const char plugin_type[] = "job_submit/contract";
extern const uint32_t plugin_version = SLURM_VERSION_NUMBER;

int init(void);
int fini(void);
int job_submit(job_desc_msg_t* job, uint32_t submit_uid, char** err_msg);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
int job_modify(job_desc_msg_t* change, job_record_t* job, uint32_t submit_uid, char** err_msg);
#else
int job_modify(job_desc_msg_t* change, job_record_t* job, uint32_t submit_uid);
#endif
}

namespace {

using namespace tranche;

// Slurm prints its own words for the code in a second line.
constexpr int kRefused = ESLURM_ACCOUNTING_POLICY;
constexpr std::int64_t kMinute = 60;

// A count that may be "not said" in any of Slurm's ways.
template <typename Number>
std::int64_t count_of(Number value, Number not_said) {
    return value == not_said || value == static_cast<Number>(INFINITE)
               ? 0
               : static_cast<std::int64_t>(value);
}

// Minutes of Slurm in seconds; nullopt for NO_VAL and INFINITE.
std::optional<std::int64_t> limit_seconds(std::uint32_t minutes) {
    if (minutes == NO_VAL || minutes == INFINITE) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(minutes) * kMinute;
}

std::vector<std::string> texts_of(char** texts, std::uint32_t count) {
    std::vector<std::string> result;
    for (std::uint32_t i = 0; texts != nullptr && i < count; ++i) {
        result.push_back(text_of(texts[i]));
    }
    return result;
}

// --- where the job would go; callers hold read locks on partitions and nodes ---------------------

std::vector<const part_record_t*> partitions_of(const job_desc_msg_t& job) {
    std::vector<const part_record_t*> partitions;
    const std::string names = text_of(job.partition);
    if (names.empty()) {
        if (default_part_loc != nullptr) {
            partitions.push_back(default_part_loc);
        }
        return partitions;
    }
    std::string_view rest = names;
    while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        const std::string name(rest.substr(0, comma));
        if (const part_record_t* partition = find_part_record(mutable_text(name.c_str()))) {
            partitions.push_back(partition);
        }
        rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    return partitions;
}

// The GPUs of one node, by type.
std::vector<RequestedGpus> gpus_of(const node_record_t& node) {
    std::vector<RequestedGpus> gpus;
    for_each_in<gres_state_t>(node.gres_list, [&](gres_state_t& gres) {
        if (text_of(gres.gres_name) != "gpu") {
            return;
        }
        const auto& counts = *static_cast<const gres_node_state_t*>(gres.gres_data);
        std::int64_t total = counts.gres_cnt_avail == NO_VAL64
                                 ? 0
                                 : static_cast<std::int64_t>(counts.gres_cnt_avail);
        for (int i = 0; i < counts.type_cnt && total > 0; ++i) {
            const auto typed = std::min(total, static_cast<std::int64_t>(counts.type_cnt_avail[i]));
            if (typed > 0) {
                gpus.push_back({text_of(counts.type_name[i]), typed});
                total -= typed;
            }
        }
        if (total > 0) {
            gpus.push_back({"", total});
        }
    });
    return gpus;
}

// The GPUs of the first node of a partition that has any.
std::vector<RequestedGpus> gpus_of_a_node(const part_record_t& partition) {
    if (partition.node_bitmap == nullptr) {
        return {};
    }
    const bitoff_t size = bit_size(partition.node_bitmap);
    for (bitoff_t i = 0; i < size && i < node_record_count; ++i) {
        if (bit_test(partition.node_bitmap, i) && node_record_table_ptr[i] != nullptr) {
            auto gpus = gpus_of(*node_record_table_ptr[i]);
            if (!gpus.empty()) {
                return gpus;
            }
        }
    }
    return {};
}

bool is_governed(const part_record_t& partition, const Settings& settings) {
    if (settings.partitions.empty()) {
        return !gpus_of_a_node(partition).empty();
    }
    return std::find(settings.partitions.begin(), settings.partitions.end(),
                     text_of(partition.name)) != settings.partitions.end();
}

// The longest that one of the partitions gives a job without --time.
std::optional<std::int64_t> default_limit(const std::vector<const part_record_t*>& partitions) {
    std::int64_t longest = 0;
    for (const part_record_t* partition : partitions) {
        const auto limit = limit_seconds(partition->default_time != NO_VAL ? partition->default_time
                                                                           : partition->max_time);
        if (!limit) {
            return std::nullopt;
        }
        longest = std::max(longest, *limit);
    }
    if (partitions.empty()) {
        return std::nullopt;
    }
    return longest;
}

// --- the request ---------------------------------------------------------------------------------

GpuRequestStrings gpu_strings(const job_desc_msg_t& job,
                              const std::vector<const part_record_t*>& partitions) {
    GpuRequestStrings request;
    request.per_job = text_of(job.tres_per_job);
    request.per_node = text_of(job.tres_per_node);
    request.per_socket = text_of(job.tres_per_socket);
    request.per_task = text_of(job.tres_per_task);
    request.nodes = count_of<std::uint32_t>(job.min_nodes, NO_VAL);
    request.tasks = count_of<std::uint32_t>(job.num_tasks, NO_VAL);
    request.sockets_per_node = count_of<std::uint16_t>(job.sockets_per_node, NO_VAL16);
    request.tasks_per_node = count_of<std::uint16_t>(job.ntasks_per_node, NO_VAL16);
    request.tasks_per_gpu = count_of<std::uint16_t>(job.ntasks_per_tres, NO_VAL16);
    request.exclusive = job.shared == 0;
    for (const part_record_t* partition : partitions) {
        request.exclusive = request.exclusive || partition->max_share == 0;
        if (request.gpus_of_a_node.empty() && request.exclusive) {
            request.gpus_of_a_node = gpus_of_a_node(*partition);
        }
    }
    return request;
}

std::int64_t requested_cpus(const job_desc_msg_t& job) {
    const std::int64_t per_task =
        std::max<std::int64_t>(1, count_of<std::uint16_t>(job.cpus_per_task, NO_VAL16));
    const std::int64_t by_tasks = per_task * count_of<std::uint32_t>(job.num_tasks, NO_VAL);
    return std::max({std::int64_t{1}, by_tasks, count_of<std::uint32_t>(job.min_cpus, NO_VAL)});
}

// The account that pays; with accounting, the user's default where none is said. Takes the lock of
// the associations.
std::string account_of(const job_desc_msg_t& job) {
    if (job.account != nullptr && job.account[0] != '\0') {
        std::string account = job.account;
        for (char& character : account) {
            if (character >= 'A' && character <= 'Z') {
                character = static_cast<char>(character - 'A' + 'a');
            }
        }
        return account;
    }
    slurmdb_user_rec_t user = {};
    user.uid = job.user_id;
    if (assoc_mgr_fill_in_user(acct_db_conn, &user, accounting_enforce, nullptr, false) ==
        SLURM_ERROR) {
        return {};
    }
    return text_of(user.default_acct);
}

std::string name_of(std::uint32_t user_id) {
    char* name = uid_to_string_or_null(user_id);
    std::string text = text_of(name);
    xfree(name);
    return text.empty() ? std::to_string(user_id) : text;
}

// Slurm drops the priority of a user who is no operator before we see it.
bool said_priority(const job_desc_msg_t& job) {
    const std::string line = text_of(job.submit_line);
    return job.priority == NO_VAL &&
           (line.find(" --priority=") != std::string::npos ||
            line.find(" --priority ") != std::string::npos ||
            text_of(job.script).find("\n#SBATCH --priority") != std::string::npos);
}

// sbatch gives the script to the first component of a heterogeneous job only (sbatch.c, main), and
// the job's environment to each; salloc and srun send neither.
bool is_batch(const job_desc_msg_t& job) {
    return job.script != nullptr || job.env_size > 0;
}

bool is_later_component(const job_desc_msg_t& job) {
    return job.het_job_offset != NO_VAL && job.het_job_offset > 0;
}

SubmissionView view_of(const job_desc_msg_t& job, const Settings* settings) {
    const std::vector<const part_record_t*> partitions = partitions_of(job);
    const GpuRequestStrings request = gpu_strings(job, partitions);
    SubmissionView view;
    view.user_id = job.user_id;
    view.user_name = name_of(job.user_id);
    view.account = account_of(job);
    view.under_contract =
        settings == nullptr ||
        std::any_of(partitions.begin(), partitions.end(), [&](const part_record_t* partition) {
            return is_governed(*partition, *settings);
        });
    view.gpus = requested_gpus(request);
    view.cpus = requested_cpus(job);
    view.nodes = requested_nodes(request);
    view.time_limit_seconds =
        job.time_limit == NO_VAL ? default_limit(partitions) : limit_seconds(job.time_limit);
    if (job.time_min != 0) {
        view.time_min_seconds = limit_seconds(job.time_min);
    }
    view.begin_at = job.begin_time;
    view.interactive = !is_batch(job);
    view.array = job.array_inx != nullptr;
    view.follows_leader = is_later_component(job);
    if (job.requeue != NO_VAL16) {
        view.requeue = job.requeue != 0;
    }
    view.sets_priority = said_priority(job);
    view.fixed_priority = job.priority != NO_VAL && job.priority != 0;
    view.held = job.priority == 0;
    view.sets_nice = job.nice != NO_VAL && job.nice != NICE_OFFSET;
    view.spank_entries = texts_of(job.spank_job_env, job.spank_job_env_size);
    view.script = text_of(job.script);
    view.environment = texts_of(job.environment, job.env_size);
    return view;
}

// --- the answer ----------------------------------------------------------------------------------

void replace_spank_entries(job_desc_msg_t& job, const std::vector<std::string>& entries) {
    for (std::uint32_t i = 0; i < job.spank_job_env_size; ++i) {
        xfree(job.spank_job_env[i]);
    }
    xfree(job.spank_job_env);
    job.spank_job_env_size = static_cast<std::uint32_t>(entries.size());
    if (entries.empty()) {
        return;
    }
    job.spank_job_env = static_cast<char**>(xcalloc(entries.size() + 1, sizeof(char*)));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        job.spank_job_env[i] = xstrdup(entries[i].c_str());
    }
}

// A request in the environment is spent: jobs that this one submits do not inherit it.
void drop_request_variables(job_desc_msg_t& job) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; job.environment != nullptr && i < job.env_size; ++i) {
        char*& variable = job.environment[i];
        if (variable != nullptr &&
            std::string_view(variable).substr(0, kRequestVariablePrefix.size()) ==
                kRequestVariablePrefix) {
            xfree(variable);
            continue;
        }
        std::swap(job.environment[kept++], variable);
    }
    job.env_size = kept;
}

// Behind what another plugin of the list said.
void tell(char** err_msg, const std::string& text) {
    if (err_msg == nullptr || text.empty()) {
        return;
    }
    if (*err_msg != nullptr) {
        xstrfmtcat(*err_msg, "\n%s", text.c_str());
    } else {
        *err_msg = xstrdup(text.c_str());
    }
}

// Of the first component of the heterogeneous job whose components this thread is being given: one
// request's components come in their order, from one thread (proc_req.c).
thread_local std::optional<bool> leader_resumable;

int submit(job_desc_msg_t& job, char** err_msg) {
    if (!is_later_component(job)) {
        leader_resumable.reset();
    }
    const std::shared_ptr<const EngineView> state = Engine::instance().view();
    std::optional<ViewBudgetLookup> budgets;
    SubmissionContext context;
    if (state != nullptr) {
        context.settings = state->settings.get();
        budgets.emplace(*state);
        context.budgets = &*budgets;
    }
    SubmissionView view = view_of(job, context.settings);
    view.leader_resumable = leader_resumable;
    const SubmissionVerdict verdict = answer_submission(view, context);
    tell(err_msg, verdict.message);
    if (!verdict.accepted) {
        slurm_verbose("tranche: refused a job of uid %u: %s", job.user_id, verdict.message.c_str());
        return kRefused;
    }
    if (verdict.rewrites_spank_entries) {
        replace_spank_entries(job, verdict.spank_entries);
    }
    if (verdict.sets_requeue) {
        job.requeue = 1;
    }
    if (job.het_job_offset == 0 && context.settings != nullptr) {
        leader_resumable = verdict.terms.resumable;
    }
    drop_request_variables(job);
    return SLURM_SUCCESS;
}

int modify(const job_desc_msg_t& change, const job_record_t& job, char** err_msg) {
    ModificationView view;
    view.spank_entries = texts_of(job.spank_job_env, job.spank_job_env_size);
    view.new_time_limit_seconds = limit_seconds(change.time_limit);
    if (change.time_min != 0) {
        view.new_time_min_seconds = limit_seconds(change.time_min);
    }
    if (change.requeue != NO_VAL16) {
        view.new_requeue = change.requeue != 0;
    }
    const Status status = check_modification(view);
    if (status.ok()) {
        return SLURM_SUCCESS;
    }
    tell(err_msg, status.error());
    slurm_info("tranche: refused a change of JobId=%u: %s", job.job_id, status.error().c_str());
    return view.new_requeue == false ? ESLURM_NOT_SUPPORTED : ESLURM_INVALID_TIME_LIMIT;
}

}  // namespace

// No Slurm locks are held.
int init(void) {
    return SLURM_SUCCESS;
}

int fini(void) {
    return SLURM_SUCCESS;
}

// Read locks on configuration, jobs, nodes, partitions and federation are held (proc_req.c,
// 22.05.8: "Locks are for job_submit plugin use").
int job_submit(job_desc_msg_t* job, uint32_t, char** err_msg) {
    return guarded("job_submit", int{SLURM_SUCCESS}, [&] { return submit(*job, err_msg); });
}

// The job write lock and read locks on nodes, partitions and configuration are held (update_job).
// 22.05 has no message here: the text is in slurmctld's log.
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
int job_modify(job_desc_msg_t* change, job_record_t* job, uint32_t, char** err_msg) {
#else
int job_modify(job_desc_msg_t* change, job_record_t* job, uint32_t) {
    char** err_msg = nullptr;
#endif
    return guarded("job_modify", int{SLURM_SUCCESS},
                   [&] { return modify(*change, *job, err_msg); });
}
