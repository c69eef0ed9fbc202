// SPDX-License-Identifier: GPL-2.0-or-later
// The engine's host inside slurmctld. Each method takes and drops Slurm's locks by itself.
//
// Threads: any of the engine's; never a plugin entry point, whose caller holds locks already.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/host.hpp"

struct job_record;  // Slurm's

namespace tranche {

class SlurmHost final : public Host {
  public:
    std::int64_t now() const override;
    void collect(HostSnapshot& out) override;
    void set_priorities(const std::vector<PriorityChange>& changes) override;
    std::vector<JobId> split_array(JobId array_record, std::uint32_t count) override;
    Status verify(JobId claimant, const std::vector<JobId>& victims,
                  const std::vector<std::string>& nodes) override;
    void pin(JobId claimant, const std::vector<std::string>& nodes) override;
    void unpin(JobId claimant) override;
    std::vector<HeldBack> set_entrance(const HostEntrance& entrance) override;
    void remember_held_back(const std::vector<HeldBack>& held) override;
    Status warn(const Eviction& eviction) override;
    void last_call(const Eviction& eviction) override;
    EvictionState follow(const Eviction& eviction, std::int64_t grace_ends_at) override;
    bool take_back(const Eviction& eviction) override;
    Status write_contracts(const std::vector<ContractWrite>& writes) override;
    bool release_requeued(JobId job) override;
    std::uint64_t passes() const override;
    void set_outlook(const std::vector<Outlook>& jobs) override;
    void tell(JobId job, std::string_view text) override;
    void wake() override;
    bool is_operator(std::uint32_t uid) override;
    std::string user_name(std::uint32_t uid) override;
    bool is_private(std::string_view word) override;
    std::vector<std::string> complaints() override;
    void log(LogLevel level, std::string_view text) override;

  private:
    bool read_in_slices(HostSnapshot& out, std::vector<JobId>& stray);
    bool take_back_locked(job_record& job);

    // A run as it was before its warning. Read and written under the job write lock only.
    struct WarnedRun {
        std::int64_t submit_at = 0;
        std::int64_t end_at = 0;  // scheduled end before the grace clamped it
        bool ended = false;       // by us
    };
    std::unordered_map<JobId, WarnedRun> warned_;
    std::unordered_map<JobId, Outlook> shown_;  // as written last; under the job write lock
    std::unordered_set<JobId> pinned_;          // under the job write lock as well
    // Found by collect(): exclusions that an array's tasks took along when they started.
    std::mutex stray_mutex_;  // a leaf
    std::vector<JobId> stray_;
};

}  // namespace tranche
