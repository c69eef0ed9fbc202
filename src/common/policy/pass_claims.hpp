// SPDX-License-Identifier: GPL-2.0-or-later
// Whom a claimant takes: plans that stand, new plans, why there is none (DESIGN 2.5, 2.6).
#pragma once

#include "common/policy/pass_state.hpp"

namespace tranche::passing {

class PassClaims : public PassState {
  protected:
    using PassState::PassState;

    void try_planned(std::uint32_t index) {
        const JobId id = view_.pending[index].id;
        const auto plan = std::find_if(view_.plans.begin(), view_.plans.end(),
                                       [id](const Plan& p) { return p.claimant == id; });
        JobVerdict& verdict = verdict_of(index);
        verdict.reason = WaitReason::planned;
        const bool ready =
            std::all_of(plan->where.begin(), plan->where.end(), [&](const NodeShare& share) {
                const Node& node = view_.nodes[share.node];
                const RoomNode& room = empty_[share.node];
                return node.usable && !node.settling && room.gpus >= share.gpus &&
                       room.cpus >= share.cpus && room.memory_mib >= share.memory_mib;
            });
        if (ready) {
            take(empty_, plan->where);
            if (!settings_.has(Rule::plan_keeps_room)) {
                take_room(plan->where, false);
            }
            verdict.reason = WaitReason::starting;
            result_.starts.push_back({index, plan->where, false, plan->express});
        }
    }

    // Whether who may be taken depends on nothing but the victim's budget and contract.
    bool by_budget_alone(bool express) const {
        return !express && settings_.preempt_within_budget == PreemptWithinBudget::no &&
               settings_.has(Rule::team_priority_at_home);
    }

    // May the claimant take from this run, whose contract is over? Remembers the answer by budget
    // where nothing else counts.
    class Judge {
      public:
        Judge(PassClaims& pass, const Claimant& claimant)
            : pass_(pass), claimant_(claimant), by_budget_(pass.by_budget_alone(claimant.express)) {
            if (by_budget_) {
                pass.judged_.assign(pass.standings_.budgets.size(), 0);
            }
        }
        bool may(const Run& run, bool ignore_contract) {
            if (!by_budget_ || run.kind != RunKind::allocated || run.spared) {
                return verdict(run, ignore_contract).may;
            }
            if (!is_takeable(run, pass_.view_.now) && !ignore_contract) {
                return verdict(run, false).may;
            }
            std::uint8_t& known = pass_.judged_[run.budget];
            if (known == 0) {
                known = verdict(run, true).may ? 1 : 2;
            }
            return known == 1 &&
                   (run.state == RunState::running || run.state == RunState::suspended);
        }
        TakeVerdict verdict(const Run& run, bool ignore_contract) {
            return may_take(claimant_, {&run, pass_.priority_of(run)}, pass_.standings_,
                            pass_.settings_, pass_.view_.now, pass_.available_milli_,
                            ignore_contract);
        }

      private:
        PassClaims& pass_;
        const Claimant& claimant_;
        const bool by_budget_;
    };

    bool plan(const RankedEntry& entry, const PendingJob& job, bool express,
              std::int64_t contract_end, JobVerdict& verdict) {
        const TeamPriority priority = effective(job.team_priority, job.budget, job.member);
        if (!job.companions.empty()) {
            return plan_whole(entry, job, {&job, priority, express, false}, contract_end, verdict);
        }
        const bool simple = by_budget_alone(express);
        const ClaimantKey key{job.shape,
                              job.budget,
                              simple ? 0 : job.member,
                              job.weight_milli,
                              simple ? TeamPriority::normal : priority,
                              express};
        const auto refused = refusals_.find(key);
        if (refused != refusals_.end() &&
            refused->second.contract_seconds <= job.contract_seconds()) {
            verdict.reason = refused->second.refusal.reason;
            verdict.next_change_at = refused->second.refusal.next_change_at;
            return false;
        }

        const bool counts_future = settings_.has(Rule::room_coming);
        const auto coming = counts_future ? future_place(job.shape, contract_end) : std::nullopt;
        if (coming) {
            // Runs that leave already make room for this one too: nobody else has to.
            take_room(*coming, false);
            verdict.reason = WaitReason::room_coming;
            return true;
        }
        const Claimant claimant{&job, priority, express, false};
        Refusal refusal;
        std::optional<VictimChoice> choice;
        std::vector<VictimCandidate> candidates;
        for (;;) {
            Judge judge(*this, claimant);
            candidates = candidates_for(job, judge, express);
            choice.reset();
            if (!candidates.empty()) {
                choice = choose_victims(view_, counts_future ? future_ : room_, job.shape,
                                        candidates, contract_end);
            }
            if (!choice || !turn_those_before(*choice)) {
                break;
            }
        }
        if (!choice && !candidates.empty() && !settings_.has(Rule::feasible)) {
            VictimChoice all;
            for (const VictimCandidate& candidate : candidates) {
                all.runs.push_back(candidate.run);
            }
            PlanDecision harm;  // that makes room for nobody
            harm.job = entry.job;
            harm.plan = plan_of(job, {}, express);
            harm.victims = evict(harm.plan, claimant, all);
            result_.plans.push_back(std::move(harm));
        }
        if (classes_ == nullptr && !choice) {
            refusal = refusal_for(claimant);
            if (place_on_free(view_, room_, job.shape)) {
                refusal.reason = WaitReason::kept_nodes;
            }
        }
        if (choice && settings_.max_preemptions_per_hour > 0 &&
            evictions_ + static_cast<std::int64_t>(choice->runs.size()) >
                settings_.max_preemptions_per_hour) {
            choice.reset();
            refusal.reason = WaitReason::preemption_limit;
        }
        if (!choice) {
            refusals_[key] = {job.contract_seconds(), refusal};
            verdict.reason = refusal.reason;
            verdict.next_change_at = refusal.next_change_at;
            return false;
        }
        make_plan(entry.job, claimant, *choice);
        verdict.reason = WaitReason::planned;
        return true;
    }

    // All components of a heterogeneous job or none, each on nodes of its own; component by
    // component, each time the least harm.
    bool plan_whole(const RankedEntry& entry, const PendingJob& job, const Claimant& claimant,
                    std::int64_t contract_end, JobVerdict& verdict) {
        if (auto coming = place_whole(future_, job, contract_end)) {
            take_room(*coming, false);
            verdict.reason = WaitReason::room_coming;
            return true;
        }
        Judge judge(*this, claimant);
        std::vector<VictimCandidate> candidates = candidates_for(job, judge, claimant.express);
        std::vector<RoomNode> room = future_;
        VictimChoice whole;
        bool suffices = true;
        for (const JobShape* shape : shapes_of(job)) {
            auto choice = choose_victims(view_, room, *shape, candidates, contract_end);
            if (!choice) {
                suffices = false;
                break;
            }
            for (const std::uint32_t r : choice->runs) {
                for (const NodeShare& share : view_.runs[r].where) {
                    room[share.node].gpus += share.gpus;
                    room[share.node].cpus += share.cpus;
                    room[share.node].memory_mib += share.memory_mib;
                }
            }
            std::erase_if(candidates, [&](const VictimCandidate& candidate) {
                return std::binary_search(choice->runs.begin(), choice->runs.end(), candidate.run);
            });
            close(room, choice->where);
            whole.runs.insert(whole.runs.end(), choice->runs.begin(), choice->runs.end());
            whole.where.insert(whole.where.end(), choice->where.begin(), choice->where.end());
        }
        const bool over_limit = settings_.max_preemptions_per_hour > 0 &&
                                evictions_ + static_cast<std::int64_t>(whole.runs.size()) >
                                    settings_.max_preemptions_per_hour;
        if (!suffices || over_limit) {
            const Refusal refusal =
                suffices ? Refusal{WaitReason::preemption_limit, kNever} : refusal_for(claimant);
            verdict.reason = refusal.reason;
            verdict.next_change_at = refusal.next_change_at;
            return false;
        }
        std::sort(whole.runs.begin(), whole.runs.end());
        make_plan(entry.job, claimant, whole);
        verdict.reason = WaitReason::planned;
        return true;
    }

    std::vector<VictimCandidate> candidates_for(const PendingJob& job, Judge& judge, bool express) {
        std::vector<VictimCandidate> candidates;
        const auto consider = [&](std::uint32_t r) {
            const Run& run = view_.runs[r];
            if (!taken_[r] && judge.may(run, false) &&
                (on_suitable_node(run, job) || !settings_.has(Rule::feasible))) {
                candidates.push_back({r, cost_of(run, job, express)});
            }
        };
        if (!sums_.groups.empty() && settings_.has(Rule::contract) && by_budget_alone(express)) {
            for (const TakeableGroup& group : sums_.groups) {
                if (!group.runs.empty() && judge.may(view_.runs[group.runs.front()], false)) {
                    std::for_each(group.runs.begin(), group.runs.end(), consider);
                }
            }
            std::sort(
                candidates.begin(), candidates.end(),
                [](const VictimCandidate& a, const VictimCandidate& b) { return a.run < b.run; });
        } else if (settings_.has(Rule::contract)) {
            std::for_each(sums_.takeable.begin(), sums_.takeable.end(), consider);
        } else {
            for (std::uint32_t r = 0; r < view_.runs.size(); ++r) {
                if (view_.runs[r].id != 0) {
                    consider(r);
                }
            }
        }
        return candidates;
    }

    // Free runs whose jobs stand before the claimant become allocated in place instead of leaving
    // for it (DESIGN 2.2). True: there were some.
    bool turn_those_before(const VictimChoice& choice) {
        bool turned = false;
        if (!settings_.has(Rule::turn_in_place)) {
            return false;
        }
        for (const std::uint32_t r : choice.runs) {
            if (!passed_[r] || !view_.runs[r].free_first) {
                continue;
            }
            const auto job =
                std::find_if(view_.pending.begin(), view_.pending.end(), [&](const PendingJob& p) {
                    return p.turn_run == static_cast<std::int64_t>(r) && p.id != 0;
                });
            if (job != view_.pending.end() && is_allocated(*job, standings_) &&
                !is_over_headroom(job->shape.gpus) && may_stay(r, contract_end_of(*job, true))) {
                turn(r, *job);
                turned = true;
            }
        }
        return turned;
    }

    Refusal refusal_for(const Claimant& claimant) {
        Refusal refusal;
        bool ratio = false, contract = false, own = false;
        Judge judge(*this, claimant);
        for (std::uint32_t r = 0; r < view_.runs.size(); ++r) {
            const Run& run = view_.runs[r];
            if (taken_[r] || !on_suitable_node(run, *claimant.job)) {
                continue;
            }
            const TakeVerdict take = judge.verdict(run, false);
            if (take.reason == TakeReason::ratio_too_large) {
                ratio = true;
            } else if (take.reason == TakeReason::same_budget) {
                own = true;
            } else if (take.reason == TakeReason::under_contract &&
                       take.not_before < refusal.next_change_at && judge.may(run, true)) {
                contract = true;
                refusal.next_change_at = take.not_before;
            }
        }
        refusal.reason = contract ? WaitReason::contracts
                         : ratio  ? WaitReason::ratio
                         : own    ? WaitReason::own_budget
                                  : WaitReason::room;
        return refusal;
    }

    Plan plan_of(const PendingJob& job, std::vector<NodeShare> where, bool express) const {
        Plan plan;
        plan.claimant = job.id;
        plan.budget = job.budget;
        plan.member = job.member;
        plan.weight_milli = job.whole_weight_milli();
        plan.commitment_seconds = job.contract_seconds();
        plan.gpus = job.whole_gpus();
        plan.where = std::move(where);
        plan.made_at = view_.now;
        plan.express = express;
        return plan;
    }

    std::vector<VictimDecision> evict(Plan& plan, const Claimant& claimant,
                                      const VictimChoice& choice) {
        std::vector<VictimDecision> victims;
        Judge judge(*this, claimant);
        for (const std::uint32_t r : choice.runs) {
            plan.victims.push_back(view_.runs[r].id);
            victims.push_back({r, judge.verdict(view_.runs[r], false)});
            taken_[r] = true;
            add_future(view_.runs[r]);
        }
        evictions_ += static_cast<std::int64_t>(choice.runs.size());
        return victims;
    }

    void make_plan(std::uint32_t index, const Claimant& claimant, const VictimChoice& choice) {
        PlanDecision decision;
        decision.job = index;
        decision.plan = plan_of(*claimant.job, choice.where, claimant.express);
        decision.victims = evict(decision.plan, claimant, choice);
        // The victims still hold their room: the claimant's is owed from now on, and what they free
        // beyond it is there when they have left.
        if (settings_.has(Rule::plan_keeps_room)) {
            take_room(choice.where, true);
        }
        count(*claimant.job, claimant.express, true);
        result_.plans.push_back(std::move(decision));
    }

    bool on_suitable_node(const Run& run, const PendingJob& job) const {
        const auto suits = [&](const JobShape& shape) {
            return std::any_of(run.where.begin(), run.where.end(), [&](const NodeShare& share) {
                return view_.nodes[share.node].usable &&
                       node_suits(view_, shape, share.node, shape.nodes - 1);
            });
        };
        return suits(job.shape) ||
               std::any_of(job.companions.begin(), job.companions.end(),
                           [&](const Companion& companion) { return suits(companion.shape); });
    }

    VictimCost cost_of(const Run& run, const PendingJob& claimant, bool express) {
        VictimCost cost;
        const auto gpus_by = [&](Rule rule) { return settings_.has(rule) ? run.gpus : 0; };
        cost.final_gpus = express && !run.resumable ? gpus_by(Rule::express_resumable_first) : 0;
        cost.allocated_gpus = run.kind == RunKind::allocated ? gpus_by(Rule::fewest_allocated) : 0;
        cost.gpus = gpus_by(Rule::fewest_gpus);
        // Charge over today's funded fraction: one scale for all levels.
        const BudgetPlace& place = standings_.budgets[run.budget];
        UInt128 over = UInt128{1} << 100;
        if (place.funded_fraction > 0) {
            const UInt128 charge = standings_.side(place.path.back()).charge() /
                                   static_cast<UInt128>(standings_.window.length_seconds);
            over = std::min(over, (charge << kFractionBits) / place.funded_fraction);
        }
        cost.over_funding = over * static_cast<UInt128>(
                                       std::max<std::int64_t>(gpus_by(Rule::most_over_funding), 0));
        if (run.budget == claimant.budget && settings_.has(Rule::lower_priority_first)) {
            cost.priority_gpus = run.gpus * static_cast<std::int64_t>(priority_of(run));
        }
        std::int64_t since = run.started_at;
        if (run.resumable) {
            since = std::max(since, run.checkpointed_at);
            if (run.kind == RunKind::allocated) {
                since = std::max(since, run.protected_until);
            }
        }
        cost.lost_gpu_seconds =
            gpus_by(Rule::least_to_lose) * std::max<std::int64_t>(view_.now - since, 0);
        return cost;
    }
};

}  // namespace tranche::passing
