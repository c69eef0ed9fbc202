// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/report/explanation_text.hpp"

#include <algorithm>

namespace tranche {
namespace {

std::string job_text(JobId job, const std::string& label = {}) {
    return job == 0 ? "a job" : "job " + (label.empty() ? std::to_string(job) : label);
}

std::string whose(const std::string& budget, const std::string& user) {
    return " of " + (budget.empty() ? "no budget" : budget) +
           (user.empty() ? "" : " (" + user + ")");
}

std::string plural(std::size_t count, const char* word) {
    return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string gpus_text(std::int64_t gpus) {
    return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
}

std::string side_line(const SideNumbers& side, std::size_t width) {
    std::string name = side.name;
    name.resize(std::max(width, name.size()), ' ');
    return "    " + name + "  used " + people_gpu_hours(side.charge_milli_hours) + " of " +
           people_gpu_hours(side.entitled_milli_hours) + " GPU h, ratio " +
           people_ratio(side.ratio_milli()) + "\n";
}

std::string side_clause(const SideNumbers& side) {
    return side.name + " " + people_gpu_hours(side.charge_milli_hours) + " of " +
           people_gpu_hours(side.entitled_milli_hours) + " GPU h (" +
           people_ratio(side.ratio_milli()) + ")";
}

std::string loss_text(const RankLoss& loss) {
    std::string text = "  below " + loss.level + ", " + job_text(loss.job) +
                       whose(loss.budget, loss.user) + " goes first";
    if (loss.jobs > 1) {
        text += ", the last of " + plural(loss.jobs, "job") + " of " + loss.theirs.name;
    }
    const std::size_t width = std::max(loss.ours.name.size(), loss.theirs.name.size());
    text += ":\n" + side_line(loss.ours, width) + side_line(loss.theirs, width);
    if (loss.ours.entitled_milli_hours == 0) {
        return text + "    " + loss.ours.name + " has no funding there\n";
    }
    if (loss.behind_milli_hours == 0) {
        return text + "    level; larger shares, then the earlier submission decide\n";
    }
    return text + "    " + loss.ours.name + " is " + people_gpu_hours(loss.behind_milli_hours) +
           " GPU h above the other's ratio\n";
}

std::string own_text(const OwnLoss& loss, const std::string& budget) {
    std::string text = "  inside " + budget + ", " + plural(loss.jobs, "job") +
                       (loss.jobs == 1 ? " goes first" : " go first") + "; the last is " +
                       job_text(loss.job) + (loss.user.empty() ? "" : " of " + loss.user) + ": ";
    switch (loss.why) {
        case OwnOrder::team_priority:
            return text + "its team priority is higher\n";
        case OwnOrder::user_charge:
            return text + "that user has used " + people_gpu_hours(loss.their_user_milli_hours) +
                   " GPU h, this one " + people_gpu_hours(loss.our_user_milli_hours) + "\n";
        case OwnOrder::nice:
            return text + "it is less nice\n";
        case OwnOrder::submission:
            break;
    }
    return text + "it was submitted earlier\n";
}

std::string outlook_rest(const TakeOutlook& outlook, const Moment& now) {
    std::string text = whose(outlook.budget, outlook.user) + ", " + gpus_text(outlook.gpus);
    text += ": ";
    text += outlook.may ? from_text(outlook, now) + ", " + take_reason_text(outlook.reason)
                        : take_reason_text(outlook.reason);
    if (!outlook.level.empty()) {
        text += "; below " + outlook.level + ": " + side_clause(outlook.claimant_side) +
                " with it, " + side_clause(outlook.victim_side);
        if (!outlook.may && outlook.over_milli_hours > 0) {
            text += ": " + people_gpu_hours(outlook.over_milli_hours) + " GPU h too much";
        }
    }
    return text + "\n";
}

// A line for each job, or one for several that differ in nothing but their ids.
std::string outlook_lines(const std::vector<TakeOutlook>& outlooks, std::size_t most,
                          const Moment& now) {
    constexpr std::size_t kNamed = 4;
    std::vector<std::pair<std::string, std::vector<JobId>>> groups;
    for (std::size_t i = 0; i < std::min(most, outlooks.size()); ++i) {
        const std::string rest = outlook_rest(outlooks[i], now);
        const auto same = std::find_if(groups.begin(), groups.end(),
                                       [&](const auto& group) { return group.first == rest; });
        if (same == groups.end()) {
            groups.push_back({rest, {outlooks[i].job}});
        } else {
            same->second.push_back(outlooks[i].job);
        }
    }
    std::string text;
    for (const auto& [rest, jobs] : groups) {
        text += "  ";
        if (jobs.size() == 1) {
            text += job_text(jobs.front());
        } else {
            text += std::to_string(jobs.size()) + " jobs";
            for (std::size_t i = 0; i < std::min(jobs.size(), kNamed) && jobs[i] != 0; ++i) {
                text += (i == 0 ? " (" : ", ") + std::to_string(jobs[i]);
            }
            text += jobs.front() == 0 ? "" : jobs.size() > kNamed ? ", …)" : ")";
        }
        text += rest;
    }
    return text;
}

}  // namespace

std::string wait_reason_text(WaitReason reason) {
    switch (reason) {
        case WaitReason::none:
            return "the next pass has not looked at it yet";
        case WaitReason::starting:
            return "there is room: it starts with the next scheduling pass";
        case WaitReason::planned:
            return "its plan stands: victims are leaving for it";
        case WaitReason::held:
            return "it is held";
        case WaitReason::dependency:
            return "it depends on another job";
        case WaitReason::begin_time:
            return "its begin time has not come";
        case WaitReason::limit:
            return "a limit of its account, QOS or array (%N) is reached";
        case WaitReason::impossible:
            return "no set of nodes could ever hold it";
        case WaitReason::nodes_unavailable:
            return "the nodes that could hold it are down or draining";
        case WaitReason::claimant_first:
            return "it was evicted for a job that has not started yet";
        case WaitReason::idle_gpus:
            return "it is free work and waits until GPUs are idle";
        case WaitReason::contracts:
            return "the runs it could take are still under contract";
        case WaitReason::ratio:
            return "runs are over their contract, but its side has used too much";
        case WaitReason::own_budget:
            return "only runs of its own budget are over their contract, and these stay "
                   "(PreemptWithinBudget)";
        case WaitReason::room_coming:
            return "runs that leave already make room for it";
        case WaitReason::room:
            return "nothing it could take makes enough room";
        case WaitReason::headroom:
            return "the GPUs that may be under contract all are (MaxProtectedFraction)";
        case WaitReason::express_cap:
            return "a cap of the express lane is reached";
        case WaitReason::preemption_limit:
            return "MaxPreemptionsPerHour is reached";
        case WaitReason::kept_nodes:
            return "there is room on nodes that are kept for a large job, which it would hold up";
        case WaitReason::assembling:
            return "its nodes are being gathered as the contracts on them end";
    }
    return "unknown";
}

std::string take_reason_text(TakeReason reason) {
    switch (reason) {
        case TakeReason::free_run:
            return "it runs free";
        case TakeReason::smaller_ratio:
            return "the claimant's side has the smaller ratio";
        case TakeReason::smaller_use:
            return "the claimant's user has used less";
        case TakeReason::team_priority:
            return "its team priority is lower";
        case TakeReason::express:
            return "by the express lane";
        case TakeReason::assembly:
            return "by the right that was granted with an assembly";
        case TakeReason::claimant_is_free:
            return "free work takes nothing";
        case TakeReason::under_contract:
            return "it is under contract";
        case TakeReason::not_governed:
            return "it runs outside Partitions=";
        case TakeReason::spared:
            return "its partition has PreemptMode=OFF";
        case TakeReason::not_settled:
            return "it is starting, ending or leaving already";
        case TakeReason::ratio_too_large:
            return "the ratio is too large";
        case TakeReason::same_budget:
            return "it is of the same budget (PreemptWithinBudget)";
        case TakeReason::express_own_user:
            return "it is an express job of the same user";
        case TakeReason::interactive_session:
            return "it is an interactive session";
        case TakeReason::underfunded_and_final:
            return "it cannot resume and its budget is below its funding";
    }
    return "unknown";
}

std::string from_text(const TakeOutlook& outlook, const Moment& now) {
    if (outlook.from_at == kNever) {
        return outlook.suspended ? "when it has gone on and its contract is over"
                                 : "after a contract that has not begun";
    }
    return outlook.from_at <= now.at ? "now" : people_when(outlook.from_at, now);
}

std::string protected_text(const RunningExplanation& e, const Moment& now) {
    if (!e.allocated) {
        return "free";
    }
    if (e.state == RunState::suspended && e.contract_left_seconds > 0) {
        return "suspended, " + people_duration(e.contract_left_seconds) + " left";
    }
    if (e.protected_until == kNever) {
        return "not begun";
    }
    return (e.protected_until > now.at ? "" : "over, ") + people_when(e.protected_until, now);
}

std::string explanation_text(const PendingExplanation& e, const Moment& now,
                             const std::string& name) {
    std::string text = "Job " + (name.empty() ? std::to_string(e.job) : name) +
                       whose(e.budget, e.user) + " is pending: " + std::string(to_text(e.band)) +
                       ", rank " + std::to_string(e.rank) + " of " + std::to_string(e.ranked) +
                       ", " + gpus_text(e.gpus) + "\n";
    text += "Waits: " + wait_reason_text(e.reason) + " (" + std::string(to_text(e.reason)) + ")\n";
    if (e.express_cap == ExpressCap::user_gpus) {
        text += "Not express for this run: ExpressGPUsPerUser is reached\n";
    } else if (e.express_cap == ExpressCap::lane_gpus) {
        text += "Not express for this run: ExpressFraction is reached\n";
    } else if (e.express_cap == ExpressCap::user_hours) {
        text += "Not express for this run: ExpressHoursPerUser is reached\n";
    }
    if (e.waits_for != 0) {
        text += "Evicted for job " + std::to_string(e.waits_for) + ", which has not started yet\n";
    }
    if (!e.plan_victims.empty()) {
        text += "Its plan: it takes the room of";
        for (std::size_t i = 0; i < e.plan_victims.size(); ++i) {
            text += (i == 0 ? " " : ", ") + job_text(e.plan_victims[i]);
        }
        text += "\n";
    }
    if (e.band == Band::unallocated && e.before_in_better_bands > 0) {
        text += "Free work: " + plural(e.before_in_better_bands, "allocated job") +
                (e.before_in_better_bands == 1 ? " goes" : " go") +
                " first; --min-runtime and a funded budget would change that\n";
    }
    if (!e.losses.empty() || e.own_loss) {
        text += "Where it loses (faded charge and commitments of the window):\n";
        for (const RankLoss& loss : e.losses) {
            text += loss_text(loss);
        }
        if (e.own_loss) {
            text += own_text(*e.own_loss, e.budget);
        }
    }
    if (e.commitment_milli_hours > 0 && e.band != Band::unallocated) {
        text += "Its own contract counts " + people_gpu_hours(e.commitment_milli_hours) +
                " GPU h when it starts\n";
    }
    if (!e.could_take.empty()) {
        text += "Whom it could take (" + gpus_text(e.could_take_gpus_now) + " now, " +
                std::to_string(e.could_take_gpus_later) + " later, by today's ratios):\n";
        text += outlook_lines(e.could_take, e.could_take.size(), now);
        if (e.could_take_count > e.could_take.size()) {
            text += "  and " + std::to_string(e.could_take_count - e.could_take.size()) + " more\n";
        }
    }
    if (!e.cannot_take.empty()) {
        text += "Out of its reach:\n";
        const std::size_t shown = std::min<std::size_t>(e.cannot_take.size(), 12);
        text += outlook_lines(e.cannot_take, shown, now);
        if (e.cannot_take_count > shown) {
            text += "  and " + std::to_string(e.cannot_take_count - shown) + " more\n";
        }
    }
    if (e.next_change_at != kNever) {
        text += "Next change by itself: " + people_when(e.next_change_at, now) + "\n";
    }
    return text;
}

std::string explanation_text(const RunningExplanation& e, const Moment& now,
                             const std::string& name) {
    std::string text = "Job " + (name.empty() ? std::to_string(e.job) : name) +
                       whose(e.budget, e.user) +
                       (e.state == RunState::suspended     ? " is suspended: "
                        : e.state == RunState::configuring ? " is starting: "
                                                           : " is running: ") +
                       (e.allocated ? "allocated" : "free") + ", " + gpus_text(e.gpus) +
                       ", started " + people_when(e.started_at, now) + "\n";
    if (!e.allocated) {
        text += "It runs free: it is charged to nobody";
        text += e.spared ? "\n" : " and may be ended at any second\n";
    } else if (e.state == RunState::suspended && e.contract_left_seconds > 0) {
        text += "Its contract's clock stands still: " + people_duration(e.contract_left_seconds) +
                " are left when it goes on\n";
    } else if (e.protected_until == kNever) {
        text += "Its contract begins when its nodes are up and the prolog is over\n";
    } else if (e.protected_until > now.at) {
        text += "Protected until " + people_clock(e.protected_until, now) + ", " +
                people_duration(e.protected_until - now.at) + " from now\n";
    } else {
        text += "Its contract ended " + people_when(e.protected_until, now) + "\n";
    }
    if (e.spared) {
        text += "Nobody may take its place: its partition has PreemptMode=OFF\n";
    } else {
        if (e.checkpointed_at > 0) {
            text += "Its owner said " + people_when(e.checkpointed_at, now) +
                    " that it had written a checkpoint: it has what came after to lose\n";
        }
        text += e.resumable ? "When its place is taken it is requeued\n"
                            : "When its place is taken it ends\n";
    }
    if (e.leaving_for != 0) {
        text += "It is leaving for job " + std::to_string(e.leaving_for) + "\n";
    }
    if (e.takers.empty()) {
        text += e.leaving_for != 0 || e.spared ? "" : "Nobody who waits now could take it\n";
    } else {
        text +=
            "Who could take it (of each budget that waits the first and the smallest, by today's "
            "ratios):\n";
        text += outlook_lines(e.takers, e.takers.size(), now);
        if (e.takers_count > e.takers.size()) {
            text += "  and " + std::to_string(e.takers_count - e.takers.size()) + " more\n";
        }
    }
    return text;
}

std::string preemption_text(const PreemptionRecord& r, const Moment& now) {
    std::string text =
        job_text(r.victim, r.victim_label) + whose(r.victim_budget, r.victim_user) +
        (r.outcome == "rehearsed" ? " would have been preempted " : " was preempted ") +
        people_when(r.planned_at, now) + " for " + job_text(r.claimant, r.claimant_label) +
        whose(r.claimant_budget, r.claimant_user) + (r.nodes.empty() ? "" : " on " + r.nodes) +
        "\n";
    text.front() = text.front() == 'j' ? 'J' : 'A';
    if (const std::string why = preemption_reason_text(r); !why.empty()) {
        text += "Why: " + why + " (" + r.reason + ")\n";
    }
    if (r.contract_ended_at > 0) {
        text += "Its contract had ended " + people_when(r.contract_ended_at, now) + "\n";
    }
    if (!r.level.empty() && r.reason != to_text(TakeReason::free_run)) {
        const SideNumbers victim{r.victim_side, r.victim_charge_milli_hours,
                                 r.victim_funded_milli_hours};
        const SideNumbers claimant{r.claimant_side, r.claimant_charge_milli_hours,
                                   r.claimant_funded_milli_hours};
        const std::size_t width = std::max(victim.name.size(), claimant.name.size());
        text += "Below " + r.level + ", with the claimant's own contract:\n" +
                side_line(claimant, width) + side_line(victim, width);
    }
    if (r.warned_at > 0) {
        text += "Warned " + people_clock(r.warned_at, now) +
                (r.gone_at > 0 ? ", gone " + people_clock(r.gone_at, now) : "") + "\n";
    }
    const std::string on = r.claimant_nodes.empty() ? "" : " on " + r.claimant_nodes;
    if (r.outcome == "overtaken") {
        text += "The claimant started elsewhere" +
                (r.claimant_started_at > 0 ? on + " " + people_when(r.claimant_started_at, now)
                                           : std::string()) +
                ": other room came free meanwhile\n";
    } else if (r.outcome == "taken-back") {
        text += "The warning was taken back: it runs on\n";
    } else if (r.claimant_started_at > 0) {
        text += "The claimant started " + people_when(r.claimant_started_at, now) + on + "\n";
    } else if (r.outcome == "wasted") {
        text += "The claimant did not start on that room\n";
    } else if (r.outcome == "claimant-left") {
        text += "The claimant left before it started\n";
    }
    return text;
}

std::string preemption_reason_text(const PreemptionRecord& r) {
    if (r.reason == to_text(TakeReason::free_run)) {
        return "it ran free and yields to funded work";
    }
    if (r.reason == to_text(TakeReason::express)) {
        return "its contract was over and a debug job needed the room";
    }
    if (r.reason == to_text(TakeReason::assembly)) {
        return "its contract was over and a large job's nodes were gathered";
    }
    if (r.reason == to_text(TakeReason::team_priority)) {
        return "its contract was over and the other's team priority is higher";
    }
    if (r.reason == to_text(TakeReason::smaller_ratio) ||
        r.reason == to_text(TakeReason::smaller_use)) {
        return "its contract was over and " + r.claimant_side +
               " had used less of its funding than " + r.victim_side;
    }
    return {};
}

namespace {

std::string end_text(const std::string& end) {
    if (end == "timeout") {
        return "reached its time limit";
    }
    if (end == "node-failure") {
        return "lost its node";
    }
    if (end == "preempted" || end == "requeued" || end == "cancelled") {
        return "was " + end;
    }
    return end == "unknown" || end.empty() ? "ended" : end;
}

}  // namespace

std::string past_text(const std::vector<PastRun>& runs, const Moment& now,
                      const std::string& name) {
    if (runs.empty()) {
        return {};
    }
    const PastRun& last = runs.back();
    std::string text = "Job " + (name.empty() ? std::to_string(last.job) : name) +
                       whose(last.budget, last.user) + " " + end_text(last.end);
    if (last.ended_at > 0) {
        text += " " + people_when(last.ended_at, now);
    }
    return text + "\n" + runs_text(runs, now);
}

std::string runs_text(const std::vector<PastRun>& runs, const Moment& now) {
    constexpr std::size_t kShown = 5;
    std::string text;
    const std::size_t first = runs.size() > kShown ? runs.size() - kShown : 0;
    if (first > 0) {
        text += "  " + plural(first, "earlier run") + "\n";
    }
    for (std::size_t i = first; i < runs.size(); ++i) {
        const PastRun& run = runs[i];
        text += "  run " + std::to_string(run.number) + ": " + people_clock(run.began_at, now) +
                " to " + (run.ended_at > 0 ? people_clock(run.ended_at, now) : "now") + " (" +
                people_duration((run.ended_at > 0 ? run.ended_at : now.at) - run.began_at) + "), " +
                gpus_text(run.gpus) + (run.nodes.empty() ? "" : " on " + run.nodes) + ", " +
                (run.allocated ? "charged " + people_gpu_hours(run.charged_milli_hours) + " GPU h"
                               : std::string("free")) +
                (run.end.empty() ? "" : ", " + end_text(run.end)) + "\n";
    }
    return text;
}

}  // namespace tranche
