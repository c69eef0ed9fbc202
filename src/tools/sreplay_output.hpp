// SPDX-License-Identifier: GPL-2.0-or-later
// Where all that sreplay says leaves it: the last step before the terminal.
//
// Names come from traces of strangers. Control characters, marks that turn the direction of
// writing, and bytes that are no UTF-8 are written as \u202e or \x9b; JSON stays the same JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/table.hpp"

namespace tranche {

// Line breaks stay.
std::string terminal_text(std::string_view text);

// "sreplay: text" on standard error, for each line; gives back the code.
int say(std::string_view text, int code);

int print_text(const std::string& text);  // kRefused if it cannot be written
int print_table(const std::vector<TableColumn>& columns, std::vector<std::vector<std::string>> rows,
                const TableStyle& style);

}  // namespace tranche
