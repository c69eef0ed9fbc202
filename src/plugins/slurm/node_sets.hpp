// SPDX-License-Identifier: GPL-2.0-or-later
// Nodes as plain values, and the sets of nodes that jobs may run on, each set once.
//
// One object lives for one reading of the records, under read locks on configuration, jobs, nodes
// and partitions; it keeps pointers into Slurm's records.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/host.hpp"
#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// What the nodes of a set have, the down ones included.
struct SetSummary {
    std::int64_t nodes = 0;
    std::int64_t most_gpus = 0;
    std::int64_t fewest_gpus = 0;
    std::int64_t most_cpus = 0;
    std::int64_t fewest_memory_mib = 0;
    std::int64_t most_threads = 1;  // of a core
};

// Appends all nodes; the index of a node is that of Slurm's table, defunct entries included.
void read_nodes(std::vector<HostNode>& out);

class NodeSets {
  public:
    NodeSets(HostSnapshot& snapshot);

    // The index of the set of nodes that this job may run on by its partitions, reservation,
    // features, --nodelist and --exclude. Nodes that we pinned or excluded ourselves do not count:
    // what the user said is read from the text, we only change the bitmaps.
    std::uint32_t of(const job_record_t& job);
    const SetSummary& summary(std::uint32_t set) const { return summaries_[set]; }
    bool has_gpus(const part_record_t& partition);
    // The partitions' records may have changed: what was remembered by their addresses goes.
    void forget_partitions();

  private:
    using Bits = std::vector<bool>;

    std::uint32_t add(Bits&& bits);
    Bits of_partitions(const job_record_t& job) const;
    const Bits& named(const char* node_list);
    Bits with_features(List features) const;
    Bits from(const bitstr_t* bitmap) const;

    HostSnapshot& snapshot_;
    Bits reserved_;  // whole nodes of reservations that are active now
    std::vector<SetSummary> summaries_;
    std::unordered_map<Bits, std::uint32_t> index_;
    std::unordered_map<const part_record_t*, std::uint32_t> plain_;
    std::unordered_map<const part_record_t*, bool> gpu_partitions_;
    std::unordered_map<std::string, Bits> named_;
};

}  // namespace tranche
