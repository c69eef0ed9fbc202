// SPDX-License-Identifier: GPL-2.0-or-later
// What happens to a cluster besides its jobs: the events of a scenario, or a file of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/budget_tree.hpp"
#include "common/wire/json.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

// {"at": 600, "do": "drain", "node": "n[1-2]", "reason": "…"} (DESIGN 4.6). `at` may also be a text
// such as "2-00:00:00", and, where there is a calendar, "2024-05-01T12:30:00".
Result<WorkloadEvent> event_from_json(const Json& json, const std::string& path,
                                      std::optional<std::int64_t> zero_at = std::nullopt);

struct ReadEvents {
    std::vector<WorkloadEvent> events;  // by time, ties in file order
    std::vector<std::size_t> lines;     // of each
};

// An array of events. All mistakes up to 20, each with its line.
Result<ReadEvents> read_events(std::string_view text, const std::string& file,
                               std::optional<std::int64_t> zero_at = std::nullopt);

// Jobs, nodes and budgets that the events name must be there; budgets are added in time's order.
Status check_events(const ReadEvents& events, const std::string& file,
                    const std::vector<WorkloadJob>& jobs, const SimCluster& cluster,
                    const BudgetTree& tree);

// The line on which each element of the first array at that depth of brackets begins: 1 for an
// array that is the whole text, 2 for one inside an object.
std::vector<std::size_t> element_lines(std::string_view json, std::size_t depth);

}  // namespace tranche::sim
