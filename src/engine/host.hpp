// SPDX-License-Identifier: GPL-2.0-or-later
// What the engine needs of the workload manager it lives in: a copy of its records, and the few
// things the engine does to jobs.
//
// Implementations: the Slurm adapter (src/plugins/slurm) and a fake for tests. Every call takes
// and drops the locks it needs by itself; the engine calls none of them while it holds a mutex of
// its own. Calls come from the engine's threads, never from a plugin entry point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/cluster.hpp"

namespace tranche {

struct HostNode {
    std::string name;
    std::string gpu_type;  // of most of its GPUs, empty: untyped
    std::int64_t gpus = 0;
    std::int64_t cpus = 0;
    std::int64_t memory_mib = 0;
    bool up = true;
    bool draining = false;    // DRAIN is set, jobs or not
    bool completing = false;  // a job is completing there
    std::string reason;       // of a drain
};

enum class HostJobState : std::uint8_t {
    pending,
    configuring,  // allocated, the node boots or the prolog runs
    running,
    suspended,
    completing,
    finished,
};

// How a finished or requeued run ended.
enum class RunEnd : std::uint8_t {
    unknown,
    completed,
    failed,
    cancelled,
    timeout,
    node_failure,
    preempted,
    requeued,
};

inline constexpr std::uint32_t kNoTask = 0xffffffff;

struct HostJob {
    JobId id = 0;
    std::uint32_t array_job_id = 0;         // 0: no array
    std::uint32_t array_task = kNoTask;     // of a single task
    std::uint32_t array_tasks_pending = 0;  // of the record that stands for the rest of an array
    std::string array_tasks;                // of that record: "0-3,7"
    std::uint32_t het_job_id = 0;           // leader's id, 0: not heterogeneous
    std::uint32_t het_offset = 0;
    std::string name;
    std::string account;
    std::string user;
    std::string partition;                // it runs on, or the first it may run on
    std::vector<std::string> partitions;  // all of a pending job, the one of a run
    std::uint32_t uid = 0;
    HostJobState state = HostJobState::pending;
    StartBlock block = StartBlock::none;
    std::string host_reason;  // Slurm's own word, e.g. "AssocGrpGRES"
    RunEnd end = RunEnd::unknown;
    std::int64_t submit_at = 0;  // of this run: changes with each requeue
    std::int64_t eligible_at = 0;
    std::int64_t start_at = 0;
    std::int64_t end_at = 0;        // real end of a finished run; scheduled end of a running one
    std::int64_t suspended_at = 0;  // begin of the current suspension
    std::int64_t suspended_seconds = 0;  // before it, in this run
    std::int64_t time_limit_seconds = kNever;
    std::int64_t time_min_seconds = 0;  // --time-min, 0: none
    std::int64_t nice = 0;              // 0 = neutral, larger goes later
    std::uint32_t priority = 0;
    std::uint32_t restarts = 0;
    bool admin_priority = false;    // set by an administrator: stays
    bool batch = true;              // false: salloc or srun, interactive
    bool requeue = false;           // may be requeued at all
    bool explicit_requeue = false;  // as far as it can be told
    bool wants_notices = false;     // --mail-type with REQUEUE or END
    bool refuses_requeue = false;   // --no-requeue, as far as it can be told
    bool governed = true;           // on a partition that has GPUs, or of Partitions=
    bool spared = false;            // on a partition with PreemptMode=OFF
    JobShape shape;                 // requested; node_set indexes HostSnapshot::node_sets
    std::vector<NodeShare> where;   // held now
    // Held now, by GPU type ("" where untyped), for charge weights.
    std::vector<std::pair<std::string, std::int64_t>> held_gpus;
    std::int64_t held_cpus = 0;
    std::string mail_user;  // of a job that wants notices; empty: its user
    // Contract options as stored with the job: "_SLURM_SPANK_OPTION_contract_…=…".
    std::vector<std::string> contract_entries;
};

struct HostSnapshot {
    std::int64_t now = 0;
    std::uint64_t serial = 0;  // rises from one to the next
    std::vector<HostNode> nodes;
    std::vector<std::vector<bool>> node_sets;  // deduplicated; partition, features, node lists
    std::vector<HostJob> jobs;            // pending, running and those that ended within MinJobAge
    std::vector<std::string> partitions;  // all there are
};

struct PriorityChange {
    JobId id = 0;
    std::uint32_t priority = 0;
};

// What squeue and scontrol show of a pending job.
struct Outlook {
    JobId id = 0;
    std::string reason;         // empty: Slurm's own
    std::int64_t start_at = 0;  // 0: Slurm's own

    bool operator==(const Outlook&) const = default;
};

struct Eviction {
    JobId victim = 0;
    JobId claimant = 0;
    std::int64_t grace_seconds = 0;
    bool requeue = false;  // resumable: comes back by itself
    bool quiet = false;    // no signal at the warning (interactive sessions)
    std::string message;   // one line for the victim's output or terminal
    std::string comment;   // kept with the job when it goes
};

// New contract terms of one job record.
struct ContractWrite {
    JobId id = 0;
    std::uint32_t task =
        kNoTask;                 // of an array's record: this task alone, which is split off first
    std::int64_t submit_at = 0;  // the run, or wait, that it was decided for
    bool runs = false;
    std::vector<std::string> entries;  // in the place of HostJob::contract_entries
    bool requeue = false;              // it may be requeued from now on
    bool takes_warning_back = false;   // with everything that take_back() does
};

// Where and when a pending job may not start.
struct JobEntrance {
    JobId job = 0;
    std::uint32_t closed = kNoTask;    // index into HostEntrance::node_sets; kNoTask: no nodes
    std::int64_t closed_until_at = 0;  // it is held until then where it cannot be kept off them
    std::int64_t not_before_at = 0;    // held until then; 0: not held
};

struct HostEntrance {
    std::uint64_t serial = 0;  // of the snapshot that it is about: newer jobs are left as they are
    std::vector<std::vector<std::string>> node_sets;
    std::vector<JobEntrance> jobs;
};

// A job whose begin time was put off: until when, and what it was.
struct HeldBack {
    JobId job = 0;
    std::int64_t until_at = 0;
    std::int64_t begin_at = 0;

    bool operator==(const HeldBack&) const = default;
};

enum class EvictionState : std::uint8_t {
    in_grace,  // still there
    leaving,   // told to go for good, its nodes are not free yet
    gone,      // requeued or ended, its nodes are free
    not_ours,  // the job is no longer the run that was warned
};

class Host {
  public:
    virtual ~Host() = default;

    virtual std::int64_t now() const = 0;
    // Copies the records. Read locks only.
    virtual void collect(HostSnapshot& out) = 0;

    // Writes changed priorities of pending jobs (not held, not set by an administrator).
    virtual void set_priorities(const std::vector<PriorityChange>& changes) = 0;
    // Makes records of their own of the first `count` pending tasks of an array (SLURM_HOWTO 6.1);
    // their ids in task order.
    virtual std::vector<JobId> split_array(JobId array_record, std::uint32_t count) = 0;

    // Whether the claimant could start on these nodes once the victims are gone; the text says
    // what is in the way.
    virtual Status verify(JobId claimant, const std::vector<JobId>& victims,
                          const std::vector<std::string>& nodes) = 0;
    // Keeps the claimant to these nodes, and others off them while its priority is the highest.
    virtual void pin(JobId claimant, const std::vector<std::string>& nodes) = 0;
    virtual void unpin(JobId claimant) = 0;

    // Keeps pending jobs off nodes, or from starting at all for a while. The list is whole: what it
    // does not name any more is free again, its user's own --exclude and --begin restored. A
    // snapshot shows a job that is held back as if it were not. Pinned jobs are passed over. All
    // that are held back now.
    virtual std::vector<HeldBack> set_entrance(const HostEntrance& entrance) = 0;
    // Jobs that were held back before a restart, from where their records come.
    virtual void remember_held_back(const std::vector<HeldBack>& held) = 0;

    // Warns the victim and starts its grace.
    virtual Status warn(const Eviction& eviction) = 0;
    // Of a victim that was warned quietly: its grace ends soon, and its programs hear it.
    virtual void last_call(const Eviction& eviction) = 0;
    // Ends the grace where its time is over, requeues a victim that left by itself; called every
    // few milliseconds while a victim is in grace.
    virtual EvictionState follow(const Eviction& eviction, std::int64_t grace_ends_at) = 0;
    // Takes a warning back. False if it is too late.
    virtual bool take_back(const Eviction& eviction) = 0;
    // Writes new terms into jobs, all of them or none, and takes warnings back, under one lock. The
    // Error: one of them is not any more what it was decided for.
    virtual Status write_contracts(const std::vector<ContractWrite>& writes) = 0;
    // Makes a requeued job eligible now instead of after Slurm's delay, without the marks of a
    // preemption. False while its former run is still completing.
    virtual bool release_requeued(JobId job) = 0;

    // How many scheduling passes there were so far, of any scheduler: each wipes out what
    // set_outlook() wrote. No lock, no cost.
    virtual std::uint64_t passes() const = 0;
    // Has these jobs' reasons and expected starts shown, where they differ from what is shown and
    // Slurm's own reason does not say more. Jobs that were in the last call and are not in this one
    // show Slurm's own again.
    virtual void set_outlook(const std::vector<Outlook>& jobs) = 0;

    // One line in a job's error output or on its terminal.
    virtual void tell(JobId job, std::string_view text) = 0;
    // Has the scheduler look again at once.
    virtual void wake() = 0;

    // Whether `user` may act as an administrator or operator of the cluster.
    virtual bool is_operator(std::uint32_t uid) = 0;
    virtual std::string user_name(std::uint32_t uid) = 0;
    // PrivateData: whether that word ("jobs", "usage", "accounts") is set.
    virtual bool is_private(std::string_view word) = 0;
    // Settings of slurm.conf that bypass or break us, each with the line to write instead.
    virtual std::vector<std::string> complaints() = 0;

    enum class LogLevel : std::uint8_t { error, info, verbose, debug };
    virtual void log(LogLevel level, std::string_view text) = 0;
};

}  // namespace tranche
