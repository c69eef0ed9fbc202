// SPDX-License-Identifier: GPL-2.0-or-later
// Shows and changes budgets.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>

#include "common/base/quoted.hpp"
#include "common/report/people.hpp"
#include "common/wire/budgets_json.hpp"
#include "common/wire/explanation_json.hpp"
#include "tools/command.hpp"
#include "tools/instants.hpp"
#include "tools/sbudget_job.hpp"
#include "tools/sbudget_options.hpp"
#include "tools/table.hpp"
#include "tools/text_file.hpp"

namespace tranche {
namespace {

using Verb = BudgetCommand::Verb;

constexpr std::int64_t kMostOfAPeriod = 100000;

struct Column {
    const char* name;
    const char* head;
    bool right;
    std::function<std::string(const Json&)> cell;
};

std::string joined(const Json& list) {
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i) {
        text += (i == 0 ? "" : ",") + list.at(i).as_text();
    }
    return text;
}

auto text_at(const char* key) {
    return [key](const Json& row) { return row.at(key).as_text(); };
}
auto list_at(const char* key) {
    return [key](const Json& row) { return joined(row.at(key)); };
}
auto number_at(const char* key) {
    return [key](const Json& row) {
        const Json value = row.at(key);
        return value.is_number() ? std::to_string(value.as_integer()) : std::string();
    };
}
auto hours_at(const char* key) {
    return [key](const Json& row) {
        const Json value = row.at(key);
        return value.is_number() ? people_gpu_hours(value.as_thousandths()) : std::string();
    };
}

std::string ratio_cell(const Json& row) {
    const Json ratio = row.at("ratio");
    return people_ratio(ratio.is_number() ? std::optional(ratio.as_thousandths()) : std::nullopt);
}

std::string percent_cell(const Json& row) {
    const Json fraction = row.at("funded_fraction");
    return fraction.is_number() ? people_gpu_hours(fraction.as_thousandths() * 100) : "";
}

std::vector<Column> budget_columns(bool indent) {
    const auto name = [indent](const Json& row) {
        const auto depth = static_cast<std::size_t>(row.at("depth").as_integer());
        return std::string(indent ? 2 * std::min<std::size_t>(depth, 32) : 0, ' ') +
               row.at("name").as_text();
    };
    return {{"name", "BUDGET", false, name},
            {"parent", "PARENT", false, text_at("parent")},
            {"shares", "SHARES", true, number_at("shares")},
            {"own_shares", "OWN_SHARES", true, number_at("own_shares")},
            {"sharing", "SHARING", false, text_at("sharing")},
            {"fraction", "FUNDED(%)", true, percent_cell},
            {"funded_gpus", "FUNDED(GPUs)", true, hours_at("funded_gpus")},
            {"used", "USED(GPUh)", true, hours_at("used_gpu_hours")},
            {"funded", "FUNDED(GPUh)", true, hours_at("funded_gpu_hours")},
            {"ratio", "RATIO", true, ratio_cell},
            {"committed", "COMMITTED(GPUh)", true, hours_at("committed_gpu_hours")},
            {"faded", "FADED(GPUh)", true, hours_at("faded_charge_gpu_hours")},
            {"entitlement", "ENTITLEMENT(GPUh)", true, hours_at("entitlement_gpu_hours")},
            {"free", "FREE(GPUh)", true, hours_at("free_gpu_hours")},
            {"running", "RUNNING(GPUs)", true, number_at("running_allocated_gpus")},
            {"running_free", "RUN_FREE(GPUs)", true, number_at("running_free_gpus")},
            {"pending", "PENDING(GPUs)", true, number_at("pending_gpus")},
            {"accounts", "ACCOUNTS", false, list_at("accounts")},
            {"users", "USERS", false, list_at("users")},
            {"managers", "MANAGERS", false, list_at("managers")}};
}

std::string instant_at(const Json& row, const char* key) {
    const std::int64_t at = row.at(key).as_integer();
    return at > 0 ? people_instant(at, local_calendar) : "";
}

std::vector<Column> edit_columns() {
    return {{"time", "TIME", false, [](const Json& row) { return instant_at(row, "at"); }},
            {"user", "USER", false, text_at("user")},
            {"name", "BUDGET", false, text_at("budget")},
            {"field", "FIELD", false,
             [](const Json& row) {
                 return row.at("field").as_text() != "budget" ? row.at("field").as_text()
                        : row.at("before").as_text().empty()  ? std::string("added")
                                                              : std::string("deleted");
             }},
            {"before", "BEFORE", false, text_at("before")},
            {"after", "AFTER", false, text_at("after")},
            {"reason", "REASON", false, text_at("reason")}};
}

// "123_4", or the id where people know no other name.
std::string job_cell(const Json& row, const char* label_key, const char* id_key) {
    const std::int64_t id = row.at(id_key).as_integer();
    return !row.at(label_key).as_text().empty() ? row.at(label_key).as_text()
           : id > 0                             ? std::to_string(id)
                                                : std::string();
}

std::vector<Column> contract_columns() {
    return {{"time", "TIME", false, [](const Json& row) { return instant_at(row, "at"); }},
            {"user", "USER", false, text_at("user")},
            {"job", "JOB", false, text_at("job")},
            {"owner", "OWNER", false, text_at("owner")},
            {"field", "FIELD", false, text_at("field")},
            {"before", "BEFORE", false, text_at("before")},
            {"after", "AFTER", false, text_at("after")},
            {"reason", "REASON", false, text_at("reason")}};
}

std::vector<Column> preemption_columns() {
    const auto side = [](const char* key) {
        return [key](const Json& row) {
            const Json numbers = row.at(key);
            return numbers.at("name").as_text().empty()
                       ? std::string()
                       : numbers.at("name").as_text() + " " + ratio_cell(numbers);
        };
    };
    const auto side_hours = [](const char* side_key, const char* key) {
        return [side_key, key](const Json& row) {
            const Json value = row.at(side_key).at(key);
            return value.is_number() ? people_gpu_hours(value.as_thousandths()) : std::string();
        };
    };
    return {
        {"time", "TIME", false, [](const Json& row) { return instant_at(row, "planned_at"); }},
        {"victim", "VICTIM", true,
         [](const Json& row) { return job_cell(row, "victim_job", "victim_job_id"); }},
        {"victim_budget", "BUDGET", false, text_at("victim_budget")},
        {"victim_user", "USER", false, text_at("victim_user")},
        {"contract_ended", "CONTRACT_ENDED", false,
         [](const Json& row) { return instant_at(row, "contract_ended_at"); }},
        {"claimant", "CLAIMANT", true,
         [](const Json& row) { return job_cell(row, "claimant_job", "claimant_job_id"); }},
        {"claimant_budget", "BY_BUDGET", false, text_at("claimant_budget")},
        {"claimant_user", "BY_USER", false, text_at("claimant_user")},
        {"reason", "REASON", false, text_at("reason")},
        {"level", "BELOW", false, text_at("level")},
        {"victim_side", "VICTIM_SIDE", false, side("victim_side")},
        {"claimant_side", "CLAIMANT_SIDE", false, side("claimant_side")},
        {"victim_used", "VICTIM_USED(GPUh)", true,
         side_hours("victim_side", "faded_charge_gpu_hours")},
        {"victim_entitled", "VICTIM_ENTITLED(GPUh)", true,
         side_hours("victim_side", "entitlement_gpu_hours")},
        {"claimant_used", "CLAIMANT_USED(GPUh)", true,
         side_hours("claimant_side", "faded_charge_gpu_hours")},
        {"claimant_entitled", "CLAIMANT_ENTITLED(GPUh)", true,
         side_hours("claimant_side", "entitlement_gpu_hours")},
        {"warned", "WARNED", false, [](const Json& row) { return instant_at(row, "warned_at"); }},
        {"gone", "GONE", false, [](const Json& row) { return instant_at(row, "gone_at"); }},
        {"nodes", "NODES", false, text_at("nodes")},
        {"started_on", "STARTED_ON", false, text_at("claimant_nodes")},
        {"started", "STARTED", false,
         [](const Json& row) { return instant_at(row, "claimant_started_at"); }},
        {"outcome", "OUTCOME", false, text_at("outcome")}};
}

// format= with widths as sacctmgr has them, or the default's names.
Result<std::string> table_of(const std::vector<Column>& columns, const Json& rows,
                             const std::vector<std::string>& asked, const TableStyle& style,
                             const std::function<bool(const Json&)>& wanted) {
    std::vector<TableColumn> heads;
    std::vector<const Column*> chosen;
    for (const std::string& word : asked) {
        const std::size_t percent = word.find('%');
        const std::string name = word.substr(0, percent);
        auto it = std::find_if(columns.begin(), columns.end(), [&](const Column& column) {
            return equal_ignoring_case(column.name, name);
        });
        if (it == columns.end()) {
            it = std::find_if(columns.begin(), columns.end(), [&](const Column& column) {
                return starts_with_ignoring_case(column.name, name);
            });
        }
        if (name.empty() || it == columns.end()) {
            std::string known;
            for (const Column& column : columns) {
                known += std::string(known.empty() ? "" : ", ") + column.name;
            }
            return Error{"unknown column " + quoted(name) + "; known are " + known};
        }
        std::size_t width = 0;
        if (percent != std::string::npos) {
            width = static_cast<std::size_t>(std::abs(std::atoi(word.c_str() + percent + 1)));
            if (width == 0 || width > 1000) {
                return Error{"width of column " + quoted(word) + " is not a number from 1 to 1000"};
            }
        }
        heads.push_back({it->head, it->right, width});
        chosen.push_back(&*it);
    }
    std::vector<std::vector<std::string>> cells;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Json row = rows.at(i);
        if (!wanted(row)) {
            continue;
        }
        std::vector<std::string> line;
        line.reserve(chosen.size());
        for (const Column* column : chosen) {
            line.push_back(column->cell(row));
        }
        cells.push_back(std::move(line));
    }
    return table_text(heads, cells, style);
}

bool any_of_list(const std::vector<std::string>& wanted, const Json& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (std::find(wanted.begin(), wanted.end(), list.at(i).as_text()) != wanted.end()) {
            return true;
        }
    }
    return wanted.empty();
}

bool is_one_of(const std::vector<std::string>& wanted, const std::string& text) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), text) != wanted.end();
}

// Whether one of the words is the job's id or label, or the array's it is of.
bool names_job(const std::vector<std::string>& wanted, const Json& row, const std::string& key) {
    const std::string label = row.at(key.c_str()).as_text();
    const std::string whole = label.substr(0, label.find_first_of("_+"));
    const std::string id = std::to_string(row.at((key + "_id").c_str()).as_integer());
    return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
        return word == id || (!label.empty() && (word == label || word == whole));
    });
}

int show(const CommandLine& line, const BudgetCommand& command) {
    const bool of_budgets = command.verb == Verb::show_tree || command.verb == Verb::show_budget;
    const char* method = of_budgets                            ? "tree"
                         : command.verb == Verb::show_edit     ? "edits"
                         : command.verb == Verb::show_contract ? "contract_edits"
                                                               : "preemptions";
    const char* list_key = of_budgets                            ? "budgets"
                           : command.verb == Verb::show_edit     ? "edits"
                           : command.verb == Verb::show_contract ? "contract_edits"
                                                                 : "preemptions";
    std::int64_t from = 0, to = INT64_MAX;
    for (const auto& [text, at] :
         {std::pair(&command.start, &from), std::pair(&command.end, &to)}) {
        if (text->empty()) {
            continue;
        }
        const auto instant = parse_instant(*text, std::time(nullptr));
        if (!instant.ok()) {
            return complain(sbudget_table(), instant.error(), kUsage);
        }
        *at = *instant;
    }
    Json arguments = Json::object();
    if (!of_budgets && (!command.start.empty() || !command.end.empty())) {
        arguments.set("most", kMostOfAPeriod);
    }
    if (command.verb == Verb::show_preemption) {
        arguments.set("from", from).set("to", to);
    }
    const auto answer = ask_controller(line, method, arguments);
    if (!answer.ok()) {
        return complain(sbudget_table(), answer.error(), kRefused);
    }
    const auto wanted = [&](const Json& row) {
        if (command.verb == Verb::show_budget &&
            (row.at("own_side").as_boolean() || row.at("unpaid").as_boolean() ||
             row.at("name").as_text() == kRootBudget)) {
            return false;
        }
        if (of_budgets) {
            return is_one_of(command.names, row.at("name").as_text()) &&
                   is_one_of(command.parents, row.at("parent").as_text()) &&
                   any_of_list(command.accounts, row.at("accounts")) &&
                   any_of_list(command.users, row.at("users")) &&
                   any_of_list(command.managers, row.at("managers"));
        }
        if (command.verb == Verb::show_edit) {
            return row.at("at").as_integer() >= from && row.at("at").as_integer() <= to &&
                   is_one_of(command.names, row.at("budget").as_text()) &&
                   is_one_of(command.users, row.at("user").as_text());
        }
        if (command.verb == Verb::show_contract) {
            const std::string job = row.at("job").as_text();
            return row.at("at").as_integer() >= from && row.at("at").as_integer() <= to &&
                   (is_one_of(command.names, job) ||
                    is_one_of(command.names, job.substr(0, job.find('_')))) &&
                   (is_one_of(command.users, row.at("user").as_text()) ||
                    is_one_of(command.users, row.at("owner").as_text()));
        }
        return (command.jobs.empty() || names_job(command.jobs, row, "victim_job") ||
                names_job(command.jobs, row, "claimant_job")) &&
               (command.names.empty() ||
                is_one_of(command.names, row.at("victim_budget").as_text()) ||
                is_one_of(command.names, row.at("claimant_budget").as_text())) &&
               (command.users.empty() ||
                is_one_of(command.users, row.at("victim_user").as_text()) ||
                is_one_of(command.users, row.at("claimant_user").as_text()));
    };
    if (line.has("json")) {
        Json rows = Json::array();
        const Json all = answer->at(list_key);
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (wanted(all.at(i))) {
                rows.append(all.at(i));
            }
        }
        Json shown = *answer;
        return print_answer(shown.set(list_key, rows).pretty());
    }
    const TableStyle style = style_for_stdout(line.has("parsable2"), line.has("noheader"));
    const std::vector<Column> columns =
        of_budgets ? budget_columns(command.verb == Verb::show_tree && !style.parsable)
        : command.verb == Verb::show_edit     ? edit_columns()
        : command.verb == Verb::show_contract ? contract_columns()
                                              : preemption_columns();
    std::vector<std::string> asked = command.columns;
    if (asked.empty()) {
        switch (command.verb) {
            case Verb::show_tree:
                asked = {"name",   "shares", "fraction", "funded_gpus", "used",
                         "funded", "ratio",  "running",  "pending"};
                break;
            case Verb::show_budget:
                asked = {"name",    "parent",   "shares", "own_shares",
                         "sharing", "accounts", "users",  "managers"};
                break;
            case Verb::show_edit:
                asked = {"time", "user", "name", "field", "before", "after", "reason"};
                break;
            case Verb::show_contract:
                asked = {"time", "user", "job", "owner", "field", "before", "after", "reason"};
                break;
            default:
                asked = {
                    "time",    "victim",     "victim_budget", "claimant",      "claimant_budget",
                    "reason",  "level",      "victim_side",   "claimant_side", "gone",
                    "started", "started_on", "outcome"};
        }
    }
    const auto text = table_of(columns, answer->at(list_key), asked, style, wanted);
    if (!text.ok()) {
        return complain(sbudget_table(), text.error(), kUsage);
    }
    return print_answer(*text);
}

int dump(const CommandLine& line, const BudgetCommand& command) {
    const auto answer = ask_controller(line, "dump", Json::object());
    if (!answer.ok()) {
        return complain(sbudget_table(), answer.error(), kRefused);
    }
    if (command.file == "-") {
        return print_answer(answer->pretty());
    }
    std::ofstream file(command.file, std::ios::trunc);
    file << answer->pretty() << std::flush;
    if (!file) {
        return complain(sbudget_table(), "file " + quoted(command.file) + " cannot be written",
                        kRefused);
    }
    return kDone;
}

std::string changes_text(const Json& changes, const TableStyle& style) {
    std::vector<std::vector<std::string>> rows;
    for (const BudgetChange& change : changes_from_json(changes)) {
        if (change.field == "budget") {
            rows.push_back({change.budget, change.before.empty() ? "added" : "deleted",
                            change.before, change.after});
        } else {
            rows.push_back({change.budget, change.field, change.before, change.after});
        }
    }
    return table_text({{"BUDGET"}, {"FIELD"}, {"OLD"}, {"NEW"}}, rows, style);
}

int write_edit(const CommandLine& line, const BudgetEdit& edit) {
    const bool only_try = line.has("what-if");
    const bool asks = !line.has("immediate") && !only_try;
    if (asks && isatty(STDIN_FILENO) != 1) {
        return complain(sbudget_table(),
                        "a change is asked about first, and standard input is no terminal; -i "
                        "makes it without asking",
                        kRefused);
    }
    Json arguments = Json::object();
    arguments.set("edit", edit_to_json(edit));
    Json result;
    if (asks || only_try) {
        arguments.set("try", true);
        const auto tried = ask_controller(line, "edit", arguments);
        if (!tried.ok()) {
            return complain(sbudget_table(), tried.error(), kRefused);
        }
        result = *tried;
    }
    const TableStyle style = style_for_stdout(line.has("parsable2"), line.has("noheader"));
    if (asks && result.at("changes").size() > 0) {
        std::fputs(changes_text(result.at("changes"), style).c_str(), stderr);
        if (!agreed()) {
            return complain(sbudget_table(), "nothing was changed", kRefused);
        }
    }
    if (!only_try && (!asks || result.at("changes").size() > 0)) {
        arguments.set("try", false);
        const auto applied = ask_controller(line, "edit", arguments);
        if (!applied.ok()) {
            return complain(sbudget_table(), applied.error(), kRefused);
        }
        result = *applied;
    }
    if (line.has("json")) {
        return print_answer(result.pretty());
    }
    if (result.at("changes").size() == 0) {
        return print_answer("Nothing changes: it is so already.\n");
    }
    return print_answer(asks ? "Done.\n" : changes_text(result.at("changes"), style));
}

int run(int count, char** arguments) {
    const auto line = parse_command_line(sbudget_table(), count, arguments);
    if (!line.ok()) {
        return complain(sbudget_table(), line.error(), kUsage);
    }
    if (const auto code = print_about(sbudget_table(), *line)) {
        return *code;
    }
    auto command = parse_budget_command(line->words);
    if (!command.ok()) {
        return complain(sbudget_table(), command.error(), kUsage);
    }
    switch (command->verb) {
        case Verb::dump:
            return dump(*line, *command);
        case Verb::load: {
            const auto text = read_text_file(command->file);
            if (!text.ok()) {
                return complain(sbudget_table(), text.error(), kRefused);
            }
            auto budgets = parse_budgets(*text, "file " + quoted(command->file));
            if (!budgets.ok()) {
                return complain(sbudget_table(), budgets.error(), kRefused);
            }
            command->edit.tree = std::move(budgets).value();
            return write_edit(*line, command->edit);
        }
        case Verb::write:
            return write_edit(*line, command->edit);
        case Verb::job:
            return run_job_command(*line, sbudget_table(), command->job);
        default:
            return show(*line, *command);
    }
}

}  // namespace
}  // namespace tranche

int main(int count, char** arguments) {
    return tranche::run_command(tranche::sbudget_table, tranche::run, count, arguments);
}
