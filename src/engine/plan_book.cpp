// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/plan_book.hpp"

#include <algorithm>

#include "common/config/time_format.hpp"
#include "common/report/explanation_text.hpp"

namespace tranche {
namespace {

// Faded and milli-weighted, times the window's length, to thousandths of a GPU hour.
std::int64_t milli_hours(UInt128 charge, const Window& window) {
    return static_cast<std::int64_t>(charge / static_cast<UInt128>(window.length_seconds) / 3600);
}

}  // namespace

bool LivePlan::emptied() const {
    return std::all_of(victims.begin(), victims.end(), [](const LiveVictim& victim) {
        return victim.state == EvictionState::gone || victim.state == EvictionState::not_ours;
    });
}

void PlanBook::add(LivePlan plan) {
    const std::lock_guard lock(mutex_);
    plans_.push_back(std::move(plan));
    count_waiting();
}

std::vector<LivePlan> PlanBook::plans() const {
    const std::lock_guard lock(mutex_);
    return plans_;
}

bool PlanBook::empty() const {
    const std::lock_guard lock(mutex_);
    return plans_.empty();
}

std::vector<PlanBook::Errand> PlanBook::errands() const {
    const std::lock_guard lock(mutex_);
    std::vector<Errand> out;
    for (const LivePlan& plan : plans_) {
        for (const LiveVictim& victim : plan.victims) {
            if (victim.warned && (victim.state == EvictionState::in_grace ||
                                  victim.state == EvictionState::leaving)) {
                out.push_back({plan.plan.claimant, victim.eviction, victim.grace_ends_milliseconds,
                               victim.state, plan.array_job_id, victim.called_last,
                               plan.priority != 0});
            }
        }
    }
    return out;
}

bool PlanBook::note(JobId claimant, JobId victim, EvictionState state, std::int64_t at) {
    const std::lock_guard lock(mutex_);
    for (LivePlan& plan : plans_) {
        if (plan.plan.claimant != claimant) {
            continue;
        }
        for (LiveVictim& live : plan.victims) {
            if (live.eviction.victim == victim) {
                live.state = state;
                if (state == EvictionState::gone || state == EvictionState::not_ours) {
                    live.record.gone_at = at;
                }
            }
        }
        if (plan.emptied_at == 0 && plan.emptied()) {
            plan.emptied_at = at;
            count_waiting();
            return true;
        }
    }
    return false;
}

LivePlan* PlanBook::find(JobId claimant) {
    const auto it = std::find_if(plans_.begin(), plans_.end(), [claimant](const LivePlan& plan) {
        return plan.plan.claimant == claimant;
    });
    return it == plans_.end() ? nullptr : &*it;
}

LiveVictim* PlanBook::find(JobId claimant, JobId victim) {
    if (LivePlan* plan = find(claimant)) {
        for (LiveVictim& live : plan->victims) {
            if (live.eviction.victim == victim) {
                return &live;
            }
        }
    }
    return nullptr;
}

void PlanBook::count_waiting() {
    waiting_ = static_cast<std::uint32_t>(std::count_if(
        plans_.begin(), plans_.end(), [](const LivePlan& plan) { return plan.emptied_at != 0; }));
}

void PlanBook::note_attempt(JobId claimant) noexcept {
    if (waiting_ == 0) {
        return;
    }
    const std::lock_guard lock(mutex_);
    if (LivePlan* plan = find(claimant); plan != nullptr && plan->emptied_at != 0) {
        plan->tried = true;
    }
}

std::uint32_t PlanBook::count_attempts(JobId claimant, bool elsewhere) {
    const std::lock_guard lock(mutex_);
    LivePlan* plan = find(claimant);
    if (plan == nullptr) {
        return 0;
    }
    plan->attempts += plan->tried && !elsewhere ? 1 : 0;
    plan->tried = false;
    return plan->attempts;
}

void PlanBook::set_called_last(JobId claimant, JobId victim) {
    const std::lock_guard lock(mutex_);
    if (LiveVictim* live = find(claimant, victim)) {
        live->called_last = true;
    }
}

std::unordered_map<std::uint32_t, JobId> PlanBook::leaders() const {
    const std::lock_guard lock(mutex_);
    std::unordered_map<std::uint32_t, JobId> out;
    for (const LivePlan& plan : plans_) {
        if (plan.array_job_id != 0 && plan.priority != 0) {
            out.emplace(plan.array_job_id, plan.plan.claimant);
        }
    }
    return out;
}

void PlanBook::set_priority(JobId claimant, std::uint32_t priority) {
    const std::lock_guard lock(mutex_);
    if (LivePlan* plan = find(claimant)) {
        plan->priority = priority;
    }
}

void PlanBook::extend_grace(JobId claimant, JobId victim, std::int64_t until_milliseconds) {
    const std::lock_guard lock(mutex_);
    if (LiveVictim* live = find(claimant, victim)) {
        live->grace_ends_milliseconds = until_milliseconds;
    }
}

bool PlanBook::remove(JobId claimant, LivePlan& out) {
    const std::lock_guard lock(mutex_);
    const auto it = std::find_if(plans_.begin(), plans_.end(), [claimant](const LivePlan& plan) {
        return plan.plan.claimant == claimant;
    });
    if (it == plans_.end()) {
        return false;
    }
    out = std::move(*it);
    plans_.erase(it);
    count_waiting();
    return true;
}

void PlanBook::clear() {
    const std::lock_guard lock(mutex_);
    plans_.clear();
    waiting_ = 0;
}

PreemptionRecord record_of(const VictimDecision& victim, const Plan& plan, const Run& run,
                           const Standings& standings, std::int64_t available_milli,
                           const std::string& nodes) {
    PreemptionRecord record;
    record.victim = run.id;
    record.claimant = plan.claimant;
    const auto name = [&](BudgetId id) {
        return id == kNoBudgetId ? std::string() : standings.budgets[id].name;
    };
    record.victim_budget = name(run.budget);
    record.claimant_budget = name(plan.budget);
    record.victim_user = standings.members[run.member].user;
    record.claimant_user = standings.members[plan.member].user;
    record.reason = to_text(victim.verdict.reason);
    const TakeVerdict& verdict = victim.verdict;
    PartingSides sides = verdict.sides;
    UInt128 claimant_charge = verdict.claimant_charge, victim_charge = verdict.victim_charge;
    if (sides.a == kNoId) {
        sides = parting_sides(standings, plan.budget, run.budget);
        if (sides.a != kNoId) {
            claimant_charge = standings.sides[sides.a].charge();
            victim_charge = standings.sides[sides.b].charge();
        }
    }
    if (sides.a != kNoId) {
        const BudgetId parent =
            sides.a % 2 == 1 ? sides.a / 2 : standings.budgets[sides.a / 2].parent;
        record.level = standings.budgets[parent].name;
        record.claimant_side = side_name(standings, sides.a);
        record.victim_side = side_name(standings, sides.b);
        const auto funded = [&](SideId side) {
            return static_cast<std::int64_t>(
                (static_cast<UInt128>(entitled_fraction(standings, side)) *
                 static_cast<UInt128>(available_milli) *
                 static_cast<UInt128>(standings.window.length_seconds) / 3600) >>
                kFractionBits);
        };
        record.claimant_funded_milli_hours = funded(sides.a);
        record.victim_funded_milli_hours = funded(sides.b);
    } else {
        record.level = name(plan.budget);
        record.claimant_side = record.claimant_user;
        record.victim_side = record.victim_user;
    }
    record.claimant_charge_milli_hours = milli_hours(claimant_charge, standings.window);
    record.victim_charge_milli_hours = milli_hours(victim_charge, standings.window);
    record.contract_ended_at = run.kind == RunKind::allocated ? run.protected_until : 0;
    record.planned_at = plan.made_at;
    record.nodes = nodes;
    return record;
}

std::string eviction_comment(const PreemptionRecord& record) {
    const std::string why = preemption_reason_text(record);
    return "preempted for job " +
           (record.claimant_label.empty() ? std::to_string(record.claimant)
                                          : record.claimant_label) +
           " of " + record.claimant_user + (why.empty() ? "" : ": " + why);
}

std::string eviction_message(const PreemptionRecord& record, const Run& run,
                             std::int64_t grace_seconds) {
    std::string why;
    if (record.reason == to_text(TakeReason::free_run)) {
        why = "this run is free of charge and yields to funded work";
    } else if (record.reason == to_text(TakeReason::express)) {
        why = "its contract is over and a debug job needs the room";
    } else {
        why = "its contract is over and " + record.claimant_side +
              " has used less of its funding than " + record.victim_side;
    }
    const std::string then =
        run.resumable && !run.interactive
            ? "it is requeued in " + format_duration(grace_seconds) + " and keeps its place"
            : "it ends in " + format_duration(grace_seconds);
    const auto called = [](JobId id, const std::string& label) {
        return label.empty() ? std::to_string(id) : label;
    };
    const std::string victim = called(record.victim, record.victim_label);
    return "job " + victim + " makes room for job " +
           called(record.claimant, record.claimant_label) + " of " + record.claimant_user + ": " +
           why + "; " + then + " (srank --why " + victim + ")";
}

}  // namespace tranche
