// SPDX-License-Identifier: GPL-2.0-or-later
// The plans that stand: who leaves for whom, how far each victim is, and what came of it.
//
// A leaf: its mutex is held for copies only, and nothing of the host is called under it. The cycle
// thread adds and ends plans, the clock thread moves their victims on.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/model/preemption_record.hpp"
#include "common/policy/pass.hpp"
#include "engine/host.hpp"

namespace tranche {

struct LiveVictim {
    Eviction eviction;
    std::int64_t grace_ends_milliseconds = 0;  // since the epoch
    bool warned = false;
    bool called_last = false;  // quiet so far, told that the grace ends soon
    EvictionState state = EvictionState::in_grace;
    PreemptionRecord record;
};

struct LivePlan {
    Plan plan;
    std::vector<std::string> nodes;
    std::vector<LiveVictim> victims;
    std::int64_t emptied_at = 0;  // when the last victim was gone; 0: not yet
    bool tried = false;           // on the empty room, since somebody looked
    std::uint32_t attempts = 0;   // such looks
    std::uint32_t array_job_id = 0;
    std::uint32_t priority = 0;  // since its first victim began to leave; 0: that of its rank

    bool emptied() const;
};

class PlanBook {
  public:
    // A victim that has to be looked after by the clock thread.
    struct Errand {
        JobId claimant = 0;
        Eviction eviction;
        std::int64_t grace_ends_milliseconds = 0;
        EvictionState state = EvictionState::in_grace;
        std::uint32_t array_job_id = 0;
        bool called_last = false;
        bool leads = false;  // somebody leaves for its claimant already
    };

    void add(LivePlan plan);
    std::vector<LivePlan> plans() const;
    bool empty() const;
    // Victims that were warned and are not gone.
    std::vector<Errand> errands() const;
    // Notes the victim's state at `at`. True if the claimant's plan is now empty of victims.
    bool note(JobId claimant, JobId victim, EvictionState state, std::int64_t at);
    // A start attempt of that job. Called inside slurmctld's passes, for every job that is tried:
    // costs a load where no claimant waits on empty room.
    void note_attempt(JobId claimant) noexcept;
    // How often the claimant was seen to be tried on its empty room, this look included;
    // `elsewhere`: what was tried since the last look does not count, the room was not free.
    std::uint32_t count_attempts(JobId claimant, bool elsewhere);
    void set_called_last(JobId claimant, JobId victim);
    // By array: the claimant for which somebody leaves already.
    std::unordered_map<std::uint32_t, JobId> leaders() const;
    void set_priority(JobId claimant, std::uint32_t priority);
    void extend_grace(JobId claimant, JobId victim, std::int64_t until_milliseconds);
    // Takes the claimant's plan out; false if there is none.
    bool remove(JobId claimant, LivePlan& out);
    void clear();

  private:
    LivePlan* find(JobId claimant);
    LiveVictim* find(JobId claimant, JobId victim);
    void count_waiting();

    mutable std::mutex mutex_;
    std::vector<LivePlan> plans_;
    std::atomic<std::uint32_t> waiting_{0};  // plans whose room is empty
};

// The record of one victim of a new plan, by the numbers of that pass.
PreemptionRecord record_of(const VictimDecision& victim, const Plan& plan, const Run& run,
                           const Standings& standings, std::int64_t available_milli,
                           const std::string& nodes);

// What stays with a victim's record when it goes.
std::string eviction_comment(const PreemptionRecord& record);

// One line for the victim's output: who takes its place and why, and what happens to it.
std::string eviction_message(const PreemptionRecord& record, const Run& run,
                             std::int64_t grace_seconds);

}  // namespace tranche
