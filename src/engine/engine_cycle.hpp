// SPDX-License-Identifier: GPL-2.0-or-later
// The engine without its threads: one cycle (collect, rank, pass, act) and one look at the victims
// in grace, each a call.
//
// Threads: open() to due_in() belong to one thread, follow_victims() to one other, the rest to
// anybody. No method of the host is called while a mutex is held, save that edits queue up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/model/usage_ledger.hpp"
#include "engine/assembly_book.hpp"
#include "engine/contract_editor.hpp"
#include "engine/engine.hpp"
#include "engine/entrance_keeper.hpp"
#include "engine/job_tracker.hpp"
#include "engine/ledger_writer.hpp"
#include "engine/notices.hpp"
#include "engine/outlook_keeper.hpp"
#include "engine/plan_keeper.hpp"
#include "engine/restart_notes.hpp"

namespace tranche {

class EngineCycle {
  public:
    // `kick` asks for a step soon, from any thread. `clock` is the host's, in milliseconds since
    // the epoch: a grace is told more finely than in whole seconds.
    EngineCycle(std::unique_ptr<Host> host, EngineOptions options, std::function<void()> kick,
                std::function<std::int64_t()> clock);

    // Reads the settings and lets the ledger's thread open the file.
    void open();
    // Takes the ledger's contents over once they are there; false: not yet. step() goes on asking
    // and ranks in memory until then: nothing is charged, and nobody leaves for anybody.
    bool wait_for_ledger(std::chrono::milliseconds patience);
    // Tells the log how it stands.
    void announce();
    void step();
    // When the next step is due without a kick: a contract's end is no event of the cluster.
    std::chrono::milliseconds due_in() const;
    const Settings& settings() const { return *settings_; }
    void complain(const std::string& text);
    // Writes what waits and closes the file; after the last call of any other method.
    void close();

    // Inside a start attempt of that job, under slurmctld's locks; never waits for them.
    void note_start_attempt(JobId id) noexcept { plans_.note_start_attempt(id); }
    // Ends graces that are over. True while there is a victim to look after.
    bool follow_victims() { return plans_.follow_victims(); }

    // tranche.conf is read again by the next step.
    void reload_settings() noexcept { reload_settings_ = true; }
    std::shared_ptr<const EngineView> view() const;
    // As assigned last; 0: not ranked.
    std::uint32_t known_priority(JobId id) const;
    // For a job that has no rank yet: 0, or the instant until which it has to wait for one.
    std::int64_t let_in(const EngineView& now_view, bool allocated, bool express,
                        std::int64_t contract_seconds, std::int64_t gpus);
    Result<EditOutcome> edit(const Actor& actor, const BudgetEdit& edit, bool only_try);
    Result<std::vector<EditRecord>> edits(std::size_t most);
    // Answered by step().
    ContractEditor& contracts() { return contracts_; }
    Result<std::vector<ContractEditRow>> contract_edits(std::size_t most);
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                      std::size_t most);
    // `part`: the number of a task or a component, -1: the whole job.
    Result<JobHistory> history(std::uint32_t id, std::int64_t part, bool is_component,
                               std::size_t most);
    void fault(const char* where, const char* what) noexcept;
    Host* host() { return host_.get(); }
    OutlookKeeper& outlook() { return outlook_; }

  private:
    Status check_deleted_run_nothing(const BudgetTree& before, const BudgetTree& after);
    void log(Host::LogLevel level, const std::string& text) { host_->log(level, text); }
    bool load_settings(bool first);
    void take_over(const LedgerContents& contents);
    void rebuild_ledger(const LedgerContents& contents);
    void follow_settings();
    void look_at_host();
    void govern(HostSnapshot& snapshot);
    void note_capacity(const HostSnapshot& snapshot, LedgerBatch& out);
    Int128 capacity_over_window(std::int64_t now);
    std::shared_ptr<const BudgetTree> apply_new_tree();
    std::vector<JobId> split_arrays(const EngineView& next);
    void order_queue(EngineView& next);
    bool act(EngineView& next, const HostSnapshot& snapshot, LedgerBatch& out);
    void write_priorities(EngineView& next);
    void publish(std::shared_ptr<EngineView> next);

    const std::unique_ptr<Host> host_;
    const EngineOptions options_;
    const std::function<void()> kick_;
    const std::function<std::int64_t()> clock_;

    // The stepping thread's own.
    std::shared_ptr<const Settings> settings_ = std::make_shared<Settings>();
    std::vector<std::string> settings_complaints_;  // since tranche.conf was read last
    std::vector<std::string> unknown_partitions_;   // of Partitions=
    std::vector<std::string> host_complaints_;      // about slurm.conf
    std::vector<std::string> own_complaints_;       // until the next start
    std::unique_ptr<LedgerWriter> writer_;
    std::unique_ptr<UsageLedger> ledger_;
    JobTracker tracker_;
    LedgerBatch unwritten_;  // outlives a step that fails half-way
    bool ledger_loaded_ = false;
    bool rebuild_due_ = false;  // the settings of the window changed
    std::int64_t rebuild_not_before_ = 0;
    std::vector<CapacityRow> capacity_;
    EngineHealth health_;
    RestartNotes notes_;
    bool notes_wait_ = false;
    AssemblyBook assemblies_;
    EntranceKeeper entrance_;  // let_in() is everybody's
    PlanKeeper plans_;         // its part of the clock thread as well

    Notifier notifier_;
    Notices notices_;
    OutlookKeeper outlook_;  // of two threads of its own

    // Shared, each behind its own leaf.
    ContractEditor contracts_;
    std::atomic<LedgerWriter*> writer_ptr_{nullptr};
    std::atomic<bool> reload_settings_{false};
    mutable std::mutex view_mutex_;
    std::shared_ptr<const EngineView> view_;
    std::unordered_map<JobId, std::uint32_t> priorities_;  // as assigned last
    std::mutex edit_mutex_;  // no leaf: an edit is one at a time, its writing included
    std::mutex new_tree_mutex_;
    std::shared_ptr<const BudgetTree> tree_ = std::make_shared<BudgetTree>();
    std::optional<std::pair<std::int64_t, std::shared_ptr<const BudgetTree>>> new_tree_;
    std::int64_t last_edit_number_ = 0;
    bool edits_allowed_ = false;
    mutable std::mutex fault_mutex_;
    std::int64_t faults_ = 0;
    std::string last_fault_;
    std::set<std::string> logged_faults_;
};

}  // namespace tranche
