// SPDX-License-Identifier: GPL-2.0-or-later
// Tells people before it happens: a session's terminal 60, 15 and 5 minutes before its contract
// ends, and by NotifyProgram the owners who asked for mail, 15 minutes before and at a preemption.
//
// Each notice comes once for a contract, also across restarts: the job's row of the ledger holds
// the last one. One thread, the stepping one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/config/settings.hpp"
#include "common/store/ledger_rows.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"
#include "engine/notifier.hpp"

namespace tranche {

class JobTracker;

// So long before a contract's end, the longest first.
inline constexpr std::int64_t kNoticeSeconds[] = {3600, 900, 300};
inline constexpr std::int64_t kMailNoticeSeconds = 900;

// The notice that is due now, by how long before the end it comes; 0: none. `left` of a contract of
// `contract_seconds`, after the notice `noticed_seconds` (kNever: none yet). One that is as long as
// the whole contract does not fit; of several that are due only the last is worth telling.
std::int64_t notice_due(std::int64_t left, std::int64_t contract_seconds,
                        std::int64_t noticed_seconds) noexcept;

// A run that was just told to leave, and in which words.
struct WarnedRun {
    PreemptionRecord record;
    std::string text;
    bool requeue = false;
};

class Notices {
  public:
    using Send = std::function<void(Notice)>;

    Notices(Host& host, JobTracker& tracker, Send send)
        : host_(host), tracker_(tracker), send_(std::move(send)) {}

    void tell(const EngineView& view, const HostSnapshot& snapshot,
              const std::vector<WarnedRun>& warned, LedgerBatch& out);

  private:
    Host& host_;
    JobTracker& tracker_;
    const Send send_;
};

}  // namespace tranche
