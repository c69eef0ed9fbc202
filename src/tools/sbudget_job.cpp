// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/sbudget_job.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/command.hpp"
#include "tools/table.hpp"

namespace tranche {
namespace {

Json arguments_of(const JobCommand& command) {
    Json arguments = Json::object();
    arguments.set("job_id", command.job.id);
    if (command.job.array_task >= 0) {
        arguments.set("array_task_id", command.job.array_task);
    }
    if (command.job.het_offset >= 0) {
        arguments.set("het_offset", command.job.het_offset);
    }
    if (command.checkpointed) {
        return arguments;
    }
    Json words = Json::object();
    for (const std::string& key : contract_edit_keys()) {
        if (const auto* word = word_of(command.edit, key); *word) {
            std::string name = key;
            std::replace(name.begin(), name.end(), '-', '_');
            words.set(name.c_str(), std::string_view(**word));
        }
    }
    arguments.set("set", words);
    if (!command.reason.empty()) {
        arguments.set("reason", std::string_view(command.reason));
    }
    return arguments;
}

std::string changes_text(const Json& result, const TableStyle& style) {
    const Json changes = result.at("changes");
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const Json change = changes.at(i);
        rows.push_back({result.at("job").as_text(), change.at("field").as_text(),
                        change.at("before").as_text(), change.at("after").as_text()});
    }
    return table_text({{"JOB"}, {"FIELD"}, {"OLD"}, {"NEW"}}, rows, style);
}

void print_notes(const Json& result) {
    const Json notes = result.at("notes");
    for (std::size_t i = 0; i < notes.size(); ++i) {
        std::fprintf(stderr, "sbudget: %s\n", notes.at(i).as_text().c_str());
    }
}

}  // namespace

bool agreed() {
    std::fputs("Make this change? (y/N): ", stderr);
    char answer[64];
    return std::fgets(answer, sizeof answer, stdin) != nullptr &&
           (answer[0] == 'y' || answer[0] == 'Y');
}

int run_job_command(const CommandLine& line, const CommandTable& table, const JobCommand& command) {
    const char* method = command.checkpointed ? "checkpointed" : "contract";
    const bool only_try = line.has("what-if");
    // A checkpoint is no change of what was agreed, and a script says it.
    const bool asks = !line.has("immediate") && !only_try && !command.checkpointed;
    if (asks && isatty(STDIN_FILENO) != 1) {
        return complain(table,
                        "a change is asked about first, and standard input is no terminal; -i "
                        "makes it without asking",
                        kRefused);
    }
    Json arguments = arguments_of(command);
    const TableStyle style = style_for_stdout(line.has("parsable2"), line.has("noheader"));
    Json result;
    bool notes_shown = false;
    if (asks || only_try) {
        arguments.set("try", true);
        const auto tried = ask_controller(line, method, arguments);
        if (!tried.ok()) {
            return complain(table, tried.error(), kRefused);
        }
        result = *tried;
        if (asks && result.at("changes").size() > 0) {
            std::fputs(changes_text(result, style).c_str(), stderr);
            print_notes(result);
            notes_shown = true;
            if (!agreed()) {
                return complain(table, "nothing was changed", kRefused);
            }
        }
    }
    if (!only_try && (!asks || result.at("changes").size() > 0)) {
        arguments.set("try", false);
        const auto applied = ask_controller(line, method, arguments);
        if (!applied.ok()) {
            return complain(table, applied.error(), kRefused);
        }
        result = *applied;
    }
    if (line.has("json")) {
        return print_answer(result.pretty());
    }
    if (!notes_shown) {
        print_notes(result);
    }
    if (command.checkpointed) {
        return print_answer(only_try ? "" : "Noted.\n");
    }
    if (result.at("changes").size() == 0) {
        return print_answer("Nothing changes: it is so already.\n");
    }
    return print_answer(asks ? "Done.\n" : changes_text(result, style));
}

}  // namespace tranche
