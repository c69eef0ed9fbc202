// SPDX-License-Identifier: GPL-2.0-or-later
// What keeps pending jobs off nodes, or from starting at all for a while, in their records.
//
// Nodes by the exclusion's bitmap, never its text: the text is what the user said with --exclude,
// reconfigure, restart and `scontrol update` rebuild the bitmap from it, and so do we when the rule
// ends. A hold is a begin time in the future: it is saved with the job and ends by itself should
// the engine die. Everything here is read under the job lock and written under its write lock.
#pragma once

#include <cstdint>

#include "engine/host.hpp"
#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// A new snapshot begins: what is held back from now on may not be in it.
std::uint64_t next_entrance_serial();

// The begin time that the job has apart from us. Job read lock.
std::int64_t own_begin_time(const job_record_t& job);
bool is_held_back(const job_record_t& job);
// Whether a pending job's exclusion may be one of ours that no rule names any more. Job read lock.
bool has_stray_exclusion(const job_record_t& job);
// What the user himself excluded; the caller owns the bitmap, nullptr: nothing. Node read lock.
bitstr_t* excluded_by_user(const job_details& details);

// For priority_p_set: after an update of the job its rule holds as before. Job write lock, node and
// partition read locks.
void renew_entrance(job_record_t& job);
// A job without a rank: it waits for one, at the latest until then. Job write lock.
void hold_back(job_record_t& job, std::int64_t until_at);
// The job has its nodes: no rule of ours. Job write lock, node read lock.
void lift_entrance(job_record_t& job);
// A task that was split off its array has its array's rule. Job write lock.
void inherit_entrance(JobId array_record, JobId task);
// For priority_p_reconfig, which rebuilt all bitmaps. No locks.
void renew_all_entrances();

}  // namespace tranche
