// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/assembly_book.hpp"

#include <algorithm>
#include <utility>

#include "common/config/time_format.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kShownSeconds = 86400;  // an assembly that is over

std::string list_of(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ",") + name;
    }
    return text;
}

}  // namespace

void AssemblyBook::restore(const LedgerContents& contents) {
    rows_ = contents.assemblies;
}

AssemblyRow* AssemblyBook::open_row(JobId claimant) {
    const auto row = std::find_if(rows_.begin(), rows_.end(), [claimant](const AssemblyRow& r) {
        return r.claimant == claimant && r.ended_at == 0;
    });
    return row == rows_.end() ? nullptr : &*row;
}

const AssemblyRow* AssemblyBook::open_row(JobId claimant) const {
    return const_cast<AssemblyBook*>(this)->open_row(claimant);
}

bool AssemblyBook::has(JobId claimant) const {
    const AssemblyRow* row = open_row(claimant);
    return row != nullptr && row->stands();
}

void AssemblyBook::end(AssemblyRow& row, std::int64_t at, const std::string& outcome,
                       LedgerBatch& out) {
    if (row.stands()) {
        messages_.push_back("the assembly of job " + std::to_string(row.claimant) +
                            " is over: " + outcome);
    }
    row.ended_at = std::max<std::int64_t>(at, 1);
    row.outcome = outcome;
    out.assemblies.push_back(row);
}

void AssemblyBook::follow(const HostSnapshot& snapshot, LedgerBatch& out) {
    std::unordered_map<JobId, const HostJob*> jobs;
    for (const HostJob& job : snapshot.jobs) {
        jobs.emplace(job.id, &job);
    }
    for (AssemblyRow& row : rows_) {
        if (row.ended_at != 0) {
            continue;
        }
        const auto it = jobs.find(row.claimant);
        const HostJob* job = it == jobs.end() ? nullptr : it->second;
        if (job == nullptr) {
            end(row, snapshot.now, "claimant-left", out);
        } else if (job->state == HostJobState::pending) {
            if (job->submit_at > row.turn_at) {
                // It ran and was requeued while nobody looked.
                row.started_at = job->submit_at;
                end(row, job->submit_at, "started", out);
            }
        } else if (job->start_at >= row.turn_at &&
                   (job->state != HostJobState::finished || job->end_at > job->start_at)) {
            row.started_at = job->start_at;
            end(row, job->start_at, "started", out);
        } else {
            end(row, snapshot.now, "claimant-left", out);
        }
    }
    // Of what is over the last grant of each budget is needed, and what somebody may ask for.
    std::erase_if(rows_, [&](const AssemblyRow& row) {
        return row.ended_at != 0 && row.ended_at < snapshot.now - kShownSeconds &&
               (row.granted_at == 0 ||
                std::any_of(rows_.begin(), rows_.end(), [&](const AssemblyRow& other) {
                    return other.budget == row.budget && other.granted_at > row.granted_at;
                }));
    });
}

void AssemblyBook::fill(EngineView& next, UsageLedger& ledger) {
    std::unordered_map<std::string, NodeIndex> numbers;
    for (NodeIndex n = 0; n < next.view.nodes.size(); ++n) {
        numbers.emplace(next.view.nodes[n].name, n);
    }
    for (const AssemblyRow& row : rows_) {
        if (row.granted_at != 0) {
            next.view.grants.push_back({ledger.budget_id(row.budget), row.granted_at,
                                        row.weight_milli, row.commitment_seconds});
        }
        if (row.ended_at != 0) {
            continue;
        }
        const JobCard* card = next.card(row.claimant);
        if (card == nullptr || card->pending_index < 0) {
            continue;
        }
        next.view.pending[static_cast<std::size_t>(card->pending_index)].turn_at = row.turn_at;
        if (row.granted_at == 0) {
            continue;
        }
        Assembly assembly{row.claimant, {}, row.granted_at, row.date_at};
        for (const std::string& name : row.nodes) {
            if (const auto known = numbers.find(name); known != numbers.end()) {
                assembly.nodes.push_back(known->second);
            }
        }
        std::sort(assembly.nodes.begin(), assembly.nodes.end());
        next.view.assemblies.push_back(std::move(assembly));
    }
    std::stable_sort(
        next.view.grants.begin(), next.view.grants.end(),
        [](const AssemblyGrant& a, const AssemblyGrant& b) { return a.granted_at < b.granted_at; });
    next.assemblies = rows_;
}

bool AssemblyBook::note(EngineView& next, LedgerBatch& out) {
    const ClusterView& view = next.view;
    for (const JobId claimant : next.pass.dropped_assemblies) {
        if (AssemblyRow* row = open_row(claimant)) {
            end(*row, next.at, "no-longer-fits", out);
        }
    }
    const auto begin_turn = [&](std::uint32_t index) {
        const PendingJob& job = view.pending[index];
        if (job.tasks > 1 || open_row(job.id) != nullptr) {
            return;  // the task of an array gets a record of its own first
        }
        AssemblyRow& row = rows_.emplace_back();
        row.claimant = job.id;
        row.turn_at = std::max<std::int64_t>(next.at, 1);
        row.budget = next.standings.budgets[job.budget].name;
        row.user = next.standings.members[job.member].user;
        row.gpus = job.shape.gpus;
        row.weight_milli = job.weight_milli;
        row.commitment_seconds = job.contract_seconds();
        out.assemblies.push_back(row);
    };
    for (const std::uint32_t index : next.pass.turns_come) {
        begin_turn(index);
    }
    for (const AssemblyDecision& decision : next.pass.assemblies) {
        AssemblyRow* row = open_row(decision.assembly.claimant);
        if (row == nullptr || view.pending[decision.job].tasks > 1) {
            continue;
        }
        row->date_at = decision.assembly.date_at;
        if (decision.granted) {
            row->granted_at = next.at;
            row->weight_milli = view.pending[decision.job].weight_milli;
            row->commitment_seconds = view.pending[decision.job].contract_seconds();
        }
        row->nodes.clear();
        for (const NodeIndex n : decision.assembly.nodes) {
            row->nodes.push_back(view.nodes[n].name);
        }
        out.assemblies.push_back(*row);
        messages_.push_back(
            "job " + std::to_string(row->claimant) + " of " + row->budget +
            (decision.granted ? " is granted an assembly: " : " has other nodes gathered: ") +
            list_of(row->nodes) + ", ready in " +
            format_duration(std::max<std::int64_t>(row->date_at - next.at, 0)));
    }
    next.assemblies = rows_;
    return !next.pass.assemblies.empty() || !next.pass.dropped_assemblies.empty();
}

std::vector<std::string> AssemblyBook::take_messages() {
    return std::exchange(messages_, {});
}

}  // namespace tranche
