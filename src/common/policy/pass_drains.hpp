// SPDX-License-Identifier: GPL-2.0-or-later
// Who leaves a node in contract drain, and where a gang moves (DESIGN 2.8).
#pragma once

#include "common/policy/pass_large.hpp"

namespace tranche::passing {

class PassDrains : public PassLarge {
  protected:
    using PassLarge::PassLarge;

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
};

}  // namespace tranche::passing
