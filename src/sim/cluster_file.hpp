// SPDX-License-Identifier: GPL-2.0-or-later
// A cluster as it is written on the command line, in a file, and in a scenario.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/wire/json.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

inline constexpr std::size_t kMostClusterNodes = 50'000;

// "n[1-3,7]" as n1, n2, n3, n7; "n[08-10]" keeps its zeros; lists of such, with commas. Refuses
// empty names and more than kMostClusterNodes.
Result<std::vector<std::string>> expand_names(std::string_view list);

// "128x8": 128 nodes n1 to n128 of 8 GPUs. "64x8:h100+32x4:a100" has types.
Result<SimCluster> parse_cluster(std::string_view text);

// {"nodes": [{"name": "n[1-2]", "gpus": 8, "type": "h100"}], "cycle": 30, "boot": 0}
Result<SimCluster> cluster_from_json(const Json& json, const std::string& path);

}  // namespace tranche::sim
