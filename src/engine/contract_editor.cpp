// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/contract_editor.hpp"

#include <algorithm>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "common/policy/preemption.hpp"
#include "engine/job_tracker.hpp"
#include "engine/plan_keeper.hpp"
#include "engine/real_clock.hpp"

namespace tranche {

class ContractEditor::Question {
  public:
    Question(Actor who, ContractQuestion what) : actor(std::move(who)), asked(std::move(what)) {}

    const Actor actor;
    const ContractQuestion asked;
    Alarm answered;
    // Guarded by the editor's mutex.
    std::optional<Result<ContractOutcome>> answer;
};

namespace {

constexpr std::size_t kMostWaiting = 1000;
constexpr std::size_t kMostNotes = 20;

bool runs(const HostJob& job) {
    return job.state == HostJobState::running || job.state == HostJobState::configuring ||
           job.state == HostJobState::suspended;
}

std::string name_of(const HostJob& job) {
    if (job.array_job_id != 0 && job.array_task != kNoTask) {
        return to_text(JobName{job.array_job_id, job.array_task, -1});
    }
    if (!job.array_tasks.empty()) {
        return std::to_string(job.array_job_id) + "_[" + job.array_tasks + "]";
    }
    return std::to_string(job.id);
}

// All records that the name stands for; those of a heterogeneous job always together: it has one
// contract.
std::vector<const HostJob*> jobs_named(const HostSnapshot& snapshot, const JobName& name) {
    std::vector<const HostJob*> found;
    std::uint32_t het_job = 0;
    for (const HostJob& job : snapshot.jobs) {
        bool meant = false;
        if (name.array_task >= 0) {
            meant = std::int64_t{job.array_job_id} == name.id &&
                    (std::int64_t{job.array_task} == name.array_task ||
                     list_holds(job.array_tasks, name.array_task));
        } else {
            meant = std::int64_t{job.id} == name.id || std::int64_t{job.array_job_id} == name.id ||
                    std::int64_t{job.het_job_id} == name.id;
        }
        if (meant) {
            het_job = std::max(het_job, job.het_job_id);
            found.push_back(&job);
        }
    }
    if (het_job != 0) {
        found.clear();
        for (const HostJob& job : snapshot.jobs) {
            if (job.het_job_id == het_job) {
                found.push_back(&job);
            }
        }
        std::sort(found.begin(), found.end(),
                  [](const HostJob* a, const HostJob* b) { return a->het_offset < b->het_offset; });
    }
    return found;
}

ContractTerms stored_terms(const HostJob& job, const Settings& settings) {
    const auto stored = parse_stored_terms(job.contract_entries);
    return stored ? *stored : default_terms(settings, !job.batch);
}

void note(ContractOutcome& outcome, std::string text) {
    if (outcome.notes.size() < kMostNotes &&
        std::find(outcome.notes.begin(), outcome.notes.end(), text) == outcome.notes.end()) {
        outcome.notes.push_back(std::move(text));
    }
}

// Whether the run that leaves for `claimant` may no longer be taken by it under its new terms.
bool is_saved(const EngineView* view, const PlanKeeper::Leaving& leaving, JobId victim,
              const ContractTerms& before, const ContractTerms& after, std::int64_t now) {
    const JobCard* card = view == nullptr ? nullptr : view->card(victim);
    const JobCard* taker = view == nullptr ? nullptr : view->card(leaving.claimant);
    if (card == nullptr || card->run_index < 0 || taker == nullptr || taker->pending_index < 0) {
        return false;
    }
    Run run = view->view.runs[static_cast<std::size_t>(card->run_index)];
    run.state = RunState::running;
    run.resumable = run.resumable && after.resumable;
    run.team_priority = after.team_priority;
    if (run.kind == RunKind::allocated && run.protected_until != kNever) {
        run.protected_until += after.min_runtime_seconds - before.min_runtime_seconds;
    }
    const PendingJob& job = view->view.pending[static_cast<std::size_t>(taker->pending_index)];
    Claimant claimant;
    claimant.job = &job;
    claimant.priority = job.team_priority;
    claimant.express = leaving.express;
    const TakeVerdict verdict = may_take(claimant, {&run, run.team_priority}, view->standings,
                                         *view->settings, now, view->available_weight_milli);
    // Ratios that moved since the warning are no reason: only what the edit itself has changed.
    return !verdict.may && (verdict.reason == TakeReason::under_contract ||
                            verdict.reason == TakeReason::same_budget ||
                            verdict.reason == TakeReason::underfunded_and_final);
}

}  // namespace

std::shared_ptr<ContractEditor::Question> ContractEditor::post(const Actor& actor,
                                                               ContractQuestion question) {
    auto posted = std::make_shared<Question>(actor, std::move(question));
    const std::lock_guard lock(mutex_);
    if (!refusal_.empty() || waiting_.size() >= kMostWaiting) {
        posted->answer.emplace(Error{
            refusal_.empty() ? "too many changes wait already; try again in a moment" : refusal_});
    } else {
        waiting_.push_back(posted);
    }
    return posted;
}

Result<ContractOutcome> ContractEditor::wait(const std::shared_ptr<Question>& question,
                                             std::chrono::milliseconds patience) {
    const std::int64_t until = real_milliseconds() + patience.count();
    for (;;) {
        const std::int64_t rest = until - real_milliseconds();
        {
            const std::lock_guard lock(mutex_);
            if (question->answer) {
                return *question->answer;
            }
            if (rest <= 0) {
                const auto it = std::find(waiting_.begin(), waiting_.end(), question);
                if (it != waiting_.end()) {
                    waiting_.erase(it);
                    return Error{
                        "the controller is busy and nothing was changed; try again in a moment "
                        "(srank --health says more)"};
                }
            }
        }
        // Once it is taken up it will be answered.
        question->answered.wait_real(std::chrono::milliseconds(std::max<std::int64_t>(rest, 100)));
    }
}

void ContractEditor::refuse_all(const std::string& text) {
    const std::lock_guard lock(mutex_);
    refusal_ = text;
    for (const auto& question : waiting_) {
        question->answer.emplace(Error{text});
        question->answered.ring();
    }
    waiting_.clear();
}

void ContractEditor::answer_all(const Cycle& cycle, const std::string& refusal) {
    for (;;) {
        std::shared_ptr<Question> next;
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.empty()) {
                return;
            }
            next = waiting_.front();
            waiting_.pop_front();
        }
        Result<ContractOutcome> answer = Error{"an internal fault; the controller's log says more"};
        try {
            answer = refusal.empty() ? this->answer(cycle, next->actor, next->asked)
                                     : Result<ContractOutcome>(Error{refusal});
        } catch (...) {
            {
                const std::lock_guard lock(mutex_);
                next->answer.emplace(answer);
            }
            next->answered.ring();
            throw;
        }
        {
            const std::lock_guard lock(mutex_);
            next->answer.emplace(std::move(answer));
        }
        next->answered.ring();
    }
}

Result<ContractOutcome> ContractEditor::answer(const Cycle& cycle, const Actor& actor,
                                               const ContractQuestion& question) {
    const std::string name = "job " + to_text(question.job);
    const std::vector<const HostJob*> all = jobs_named(cycle.snapshot, question.job);
    if (all.empty()) {
        return Error{name + " is not known; the id of a job that waits or runs would be right"};
    }
    if (!actor.is_operator && all.front()->uid != actor.uid) {
        if (cycle.host.is_private("jobs")) {
            return Error{name + " is not known; the id of a job that waits or runs would be right"};
        }
        return Error{name + " is " + quoted(all.front()->user) +
                     "'s; its owner and operators may change it, not " + quoted(actor.user)};
    }
    std::vector<const HostJob*> jobs;
    for (const HostJob* job : all) {
        if (job->state == HostJobState::pending || runs(*job)) {
            jobs.push_back(job);
        }
    }
    if (jobs.empty()) {
        return Error{name + (all.front()->state == HostJobState::completing
                                 ? " is just ending; try again when it waits or runs"
                                 : " has ended")};
    }
    if (question.job.het_offset >= 0) {
        return Error{name + ": the components of a heterogeneous job share one contract; say job " +
                     std::to_string(question.job.id)};
    }
    if (std::none_of(jobs.begin(), jobs.end(), [](const HostJob* job) { return job->governed; })) {
        return Error{name + ": there are no contracts in partition " +
                     quoted(jobs.front()->partition) + ", so there is nothing to change"};
    }
    return question.checkpointed ? note_checkpoint(cycle, question, jobs)
                                 : change(cycle, actor, question, jobs);
}

Result<ContractOutcome> ContractEditor::note_checkpoint(const Cycle& cycle,
                                                        const ContractQuestion& question,
                                                        const std::vector<const HostJob*>& jobs) {
    ContractOutcome outcome;
    outcome.job = to_text(question.job);
    bool any = false;
    for (const HostJob* job : jobs) {
        if (!runs(*job)) {
            continue;
        }
        any = true;
        if (question.only_try) {
            continue;
        }
        outcome.applied =
            cycle.tracker.checkpointed(job->id, cycle.snapshot.now, cycle.out) || outcome.applied;
        if (!job->batch || !job->requeue || !stored_terms(*job, cycle.settings).resumable) {
            note(outcome, "job " + name_of(*job) +
                              " is not resumable: it would be ended all the same, not requeued");
        }
    }
    if (!any) {
        return Error{"job " + outcome.job + " does not run; a checkpoint is of a run"};
    }
    return outcome;
}

Result<ContractOutcome> ContractEditor::change(const Cycle& cycle, const Actor& actor,
                                               const ContractQuestion& question,
                                               const std::vector<const HostJob*>& jobs) {
    struct Target {
        const HostJob* job;
        ContractTerms before, after;
        std::optional<PlanKeeper::Leaving> leaving;
    };
    const std::string name = "job " + to_text(question.job);
    const bool het = jobs.front()->het_job_id != 0;
    ContractOutcome outcome;
    outcome.job = to_text(question.job);
    std::vector<Target> targets;
    std::string first_refusal;
    for (const HostJob* job : jobs) {
        if (het && job != jobs.front() && !parse_stored_terms(job->contract_entries)) {
            continue;  // inherits
        }
        EditedJob edited;
        edited.runs = runs(*job);
        edited.by_operator = actor.is_operator;
        edited.interactive = !jobs.front()->batch;
        edited.refuses_requeue = job->refuses_requeue;
        if (job->time_limit_seconds != kNever) {
            edited.time_limit_seconds = job->time_limit_seconds;
        }
        if (job->time_min_seconds > 0) {
            edited.time_min_seconds = job->time_min_seconds;
        }
        Target target{job, stored_terms(*job, cycle.settings), {}, {}};
        const auto after = edited_terms(target.before, question.edit, edited, cycle.settings);
        if (!after.ok()) {
            const std::string text = "job " + name_of(*job) + ": " + after.error();
            if (het) {
                return Error{text};
            }
            first_refusal = first_refusal.empty() ? text : first_refusal;
            note(outcome, text);
            continue;
        }
        target.after = *after;
        const auto changes = contract_changes(target.before, target.after);
        for (const ContractChange& change : changes) {
            if (std::find(outcome.changes.begin(), outcome.changes.end(), change) ==
                outcome.changes.end()) {
                outcome.changes.push_back(change);
            }
        }
        if (!changes.empty()) {
            targets.push_back(std::move(target));
        }
    }
    if (targets.empty() && !first_refusal.empty()) {
        return Error{first_refusal};
    }
    for (const Target& target : targets) {
        if (target.job->state != HostJobState::pending &&
            target.before.min_runtime_seconds != target.after.min_runtime_seconds) {
            note(outcome, "job " + name_of(*target.job) +
                              " runs: TRANCHE_MIN_RUNTIME and TRANCHE_PROTECTED_UNTIL in its "
                              "environment stay as they were at its start");
        }
    }
    if (question.only_try || targets.empty()) {
        return outcome;
    }

    std::vector<ContractWrite> writes;
    for (Target& target : targets) {
        ContractWrite write;
        write.id = target.job->id;
        write.submit_at = target.job->submit_at;
        write.runs = runs(*target.job);
        if (question.job.array_task >= 0 && target.job->array_task == kNoTask) {
            write.task = static_cast<std::uint32_t>(question.job.array_task);
        }
        write.entries = store_terms({}, target.after);
        write.requeue = target.after.resumable;
        if (write.runs) {
            target.leaving = cycle.plans.leaving(target.job->id);
            write.takes_warning_back = target.leaving &&
                                       protects_more(target.before, target.after) &&
                                       is_saved(cycle.before, *target.leaving, target.job->id,
                                                target.before, target.after, cycle.snapshot.now);
            if (!write.takes_warning_back) {
                target.leaving.reset();
            }
        }
        writes.push_back(std::move(write));
    }
    if (const Status status = cycle.host.write_contracts(writes); !status.ok()) {
        return Error{name + ": " + status.error()};
    }
    for (const Target& target : targets) {
        cycle.tracker.change_contract(*target.job, target.before, target.after, cycle.snapshot.now,
                                      cycle.ledger, cycle.out);
        if (target.leaving) {
            cycle.plans.save(target.job->id, cycle.snapshot, cycle.out);
            note(outcome, "job " + name_of(*target.job) + " stays: its warning is taken back");
        }
        // What was decided for a smaller promise, or for an allocated job, does not hold for this.
        if (target.job->state == HostJobState::pending &&
            (target.after.min_runtime_seconds > target.before.min_runtime_seconds ||
             target.after.min_runtime_seconds == 0)) {
            cycle.plans.drop(target.job->id, cycle.snapshot, cycle.out);
        }
    }
    last_number_ = std::max(last_number_ + 1, cycle.snapshot.now * 1000);
    ContractEditRow row;
    row.number = last_number_;
    row.at = cycle.snapshot.now;
    row.user = actor.user;
    row.job = static_cast<JobId>(question.job.id);
    row.job_name = outcome.job;
    row.owner = jobs.front()->user;
    row.reason = question.reason;
    row.changes = outcome.changes;
    cycle.out.contract_edits.push_back(std::move(row));
    std::string what;
    for (const ContractChange& change : outcome.changes) {
        what +=
            (what.empty() ? "" : ", ") + change.field + " " + change.before + " -> " + change.after;
    }
    cycle.host.log(Host::LogLevel::info,
                   "contract of " + name + ": " + what + " by " + quoted(actor.user));
    outcome.applied = true;
    return outcome;
}

}  // namespace tranche
