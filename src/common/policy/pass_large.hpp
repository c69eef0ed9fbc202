// SPDX-License-Identifier: GPL-2.0-or-later
// Reservations and the assembly in a pass (DESIGN 2.7).
#pragma once

#include "common/policy/pass_claims.hpp"

namespace tranche::passing {

class PassLarge : public PassClaims {
  protected:
    using PassClaims::PassClaims;

    bool is_done(std::uint32_t job) const {
        return std::find(done_.begin(), done_.end(), job) != done_.end();
    }

    // `behind`: for the jobs behind the one that is being tried; else for everybody.
    void keep_until(JobId claimant, const std::vector<NodeIndex>& nodes, std::int64_t date_at,
                    bool behind) {
        if (!settings_.has(Rule::entrance)) {
            return;
        }
        note_keeping({claimant, nodes, date_at, false,
                      behind ? std::optional<std::uint32_t>(position_) : std::nullopt});
        for (const NodeIndex n : nodes) {
            room_[n].until = std::min(room_[n].until, date_at);
            future_[n].until = std::min(future_[n].until, date_at);
        }
        classes_dirty_ = true;
    }

    void note_keeping(NodeKeeping keeping) {
        if (classes_ == nullptr) {
            result_.keepings.push_back(std::move(keeping));
        }
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
                note_keeping({standing.claimant, standing.nodes, view_.now, true, {}});
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
        // One that is held or put off meanwhile keeps nothing from others.
        if (job.block != StartBlock::none || !replace_unusable(assembly, job)) {
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
            note_keeping({job.id, assembly.nodes, assembly.date_at, true, {}});
            return;
        }
        if (view_.now < assembly.date_at) {
            keep_until(job.id, assembly.nodes, assembly.date_at, false);
            wake_at(assembly.date_at);
            assembling_.push_back({index, assembly.date_at});
            return;
        }
        if (settings_.has(Rule::assembly_closed)) {
            // Past the date nobody enters.
            for (const NodeIndex n : assembly.nodes) {
                room_[n].open = false;
                future_[n].plannable = false;
            }
            note_keeping({job.id, assembly.nodes, assembly.date_at, true, {}});
        }
        if (!job.plannable) {
            assembling_.push_back({index, assembly.date_at});
            return;
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
            assembling_.push_back({index, assembly.date_at});
        }
    }

    // A copy in which only those nodes are open to it.
    std::vector<RoomNode> only(const std::vector<RoomNode>& room,
                               const std::vector<NodeIndex>& nodes) const {
        std::vector<RoomNode> copy = room;
        for (RoomNode& node : copy) {
            node.open = node.plannable = false;
        }
        for (const NodeIndex n : nodes) {
            // Not where another plan stands, if a node can be kept for one claimant only.
            copy[n].open = !rules_.one_plan_per_node || sums_.room[n].open;
            copy[n].plannable = !rules_.one_plan_per_node || sums_.future[n].plannable;
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
        // Also where the host's configuration has lost some.
        if (left.size() >= job.shape.nodes) {
            return true;
        }
        if (!settings_.has(Rule::assembly_replaces)) {
            return false;
        }
        JobShape missing = job.shape;
        missing.nodes = static_cast<std::uint32_t>(job.shape.nodes - left.size());
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
        for (const auto& [index, date_at] : assembling_) {
            if (index == entry.job) {
                verdict.reason = WaitReason::assembling;
                verdict.next_change_at = date_at;
                return;
            }
        }
        if (settings_.max_assemblies > 0 && job.plannable && is_gang(entry.job)) {
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
        if (granted_ || standing_assemblies_ >= settings_.max_assemblies) {
            return false;  // the next pass knows of the grant that this one made
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
        granted_ = true;
        close(found.nodes);
        keep_until(job.id, found.nodes, found.date_at, false);
        protected_gpus_ += job.shape.gpus;
        wake_at(found.date_at);
        verdict.reason = WaitReason::assembling;
        verdict.next_change_at = found.date_at;
        assembling_.push_back({entry.job, found.date_at});
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
        std::vector<NodeIndex> whole;
        std::vector<NodeShare> parts;
        for (std::uint32_t k = 0; k < found.nodes.size(); ++k) {
            const NodeIndex n = found.nodes[k];
            const std::int64_t gpus = job.shape.gpus_on(k);
            if (settings_.has(Rule::whole_node) || gpus >= view_.nodes[n].gpus) {
                whole.push_back(n);
            } else {
                parts.push_back({n, gpus, 0, 0});
            }
        }
        take(room_, parts);
        take(future_, parts);
        keep_until(job.id, whole, std::max(found.date_at, view_.now), true);
    }
};

}  // namespace tranche::passing
