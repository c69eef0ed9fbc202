// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tranche {
namespace {

constexpr std::size_t kNarrowest = 8;  // a column is not cut below that to fit the terminal

std::string harmless(std::string text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool c1 =
            byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
        if (byte < 0x20 || byte == 0x7F) {
            text[i] = '?';
        } else if (c1) {
            text.replace(i, 2, "?");
        }
    }
    return text;
}

std::string cut(const std::string& text, std::size_t width) {
    if (shown_width(text) <= width) {
        return text;
    }
    std::string out;
    std::size_t shown = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
        if (begins && ++shown >= width) {
            break;
        }
        out += text[i];
    }
    return out + "+";
}

std::string padded(const std::string& text, std::size_t width, bool right) {
    const std::size_t shown = shown_width(text);
    const std::string blanks(width > shown ? width - shown : 0, ' ');
    return right ? blanks + text : text + blanks;
}

std::string line_of(const std::vector<TableColumn>& columns, const std::vector<std::string>& cells,
                    const std::vector<std::size_t>& widths) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
        line += (c == 0 ? "" : " ") + padded(cut(cells[c], widths[c]), widths[c], columns[c].right);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

}  // namespace

std::size_t shown_width(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

std::string table_text(const std::vector<TableColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, const TableStyle& style) {
    std::vector<std::vector<std::string>> cells;
    if (style.heading) {
        std::vector<std::string> heads;
        heads.reserve(columns.size());
        for (const TableColumn& column : columns) {
            heads.push_back(column.head);
        }
        cells.push_back(std::move(heads));
    }
    for (const auto& row : rows) {
        std::vector<std::string> clean;
        clean.reserve(row.size());
        for (const std::string& cell : row) {
            clean.push_back(harmless(cell));
        }
        cells.push_back(std::move(clean));
    }
    std::string text;
    if (style.parsable) {
        for (const auto& row : cells) {
            for (std::size_t c = 0; c < row.size(); ++c) {
                text += (c == 0 ? "" : "|") + row[c];
            }
            text += "\n";
        }
        return text;
    }
    std::vector<std::size_t> widths(columns.size(), 1);
    for (std::size_t c = 0; c < columns.size(); ++c) {
        for (const auto& row : cells) {
            widths[c] = std::max(widths[c], shown_width(row[c]));
        }
        if (columns[c].width != 0) {
            widths[c] = columns[c].width;
        }
    }
    if (style.terminal_width != 0) {
        // The widest text gives way first; numbers are never cut.
        for (;;) {
            std::size_t total = columns.empty() ? 0 : columns.size() - 1;
            std::size_t widest = columns.size();
            for (std::size_t c = 0; c < columns.size(); ++c) {
                total += widths[c];
                if (!columns[c].right && columns[c].width == 0 &&
                    widths[c] > std::max(kNarrowest, shown_width(columns[c].head)) &&
                    (widest == columns.size() || widths[c] > widths[widest])) {
                    widest = c;
                }
            }
            if (total <= style.terminal_width || widest == columns.size()) {
                break;
            }
            --widths[widest];
        }
    }
    for (std::size_t r = 0; r < cells.size(); ++r) {
        const std::string line = line_of(columns, cells[r], widths);
        const bool bold = r == 0 && style.heading && style.colour;
        text += bold ? "\033[1m" + line + "\033[0m\n" : line + "\n";
    }
    return text;
}

TableStyle style_for_stdout(bool parsable, bool no_heading) {
    TableStyle style;
    style.parsable = parsable;
    style.heading = !no_heading;
    if (isatty(STDOUT_FILENO) == 1) {
        const char* terminal = std::getenv("TERM");
        style.colour = std::getenv("NO_COLOR") == nullptr && terminal != nullptr &&
                       std::string(terminal) != "dumb";
        winsize size{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
            style.terminal_width = size.ws_col;
        }
    }
    return style;
}

}  // namespace tranche
