// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/replay_inputs.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/assume.hpp"
#include "sim/budgets_file.hpp"
#include "sim/cluster_file.hpp"
#include "sim/events_file.hpp"
#include "sim/inject.hpp"
#include "sim/workload_file.hpp"
#include "tools/input_file.hpp"

namespace tranche {
namespace {

// Gathers what is wrong with several files.
class Complaints {
  public:
    void add(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text; }
    // The value, or nothing and its mistakes are kept.
    template <typename T>
    std::optional<T> take(Result<T>&& result) {
        if (result.ok()) {
            return std::move(*result);
        }
        add(result.error());
        return std::nullopt;
    }
    bool check(const Status& status) {
        if (!status.ok()) {
            add(status.error());
        }
        return status.ok();
    }
    bool any() const { return !text_.empty(); }
    Error error() const { return {text_}; }

  private:
    std::string text_;
};

bool is_file(const std::string& name) {
    struct stat about {};
    return stat(name.c_str(), &about) == 0;
}

Result<sim::SimCluster> read_cluster(const std::string& text) {
    // "128x8" is a size even where a file is called so.
    auto size = sim::parse_cluster(text);
    if (size.ok()) {
        return size;
    }
    if (!is_file(text)) {
        return Error{size.error() + ", or the name of a file"};
    }
    const auto file = InputFile::open(text, std::size_t{64} << 20U);
    if (!file.ok()) {
        return file.failure();
    }
    JsonLimits limits;
    limits.bytes = std::size_t{64} << 20U;
    const auto json = parse_json(file->text(), text, limits);
    if (!json.ok()) {
        return json.failure();
    }
    // A whole scenario has its cluster under that name.
    return json->at("cluster").is_object()
               ? sim::cluster_from_json(json->at("cluster"), text + ": cluster")
               : sim::cluster_from_json(*json, text + ": cluster");
}

Result<sim::ReadWorkload> read_jobs(const ReplayCommand& command) {
    const auto file = InputFile::open(command.jobs_file);
    if (!file.ok()) {
        return file.failure();
    }
    try {
        return sim::read_workload(file->text(), command.jobs_file, command.format);
    } catch (const std::bad_alloc&) {
        return Error{command.jobs_file +
                     ": its jobs do not fit into memory; a part of it would be right"};
    }
}

Result<BudgetTree> read_tree(const std::string& name) {
    const auto file = InputFile::open(name, std::size_t{64} << 20U);
    if (!file.ok()) {
        return file.failure();
    }
    return sim::read_budgets(file->text(), name);
}

Result<Settings> read_config(const std::string& name) {
    const auto file = InputFile::open(name, std::size_t{1} << 20U);
    if (!file.ok()) {
        return file.failure();
    }
    return parse_settings(file->text(), name);
}

Result<sim::ReadEvents> read_event_file(const std::string& name,
                                        std::optional<std::int64_t> zero_at) {
    const auto file = InputFile::open(name, std::size_t{64} << 20U);
    if (!file.ok()) {
        return file.failure();
    }
    return sim::read_events(file->text(), name, zero_at);
}

Status fill_in(const ReplayCommand& command, const ReplayInputs& inputs, sim::ReadWorkload& jobs) {
    if (!command.assume.empty()) {
        if (const Status status = sim::assume(jobs, command.assume, command.seed, inputs.cluster);
            !status.ok()) {
            return status;
        }
    }
    for (std::size_t i = 0; i < command.inject.size(); ++i) {
        const Status status = sim::inject(jobs, command.inject[i], command.seed, inputs.cluster, i,
                                          inputs.until, inputs.begin_at);
        if (!status.ok()) {
            return status;
        }
    }
    return {};
}

Result<BudgetTree> tree_of_accounts(sim::ReadWorkload& jobs) {
    const auto budgets = sim::budgets_of_accounts(jobs);
    if (!budgets.ok()) {
        return budgets.failure();
    }
    jobs.notes.push_back(budgets->size() == 1
                             ? std::string("warning: no --budgets: the one account is the budget")
                             : "warning: no --budgets: each of " + std::to_string(budgets->size()) +
                                   " accounts is a budget, all alike");
    return BudgetTree::build(*budgets);
}

void warn_of_free_work(const ReplayCommand& command, const Settings& settings,
                       sim::ReadWorkload& jobs) {
    bool defaults = settings.default_min_runtime_seconds.value_or(0) > 0;
    for (const auto& set : command.settings) {
        defaults = defaults || equal_ignoring_case(set.first, "DefaultMinRuntime");
    }
    if (!jobs.says_contracts && !defaults) {
        jobs.notes.push_back(
            "warning: no job has a minimum runtime, so all are free work; "
            "--assume='min_runtime=min(1h,runtime) resumable=1' gives them contracts");
    }
}

Result<sim::Snapshot> read_snapshot_file(const std::string& name) {
    const auto file = InputFile::open(name, std::size_t{1} << 30U);
    if (!file.ok()) {
        return file.failure();
    }
    return sim::read_snapshot(file->text(), name);
}

// Jobs in addition to those of a snapshot; plain seconds count from it.
void add_jobs(sim::ReadWorkload& to, sim::ReadWorkload&& more, std::int64_t at) {
    for (std::size_t i = 0; i < more.jobs.size(); ++i) {
        more.jobs[i].submit_at += more.zero_at ? 0 : at;
        more.jobs[i].id.insert(0, "+");
    }
    const auto middle = static_cast<std::ptrdiff_t>(to.jobs.size());
    to.jobs.insert(to.jobs.end(), std::make_move_iterator(more.jobs.begin()),
                   std::make_move_iterator(more.jobs.end()));
    to.origins.insert(to.origins.end(), more.origins.begin(), more.origins.end());
    to.notes.insert(to.notes.end(), more.notes.begin(), more.notes.end());
    // Those of the snapshot wait already.
    for (auto job = to.jobs.begin() + middle; job != to.jobs.end(); ++job) {
        job->submit_at = std::max(job->submit_at, at);
    }
}

// Jobs that the submission would refuse: a larger promise than the cap.
void warn_of_refused(const ReplayCommand& command, ReplayInputs& inputs) {
    const auto settings = replay_settings(inputs, command, command.policies.front());
    const std::int64_t cap =
        settings.ok() ? settings->max_min_runtime_seconds : kLongestTimeSpanSeconds;
    const auto count = std::count_if(
        inputs.workload.jobs.begin(), inputs.workload.jobs.end(),
        [&](const sim::WorkloadJob& job) { return job.min_runtime_seconds.value_or(0) > cap; });
    if (count > 0) {
        inputs.notes.push_back(
            "warning: " + std::to_string(count) + (count == 1 ? " job is" : " jobs are") +
            " refused: a minimum runtime above MaxMinRuntime, " + format_duration(cap));
    }
}

class InputReader {
  public:
    explicit InputReader(const ReplayCommand& command) : command_(command) {}

    Result<ReplayInputs> read() {
        read_files();
        if (complaints_.any()) {
            return complaints_.error();
        }
        complaints_.check(sim::check_fits(jobs_, inputs_.cluster));
        complaints_.check(fill_in(command_, inputs_, jobs_));
        if (!tree_ && !complaints_.any()) {
            tree_ = complaints_.take(tree_of_accounts(jobs_));
        }
        if (tree_) {
            complaints_.check(sim::check_events(events_, command_.events_file, jobs_.jobs,
                                                inputs_.cluster, *tree_));
        }
        if (complaints_.any()) {
            return complaints_.error();
        }
        finish();
        return std::move(inputs_);
    }

  private:
    void read_files() {
        if (!command_.snapshot_file.empty()) {
            snapshot_ = complaints_.take(read_snapshot_file(command_.snapshot_file));
            if (!snapshot_) {
                return;
            }
            jobs_ = std::move(snapshot_->jobs);
            inputs_.cluster = std::move(snapshot_->cluster);
            inputs_.settings = snapshot_->settings;
            inputs_.begin_at = snapshot_->at;
            tree_ = std::move(snapshot_->tree);
        }
        if (!command_.jobs_file.empty()) {
            if (auto jobs = complaints_.take(read_jobs(command_))) {
                if (snapshot_) {
                    add_jobs(jobs_, std::move(*jobs), snapshot_->at);
                } else {
                    jobs_ = std::move(*jobs);
                }
                has_jobs_ = true;
            }
        }
        if (!snapshot_) {
            if (auto cluster = complaints_.take(read_cluster(command_.cluster))) {
                inputs_.cluster = std::move(*cluster);
            }
        }
        if (!command_.budgets_file.empty()) {
            tree_ = complaints_.take(read_tree(command_.budgets_file));
        }
        if (!command_.config_file.empty()) {
            if (auto settings = complaints_.take(read_config(command_.config_file))) {
                inputs_.settings = std::move(*settings);
            }
        }
        if (!command_.until.empty() && (has_jobs_ || snapshot_)) {
            read_until();
        }
        if (!command_.events_file.empty()) {
            if (auto events =
                    complaints_.take(read_event_file(command_.events_file, jobs_.zero_at))) {
                events_ = std::move(*events);
            }
        }
    }

    void read_until() {
        const auto until = complaints_.take(sim::parse_instant(command_.until, jobs_.zero_at));
        if (!until) {
            return;
        }
        inputs_.until = *until;
        if (inputs_.begin_at && *until <= *inputs_.begin_at) {
            complaints_.add("--until " + quoted(command_.until) +
                            ": that is not after the snapshot");
            return;
        }
        sim::leave_out_from(jobs_, *until);
        if (jobs_.jobs.empty()) {
            complaints_.add("--until " + quoted(command_.until) +
                            ": no job is submitted before that");
        }
    }

    void finish() {
        sim::assign_budgets(jobs_, *tree_);
        warn_of_free_work(command_, inputs_.settings, jobs_);
        if (snapshot_) {
            snapshot_->jobs = std::move(jobs_);
            sim::take_off_elapsed(*snapshot_);
            jobs_ = std::move(snapshot_->jobs);
            std::stable_sort(
                jobs_.jobs.begin(), jobs_.jobs.end(),
                [](const auto& a, const auto& b) { return a.submit_at < b.submit_at; });
            inputs_.standing = std::move(snapshot_->runs);
            inputs_.workload.past = std::move(snapshot_->past);
            inputs_.workload.events = std::move(snapshot_->events);
        }
        inputs_.workload.jobs = std::move(jobs_.jobs);
        inputs_.workload.events.insert(inputs_.workload.events.end(),
                                       std::make_move_iterator(events_.events.begin()),
                                       std::make_move_iterator(events_.events.end()));
        inputs_.tree = std::move(*tree_);
        inputs_.notes = std::move(jobs_.notes);
        warn_of_refused(command_, inputs_);
    }

    const ReplayCommand& command_;
    Complaints complaints_;
    ReplayInputs inputs_;
    sim::ReadWorkload jobs_;
    sim::ReadEvents events_;
    std::optional<sim::Snapshot> snapshot_;
    std::optional<BudgetTree> tree_;
    bool has_jobs_ = false;
};

}  // namespace

Result<ReplayInputs> read_replay_inputs(const ReplayCommand& command) {
    return InputReader(command).read();
}

Result<Settings> replay_settings(const ReplayInputs& inputs, const ReplayCommand& command,
                                 const std::string& policy) {
    Settings settings = inputs.settings;
    if (policy == "article") {
        if (const Status status = apply_setting(settings, "Policy", "article"); !status.ok()) {
            return status.failure();
        }
    }
    for (const auto& set : command.settings) {
        if (const Status status = apply_setting(settings, set.first, set.second); !status.ok()) {
            return status.failure();
        }
    }
    return settings;
}

}  // namespace tranche
