// SPDX-License-Identifier: GPL-2.0-or-later
// Why each of the first jobs of the queue waits and when it will start, kept where users look:
// squeue's and scontrol's reason and start time.
//
// Threads: estimate() belongs to one thread, look() to another, starts() to any. No method of the
// host is called while a mutex is held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/report/people.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

class OutlookKeeper {
  public:
    using View = std::function<std::shared_ptr<const EngineView>()>;

    // `view` gives the newest published state, `calendar` breaks instants down as users' commands
    // do, `milliseconds` is a clock that only goes on.
    OutlookKeeper(Host& host, View view, CalendarOf calendar,
                  std::function<std::int64_t()> milliseconds);

    // Estimates anew if the last estimate is old enough and there is something newer to know.
    void estimate();
    // The newest estimates, by job; jobs without a date are left out. Never null.
    std::shared_ptr<const StartTimes> starts() const;

    // Writes what differs from what is shown, if a pass wiped it out or something is new.
    void look();

  private:
    std::vector<Outlook> outlook_of(const EngineView& view, const StartTimes& starts) const;

    Host& host_;
    const View view_;
    const CalendarOf calendar_;
    const std::function<std::int64_t()> milliseconds_;

    // The estimating thread's own.
    std::int64_t estimated_cycle_ = -1;
    std::int64_t estimate_not_before_ = 0;

    mutable std::mutex mutex_;  // a leaf
    std::shared_ptr<const StartTimes> starts_ = std::make_shared<StartTimes>();

    // The writing thread's own.
    std::shared_ptr<const EngineView> written_view_;
    std::shared_ptr<const StartTimes> written_starts_;
    std::vector<Outlook> jobs_;
    std::uint64_t passes_ = 0;
    std::int64_t written_at_ = 0;
};

}  // namespace tranche
