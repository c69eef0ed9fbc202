// SPDX-License-Identifier: GPL-2.0-or-later
// Carries out what keeps jobs from starting: the core's list of a pass into the host, by names and
// ids, and what the host did with it into the ledger (DESIGN 2.6, 2.7).
//
// One thread, but for let_in(): that is asked at submissions, by anybody.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "common/store/ledger_rows.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

class EntranceKeeper {
  public:
    explicit EntranceKeeper(Host& host) : host_(host) {}

    // Tells the host of jobs that an earlier life held back. Before the first collect().
    void restore(const LedgerContents& contents);
    // Jobs that the snapshot being taken may not know are still without a rank after it.
    void begin_cycle();
    // The list of the pass, computed and put in force. `planned`: see entrance_of(). Jobs that will
    // start free are added to `as_free`. True: arrays were split, so have a cycle soon.
    bool apply(EngineView& next, std::uint64_t serial, const std::vector<std::uint32_t>& planned,
               std::unordered_set<JobId>& as_free, LedgerBatch& out);
    // Nothing is kept from anybody.
    void lift(EngineView& next, std::uint64_t serial, LedgerBatch& out);
    bool is_held(JobId job) const { return held_.contains(job); }

    // For a job that has no rank yet: 0, or the instant until which it has to wait for one.
    std::int64_t let_in(const EntranceList& entrance, std::int64_t now, bool allocated,
                        bool express, std::int64_t contract_seconds, std::int64_t gpus);

  private:
    void send(const HostEntrance& entrance, LedgerBatch& out);

    Host& host_;
    std::unordered_set<JobId> held_;
    std::vector<HeldBack> written_;

    std::mutex mutex_;  // a leaf
    std::int64_t unranked_gpus_ = 0, unranked_before_ = 0;
};

}  // namespace tranche
