// SPDX-License-Identifier: GPL-2.0-or-later
// A cluster in memory with seconds that the test turns, and the Host that an engine sees of it.
//
// The cluster outlives engines, as jobs outlive slurmctld's plugins: FakeHost only passes on. Its
// scheduler starts pending jobs by priority on free GPUs, keeps a pinned job to its nodes and
// others off them, and goes on with an array's next task as Slurm does. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/config/contract_request.hpp"
#include "engine/host.hpp"

namespace tranche::test {

// What is submitted.
struct Wish {
    std::string account;
    std::string user = "ann";
    std::int64_t gpus = 8;
    std::uint32_t nodes = 1;
    std::int64_t min_runtime_seconds = 0;
    bool resumable = true;
    bool interactive = false;
    bool wants_mail = false;
    bool free_first = false;
    TeamPriority team_priority = TeamPriority::normal;
    std::int64_t runtime_seconds = kNever;  // of each run
    std::int64_t time_limit_seconds = 86400;
    std::int64_t boot_seconds = 0;       // of each run
    std::int64_t exit_seconds = kNever;  // leaves by itself so long after a warning
    std::uint32_t tasks = 0;             // of an array
    std::uint32_t het_job_id = 0;
    StartBlock block = StartBlock::none;
    std::string partition = "gpu";
    bool spared = false;  // its partition has PreemptMode=OFF
};

class FakeCluster {
  public:
    static constexpr std::int64_t kZero = 1'000'000'000;  // its first second
    static constexpr std::int64_t kRequeueDelay = 121;

    FakeCluster(std::uint32_t nodes, std::int64_t gpus_each);

    // The test's side.
    std::int64_t now() const;
    // A second goes by: runs end, boots and epilogs are over, nothing starts.
    void tick();
    // Starts what fits. The jobs that started.
    std::vector<JobId> schedule();
    JobId submit(const Wish& wish);
    void cancel(JobId id);
    void requeue(JobId id);         // by hand
    void forget_warning(JobId id);  // as a daemon that was killed before it saved its jobs
    bool is_warned(JobId id) const;
    void hold(JobId id, bool held);
    void suspend(JobId id);
    void resume(JobId id);
    void resize(JobId id, std::int64_t gpus);                        // of a run on one node
    void reshape(JobId id, std::uint32_t nodes, std::int64_t gpus);  // of a pending job
    void set_node(const std::string& name, bool up, bool draining);  // down: its jobs leave
    void set_completing_seconds(std::int64_t seconds);
    // Starts of that job fail although there is room, or nobody tries it at all.
    enum class Refusal : std::uint8_t { none, tried_in_vain, never_tried };
    void refuse(JobId id, Refusal refusal);
    std::vector<JobId> take_tried();  // jobs that were tried since the last call
    std::vector<std::int64_t> last_calls(JobId id) const;  // when the job was signalled last
    std::optional<HostJob> job(JobId id) const;            // as a snapshot would show it
    std::vector<JobId> ids(HostJobState state) const;
    std::vector<std::string> closed_to(JobId id) const;
    std::int64_t begin_at(JobId id) const;  // as Slurm would show it
    // What a new slurmctld has forgotten: exclusions and who was held back, not until when.
    void forget_entrance();
    std::vector<std::string> logged() const;
    std::vector<std::string> told(JobId id) const;
    std::string comment(JobId id) const;
    std::vector<Outlook> shown_outlook() const;  // the last that was written

    // The engine's side: see Host.
    void collect(HostSnapshot& out) const;
    void set_priorities(const std::vector<PriorityChange>& changes);
    std::vector<JobId> split_array(JobId array_record, std::uint32_t count);
    Status verify(JobId claimant, const std::vector<JobId>& victims,
                  const std::vector<std::string>& nodes) const;
    void pin(JobId claimant, std::vector<std::string> nodes);
    void unpin(JobId claimant);
    std::vector<HeldBack> set_entrance(const HostEntrance& entrance);
    void remember_held_back(const std::vector<HeldBack>& held);
    Status warn(const Eviction& eviction);
    void last_call(const Eviction& eviction);
    EvictionState follow(const Eviction& eviction, std::int64_t grace_ends_at);
    bool take_back(const Eviction& eviction);
    Status write_contracts(const std::vector<ContractWrite>& writes);
    bool release_requeued(JobId id);
    void tell(JobId id, std::string_view text);
    std::uint64_t passes() const;
    void set_outlook(const std::vector<Outlook>& jobs);
    void log(std::string_view text);

  private:
    struct Record {
        HostJob job;
        Wish wish;
        std::vector<std::uint32_t> tasks;  // pending ones of an array's record
        std::vector<std::string> pin;
        bool held = false;
        Refusal refusal = Refusal::none;
        std::vector<std::int64_t> last_calls;
        std::int64_t begin_at = 0;
        std::vector<std::string> closed;  // kept off these
        std::int64_t held_until = 0;      // saved with the job, as Slurm saves begin times
        std::optional<std::int64_t> held_begin_at;  // the user's; known while it is held back
        std::int64_t worked_seconds = 0;            // of this run
        std::int64_t boots_until = 0;
        std::int64_t completes_until = 0;
        std::int64_t warned_at = 0;  // 0: not; Slurm's preempt_time
        bool comes_back = false;     // pending again when it has completed
        std::int64_t forget_at = kNever;
    };

    static bool holds(const Record& record);
    HostJob shown(const Record& record) const;
    void leave(Record& record, RunEnd end, bool comes_back);
    void completed(Record& record);
    std::vector<std::int64_t> free_gpus() const;
    bool startable(const Record& record) const;
    std::optional<std::vector<NodeShare>> place(const Record& record,
                                                const std::vector<std::int64_t>& free,
                                                const std::vector<bool>& open) const;
    void begin(Record& record, std::vector<NodeShare> where);
    Record& split(Record& array);

    mutable std::mutex mutex_;
    std::int64_t now_ = kZero;
    std::int64_t completing_seconds_ = 0;
    JobId next_id_ = 1;
    std::vector<HostNode> nodes_;
    std::map<JobId, Record> jobs_;
    std::vector<std::string> logged_;
    std::vector<JobId> tried_;
    std::map<JobId, std::vector<std::string>> told_;
    std::map<JobId, std::string> comments_;
    std::vector<Outlook> outlook_;
    std::uint64_t passes_ = 0;
};

class FakeHost : public Host {
  public:
    explicit FakeHost(std::shared_ptr<FakeCluster> cluster) : cluster_(std::move(cluster)) {}

    std::int64_t now() const override { return cluster_->now(); }
    void collect(HostSnapshot& out) override { cluster_->collect(out); }
    void set_priorities(const std::vector<PriorityChange>& changes) override {
        cluster_->set_priorities(changes);
    }
    std::vector<JobId> split_array(JobId array_record, std::uint32_t count) override {
        return cluster_->split_array(array_record, count);
    }
    Status verify(JobId claimant, const std::vector<JobId>& victims,
                  const std::vector<std::string>& nodes) override {
        return cluster_->verify(claimant, victims, nodes);
    }
    void pin(JobId claimant, const std::vector<std::string>& nodes) override {
        cluster_->pin(claimant, nodes);
    }
    void unpin(JobId claimant) override { cluster_->unpin(claimant); }
    std::vector<HeldBack> set_entrance(const HostEntrance& entrance) override {
        return cluster_->set_entrance(entrance);
    }
    void remember_held_back(const std::vector<HeldBack>& held) override {
        cluster_->remember_held_back(held);
    }
    Status warn(const Eviction& eviction) override { return cluster_->warn(eviction); }
    void last_call(const Eviction& eviction) override { cluster_->last_call(eviction); }
    EvictionState follow(const Eviction& eviction, std::int64_t grace_ends_at) override {
        return cluster_->follow(eviction, grace_ends_at);
    }
    bool take_back(const Eviction& eviction) override { return cluster_->take_back(eviction); }
    Status write_contracts(const std::vector<ContractWrite>& writes) override {
        return cluster_->write_contracts(writes);
    }
    bool release_requeued(JobId job) override { return cluster_->release_requeued(job); }
    std::uint64_t passes() const override { return cluster_->passes(); }
    void set_outlook(const std::vector<Outlook>& jobs) override { cluster_->set_outlook(jobs); }
    void tell(JobId job, std::string_view text) override { cluster_->tell(job, text); }
    void wake() override {}  // the test schedules
    bool is_operator(std::uint32_t uid) override { return uid == 0; }
    std::string user_name(std::uint32_t uid) override { return "user" + std::to_string(uid); }
    bool is_private(std::string_view) override { return false; }
    std::vector<std::string> complaints() override { return {}; }
    void log(LogLevel, std::string_view text) override { cluster_->log(text); }

  private:
    const std::shared_ptr<FakeCluster> cluster_;
};

}  // namespace tranche::test
