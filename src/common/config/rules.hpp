// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of the policy that no setting switches off, so that the simulator can leave one out and
// show what it is for. Nothing else ever does: Settings::rules_off is no key of tranche.conf. Their
// names and texts are in sim/rule_switches.hpp, with those of the rules that a setting switches.
#pragma once

#include <cstdint>

namespace tranche {

enum class Rule : std::uint8_t {
    // The tree and the ledger (DESIGN 2.1, 2.3).
    levels,                 // siblings compete level by level
    own_side,               // an inner budget's own jobs are one more child
    shares_for_promise,     // without shares nothing is allocated
    backdate,               // a new budget counts as having had its shares for MaxMinRuntime
    charged_to_end,         // a run is charged beyond its contract too
    suspended_not_charged,  // suspended time is not charged
    plan_commitment,        // a claimant whose plan stands counts its commitment
    // Allocated and free (2.2).
    costs_something,     // what costs nothing is free work
    free_costs_nothing,  // free work is charged to nobody
    free_yields,         // any allocated claimant may take a free run
    free_never_takes,    // free work never preempts
    free_ranks_below,    // free work ranks below all other
    free_use_order,      // and by free use
    free_first,          // --free-first starts free
    turn_in_place,       // and turns allocated before a job behind it takes its GPUs
    decided_at_start,    // a run that began allocated stays it
    // Rank (2.4).
    progressive,            // a placed job counts before the next is chosen
    ties,                   // larger shares, then the older job, then the name
    team_priority,          // team priority orders inside a budget
    team_priority_at_home,  // and has no effect outside of it
    nice,                   // then nice
    place_kept,             // a requeued job keeps its first submission
    impossible_not_counted,
    backfill,  // who waits does not keep others from room it cannot use
    // Contract and preemption (2.5).
    contract,             // nobody is preempted before its contract is over
    contract_after_boot,  // its clock starts when the run could work
    contract_pauses,      // and stands still while the run is suspended
    own_commitment,       // a claim is judged with the claimant's own commitment
    feasible,             // no eviction without a placement that it makes possible
    room_coming,          // no second victim for room that comes
    plan_keeps_room,      // freed room belongs to the claimant
    plan_dropped,         // until it leaves
    plan_survives,        // across restarts of the controller
    claimant_first,       // a victim starts again after its claimant
    wake,                 // a contract's end is an occasion to look again
    // The order of victims.
    fewest_allocated,
    fewest_gpus,
    most_over_funding,
    lower_priority_first,
    least_to_lose,
    // The express lane and the headroom (2.6).
    express_small,            // only small and short jobs are express
    express_charged,          // express jobs are charged as any other
    express_caps_from_plan,   // what waits in the lane counts in no cap of others
    express_first_run,        // express is a job's first run only
    express_own_spared,       // not an express run of its own user
    express_sessions_spared,  // not an allocated session
    express_final_spared,     // not what cannot resume and is below its funding
    express_resumable_first,  // rather what can resume
    headroom_starts_free,     // who only the headroom stops starts free
    headroom_for_large,       // does not stop what is larger than the allowed part
    headroom_for_express,     // nor express jobs
    // Large jobs (2.7).
    entrance,           // until a large job's date others start there only if they are over by then
    free_enters,        // free work always may
    whole_node,         // a node is closed as a whole
    assembly_turn,      // an assembly is granted to whose turn has come
    assembly_payment,   // the next one when the last is paid for
    assembly_right,     // judged once, at the grant
    assembly_equals,    // not over equal gangs of one budget
    assembly_replaces,  // a node that fails is replaced
    assembly_closed,    // past its date nobody enters
    // Unhealthy nodes (2.8).
    drain,  // they empty as the contracts on them end
    count_
};
static_assert(static_cast<unsigned>(Rule::count_) <= 64);

}  // namespace tranche
