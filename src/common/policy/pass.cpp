// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/pass.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "common/policy/victims.hpp"

namespace tranche {
namespace {

std::size_t mix(std::size_t seed, std::uint64_t value) {
    return seed ^
           (std::hash<std::uint64_t>{}(value) + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

struct ShapeHash {
    std::size_t operator()(const JobShape& s) const {
        std::size_t h = std::hash<std::string>{}(s.gpu_type);
        for (const std::int64_t v :
             {std::int64_t{s.nodes}, s.gpus, s.cpus_per_node, s.memory_mib_per_node,
              std::int64_t{s.exclusive}, std::int64_t{s.node_set}}) {
            h = mix(h, static_cast<std::uint64_t>(v));
        }
        return h;
    }
};

// Two claimants with the same key are judged alike as long as nothing starts or is planned.
struct ClaimantKey {
    JobShape shape;
    BudgetId budget;
    MemberId member;
    std::int64_t commitment;
    TeamPriority priority;
    bool express;

    bool operator==(const ClaimantKey&) const = default;
};

struct ClaimantKeyHash {
    std::size_t operator()(const ClaimantKey& k) const {
        std::size_t h = ShapeHash{}(k.shape);
        for (const std::uint64_t v :
             {std::uint64_t{k.budget}, std::uint64_t{k.member},
              static_cast<std::uint64_t>(k.commitment), static_cast<std::uint64_t>(k.priority),
              std::uint64_t{k.express}}) {
            h = mix(h, v);
        }
        return h;
    }
};

// The outcome of looking for victims in vain.
struct Refusal {
    WaitReason reason = WaitReason::room;
    std::int64_t next_change_at = kNever;
};

class Pass {
  public:
    Pass(const ClusterView& view, const std::vector<RankedEntry>& ranking,
         const Standings& standings, const Settings& settings, const PassRules& rules)
        : view_(view),
          ranking_(ranking),
          standings_(standings),
          settings_(settings),
          rules_(rules),
          lane_(view, standings, settings),
          may_raise_(members_that_may_raise(view, standings, settings, RunKind::allocated)),
          allowed_protected_(protected_gpus_allowed(view, settings)),
          evictions_(view.evictions_last_hour) {
        available_milli_ = view.available_gpus() * 1000;
        result_.verdicts.resize(view.pending.size());
        make_room();
        for (const Run& run : view.runs) {
            if (run.kind == RunKind::allocated && run.protected_until > view.now) {
                result_.wake_at = std::min(result_.wake_at, run.protected_until);
            }
            if (run.under_contract(view.now) && !run.express) {
                for (const NodeShare& share : run.where) {
                    protected_gpus_ += view.nodes[share.node].usable ? share.gpus : 0;
                }
            }
        }
        for (const Plan& plan : view.plans) {
            protected_gpus_ += plan.express ? 0 : plan.gpus;
        }
    }

    PassResult run() {
        for (const RankedEntry& entry : ranking_) {
            const PendingJob& job = view_.pending[entry.job];
            JobVerdict& verdict = result_.verdicts[entry.job];
            if (!entry.counts || job.block != StartBlock::none) {
                verdict.reason = blocked(job.block);
                continue;
            }
            if (entry.band == Band::plan) {
                try_planned(entry.job, verdict);
                continue;
            }
            for (std::uint32_t task = 0; task < entry.tasks; ++task) {
                if (!try_one(entry, job, verdict)) {
                    break;
                }
            }
        }
        return std::move(result_);
    }

  private:
    static WaitReason blocked(StartBlock block) {
        switch (block) {
            case StartBlock::none:
            case StartBlock::impossible:
                break;
            case StartBlock::held:
                return WaitReason::held;
            case StartBlock::dependency:
                return WaitReason::dependency;
            case StartBlock::begin_time:
                return WaitReason::begin_time;
            case StartBlock::limit:
                return WaitReason::limit;
        }
        return WaitReason::impossible;
    }

    void make_room() {
        room_.resize(view_.nodes.size());
        for (NodeIndex n = 0; n < view_.nodes.size(); ++n) {
            const Node& node = view_.nodes[n];
            room_[n] = {node.free_gpus, node.free_cpus, node.free_memory_mib,
                        node.usable && !node.settling, node.usable && !node.settling};
        }
        empty_ = future_ = room_;
        for (NodeIndex n = 0; n < view_.nodes.size(); ++n) {
            future_[n].open = view_.nodes[n].usable;
        }
        for (const Run& run : view_.runs) {
            if (run.state == RunState::leaving || run.state == RunState::completing) {
                add_future(run);
            }
        }
        for (const Plan& plan : view_.plans) {
            take_room(plan.where, true);
        }
    }

    // What a leaving run frees, for those that are planned after it.
    void add_future(const Run& run) {
        for (const NodeShare& share : run.where) {
            future_[share.node].gpus += share.gpus;
            future_[share.node].cpus += share.cpus;
            future_[share.node].memory_mib += share.memory_mib;
        }
    }

    void take_room(const std::vector<NodeShare>& where, bool plan) {
        for (const NodeShare& share : where) {
            if (plan && rules_.one_plan_per_node) {
                room_[share.node].open = false;
                future_[share.node].plannable = false;
            }
        }
        take(room_, where);
        take(future_, where);
        ++version_;
    }

    static void take(std::vector<RoomNode>& room, const std::vector<NodeShare>& where) {
        for (const NodeShare& share : where) {
            room[share.node].gpus -= share.gpus;
            room[share.node].cpus -= share.cpus;
            room[share.node].memory_mib -= share.memory_mib;
        }
    }

    void try_planned(std::uint32_t index, JobVerdict& verdict) {
        const JobId id = view_.pending[index].id;
        const auto plan = std::find_if(view_.plans.begin(), view_.plans.end(),
                                       [id](const Plan& p) { return p.claimant == id; });
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
            verdict.reason = WaitReason::starting;
            result_.starts.push_back({index, plan->where, false, plan->express});
        }
    }

    // False: no further task of this job needs to be tried.
    bool try_one(const RankedEntry& entry, const PendingJob& job, JobVerdict& verdict) {
        const bool allocated = is_allocated(job, standings_);
        if (job.waits_for != 0) {
            verdict.reason = WaitReason::claimant_first;
            return false;
        }
        bool express = entry.band == Band::express;
        if (express) {
            verdict.express_cap = lane_.check(user_of(job), job.shape.gpus);
            if (verdict.express_cap != ExpressCap::none) {
                // Its turn as an ordinary job comes with the next ranking.
                verdict.reason = WaitReason::express_cap;
                return false;
            }
        } else if (allocated && fits_lane(job, settings_)) {
            verdict.express_cap = lane_.check(user_of(job), job.shape.gpus);
        }
        // Where no part is kept open, contracts are in the way and not the headroom.
        const bool over_headroom = allocated && !express &&
                                   allowed_protected_ < view_.available_gpus() &&
                                   job.shape.gpus <= allowed_protected_ &&
                                   protected_gpus_ + job.shape.gpus > allowed_protected_;
        if (job.turn_run >= 0) {
            if (!allocated) {
                verdict.reason = WaitReason::idle_gpus;  // its budget lost its shares meanwhile
                return false;
            }
            if (over_headroom) {
                verdict.reason = WaitReason::headroom;
                return false;
            }
            result_.turns.push_back(static_cast<std::uint32_t>(job.turn_run));
            count(job, express, allocated);
            return false;
        }
        if (!could_fit(view_, job.shape, true)) {
            verdict.reason = WaitReason::nodes_unavailable;
            return false;
        }
        const bool as_free = over_headroom && job.resumable;
        if (over_headroom && !as_free) {
            verdict.reason = WaitReason::headroom;
            return false;
        }
        if (auto where = free_place(job.shape)) {
            take_room(*where, false);
            take(empty_, *where);
            verdict.reason = WaitReason::starting;
            result_.starts.push_back({entry.job, std::move(*where), as_free, express});
            count(job, express, allocated && !as_free);
            return true;
        }
        if (as_free) {
            verdict.reason = WaitReason::headroom;
            return false;
        }
        if (!allocated) {
            verdict.reason = WaitReason::idle_gpus;
            return false;
        }
        if (!job.plannable) {
            verdict.reason = WaitReason::room;
            return false;
        }
        return plan(entry, job, express, verdict);
    }

    const std::string& user_of(const PendingJob& job) const {
        return standings_.members[job.member].user;
    }

    std::optional<std::vector<NodeShare>> free_place(const JobShape& shape) {
        if (no_free_place_.contains(shape)) {
            return std::nullopt;  // room only shrinks within a pass
        }
        auto where = place_on_free(view_, room_, shape);
        if (!where) {
            no_free_place_.emplace(shape, true);
        }
        return where;
    }

    // What started or is planned counts for those that are tried after it.
    void count(const PendingJob& job, bool express, bool allocated) {
        if (!allocated) {
            return;
        }
        if (settings_.commitments) {
            standings_.commit(job.budget, job.member, job.weight_milli, job.contract_seconds());
        }
        if (express) {
            lane_.add(user_of(job), job.shape.gpus);
        } else {
            protected_gpus_ += job.shape.gpus;
        }
        ++version_;
    }

    bool plan(const RankedEntry& entry, const PendingJob& job, bool express, JobVerdict& verdict) {
        const TeamPriority priority = effective_priority(
            job.team_priority, standings_.budgets[job.budget].pooled || may_raise_[job.member]);
        const ClaimantKey key{job.shape,  job.budget,
                              job.member, job.weight_milli * job.contract_seconds(),
                              priority,   express};
        if (refusals_version_ != version_) {
            refusals_.clear();
            refusals_version_ = version_;
        }
        if (const auto it = refusals_.find(key); it != refusals_.end()) {
            verdict.reason = it->second.reason;
            verdict.next_change_at = it->second.next_change_at;
            return false;
        }

        if (const auto where = place_on_free(view_, future_, job.shape)) {
            // Runs that leave already make room for this one too: nobody else has to.
            take_room(*where, false);
            verdict.reason = WaitReason::room_coming;
            return true;
        }
        Refusal refusal;
        const Claimant claimant{&job, priority, express};
        std::vector<VictimCandidate> candidates;
        std::vector<TakeVerdict> verdicts;
        bool ratio = false, contract = false, own = false;
        for (std::uint32_t r = 0; r < view_.runs.size(); ++r) {
            const Run& run = view_.runs[r];
            if (taken(r) || !on_suitable_node(run, job.shape)) {
                continue;
            }
            const TeamPriority theirs = effective_priority(
                run.team_priority, standings_.budgets[run.budget].pooled || may_raise_[run.member]);
            const Victim victim{&run, theirs};
            TakeVerdict take =
                may_take(claimant, victim, standings_, settings_, view_.now, available_milli_);
            if (take.may) {
                candidates.push_back({r, cost_of(run, theirs, job, express)});
                verdicts.push_back(take);
            } else if (take.reason == TakeReason::ratio_too_large) {
                ratio = true;
            } else if (take.reason == TakeReason::same_budget) {
                own = true;
            } else if (take.reason == TakeReason::under_contract &&
                       take.not_before < refusal.next_change_at &&
                       may_take(claimant, victim, standings_, settings_, view_.now,
                                available_milli_, true)
                           .may) {
                contract = true;
                refusal.next_change_at = take.not_before;
            }
        }
        refusal.reason = contract ? WaitReason::contracts
                         : ratio  ? WaitReason::ratio
                         : own    ? WaitReason::own_budget
                                  : WaitReason::room;
        std::optional<VictimChoice> choice;
        if (!candidates.empty()) {
            choice = choose_victims(view_, future_, job.shape, candidates);
        }
        if (choice && settings_.max_preemptions_per_hour > 0 &&
            evictions_ + static_cast<std::int64_t>(choice->runs.size()) >
                settings_.max_preemptions_per_hour) {
            choice.reset();
            refusal.reason = WaitReason::preemption_limit;
        }
        if (!choice) {
            refusals_.emplace(key, refusal);
            verdict.reason = refusal.reason;
            verdict.next_change_at = refusal.next_change_at;
            return false;
        }

        PlanDecision decision;
        decision.job = entry.job;
        decision.plan.claimant = job.id;
        decision.plan.budget = job.budget;
        decision.plan.member = job.member;
        decision.plan.weight_milli = job.weight_milli;
        decision.plan.commitment_seconds = job.contract_seconds();
        decision.plan.gpus = job.shape.gpus;
        decision.plan.where = choice->where;
        decision.plan.made_at = view_.now;
        decision.plan.express = express;
        for (const std::uint32_t r : choice->runs) {
            decision.plan.victims.push_back(view_.runs[r].id);
            const auto it = std::find_if(candidates.begin(), candidates.end(),
                                         [r](const VictimCandidate& c) { return c.run == r; });
            decision.victims.push_back(
                {r, verdicts[static_cast<std::size_t>(it - candidates.begin())]});
            taken_.push_back(r);
            add_future(view_.runs[r]);
        }
        evictions_ += static_cast<std::int64_t>(choice->runs.size());
        // The victims still hold their room: the claimant's is owed from now on, and what they free
        // beyond it is there when they have left.
        take_room(choice->where, true);
        count(job, express, true);
        verdict.reason = WaitReason::planned;
        result_.plans.push_back(std::move(decision));
        return true;
    }

    bool taken(std::uint32_t run) const {
        return std::find(taken_.begin(), taken_.end(), run) != taken_.end();
    }

    bool on_suitable_node(const Run& run, const JobShape& shape) const {
        return std::any_of(run.where.begin(), run.where.end(), [&](const NodeShare& share) {
            return view_.nodes[share.node].usable &&
                   node_suits(view_, shape, share.node, shape.nodes - 1);
        });
    }

    VictimCost cost_of(const Run& run, TeamPriority priority, const PendingJob& claimant,
                       bool express) const {
        VictimCost cost;
        cost.final_gpus = express && !run.resumable ? run.gpus : 0;
        cost.allocated_gpus = run.kind == RunKind::allocated ? run.gpus : 0;
        cost.gpus = run.gpus;
        // Charge over today's funded fraction: one scale for all levels.
        const BudgetPlace& place = standings_.budgets[run.budget];
        UInt128 over = UInt128{1} << 100;
        if (place.funded_fraction > 0) {
            const UInt128 charge = standings_.side(place.path.back()).charge() /
                                   static_cast<UInt128>(standings_.window.length_seconds);
            over = std::min(over, (charge << kFractionBits) / place.funded_fraction);
        }
        cost.over_funding = over * static_cast<UInt128>(std::max<std::int64_t>(run.gpus, 0));
        if (run.budget == claimant.budget) {
            cost.priority_gpus = run.gpus * static_cast<std::int64_t>(priority);
        }
        std::int64_t since = run.started_at;
        if (run.resumable) {
            since = std::max(since, run.checkpointed_at);
            if (run.kind == RunKind::allocated) {
                since = std::max(since, run.protected_until);
            }
        }
        cost.lost_gpu_seconds = run.gpus * std::max<std::int64_t>(view_.now - since, 0);
        return cost;
    }

    const ClusterView& view_;
    const std::vector<RankedEntry>& ranking_;
    Standings standings_;  // grows by what this pass starts and plans
    const Settings& settings_;
    const PassRules rules_;
    ExpressLane lane_;
    const std::vector<bool> may_raise_;
    const std::int64_t allowed_protected_;
    std::int64_t available_milli_ = 0;
    std::int64_t protected_gpus_ = 0;
    std::int64_t evictions_;
    std::vector<RoomNode> empty_;   // held by no run, whatever plans say
    std::vector<RoomNode> room_;    // the same less what standing plans will take
    std::vector<RoomNode> future_;  // when all that leave have left
    std::vector<std::uint32_t> taken_;
    std::unordered_map<JobShape, bool, ShapeHash> no_free_place_;
    std::unordered_map<ClaimantKey, Refusal, ClaimantKeyHash> refusals_;
    std::uint64_t version_ = 0;
    std::uint64_t refusals_version_ = 0;
    PassResult result_;
};

}  // namespace

std::string_view to_text(WaitReason reason) noexcept {
    switch (reason) {
        case WaitReason::none:
            return "none";
        case WaitReason::starting:
            return "starting";
        case WaitReason::planned:
            return "planned";
        case WaitReason::held:
            return "held";
        case WaitReason::dependency:
            return "dependency";
        case WaitReason::begin_time:
            return "begin-time";
        case WaitReason::limit:
            return "limit";
        case WaitReason::impossible:
            return "impossible";
        case WaitReason::nodes_unavailable:
            return "nodes-unavailable";
        case WaitReason::claimant_first:
            return "claimant-first";
        case WaitReason::idle_gpus:
            return "idle-gpus";
        case WaitReason::contracts:
            return "contracts";
        case WaitReason::ratio:
            return "ratio";
        case WaitReason::own_budget:
            return "own-budget";
        case WaitReason::room_coming:
            return "room-coming";
        case WaitReason::room:
            return "room";
        case WaitReason::headroom:
            return "headroom";
        case WaitReason::express_cap:
            return "express-cap";
        case WaitReason::preemption_limit:
            return "preemption-limit";
    }
    return "unknown";
}

bool could_fit(const ClusterView& view, const JobShape& shape, bool usable_only) {
    std::uint32_t large = 0, small = 0;
    const std::uint32_t larger_members = static_cast<std::uint32_t>(shape.gpus % shape.nodes);
    for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
        if (usable_only && !view.nodes[n].usable) {
            continue;
        }
        if (node_suits(view, shape, n, 0)) {
            ++large;
        } else if (node_suits(view, shape, n, shape.nodes - 1)) {
            ++small;
        }
        // With members of one size every suitable node is a large one.
        if (large >= larger_members && large + small >= shape.nodes) {
            return true;
        }
    }
    return false;
}

void mark_impossible(ClusterView& view) {
    std::unordered_map<JobShape, bool, ShapeHash> known;
    for (PendingJob& job : view.pending) {
        if (job.block != StartBlock::none || job.turn_run >= 0) {
            continue;
        }
        const auto [it, is_new] = known.try_emplace(job.shape, true);
        if (is_new) {
            it->second = could_fit(view, job.shape, false);
        }
        if (!it->second) {
            job.block = StartBlock::impossible;
        }
    }
}

PassResult run_pass(const ClusterView& view, const std::vector<RankedEntry>& ranking,
                    const Standings& standings, const Settings& settings, const PassRules& rules) {
    return Pass(view, ranking, standings, settings, rules).run();
}

std::int64_t grace_seconds(const Run& run, const Settings& settings) noexcept {
    if (run.kind != RunKind::allocated) {
        return settings.grace_time_free_seconds;
    }
    return run.interactive ? settings.grace_time_interactive_seconds : settings.grace_time_seconds;
}

}  // namespace tranche
