// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/answers.hpp"

#include <algorithm>
#include <limits>

#include "common/base/quoted.hpp"
#include "common/policy/explain.hpp"
#include "common/wire/budgets_json.hpp"
#include "common/wire/envelope.hpp"
#include "common/wire/explanation_json.hpp"

namespace tranche {
namespace {

constexpr std::string_view kHiddenBudget = "another budget";
constexpr std::size_t kMostTakersInList = 5;

Json heading(const EngineView& view) {
    return Json::object()
        .set("version", kWireVersion)
        .set("cluster", view.cluster)
        .set("at", view.at);
}

ExplainInput input_of(const EngineView& view) {
    return {view.view,
            view.ranking,
            view.standings,
            *view.settings,
            view.available_weight_milli,
            &view.pass.verdicts};
}

// What of the view one viewer may see.
class Sight {
  public:
    Sight(const EngineView& view, const Viewer& viewer) : view_(view), viewer_(viewer) {
        if (sees_all_budgets()) {
            return;
        }
        for (const JobCard& card : view.cards) {
            if (card.uid == viewer.uid) {
                own_.push_back(card.budget);
            }
        }
        for (const auto& [name, budget] : view.tree->budgets()) {
            if (std::binary_search(budget.managers.begin(), budget.managers.end(), viewer.user)) {
                managed_.push_back(name);
            }
            if (BudgetTree::matches_user(budget, viewer.user)) {
                own_.push_back(name);
            }
        }
    }

    bool sees_all_jobs() const { return viewer_.is_operator || !viewer_.jobs_private; }
    bool sees_all_budgets() const { return viewer_.is_operator || !viewer_.usage_private; }
    bool job(const JobCard& card) const { return sees_all_jobs() || card.uid == viewer_.uid; }
    bool job_of(const std::string& user) const { return sees_all_jobs() || user == viewer_.user; }
    bool budget(const std::string& name) const {
        return sees_all_budgets() || std::find(own_.begin(), own_.end(), name) != own_.end() ||
               std::any_of(managed_.begin(), managed_.end(), [&](const std::string& above) {
                   return name == above || view_.tree->is_below(name, above);
               });
    }
    // Of a side's name, "progA (own)" too.
    bool side(const std::string& name) const {
        constexpr std::string_view kOwn = " (own)";
        const bool own = name.size() > kOwn.size() && name.ends_with(kOwn);
        return budget(own ? name.substr(0, name.size() - kOwn.size()) : name);
    }

    void hide(SideNumbers& numbers) const {
        if (!side(numbers.name)) {
            numbers = {std::string(kHiddenBudget), 0, 0};
        }
    }
    void hide_level(std::string& level) const {
        if (!level.empty() && level != kRootBudget && !budget(level)) {
            level = kHiddenBudget;
        }
    }
    void hide_job(JobId& job, std::string& user, std::string& budget_name) const {
        if (!job_of(user)) {
            job = 0;
            user.clear();
        }
        if (!budget(budget_name)) {
            budget_name = kHiddenBudget;
        }
    }
    void hide(TakeOutlook& outlook) const {
        hide_job(outlook.job, outlook.user, outlook.budget);
        if (!side(outlook.claimant_side.name) || !side(outlook.victim_side.name)) {
            outlook.over_milli_hours = 0;
        }
        hide(outlook.claimant_side);
        hide(outlook.victim_side);
        hide_level(outlook.level);
    }
    void hide(PendingExplanation& e) const {
        for (RankLoss& loss : e.losses) {
            hide_job(loss.job, loss.user, loss.budget);
            if (!side(loss.theirs.name) || !side(loss.ours.name)) {
                loss.behind_milli_hours = 0;
            }
            hide(loss.ours);
            hide(loss.theirs);
            hide_level(loss.level);
        }
        if (e.own_loss && !job_of(e.own_loss->user)) {
            e.own_loss->job = 0;
            e.own_loss->user.clear();
        }
        if (e.own_loss && !sees_all_budgets()) {
            e.own_loss->their_user_milli_hours = 0;
        }
        if (!sees_all_jobs()) {
            e.plan_victims.assign(e.plan_victims.size(), 0);
            e.waits_for = 0;
        }
        for (auto* list : {&e.could_take, &e.cannot_take}) {
            for (TakeOutlook& outlook : *list) {
                hide(outlook);
            }
        }
    }
    void hide(RunningExplanation& e) const {
        if (!sees_all_jobs()) {
            e.leaving_for = 0;
        }
        for (TakeOutlook& outlook : e.takers) {
            hide(outlook);
        }
    }
    // False: it is nothing of his.
    bool hide(PreemptionRecord& r) const {
        if (!sees_all_jobs() && !job_of(r.victim_user) && !job_of(r.claimant_user)) {
            return false;
        }
        hide_job(r.victim, r.victim_user, r.victim_budget);
        hide_job(r.claimant, r.claimant_user, r.claimant_budget);
        if (!side(r.victim_side)) {
            r.victim_side = kHiddenBudget;
            r.victim_charge_milli_hours = r.victim_funded_milli_hours = 0;
        }
        if (!side(r.claimant_side)) {
            r.claimant_side = kHiddenBudget;
            r.claimant_charge_milli_hours = r.claimant_funded_milli_hours = 0;
        }
        hide_level(r.level);
        return true;
    }

  private:
    const EngineView& view_;
    const Viewer& viewer_;
    std::vector<std::string> own_, managed_;
};

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

bool is_task(const JobCard& card, const JobName& name) {
    return name.id == card.array_job_id &&
           (card.array_task != kNoTask ? name.array_task == card.array_task
                                       : list_holds(card.array_tasks, name.array_task));
}

bool is_component(const JobCard& card, const JobName& name) {
    return name.id == card.het_job_id && name.het_offset == card.het_offset;
}

// An id alone stands for all tasks and components.
bool is_named(const JobCard& card, const JobName& name) {
    if (name.array_task >= 0) {
        return is_task(card, name);
    }
    if (name.het_offset >= 0) {
        return is_component(card, name);
    }
    return name.id == card.id || name.id == card.array_job_id || name.id == card.het_job_id;
}

bool passes(const JobFilter& filter, const JobCard& card) {
    const bool wanted = filter.jobs.empty() ||
                        std::any_of(filter.jobs.begin(), filter.jobs.end(),
                                    [&](const JobName& name) { return is_named(card, name); });
    return wanted && listed(filter.users, card.user) && listed(filter.accounts, card.account) &&
           listed(filter.partitions, card.partition) && listed(filter.budgets, card.budget);
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

class LevelCache {
  public:
    LevelCache(const EngineView& view, const Sight& sight) : view_(view), sight_(sight) {}

    void set(Json& row, BudgetId budget) {
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

  private:
    const EngineView& view_;
    const Sight& sight_;
    std::unordered_map<BudgetId, Json> levels_;
};

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

void set_where(Json& row, const EngineView& view, const Run& run) {
    Json nodes = Json::array();
    for (const NodeShare& share : run.where) {
        nodes.append(Json::text(view.view.nodes[share.node].name));
    }
    row.set("nodes", nodes);
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
    Json json = heading(view);
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
    Json json = heading(view);
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
        if (!card->host_reason.empty()) {
            row.set("slurm_reason", card->host_reason);
        }
        levels.set(row, job.budget);
        jobs.append(row);
    }
    return heading(view)
        .set("ranked", static_cast<std::int64_t>(view.ranking.size()))
        .set("jobs", jobs);
}

Json answer_running(const EngineView& view, const Viewer& viewer, const JobFilter& filter) {
    const Sight sight(view, viewer);
    LevelCache levels(view, sight);
    ExplainInput input = input_of(view);
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
            .set("gpus", run.gpus)
            .set("weight", Json::thousandths(run.weight_milli))
            .set("started_at", run.started_at);
        set_instant(row, "protected_until", explanation.protected_until);
        if (run.time_limit_seconds != kNever) {
            row.set("time_limit_seconds", run.time_limit_seconds);
        }
        set_where(row, view, run);
        levels.set(row, run.budget);
        jobs.append(row.set("outlook", to_json(explanation)));
    }
    return heading(view).set("jobs", jobs);
}

Result<Json> answer_why(const EngineView& view, const Viewer& viewer, const JobName& job,
                        const std::vector<PreemptionRecord>& older) {
    const Sight sight(view, viewer);
    const std::string name = to_text(job);
    const JobCard* card = find_card(view, job);
    if (card != nullptr && !sight.job(*card)) {
        card = nullptr;
    }
    // Records know a task that is gone by its own id only.
    const bool is_part = job.array_task >= 0 || job.het_offset >= 0;
    const JobId id = card != nullptr ? card->id : is_part ? 0 : static_cast<JobId>(job.id);
    const PreemptionRecord* preemption = nullptr;
    for (const auto* records : {&older, &view.recent_preemptions}) {
        for (const PreemptionRecord& record : *records) {
            if (record.victim == id && sight.job_of(record.victim_user) &&
                (preemption == nullptr || record.planned_at >= preemption->planned_at)) {
                preemption = &record;
            }
        }
    }
    if (card == nullptr && preemption == nullptr) {
        return Error{"job " + name +
                     " is not known here: neither pending nor running, nor preempted lately"};
    }
    Json json = heading(view);
    json.set("job_id", id);
    if (card != nullptr) {
        json.set("job", card_row(*card));
        if (card->pending_index >= 0 && !card->host_reason.empty()) {
            json.set("slurm_reason", card->host_reason);
        }
    }
    std::string state = "preempted";
    if (card != nullptr && card->pending_index >= 0) {
        state = "pending";
        auto explanation =
            explain_pending(input_of(view), static_cast<std::uint32_t>(card->pending_index));
        if (!explanation) {
            return Error{"job " + name + " is new; it is ranked within the next seconds"};
        }
        sight.hide(*explanation);
        json.set("pending", to_json(*explanation));
    } else if (card != nullptr && card->run_index >= 0) {
        state = "running";
        const auto run_index = static_cast<std::uint32_t>(card->run_index);
        RunningExplanation explanation = RunningExplainer(input_of(view)).explain(run_index);
        sight.hide(explanation);
        json.set("running", to_json(explanation));
        set_where(json, view, view.view.runs[run_index]);
    }
    if (preemption != nullptr) {
        PreemptionRecord shown = *preemption;
        if (sight.hide(shown)) {
            json.set("preemption", to_json(shown));
        }
    }
    return json.set("state", state);
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
    return heading(view)
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
                                .set("claimant_left", health.claimant_left))
        .set("grace_delays_milliseconds", delays)
        .set("grace_delay_p50_milliseconds", percentile(health.grace_delays_milliseconds, 50))
        .set("grace_delay_p99_milliseconds", percentile(health.grace_delays_milliseconds, 99))
        .set("dry_run", view.settings->dry_run)
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
    return heading(view).set("preemptions", list);
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
    return heading(view).set("edits", list);
}

Json answer_edit(const EditOutcome& outcome) {
    return Json::object()
        .set("version", kWireVersion)
        .set("applied", outcome.applied)
        .set("changes", changes_to_json(outcome.changes));
}

}  // namespace tranche
