// SPDX-License-Identifier: GPL-2.0-or-later
// A file that a user names, read whole.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/result.hpp"

namespace tranche {

inline constexpr std::size_t kLongestTextFile = std::size_t{64} << 20;  // bytes

// "-" is standard input. Also pipes are read, at most `longest` bytes.
Result<std::string> read_text_file(const std::string& name, std::size_t longest = kLongestTextFile);

}  // namespace tranche
