// SPDX-License-Identifier: GPL-2.0-or-later
// What `scontrol reconfigure` cannot change: it stays as it was at the start, and a line says so.
#pragma once

#include <string>
#include <vector>

#include "common/config/settings.hpp"

namespace tranche {

// Puts into `wanted`, as just read, what of `in_force` stays. `rehearses`: another plugin orders
// the queue (EngineOptions). Looks at the folder of a new DatabasePath. One line for each.
std::vector<std::string> keep_until_restart(Settings& wanted, const Settings& in_force,
                                            bool rehearses);

}  // namespace tranche
