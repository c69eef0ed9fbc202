// SPDX-License-Identifier: GPL-2.0-or-later
// What a plugin asks of the engine about one job record, and what it may be told.
//
// Called from plugin entry points: the caller's locks, no new ones, no waiting.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine.hpp"
#include "engine/host.hpp"
#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// The priority that slurmctld shall use: the engine's rank or the band of a new job; the old one
// where the engine does not run or an administrator set it, by submission in a rehearsal. Never 0,
// which means held.
// Job write lock, partition read lock.
std::uint32_t engine_priority(std::uint32_t last_priority, job_record_t& job);

// For a start attempt at `now`: what the environment of the run shall say. Job write lock.
std::optional<StartStamp> start_stamp(const job_record_t& job, std::int64_t now);

// Whether a preempted run comes back by itself.
bool is_resumable(const job_record_t& job);

// The engine's options, from slurm.conf.
void start_engine();

}  // namespace tranche
