// SPDX-License-Identifier: GPL-2.0-or-later
// One run of a job as the ledger remembers it, for people.
#pragma once

#include <cstdint>
#include <string>

#include "common/model/cluster.hpp"

namespace tranche {

struct PastRun {
    JobId job = 0;
    std::uint32_t number = 1;  // of the job: 1, 2, …
    std::string budget;        // empty: none paid
    std::string user;
    bool allocated = false;  // at its end
    std::int64_t gpus = 0;
    std::string nodes;
    std::int64_t began_at = 0;
    std::int64_t ended_at = 0;         // 0: it still runs
    std::int64_t protected_until = 0;  // 0: it never was
    std::int64_t charged_milli_hours = 0;
    std::string end;  // "completed", "preempted", …; empty while it runs

    bool operator==(const PastRun&) const = default;
};

}  // namespace tranche
