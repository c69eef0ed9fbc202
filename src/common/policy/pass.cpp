// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/pass.hpp"

#include "common/policy/pass_head.hpp"

namespace tranche {
namespace {

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

class Pass : public passing::PassHead {
  public:
    using PassHead::PassHead;

    PassResult run() {
        empty_drains();
        begin_assemblies();
        result_.next_contract_end_at = sums_.next_contract_end_at;
        if (classes_ != nullptr) {
            look_for_live_classes();
        }
        ranking_.show_only(classes_ == nullptr ? nullptr : &wanted_);
        RankedEntry entry;
        bool more = ranking_.next(entry);
        for (; more && entry.band == Band::plan; ++position_) {
            try_planned(entry.job);
            more = ranking_.next(entry);
        }
        for (; more && !blocked_ && !nothing_left(); ++position_) {
            visit(entry);
            more = ranking_.next(entry);
        }
        if (sums_.allowed_protected_gpus < sums_.available_gpus) {
            result_.headroom_left_gpus =
                std::max<std::int64_t>(sums_.allowed_protected_gpus - protected_gpus_, 0);
        }
        for (std::uint32_t index = 0; index < result_.verdicts.size(); ++index) {
            if (view_.pending[index].goes_with != 0) {
                copy_verdict_of_first(index);
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

    void copy_verdict_of_first(std::uint32_t index) {
        for (std::uint32_t other = 0; other < view_.pending.size(); ++other) {
            if (view_.pending[other].id == view_.pending[index].goes_with) {
                result_.verdicts[index] = result_.verdicts[other];
            }
        }
    }

    void visit(const RankedEntry& entry) {
        const PendingJob& job = view_.pending[entry.job];
        if (job.goes_with != 0) {
            return;  // with the first component, or not at all
        }
        JobVerdict& verdict = verdict_of(entry.job);
        if (classes_ != nullptr) {
            verdict = JobVerdict();  // one for all
        }
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
        if (rules_.large_jobs && job.waits_for == 0 && job.companions.empty()) {
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
                                   is_over_headroom(job.whole_gpus());
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
            verdict.next_change_at = sums_.next_contract_end_at;
            return false;
        }
        const std::int64_t contract_end = contract_end_of(job, allocated && !as_free);
        const bool starts_free =
            as_free || (job.free_first && allocated && !express && settings_.has(Rule::free_first));
        if (auto where = free_place(job, starts_free ? 0 : contract_end)) {
            start(entry.job, job, std::move(*where), starts_free, express,
                  allocated && !starts_free);
            verdict.reason = WaitReason::starting;
            return true;
        }
        if (as_free) {
            verdict.reason = WaitReason::headroom;
            verdict.next_change_at = sums_.next_contract_end_at;
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
    std::unordered_map<JobShape, bool, passing::ShapeHash> known;
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
