// SPDX-License-Identifier: GPL-2.0-or-later
// Carries out `sbudget job JOBID …`: changes of contracts, and owners' words that a checkpoint was
// written.
//
// Questions come from the service's threads and are answered by the stepping thread, inside a
// cycle, on that cycle's snapshot: nobody plans or warns meanwhile, so that an edit that saves a
// warned run finds it as the plans have it. The host writes the new terms and takes the warning
// back under one lock.
//
// Threads: post(), wait() and refuse_all() are anybody's, answer_all() is the stepping thread's. No
// method of the host is called while the mutex is held.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/config/contract_edit.hpp"
#include "common/model/budget_edit.hpp"
#include "common/store/ledger_rows.hpp"
#include "common/wire/job_name.hpp"
#include "engine/alarm.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

class JobTracker;
class PlanKeeper;
class UsageLedger;

struct ContractQuestion {
    JobName job;                // an array or a heterogeneous job as a whole, or one task
    bool checkpointed = false;  // the owner says that it has just written one; `edit` is empty
    ContractEdit edit;
    std::string reason;
    bool only_try = false;
};

struct ContractOutcome {
    std::string job;  // as it was named
    std::vector<ContractChange> changes;
    std::vector<std::string> notes;  // one sentence each: what stays as it is, and why
    bool applied = false;            // false: only tried, or nothing to change
};

class ContractEditor {
  public:
    class Question;

    std::shared_ptr<Question> post(const Actor& actor, ContractQuestion question);
    // The answer; the Error after `patience` of real time: then nothing was changed and nothing
    // will be.
    Result<ContractOutcome> wait(const std::shared_ptr<Question>& question,
                                 std::chrono::milliseconds patience);
    // From now on every question is refused with that text.
    void refuse_all(const std::string& text);

    struct Cycle {
        const HostSnapshot& snapshot;
        const EngineView* before;  // the last published state; nullptr: there is none yet
        const Settings& settings;
        Host& host;
        JobTracker& tracker;
        PlanKeeper& plans;
        UsageLedger& ledger;
        LedgerBatch& out;
    };
    // `refusal`: not empty where edits cannot be kept right now.
    void answer_all(const Cycle& cycle, const std::string& refusal);

  private:
    Result<ContractOutcome> answer(const Cycle& cycle, const Actor& actor,
                                   const ContractQuestion& question);
    Result<ContractOutcome> note_checkpoint(const Cycle& cycle, const ContractQuestion& question,
                                            const std::vector<const HostJob*>& jobs);
    Result<ContractOutcome> change(const Cycle& cycle, const Actor& actor,
                                   const ContractQuestion& question,
                                   const std::vector<const HostJob*>& jobs);

    std::mutex mutex_;  // a leaf
    std::deque<std::shared_ptr<Question>> waiting_;
    std::string refusal_;
    std::int64_t last_number_ = 0;  // the stepping thread's own
};

}  // namespace tranche
