// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/large_jobs.hpp"

#include <algorithm>

namespace tranche {
namespace {

struct NodeDate {
    std::int64_t at;
    NodeIndex node;
};

bool fits(const ClusterView& view, const RoomNode& room, const JobShape& shape, NodeIndex n,
          std::uint32_t member) {
    if (shape.exclusive) {
        return room.gpus >= view.nodes[n].gpus && room.cpus >= view.nodes[n].cpus;
    }
    return room.gpus >= shape.gpus_on(member) && room.cpus >= shape.cpus_per_node &&
           room.memory_mib >= shape.memory_mib_per_node;
}

struct Leaver {
    std::int64_t at;
    NodeShare share;
};

std::int64_t date_of_node(const ClusterView& view, const PassSums& sums, const RoomNode& now,
                          const JobShape& shape, NodeIndex n, const RunDate& date_of,
                          std::vector<Leaver>& leavers) {
    RoomNode room = now;
    // The first member is the largest.
    if (fits(view, room, shape, n, 0)) {
        return view.now;
    }
    leavers.clear();
    for (const std::uint32_t r : sums.runs_on[n]) {
        const Run& run = view.runs[r];
        const std::int64_t at = date_of(run);
        if (at == kNever) {
            continue;
        }
        for (const NodeShare& share : run.where) {
            if (share.node == n) {
                // Few runs share a node.
                auto place = leavers.end();
                while (place != leavers.begin() && (place - 1)->at > at) {
                    --place;
                }
                leavers.insert(place, {at, share});
            }
        }
    }
    for (const Leaver& leaver : leavers) {
        room.gpus += leaver.share.gpus;
        room.cpus += leaver.share.cpus;
        room.memory_mib += leaver.share.memory_mib;
        if (fits(view, room, shape, n, 0)) {
            return leaver.at;
        }
    }
    return kNever;
}

}  // namespace

GatheredNodes soonest_nodes(const ClusterView& view, const PassSums& sums,
                            const std::vector<RoomNode>& room, const JobShape& shape,
                            const std::vector<bool>& kept, const RunDate& date_of) {
    std::vector<NodeDate> dates;
    std::vector<Leaver> leavers;
    for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
        if (!view.nodes[n].usable || (!kept.empty() && kept[n]) || !node_suits(view, shape, n, 0)) {
            continue;
        }
        const std::int64_t at = date_of_node(view, sums, room[n], shape, n, date_of, leavers);
        if (at != kNever) {
            dates.push_back({at, n});
        }
    }
    GatheredNodes gathered;
    if (dates.size() < shape.nodes) {
        return gathered;
    }
    const auto sooner = [](const NodeDate& a, const NodeDate& b) {
        return a.at != b.at ? a.at < b.at : a.node < b.node;
    };
    const auto last = dates.begin() + static_cast<std::ptrdiff_t>(shape.nodes - 1);
    std::nth_element(dates.begin(), last, dates.end(), sooner);
    gathered.date_at = dates[shape.nodes - 1].at;
    for (std::uint32_t k = 0; k < shape.nodes; ++k) {
        gathered.nodes.push_back(dates[k].node);
    }
    std::sort(gathered.nodes.begin(), gathered.nodes.end());
    return gathered;
}

bool needs_whole_node(const ClusterView& view, const JobShape& shape) {
    if (shape.exclusive) {
        return true;
    }
    std::int64_t largest = 0;
    for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
        if (view.nodes[n].gpus > largest && node_suits(view, shape, n, shape.nodes - 1)) {
            largest = view.nodes[n].gpus;
        }
    }
    return largest > 0 && shape.gpus >= largest;
}

bool may_be_assembled(const ClusterView& view, const JobShape& shape, const Settings& settings) {
    if (shape.nodes < 2) {
        return false;
    }
    std::int64_t of_its_kind = 0;
    for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
        of_its_kind += view.nodes[n].usable && node_suits(view, shape, n, shape.nodes - 1) ? 1 : 0;
    }
    return std::int64_t{shape.nodes} * kPpm >= of_its_kind * settings.assembly_min_fraction_ppm;
}

std::int64_t next_grant_at(const ClusterView& view, const Standings& standings,
                           const Settings& settings, BudgetId budget,
                           std::int64_t available_milli) {
    std::int64_t at = view.now;
    if (!view.grants.empty()) {
        at = std::max(at, view.grants.back().granted_at + settings.assembly_pause_seconds);
    }
    if (!settings.has(Rule::assembly_payment)) {
        return at;
    }
    // Fraction of the cluster at each step of the path, in 2^-32.
    UInt128 fraction = kFractionOne;
    for (const SideId step : standings.budgets[budget].path) {
        fraction = (fraction * standings.side(step).fraction) >> kFractionBits;
        for (auto grant = view.grants.rbegin(); grant != view.grants.rend(); ++grant) {
            const auto& paid_by = standings.budgets[grant->budget].path;
            if (std::find(paid_by.begin(), paid_by.end(), step) == paid_by.end()) {
                continue;
            }
            const UInt128 funded = fraction * static_cast<UInt128>(available_milli);
            if (funded == 0) {
                return kNever;
            }
            const UInt128 owed = static_cast<UInt128>(grant->weight_milli) *
                                     static_cast<UInt128>(grant->commitment_seconds)
                                 << kFractionBits;
            const UInt128 seconds = (owed + funded - 1) / funded;
            at = std::max(at, grant->granted_at + static_cast<std::int64_t>(std::min<UInt128>(
                                                      seconds, UInt128{1} << 40)));
            break;  // the last one of that side
        }
    }
    return at;
}

}  // namespace tranche
