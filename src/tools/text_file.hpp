// SPDX-License-Identifier: GPL-2.0-or-later
// A file that a user names, read whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

inline constexpr std::size_t kLongestTextFile = std::size_t{64} << 20;  // bytes

// Whether the beginning of a file has control characters that no text has.
bool looks_binary(std::string_view beginning) noexcept;

// "-" is standard input. Also pipes are read, at most `longest` bytes. What is no text by its first
// block is refused before more is read; what gzip packed is left as it is.
Result<std::string> read_text_file(const std::string& name, std::size_t longest = kLongestTextFile);

}  // namespace tranche
