// SPDX-License-Identifier: GPL-2.0-or-later
// The standings of a ledger at one instant, commitments included, each side and member evaluated
// when it is first asked for.
#pragma once

#include "common/model/commitment_sums.hpp"
#include "common/model/usage_ledger.hpp"

namespace tranche {

class LazyStandings : public StandingsSource {
  public:
    // Both outlive this. `sums`: nullptr where commitments do not count.
    LazyStandings(UsageLedger& ledger, const CommitmentSums* sums);

    // `now` must not go back. What the last pass placed is forgotten.
    Standings& at(std::int64_t now);

    void evaluate_side(Standings& standings, SideId side) override;
    void evaluate_member(Standings& standings, MemberId member) override;

  private:
    UsageLedger& ledger_;
    const CommitmentSums* sums_;
    Standings standings_;
    std::uint64_t tree_version_ = 0;
};

}  // namespace tranche
