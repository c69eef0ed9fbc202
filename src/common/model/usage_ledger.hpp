// SPDX-License-Identifier: GPL-2.0-or-later
// Charges and entitlements of all budgets over the sliding window, kept up to date run by run and
// edit by edit, in exact integers.
//
// The order of calls is the order of time: trees and segments must not lie before the instant of
// the last standings(). Ends may (a refund reaches into the past). Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/model/budget_tree.hpp"
#include "common/model/standings.hpp"

namespace tranche {

// A segment is an uninterrupted stretch of one run at one size and kind: a resize, a suspension
// or a change from free to allocated begins the next (DESIGN 2.3).
struct SegmentKey {
    std::uint32_t job_id = 0;
    std::int64_t submit_at = 0;  // Slurm's, of that run
    std::int64_t begin_at = 0;

    auto operator<=>(const SegmentKey&) const = default;
};

struct Segment {
    SegmentKey key;
    std::string budget;  // empty: no budget pays
    std::string user;
    RunKind kind = RunKind::unallocated;
    std::int64_t weight_milli = 0;  // GPUs times the charge weight, in thousandths
};

class UsageLedger {
  public:
    struct Rules {
        Window window;
        std::int64_t backdate_seconds = 8 * 3600;  // what a new budget counts as having had
        bool entitlement_history = true;
        bool pooled_by_default = false;
        // Rules of the policy that only the simulator leaves out (config/rules.hpp).
        bool levels = true, own_sides = true, shares_for_promise = true;
    };
    explicit UsageLedger(const Rules& rules);

    // The tree holds from `at` on. As long as nothing was ever charged, every tree counts as having
    // held for ever; so do budgets of the tree that the first charge met.
    void set_tree(std::int64_t at, const BudgetTree& tree);
    // Gives an inner budget its own side although it names no account or user: a job of its own was
    // seen.
    void activate_own_side(std::int64_t at, BudgetId budget);

    // Something was charged already that is not fed here any more, being older than the window:
    // trees that follow are edits.
    void assume_charged() { charged_ = true; }

    // A segment that is known already, or not later than one of its job that ended within the last
    // day, is ignored (returns false): a replay charges once.
    bool begin(const Segment& segment);
    // Charged up to `charged_until` (<= at; less is a refund). False: no such open segment.
    bool end(const SegmentKey& key, std::int64_t charged_until);
    // For a replay, in place of begin() (+weight) and end() (-weight) of a segment that ended under
    // the tree it began under: cheaper, and not remembered.
    void charge(BudgetId budget, MemberId member, RunKind kind, std::int64_t at,
                std::int64_t delta_milli);
    bool is_open(const SegmentKey& key) const { return open_.contains(key); }
    std::size_t open_count() const { return open_.size(); }

    // Ids are dense, given at first mention and never reused.
    BudgetId budget_id(std::string_view name);
    BudgetId find_budget(std::string_view name) const;  // kNoId if never mentioned
    MemberId member_id(BudgetId budget, std::string_view user);

    // Everything at `now`, commitments zero. `now` must not go back. O(budgets + members).
    const Standings& standings(std::int64_t now);

    // The same piece by piece, for a reader that needs few of them (LazyStandings). `now` must not
    // go back either. Plain charges, and kinds that are never charged, are left at zero.
    void read_side(std::int64_t now, SideId side, SideStanding& standing);
    void read_member(std::int64_t now, MemberId member, MemberStanding& standing);
    void read_budgets(std::vector<BudgetPlace>& budgets) const;
    std::size_t side_count() const { return sides_.size(); }
    const std::vector<MemberStanding>& member_names() const { return standings_.members; }
    // Changes with every tree, budget and path.
    std::uint64_t tree_version() const { return tree_version_; }
    void forget_closed(std::int64_t now);

    const BudgetTree& tree() const { return tree_; }
    const Rules& rules() const { return rules_; }

  private:
    struct Charges {
        WindowIntegral kinds[kRunKinds];
    };
    struct Side {
        Charges charges;
        WindowIntegral entitlement;
        std::uint64_t fraction = 0;
        std::uint32_t shares = 0;
        std::int64_t unfunded_since = 0;
        bool was_funded = false;
        BudgetId parent = kNoId;  // the level it competes on
    };
    struct Payer {
        SideId side;
        std::int64_t since;
    };
    struct LastClosed {  // of one job
        std::int64_t submit_at;
        std::int64_t begin_at;
        std::int64_t charged_until;
    };
    struct OpenSegment {
        BudgetId budget;
        MemberId member;
        RunKind kind;
        std::int64_t weight_milli;
        std::int64_t begin_at;
        std::vector<Payer> payers;
    };

    void place_sides(std::int64_t at);
    void set_fraction(std::int64_t at, SideId side, BudgetId parent, std::uint32_t shares,
                      std::uint64_t sum, std::uint64_t sum_before);
    void repay_open_segments(std::int64_t at);
    std::vector<SideId> path_of(BudgetId budget) const;

    Rules rules_;
    BudgetTree tree_;
    bool charged_ = false;  // something was ever charged
    std::uint64_t tree_version_ = 0;
    std::vector<std::string> names_;
    std::vector<BudgetId> parents_;
    std::vector<bool> exists_;
    std::vector<bool> own_seen_;
    std::vector<std::vector<SideId>> paths_;
    std::unordered_map<std::string, BudgetId> ids_;
    std::vector<Side> sides_;
    std::vector<Charges> members_;
    std::map<std::pair<BudgetId, std::string>, MemberId, std::less<>> member_ids_;
    std::map<SegmentKey, OpenSegment> open_;
    std::unordered_map<std::uint32_t, LastClosed> closed_;  // by job
    std::size_t closed_kept_ = 0;                           // how many the last clearing left
    Standings standings_;
};

}  // namespace tranche
