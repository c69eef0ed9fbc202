// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <map>
#include <set>

#include "common/base/quoted.hpp"
#include "common/wire/json.hpp"
#include "sim/cluster_file.hpp"
#include "sim/events_file.hpp"
#include "sim/mistakes.hpp"
#include "sim/rule_switches.hpp"
#include "sim/scenario.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kLongestScenario = std::size_t{64} << 20U;
constexpr std::int64_t kLongest = std::int64_t{100} * 366 * 86400;
constexpr std::int64_t kMostCopies = 1'000'000;
constexpr std::int64_t kMostScenarioGpus = 1'000'000;

// "b" of "b.9"; empty where there is no number behind a dot.
std::string base_of(const std::string& id) {
    const auto dot = id.rfind('.');
    if (dot == std::string::npos || dot + 1 == id.size() ||
        id.find_first_not_of("0123456789", dot + 1) != std::string::npos) {
        return {};
    }
    return id.substr(0, dot);
}

class Reading {
  public:
    Reading(const Json& json, const std::string& file) : json_(json), mistakes_(file) {
        scenario_.file = file;
    }

    Result<Scenario> read() {
        ObjectReader reader(json_, "the scenario");
        scenario_.name = reader.text("name").value_or("");
        scenario_.about = reader.text("about").value_or("");
        scenario_.rule = reader.text("rule").value_or("");
        reader.require("cluster");
        const auto cluster = reader.object("cluster");
        const auto config = reader.object("config");
        const auto budgets = reader.array("budgets");
        const auto usage = reader.array("usage");
        const auto jobs = reader.array("jobs");
        const auto events = reader.array("events");
        reader.require("until");
        scenario_.until = reader.integer("until", 1, kLongest).value_or(0);
        const auto expect = reader.array("expect");
        keep(reader.finish());
        if (!scenario_.rule.empty() && scenario_.rule != "definition" &&
            find_rule_switch(scenario_.rule) == nullptr) {
            wrong("rule " + quoted(scenario_.rule) +
                  " is not known; a name that sreplay check --list-rules prints, or definition, "
                  "would be right");
        }
        if (!expect || expect->size() == 0) {
            wrong("expect is " + std::string(expect ? "empty" : "missing") +
                  "; a list of what must come of it would be right");
        }
        if (cluster) {
            read_cluster(*cluster);
        }
        scenario_.settings = scenario_defaults();
        if (config) {
            read_config(*config);
        }
        if (budgets) {
            read_budgets(*budgets);
        }
        each(events, "events",
             [this](const Json& json, const std::string& path) { read_event(json, path); });
        std::stable_sort(
            scenario_.workload.events.begin(), scenario_.workload.events.end(),
            [](const WorkloadEvent& a, const WorkloadEvent& b) { return a.at < b.at; });
        apply_tree_events();
        each(usage, "usage",
             [this](const Json& json, const std::string& path) { read_usage(json, path); });
        each(jobs, "jobs",
             [this](const Json& json, const std::string& path) { read_job(json, path); });
        std::stable_sort(
            scenario_.workload.jobs.begin(), scenario_.workload.jobs.end(),
            [](const WorkloadJob& a, const WorkloadJob& b) { return a.submit_at < b.submit_at; });
        check_event_names();
        each(expect, "expect",
             [this](const Json& json, const std::string& path) { read_expectation(json, path); });
        if (!mistakes_.none()) {
            return mistakes_.error();
        }
        return std::move(scenario_);
    }

  private:
    template <typename Read>
    void each(const std::optional<Json>& list, const std::string& name, Read read) {
        for (std::size_t i = 0; list && i < list->size(); ++i) {
            read(list->at(i), name + "[" + std::to_string(i) + "]");
        }
    }

    void wrong(const std::string& text) { mistakes_.add(0, text); }
    void keep(const Status& status) {
        if (!status.ok()) {
            wrong(status.error());
        }
    }

    void read_cluster(const Json& json) {
        auto cluster = cluster_from_json(json, "cluster");
        if (!cluster.ok()) {
            wrong(cluster.error());
            return;
        }
        scenario_.cluster = std::move(*cluster);
        for (const SimNode& node : scenario_.cluster.nodes) {
            nodes_.insert(node.name);
        }
    }

    void read_config(const Json& config) {
        // The policy first: it sets other keys.
        std::vector<std::string> keys = config.keys();
        std::stable_partition(keys.begin(), keys.end(), [](const std::string& key) {
            return equal_ignoring_case(key, "Policy");
        });
        for (const std::string& key : keys) {
            const Json value = config.at(key.c_str());
            const std::string text = value.is_text()      ? value.as_text()
                                     : value.is_boolean() ? (value.as_boolean() ? "yes" : "no")
                                                          : value.compact();
            const Status status = apply_setting(scenario_.settings, key, text);
            if (!status.ok()) {
                wrong("config." + key + ": " + status.error());
            }
        }
    }

    void read_budgets(const Json& list) {
        std::vector<Budget> budgets;
        for (std::size_t i = 0; i < list.size(); ++i) {
            ObjectReader reader(list.at(i), "budgets[" + std::to_string(i) + "]");
            Budget budget;
            reader.require("name");
            budget.name = reader.text("name").value_or("");
            budget.parent = reader.text("parent").value_or(std::string(kRootBudget));
            budget.shares =
                static_cast<std::uint32_t>(reader.integer("shares", 0, kMaxShares).value_or(1));
            budget.own_shares =
                static_cast<std::uint32_t>(reader.integer("own_shares", 0, kMaxShares).value_or(1));
            if (const auto sharing = reader.text("sharing")) {
                budget.sharing =
                    *sharing == "pooled" ? BudgetSharing::pooled : BudgetSharing::users;
                if (*sharing != "pooled" && *sharing != "users") {
                    reader.refuse("sharing",
                                  "is " + quoted(*sharing) + "; users or pooled would be right");
                }
            }
            keep(reader.finish());
            budgets.push_back(std::move(budget));
        }
        auto tree = BudgetTree::build(std::move(budgets));
        if (!tree.ok()) {
            std::string rest = tree.error();
            while (!rest.empty()) {
                const auto end = rest.find('\n');
                wrong("budgets: " + rest.substr(0, end));
                rest = end == std::string::npos ? "" : rest.substr(end + 1);
            }
            tree_is_bad_ = true;
            for (std::size_t i = 0; i < list.size(); ++i) {
                budgets_.insert(list.at(i).at("name").as_text());
            }
            return;
        }
        scenario_.tree = std::move(*tree);
    }

    void read_event(const Json& json, const std::string& path) {
        auto event = event_from_json(json, path);
        if (!event.ok()) {
            wrong(event.error());
            return;
        }
        for (const std::string& node : event->nodes) {
            known("node", node, nodes_, path);
        }
        if (event->at > scenario_.until) {
            wrong(path + ".at is " + std::to_string(event->at) + ", after `until`, which is " +
                  std::to_string(scenario_.until) + ": it would never happen");
        }
        scenario_.workload.events.push_back(std::move(*event));
        event_paths_.push_back(path);
    }

    // Every tree that will be; names and ancestors of all their budgets.
    void apply_tree_events() {
        BudgetTree tree = scenario_.tree;
        std::set<std::pair<std::string, std::string>> ancestors;
        const auto note = [&] {
            for (const auto& entry : tree.budgets()) {
                budgets_.insert(entry.first);
                std::string above = entry.first;
                while (above != kRootBudget) {
                    ancestors.emplace(entry.first, above);
                    above = tree.find(above)->parent;
                }
                ancestors.emplace(entry.first, above);
            }
        };
        note();
        for (const WorkloadEvent& event : scenario_.workload.events) {
            if (tree_is_bad_ ||
                (event.kind != EventKind::set_shares && event.kind != EventKind::add_budget)) {
                continue;
            }
            auto next = apply_tree_event(tree, event);
            if (!next.ok()) {
                wrong("events, " + std::string(to_text(event.kind)) + " at " +
                      std::to_string(event.at) + ": " + next.error());
                continue;
            }
            tree = std::move(*next);
            note();
        }
        scenario_.ancestors.assign(ancestors.begin(), ancestors.end());
    }

    void known(const char* what, const std::string& name, const std::set<std::string>& names,
               const std::string& path) {
        if (!names.contains(name)) {
            wrong(path + ": " + what + " " + quoted(name) + " is not in this scenario");
        }
    }

    void known_job(const std::string& id, const std::string& path) {
        if (!jobs_.contains(id) && !endless_.contains(base_of(id))) {
            const bool copies = copied_.contains(id);
            wrong(path + ": job " + quoted(id) + " is not in this scenario" +
                  (copies ? "; its copies are " + id + ".1, " + id + ".2, …" : ""));
        }
    }

    void read_usage(const Json& json, const std::string& path) {
        ObjectReader reader(json, path);
        PastUse use;
        reader.require("budget");
        use.budget = reader.text("budget").value_or("");
        use.user = reader.text("user").value_or(use.budget);
        reader.require("gpus");
        use.gpus = reader.integer("gpus", 1, kMostScenarioGpus).value_or(0);
        reader.require("from");
        use.from = reader.integer("from", -kLongest, 0).value_or(0);
        use.to = reader.integer("to", -kLongest, 0).value_or(0);
        if (use.to < use.from) {
            reader.refuse("to", "is before `from`");
        }
        const Status status = reader.finish();
        keep(status);
        if (status.ok()) {
            known("budget", use.budget, budgets_, path);
            scenario_.workload.past.push_back(std::move(use));
        }
    }

    void read_job(const Json& json, const std::string& path) {
        ObjectReader reader(json, path);
        WorkloadJob job;
        reader.require("id");
        const std::string id = reader.text("id").value_or("");
        if (id.empty()) {
            reader.refuse("id", "is empty");
        }
        job.submit_at = reader.integer("at", 0, kLongest).value_or(0);
        job.budget = reader.text("budget").value_or("");
        job.user = reader.text("user").value_or(job.budget);
        reader.require("gpus");
        job.gpus = reader.integer("gpus", 0, kMostScenarioGpus).value_or(0);
        job.nodes = reader.integer("nodes", 1, 100'000).value_or(0);
        job.gpu_type = reader.text("type").value_or("");
        job.node = reader.text("node").value_or("");
        job.min_runtime_seconds = reader.integer("min_runtime", 0, kLongest);
        reader.require("runtime");
        job.runtime_seconds = reader.integer("runtime", 1, kLongest).value_or(0);
        job.time_limit_seconds = reader.integer("time_limit", 1, kLongest).value_or(kNever);
        job.resumable = reader.boolean("resumable").value_or(true);
        job.says_resumable = !json.at("resumable").is_null();
        if (const auto word = reader.text("team_priority")) {
            if (const auto priority = parse_team_priority(*word); priority.ok()) {
                job.team_priority = *priority;
            } else {
                reader.refuse("team_priority", priority.error());
            }
        }
        job.exit_seconds = reader.integer("exit_seconds", 0, kLongest).value_or(30);
        job.restart_seconds = reader.integer("restart_seconds", 0, kLongest).value_or(0);
        job.checkpoint_seconds = reader.integer("checkpoint_seconds", 0, kLongest).value_or(0);
        job.interactive = reader.boolean("interactive").value_or(false);
        job.free_first = reader.boolean("free_first").value_or(false);
        job.endless = reader.boolean("endless").value_or(false);
        job.wait_class = reader.text("class").value_or("");
        job.nice = reader.integer("nice", -2147483645, 2147483645).value_or(0);
        const bool array = reader.boolean("array").value_or(false);
        const std::int64_t repeat = reader.integer("repeat", 1, kMostCopies).value_or(1);
        const std::int64_t every = reader.integer("every", 0, kLongest).value_or(0);
        const Status status = reader.finish();
        keep(status);
        if (!status.ok()) {
            return;
        }
        if (!job.budget.empty()) {
            known("budget", job.budget, budgets_, path);
        }
        if (!job.node.empty()) {
            known("node", job.node, nodes_, path);
        }
        job.array = array ? id : "";
        const bool numbered = repeat > 1 || job.endless;
        if (numbered) {
            copied_.insert(id);
        }
        if (job.endless) {
            endless_.insert(id);
        }
        for (std::int64_t k = 0; k < repeat; ++k) {
            WorkloadJob copy = job;
            copy.id = numbered ? id + "." + std::to_string(k + 1) : id;
            copy.submit_at += k * every;
            if (!jobs_.insert(copy.id).second) {
                wrong(path + ": job " + quoted(copy.id) + " is there twice");
                return;
            }
            scenario_.workload.jobs.push_back(std::move(copy));
        }
    }

    void check_event_names() {
        for (const WorkloadEvent& event : scenario_.workload.events) {
            if (!event.job.empty()) {
                known_job(event.job, "events, " + std::string(to_text(event.kind)) + " at " +
                                         std::to_string(event.at));
            }
        }
    }

    std::optional<std::int64_t> milli(const Json& json, const char* key, const std::string& path) {
        const Json value = json.at(key);
        if (value.is_null()) {
            return std::nullopt;
        }
        if (!value.is_number()) {
            wrong(path + "." + key + " is " + value.type_name() + "; a number would be right");
            return std::nullopt;
        }
        return value.as_thousandths();
    }

    void only_keys(const Json& json, const std::string& path,
                   const std::vector<std::string>& allowed) {
        for (const std::string& key : json.keys()) {
            if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
                std::string list;
                for (const std::string& name : allowed) {
                    list += (list.empty() ? "" : ", ") + name;
                }
                std::string mistake = path;
                mistake.append(".").append(key).append(" is not known here; ").append(list);
                wrong(mistake.append(" would be right"));
            }
        }
    }

    std::int64_t instant(const Json& json, const char* key, const std::string& path) {
        const Json value = json.at(key);
        if (!value.is_integer()) {
            wrong(path + "." + key + " is " + value.type_name() +
                  "; a whole number of seconds would be right");
            return 0;
        }
        if (value.as_integer() < 0 || value.as_integer() > scenario_.until) {
            wrong(path + "." + key + " is " + std::to_string(value.as_integer()) +
                  "; 0 to `until`, which is " + std::to_string(scenario_.until) +
                  ", would be right");
        }
        return value.as_integer();
    }

    std::optional<std::int64_t> whole(const Json& json, const char* key, const std::string& path) {
        const Json value = json.at(key);
        if (value.is_null()) {
            return std::nullopt;
        }
        if (!value.is_integer()) {
            wrong(path + "." + key + " is " + value.type_name() +
                  "; a whole number would be right");
            return std::nullopt;
        }
        return value.as_integer();
    }

    std::string word(const Json& json, const char* key, const std::string& path,
                     const std::vector<std::string>& words = {}) {
        const Json value = json.at(key);
        if (value.is_null()) {
            return {};
        }
        if (!value.is_text()) {
            wrong(path + "." + key + " is " + value.type_name() + "; a text would be right");
            return {};
        }
        const std::string text = value.as_text();
        if (!words.empty() && std::find(words.begin(), words.end(), text) == words.end()) {
            std::string list;
            for (const std::string& each : words) {
                list += (list.empty() ? "" : ", ") + each;
            }
            wrong(path + "." + key + " is " + quoted(text) + "; " + list + " would be right");
        }
        return text;
    }

    void in_order(const Wanted& wanted, const std::string& path, const std::string& least,
                  const std::string& most) {
        if (wanted.least_milli && wanted.most_milli && *wanted.least_milli > *wanted.most_milli) {
            wrong(path + ": " + least + " is above " + most + ", so nothing could hold");
        }
    }

    void read_range(const Json& json, const std::string& path, Wanted& wanted) {
        const Json gpus = json.at("gpus");
        if (!gpus.is_object()) {
            wanted.equals_milli = milli(json, "gpus", path);
            return;
        }
        only_keys(gpus, path + ".gpus", {"min", "max"});
        wanted.least_milli = milli(gpus, "min", path + ".gpus");
        wanted.most_milli = milli(gpus, "max", path + ".gpus");
        if (!wanted.least_milli && !wanted.most_milli) {
            wrong(path + ".gpus says neither min nor max");
        }
        in_order(wanted, path + ".gpus", "min", "max");
    }

    void read_expectation(const Json& json, const std::string& path) {
        if (!json.is_object()) {
            wrong(path + " is " + json.type_name() + "; an object in braces would be right");
            return;
        }
        const auto has = [&json](const char* key) { return !json.at(key).is_null(); };
        Expectation e;
        e.place = path;
        e.text = json.compact();
        if (has("metric")) {
            read_metric(json, path, e);
        } else if (has("order")) {
            only_keys(json, path, {"at", "order"});
            e.kind = Expectation::Kind::order;
            e.at = instant(json, "at", path);
            const Json order = json.at("order");
            if (!order.is_array()) {
                wrong(path + ".order is " + order.type_name() + "; a list would be right");
                return;
            }
            if (order.size() == 0) {
                wrong(path + ".order is empty; the jobs in their order would be right");
            }
            for (std::size_t i = 0; i < order.size(); ++i) {
                if (std::find(e.order.begin(), e.order.end(), order.at(i).as_text()) !=
                    e.order.end()) {
                    wrong(path + ".order[" + std::to_string(i) + "]: job " +
                          quoted(order.at(i).as_text()) + " is there twice");
                }
                e.order.push_back(order.at(i).as_text());
                known_job(e.order.back(), path + ".order[" + std::to_string(i) + "]");
            }
        } else if (has("job")) {
            e.name = word(json, "job", path);
            known_job(e.name, path);
            read_job_expectation(json, path, e);
        } else if (has("node")) {
            only_keys(json, path, {"at", "node", "state", "gpus_used"});
            e.kind = Expectation::Kind::node;
            e.at = instant(json, "at", path);
            e.name = word(json, "node", path);
            known("node", e.name, nodes_, path);
            e.state = word(json, "state", path, {"idle", "busy", "draining", "drained", "down"});
            e.gpus_used = whole(json, "gpus_used", path);
            if (e.state.empty() && !e.gpus_used) {
                wrong(path + " expects nothing; state or gpus_used would be right");
            }
        } else if (has("budget")) {
            e.name = word(json, "budget", path);
            known("budget", e.name, budgets_, path);
            read_budget_expectation(json, path, e);
        } else {
            wrong(path + " expects nothing; job, order, budget, node or metric would be right");
            return;
        }
        scenario_.expectations.push_back(std::move(e));
    }

    void read_job_expectation(const Json& json, const std::string& path, Expectation& e) {
        if (!json.at("at").is_null()) {
            only_keys(json, path, {"at", "job", "state", "protected_until"});
            e.kind = Expectation::Kind::job_at;
            e.at = instant(json, "at", path);
            e.state = word(
                json, "state", path,
                {"pending", "running", "leaving", "completed", "ended", "cancelled", "refused"});
            e.protected_until = whole(json, "protected_until", path);
            if (e.state.empty() && !e.protected_until) {
                wrong(path + " expects nothing; state or protected_until would be right");
            }
            return;
        }
        only_keys(json, path, {"job", "starts", "runs"});
        e.kind = Expectation::Kind::job;
        e.runs = whole(json, "runs", path);
        const Json starts = json.at("starts");
        if (!starts.is_null()) {
            if (starts.size() != 2 || !starts.at(std::size_t{0}).is_integer() ||
                !starts.at(std::size_t{1}).is_integer()) {
                wrong(path + ".starts is " + starts.compact() +
                      "; two instants, the first and the last, would be right");
                return;
            }
            e.starts = {starts.at(std::size_t{0}).as_integer(),
                        starts.at(std::size_t{1}).as_integer()};
            if (e.starts->first > e.starts->second) {
                wrong(path + ".starts is " + starts.compact() +
                      "; the first instant before the last would be right");
            }
        } else if (!e.runs) {
            wrong(path + " expects nothing; starts, runs, or state with `at` would be right");
        }
    }

    void read_budget_expectation(const Json& json, const std::string& path, Expectation& e) {
        if (!json.at("charged_gpu_hours").is_null()) {
            only_keys(json, path, {"at", "budget", "charged_gpu_hours", "tol"});
            e.kind = Expectation::Kind::budget_charge;
            e.at = instant(json, "at", path);
            e.wanted.equals_milli = milli(json, "charged_gpu_hours", path);
            e.wanted.tolerance_milli = milli(json, "tol", path).value_or(0);
            return;
        }
        if (json.at("gpus").is_null()) {
            wrong(path + " expects nothing; gpus or charged_gpu_hours would be right");
            return;
        }
        read_range(json, path, e.wanted);
        if (json.at("every").is_null()) {
            only_keys(json, path, {"at", "budget", "gpus"});
            e.kind = Expectation::Kind::budget_gpus;
            e.at = instant(json, "at", path);
            return;
        }
        only_keys(json, path, {"from", "to", "every", "budget", "gpus"});
        e.kind = Expectation::Kind::budget_mean;
        e.from = instant(json, "from", path);
        e.to = instant(json, "to", path);
        e.every = instant(json, "every", path);
        if (e.every <= 0 || e.to - e.from < e.every) {
            wrong(path + ".every is " + std::to_string(e.every) + "; 1 to the " +
                  std::to_string(e.to - e.from) + " seconds between from and to would be right");
            e.every = kNever;
        }
    }

    void read_metric(const Json& json, const std::string& path, Expectation& e) {
        only_keys(json, path, {"metric", "equals", "at_least", "at_most", "tol"});
        e.kind = Expectation::Kind::metric;
        const std::string metric = word(json, "metric", path);
        const auto dot = metric.find('.');
        e.name = metric.substr(0, dot);
        e.of = dot == std::string::npos ? "" : metric.substr(dot + 1);
        static const std::map<std::string, bool> kMetrics = {
            {"preemptions", false},    {"wasted_preemptions", false},   {"inside_contract", false},
            {"idle_gpu_hours", false}, {"unallocated_gpu_hours", true}, {"charged_gpu_hours", true},
            {"wait_p90", true}};
        const auto it = kMetrics.find(e.name);
        if (it == kMetrics.end()) {
            wrong(path + ".metric is " + quoted(metric) +
                  "; preemptions, preemptions.BUDGET, wasted_preemptions, inside_contract, "
                  "idle_gpu_hours, unallocated_gpu_hours.BUDGET, charged_gpu_hours.BUDGET or "
                  "wait_p90.CLASS_OR_BUDGET would be right");
        } else if (it->second && e.of.empty()) {
            wrong(path + ".metric is " + quoted(metric) + "; " + e.name + ".BUDGET would be right");
        } else if (!it->second && e.name != "preemptions" && !e.of.empty()) {
            wrong(path + ".metric is " + quoted(metric) + "; " + e.name + " would be right");
        } else if (!e.of.empty() && !(e.name == "wait_p90" && is_class(e.of))) {
            known("budget", e.of, budgets_, path);
        }
        e.wanted.equals_milli = milli(json, "equals", path);
        e.wanted.least_milli = milli(json, "at_least", path);
        e.wanted.most_milli = milli(json, "at_most", path);
        e.wanted.tolerance_milli = milli(json, "tol", path).value_or(0);
        if (!e.wanted.equals_milli && !e.wanted.least_milli && !e.wanted.most_milli) {
            wrong(path + " expects nothing; equals, at_least or at_most would be right");
        }
        in_order(e.wanted, path, "at_least", "at_most");
    }

    bool is_class(const std::string& name) const {
        return name == "debug" || name == "small" || name == "large" || name == "all" ||
               std::any_of(scenario_.workload.jobs.begin(), scenario_.workload.jobs.end(),
                           [&name](const WorkloadJob& job) { return job.wait_class == name; });
    }

    Json json_;
    Mistakes mistakes_;
    Scenario scenario_;
    bool tree_is_bad_ = false;
    std::vector<std::string> event_paths_;
    std::set<std::string> nodes_, budgets_, jobs_, endless_, copied_;
};

}  // namespace

Settings scenario_defaults() {
    Settings settings;
    settings.reservations = 0;
    settings.max_assemblies = 0;
    settings.assembly_pause_seconds = 0;
    settings.express_fraction_ppm = 0;
    settings.max_protected_fraction_ppm = kPpm;
    settings.raised_share_ppm = 0;
    settings.preempt_within_budget = PreemptWithinBudget::both;
    return settings;
}

Result<Scenario> read_scenario(std::string_view text, const std::string& file) {
    JsonLimits limits;
    limits.bytes = kLongestScenario;
    const auto json = parse_json(text, file, limits);
    if (!json.ok()) {
        return json.failure();
    }
    return Reading(*json, file).read();
}

}  // namespace tranche::sim
