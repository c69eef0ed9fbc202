// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/command_line.hpp"

#include <getopt.h>

#include <algorithm>

#include "common/base/quoted.hpp"
#include "tranche_config.h"

namespace tranche {
namespace {

constexpr int kFirstLongOnly = 256;

}  // namespace

std::vector<std::string> CommandLine::values(std::string_view name) const {
    std::vector<std::string> list;
    for (const auto& each : given) {
        if (each.first == name) {
            list.push_back(each.second);
        }
    }
    return list;
}

std::vector<OptionRow> common_options() {
    return {{'\0', "help", nullptr, "print this and exit"},
            {'\0', "usage", nullptr, "print the forms of the command and exit"},
            {'V', "version", nullptr, "print the version and exit"},
            {'\0', "json", nullptr, "print the answer as JSON"},
            {'P', "parsable2", nullptr, "print fields separated by '|', none cut"},
            {'n', "noheader", nullptr, "print no heading"},
            {'M', "cluster", "NAME", "ask the controller of that cluster"}};
}

Result<CommandLine> parse_command_line(const CommandTable& table, int count, char** arguments) {
    std::string letters = table.words_end_options ? "+:" : ":";
    std::vector<option> rows;
    for (std::size_t i = 0; i < table.options.size(); ++i) {
        const OptionRow& row = table.options[i];
        rows.push_back({row.name, row.value == nullptr ? no_argument : required_argument, nullptr,
                        kFirstLongOnly + static_cast<int>(i)});
        if (row.letter != '\0') {
            letters += row.letter;
            letters += row.value == nullptr ? "" : ":";
        }
    }
    rows.push_back({nullptr, 0, nullptr, 0});

    CommandLine line;
    opterr = 0;
    optind = 0;  // glibc: start afresh
    for (;;) {
        const int code = getopt_long(count, arguments, letters.c_str(), rows.data(), nullptr);
        if (code == -1) {
            break;
        }
        if (code == '?' || code == ':') {
            const std::string word =
                optind > 0 && optind <= count ? arguments[optind - 1] : std::string();
            const bool is_long = word.starts_with("--");
            const std::string shown = is_long ? word : std::string("-") + static_cast<char>(optopt);
            return Error{(code == ':' ? "option " + quoted(shown) + " needs a value"
                                      : "option " + quoted(shown) +
                                            " is not known or takes no "
                                            "value") +
                         "; " + table.name + " --help lists what is"};
        }
        const auto row =
            std::find_if(table.options.begin(), table.options.end(), [&](const OptionRow& each) {
                const auto index = &each - table.options.data();
                return code == kFirstLongOnly + index ||
                       (each.letter != '\0' && code == each.letter);
            });
        const std::string value = optarg != nullptr && row->value != nullptr ? optarg : "";
        line.options[row->name] = value;
        line.given.emplace_back(row->name, value);
    }
    for (int i = optind; i < count; ++i) {
        line.words.emplace_back(arguments[i]);
    }
    return line;
}

std::string usage_text(const CommandTable& table) {
    std::string text;
    for (const char* usage : table.usages) {
        text +=
            (text.empty() ? "Usage: " : "       ") + std::string(table.name) + " " + usage + "\n";
    }
    return text;
}

std::string help_text(const CommandTable& table) {
    std::string text = usage_text(table) + "\n" + table.about + "\n\nOptions:\n";
    constexpr std::size_t kTextColumn = 27;
    for (const OptionRow& row : table.options) {
        std::string left = row.letter != '\0' ? std::string("  -") + row.letter + ", " : "      ";
        left += std::string("--") + row.name;
        if (row.value != nullptr) {
            left += std::string("=") + row.value;
        }
        if (left.size() + 2 > kTextColumn) {
            left += "\n" + std::string(kTextColumn, ' ');
        } else {
            left.resize(kTextColumn, ' ');
        }
        text += left + row.text + "\n";
    }
    if (table.more != nullptr && *table.more != '\0') {
        text += std::string("\n") + table.more;
    }
    return text;
}

std::string version_text(const CommandTable& table) {
    return std::string(table.name) + " (" PACKAGE_NAME ") " PACKAGE_VERSION "\n";
}

std::vector<std::string> split_list(std::string_view text, char separator) {
    std::vector<std::string> list;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (const std::string_view word = trimmed(text.substr(0, end)); !word.empty()) {
            list.emplace_back(word);
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return list;
}

}  // namespace tranche
