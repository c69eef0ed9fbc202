// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/simulation.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <set>
#include <stdexcept>

#include "common/base/quoted.hpp"
#include "common/model/budget_edit.hpp"
#include "sim/rule_switches.hpp"

namespace tranche::sim {
namespace {

constexpr std::uint32_t kNoIndex = 0xffffffff;

std::int64_t hour_number(std::int64_t at) {
    return at >= 0 ? at / 3600 : -((-at + 3599) / 3600);
}

std::int64_t gpus_of(const SimJob& job) {
    std::int64_t sum = 0;
    for (const NodeShare& share : job.where) {
        sum += share.gpus;
    }
    return sum;
}

[[noreturn]] void defect(const SimJob& job, const char* what) {
    throw std::logic_error("job " + quoted(job.spec->id) + " " + what);
}

// "b" and 9 of "b.9"; the whole and 0 where there is no number.
std::pair<std::string, std::uint32_t> copy_number(const std::string& id) {
    const auto dot = id.rfind('.');
    std::uint32_t number = 0;
    if (dot == std::string::npos || dot + 1 == id.size()) {
        return {id, 0};
    }
    const char* const end = id.data() + id.size();
    const auto read = std::from_chars(id.data() + dot + 1, end, number);
    if (read.ec != std::errc() || read.ptr != end) {
        return {id, 0};
    }
    return {id.substr(0, dot), number};
}

}  // namespace

// What only the simulation knows of a job.
struct Simulation::JobNotes {
    std::uint32_t budget = 0;
    std::uint32_t end_number = 0;  // of the entry in `ends_` that counts
    std::uint32_t segment = kNoIndex;
    std::uint32_t chain = kNoIndex;  // of endless jobs
    JobIndex leaving_for = kNoJob;
    bool leaves_for_drain = false;
    bool requeue_anyway = false;
    bool inside_contract = false;
    bool express = false;
    bool demands = false;  // counted in the demand
    bool demands_allocated = false;
    std::int64_t gpus = 0;  // held
    std::int64_t leaves_at = kNever;
    std::int64_t warned_at = 0;
    std::int64_t active_before = 0;  // seconds of the run before it was suspended last
    std::int64_t active_since = 0;
    std::int64_t suspended_at = 0, suspended_seconds = 0;
    std::vector<std::uint16_t> rows;
};

struct Simulation::BudgetNotes {
    std::string name;
    std::uint64_t fraction = 0;  // of the cluster, where its own jobs compete, in 2^-32
    std::int64_t demand = 0, charged = 0, free = 0, held = 0;  // GPUs now
    std::int64_t accounted_at = 0;
    std::int64_t held_gpu_seconds = 0;
    std::uint64_t suffered = 0, caused = 0;
    std::vector<BudgetHour> hours;
};

struct Simulation::DueEnd {
    std::int64_t at = 0;
    JobIndex job = 0;
    std::uint32_t number = 0;  // kNoIndex: its nodes have booted

    bool operator<(const DueEnd& other) const noexcept {  // the soonest on top of the heap
        return at != other.at ? at > other.at : job > other.job;
    }
};

// The GPUs of one node by number, a bit each.
struct Simulation::NodeRows {
    std::vector<std::uint64_t> taken;

    void take(std::int64_t count, std::vector<std::uint16_t>& into) {
        for (std::size_t word = 0; word < taken.size() && count > 0; ++word) {
            while (count > 0 && ~taken[word] != 0) {
                const int bit = std::countr_one(taken[word]);
                taken[word] |= std::uint64_t{1} << bit;
                into.push_back(static_cast<std::uint16_t>(word * 64 + std::size_t(bit)));
                --count;
            }
        }
    }
    void give_back(std::uint16_t row) { taken[row / 64] &= ~(std::uint64_t{1} << (row % 64)); }
};

Result<BudgetTree> apply_tree_event(const BudgetTree& tree, const WorkloadEvent& event) {
    BudgetEdit edit;
    edit.kind =
        event.kind == EventKind::add_budget ? BudgetEdit::Kind::add : BudgetEdit::Kind::modify;
    edit.name = event.budget;
    edit.shares = event.shares;
    if (event.kind == EventKind::add_budget && !event.parent.empty()) {
        edit.parent = event.parent;
    }
    return apply_edit(tree, edit);
}

Simulation::Simulation(SimCluster cluster, const Settings& settings, const BudgetTree& tree,
                       Workload workload, const SimOptions& options)
    : settings_(settings),
      tree_(tree),
      workload_(std::move(workload)),
      options_(options),
      fractions_(ledger_rules(settings)) {
    state_.cluster = std::move(cluster);
    std::stable_sort(
        workload_.jobs.begin(), workload_.jobs.end(),
        [](const WorkloadJob& a, const WorkloadJob& b) { return a.submit_at < b.submit_at; });
    std::stable_sort(workload_.events.begin(), workload_.events.end(),
                     [](const WorkloadEvent& a, const WorkloadEvent& b) { return a.at < b.at; });
    std::int64_t begin = kNever;
    if (!workload_.jobs.empty()) {
        begin = workload_.jobs.front().submit_at;
    }
    submissions_ = workload_.jobs.size();
    if (!workload_.events.empty()) {
        begin = std::min(begin, workload_.events.front().at);
    }
    begin = options_.begin_at.value_or(begin == kNever ? 0 : begin);
    now_ = state_.now = last_pass_at_ = funding_accounted_at_ = record_.begin_at = begin;
    record_.cluster = state_.cluster;
    for (NodeIndex n = 0; n < state_.cluster.nodes.size(); ++n) {
        const SimNode& node = state_.cluster.nodes[n];
        SimNodeState state;
        state.free_gpus = node.gpus;
        state.booted = state_.cluster.boot_seconds == 0;
        state_.nodes.push_back(state);
        node_index_.emplace(node.name, n);
        installed_ += node.gpus;
        if (options_.slots) {
            NodeRows rows;
            rows.taken.assign(static_cast<std::size_t>(node.gpus + 63) / 64, 0);
            if (node.gpus % 64 != 0) {
                rows.taken.back() = ~std::uint64_t{0} << (node.gpus % 64);
            }
            rows_.push_back(std::move(rows));
        }
    }
    available_ = idle_ = installed_;

    budgets_.emplace_back();
    budgets_.back().name = "(none)";
    fractions_.set_tree(begin, tree_);
    for (const auto& entry : tree_.budgets()) {
        budget_index_.emplace(entry.first, static_cast<std::uint32_t>(budgets_.size()));
        budgets_.emplace_back();
        budgets_.back().name = entry.first;
    }
    for (const WorkloadEvent& event : workload_.events) {
        if (event.kind == EventKind::add_budget && !budget_index_.contains(event.budget)) {
            budget_index_.emplace(event.budget, static_cast<std::uint32_t>(budgets_.size()));
            budgets_.emplace_back();
            budgets_.back().name = event.budget;
        }
        if (!event.job.empty()) {
            job_index_.emplace(event.job, kNoJob);
        }
    }
    for (BudgetNotes& budget : budgets_) {
        budget.accounted_at = begin;
    }
    prepare_jobs();
    for (const PastUse& use : workload_.past) {
        if (tree_.find(use.budget) != nullptr) {
            fractions_.activate_own_side(begin, fractions_.budget_id(use.budget));
        }
    }
    read_fractions();
}

Simulation::~Simulation() = default;

void Simulation::prepare_jobs() {
    record_.jobs.resize(submissions_);
    state_.jobs.resize(submissions_);
    notes_.resize(submissions_);
    for (std::size_t j = 0; j < submissions_; ++j) {
        record_.jobs[j].job = std::move(workload_.jobs[j]);
        state_.jobs[j].spec = &record_.jobs[j].job;
    }
    workload_.jobs = {};
    std::vector<bool> seen(budgets_.size(), false);
    std::unordered_map<std::string, std::uint32_t> chains;
    for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
        prepare_job(j);
        const std::uint32_t budget = notes_[j].budget;
        if (budget != 0 && !seen[budget] && tree_.find(budgets_[budget].name) != nullptr) {
            seen[budget] = true;
            fractions_.activate_own_side(now_, fractions_.budget_id(budgets_[budget].name));
        }
        const WorkloadJob& spec = *state_.jobs[j].spec;
        if (spec.endless) {
            const auto [base, number] = copy_number(spec.id);
            const auto [it, is_new] =
                chains.try_emplace(base, static_cast<std::uint32_t>(chains_.size()));
            if (is_new) {
                chains_.push_back(0);
            }
            notes_[j].chain = it->second;
            chains_[it->second] = std::max(chains_[it->second], number);
        }
    }
}

void Simulation::prepare_job(JobIndex j) {
    SimJob& job = state_.jobs[j];
    const WorkloadJob& spec = *job.spec;
    if (spec.nodes > 0) {
        job.nodes = static_cast<std::uint32_t>(spec.nodes);
    } else {
        std::int64_t largest = 0;
        for (const SimNode& node : state_.cluster.nodes) {
            if (spec.gpu_type.empty() || spec.gpu_type == node.gpu_type) {
                largest = std::max(largest, node.gpus);
            }
        }
        const std::int64_t nodes = largest > 0 ? (spec.gpus + largest - 1) / largest : 1;
        job.nodes = static_cast<std::uint32_t>(std::max<std::int64_t>(nodes, 1));
    }
    job.min_runtime_seconds = spec.min_runtime_seconds.value_or(
        spec.interactive ? settings_.default_min_runtime_interactive_seconds
                         : settings_.default_min_runtime_seconds.value_or(0));
    job.resumable = spec.resumable && !spec.interactive;
    job.work_left_seconds = spec.runtime_seconds;
    job.team_priority = spec.team_priority;
    job.impossible = !could_hold(spec, job.nodes);
    if (!spec.budget.empty()) {
        const auto it = budget_index_.find(spec.budget);
        notes_[j].budget = it == budget_index_.end() ? 0 : it->second;
    }
    if (!job_index_.empty()) {
        const auto it = job_index_.find(spec.id);
        if (it != job_index_.end()) {
            it->second = j;
        }
    }
}

bool Simulation::could_hold(const WorkloadJob& spec, std::uint32_t nodes) {
    const std::string key =
        spec.gpu_type + "/" + std::to_string(spec.gpus) + "/" + std::to_string(nodes);
    const auto [it, is_new] = shapes_.try_emplace(key, false);
    if (is_new) {
        const std::int64_t small = spec.gpus / nodes, large_members = spec.gpus % nodes;
        std::int64_t fit_large = 0, fit = 0;
        for (const SimNode& node : state_.cluster.nodes) {
            if (!spec.gpu_type.empty() && spec.gpu_type != node.gpu_type) {
                continue;
            }
            fit += node.gpus >= small ? 1 : 0;
            fit_large += node.gpus > small ? 1 : 0;
        }
        it->second = fit >= nodes && fit_large >= large_members;
    }
    return it->second;
}

// Time.

SimRecord Simulation::run(Scheduler& scheduler) {
    attach(scheduler);
    advance(kNever);
    return finish();
}

void Simulation::attach(Scheduler& scheduler) {
    scheduler_ = &scheduler;
    record_.policy = scheduler.name();
}

bool Simulation::all_jobs_are_done() const {
    return next_job_ == submissions_ && pending_count_ == 0 && holding_count_ == 0 &&
           copies_due_.empty();
}

std::int64_t Simulation::next_instant() const {
    std::int64_t next = kNever;
    if (options_.ends_with_jobs && options_.until == kNever && submissions_ > 0 &&
        all_jobs_are_done()) {
        return kNever;
    }
    if (next_job_ < submissions_) {
        next = std::min(next, state_.jobs[next_job_].spec->submit_at);
    }
    if (next_event_ < workload_.events.size()) {
        next = std::min(next, workload_.events[next_event_].at);
    }
    if (!ends_.empty()) {
        next = std::min(next, ends_.front().at);
    }
    if (!copies_due_.empty()) {
        next = std::min(next, now_);
    }
    const bool may_change = next != kNever || wake_at_ != kNever;
    next = std::min(next, wake_at_);
    if (pending_count_ > 0 && may_change) {
        next = std::min(next, last_pass_at_ + state_.cluster.cycle_seconds);
    }
    return next == kNever ? kNever : std::max(next, now_);
}

bool Simulation::over() const {
    return now_ >= options_.until || next_instant() == kNever;
}

void Simulation::advance(std::int64_t at) {
    const std::int64_t last = std::min(at, options_.until);
    for (;;) {
        const std::int64_t next = next_instant();
        if (next > last || next == kNever) {
            break;
        }
        move_clock(next);
        apply_ends();
        while (next_event_ < workload_.events.size() && workload_.events[next_event_].at <= now_) {
            apply(workload_.events[next_event_++]);
            pass_due_ = true;
        }
        submit_due();
        if (pass_due_ || wake_at_ <= now_ ||
            (pending_count_ > 0 && now_ >= last_pass_at_ + state_.cluster.cycle_seconds)) {
            pass();
        }
    }
    if (last != kNever && last > now_) {
        move_clock(last);
    }
}

void Simulation::move_clock(std::int64_t to) {
    const std::int64_t seconds = to - now_;
    record_.installed_gpu_seconds += installed_ * seconds;
    record_.available_gpu_seconds += available_ * seconds;
    record_.used_gpu_seconds += working_ * seconds;
    record_.idle_gpu_seconds += idle_ * seconds;
    record_.demand_allocated_gpu_seconds += demand_allocated_ * seconds;
    record_.demand_free_gpu_seconds += demand_free_ * seconds;
    now_ = state_.now = to;
}

void Simulation::pass() {
    pass_due_ = false;
    last_pass_at_ = now_;
    ++record_.passes;
    scheduler_->pass(now_, *this);
    const std::int64_t wake = scheduler_->wake_at();
    wake_at_ = wake == kNever ? kNever : std::max(wake, now_ + 1);
}

// What happens.

void Simulation::apply_ends() {
    while (!ends_.empty() && ends_.front().at <= now_) {
        const DueEnd due = ends_.front();
        std::pop_heap(ends_.begin(), ends_.end());
        ends_.pop_back();
        const JobNotes& notes = notes_[due.job];
        const SimJob& job = state_.jobs[due.job];
        if (due.number == kNoIndex) {
            pass_due_ = true;
            continue;
        }
        if (due.number != notes.end_number) {
            continue;
        }
        pass_due_ = true;
        if (job.ends_at <= now_) {
            const std::int64_t active =
                notes.active_before + std::max<std::int64_t>(now_ - notes.active_since, 0);
            const std::int64_t restart = job.runs > 1 ? job.spec->restart_seconds : 0;
            end_run(due.job, active >= restart + job.work_left_seconds ? SegmentEnd::completed
                                                                       : SegmentEnd::time_limit);
        } else {
            const bool requeued = job.resumable || notes.requeue_anyway;
            end_run(due.job, notes.leaves_for_drain ? (requeued ? SegmentEnd::drained_requeued
                                                                : SegmentEnd::drained_ended)
                             : requeued             ? SegmentEnd::preempted_requeued
                                                    : SegmentEnd::preempted_ended);
        }
    }
}

void Simulation::submit_due() {
    while (next_job_ < submissions_ && state_.jobs[next_job_].spec->submit_at <= now_) {
        const auto job = static_cast<JobIndex>(next_job_++);
        if (state_.jobs[job].state == JobState::future) {
            submit(job);
        }
    }
    while (!copies_due_.empty()) {
        const std::vector<JobIndex> due = std::move(copies_due_);
        copies_due_.clear();
        for (const JobIndex of : due) {
            resubmit_copy(of);
        }
    }
}

void Simulation::submit(JobIndex j) {
    pass_due_ = true;
    SimJob& job = state_.jobs[j];
    job.first_submit_at = job.spec->submit_at;
    if (job.min_runtime_seconds > settings_.max_min_runtime_seconds ||
        (settings_.require_min_runtime && !job.spec->min_runtime_seconds &&
         !job.spec->interactive)) {
        job.state = JobState::refused;
        record_of(j).ended_at = now_;
        return;
    }
    queue(j);
}

void Simulation::queue(JobIndex j) {
    SimJob& job = state_.jobs[j];
    job.allocated = would_be_allocated(j);
    if (job.runs == 0) {
        JobRecord& record = record_of(j);
        record.fits_lane = job.allocated && job.spec->gpus <= settings_.express_gpus &&
                           static_cast<std::int64_t>(job.nodes) <= settings_.express_nodes &&
                           job.min_runtime_seconds <= settings_.express_min_runtime_seconds;
        record.allocated = job.allocated;
    }
    job.state = JobState::pending;
    ++pending_count_;
    add_demand(j, 1);
    scheduler_->submitted(j);
}

void Simulation::resubmit_copy(JobIndex of) {
    const std::uint32_t chain = notes_[of].chain;
    copies_.emplace_back();
    WorkloadJob& spec = copies_.back().job;
    spec = *state_.jobs[of].spec;
    spec.id = copy_number(spec.id).first + "." + std::to_string(++chains_[chain]);
    spec.submit_at = now_;
    spec.node.clear();
    SimJob job;
    job.spec = &spec;
    const auto j = static_cast<JobIndex>(state_.jobs.size());
    state_.jobs.push_back(job);
    notes_.emplace_back();
    notes_.back().chain = chain;
    prepare_job(j);
    submit(j);
}

void Simulation::apply(const WorkloadEvent& event) {
    switch (event.kind) {
        case EventKind::cancel:
        case EventKind::suspend:
        case EventKind::resume_job:
        case EventKind::set_team_priority:
            apply_to_job(event);
            return;
        case EventKind::drain:
        case EventKind::undrain:
        case EventKind::node_fail:
        case EventKind::node_up:
            for (const std::string& name : event.nodes) {
                const auto it = node_index_.find(name);
                if (it != node_index_.end()) {
                    apply_to_node(event, it->second);
                }
            }
            return;
        case EventKind::set_shares:
        case EventKind::add_budget:
            new_tree(event);
            return;
        case EventKind::restart:
            scheduler_->event(event);
            return;
    }
}

void Simulation::apply_to_job(const WorkloadEvent& event) {
    const auto it = job_index_.find(event.job);
    if (it == job_index_.end() || it->second == kNoJob) {
        return;  // a copy that does not exist yet
    }
    const JobIndex j = it->second;
    SimJob& job = state_.jobs[j];
    const bool runs = job.state == JobState::running || job.state == JobState::leaving;
    if (event.kind == EventKind::cancel) {
        cancel(j);
    } else if (event.kind == EventKind::suspend) {
        if (runs && !job.suspended) {
            suspend(j);
        }
    } else if (event.kind == EventKind::resume_job) {
        if (runs && job.suspended) {
            resume(j);
        }
    } else {
        job.team_priority = event.team_priority;
        if (runs || job.state == JobState::pending) {
            scheduler_->changed(j);
        }
    }
}

void Simulation::cancel(JobIndex j) {
    SimJob& job = state_.jobs[j];
    switch (job.state) {
        case JobState::future:
            job.state = JobState::cancelled;
            return;
        case JobState::pending:
            job.state = JobState::cancelled;
            --pending_count_;
            add_demand(j, -1);
            record_of(j).ended_at = now_;
            scheduler_->left_queue(j);
            settle_preemptions(j, false);
            return;
        case JobState::running:
        case JobState::leaving:
            end_run(j, SegmentEnd::cancelled);
            return;
        case JobState::completed:
        case JobState::ended:
        case JobState::cancelled:
        case JobState::refused:
            return;
    }
}

void Simulation::suspend(JobIndex j) {
    SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    job.charged_until = now_;
    end_segment(j, SegmentEnd::suspended, now_);
    charge_rate(j, -1);
    working_ -= notes.gpus;
    job.suspended = true;
    notes.active_before += std::max<std::int64_t>(now_ - notes.active_since, 0);
    notes.suspended_at = now_;
    job.contract_left_seconds = 0;
    if (job.protected_until > now_ && job.protected_until != kNever &&
        settings_.has(Rule::contract_pauses)) {
        job.contract_left_seconds = job.protected_until - std::max(now_, job.works_at);
        job.protected_until = kNever;
    }
    job.ends_at = kNever;
    schedule_end(j);
    scheduler_->changed(j);
}

void Simulation::resume(JobIndex j) {
    SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    job.suspended = false;
    notes.suspended_seconds += now_ - notes.suspended_at;
    notes.active_since = std::max(now_, job.works_at);
    if (job.contract_left_seconds > 0) {
        job.protected_until = notes.active_since + job.contract_left_seconds;
        job.contract_left_seconds = 0;
    }
    working_ += notes.gpus;
    charge_rate(j, 1);
    begin_segment(j);
    schedule_end(j);
    scheduler_->changed(j);
}

void Simulation::apply_to_node(const WorkloadEvent& event, NodeIndex n) {
    SimNodeState& node = state_.nodes[n];
    const std::int64_t gpus = state_.cluster.nodes[n].gpus;
    const bool was_usable = node.usable();
    if (event.kind == EventKind::node_fail) {
        node.down = true;
    } else if (event.kind == EventKind::drain) {
        node.drain_reason = event.reason;
        if (!node.draining) {
            node.draining = true;
            open_drains_[n] = static_cast<std::uint32_t>(record_.drains.size());
            DrainRecord drain;
            drain.node = state_.cluster.nodes[n].name;
            drain.reason = event.reason;
            drain.at = now_;
            drain.empty_at = node.free_gpus == gpus ? now_ : -1;
            record_.drains.push_back(drain);
        }
    } else {
        node.down = node.down && event.kind != EventKind::node_up;
        node.draining = false;
        node.drain_reason.clear();
        if (const auto it = open_drains_.find(n); it != open_drains_.end()) {
            record_.drains[it->second].back_at = now_;
            open_drains_.erase(it);
        }
    }
    if (was_usable != node.usable()) {
        account_funding();
        const int sign = node.usable() ? 1 : -1;
        available_ += sign * gpus;
        idle_ += sign * node.free_gpus;
    }
    if (event.kind == EventKind::node_fail && node.free_gpus != gpus) {
        for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
            const SimJob& job = state_.jobs[j];
            if (job.state != JobState::running && job.state != JobState::leaving) {
                continue;
            }
            if (std::any_of(job.where.begin(), job.where.end(),
                            [n](const NodeShare& share) { return share.node == n; })) {
                end_run(j, SegmentEnd::node_failed);
            }
        }
    }
    scheduler_->node_changed(n);
}

void Simulation::new_tree(const WorkloadEvent& event) {
    auto tree = apply_tree_event(tree_, event);
    if (!tree.ok()) {
        record_.notes.push_back("at " + std::to_string(now_) + ": " + tree.error());
        return;
    }
    account_funding();
    tree_ = std::move(*tree);
    fractions_.set_tree(now_, tree_);
    read_fractions();
    // Whether a run is allocated was decided at its start; of those that wait it changes.
    for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
        SimJob& job = state_.jobs[j];
        if (job.state == JobState::pending) {
            add_demand(j, -1);
            job.allocated = would_be_allocated(j);
            add_demand(j, 1);
        }
    }
    scheduler_->event(event);
}

void Simulation::read_fractions() {
    const Standings& standings = fractions_.standings(now_);
    for (BudgetNotes& budget : budgets_) {
        const BudgetId id = fractions_.find_budget(budget.name);
        budget.fraction = id == kNoId || id >= standings.budgets.size() || &budget == &budgets_[0]
                              ? 0
                              : standings.budgets[id].funded_fraction;
    }
}

bool Simulation::would_be_allocated(JobIndex j) const {
    const SimJob& job = state_.jobs[j];
    return budgets_[notes_[j].budget].fraction > 0 && job.min_runtime_seconds > 0 &&
           job.spec->gpus * settings_.gpu_weight_milli(job.spec->gpu_type) > 0;
}

// Runs.

void Simulation::start(const StartOrder& order) {
    SimJob& job = state_.jobs.at(order.job);
    JobNotes& notes = notes_[order.job];
    if (job.state != JobState::pending) {
        defect(job, "was to start and does not wait");
    }
    std::int64_t boot = 0;
    job.where = order.where;
    for (const NodeShare& share : job.where) {
        SimNodeState& node = state_.nodes.at(share.node);
        if (!node.usable() || node.free_gpus < share.gpus) {
            defect(job, "was to start where there is no room");
        }
        boot = node.booted ? boot : state_.cluster.boot_seconds;
        node.booted = true;
    }
    notes.gpus = gpus_of(job);
    if (notes.gpus != job.spec->gpus) {
        defect(job, "was to start with another number of GPUs than it needs");
    }
    hold(order.job);
    --pending_count_;
    ++job.runs;
    job.state = JobState::running;
    job.kind = order.kind;
    job.began_at = now_;
    job.works_at = now_ + boot;
    job.suspended = false;
    job.contract_left_seconds = 0;
    const std::int64_t clock_begins_at =
        settings_.has(Rule::contract_after_boot) ? job.works_at : now_;
    job.protected_until = order.contract_seconds == kNever ? kNever
                          : order.contract_seconds > 0 ? clock_begins_at + order.contract_seconds
                                                       : 0;
    notes.express = order.express;
    notes.active_before = notes.suspended_seconds = 0;
    notes.active_since = job.works_at;
    notes.leaves_at = kNever;
    notes.warned_at = 0;
    notes.leaving_for = kNoJob;
    notes.leaves_for_drain = notes.requeue_anyway = notes.inside_contract = false;
    JobRecord& record = record_of(order.job);
    if (record.first_start_at < 0) {
        record.first_start_at = now_;
        record.allocated = job.allocated;
    }
    working_ += notes.gpus;
    charge_rate(order.job, 1);
    begin_segment(order.job);
    schedule_end(order.job);
    if (boot > 0) {
        ends_.push_back({job.works_at, order.job, kNoIndex});
        std::push_heap(ends_.begin(), ends_.end());
    }
    settle_preemptions(order.job, true);
}

void Simulation::leave(const LeaveOrder& order) {
    SimJob& job = state_.jobs.at(order.victim);
    JobNotes& notes = notes_[order.victim];
    if (job.state != JobState::running) {
        defect(job, "was to leave and does not run, or leaves already");
    }
    job.state = JobState::leaving;
    notes.leaves_at = now_ + std::min(job.spec->exit_seconds, order.grace_seconds);
    notes.leaving_for = order.claimant;
    notes.leaves_for_drain = order.claimant == kNoJob;
    notes.requeue_anyway = order.requeue_anyway;
    notes.inside_contract = order.inside_contract;
    notes.warned_at = now_;
    if (notes.segment != kNoIndex) {
        record_.segments[notes.segment].warned_at = now_;
        record_.segments[notes.segment].taken_for = order.claimant;
    }
    schedule_end(order.victim);
    if (order.claimant == kNoJob) {
        return;
    }
    open_preemptions_[order.claimant].push_back(
        {static_cast<std::uint32_t>(record_.preemptions.size()), job.where});
    PreemptionEvent event;
    event.at = now_;
    event.claimant = order.claimant;
    event.victim = order.victim;
    event.requeued = job.resumable || order.requeue_anyway;
    event.inside_contract = order.inside_contract;
    event.reason = order.reason;
    record_.preemptions.push_back(std::move(event));
    ++budgets_[notes.budget].suffered;
    ++budgets_[notes_[order.claimant].budget].caused;
}

void Simulation::turn(JobIndex j, std::int64_t contract_seconds) {
    SimJob& job = state_.jobs.at(j);
    if (job.state != JobState::running || job.kind == RunKind::allocated || job.suspended) {
        defect(job, "was to turn allocated and is no free run");
    }
    end_segment(j, SegmentEnd::turned, now_);
    charge_rate(j, -1);
    job.kind = RunKind::allocated;
    job.protected_until = std::max(now_, job.works_at) + contract_seconds;
    charge_rate(j, 1);
    begin_segment(j);
}

void Simulation::assembly(const AssemblyRecord& record) {
    const auto [it, is_new] = assembly_index_.try_emplace(
        record.job, static_cast<std::uint32_t>(record_.assemblies.size()));
    if (is_new) {
        record_.assemblies.push_back(record);
    } else {
        record_.assemblies[it->second] = record;
    }
}

void Simulation::schedule_end(JobIndex j) {
    SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    if (!job.suspended) {
        const std::int64_t work =
            (job.runs > 1 ? job.spec->restart_seconds : 0) + job.work_left_seconds;
        job.ends_at = notes.active_since +
                      std::max<std::int64_t>(
                          std::min(work, job.spec->time_limit_seconds) - notes.active_before, 0);
    }
    const std::int64_t at = std::min(job.ends_at, notes.leaves_at);
    ++notes.end_number;
    if (at != kNever) {
        ends_.push_back({at, j, notes.end_number});
        std::push_heap(ends_.begin(), ends_.end());
    }
}

void Simulation::end_run(JobIndex j, SegmentEnd how) {
    SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    const bool requeued = how == SegmentEnd::preempted_requeued ||
                          how == SegmentEnd::drained_requeued ||
                          (how == SegmentEnd::node_failed && job.resumable);
    if (job.suspended) {
        notes.suspended_seconds += now_ - notes.suspended_at;
    } else {
        notes.active_before += std::max<std::int64_t>(now_ - notes.active_since, 0);
        job.charged_until = charged_until(j, how);
        end_segment(j, how, job.charged_until);
        charge_rate(j, -1);
        refund(j);
        working_ -= notes.gpus;
    }
    lose_work(j, how);
    release(j);
    add_demand(j, -1);
    ++notes.end_number;
    JobRecord& record = record_of(j);
    if (notes.leaving_for != kNoJob &&
        (how == SegmentEnd::preempted_requeued || how == SegmentEnd::preempted_ended)) {
        ++record.preemptions;
    }
    job.state = requeued                       ? JobState::pending
                : how == SegmentEnd::completed ? JobState::completed
                : how == SegmentEnd::cancelled ? JobState::cancelled
                                               : JobState::ended;
    if (!requeued) {
        record.ended_at = now_;
    }
    scheduler_->run_over(j);
    job.suspended = false;
    job.where.clear();
    if (requeued) {
        queue(j);
    } else if (job.spec->endless && how != SegmentEnd::cancelled) {
        copies_due_.push_back(j);
    }
}

std::int64_t Simulation::charged_until(JobIndex j, SegmentEnd how) const {
    const SimJob& job = state_.jobs[j];
    const JobNotes& notes = notes_[j];
    if (!settings_.refund_node_failure || job.kind != RunKind::allocated) {
        return now_;
    }
    const bool drained_now =
        notes.leaves_for_drain && notes.inside_contract &&
        (how == SegmentEnd::drained_requeued || how == SegmentEnd::drained_ended);
    const bool by_owner =
        how == SegmentEnd::cancelled &&
        std::any_of(job.where.begin(), job.where.end(),
                    [this](const NodeShare& share) { return state_.nodes[share.node].draining; });
    if (how != SegmentEnd::node_failed && !drained_now && !by_owner) {
        return now_;
    }
    const std::int64_t begin = record_.segments[notes.segment].begin_at;
    return now_ < job.protected_until
               ? begin
               : std::max({job.protected_until, now_ - settings_.refund_max_seconds, begin});
}

void Simulation::lose_work(JobIndex j, SegmentEnd how) {
    SimJob& job = state_.jobs[j];
    const JobNotes& notes = notes_[j];
    const std::int64_t restart =
        std::min(notes.active_before, job.runs > 1 ? job.spec->restart_seconds : 0);
    const std::int64_t worked = notes.active_before - restart;
    const std::int64_t stayed = now_ - job.began_at - notes.suspended_seconds;
    switch (how) {
        case SegmentEnd::preempted_requeued:
        case SegmentEnd::drained_requeued:
        case SegmentEnd::node_failed:
            break;
        case SegmentEnd::preempted_ended:
        case SegmentEnd::drained_ended:
            record_.lost_ended_gpu_seconds += notes.gpus * stayed;
            return;
        default:
            record_.lost_requeued_gpu_seconds += notes.gpus * restart;
            return;
    }
    if (!job.resumable) {
        (how == SegmentEnd::node_failed ? record_.lost_ended_gpu_seconds
                                        : record_.lost_requeued_gpu_seconds) += notes.gpus * stayed;
        return;
    }
    std::int64_t saved = worked;
    if (const std::int64_t every = job.spec->checkpoint_seconds; every > 0) {
        saved = worked / every * every;
        if (job.protected_until > 0 && job.protected_until <= now_) {
            saved = std::max(saved, worked - (now_ - job.protected_until));
        }
    }
    job.work_left_seconds -= saved;
    record_.lost_requeued_gpu_seconds += notes.gpus * (worked - saved + restart);
}

void Simulation::settle_preemptions(JobIndex claimant, bool started) {
    const auto it = open_preemptions_.find(claimant);
    if (it == open_preemptions_.end()) {
        return;
    }
    const std::vector<NodeShare>& where = state_.jobs[claimant].where;
    std::int64_t last_at = 0;
    for (const OpenPreemption& open : it->second) {
        last_at = std::max(last_at, record_.preemptions[open.event].at);
    }
    for (const OpenPreemption& open : it->second) {
        PreemptionEvent& event = record_.preemptions[open.event];
        if (!started) {
            event.outcome = PreemptionOutcome::claimant_left;
            continue;
        }
        const bool there = std::any_of(where.begin(), where.end(), [&](const NodeShare& share) {
            return std::any_of(open.where.begin(), open.where.end(),
                               [&](const NodeShare& other) { return other.node == share.node; });
        });
        event.outcome = there                ? PreemptionOutcome::started
                        : event.at < last_at ? PreemptionOutcome::wasted
                                             : PreemptionOutcome::overtaken;
    }
    open_preemptions_.erase(it);
}

// Where things stand, and what it adds up to.

void Simulation::hold(JobIndex j) {
    JobNotes& notes = notes_[j];
    BudgetNotes& budget = budgets_[notes.budget];
    account(budget);
    ++holding_count_;
    budget.held += notes.gpus;
    idle_ -= notes.gpus;
    notes.rows.clear();
    for (const NodeShare& share : state_.jobs[j].where) {
        state_.nodes[share.node].free_gpus -= share.gpus;
        if (options_.slots) {
            rows_[share.node].take(share.gpus, notes.rows);
        }
    }
}

void Simulation::release(JobIndex j) {
    JobNotes& notes = notes_[j];
    BudgetNotes& budget = budgets_[notes.budget];
    account(budget);
    --holding_count_;
    budget.held -= notes.gpus;
    std::size_t row = 0;
    for (const NodeShare& share : state_.jobs[j].where) {
        SimNodeState& node = state_.nodes[share.node];
        node.free_gpus += share.gpus;
        idle_ += node.usable() ? share.gpus : 0;
        if (node.draining && node.free_gpus == state_.cluster.nodes[share.node].gpus) {
            DrainRecord& drain = record_.drains[open_drains_.at(share.node)];
            drain.empty_at = drain.empty_at < 0 ? now_ : drain.empty_at;
        }
        for (std::int64_t k = 0; options_.slots && k < share.gpus; ++k) {
            rows_[share.node].give_back(notes.rows[row++]);
        }
    }
}

void Simulation::begin_segment(JobIndex j) {
    SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    job.segment_at = now_;
    notes.segment = static_cast<std::uint32_t>(record_.segments.size());
    SegmentRecord& segment = record_.segments.emplace_back();
    segment.job = j;
    segment.run = job.runs;
    segment.kind = job.kind;
    segment.express = notes.express;
    segment.begin_at = now_;
    segment.protected_until = job.protected_until;
    segment.warned_at = notes.warned_at;
    segment.taken_for = notes.leaving_for;
    segment.where = job.where;
    segment.slots = notes.rows;
}

void Simulation::end_segment(JobIndex j, SegmentEnd how, std::int64_t charged_until) {
    SegmentRecord& segment = record_.segments[notes_[j].segment];
    notes_[j].segment = kNoIndex;
    segment.end = how;
    segment.end_at = now_;
    segment.charged_until = charged_until;
}

std::size_t Simulation::hour_of(std::int64_t at) const {
    return static_cast<std::size_t>(hour_number(at) - hour_number(record_.begin_at));
}

template <typename Add>
void Simulation::each_hour(BudgetNotes& budget, std::int64_t from, std::int64_t to, Add add) {
    while (from < to) {
        const std::size_t hour = hour_of(from);
        const std::int64_t end = std::min((hour_number(from) + 1) * 3600, to);
        if (budget.hours.size() <= hour) {
            budget.hours.resize(hour + 1);
        }
        add(budget.hours[hour], end - from);
        from = end;
    }
}

void Simulation::account(BudgetNotes& budget) {
    const std::int64_t from = budget.accounted_at;
    if (from == now_) {
        return;
    }
    budget.accounted_at = now_;
    budget.held_gpu_seconds += budget.held * (now_ - from);
    if (budget.demand == 0 && budget.charged == 0 && budget.free == 0) {
        return;
    }
    each_hour(budget, from, now_, [&](BudgetHour& hour, std::int64_t seconds) {
        hour.demand += budget.demand * seconds;
        hour.charged += budget.charged * seconds;
        hour.free += budget.free * seconds;
    });
}

void Simulation::refund(JobIndex j) {
    const std::int64_t from = state_.jobs[j].charged_until;
    if (from == now_) {
        return;
    }
    each_hour(budgets_[notes_[j].budget], from, now_, [&](BudgetHour& hour, std::int64_t seconds) {
        hour.charged -= notes_[j].gpus * seconds;
    });
}

void Simulation::account_funding() {
    for (BudgetNotes& budget : budgets_) {
        if (budget.fraction == 0) {
            continue;
        }
        each_hour(budget, funding_accounted_at_, now_, [&](BudgetHour& hour, std::int64_t seconds) {
            const UInt128 amount = UInt128{budget.fraction} * static_cast<UInt128>(available_) *
                                   static_cast<UInt128>(seconds);
            hour.funded += static_cast<std::int64_t>(amount >> kFractionBits);
        });
    }
    funding_accounted_at_ = now_;
}

void Simulation::add_demand(JobIndex j, int sign) {
    const SimJob& job = state_.jobs[j];
    JobNotes& notes = notes_[j];
    if (sign > 0) {
        notes.demands = !job.impossible;
        notes.demands_allocated = job.allocated;
    }
    if (!notes.demands) {
        return;
    }
    const std::int64_t gpus = sign * job.spec->gpus;
    if (!notes.demands_allocated) {
        demand_free_ += gpus;
        return;
    }
    demand_allocated_ += gpus;
    BudgetNotes& budget = budgets_[notes.budget];
    account(budget);
    budget.demand += gpus;
}

void Simulation::charge_rate(JobIndex j, int sign) {
    const JobNotes& notes = notes_[j];
    BudgetNotes& budget = budgets_[notes.budget];
    account(budget);
    (state_.jobs[j].kind == RunKind::allocated ? budget.charged : budget.free) += sign * notes.gpus;
}

JobRecord& Simulation::record_of(JobIndex j) {
    return j < submissions_ ? record_.jobs[j] : copies_[j - submissions_];
}

const Simulation::BudgetNotes* Simulation::find_budget(std::string_view name) const {
    const auto it = budget_index_.find(std::string(name));
    return it == budget_index_.end() ? nullptr : &budgets_[it->second];
}

std::int64_t Simulation::held_gpus(std::string_view name) const {
    const BudgetNotes* budget = find_budget(name);
    return budget == nullptr ? 0 : budget->held;
}

std::int64_t Simulation::held_gpu_seconds(std::string_view name) const {
    const BudgetNotes* budget = find_budget(name);
    return budget == nullptr
               ? 0
               : budget->held_gpu_seconds + budget->held * (now_ - budget->accounted_at);
}

SimRecord Simulation::finish() {
    record_.end_at = now_;
    account_funding();
    if (options_.ends_with_jobs && next_event_ < workload_.events.size()) {
        const std::size_t count = workload_.events.size() - next_event_;
        const WorkloadEvent& event = workload_.events[next_event_];
        record_.notes.push_back(
            "warning: " + std::to_string(count) + (count == 1 ? " event" : " events") +
            " never happened, since the replay was over before: " +
            (count == 1 ? "" : "the first is ") + std::string(to_text(event.kind)) + " at " +
            std::to_string(event.at));
    }
    for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
        SimJob& job = state_.jobs[j];
        JobRecord& record = record_of(j);
        const JobNotes& notes = notes_[j];
        record.state = job.state;
        record.submitted_at =
            job.state == JobState::future ? job.spec->submit_at : job.first_submit_at;
        record.runs = job.runs;
        if ((job.state == JobState::running || job.state == JobState::leaving) && job.runs > 1) {
            const std::int64_t active =
                notes.active_before +
                (job.suspended ? 0 : std::max<std::int64_t>(now_ - notes.active_since, 0));
            record_.lost_requeued_gpu_seconds +=
                notes.gpus * std::min(active, job.spec->restart_seconds);
        }
        if (notes.segment != kNoIndex) {
            SegmentRecord& segment = record_.segments[notes.segment];
            segment.end_at = segment.charged_until = now_;
        }
    }
    record_.jobs.insert(record_.jobs.end(), std::make_move_iterator(copies_.begin()),
                        std::make_move_iterator(copies_.end()));
    const Standings& standings = fractions_.standings(now_);
    for (BudgetNotes& notes : budgets_) {
        account(notes);
        BudgetRecord budget;
        budget.name = notes.name;
        if (&notes != budgets_.data()) {
            const Budget* place = tree_.find(notes.name);
            if (place == nullptr) {
                continue;  // its add_budget never came
            }
            budget.parent = place->parent;
            budget.is_leaf = !tree_.has_children(notes.name);
            budget.funded_fraction = 1;
            for (BudgetId b = fractions_.find_budget(notes.name); b != kRootId;
                 b = standings.budgets[b].parent) {
                budget.funded_fraction *= static_cast<double>(standings.sides[2 * b].fraction) /
                                          static_cast<double>(kFractionOne);
            }
        } else if (std::none_of(notes_.begin(), notes_.end(),
                                [](const JobNotes& job) { return job.budget == 0; })) {
            continue;
        }
        notes.hours.resize(now_ > record_.begin_at ? hour_of(now_ - 1) + 1 : 0);
        budget.hours = std::move(notes.hours);
        budget.preemptions_suffered = notes.suffered;
        budget.preemptions_caused = notes.caused;
        record_.budgets.push_back(std::move(budget));
    }
    std::stable_sort(record_.budgets.begin(), record_.budgets.end(),
                     [](const BudgetRecord& a, const BudgetRecord& b) {
                         const bool none_a = a.parent.empty(), none_b = b.parent.empty();
                         return none_a != none_b ? none_b : a.name < b.name;
                     });
    return std::move(record_);
}

}  // namespace tranche::sim
