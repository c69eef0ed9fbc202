// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/events_file.hpp"

#include <algorithm>
#include <set>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/cluster_file.hpp"
#include "sim/mistakes.hpp"
#include "sim/workload_file.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kLongestEventsFile = std::size_t{64} << 20U;

std::string known_events() {
    return "cancel, suspend, resume_job, drain, undrain, node_fail, node_up, set_shares, "
           "add_budget, set_team_priority or restart";
}

void read_nodes(ObjectReader& reader, WorkloadEvent& event) {
    reader.require("node");
    if (const auto list = reader.text("node")) {
        if (auto names = expand_names(*list); names.ok()) {
            event.nodes = std::move(*names);
        } else {
            reader.refuse("node", names.error());
        }
    }
}

void read_job(ObjectReader& reader, WorkloadEvent& event) {
    reader.require("job");
    event.job = reader.text("job").value_or("");
}

void read_shares(ObjectReader& reader, WorkloadEvent& event) {
    reader.require("shares");
    event.shares = static_cast<std::uint32_t>(reader.integer("shares", 0, kMaxShares).value_or(0));
}

void read_instant(ObjectReader& reader, const Json& json, WorkloadEvent& event,
                  std::optional<std::int64_t> zero_at) {
    reader.require("at");
    if (!json.at("at").is_text()) {
        event.at = reader.integer("at", 0, kLongestTimeSpanSeconds).value_or(0);
        event.at += zero_at && event.at < kEpochFrom ? *zero_at : 0;
        return;
    }
    const auto at = parse_instant(reader.text("at").value_or(""), zero_at);
    if (!at.ok()) {
        reader.refuse("at", at.error());
    } else {
        event.at = *at;
    }
}

}  // namespace

Result<WorkloadEvent> event_from_json(const Json& json, const std::string& path,
                                      std::optional<std::int64_t> zero_at) {
    ObjectReader reader(json, path);
    WorkloadEvent event;
    read_instant(reader, json, event, zero_at);
    reader.require("do");
    const std::string word = reader.text("do").value_or("");
    const auto kind = parse_event_kind(word);
    if (!kind && !reader.failed()) {
        return Error{path + ".do " + quoted(word) + ": " + known_events() + " would be right"};
    }
    event.kind = kind.value_or(EventKind::restart);
    switch (event.kind) {
        case EventKind::cancel:
        case EventKind::suspend:
        case EventKind::resume_job:
            read_job(reader, event);
            break;
        case EventKind::set_team_priority:
            read_job(reader, event);
            reader.require("team_priority");
            if (const auto text = reader.text("team_priority")) {
                if (const auto priority = parse_team_priority(*text); priority.ok()) {
                    event.team_priority = *priority;
                } else {
                    reader.refuse("team_priority", priority.error());
                }
            }
            break;
        case EventKind::drain:
            read_nodes(reader, event);
            event.reason = reader.text("reason").value_or("");
            break;
        case EventKind::undrain:
        case EventKind::node_fail:
        case EventKind::node_up:
            read_nodes(reader, event);
            break;
        case EventKind::set_shares:
            reader.require("budget");
            event.budget = reader.text("budget").value_or("");
            read_shares(reader, event);
            break;
        case EventKind::add_budget:
            reader.require("name");
            event.budget = reader.text("name").value_or("");
            event.parent = reader.text("parent").value_or(std::string(kRootBudget));
            read_shares(reader, event);
            break;
        case EventKind::restart:
            break;
    }
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    return event;
}

std::vector<std::size_t> element_lines(std::string_view json, std::size_t depth) {
    std::vector<std::size_t> lines;
    std::size_t level = 0, line = 1;
    bool in_text = false, is_array = false, expects = false, is_over = false;
    for (std::size_t i = 0; i < json.size() && !is_over; ++i) {
        const char c = json[i];
        line += c == '\n' ? 1 : 0;
        if (in_text) {
            i += c == '\\' ? 1 : 0;
            in_text = c != '"';
            continue;
        }
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            continue;
        }
        if (is_array && expects && level == depth && c != ']') {
            lines.push_back(line);
            expects = false;
        }
        if (c == '"') {
            in_text = true;
        } else if (c == '[' || c == '{') {
            ++level;
            if (!is_array && level == depth && c == '[') {
                is_array = expects = true;
            }
        } else if (c == ']' || c == '}') {
            is_over = is_array && level == depth;
            level -= level > 0 ? 1 : 0;
        } else if (c == ',' && level == depth) {
            expects = is_array;
        }
    }
    return lines;
}

Result<ReadEvents> read_events(std::string_view text, const std::string& file,
                               std::optional<std::int64_t> zero_at) {
    JsonLimits limits;
    limits.bytes = kLongestEventsFile;
    const auto json = parse_json(text, file, limits);
    if (!json.ok()) {
        return json.failure();
    }
    Mistakes mistakes(file);
    if (!json->is_array()) {
        mistakes.add(1, std::string("is ") + json->type_name() +
                            "; an array of events, [{\"at\": 600, \"do\": \"drain\", \"node\": "
                            "\"n1\"}], would be right");
        return mistakes.error();
    }
    const std::vector<std::size_t> lines = element_lines(text, 1);
    std::vector<std::pair<WorkloadEvent, std::size_t>> events;
    for (std::size_t i = 0; i < json->size(); ++i) {
        const std::size_t line = i < lines.size() ? lines[i] : 0;
        auto event = event_from_json(json->at(i), "events[" + std::to_string(i) + "]", zero_at);
        if (event.ok()) {
            events.emplace_back(std::move(*event), line);
        } else {
            mistakes.add(line, event.error());
        }
    }
    if (!mistakes.none()) {
        return mistakes.error();
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.first.at < b.first.at; });
    ReadEvents read;
    for (auto& each : events) {
        read.events.push_back(std::move(each.first));
        read.lines.push_back(each.second);
    }
    return read;
}

Status check_events(const ReadEvents& events, const std::string& file,
                    const std::vector<WorkloadJob>& jobs, const SimCluster& cluster,
                    const BudgetTree& tree) {
    std::set<std::string_view> job_names, node_names;
    std::set<std::string, std::less<>> budgets;
    for (const WorkloadEvent& event : events.events) {
        if (!event.job.empty()) {
            job_names.insert(event.job);
        }
    }
    std::set<std::string_view> known_jobs;
    for (const WorkloadJob& job : jobs) {
        if (const auto it = job_names.find(job.id); it != job_names.end()) {
            known_jobs.insert(*it);
        }
    }
    for (const SimNode& node : cluster.nodes) {
        node_names.insert(node.name);
    }
    for (const auto& budget : tree.budgets()) {
        budgets.insert(budget.first);
    }
    Mistakes mistakes(file);
    for (std::size_t i = 0; i < events.events.size(); ++i) {
        const WorkloadEvent& event = events.events[i];
        std::string what(to_text(event.kind));
        what += ": ";
        const auto missing = [&](const std::string& kind, const std::string& name) {
            std::string text = what;
            text += "there is no " + kind + " " + quoted(name);
            mistakes.add(events.lines[i], text);
        };
        if (!event.job.empty() && !known_jobs.contains(event.job)) {
            missing("job", event.job);
        }
        for (const std::string& node : event.nodes) {
            if (!node_names.contains(node)) {
                missing("node", node);
            }
        }
        if (event.kind == EventKind::set_shares && !budgets.contains(event.budget)) {
            missing("budget", event.budget);
        }
        if (event.kind == EventKind::add_budget) {
            if (event.parent != kRootBudget && !budgets.contains(event.parent)) {
                missing("parent", event.parent);
            }
            if (const Status name = check_budget_name(event.budget); !name.ok()) {
                mistakes.add(events.lines[i], what + name.error());
            } else if (!budgets.insert(event.budget).second) {
                mistakes.add(events.lines[i],
                             what + "budget " + quoted(event.budget) + " is there already");
            }
        }
    }
    return mistakes.none() ? Status() : Status(mistakes.error());
}

}  // namespace tranche::sim
