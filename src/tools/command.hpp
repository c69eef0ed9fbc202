// SPDX-License-Identifier: GPL-2.0-or-later
// What the commands share: answers on standard output, everything else on standard error.
#pragma once

#include <optional>
#include <string>

#include "common/report/people.hpp"
#include "common/wire/json.hpp"
#include "tools/command_line.hpp"
#include "tools/service_client.hpp"

namespace tranche {

// Prints "NAME: text" on standard error and gives back the code.
int complain(const CommandTable& table, const std::string& text, int code);
int print_answer(const std::string& text);  // kRefused if it cannot be written

// The body of main(): what it throws is said and fails.
int run_command(const CommandTable& (*table)(), int (*body)(int, char**), int count,
                char** arguments) noexcept;

// Handles --help, --usage and --version; the exit code if one of them was said.
std::optional<int> print_about(const CommandTable& table, const CommandLine& line);

CalendarTime local_calendar(std::int64_t at);
inline Moment moment_of(const Json& answer) {
    return {answer.at("at").as_integer(), local_calendar};
}

// Asks the controller that -M names.
Result<Json> ask_controller(const CommandLine& line, const std::string& method,
                            const Json& arguments);

}  // namespace tranche
