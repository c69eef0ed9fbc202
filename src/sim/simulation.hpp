// SPDX-License-Identifier: GPL-2.0-or-later
// The virtual cluster: jobs, nodes and the only clock. It executes what a scheduler orders and
// records what happened.
//
// Everything due at one instant (ends, then events in their order, then submissions) is applied
// before the pass of that instant. Passes run at each such instant, when the scheduler wishes to be
// woken, and at least every cycle_seconds while a job waits.
//
// Orders that cannot be executed (no room, no such run) are defects of the scheduler and throw
// std::logic_error. Cost: O(log running) an event; nothing grows with the queue.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "common/model/usage_ledger.hpp"
#include "sim/record.hpp"
#include "sim/scheduler.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

struct SimOptions {
    std::optional<std::int64_t> begin_at;  // default: the first submission or event
    std::int64_t until = kNever;           // kNever: until nothing happens any more
    bool slots = false;                    // SegmentRecord::slots are filled
    // Over when no job is left, whatever happens to the cluster later; a note says what was not
    // waited for.
    bool ends_with_jobs = false;
};

// The tree after set_shares or add_budget.
Result<BudgetTree> apply_tree_event(const BudgetTree& tree, const WorkloadEvent& event);

class Simulation final : private Orders {
  public:
    Simulation(SimCluster cluster, const Settings& settings, const BudgetTree& tree,
               Workload workload, const SimOptions& options = {});
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;
    ~Simulation() override;

    // What schedulers read; stays where it is.
    const SimState& state() const noexcept { return state_; }
    const std::vector<PastUse>& past() const noexcept { return workload_.past; }
    std::int64_t begin_at() const noexcept { return record_.begin_at; }
    std::int64_t now() const noexcept { return now_; }

    SimRecord run(Scheduler& scheduler);

    // The same in parts, to look in between: attach once, then advance to rising instants (all
    // that is due at `at` is done, its pass too), at last finish.
    void attach(Scheduler& scheduler);
    void advance(std::int64_t at);
    bool over() const;  // nothing will happen any more, or `until` is reached
    SimRecord finish();

    // What happened so far; jobs' and budgets' figures are complete after finish() only.
    const SimRecord& record() const noexcept { return record_; }

    // Of that very budget, without those below it: held now, suspended runs too; and the integral
    // of it until now.
    std::int64_t held_gpus(std::string_view budget) const;
    std::int64_t held_gpu_seconds(std::string_view budget) const;

  private:
    struct JobNotes;
    struct BudgetNotes;
    struct DueEnd;
    struct NodeRows;
    struct OpenPreemption {
        std::uint32_t event;
        std::vector<NodeShare> where;  // of the victim
    };

    void start(const StartOrder& order) override;
    void leave(const LeaveOrder& order) override;
    void turn(JobIndex job, std::int64_t contract_seconds) override;
    void assembly(const AssemblyRecord& record) override;

    void prepare_jobs();
    void prepare_job(JobIndex job);
    std::int64_t next_instant() const;
    bool all_jobs_are_done() const;
    void move_clock(std::int64_t to);
    void apply_ends();
    void apply(const WorkloadEvent& event);
    void apply_to_job(const WorkloadEvent& event);
    void apply_to_node(const WorkloadEvent& event, NodeIndex node);
    void new_tree(const WorkloadEvent& event);
    void submit_due();
    void submit(JobIndex job);
    void queue(JobIndex job);
    void resubmit_copy(JobIndex of);
    void pass();

    void end_run(JobIndex job, SegmentEnd how);
    void lose_work(JobIndex job, SegmentEnd how);
    void cancel(JobIndex job);
    void suspend(JobIndex job);
    void resume(JobIndex job);
    std::int64_t charged_until(JobIndex job, SegmentEnd how) const;
    void begin_segment(JobIndex job);
    void end_segment(JobIndex job, SegmentEnd how, std::int64_t charged_until);
    void schedule_end(JobIndex job);
    void settle_preemptions(JobIndex claimant, bool started);
    void hold(JobIndex job);
    void release(JobIndex job);

    template <typename Add>
    void each_hour(BudgetNotes& budget, std::int64_t from, std::int64_t to, Add add);
    void account(BudgetNotes& budget);
    void refund(JobIndex job);
    void account_funding();
    void add_demand(JobIndex job, int sign);
    void charge_rate(JobIndex job, int sign);
    void read_fractions();
    bool would_be_allocated(JobIndex job) const;
    bool could_hold(const WorkloadJob& spec, std::uint32_t nodes);
    std::size_t hour_of(std::int64_t at) const;
    JobRecord& record_of(JobIndex job);
    const BudgetNotes* find_budget(std::string_view name) const;

    Settings settings_;
    BudgetTree tree_;
    Workload workload_;
    SimOptions options_;
    SimState state_;
    SimRecord record_;
    UsageLedger fractions_;  // holds no use: what budgets are funded
    Scheduler* scheduler_ = nullptr;

    std::int64_t now_ = 0, last_pass_at_ = 0, wake_at_ = kNever;
    bool pass_due_ = false;
    std::size_t submissions_ = 0;  // jobs of the workload; later ones are copies
    std::size_t next_job_ = 0, next_event_ = 0;
    std::int64_t pending_count_ = 0;
    std::int64_t holding_count_ = 0;     // jobs that are on nodes
    std::vector<JobNotes> notes_;        // by job
    std::vector<DueEnd> ends_;           // a heap; stale ones are skipped
    std::vector<BudgetNotes> budgets_;   // 0: none
    std::vector<NodeRows> rows_;         // by node, if slots are asked for
    std::deque<JobRecord> copies_;       // of endless jobs
    std::vector<JobIndex> copies_due_;   // submitted in this instant
    std::vector<std::uint32_t> chains_;  // the last number of each endless chain
    std::unordered_map<std::string, std::uint32_t> budget_index_;
    std::unordered_map<std::string, JobIndex> job_index_;  // of jobs that events name
    std::unordered_map<std::string, NodeIndex> node_index_;
    std::unordered_map<std::string, bool> shapes_;  // whether the cluster could hold them
    std::unordered_map<JobIndex, std::vector<OpenPreemption>> open_preemptions_;  // by claimant
    std::unordered_map<JobIndex, std::uint32_t> assembly_index_;
    std::unordered_map<NodeIndex, std::uint32_t> open_drains_;

    // What grows with time: GPUs now.
    std::int64_t installed_ = 0, available_ = 0, working_ = 0, idle_ = 0;
    std::int64_t demand_allocated_ = 0, demand_free_ = 0;
    std::int64_t funding_accounted_at_ = 0;
};

}  // namespace tranche::sim
