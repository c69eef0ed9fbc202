// SPDX-License-Identifier: GPL-2.0-or-later
// One job record of slurmctld as a plain value.
//
// Callers hold at least read locks on configuration, jobs, nodes and partitions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/host.hpp"
#include "plugins/slurm/node_sets.hpp"
#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// What a job asks for of GPUs, on `nodes` nodes. The GRES record's own total is not used: for a
// pending job it holds what the last attempt counted.
struct GpuRequest {
    std::int64_t gpus = 0;
    std::string type;  // empty: any
    std::int64_t cpus_per_gpu = 0;
    std::int64_t memory_mib_per_gpu = 0;
};
GpuRequest requested_gpus(const job_record_t& job, std::int64_t nodes);

// The whole request; `set` is the summary of the nodes it may use.
JobShape requested_shape(const job_record_t& job, const SetSummary& set);

// Why a pending job could not start even if there were room, by Slurm's own words.
StartBlock start_block(const job_record_t& job, std::int64_t now);

// Contract options as stored with the job.
std::vector<std::string> contract_entries(const job_record_t& job);

// The partitions it may run in, in the order of priority_array.
std::vector<std::string> partition_names(const job_record_t& job);

bool is_spared(const job_record_t& job);         // its partition says PreemptMode=OFF
bool is_array_record(const job_record_t& job);   // stands for several pending tasks
bool is_het_component(const job_record_t& job);  // but not the leader

// Into a fresh `out`.
void read_job(const job_record_t& job, NodeSets& sets, std::int64_t now, HostJob& out);

}  // namespace tranche
