// SPDX-License-Identifier: GPL-2.0-or-later
// Options of a command: one table, from which parsing, --help, --usage and the check of the man
// page derive.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.hpp"

namespace tranche {

inline constexpr int kDone = 0, kRefused = 1, kUsage = 2;  // exit codes of all commands

struct OptionRow {
    char letter;        // '\0': none
    const char* name;   // "parsable2"
    const char* value;  // "LIST", nullptr: takes none
    const char* text;   // one line of --help
};

struct CommandTable {
    const char* name;
    const char* about;                // one line
    std::vector<const char*> usages;  // lines of --usage, without the name
    std::vector<OptionRow> options;
    const char* more;                // behind the options in --help
    bool words_end_options = false;  // what follows the first word is another command's
};

struct CommandLine {
    std::map<std::string, std::string, std::less<>> options;  // by long name; the last one wins
    std::vector<std::pair<std::string, std::string>> given;   // all of them, as they came
    std::vector<std::string> words;

    bool has(std::string_view name) const { return options.find(name) != options.end(); }
    std::string value(std::string_view name) const {
        const auto it = options.find(name);
        return it == options.end() ? std::string() : it->second;
    }
    // Of an option that may be given more than once.
    std::vector<std::string> values(std::string_view name) const;
};

// --help --usage --version --json -P -n -M.
std::vector<OptionRow> common_options();

Result<CommandLine> parse_command_line(const CommandTable& table, int count, char** arguments);
std::string help_text(const CommandTable& table);
std::string usage_text(const CommandTable& table);
std::string version_text(const CommandTable& table);

// "a,b,c", without empty ones.
std::vector<std::string> split_list(std::string_view text, char separator = ',');

}  // namespace tranche
