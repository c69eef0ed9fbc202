// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/node_pool.hpp"

#include <algorithm>
#include <bit>

namespace tranche::sim {

NodePool::NodePool(const SimCluster& cluster) {
    for (NodeIndex n = 0; n < cluster.nodes.size(); ++n) {
        const SimNode& node = cluster.nodes[n];
        auto it = std::find_if(groups_.begin(), groups_.end(),
                               [&node](const Group& group) { return group.type == node.gpu_type; });
        if (it == groups_.end()) {
            groups_.emplace_back();
            groups_.back().type = node.gpu_type;
            it = groups_.end() - 1;
        }
        spots_.push_back({static_cast<std::uint32_t>(it - groups_.begin()),
                          static_cast<std::uint32_t>(it->nodes.size())});
        it->nodes.push_back(n);
        it->largest = std::max(it->largest, node.gpus);
    }
    for (Group& group : groups_) {
        const auto sizes = static_cast<std::size_t>(group.largest) + 1;
        group.words = (group.nodes.size() + 63) / 64;
        group.sets.assign(sizes * group.words, 0);
        group.counts.assign(sizes, 0);
        group.occupied.assign((sizes + 63) / 64, 0);
    }
    free_.assign(cluster.nodes.size(), -1);
    for (NodeIndex n = 0; n < cluster.nodes.size(); ++n) {
        set(n, cluster.nodes[n].gpus);
    }
}

std::uint32_t NodePool::type_of(const std::string& gpu_type) const {
    if (gpu_type.empty()) {
        return kAnyType;
    }
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        if (groups_[g].type == gpu_type) {
            return g;
        }
    }
    return kNoSuchType;
}

void NodePool::put(Group& group, std::uint32_t place, std::int64_t free_gpus, bool in) {
    const auto size = static_cast<std::size_t>(free_gpus);
    std::uint64_t& word = group.sets[size * group.words + place / 64];
    word ^= std::uint64_t{1} << (place % 64);
    group.counts[size] += in ? 1U : ~0U;
    const std::uint64_t bit = std::uint64_t{1} << (size % 64);
    if (group.counts[size] > 0) {
        group.occupied[size / 64] |= bit;
    } else {
        group.occupied[size / 64] &= ~bit;
    }
}

void NodePool::set(NodeIndex node, std::int64_t free_gpus) {
    if (free_[node] == free_gpus) {
        return;
    }
    Group& group = groups_[spots_[node].group];
    if (free_[node] >= 0) {
        put(group, spots_[node].place, free_[node], false);
        sum_ -= free_[node];
    }
    free_[node] = free_gpus;
    if (free_gpus >= 0) {
        put(group, spots_[node].place, free_gpus, true);
        sum_ += free_gpus;
    }
}

std::int64_t NodePool::smallest_free(const Group& group, std::int64_t at_least) {
    if (at_least > group.largest) {
        return -1;
    }
    auto word = static_cast<std::size_t>(at_least) / 64;
    std::uint64_t bits = group.occupied[word] & (~std::uint64_t{0} << (at_least % 64));
    while (bits == 0) {
        if (++word == group.occupied.size()) {
            return -1;
        }
        bits = group.occupied[word];
    }
    return static_cast<std::int64_t>(word * 64) + std::countr_zero(bits);
}

NodeIndex NodePool::best(const GangShape& shape, std::int64_t gpus) const {
    NodeIndex best = kNoNode;
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        if (shape.type != kAnyType && shape.type != g) {
            continue;
        }
        const Group& group = groups_[g];
        const std::int64_t size = smallest_free(group, gpus);
        if (size < 0 || (best != kNoNode && free_[best] < size)) {
            continue;
        }
        const std::uint64_t* set = &group.sets[static_cast<std::size_t>(size) * group.words];
        std::size_t word = 0;
        while (set[word] == 0) {
            ++word;
        }
        const NodeIndex node =
            group.nodes[word * 64 + static_cast<std::size_t>(std::countr_zero(set[word]))];
        if (best == kNoNode || size < free_[best] || node < best) {
            best = node;
        }
    }
    return best;
}

std::int64_t NodePool::count(const GangShape& shape, std::int64_t gpus) const {
    std::int64_t sum = 0;
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        if (shape.type == kAnyType || shape.type == g) {
            for (std::int64_t size = gpus; size <= groups_[g].largest; ++size) {
                sum += groups_[g].counts[static_cast<std::size_t>(size)];
            }
        }
    }
    return sum;
}

bool NodePool::fits(const GangShape& shape) const {
    if (shape.nodes == 1) {
        return sum_ >= shape.gpus && best(shape, shape.gpus) != kNoNode;
    }
    const std::int64_t small = shape.gpus / shape.nodes, larger = shape.gpus % shape.nodes;
    return sum_ >= shape.gpus && count(shape, small) >= shape.nodes &&
           (larger == 0 || count(shape, small + 1) >= larger);
}

bool NodePool::place(const GangShape& shape, std::vector<NodeShare>& where) const {
    where.clear();
    if (shape.nodes == 1) {
        const NodeIndex node = sum_ >= shape.gpus ? best(shape, shape.gpus) : kNoNode;
        if (node == kNoNode) {
            return false;
        }
        where.push_back({node, shape.gpus, 0, 0});
        return true;
    }
    if (!fits(shape)) {
        return false;
    }
    const std::int64_t small = shape.gpus / shape.nodes;
    const auto larger = static_cast<std::uint32_t>(shape.gpus % shape.nodes);
    std::vector<NodeIndex> order;
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        if (shape.type == kAnyType || shape.type == g) {
            for (const NodeIndex node : groups_[g].nodes) {
                if (free_[node] >= small) {
                    order.push_back(node);
                }
            }
        }
    }
    std::sort(order.begin(), order.end(), [this](NodeIndex a, NodeIndex b) {
        return free_[a] != free_[b] ? free_[a] < free_[b] : a < b;
    });
    // The larger members first: they have fewer nodes to choose from.
    auto next = std::find_if(order.begin(), order.end(),
                             [&](NodeIndex node) { return free_[node] > small; });
    std::vector<bool> used(order.size(), false);
    for (std::uint32_t member = 0; member < larger; ++member, ++next) {
        used[static_cast<std::size_t>(next - order.begin())] = true;
        where.push_back({*next, small + 1, 0, 0});
    }
    for (std::size_t i = 0; i < order.size() && where.size() < shape.nodes; ++i) {
        if (!used[i]) {
            where.push_back({order[i], small, 0, 0});
        }
    }
    return true;
}

}  // namespace tranche::sim
