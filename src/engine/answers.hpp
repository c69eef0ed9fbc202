// SPDX-License-Identifier: GPL-2.0-or-later
// What the query service answers, from the published state, to whom (DESIGN 4.2, 4.4). JSON with
// units in the keys.
//
// Readers of an immutable view; any thread. Errors are what the client is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/job_name.hpp"
#include "common/wire/json.hpp"
#include "engine/engine.hpp"
#include "engine/engine_view.hpp"

namespace tranche {

// Who asks, and what PrivateData keeps from him. Operators see everything.
struct Viewer {
    std::uint32_t uid = 0;
    std::string user;
    bool is_operator = false;
    bool jobs_private = false;   // others' jobs are not shown
    bool usage_private = false;  // nor budgets that are not his (usage or accounts)
};

// Narrows queue and running; empty lists narrow nothing.
struct JobFilter {
    std::vector<JobName> jobs;  // ids of arrays and heterogeneous jobs stand for all their parts
    std::vector<std::string> users, accounts, partitions, budgets;
};
Result<JobFilter> filter_from_json(const Json& arguments);

Json answer_tree(const EngineView& view, const Viewer& viewer);
Result<Json> answer_budget(const EngineView& view, const Viewer& viewer, const std::string& name);
Json answer_queue(const EngineView& view, const Viewer& viewer, const JobFilter& filter);
Json answer_running(const EngineView& view, const Viewer& viewer, const JobFilter& filter);
// `history`: what the ledger knows of that job.
Result<Json> answer_why(const EngineView& view, const Viewer& viewer, const JobName& job,
                        const JobHistory& history);
Json answer_health(const EngineView& view);
Json answer_preemptions(const EngineView& view, const Viewer& viewer,
                        const std::vector<PreemptionRecord>& records);
Json answer_edits(const EngineView& view, const Viewer& viewer,
                  const std::vector<EditRecord>& records);
Json answer_edit(const EditOutcome& outcome);
// Everything the simulator needs to go on from here; refused to who may not see all of it.
Result<Json> answer_snapshot(const EngineView& view, const Viewer& viewer);

}  // namespace tranche
