// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/replay_inputs.hpp"

#include <sys/stat.h>

#include <optional>
#include <utility>

#include "common/base/quoted.hpp"
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
    return sim::read_workload(file->text(), command.jobs_file, command.format);
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

Status fill_in(const ReplayCommand& command, std::int64_t until, sim::ReadWorkload& jobs) {
    if (!command.assume.empty()) {
        if (const Status status = sim::assume(jobs, command.assume, command.seed); !status.ok()) {
            return status;
        }
    }
    for (const std::string& rules : command.inject) {
        if (const Status status = sim::inject(jobs, rules, command.seed, until); !status.ok()) {
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
    jobs.notes.push_back("warning: no --budgets: each of " + std::to_string(budgets->size()) +
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

}  // namespace

Result<ReplayInputs> read_replay_inputs(const ReplayCommand& command) {
    Complaints complaints;
    ReplayInputs inputs;
    auto jobs = complaints.take(read_jobs(command));
    auto cluster = complaints.take(read_cluster(command.cluster));
    std::optional<BudgetTree> tree;
    if (!command.budgets_file.empty()) {
        tree = complaints.take(read_tree(command.budgets_file));
    }
    if (!command.config_file.empty()) {
        if (auto settings = complaints.take(read_config(command.config_file))) {
            inputs.settings = std::move(*settings);
        }
    }
    const auto zero_at = jobs ? jobs->zero_at : std::nullopt;
    if (!command.until.empty() && jobs) {
        if (const auto until = complaints.take(sim::parse_instant(command.until, zero_at))) {
            inputs.until = *until;
            sim::leave_out_from(*jobs, *until);
            if (jobs->jobs.empty()) {
                complaints.add("--until " + quoted(command.until) +
                               ": no job is submitted before that");
            }
        }
    }
    std::optional<sim::ReadEvents> events;
    if (!command.events_file.empty()) {
        events = complaints.take(read_event_file(command.events_file, zero_at));
    }
    if (complaints.any()) {
        return complaints.error();
    }
    complaints.check(sim::check_fits(*jobs, *cluster));
    complaints.check(fill_in(command, inputs.until, *jobs));
    if (!tree && !complaints.any()) {
        tree = complaints.take(tree_of_accounts(*jobs));
    }
    if (events && tree) {
        complaints.check(
            sim::check_events(*events, command.events_file, jobs->jobs, *cluster, *tree));
    }
    if (complaints.any()) {
        return complaints.error();
    }
    sim::assign_budgets(*jobs, *tree);
    warn_of_free_work(command, inputs.settings, *jobs);
    inputs.workload.jobs = std::move(jobs->jobs);
    if (events) {
        inputs.workload.events = std::move(events->events);
    }
    inputs.cluster = std::move(*cluster);
    inputs.tree = std::move(*tree);
    inputs.notes = std::move(jobs->notes);
    return inputs;
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
