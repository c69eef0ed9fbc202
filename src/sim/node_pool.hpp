// SPDX-License-Identifier: GPL-2.0-or-later
// Free GPUs of nodes, indexed for best fit: the node with the fewest that suffice, then node order.
//
// Cost: set() O(1); one node is found in O(sizes / 64 + nodes / 64); a gang in O(nodes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/cluster.hpp"
#include "sim/scheduler.hpp"

namespace tranche::sim {

// What a job needs, as the baselines see it. GPUs spread evenly, the first members take one more.
struct GangShape {
    std::uint32_t nodes = 1;
    std::int64_t gpus = 0;
    std::uint32_t type = 0;  // NodePool::type_of; kAnyType

    bool operator==(const GangShape&) const = default;
};

class NodePool {
  public:
    static constexpr std::uint32_t kAnyType = 0xffffffff;
    static constexpr std::uint32_t kNoSuchType = 0xfffffffe;

    // All nodes empty.
    explicit NodePool(const SimCluster& cluster);

    std::uint32_t type_of(const std::string& gpu_type) const;  // empty: any
    // -1: nothing may be placed there.
    void set(NodeIndex node, std::int64_t free_gpus);
    void add(NodeIndex node, std::int64_t gpus) { set(node, free_[node] + gpus); }
    std::int64_t free(NodeIndex node) const { return free_[node]; }
    std::int64_t free_gpus() const noexcept { return sum_; }  // on all nodes that are open

    bool fits(const GangShape& shape) const;
    // `where` is what it takes; false and empty if it does not fit. Takes nothing.
    bool place(const GangShape& shape, std::vector<NodeShare>& where) const;

  private:
    static constexpr std::uint32_t kNoNode = 0xffffffff;

    // Nodes of one GPU type, a set of them for each number of free GPUs.
    struct Group {
        std::string type;
        std::vector<NodeIndex> nodes;
        std::int64_t largest = 0;
        std::size_t words = 0;                // of one set
        std::vector<std::uint64_t> sets;      // by free GPUs, then word
        std::vector<std::uint32_t> counts;    // nodes of each set
        std::vector<std::uint64_t> occupied;  // which sets have nodes
    };
    struct Spot {
        std::uint32_t group = 0, place = 0;  // of the node in its group
    };

    void put(Group& group, std::uint32_t place, std::int64_t free_gpus, bool in);
    static std::int64_t smallest_free(const Group& group, std::int64_t at_least);
    NodeIndex best(const GangShape& shape, std::int64_t gpus) const;
    std::int64_t count(const GangShape& shape, std::int64_t gpus) const;

    std::vector<Group> groups_;
    std::vector<Spot> spots_;  // by node
    std::vector<std::int64_t> free_;
    std::int64_t sum_ = 0;
};

}  // namespace tranche::sim
