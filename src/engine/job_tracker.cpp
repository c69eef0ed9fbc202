// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/job_tracker.hpp"

#include <algorithm>

namespace tranche {
namespace {

// Slurm makes a requeued job eligible after its credential's life and a second; 120 s unless
// slurm.conf says otherwise. A later date is somebody's wish.
constexpr std::int64_t kRequeueDelayMost = 1205;
constexpr std::int64_t kLongestGap = 12 * 3600;  // less than UsageLedger remembers closed runs
constexpr std::int64_t kDaySeconds = 86400;      // how far back the caps of the lane look

bool holds_nodes(const HostJob& job) {
    return job.state == HostJobState::configuring || job.state == HostJobState::running ||
           job.state == HostJobState::suspended;
}

std::string node_list(const HostSnapshot& snapshot, const HostJob& job,
                      std::vector<std::string>& names) {
    names.clear();
    std::string text;
    for (const NodeShare& share : job.where) {
        names.push_back(snapshot.nodes[share.node].name);
        text += (text.empty() ? "" : ",") + names.back();
    }
    return text;
}

// What is left of the run's contract at that instant.
std::int64_t left_of_contract(const SegmentRow& row, std::int64_t at) {
    return row.protected_until == 0 ? 0 : std::max<std::int64_t>(row.protected_until - at, 0);
}

std::int64_t requested_gpus(const HostJob& job, const HostSnapshot& snapshot) {
    if (!job.shape.exclusive || job.shape.node_set >= snapshot.node_sets.size()) {
        return job.shape.gpus;
    }
    // Whole nodes come with all their GPUs.
    const std::vector<bool>& set = snapshot.node_sets[job.shape.node_set];
    std::int64_t most = 0;
    for (std::size_t n = 0; n < set.size(); ++n) {
        most = std::max(most, set[n] ? snapshot.nodes[n].gpus : 0);
    }
    return std::max(job.shape.gpus, most * job.shape.nodes);
}

std::int64_t requested_weight_milli(const HostJob& job, const HostSnapshot& snapshot,
                                    const Settings& settings) {
    const std::int64_t cpus = job.shape.cpus_per_node * std::max<std::int64_t>(job.shape.nodes, 1);
    return job.governed
               ? requested_gpus(job, snapshot) * settings.gpu_weight_milli(job.shape.gpu_type) +
                     cpus * settings.cpu_weight_milli()
               : cpus * 1000;
}

}  // namespace

std::string_view to_text(RunEnd end) noexcept {
    switch (end) {
        case RunEnd::unknown:
            break;
        case RunEnd::completed:
            return "completed";
        case RunEnd::failed:
            return "failed";
        case RunEnd::cancelled:
            return "cancelled";
        case RunEnd::timeout:
            return "timeout";
        case RunEnd::node_failure:
            return "node-failure";
        case RunEnd::preempted:
            return "preempted";
        case RunEnd::requeued:
            return "requeued";
    }
    return "unknown";
}

std::int64_t held_weight_milli(const HostJob& job, const Settings& settings) {
    if (!job.governed) {
        return job.held_cpus * 1000;
    }
    std::int64_t weight = job.held_cpus * settings.cpu_weight_milli();
    for (const auto& [type, count] : job.held_gpus) {
        weight += count * settings.gpu_weight_milli(type);
    }
    return weight;
}

void JobTracker::restore(const LedgerContents& contents) {
    for (const JobRow& row : contents.jobs) {
        jobs_[row.id].row = row;
    }
    for (const SegmentRow& row : contents.open) {
        Tracked& tracked = jobs_[row.key.job_id];
        if (tracked.row.id == 0) {
            tracked.row.id = row.key.job_id;
            tracked.row.first_submit_at = row.key.submit_at;
            tracked.row.runs = row.run;
        }
        tracked.segment = row;
        tracked.contract_seconds = row.min_runtime_seconds;
        tracked.wants_turn = row.kind == RunKind::unallocated && row.min_runtime_seconds > 0;
        tracked.weight_milli = row.weight_milli;
        tracked.started_at = row.key.begin_at;
        if (row.weight_milli == 0 && (row.gpus > 0 || row.kind == RunKind::allocated)) {
            tracked.paused_at = row.key.begin_at;
            tracked.left_seconds = left_of_contract(row, tracked.paused_at);
        }
        tracked.leaving_for = row.leaving_for;
        std::string name;
        for (const char c : row.nodes + ",") {
            if (c != ',') {
                name.push_back(c);
            } else if (!name.empty()) {
                tracked.node_names.push_back(std::move(name));
                name.clear();
            }
        }
    }
    restore_express(contents);
}

void JobTracker::restore_express(const LedgerContents& contents) {
    for (const SegmentRow& row : contents.express) {
        const auto job = jobs_.find(row.key.job_id);
        if (job != jobs_.end() && job->second.segment &&
            job->second.segment->key.submit_at == row.key.submit_at) {
            continue;  // of a run that goes on
        }
        const auto same =
            std::find_if(past_express_.begin(), past_express_.end(), [&](const PastExpress& past) {
                return past.job == row.key.job_id && past.submit_at == row.key.submit_at;
            });
        if (same != past_express_.end()) {
            same->use.ended_at = row.ended_at;
        } else {
            past_express_.push_back(
                {row.key.job_id,
                 row.key.submit_at,
                 {row.user, row.gpus, row.key.begin_at, row.ended_at, row.protected_until}});
        }
    }
}

void JobTracker::reopen_segments(UsageLedger& ledger) const {
    for (const auto& [id, tracked] : jobs_) {
        if (tracked.segment) {
            ledger.begin(tracked.segment->segment());
        }
    }
}

void JobTracker::read_terms(const HostJob& job, const Settings& settings, const BudgetTree& tree,
                            Tracked& tracked) {
    const std::optional<ContractTerms> stored = parse_stored_terms(job.contract_entries);
    tracked.terms = stored ? *stored : default_terms(settings, !job.batch);
    tracked.terms.min_runtime_seconds = std::clamp<std::int64_t>(
        tracked.terms.min_runtime_seconds, 0, settings.max_min_runtime_seconds);
    tracked.terms.resumable = tracked.terms.resumable && job.batch && job.requeue;
    auto match = tree.match(job.account, job.user, tracked.terms.budget);
    if (!match.ok()) {
        match = tree.match(job.account, job.user);  // its budget is gone: the one that matches
    }
    tracked.budget = match.ok() ? match->name : std::string();
}

bool JobTracker::open_segment(std::int64_t at, Tracked& tracked, UsageLedger& ledger,
                              LedgerBatch& out) {
    SegmentRow& row = *tracked.segment;
    row.key.begin_at = at;
    row.ended_at = row.charged_until = 0;
    row.end_reason.clear();
    if (!ledger.begin(row.segment())) {
        return false;
    }
    out.begun.push_back(row);
    return true;
}

void JobTracker::close_segment(std::int64_t at, std::int64_t charged_until,
                               const std::string& reason, Tracked& tracked, UsageLedger& ledger,
                               LedgerBatch& out) {
    SegmentRow& row = *tracked.segment;
    row.ended_at = std::max(at, row.key.begin_at);
    row.charged_until = std::clamp(charged_until, row.key.begin_at, row.ended_at);
    row.end_reason = reason;
    ledger.end(row.key, row.charged_until);
    out.ended.push_back(row);
}

void JobTracker::begin_run(const HostJob& job, const HostSnapshot& snapshot,
                           const Settings& settings, UsageLedger& ledger, Tracked& tracked,
                           LedgerBatch& out) {
    const JobRow before = tracked.row;
    SegmentRow row;
    row.key = {job.id, job.submit_at, job.start_at};
    row.budget = tracked.budget;
    row.user = job.user;
    row.account = job.account;
    row.partition = job.partition;
    row.name = job.name;
    row.weight_milli = held_weight_milli(job, settings);
    for (const auto& [type, count] : job.held_gpus) {
        row.gpus += count;
    }
    if (job.state == HostJobState::finished && job.where.empty()) {
        // The host has forgotten what it held: what it asked for.
        row.gpus = requested_gpus(job, snapshot);
        row.weight_milli = requested_weight_milli(job, snapshot, settings);
    }
    row.nodes = node_list(snapshot, job, tracked.node_names);
    row.team_priority = tracked.terms.team_priority;
    row.resumable = tracked.terms.resumable;
    row.interactive = !job.batch;
    row.run = ++tracked.row.runs;

    tracked.contract_seconds =
        std::min(tracked.terms.min_runtime_seconds, tracked.row.protection_cap_seconds);
    const BudgetId budget = row.budget.empty() ? kNoBudgetId : ledger.budget_id(row.budget);
    ledger.activate_own_side(row.key.begin_at, budget);
    const Standings& standings = ledger.standings(snapshot.now);
    const bool allocated = job.governed && tracked.contract_seconds > 0 && row.weight_milli > 0 &&
                           standings.funded(budget);
    const auto is_in = [&](const std::unordered_set<JobId>& jobs) {
        return jobs.contains(tracked.unseen_task ? job.array_job_id : job.id);
    };
    tracked.wants_turn = allocated && is_in(as_free_);
    row.kind = !job.governed                      ? RunKind::outside
               : allocated && !tracked.wants_turn ? RunKind::allocated
                                                  : RunKind::unallocated;
    row.express = row.kind == RunKind::allocated && is_in(express_);
    // Of a free run: the contract it gets when its turn comes.
    row.min_runtime_seconds = allocated ? tracked.contract_seconds : 0;
    if (job.state != HostJobState::configuring) {
        row.ready_at = job.start_at;
        row.protected_until =
            row.kind == RunKind::allocated ? row.ready_at + tracked.contract_seconds : 0;
    }
    tracked.row.protection_cap_seconds = kNever;
    tracked.row.waits_for = 0;
    tracked.row.checkpointed_at = 0;
    tracked.row.noticed_seconds = kNever;
    tracked.leaving_for = 0;
    tracked.paused_at = 0;
    tracked.weight_milli = row.weight_milli;
    tracked.started_at = row.key.begin_at;
    tracked.segment = row;
    if (!open_segment(row.key.begin_at, tracked, ledger, out)) {
        // Its charge from then on is known already.
        if (job.state == HostJobState::finished) {
            tracked.row = before;
            tracked.segment.reset();
            tracked.wants_turn = false;
            return;
        }
        open_segment(snapshot.now, tracked, ledger, out);
    }
    out.jobs.push_back(tracked.row);
    if (job.array_job_id != 0 && job.array_task != kNoTask) {
        out.parts.push_back({job.id, job.array_job_id, job.array_task, false});
    } else if (job.het_job_id != 0) {
        out.parts.push_back({job.id, job.het_job_id, job.het_offset, true});
    }
}

void JobTracker::follow_run(const HostJob& job, const HostSnapshot& snapshot,
                            const Settings& settings, UsageLedger& ledger, Tracked& tracked,
                            LedgerBatch& out) {
    SegmentRow& row = *tracked.segment;
    // Instants are whole seconds, and a segment is known by its begin: the next one begins at least
    // a second later.
    if (job.state == HostJobState::suspended) {
        const std::int64_t at =
            std::max(job.suspended_at != 0 ? job.suspended_at : snapshot.now, row.key.begin_at + 1);
        if (tracked.paused_at == 0 && at <= snapshot.now) {
            tracked.left_seconds = left_of_contract(row, at);
            tracked.suspended_before = job.suspended_seconds;
            close_segment(at, at, "suspended", tracked, ledger, out);
            // One that costs nothing: what is left of the contract outlives a restart by it.
            row.weight_milli = 0;
            tracked.paused_at = at;
            open_segment(at, tracked, ledger, out);
        } else if (tracked.paused_at != 0) {
            tracked.suspended_before = job.suspended_seconds;
        }
        return;
    }
    if (tracked.paused_at != 0) {
        if (snapshot.now <= row.key.begin_at) {
            return;
        }
        // Back at work: the contract's clock goes on where it stopped.
        const std::int64_t asleep = job.suspended_seconds - tracked.suspended_before;
        const std::int64_t at =
            asleep > 0 ? std::clamp(tracked.paused_at + asleep, row.key.begin_at + 1, snapshot.now)
                       : snapshot.now;
        close_segment(at, at, "resumed", tracked, ledger, out);
        if (tracked.left_seconds > 0) {
            row.protected_until = at + tracked.left_seconds;
        }
        if (tracked.weight_milli == 0) {
            tracked.weight_milli = held_weight_milli(job, settings);
        }
        row.weight_milli = tracked.weight_milli;
        tracked.paused_at = 0;
        tracked.suspended_before = 0;
        open_segment(at, tracked, ledger, out);
    }
    if (row.ready_at == 0 && job.state == HostJobState::running) {
        // The node is up and the prolog over; Slurm moves start_at to that instant where it knows.
        row.ready_at = job.start_at > row.key.begin_at ? job.start_at : snapshot.now;
        if (row.kind == RunKind::allocated) {
            row.protected_until = row.ready_at + tracked.contract_seconds;
        }
        out.begun.push_back(row);
    }
    std::int64_t gpus = 0;
    for (const auto& [type, count] : job.held_gpus) {
        gpus += count;
    }
    if (gpus != row.gpus && !job.where.empty() && snapshot.now > row.key.begin_at) {
        close_segment(snapshot.now, snapshot.now, "resized", tracked, ledger, out);
        row.gpus = gpus;
        row.weight_milli = tracked.weight_milli = held_weight_milli(job, settings);
        row.nodes = node_list(snapshot, job, tracked.node_names);
        open_segment(snapshot.now, tracked, ledger, out);
    }
}

void JobTracker::end_run(std::int64_t at, RunEnd end, const HostSnapshot& snapshot,
                         const Settings& settings, UsageLedger& ledger, Tracked& tracked,
                         LedgerBatch& out) {
    SegmentRow& row = *tracked.segment;
    at = std::clamp(at, row.key.begin_at, std::max(snapshot.now, row.key.begin_at));
    if (end == RunEnd::requeued || end == RunEnd::unknown) {
        // A requeued node failure looks like any requeue; its node tells.
        for (const HostNode& node : snapshot.nodes) {
            if (!node.up && std::find(tracked.node_names.begin(), tracked.node_names.end(),
                                      node.name) != tracked.node_names.end()) {
                end = RunEnd::node_failure;
            }
        }
        if (end == RunEnd::requeued && tracked.leaving_for != 0) {
            end = RunEnd::preempted;
        }
    }
    // Who leaves by himself within the grace is requeued as well (PlanKeeper::follow_victims).
    if (tracked.leaving_for != 0 && row.resumable && !row.interactive &&
        (end == RunEnd::completed || end == RunEnd::failed || end == RunEnd::timeout)) {
        end = RunEnd::preempted;
    }
    std::int64_t charged_until = at;
    if (end == RunEnd::node_failure && settings.refund_node_failure) {
        const bool protected_still = row.kind == RunKind::allocated &&
                                     (row.protected_until == 0 || at < row.protected_until);
        charged_until = protected_still
                            ? row.key.begin_at
                            : std::max(row.protected_until, at - settings.refund_max_seconds);
    }
    close_segment(at, charged_until, std::string(to_text(end)), tracked, ledger, out);
    if (row.express) {
        past_express_.push_back(
            {row.key.job_id,
             row.key.submit_at,
             {row.user, row.gpus, tracked.started_at, at, row.protected_until}});
    }
    tracked.ended_submit_at = row.key.submit_at;
    tracked.segment.reset();
    tracked.paused_at = 0;
    tracked.wants_turn = false;
    tracked.leaving_for = 0;
}

void JobTracker::observe(const HostSnapshot& snapshot, const Settings& settings,
                         const BudgetTree& tree, UsageLedger& ledger, LedgerBatch& out) {
    ++round_;
    // The contract of a heterogeneous job is the largest of its components'.
    std::unordered_map<std::uint32_t, ContractTerms> het;
    for (const HostJob& job : snapshot.jobs) {
        if (job.het_job_id == 0) {
            continue;
        }
        if (const auto stored = parse_stored_terms(job.contract_entries)) {
            ContractTerms& terms = het[job.het_job_id];
            if (stored->min_runtime_seconds >= terms.min_runtime_seconds) {
                terms = *stored;
            }
        }
    }
    for (const HostJob& job : snapshot.jobs) {
        Tracked& tracked = jobs_[job.id];
        tracked.seen = round_;
        tracked.unseen_task = false;
        if (tracked.row.id == 0) {
            tracked.row.id = job.id;
            tracked.unseen_task = job.array_job_id != 0 && job.array_job_id != job.id;
            // A task split off its array was submitted with it.
            const auto array = jobs_.find(job.array_job_id);
            tracked.row.first_submit_at =
                job.array_job_id != 0 && job.array_job_id != job.id && array != jobs_.end() &&
                        array->second.row.id != 0 && array->second.row.runs == 0
                    ? array->second.row.first_submit_at
                    : job.submit_at;
        }
        if (tracked.segment && tracked.segment->key.submit_at != job.submit_at) {
            end_run(job.submit_at, RunEnd::requeued, snapshot, settings, ledger, tracked, out);
        }
        if (tracked.segment && !holds_nodes(job)) {
            const std::int64_t end =
                job.end_at != 0 && job.end_at <= snapshot.now ? job.end_at : snapshot.now;
            end_run(end, job.end, snapshot, settings, ledger, tracked, out);
        }
        const bool unseen = !tracked.segment && tracked.ended_submit_at != job.submit_at;
        if (job.state == HostJobState::finished) {
            // It began and ended since the last snapshot, or while nobody looked.
            if (unseen && job.start_at > 0 && job.end_at > job.start_at &&
                job.end_at > snapshot.now - kLongestGap) {
                read_terms(job, settings, tree, tracked);
                begin_run(job, snapshot, settings, ledger, tracked, out);
                if (tracked.segment) {
                    end_run(job.end_at, job.end, snapshot, settings, ledger, tracked, out);
                }
                tracked.ended_submit_at = job.submit_at;
            }
            continue;
        }
        read_terms(job, settings, tree, tracked);
        if (const auto it = het.find(job.het_job_id); it != het.end()) {
            tracked.terms.min_runtime_seconds =
                std::min(it->second.min_runtime_seconds, settings.max_min_runtime_seconds);
            tracked.terms.resumable = it->second.resumable && job.batch && job.requeue;
            tracked.terms.team_priority = it->second.team_priority;
            tracked.terms.free_first = it->second.free_first;
        }
        if (unseen && holds_nodes(job) && job.start_at > 0) {
            begin_run(job, snapshot, settings, ledger, tracked, out);
        }
        if (tracked.segment && holds_nodes(job)) {
            follow_run(job, snapshot, settings, ledger, tracked, out);
        }
    }
    for (auto it = jobs_.begin(); it != jobs_.end();) {
        if (it->second.seen == round_) {
            ++it;
            continue;
        }
        if (it->second.segment) {
            end_run(snapshot.now, RunEnd::unknown, snapshot, settings, ledger, it->second, out);
        }
        out.jobs_gone.push_back(it->first);
        it = jobs_.erase(it);
    }
    std::erase_if(past_express_, [&](const PastExpress& past) {
        return past.use.ended_at < snapshot.now - kDaySeconds;
    });
    express_.clear();
    as_free_.clear();
}

void JobTracker::expect_starts(std::unordered_set<JobId> express,
                               std::unordered_set<JobId> as_free) {
    express_ = std::move(express);
    as_free_ = std::move(as_free);
}

void JobTracker::turn(JobId id, std::int64_t at, UsageLedger& ledger, LedgerBatch& out) {
    const auto it = jobs_.find(id);
    if (it == jobs_.end() || !it->second.segment || !it->second.wants_turn ||
        it->second.paused_at != 0 || at <= it->second.segment->key.begin_at) {
        return;  // an instant later, if it still has its turn then
    }
    Tracked& tracked = it->second;
    close_segment(at, at, "turned", tracked, ledger, out);
    SegmentRow& row = *tracked.segment;
    tracked.wants_turn = false;
    row.kind = RunKind::allocated;
    row.ready_at = at;
    row.protected_until = at + tracked.contract_seconds;
    open_segment(at, tracked, ledger, out);
}

void JobTracker::set_leaving(JobId victim, JobId claimant, bool express, const Settings& settings,
                             LedgerBatch& out) {
    const auto it = jobs_.find(victim);
    if (it == jobs_.end()) {
        return;
    }
    Tracked& tracked = it->second;
    tracked.leaving_for = claimant;
    tracked.row.waits_for = claimant;
    if (express && settings.express_victim_protection_seconds) {
        tracked.row.protection_cap_seconds = *settings.express_victim_protection_seconds;
    }
    if (tracked.segment) {
        tracked.segment->leaving_for = claimant;
        out.begun.push_back(*tracked.segment);
    }
    out.jobs.push_back(tracked.row);
}

void JobTracker::clear_leaving(JobId victim, bool stays, LedgerBatch& out) {
    const auto it = jobs_.find(victim);
    if (it == jobs_.end()) {
        return;
    }
    Tracked& tracked = it->second;
    tracked.row.waits_for = 0;
    if (stays) {
        tracked.leaving_for = 0;
        tracked.row.protection_cap_seconds = kNever;
        if (tracked.segment) {
            tracked.segment->leaving_for = 0;
            out.begun.push_back(*tracked.segment);
        }
    }
    out.jobs.push_back(tracked.row);
}

void JobTracker::change_contract(const HostJob& job, const ContractTerms& before,
                                 const ContractTerms& after, std::int64_t now, UsageLedger& ledger,
                                 LedgerBatch& out) {
    const auto it = jobs_.find(job.id);
    if (it == jobs_.end()) {
        return;
    }
    Tracked& tracked = it->second;
    tracked.terms = after;
    tracked.terms.resumable = after.resumable && job.batch;
    if (!tracked.segment) {
        return;
    }
    SegmentRow& row = *tracked.segment;
    row.team_priority = after.team_priority;
    row.resumable = tracked.terms.resumable;
    const std::int64_t old_seconds = tracked.contract_seconds;
    if (after.min_runtime_seconds > before.min_runtime_seconds) {
        tracked.contract_seconds = after.min_runtime_seconds;
        tracked.row.noticed_seconds = kNever;  // of the longer contract
        out.jobs.push_back(tracked.row);
    } else if (after.min_runtime_seconds < before.min_runtime_seconds) {
        tracked.contract_seconds = std::min(old_seconds, after.min_runtime_seconds);
    }
    if (row.kind == RunKind::allocated) {
        // It was decided at the start that the run is charged; that stays, without a minimum too.
        row.min_runtime_seconds = tracked.contract_seconds;
        if (row.protected_until != 0) {
            row.protected_until += tracked.contract_seconds - old_seconds;
        }
        if (tracked.paused_at != 0) {
            tracked.left_seconds = left_of_contract(row, tracked.paused_at);
        }
    } else if (row.kind == RunKind::unallocated) {
        // A free run stays free until its turn comes; with a funded minimum it waits for one.
        const BudgetId budget = row.budget.empty() ? kNoBudgetId : ledger.budget_id(row.budget);
        tracked.wants_turn = tracked.contract_seconds > 0 && tracked.weight_milli > 0 &&
                             ledger.standings(now).funded(budget);
        row.min_runtime_seconds = tracked.wants_turn ? tracked.contract_seconds : 0;
    }
    out.begun.push_back(row);
}

std::int64_t JobTracker::noticed_seconds(JobId id) const {
    const auto it = jobs_.find(id);
    return it == jobs_.end() ? 0 : it->second.row.noticed_seconds;
}

void JobTracker::set_noticed(JobId id, std::int64_t seconds, LedgerBatch& out) {
    if (const auto it = jobs_.find(id); it != jobs_.end()) {
        it->second.row.noticed_seconds = seconds;
        out.jobs.push_back(it->second.row);
    }
}

bool JobTracker::checkpointed(JobId id, std::int64_t at, LedgerBatch& out) {
    const auto it = jobs_.find(id);
    if (it == jobs_.end() || !it->second.segment) {
        return false;
    }
    it->second.row.checkpointed_at = at;
    out.jobs.push_back(it->second.row);
    return true;
}

// By Slurm's own delay of a requeue. Het jobs of which one component could not be started are put
// off like that as well, without having had a run.
bool JobTracker::is_put_off(const HostJob& job, const Tracked& tracked) {
    const bool came_back = tracked.row.runs > 0 ||
                           (job.het_job_id != 0 && job.submit_at > tracked.row.first_submit_at);
    return came_back && job.eligible_at - job.submit_at <= kRequeueDelayMost;
}

StartBlock JobTracker::block_of(const HostJob& job) const {
    const auto it = jobs_.find(job.id);
    return job.block == StartBlock::begin_time && it != jobs_.end() && is_put_off(job, it->second)
               ? StartBlock::none  // ours to lift (to_release)
               : job.block;
}

std::vector<JobId> JobTracker::to_release(const HostSnapshot& snapshot) const {
    std::vector<JobId> out;
    for (const HostJob& job : snapshot.jobs) {
        if (job.state != HostJobState::pending || job.block != StartBlock::begin_time) {
            continue;
        }
        const auto it = jobs_.find(job.id);
        if (it != jobs_.end() && it->second.row.waits_for == 0 && is_put_off(job, it->second)) {
            out.push_back(job.id);
        }
    }
    return out;
}

bool JobTracker::wants_other_room(const HostJob& claimant, const HostSnapshot& snapshot,
                                  const Plan& plan) {
    std::size_t nodes = 0;
    std::int64_t gpus = 0;
    for (const HostJob& job : snapshot.jobs) {
        if (job.id == claimant.id ||
            (claimant.het_job_id != 0 && job.het_job_id == claimant.het_job_id)) {
            nodes += std::max<std::uint32_t>(job.shape.nodes, 1);
            gpus += requested_gpus(job, snapshot);
        }
    }
    if (nodes != plan.where.size() || gpus != plan.gpus) {
        return true;
    }
    return claimant.het_job_id == 0 && !claimant.shape.exclusive &&
           std::any_of(plan.where.begin(), plan.where.end(), [&](const NodeShare& share) {
               return claimant.shape.cpus_per_node > share.cpus ||
                      claimant.shape.memory_mib_per_node > share.memory_mib;
           });
}

std::size_t JobTracker::open_runs() const {
    return static_cast<std::size_t>(std::count_if(
        jobs_.begin(), jobs_.end(), [](const auto& entry) { return bool(entry.second.segment); }));
}

const SegmentRow* JobTracker::open_segment(JobId id) const {
    const auto it = jobs_.find(id);
    return it == jobs_.end() || !it->second.segment ? nullptr : &*it->second.segment;
}

// Pending heterogeneous jobs as wholes; one of which a component is missing or cannot start stays
// apart, and nobody leaves for it.
void JobTracker::join_components(ClusterView& view, const std::vector<JobCard>& cards) {
    std::unordered_map<std::uint32_t, std::vector<const JobCard*>> components;
    for (const JobCard& card : cards) {
        if (card.het_job_id != 0 && card.pending_index >= 0) {
            components[card.het_job_id].push_back(&card);
        }
    }
    const auto pending_of = [&view](const JobCard& card) -> PendingJob& {
        return view.pending[static_cast<std::size_t>(card.pending_index)];
    };
    for (auto& [id, parts] : components) {
        std::sort(parts.begin(), parts.end(),
                  [](const JobCard* a, const JobCard* b) { return a->het_offset < b->het_offset; });
        PendingJob& first = pending_of(*parts.front());
        const bool is_whole = parts.front()->id == id &&
                              std::all_of(parts.begin(), parts.end(), [&](const JobCard* part) {
                                  return pending_of(*part).block == StartBlock::none;
                              });
        first.plannable = is_whole;
        for (const JobCard* part : parts) {
            PendingJob& job = pending_of(*part);
            if (job.id == first.id) {
                continue;
            }
            job.plannable = false;
            if (is_whole) {
                job.goes_with = first.id;
                first.companions.push_back({job.id, job.shape, job.weight_milli});
            }
        }
    }
}

void JobTracker::fill(const HostSnapshot& snapshot, const Settings& settings, UsageLedger& ledger,
                      ClusterView& view, std::vector<JobCard>& cards) const {
    view.now = snapshot.now;
    view.express_uses.clear();
    for (const PastExpress& past : past_express_) {
        view.express_uses.push_back(past.use);
    }
    std::unordered_map<std::uint32_t, std::vector<std::size_t>> het_runs;
    view.node_sets = snapshot.node_sets;
    view.nodes.clear();
    for (const HostNode& host : snapshot.nodes) {
        Node node;
        node.name = host.name;
        node.gpu_type = host.gpu_type;
        node.gpus = node.free_gpus = host.gpus;
        node.cpus = node.free_cpus = host.cpus;
        node.memory_mib = node.free_memory_mib = host.memory_mib;
        node.usable = host.up && !host.draining;
        node.settling = host.completing;
        view.nodes.push_back(std::move(node));
    }
    for (const HostJob& job : snapshot.jobs) {
        const auto it = jobs_.find(job.id);
        if (it == jobs_.end() || job.state == HostJobState::finished ||
            job.state == HostJobState::completing) {
            continue;
        }
        const Tracked& tracked = it->second;
        JobCard card;
        card.id = job.id;
        card.array_job_id = job.array_job_id;
        card.array_task = job.array_task;
        card.array_tasks = job.array_tasks;
        card.het_job_id = job.het_job_id;
        card.het_offset = job.het_offset;
        card.name = job.name;
        card.user = job.user;
        card.uid = job.uid;
        card.account = job.account;
        card.partition = job.partition;
        card.budget = tracked.budget;
        card.terms = tracked.terms;
        card.submit_at = job.submit_at;
        card.first_submit_at = tracked.row.first_submit_at;
        card.runs = tracked.row.runs;
        card.priority = job.priority;
        card.host_reason = job.host_reason;

        const std::string& payer = tracked.segment ? tracked.segment->budget : tracked.budget;
        const BudgetId budget = payer.empty() ? kNoBudgetId : ledger.budget_id(payer);
        ledger.activate_own_side(snapshot.now, budget);
        const MemberId member = ledger.member_id(budget, job.user);

        PendingJob pending;
        pending.id = job.id;
        pending.name = job.name;
        pending.budget = budget;
        pending.member = member;
        pending.shape = job.shape;
        pending.shape.nodes = std::max<std::uint32_t>(job.shape.nodes, 1);
        pending.shape.gpus = requested_gpus(job, snapshot);
        if (job.array_job_id != 0) {
            // The record of the tasks that have none of their own yet goes after those that do.
            pending.order = (std::uint64_t{job.array_job_id} << 32) | job.array_task;
        }
        pending.tasks = std::max<std::uint32_t>(job.array_tasks_pending, 1);
        pending.weight_milli = requested_weight_milli(job, snapshot, settings);
        pending.min_runtime_seconds = tracked.terms.min_runtime_seconds;
        pending.time_limit_seconds = job.time_limit_seconds;
        pending.first_submit_at = tracked.row.first_submit_at;
        pending.protection_cap_seconds = tracked.row.protection_cap_seconds;
        pending.nice = job.nice;
        pending.runs_before = tracked.row.runs;
        pending.team_priority = tracked.terms.team_priority;
        pending.block = job.block;
        pending.resumable = tracked.terms.resumable;
        pending.free_first = tracked.terms.free_first;
        pending.interactive = !job.batch;
        pending.governed = job.governed;
        pending.waits_for = tracked.row.waits_for;

        if (job.state == HostJobState::pending) {
            pending.block = block_of(job);
            card.pending_index = static_cast<std::int64_t>(view.pending.size());
            view.pending.push_back(std::move(pending));
            cards.push_back(std::move(card));
            continue;
        }

        for (const NodeShare& share : job.where) {
            Node& node = view.nodes[share.node];
            node.free_gpus -= share.gpus;
            node.free_cpus -= share.cpus;
            node.free_memory_mib -= share.memory_mib;
        }
        if (!tracked.segment) {
            continue;  // it began in this very second; the next snapshot has it
        }
        const SegmentRow& row = *tracked.segment;
        Run run;
        run.id = job.id;
        run.name = job.name;
        run.budget = budget;
        run.member = member;
        run.kind = row.kind;
        run.state = tracked.leaving_for != 0                 ? RunState::leaving
                    : job.state == HostJobState::configuring ? RunState::configuring
                    : job.state == HostJobState::suspended   ? RunState::suspended
                                                             : RunState::running;
        run.where = job.where;
        run.gpus = row.gpus;
        run.weight_milli = tracked.weight_milli;
        run.started_at = job.start_at;
        run.contract_seconds = row.kind == RunKind::allocated ? tracked.contract_seconds : 0;
        if (row.kind == RunKind::allocated) {
            run.protected_until = row.protected_until == 0 ? kNever : row.protected_until;
            if (tracked.paused_at != 0) {
                run.protected_until = tracked.left_seconds > 0 ? kNever : row.protected_until;
                run.contract_seconds = tracked.left_seconds;
            }
        }
        run.time_limit_seconds = job.time_limit_seconds;
        run.team_priority = row.team_priority;
        run.resumable = row.resumable && tracked.terms.resumable;
        run.interactive = row.interactive;
        run.checkpointed_at = tracked.row.checkpointed_at;
        run.express = row.express;
        run.wants_turn = tracked.wants_turn;
        run.spared = job.spared;
        run.free_first = tracked.wants_turn && tracked.terms.free_first;
        run.first_submit_at = tracked.row.first_submit_at;
        run.leaving_for = tracked.leaving_for;
        if (run.express) {
            view.express_uses.push_back(
                {job.user, run.gpus, run.started_at, 0, run.protected_until});
        }
        const auto run_index = static_cast<std::int64_t>(view.runs.size());
        card.run_index = run_index;
        if (job.het_job_id != 0) {
            het_runs[job.het_job_id].push_back(static_cast<std::size_t>(run_index));
        }
        view.runs.push_back(std::move(run));
        cards.push_back(std::move(card));
        if (tracked.wants_turn && tracked.leaving_for == 0) {
            pending.turn_run = run_index;
            pending.block = StartBlock::none;
            view.pending.push_back(std::move(pending));
        }
    }
    join_components(view, cards);
    // A heterogeneous job's contract is that of its best protected component.
    for (const auto& [id, components] : het_runs) {
        for (const std::size_t one : components) {
            for (const std::size_t other : components) {
                if (one != other && view.runs[other].under_contract(view.now)) {
                    view.runs[one].others_protected_until = std::max(
                        view.runs[one].others_protected_until, view.runs[other].protected_until);
                }
            }
        }
    }
}

}  // namespace tranche
