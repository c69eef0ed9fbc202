// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/victims.hpp"

#include <algorithm>
#include <tuple>

namespace tranche {
namespace {

constexpr std::size_t kMaxItems = 64;       // runs looked at on one node
constexpr std::size_t kMaxExhaustive = 14;  // runs whose subsets are all tried

struct Item {
    std::uint32_t candidate;  // index into candidates
    NodeShare share;          // what its leaving frees on this node
    VictimCost cost;          // of the whole run
};

struct NodeChoice {
    bool suffices = false;
    std::vector<std::uint32_t> candidates;
    VictimCost cost;
};

bool satisfied(const RoomNode& room, const JobShape& shape, std::uint32_t member, std::int64_t gpus,
               std::int64_t cpus, std::int64_t memory) {
    return room.gpus + gpus >= shape.gpus_on(member) && room.cpus + cpus >= shape.cpus_per_node &&
           room.memory_mib + memory >= shape.memory_mib_per_node;
}

NodeShare share_of(const ClusterView& view, const JobShape& shape, NodeIndex node,
                   std::uint32_t member) {
    if (shape.exclusive) {
        const Node& whole = view.nodes[node];
        return {node, whole.gpus, whole.cpus, whole.memory_mib};
    }
    return {node, shape.gpus_on(member), shape.cpus_per_node, shape.memory_mib_per_node};
}

// The cheapest set by GPUs alone: best[g] frees at least g GPUs.
NodeChoice cheapest_by_gpus(const std::vector<Item>& items, std::int64_t need) {
    struct Cell {
        bool reachable = false;
        VictimCost cost;
        std::uint64_t chosen = 0;
    };
    std::vector<Cell> best(static_cast<std::size_t>(need) + 1);
    best[0].reachable = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].share.gpus <= 0) {
            continue;
        }
        for (std::int64_t g = need; g >= 0; --g) {
            const Cell& from = best[static_cast<std::size_t>(g)];
            if (!from.reachable) {
                continue;
            }
            const auto to = static_cast<std::size_t>(std::min(need, g + items[i].share.gpus));
            if (to == static_cast<std::size_t>(g)) {
                continue;
            }
            VictimCost cost = from.cost;
            cost += items[i].cost;
            if (!best[to].reachable || cost < best[to].cost) {
                best[to] = {true, cost, from.chosen | (std::uint64_t{1} << i)};
            }
        }
    }
    NodeChoice choice;
    const Cell& last = best.back();
    choice.suffices = last.reachable;
    choice.cost = last.cost;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if ((last.chosen >> i & 1) != 0) {
            choice.candidates.push_back(static_cast<std::uint32_t>(i));
        }
    }
    return choice;
}

// Where CPUs or memory bind too: all subsets of few runs, else cheapest first and then whatever
// is not needed dropped.
NodeChoice cheapest_by_all(const std::vector<Item>& items, const RoomNode& room,
                           const JobShape& shape, std::uint32_t member) {
    NodeChoice choice;
    const auto sums = [&](auto&& is_chosen) {
        NodeShare sum;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (is_chosen(i)) {
                sum.gpus += items[i].share.gpus;
                sum.cpus += items[i].share.cpus;
                sum.memory_mib += items[i].share.memory_mib;
            }
        }
        return satisfied(room, shape, member, sum.gpus, sum.cpus, sum.memory_mib);
    };
    const auto take = [&](auto&& is_chosen) {
        choice = {};
        choice.suffices = true;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (is_chosen(i)) {
                choice.candidates.push_back(static_cast<std::uint32_t>(i));
                choice.cost += items[i].cost;
            }
        }
    };
    if (items.size() <= kMaxExhaustive) {
        for (std::uint32_t mask = 0; mask < (1U << items.size()); ++mask) {
            const auto chosen = [mask](std::size_t i) { return (mask >> i & 1) != 0; };
            if (!sums(chosen)) {
                continue;
            }
            VictimCost cost;
            for (std::size_t i = 0; i < items.size(); ++i) {
                if (chosen(i)) {
                    cost += items[i].cost;
                }
            }
            if (!choice.suffices || cost < choice.cost) {
                take(chosen);
            }
        }
        return choice;
    }
    std::vector<std::size_t> order(items.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return items[a].cost < items[b].cost; });
    std::vector<bool> chosen(items.size(), false);
    const auto is_chosen = [&chosen](std::size_t i) { return bool{chosen[i]}; };
    for (std::size_t k = 0; k < order.size() && !sums(is_chosen); ++k) {
        chosen[order[k]] = true;
    }
    if (!sums(is_chosen)) {
        return choice;
    }
    for (std::size_t k = order.size(); k-- > 0;) {
        if (chosen[order[k]]) {
            chosen[order[k]] = false;
            if (!sums(is_chosen)) {
                chosen[order[k]] = true;
            }
        }
    }
    take(is_chosen);
    return choice;
}

class Chooser {
  public:
    Chooser(const ClusterView& view, const std::vector<RoomNode>& room, const JobShape& shape,
            const std::vector<VictimCandidate>& candidates, std::int64_t contract_end)
        : view_(view),
          room_(room),
          shape_(shape),
          candidates_(candidates),
          contract_end_(contract_end),
          chosen_(candidates.size(), false),
          on_node_(view.nodes.size()) {
        for (std::uint32_t c = 0; c < candidates.size(); ++c) {
            for (const NodeShare& share : view.runs[candidates[c].run].where) {
                on_node_[share.node].push_back({c, share});
            }
        }
    }

    std::optional<VictimChoice> choose() {
        std::vector<NodeIndex> nodes;
        std::vector<bool> used(view_.nodes.size(), false);
        std::vector<NodeChoice> cached(view_.nodes.size());
        std::vector<bool> known(view_.nodes.size(), false);
        for (std::uint32_t member = 0; member < shape_.nodes; ++member) {
            if (member > 0 && shape_.gpus_on(member) != shape_.gpus_on(member - 1)) {
                std::fill(known.begin(), known.end(), false);
            }
            NodeIndex best = kNoId;
            for (NodeIndex n = 0; n < view_.nodes.size(); ++n) {
                if (used[n] || !room_[n].plannable || room_[n].until < contract_end_ ||
                    !node_suits(view_, shape_, n, member)) {
                    continue;
                }
                if (!known[n]) {
                    cached[n] = cheapest_on(n, member);
                    known[n] = true;
                }
                if (cached[n].suffices && (best == kNoId || cached[n].cost < cached[best].cost)) {
                    best = n;
                }
            }
            if (best == kNoId) {
                return std::nullopt;
            }
            used[best] = true;
            nodes.push_back(best);
            for (const std::uint32_t c : cached[best].candidates) {
                chosen_[c] = true;
                for (const NodeShare& share : view_.runs[candidates_[c].run].where) {
                    known[share.node] = false;  // it leaves whole: other nodes gain too
                }
            }
        }
        drop_unneeded(nodes);

        VictimChoice choice;
        for (std::uint32_t member = 0; member < shape_.nodes; ++member) {
            choice.where.push_back(share_of(view_, shape_, nodes[member], member));
        }
        for (std::uint32_t c = 0; c < candidates_.size(); ++c) {
            if (chosen_[c]) {
                choice.runs.push_back(candidates_[c].run);
                choice.cost += candidates_[c].cost;
            }
        }
        std::sort(choice.runs.begin(), choice.runs.end());
        return choice;
    }

  private:
    struct Holder {
        std::uint32_t candidate;
        NodeShare share;
    };

    RoomNode room_with_chosen(NodeIndex n) const {
        RoomNode room = room_[n];
        for (const Holder& holder : on_node_[n]) {
            if (chosen_[holder.candidate]) {
                room.gpus += holder.share.gpus;
                room.cpus += holder.share.cpus;
                room.memory_mib += holder.share.memory_mib;
            }
        }
        return room;
    }

    NodeChoice cheapest_on(NodeIndex n, std::uint32_t member) const {
        const RoomNode room = room_with_chosen(n);
        NodeChoice choice;
        if (fits(room, n, member)) {
            choice.suffices = true;
            return choice;
        }
        std::vector<Item> items;
        for (const Holder& holder : on_node_[n]) {
            if (!chosen_[holder.candidate]) {
                items.push_back(
                    {holder.candidate, holder.share, candidates_[holder.candidate].cost});
            }
        }
        if (shape_.exclusive) {
            RoomNode empty = room;
            for (const Item& item : items) {
                empty.gpus += item.share.gpus;
                empty.cpus += item.share.cpus;
                empty.memory_mib += item.share.memory_mib;
                choice.candidates.push_back(item.candidate);
                choice.cost += item.cost;
            }
            choice.suffices = fits(empty, n, member);
            return choice;
        }
        if (items.size() > kMaxItems) {
            std::stable_sort(items.begin(), items.end(),
                             [](const Item& a, const Item& b) { return a.cost < b.cost; });
            items.resize(kMaxItems);
        }
        const std::int64_t need = std::max<std::int64_t>(shape_.gpus_on(member) - room.gpus, 0);
        choice = cheapest_by_gpus(items, need);
        if (choice.suffices) {
            NodeShare freed;
            for (const std::uint32_t i : choice.candidates) {
                freed.gpus += items[i].share.gpus;
                freed.cpus += items[i].share.cpus;
                freed.memory_mib += items[i].share.memory_mib;
            }
            if (!satisfied(room, shape_, member, freed.gpus, freed.cpus, freed.memory_mib)) {
                choice = cheapest_by_all(items, room, shape_, member);
            }
        }
        for (std::uint32_t& i : choice.candidates) {
            i = items[i].candidate;
        }
        return choice;
    }

    bool fits(const RoomNode& room, NodeIndex n, std::uint32_t member) const {
        if (shape_.exclusive) {
            const Node& node = view_.nodes[n];
            return room.gpus >= node.gpus && room.cpus >= node.cpus;
        }
        return satisfied(room, shape_, member, 0, 0, 0);
    }

    void drop_unneeded(const std::vector<NodeIndex>& nodes) {
        std::vector<std::uint32_t> order;
        for (std::uint32_t c = 0; c < candidates_.size(); ++c) {
            if (chosen_[c]) {
                order.push_back(c);
            }
        }
        std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return candidates_[b].cost < candidates_[a].cost;  // the most harm first
        });
        for (const std::uint32_t c : order) {
            chosen_[c] = false;
            for (std::uint32_t member = 0; member < nodes.size(); ++member) {
                if (!fits(room_with_chosen(nodes[member]), nodes[member], member)) {
                    chosen_[c] = true;
                    break;
                }
            }
        }
    }

    const ClusterView& view_;
    const std::vector<RoomNode>& room_;
    const JobShape& shape_;
    const std::vector<VictimCandidate>& candidates_;
    const std::int64_t contract_end_;
    std::vector<bool> chosen_;
    std::vector<std::vector<Holder>> on_node_;
};

}  // namespace

VictimCost& VictimCost::operator+=(const VictimCost& other) noexcept {
    final_gpus += other.final_gpus;
    allocated_gpus += other.allocated_gpus;
    gpus += other.gpus;
    over_funding += other.over_funding;
    priority_gpus += other.priority_gpus;
    lost_gpu_seconds += other.lost_gpu_seconds;
    return *this;
}

bool VictimCost::operator<(const VictimCost& other) const noexcept {
    return std::tie(final_gpus, allocated_gpus, gpus, other.over_funding, priority_gpus,
                    lost_gpu_seconds) < std::tie(other.final_gpus, other.allocated_gpus, other.gpus,
                                                 over_funding, other.priority_gpus,
                                                 other.lost_gpu_seconds);
}

bool node_suits(const ClusterView& view, const JobShape& shape, NodeIndex n, std::uint32_t member) {
    const Node& node = view.nodes[n];
    return view.node_sets[shape.node_set][n] &&
           (shape.gpu_type.empty() || shape.gpu_type == node.gpu_type) &&
           node.gpus >= shape.gpus_on(member) && node.cpus >= shape.cpus_per_node &&
           node.memory_mib >= shape.memory_mib_per_node;
}

std::optional<VictimChoice> choose_victims(const ClusterView& view,
                                           const std::vector<RoomNode>& room, const JobShape& shape,
                                           const std::vector<VictimCandidate>& candidates,
                                           std::int64_t contract_end) {
    return Chooser(view, room, shape, candidates, contract_end).choose();
}

std::optional<std::vector<NodeShare>> place_on_free(const ClusterView& view,
                                                    const std::vector<RoomNode>& room,
                                                    const JobShape& shape,
                                                    std::int64_t contract_end) {
    std::vector<NodeShare> where;
    std::vector<bool> used;
    const auto fits = [&](NodeIndex n, std::uint32_t member) {
        if (!room[n].open || room[n].until < contract_end || !node_suits(view, shape, n, member)) {
            return false;
        }
        return shape.exclusive
                   ? room[n].gpus >= view.nodes[n].gpus && room[n].cpus >= view.nodes[n].cpus
                   : satisfied(room[n], shape, member, 0, 0, 0);
    };
    if (shape.nodes == 1) {
        NodeIndex best = kNoId;
        for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
            if (room[n].gpus >= shape.gpus && (best == kNoId || room[n].gpus < room[best].gpus) &&
                fits(n, 0)) {
                best = n;
            }
        }
        if (best == kNoId) {
            return std::nullopt;
        }
        where.push_back(share_of(view, shape, best, 0));
        return where;
    }
    std::vector<NodeIndex> order;
    for (NodeIndex n = 0; n < view.nodes.size(); ++n) {
        if (fits(n, shape.nodes - 1)) {  // the smallest member
            order.push_back(n);
        }
    }
    if (order.size() < shape.nodes) {
        return std::nullopt;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](NodeIndex a, NodeIndex b) { return room[a].gpus < room[b].gpus; });
    used.assign(view.nodes.size(), false);
    for (std::uint32_t member = 0; member < shape.nodes; ++member) {
        const auto it = std::find_if(order.begin(), order.end(),
                                     [&](NodeIndex n) { return !used[n] && fits(n, member); });
        if (it == order.end()) {
            return std::nullopt;
        }
        used[*it] = true;
        where.push_back(share_of(view, shape, *it, member));
    }
    return where;
}

}  // namespace tranche
