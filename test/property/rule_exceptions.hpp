// SPDX-License-Identifier: GPL-2.0-or-later
// Cases that do not hold without a rule that is not their own, and why. Names of cases, or of their
// rules where all of a kind are meant ("express-*"), with blanks between.
#pragma once

#include <string_view>

namespace tranche::test {

struct RuleException {
    std::string_view rule, reason, cases;
};

constexpr RuleException kRuleExceptions[] = {
    {"shares-for-promise", "Z's job is allocated work",
     "free_work_ranks_by_free_use zeroed_shares_keep_running_contract"},
    {"interactive-minimum", "its session gets the default of sessions",
     "who_declares_nothing_may_be_refused"},
    {"free-costs-nothing", "free hours count as charges",
     "free_first_starts_free free_work_ranks_by_free_use"},
    {"free-yields", "they are about taking free runs",
     "a_session_has_a_minimum_of_its_own free_first_turns_before_a_job_behind_it "
     "free_runs_go_before_allocated_ones free_work_costs_nothing_and_yields "
     "free_work_enters_and_leaves grace_by_class half_cluster_job_is_assembled "
     "headroom_keeps_a_node_open no_shares_no_promise smallest_sufficient_victims "
     "the_smaller_run_goes who_leaves_makes_room_for_two "
     "zeroed_shares_keep_running_contract"},
    {"free-never-takes", "free jobs swap with free jobs",
     "job_that_never_fits_blocks_nobody smallest_sufficient_victims "
     "the_smaller_run_goes who_leaves_makes_room_for_two"},
    {"free-first", "nothing started free that could turn",
     "free_first_turns_before_a_job_behind_it"},
    {"remembered", "they count use of more than six hours",
     "a_day_of_debug_jobs_has_a_cap a_hair_is_not_enough an_assembly_is_paid_for "
     "debug_chains_pay_nothing false_resumable_gains_nothing "
     "nothing_but_giant_gangs_gains_nothing preempted_job_keeps_its_place "
     "recent_use_weighs_more victim_is_who_is_most_over_its_funding "
     "window_is_sharp"},
    {"window", "they count use by its weight in a week",
     "a_new_budget_is_served_at_once edit_changes_rate_not_past "
     "recent_use_weighs_more work_that_would_be_lost_is_spared"},
    {"charged-to-end", "they count charges beyond a contract",
     "a_colleague_who_used_more_makes_room a_refund_has_a_bound edit_changes_rate_not_past "
     "express_jobs_are_charged "
     "node_failure_refunds_what_was_lost preempted_job_keeps_its_place "
     "short_minima_gain_nothing window_is_sharp"},
    {"window-shape", "their numbers are those of recent use, counted twice",
     "a_hair_is_enough_without_a_margin a_hair_is_not_enough edit_changes_rate_not_past "
     "nothing_but_giant_gangs_gains_nothing second_claimant_waits_for_its_turn"},
    {"charge-weights", "what weighs nothing is a matter of weights",
     "what_costs_nothing_is_free_work"},
    {"commitments", "their numbers hold a commitment",
     "a_claim_counts_its_own_contract a_debug_job_uses_the_headroom "
     "a_hair_is_not_enough a_plan_counts_what_it_will_cost an_assembly_is_paid_for "
     "array_tasks_interleave contract_clock_starts_after_boot "
     "edit_changes_rate_not_past false_resumable_gains_nothing "
     "free_work_costs_nothing_and_yields nothing_but_giant_gangs_gains_nothing "
     "one_pass_interleaves_budgets preempted_job_keeps_its_place "
     "urgent_for_ever_is_normal"},
    {"plan-commitment", "the next claimant comes before the first has started",
     "an_assembly_is_paid_for edit_changes_rate_not_past "
     "second_claimant_waits_for_its_turn"},
    {"entitlement-history", "the victim's budget counts as never funded",
     "promises_outlive_shares zeroed_shares_keep_running_contract"},
    {"refund", "a bound of what is not given", "a_refund_has_a_bound"},
    {"refund-cap", "the run was longer past its contract than the bound",
     "node_failure_refunds_what_was_lost"},
    {"progressive", "two jobs of one budget start in one pass",
     "edit_changes_rate_not_past free_work_costs_nothing_and_yields "
     "urgent_for_ever_is_normal"},
    {"team-priority", "they are about team priority",
     "a_budget_that_only_sorts an_urgent_job_of_the_team_takes_the_low_one "
     "of_ones_own_the_lower_goes urgent_for_ever_is_normal "
     "urgent_within_budget_takes_low_expired"},
    {"team-priority-at-home", "what may not take at home may not abroad",
     "a_budget_that_only_sorts a_team_priority_alone_takes_nothing_between_users"},
    {"users-share", "RaisedShare and a colleague's claim are about users who share",
     "a_colleague_who_used_more_makes_room urgent_for_ever_is_normal"},
    {"free-ranks-below", "they order free work",
     "free_work_costs_nothing_and_yields free_work_ranks_by_free_use"},
    {"place-kept", "what a victim lost its place to costs N",
     "nothing_but_giant_gangs_gains_nothing"},
    {"backfill", "they are about what starts beside who waits",
     "a_large_job_is_given_the_soonest_nodes "
     "assemblies_cancelled_before_their_date_gain_nothing "
     "free_work_enters_and_leaves half_cluster_job_is_assembled "
     "headroom_keeps_a_node_open nothing_but_giant_gangs_gains_nothing "
     "reservation_backfill"},
    {"contract", "they wait for a contract to end, or count what ends inside one",
     "a_claimant_that_leaves_gives_up_its_plan a_contract_that_ends_wakes_who_waits "
     "a_debug_job_takes_who_can_resume a_debug_job_waits_rather_than_take_a_session "
     "a_gang_next_door_is_left_whole a_hog_gains_nothing_in_a_shared_budget "
     "a_kept_node_is_kept_whole a_large_job_is_given_the_soonest_nodes "
     "a_plan_counts_what_it_will_cost a_plan_survives_a_restart "
     "a_session_has_a_minimum_of_its_own a_suspended_contract_stands_still "
     "a_victim_waits_for_its_claimant a_waiting_gang_leaves_room_to_others "
     "an_assembly_is_paid_for an_assembly_waits_for_its_turn "
     "assemblies_cancelled_before_their_date_gain_nothing "
     "between_two_grants_there_is_a_pause contract_clock_starts_after_boot "
     "contract_counts_at_once debug_chains_pay_nothing "
     "declaring_eight_hours_pays_nothing express_jobs_never_hold_up_an_assembly "
     "express_takes_any_expired_run false_resumable_gains_nothing "
     "free_work_enters_and_leaves freed_room_is_the_claimants "
     "gang_takes_all_or_nothing half_cluster_job_is_assembled "
     "impossible_job_charges_nobody inner_budget_competes_as_one_more_child "
     "nobody_settles_where_a_gang_will_start nothing_but_giant_gangs_gains_nothing "
     "one_gang_is_gathered_at_a_time one_second_minima_through_the_lane_gain_nothing "
     "one_users_debug_jobs_have_a_cap only_short_jobs_are_express "
     "past_its_date_nobody_enters patience_has_a_bound promises_outlive_shares "
     "reservation_backfill short_minima_gain_nothing splitting_a_team_gains_nothing "
     "splitting_jobs_gains_nothing the_lane_has_a_cap "
     "urgent_within_budget_takes_low_expired users_of_one_budget_share "
     "who_declares_nothing_gets_the_default work_that_would_be_lost_is_spared "
     "zeroed_shares_keep_running_contract "
     "two_gangs_are_gathered_on_different_nodes only_small_jobs_are_express"},
    {"contract-pauses", "the date passes because a contract was suspended",
     "past_its_date_nobody_enters"},
    {"preempt-margin", "their margin bars the ordinary way, or stops a swap",
     "a_small_gang_is_not_assembled an_assembly_is_paid_before_the_next "
     "an_assembly_is_paid_for between_two_grants_there_is_a_pause "
     "preempted_job_keeps_its_place"},
    {"own-commitment", "their numbers hold the claimant's own commitment",
     "a_hair_is_not_enough an_assembly_is_paid_for preempted_job_keeps_its_place "
     "second_claimant_waits_for_its_turn"},
    {"preempt-within-budget", "they take from their own budget",
     "a_hog_gains_nothing_in_a_shared_budget of_ones_own_the_lower_goes "
     "users_of_one_budget_share"},
    {"feasible", "the gang harms before its date", "half_cluster_job_is_assembled"},
    {"room-coming", "the second claimant finds the first one's room",
     "smallest_sufficient_victims"},
    {"plan-keeps-room", "gangs gather room as their victims leave",
     "a_plan_survives_a_restart an_assembly_waits_for_its_turn "
     "free_work_costs_nothing_and_yields half_cluster_job_is_assembled "
     "one_gang_is_gathered_at_a_time past_its_date_nobody_enters"},
    {"wake", "nothing else happens when the contract ends",
     "a_gang_waits_an_hour_for_its_replacement "
     "a_sick_node_is_left_when_the_contract_is_over headroom_keeps_a_node_open "
     "sick_node_empties_by_contract who_only_the_headroom_stops_runs_free"},
    {"lower-priority-first", "two of its victims differ by priority alone",
     "an_urgent_job_of_the_team_takes_the_low_one"},
    {"express", "without the lane nothing is express",
     "a_debug_job_uses_the_headroom express-* "
     "express_jobs_never_hold_up_an_assembly headroom_keeps_a_node_open"},
    {"express-small", "the training is express too",
     "express_takes_any_expired_run headroom_keeps_a_node_open"},
    {"express-charged", "it sees that the debug job is charged", "a_debug_job_uses_the_headroom"},
    {"express-victim", "it times the victim's second contract", "express_takes_any_expired_run"},
    {"headroom", "without headroom nothing starts free for it",
     "who_only_the_headroom_stops_runs_free"},
    {"headroom-starts-free", "the twentieth job starts free", "headroom_keeps_a_node_open"},
    {"headroom-for-express", "the debug job uses the kept node", "headroom_keeps_a_node_open"},
    {"reservations", "without reservations no node is kept",
     "a_kept_node_is_kept_whole nobody_settles_where_a_gang_will_start"},
    {"entrance", "without it no node is kept",
     "a_kept_node_is_kept_whole a_large_job_is_given_the_soonest_nodes "
     "half_cluster_job_is_assembled reservation_backfill"},
    {"free-enters", "free work enters there too", "half_cluster_job_is_assembled"},
    {"assembly", "without assemblies nothing is gathered",
     "assembly-* one_gang_is_gathered_at_a_time"},
    {"assembly-right", "their margin bars every other right",
     "a_gathered_node_that_fails_is_replaced an_assembly_is_paid_before_the_next "
     "an_assembly_is_paid_for between_two_grants_there_is_a_pause "
     "one_gang_is_gathered_at_a_time what_the_margin_bars_an_assembly_gathers "
     "two_gangs_are_gathered_on_different_nodes"},
    {"drain", "without drains nobody leaves", "drain-gang-*"},
};

}  // namespace tranche::test
