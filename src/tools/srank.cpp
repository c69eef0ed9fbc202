// SPDX-License-Identifier: GPL-2.0-or-later
// Shows the ranked queue, running jobs, explanations and health.
#include <algorithm>
#include <cstdio>

#include "common/config/settings.hpp"
#include "common/config/time_format.hpp"
#include "common/report/explanation_text.hpp"
#include "common/report/people.hpp"
#include "common/wire/explanation_json.hpp"
#include "tools/command.hpp"
#include "tools/srank_options.hpp"
#include "tools/table.hpp"

namespace tranche {
namespace {

std::optional<std::int64_t> ratio_of(const Json& ratio) {
    return ratio.is_number() ? std::optional(ratio.as_thousandths()) : std::nullopt;
}

std::string job_text(const Json& row) {
    const std::int64_t array = row.at("array_job_id").as_integer();
    if (row.at("het_job_id").is_integer()) {
        return to_text(
            JobName{row.at("het_job_id").as_integer(), -1, row.at("het_offset").as_integer()});
    }
    if (array == 0) {
        return std::to_string(row.at("job_id").as_integer());
    }
    const Json task = row.at("array_task_id");
    if (task.is_integer()) {
        return std::to_string(array) + "_" + std::to_string(task.as_integer());
    }
    const Json tasks = row.at("tasks");
    return std::to_string(array) +
           (tasks.is_integer() ? "_[x" + std::to_string(tasks.as_integer()) + "]" : "_[...]");
}

std::string min_runtime_text(const Json& row) {
    const std::int64_t seconds = row.at("min_runtime_seconds").as_integer();
    return seconds == 0 ? "0" : format_time_span(seconds);
}

std::string levels_text(const Json& row) {
    std::string text;
    const Json levels = row.at("levels");
    for (std::size_t i = 0; i < levels.size(); ++i) {
        const Json level = levels.at(i);
        text += (i == 0 ? "" : " > ") + level.at("side").as_text() + " " +
                people_ratio(ratio_of(level.at("ratio")));
    }
    return text;
}

std::string cell_of(const std::string& name, const char* key, const Json& row, const Moment& now) {
    const Json value = row.at(key);
    if (name == "jobid") {
        return job_text(row);
    }
    if (name == "minruntime") {
        return min_runtime_text(row);
    }
    if (name == "levels") {
        return levels_text(row);
    }
    if (name == "ratio") {
        return people_ratio(ratio_of(value));
    }
    if (name == "used" || name == "funded") {
        return value.is_number() ? people_gpu_hours(value.as_thousandths()) : "-";
    }
    if (name == "resumable") {
        return value.as_boolean() ? "yes" : "no";
    }
    if (name == "submitted") {
        return value.as_integer() > 0 ? people_instant(value.as_integer(), now.calendar) : "-";
    }
    if (name == "next" || name == "start") {
        return value.is_integer() ? people_when(value.as_integer(), now) : "-";
    }
    if (name == "budget" && value.as_text().empty()) {
        return "(none)";
    }
    if (value.is_integer()) {
        return std::to_string(value.as_integer());
    }
    return value.as_text();
}

std::vector<Json> rows_of(const Json& list) {
    std::vector<Json> rows;
    for (std::size_t i = 0; i < list.size(); ++i) {
        rows.push_back(list.at(i));
    }
    return rows;
}

void sort_rows(std::vector<Json>& rows, const std::vector<SortKey>& keys) {
    std::stable_sort(rows.begin(), rows.end(), [&](const Json& a, const Json& b) {
        for (const SortKey& key : keys) {
            const Json x = a.at(key.json_key.c_str()), y = b.at(key.json_key.c_str());
            if (x.is_number() != y.is_number()) {
                return x.is_number();  // what has no number stands last, either way
            }
            const int order = x.is_number() ? (x.as_thousandths() < y.as_thousandths()   ? -1
                                               : x.as_thousandths() > y.as_thousandths() ? 1
                                                                                         : 0)
                                            : x.as_text().compare(y.as_text());
            if (order != 0) {
                return key.descending ? order > 0 : order < 0;
            }
        }
        return false;
    });
}

int show_queue(const CommandLine& line, const TableStyle& style) {
    std::vector<ColumnChoice> choices;
    for (const char* name : {"rank", "priority", "jobid", "user", "budget", "gpus", "minruntime",
                             "reason", "used", "funded", "ratio"}) {
        choices.push_back({name, 0, false});
    }
    if (line.has("long")) {
        choices.clear();
        for (const char* name :
             {"rank",       "priority",  "jobid",  "name",      "user",   "account",
              "partition",  "budget",    "class",  "team",      "nodes",  "gpus",
              "minruntime", "resumable", "runs",   "submitted", "reason", "next",
              "start",      "used",      "funded", "levels"}) {
            choices.push_back({name, 0, false});
        }
    }
    bool aligned_by_user = false;
    if (line.has("format")) {
        auto asked = parse_column_choice(line.value("format"));
        if (!asked.ok()) {
            return complain(srank_table(), asked.error(), kUsage);
        }
        aligned_by_user = line.value("format").find('%') != std::string::npos;
        choices = std::move(asked).value();
    }
    const auto keys = parse_sort_keys(line.value("sort"));
    if (!keys.ok()) {
        return complain(srank_table(), keys.error(), kUsage);
    }
    const auto filter = filter_of(line);
    if (!filter.ok()) {
        return complain(srank_table(), filter.error(), kUsage);
    }
    const auto answer = ask_controller(line, "queue", *filter);
    if (!answer.ok()) {
        return complain(srank_table(), answer.error(), kRefused);
    }
    std::vector<Json> rows = rows_of(answer->at("jobs"));
    sort_rows(rows, *keys);
    if (line.has("json")) {
        Json sorted = Json::array(), shown = *answer;
        for (const Json& row : rows) {
            sorted.append(row);
        }
        return print_answer(shown.set("jobs", sorted).pretty());
    }
    const Moment now = moment_of(*answer);
    std::vector<TableColumn> heads;
    std::vector<const ColumnName*> columns;
    for (const ColumnChoice& choice : choices) {
        const auto column =
            std::find_if(srank_columns().begin(), srank_columns().end(),
                         [&](const ColumnName& each) { return each.name == choice.name; });
        heads.push_back(
            {column->head, aligned_by_user ? choice.right : column->right, choice.width});
        columns.push_back(&*column);
    }
    std::vector<std::vector<std::string>> cells;
    for (const Json& row : rows) {
        std::vector<std::string> cell_row;
        cell_row.reserve(columns.size());
        for (const ColumnName* column : columns) {
            cell_row.push_back(cell_of(column->name, column->json_key, row, now));
        }
        cells.push_back(std::move(cell_row));
    }
    return print_answer(table_text(heads, cells, style));
}

std::string takers_text(const RunningExplanation& e, const Moment& now) {
    if (e.leaving_for != 0) {
        return "leaves for job " + std::to_string(e.leaving_for);
    }
    std::string text;
    for (const TakeOutlook& taker : e.takers) {
        text += (text.empty() ? "" : "; ") +
                (taker.job == 0 ? std::string("a job") : std::to_string(taker.job)) + " of " +
                taker.budget + " " + from_text(taker, now);
    }
    if (e.takers_count > e.takers.size()) {
        text += " and " + std::to_string(e.takers_count - e.takers.size()) + " more";
    }
    return text.empty() ? "nobody who waits" : text;
}

int show_running(const CommandLine& line, const TableStyle& style) {
    const auto filter = filter_of(line);
    if (!filter.ok()) {
        return complain(srank_table(), filter.error(), kUsage);
    }
    const auto answer = ask_controller(line, "running", *filter);
    if (!answer.ok()) {
        return complain(srank_table(), answer.error(), kRefused);
    }
    if (line.has("json")) {
        return print_answer(answer->pretty());
    }
    const Moment now = moment_of(*answer);
    const bool is_long = line.has("long");
    std::vector<TableColumn> heads = {{"JOBID", true},
                                      {"USER"},
                                      {"BUDGET"},
                                      {"GPUS", true},
                                      {"CLASS"},
                                      {"STARTED"},
                                      {"MIN_RUNTIME", true},
                                      {"PROTECTED_UNTIL"},
                                      {"COULD_TAKE_IT"}};
    if (is_long) {
        heads.insert(heads.end() - 1, {{"ON_LEAVING"}, {"RATIO", true}, {"NODES"}});
    }
    std::vector<std::vector<std::string>> cells;
    for (const Json& row : rows_of(answer->at("jobs"))) {
        const RunningExplanation e = running_explanation_from_json(row.at("outlook"));
        // Free, but it is charged and protected once its turn comes.
        const std::string of_class = row.at("express").as_boolean()      ? "express"
                                     : row.at("free_first").as_boolean() ? "free-first"
                                     : row.at("wants_turn").as_boolean() ? "free-headroom"
                                                                         : row.at("kind").as_text();
        std::vector<std::string> cell_row = {job_text(row),
                                             row.at("user").as_text(),
                                             e.budget,
                                             std::to_string(e.gpus),
                                             of_class,
                                             people_clock(e.started_at, now),
                                             min_runtime_text(row),
                                             protected_text(e, now)};
        if (is_long) {
            cell_row.push_back(e.resumable ? "requeued" : "ends");
            cell_row.push_back(people_ratio(ratio_of(row.at("ratio"))));
            std::string nodes;
            for (const Json& node : rows_of(row.at("nodes"))) {
                nodes += (nodes.empty() ? "" : ",") + node.as_text();
            }
            cell_row.push_back(nodes);
        }
        cell_row.push_back(takers_text(e, now));
        cells.push_back(std::move(cell_row));
    }
    return print_answer(table_text(heads, cells, style));
}

std::string assembly_text(const Json& assembly, const Moment& now) {
    const auto at = [&](const char* key) {
        return assembly.at(key).is_integer() ? people_clock(assembly.at(key).as_integer(), now)
                                             : std::string();
    };
    std::string text = "Assembly: its turn came " + at("turn_at");
    if (const std::string granted = at("granted_at"); !granted.empty()) {
        std::string nodes;
        for (const Json& node : rows_of(assembly.at("nodes"))) {
            nodes += (nodes.empty() ? "" : ",") + node.as_text();
        }
        text += ", granted " + granted + "; nodes " + nodes + ", gathered until " + at("date_at");
    } else {
        text += ", not granted yet (AssemblyPause, or its budget still pays for its last one)";
    }
    if (const std::string started = at("started_at"); !started.empty()) {
        text += "; started " + started;
    } else if (assembly.at("outcome").is_text()) {
        text += "; over: " + assembly.at("outcome").as_text();
    }
    return text + "\n";
}

int show_why(const CommandLine& line) {
    const auto name = parse_job_name(line.value("why"));
    if (!name.ok()) {
        return complain(srank_table(), name.error(), kUsage);
    }
    Json arguments = Json::object();
    arguments.set("job_id", name->id);
    if (name->array_task >= 0) {
        arguments.set("array_task_id", name->array_task);
    }
    if (name->het_offset >= 0) {
        arguments.set("het_offset", name->het_offset);
    }
    const auto answer = ask_controller(line, "why", arguments);
    if (!answer.ok()) {
        return complain(srank_table(), answer.error(), kRefused);
    }
    if (line.has("json")) {
        return print_answer(answer->pretty());
    }
    const Moment now = moment_of(*answer);
    const bool is_part = name->array_task >= 0 || name->het_offset >= 0;
    const std::string shown = is_part                         ? to_text(*name)
                              : answer->at("job").is_object() ? job_text(answer->at("job"))
                                                              : std::string();
    std::string text;
    if (answer->at("pending").is_object()) {
        text += explanation_text(pending_explanation_from_json(answer->at("pending")), now, shown);
    }
    if (answer->at("running").is_object()) {
        text += explanation_text(running_explanation_from_json(answer->at("running")), now, shown);
    }
    if (const Json start = answer->at("expected_start_at"); start.is_integer()) {
        text += "Expected to start by " + people_minute(start.as_integer(), now) +
                " (an estimate from contract ends and time limits)\n";
    }
    if (const Json array = answer->at("array"); array.is_object()) {
        text += "Of the whole array " + std::to_string(array.at("running").as_integer()) +
                " run and " + std::to_string(array.at("pending").as_integer()) + " wait\n";
    }
    std::vector<PastRun> runs;
    for (const Json& row : rows_of(answer->at("runs"))) {
        runs.push_back(past_run_from_json(row));
    }
    if (text.empty()) {
        text += past_text(runs, now, answer->at("name").as_text());
    } else if (!runs.empty() && (runs.size() > 1 || runs.back().ended_at > 0)) {
        text += "Its runs:\n" + runs_text(runs, now);
    }
    if (answer->at("assembly").is_object()) {
        text += assembly_text(answer->at("assembly"), now);
    }
    if (const Json reason = answer->at("slurm_reason");
        reason.is_text() && reason.as_text() != "None") {
        text += "Slurm's own reason: " + reason.as_text() + "\n";
    }
    if (answer->at("preemption").is_object()) {
        text += (text.empty() ? "" : "\n") +
                preemption_text(preemption_from_json(answer->at("preemption")), now);
    }
    if (const Json caused = answer->at("preemptions").at("caused"); caused.size() > 0) {
        text += "It made room for itself by:\n";
        for (const Json& row : rows_of(caused)) {
            const PreemptionRecord record = preemption_from_json(row);
            text +=
                "  " +
                preemption_text(record, now).substr(0, preemption_text(record, now).find('\n')) +
                "\n";
        }
    }
    return print_answer(text);
}

// Settings that differ from the defaults, and what they mean in one sentence.
std::vector<std::vector<std::string>> changed_settings(const Json& settings) {
    std::vector<std::vector<std::string>> rows;
    for (const SettingRow& known : settings_table()) {
        const Json value = settings.at(known.name.c_str());
        if (!value.is_text() || value.as_text() == known.default_value) {
            continue;
        }
        const std::string meaning = known.text.substr(0, known.text.find(". "));
        rows.push_back(
            {"setting", known.name + "=" + value.as_text() + " (" +
                            (known.default_value.empty() ? "not set" : known.default_value) +
                            " by default): " + meaning + (meaning.ends_with('.') ? "" : ".")});
    }
    return rows;
}

int show_health(const CommandLine& line, const TableStyle& style) {
    const auto answer = ask_controller(line, "health", Json::object());
    if (!answer.ok()) {
        return complain(srank_table(), answer.error(), kRefused);
    }
    if (line.has("json")) {
        return print_answer(answer->pretty());
    }
    const Moment now = moment_of(*answer);
    const Json& health = *answer;
    const auto number = [&](const char* key) {
        return std::to_string(health.at(key).as_integer());
    };
    const auto preempted = [&](const char* key) {
        return std::to_string(health.at("preemptions").at(key).as_integer());
    };
    std::vector<std::vector<std::string>> rows = {
        {"cluster", health.at("cluster").as_text()},
        {"started", people_when(health.at("started_at").as_integer(), now)},
        {"cycles", number("cycles") + ", the last " +
                       people_when(health.at("last_cycle_at").as_integer(), now)},
        {"ranking", number("rank_microseconds") + " us; reading the jobs " +
                        number("collect_microseconds") + " us"},
        {"jobs", number("pending_jobs") + " pending, " + number("running_jobs") + " running, " +
                     number("plans") + " plans"},
        {"budgets", number("budgets")},
        {"database", std::string(health.at("database_ok").as_boolean() ? "ok" : "NOT WRITTEN") +
                         ", " + health.at("database").as_text() + ", " + number("open_runs") +
                         " open runs"},
        {"preemptions", preempted("total") + "; wasted " + preempted("wasted") + ", overtaken " +
                            preempted("overtaken") + ", claimant left " +
                            preempted("claimant_left")},
        {"faults", number("faults") + (health.at("last_fault").as_text().empty()
                                           ? ""
                                           : ", the last: " + health.at("last_fault").as_text())}};
    if (const auto count = health.at("grace_delays_milliseconds").size(); count > 0) {
        rows.push_back({"grace", "ended late by p50 " + number("grace_delay_p50_milliseconds") +
                                     " ms, p99 " + number("grace_delay_p99_milliseconds") +
                                     " ms, of the last " + std::to_string(count)});
    }
    if (health.at("dry_run").as_boolean()) {
        rows.push_back({"dry run", "yes: nobody is preempted (" + preempted("rehearsed") +
                                       " would have been); the queue is ordered by " +
                                       health.at("ordered_by").as_text()});
    }
    const Json complaints = health.at("complaints");
    for (std::size_t i = 0; i < complaints.size(); ++i) {
        rows.push_back({"complaint", complaints.at(i).as_text()});
    }
    for (std::vector<std::string>& row : changed_settings(health.at("settings"))) {
        rows.push_back(std::move(row));
    }
    TableStyle plain = style;
    plain.terminal_width = 0;  // a complaint is read whole
    plain.heading = false;
    std::string text = table_text({{"WHAT"}, {"HOW"}}, rows, plain);
    if (line.has("long")) {
        const Json settings = health.at("settings");
        std::vector<std::vector<std::string>> lines;
        for (const std::string& key : settings.keys()) {
            lines.push_back({key, settings.at(key.c_str()).as_text()});
        }
        text += (style.parsable ? "" : "\n") + table_text({{"SETTING"}, {"VALUE"}}, lines, plain);
    }
    print_answer(text);
    return health.at("database_ok").as_boolean() && health.at("faults").as_integer() == 0
               ? kDone
               : kRefused;
}

std::string start_text(const Json& row, const Moment& now) {
    const Json at = row.at("expected_start_at");
    return !at.is_integer()            ? "no date within two days"
           : at.as_integer() <= now.at ? "now"
                                       : "by " + people_minute(at.as_integer(), now) + ", in " +
                                             people_duration(at.as_integer() - now.at);
}

int show_me(const CommandLine& line, const TableStyle& style) {
    const auto answer = ask_controller(line, "me", Json::object());
    if (!answer.ok()) {
        return complain(srank_table(), answer.error(), kRefused);
    }
    if (line.has("json")) {
        return print_answer(answer->pretty());
    }
    const Moment now = moment_of(*answer);
    const auto hours = [](const Json& row, const char* key) {
        const Json value = row.at(key);
        return value.is_number() ? people_gpu_hours(value.as_thousandths()) : std::string("-");
    };
    std::vector<std::vector<std::string>> budgets, runs, queue;
    for (const Json& row : rows_of(answer->at("budgets"))) {
        budgets.push_back({row.at("budget").as_text(), hours(row, "used_gpu_hours"),
                           hours(row, "funded_gpu_hours"), people_ratio(ratio_of(row.at("ratio"))),
                           hours(row, "my_used_gpu_hours"), hours(row, "my_free_gpu_hours")});
    }
    for (const Json& row : rows_of(answer->at("running"))) {
        const RunningExplanation e = running_explanation_from_json(row.at("outlook"));
        runs.push_back({job_text(row), row.at("name").as_text(), e.budget, std::to_string(e.gpus),
                        people_clock(e.started_at, now), protected_text(e, now),
                        e.leaving_for != 0 ? "leaves for job " + std::to_string(e.leaving_for)
                        : e.resumable      ? "requeued when taken"
                                           : "ends when taken"});
    }
    for (const Json& row : rows_of(answer->at("queue"))) {
        queue.push_back(
            {std::to_string(row.at("rank").as_integer()), job_text(row), row.at("name").as_text(),
             row.at("budget").as_text(), std::to_string(row.at("gpus").as_integer()),
             min_runtime_text(row), row.at("wait_reason").as_text(),
             row.at("could_start").as_boolean() ? start_text(row, now) : std::string("-")});
    }
    const auto part = [&](const char* title, const char* none,
                          const std::vector<TableColumn>& heads,
                          const std::vector<std::vector<std::string>>& rows) {
        return std::string(style.parsable ? "" : title) + (style.parsable ? "" : ":\n") +
               (rows.empty() ? (style.parsable ? std::string() : std::string(none) + "\n")
                             : table_text(heads, rows, style));
    };
    const std::string window = people_duration(answer->at("window_seconds").as_integer());
    const std::string gap = style.parsable ? "" : "\n";
    return print_answer(part(("My budgets, the last " + window).c_str(), "no budget pays for you",
                             {{"BUDGET"},
                              {"USED(GPUh)", true},
                              {"FUNDED(GPUh)", true},
                              {"RATIO", true},
                              {"MINE(GPUh)", true},
                              {"MINE_FREE(GPUh)", true}},
                             budgets) +
                        gap +
                        part("Running", "nothing",
                             {{"JOBID", true},
                              {"NAME"},
                              {"BUDGET"},
                              {"GPUS", true},
                              {"STARTED"},
                              {"PROTECTED_UNTIL"},
                              {"THEN"}},
                             runs) +
                        gap +
                        part("Waiting", "nothing",
                             {{"RANK", true},
                              {"JOBID", true},
                              {"NAME"},
                              {"BUDGET"},
                              {"GPUS", true},
                              {"MIN_RUNTIME", true},
                              {"REASON"},
                              {"EXPECTED_START"}},
                             queue));
}

std::string shape_text(const Json& row) {
    const std::int64_t nodes = row.at("nodes").as_integer(), gpus = row.at("gpus").as_integer();
    const std::int64_t seconds = row.at("min_runtime_seconds").as_integer();
    return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") + " on " + std::to_string(nodes) +
           (nodes == 1 ? " node" : " nodes") +
           (seconds == 0 ? ", free" : ", " + format_duration(seconds) + " protected");
}

int show_try(const CommandLine& line, const TableStyle& style) {
    const auto arguments = try_arguments(line.value("try"));
    if (!arguments.ok()) {
        return complain(srank_table(), arguments.error(), kUsage);
    }
    const auto answer = ask_controller(line, "try", *arguments);
    if (!answer.ok()) {
        return complain(srank_table(), answer.error(), kRefused);
    }
    if (line.has("json")) {
        return print_answer(answer->pretty());
    }
    const Moment now = moment_of(*answer);
    if (const Json note = answer->at("note"); note.is_text()) {
        complain(srank_table(), note.as_text(), kDone);
    }
    std::vector<std::vector<std::string>> rows;
    const auto add = [&](const char* what, const Json& row) {
        rows.push_back({what, shape_text(row), row.at("class").as_text(),
                        std::to_string(row.at("rank").as_integer()) + " of " +
                            std::to_string(row.at("ranked").as_integer()),
                        start_text(row, now)});
    };
    add("asked", answer->at("asked"));
    for (const Json& row : rows_of(answer->at("sooner"))) {
        add("sooner", row);
    }
    std::string text =
        table_text({{"WHAT"}, {"SHAPE"}, {"CLASS"}, {"RANK"}, {"EXPECTED_START"}}, rows, style);
    if (!style.parsable) {
        text += "Budget " +
                (answer->at("budget").as_text().empty() ? std::string("(none)")
                                                        : answer->at("budget").as_text()) +
                "; estimated from contract ends and time limits, nothing was submitted\n";
    }
    return print_answer(text);
}

int run(int count, char** arguments) {
    const CommandTable& table = srank_table();
    const auto line = parse_command_line(table, count, arguments);
    if (!line.ok()) {
        return complain(table, line.error(), kUsage);
    }
    if (const auto code = print_about(table, *line)) {
        return *code;
    }
    if (const Status status = check_views(*line); !status.ok()) {
        return complain(table, status.error(), kUsage);
    }
    const TableStyle style =
        style_for_stdout(line->has("parsable2"), line->has("noheader") || line->has("no-header"));
    if (line->has("why")) {
        return show_why(*line);
    }
    if (line->has("health")) {
        return show_health(*line, style);
    }
    if (line->has("try")) {
        return show_try(*line, style);
    }
    if (!line->words.empty()) {
        return show_me(*line, style);
    }
    return line->has("running") ? show_running(*line, style) : show_queue(*line, style);
}

}  // namespace
}  // namespace tranche

int main(int count, char** arguments) {
    return tranche::run_command(tranche::srank_table, tranche::run, count, arguments);
}
