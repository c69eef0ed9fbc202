// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/answers.hpp"

#include <algorithm>
#include <limits>

#include "common/base/quoted.hpp"
#include "common/policy/explain.hpp"
#include "common/wire/budgets_json.hpp"
#include "common/wire/envelope.hpp"
#include "common/wire/explanation_json.hpp"
#include "engine/answer_rows.hpp"
#include "engine/sight.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMostTakersInList = 5;

std::uint64_t fraction_today(const Standings& standings, SideId side) {
    UInt128 product = kFractionOne;
    for (const SideId step : standings.budgets[side / 2].path) {
        product = product * standings.sides[step].fraction >> kFractionBits;
        if (step == side) {
            break;
        }
    }
    return static_cast<std::uint64_t>(product);
}

struct Load {
    std::int64_t running_gpus = 0, free_gpus = 0, pending_gpus = 0;
    std::int64_t running_jobs = 0, pending_jobs = 0;
};

std::vector<Load> loads_by_side(const EngineView& view) {
    std::vector<Load> loads(view.standings.sides.size());
    const auto each = [&](BudgetId budget, auto add) {
        for (const SideId side : view.standings.budgets[budget].path) {
            add(loads[side]);
        }
        add(loads[2 * kRootId]);
    };
    for (const Run& run : view.view.runs) {
        each(run.budget, [&](Load& load) {
            (run.kind == RunKind::allocated ? load.running_gpus : load.free_gpus) += run.gpus;
            ++load.running_jobs;
        });
    }
    for (const PendingJob& job : view.view.pending) {
        each(job.budget, [&](Load& load) {
            load.pending_gpus += job.shape.gpus * job.tasks;
            load.pending_jobs += job.tasks;
        });
    }
    return loads;
}

void set_load(Json& json, const Load& load) {
    json.set("running_allocated_gpus", load.running_gpus)
        .set("running_free_gpus", load.free_gpus)
        .set("running_jobs", load.running_jobs)
        .set("pending_gpus", load.pending_gpus)
        .set("pending_jobs", load.pending_jobs);
}

std::unordered_map<std::string, BudgetId> ids_by_name(const Standings& standings) {
    std::unordered_map<std::string, BudgetId> ids;
    for (BudgetId id = 0; id < standings.budgets.size(); ++id) {
        ids.emplace(standings.budgets[id].name, id);
    }
    return ids;
}

class TreeRows {
  public:
    TreeRows(const EngineView& view, const Viewer& viewer)
        : view_(view),
          sight_(view, viewer),
          loads_(loads_by_side(view)),
          ids_(ids_by_name(view.standings)) {}

    Json all() {
        rows_ = Json::array();
        if (sight_.sees_all_budgets()) {
            Json root = Json::object();
            root.set("name", kRootBudget).set("parent", "").set("depth", 0);
            set_numbers(root, 2 * kRootId);
            root.set("funded_gpu_hours", Json::thousandths(all_funded()));
            rows_.append(root);
            append_own(kRootId, std::string(kRootBudget), 1);
        }
        append_below(std::string(kRootBudget), 1);
        if (sight_.sees_all_budgets() && used(2 * kNoBudgetId)) {
            Json none = Json::object();
            none.set("name", view_.standings.budgets[kNoBudgetId].name)
                .set("parent", "")
                .set("depth", 1)
                .set("unpaid", true);
            set_numbers(none, 2 * kNoBudgetId);
            rows_.append(none);
        }
        return rows_;
    }

    Json one(const Budget& budget) { return row_of(budget, view_.tree->depth(budget.name)); }

  private:
    bool used(SideId side) const {
        if (side >= view_.standings.sides.size()) {
            return false;
        }
        const SideStanding& standing = view_.standings.sides[side];
        return standing.usage.plain[0] != 0 || standing.usage.plain[1] != 0 ||
               loads_[side].running_jobs > 0 || loads_[side].pending_jobs > 0;
    }

    // Of the sides that compete directly below root.
    std::int64_t all_funded() const {
        std::int64_t sum = funded_milli_hours(view_, 2 * kRootId + 1);
        for (BudgetId id = 1; id < view_.standings.budgets.size(); ++id) {
            const BudgetPlace& place = view_.standings.budgets[id];
            sum += place.parent == kRootId && place.exists ? funded_milli_hours(view_, 2 * id) : 0;
        }
        return sum;
    }

    void set_numbers(Json& row, SideId side) {
        const std::uint64_t fraction =
            side == 2 * kRootId ? kFractionOne : fraction_today(view_.standings, side);
        row.set("funded_fraction", Json::thousandths(static_cast<std::int64_t>(
                                       (fraction * 1000 + kFractionOne / 2) >> kFractionBits)))
            .set("funded_gpus", Json::thousandths(static_cast<std::int64_t>(
                                    static_cast<UInt128>(fraction) *
                                        static_cast<UInt128>(view_.view.available_gpus()) * 1000 >>
                                    kFractionBits)));
        set_side_numbers(row, view_, side);
        set_load(row, loads_[side]);
    }

    Json row_of(const Budget& budget, std::size_t depth) {
        Json row = budget_to_json(budget);
        row.set("depth", static_cast<std::int64_t>(depth));
        if (const auto it = ids_.find(budget.name); it != ids_.end()) {
            set_numbers(row, 2 * it->second);
        }
        return row;
    }

    // The own side of an inner budget, where it has one.
    void append_own(BudgetId id, const std::string& name, std::size_t depth) {
        const SideId side = 2 * id + 1;
        if (!view_.tree->has_children(name) || side >= view_.standings.sides.size() ||
            (view_.standings.sides[side].shares == 0 && !used(side))) {
            return;
        }
        Json row = Json::object();
        row.set("name", side_name(view_.standings, side))
            .set("parent", name)
            .set("depth", static_cast<std::int64_t>(depth))
            .set("own_side", true)
            .set("shares", view_.standings.sides[side].shares);
        set_numbers(row, side);
        rows_.append(row);
    }

    void append_below(const std::string& parent, std::size_t depth) {
        for (const std::string& name : view_.tree->children(parent)) {
            if (sight_.budget(name)) {
                rows_.append(row_of(*view_.tree->find(name), depth));
                if (const auto it = ids_.find(name); it != ids_.end()) {
                    append_own(it->second, name, depth + 1);
                }
            }
            append_below(name, depth + 1);
        }
    }

    const EngineView& view_;
    Sight sight_;
    std::vector<Load> loads_;
    std::unordered_map<std::string, BudgetId> ids_;
    Json rows_;
};

bool listed(const std::vector<std::string>& list, const std::string& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

bool passes(const JobFilter& filter, const JobCard& card) {
    const bool wanted = filter.jobs.empty() ||
                        std::any_of(filter.jobs.begin(), filter.jobs.end(),
                                    [&](const JobName& name) { return is_named(card, name); });
    return wanted && listed(filter.users, card.user) && listed(filter.accounts, card.account) &&
           listed(filter.partitions, card.partition) && listed(filter.budgets, card.budget);
}

// Nearest rank; 0 of nothing.
std::int64_t percentile(std::vector<std::int64_t> values, std::size_t percent) {
    if (values.empty()) {
        return 0;
    }
    const std::size_t rank = (values.size() * percent + 99) / 100 - 1;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank),
                     values.end());
    return values[rank];
}

}  // namespace

Result<JobFilter> filter_from_json(const Json& arguments) {
    JobFilter filter;
    ObjectReader reader(arguments, "arguments");
    if (const auto jobs = reader.array("jobs")) {
        for (std::size_t i = 0; i < jobs->size(); ++i) {
            const Json job = jobs->at(i);
            const auto name =
                parse_job_name(job.is_integer() ? std::to_string(job.as_integer()) : job.as_text());
            if (!name.ok()) {
                reader.refuse("jobs", "holds something that is not a job id");
                break;
            }
            filter.jobs.push_back(*name);
        }
    }
    const auto names = [&](const char* key) {
        return reader.texts(key).value_or(std::vector<std::string>());
    };
    filter.users = names("users");
    filter.accounts = names("accounts");
    filter.partitions = names("partitions");
    filter.budgets = names("budgets");
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    return filter;
}

Json answer_tree(const EngineView& view, const Viewer& viewer) {
    Json json = answer_heading(view);
    json.set("window_seconds", view.standings.window.length_seconds)
        .set("available_gpus", view.view.available_gpus())
        .set("available_weight", Json::thousandths(view.available_weight_milli))
        .set("budgets", TreeRows(view, viewer).all());
    return json;
}

Result<Json> answer_budget(const EngineView& view, const Viewer& viewer, const std::string& name) {
    const Sight sight(view, viewer);
    const Budget* budget = view.tree->find(name);
    if (budget == nullptr || !sight.budget(name)) {
        return Error{"budget " + quoted(name) + " does not exist"};
    }
    Json json = answer_heading(view);
    json.set("window_seconds", view.standings.window.length_seconds)
        .set("available_gpus", view.view.available_gpus())
        .set("budget", TreeRows(view, viewer).one(*budget))
        .set("children", Json::texts(view.tree->children(name)));
    Json users = Json::array();
    for (const MemberStanding& member : view.standings.members) {
        if (view.standings.budgets[member.budget].name != name) {
            continue;
        }
        const auto plain = [&](RunKind kind) {
            return plain_milli_hours(member.usage.plain[static_cast<std::size_t>(kind)]);
        };
        users.append(
            Json::object()
                .set("user", member.user)
                .set("used_gpu_hours", Json::thousandths(plain(RunKind::allocated)))
                .set("free_gpu_hours", Json::thousandths(plain(RunKind::unallocated)))
                .set("faded_charge_gpu_hours",
                     Json::thousandths(faded_milli_hours(member.charge(), view.standings.window)))
                .set("committed_gpu_hours", Json::thousandths(faded_milli_hours(
                                                member.commitment, view.standings.window))));
    }
    return json.set("users", users);
}

Json answer_queue(const EngineView& view, const Viewer& viewer, const JobFilter& filter) {
    const Sight sight(view, viewer);
    LevelCache levels(view, sight);
    Json jobs = Json::array();
    for (std::size_t i = 0; i < view.ranking.size(); ++i) {
        const RankedEntry& entry = view.ranking[i];
        const PendingJob& job = view.view.pending[entry.job];
        const JobCard* card = view.card(job.id);
        if (card == nullptr || !sight.job(*card) || !passes(filter, *card)) {
            continue;
        }
        Json row = Json::object();
        row.set("rank", static_cast<std::int64_t>(i + 1));
        const Json about = card_row(*card);
        for (const std::string& key : about.keys()) {
            row.set(key.c_str(), about.at(key.c_str()));
        }
        if (job.tasks > 1 || entry.first_task > 0) {
            row.set("tasks", entry.tasks).set("first_pending_task", entry.first_task);
        }
        row.set("band", to_text(entry.band))
            .set("could_start", entry.counts)
            .set("nodes", job.shape.nodes)
            .set("gpus", job.shape.gpus)
            .set("weight", Json::thousandths(job.weight_milli));
        if (entry.job < view.pass.verdicts.size()) {
            const JobVerdict& verdict = view.pass.verdicts[entry.job];
            row.set("wait_reason", to_text(verdict.reason));
            if (verdict.express_cap != ExpressCap::none) {
                row.set("express_cap", to_text(verdict.express_cap));
            }
            set_instant(row, "next_change_at", verdict.next_change_at);
        }
        set_expected_start(row, view, job.id);
        if (!card->host_reason.empty()) {
            row.set("slurm_reason", card->host_reason);
        }
        levels.set(row, job.budget);
        jobs.append(row);
    }
    return answer_heading(view)
        .set("ranked", static_cast<std::int64_t>(view.ranking.size()))
        .set("jobs", jobs);
}

Json answer_running(const EngineView& view, const Viewer& viewer, const JobFilter& filter) {
    const Sight sight(view, viewer);
    LevelCache levels(view, sight);
    ExplainInput input = explain_input(view);
    input.most = kMostTakersInList;
    const RunningExplainer explainer(input);
    Json jobs = Json::array();
    for (std::uint32_t i = 0; i < view.view.runs.size(); ++i) {
        const Run& run = view.view.runs[i];
        const JobCard* card = view.card(run.id);
        if (card == nullptr || !sight.job(*card) || !passes(filter, *card)) {
            continue;
        }
        RunningExplanation explanation = explainer.explain(i);
        sight.hide(explanation);
        Json row = card_row(*card);
        row.set("kind", run.kind == RunKind::allocated     ? "allocated"
                        : run.kind == RunKind::unallocated ? "free"
                                                           : "outside")
            .set("express", run.express)
            .set("free_first", run.free_first)
            .set("wants_turn", run.wants_turn)
            .set("gpus", run.gpus)
            .set("weight", Json::thousandths(run.weight_milli))
            .set("started_at", run.started_at);
        set_instant(row, "protected_until", explanation.protected_until);
        set_instant(row, "checkpointed_at", run.checkpointed_at);
        if (run.time_limit_seconds != kNever) {
            row.set("time_limit_seconds", run.time_limit_seconds);
        }
        set_where(row, view, run);
        levels.set(row, run.budget);
        jobs.append(row.set("outlook", to_json(explanation)));
    }
    return answer_heading(view).set("jobs", jobs);
}

Json answer_health(const EngineView& view) {
    const EngineHealth& health = view.health;
    Json delays = Json::array();
    for (const std::int64_t delay : health.grace_delays_milliseconds) {
        delays.append(Json::integer(delay));
    }
    std::int64_t pending_tasks = 0;
    for (const PendingJob& job : view.view.pending) {
        pending_tasks += job.tasks;
    }
    Json settings = Json::object();
    for (const SettingRow& row : settings_table()) {
        settings.set(row.name.c_str(), setting_value(*view.settings, row.name));
    }
    return answer_heading(view)
        .set("started_at", health.started_at)
        .set("cycles", health.cycles)
        .set("last_cycle_at", health.last_cycle_at)
        .set("rank_microseconds", health.last_rank_microseconds)
        .set("collect_microseconds", health.last_collect_microseconds)
        .set("faults", health.faults)
        .set("last_fault", health.last_fault)
        .set("database_ok", health.database_ok)
        .set("database", health.database_text)
        .set("open_runs", health.open_runs)
        .set("pending_jobs", pending_tasks)
        .set("running_jobs", static_cast<std::int64_t>(view.view.runs.size()))
        .set("plans", static_cast<std::int64_t>(view.view.plans.size()))
        .set("budgets", static_cast<std::int64_t>(view.tree->budgets().size()))
        .set("preemptions", Json::object()
                                .set("total", health.preemptions)
                                .set("wasted", health.wasted)
                                .set("overtaken", health.overtaken)
                                .set("claimant_left", health.claimant_left)
                                .set("rehearsed", health.rehearsed))
        .set("grace_delays_milliseconds", delays)
        .set("grace_delay_p50_milliseconds", percentile(health.grace_delays_milliseconds, 50))
        .set("grace_delay_p99_milliseconds", percentile(health.grace_delays_milliseconds, 99))
        .set("dry_run", view.settings->dry_run)
        .set("ordered_by", health.rehearses ? view.settings->dry_run_priority_type
                                            : std::string("priority/budget"))
        .set("complaints", Json::texts(health.complaints))
        .set("settings", settings);
}

Json answer_preemptions(const EngineView& view, const Viewer& viewer,
                        const std::vector<PreemptionRecord>& records) {
    const Sight sight(view, viewer);
    Json list = Json::array();
    for (PreemptionRecord record : records) {
        if (sight.hide(record)) {
            list.append(to_json(record));
        }
    }
    return answer_heading(view).set("preemptions", list);
}

Json answer_edits(const EngineView& view, const Viewer& viewer,
                  const std::vector<EditRecord>& records) {
    const Sight sight(view, viewer);
    Json list = Json::array();
    for (const EditRecord& record : records) {
        if (sight.budget(record.change.budget)) {
            list.append(Json::object()
                            .set("at", record.at)
                            .set("user", record.user)
                            .set("budget", record.change.budget)
                            .set("field", record.change.field)
                            .set("before", record.change.before)
                            .set("after", record.change.after)
                            .set("reason", record.reason));
        }
    }
    return answer_heading(view).set("edits", list);
}

Json answer_edit(const EditOutcome& outcome) {
    return Json::object()
        .set("version", kWireVersion)
        .set("applied", outcome.applied)
        .set("changes", changes_to_json(outcome.changes));
}

}  // namespace tranche
