// SPDX-License-Identifier: GPL-2.0-or-later
// Tells the next run of a preempted job why the one before it ended: Slurm truncates the output
// file at the restart unless JobFileAppend=1, and with it the line that was written at the warning.
//
// The stepping thread's. A message reaches only what runs already, and nobody hears whether it did:
// so a moment of real time is waited after the nodes are up and the prolog is over.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "common/report/people.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

class RestartNotes {
  public:
    // `milliseconds`: real time, whatever the cluster's clock does.
    RestartNotes(Host& host, CalendarOf calendar, std::function<std::int64_t()> milliseconds)
        : host_(host), calendar_(calendar), milliseconds_(std::move(milliseconds)) {}

    // True: somebody is to be told soon.
    bool step(const EngineView& view);

  private:
    struct Told {
        std::uint32_t run = 0;
        std::int64_t not_before = 0;  // milliseconds; 0: done
        std::uint64_t seen = 0;
    };

    Host& host_;
    const CalendarOf calendar_;
    const std::function<std::int64_t()> milliseconds_;
    std::unordered_map<JobId, Told> told_;
    std::uint64_t round_ = 0;
};

}  // namespace tranche
