// SPDX-License-Identifier: GPL-2.0-or-later
// May this claimant take from this victim, and why (DESIGN 2.5, 2.6).
#pragma once

#include <cstdint>
#include <string_view>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"

namespace tranche {

enum class TakeReason : std::uint8_t {
    // It may:
    free_run,       // the victim is free
    smaller_ratio,  // another budget, and the claimant's side stays below the margin
    smaller_use,    // another user of the same budget
    team_priority,  // lower team priority in the same budget
    express,        // the express lane
    assembly,       // the right that was granted with an assembly
    // It may not:
    claimant_is_free,
    under_contract,         // until `not_before`
    not_governed,           // a run outside Partitions=
    spared,                 // on a partition with PreemptMode=OFF
    not_settled,            // configuring, completing or leaving for somebody else
    ratio_too_large,        // today's numbers are against it
    same_budget,            // PreemptWithinBudget does not allow it
    express_own_user,       // an express run of the claimant's own user
    interactive_session,    // not for a debug job
    underfunded_and_final,  // cannot resume and its budget is below its funding
};

std::string_view to_text(TakeReason reason) noexcept;  // "free-run", "under-contract", …

// The pending job that wants room.
struct Claimant {
    const PendingJob* job = nullptr;
    TeamPriority priority = TeamPriority::normal;  // the effective one
    bool express = false;
    bool assembly = false;  // at the date of its assembly, on the assembly's nodes
};

// The running job that may lose it.
struct Victim {
    const Run* run = nullptr;
    TeamPriority priority = TeamPriority::normal;
};

struct TakeVerdict {
    bool may = false;
    TakeReason reason = TakeReason::claimant_is_free;
    std::int64_t not_before = 0;  // when the contract is over; 0: no contract in the way
    // Where the two part and both sides' numbers, the claimant's own commitment included;
    // kNoId when they are of one budget. For users of one budget: their charges.
    PartingSides sides;
    UInt128 claimant_charge = 0, claimant_entitlement = 0;
    UInt128 victim_charge = 0, victim_entitlement = 0;
};

// By the numbers of `standings`, at `now`. With `ignore_contract` as if the victim's contract were
// over (what a later instant will allow by today's ratios). No allocation.
TakeVerdict may_take(const Claimant& claimant, const Victim& victim, const Standings& standings,
                     const Settings& settings, std::int64_t now, std::int64_t available_milli,
                     bool ignore_contract = false) noexcept;

// The right of an assembly, judged once, at its grant (DESIGN 2.7): without margin and without the
// claimant's own commitment. `victim_is_gang`: it could ask for an assembly itself. Of a run under
// contract: whether it may be taken when that is over.
bool has_right(const Claimant& claimant, const Victim& victim, bool victim_is_gang,
               const Standings& standings) noexcept;

}  // namespace tranche
