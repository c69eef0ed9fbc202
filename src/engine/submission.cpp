// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/submission.hpp"

#include <algorithm>
#include <limits>

#include "common/config/submission_message.hpp"
#include "common/config/time_format.hpp"
#include "common/units/wide_int.hpp"

namespace tranche {

namespace {

SubmissionVerdict refusal(const std::string& text) {
    SubmissionVerdict verdict;
    verdict.accepted = false;
    verdict.message = text;
    return verdict;
}

// What the job costs while it runs, in thousandths of a plain GPU.
std::int64_t weight_milli(const SubmissionView& view, const Settings& settings) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
    Int128 sum = Int128{view.cpus} * settings.cpu_weight_milli();
    for (const RequestedGpus& gpus : view.gpus) {
        sum += Int128{gpus.count} * settings.gpu_weight_milli(gpus.type);
    }
    return sum > kMost ? kMost : static_cast<std::int64_t>(sum);
}

ContractCircumstances circumstances_of(const SubmissionView& view) {
    ContractCircumstances circumstances;
    circumstances.interactive = view.interactive;
    circumstances.requeue = view.requeue;
    circumstances.time_limit_seconds = view.time_limit_seconds;
    circumstances.time_min_seconds = view.time_min_seconds;
    return circumstances;
}

// Slurm requeues all components of a heterogeneous job or none.
Result<bool> requeued_with_leader(const SubmissionView& view, const ContractRequest& request) {
    if (!view.follows_leader || view.interactive || !view.leader_resumable) {
        return false;
    }
    const bool leader = *view.leader_resumable;
    const bool says_so = request.resumable && request.resumable->value == "yes";
    if (says_so && !leader) {
        return Error{request.resumable->said_by +
                     " of a later component: a heterogeneous job is requeued as a whole; say it "
                     "for the first component"};
    }
    if (leader && view.requeue == false) {
        return Error{
            "--no-requeue of a later component: the first one is resumable, and a heterogeneous "
            "job is requeued as a whole; leave one of them out"};
    }
    return leader;
}

std::int64_t cost_milli_hours(std::int64_t weight, std::int64_t seconds) {
    constexpr Int128 kMost = std::numeric_limits<std::int64_t>::max() / 2;
    const Int128 cost = (Int128{weight} * seconds + 1800) / 3600;
    return static_cast<std::int64_t>(std::min(cost, kMost));
}

}  // namespace

std::int64_t SubmissionView::gpu_count() const noexcept {
    std::int64_t count = 0;
    for (const RequestedGpus& one : gpus) {
        count += one.count;
    }
    return count;
}

namespace {

SubmissionVerdict decide(const SubmissionView& view, const SubmissionContext& context) {
    const auto request = read_request(view.spank_entries, view.script, view.environment);
    if (!request) {
        return refusal(request.error());
    }
    ContractCircumstances circumstances = circumstances_of(view);
    if (context.settings == nullptr) {
        const Status sound = check_request(*request, circumstances);
        return sound.ok() ? SubmissionVerdict{} : refusal(sound.error());
    }

    const bool says_terms = request->min_runtime || request->contract;
    const auto with_leader = requeued_with_leader(view, *request);
    if (!with_leader) {
        return refusal(with_leader.error());
    }
    if (view.follows_leader && !says_terms) {
        const Status sound = check_request(*request, circumstances);
        if (!sound.ok()) {
            return refusal(sound.error());
        }
        SubmissionVerdict silent;
        silent.sets_requeue = *with_leader;
        return silent;
    }

    const Settings& settings = *context.settings;
    const std::int64_t weight = weight_milli(view, settings);
    circumstances.costs_something = view.under_contract && weight > 0;
    auto terms = resolve_terms(*request, settings, circumstances);
    std::string refused_later;
    if (!terms && settings.dry_run && settings.require_min_runtime) {
        // A rehearsal refuses nobody for a line that no script has yet.
        Settings kind = settings;
        kind.require_min_runtime = false;
        if (auto without = resolve_terms(*request, kind, circumstances); without) {
            refused_later = terms.error();
            terms = std::move(without);
        }
    }
    if (!terms) {
        return refusal(terms.error());
    }
    terms->resumable = terms->resumable || *with_leader;

    SubmissionVerdict verdict;
    verdict.terms = *terms;
    const bool says_anything = says_terms || request->resumable || request->team_priority ||
                               request->budget || request->free_first;
    verdict.rewrites_spank_entries = view.under_contract || says_anything;
    if (verdict.rewrites_spank_entries) {
        verdict.spank_entries = store_terms(view.spank_entries, *terms);
    }
    verdict.sets_requeue = terms->resumable;

    SubmissionNumbers numbers;
    numbers.terms = *terms;
    numbers.under_contract = view.under_contract;
    numbers.costs_something = weight > 0;
    numbers.array = view.array;
    numbers.window_seconds = settings.lookback_window_seconds;
    numbers.sets_priority = view.sets_priority;
    numbers.sets_nice = view.sets_nice;
    numbers.fixed_priority = view.fixed_priority;
    numbers.held = view.held;
    if (context.budgets == nullptr) {
        return verdict;
    }
    StandingQuestion question;
    question.account = view.account;
    question.user_name = view.user_name;
    question.requested_budget = terms->budget;
    question.gpus = view.gpu_count();
    question.nodes = view.nodes;
    question.weight_milli = view.under_contract ? weight : 0;
    question.min_runtime_seconds = terms->min_runtime_seconds;
    question.team_priority = terms->team_priority;
    const auto standing = context.budgets->resolve(question);
    if (!standing) {
        return refusal(standing.error());
    }
    numbers.cost_milli_hours = cost_milli_hours(weight, terms->min_runtime_seconds);
    numbers.budget = standing->name;
    numbers.funded = standing->funded;
    numbers.used_milli_hours = standing->charged_gpu_milli_hours;
    numbers.funded_milli_hours = standing->funded_gpu_milli_hours;
    numbers.ratio_milli = standing->ratio_milli;
    numbers.position = standing->position;
    numbers.queue_length = standing->queue_length;
    verdict.message = submission_message(numbers);
    if (settings.dry_run) {
        verdict.message += "; a rehearsal (DryRun=yes): nobody is preempted yet";
    }
    if (!refused_later.empty()) {
        verdict.message += "; later it will be refused: " + refused_later;
    }
    return verdict;
}

}  // namespace

SubmissionVerdict answer_submission(const SubmissionView& view, const SubmissionContext& context) {
    SubmissionVerdict verdict = decide(view, context);
    if (!verdict.accepted && view.follows_leader) {
        // sbatch prints it behind what the components before it were told.
        verdict.message = "the whole job is refused: " + verdict.message;
    }
    return verdict;
}

Status check_modification(const ModificationView& view) {
    const auto terms = parse_stored_terms(view.spank_entries);
    if (!terms) {
        return {};
    }
    if (view.new_requeue == false && terms->resumable) {
        return Error{
            "Requeue=0: the job is resumable, it is requeued when its contract is over; submit it "
            "anew without --resumable to have it ended instead"};
    }
    const std::string minimum = format_duration(terms->min_runtime_seconds);
    if (view.new_time_limit_seconds && *view.new_time_limit_seconds < terms->min_runtime_seconds) {
        return Error{"TimeLimit=" + format_time_span(*view.new_time_limit_seconds) +
                     " is below the job's minimum runtime of " + minimum +
                     ": set a limit of at least that"};
    }
    if (view.new_time_min_seconds && *view.new_time_min_seconds < terms->min_runtime_seconds) {
        return Error{"TimeMin=" + format_time_span(*view.new_time_min_seconds) +
                     " is below the job's minimum runtime of " + minimum + ": set at least that"};
    }
    return {};
}

}  // namespace tranche
