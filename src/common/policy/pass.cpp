// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/pass.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "common/policy/job_classes.hpp"
#include "common/policy/large_jobs.hpp"
#include "common/policy/pass_sums.hpp"
#include "common/policy/ratio_key.hpp"
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

// The outcome of looking for victims in vain.
struct Refusal {
    WaitReason reason = WaitReason::room;
    std::int64_t next_change_at = kNever;
};

// Claimants with the same key differ only in their contract: what a shorter one was refused, a
// longer one is refused too. Within a pass room only shrinks and the claimant's side only grows.
struct ClaimantKey {
    JobShape shape;
    BudgetId budget;
    MemberId member;
    std::int64_t weight_milli;
    TeamPriority priority;
    bool express;

    bool operator==(const ClaimantKey&) const = default;
};

struct ClaimantKeyHash {
    std::size_t operator()(const ClaimantKey& k) const {
        std::size_t h = ShapeHash{}(k.shape);
        for (const std::uint64_t v :
             {std::uint64_t{k.budget}, std::uint64_t{k.member},
              static_cast<std::uint64_t>(k.weight_milli), static_cast<std::uint64_t>(k.priority),
              std::uint64_t{k.express}}) {
            h = mix(h, v);
        }
        return h;
    }
};

struct Refused {
    std::int64_t contract_seconds;  // the shortest that was refused
    Refusal refusal;
};

class VectorSource : public RankSource {
  public:
    explicit VectorSource(const std::vector<RankedEntry>& entries) : entries_(entries) {}
    bool next(RankedEntry& entry) override {
        if (at_ == entries_.size()) {
            return false;
        }
        entry = entries_[at_++];
        return true;
    }

  private:
    const std::vector<RankedEntry>& entries_;
    std::size_t at_ = 0;
};

class KnownRights : public RaiseRights {
  public:
    explicit KnownRights(std::vector<bool> may) : may_(std::move(may)) {}
    bool may_raise(MemberId member) override { return may_[member]; }

  private:
    std::vector<bool> may_;
};

class Pass {
  public:
    // `classes`: nullptr for a pass that looks at every job and says why it waits.
    Pass(const ClusterView& view, const PassSums& sums, const JobClasses* classes,
         RankSource& ranking, RaiseRights& rights, Standings& standings, const Settings& settings,
         const PassRules& rules)
        : view_(view),
          sums_(sums),
          classes_(classes),
          ranking_(ranking),
          rights_(rights),
          standings_(standings),
          settings_(settings),
          rules_(rules),
          all_shown_(!settings.has(Rule::backfill) || !settings.has(Rule::free_ranks_below)),
          all_live_(!settings.has(Rule::contract) || !settings.has(Rule::feasible) ||
                    !settings.has(Rule::free_never_takes) ||
                    !settings.has(Rule::team_priority_at_home)),
          available_milli_(sums.available_gpus * 1000),
          protected_gpus_(sums.protected_gpus),
          evictions_(view.evictions_last_hour),
          empty_(sums.empty),
          room_(sums.room),
          future_(sums.future),
          taken_(view.runs.size(), false),
          passed_(view.runs.size(), false) {
        if (classes_ == nullptr) {
            result_.verdicts.resize(view.pending.size());
        } else {
            visited_.assign(classes_->all.size(), 0);
            live_.assign(classes_->all.size(), false);
            wanted_.too_long.assign(classes_->all.size(), kNever);
        }
        wake_at(sums.next_contract_end_at);
    }

    PassResult run() {
        empty_drains();
        begin_assemblies();
        if (classes_ != nullptr) {
            look_for_live_classes();
        }
        ranking_.show_only(classes_ == nullptr ? nullptr : &wanted_);
        RankedEntry entry;
        bool more = ranking_.next(entry);
        while (more && entry.band == Band::plan) {
            try_planned(entry.job);
            more = ranking_.next(entry);
        }
        for (; more && !blocked_ && !nothing_left(); more = ranking_.next(entry)) {
            visit(entry);
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

    void wake_at(std::int64_t at) {
        if (at > view_.now && settings_.has(Rule::wake)) {
            result_.wake_at = std::min(result_.wake_at, at);
        }
    }

    JobVerdict& verdict_of(std::uint32_t job) {
        return classes_ == nullptr ? result_.verdicts[job] : no_verdict_;
    }

    // ---- the queue ----

    void visit(const RankedEntry& entry) {
        const PendingJob& job = view_.pending[entry.job];
        JobVerdict& verdict = verdict_of(entry.job);
        if (!entry.counts || job.block != StartBlock::none) {
            verdict.reason = blocked(job.block);
            return;
        }
        if (is_done(entry.job)) {
            return;  // its assembly came first
        }
        bool is_live = true;
        if (classes_ != nullptr) {
            const std::uint32_t c = classes_->class_of[entry.job];
            if (classes_dirty_) {
                look_for_live_classes();
            }
            is_live = live_[c];
            visited_[c] += 1;
            if (is_live) {
                --live_jobs_;
            }
        }
        bool waits = !is_live;
        if (is_live) {
            for (std::uint32_t task = 0; task < entry.tasks; ++task) {
                if (!try_one(entry, job, verdict)) {
                    waits = true;
                    break;
                }
            }
        }
        if (job.turn_run >= 0) {
            passed_[static_cast<std::size_t>(job.turn_run)] = true;
            return;
        }
        if (waits && is_live && classes_ != nullptr && entry.band != Band::express) {
            give_up(classes_->class_of[entry.job], job.contract_seconds());
        }
        if (!waits || entry.band != Band::allocated) {
            return;
        }
        if (rules_.large_jobs && job.waits_for == 0) {
            consider_large(entry, job, verdict);
        }
        somebody_waits_ = somebody_waits_ || verdict.reason != WaitReason::assembling;
        blocked_ = !settings_.has(Rule::backfill);
        if (classes_ != nullptr) {
            verdict.reason = WaitReason::none;
        }
    }

    // What a job could not do in this pass, none of its class with as long a contract can.
    void give_up(std::uint32_t c, std::int64_t contract_seconds) {
        const JobClass& jobs = classes_->all[c];
        if (jobs.runs || jobs.whole_node) {
            return;  // turns and reservations are each job's own
        }
        std::int64_t& limit = wanted_.too_long[c];
        limit = std::min(limit, contract_seconds);
        if (live_[c] && *jobs.contracts.begin() >= limit) {
            live_[c] = false;
            live_jobs_ -= static_cast<std::int64_t>(jobs.count()) - visited_[c];
        }
    }

    // False: no further task of this job needs to be tried.
    bool try_one(const RankedEntry& entry, const PendingJob& job, JobVerdict& verdict) {
        const bool allocated = is_allocated(job, standings_);
        if (job.waits_for != 0) {
            verdict.reason = WaitReason::claimant_first;
            return false;
        }
        const bool express = entry.band == Band::express;
        if (express) {
            verdict.express_cap = lane().check(user_of(job), job.shape.gpus);
            if (verdict.express_cap != ExpressCap::none) {
                // Its turn as an ordinary job comes with the next ranking.
                verdict.reason = WaitReason::express_cap;
                return false;
            }
        } else if (classes_ == nullptr && allocated && fits_lane(job, settings_)) {
            verdict.express_cap = lane().check(user_of(job), job.shape.gpus);
        }
        const bool over_headroom = allocated &&
                                   (!express || !settings_.has(Rule::headroom_for_express)) &&
                                   is_over_headroom(job.shape.gpus);
        if (job.turn_run >= 0) {
            return try_turn(job, allocated, over_headroom, verdict);
        }
        if (settings_.has(Rule::feasible) && !could_fit(view_, job.shape, true)) {
            verdict.reason = WaitReason::nodes_unavailable;
            return false;
        }
        const bool as_free =
            over_headroom && job.resumable && settings_.has(Rule::headroom_starts_free);
        if (over_headroom && !as_free) {
            verdict.reason = WaitReason::headroom;
            return false;
        }
        const std::int64_t contract_end = contract_end_of(job, allocated && !as_free);
        const bool starts_free =
            as_free || (job.free_first && allocated && !express && settings_.has(Rule::free_first));
        if (auto where = free_place(job.shape, starts_free ? 0 : contract_end)) {
            start(entry.job, job, std::move(*where), starts_free, express,
                  allocated && !starts_free);
            verdict.reason = WaitReason::starting;
            return true;
        }
        if (as_free) {
            verdict.reason = WaitReason::headroom;
            return false;
        }
        if (!allocated && settings_.has(Rule::free_never_takes)) {
            verdict.reason = WaitReason::idle_gpus;
            return false;
        }
        if (!job.plannable) {
            verdict.reason = WaitReason::room;
            return false;
        }
        return plan(entry, job, express, contract_end, verdict);
    }

    bool try_turn(const PendingJob& job, bool allocated, bool over_headroom, JobVerdict& verdict) {
        const auto r = static_cast<std::uint32_t>(job.turn_run);
        if (taken_[r] || view_.runs[r].state != RunState::running) {
            verdict.reason = WaitReason::idle_gpus;
            return false;
        }
        if (!allocated || view_.runs[r].free_first) {
            verdict.reason = WaitReason::idle_gpus;  // or its budget lost its shares meanwhile
            return false;
        }
        if (over_headroom) {
            verdict.reason = WaitReason::headroom;
            return false;
        }
        if (!may_stay(r, contract_end_of(job, true))) {
            verdict.reason = WaitReason::kept_nodes;
            return false;
        }
        turn(r, job);
        return false;
    }

    bool may_stay(std::uint32_t run, std::int64_t contract_end) const {
        const Run& staying = view_.runs[run];
        return std::all_of(staying.where.begin(), staying.where.end(), [&](const NodeShare& share) {
            return room_[share.node].until >= contract_end;
        });
    }

    void turn(std::uint32_t run, const PendingJob& job) {
        result_.turns.push_back(run);
        taken_[run] = true;
        count(job, false, true);
    }

    // Where no part is kept open, contracts are in the way and not the headroom.
    bool is_over_headroom(std::int64_t gpus) const {
        return sums_.allowed_protected_gpus < sums_.available_gpus &&
               (gpus <= sums_.allowed_protected_gpus || !settings_.has(Rule::headroom_for_large)) &&
               protected_gpus_ + gpus > sums_.allowed_protected_gpus;
    }

    std::int64_t contract_end_of(const PendingJob& job, bool allocated) const {
        return allocated                          ? view_.now + job.contract_seconds()
               : settings_.has(Rule::free_enters) ? 0
                                                  : kNever;
    }

    const std::string& user_of(const PendingJob& job) const {
        return standings_.members[job.member].user;
    }

    ExpressLane& lane() {
        if (!lane_) {
            lane_.emplace(view_, standings_, settings_, &sums_.express_runs);
        }
        return *lane_;
    }

    TeamPriority priority_of(const Run& run) {
        return effective(run.team_priority, run.budget, run.member);
    }
    TeamPriority effective(TeamPriority asked, BudgetId budget, MemberId member) {
        if (asked <= TeamPriority::normal || standings_.budgets[budget].pooled) {
            return asked;
        }
        return effective_priority(asked, rights_.may_raise(member));
    }

    // ---- room ----

    static void take(std::vector<RoomNode>& room, const std::vector<NodeShare>& where) {
        for (const NodeShare& share : where) {
            room[share.node].gpus -= share.gpus;
            room[share.node].cpus -= share.cpus;
            room[share.node].memory_mib -= share.memory_mib;
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
        classes_dirty_ = true;
    }

    // What a leaving run frees, for those that are planned after it.
    void add_future(const Run& run) {
        no_future_place_.clear();
        for (const NodeShare& share : run.where) {
            future_[share.node].gpus += share.gpus;
            future_[share.node].cpus += share.cpus;
            future_[share.node].memory_mib += share.memory_mib;
        }
    }

    std::optional<std::vector<NodeShare>> free_place(const JobShape& shape,
                                                     std::int64_t contract_end) {
        const auto known = no_free_place_.find(shape);
        if (known != no_free_place_.end() && known->second <= contract_end) {
            return std::nullopt;  // room only shrinks within a pass
        }
        auto where = place_on_free(view_, room_, shape, contract_end);
        if (!where) {
            no_free_place_[shape] = contract_end;
        }
        return where;
    }

    // Where it could go when those that leave have left.
    std::optional<std::vector<NodeShare>> future_place(const JobShape& shape,
                                                       std::int64_t contract_end) {
        const auto known = no_future_place_.find(shape);
        if (known != no_future_place_.end() && known->second <= contract_end) {
            return std::nullopt;
        }
        auto where = place_on_free(view_, future_, shape, contract_end);
        if (!where) {
            no_future_place_[shape] = contract_end;  // only those who leave make more room
        }
        return where;
    }

    void start(std::uint32_t index, const PendingJob& job, std::vector<NodeShare> where,
               bool as_free, bool express, bool allocated) {
        take_room(where, false);
        take(empty_, where);
        result_.starts.push_back({index, std::move(where), as_free, express});
        count(job, express, allocated);
    }

    // What started or is planned counts for those that are tried after it.
    void count(const PendingJob& job, bool express, bool allocated) {
        classes_dirty_ = true;
        if (!allocated) {
            return;
        }
        if (settings_.commitments) {
            standings_.place(job.budget, job.member, job.weight_milli, job.contract_seconds());
        }
        if (express) {
            lane().add(user_of(job), job.shape.gpus);
        } else {
            protected_gpus_ += job.shape.gpus;
        }
        // Whoever was refused a run of this side may be allowed it by the next pass.
    }

    // ---- plans ----

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
        Judge(Pass& pass, const Claimant& claimant)
            : pass_(pass), claimant_(claimant), by_budget_(pass.by_budget_alone(claimant.express)) {
            if (by_budget_) {
                pass.judged_.assign(pass.standings_.budgets.size(), 0);
            }
        }
        bool may(const Run& run, bool ignore_contract) {
            if (!by_budget_ || run.kind != RunKind::allocated) {
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
        Pass& pass_;
        const Claimant& claimant_;
        const bool by_budget_;
    };

    bool plan(const RankedEntry& entry, const PendingJob& job, bool express,
              std::int64_t contract_end, JobVerdict& verdict) {
        const TeamPriority priority = effective(job.team_priority, job.budget, job.member);
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

    std::vector<VictimCandidate> candidates_for(const PendingJob& job, Judge& judge, bool express) {
        std::vector<VictimCandidate> candidates;
        const auto consider = [&](std::uint32_t r) {
            const Run& run = view_.runs[r];
            if (!taken_[r] && judge.may(run, false) &&
                (on_suitable_node(run, job.shape) || !settings_.has(Rule::feasible))) {
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
            if (taken_[r] || !on_suitable_node(run, claimant.job->shape)) {
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
        plan.weight_milli = job.weight_milli;
        plan.commitment_seconds = job.contract_seconds();
        plan.gpus = job.shape.gpus;
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

    bool on_suitable_node(const Run& run, const JobShape& shape) const {
        return std::any_of(run.where.begin(), run.where.end(), [&](const NodeShare& share) {
            return view_.nodes[share.node].usable &&
                   node_suits(view_, shape, share.node, shape.nodes - 1);
        });
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

    // ---- large jobs (DESIGN 2.7) ----

    bool is_done(std::uint32_t job) const {
        return std::find(done_.begin(), done_.end(), job) != done_.end();
    }

    void keep_until(const std::vector<NodeIndex>& nodes, std::int64_t date_at) {
        if (!settings_.has(Rule::entrance)) {
            return;
        }
        for (const NodeIndex n : nodes) {
            room_[n].until = std::min(room_[n].until, date_at);
            future_[n].until = std::min(future_[n].until, date_at);
        }
        classes_dirty_ = true;
    }

    // Nobody else is given these.
    void close(const std::vector<NodeIndex>& nodes) {
        if (closed_.empty()) {
            closed_.assign(view_.nodes.size(), false);
        }
        for (const NodeIndex n : nodes) {
            closed_[n] = true;
        }
    }

    std::uint32_t pending_index(JobId id) const {
        for (std::uint32_t i = 0; i < view_.pending.size(); ++i) {
            if (view_.pending[i].id == id && view_.pending[i].turn_run < 0) {
                return i;
            }
        }
        return kNoId;
    }

    void begin_assemblies() {
        if (!rules_.large_jobs) {
            return;
        }
        standing_assemblies_ = static_cast<std::int64_t>(view_.assemblies.size());
        for (const Assembly& standing : view_.assemblies) {
            close(standing.nodes);
        }
        for (const Assembly& standing : view_.assemblies) {
            if (std::any_of(view_.plans.begin(), view_.plans.end(),
                            [&](const Plan& plan) { return plan.claimant == standing.claimant; })) {
                continue;
            }
            const std::uint32_t index = pending_index(standing.claimant);
            if (index == kNoId) {
                continue;
            }
            go_on_with(standing, index);
        }
    }

    void go_on_with(const Assembly& standing, std::uint32_t index) {
        const PendingJob& job = view_.pending[index];
        Assembly assembly = standing;
        if (!replace_unusable(assembly, job)) {
            result_.dropped_assemblies.push_back(job.id);
            --standing_assemblies_;
            return;
        }
        if (assembly.nodes != standing.nodes) {
            result_.assemblies.push_back({index, assembly, false});
        }
        protected_gpus_ += job.shape.gpus;
        JobVerdict& verdict = verdict_of(index);
        verdict.reason = WaitReason::assembling;
        verdict.next_change_at = assembly.date_at;
        std::vector<RoomNode> own = only(room_, assembly.nodes);
        if (auto where = place_on_free(view_, own, job.shape)) {
            protected_gpus_ -= job.shape.gpus;
            start(index, job, std::move(*where), false, false, true);
            verdict.reason = WaitReason::starting;
            done_.push_back(index);
            return;
        }
        if (view_.now < assembly.date_at) {
            keep_until(assembly.nodes, assembly.date_at);
            wake_at(assembly.date_at);
            assembling_.push_back(index);
            return;
        }
        for (const NodeIndex n : assembly.nodes) {
            // Past the date nobody enters.
            if (settings_.has(Rule::assembly_closed)) {
                room_[n].open = false;
                future_[n].plannable = false;
            }
        }
        own = only(future_, assembly.nodes);
        const Claimant claimant{&job, effective(job.team_priority, job.budget, job.member), false,
                                settings_.has(Rule::assembly_right)};
        Judge judge(*this, claimant);
        std::vector<VictimCandidate> candidates;
        for (const NodeIndex n : assembly.nodes) {
            for (const std::uint32_t r : sums_.runs_on[n]) {
                if (!taken_[r] && judge.verdict(view_.runs[r], false).may) {
                    candidates.push_back({r, cost_of(view_.runs[r], job, false)});
                }
            }
        }
        const auto by_run = [](const VictimCandidate& a, const VictimCandidate& b) {
            return a.run < b.run;
        };
        std::sort(candidates.begin(), candidates.end(), by_run);
        candidates.erase(std::unique(candidates.begin(), candidates.end(),
                                     [](const VictimCandidate& a, const VictimCandidate& b) {
                                         return a.run == b.run;
                                     }),
                         candidates.end());
        if (const auto choice = choose_victims(view_, own, job.shape, candidates)) {
            protected_gpus_ -= job.shape.gpus;
            make_plan(index, claimant, *choice);
            verdict.reason = WaitReason::planned;
            done_.push_back(index);
        } else {
            assembling_.push_back(index);
        }
    }

    // A copy in which only those nodes are open to it.
    static std::vector<RoomNode> only(const std::vector<RoomNode>& room,
                                      const std::vector<NodeIndex>& nodes) {
        std::vector<RoomNode> copy = room;
        for (RoomNode& node : copy) {
            node.open = node.plannable = false;
        }
        for (const NodeIndex n : nodes) {
            copy[n].open = copy[n].plannable = true;
            copy[n].until = kNever;
        }
        return copy;
    }

    // By the right that is judged at the grant: free runs and those whose contract is over are out
    // of the way now, others when their contract ends, the rest at their time limit.
    RunDate right_of(const Claimant& claimant) {
        return [this, claimant](const Run& run) {
            if (run.state == RunState::leaving || run.state == RunState::completing) {
                return view_.now;
            }
            const Victim victim{&run, priority_of(run)};
            const bool gang = settings_.has(Rule::assembly_equals) &&
                              may_be_assembled(view_, shape_of(run), settings_);
            if (run.protected_until != kNever && has_right(claimant, victim, gang, standings_)) {
                return std::max({view_.now, run.protected_until, run.others_protected_until});
            }
            return end_by_limit(run);
        };
    }

    std::int64_t end_by_limit(const Run& run) const {
        return run.time_limit_seconds == kNever
                   ? kNever
                   : std::max(view_.now, run.started_at + run.time_limit_seconds);
    }

    static JobShape shape_of(const Run& run) {
        if (run.shape) {
            return *run.shape;
        }
        JobShape shape;
        shape.nodes = static_cast<std::uint32_t>(std::max<std::size_t>(run.where.size(), 1));
        shape.gpus = run.gpus;
        return shape;
    }

    // Its nodes that drain or failed give way to others. False: there are none.
    bool replace_unusable(Assembly& assembly, const PendingJob& job) {
        std::vector<NodeIndex> left;
        for (const NodeIndex n : assembly.nodes) {
            if (view_.nodes[n].usable) {
                left.push_back(n);
            }
        }
        if (left.size() == assembly.nodes.size()) {
            return true;
        }
        if (!settings_.has(Rule::assembly_replaces)) {
            return false;
        }
        JobShape missing = job.shape;
        missing.nodes = static_cast<std::uint32_t>(assembly.nodes.size() - left.size());
        missing.gpus = job.shape.gpus_on(0) * missing.nodes;
        const Claimant claimant{&job, effective(job.team_priority, job.budget, job.member), false,
                                true};
        const GatheredNodes found =
            soonest_nodes(view_, sums_, room_, missing, closed_, right_of(claimant));
        if (found.nodes.empty()) {
            return false;
        }
        close(found.nodes);
        left.insert(left.end(), found.nodes.begin(), found.nodes.end());
        std::sort(left.begin(), left.end());
        assembly.nodes = std::move(left);
        assembly.date_at = std::max(assembly.date_at, found.date_at);
        return true;
    }

    // A job that can neither start nor plan: its turn, an assembly, a reservation.
    void consider_large(const RankedEntry& entry, const PendingJob& job, JobVerdict& verdict) {
        if (std::find(assembling_.begin(), assembling_.end(), entry.job) != assembling_.end()) {
            verdict.reason = WaitReason::assembling;
            return;
        }
        if (settings_.max_assemblies > 0 && is_gang(entry.job)) {
            if (try_assembly(entry, job, verdict)) {
                return;
            }
        }
        if (reserved_ < settings_.reservations && is_whole_node(entry.job)) {
            reserve(job);
        }
    }

    bool is_gang(std::uint32_t job) const {
        return classes_ != nullptr ? classes_->all[classes_->class_of[job]].gang
                                   : may_be_assembled(view_, view_.pending[job].shape, settings_);
    }
    bool is_whole_node(std::uint32_t job) const {
        return classes_ != nullptr ? classes_->all[classes_->class_of[job]].whole_node
                                   : needs_whole_node(view_, view_.pending[job].shape);
    }

    bool try_assembly(const RankedEntry& entry, const PendingJob& job, JobVerdict& verdict) {
        const bool has_turn =
            job.turn_at != 0 || !somebody_waits_ || !settings_.has(Rule::assembly_turn);
        if (!has_turn) {
            return false;
        }
        if (job.turn_at == 0) {
            result_.turns_come.push_back(entry.job);
        }
        if (standing_assemblies_ >= settings_.max_assemblies) {
            return false;
        }
        const std::int64_t at =
            next_grant_at(view_, standings_, settings_, job.budget, available_milli_);
        if (at > view_.now) {
            wake_at(at);
            return false;
        }
        const Claimant claimant{&job, effective(job.team_priority, job.budget, job.member), false,
                                false};
        const GatheredNodes found =
            soonest_nodes(view_, sums_, room_, job.shape, closed_, right_of(claimant));
        if (found.nodes.empty()) {
            return false;
        }
        result_.assemblies.push_back(
            {entry.job, {job.id, found.nodes, view_.now, found.date_at}, true});
        ++standing_assemblies_;
        close(found.nodes);
        keep_until(found.nodes, found.date_at);
        protected_gpus_ += job.shape.gpus;
        wake_at(found.date_at);
        verdict.reason = WaitReason::assembling;
        verdict.next_change_at = found.date_at;
        assembling_.push_back(entry.job);
        return true;
    }

    void reserve(const PendingJob& job) {
        const Claimant claimant{&job, effective(job.team_priority, job.budget, job.member), false,
                                false};
        Judge judge(*this, claimant);
        const GatheredNodes found =
            soonest_nodes(view_, sums_, room_, job.shape, closed_, [&](const Run& run) {
                if (run.state == RunState::leaving || run.state == RunState::completing) {
                    return view_.now;
                }
                if (run.protected_until != kNever && judge.may(run, true)) {
                    return std::max({view_.now,
                                     run.kind == RunKind::allocated ? run.protected_until : 0,
                                     run.others_protected_until});
                }
                return end_by_limit(run);
            });
        ++reserved_;
        classes_dirty_ = classes_dirty_ || reserved_ >= settings_.reservations;
        if (found.nodes.empty()) {
            return;  // no date: it keeps nobody from anything
        }
        close(found.nodes);
        if (!settings_.has(Rule::whole_node)) {
            std::vector<NodeShare> held;
            for (std::uint32_t k = 0; k < found.nodes.size(); ++k) {
                held.push_back({found.nodes[k], job.shape.gpus_on(k), 0, 0});
            }
            take(room_, held);
            take(future_, held);
            return;
        }
        keep_until(found.nodes, std::max(found.date_at, view_.now));
    }

    // ---- drains (DESIGN 2.8) ----

    void empty_drains() {
        if (!rules_.drains || !settings_.has(Rule::drain)) {
            return;
        }
        std::vector<std::uint32_t> leavers;
        for (NodeIndex n = 0; n < view_.nodes.size(); ++n) {
            if (view_.nodes[n].draining) {
                leavers.insert(leavers.end(), sums_.runs_on[n].begin(), sums_.runs_on[n].end());
            }
        }
        std::sort(leavers.begin(), leavers.end());
        leavers.erase(std::unique(leavers.begin(), leavers.end()), leavers.end());
        for (const std::uint32_t r : leavers) {
            leave_drain(r);
        }
    }

    void leave_drain(std::uint32_t r) {
        const Run& run = view_.runs[r];
        if (run.state != RunState::running && run.state != RunState::suspended) {
            return;
        }
        std::int64_t over_at = run.others_protected_until;
        if (run.kind == RunKind::allocated) {
            over_at = std::max(over_at, run.protected_until);
        }
        if (view_.now < over_at) {
            return;  // wake_at has it
        }
        std::int64_t drained_at = 0;
        for (const NodeShare& share : run.where) {
            if (view_.nodes[share.node].draining) {
                drained_at = std::max(drained_at, view_.nodes[share.node].drain_started_at);
            }
        }
        const std::int64_t last_at =
            std::max(over_at, drained_at) + settings_.drain_gang_wait_seconds;
        if (run.where.size() > 1 && run.resumable && run.kind == RunKind::allocated &&
            view_.now < last_at && could_fit(view_, shape_of(run), true) && is_next_to_run(run)) {
            if (!move(r)) {
                wake_at(last_at);
            }
            return;
        }
        taken_[r] = true;
        result_.drains.push_back({r, std::nullopt, {}});
    }

    PendingJob requeued(const Run& run) const {
        PendingJob job;
        job.id = run.id;
        job.budget = run.budget;
        job.member = run.member;
        job.shape = shape_of(run);
        job.weight_milli = run.weight_milli;
        job.min_runtime_seconds = run.contract_seconds;
        job.first_submit_at = run.first_submit_at;
        job.team_priority = run.team_priority;
        job.resumable = run.resumable;
        return job;
    }

    // Whether no allocated job that waits has a better claim: its side's ratio where they part.
    bool is_next_to_run(const Run& run) const {
        for (std::uint32_t i = 0; i < view_.pending.size(); ++i) {
            const PendingJob& job = view_.pending[i];
            if (job.id == 0 || job.turn_run >= 0 || job.block != StartBlock::none ||
                job.waits_for != 0 || !is_allocated(job, standings_)) {
                continue;
            }
            const PartingSides sides = parting_sides(standings_, run.budget, job.budget);
            if (sides.a == kNoId) {
                if (job.first_submit_at < run.first_submit_at) {
                    return false;
                }
                continue;
            }
            const SideStanding& ours = standings_.side(sides.a);
            const SideStanding& theirs = standings_.side(sides.b);
            if (compare_ratio(theirs.charge(), theirs.entitlement, ours.charge(),
                              ours.entitlement) < 0) {
                return false;
            }
        }
        return true;
    }

    bool move(std::uint32_t r) {
        const Run& run = view_.runs[r];
        const PendingJob job = requeued(run);
        const Claimant claimant{&job, priority_of(run), false, false};
        std::vector<RoomNode> room = future_;
        for (const NodeShare& share : run.where) {
            room[share.node].gpus += share.gpus;
            room[share.node].cpus += share.cpus;
            room[share.node].memory_mib += share.memory_mib;
        }
        DrainDecision decision;
        decision.run = r;
        taken_[r] = true;
        if (const auto where = place_on_free(view_, room, job.shape)) {
            decision.move = plan_of(job, *where, false);
        } else {
            Judge judge(*this, claimant);
            const auto candidates = candidates_for(job, judge, false);
            const auto choice = choose_victims(view_, room, job.shape, candidates);
            if (!choice) {
                taken_[r] = false;
                return false;
            }
            decision.move = plan_of(job, choice->where, false);
            decision.victims = evict(*decision.move, claimant, *choice);
        }
        add_future(run);
        take_room(decision.move->where, true);
        result_.drains.push_back(std::move(decision));
        return true;
    }

    // ---- which classes of jobs could do anything now ----

    bool nothing_left() {
        if (classes_ == nullptr) {
            return false;
        }
        if (classes_dirty_ || looked_for_first_ != must_see_first()) {
            look_for_live_classes();
        }
        return live_jobs_ == 0 && !must_see_first();
    }

    // A gang's turn has come when nobody waits before it.
    bool must_see_first() const {
        return gangs_wait_ && (!somebody_waits_ || !settings_.has(Rule::assembly_turn));
    }

    void look_for_live_classes() {
        classes_dirty_ = false;
        live_jobs_ = 0;
        gangs_wait_ = rules_.large_jobs && classes_->gangs > 0 && settings_.max_assemblies > 0;
        most_ = most_future_ = room_sum_ = 0;
        for (NodeIndex n = 0; n < room_.size(); ++n) {
            if (room_[n].open && room_[n].gpus > 0) {
                most_ = std::max(most_, room_[n].gpus);
                room_sum_ += room_[n].gpus;
            }
            if (future_[n].open || future_[n].plannable) {
                most_future_ = std::max(most_future_, future_[n].gpus);
            }
        }
        looked_for_first_ = must_see_first();
        ++wanted_.version;
        futures_with_.clear();
        wanted_.everything = looked_for_first_ || all_shown_;
        wanted_.unallocated = 0;
        wanted_.allocated.assign(standings_.budgets.size(), 0);
        appetites_.resize(standings_.budgets.size());
        std::fill(live_.begin(), live_.end(), false);
        look_at(classes_->free, wanted_.unallocated);
        for (const BudgetId budget : classes_->budgets) {
            const ClassGroup& group = classes_->allocated[budget];
            if (group.least_member <= most_ || group.least_member <= most_future_ ||
                group.special > 0 || all_live_ ||
                (!sums_.takeable.empty() && !group.amounts.empty() &&
                 (lane_is_open() || appetite_of(budget).hungry))) {
                look_at(group, wanted_.allocated[budget]);
            }
        }
        if (live_jobs_ > 0 && !wanted_.everything) {
            want_large();
        }
    }

    // Marks the classes that are live; wanted too are those that turn allocated if somebody behind
    // them would take their GPUs.
    void look_at(const ClassGroup& group, std::uint64_t& wanted) {
        for (const std::uint32_t c : group.filled) {
            const JobClass& jobs = classes_->all[c];
            const auto left = static_cast<std::int64_t>(jobs.count()) - visited_[c];
            live_[c] = left > 0 && *jobs.contracts.begin() < wanted_.too_long[c] && is_live(jobs);
            if (live_[c]) {
                live_jobs_ += left;
            }
            if (live_[c] || jobs.on_demand) {
                wanted |= std::uint64_t{1} << jobs.colour;
            }
        }
    }

    // Jobs that will be given a reservation when they cannot start.
    void want_large() {
        if (!rules_.large_jobs || reserved_ >= settings_.reservations) {
            return;
        }
        for (const BudgetId budget : classes_->budgets) {
            for (const std::uint32_t c : classes_->allocated[budget].filled) {
                const JobClass& jobs = classes_->all[c];
                if (jobs.whole_node && !jobs.waits && !jobs.runs) {
                    wanted_.allocated[budget] |= std::uint64_t{1} << jobs.colour;
                }
            }
        }
    }

    // The latest end of a contract for which there is room of that shape now; -1: none at all. Of
    // gangs, as if all members were as large as the smallest.
    std::int64_t room_until(std::uint32_t shape_number, const std::vector<RoomNode>& room,
                            std::vector<std::pair<std::uint64_t, std::int64_t>>& known) {
        if (known.size() < classes_->shapes.size()) {
            known.resize(classes_->shapes.size(), {0, 0});
        }
        if (known[shape_number].first == wanted_.version) {
            return known[shape_number].second;
        }
        const JobShape& shape = classes_->shapes[shape_number];
        const std::uint32_t smallest = shape.nodes - 1;
        untils_.clear();
        for (NodeIndex n = 0; n < room.size(); ++n) {
            const RoomNode& node = room[n];
            if (node.open && node.gpus >= shape.gpus_on(smallest) &&
                node.cpus >= shape.cpus_per_node && node.memory_mib >= shape.memory_mib_per_node &&
                node_suits(view_, shape, n, smallest)) {
                untils_.push_back(node.until);
            }
        }
        std::int64_t until = -1;
        if (untils_.size() >= shape.nodes) {
            const auto last = untils_.begin() + static_cast<std::ptrdiff_t>(smallest);
            std::nth_element(untils_.begin(), last, untils_.end(), std::greater<>());
            until = *last;
        }
        known[shape_number] = {wanted_.version, until};
        return until;
    }

    bool lane_is_open() { return lane().has_room(1); }

    bool is_live(const JobClass& jobs) {
        if (jobs.waits) {
            return false;
        }
        if (jobs.has_turn && gangs_wait_ && standing_assemblies_ < settings_.max_assemblies) {
            const std::int64_t at =
                next_grant_at(view_, standings_, settings_, jobs.budget, available_milli_);
            if (at <= view_.now) {
                return true;
            }
            wake_at(at);
        }
        const std::int64_t gpus = jobs.shape.gpus;
        const bool express = jobs.lane && lane().has_room(gpus) &&
                             lane().check(jobs.member, gpus) == ExpressCap::none;
        const bool over_headroom = jobs.allocated &&
                                   (!express || !settings_.has(Rule::headroom_for_express)) &&
                                   is_over_headroom(gpus);
        if (jobs.runs) {
            return !jobs.on_demand && jobs.allocated && !over_headroom;
        }
        const std::int64_t least = *jobs.contracts.begin();
        const bool as_free =
            over_headroom && jobs.resumable && settings_.has(Rule::headroom_starts_free);
        if (over_headroom && !as_free) {
            return false;
        }
        const std::int64_t largest_member = jobs.shape.gpus_on(0);
        if (largest_member <= most_ && gpus <= room_sum_ &&
            room_until(jobs.shape_number, room_, room_until_) >=
                (jobs.allocated && !as_free ? view_.now + least : 0)) {
            return true;
        }
        if ((!jobs.allocated && settings_.has(Rule::free_never_takes)) || !jobs.plannable ||
            as_free) {
            return false;
        }
        if (largest_member <= most_future_ &&
            room_until(jobs.shape_number, future_, future_until_) >= view_.now + least) {
            return true;
        }
        if (express) {
            return !sums_.takeable.empty();
        }
        return could_plan(jobs, least);
    }

    // ---- what a budget could take at best ----

    const KeyMaker& keys_of(SideId side, const SideStanding& standing) {
        if (keys_.size() < standings_.sides.size()) {
            keys_.resize(standings_.sides.size());
            keys_known_.resize(standings_.sides.size(), false);
        }
        if (!keys_known_[side]) {
            keys_known_[side] = true;
            keys_[side] = KeyMaker(standing.entitlement);
        }
        return keys_[side];
    }

    RatioKey claimant_key(SideId side, UInt128 own) {
        const SideStanding& standing = standings_.side(side);
        return keys_of(side, standing).key(standing.charge() + own);
    }
    // Of this look at the classes.
    RatioKey victim_key(SideId side) {
        if (victim_keys_.size() < standings_.sides.size()) {
            victim_keys_.resize(standings_.sides.size(), {0, 0});
        }
        auto& known = victim_keys_[side];
        if (known.first != wanted_.version) [[unlikely]] {
            const SideStanding& standing = standings_.side(side);
            known.first = wanted_.version;
            known.second =
                keys_of(side, standing)
                    .key(standing.charge() *
                         static_cast<UInt128>(kPpm - settings_.preempt_margin_ppm) / kPpm);
        }
        return known.second;
    }

    // Whether a claimant of that budget and commitment may take runs of the group whose contract is
    // over. Most are told by their keys. The claimant's key is remembered from group to group.
    bool may_take_group(const TakeableGroup& group, BudgetId budget, UInt128 own) {
        if (group.free) {
            return true;
        }
        const std::vector<SideId>& ours = standings_.budgets[budget].path;
        const std::vector<SideId>& theirs = standings_.budgets[group.budget].path;
        PartingSides sides{ours.front(), theirs.front(), 0};
        if (sides.a == sides.b) {
            sides = parting_sides(standings_, budget, group.budget);
        }
        if (sides.a == kNoId) {
            return settings_.preempt_within_budget != PreemptWithinBudget::no;
        }
        if (claimant_.side != sides.a || claimant_.own != own ||
            claimant_.version != wanted_.version) {
            claimant_ = {sides.a, own, wanted_.version, claimant_key(sides.a, own)};
        }
        return claimant_.key < victim_key(sides.b) + 4 * kKeySlack;
    }

    // What the jobs of one budget could have at best: on the nodes where its smallest commitment
    // might take something, what is free there, what leaves, and that.
    struct Appetite {
        std::uint64_t version = 0;  // of the look it was found in
        bool hungry = false, counted = false;
        std::vector<std::int64_t> potentials;  // GPUs, of those nodes
    };

    UInt128 own_commitment(std::int64_t amount) const {
        return settings_.commitments && settings_.has(Rule::own_commitment)
                   ? static_cast<UInt128>(amount) *
                         static_cast<UInt128>(standings_.window.length_seconds)
                   : 0;
    }

    // By node, with what claimants of that budget and commitment might take.
    bool sum_potential(BudgetId budget, std::int64_t amount) {
        bool hungry = false;
        potential_.resize(room_.size());
        for (NodeIndex n = 0; n < room_.size(); ++n) {
            potential_[n] = future_[n].plannable ? future_[n].gpus : -1;
        }
        for (const TakeableGroup& group : sums_.groups) {
            if (group.runs.empty() || !may_take_group(group, budget, own_commitment(amount))) {
                continue;
            }
            hungry = true;
            for (NodeIndex n = 0; n < room_.size(); ++n) {
                potential_[n] += group.gpus[n];
            }
        }
        return hungry;
    }

    std::int64_t least_amount(BudgetId budget) const {
        return *classes_->allocated[budget].amounts.begin();
    }

    Appetite& appetite_of(BudgetId budget) {
        Appetite& appetite = appetites_[budget];
        if (appetite.version == wanted_.version) {
            return appetite;
        }
        appetite.version = wanted_.version;
        appetite.counted = false;
        const UInt128 own = own_commitment(least_amount(budget));
        appetite.hungry =
            std::any_of(sums_.groups.begin(), sums_.groups.end(), [&](const TakeableGroup& group) {
                return !group.runs.empty() && may_take_group(group, budget, own);
            });
        return appetite;
    }

    // How many nodes could give a job of that budget so many GPUs, at most.
    std::uint32_t nodes_with(Appetite& appetite, BudgetId budget, std::int64_t gpus) {
        if (!appetite.counted) {
            appetite.counted = true;
            appetite.potentials.clear();
            allowed_.clear();
            const UInt128 own = own_commitment(least_amount(budget));
            for (const TakeableGroup& group : sums_.groups) {
                if (!group.runs.empty() && may_take_group(group, budget, own)) {
                    allowed_.push_back(&group);
                }
            }
            ++count_number_;
            counted_.resize(room_.size(), 0);
            for (const TakeableGroup* group : allowed_) {
                for (const std::uint32_t r : group->runs) {
                    for (const NodeShare& share : view_.runs[r].where) {
                        if (counted_[share.node] == count_number_) {
                            continue;
                        }
                        counted_[share.node] = count_number_;
                        std::int64_t at_best = future_[share.node].gpus;
                        for (const TakeableGroup* other : allowed_) {
                            at_best += other->gpus[share.node];
                        }
                        if (future_[share.node].plannable) {
                            appetite.potentials.push_back(at_best);
                        }
                    }
                }
            }
        }
        const auto enough = [gpus](std::int64_t at_best) { return at_best >= gpus; };
        return static_cast<std::uint32_t>(
                   std::count_if(appetite.potentials.begin(), appetite.potentials.end(), enough)) +
               futures_with(gpus);
    }

    // How many nodes will have so many GPUs when those that leave have left.
    std::uint32_t futures_with(std::int64_t gpus) {
        if (gpus > most_future_) {
            return 0;
        }
        for (const auto& known : futures_with_) {
            if (known.first == gpus) {
                return known.second;
            }
        }
        std::uint32_t nodes = 0;
        for (const RoomNode& node : future_) {
            nodes += node.gpus >= gpus && node.plannable ? 1 : 0;
        }
        futures_with_.emplace_back(gpus, nodes);
        return nodes;
    }

    // Whether what the shortest contract of the class might take would make room enough.
    bool could_plan(const JobClass& jobs, std::int64_t least) {
        if (all_live_) {
            return true;
        }
        if (sums_.takeable.empty()) {
            return false;
        }
        const std::int64_t need = jobs.shape.gpus_on(jobs.shape.nodes - 1);
        Appetite& appetite = appetite_of(jobs.budget);
        if (!appetite.hungry || nodes_with(appetite, jobs.budget, need) < jobs.shape.nodes) {
            return false;
        }
        if (by_budget_alone(false)) {
            const ClaimantKey key{jobs.shape,        jobs.budget,          0,
                                  jobs.weight_milli, TeamPriority::normal, false};
            const auto refused = refusals_.find(key);
            if (refused != refusals_.end() && refused->second.contract_seconds <= least) {
                return false;
            }
        }
        if (!sum_potential(jobs.budget, jobs.weight_milli * least)) {
            return false;
        }
        const std::int64_t contract_end = view_.now + least;
        std::uint32_t nodes = 0;
        for (NodeIndex n = 0; n < room_.size(); ++n) {
            if (potential_[n] >= need && future_[n].until >= contract_end &&
                node_suits(view_, jobs.shape, n, jobs.shape.nodes - 1) &&
                ++nodes == jobs.shape.nodes) {
                return true;
            }
        }
        return false;
    }

    const ClusterView& view_;
    const PassSums& sums_;
    const JobClasses* classes_;
    RankSource& ranking_;
    RaiseRights& rights_;
    Standings& standings_;  // collects what this pass starts and plans
    const Settings& settings_;
    const PassRules rules_;
    std::optional<ExpressLane> lane_;
    // Rules are left out that what classes could do at best is found by.
    const bool all_shown_, all_live_;
    bool blocked_ = false;  // without backfill: somebody waits
    const std::int64_t available_milli_;
    std::int64_t protected_gpus_;
    std::int64_t evictions_;
    std::vector<RoomNode> empty_, room_, future_;
    std::vector<bool> taken_;   // by run: leaves or turns by a decision of this pass
    std::vector<bool> passed_;  // by run: its job waits for its turn, and was passed
    std::vector<std::uint32_t> done_, assembling_;  // jobs
    std::int64_t standing_assemblies_ = 0, reserved_ = 0;
    std::vector<bool> closed_;  // nodes that are reserved, or an assembly's
    bool somebody_waits_ = false;
    // Contract ends from which on there is no place for the shape.
    std::unordered_map<JobShape, std::int64_t, ShapeHash> no_free_place_, no_future_place_;
    std::unordered_map<ClaimantKey, Refused, ClaimantKeyHash> refusals_;
    std::vector<std::uint8_t> judged_;
    JobVerdict no_verdict_;
    // Of a pass that looks at the head only:
    std::vector<std::int64_t> visited_;
    std::vector<bool> live_;
    std::vector<std::int64_t> potential_;
    std::vector<std::pair<std::uint64_t, std::int64_t>> room_until_, future_until_;
    std::vector<std::int64_t> untils_;
    std::vector<std::pair<std::int64_t, std::uint32_t>> futures_with_;
    std::vector<const TakeableGroup*> allowed_;
    std::vector<std::uint32_t> counted_;  // by node
    std::uint32_t count_number_ = 0;
    std::vector<Appetite> appetites_;  // by budget
    std::vector<KeyMaker> keys_;       // by side
    std::vector<bool> keys_known_;
    std::vector<std::pair<std::uint64_t, RatioKey>> victim_keys_;  // by side: look, key
    struct {
        SideId side = kNoId;
        UInt128 own = 0;
        std::uint64_t version = 0;
        RatioKey key = 0;
    } claimant_;
    std::int64_t live_jobs_ = 0;
    std::int64_t most_ = 0, most_future_ = 0, room_sum_ = 0;  // free GPUs of a node, and of all
    WantedJobs wanted_;
    bool looked_for_first_ = false;
    bool classes_dirty_ = false, gangs_wait_ = false;
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
        case WaitReason::kept_nodes:
            return "kept-nodes";
        case WaitReason::assembling:
            return "assembling";
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
    const PassSums sums = sums_of(view, settings, rules.one_plan_per_node);
    VectorSource source(ranking);
    KnownRights rights(members_that_may_raise(view, standings, settings, RunKind::allocated));
    Standings working = standings;
    return Pass(view, sums, nullptr, source, rights, working, settings, rules).run();
}

PassResult run_head_pass(const ClusterView& view, const PassSums& sums, const JobClasses& classes,
                         RankSource& ranking, RaiseRights& rights, Standings& standings,
                         const Settings& settings, const PassRules& rules) {
    return Pass(view, sums, &classes, ranking, rights, standings, settings, rules).run();
}

std::int64_t grace_seconds(const Run& run, const Settings& settings) noexcept {
    if (run.kind != RunKind::allocated) {
        return settings.grace_time_free_seconds;
    }
    return run.interactive ? settings.grace_time_interactive_seconds : settings.grace_time_seconds;
}

}  // namespace tranche
