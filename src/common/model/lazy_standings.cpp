// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/model/lazy_standings.hpp"

namespace tranche {

LazyStandings::LazyStandings(UsageLedger& ledger, const CommitmentSums* sums)
    : ledger_(ledger), sums_(sums) {
    standings_.source = this;
    standings_.window = ledger.rules().window;
    tree_version_ = ledger.tree_version() - 1;
}

Standings& LazyStandings::at(std::int64_t now) {
    ++standings_.stamp;
    standings_.at = now;
    ledger_.forget_closed(now);
    if (tree_version_ != ledger_.tree_version()) {
        tree_version_ = ledger_.tree_version();
        ledger_.read_budgets(standings_.budgets);
        standings_.sides.resize(ledger_.side_count());
        standings_.side_stamps.resize(ledger_.side_count(), 0);
    }
    const auto& names = ledger_.member_names();
    for (std::size_t m = standings_.members.size(); m < names.size(); ++m) {
        standings_.members.push_back({names[m].budget, names[m].user, {}, 0, 0});
        standings_.member_stamps.push_back(0);
    }
    return standings_;
}

void LazyStandings::evaluate_side(Standings& standings, SideId id) {
    SideStanding& side = standings.sides[id];
    standings.side_stamps[id] = standings.stamp;
    ledger_.read_side(standings.at, id, side);
    side.placed = 0;
    side.commitment = sums_ == nullptr ? 0
                                       : sums_->of_side(id, standings.at) *
                                             static_cast<UInt128>(standings.window.length_seconds);
}

void LazyStandings::evaluate_member(Standings& standings, MemberId id) {
    MemberStanding& member = standings.members[id];
    standings.member_stamps[id] = standings.stamp;
    ledger_.read_member(standings.at, id, member);
    member.placed = 0;
    member.commitment = sums_ == nullptr
                            ? 0
                            : sums_->of_member(id, standings.at) *
                                  static_cast<UInt128>(standings.window.length_seconds);
}

}  // namespace tranche
