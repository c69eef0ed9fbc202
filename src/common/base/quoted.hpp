// SPDX-License-Identifier: GPL-2.0-or-later
// Texts of strangers inside our messages, and comparison of ASCII words.
//
// A message is one line of bounded length whatever a user sent.
#pragma once

#include <string>
#include <string_view>

namespace tranche {

// The text in single quotes, cut after `longest` bytes with "…" and its length, control
// characters, quotes and backslashes written as \n, \', \xNN. Never holds a line break.
std::string quoted(std::string_view text, std::size_t longest = 60);

// ASCII only: locale does not matter.
bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept;
bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) noexcept;

// Without blanks, tabs, carriage returns and line breaks at both ends.
std::string_view trimmed(std::string_view text) noexcept;

}  // namespace tranche
