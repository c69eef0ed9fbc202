// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/plan_keeper.hpp"

#include <algorithm>

#include "common/policy/classes.hpp"
#include "common/policy/ranking.hpp"

namespace tranche {
namespace {

constexpr std::string_view kTag = "tranche: ";  // of lines in a job's output

// A plan is wasted when slurmctld has tried its claimant on the free room so many times in vain, or
// has not tried at all for so long; a busy machine or a slow pass is no waste.
constexpr std::int64_t kClaimantPatience = 60;
constexpr std::uint32_t kFairAttempts = 3;
constexpr std::int64_t kUntriedPatience = 600;
constexpr std::int64_t kWastePause = 600;  // before a claimant whose plan was wasted gets another
constexpr std::int64_t kWakeEvery = 2;     // while a claimant waits on empty room
constexpr std::int64_t kVerifyPause = 5;   // after Slurm said a plan cannot work
// A session is warned quietly (a signal would end its notebook) and signalled so long before the
// end.
constexpr std::int64_t kLastCallSeconds = 60;
// Above the plan band: a task of an array for which somebody leaves, the first one highest.
constexpr std::uint32_t kLeadingPriority = 4294500000;
constexpr std::uint32_t kMostLeading = 100000;
constexpr std::size_t kRecentPreemptions = 500;
constexpr std::size_t kRecentDelays = 1000;

}  // namespace

PlanKeeper::PlanKeeper(Host& host, JobTracker& tracker, std::function<void()> kick,
                       std::function<std::int64_t()> clock)
    : host_(host), tracker_(tracker), kick_(std::move(kick)), clock_(std::move(clock)) {}

void PlanKeeper::restore(const LedgerContents& contents, const Settings& settings) {
    recent_ = contents.preemptions;
    for (const PreemptionRecord& record : recent_) {
        eviction_times_.push_back(record.warned_at);
    }
    for (const PlanRow& row : contents.plans) {
        LivePlan live;
        live.plan.claimant = row.claimant;
        live.plan.weight_milli = row.weight_milli;
        live.plan.commitment_seconds = row.commitment_seconds;
        live.plan.gpus = row.gpus;
        live.plan.made_at = row.made_at;
        live.plan.express = row.express;
        live.plan.victims = row.victims;
        for (const PlanNodeRow& node : row.nodes) {
            live.nodes.push_back(node.node);
            // The node's number of today is filled in by follow_plans().
            live.plan.where.push_back({kNoId, node.gpus, node.cpus, node.memory_mib});
        }
        for (const JobId victim : row.victims) {
            LiveVictim live_victim;
            live_victim.eviction.victim = victim;
            live_victim.eviction.claimant = row.claimant;
            for (const PreemptionRecord& record : contents.preemptions) {
                if (record.victim == victim && record.claimant == row.claimant &&
                    record.planned_at == row.made_at) {
                    live_victim.record = record;
                }
            }
            live_victim.warned = live_victim.record.warned_at != 0;
            const SegmentRow* segment = tracker_.open_segment(victim);
            if (segment == nullptr || live_victim.record.gone_at != 0) {
                live_victim.state = EvictionState::gone;
                if (live_victim.record.gone_at == 0) {
                    live_victim.record.gone_at = host_.now();
                }
            } else {
                Eviction& eviction = live_victim.eviction;
                eviction.comment = eviction_comment(live_victim.record);
                eviction.requeue = segment->resumable && !segment->interactive;
                eviction.grace_seconds =
                    segment->kind != RunKind::allocated ? settings.grace_time_free_seconds
                    : segment->interactive              ? settings.grace_time_interactive_seconds
                                                        : settings.grace_time_seconds;
                eviction.quiet = segment->interactive && eviction.grace_seconds > kLastCallSeconds;
                live_victim.grace_ends_milliseconds =
                    1000 * (live_victim.record.warned_at + eviction.grace_seconds);
                if (live_victim.warned && !settings.dry_run) {
                    // Lost with a slurmctld that was killed before it saved its jobs; else nothing.
                    eviction.message = "tranche: " + eviction.comment;
                    if (const Status status = host_.warn(eviction); !status.ok()) {
                        log(Host::LogLevel::verbose, status.error());
                    }
                }
            }
            live.victims.push_back(std::move(live_victim));
        }
        if (live.emptied()) {
            live.emptied_at = host_.now();
        }
        book_.add(std::move(live));
    }
    kick_();  // whoever looks after victims
}

std::vector<PlanKeeper::Part> PlanKeeper::parts_of(const HostJob& claimant,
                                                   const HostSnapshot& snapshot) {
    if (claimant.het_job_id == 0) {
        return {{claimant.id, std::max<std::size_t>(claimant.shape.nodes, 1)}};
    }
    std::vector<const HostJob*> components;
    for (const HostJob& job : snapshot.jobs) {
        if (job.het_job_id == claimant.het_job_id) {
            components.push_back(&job);
        }
    }
    std::sort(components.begin(), components.end(),
              [](const HostJob* a, const HostJob* b) { return a->het_offset < b->het_offset; });
    std::vector<Part> parts;
    parts.reserve(components.size());
    for (const HostJob* component : components) {
        parts.push_back({component->id, std::max<std::size_t>(component->shape.nodes, 1)});
    }
    return parts;
}

void PlanKeeper::pin(const std::vector<Part>& parts, const std::vector<std::string>& nodes) {
    auto next = nodes.begin();
    for (const Part& part : parts) {
        const auto end = next + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(part.nodes),
                                                         nodes.end() - next);
        host_.pin(part.id, {next, end});
        next = end;
    }
}

Status PlanKeeper::verify(const std::vector<Part>& parts, const LivePlan& plan) {
    auto next = plan.nodes.begin();
    for (const Part& part : parts) {
        const auto end = next + static_cast<std::ptrdiff_t>(part.nodes);
        if (Status status = host_.verify(part.id, plan.plan.victims, {next, end}); !status.ok()) {
            return status;
        }
        next = end;
    }
    return {};
}

void PlanKeeper::follow(const HostSnapshot& snapshot, const Settings& settings, LedgerBatch& out) {
    std::unordered_map<JobId, const HostJob*> jobs;
    std::unordered_map<std::string, NodeIndex> nodes;
    for (const HostJob& job : snapshot.jobs) {
        jobs.emplace(job.id, &job);
    }
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n) {
        nodes.emplace(snapshot.nodes[n].name, n);
    }
    bool changed = false;
    room_waits_ = false;
    for (const LivePlan& live : book_.plans()) {
        const auto it = jobs.find(live.plan.claimant);
        const HostJob* job = it == jobs.end() ? nullptr : it->second;
        std::string outcome;
        const HostJob* begun = nullptr;
        if (job == nullptr || job->state == HostJobState::finished) {
            const bool ran = job != nullptr && job->start_at >= live.plan.made_at &&
                             job->start_at != 0 && job->end_at > job->start_at;
            outcome = ran ? "started" : "claimant-left";
            begun = ran ? job : nullptr;
        } else if (job->state != HostJobState::pending) {
            begun = job;
            const bool on_plan =
                std::all_of(job->where.begin(), job->where.end(), [&](const NodeShare& share) {
                    return std::find(live.nodes.begin(), live.nodes.end(),
                                     snapshot.nodes[share.node].name) != live.nodes.end();
                });
            outcome = on_plan ? "started" : "overtaken";
        } else if (tracker_.block_of(*job) != StartBlock::none || settings.dry_run) {
            outcome = "claimant-left";  // held, limited or put off meanwhile
        } else if (tracker_.wants_other_room(*job, snapshot, live.plan)) {
            outcome = "claimant-left";  // it was changed: planned anew
        } else if (std::any_of(live.nodes.begin(), live.nodes.end(), [&](const auto& name) {
                       const auto node = nodes.find(name);
                       return node == nodes.end() || !snapshot.nodes[node->second].up ||
                              snapshot.nodes[node->second].draining;
                   })) {
            outcome = "claimant-left";  // its nodes are gone: it is planned anew
        } else if (live.emptied_at != 0) {
            const bool settling = std::any_of(
                live.nodes.begin(), live.nodes.end(),
                [&](const auto& name) { return snapshot.nodes[nodes.at(name)].completing; });
            const std::uint32_t attempts = book_.count_attempts(live.plan.claimant, settling);
            const std::int64_t waits = snapshot.now - live.emptied_at;
            if (!settling && ((waits > kClaimantPatience && attempts >= kFairAttempts) ||
                              waits > kUntriedPatience)) {
                outcome = "wasted";
                no_plan_until_[live.plan.claimant] = snapshot.now + kWastePause;
            } else {
                room_waits_ = true;
            }
        }
        if (outcome.empty()) {
            pin(parts_of(*job, snapshot), live.nodes);
            continue;
        }
        LivePlan ended;
        if (book_.remove(live.plan.claimant, ended)) {
            end(ended, outcome, begun, snapshot, out);
            changed = true;
        }
    }
    if (changed) {
        put(out);
        kick_();
    }
}

void PlanKeeper::fill(EngineView& next, UsageLedger& ledger) {
    std::unordered_map<std::string, NodeIndex> node_numbers;
    for (NodeIndex n = 0; n < next.view.nodes.size(); ++n) {
        node_numbers.emplace(next.view.nodes[n].name, n);
    }
    for (const LivePlan& live : book_.plans()) {
        Plan plan = live.plan;
        for (std::size_t i = 0; i < live.nodes.size(); ++i) {
            plan.where[i].node = node_numbers.at(live.nodes[i]);
        }
        if (const JobCard* card = next.card(plan.claimant)) {
            plan.budget = card->budget.empty() ? kNoBudgetId : ledger.budget_id(card->budget);
            plan.member = ledger.member_id(plan.budget, card->user);
            next.view.plans.push_back(std::move(plan));
        }
    }
    std::erase_if(eviction_times_, [&](std::int64_t at) { return at < next.at - 3600; });
    next.view.evictions_last_hour = static_cast<std::int64_t>(eviction_times_.size());
    std::erase_if(no_plan_until_, [&](const auto& entry) { return entry.second <= next.at; });
    for (PendingJob& job : next.view.pending) {
        job.plannable = job.plannable && !no_plan_until_.contains(job.id);
    }
}

bool PlanKeeper::make(const PlanDecision& decision, const EngineView& next, LedgerBatch& out) {
    LivePlan live;
    live.plan = decision.plan;
    if (const JobCard* card = next.card(live.plan.claimant)) {
        live.array_job_id = card->array_job_id;
    }
    std::string node_text;
    for (const NodeShare& share : live.plan.where) {
        live.nodes.push_back(next.view.nodes[share.node].name);
        node_text += (node_text.empty() ? "" : ",") + live.nodes.back();
    }
    const JobId claimant = decision.plan.claimant;
    const PendingJob& job = next.view.pending[decision.job];
    std::vector<Part> parts = {{claimant, job.shape.nodes}};
    for (const Companion& companion : job.companions) {
        parts.push_back({companion.id, companion.shape.nodes});
    }
    if (const Status status = verify(parts, live); !status.ok()) {
        no_plan_until_[claimant] = next.at + kVerifyPause;
        log(Host::LogLevel::verbose, "no plan for job " + std::to_string(claimant) + " on " +
                                         node_text + ": " + status.error());
        return false;
    }
    for (const VictimDecision& victim : decision.victims) {
        const Run& run = next.view.runs[victim.run];
        LiveVictim live_victim;
        live_victim.record = record_of(victim, live.plan, run, next.standings,
                                       next.available_weight_milli, node_text);
        for (auto [id, label] : {std::pair(run.id, &live_victim.record.victim_label),
                                 std::pair(claimant, &live_victim.record.claimant_label)}) {
            if (const JobCard* card = next.card(id)) {
                *label = card->label();
            }
        }
        Eviction& eviction = live_victim.eviction;
        eviction.victim = run.id;
        eviction.claimant = claimant;
        eviction.grace_seconds = grace_seconds(run, *next.settings);
        eviction.requeue = run.resumable && !run.interactive;
        eviction.quiet = run.interactive && eviction.grace_seconds > kLastCallSeconds;
        eviction.comment = eviction_comment(live_victim.record);
        eviction.message =
            std::string(kTag) + eviction_message(live_victim.record, run, eviction.grace_seconds);
        live.victims.push_back(std::move(live_victim));
    }
    // Its place is safe before anybody leaves: the band above all others, and its nodes.
    host_.set_priorities({{claimant, band_floor(Band::plan) + 1}});
    pin(parts, live.nodes);
    for (std::size_t i = 0; i < live.victims.size(); ++i) {
        LiveVictim& victim = live.victims[i];
        const Status status = host_.warn(victim.eviction);
        if (!status.ok()) {
            // It ended or left meanwhile: its room is free all the same.
            victim.state = EvictionState::not_ours;
            victim.record.gone_at = next.at;
            log(Host::LogLevel::verbose, status.error());
            continue;
        }
        victim.warned = true;
        warned_.push_back(
            {victim.record, victim.eviction.message.substr(kTag.size()), victim.eviction.requeue});
        victim.record.warned_at = host_.now();
        victim.grace_ends_milliseconds = clock_() + victim.eviction.grace_seconds * 1000;
        tracker_.set_leaving(victim.eviction.victim, claimant, live.plan.express, *next.settings,
                             out);
        eviction_times_.push_back(victim.record.warned_at);
        ++preemptions_;
        out.preemptions.push_back(victim.record);
        recent_.push_back(victim.record);
        log(Host::LogLevel::info,
            eviction_message(victim.record, next.view.runs[decision.victims[i].run],
                             victim.eviction.grace_seconds) +
                " [" + victim.record.reason + "]");
    }
    if (live.emptied()) {
        live.emptied_at = next.at;
    }
    book_.add(std::move(live));
    return true;
}

void PlanKeeper::end(const LivePlan& plan, const std::string& outcome, const HostJob* claimant,
                     const HostSnapshot& snapshot, LedgerBatch& out) {
    for (const LiveVictim& victim : plan.victims) {
        if (!victim.warned) {
            continue;  // had left by itself before anybody told it to
        }
        PreemptionRecord record = victim.record;
        // Whatever became of the claimant, it does not need this one's room any more.
        const bool stays =
            victim.state == EvictionState::in_grace && host_.take_back(victim.eviction);
        // Somebody else took its warning back: it leaves for nobody.
        const bool goes_on = stays || victim.state == EvictionState::not_ours;
        tracker_.clear_leaving(victim.eviction.victim, goes_on, out);
        record.outcome = stays ? "taken-back" : outcome;
        if (!stays && record.gone_at == 0) {
            record.gone_at = snapshot.now;  // its room was taken before anybody looked
        }
        if (claimant != nullptr) {
            record.claimant_started_at = claimant->start_at;
            for (const NodeShare& share : claimant->where) {
                record.claimant_nodes +=
                    (record.claimant_nodes.empty() ? "" : ",") + snapshot.nodes[share.node].name;
            }
        }
        out.preemptions.push_back(record);
        const auto known = std::find_if(recent_.begin(), recent_.end(), [&](const auto& r) {
            return r.victim == record.victim && r.claimant == record.claimant &&
                   r.planned_at == record.planned_at;
        });
        if (known != recent_.end()) {
            *known = record;
        }
        if (!stays) {
            wasted_ += outcome == "wasted" ? 1 : 0;
            overtaken_ += outcome == "overtaken" ? 1 : 0;
            claimant_left_ += outcome == "claimant-left" ? 1 : 0;
        }
    }
    host_.unpin(plan.plan.claimant);
    log(Host::LogLevel::info,
        "the plan of job " + std::to_string(plan.plan.claimant) + " is over: " + outcome);
}

std::optional<PlanKeeper::Leaving> PlanKeeper::leaving(JobId victim) const {
    for (const LivePlan& live : book_.plans()) {
        for (const LiveVictim& one : live.victims) {
            if (one.eviction.victim == victim && one.warned &&
                one.state == EvictionState::in_grace) {
                return Leaving{live.plan.claimant, live.plan.express};
            }
        }
    }
    return std::nullopt;
}

void PlanKeeper::save(JobId victim, const HostSnapshot& snapshot, LedgerBatch& out) {
    for (const LivePlan& live : book_.plans()) {
        const bool needs =
            std::any_of(live.victims.begin(), live.victims.end(),
                        [victim](const LiveVictim& one) { return one.eviction.victim == victim; });
        LivePlan ended;
        if (!needs || !book_.remove(live.plan.claimant, ended)) {
            continue;
        }
        for (LiveVictim& one : ended.victims) {
            if (one.eviction.victim == victim) {
                // The clock thread may have found it without its warning meanwhile.
                one.state = EvictionState::in_grace;
                one.record.gone_at = 0;
            }
        }
        end(ended, "contract-changed", nullptr, snapshot, out);
        put(out);
        kick_();
    }
}

void PlanKeeper::drop(JobId claimant, const HostSnapshot& snapshot, LedgerBatch& out) {
    LivePlan ended;
    if (book_.remove(claimant, ended)) {
        end(ended, "claimant-left", nullptr, snapshot, out);
        put(out);
        kick_();
    }
}

void PlanKeeper::put(LedgerBatch& out) const {
    std::vector<PlanRow> rows;
    for (const LivePlan& live : book_.plans()) {
        PlanRow row;
        row.claimant = live.plan.claimant;
        row.weight_milli = live.plan.weight_milli;
        row.commitment_seconds = live.plan.commitment_seconds;
        row.gpus = live.plan.gpus;
        row.made_at = live.plan.made_at;
        row.express = live.plan.express;
        row.victims = live.plan.victims;
        for (std::size_t i = 0; i < live.nodes.size(); ++i) {
            const NodeShare& share = live.plan.where[i];
            row.nodes.push_back({live.nodes[i], share.gpus, share.cpus, share.memory_mib});
        }
        rows.push_back(std::move(row));
    }
    out.plans = std::move(rows);
}

std::unordered_map<JobId, std::uint32_t> PlanKeeper::priorities() const {
    std::unordered_map<JobId, std::uint32_t> out;
    for (const LivePlan& live : book_.plans()) {
        if (live.priority != 0) {
            out.emplace(live.plan.claimant, live.priority);
        }
    }
    return out;
}

bool PlanKeeper::needs_wake(std::int64_t now) {
    if (!room_waits_ || (now >= woken_at_ && now - woken_at_ < kWakeEvery)) {
        return false;
    }
    woken_at_ = now;
    return true;
}

std::int64_t PlanKeeper::due_in() const {
    return room_waits_ ? kWakeEvery * 1000 : kNever;
}

void PlanKeeper::report(EngineView& next) {
    if (recent_.size() > kRecentPreemptions) {
        recent_.erase(recent_.begin(),
                      recent_.end() - static_cast<std::ptrdiff_t>(kRecentPreemptions));
    }
    next.recent_preemptions = recent_;
    next.health.preemptions = preemptions_;
    next.health.wasted = wasted_;
    next.health.overtaken = overtaken_;
    next.health.claimant_left = claimant_left_;
    next.health.rehearsed = rehearsed_count_;
    const std::lock_guard lock(delay_mutex_);
    next.health.grace_delays_milliseconds = delays_;
}

// Once a task of an array does not fit, slurmctld passes over the others of that array, and the
// room that is made for one of them would go to whoever comes next. So they get their rooms one
// after the other: whose victim leaves first is highest, and the graces of the others last until it
// has started.
bool PlanKeeper::follow_victims() {
    const std::vector<PlanBook::Errand> errands = book_.errands();
    std::unordered_map<std::uint32_t, JobId> leaders = book_.leaders();
    std::vector<PriorityChange> leading;
    bool emptied = false;
    for (const PlanBook::Errand& errand : errands) {
        // The grace is whole: the host's own clock counts in seconds, this one does not.
        bool over = clock_() >= errand.grace_ends_milliseconds;
        const auto leader = leaders.find(errand.array_job_id);
        if (over && errand.state == EvictionState::in_grace && leader != leaders.end() &&
            leader->second != errand.claimant) {
            over = false;
            book_.extend_grace(errand.claimant, errand.eviction.victim, clock_());
        }
        if (errand.eviction.quiet && !errand.called_last &&
            errand.state == EvictionState::in_grace &&
            clock_() >= errand.grace_ends_milliseconds - kLastCallSeconds * 1000) {
            host_.last_call(errand.eviction);
            book_.set_called_last(errand.claimant, errand.eviction.victim);
        }
        const EvictionState state = host_.follow(errand.eviction, over ? host_.now() : kNever);
        const std::int64_t now = host_.now();
        const std::int64_t late = clock_() - errand.grace_ends_milliseconds;
        if (errand.state == EvictionState::in_grace && state != EvictionState::in_grace) {
            if (late >= 0) {
                const std::lock_guard lock(delay_mutex_);
                delays_.push_back(late);
                if (delays_.size() > kRecentDelays) {
                    delays_.erase(delays_.begin());
                }
            }
            if (errand.array_job_id != 0 && !errand.leads &&
                (leading.empty() || leading.back().id != errand.claimant)) {
                const std::uint32_t priority = kLeadingPriority - leading_count_++ % kMostLeading;
                book_.set_priority(errand.claimant, priority);
                leading.push_back({errand.claimant, priority});
                leaders.emplace(errand.array_job_id, errand.claimant);
            }
        }
        emptied = book_.note(errand.claimant, errand.eviction.victim, state, now) || emptied;
    }
    if (!leading.empty()) {
        host_.set_priorities(leading);
    }
    if (emptied) {
        host_.wake();
        kick_();
    }
    return !errands.empty();
}

}  // namespace tranche
