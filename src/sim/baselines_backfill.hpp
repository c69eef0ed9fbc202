// SPDX-License-Identifier: GPL-2.0-or-later
// EASY backfilling over an order of lanes: what fifo and fairtree share.
//
// The head of the queue, when it does not fit, is given the nodes on which it fits first by the
// estimated ends of the runs. Others may start if they are over by then or leave those nodes
// enough. The reservation is kept while nothing but what was foreseen happens.
//
// Cost: a pass is O(shapes x log queue) for each start; a new reservation O(runs).
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "sim/node_pool.hpp"
#include "sim/queue_index.hpp"
#include "sim/scheduler.hpp"

namespace tranche::sim {

class BackfillScheduler : public Scheduler {
  public:
    BackfillScheduler(const SimState& state, std::size_t lanes);

    void submitted(JobIndex job) override;
    void left_queue(JobIndex job) override;
    void run_over(JobIndex job) override;
    void changed(JobIndex job) override;
    void node_changed(std::uint32_t node) override;
    void event(const WorkloadEvent&) override {}
    void pass(std::int64_t now, Orders& orders) override;
    std::int64_t wake_at() const override { return kNever; }

  protected:
    virtual std::uint32_t lane_of(JobIndex job) = 0;
    // How long the next run is thought to take.
    virtual std::int64_t estimate(const SimJob& job) const;
    virtual std::int64_t estimated_end(const SimJob& job) const { return job.ends_at; }
    virtual void started(JobIndex) {}
    // Whether nobody may stay on a reserved node past the reservation, though some of its GPUs are
    // not needed.
    virtual bool closes_nodes() const { return false; }

    const SimState& state() const noexcept { return state_; }
    bool queue_empty() const noexcept { return queue_.empty(); }
    void set_rank(std::uint32_t lane, std::uint32_t rank) { queue_.set_rank(lane, rank); }
    void add_lane() { queue_.add_lane(); }
    void order_changed() noexcept { due_ = true; }

  private:
    void refresh(NodeIndex node);
    void reserve(JobIndex head, std::int64_t now);
    QueuedJob head() const;
    bool backfill_one(std::int64_t now, Orders& orders);
    void start(JobIndex job, const std::vector<NodeShare>& where, Orders& orders);
    GangShape shape_of(const SimJob& job) const;

    const SimState& state_;
    QueueIndex queue_;
    NodePool free_;
    NodePool spare_;  // of what is free: what the reservation leaves, for whoever stays past it
    std::vector<std::int64_t> extra_;  // free at the reservation's instant, by node, without it
    std::set<std::pair<std::int64_t, JobIndex>> ends_;
    std::vector<std::int64_t> end_of_;  // by job
    JobIndex reserved_for_ = kNoJob;
    std::int64_t reserved_at_ = kNever;
    bool due_ = true;
    std::vector<NodeShare> where_;
};

}  // namespace tranche::sim
