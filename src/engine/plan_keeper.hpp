// SPDX-License-Identifier: GPL-2.0-or-later
// Carries out what a pass planned: warns the victims, ends their graces, keeps the room for the
// claimant until it starts, and records what came of it.
//
// Threads: follow_victims() belongs to the clock thread, everything else to the stepping thread.
// No method of the host is called while a mutex is held.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/model/usage_ledger.hpp"
#include "common/store/ledger_rows.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"
#include "engine/job_tracker.hpp"
#include "engine/notices.hpp"
#include "engine/plan_book.hpp"

namespace tranche {

class PlanKeeper {
  public:
    // `host`, `tracker` and what the functions refer to outlive it. `kick` asks for a cycle soon,
    // `clock` is the host's in milliseconds since the epoch.
    PlanKeeper(Host& host, JobTracker& tracker, std::function<void()> kick,
               std::function<std::int64_t()> clock);

    // Plans and records of an earlier life. The tracker has its runs already.
    void restore(const LedgerContents& contents, const Settings& settings);
    // What became of each plan since the last snapshot.
    void follow(const HostSnapshot& snapshot, const Settings& settings, LedgerBatch& out);
    // The plans that stand into the view that is to be ranked, and who may not be planned for now.
    void fill(EngineView& next, UsageLedger& ledger);
    // Warns the victims, once the host agrees. True: the plan stands.
    bool make(const PlanDecision& decision, const EngineView& next, LedgerBatch& out);
    // DryRun=yes: what would have been made is recorded, once for a claimant that waits and its
    // victim. (plan_rehearsal.cpp)
    void rehearse(const EngineView& next, LedgerBatch& out);
    // Who was warned since the last call.
    std::vector<WarnedRun> take_warned() { return std::exchange(warned_, {}); }
    // Whom a warned run leaves for, while its warning can still be taken back.
    struct Leaving {
        JobId claimant = 0;
        bool express = false;
    };
    std::optional<Leaving> leaving(JobId victim) const;
    // A warned run may not be taken any more, and the host has taken its warning back: the plan
    // that needed its room is over, whoever else has to leave for it stays where that is possible.
    void save(JobId victim, const HostSnapshot& snapshot, LedgerBatch& out);
    // The claimant is not what it was planned for any more; it is planned anew.
    void drop(JobId claimant, const HostSnapshot& snapshot, LedgerBatch& out);
    // Writes all plans that stand.
    void put(LedgerBatch& out) const;
    // By claimant: priorities that differ from those of the rank (see follow_victims()).
    std::unordered_map<JobId, std::uint32_t> priorities() const;
    // A claimant waits on empty room and nobody has looked for a while: the scheduler should.
    bool needs_wake(std::int64_t now);
    // When the next step is due for a claimant's sake: milliseconds from now.
    std::int64_t due_in() const;
    // Inside a start attempt of that job, whoever holds which lock: costs a load where no claimant
    // waits on empty room.
    void note_start_attempt(JobId id) noexcept { book_.note_attempt(id); }
    // Counts and recent preemptions.
    void report(EngineView& next);

    // Ends graces that are over. True while there is a victim to look after.
    bool follow_victims();

  private:
    // The components of a heterogeneous claimant, or the claimant itself, and how many of the
    // plan's nodes each gets, in their order.
    struct Part {
        JobId id = 0;
        std::size_t nodes = 0;
    };
    static std::vector<Part> parts_of(const HostJob& claimant, const HostSnapshot& snapshot);
    void pin(const std::vector<Part>& parts, const std::vector<std::string>& nodes);
    Status verify(const std::vector<Part>& parts, const LivePlan& plan);
    // `claimant`: the run that began; nullptr: none did.
    void end(const LivePlan& plan, const std::string& outcome, const HostJob* claimant,
             const HostSnapshot& snapshot, LedgerBatch& out);
    void log(Host::LogLevel level, const std::string& text) { host_.log(level, text); }

    Host& host_;
    JobTracker& tracker_;
    const std::function<void()> kick_;
    const std::function<std::int64_t()> clock_;

    // The stepping thread's own.
    std::vector<WarnedRun> warned_;
    std::vector<PreemptionRecord> recent_;
    std::vector<std::int64_t> eviction_times_;
    std::unordered_map<JobId, std::int64_t> no_plan_until_;
    bool room_waits_ = false;  // an empty one, for its claimant
    std::int64_t woken_at_ = 0;
    std::int64_t preemptions_ = 0, wasted_ = 0, overtaken_ = 0, claimant_left_ = 0;
    std::set<std::pair<JobId, JobId>> rehearsed_;  // claimant and victim
    std::int64_t rehearsed_count_ = 0;
    // The clock thread's own.
    std::uint32_t leading_count_ = 0;

    // Shared, each behind its own leaf.
    PlanBook book_;
    std::mutex delay_mutex_;
    std::vector<std::int64_t> delays_;  // milliseconds, newest last
};

}  // namespace tranche
