// SPDX-License-Identifier: GPL-2.0-or-later
// Settings of slurm.conf that bypass or break Tranche, each with the line to write instead.
#pragma once

#include <string>
#include <vector>

namespace tranche {

// Configuration read lock held.
std::vector<std::string> configuration_complaints();

}  // namespace tranche
