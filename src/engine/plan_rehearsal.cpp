// SPDX-License-Identifier: GPL-2.0-or-later
// The part of PlanKeeper that carries nothing out.
#include <unordered_set>

#include "engine/plan_keeper.hpp"

namespace tranche {

void PlanKeeper::rehearse(const EngineView& next, LedgerBatch& out) {
    std::unordered_set<JobId> waiting;
    for (const PendingJob& job : next.view.pending) {
        waiting.insert(job.id);
    }
    std::erase_if(rehearsed_, [&](const auto& pair) { return !waiting.contains(pair.first); });
    for (const PlanDecision& decision : next.pass.plans) {
        std::string nodes;
        for (const NodeShare& share : decision.plan.where) {
            nodes += (nodes.empty() ? "" : ",") + next.view.nodes[share.node].name;
        }
        for (const VictimDecision& victim : decision.victims) {
            const Run& run = next.view.runs[victim.run];
            if (!rehearsed_.emplace(decision.plan.claimant, run.id).second) {
                continue;
            }
            PreemptionRecord record = record_of(victim, decision.plan, run, next.standings,
                                                next.available_weight_milli, nodes);
            record.outcome = "rehearsed";
            for (auto [id, label] : {std::pair(run.id, &record.victim_label),
                                     std::pair(record.claimant, &record.claimant_label)}) {
                if (const JobCard* card = next.card(id)) {
                    *label = card->label();
                }
            }
            ++rehearsed_count_;
            log(Host::LogLevel::info,
                "rehearsal: job " + std::to_string(run.id) + " would have made room for job " +
                    std::to_string(record.claimant) + " on " + nodes + " [" + record.reason + "]");
            out.preemptions.push_back(record);
            recent_.push_back(std::move(record));
        }
    }
}

}  // namespace tranche
