// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/cluster_book.hpp"

#include <algorithm>

#include "common/policy/large_jobs.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kDay = 86400, kHour = 3600;

void insert_sorted(std::vector<std::uint32_t>& list, std::uint32_t value) {
    const auto at = std::lower_bound(list.begin(), list.end(), value);
    if (at == list.end() || *at != value) {
        list.insert(at, value);
    }
}

void erase_sorted(std::vector<std::uint32_t>& list, std::uint32_t value) {
    const auto at = std::lower_bound(list.begin(), list.end(), value);
    if (at != list.end() && *at == value) {
        list.erase(at);
    }
}

bool waits_for_room(const JobClass& jobs) {
    return !jobs.waits && !jobs.runs;
}

bool leaves(const Run& run) {
    return run.state == RunState::leaving || run.state == RunState::completing;
}

}  // namespace

ClusterBook::ClusterBook(const Settings& settings, UsageLedger& ledger, std::vector<Node> nodes)
    : settings_(settings),
      lazy_(ledger, settings.commitments ? &commitments_ : nullptr),
      queue_(view_, settings, sums_.express_runs) {
    view_.nodes = std::move(nodes);
    view_.node_sets.emplace_back(view_.nodes.size(), true);
    sums_ = sums_of(view_, settings_, false);
    standings_now_ = &lazy_.at(0);
}

std::uint32_t ClusterBook::node_set(std::vector<bool> allowed) {
    for (std::uint32_t s = 0; s < view_.node_sets.size(); ++s) {
        if (view_.node_sets[s] == allowed) {
            return s;
        }
    }
    view_.node_sets.push_back(std::move(allowed));
    return static_cast<std::uint32_t>(view_.node_sets.size() - 1);
}

void ClusterBook::advance(std::int64_t now) {
    view_.now = now;
    while (!reviews_.empty() && reviews_.top().at <= now) {
        const Review review = reviews_.top();
        reviews_.pop();
        if (accounts_[review.run].version == review.version) {
            uncount(review.run);
            count(review.run);
        }
    }
    while (!evictions_.empty() && evictions_.front().first < now - kHour) {
        view_.evictions_last_hour -= evictions_.front().second;
        evictions_.pop_front();
    }
    standings_now_ = &lazy_.at(now);
}

// ---- pending jobs ----

std::uint32_t ClusterBook::add_pending(PendingJob job) {
    std::uint32_t slot = static_cast<std::uint32_t>(view_.pending.size());
    if (free_pending_.empty()) {
        view_.pending.emplace_back();
        classes_.class_of.push_back(kNoId);
        queued_.push_back(false);
    } else {
        slot = free_pending_.back();
        free_pending_.pop_back();
    }
    view_.pending[slot] = std::move(job);
    for (std::size_t p = 0; p < view_.plans.size(); ++p) {
        // A gang that moves had its plan before it was requeued.
        if (view_.plans[p].claimant == view_.pending[slot].id && view_.plan_jobs[p] == kNoId) {
            view_.plan_jobs[p] = slot;
        }
    }
    enqueue(slot);
    return slot;
}

void ClusterBook::remove_pending(std::uint32_t slot) {
    unqueue(slot);
    view_.pending[slot] = PendingJob();
    free_pending_.push_back(slot);
}

void ClusterBook::enqueue(std::uint32_t slot) {
    PendingJob& job = view_.pending[slot];
    queue_.count_pending(job.member, 1);
    if (job.block == StartBlock::none && job.turn_run < 0 && !could_fit(view_, job.shape, false) &&
        settings_.has(Rule::impossible_not_counted)) {
        job.block = StartBlock::impossible;
    }
    const bool planned = std::any_of(view_.plan_jobs.begin(), view_.plan_jobs.end(),
                                     [slot](std::uint32_t s) { return s == slot; });
    if (job.block != StartBlock::none || planned) {
        return;
    }
    if (standings_now_->budgets.size() <= job.budget) {
        standings_now_ = &lazy_.at(view_.now);
    }
    const bool allocated = is_allocated(job, *standings_now_);
    const std::uint32_t c = class_for(job, allocated);
    classes_.class_of[slot] = c;
    JobClass& jobs = classes_.all[c];
    if (jobs.contracts.empty()) {
        fill(c);
    }
    jobs.contracts.insert(job.contract_seconds());
    if (waits_for_room(jobs)) {
        group_of(jobs).amounts.insert(jobs.weight_milli * job.contract_seconds());
    }
    queue_.insert(slot, allocated || !settings_.has(Rule::free_ranks_below), jobs.colour, c,
                  *standings_now_);
    queued_[slot] = true;
}

void ClusterBook::unqueue(std::uint32_t slot) {
    const PendingJob& job = view_.pending[slot];
    queue_.count_pending(job.member, -1);
    if (!queued_[slot]) {
        return;
    }
    queued_[slot] = false;
    queue_.erase(slot);
    const std::uint32_t c = classes_.class_of[slot];
    classes_.class_of[slot] = kNoId;
    JobClass& jobs = classes_.all[c];
    jobs.contracts.erase(jobs.contracts.find(job.contract_seconds()));
    if (waits_for_room(jobs)) {
        auto& amounts = group_of(jobs).amounts;
        amounts.erase(amounts.find(jobs.weight_milli * job.contract_seconds()));
    }
    if (jobs.contracts.empty()) {
        unfill(c);
    }
}

ClassGroup& ClusterBook::group_of(const JobClass& jobs) {
    if (!jobs.allocated) {
        return classes_.free;
    }
    if (jobs.budget >= classes_.allocated.size()) {
        classes_.allocated.resize(jobs.budget + 1);
    }
    return classes_.allocated[jobs.budget];
}

void ClusterBook::fill(std::uint32_t c) {
    const JobClass& jobs = classes_.all[c];
    ClassGroup& group = group_of(jobs);
    if (group.filled.empty() && jobs.allocated) {
        classes_.budgets.push_back(jobs.budget);
    }
    group.filled.push_back(c);
    group.special += jobs.runs || jobs.has_turn ? 1 : 0;
    classes_.gangs += jobs.gang && waits_for_room(jobs) ? 1 : 0;
    if (waits_for_room(jobs)) {
        group.least_member = std::min(group.least_member, jobs.shape.gpus_on(0));
    }
}

void ClusterBook::unfill(std::uint32_t c) {
    const JobClass& jobs = classes_.all[c];
    ClassGroup& group = group_of(jobs);
    group.filled.erase(std::find(group.filled.begin(), group.filled.end(), c));
    group.special -= jobs.runs || jobs.has_turn ? 1 : 0;
    classes_.gangs -= jobs.gang && waits_for_room(jobs) ? 1 : 0;
    group.least_member = kNever;
    for (const std::uint32_t other : group.filled) {
        if (waits_for_room(classes_.all[other])) {
            group.least_member = std::min(group.least_member, classes_.all[other].shape.gpus_on(0));
        }
    }
    if (group.filled.empty() && jobs.allocated) {
        classes_.budgets.erase(
            std::find(classes_.budgets.begin(), classes_.budgets.end(), jobs.budget));
    }
}

void ClusterBook::describe(JobClass& jobs) const {
    jobs.whole_node = jobs.allocated && needs_whole_node(view_, jobs.shape);
    jobs.gang = jobs.allocated && may_be_assembled(view_, jobs.shape, settings_);
}

std::uint32_t ClusterBook::class_for(const PendingJob& job, bool allocated) {
    JobClass jobs;
    jobs.budget = job.budget;
    jobs.shape = job.shape;
    jobs.weight_milli = job.weight_milli;
    jobs.allocated = allocated;
    jobs.resumable = job.resumable;
    jobs.plannable = job.plannable;
    jobs.lane = allocated && fits_lane(job, settings_);
    jobs.waits = job.waits_for != 0;
    jobs.runs = job.turn_run >= 0;
    jobs.free_first = allocated && job.free_first;
    jobs.has_turn = job.turn_at != 0;
    // The lane's caps are each user's own.
    jobs.member = jobs.lane ? job.member : 0;
    // Free jobs are alike whoever's they are.
    if (!allocated) {
        jobs.budget = kNoBudgetId;
    }
    std::string key = jobs.shape.gpu_type;
    for (const std::int64_t part :
         {std::int64_t{jobs.budget}, std::int64_t{jobs.shape.nodes}, jobs.shape.gpus,
          jobs.shape.cpus_per_node, jobs.shape.memory_mib_per_node,
          std::int64_t{jobs.shape.exclusive}, std::int64_t{jobs.shape.node_set}, jobs.weight_milli,
          std::int64_t{jobs.member},
          std::int64_t{jobs.allocated} | std::int64_t{jobs.resumable} << 1 |
              std::int64_t{jobs.plannable} << 2 | std::int64_t{jobs.lane} << 3 |
              std::int64_t{jobs.waits} << 4 | std::int64_t{jobs.runs} << 5 |
              std::int64_t{jobs.free_first} << 6 | std::int64_t{jobs.has_turn} << 7}) {
        key.push_back('|');
        key.append(reinterpret_cast<const char*>(&part), sizeof part);
    }
    auto& known = class_index_[key];
    if (known.empty()) {
        describe(jobs);
        const auto shape = std::find(classes_.shapes.begin(), classes_.shapes.end(), jobs.shape);
        jobs.shape_number = static_cast<std::uint32_t>(shape - classes_.shapes.begin());
        if (shape == classes_.shapes.end()) {
            classes_.shapes.push_back(jobs.shape);
        }
        // Classes beyond 64 share a colour: they are looked at more often, no more.
        const BudgetId of = allocated ? job.budget : kNoBudgetId;
        jobs.colour = static_cast<std::uint8_t>(colours_[{of, allocated}]++ % 64);
        known.push_back(static_cast<std::uint32_t>(classes_.all.size()));
        classes_.all.push_back(std::move(jobs));
    }
    return known.front();
}

// ---- runs ----

std::uint32_t ClusterBook::add_run(Run run) {
    std::uint32_t slot = static_cast<std::uint32_t>(view_.runs.size());
    if (free_runs_.empty()) {
        view_.runs.emplace_back();
        accounts_.emplace_back();
    } else {
        slot = free_runs_.back();
        free_runs_.pop_back();
    }
    view_.runs[slot] = std::move(run);
    hold(view_.runs[slot], 1);
    for (const NodeShare& share : view_.runs[slot].where) {
        insert_sorted(sums_.runs_on[share.node], slot);
    }
    count(slot);
    return slot;
}

void ClusterBook::remove_run(std::uint32_t slot) {
    uncount(slot);
    hold(view_.runs[slot], -1);
    for (const NodeShare& share : view_.runs[slot].where) {
        erase_sorted(sums_.runs_on[share.node], slot);
    }
    view_.runs[slot] = Run();
    free_runs_.push_back(slot);
}

void ClusterBook::hold(const Run& run, std::int64_t sign) {
    for (const NodeShare& share : run.where) {
        Node& node = view_.nodes[share.node];
        node.free_gpus -= sign * share.gpus;
        node.free_cpus -= sign * share.cpus;
        node.free_memory_mib -= sign * share.memory_mib;
        for (std::vector<RoomNode>* rooms : {&sums_.empty, &sums_.room, &sums_.future}) {
            RoomNode& room = (*rooms)[share.node];
            room.gpus -= sign * share.gpus;
            room.cpus -= sign * share.cpus;
            room.memory_mib -= sign * share.memory_mib;
        }
    }
}

void ClusterBook::count(std::uint32_t slot) {
    const Run& run = view_.runs[slot];
    RunAccount& account = accounts_[slot];
    account.version = ++versions_;
    account.committed = false;
    account.protected_gpus = 0;
    if (leaves(run)) {
        for (const NodeShare& share : run.where) {
            RoomNode& room = sums_.future[share.node];
            room.gpus += share.gpus;
            room.cpus += share.cpus;
            room.memory_mib += share.memory_mib;
        }
    }
    if (run.commitment_seconds(view_.now) > 0) {
        account.committed = true;
        account.commit_until = run.protected_until;
        account.commit_seconds = run.contract_seconds;
        commitments_.add(standings_now_->budgets[run.budget].path, run.member, run.weight_milli,
                         account.commit_until, account.commit_seconds);
    }
    if (run.under_contract(view_.now)) {
        if (!run.express) {
            for (const NodeShare& share : run.where) {
                account.protected_gpus += view_.nodes[share.node].usable ? share.gpus : 0;
            }
            sums_.protected_gpus += account.protected_gpus;
        }
        if (run.protected_until != kNever) {
            reviews_.push({run.protected_until, slot, account.version});
        }
    }
    if (run.express) {
        insert_sorted(sums_.express_runs, slot);
    }
    if (is_takeable(run, view_.now)) {
        set_takeable(slot, true);
    }
}

void ClusterBook::set_takeable(std::uint32_t slot, bool takeable) {
    const Run& run = view_.runs[slot];
    accounts_[slot].takeable = takeable;
    if (sums_.groups.empty()) {
        sums_.groups.push_back(
            {kNoBudgetId, true, {}, std::vector<std::int32_t>(view_.nodes.size())});
        group_of_.clear();
    }
    std::uint32_t g = 0;
    if (run.kind == RunKind::allocated) {
        if (run.budget >= group_of_.size()) {
            group_of_.resize(run.budget + 1, 0);
        }
        if (group_of_[run.budget] == 0) {
            group_of_[run.budget] = static_cast<std::uint32_t>(sums_.groups.size());
            sums_.groups.push_back(
                {run.budget, false, {}, std::vector<std::int32_t>(view_.nodes.size())});
        }
        g = group_of_[run.budget];
    }
    TakeableGroup& group = sums_.groups[g];
    if (takeable) {
        insert_sorted(sums_.takeable, slot);
        insert_sorted(group.runs, slot);
    } else {
        erase_sorted(sums_.takeable, slot);
        erase_sorted(group.runs, slot);
    }
    for (const NodeShare& share : run.where) {
        group.gpus[share.node] += static_cast<std::int32_t>(takeable ? share.gpus : -share.gpus);
    }
}

void ClusterBook::uncount(std::uint32_t slot) {
    const Run& run = view_.runs[slot];
    RunAccount& account = accounts_[slot];
    account.version = ++versions_;
    if (leaves(run)) {
        for (const NodeShare& share : run.where) {
            RoomNode& room = sums_.future[share.node];
            room.gpus -= share.gpus;
            room.cpus -= share.cpus;
            room.memory_mib -= share.memory_mib;
        }
    }
    if (account.committed) {
        commitments_.remove(standings_now_->budgets[run.budget].path, run.member, run.weight_milli,
                            account.commit_until, account.commit_seconds);
        account.committed = false;
    }
    sums_.protected_gpus -= account.protected_gpus;
    account.protected_gpus = 0;
    if (run.express) {
        erase_sorted(sums_.express_runs, slot);
    }
    if (account.takeable) {
        set_takeable(slot, false);
    }
}

// ---- plans, assemblies ----

void ClusterBook::owe(const Plan& plan, std::int64_t sign) {
    sums_.protected_gpus += plan.express ? 0 : sign * plan.gpus;
    for (const NodeShare& share : plan.where) {
        if (!settings_.has(Rule::plan_keeps_room)) {
            break;
        }
        for (std::vector<RoomNode>* rooms : {&sums_.room, &sums_.future}) {
            RoomNode& room = (*rooms)[share.node];
            room.gpus -= sign * share.gpus;
            room.cpus -= sign * share.cpus;
            room.memory_mib -= sign * share.memory_mib;
        }
    }
    if (!settings_.has(Rule::plan_commitment)) {
        return;
    }
    const auto& path = standings_now_->budgets[plan.budget].path;
    if (sign > 0) {
        commitments_.add(path, plan.member, plan.weight_milli, kNever, plan.commitment_seconds);
    } else {
        commitments_.remove(path, plan.member, plan.weight_milli, kNever, plan.commitment_seconds);
    }
}

void ClusterBook::add_plan(Plan plan, std::uint32_t slot) {
    owe(plan, 1);
    view_.plans.push_back(std::move(plan));
    view_.plan_jobs.push_back(slot);
    if (slot != kNoId) {
        // The claimant stands in the plans' band now.
        unqueue(slot);
        queue_.count_pending(view_.pending[slot].member, 1);
    }
}

void ClusterBook::remove_plan(JobId claimant) {
    for (std::size_t p = 0; p < view_.plans.size(); ++p) {
        if (view_.plans[p].claimant != claimant) {
            continue;
        }
        owe(view_.plans[p], -1);
        const std::uint32_t slot = view_.plan_jobs[p];
        view_.plans.erase(view_.plans.begin() + static_cast<std::ptrdiff_t>(p));
        view_.plan_jobs.erase(view_.plan_jobs.begin() + static_cast<std::ptrdiff_t>(p));
        if (slot != kNoId && view_.pending[slot].id == claimant && !queued_[slot]) {
            queue_.count_pending(view_.pending[slot].member, -1);
            enqueue(slot);
        }
        return;
    }
}

void ClusterBook::set_assembly(const Assembly& assembly) {
    for (Assembly& standing : view_.assemblies) {
        if (standing.claimant == assembly.claimant) {
            standing = assembly;
            return;
        }
    }
    view_.assemblies.push_back(assembly);
}

void ClusterBook::remove_assembly(JobId claimant) {
    std::erase_if(view_.assemblies,
                  [claimant](const Assembly& a) { return a.claimant == claimant; });
}

void ClusterBook::end_express_use(const std::string& user, std::int64_t started_at,
                                  std::int64_t ended_at) {
    for (ExpressUse& use : view_.express_uses) {
        if (use.ended_at == 0 && use.started_at == started_at && use.user == user) {
            use.ended_at = ended_at;
            break;
        }
    }
    std::erase_if(view_.express_uses, [&](const ExpressUse& use) {
        return use.ended_at != 0 && use.ended_at < view_.now - kDay;
    });
}

void ClusterBook::note_evictions(std::int64_t count) {
    evictions_.emplace_back(view_.now, count);
    view_.evictions_last_hour += count;
}

// ---- nodes and the tree ----

void ClusterBook::change_node(NodeIndex n, bool usable, bool draining,
                              std::int64_t drain_started_at) {
    Node& node = view_.nodes[n];
    node.usable = usable;
    node.draining = draining;
    node.drain_started_at = drain_started_at;
    rebuild();
}

void ClusterBook::rebuild() {
    standings_now_ = &lazy_.at(view_.now);
    commitments_.clear();
    reviews_ = {};
    const std::vector<std::vector<std::uint32_t>> runs_on = std::move(sums_.runs_on);
    ClusterView nodes_only;  // the sums of an empty cluster, then all that is in it
    nodes_only.now = view_.now;
    nodes_only.nodes = view_.nodes;
    sums_ = sums_of(nodes_only, settings_, false);
    sums_.runs_on = runs_on;
    for (std::uint32_t slot = 0; slot < view_.runs.size(); ++slot) {
        if (view_.runs[slot].id != 0) {
            accounts_[slot] = RunAccount();
            count(slot);
        }
    }
    for (const Plan& plan : view_.plans) {
        owe(plan, 1);
    }
    queue_.clear();
    const std::vector<std::uint32_t> slots = std::move(classes_.class_of);
    classes_ = JobClasses();
    classes_.class_of.resize(slots.size(), kNoId);
    class_index_.clear();
    colours_.clear();
    for (std::uint32_t slot = 0; slot < view_.pending.size(); ++slot) {
        queued_[slot] = false;
        classes_.class_of[slot] = kNoId;
        if (view_.pending[slot].id != 0) {
            if (view_.pending[slot].block == StartBlock::impossible) {
                view_.pending[slot].block = StartBlock::none;
            }
            enqueue(slot);
        }
    }
}

PassResult ClusterBook::pass() {
    standings_now_ = &lazy_.at(view_.now);
    while (!reviews_.empty() && accounts_[reviews_.top().run].version != reviews_.top().version) {
        reviews_.pop();
    }
    sums_.next_contract_end_at = reviews_.empty() ? kNever : reviews_.top().at;
    queue_.begin(*standings_now_);
    return run_head_pass(view_, sums_, classes_, queue_, queue_, *standings_now_, settings_);
}

}  // namespace tranche
