// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/budget_scheduler.hpp"

#include <algorithm>
#include <stdexcept>

#include "common/policy/classes.hpp"
#include "common/policy/explain.hpp"
#include "common/policy/ranking.hpp"
#include "common/report/explanation_text.hpp"
#include "sim/calendar.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

constexpr int kMostRounds = 100000;
constexpr std::uint32_t kPastIds = 3'000'000'000U;  // job ids of use before the begin

JobId id_of(JobIndex job) {
    return job + 1;
}
JobIndex index_of(JobId id) {
    return id - 1;
}

// Seconds of the workload as people's instants: "03:00" is three hours after its zero.
CalendarTime calendar_of(std::int64_t at) {
    const std::string text = format_calendar(at);  // 1970-01-01T03:00:00
    const auto number = [&text](std::size_t from, std::size_t count) {
        int value = 0;
        for (std::size_t i = from; i < from + count && i < text.size(); ++i) {
            value = value * 10 + (text[i] - '0');
        }
        return value;
    };
    return {number(0, 4), number(5, 2), number(8, 2), number(11, 2), number(14, 2), number(17, 2)};
}

}  // namespace

struct BudgetScheduler::JobNotes {
    BudgetId budget = kNoBudgetId;
    MemberId member = 0;
    JobId waits_for = 0;
    JobId leaving_for = 0;
    std::int64_t cap = kNever;  // on the protection of its next run
    std::int64_t contract = 0;  // of this run
    std::int64_t segment_at = 0;
    bool segment_open = false;
    bool express = false;
    bool wants_turn = false;
};

struct BudgetScheduler::LedgerStep {
    enum class What : std::uint8_t { tree, begin, end };
    What what = What::begin;
    RunKind kind = RunKind::unallocated;
    std::uint32_t run = 0;
    JobIndex job = 0;                      // tree: which of trees_
    std::int64_t begin_at = 0, until = 0;  // of the segment
    std::int64_t weight_milli = 0;
};

BudgetScheduler::BudgetScheduler(const SimState& state, const Settings& settings,
                                 const BudgetTree& tree, std::vector<PastUse> past,
                                 std::int64_t begin_at)
    : state_(state), settings_(settings), tree_(tree), past_(std::move(past)), begin_at_(begin_at) {
    trees_.push_back(tree_);
    notes_.resize(state_.jobs.size());
    open_ledger();
    for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
        place(j);
    }
}

BudgetScheduler::~BudgetScheduler() = default;

const char* BudgetScheduler::name() const {
    return settings_.policy == PolicyName::article ? "article" : "budget";
}

// The ledger.

void BudgetScheduler::open_ledger() {
    ledger_ = std::make_unique<UsageLedger>(
        UsageLedger::Rules{settings_.window(), settings_.max_min_runtime_seconds,
                           settings_.entitlement_history, settings_.sharing == Sharing::pooled});
    const std::int64_t for_ever = begin_at_ - 10 * settings_.lookback_window_seconds;
    ledger_->set_tree(for_ever, trees_.front());
    for (const SimJob& job : state_.jobs) {
        if (trees_.front().find(job.spec->budget) != nullptr) {
            ledger_->activate_own_side(for_ever, ledger_->budget_id(job.spec->budget));
        }
    }
    std::uint32_t id = kPastIds;
    for (const PastUse& use : past_) {
        Segment segment;
        segment.key = {id++, 0, use.from};
        segment.budget = use.budget;
        segment.user = use.user;
        segment.kind = use.kind;
        segment.weight_milli = use.gpus * settings_.gpu_weight_milli({});
        ledger_->begin(segment);
        ledger_->end(segment.key, use.to);
    }
}

void BudgetScheduler::rebuild_ledger() {
    open_ledger();
    for (const LedgerStep& step : steps_) {
        replay(step);
    }
    for (JobIndex j = 0; j < notes_.size(); ++j) {
        place(j);
    }
}

void BudgetScheduler::replay(const LedgerStep& step) {
    if (step.what == LedgerStep::What::tree) {
        ledger_->set_tree(step.begin_at, trees_[step.job]);
        return;
    }
    const SegmentKey key{id_of(step.job), step.run, step.begin_at};
    if (step.what == LedgerStep::What::end) {
        ledger_->end(key, step.until);
        return;
    }
    const WorkloadJob& spec = *state_.jobs[step.job].spec;
    ledger_->begin({key, spec.budget, spec.user, step.kind, step.weight_milli});
}

void BudgetScheduler::record(const LedgerStep& step) {
    steps_.push_back(step);
    replay(step);
}

void BudgetScheduler::begin_segment(JobIndex j) {
    const SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    notes.segment_at = job.segment_at;
    notes.segment_open = true;
    LedgerStep step;
    step.what = LedgerStep::What::begin;
    step.kind = job.kind;
    step.run = job.runs;
    step.job = j;
    step.begin_at = notes.segment_at;
    step.weight_milli = weight_of(job);
    record(step);
}

void BudgetScheduler::end_segment(JobIndex j, std::int64_t charged_until) {
    JobNotes& notes = notes_[j];
    if (!notes.segment_open) {
        return;
    }
    notes.segment_open = false;
    LedgerStep step;
    step.what = LedgerStep::What::end;
    step.run = state_.jobs[j].runs;
    step.job = j;
    step.begin_at = notes.segment_at;
    step.until = charged_until;
    record(step);
}

void BudgetScheduler::place(JobIndex j) {
    const WorkloadJob& spec = *state_.jobs[j].spec;
    JobNotes& notes = notes_[j];
    notes.budget = spec.budget.empty() ? kNoBudgetId : ledger_->budget_id(spec.budget);
    notes.member = ledger_->member_id(notes.budget, spec.user);
}

std::int64_t BudgetScheduler::weight_of(const SimJob& job) const {
    if (job.where.empty()) {
        return job.spec->gpus * settings_.gpu_weight_milli(job.spec->gpu_type);
    }
    std::int64_t sum = 0;
    for (const NodeShare& share : job.where) {
        sum += share.gpus * settings_.gpu_weight_milli(state_.cluster.nodes[share.node].gpu_type);
    }
    return sum;
}

// What it is told.

void BudgetScheduler::submitted(JobIndex j) {
    while (notes_.size() < state_.jobs.size()) {
        notes_.emplace_back();
        place(static_cast<JobIndex>(notes_.size() - 1));
    }
    pending_.insert(j);
}

void BudgetScheduler::left_queue(JobIndex j) {
    pending_.erase(j);
    drop_plan(j);
}

void BudgetScheduler::run_over(JobIndex j) {
    const SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    end_segment(j, job.charged_until);
    running_.erase(j);
    if (notes.express) {
        for (ExpressUse& use : express_) {
            if (use.user == job.spec->user && use.ended_at == 0 && use.started_at == job.began_at) {
                use.ended_at = std::max(job.charged_until, use.started_at + 1);
                break;
            }
        }
    }
    // It goes on when the job that it made room for has started; one that left is not waited for.
    notes.waits_for = 0;
    if (job.state == JobState::pending && notes.leaving_for != 0 &&
        state_.jobs[index_of(notes.leaving_for)].state == JobState::pending) {
        notes.waits_for = notes.leaving_for;
    }
    notes.leaving_for = 0;
    notes.express = notes.wants_turn = false;
}

void BudgetScheduler::changed(JobIndex j) {
    const SimJob& job = state_.jobs[j];
    const JobNotes& notes = notes_[j];
    if (job.suspended) {
        end_segment(j, job.charged_until);
    } else if (running_.contains(j) && !notes.segment_open) {
        begin_segment(j);
    }
}

void BudgetScheduler::node_changed(std::uint32_t) {
    // A plan whose nodes are gone is made anew.
    for (std::size_t i = 0; i < plans_.size();) {
        const bool stands = std::all_of(
            plans_[i].where.begin(), plans_[i].where.end(),
            [this](const NodeShare& share) { return state_.nodes[share.node].usable(); });
        if (stands) {
            ++i;
        } else {
            drop_plan(index_of(plans_[i].claimant));
        }
    }
}

void BudgetScheduler::drop_plan(JobIndex claimant) {
    std::erase_if(plans_, [&](const Plan& plan) { return plan.claimant == id_of(claimant); });
    for (const JobIndex j : pending_) {
        if (notes_[j].waits_for == id_of(claimant)) {
            notes_[j].waits_for = 0;
        }
    }
}

void BudgetScheduler::event(const WorkloadEvent& event) {
    if (event.kind == EventKind::restart) {
        rebuild_ledger();
        return;
    }
    auto tree = apply_tree_event(tree_, event);
    if (!tree.ok()) {
        return;
    }
    tree_ = std::move(*tree);
    trees_.push_back(tree_);
    LedgerStep step;
    step.what = LedgerStep::What::tree;
    step.job = static_cast<JobIndex>(trees_.size() - 1);
    step.begin_at = event.at;
    record(step);
}

// The pass.

PendingJob BudgetScheduler::pending_job(JobIndex j) const {
    const SimJob& job = state_.jobs[j];
    const WorkloadJob& spec = *job.spec;
    const JobNotes& notes = notes_[j];
    PendingJob pending;
    pending.id = id_of(j);
    pending.name = spec.id;
    pending.budget = notes.budget;
    pending.member = notes.member;
    pending.shape.nodes = job.nodes;
    pending.shape.gpus = spec.gpus;
    pending.shape.gpu_type = spec.gpu_type;
    pending.weight_milli = spec.gpus * settings_.gpu_weight_milli(spec.gpu_type);
    pending.min_runtime_seconds = job.min_runtime_seconds;
    pending.time_limit_seconds = spec.time_limit_seconds;
    pending.first_submit_at = job.first_submit_at;
    pending.protection_cap_seconds = notes.cap;
    pending.nice = spec.nice;
    pending.runs_before = job.runs;
    pending.team_priority = job.team_priority;
    pending.resumable = job.resumable;
    pending.interactive = spec.interactive;
    pending.free_first = spec.free_first;
    pending.waits_for = notes.waits_for;
    return pending;
}

Run BudgetScheduler::run_of(JobIndex j, std::int64_t now) const {
    const SimJob& job = state_.jobs[j];
    const JobNotes& notes = notes_[j];
    Run run;
    run.id = id_of(j);
    run.name = job.spec->id;
    run.budget = notes.budget;
    run.member = notes.member;
    run.kind = job.kind;
    run.state = job.state == JobState::leaving ? RunState::leaving
                : job.suspended                ? RunState::suspended
                : now < job.works_at           ? RunState::configuring
                                               : RunState::running;
    run.where = job.where;
    run.gpus = job.spec->gpus;
    run.weight_milli = weight_of(job);
    run.started_at = job.began_at;
    run.protected_until = job.protected_until;
    run.contract_seconds = job.suspended ? job.contract_left_seconds : notes.contract;
    run.time_limit_seconds = job.spec->time_limit_seconds;
    run.team_priority = job.team_priority;
    run.resumable = job.resumable;
    run.interactive = job.spec->interactive;
    run.express = notes.express;
    run.wants_turn = notes.wants_turn;
    run.first_submit_at = job.first_submit_at;
    run.leaving_for = notes.leaving_for;
    return run;
}

ClusterView BudgetScheduler::view(std::int64_t now) {
    ClusterView view;
    view.now = now;
    for (NodeIndex n = 0; n < state_.nodes.size(); ++n) {
        const SimNode& spec = state_.cluster.nodes[n];
        Node& node = view.nodes.emplace_back();
        node.name = spec.name;
        node.gpu_type = spec.gpu_type;
        node.gpus = spec.gpus;
        node.free_gpus = state_.nodes[n].free_gpus;
        node.usable = state_.nodes[n].usable();
    }
    view.node_sets.emplace_back(view.nodes.size(), true);
    view.plans = plans_;
    std::erase_if(express_, [&](const ExpressUse& use) {
        return use.ended_at != 0 && use.ended_at < now - 86400;
    });
    view.express_uses = express_;
    std::erase_if(evictions_, [&](std::int64_t at) { return at < now - 3600; });
    view.evictions_last_hour = static_cast<std::int64_t>(evictions_.size());
    for (const JobIndex j : pending_) {
        PendingJob pending = pending_job(j);
        const SimJob& job = state_.jobs[j];
        if (!job.spec->node.empty() && job.runs == 0 && job.nodes == 1) {
            for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
                if (view.nodes[n].name == job.spec->node) {
                    std::vector<bool> only(view.nodes.size(), false);
                    only[n] = true;
                    pending.shape.node_set = static_cast<std::uint32_t>(view.node_sets.size());
                    view.node_sets.push_back(std::move(only));
                }
            }
        }
        view.pending.push_back(std::move(pending));
    }
    for (const JobIndex j : running_) {
        if (notes_[j].wants_turn && state_.jobs[j].state == JobState::running) {
            PendingJob pending = pending_job(j);
            pending.runs_before = state_.jobs[j].runs;
            pending.turn_run = static_cast<std::int64_t>(view.runs.size());
            view.pending.push_back(std::move(pending));
        }
        view.runs.push_back(run_of(j, now));
    }
    return view;
}

void BudgetScheduler::follow(const ClusterView& view, const PassResult& result, std::int64_t now,
                             Orders& orders) {
    for (const StartDecision& decision : result.starts) {
        const PendingJob& pending = view.pending[decision.job];
        const JobIndex j = index_of(pending.id);
        JobNotes& notes = notes_[j];
        const bool allocated =
            is_allocated(pending, ledger_->standings(now).funded(pending.budget));
        notes.contract = pending.contract_seconds();
        notes.cap = kNever;
        notes.wants_turn = allocated && decision.as_free;
        notes.express = allocated && !decision.as_free && decision.express;
        notes.waits_for = 0;
        StartOrder order;
        order.job = j;
        order.where = decision.where;
        order.kind = allocated && !decision.as_free ? RunKind::allocated : RunKind::unallocated;
        order.contract_seconds = order.kind == RunKind::allocated ? notes.contract : 0;
        order.express = notes.express;
        orders.start(order);
        pending_.erase(j);
        running_.insert(j);
        drop_plan(j);
        begin_segment(j);
        if (notes.express) {
            const SimJob& job = state_.jobs[j];
            express_.push_back({job.spec->user, job.spec->gpus, now, 0, job.protected_until});
        }
    }
    for (const PlanDecision& decision : result.plans) {
        for (const VictimDecision& victim : decision.victims) {
            const Run& run = view.runs[victim.run];
            const JobIndex j = index_of(run.id);
            JobNotes& notes = notes_[j];
            notes.leaving_for = decision.plan.claimant;
            notes.wants_turn = false;
            if (decision.plan.express && settings_.express_victim_protection_seconds) {
                notes.cap = *settings_.express_victim_protection_seconds;
            }
            evictions_.push_back(now);
            LeaveOrder order;
            order.victim = j;
            order.claimant = index_of(decision.plan.claimant);
            order.grace_seconds = grace_seconds(run, settings_);
            order.inside_contract = run.under_contract(now);
            order.reason = to_text(victim.verdict.reason);
            orders.leave(order);
        }
        plans_.push_back(decision.plan);
    }
    for (const std::uint32_t index : result.turns) {
        const JobIndex j = index_of(view.runs[index].id);
        JobNotes& notes = notes_[j];
        end_segment(j, now);
        notes.wants_turn = false;
        notes.contract = state_.jobs[j].min_runtime_seconds;
        orders.turn(j, notes.contract);
        begin_segment(j);
    }
}

void BudgetScheduler::pass(std::int64_t now, Orders& orders) {
    for (int round = 0; round < kMostRounds; ++round) {
        ClusterView now_view = view(now);
        mark_impossible(now_view);
        Standings standings = ledger_->standings(now);
        add_commitments(standings, now_view, settings_);
        const auto ranking = rank_queue(now_view, standings, settings_);
        const PassResult result = run_pass(now_view, ranking, standings, settings_);
        if (on_pass) {
            on_pass(now_view, standings, result);
        }
        wake_at_ = result.wake_at;
        follow(now_view, result, now, orders);
        if (result.starts.empty() && result.plans.empty() && result.turns.empty()) {
            return;
        }
    }
    throw std::logic_error("the pass of second " + std::to_string(now) + " does not come to rest");
}

Standings BudgetScheduler::standings(std::int64_t now) {
    const ClusterView now_view = view(now);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, now_view, settings_);
    return standings;
}

std::vector<JobIndex> BudgetScheduler::ranked(std::int64_t now) {
    ClusterView now_view = view(now);
    mark_impossible(now_view);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, now_view, settings_);
    std::vector<JobIndex> jobs;
    for (const RankedEntry& entry : rank_queue(now_view, standings, settings_)) {
        if (now_view.pending[entry.job].turn_run < 0) {
            jobs.push_back(index_of(now_view.pending[entry.job].id));
        }
    }
    return jobs;
}

std::string BudgetScheduler::explain(JobIndex j, std::int64_t now) {
    ClusterView now_view = view(now);
    mark_impossible(now_view);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, now_view, settings_);
    const auto ranking = rank_queue(now_view, standings, settings_);
    std::int64_t available_milli = 0;
    for (const Node& node : now_view.nodes) {
        available_milli += node.usable ? node.gpus * settings_.gpu_weight_milli(node.gpu_type) : 0;
    }
    const ExplainInput input{now_view, ranking, standings, settings_, available_milli};
    const Moment moment{now, calendar_of};
    const std::string& name = state_.jobs[j].spec->id;
    for (std::uint32_t i = 0; i < now_view.pending.size(); ++i) {
        if (now_view.pending[i].id == id_of(j)) {
            const auto explanation = explain_pending(input, i);
            return explanation ? explanation_text(*explanation, moment, name) : std::string();
        }
    }
    for (std::uint32_t i = 0; i < now_view.runs.size(); ++i) {
        if (now_view.runs[i].id == id_of(j)) {
            return explanation_text(RunningExplainer(input).explain(i), moment, name);
        }
    }
    return {};
}

}  // namespace tranche::sim
