// SPDX-License-Identifier: GPL-2.0-or-later
// The whole of what the simulator can go on from (`sreplay snapshot`).
#include <algorithm>

#include "common/wire/budgets_json.hpp"
#include "common/wire/envelope.hpp"
#include "engine/answers.hpp"

namespace tranche {
namespace {

std::string id_of(const JobCard& card) {
    if (card.het_job_id != 0) {
        return to_text(JobName{card.het_job_id, -1, card.het_offset});
    }
    const bool is_task = card.array_job_id != 0 && card.array_task != kNoTask;
    return is_task ? to_text(JobName{card.array_job_id, card.array_task, -1})
                   : std::to_string(card.id);
}

// What pending and running jobs have in common.
Json job_row(const JobCard& card, std::int64_t gpus, std::int64_t time_limit_seconds,
             bool interactive) {
    Json row = Json::object();
    row.set("id", id_of(card)).set("name", card.name).set("user", card.user);
    row.set("account", card.account).set("budget", card.budget).set("gpus", gpus);
    row.set("min_runtime", card.terms.min_runtime_seconds).set("resumable", card.terms.resumable);
    row.set("team_priority", to_text(card.terms.team_priority));
    row.set("free_first", card.terms.free_first).set("interactive", interactive);
    if (time_limit_seconds != kNever) {
        row.set("time_limit", time_limit_seconds);
    }
    if (card.array_job_id != 0) {
        row.set("array", std::to_string(card.array_job_id));
    }
    return row.set("submit", card.first_submit_at);
}

const char* word_of(StartBlock block) {
    switch (block) {
        case StartBlock::none:
            return "";
        case StartBlock::held:
            return "held";
        case StartBlock::dependency:
            return "dependency";
        case StartBlock::begin_time:
            return "begin-time";
        case StartBlock::limit:
            return "limit";
        case StartBlock::impossible:
            return "impossible";
    }
    return "";
}

Json pending_rows(const EngineView& view) {
    Json rows = Json::array();
    for (const PendingJob& job : view.view.pending) {
        const JobCard* card = view.card(job.id);
        if (card == nullptr || !job.governed || job.turn_run >= 0) {
            continue;
        }
        Json row = job_row(*card, job.shape.gpus, job.time_limit_seconds, job.interactive);
        row.set("state", "pending").set("nodes", job.shape.nodes).set("tasks", job.tasks);
        row.set("nice", job.nice).set("type", job.shape.gpu_type);
        if (job.block != StartBlock::none) {
            row.set("blocked", word_of(job.block));
        }
        rows.append(row);
    }
    return rows;
}

void append_running(const EngineView& view, Json& rows) {
    for (const Run& run : view.view.runs) {
        const JobCard* card = view.card(run.id);
        if (card == nullptr || run.kind == RunKind::outside || run.state == RunState::completing) {
            continue;
        }
        Json where = Json::array();
        for (const NodeShare& share : run.where) {
            where.append(Json::object()
                             .set("node", view.view.nodes[share.node].name)
                             .set("gpus", share.gpus));
        }
        Json row = job_row(*card, run.gpus, run.time_limit_seconds, run.interactive);
        row.set("state", run.state == RunState::leaving ? "leaving" : "running");
        row.set("kind", run.kind == RunKind::allocated ? "allocated" : "unallocated");
        row.set("express", run.express).set("started_at", run.started_at);
        row.set("contract_left", run.commitment_seconds(view.view.now)).set("where", where);
        rows.append(row);
    }
}

Json node_rows(const EngineView& view) {
    Json rows = Json::array();
    for (const Node& node : view.view.nodes) {
        if (node.gpus > 0) {
            rows.append(Json::object()
                            .set("name", node.name)
                            .set("gpus", node.gpus)
                            .set("type", node.gpu_type)
                            .set("usable", node.usable)
                            .set("draining", node.draining));
        }
    }
    return rows;
}

// Use in the window by member and kind: how much, and its mean age, which a window whose weight
// falls in a straight line needs and no more.
Json past_rows(const EngineView& view) {
    Json rows = Json::array();
    const Standings& standings = view.standings;
    for (const MemberStanding& member : standings.members) {
        if (member.budget >= standings.budgets.size()) {
            continue;
        }
        for (const RunKind kind : {RunKind::allocated, RunKind::unallocated}) {
            const auto which = static_cast<std::size_t>(kind);
            const Int128 plain = member.usage.plain[which];
            const UInt128 faded = member.usage.faded[which];
            if (plain < 1000) {
                continue;
            }
            // faded = plain x 2 (length - mean age); flat: plain x length.
            const auto length = standings.window.length_seconds;
            const auto mean_weight = static_cast<std::int64_t>(faded / static_cast<UInt128>(plain));
            const std::int64_t mean_age =
                standings.window.shape == WindowShape::flat
                    ? length / 2
                    : std::clamp<std::int64_t>(length - mean_weight / 2, 0, length);
            rows.append(Json::object()
                            .set("budget", member.budget == kNoBudgetId
                                               ? std::string()
                                               : standings.budgets[member.budget].name)
                            .set("user", member.user)
                            .set("kind", kind == RunKind::allocated ? "allocated" : "unallocated")
                            .set("gpu_seconds", static_cast<std::int64_t>(plain / 1000))
                            .set("mean_age_seconds", mean_age));
        }
    }
    return rows;
}

}  // namespace

Result<Json> answer_snapshot(const EngineView& view, const Viewer& viewer) {
    if (!viewer.is_operator && (viewer.jobs_private || viewer.usage_private)) {
        return Error{
            "PrivateData keeps others' jobs and budgets from you; a snapshot is of all of them"};
    }
    Json settings = Json::object();
    for (const SettingRow& row : settings_table()) {
        settings.set(row.name.c_str(), setting_value(*view.settings, row.name));
    }
    Json jobs = pending_rows(view);
    append_running(view, jobs);
    return Json::object()
        .set("version", kWireVersion)
        .set("cluster", view.cluster)
        .set("at", view.view.now)
        .set("settings", settings)
        .set("budgets", budgets_to_json(*view.tree).at("budgets"))
        .set("nodes", node_rows(view))
        .set("past", past_rows(view))
        .set("jobs", jobs);
}

}  // namespace tranche
