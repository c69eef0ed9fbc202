// SPDX-License-Identifier: GPL-2.0-or-later
// A file that a command writes: whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

// Whether it could be written, before work is done for it.
Status check_writable(const std::string& name);

// Writes beside it and renames, so that nobody ever sees a part of it; symbolic links are followed
// and stay, devices and pipes are written to directly.
Status write_file(const std::string& name, std::string_view text);

// Whether both names are one regular file, also of files that are not there yet.
bool same_file(const std::string& one, const std::string& other);

}  // namespace tranche
