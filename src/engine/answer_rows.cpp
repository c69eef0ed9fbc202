// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/answer_rows.hpp"

#include <algorithm>
#include <limits>

#include "common/wire/envelope.hpp"
#include "common/wire/explanation_json.hpp"

namespace tranche {
namespace {

bool is_task(const JobCard& card, const JobName& name) {
    return name.id == card.array_job_id &&
           (card.array_task != kNoTask ? name.array_task == card.array_task
                                       : list_holds(card.array_tasks, name.array_task));
}

bool is_component(const JobCard& card, const JobName& name) {
    return name.id == card.het_job_id && name.het_offset == card.het_offset;
}

// The sides on the way to where the budget's jobs compete, each with its ratio.
Json levels_of(const EngineView& view, BudgetId budget) {
    Json levels = Json::array();
    for (const SideId side : view.standings.budgets[budget].path) {
        Json level = Json::object();
        level.set("side", side_name(view.standings, side));
        set_side_numbers(level, view, side);
        levels.append(level);
    }
    return levels;
}

}  // namespace

Json answer_heading(const EngineView& view) {
    return Json::object()
        .set("version", kWireVersion)
        .set("cluster", view.cluster)
        .set("at", view.at);
}

ExplainInput explain_input(const EngineView& view) {
    return {view.view,
            view.ranking,
            view.standings,
            *view.settings,
            view.available_weight_milli,
            &view.pass.verdicts};
}

Json card_row(const JobCard& card) {
    Json row = Json::object();
    row.set("job_id", card.id);
    if (card.array_job_id != 0) {
        row.set("array_job_id", card.array_job_id);
        if (card.array_task != kNoTask) {
            row.set("array_task_id", card.array_task);
        }
    }
    if (card.het_job_id != 0) {
        row.set("het_job_id", card.het_job_id).set("het_offset", card.het_offset);
    }
    return row.set("name", card.name)
        .set("user", card.user)
        .set("account", card.account)
        .set("partition", card.partition)
        .set("budget", card.budget)
        .set("min_runtime_seconds", card.terms.min_runtime_seconds)
        .set("min_runtime_declared", card.terms.declared_min_runtime)
        .set("resumable", card.terms.resumable)
        .set("team_priority", to_text(card.terms.team_priority))
        .set("submit_at", card.submit_at)
        .set("first_submit_at", card.first_submit_at)
        .set("runs", card.runs)
        .set("priority", card.priority);
}

void set_where(Json& row, const EngineView& view, const Run& run) {
    Json nodes = Json::array();
    for (const NodeShare& share : run.where) {
        nodes.append(Json::text(view.view.nodes[share.node].name));
    }
    row.set("nodes", nodes);
}

void set_expected_start(Json& row, const EngineView& view, JobId job) {
    for (const Assembly& assembly : view.view.assemblies) {
        if (assembly.claimant == job) {
            set_instant(row, "expected_start_at", assembly.date_at);
            return;
        }
    }
    if (view.starts == nullptr) {
        return;
    }
    if (const auto it = view.starts->find(job); it != view.starts->end() && it->second > view.at) {
        set_instant(row, "expected_start_at", it->second);
    }
}

std::int64_t funded_milli_hours(const EngineView& view, SideId side) {
    return side < view.funded_milli_seconds.size() ? view.funded_milli_seconds[side] / 3600 : 0;
}

std::optional<std::int64_t> ratio_of(const EngineView& view, SideId side) {
    const std::uint64_t ratio =
        shown_ratio_milli(view.standings, side, view.available_weight_milli);
    if (view.standings.sides[side].entitlement == 0 ||
        ratio > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(ratio);
}

void set_side_numbers(Json& json, const EngineView& view, SideId side) {
    const SideStanding& standing = view.standings.sides[side];
    const SideNumbers numbers =
        side_numbers(view.standings, side, standing.charge(), view.available_weight_milli);
    const auto plain = [&](RunKind kind) {
        return Json::thousandths(
            plain_milli_hours(standing.usage.plain[static_cast<std::size_t>(kind)]));
    };
    json.set("used_gpu_hours", plain(RunKind::allocated))
        .set("funded_gpu_hours", Json::thousandths(funded_milli_hours(view, side)))
        .set("free_gpu_hours", plain(RunKind::unallocated))
        .set("faded_charge_gpu_hours", Json::thousandths(numbers.charge_milli_hours))
        .set("committed_gpu_hours",
             Json::thousandths(faded_milli_hours(standing.commitment, view.standings.window)))
        .set("entitlement_gpu_hours", Json::thousandths(numbers.entitled_milli_hours));
    set_ratio(json, "ratio", ratio_of(view, side));
}

bool is_named(const JobCard& card, const JobName& name) {
    if (name.array_task >= 0) {
        return is_task(card, name);
    }
    if (name.het_offset >= 0) {
        return is_component(card, name);
    }
    return name.id == card.id || name.id == card.array_job_id || name.id == card.het_job_id;
}

const JobCard* find_card(const EngineView& view, const JobName& name) {
    const JobCard* of_array = nullptr;
    const bool is_whole = name.array_task < 0 && name.het_offset < 0;
    for (const JobCard& card : view.cards) {
        if (is_whole ? card.id == name.id : is_named(card, name)) {
            return &card;
        }
        // The record that stands for the tasks without one of their own, else any.
        if (is_whole && card.array_job_id == name.id &&
            (of_array == nullptr || card.array_task == kNoTask)) {
            of_array = &card;
        }
    }
    return of_array;
}

void LevelCache::set(Json& row, BudgetId budget) {
    if (!sight_.budget(view_.standings.budgets[budget].name)) {
        return;
    }
    const auto it = levels_.find(budget);
    const Json& levels = it != levels_.end()
                             ? it->second
                             : levels_.emplace(budget, levels_of(view_, budget)).first->second;
    row.set("levels", levels);
    if (levels.size() > 0) {
        const Json last = levels.at(levels.size() - 1);
        row.set("used_gpu_hours", last.at("used_gpu_hours"))
            .set("funded_gpu_hours", last.at("funded_gpu_hours"))
            .set("ratio", last.at("ratio"));
    }
}

}  // namespace tranche
