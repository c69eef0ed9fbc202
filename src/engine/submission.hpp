// SPDX-License-Identifier: GPL-2.0-or-later
// The answer to a submission: what contract it gets, what it is told, or why it is refused.
//
// Pure functions of their arguments; any thread. They never throw for what a user can send, only
// for a broken invariant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/contract_request.hpp"
#include "common/config/gpu_request.hpp"
#include "common/config/settings.hpp"

namespace tranche {

// A submission as the controller received it, in plain values.
struct SubmissionView {
    std::uint32_t user_id = 0;
    std::string user_name;
    std::string account;
    bool under_contract = true;       // goes to a partition that Partitions= covers
    std::vector<RequestedGpus> gpus;  // of the whole job
    std::int64_t cpus = 1;
    std::int64_t nodes = 1;
    std::optional<std::int64_t> time_limit_seconds;  // the partition's default filled in
    std::optional<std::int64_t> time_min_seconds;
    std::int64_t begin_at = 0;  // 0: at once
    bool interactive = false;   // salloc or srun; sbatch sends only a first component's script
    bool array = false;         // the numbers are those of one task
    // A later component of a heterogeneous job, which inherits the contract where it says nothing.
    bool follows_leader = false;
    // Of a later component: whether the first one is resumable; nullopt: not known. A heterogeneous
    // job is requeued as a whole.
    std::optional<bool> leader_resumable;
    std::optional<bool> requeue;  // --requeue or --no-requeue, nullopt: neither
    bool sets_priority = false;   // --priority, which Slurm ignored
    bool sets_nice = false;       // --nice
    bool fixed_priority = false;  // --priority of an operator: Slurm keeps that number
    bool held = false;            // --hold
    std::vector<std::string> spank_entries;
    std::string script;
    std::vector<std::string> environment;

    std::int64_t gpu_count() const noexcept;
};

// What the lookup is asked.
struct StandingQuestion {
    std::string account;
    std::string user_name;
    std::string requested_budget;  // empty: the one that matches
    std::int64_t gpus = 0;
    std::int64_t nodes = 1;
    std::int64_t weight_milli = 0;
    std::int64_t min_runtime_seconds = 0;
    TeamPriority team_priority = TeamPriority::normal;
};

// Where the budget stands that would pay.
struct BudgetStanding {
    std::string name;  // empty: no budget matches
    bool funded = false;
    std::int64_t charged_gpu_milli_hours = 0;  // plain, in the window
    std::int64_t funded_gpu_milli_hours = 0;
    std::optional<std::int64_t>
        ratio_milli;                // 1000 = used what was funded; nullopt: no entitlement
    std::int64_t queue_length = 0;  // this job included
    std::int64_t position = 0;      // 1 = next; 0 = not known
};

// The published state of budgets and queue; implemented by the engine over its snapshot.
class BudgetLookup {
  public:
    virtual ~BudgetLookup() = default;
    // The Error: the budget asked for does not exist or does not match this account and user.
    virtual Result<BudgetStanding> resolve(const StandingQuestion& question) const = 0;
};

// Nulls where no engine runs: then only the form of the request is checked.
struct SubmissionContext {
    const Settings* settings = nullptr;
    const BudgetLookup* budgets = nullptr;
};

struct SubmissionVerdict {
    bool accepted = true;
    std::string message;  // to the user, one line; empty: nothing to say
    bool rewrites_spank_entries = false;
    std::vector<std::string> spank_entries;  // valid if rewrites_spank_entries
    bool sets_requeue = false;               // a resumable job is requeued: Requeue=1
    ContractTerms terms;
};

SubmissionVerdict answer_submission(const SubmissionView& view, const SubmissionContext& context);

// A change to a waiting or running job that passed answer_submission() before.
struct ModificationView {
    std::vector<std::string> spank_entries;  // of the job as it is
    std::optional<std::int64_t> new_time_limit_seconds;
    std::optional<std::int64_t> new_time_min_seconds;
    std::optional<bool> new_requeue;
};

// Refuses what breaks the job's contract.
Status check_modification(const ModificationView& view);

}  // namespace tranche
