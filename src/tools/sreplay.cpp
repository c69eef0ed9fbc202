// SPDX-License-Identifier: GPL-2.0-or-later
// Replays jobs on a simulated cluster under Tranche's policy and others.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "common/base/quoted.hpp"
#include "sim/baselines.hpp"
#include "sim/budget_scheduler.hpp"
#include "sim/decision_trace.hpp"
#include "sim/report_html.hpp"
#include "sim/scenario.hpp"
#include "sim/simulation.hpp"
#include "sim/standing_scheduler.hpp"
#include "sim/start_estimates.hpp"
#include "sim/summary.hpp"
#include "sim/timeline_svg.hpp"
#include "tools/command.hpp"
#include "tools/input_file.hpp"
#include "tools/output_file.hpp"
#include "tools/parallel.hpp"
#include "tools/replay_inputs.hpp"
#include "tools/replay_progress.hpp"
#include "tools/sreplay_options.hpp"
#include "tools/sreplay_output.hpp"
#include "tools/table.hpp"

namespace tranche {
namespace {

using sim::SimRecord;

constexpr std::int64_t kEstimateEvery = 3600;

void warn(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
        if (note.starts_with("warning: ")) {
            say(note, kDone);
        }
    }
}

// One of several simulations and what it is told apart by.
struct Outcome {
    const std::vector<std::string>* notes;
    std::string name;
};

// What came up in simulations, after what their inputs were warned of; what all have is said once.
void warn_of_outcomes(const std::vector<Outcome>& outcomes, std::size_t known) {
    constexpr std::string_view kWarning = "warning: ";
    for (const Outcome& outcome : outcomes) {
        for (std::size_t i = known; i < outcome.notes->size(); ++i) {
            const std::string& note = (*outcome.notes)[i];
            const bool common =
                std::all_of(outcomes.begin(), outcomes.end(), [&](const Outcome& each) {
                    return std::find(each.notes->begin(), each.notes->end(), note) !=
                           each.notes->end();
                });
            if (!note.starts_with(kWarning) || (common && &outcome != outcomes.data())) {
                continue;
            }
            say(common ? note
                       : std::string(kWarning) + outcome.name + ": " + note.substr(kWarning.size()),
                kDone);
        }
    }
}

std::unique_ptr<sim::Scheduler> make_scheduler(const std::string& policy,
                                               const sim::Simulation& simulation,
                                               const Settings& settings, const BudgetTree& tree) {
    const sim::SimState& state = simulation.state();
    if (policy == "slots") {
        return sim::make_slots(state, settings, tree);
    }
    if (policy == "fairtree") {
        return sim::make_fairtree(state, tree, simulation.begin_at());
    }
    if (policy == "fifo") {
        return sim::make_fifo(state);
    }
    return std::make_unique<sim::BudgetScheduler>(state, settings, tree, simulation.past(),
                                                  simulation.begin_at());
}

// Refusals that were foreseen: "warning: 3 jobs are refused: …" and "… 3 jobs were refused …".
bool is_told(const std::vector<std::string>& notes, const std::string& note) {
    for (const auto& [is, was] :
         {std::pair{" is refused", " was refused"}, {" are refused", " were refused"}}) {
        const std::size_t end = note.find(was);
        if (end != std::string::npos) {
            const std::string foreseen = note.substr(0, end) + is;
            return std::any_of(notes.begin(), notes.end(),
                               [&](const std::string& each) { return each.starts_with(foreseen); });
        }
    }
    return false;
}

// One simulation: a policy with its settings.
struct Replay {
    std::string policy;
    Settings settings;
};

SimRecord simulate(const Replay& replay, const ReplayInputs& inputs, sim::Workload workload,
                   bool slots, ReplayProgress& progress,
                   std::vector<sim::StartEstimate>* estimates = nullptr) {
    const auto begin = std::chrono::steady_clock::now();
    sim::SimOptions options;
    options.until = inputs.until;
    options.begin_at = inputs.begin_at;
    options.slots = slots;
    options.ends_with_jobs = true;
    sim::Simulation simulation(inputs.cluster, replay.settings, inputs.tree, std::move(workload),
                               options);
    const auto scheduler = make_scheduler(replay.policy, simulation, replay.settings, inputs.tree);
    // A snapshot goes with the product's policy only.
    std::optional<sim::StandingScheduler> standing;
    sim::Scheduler* first = scheduler.get();
    if (inputs.begin_at) {
        standing.emplace(dynamic_cast<sim::BudgetScheduler&>(*scheduler), simulation.state(),
                         inputs.standing);
        first = &*standing;
    }
    std::optional<sim::EstimatingScheduler> estimating;
    if (auto* policy = dynamic_cast<sim::BudgetScheduler*>(scheduler.get());
        estimates != nullptr && policy != nullptr) {
        estimating.emplace(*first, *policy, kEstimateEvery);
        first = &*estimating;
    }
    SimRecord record;
    if (progress.is_shown()) {
        WatchedScheduler watched(*first, progress);
        record = simulation.run(watched);
    } else {
        record = simulation.run(*first);
    }
    if (estimating) {
        *estimates = estimating->take();
    }
    record.policy = replay.policy;
    for (const std::string& note : sim::closing_notes(record)) {
        if (!is_told(inputs.notes, note)) {
            record.notes.push_back(note);
        }
    }
    record.notes.insert(record.notes.begin(), inputs.notes.begin(), inputs.notes.end());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    record.wall_seconds = took.count();
    return record;
}

std::string number_text(const Json& value) {
    return value.is_text() ? value.as_text() : value.is_null() ? std::string() : value.compact();
}

// "wait_seconds.all.p50" and its value, for each number of a document.
void flatten(const Json& json, const std::string& path,
             std::vector<std::vector<std::string>>& rows) {
    if (json.is_object()) {
        for (const std::string& key : json.keys()) {
            std::string below = path.empty() ? key : path;
            below += path.empty() ? "" : "." + key;
            flatten(json.at(key.c_str()), below, rows);
        }
    } else if (json.is_array()) {
        for (std::size_t i = 0; i < json.size(); ++i) {
            const Json entry = json.at(i);
            const Json name = entry.at("name");
            flatten(entry, path + "." + (name.is_text() ? name.as_text() : std::to_string(i)),
                    rows);
        }
    } else {
        rows.push_back({path, number_text(json)});
    }
}

int print_parsable(const Json& json, const TableStyle& style) {
    std::vector<std::vector<std::string>> rows;
    flatten(json, "", rows);
    return print_table({{"KEY"}, {"VALUE"}}, std::move(rows), style);
}

// The key is always there, so that the same input gives the same bytes and readers find it.
Json with_wall_seconds(Json json, bool timing) {
    if (!timing && json.is_object()) {
        json.set("wall_seconds", Json());
    }
    return json;
}

// The files to write: nothing is lost by them. The exit code if something would be.
std::optional<int> check_outputs(const ReplayCommand& command) {
    struct Named {
        const char* option;
        const std::string* file;
    };
    const Named outputs[] = {{"--svg", &command.svg_file},
                             {"--html", &command.html_file},
                             {"--trace", &command.trace_file},
                             {"--estimates", &command.estimates_file}};
    const Named inputs[] = {
        {"--jobs", &command.jobs_file},       {"--cluster", &command.cluster},
        {"--budgets", &command.budgets_file}, {"--events", &command.events_file},
        {"--config", &command.config_file},   {"--snapshot", &command.snapshot_file}};
    for (const Named& output : outputs) {
        const std::string& name = *output.file;
        if (name.empty()) {
            continue;
        }
        const std::string what = output.option + std::string(" ") + quoted(name);
        if (name == "-" || same_file(name, "/dev/fd/1")) {
            return say(what + ": standard output has the answer; the name of a file would be right",
                       kUsage);
        }
        for (const Named& input : inputs) {
            if (!input.file->empty() &&
                same_file(name, *input.file == "-" ? "/dev/fd/0" : *input.file)) {
                return say(what + " is the same file as " + input.option + ", which is read",
                           kUsage);
            }
        }
        for (const Named& other : outputs) {
            if (&other != &output && !other.file->empty() && same_file(name, *other.file)) {
                return say(what + " is the same file as " + other.option + ", which is written too",
                           kUsage);
            }
        }
        if (const Status status = check_writable(name); !status.ok()) {
            return say(status.error(), kRefused);
        }
    }
    return std::nullopt;
}

Status write_outputs(const ReplayCommand& command, const std::vector<const SimRecord*>& records) {
    Status status;
    if (!command.svg_file.empty()) {
        status = write_file(command.svg_file, sim::timeline_svg(records));
    }
    if (status.ok() && !command.html_file.empty()) {
        status = write_file(command.html_file, sim::report_html(records));
    }
    if (status.ok() && !command.trace_file.empty()) {
        status = write_file(command.trace_file, sim::decision_trace(*records.front()));
    }
    return status;
}

// What every verb that simulates does first; the inputs, or the exit code.
std::optional<int> prepare(const ReplayCommand& command, std::optional<ReplayInputs>& inputs) {
    if (const auto code = check_outputs(command)) {
        return code;
    }
    auto read = read_replay_inputs(command);
    if (!read.ok()) {
        return say(read.error(), kRefused);
    }
    inputs = std::move(*read);
    const auto idle = settings_without_effect(command);
    inputs->notes.insert(inputs->notes.end(), idle.begin(), idle.end());
    warn(inputs->notes);
    return std::nullopt;
}

Settings without_rules(Settings settings, const std::vector<const sim::RuleSwitch*>& rules) {
    for (const sim::RuleSwitch* rule : rules) {
        settings = sim::without_rule(std::move(settings), *rule);
    }
    return settings;
}

Result<Replay> replay_of(const ReplayInputs& inputs, const ReplayCommand& command,
                         const std::string& policy) {
    const auto settings = replay_settings(inputs, command, policy);
    if (!settings.ok()) {
        return settings.failure();
    }
    if (const Status status = check_merged(*settings, command); !status.ok()) {
        return status.failure();
    }
    return Replay{policy, without_rules(*settings, command.without)};
}

int run_one(const CommandLine& line, const ReplayCommand& command) {
    std::optional<ReplayInputs> inputs;
    if (const auto code = prepare(command, inputs)) {
        return *code;
    }
    const auto replay = replay_of(*inputs, command, command.policies.front());
    if (!replay.ok()) {
        return say(replay.error(), kUsage);
    }
    SimRecord record;
    std::vector<sim::StartEstimate> estimates;
    {
        ReplayProgress progress(inputs->workload.jobs.size());
        const bool slots = !command.svg_file.empty() || !command.html_file.empty();
        record = simulate(*replay, *inputs, std::move(inputs->workload), slots, progress,
                          command.estimates_file.empty() ? nullptr : &estimates);
    }
    warn_of_outcomes({{&record.notes, record.policy}}, inputs->notes.size());
    Status written = write_outputs(command, {&record});
    if (written.ok() && !command.estimates_file.empty()) {
        written = write_file(command.estimates_file, sim::estimates_trace(record, estimates));
    }
    if (!written.ok()) {
        return say(written.error(), kRefused);
    }
    sim::SummaryOptions options;
    options.wall_seconds = command.timing;
    if (!line.has("json") && !line.has("parsable2")) {
        return print_text(sim::summary_text(record, options));
    }
    const Json json = with_wall_seconds(sim::summary_to_json(record, options), command.timing);
    return line.has("json") ? print_text(json.pretty())
                            : print_parsable(json, style_for_stdout(true, line.has("noheader")));
}

int compare(const CommandLine& line, const ReplayCommand& command) {
    std::optional<ReplayInputs> inputs;
    if (const auto code = prepare(command, inputs)) {
        return *code;
    }
    std::vector<Replay> replays;
    for (const std::string& policy : command.policies) {
        const auto replay = replay_of(*inputs, command, policy);
        if (!replay.ok()) {
            return say(replay.error(), kUsage);
        }
        replays.push_back(*replay);
    }
    std::vector<SimRecord> records(replays.size());
    {
        ReplayProgress progress(inputs->workload.jobs.size() * replays.size());
        const bool slots = !command.svg_file.empty() || !command.html_file.empty();
        for_all_cores(replays.size(), [&](std::size_t i) {
            records[i] = simulate(replays[i], *inputs, inputs->workload, slots, progress);
        });
    }
    std::vector<const SimRecord*> pointers;
    std::vector<Outcome> outcomes;
    pointers.reserve(records.size());
    for (const SimRecord& record : records) {
        outcomes.push_back({&record.notes, record.policy});
        pointers.push_back(&record);
    }
    warn_of_outcomes(outcomes, inputs->notes.size());
    if (const Status status = write_outputs(command, pointers); !status.ok()) {
        return say(status.error(), kRefused);
    }
    sim::SummaryOptions options;
    options.wall_seconds = command.timing;
    if (!line.has("json") && !line.has("parsable2")) {
        return print_text(sim::comparison_text(pointers, options));
    }
    const Json json = sim::comparison_to_json(pointers, options);
    return line.has("json") ? print_text(json.pretty())
                            : print_parsable(json, style_for_stdout(true, line.has("noheader")));
}

// --- sweep -----------------------------------------------------------------------------------

std::string decimal(double value, int digits) {
    char buffer[64];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, digits);
    return {buffer, end.ptr};
}
std::string percent(double fraction) {
    return decimal(100 * fraction, 1);
}

const sim::WaitSummary* waits_of(const sim::Summary& summary, std::string_view name) {
    for (const sim::NamedWaits& each : summary.waits) {
        if (each.name == name && each.waits.count > 0) {
            return &each.waits;
        }
    }
    return nullptr;
}

std::string p90_text(const sim::Summary& summary, std::string_view name) {
    const sim::WaitSummary* waits = waits_of(summary, name);
    return waits == nullptr ? std::string("-") : std::to_string(waits->p90);
}

const std::vector<TableColumn>& sweep_columns() {
    static const std::vector<TableColumn> columns = {{"VALUE"},
                                                     {"FINISHED", true},
                                                     {"OCCUPANCY(%)", true},
                                                     {"FREE(%)", true},
                                                     {"DELIVERED(%)", true},
                                                     {"WORST_TEAM(%)", true},
                                                     {"STARVED(%)", true},
                                                     {"P90_DEBUG(s)", true},
                                                     {"P90_SMALL(s)", true},
                                                     {"P90_LARGE(s)", true},
                                                     {"P90_ALL(s)", true},
                                                     {"PREEMPTIONS", true},
                                                     {"LOST(GPUh)", true},
                                                     {"GOODPUT(%)", true}};
    return columns;
}

std::vector<std::string> sweep_row(const std::string& value, const sim::Summary& summary) {
    return {value,
            std::to_string(summary.finished),
            percent(summary.occupancy),
            percent(summary.unallocated_fraction),
            summary.teams == 0 ? "-" : percent(summary.delivered_fraction),
            summary.teams == 0 ? "-" : percent(summary.worst_team_delivered),
            percent(summary.starved_fraction),
            p90_text(summary, "debug"),
            p90_text(summary, "small"),
            p90_text(summary, "large"),
            p90_text(summary, "all"),
            std::to_string(summary.preemptions.total),
            decimal(summary.lost_requeued_gpu_hours + summary.lost_ended_gpu_hours, 1),
            percent(summary.goodput_fraction)};
}

// The place of this task among those of its array, from Slurm's environment.
Result<std::size_t> array_place(std::size_t values) {
    const auto number = [](const char* name) -> std::optional<std::int64_t> {
        const char* text = std::getenv(name);
        if (text == nullptr) {
            return std::nullopt;
        }
        const std::string_view digits(text);
        std::int64_t read = 0;
        const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), read);
        return end.ec == std::errc() && end.ptr == digits.data() + digits.size()
                   ? std::optional(read)
                   : std::nullopt;
    };
    const auto task = number("SLURM_ARRAY_TASK_ID");
    if (!task) {
        return Error{
            "--array works inside a job array: SLURM_ARRAY_TASK_ID is not set; sbatch "
            "--array=0-" +
            std::to_string(values - 1) + " would be right"};
    }
    const std::int64_t first = number("SLURM_ARRAY_TASK_MIN").value_or(0);
    if (*task < first || static_cast<std::uint64_t>(*task - first) >= values) {
        return Error{"array task " + std::to_string(*task) + " has no value: there are " +
                     std::to_string(values) + "; sbatch --array=0-" + std::to_string(values - 1) +
                     " would be right"};
    }
    return static_cast<std::size_t>(*task - first);
}

int sweep(const CommandLine& line, const ReplayCommand& command) {
    std::vector<std::string> values = command.sweep_values;
    if (command.is_array_task) {
        const auto place = array_place(values.size());
        if (!place.ok()) {
            return say(place.error(), kUsage);
        }
        values = {values[*place]};
    }
    std::optional<ReplayInputs> inputs;
    if (const auto code = prepare(command, inputs)) {
        return *code;
    }
    const auto base = replay_of(*inputs, command, command.policies.front());
    if (!base.ok()) {
        return say(base.error(), kUsage);
    }
    std::vector<Replay> replays(values.size(), *base);
    for (std::size_t i = 0; i < values.size(); ++i) {
        Status status = apply_setting(replays[i].settings, command.sweep_key, values[i]);
        if (status.ok()) {
            status = check_merged(replays[i].settings, command, values[i]);
        }
        if (!status.ok()) {
            return say(status.error(), kUsage);
        }
    }
    std::vector<std::vector<std::string>> rows(values.size());
    std::vector<Json> answers(values.size());
    std::vector<std::vector<std::string>> notes(values.size());
    std::mutex mutex;  // JSON values share what is not made for threads
    {
        ReplayProgress progress(inputs->workload.jobs.size() * replays.size());
        sim::SummaryOptions options;
        options.wall_seconds = command.timing;
        for_all_cores(replays.size(), [&](std::size_t i) {
            SimRecord record = simulate(replays[i], *inputs, inputs->workload, false, progress);
            rows[i] = sweep_row(values[i], sim::summarize(record));
            if (line.has("json")) {
                const std::lock_guard<std::mutex> lock(mutex);
                answers[i] =
                    with_wall_seconds(sim::summary_to_json(record, options), command.timing);
            }
            notes[i] = std::move(record.notes);
        });
    }
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < values.size(); ++i) {
        outcomes.push_back({&notes[i], command.sweep_key + "=" + values[i]});
    }
    warn_of_outcomes(outcomes, inputs->notes.size());
    if (line.has("json")) {
        Json list = Json::array();
        for (std::size_t i = 0; i < values.size(); ++i) {
            Json entry = Json::object();
            entry.set("value", values[i]).set("result", answers[i]);
            list.append(entry);
        }
        Json json = Json::object();
        json.set("version", 1).set("setting", command.sweep_key).set("values", list);
        return print_text(json.pretty());
    }
    std::vector<TableColumn> columns = sweep_columns();
    columns.front().head = command.sweep_key;
    return print_table(columns, std::move(rows),
                       style_for_stdout(line.has("parsable2"), line.has("noheader")));
}

// --- snapshot --------------------------------------------------------------------------------

int snapshot(const CommandLine& line, const ReplayCommand& command) {
    const std::string& file = command.files.front();
    if (file == "-" || same_file(file, "/dev/fd/1")) {
        return say("snapshot " + quoted(file) +
                       ": standard output has the answer; the name of a file would be right",
                   kUsage);
    }
    if (const Status status = check_writable(file); !status.ok()) {
        return say(status.error(), kRefused);
    }
    CommandLine asked = line;  // -M is --clusters here
    asked.options["cluster"] = line.value("clusters");
    const auto answer = ask_controller(asked, "snapshot", Json::object());
    if (!answer.ok()) {
        return say(answer.error(), kRefused);
    }
    if (const Status status = write_file(file, answer->pretty()); !status.ok()) {
        return say(status.error(), kRefused);
    }
    std::size_t running = 0;
    const Json jobs = answer->at("jobs");
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        running += jobs.at(i).at("state").as_text() == "pending" ? 0 : 1;
    }
    if (line.has("json")) {
        return print_text(Json::object()
                              .set("version", 1)
                              .set("file", file)
                              .set("at", answer->at("at"))
                              .set("pending", static_cast<std::int64_t>(jobs.size() - running))
                              .set("running", static_cast<std::int64_t>(running))
                              .pretty());
    }
    return print_text(file + ": " + std::to_string(jobs.size() - running) + " waiting and " +
                      std::to_string(running) + " running jobs\n");
}

// --- check -----------------------------------------------------------------------------------

struct Checked {
    std::string file, name;
    std::vector<std::string> failures;
    bool is_read = false;
};

Checked check_file(const std::string& file, const ReplayCommand& command) {
    Checked checked;
    checked.file = file;
    const auto text = InputFile::open(file, std::size_t{64} << 20U);
    if (!text.ok()) {
        checked.failures.push_back(text.error());
        return checked;
    }
    auto scenario = sim::read_scenario(text->text(), file);
    if (!scenario.ok()) {
        checked.failures.push_back(scenario.error());
        return checked;
    }
    checked.is_read = true;
    checked.name = scenario->name;
    scenario->settings = without_rules(scenario->settings, command.without);
    checked.failures = sim::check_scenario(*scenario).failures;
    return checked;
}

int list_rules(const CommandLine& line) {
    std::vector<std::vector<std::string>> rows;
    Json list = Json::array();
    for (const sim::RuleSwitch& rule : sim::rule_switches()) {
        rows.push_back(
            {std::string(rule.name), std::string(rule.settings), std::string(rule.text)});
        list.append(Json::object()
                        .set("name", rows.back()[0])
                        .set("settings", rows.back()[1])
                        .set("text", rows.back()[2]));
    }
    if (line.has("json")) {
        return print_text(Json::object().set("version", 1).set("rules", list).pretty());
    }
    return print_table({{"RULE"}, {"LEFT_OUT_BY"}, {"TEXT"}}, std::move(rows),
                       style_for_stdout(line.has("parsable2"), line.has("noheader")));
}

int check(const CommandLine& line, const ReplayCommand& command) {
    if (command.lists_rules) {
        return list_rules(line);
    }
    std::vector<Checked> all(command.files.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = check_file(command.files[i], command);
    }
    std::size_t failed = 0;
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const Checked& each : all) {
        failed += each.failures.empty() ? 0 : 1;
        Json entry = Json::object();
        entry.set("file", each.file).set("name", each.name);
        entry.set("holds", each.failures.empty()).set("failures", Json::texts(each.failures));
        list.append(entry);
        rows.push_back({each.file, each.failures.empty() ? "holds"
                                   : each.is_read        ? "fails"
                                                         : "cannot be read"});
    }
    const int code = failed == 0 ? kDone : kRefused;
    if (line.has("json")) {
        Json json = Json::object();
        json.set("version", 1).set("holds", failed == 0).set("scenarios", list);
        const int printed = print_text(json.pretty());
        return printed != kDone ? printed : code;
    }
    if (line.has("parsable2")) {
        const int printed = print_table({{"SCENARIO"}, {"RESULT"}}, std::move(rows),
                                        style_for_stdout(true, line.has("noheader")));
        return printed != kDone ? printed : code;
    }
    std::string answer;
    for (const Checked& each : all) {
        if (each.failures.empty()) {
            continue;
        }
        if (!each.is_read) {
            say(each.failures.front(), kRefused);
            continue;
        }
        answer += each.file + ": fails\n" + each.failures.front() + "\n";
        if (each.failures.size() > 1) {
            answer += "and " + std::to_string(each.failures.size() - 1) + " more\n";
        }
    }
    answer += std::to_string(all.size() - failed) + " of " + std::to_string(all.size()) +
              (all.size() == 1 ? " scenario holds\n" : " scenarios hold\n");
    const int printed = print_text(answer);
    return printed != kDone ? printed : code;
}

int run_verb(const CommandLine& line, const ReplayCommand& command) {
    switch (command.verb) {
        case ReplayCommand::Verb::run:
            return run_one(line, command);
        case ReplayCommand::Verb::compare:
            return compare(line, command);
        case ReplayCommand::Verb::sweep:
            return sweep(line, command);
        case ReplayCommand::Verb::check:
            return check(line, command);
        case ReplayCommand::Verb::snapshot:
            return snapshot(line, command);
    }
    return kUsage;
}

int run(int count, char** arguments) {
    const CommandTable& table = sreplay_table();
    const auto line = parse_command_line(table, count, arguments);
    if (!line.ok()) {
        return say(line.error(), kUsage);
    }
    if (line->has("help") || line->has("usage") || line->has("version")) {
        return print_text(line->has("help")    ? help_text(table)
                          : line->has("usage") ? usage_text(table)
                                               : version_text(table));
    }
    const auto command = replay_command(*line);
    if (!command.ok()) {
        return say(command.error() + "; sreplay --help lists what is", kUsage);
    }
    try {
        return run_verb(*line, *command);
    } catch (const std::exception& e) {  // its text may hold names
        return say(std::string("internal fault: ") + e.what(), kRefused);
    }
}

}  // namespace
}  // namespace tranche

int main(int count, char** arguments) {
    return tranche::run_command(tranche::sreplay_table, tranche::run, count, arguments);
}
