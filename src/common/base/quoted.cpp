// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/base/quoted.hpp"

#include <cstdio>

namespace tranche {

namespace {

char lower(char character) noexcept {
    return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a')
                                                : character;
}

// The largest cut <= longest that does not split a UTF-8 sequence.
std::size_t cut_point(std::string_view text, std::size_t longest) noexcept {
    std::size_t cut = longest;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) {
        --cut;
    }
    return cut;
}

}  // namespace

std::string quoted(std::string_view text, std::size_t longest) {
    const bool is_cut = text.size() > longest;
    const std::string_view shown = is_cut ? text.substr(0, cut_point(text, longest)) : text;
    std::string result = "'";
    for (char character : shown) {
        const auto byte = static_cast<unsigned char>(character);
        if (character == '\'' || character == '\\') {
            result += '\\';
            result += character;
        } else if (character == '\n') {
            result += "\\n";
        } else if (character == '\t') {
            result += "\\t";
        } else if (byte < 0x20 || byte == 0x7F) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\x%02x", byte);
            result += escape;
        } else {
            result += character;
        }
    }
    if (is_cut) {
        result += "…' (" + std::to_string(text.size()) + " bytes)";
    } else {
        result += "'";
    }
    return result;
}

bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept {
    return left.size() == right.size() && starts_with_ignoring_case(left, right);
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) noexcept {
    if (text.size() < prefix.size()) {
        return false;
    }
    for (std::size_t i = 0; i < prefix.size(); ++i) {
        if (lower(text[i]) != lower(prefix[i])) {
            return false;
        }
    }
    return true;
}

std::string_view trimmed(std::string_view text) noexcept {
    constexpr std::string_view kBlanks = " \t\r\n";
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace tranche
