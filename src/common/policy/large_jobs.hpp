// SPDX-License-Identifier: GPL-2.0-or-later
// Which nodes a large job could have, and when: reservations and assemblies (DESIGN 2.7).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/pass_sums.hpp"

namespace tranche {

struct GatheredNodes {
    std::vector<NodeIndex> nodes;  // in node order; empty: not to be had at any date
    std::int64_t date_at = kNever;
};

// When each run is out of the way of one claimant; kNever: not before it ends by itself, and it has
// no time limit.
using RunDate = std::function<std::int64_t(const Run&)>;

// The nodes that can be free for the shape soonest: each node's date is the earliest at which what
// is free there and the runs that are out of the way make room for a member. `kept`: nodes that
// are not to be used; empty: none.
GatheredNodes soonest_nodes(const ClusterView& view, const PassSums& sums,
                            const std::vector<RoomNode>& room, const JobShape& shape,
                            const std::vector<bool>& kept, const RunDate& date_of);

// The whole node or more that reservations are for.
bool needs_whole_node(const ClusterView& view, const JobShape& shape);

// A gang that needs at least AssemblyMinFraction of the nodes of its kind.
bool may_be_assembled(const ClusterView& view, const JobShape& shape, const Settings& settings);

// The earliest instant of the next grant to that budget: AssemblyPause after the last, and when its
// funding, and that of each budget above it but the root, has paid for its last one. kNever: it has
// no funding to pay with.
std::int64_t next_grant_at(const ClusterView& view, const Standings& standings,
                           const Settings& settings, BudgetId budget, std::int64_t available_milli);

}  // namespace tranche
