// SPDX-License-Identifier: GPL-2.0-or-later
// How far simulations are, on a terminal.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "sim/scheduler.hpp"

namespace tranche {

// One line on standard error, renewed a few times a second; nothing where that is no terminal.
// Threads: any.
class ReplayProgress {
  public:
    // `total` is of all simulations: jobs to submit.
    explicit ReplayProgress(std::uint64_t total);
    ~ReplayProgress();  // takes the line away
    ReplayProgress(const ReplayProgress&) = delete;
    ReplayProgress& operator=(const ReplayProgress&) = delete;

    bool is_shown() const noexcept { return is_shown_; }
    void submitted() noexcept { submitted_.fetch_add(1, std::memory_order_relaxed); }
    void show();  // cheap if it was shown just before

  private:
    const bool is_shown_;
    const std::uint64_t total_;
    std::atomic<std::uint64_t> submitted_{0};
    std::atomic<std::int64_t> next_milliseconds_{0};
    std::mutex mutex_;
};

// A scheduler that tells how far it is, and else does what the other says.
class WatchedScheduler final : public sim::Scheduler {
  public:
    WatchedScheduler(sim::Scheduler& scheduler, ReplayProgress& progress)
        : scheduler_(scheduler), progress_(progress) {}

    const char* name() const override { return scheduler_.name(); }
    void submitted(sim::JobIndex job) override {
        if (job >= next_) {
            next_ = job + 1;
            progress_.submitted();
        }
        scheduler_.submitted(job);
    }
    void left_queue(sim::JobIndex job) override { scheduler_.left_queue(job); }
    void run_over(sim::JobIndex job) override { scheduler_.run_over(job); }
    void changed(sim::JobIndex job) override { scheduler_.changed(job); }
    void node_changed(std::uint32_t node) override { scheduler_.node_changed(node); }
    void event(const sim::WorkloadEvent& event) override { scheduler_.event(event); }
    void pass(std::int64_t now, sim::Orders& orders) override {
        progress_.show();
        scheduler_.pass(now, orders);
    }
    std::int64_t wake_at() const override { return scheduler_.wake_at(); }

  private:
    sim::Scheduler& scheduler_;
    ReplayProgress& progress_;
    sim::JobIndex next_ = 0;
};

}  // namespace tranche
