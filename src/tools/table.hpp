// SPDX-License-Identifier: GPL-2.0-or-later
// Tables on standard output: aligned to the terminal's width, or fields with '|' between.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tranche {

struct TableColumn {
    std::string head;
    bool right = false;     // numbers
    std::size_t width = 0;  // asked for by the user: exactly this, cut with '+'; 0: as needed
};

struct TableStyle {
    bool parsable = false;
    bool heading = true;
    bool colour = false;
    std::size_t terminal_width = 0;  // 0: no terminal, nothing is cut
};

// Text from others cannot act on the terminal: control characters become '?'.
std::string table_text(const std::vector<TableColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, const TableStyle& style);

// Of standard output.
TableStyle style_for_stdout(bool parsable, bool no_heading);

// Columns as people see them: UTF-8 sequences count one.
std::size_t shown_width(const std::string& text);

}  // namespace tranche
