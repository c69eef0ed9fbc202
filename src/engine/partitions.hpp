// SPDX-License-Identifier: GPL-2.0-or-later
// Partitions=: which jobs budgets and contracts govern. Not set: those on a partition with GPUs, as
// the host says.
#pragma once

#include <string>
#include <vector>

#include "common/config/settings.hpp"
#include "engine/host.hpp"

namespace tranche {

void apply_partitions(HostSnapshot& snapshot, const Settings& settings);

// One line for each name that the cluster does not have.
std::vector<std::string> unknown_partitions(const HostSnapshot& snapshot, const Settings& settings);

}  // namespace tranche
