// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/rule_switches.hpp"

#include <algorithm>
#include <stdexcept>

namespace tranche::sim {
namespace {

constexpr RuleSwitch by_setting(std::string_view name, std::string_view text,
                                std::string_view settings) {
    return {name, text, settings, std::nullopt};
}
constexpr RuleSwitch by_bit(std::string_view name, std::string_view text, Rule rule) {
    return {name, text, {}, rule};
}

constexpr RuleSwitch kSwitches[] = {
    // The tree.
    by_bit("levels", "siblings compete level by level", Rule::levels),
    by_bit("own-side", "an inner budget's own jobs compete as one more child", Rule::own_side),
    by_bit("shares-for-promise", "a budget without shares promises nothing",
           Rule::shares_for_promise),
    // Allocated and free.
    by_setting("default-minimum", "jobs that declare nothing get DefaultMinRuntime",
               "DefaultMinRuntime=0"),
    by_setting("interactive-minimum", "sessions that declare nothing have a minimum of their own",
               "DefaultMinRuntimeInteractive=0"),
    by_bit("costs-something", "what costs nothing is free work", Rule::costs_something),
    by_bit("free-costs-nothing", "free work is charged to nobody", Rule::free_costs_nothing),
    by_bit("free-yields", "any allocated claimant may take a free run", Rule::free_yields),
    by_bit("free-never-takes", "free work preempts nobody", Rule::free_never_takes),
    by_bit("free-first", "a job may start free and keep its place", Rule::free_first),
    by_bit("turn-in-place", "and turns allocated before a job behind it takes its GPUs",
           Rule::turn_in_place),
    by_bit("decided-at-start", "a run that began allocated stays allocated",
           Rule::decided_at_start),
    // Charges and entitlements.
    by_setting("remembered", "use is remembered for a whole window", "LookbackWindow=6:00:00"),
    by_setting("window", "and no longer", "LookbackWindow=366-00:00:00"),
    by_bit("charged-to-end", "a run is charged beyond its contract too", Rule::charged_to_end),
    by_setting("window-shape", "recent use weighs more", "WindowShape=flat"),
    by_setting("charge-weights", "GPU types cost what ChargeWeights says", "ChargeWeights=gpu=1"),
    by_setting("commitments", "what is left of a contract counts at once", "Commitments=no"),
    by_bit("plan-commitment", "a claimant whose plan stands counts its commitment",
           Rule::plan_commitment),
    by_setting("entitlement-history", "edits change the rate, not the past",
               "EntitlementHistory=no"),
    by_bit("backdate", "a new budget counts as having had its shares for MaxMinRuntime",
           Rule::backdate),
    by_setting("refund", "a run that its node failed is refunded", "RefundNodeFailure=no"),
    by_setting("refund-cap", "of the time past its contract at most RefundMax",
               "RefundMax=366-00:00:00"),
    by_bit("suspended-not-charged", "suspended time is not charged", Rule::suspended_not_charged),
    // Rank.
    by_bit("progressive", "a placed job counts before the next is chosen", Rule::progressive),
    by_bit("ties", "of equals the larger shares, then the older job, then the name", Rule::ties),
    by_bit("team-priority", "team priority orders inside a budget", Rule::team_priority),
    by_bit("team-priority-at-home", "team priority takes nothing from another budget",
           Rule::team_priority_at_home),
    by_setting("users-share", "of a budget's users the one who used less goes first",
               "Sharing=pooled"),
    by_setting("raised-share", "urgent counts up to RaisedShare of one's part", "RaisedShare=0"),
    by_bit("nice", "a user's own jobs are ordered by nice", Rule::nice),
    by_bit("free-ranks-below", "free work ranks below all other", Rule::free_ranks_below),
    by_bit("free-use-order", "and by free use", Rule::free_use_order),
    by_bit("place-kept", "a requeued job keeps its place", Rule::place_kept),
    by_bit("impossible-not-counted", "a job that can never start counts nothing",
           Rule::impossible_not_counted),
    by_bit("backfill", "who waits keeps nobody from room it cannot use", Rule::backfill),
    // Contract and preemption.
    by_bit("contract", "nobody is preempted before its contract is over", Rule::contract),
    by_bit("contract-after-boot", "the contract's clock starts when the run could work",
           Rule::contract_after_boot),
    by_bit("contract-pauses", "and stands still while the run is suspended", Rule::contract_pauses),
    by_setting("longest-minimum", "no contract is longer than MaxMinRuntime",
               "MaxMinRuntime=366-00:00:00"),
    by_setting("preempt-margin", "a claim must be better by PreemptMargin", "PreemptMargin=0"),
    by_bit("own-commitment", "a claim is judged with the claimant's own commitment",
           Rule::own_commitment),
    by_setting("preempt-within-budget", "in one budget users and priorities may take",
               "PreemptWithinBudget=no"),
    by_setting("home-order-only-sorts", "in one budget nobody takes, where the site says so",
               "PreemptWithinBudget=both"),
    by_bit("feasible", "nobody is evicted without a placement that it makes possible",
           Rule::feasible),
    by_bit("room-coming", "no second victim where room comes already", Rule::room_coming),
    by_bit("plan-keeps-room", "freed room belongs to the claimant", Rule::plan_keeps_room),
    by_bit("plan-dropped", "until the claimant leaves", Rule::plan_dropped),
    by_bit("plan-survives", "across restarts of the controller", Rule::plan_survives),
    by_bit("claimant-first", "a victim starts again after its claimant", Rule::claimant_first),
    by_bit("wake", "a contract's end is an occasion to look again", Rule::wake),
    by_setting("grace-by-class", "free runs, batch jobs and sessions are given different grace",
               "GraceTime=60 GraceTimeFree=60 GraceTimeInteractive=60"),
    by_setting("preemption-limit", "at most MaxPreemptionsPerHour", "MaxPreemptionsPerHour=0"),
    by_bit("fewest-allocated", "victims: fewest allocated GPUs", Rule::fewest_allocated),
    by_bit("fewest-gpus", "then fewest GPUs", Rule::fewest_gpus),
    by_bit("most-over-funding", "then budgets most over their funding", Rule::most_over_funding),
    by_bit("lower-priority-first", "then lower team priority in the own budget",
           Rule::lower_priority_first),
    by_bit("least-to-lose", "then who has least to lose", Rule::least_to_lose),
    // The express lane and the headroom.
    by_setting("express", "debug jobs go first and take any run whose contract is over",
               "ExpressFraction=0"),
    by_bit("express-small", "only small and short jobs are express", Rule::express_small),
    by_setting("express-user-cap", "one user's express GPUs have a cap",
               "ExpressGPUsPerUser=1000000"),
    by_setting("express-lane-cap", "the lane's GPUs have a cap", "ExpressFraction=1"),
    by_setting("express-day-cap", "one user's express GPU hours of a day have a cap",
               "ExpressHoursPerUser=1000000000"),
    by_bit("express-charged", "express jobs are charged as any other", Rule::express_charged),
    by_bit("express-caps-from-plan", "what waits in the lane counts in no cap of others",
           Rule::express_caps_from_plan),
    by_bit("express-first-run", "a job is express in its first run only", Rule::express_first_run),
    by_bit("express-own-spared", "no express job takes one of its own user",
           Rule::express_own_spared),
    by_bit("express-sessions-spared", "no express job takes an allocated session",
           Rule::express_sessions_spared),
    by_bit("express-final-spared",
           "nor a run that cannot resume and whose budget is below its funding",
           Rule::express_final_spared),
    by_bit("express-resumable-first", "it takes runs that can resume first",
           Rule::express_resumable_first),
    by_setting("express-victim", "its victim's next contract is short",
               "ExpressVictimProtection=full"),
    by_setting("headroom", "a part of the GPUs is never under contract", "MaxProtectedFraction=1"),
    by_bit("headroom-starts-free", "who only the headroom stops starts free if it can resume",
           Rule::headroom_starts_free),
    by_bit("headroom-for-large", "the headroom does not stop a job larger than what is allowed",
           Rule::headroom_for_large),
    by_bit("headroom-for-express", "nor an express job", Rule::headroom_for_express),
    // Large jobs.
    by_setting("reservations", "large jobs are given the nodes that can be free soonest",
               "Reservations=0"),
    by_bit("entrance", "until a large job's date others enter only if they are over by then",
           Rule::entrance),
    by_bit("free-enters", "free work may always enter", Rule::free_enters),
    by_bit("whole-node", "a kept node is kept as a whole", Rule::whole_node),
    by_setting("assembly", "the largest jobs get their nodes gathered", "MaxAssemblies=0"),
    by_setting("one-assembly", "only MaxAssemblies at a time", "MaxAssemblies=1000"),
    by_setting("assembly-pause", "the next grant comes AssemblyPause after the last",
               "AssemblyPause=0"),
    by_setting("assembly-size", "only gangs of AssemblyMinFraction of the nodes are assembled",
               "AssemblyMinFraction=0.000001"),
    by_bit("assembly-turn", "only when their turn has come", Rule::assembly_turn),
    by_bit("assembly-payment", "the next grant comes when the last is paid for",
           Rule::assembly_payment),
    by_bit("assembly-right", "the right is judged once, at the grant", Rule::assembly_right),
    by_bit("assembly-equals", "equal gangs of one budget are not taken", Rule::assembly_equals),
    by_bit("assembly-replaces", "a gathered node that fails is replaced", Rule::assembly_replaces),
    by_bit("assembly-closed", "past its date nobody enters", Rule::assembly_closed),
    // Unhealthy nodes.
    by_bit("drain", "sick nodes empty as the contracts on them end", Rule::drain),
    by_setting("drain-reasons", "other drains wait for the jobs", "DrainReasons=*"),
    by_setting("drain-gang-wait", "a gang on a sick node gets its replacement first",
               "DrainGangWait=0"),
};

}  // namespace

std::span<const RuleSwitch> rule_switches() noexcept {
    return kSwitches;
}

const RuleSwitch* find_rule_switch(std::string_view name) noexcept {
    const auto* const found =
        std::find_if(std::begin(kSwitches), std::end(kSwitches),
                     [name](const RuleSwitch& each) { return each.name == name; });
    return found == std::end(kSwitches) ? nullptr : found;
}

Settings without_rule(Settings settings, const RuleSwitch& rule) {
    if (rule.rule) {
        settings.rules_off |= std::uint64_t{1} << static_cast<unsigned>(*rule.rule);
    }
    std::string_view rest = rule.settings;
    while (!rest.empty()) {
        const std::string_view word = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
        const std::size_t equals = word.find('=');
        const std::string_view key = word.substr(0, equals);
        if (setting_value(settings, key) == "0") {
            continue;  // what is switched off stays off
        }
        const Status status = apply_setting(settings, key, word.substr(equals + 1));
        if (!status.ok()) {
            throw std::logic_error(status.error());
        }
    }
    return settings;
}

UsageLedger::Rules ledger_rules(const Settings& settings) {
    UsageLedger::Rules rules;
    rules.window = settings.window();
    rules.backdate_seconds = settings.has(Rule::backdate) ? settings.max_min_runtime_seconds : 0;
    rules.entitlement_history = settings.entitlement_history;
    rules.pooled_by_default = settings.sharing == Sharing::pooled;
    rules.levels = settings.has(Rule::levels);
    rules.own_sides = settings.has(Rule::own_side);
    rules.shares_for_promise = settings.has(Rule::shares_for_promise);
    return rules;
}

}  // namespace tranche::sim
