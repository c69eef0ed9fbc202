// SPDX-License-Identifier: GPL-2.0-or-later
// The engine's published state: an immutable value, replaced whole once a cycle. Readers never
// wait: they take the shared pointer and read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/config/contract_request.hpp"
#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "common/model/cluster.hpp"
#include "common/model/preemption_record.hpp"
#include "common/policy/entrance.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/ranking.hpp"
#include "common/store/ledger_rows.hpp"

namespace tranche {

// What the engine knows of one job beside the policy's view of it.
struct JobCard {
    JobId id = 0;
    std::uint32_t array_job_id = 0;
    std::uint32_t array_task = 0xffffffff;
    std::string array_tasks;       // of the record that stands for the rest of an array: "0-3,7"
    std::uint32_t het_job_id = 0;  // the first component's id, 0: not heterogeneous
    std::uint32_t het_offset = 0;
    std::string name;
    std::string user;
    std::uint32_t uid = 0;
    std::string account;
    std::string partition;
    std::string budget;  // empty: none pays
    ContractTerms terms;
    std::int64_t submit_at = 0;
    std::int64_t first_submit_at = 0;
    std::uint32_t runs = 0;      // that began, the current one included
    std::uint32_t priority = 0;  // Slurm's
    std::string host_reason;
    std::int64_t pending_index = -1;  // into view.pending
    std::int64_t run_index = -1;      // into view.runs

    // As people call it where that is not the id: "123_4", "123+1".
    std::string label() const {
        if (array_job_id != 0 && array_task != 0xffffffff) {
            return std::to_string(array_job_id) + "_" + std::to_string(array_task);
        }
        return het_job_id != 0 ? std::to_string(het_job_id) + "+" + std::to_string(het_offset)
                               : std::string();
    }
};

struct EngineHealth {
    std::int64_t started_at = 0;
    std::int64_t cycles = 0;
    std::int64_t last_cycle_at = 0;
    std::int64_t last_rank_microseconds = 0, last_collect_microseconds = 0;
    std::int64_t faults = 0;  // internal faults caught
    std::string last_fault;
    bool database_ok = true;
    std::string database_text;  // path, or what is wrong
    std::int64_t open_runs = 0;
    std::int64_t preemptions = 0, wasted = 0, overtaken = 0, claimant_left = 0;
    std::int64_t rehearsed = 0;  // evictions that DryRun=yes kept from happening
    bool rehearses = false;      // another plugin orders the queue
    std::vector<std::int64_t> grace_delays_milliseconds;  // recent: end of grace to requeue
    std::vector<std::string> complaints;                  // about slurm.conf and tranche.conf
};

// When waiting jobs are expected to start; those without a date are left out.
using StartTimes = std::unordered_map<JobId, std::int64_t>;

struct EngineView {
    std::int64_t at = 0;
    std::string cluster;
    std::shared_ptr<const Settings> settings;
    std::shared_ptr<const BudgetTree> tree;
    ClusterView view;
    Standings standings;               // commitments included
    std::vector<RankedEntry> ranking;  // of view.pending, best first
    PassResult pass;                   // what the last pass decided, with reasons
    PassRules pass_rules;              // by which it did
    EntranceList entrance;             // what keeps jobs from starting until the next one
    // Large jobs whose turn has come, those that are over within the last day too; by turn_at.
    std::vector<AssemblyRow> assemblies;
    std::int64_t available_weight_milli = 0;  // of the usable nodes
    // Funded GPU time of the window by side, plain, in milli-weighted GPU seconds.
    std::vector<std::int64_t> funded_milli_seconds;
    std::vector<JobCard> cards;  // pending and running
    std::unordered_map<JobId, std::size_t> card_by_id;
    std::vector<PreemptionRecord> recent_preemptions;  // newest last
    std::shared_ptr<const StartTimes> starts;          // an earlier view's; null: none yet
    EngineHealth health;

    // The newest of that job; nullptr: its turn never came.
    const AssemblyRow* assembly(JobId claimant) const {
        const auto row =
            std::find_if(assemblies.rbegin(), assemblies.rend(),
                         [claimant](const AssemblyRow& r) { return r.claimant == claimant; });
        return row == assemblies.rend() ? nullptr : &*row;
    }

    const JobCard* card(JobId id) const {
        const auto it = card_by_id.find(id);
        return it == card_by_id.end() ? nullptr : &cards[it->second];
    }
};

}  // namespace tranche
