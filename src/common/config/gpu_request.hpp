// SPDX-License-Identifier: GPL-2.0-or-later
// How many GPUs a submission asks for, from Slurm's request strings.
//
// For rank, commitment and the price named at submission only; charges come from what was really
// allocated (DESIGN 2.3). A request that Slurm itself will refuse counts as no GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

// What a job asks for, of one type; an empty type is any.
struct RequestedGpus {
    std::string type;
    std::int64_t count = 0;

    bool operator==(const RequestedGpus&) const = default;
};

// Reads "gres:gpu:2", "gres/gpu:h100:2", "gpu", "gres:gpu:a:1,gres:gpu:b:2,gres:shard:4"; other
// kinds of resources are left out. Entries of one type are added up.
std::vector<RequestedGpus> parse_gpu_request(std::string_view text);

// The strings and counts of a job description. Counts that are not said are 0.
struct GpuRequestStrings {
    std::string per_job;     // --gpus
    std::string per_node;    // --gpus-per-node, --gres
    std::string per_socket;  // --gpus-per-socket
    std::string per_task;    // --gpus-per-task
    std::int64_t nodes = 0;
    std::int64_t tasks = 0;
    std::int64_t sockets_per_node = 0;
    std::int64_t tasks_per_node = 0;
    std::int64_t tasks_per_gpu = 0;             // --ntasks-per-gpu
    bool exclusive = false;                     // whole nodes, with all their GPUs
    std::vector<RequestedGpus> gpus_of_a_node;  // where it would go, for whole nodes
};

// The nodes the job needs: what it says, else as many as its tasks fill at tasks_per_node.
std::int64_t requested_nodes(const GpuRequestStrings& request);

// The GPUs of the whole job.
std::vector<RequestedGpus> requested_gpus(const GpuRequestStrings& request);

}  // namespace tranche
