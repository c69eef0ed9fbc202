// SPDX-License-Identifier: GPL-2.0-or-later
// Why a pending job stands where it stands, whom it could take and from when; and who could take a
// running job (`srank --why`, DESIGN 4.2). Pure: plain structs with numbers for people.
//
// Numbers are thousandths of a GPU hour, weighted: faded charges (commitments included) and what
// the side was entitled to over the window. They explain; the decisions themselves are made by
// ranking.hpp, preemption.hpp and pass.hpp in exact integers.
//
// Cost: explain_pending O(ranking before the job + runs); explain_running O(budgets that have
// pending jobs).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/preemption.hpp"
#include "common/policy/ranking.hpp"

namespace tranche {

std::string_view to_text(Band band) noexcept;       // "plan", "express", "allocated", "unallocated"
std::string_view to_text(ExpressCap cap) noexcept;  // "user-gpus", "lane-gpus", "user-hours"

struct SideNumbers {
    std::string name;  // of the budget; "progA (own)" for an inner budget's own jobs
    std::int64_t charge_milli_hours = 0;
    std::int64_t entitled_milli_hours = 0;

    // 1000 = used what was funded; nullopt where nothing was funded.
    std::optional<std::int64_t> ratio_milli() const noexcept;
    bool operator==(const SideNumbers&) const = default;
};

// Why a job of another budget stands before this one.
struct RankLoss {
    std::string level;         // the budget below which the two sides part: "root", "progA"
    std::size_t depth = 0;     // of that level, 0 = root
    SideNumbers ours, theirs;  // when that job was placed, the jobs before it counted
    std::int64_t behind_milli_hours = 0;  // so much less use would have drawn level; 0: a tie
    JobId job = 0;                        // the last one of that side before ours
    std::string budget;
    std::string user;
    std::uint32_t jobs = 0;  // of that side, before ours in the same band

    bool operator==(const RankLoss&) const = default;
};

// Why the job before this one in its own budget stands there.
enum class OwnOrder : std::uint8_t { team_priority, user_charge, nice, submission };
std::string_view to_text(OwnOrder order) noexcept;

struct OwnLoss {
    OwnOrder why = OwnOrder::submission;
    JobId job = 0;
    std::string user;
    std::int64_t our_user_milli_hours = 0, their_user_milli_hours = 0;  // user_charge
    std::uint32_t jobs = 0;  // of the budget, before ours in the same band

    bool operator==(const OwnLoss&) const = default;
};

// A running job from a claimant's point of view, or a claimant from a running job's.
struct TakeOutlook {
    JobId job = 0;  // the other one
    std::string budget;
    std::string user;
    std::int64_t gpus = 0;
    bool may = false;  // by today's ratios, once the contract is over
    // When, if it may; kNever: the contract's clock stands still, while the node boots or the run
    // is suspended.
    std::int64_t from_at = 0;
    bool suspended = false;  // the run
    TakeReason reason = TakeReason::claimant_is_free;
    std::string level;                       // empty: no numbers decide
    SideNumbers claimant_side, victim_side;  // the claimant's own commitment counted
    std::int64_t over_milli_hours = 0;       // so much too much the claimant's side has used

    bool operator==(const TakeOutlook&) const = default;
};

struct PendingExplanation {
    JobId job = 0;
    std::string budget;  // "(none)" where none pays
    std::string user;
    Band band = Band::unallocated;
    std::uint32_t rank = 0;  // 1 = next
    std::uint32_t ranked = 0;
    std::uint32_t before_in_better_bands = 0;
    bool counts = true;  // false: could not start if there were room
    WaitReason reason = WaitReason::none;
    ExpressCap express_cap = ExpressCap::none;
    std::int64_t gpus = 0;
    std::int64_t commitment_milli_hours = 0;  // what it counts when it is placed
    std::vector<RankLoss> losses;             // nearest job before ours first; one a rival side
    std::optional<OwnLoss> own_loss;
    std::vector<JobId> plan_victims;       // its plan stands
    JobId waits_for = 0;                   // evicted for that one, which has not started yet
    std::vector<TakeOutlook> could_take;   // now or by today's ratios later, soonest first
    std::vector<TakeOutlook> cannot_take;  // ratios and rules are against it, nearest first
    std::size_t could_take_count = 0, cannot_take_count = 0;  // of all; the lists are cut
    std::int64_t could_take_gpus_now = 0, could_take_gpus_later = 0;
    std::int64_t next_change_at = kNever;  // the next instant that can change it by itself

    bool operator==(const PendingExplanation&) const = default;
};

struct RunningExplanation {
    JobId job = 0;
    std::string budget;
    std::string user;
    bool allocated = false;
    RunState state = RunState::running;
    bool resumable = false;
    std::int64_t gpus = 0;
    std::int64_t started_at = 0;
    std::int64_t protected_until = 0;  // 0: free; kNever: its clock stands still
    std::int64_t contract_left_seconds = 0;
    std::int64_t checkpointed_at = 0;  // its owner said so; 0: never
    JobId leaving_for = 0;
    bool spared = false;              // PreemptMode=OFF of its partition: nobody may take it
    std::vector<TakeOutlook> takers;  // of those that wait, best rank first, who may
    std::size_t takers_count = 0;
    std::int64_t takeable_from_at = kNever;  // by whoever waits now

    bool operator==(const RunningExplanation&) const = default;
};

// What both need.
struct ExplainInput {
    const ClusterView& view;
    const std::vector<RankedEntry>& ranking;
    const Standings& standings;  // commitments of runs and plans included
    const Settings& settings;
    std::int64_t available_milli = 0;                   // weight of the usable nodes
    const std::vector<JobVerdict>* verdicts = nullptr;  // of the last pass, by pending index
    std::size_t most = 20;                              // entries of a list
};

// nullopt if that job is not in the ranking.
std::optional<PendingExplanation> explain_pending(const ExplainInput& input,
                                                  std::uint32_t pending_index);

// Explains several runs against the same queue.
class RunningExplainer {
  public:
    explicit RunningExplainer(const ExplainInput& input);
    RunningExplanation explain(std::uint32_t run_index) const;

  private:
    const ExplainInput input_;
    std::vector<bool> may_raise_;
    std::vector<const RankedEntry*> claimants_;  // of each budget the first and the smallest
};

// Faded values (times the window) and plain ones as thousandths of a GPU hour.
std::int64_t faded_milli_hours(UInt128 charge, const Window& window) noexcept;
std::int64_t plain_milli_hours(Int128 milli_seconds) noexcept;

// A side's name and numbers; `charge` is its faded charge with what else counts.
SideNumbers side_numbers(const Standings& standings, SideId side, UInt128 charge,
                         std::int64_t available_milli);
std::string side_name(const Standings& standings, SideId side);
// The budget below which the sides of that level compete.
std::string level_name(const Standings& standings, const PartingSides& sides);

}  // namespace tranche
