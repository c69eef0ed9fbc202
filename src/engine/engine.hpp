// SPDX-License-Identifier: GPL-2.0-or-later
// The live state that both plugins share in the one slurmctld: it watches the jobs, keeps the
// ledger, ranks the queue, plans and evicts.
//
// Lives and dies with the priority plugin; start() and stop() may alternate in one process
// (standby, primary, standby). start() opens, locks and waits for nothing: the threads do. Methods
// called from plugin entry points never block and never throw.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/budget_edit.hpp"
#include "common/store/ledger_rows.hpp"
#include "engine/contract_editor.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

struct EngineOptions {
    std::string cluster;
    std::string settings_path;    // tranche.conf
    std::string state_directory;  // StateSaveLocation
    std::string munge_socket;     // empty: munge's default
    std::uint32_t slurm_user_uid = 0;
    // DryRun=yes at the start: somebody else orders the queue until the engine stops, whatever
    // becomes of the setting.
    bool rehearses = false;
    std::chrono::milliseconds ledger_retry{5000};  // while its file cannot be used
};

// The outcome of an edit that was accepted.
struct EditOutcome {
    std::vector<BudgetChange> changes;
    bool applied = false;  // false: only tried
};

// One recorded edit, as `sbudget show edit` prints it.
struct EditRecord {
    std::int64_t at = 0;
    std::string user;
    BudgetChange change;
    std::string reason;
};

// What the environment of a run says about its contract (DESIGN 4.1).
struct StartStamp {
    std::string budget;
    std::uint32_t run = 1;
    std::int64_t min_runtime_seconds = 0;
    std::int64_t protected_until = 0;
    std::int64_t time_limit_seconds = kNever;  // as its owner asked for it
};

// Of a job that is being submitted or changed (priority_p_set).
struct QueuePlace {
    std::uint32_t priority = 0;  // 0: the engine does not run, the caller keeps what is there
    // It has no rank yet, and must not start before it has one: at the latest then. 0: it may.
    std::int64_t not_before_at = 0;
};

class EngineParts;

class Engine {
  public:
    // The one of this process.
    static Engine& instance();

    Engine();
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    void start(std::unique_ptr<Host> host, const EngineOptions& options) noexcept;
    void stop() noexcept;
    // Reads tranche.conf again, soon; pins and entrance rules are applied anew at once by the
    // caller's next pass.
    void reconfigure() noexcept;
    bool running() const noexcept;

    // The newest published state; nullptr while there is none.
    std::shared_ptr<const EngineView> view() const noexcept;

    // For priority_p_set. The rank's priority of a job it knows, a provisional one of its band for
    // a new job (`entries`: its contract options; `tasks` of an array, of `shape` each). A job that
    // was held is as new: no pass has said yet whether it may start.
    QueuePlace place_for(JobId id, const std::string& account, const std::string& user,
                         const std::vector<std::string>& entries, bool governed,
                         const JobShape& shape, std::uint32_t tasks = 1) noexcept;
    // A job was submitted, ended or changed: have a cycle soon.
    void kick() noexcept;

    // A start attempt of that job is under way.
    void note_start_attempt(JobId id) noexcept;
    // For a start attempt at `now`.
    // nullopt: no ranking has seen it yet.
    std::optional<StartStamp> stamp(JobId id, std::int64_t now) const noexcept;
    // The same for one that is tried inside its submission, as salloc and srun are.
    std::optional<StartStamp> stamp_of_new(const std::string& account, const std::string& user,
                                           const std::vector<std::string>& entries, bool governed,
                                           const JobShape& shape, std::int64_t now) const noexcept;

    // For the query service, outside all Slurm locks; waits for the database.
    Result<EditOutcome> edit(const Actor& actor, const BudgetEdit& edit, bool only_try);
    Result<std::vector<EditRecord>> edits(std::size_t most);
    Result<ContractOutcome> change_contract(const Actor& actor, ContractQuestion question);
    Result<std::vector<ContractEditRow>> contract_edits(std::size_t most);
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                      std::size_t most);
    Result<JobHistory> history(std::uint32_t id, std::int64_t part, bool is_component,
                               std::size_t most);
    Host* host() noexcept;  // nullptr when not running; valid while the service runs

    // An internal fault at an entry point: counted, logged once a kind.
    void fault(const char* where, const char* what) noexcept;

  private:
    std::shared_ptr<EngineParts> parts() const noexcept;

    mutable std::mutex parts_mutex_;
    std::shared_ptr<EngineParts> parts_;
};

}  // namespace tranche
