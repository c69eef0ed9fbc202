// SPDX-License-Identifier: GPL-2.0-or-later
// What kind of job a job is: allocated or free, express or ordinary; and the caps of the lane.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"

namespace tranche {

// It declares a minimum, its budget is funded and it costs something (DESIGN 2.2).
inline bool is_allocated(const PendingJob& job, bool budget_is_funded) noexcept {
    return job.governed && job.min_runtime_seconds > 0 && job.weight_milli > 0 && budget_is_funded;
}
inline bool is_allocated(const PendingJob& job, const Standings& standings) noexcept {
    return is_allocated(job, standings.funded(job.budget));
}

// Small and short enough for the express lane, in its first run (DESIGN 2.6). The caps are apart.
inline bool fits_lane(const PendingJob& job, const Settings& settings) noexcept {
    return settings.express_fraction_ppm > 0 && job.companions.empty() && job.goes_with == 0 &&
           (job.runs_before == 0 || !settings.has(Rule::express_first_run)) &&
           ((job.shape.gpus <= settings.express_gpus &&
             static_cast<std::int64_t>(job.shape.nodes) <= settings.express_nodes &&
             job.min_runtime_seconds <= settings.express_min_runtime_seconds) ||
            !settings.has(Rule::express_small));
}

// Whether urgent and high count, by member: its charge of that kind is at most RaisedShare times
// the mean of its budget's users who have charge or pending jobs (DESIGN 2.4).
std::vector<bool> members_that_may_raise(const ClusterView& view, const Standings& standings,
                                         const Settings& settings, RunKind kind);
// The same where it is known which members have pending jobs and what each one's charge is.
std::vector<bool> members_that_may_raise(const std::vector<bool>& has_pending,
                                         const std::vector<UInt128>& charges,
                                         const Standings& standings, const Settings& settings);

inline TeamPriority effective_priority(TeamPriority asked, bool may_raise) noexcept {
    return asked > TeamPriority::normal && !may_raise ? TeamPriority::normal : asked;
}

enum class ExpressCap : std::uint8_t { none, user_gpus, lane_gpus, user_hours };

// What the lane holds, counted from the plan until such a contract ends. What one user has used of
// it is summed up when he is first asked for.
class ExpressLane {
  public:
    // All outlive this. `express_runs`: indices of the view's express runs; nullptr: all are looked
    // at.
    ExpressLane(const ClusterView& view, const Standings& standings, const Settings& settings,
                const std::vector<std::uint32_t>* express_runs = nullptr);

    // The first cap that `gpus` more of this user would break.
    ExpressCap check(std::string_view user, std::int64_t gpus);
    ExpressCap check(MemberId member, std::int64_t gpus);
    void add(std::string_view user, std::int64_t gpus);
    // Of a job that is ranked, before it is known whether there is anything for it: it counts to
    // its user's caps, so that nobody fills the band, and keeps the lane from no other.
    void add_ranked(std::string_view user, std::int64_t gpus);
    bool has_room(std::int64_t gpus) const noexcept { return gpus_ + gpus <= limit_gpus_; }
    std::int64_t limit_gpus() const noexcept { return limit_gpus_; }

  private:
    struct UserUse {
        std::string_view user;
        std::int64_t gpus = 0;
        std::int64_t gpu_seconds = 0;  // in the last day
    };
    UserUse& use_of(std::string_view user);
    ExpressCap check(const UserUse& use, std::int64_t gpus) const;

    const ClusterView& view_;
    const Standings& standings_;
    const Settings& settings_;
    std::vector<std::uint32_t> runs_;  // express ones under contract
    std::int64_t limit_gpus_ = 0;
    std::int64_t gpus_ = 0;
    std::vector<UserUse> users_;            // those asked for
    std::vector<std::uint32_t> by_member_;  // 1 + place in users_; 0: not known
};

// GPUs that may be under contract, express runs aside (DESIGN 2.6, headroom): all available ones
// but the part kept open, which is rounded down to whole nodes.
std::int64_t protected_gpus_allowed(const ClusterView& view, const Settings& settings);

}  // namespace tranche
