// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/baselines_backfill.hpp"

#include <algorithm>

#include "sim/baselines.hpp"

namespace tranche::sim {

BackfillScheduler::BackfillScheduler(const SimState& state, std::size_t lanes)
    : state_(state), queue_(lanes), free_(state.cluster), spare_(state.cluster) {
    extra_.assign(state_.nodes.size(), kNever);
    for (NodeIndex n = 0; n < state_.nodes.size(); ++n) {
        refresh(n);
    }
}

std::int64_t BackfillScheduler::estimate(const SimJob& job) const {
    const std::int64_t restart = job.runs > 0 ? job.spec->restart_seconds : 0;
    return std::min(restart + job.work_left_seconds, job.spec->time_limit_seconds);
}

GangShape BackfillScheduler::shape_of(const SimJob& job) const {
    return {job.nodes, job.spec->gpus, free_.type_of(job.spec->gpu_type)};
}

void BackfillScheduler::submitted(JobIndex j) {
    const SimJob& job = state_.jobs[j];
    if (job.impossible) {
        return;
    }
    queue_.put(j, shape_of(job), lane_of(j), estimate(job));
    due_ = true;
}

void BackfillScheduler::left_queue(JobIndex j) {
    if (!state_.jobs[j].impossible) {
        queue_.remove(j);
        due_ = true;
    }
}

void BackfillScheduler::run_over(JobIndex j) {
    const SimJob& job = state_.jobs[j];
    ends_.erase({end_of_[j], j});
    if (end_of_[j] != state_.now) {
        reserved_for_ = kNoJob;  // sooner than foreseen
    }
    for (const NodeShare& share : job.where) {
        refresh(share.node);
    }
    due_ = true;
}

void BackfillScheduler::changed(JobIndex j) {
    const SimJob& job = state_.jobs[j];
    if (job.state == JobState::running || job.state == JobState::leaving) {
        ends_.erase({end_of_[j], j});
        end_of_[j] = job.suspended ? kNever : estimated_end(job);
        ends_.insert({end_of_[j], j});
        reserved_for_ = kNoJob;
        due_ = true;
    }
}

void BackfillScheduler::node_changed(std::uint32_t node) {
    refresh(node);
    reserved_for_ = kNoJob;
    due_ = true;
}

void BackfillScheduler::refresh(NodeIndex node) {
    const SimNodeState& state = state_.nodes[node];
    free_.set(node, state.usable() ? state.free_gpus : -1);
    spare_.set(node, std::max<std::int64_t>(std::min(free_.free(node), extra_[node]), -1));
}

QueuedJob BackfillScheduler::head() const {
    QueuedJob best;
    for (std::size_t s = 0; s < queue_.shapes(); ++s) {
        if (queue_.jobs_of(s) == 0) {
            continue;
        }
        const QueuedJob job = queue_.first(s, kNever);
        if (!best || job < best) {
            best = job;
        }
    }
    return best;
}

void BackfillScheduler::reserve(JobIndex head, std::int64_t now) {
    reserved_for_ = head;
    reserved_at_ = kNever;
    std::fill(extra_.begin(), extra_.end(), kNever);
    const GangShape shape = shape_of(state_.jobs[head]);
    NodePool then = free_;
    for (auto it = ends_.begin(); it != ends_.end() && it->first != kNever;) {
        const std::int64_t at = it->first;
        for (; it != ends_.end() && it->first == at; ++it) {
            for (const NodeShare& share : state_.jobs[it->second].where) {
                if (then.free(share.node) >= 0) {
                    then.add(share.node, share.gpus);
                }
            }
        }
        if (then.place(shape, where_)) {
            reserved_at_ = std::max(at, now);
            for (NodeIndex n = 0; n < extra_.size(); ++n) {
                extra_[n] = then.free(n);
            }
            for (const NodeShare& share : where_) {
                extra_[share.node] = closes_nodes() ? 0 : extra_[share.node] - share.gpus;
            }
            break;
        }
    }
    for (NodeIndex n = 0; n < extra_.size(); ++n) {
        refresh(n);
    }
}

void BackfillScheduler::start(JobIndex j, const std::vector<NodeShare>& where, Orders& orders) {
    queue_.remove(j);
    StartOrder order;
    order.job = j;
    order.where = where;
    order.kind = state_.jobs[j].allocated ? RunKind::allocated : RunKind::unallocated;
    orders.start(order);
    const SimJob& job = state_.jobs[j];
    if (end_of_.size() <= j) {
        end_of_.resize(state_.jobs.size(), kNever);
    }
    end_of_[j] = estimated_end(job);
    ends_.insert({end_of_[j], j});
    for (const NodeShare& share : job.where) {
        if (reserved_for_ != kNoJob && end_of_[j] > reserved_at_ && extra_[share.node] != kNever) {
            extra_[share.node] -= share.gpus;
        }
        refresh(share.node);
    }
    started(j);
}

bool BackfillScheduler::backfill_one(std::int64_t now, Orders& orders) {
    const std::int64_t boot = std::all_of(state_.nodes.begin(), state_.nodes.end(),
                                          [](const SimNodeState& node) { return node.booted; })
                                  ? 0
                                  : state_.cluster.boot_seconds;
    const std::int64_t until_then = reserved_at_ == kNever ? kNever : reserved_at_ - now - boot;
    QueuedJob best;
    bool in_spare = false;
    std::size_t best_shape = 0;
    for (std::size_t s = 0; s < queue_.shapes(); ++s) {
        if (queue_.jobs_of(s) == 0 || !free_.fits(queue_.shape(s))) {
            continue;
        }
        const bool spare = spare_.fits(queue_.shape(s));
        const QueuedJob job = queue_.first(s, spare ? kNever : until_then);
        if (job && (!best || job < best)) {
            best = job;
            best_shape = s;
            in_spare = spare;
        }
    }
    if (!best) {
        return false;
    }
    const bool over_by_then = estimate(state_.jobs[best.job]) <= until_then;
    (over_by_then || !in_spare ? free_ : spare_).place(queue_.shape(best_shape), where_);
    start(best.job, where_, orders);
    return true;
}

void BackfillScheduler::pass(std::int64_t now, Orders& orders) {
    if (!due_) {
        return;  // time alone makes no room
    }
    due_ = false;
    QueuedJob first = head();
    while (first && free_.place(shape_of(state_.jobs[first.job]), where_)) {
        reserved_for_ = kNoJob;
        start(first.job, where_, orders);
        first = head();
    }
    if (!first) {
        return;
    }
    if (reserved_for_ != first.job) {
        reserve(first.job, now);
    }
    while (free_.free_gpus() > 0 && backfill_one(now, orders)) {
    }
}

namespace {

class Fifo final : public BackfillScheduler {
  public:
    explicit Fifo(const SimState& state) : BackfillScheduler(state, 1) {}
    const char* name() const override { return "fifo"; }

  private:
    std::uint32_t lane_of(JobIndex) override { return 0; }
};

}  // namespace

std::unique_ptr<Scheduler> make_fifo(const SimState& state) {
    return std::make_unique<Fifo>(state);
}

}  // namespace tranche::sim
