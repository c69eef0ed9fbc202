// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/preemption.hpp"

#include <algorithm>

#include "common/policy/classes.hpp"

namespace tranche {

std::string_view to_text(TakeReason reason) noexcept {
    switch (reason) {
        case TakeReason::free_run:
            return "free-run";
        case TakeReason::smaller_ratio:
            return "smaller-ratio";
        case TakeReason::smaller_use:
            return "smaller-use";
        case TakeReason::team_priority:
            return "team-priority";
        case TakeReason::express:
            return "express";
        case TakeReason::assembly:
            return "assembly";
        case TakeReason::claimant_is_free:
            return "claimant-is-free";
        case TakeReason::under_contract:
            return "under-contract";
        case TakeReason::not_governed:
            return "not-governed";
        case TakeReason::spared:
            return "preempt-mode-off";
        case TakeReason::not_settled:
            return "not-settled";
        case TakeReason::ratio_too_large:
            return "ratio-too-large";
        case TakeReason::same_budget:
            return "same-budget";
        case TakeReason::express_own_user:
            return "express-own-user";
        case TakeReason::interactive_session:
            return "interactive-session";
        case TakeReason::underfunded_and_final:
            return "underfunded-and-final";
    }
    return "unknown";
}

TakeVerdict may_take(const Claimant& claimant, const Victim& victim, const Standings& standings,
                     const Settings& settings, std::int64_t now, std::int64_t available_milli,
                     bool ignore_contract) noexcept {
    const PendingJob& job = *claimant.job;
    const Run& run = *victim.run;
    TakeVerdict verdict;
    const auto says = [&verdict](bool may, TakeReason reason) {
        verdict.may = may;
        verdict.reason = reason;
        return verdict;
    };
    if (!is_allocated(job, standings) && settings.has(Rule::free_never_takes)) {
        return says(false, TakeReason::claimant_is_free);
    }
    if (run.kind == RunKind::outside) {
        return says(false, TakeReason::not_governed);
    }
    if (run.spared) {
        return says(false, TakeReason::spared);
    }
    if (run.state != RunState::running && run.state != RunState::suspended) {
        return says(false, TakeReason::not_settled);
    }
    ignore_contract = ignore_contract || !settings.has(Rule::contract);
    if (now < run.others_protected_until) {
        verdict.not_before = run.others_protected_until;
        if (!ignore_contract) {
            return says(false, TakeReason::under_contract);
        }
    }
    if (run.kind == RunKind::unallocated) {
        return says(settings.has(Rule::free_yields), TakeReason::free_run);
    }
    if (now < run.protected_until) {
        verdict.not_before = std::max(run.protected_until, run.others_protected_until);
        if (!ignore_contract) {
            return says(false, TakeReason::under_contract);
        }
    }

    if (claimant.assembly) {
        return says(true, TakeReason::assembly);
    }
    if (claimant.express) {
        if (run.express && settings.has(Rule::express_own_spared) &&
            standings.members[run.member].user == standings.members[job.member].user) {
            return says(false, TakeReason::express_own_user);
        }
        if (run.interactive) {
            return says(!settings.has(Rule::express_sessions_spared),
                        TakeReason::interactive_session);
        }
        if (!run.resumable && settings.has(Rule::express_final_spared) &&
            !standings.budgets[run.budget].path.empty() &&
            shown_ratio_milli(standings, standings.budgets[run.budget].path.back(),
                              available_milli) < 1000) {
            return says(false, TakeReason::underfunded_and_final);
        }
        return says(true, TakeReason::express);
    }
    if (!settings.has(Rule::team_priority_at_home) && claimant.priority > victim.priority) {
        return says(true, TakeReason::team_priority);
    }

    const UInt128 own = settings.commitments && settings.has(Rule::own_commitment)
                            ? standings.window.at_weight_one(job.contract_seconds()) *
                                  static_cast<UInt128>(job.whole_weight_milli())
                            : 0;
    const auto margin = static_cast<std::uint64_t>(kPpm - settings.preempt_margin_ppm);
    verdict.sides = parting_sides(standings, job.budget, run.budget);
    if (verdict.sides.a != kNoId) {
        const SideStanding& ours = standings.side(verdict.sides.a);
        const SideStanding& theirs = standings.side(verdict.sides.b);
        verdict.claimant_charge = ours.charge() + own;
        verdict.claimant_entitlement = ours.entitlement;
        verdict.victim_charge = theirs.charge();
        verdict.victim_entitlement = theirs.entitlement;
        const bool smaller =
            ours.entitlement != 0 &&
            (theirs.entitlement == 0 ||
             compare_scaled_products(kPpm, verdict.claimant_charge, theirs.entitlement, margin,
                                     verdict.victim_charge, ours.entitlement) < 0);
        return says(smaller, smaller ? TakeReason::smaller_ratio : TakeReason::ratio_too_large);
    }

    // One budget: a team's order only sorts, unless the site says otherwise.
    const PreemptWithinBudget within = settings.preempt_within_budget;
    if (within == PreemptWithinBudget::priority || within == PreemptWithinBudget::both) {
        if (claimant.priority > victim.priority) {
            return says(true, TakeReason::team_priority);
        }
    }
    if ((within == PreemptWithinBudget::users || within == PreemptWithinBudget::both) &&
        claimant.priority == victim.priority && !standings.budgets[job.budget].pooled &&
        job.member != run.member) {
        verdict.claimant_charge = standings.member(job.member).charge() + own;
        verdict.victim_charge = standings.member(run.member).charge();
        const bool smaller = compare_scaled_products(kPpm, verdict.claimant_charge, 1, margin,
                                                     verdict.victim_charge, 1) < 0;
        return says(smaller, smaller ? TakeReason::smaller_use : TakeReason::ratio_too_large);
    }
    return says(false, TakeReason::same_budget);
}

bool has_right(const Claimant& claimant, const Victim& victim, bool victim_is_gang,
               const Standings& standings) noexcept {
    const PendingJob& job = *claimant.job;
    const Run& run = *victim.run;
    if (run.spared) {
        return false;
    }
    if (run.kind != RunKind::allocated) {
        return run.kind == RunKind::unallocated;
    }
    const PartingSides sides = parting_sides(standings, job.budget, run.budget);
    if (sides.a != kNoId) {
        const SideStanding& ours = standings.side(sides.a);
        const SideStanding& theirs = standings.side(sides.b);
        return compare_ratio(ours.charge(), ours.entitlement, theirs.charge(), theirs.entitlement) <
               0;
    }
    return claimant.priority > victim.priority ||
           (claimant.priority == victim.priority && !victim_is_gang);
}

}  // namespace tranche
