// SPDX-License-Identifier: GPL-2.0-or-later
// Feeds what the ledger database holds into a UsageLedger, in the order in which it was recorded.
#pragma once

#include "common/model/usage_ledger.hpp"
#include "common/store/ledger_rows.hpp"

namespace tranche {

// The ledger must be new. From contents.since_at plus one window on, it answers as the one whose
// runs and edits were recorded; later ones may be fed to it as ever. Cost: about a microsecond a
// segment and level of the tree.
void replay(const LedgerContents& contents, UsageLedger& ledger);

}  // namespace tranche
