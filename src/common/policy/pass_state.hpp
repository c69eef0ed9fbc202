// SPDX-License-Identifier: GPL-2.0-or-later
// What one scheduling pass knows and what it has given away so far: room, commitments, the lane.
//
// The layers of a pass, each a class that adds to the one below: PassState, PassClaims (plans and
// victims), PassLarge (reservations, the assembly), PassDrains, PassHead (what could happen at all)
// and, in pass.cpp, the walk along the queue. They are parts of pass.cpp only.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/policy/classes.hpp"
#include "common/policy/job_classes.hpp"
#include "common/policy/large_jobs.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/pass_sums.hpp"
#include "common/policy/victims.hpp"

namespace tranche::passing {

inline std::size_t mix(std::size_t seed, std::uint64_t value) {
    return seed ^
           (std::hash<std::uint64_t>{}(value) + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

struct ShapeHash {
    std::size_t operator()(const JobShape& s) const {
        std::size_t h = std::hash<std::string>{}(s.gpu_type);
        for (const std::int64_t v :
             {std::int64_t{s.nodes}, s.gpus, s.cpus_per_node, s.memory_mib_per_node,
              std::int64_t{s.exclusive}, std::int64_t{s.node_set}}) {
            h = mix(h, static_cast<std::uint64_t>(v));
        }
        return h;
    }
};

// The outcome of looking for victims in vain.
struct Refusal {
    WaitReason reason = WaitReason::room;
    std::int64_t next_change_at = kNever;
};

// Claimants with the same key differ only in their contract: what a shorter one was refused, a
// longer one is refused too. Within a pass room only shrinks and the claimant's side only grows.
struct ClaimantKey {
    JobShape shape;
    BudgetId budget;
    MemberId member;
    std::int64_t weight_milli;
    TeamPriority priority;
    bool express;

    bool operator==(const ClaimantKey&) const = default;
};

struct ClaimantKeyHash {
    std::size_t operator()(const ClaimantKey& k) const {
        std::size_t h = ShapeHash{}(k.shape);
        for (const std::uint64_t v :
             {std::uint64_t{k.budget}, std::uint64_t{k.member},
              static_cast<std::uint64_t>(k.weight_milli), static_cast<std::uint64_t>(k.priority),
              std::uint64_t{k.express}}) {
            h = mix(h, v);
        }
        return h;
    }
};

struct Refused {
    std::int64_t contract_seconds;  // the shortest that was refused
    Refusal refusal;
};

class PassState {
  protected:
    // `classes`: nullptr for a pass that looks at every job and says why it waits.
    PassState(const ClusterView& view, const PassSums& sums, const JobClasses* classes,
              RankSource& ranking, RaiseRights& rights, Standings& standings,
              const Settings& settings, const PassRules& rules)
        : view_(view),
          sums_(sums),
          classes_(classes),
          ranking_(ranking),
          rights_(rights),
          standings_(standings),
          settings_(settings),
          rules_(rules),
          all_shown_(!settings.has(Rule::backfill) || !settings.has(Rule::free_ranks_below)),
          all_live_(!settings.has(Rule::contract) || !settings.has(Rule::feasible) ||
                    !settings.has(Rule::free_never_takes) ||
                    !settings.has(Rule::team_priority_at_home)),
          available_milli_(sums.available_gpus * 1000),
          protected_gpus_(sums.protected_gpus),
          evictions_(view.evictions_last_hour),
          empty_(sums.empty),
          room_(sums.room),
          future_(sums.future),
          taken_(view.runs.size(), false),
          passed_(view.runs.size(), false) {
        if (classes_ == nullptr) {
            result_.verdicts.resize(view.pending.size());
        }
        wake_at(sums.next_contract_end_at);
    }

    void wake_at(std::int64_t at) {
        if (at > view_.now && settings_.has(Rule::wake)) {
            result_.wake_at = std::min(result_.wake_at, at);
        }
    }

    JobVerdict& verdict_of(std::uint32_t job) {
        return classes_ == nullptr ? result_.verdicts[job] : no_verdict_;
    }

    bool may_stay(std::uint32_t run, std::int64_t contract_end) const {
        const Run& staying = view_.runs[run];
        return std::all_of(staying.where.begin(), staying.where.end(), [&](const NodeShare& share) {
            return room_[share.node].until >= contract_end;
        });
    }

    void turn(std::uint32_t run, const PendingJob& job) {
        result_.turns.push_back(run);
        taken_[run] = true;
        count(job, false, true);
    }

    // Where no part is kept open, contracts are in the way and not the headroom.
    bool is_over_headroom(std::int64_t gpus) const {
        return sums_.allowed_protected_gpus < sums_.available_gpus &&
               (gpus <= sums_.allowed_protected_gpus || !settings_.has(Rule::headroom_for_large)) &&
               protected_gpus_ + gpus > sums_.allowed_protected_gpus;
    }

    std::int64_t contract_end_of(const PendingJob& job, bool allocated) const {
        return allocated                          ? view_.now + job.contract_seconds()
               : settings_.has(Rule::free_enters) ? 0
                                                  : kNever;
    }

    const std::string& user_of(const PendingJob& job) const {
        return standings_.members[job.member].user;
    }

    ExpressLane& lane() {
        if (!lane_) {
            lane_.emplace(view_, standings_, settings_, &sums_.express_runs);
        }
        return *lane_;
    }

    TeamPriority priority_of(const Run& run) {
        return effective(run.team_priority, run.budget, run.member);
    }
    TeamPriority effective(TeamPriority asked, BudgetId budget, MemberId member) {
        if (asked <= TeamPriority::normal || standings_.budgets[budget].pooled) {
            return asked;
        }
        return effective_priority(asked, rights_.may_raise(member));
    }

    static void take(std::vector<RoomNode>& room, const std::vector<NodeShare>& where) {
        for (const NodeShare& share : where) {
            room[share.node].gpus -= share.gpus;
            room[share.node].cpus -= share.cpus;
            room[share.node].memory_mib -= share.memory_mib;
        }
    }

    void take_room(const std::vector<NodeShare>& where, bool plan) {
        for (const NodeShare& share : where) {
            if (plan && rules_.one_plan_per_node) {
                room_[share.node].open = false;
                future_[share.node].plannable = false;
            }
        }
        take(room_, where);
        take(future_, where);
        classes_dirty_ = true;
    }

    // What a leaving run frees, for those that are planned after it.
    void add_future(const Run& run) {
        no_future_place_.clear();
        for (const NodeShare& share : run.where) {
            future_[share.node].gpus += share.gpus;
            future_[share.node].cpus += share.cpus;
            future_[share.node].memory_mib += share.memory_mib;
        }
    }

    std::optional<std::vector<NodeShare>> free_place(const JobShape& shape,
                                                     std::int64_t contract_end) {
        const auto known = no_free_place_.find(shape);
        if (known != no_free_place_.end() && known->second <= contract_end) {
            return std::nullopt;  // room only shrinks within a pass
        }
        auto where = place_on_free(view_, room_, shape, contract_end);
        if (!where) {
            no_free_place_[shape] = contract_end;
        }
        return where;
    }

    std::optional<std::vector<NodeShare>> free_place(const PendingJob& job,
                                                     std::int64_t contract_end) {
        return job.companions.empty() ? free_place(job.shape, contract_end)
                                      : place_whole(room_, job, contract_end);
    }

    // Where it could go when those that leave have left.
    std::optional<std::vector<NodeShare>> future_place(const JobShape& shape,
                                                       std::int64_t contract_end) {
        const auto known = no_future_place_.find(shape);
        if (known != no_future_place_.end() && known->second <= contract_end) {
            return std::nullopt;
        }
        auto where = place_on_free(view_, future_, shape, contract_end);
        if (!where) {
            no_future_place_[shape] = contract_end;  // only those who leave make more room
        }
        return where;
    }

    static std::vector<const JobShape*> shapes_of(const PendingJob& job) {
        std::vector<const JobShape*> shapes = {&job.shape};
        for (const Companion& companion : job.companions) {
            shapes.push_back(&companion.shape);
        }
        return shapes;
    }

    // Nobody else of the same job goes there.
    static void close(std::vector<RoomNode>& room, const std::vector<NodeShare>& where) {
        for (const NodeShare& share : where) {
            room[share.node].open = room[share.node].plannable = false;
        }
    }

    // A place for all components of a heterogeneous job, one after the other.
    std::optional<std::vector<NodeShare>> place_whole(std::vector<RoomNode> room,
                                                      const PendingJob& job,
                                                      std::int64_t contract_end) const {
        std::vector<NodeShare> whole;
        for (const JobShape* shape : shapes_of(job)) {
            const auto where = place_on_free(view_, room, *shape, contract_end);
            if (!where) {
                return std::nullopt;
            }
            close(room, *where);
            whole.insert(whole.end(), where->begin(), where->end());
        }
        return whole;
    }

    void start(std::uint32_t index, const PendingJob& job, std::vector<NodeShare> where,
               bool as_free, bool express, bool allocated) {
        take_room(where, false);
        take(empty_, where);
        result_.starts.push_back({index, std::move(where), as_free, express});
        count(job, express, allocated);
    }

    // What started or is planned counts for those that are tried after it.
    void count(const PendingJob& job, bool express, bool allocated) {
        classes_dirty_ = true;
        if (!allocated) {
            return;
        }
        if (settings_.commitments) {
            standings_.place(job.budget, job.member, job.whole_weight_milli(),
                             job.contract_seconds());
        }
        if (express) {
            lane().add(user_of(job), job.shape.gpus);
        } else {
            protected_gpus_ += job.whole_gpus();
        }
    }

    const ClusterView& view_;
    const PassSums& sums_;
    const JobClasses* classes_;
    RankSource& ranking_;
    RaiseRights& rights_;
    Standings& standings_;  // collects what this pass starts and plans
    const Settings& settings_;
    const PassRules rules_;
    std::optional<ExpressLane> lane_;
    // Rules are left out that what classes could do at best is found by.
    const bool all_shown_, all_live_;
    bool blocked_ = false;  // without backfill: somebody waits
    const std::int64_t available_milli_;
    std::int64_t protected_gpus_;
    std::int64_t evictions_;
    std::vector<RoomNode> empty_, room_, future_;
    std::vector<bool> taken_;          // by run: leaves or turns by a decision of this pass
    std::vector<bool> passed_;         // by run: its job waits for its turn, and was passed
    std::vector<std::uint32_t> done_;  // jobs
    std::vector<std::pair<std::uint32_t, std::int64_t>> assembling_;  // jobs and their dates
    std::int64_t standing_assemblies_ = 0, reserved_ = 0;
    std::uint32_t position_ = 0;  // in the ranking
    bool granted_ = false;        // an assembly, in this pass
    std::vector<bool> closed_;    // nodes that are reserved, or an assembly's
    bool somebody_waits_ = false;
    // Contract ends from which on there is no place for the shape.
    std::unordered_map<JobShape, std::int64_t, ShapeHash> no_free_place_, no_future_place_;
    std::unordered_map<ClaimantKey, Refused, ClaimantKeyHash> refusals_;
    std::vector<std::uint8_t> judged_;
    JobVerdict no_verdict_;
    bool classes_dirty_ = false;  // what the classes could do has to be looked at again
    PassResult result_;
};

}  // namespace tranche::passing
