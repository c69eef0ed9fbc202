// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/sreplay_output.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tools/command.hpp"
#include "tools/sreplay_options.hpp"

namespace tranche {
namespace {

// One code point at the front of a text; length 0: no UTF-8.
struct CodePoint {
    std::uint32_t value = 0;
    std::size_t length = 0;
};

CodePoint first_of(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x80) {
        return {byte(0), 1};
    }
    const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
    if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) {
        return {};
    }
    std::uint32_t value = byte(0) & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) {
            return {};
        }
        value = value << 6U | (byte(i) & 0x3FU);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool good =
        value >= kLeast[length] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    return good ? CodePoint{value, length} : CodePoint{};
}

bool acts_on_terminals(std::uint32_t point) {
    return (point < 0x20 && point != '\n') || (point >= 0x7F && point < 0xA0) || point == 0x61C ||
           point == 0x200E || point == 0x200F || (point >= 0x2028 && point <= 0x202E) ||
           (point >= 0x2066 && point <= 0x2069);
}

std::string escape(const char* format, unsigned value) {
    char text[16];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

int print_raw(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
        return say(std::string("standard output: ") + std::strerror(errno), kRefused);
    }
    return kDone;
}

}  // namespace

std::string terminal_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const CodePoint point = first_of(text);
        if (point.length == 0) {
            out += escape("\\x%02x", static_cast<unsigned char>(text[0]));
        } else if (acts_on_terminals(point.value)) {
            out += escape("\\u%04x", point.value);
        } else {
            out += text.substr(0, point.length);
        }
        text.remove_prefix(std::max<std::size_t>(point.length, 1));
    }
    return out;
}

int say(std::string_view text, int code) {
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        complain(sreplay_table(), terminal_text(text.substr(begin, end - begin)), code);
        begin = end + 1;
    }
    return code;
}

int print_text(const std::string& text) {
    return print_raw(terminal_text(text));
}

int print_table(const std::vector<TableColumn>& columns, std::vector<std::vector<std::string>> rows,
                const TableStyle& style) {
    for (auto& row : rows) {
        for (std::string& cell : row) {
            cell = terminal_text(cell);
        }
    }
    return print_raw(table_text(columns, rows, style));  // its heading may be bold
}

}  // namespace tranche
