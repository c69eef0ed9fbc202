// SPDX-License-Identifier: GPL-2.0-or-later
// DryRun=yes: the site's own priority plugin (DryRunPriorityType) keeps ordering the queue and
// keeping the books of the account limits; ours computes, records and shows.
//
// Decided when priority/budget starts and in force until it stops: two plugins cannot hand the
// books over to one another while jobs run. What is passed on is called as slurmctld would call it,
// with the same locks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Another priority plugin's entry points. Unloaded when the last reference goes.
class SitePriority {
  public:
    SitePriority() = default;
    ~SitePriority();
    SitePriority(const SitePriority&) = delete;
    SitePriority& operator=(const SitePriority&) = delete;

    std::uint32_t (*set)(std::uint32_t, job_record_t*) = nullptr;
    void (*reconfigure)(bool) = nullptr;
    void (*set_assoc_usage)(slurmdb_assoc_rec_t*) = nullptr;
    double (*fs_factor)(long double, long double) = nullptr;
    List (*factors)(priority_factors_request_msg_t*, uid_t) = nullptr;
    void (*job_end)(job_record_t*) = nullptr;

  private:
    friend void start_rehearsal();
    friend void stop_rehearsal();
    int (*fini_)() = nullptr;
    void* library_ = nullptr;
};

// tranche.conf lies beside slurm.conf.
std::string settings_path();

// Reads the two keys from tranche.conf, a local file as slurm.conf is, and opens and starts the
// plugin. Called from init(): what the plugin's own init() does under its caller's locks it does as
// if slurmctld had loaded it.
void start_rehearsal();
// Stops the plugin; after the engine, which may be inside it. No locks held.
void stop_rehearsal();

// DryRun=yes at the start. With nullptr below the plugin could not be opened: then jobs are ordered
// by submission.
bool rehearses() noexcept;
std::shared_ptr<const SitePriority> site_priority() noexcept;
// Empty: nothing to complain about.
std::string rehearsal_complaint();

}  // namespace tranche
