// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/budget_scheduler.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "common/policy/classes.hpp"
#include "common/policy/explain.hpp"
#include "common/policy/outlook.hpp"
#include "common/policy/ranking.hpp"
#include "common/report/explanation_text.hpp"
#include "sim/calendar.hpp"
#include "sim/rule_switches.hpp"
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
    std::uint32_t pending_slot = kNoId, run_slot = kNoId, turn_slot = kNoId;
    std::int64_t turn_at = 0;
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

// A run whose nodes are booting.
struct BudgetScheduler::Boot {
    std::int64_t at;
    JobIndex job;
    std::uint32_t run;
    bool operator<(const Boot& other) const noexcept {  // the soonest on top of the heap
        return std::tie(at, job) > std::tie(other.at, other.job);
    }
};

BudgetScheduler::BudgetScheduler(const SimState& state, const Settings& settings,
                                 const BudgetTree& tree, std::vector<PastUse> past,
                                 std::int64_t begin_at)
    : state_(state), settings_(settings), tree_(tree), past_(std::move(past)), begin_at_(begin_at) {
    trees_.push_back(tree_);
    notes_.resize(state_.jobs.size());
    drain_started_at_.assign(state_.nodes.size(), 0);
    open_ledger();
    for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
        place(j);
    }
    open_book();
}

BudgetScheduler::~BudgetScheduler() = default;

const char* BudgetScheduler::name() const {
    return settings_.policy == PolicyName::article ? "article" : "budget";
}

// The ledger.

void BudgetScheduler::open_ledger() {
    ledger_ = std::make_unique<UsageLedger>(ledger_rules(settings_));
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

void BudgetScheduler::open_book() {
    std::vector<Node> nodes;
    for (NodeIndex n = 0; n < state_.nodes.size(); ++n) {
        const SimNode& spec = state_.cluster.nodes[n];
        Node& node = nodes.emplace_back();
        node.name = spec.name;
        node.gpu_type = spec.gpu_type;
        node.gpus = node.free_gpus = spec.gpus;
        node.usable = state_.nodes[n].usable();
        node.draining = drains_by_contract(state_.nodes[n]);
        node.drain_started_at = drain_started_at_[n];
    }
    book_ = std::make_unique<ClusterBook>(settings_, *ledger_, std::move(nodes));
    book_->advance(state_.now);
}

// The controller starts anew: what it knows is what the ledger and the cluster say.
void BudgetScheduler::restart() {
    const ClusterView before = book_->view();
    open_ledger();
    for (const LedgerStep& step : steps_) {
        replay(step);
    }
    for (JobIndex j = 0; j < notes_.size(); ++j) {
        place(j);
    }
    open_book();
    boots_.clear();
    for (std::size_t p = 0; p < before.plans.size(); ++p) {
        if (!settings_.has(Rule::plan_survives)) {
            break;
        }
        Plan plan = before.plans[p];
        const JobNotes& notes = notes_[index_of(plan.claimant)];
        plan.budget = notes.budget;
        plan.member = notes.member;
        book_->add_plan(std::move(plan), kNoId);
    }
    for (JobIndex j = 0; j < notes_.size(); ++j) {
        const JobState state = state_.jobs[j].state;
        notes_[j].pending_slot = notes_[j].run_slot = notes_[j].turn_slot = kNoId;
        if (state == JobState::pending) {
            add_pending(j);
        } else if (state == JobState::running || state == JobState::leaving) {
            add_run(j);
        }
    }
    for (const Assembly& assembly : before.assemblies) {
        book_->set_assembly(assembly);
    }
    for (const AssemblyGrant& grant : before.grants) {
        book_->add_grant(grant);
    }
    for (const ExpressUse& use : before.express_uses) {
        book_->add_express_use(use);
    }
    if (before.evictions_last_hour > 0) {
        book_->note_evictions(before.evictions_last_hour);
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
    step.kind = !settings_.has(Rule::free_costs_nothing)                 ? RunKind::allocated
                : notes.express && !settings_.has(Rule::express_charged) ? RunKind::unallocated
                                                                         : job.kind;
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
    const SimJob& job = state_.jobs[j];
    if (!settings_.has(Rule::charged_to_end) && job.kind == RunKind::allocated) {
        charged_until = std::min(charged_until, std::max(job.protected_until, notes.segment_at));
    }
    LedgerStep step;
    step.what = LedgerStep::What::end;
    step.run = job.runs;
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

void BudgetScheduler::sync() {
    if (book_->view().now != state_.now) {
        book_->advance(state_.now);
    }
}

void BudgetScheduler::submitted(JobIndex j) {
    sync();
    while (notes_.size() < state_.jobs.size()) {
        notes_.emplace_back();
        place(static_cast<JobIndex>(notes_.size() - 1));
    }
    add_pending(j);
}

void BudgetScheduler::add_pending(JobIndex j) {
    notes_[j].pending_slot = book_->add_pending(pending_job(j));
}

void BudgetScheduler::left_queue(JobIndex j) {
    sync();
    JobNotes& notes = notes_[j];
    if (notes.pending_slot != kNoId) {
        book_->remove_pending(notes.pending_slot);
        notes.pending_slot = kNoId;
    }
    if (settings_.has(Rule::plan_dropped)) {
        drop_plan(j);
    }
    book_->remove_assembly(id_of(j));
}

void BudgetScheduler::run_over(JobIndex j) {
    sync();
    const SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    end_segment(j, job.charged_until);
    remove_turn(j);
    book_->remove_run(notes.run_slot);
    notes.run_slot = kNoId;
    if (notes.express) {
        book_->end_express_use(job.spec->user, job.began_at,
                               std::max(job.charged_until, job.began_at + 1));
    }
    // It goes on when the job that it made room for has started; one that left is not waited for.
    notes.waits_for = 0;
    if (job.state == JobState::pending && notes.leaving_for != 0 &&
        settings_.has(Rule::claimant_first) &&
        state_.jobs[index_of(notes.leaving_for)].state == JobState::pending) {
        notes.waits_for = notes.leaving_for;
        waiting_[index_of(notes.leaving_for)].push_back(j);
    }
    notes.leaving_for = 0;
    notes.express = notes.wants_turn = false;
}

void BudgetScheduler::changed(JobIndex j) {
    sync();
    const SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    if (notes.pending_slot != kNoId) {
        book_->change_pending(notes.pending_slot, [&](PendingJob& pending) {
            pending.team_priority = priority_of(job);
        });
        return;
    }
    if (notes.run_slot == kNoId) {
        return;
    }
    if (job.suspended) {
        if (settings_.has(Rule::suspended_not_charged)) {
            end_segment(j, job.charged_until);
        }
    } else if (!notes.segment_open) {
        begin_segment(j);
    }
    book_->change_run(notes.run_slot, [&](Run& run) { run = run_of(j); });
    if (notes.turn_slot != kNoId) {
        book_->change_pending(notes.turn_slot, [&](PendingJob& pending) {
            pending.team_priority = priority_of(job);
        });
    }
}

bool BudgetScheduler::drains_by_contract(const SimNodeState& node) const {
    return node.draining && !node.down && matches_drain_reason(settings_, node.drain_reason);
}

void BudgetScheduler::node_changed(std::uint32_t n) {
    sync();
    const SimNodeState& node = state_.nodes[n];
    const bool drains = drains_by_contract(node);
    if (drains && !book_->view().nodes[n].draining) {
        drain_started_at_[n] = state_.now;
    }
    book_->change_node(n, node.usable(), drains, drain_started_at_[n]);
    // A plan whose nodes are gone is made anew.
    for (std::size_t p = 0; p < book_->view().plans.size();) {
        const Plan& plan = book_->view().plans[p];
        const bool stands = std::all_of(
            plan.where.begin(), plan.where.end(),
            [this](const NodeShare& share) { return state_.nodes[share.node].usable(); });
        if (stands) {
            ++p;
        } else {
            drop_plan(index_of(plan.claimant));
        }
    }
}

// Who was evicted for it may start again.
void BudgetScheduler::release_waiting(JobIndex claimant) {
    const auto it = waiting_.find(claimant);
    if (it == waiting_.end()) {
        return;
    }
    for (const JobIndex j : it->second) {
        JobNotes& notes = notes_[j];
        if (notes.waits_for != id_of(claimant)) {
            continue;
        }
        notes.waits_for = 0;
        if (notes.pending_slot != kNoId) {
            book_->change_pending(notes.pending_slot,
                                  [](PendingJob& pending) { pending.waits_for = 0; });
        }
    }
    waiting_.erase(it);
}

void BudgetScheduler::drop_plan(JobIndex claimant) {
    book_->remove_plan(id_of(claimant));
    release_waiting(claimant);
}

void BudgetScheduler::event(const WorkloadEvent& event) {
    sync();
    if (event.kind == EventKind::restart) {
        restart();
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
    book_->rebuild();
    if (!settings_.has(Rule::decided_at_start)) {
        for (JobIndex j = 0; j < notes_.size(); ++j) {
            if (notes_[j].run_slot != kNoId) {
                book_->change_run(notes_[j].run_slot, [&](Run& run) { run = run_of(j); });
            }
        }
    }
}

// Jobs and runs as the core sees them.

TeamPriority BudgetScheduler::priority_of(const SimJob& job) const {
    return settings_.has(Rule::team_priority) ? job.team_priority : TeamPriority::normal;
}

std::int64_t BudgetScheduler::first_submit_of(const SimJob& job) const {
    return job.runs == 0 || settings_.has(Rule::place_kept) ? job.first_submit_at : state_.now;
}

PendingJob BudgetScheduler::pending_job(JobIndex j) {
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
    if (!spec.node.empty() && job.runs == 0 && job.nodes == 1) {
        std::vector<bool> only(state_.nodes.size(), false);
        for (NodeIndex n = 0; n < only.size(); ++n) {
            only[n] = state_.cluster.nodes[n].name == spec.node;
        }
        pending.shape.node_set = book_->node_set(std::move(only));
    }
    pending.weight_milli = spec.gpus * settings_.gpu_weight_milli(spec.gpu_type);
    if (!settings_.has(Rule::costs_something)) {
        pending.weight_milli = std::max<std::int64_t>(pending.weight_milli, 1);
    }
    pending.min_runtime_seconds = job.min_runtime_seconds;
    pending.time_limit_seconds = spec.time_limit_seconds;
    pending.first_submit_at = first_submit_of(job);
    pending.protection_cap_seconds = notes.cap;
    pending.nice = settings_.has(Rule::nice) ? spec.nice : 0;
    pending.runs_before = job.runs;
    pending.team_priority = priority_of(job);
    pending.resumable = job.resumable;
    pending.interactive = spec.interactive;
    pending.free_first = spec.free_first;
    pending.waits_for = notes.waits_for;
    pending.turn_at = notes.turn_at;
    return pending;
}

Run BudgetScheduler::run_of(JobIndex j) const {
    const SimJob& job = state_.jobs[j];
    const JobNotes& notes = notes_[j];
    Run run;
    run.id = id_of(j);
    run.name = job.spec->id;
    run.budget = notes.budget;
    run.member = notes.member;
    run.kind = job.kind;
    if (!settings_.has(Rule::decided_at_start) && !book_->standings().funded(notes.budget)) {
        run.kind = RunKind::unallocated;
    }
    run.state = job.state == JobState::leaving ? RunState::leaving
                : job.suspended                ? RunState::suspended
                : state_.now < job.works_at    ? RunState::configuring
                                               : RunState::running;
    run.where = job.where;
    run.gpus = job.spec->gpus;
    run.weight_milli = weight_of(job);
    run.started_at = job.began_at;
    run.protected_until = job.protected_until;
    run.contract_seconds = job.suspended ? job.contract_left_seconds : notes.contract;
    run.time_limit_seconds = job.spec->time_limit_seconds;
    run.team_priority = priority_of(job);
    run.resumable = job.resumable;
    run.interactive = job.spec->interactive;
    run.express = notes.express;
    run.wants_turn = notes.wants_turn;
    run.free_first = job.spec->free_first;
    run.first_submit_at = job.first_submit_at;
    run.leaving_for = notes.leaving_for;
    run.shape.emplace();
    run.shape->nodes = job.nodes;
    run.shape->gpus = job.spec->gpus;
    run.shape->gpu_type = job.spec->gpu_type;
    return run;
}

void BudgetScheduler::add_run(JobIndex j) {
    JobNotes& notes = notes_[j];
    const SimJob& job = state_.jobs[j];
    notes.run_slot = book_->add_run(run_of(j));
    if (state_.now < job.works_at) {
        boots_.push_back({job.works_at, j, job.runs});
        std::push_heap(boots_.begin(), boots_.end());
    }
    if (notes.wants_turn && job.state == JobState::running) {
        add_turn(j);
    }
}

// A job that runs free keeps its place in the queue.
void BudgetScheduler::add_turn(JobIndex j) {
    PendingJob pending = pending_job(j);
    pending.shape.node_set = 0;
    pending.turn_run = notes_[j].run_slot;
    notes_[j].turn_slot = book_->add_pending(std::move(pending));
}

void BudgetScheduler::remove_turn(JobIndex j) {
    JobNotes& notes = notes_[j];
    if (notes.turn_slot != kNoId) {
        book_->remove_pending(notes.turn_slot);
        notes.turn_slot = kNoId;
    }
    notes.wants_turn = false;
}

void BudgetScheduler::finish_boots() {
    while (!boots_.empty() && boots_.front().at <= state_.now) {
        const Boot boot = boots_.front();
        std::pop_heap(boots_.begin(), boots_.end());
        boots_.pop_back();
        const JobNotes& notes = notes_[boot.job];
        if (notes.run_slot != kNoId && state_.jobs[boot.job].runs == boot.run) {
            book_->change_run(notes.run_slot, [&](Run& run) { run = run_of(boot.job); });
        }
    }
}

// The pass.

void BudgetScheduler::start(const StartDecision& decision, Orders& orders) {
    const PendingJob pending = book_->view().pending[decision.job];
    const JobIndex j = index_of(pending.id);
    JobNotes& notes = notes_[j];
    const bool allocated = is_allocated(pending, book_->standings().funded(pending.budget));
    const bool is_free = !allocated || decision.as_free;
    notes.contract = pending.contract_seconds();
    notes.cap = kNever;
    notes.wants_turn = allocated && decision.as_free;
    notes.express = !is_free && decision.express;
    notes.waits_for = 0;
    StartOrder order;
    order.job = j;
    order.where = decision.where;
    order.kind = is_free ? RunKind::unallocated : RunKind::allocated;
    order.contract_seconds = is_free ? 0 : notes.contract;
    order.express = notes.express;
    book_->remove_pending(notes.pending_slot);
    notes.pending_slot = kNoId;
    orders.start(order);
    drop_plan(j);
    if (pending.turn_at != 0) {
        AssemblyRecord& assembly = assemblies_[j];
        assembly.started_at = state_.now;
        orders.assembly(assembly);
        book_->remove_assembly(pending.id);
        notes.turn_at = 0;
    }
    begin_segment(j);
    add_run(j);
    if (notes.express) {
        const SimJob& job = state_.jobs[j];
        book_->add_express_use(
            {job.spec->user, job.spec->gpus, state_.now, 0, job.protected_until});
    }
}

void BudgetScheduler::adopt(const StartOrder& order, Orders& orders) {
    sync();
    JobNotes& notes = notes_[order.job];
    notes.contract = order.contract_seconds;
    notes.express = order.express;
    book_->remove_pending(notes.pending_slot);
    notes.pending_slot = kNoId;
    orders.start(order);
    begin_segment(order.job);
    add_run(order.job);
    if (notes.express) {
        const SimJob& job = state_.jobs[order.job];
        book_->add_express_use(
            {job.spec->user, job.spec->gpus, state_.now, 0, job.protected_until});
    }
}

void BudgetScheduler::warn(JobIndex j, JobId claimant, const std::string& reason, bool express,
                           Orders& orders) {
    JobNotes& notes = notes_[j];
    const Run run = book_->view().runs[notes.run_slot];
    remove_turn(j);
    notes.leaving_for = claimant;
    if (express && settings_.express_victim_protection_seconds) {
        notes.cap = *settings_.express_victim_protection_seconds;
    }
    LeaveOrder order;
    order.victim = j;
    order.claimant = claimant == 0 ? kNoJob : index_of(claimant);
    order.grace_seconds = grace_seconds(run, settings_);
    order.inside_contract = run.under_contract(state_.now);
    order.reason = reason;
    orders.leave(order);
    book_->change_run(notes.run_slot, [&](Run& r) { r = run_of(j); });
}

void BudgetScheduler::follow(const PassResult& result, Orders& orders) {
    const ClusterView& view = book_->view();
    const auto evict = [&](const std::vector<VictimDecision>& victims, const Plan& plan) {
        for (const VictimDecision& victim : victims) {
            warn(index_of(view.runs[victim.run].id), plan.claimant,
                 std::string(to_text(victim.verdict.reason)), plan.express, orders);
        }
        if (!victims.empty()) {
            book_->note_evictions(static_cast<std::int64_t>(victims.size()));
        }
    };
    for (const DrainDecision& decision : result.drains) {
        const JobIndex j = index_of(view.runs[decision.run].id);
        if (decision.move) {
            evict(decision.victims, *decision.move);
            book_->add_plan(*decision.move, kNoId);
        }
        warn(j, 0, "drain", false, orders);
    }
    for (const StartDecision& decision : result.starts) {
        start(decision, orders);
    }
    for (const std::uint32_t slot : result.turns) {
        const JobIndex j = index_of(view.runs[slot].id);
        JobNotes& notes = notes_[j];
        end_segment(j, state_.now);
        remove_turn(j);
        notes.contract = state_.jobs[j].min_runtime_seconds;
        orders.turn(j, notes.contract);
        begin_segment(j);
        book_->change_run(slot, [&](Run& run) { run = run_of(j); });
    }
    for (const PlanDecision& decision : result.plans) {
        evict(decision.victims, decision.plan);
        if (!decision.plan.where.empty()) {
            book_->add_plan(decision.plan, decision.job);
        }
    }
    follow_large(result, orders);
}

void BudgetScheduler::follow_large(const PassResult& result, Orders& orders) {
    const ClusterView& view = book_->view();
    for (const std::uint32_t slot : result.turns_come) {
        const JobIndex j = index_of(view.pending[slot].id);
        if (notes_[j].pending_slot != slot) {
            continue;  // it started in the same pass
        }
        notes_[j].turn_at = std::max<std::int64_t>(state_.now, 1);
        book_->change_pending(slot,
                              [&](PendingJob& pending) { pending.turn_at = notes_[j].turn_at; });
        assemblies_[j] = {j, state_.now, -1, -1, -1};
        orders.assembly(assemblies_[j]);
    }
    for (const AssemblyDecision& decision : result.assemblies) {
        const JobIndex j = index_of(decision.assembly.claimant);
        AssemblyRecord& record = assemblies_[j];
        record.date_at = decision.assembly.date_at;
        if (decision.granted) {
            record.granted_at = state_.now;
            const PendingJob& job = view.pending[decision.job];
            book_->add_grant({job.budget, state_.now, job.weight_milli, job.contract_seconds()});
        }
        book_->set_assembly(decision.assembly);
        orders.assembly(record);
    }
    for (const JobId claimant : result.dropped_assemblies) {
        book_->remove_assembly(claimant);
    }
}

void BudgetScheduler::pass(std::int64_t now, Orders& orders) {
    book_->advance(now);
    finish_boots();
    for (int round = 0; round < kMostRounds; ++round) {
        const PassResult result = book_->pass();
        if (on_pass) {
            on_pass(book_->view(), book_->standings(), result);
        }
        wake_at_ = boots_.empty() ? result.wake_at : std::min(result.wake_at, boots_.front().at);
        if (!result.decides()) {
            return;
        }
        follow(result, orders);
    }
    throw std::logic_error("the pass of second " + std::to_string(now) + " does not come to rest");
}

// To look at.

// The book's view without its empty places.
ClusterView BudgetScheduler::snapshot(std::vector<JobIndex>* pending_jobs) const {
    const ClusterView& all = book_->view();
    ClusterView view;
    view.now = state_.now;
    view.nodes = all.nodes;
    view.node_sets = all.node_sets;
    view.plans = all.plans;
    view.assemblies = all.assemblies;
    view.grants = all.grants;
    view.express_uses = all.express_uses;
    view.evictions_last_hour = all.evictions_last_hour;
    std::vector<std::int64_t> run_at(all.runs.size(), -1);
    for (std::size_t r = 0; r < all.runs.size(); ++r) {
        if (all.runs[r].id != 0) {
            run_at[r] = static_cast<std::int64_t>(view.runs.size());
            view.runs.push_back(all.runs[r]);
        }
    }
    for (const PendingJob& job : all.pending) {
        if (job.id == 0) {
            continue;
        }
        view.pending.push_back(job);
        if (job.turn_run >= 0) {
            view.pending.back().turn_run = run_at[static_cast<std::size_t>(job.turn_run)];
        }
        if (pending_jobs != nullptr) {
            pending_jobs->push_back(index_of(job.id));
        }
    }
    return view;
}

Standings BudgetScheduler::standings(std::int64_t now) {
    const ClusterView view = snapshot(nullptr);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, view, settings_);
    return standings;
}

std::vector<JobIndex> BudgetScheduler::ranked(std::int64_t now) {
    std::vector<JobIndex> of_pending, jobs;
    const ClusterView view = snapshot(&of_pending);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, view, settings_);
    for (const RankedEntry& entry : rank_queue(view, standings, settings_)) {
        if (view.pending[entry.job].turn_run < 0) {
            jobs.push_back(of_pending[entry.job]);
        }
    }
    return jobs;
}

std::vector<std::pair<JobIndex, std::int64_t>> BudgetScheduler::expected(std::int64_t now) {
    std::vector<JobIndex> of_pending;
    const ClusterView view = snapshot(&of_pending);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, view, settings_);
    const auto ranking = rank_queue(view, standings, settings_);
    const OutlookOptions options;
    const auto starts = expected_starts(view, ranking, standings, settings_, {}, options);
    std::vector<std::pair<JobIndex, std::int64_t>> out;
    for (const RankedEntry& entry : ranking) {
        if (out.size() < options.most_jobs && view.pending[entry.job].turn_run < 0) {
            out.emplace_back(of_pending[entry.job], starts[entry.job]);
        }
    }
    return out;
}

std::string BudgetScheduler::explain(JobIndex j, std::int64_t now) {
    const ClusterView view = snapshot(nullptr);
    Standings standings = ledger_->standings(now);
    add_commitments(standings, view, settings_);
    const auto ranking = rank_queue(view, standings, settings_);
    std::int64_t available_milli = 0;
    for (const Node& node : view.nodes) {
        available_milli += node.usable ? node.gpus * settings_.gpu_weight_milli(node.gpu_type) : 0;
    }
    const ExplainInput input{view, ranking, standings, settings_, available_milli};
    const Moment moment{now, calendar_of};
    const std::string& name = state_.jobs[j].spec->id;
    for (std::uint32_t i = 0; i < view.pending.size(); ++i) {
        if (view.pending[i].id == id_of(j) && view.pending[i].turn_run < 0) {
            const auto explanation = explain_pending(input, i);
            return explanation ? explanation_text(*explanation, moment, name) : std::string();
        }
    }
    for (std::uint32_t i = 0; i < view.runs.size(); ++i) {
        if (view.runs[i].id == id_of(j)) {
            return explanation_text(RunningExplainer(input).explain(i), moment, name);
        }
    }
    return {};
}

}  // namespace tranche::sim
