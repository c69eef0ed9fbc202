// SPDX-License-Identifier: GPL-2.0-or-later
// Why one job waits, runs, was preempted or ended: from the published view while slurmctld knows
// it, from the ledger at any time.
#include <algorithm>

#include "common/wire/explanation_json.hpp"
#include "engine/answer_rows.hpp"
#include "engine/answers.hpp"
#include "engine/sight.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMostRuns = 20;
constexpr std::size_t kMostPreemptions = 20;

// Segments of one run follow each other: it was suspended, resized or turned in between.
std::vector<PastRun> runs_of(const std::vector<SegmentRow>& segments, const Sight& sight) {
    std::vector<PastRun> runs;
    std::vector<std::int64_t> submits;
    for (const SegmentRow& row : segments) {
        if (!sight.job_of(row.user)) {
            continue;
        }
        std::size_t at = runs.size();
        for (std::size_t i = runs.size(); i-- > 0;) {
            if (runs[i].job == row.key.job_id && submits[i] == row.key.submit_at) {
                at = i;
                break;
            }
        }
        if (at == runs.size()) {
            PastRun& run = runs.emplace_back();
            submits.push_back(row.key.submit_at);
            run.job = row.key.job_id;
            run.number = row.run;
            run.began_at = row.key.begin_at;
        }
        PastRun& run = runs[at];
        run.budget = sight.budget(row.budget) ? row.budget : std::string(kHiddenBudget);
        run.user = row.user;
        run.allocated = row.kind == RunKind::allocated;
        run.gpus = row.gpus;
        run.nodes = row.nodes;
        run.ended_at = row.ended_at;
        run.end = row.ended_at == 0 ? "" : row.end_reason;
        run.protected_until = std::max(run.protected_until, row.protected_until);
        if (run.allocated && row.ended_at != 0) {
            run.charged_milli_hours +=
                row.weight_milli * std::max<std::int64_t>(row.charged_until - row.key.begin_at, 0) /
                3600;
        }
    }
    if (runs.size() > kMostRuns) {
        runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kMostRuns));
    }
    return runs;
}

// Those of the ledger and those of the view: what happened a moment ago is not written yet.
std::vector<PreemptionRecord> preemptions_of(const EngineView& view, const JobHistory& history,
                                             const std::vector<JobId>& ids) {
    std::vector<PreemptionRecord> records;
    const auto is_ours = [&](JobId id) {
        return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    const auto add = [&](const PreemptionRecord& record) {
        if (!is_ours(record.victim) && !is_ours(record.claimant)) {
            return;
        }
        for (PreemptionRecord& known : records) {
            if (known.victim == record.victim && known.claimant == record.claimant &&
                known.planned_at == record.planned_at) {
                known = record;
                return;
            }
        }
        records.push_back(record);
    };
    std::for_each(history.preemptions.begin(), history.preemptions.end(), add);
    std::for_each(view.recent_preemptions.begin(), view.recent_preemptions.end(), add);
    std::stable_sort(records.begin(), records.end(),
                     [](const PreemptionRecord& a, const PreemptionRecord& b) {
                         return a.planned_at < b.planned_at;
                     });
    return records;
}

void set_array(Json& json, const EngineView& view, const JobName& job) {
    std::int64_t pending = 0, running = 0;
    for (const JobCard& card : view.cards) {
        if (card.array_job_id != job.id) {
            continue;
        }
        if (card.run_index >= 0) {
            ++running;
        } else if (card.pending_index >= 0) {
            pending += view.view.pending[static_cast<std::size_t>(card.pending_index)].tasks;
        }
    }
    if (job.array_task < 0 && pending + running > 0) {
        json.set("array", Json::object().set("pending", pending).set("running", running));
    }
}

// Which of the preemptions explain what became of it: those it suffered, newest last, and for
// whom it made others leave.
void set_preemptions(Json& json, std::vector<PreemptionRecord> records,
                     const std::vector<JobId>& ids, const Sight& sight) {
    Json suffered = Json::array(), caused = Json::array();
    const PreemptionRecord* last = nullptr;
    if (records.size() > kMostPreemptions) {
        records.erase(records.begin(),
                      records.end() - static_cast<std::ptrdiff_t>(kMostPreemptions));
    }
    for (PreemptionRecord& record : records) {
        const bool is_victim = std::find(ids.begin(), ids.end(), record.victim) != ids.end();
        if (!sight.hide(record)) {
            continue;
        }
        (is_victim ? suffered : caused).append(to_json(record));
        last = is_victim ? &record : last;
    }
    if (last != nullptr) {
        json.set("preemption", to_json(*last));
    }
    json.set("preemptions", Json::object().set("suffered", suffered).set("caused", caused));
}

// A large job's turn for an assembly and what came of it.
Json to_json(const AssemblyRow& row) {
    Json json = Json::object();
    set_instant(json, "turn_at", row.turn_at);
    set_instant(json, "granted_at", row.granted_at);
    set_instant(json, "date_at", row.date_at);
    if (row.granted_at != 0) {
        Json nodes = Json::array();
        for (const std::string& node : row.nodes) {
            nodes.append(Json::text(node));
        }
        json.set("nodes", nodes);
    }
    set_instant(json, "started_at", row.started_at);
    set_instant(json, "ended_at", row.ended_at);
    if (!row.outcome.empty()) {
        json.set("outcome", row.outcome);
    }
    return json;
}

}  // namespace

Result<Json> answer_why(const EngineView& view, const Viewer& viewer, const JobName& job,
                        const JobHistory& history) {
    const Sight sight(view, viewer);
    const std::string name = to_text(job);
    const JobCard* card = find_card(view, job);
    if (card != nullptr && !sight.job(*card)) {
        card = nullptr;
    }
    const bool is_part = job.array_task >= 0 || job.het_offset >= 0;
    std::vector<JobId> ids;  // what the name stands for, the newest first
    if (card != nullptr) {
        ids.push_back(card->id);
    } else {
        for (const PartRow& part : history.parts) {
            ids.push_back(part.id);
        }
        if (!is_part) {
            ids.push_back(static_cast<JobId>(job.id));
        }
    }
    std::vector<PastRun> runs = runs_of(history.segments, sight);
    if (card != nullptr) {
        std::erase_if(runs, [&](const PastRun& run) { return run.job != card->id; });
    }
    const std::vector<PreemptionRecord> preemptions = preemptions_of(view, history, ids);
    const bool was_preempted =
        std::any_of(preemptions.begin(), preemptions.end(), [&](const PreemptionRecord& record) {
            return std::find(ids.begin(), ids.end(), record.victim) != ids.end() &&
                   sight.job_of(record.victim_user);
        });
    const AssemblyRow* assembly = nullptr;
    for (const JobId id : ids) {
        if (const AssemblyRow* row = view.assembly(id);
            assembly == nullptr && row != nullptr && sight.job_of(row->user)) {
            assembly = row;
        }
    }
    if (card == nullptr && runs.empty() && !was_preempted && assembly == nullptr) {
        return Error{"job " + name +
                     " is not known: it neither waits nor runs, and the ledger "
                     "has no run of it"};
    }
    Json json = answer_heading(view);
    json.set("job_id", card != nullptr ? card->id
                       : runs.empty()  ? ids.front()
                                       : runs.back().job)
        .set("name", name);
    set_array(json, view, job);
    if (assembly != nullptr) {
        json.set("assembly", to_json(*assembly));
    }
    std::string state = was_preempted ? "preempted" : "ended";
    if (card != nullptr) {
        json.set("job", card_row(*card));
        if (card->pending_index >= 0 && !card->host_reason.empty()) {
            json.set("slurm_reason", card->host_reason);
        }
    } else if (!runs.empty()) {
        state = runs.back().ended_at == 0 ? "ending" : runs.back().end;
    }
    if (card != nullptr && card->pending_index >= 0) {
        state = "pending";
        auto explanation =
            explain_pending(explain_input(view), static_cast<std::uint32_t>(card->pending_index));
        if (!explanation) {
            return Error{"job " + name + " is new; it is ranked within the next seconds"};
        }
        sight.hide(*explanation);
        json.set("pending", to_json(*explanation));
        set_expected_start(json, view, card->id);
    } else if (card != nullptr && card->run_index >= 0) {
        state = "running";
        const auto run_index = static_cast<std::uint32_t>(card->run_index);
        RunningExplanation explanation = RunningExplainer(explain_input(view)).explain(run_index);
        sight.hide(explanation);
        json.set("running", to_json(explanation));
        set_where(json, view, view.view.runs[run_index]);
    }
    Json list = Json::array();
    for (const PastRun& run : runs) {
        list.append(to_json(run));
    }
    json.set("runs", list);
    set_preemptions(json, preemptions, ids, sight);
    return json.set("state", state);
}

}  // namespace tranche
