// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/entrance_keeper.hpp"

#include <algorithm>

namespace tranche {
namespace {

constexpr std::int64_t kLongestWait = 60;  // for a rank, should no cycle come

EntranceLimits limits_of(const Settings& settings) {
    EntranceLimits limits;
    limits.slack_seconds = std::max<std::int64_t>(2 * settings.rank_interval_seconds, 10);
    return limits;
}

}  // namespace

void EntranceKeeper::restore(const LedgerContents& contents) {
    written_.clear();
    for (const HeldBackRow& row : contents.held_back) {
        written_.push_back({row.job, row.until_at, row.begin_at});
    }
    host_.remember_held_back(written_);
}

void EntranceKeeper::begin_cycle() {
    const std::lock_guard lock(mutex_);
    unranked_before_ = unranked_gpus_;
}

bool EntranceKeeper::apply(EngineView& next, std::uint64_t serial,
                           const std::vector<std::uint32_t>& planned,
                           std::unordered_set<JobId>& as_free, LedgerBatch& out) {
    next.entrance = entrance_of(next.view, next.ranking, next.standings, *next.settings, next.pass,
                                planned, limits_of(*next.settings));
    HostEntrance entrance;
    entrance.serial = serial;
    for (const std::vector<NodeIndex>& nodes : next.entrance.node_sets) {
        std::vector<std::string>& names = entrance.node_sets.emplace_back();
        for (const NodeIndex n : nodes) {
            names.push_back(next.view.nodes[n].name);
        }
    }
    held_.clear();
    bool split = false;
    for (const EntranceRule& rule : next.entrance.rules) {
        const PendingJob& job = next.view.pending[rule.job];
        if (rule.as_free) {
            as_free.insert(job.id);
        }
        if (rule.tasks_now > 0 && job.tasks > 1) {
            // Those that may have records of their own; what is said here is about the rest.
            split = !host_.split_array(job.id, std::min(rule.tasks_now, job.tasks - 1)).empty() ||
                    split;
        }
        if (rule.not_before_at != 0) {
            held_.insert(job.id);
        }
        if (rule.closed != kNoId || rule.not_before_at != 0) {
            entrance.jobs.push_back(
                {job.id, rule.closed, rule.closed_until_at, rule.not_before_at});
        }
    }
    send(entrance, out);
    return split;
}

void EntranceKeeper::lift(EngineView& next, std::uint64_t serial, LedgerBatch& out) {
    next.entrance = {};
    held_.clear();
    HostEntrance nothing;
    nothing.serial = serial;
    send(nothing, out);
}

void EntranceKeeper::send(const HostEntrance& entrance, LedgerBatch& out) {
    std::vector<HeldBack> held = host_.set_entrance(entrance);
    std::sort(held.begin(), held.end(),
              [](const HeldBack& a, const HeldBack& b) { return a.job < b.job; });
    if (held != written_) {
        out.held_back.emplace();
        for (const HeldBack& one : held) {
            out.held_back->push_back({one.job, one.until_at, one.begin_at});
        }
        written_ = std::move(held);
    }
    const std::lock_guard lock(mutex_);
    unranked_gpus_ -= unranked_before_;
    unranked_before_ = 0;
}

std::int64_t EntranceKeeper::let_in(const EntranceList& entrance, std::int64_t now, bool allocated,
                                    bool express, std::int64_t contract_seconds,
                                    std::int64_t gpus) {
    const std::lock_guard lock(mutex_);
    if (waits_for_pass(entrance, now, allocated, express, contract_seconds, gpus, unranked_gpus_)) {
        return now + kLongestWait;
    }
    unranked_gpus_ += allocated && !express ? gpus : 0;
    return 0;
}

}  // namespace tranche
