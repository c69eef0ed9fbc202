// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/own_answers.hpp"

#include <algorithm>
#include <optional>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "common/policy/classes.hpp"
#include "common/policy/outlook.hpp"
#include "common/wire/explanation_json.hpp"
#include "engine/answer_rows.hpp"
#include "engine/sight.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMostSooner = 5;
constexpr std::int64_t kWorthASecond = 60;  // so much sooner, at least
constexpr std::int64_t kShortestTried = 15 * 60;
constexpr std::size_t kMostFollowed = 1000;  // jobs before the tried one
constexpr std::int64_t kTriedLimit = 86400;  // where no time limit is said

// What is asked for, in the words of sbatch.
struct TryShape {
    std::int64_t nodes = 0;  // 0: as few as hold the GPUs
    std::int64_t gpus = -1;  // of all nodes; -1: whole nodes
    std::string gpu_type;
    std::int64_t min_runtime_seconds = 0;
    std::int64_t time_limit_seconds = 0;
    bool resumable = false;
    bool exclusive = false;
    TeamPriority team_priority = TeamPriority::normal;

    bool operator==(const TryShape&) const = default;
};

struct Tried {
    TryShape shape;
    PendingJob job;
    Band band = Band::unallocated;
    std::size_t rank = 0, ranked = 0;
    JobVerdict verdict;
    std::int64_t start_at = kNever;
};

// A view with one more job, as if it had been submitted now.
class Trial {
  public:
    Trial(const EngineView& view, const std::string& user, const std::string& budget,
          std::uint32_t node_set)
        : view_(view), with_(view.view), standings_(view.standings), node_set_(node_set) {
        for (BudgetId id = 0; id < standings_.budgets.size(); ++id) {
            if (!budget.empty() && standings_.budgets[id].name == budget) {
                budget_ = id;
            }
        }
        const auto known = std::find_if(
            standings_.members.begin(), standings_.members.end(),
            [&](const MemberStanding& m) { return m.budget == budget_ && m.user == user; });
        member_ = static_cast<MemberId>(known - standings_.members.begin());
        if (known == standings_.members.end()) {
            MemberStanding& member = standings_.members.emplace_back();
            member.budget = budget_;
            member.user = user;
        }
        with_.pending.emplace_back();
    }

    Result<Tried> run(const TryShape& shape) {
        Tried tried;
        tried.shape = shape;
        PendingJob& job = with_.pending.back();
        job = PendingJob();
        job.id = UINT32_MAX;
        job.budget = budget_;
        job.member = member_;
        if (const Status status = fill(job.shape, tried.shape); !status.ok()) {
            return status.failure();
        }
        job.weight_milli = job.shape.gpus * view_.settings->gpu_weight_milli(job.shape.gpu_type);
        job.min_runtime_seconds = shape.min_runtime_seconds;
        job.time_limit_seconds = shape.time_limit_seconds;
        job.first_submit_at = view_.at;
        job.team_priority = shape.team_priority;
        job.resumable = shape.resumable;
        const auto index = static_cast<std::uint32_t>(with_.pending.size() - 1);
        const std::vector<RankedEntry> ranking = rank_queue(with_, standings_, *view_.settings);
        tried.ranked = ranking.size();
        for (std::size_t i = 0; i < ranking.size(); ++i) {
            if (ranking[i].job == index) {
                tried.rank = i + 1;
                tried.band = ranking[i].band;
            }
        }
        tried.job = job;
        tried.verdict =
            run_pass(with_, ranking, standings_, *view_.settings, view_.pass_rules).verdicts[index];
        OutlookOptions options;
        options.most_jobs = tried.rank + 20;
        if (tried.rank <= kMostFollowed) {
            tried.start_at = expected_starts(with_, ranking, standings_, *view_.settings,
                                             view_.pass_rules, options)[index];
        }
        return tried;
    }

  private:
    Status fill(JobShape& shape, TryShape& asked) const {
        std::int64_t most = 0;
        for (NodeIndex n = 0; n < with_.nodes.size(); ++n) {
            const Node& node = with_.nodes[n];
            if (with_.node_sets[node_set_][n] && node.usable &&
                (asked.gpu_type.empty() || node.gpu_type == asked.gpu_type)) {
                most = std::max(most, node.gpus);
            }
        }
        if (most == 0) {
            return Error{asked.gpu_type.empty()
                             ? std::string("no usable node there has GPUs")
                             : "no usable node there has GPUs of type " + quoted(asked.gpu_type)};
        }
        if (asked.gpus < 0) {
            asked.gpus = most * std::max<std::int64_t>(asked.nodes, 1);
        }
        if (asked.nodes == 0) {
            asked.nodes = std::max<std::int64_t>((asked.gpus + most - 1) / most, 1);
        }
        if (asked.exclusive) {
            asked.gpus = std::max(asked.gpus, most * asked.nodes);
        }
        shape.nodes = static_cast<std::uint32_t>(asked.nodes);
        shape.gpus = asked.gpus;
        shape.gpu_type = asked.gpu_type;
        shape.exclusive = asked.exclusive;
        shape.node_set = node_set_;
        if (!could_fit(with_, shape, false)) {
            return Error{std::to_string(asked.gpus) + " GPUs on " + std::to_string(asked.nodes) +
                         (asked.nodes == 1 ? " node" : " nodes") + " can never start: a node has " +
                         std::to_string(most) + " GPUs at most"};
        }
        return {};
    }

    const EngineView& view_;
    ClusterView with_;
    Standings standings_;
    const std::uint32_t node_set_;
    BudgetId budget_ = kNoBudgetId;
    MemberId member_ = 0;
};

Json to_json(const Tried& tried, std::int64_t now) {
    Json json = Json::object();
    json.set("nodes", tried.shape.nodes)
        .set("gpus", tried.shape.gpus)
        .set("min_runtime_seconds", tried.shape.min_runtime_seconds)
        .set("resumable", tried.shape.resumable)
        .set("exclusive", tried.shape.exclusive)
        .set("class", to_text(tried.band))
        .set("rank", static_cast<std::int64_t>(tried.rank))
        .set("ranked", static_cast<std::int64_t>(tried.ranked))
        .set("wait_reason", to_text(tried.verdict.reason));
    if (tried.verdict.reason == WaitReason::starting) {
        json.set("expected_start_at", now);
    } else {
        set_instant(json, "expected_start_at", tried.start_at);
    }
    return json;
}

// What the owner could give up: GPUs, length, his contract.
std::vector<TryShape> smaller_than(const TryShape& asked, const Settings& settings) {
    std::vector<TryShape> out;
    const auto add = [&](std::int64_t parts, std::int64_t min_runtime_seconds) {
        TryShape shape = asked;
        shape.min_runtime_seconds = min_runtime_seconds;
        if (parts > 1) {
            if (shape.gpus % parts != 0) {
                return;
            }
            shape.gpus /= parts;
            shape.nodes = shape.nodes % parts == 0 ? shape.nodes / parts : 1;
            shape.exclusive = shape.exclusive && shape.nodes * parts == asked.nodes;
        }
        if (!(shape == asked) && std::find(out.begin(), out.end(), shape) == out.end()) {
            out.push_back(shape);
        }
    };
    std::vector<std::int64_t> lengths = {asked.min_runtime_seconds};
    for (const std::int64_t part : {2, 4}) {
        if (asked.min_runtime_seconds / part >= kShortestTried) {
            lengths.push_back(asked.min_runtime_seconds / part);
        }
    }
    if (asked.min_runtime_seconds > settings.express_min_runtime_seconds &&
        settings.express_fraction_ppm > 0) {
        lengths.push_back(settings.express_min_runtime_seconds);
    }
    for (const std::int64_t parts : {1, 2, 4, 8}) {
        for (const std::int64_t length : lengths) {
            add(parts, length);
        }
    }
    add(1, 0);
    return out;
}

// Where jobs of that partition may run, as one that is known now says; nullopt: none is.
std::optional<std::uint32_t> node_set_of(const EngineView& view, const std::string& partition) {
    std::optional<std::uint32_t> best;
    std::ptrdiff_t most = 0;
    for (const JobCard& card : view.cards) {
        if (card.partition != partition || card.pending_index < 0) {
            continue;
        }
        const std::uint32_t set =
            view.view.pending[static_cast<std::size_t>(card.pending_index)].shape.node_set;
        const auto& nodes = view.view.node_sets[set];
        const std::ptrdiff_t count = std::count(nodes.begin(), nodes.end(), true);
        if (count > most) {
            most = count;
            best = set;
        }
    }
    return best;
}

}  // namespace

Json answer_me(const EngineView& view, const Viewer& viewer) {
    JobFilter mine;
    mine.users = {viewer.user};
    Json budgets = Json::array();
    for (const MemberStanding& member : view.standings.members) {
        const bool has_jobs =
            std::any_of(view.cards.begin(), view.cards.end(), [&](const JobCard& card) {
                return card.user == viewer.user && !card.budget.empty() &&
                       card.budget == view.standings.budgets[member.budget].name;
            });
        if (member.user != viewer.user || member.budget == kNoBudgetId ||
            (member.usage.plain[0] == 0 && member.usage.plain[1] == 0 && !has_jobs)) {
            continue;
        }
        const BudgetPlace& place = view.standings.budgets[member.budget];
        Json row = Json::object();
        row.set("budget", place.name);
        if (!place.path.empty()) {
            set_side_numbers(row, view, place.path.back());
        }
        const auto plain = [&](RunKind kind) {
            return Json::thousandths(
                plain_milli_hours(member.usage.plain[static_cast<std::size_t>(kind)]));
        };
        budgets.append(row.set("my_used_gpu_hours", plain(RunKind::allocated))
                           .set("my_free_gpu_hours", plain(RunKind::unallocated)));
    }
    return answer_heading(view)
        .set("user", viewer.user)
        .set("window_seconds", view.standings.window.length_seconds)
        .set("budgets", budgets)
        .set("running", answer_running(view, viewer, mine).at("jobs"))
        .set("queue", answer_queue(view, viewer, mine).at("jobs"));
}

Result<Json> answer_try(const EngineView& view, const Viewer& viewer, const Json& arguments) {
    ObjectReader reader(arguments, "arguments");
    TryShape asked;
    asked.nodes = reader.integer("nodes", 1, 1000000).value_or(0);
    asked.gpus = reader.integer("gpus", 1, 10000000).value_or(-1);
    if (const auto each = reader.integer("gpus_per_node", 1, 1000000)) {
        asked.nodes = std::max<std::int64_t>(asked.nodes, 1);
        asked.gpus = *each * asked.nodes;
    }
    asked.gpu_type = reader.text("gpu_type").value_or(std::string());
    asked.min_runtime_seconds =
        reader.integer("min_runtime_seconds", 0, kLongestTimeSpanSeconds)
            .value_or(view.settings->default_min_runtime_seconds.value_or(0));
    asked.time_limit_seconds =
        reader.integer("time_limit_seconds", 1, kLongestTimeSpanSeconds).value_or(kTriedLimit);
    asked.resumable = reader.boolean("resumable").value_or(false);
    asked.exclusive = reader.boolean("exclusive").value_or(false);
    const std::string priority = reader.text("team_priority").value_or("normal");
    const std::string partition = reader.text("partition").value_or(std::string());
    const std::string account = reader.text("account").value_or(std::string());
    const std::string wished = reader.text("budget").value_or(std::string());
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    const auto known_priority = parse_team_priority(priority);
    if (!known_priority.ok()) {
        return known_priority.failure();
    }
    asked.team_priority = *known_priority;
    if (asked.min_runtime_seconds > view.settings->max_min_runtime_seconds) {
        return Error{"the minimum runtime is longer than MaxMinRuntime allows, " +
                     format_duration(view.settings->max_min_runtime_seconds)};
    }
    asked.time_limit_seconds = std::max(asked.time_limit_seconds, asked.min_runtime_seconds);
    // As at a submission; without an account the one of his jobs, if there are any.
    std::string charged = account;
    for (const JobCard& card : view.cards) {
        if (charged.empty() && card.uid == viewer.uid) {
            charged = card.account;
        }
    }
    const auto match = view.tree->match(charged, viewer.user, wished);
    if (!match.ok()) {
        return match.failure();
    }
    std::uint32_t node_set = 0;
    EngineView with = view;
    bool is_assumed = false;
    if (const auto known = node_set_of(view, partition); known) {
        node_set = *known;
    } else {
        is_assumed = !partition.empty();
        node_set = static_cast<std::uint32_t>(with.view.node_sets.size());
        auto& nodes = with.view.node_sets.emplace_back();
        for (const Node& node : with.view.nodes) {
            nodes.push_back(node.gpus > 0);
        }
    }
    Trial trial(with, viewer.user, match->name, node_set);
    auto first = trial.run(asked);
    if (!first.ok()) {
        return first.failure();
    }
    const std::int64_t start =
        first->verdict.reason == WaitReason::starting ? view.at : first->start_at;
    std::vector<Tried> sooner;
    if (start > view.at + kWorthASecond) {
        for (const TryShape& shape : smaller_than(first->shape, *view.settings)) {
            auto other = trial.run(shape);
            if (!other.ok()) {
                continue;
            }
            if (other->verdict.reason == WaitReason::starting) {
                other->start_at = view.at;
            }
            if (other->start_at != kNever &&
                (start == kNever || other->start_at + kWorthASecond <= start)) {
                sooner.push_back(std::move(*other));
            }
        }
    }
    // The soonest first; among equals the one that gives up least.
    std::stable_sort(sooner.begin(), sooner.end(),
                     [](const Tried& a, const Tried& b) { return a.start_at < b.start_at; });
    std::vector<Tried> kept;
    for (Tried& each : sooner) {
        const bool is_worse = std::any_of(kept.begin(), kept.end(), [&](const Tried& better) {
            return better.shape.gpus >= each.shape.gpus &&
                   better.shape.min_runtime_seconds >= each.shape.min_runtime_seconds;
        });
        if (!is_worse) {
            std::erase_if(kept, [&](const Tried& other) {
                return other.start_at == each.start_at && other.shape.gpus <= each.shape.gpus &&
                       other.shape.min_runtime_seconds <= each.shape.min_runtime_seconds;
            });
            kept.push_back(std::move(each));
        }
    }
    Json list = Json::array();
    for (std::size_t i = 0; i < std::min(kept.size(), kMostSooner); ++i) {
        list.append(to_json(kept[i], view.at));
    }
    Json json = answer_heading(view);
    json.set("budget", match->name).set("asked", to_json(*first, view.at)).set("sooner", list);
    if (is_assumed) {
        json.set("note", "no waiting job says which nodes partition " + quoted(partition) +
                             " has: all nodes with GPUs are assumed");
    }
    return json;
}

}  // namespace tranche
