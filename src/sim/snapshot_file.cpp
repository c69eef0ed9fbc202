// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/snapshot_file.hpp"

#include <algorithm>
#include <unordered_map>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "common/wire/budgets_json.hpp"
#include "common/wire/json.hpp"
#include "sim/cluster_file.hpp"
#include "sim/mistakes.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kLongestSnapshot = std::size_t{1} << 30U;
constexpr std::int64_t kMostTasks = 1'000'000;  // of one array
constexpr std::int64_t kWithoutLimit = 7 * 86400;
constexpr std::int64_t kLatest = std::int64_t{1} << 40U;
constexpr const char* kDrainReason = "gpu-health:snapshot";

class SnapshotReader {
  public:
    SnapshotReader(const Json& json, const std::string& file) : json_(json), mistakes_(file) {
        out_.jobs.file = file;
    }

    Result<Snapshot> read() {
        ObjectReader reader(json_, "the snapshot");
        reader.require("version");
        reader.integer("version", 1, 1);
        reader.text("cluster");
        reader.require("at");
        out_.at = reader.integer("at", 0, kLatest).value_or(0);
        for (const char* key : {"settings", "budgets", "nodes", "jobs"}) {
            reader.require(key);
        }
        const auto settings = reader.object("settings");
        const auto budgets = reader.array("budgets");
        const auto nodes = reader.array("nodes");
        const auto past = reader.array("past");
        const auto jobs = reader.array("jobs");
        if (const Status status = reader.finish(); !status.ok()) {
            mistakes_.add(0, status.error());
            return mistakes_.error();
        }
        read_settings(*settings);
        read_tree(*budgets);
        each(*nodes, "nodes", [this](ObjectReader& entry) { read_node(entry); });
        if (past) {
            each(*past, "past", [this](ObjectReader& entry) { read_past(entry); });
        }
        each(*jobs, "jobs", [this](ObjectReader& entry) { read_job(entry); });
        if (mistakes_.none() && out_.cluster.gpus() == 0) {
            mistakes_.add(0, "nodes: there is no GPU in it");
        }
        if (mistakes_.none() && out_.jobs.jobs.empty()) {
            mistakes_.add(0, "there is no job that waits or runs");
        }
        if (!mistakes_.none()) {
            return mistakes_.error();
        }
        sort_jobs();
        out_.jobs.zero_at = out_.at;
        out_.jobs.says_contracts = true;
        note(blocked_,
             " waiting job that could not start (held, dependent, at a limit) is left out",
             " waiting jobs that could not start (held, dependent, at a limit) are left out");
        note(without_gpus_, " job without GPUs is left out", " jobs without GPUs are left out");
        note(leaving_, " job that was leaving is gone", " jobs that were leaving are gone");
        out_.jobs.notes.push_back(
            "going on from a snapshot: shares count as having been what they are, past use as one "
            "stretch for each user, and running jobs as having waited until now");
        return std::move(out_);
    }

  private:
    template <typename Read>
    void each(const Json& list, const std::string& name, Read read) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            ObjectReader entry(list.at(i), name + "[" + std::to_string(i) + "]");
            read(entry);
        }
    }
    bool finished(ObjectReader& entry) {
        const Status status = entry.finish();
        if (!status.ok()) {
            mistakes_.add(0, status.error());
        }
        return status.ok();
    }
    void note(std::size_t count, const char* one, const char* many) {
        if (count != 0) {
            out_.jobs.notes.push_back(std::to_string(count) + (count == 1 ? one : many));
        }
    }

    void read_settings(const Json& settings) {
        // The policy first: it sets other keys.
        std::vector<std::string> keys = settings.keys();
        std::stable_partition(keys.begin(), keys.end(),
                              [](const std::string& key) { return key == "Policy"; });
        for (const std::string& key : keys) {
            std::string rest = settings.at(key.c_str()).as_text();
            while (!rest.empty()) {  // a line for each time it is said
                const std::size_t end = std::min(rest.find('\n'), rest.size());
                const Status status = apply_setting(out_.settings, key, rest.substr(0, end));
                if (!status.ok()) {
                    mistakes_.add(0, "settings." + key + ": " + status.error());
                }
                rest.erase(0, end + 1);
            }
        }
    }

    void read_tree(const Json& budgets) {
        const auto list =
            budgets_from_json(Json::object().set("version", 1).set("budgets", budgets));
        if (!list.ok()) {
            mistakes_.add(0, list.error());
            return;
        }
        auto tree = BudgetTree::build(*list);
        if (!tree.ok()) {
            mistakes_.add(0, tree.error());
            return;
        }
        out_.tree = std::move(*tree);
    }

    void read_node(ObjectReader& entry) {
        SimNode node;
        entry.require("name");
        entry.require("gpus");
        node.name = entry.text("name").value_or("");
        node.gpus = entry.integer("gpus", 0, kMostGpus).value_or(0);
        node.gpu_type = entry.text("type").value_or("");
        const bool usable = entry.boolean("usable").value_or(true);
        const bool draining = entry.boolean("draining").value_or(false);
        if (!nodes_.emplace(node.name, static_cast<NodeIndex>(nodes_.size())).second) {
            entry.refuse("name", "is there twice");
        }
        if (!finished(entry)) {
            return;
        }
        if (!usable) {
            WorkloadEvent event;
            event.at = out_.at + 1;  // when what stands there has been put back
            event.kind = EventKind::drain;
            event.nodes = {node.name};
            event.reason = draining ? kDrainReason : "";
            out_.events.push_back(std::move(event));
        }
        out_.cluster.nodes.push_back(std::move(node));
    }

    RunKind kind_of(ObjectReader& entry) {
        const std::string word = entry.text("kind").value_or("allocated");
        if (word != "allocated" && word != "unallocated") {
            entry.refuse("kind",
                         "is " + quoted(word) + "; allocated or unallocated would be right");
        }
        return word == "allocated" ? RunKind::allocated : RunKind::unallocated;
    }

    void read_past(ObjectReader& entry) {
        const std::string budget = entry.text("budget").value_or("");
        const std::string user = entry.text("user").value_or("");
        const RunKind kind = kind_of(entry);
        entry.require("gpu_seconds");
        const auto amount = entry.integer("gpu_seconds", 0, std::int64_t{1} << 48U);
        const auto age = entry.integer("mean_age_seconds", 0, kLongestTimeSpanSeconds);
        if (!finished(entry) || budget.empty()) {
            return;
        }
        const std::int64_t window = out_.settings.lookback_window_seconds;
        // It is weighted; PastUse is in GPUs of no type.
        const std::int64_t weight = std::max<std::int64_t>(out_.settings.gpu_weight_milli({}), 1);
        const std::int64_t gpu_seconds = *amount * 1000 / weight;
        for (PastUse& use :
             past_of(budget, user, kind, gpu_seconds, age.value_or(window / 2), out_.at, window)) {
            out_.past.push_back(std::move(use));
        }
    }

    void read_job(ObjectReader& entry) {
        WorkloadJob job;
        JobOrigin origin;
        entry.require("id");
        entry.require("state");
        entry.require("submit");
        job.id = entry.text("id").value_or("");
        const std::string state = entry.text("state").value_or("");
        if (state != "pending" && state != "running" && state != "leaving") {
            entry.refuse("state",
                         "is " + quoted(state) + "; pending, running or leaving would be right");
        }
        job.name = entry.text("name").value_or("");
        job.user = entry.text("user").value_or("");
        job.account = entry.text("account").value_or("");
        job.budget = entry.text("budget").value_or("");
        job.gpus = entry.integer("gpus", 0, kMostGpus).value_or(0);
        job.nodes = entry.integer("nodes", 1, kMostNodes).value_or(0);
        job.gpu_type = entry.text("type").value_or("");
        job.min_runtime_seconds = entry.integer("min_runtime", 0, kLongestTimeSpanSeconds);
        job.resumable = entry.boolean("resumable").value_or(false);
        job.says_resumable = true;
        if (const auto word = entry.text("team_priority")) {
            if (const auto priority = parse_team_priority(*word); priority.ok()) {
                job.team_priority = *priority;
            } else {
                entry.refuse("team_priority", priority.error());
            }
        }
        job.free_first = entry.boolean("free_first").value_or(false);
        job.interactive = entry.boolean("interactive").value_or(false);
        job.time_limit_seconds =
            entry.integer("time_limit", 1, kLongestTimeSpanSeconds).value_or(kNever);
        job.array = entry.text("array").value_or("");
        job.submit_at = std::min(entry.integer("submit", 0, kLatest).value_or(0), out_.at);
        job.nice = entry.integer("nice", -2147483645, 2147483645).value_or(0);
        const std::int64_t tasks = entry.integer("tasks", 1, kMostTasks).value_or(1);
        const bool is_blocked = entry.text("blocked").has_value();
        StandingRun run;
        run.job = job.id;
        run.kind = kind_of(entry);
        run.express = entry.boolean("express").value_or(false);
        run.elapsed_seconds = std::max<std::int64_t>(
            out_.at - entry.integer("started_at", 0, kLatest).value_or(out_.at), 0);
        run.contract_seconds =
            entry.integer("contract_left", 0, kLongestTimeSpanSeconds).value_or(0);
        const auto where = entry.array("where");
        if (state == "running" && where) {
            read_where(entry, *where, job, run);
        }
        if (!finished(entry)) {
            return;
        }
        if (is_blocked || job.gpus == 0 || (state == "leaving" && !job.resumable)) {
            (job.gpus == 0 ? without_gpus_
             : is_blocked  ? blocked_
                           : leaving_) += static_cast<std::size_t>(tasks);
            return;
        }
        job.runtime_seconds =
            job.time_limit_seconds == kNever ? kWithoutLimit : job.time_limit_seconds;
        job.resumable = job.resumable && !job.interactive;
        origin.said = static_cast<std::uint16_t>(~static_cast<std::uint16_t>(Said::runtime));
        if (state == "running") {
            out_.runs.push_back(std::move(run));
        }
        for (std::int64_t task = 0; task < tasks; ++task) {
            WorkloadJob copy = job;
            copy.id += tasks > 1 ? ".task" + std::to_string(task + 1) : "";
            if (!ids_.emplace(copy.id, 0).second) {
                mistakes_.add(0, entry.path() + ": job " + quoted(copy.id) + " is there twice");
                return;
            }
            out_.jobs.jobs.push_back(std::move(copy));
            out_.jobs.origins.push_back(origin);
        }
    }

    void read_where(ObjectReader& job_entry, const Json& where, WorkloadJob& job,
                    StandingRun& run) {
        std::int64_t gpus = 0;
        for (std::size_t i = 0; i < where.size(); ++i) {
            ObjectReader entry(where.at(i), job_entry.path() + ".where[" + std::to_string(i) + "]");
            entry.require("node");
            const std::string name = entry.text("node").value_or("");
            NodeShare share;
            share.gpus = entry.integer("gpus", 0, kMostGpus).value_or(0);
            const auto node = nodes_.find(name);
            if (node == nodes_.end()) {
                entry.refuse("node", "is " + quoted(name) + ", which is no node with GPUs here");
            }
            if (!finished(entry)) {
                return;
            }
            share.node = node->second;
            gpus += share.gpus;
            if (share.gpus > 0) {
                run.where.push_back(share);
            }
        }
        for (const NodeShare& share : run.where) {
            std::int64_t& held = held_[share.node];
            held += share.gpus;
            if (share.node < out_.cluster.nodes.size() &&
                held > out_.cluster.nodes[share.node].gpus) {
                job_entry.refuse("where", "holds more GPUs of " +
                                              out_.cluster.nodes[share.node].name +
                                              " than there are");
            }
        }
        // What it really got; that it is asked for again when it was preempted.
        job.gpus = gpus;
        job.nodes = static_cast<std::int64_t>(run.where.size());
    }

    void sort_jobs() {
        std::vector<std::size_t> order(out_.jobs.jobs.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
            order[i] = i;
        }
        std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
            return out_.jobs.jobs[a].submit_at < out_.jobs.jobs[b].submit_at;
        });
        std::vector<WorkloadJob> jobs;
        std::vector<JobOrigin> origins;
        for (const std::size_t i : order) {
            jobs.push_back(std::move(out_.jobs.jobs[i]));
            origins.push_back(out_.jobs.origins[i]);
        }
        out_.jobs.jobs = std::move(jobs);
        out_.jobs.origins = std::move(origins);
    }

    const Json& json_;
    Mistakes mistakes_;
    Snapshot out_;
    std::unordered_map<std::string, NodeIndex> nodes_;
    std::unordered_map<std::string, int> ids_;
    std::unordered_map<NodeIndex, std::int64_t> held_;
    std::size_t blocked_ = 0, without_gpus_ = 0, leaving_ = 0;
};

}  // namespace

Result<Snapshot> read_snapshot(std::string_view text, const std::string& file) {
    JsonLimits limits;
    limits.bytes = kLongestSnapshot;
    const auto json = parse_json(text, file, limits);
    if (!json.ok()) {
        return json.failure();
    }
    return SnapshotReader(*json, file).read();
}

void take_off_elapsed(Snapshot& snapshot) {
    std::unordered_map<std::string_view, std::int64_t> elapsed;
    for (const StandingRun& run : snapshot.runs) {
        elapsed.emplace(run.job, run.elapsed_seconds);
    }
    for (WorkloadJob& job : snapshot.jobs.jobs) {
        const auto it = elapsed.find(job.id);
        if (it == elapsed.end()) {
            continue;
        }
        job.runtime_seconds = std::max<std::int64_t>(job.runtime_seconds - it->second, 1);
        if (job.time_limit_seconds != kNever) {
            job.time_limit_seconds = std::max<std::int64_t>(job.time_limit_seconds - it->second, 1);
        }
    }
}

std::vector<PastUse> past_of(const std::string& budget, const std::string& user, RunKind kind,
                             std::int64_t gpu_seconds, std::int64_t mean_age_seconds,
                             std::int64_t at, std::int64_t window_seconds) {
    if (gpu_seconds <= 0 || window_seconds <= 0) {
        return {};
    }
    // The longest stretch around that age that lies within the window.
    const std::int64_t age = std::clamp<std::int64_t>(mean_age_seconds, 1, window_seconds - 1);
    const std::int64_t longest = 2 * std::min(age, window_seconds - age);
    const std::int64_t gpus = std::max<std::int64_t>((gpu_seconds + longest - 1) / longest, 1);
    const std::int64_t length = gpu_seconds / gpus;
    PastUse use;
    use.budget = budget;
    use.user = user;
    use.kind = kind;
    use.gpus = gpus;
    use.from = at - age - length / 2;
    use.to = use.from + length;
    std::vector<PastUse> uses;
    if (length > 0) {
        uses.push_back(use);
    }
    // What whole GPUs over whole seconds leave over.
    if (const std::int64_t rest = gpu_seconds - gpus * length; rest > 0) {
        use.gpus = rest;
        use.from = at - age;
        use.to = use.from + 1;
        uses.push_back(use);
    }
    return uses;
}

}  // namespace tranche::sim
