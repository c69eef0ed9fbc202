// SPDX-License-Identifier: GPL-2.0-or-later
// Large jobs from their turn for an assembly to their start: what the pass decided, the grants that
// must be paid for, and the record of each (DESIGN 2.7).
//
// One thread. Nodes are known by name here: their numbers change with slurm.conf.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/model/usage_ledger.hpp"
#include "common/store/ledger_rows.hpp"
#include "engine/engine_view.hpp"
#include "engine/host.hpp"

namespace tranche {

class AssemblyBook {
  public:
    void restore(const LedgerContents& contents);

    // Whose claimants have started or left since the last snapshot.
    void follow(const HostSnapshot& snapshot, LedgerBatch& out);
    // Assemblies, grants and turns into the view that is to be ranked; records into the rest of it.
    void fill(EngineView& next, UsageLedger& ledger);
    // Takes over what the pass decided. True: the next pass has more to say about it.
    bool note(EngineView& next, LedgerBatch& out);

    // Whether the job's nodes are being gathered.
    bool has(JobId claimant) const;
    // One line a change, for the log.
    std::vector<std::string> take_messages();

  private:
    AssemblyRow* open_row(JobId claimant);
    const AssemblyRow* open_row(JobId claimant) const;
    void end(AssemblyRow& row, std::int64_t at, const std::string& outcome, LedgerBatch& out);

    std::vector<AssemblyRow> rows_;  // by turn_at
    std::vector<std::string> messages_;
};

}  // namespace tranche
