// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/outlook.hpp"

#include <algorithm>

#include "common/policy/classes.hpp"
#include "common/policy/explain.hpp"
#include "common/policy/preemption.hpp"

namespace tranche {
namespace {

constexpr int kMostRounds = 4;              // passes at one instant: a decision may allow another
constexpr std::int64_t kShortestStep = 15;  // seconds between two instants that are looked at
constexpr std::int64_t kStepsPerDistance = 60;  // the further away, the coarser
constexpr std::uint32_t kMostTasks = 200;       // of one array

// A requeued job is played on, but is nobody's estimate.
constexpr std::uint32_t kOfNobody = kNoId;

class Forecast {
  public:
    Forecast(const ClusterView& view, const std::vector<RankedEntry>& ranking,
             const Standings& standings, const Settings& settings, const PassRules& rules,
             const OutlookOptions& options)
        : settings_(settings),
          rules_(rules),
          options_(options),
          begin_at_(view.now),
          standings_(standings),
          starts_(view.pending.size(), kNever) {
        take_over(view, ranking);
    }

    std::vector<std::int64_t> run() {
        for (std::size_t passes = 0; passes < options_.most_passes && waiting_ > 0;) {
            std::int64_t wake_at = kNever;
            for (int round = 0; round < kMostRounds && passes < options_.most_passes; ++round) {
                ++passes;
                const bool decided = pass(wake_at);
                if (!decided) {
                    break;
                }
            }
            const std::int64_t next = next_instant(wake_at);
            if (next == kNever || next - begin_at_ > options_.horizon_seconds) {
                break;
            }
            advance(next);
        }
        return std::move(starts_);
    }

  private:
    // A run with what becomes of it when it leaves.
    struct Fate {
        std::int64_t ends_at = kNever;
        PendingJob job;  // as which it would wait again
        bool comes_back = false;
    };

    void take_over(const ClusterView& view, const std::vector<RankedEntry>& ranking) {
        view_.now = view.now;
        view_.nodes = view.nodes;
        view_.node_sets = view.node_sets;
        view_.plans = view.plans;
        view_.assemblies = view.assemblies;
        view_.grants = view.grants;
        view_.express_uses = view.express_uses;
        view_.evictions_last_hour = view.evictions_last_hour;
        for (Node& node : view_.nodes) {
            node.settling = false;  // a moment
        }
        for (const Run& run : view.runs) {
            add_run(run, fate_of(run));
            Run& copy = view_.runs.back();
            if (copy.state == RunState::configuring) {  // a moment, too
                copy.state = RunState::running;
                copy.protected_until =
                    copy.kind == RunKind::allocated ? view.now + copy.contract_seconds : 0;
            }
        }
        std::vector<bool> taken(view.pending.size(), false);
        for (const RankedEntry& entry : ranking) {
            if (of_.size() >= options_.most_jobs) {
                break;
            }
            const PendingJob& job = view.pending[entry.job];
            if (taken[entry.job] || !entry.counts || job.block != StartBlock::none) {
                continue;
            }
            taken[entry.job] = true;
            view_.pending.push_back(job);
            view_.pending.back().tasks = std::min(job.tasks, kMostTasks);
            of_.push_back(job.turn_run >= 0 ? kOfNobody : entry.job);
            waiting_ += job.turn_run >= 0 ? 0 : 1;
        }
    }

    Fate fate_of(const Run& run) const {
        Fate fate;
        if (run.time_limit_seconds != kNever && run.state != RunState::suspended) {
            fate.ends_at = std::max(run.started_at + run.time_limit_seconds, view_.now + 1);
        }
        fate.comes_back = run.resumable && !run.interactive;
        PendingJob& job = fate.job;
        job.id = run.id;
        job.budget = run.budget;
        job.member = run.member;
        if (run.shape) {
            job.shape = *run.shape;
        } else {
            job.shape.nodes =
                static_cast<std::uint32_t>(std::max<std::size_t>(run.where.size(), 1));
            job.shape.gpus = run.gpus;
            if (!run.where.empty()) {
                job.shape.cpus_per_node = run.where.front().cpus;
                job.shape.memory_mib_per_node = run.where.front().memory_mib;
            }
        }
        job.weight_milli = run.weight_milli;
        job.min_runtime_seconds = run.kind == RunKind::allocated ? run.contract_seconds : 0;
        job.time_limit_seconds = run.time_limit_seconds;
        job.first_submit_at = run.first_submit_at;
        job.runs_before = 1;
        job.team_priority = run.team_priority;
        job.resumable = run.resumable;
        job.interactive = run.interactive;
        job.governed = run.kind != RunKind::outside;
        if (run.state == RunState::leaving || run.state == RunState::completing) {
            fate.ends_at = view_.now + (run.leaving_for != 0 ? grace_seconds(run, settings_) : 1);
            job.waits_for = run.leaving_for;
        }
        return fate;
    }

    void add_run(Run run, Fate fate) {
        runs_.push_back(std::move(fate));
        view_.runs.push_back(std::move(run));
    }

    bool pass(std::int64_t& wake_at) {
        for (SideStanding& side : standings_.sides) {
            side.commitment = 0;
        }
        for (MemberStanding& member : standings_.members) {
            member.commitment = 0;
        }
        add_commitments(standings_, view_, settings_);
        const std::vector<RankedEntry> ranking = rank_queue(view_, standings_, settings_);
        const PassResult result = run_pass(view_, ranking, standings_, settings_, rules_);
        wake_at = result.wake_at;
        gone_.assign(view_.pending.size(), false);
        bool again = false;
        for (const DrainDecision& decision : result.drains) {
            leave(decision.run, 0);
        }
        for (const std::uint32_t run : result.turns) {
            turn(run);
        }
        for (const StartDecision& decision : result.starts) {
            start(decision);
        }
        for (const PlanDecision& decision : result.plans) {
            plan(decision);
        }
        for (const std::uint32_t job : result.turns_come) {
            view_.pending[job].turn_at = view_.now;
            again = true;
        }
        for (const AssemblyDecision& decision : result.assemblies) {
            assemble(decision);
            again = true;
        }
        for (const JobId claimant : result.dropped_assemblies) {
            drop_assembly(claimant);
        }
        remove_gone();
        return again;
    }

    void note(std::uint32_t job, std::int64_t at) {
        const std::uint32_t of = of_[job];
        if (of != kOfNobody && starts_[of] == kNever) {
            starts_[of] = at;
            --waiting_;
        }
    }

    void start(const StartDecision& decision) {
        PendingJob& job = view_.pending[decision.job];
        note(decision.job, view_.now);
        const bool allocated = is_allocated(job, standings_) && !decision.as_free &&
                               !(job.free_first && !decision.express);
        Run run;
        run.id = job.id;
        run.budget = job.budget;
        run.member = job.member;
        run.kind = !job.governed ? RunKind::outside
                   : allocated   ? RunKind::allocated
                                 : RunKind::unallocated;
        run.where = decision.where;
        run.gpus = job.shape.gpus;
        run.weight_milli = job.weight_milli;
        run.started_at = view_.now;
        run.contract_seconds = allocated ? job.contract_seconds() : 0;
        run.protected_until = allocated ? view_.now + run.contract_seconds : 0;
        run.time_limit_seconds = job.time_limit_seconds;
        run.team_priority = job.team_priority;
        run.resumable = job.resumable;
        run.interactive = job.interactive;
        run.express = decision.express && allocated;
        run.free_first = job.free_first;
        run.first_submit_at = job.first_submit_at;
        run.shape = job.shape;
        for (const NodeShare& share : run.where) {
            Node& node = view_.nodes[share.node];
            node.free_gpus -= share.gpus;
            node.free_cpus -= share.cpus;
            node.free_memory_mib -= share.memory_mib;
        }
        if (run.express) {
            view_.express_uses.push_back(
                {standings_.members[run.member].user, run.gpus, view_.now, 0, run.protected_until});
        }
        Fate fate = fate_of(run);
        fate.job.min_runtime_seconds = job.min_runtime_seconds;
        add_run(std::move(run), std::move(fate));
        std::erase_if(view_.plans, [&](const Plan& p) { return p.claimant == job.id; });
        drop_assembly(job.id);
        for (std::uint32_t i = 0; i < view_.pending.size(); ++i) {
            if (view_.pending[i].waits_for == job.id) {
                view_.pending[i].waits_for = 0;
            }
        }
        if (job.tasks > 1) {
            --job.tasks;
        } else {
            gone_[decision.job] = true;
        }
    }

    void turn(std::uint32_t index) {
        Run& run = view_.runs[index];
        const auto job =
            std::find_if(view_.pending.begin(), view_.pending.end(), [&](const PendingJob& each) {
                return each.turn_run == static_cast<std::int64_t>(index);
            });
        if (job == view_.pending.end()) {
            return;
        }
        run.kind = RunKind::allocated;
        run.wants_turn = false;
        run.contract_seconds = job->contract_seconds();
        run.protected_until = view_.now + run.contract_seconds;
        gone_[static_cast<std::size_t>(job - view_.pending.begin())] = true;
    }

    void leave(std::uint32_t index, JobId claimant) {
        Run& run = view_.runs[index];
        if (run.state == RunState::leaving) {
            return;
        }
        run.state = RunState::leaving;
        run.leaving_for = claimant;
        Fate& fate = runs_[index];
        fate.ends_at = std::min(fate.ends_at, view_.now + grace_seconds(run, settings_));
        fate.job.waits_for = claimant;
    }

    void plan(const PlanDecision& decision) {
        if (decision.plan.where.empty()) {
            return;
        }
        std::int64_t ready_at = view_.now;
        for (const VictimDecision& victim : decision.victims) {
            leave(victim.run, decision.plan.claimant);
            ready_at = std::max(ready_at, runs_[victim.run].ends_at);
        }
        note(decision.job, ready_at);
        view_.plans.push_back(decision.plan);
    }

    void assemble(const AssemblyDecision& decision) {
        drop_assembly(decision.assembly.claimant);
        view_.assemblies.push_back(decision.assembly);
        if (decision.granted) {
            const PendingJob& job = view_.pending[decision.job];
            view_.grants.push_back(
                {job.budget, view_.now, job.weight_milli, job.contract_seconds()});
        }
    }

    void drop_assembly(JobId claimant) {
        std::erase_if(view_.assemblies,
                      [claimant](const Assembly& each) { return each.claimant == claimant; });
    }

    void remove_gone() {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < view_.pending.size(); ++i) {
            if (!gone_[i]) {
                if (kept != i) {
                    view_.pending[kept] = std::move(view_.pending[i]);
                    of_[kept] = of_[i];
                }
                ++kept;
            }
        }
        view_.pending.resize(kept);
        of_.resize(kept);
    }

    std::int64_t next_instant(std::int64_t wake_at) const {
        std::int64_t next = wake_at;
        for (const Fate& fate : runs_) {
            next = std::min(next, fate.ends_at);
        }
        for (const Assembly& assembly : view_.assemblies) {
            if (assembly.date_at > view_.now) {
                next = std::min(next, assembly.date_at);
            }
        }
        if (next == kNever) {
            return kNever;
        }
        const std::int64_t step =
            std::max(kShortestStep, (view_.now - begin_at_) / kStepsPerDistance);
        return std::max(next, view_.now + step);
    }

    void advance(std::int64_t to) {
        use_until(to);
        view_.now = to;
        for (std::size_t r = view_.runs.size(); r-- > 0;) {
            if (runs_[r].ends_at <= to) {
                end_run(r);
            }
        }
    }

    // What runs use until then, and what the use of before fades by: to first order.
    void use_until(std::int64_t to) {
        const std::int64_t seconds = to - view_.now;
        const bool linear = standings_.window.shape == WindowShape::linear;
        const auto length = static_cast<UInt128>(standings_.window.length_seconds);
        const auto age = [&](Usage& usage) {
            for (std::size_t kind = 0; linear && kind < kRunKinds; ++kind) {
                const UInt128 fades = static_cast<UInt128>(std::max<Int128>(usage.plain[kind], 0)) *
                                      static_cast<UInt128>(2 * seconds);
                usage.faded[kind] -= std::min(usage.faded[kind], fades);
            }
        };
        for (SideStanding& side : standings_.sides) {
            age(side.usage);
        }
        for (MemberStanding& member : standings_.members) {
            age(member.usage);
        }
        for (const Run& run : view_.runs) {
            if (run.state == RunState::suspended || run.weight_milli <= 0) {
                continue;
            }
            const Int128 plain = Int128{run.weight_milli} * seconds;
            const UInt128 faded = static_cast<UInt128>(plain) * length * (linear ? 2U : 1U);
            const auto use = [&](Usage& usage) {
                usage.plain[static_cast<std::size_t>(run.kind)] += plain;
                usage.faded[static_cast<std::size_t>(run.kind)] += faded;
            };
            for (const SideId side : standings_.budgets[run.budget].path) {
                use(standings_.sides[side].usage);
            }
            use(standings_.members[run.member].usage);
        }
    }

    void end_run(std::size_t index) {
        const Run run = std::move(view_.runs[index]);
        Fate fate = std::move(runs_[index]);
        for (const NodeShare& share : run.where) {
            Node& node = view_.nodes[share.node];
            node.free_gpus += share.gpus;
            node.free_cpus += share.cpus;
            node.free_memory_mib += share.memory_mib;
        }
        const std::size_t last = view_.runs.size() - 1;
        for (std::size_t i = 0; i < view_.pending.size();) {
            PendingJob& job = view_.pending[i];
            if (job.turn_run == static_cast<std::int64_t>(index)) {
                view_.pending.erase(view_.pending.begin() + static_cast<std::ptrdiff_t>(i));
                of_.erase(of_.begin() + static_cast<std::ptrdiff_t>(i));
                continue;
            }
            if (job.turn_run == static_cast<std::int64_t>(last)) {
                job.turn_run = static_cast<std::int64_t>(index);
            }
            ++i;
        }
        if (index != last) {
            view_.runs[index] = std::move(view_.runs[last]);
            runs_[index] = std::move(runs_[last]);
        }
        view_.runs.pop_back();
        runs_.pop_back();
        if (run.state == RunState::leaving && fate.comes_back) {
            const bool waits =
                std::any_of(view_.plans.begin(), view_.plans.end(),
                            [&](const Plan& plan) { return plan.claimant == fate.job.waits_for; });
            fate.job.waits_for = waits ? fate.job.waits_for : 0;
            view_.pending.push_back(std::move(fate.job));
            of_.push_back(kOfNobody);
        }
    }

    const Settings& settings_;
    const PassRules rules_;
    const OutlookOptions options_;
    const std::int64_t begin_at_;
    Standings standings_;
    std::vector<std::int64_t> starts_;
    ClusterView view_;
    std::vector<Fate> runs_;         // by run of the view
    std::vector<std::uint32_t> of_;  // by pending job of the view: whose estimate it is
    std::vector<bool> gone_;         // pending ones that started in this pass
    std::size_t waiting_ = 0;
};

}  // namespace

std::vector<std::int64_t> expected_starts(const ClusterView& view,
                                          const std::vector<RankedEntry>& ranking,
                                          const Standings& standings, const Settings& settings,
                                          const PassRules& rules, const OutlookOptions& options) {
    std::vector<std::int64_t> starts =
        Forecast(view, ranking, standings, settings, rules, options).run();
    for (const Assembly& assembly : view.assemblies) {
        for (std::size_t i = 0; i < view.pending.size(); ++i) {
            if (view.pending[i].id == assembly.claimant && view.pending[i].turn_run < 0 &&
                (starts[i] == kNever || starts[i] < assembly.date_at)) {
                starts[i] = std::max(assembly.date_at, view.now);
            }
        }
    }
    return starts;
}

std::optional<NearestClaim> nearest_claim(const ClusterView& view, const Standings& standings,
                                          const Settings& settings, const PendingJob& job,
                                          std::int64_t available_milli) {
    std::optional<NearestClaim> nearest;
    std::vector<bool> seen(standings.budgets.size(), false);  // one run a budget: ratios are theirs
    const Claimant claimant{&job, job.team_priority, false, false};
    for (const Run& run : view.runs) {
        if (seen[run.budget] || run.kind != RunKind::allocated || run.protected_until > view.now) {
            continue;
        }
        const TakeVerdict verdict = may_take(claimant, {&run, run.team_priority}, standings,
                                             settings, view.now, available_milli);
        if (verdict.reason != TakeReason::ratio_too_large || verdict.sides.a == kNoId) {
            continue;
        }
        seen[run.budget] = true;
        const SideNumbers ours =
            side_numbers(standings, verdict.sides.a, verdict.claimant_charge, available_milli);
        const SideNumbers theirs =
            side_numbers(standings, verdict.sides.b, verdict.victim_charge, available_milli);
        if (!ours.ratio_milli() || !theirs.ratio_milli()) {
            continue;
        }
        const NearestClaim claim{
            ours.name, *ours.ratio_milli(),
            *theirs.ratio_milli() * (kPpm - settings.preempt_margin_ppm) / kPpm};
        if (!nearest || claim.ratio_milli - claim.allowed_milli <
                            nearest->ratio_milli - nearest->allowed_milli) {
            nearest = claim;
        }
    }
    return nearest;
}

}  // namespace tranche
