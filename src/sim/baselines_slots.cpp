// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <unordered_map>

#include "common/model/usage_ledger.hpp"
#include "sim/baselines.hpp"
#include "sim/node_pool.hpp"
#include "sim/queue_index.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

// A job that has been given room which others still leave.
struct Claim {
    JobIndex job = kNoJob;
    std::vector<NodeShare> where;
};

struct Team {
    std::string budget;
    std::int64_t limit = 0;
    std::int64_t opted_out = 0;  // GPUs of its runs and claims within the limit
};

class Slots final : public Scheduler {
  public:
    Slots(const SimState& state, const Settings& settings, const BudgetTree& tree)
        : state_(state),
          settings_(settings),
          tree_(tree),
          fractions_({settings.window(), settings.max_min_runtime_seconds,
                      settings.entitlement_history, false}),
          queue_(0),
          pool_(state.cluster) {
        teams_.emplace_back();  // of jobs that no budget pays for
        queue_.add_lane();
        fractions_.set_tree(state_.now, tree_);
        owed_.assign(state_.nodes.size(), 0);
        leaving_ = preemptible_gpus_ = owed_;
        runs_on_.resize(state_.nodes.size());
        for (JobIndex j = 0; j < state_.jobs.size(); ++j) {
            team_of(j);
        }
        read_limits();
        for (NodeIndex n = 0; n < state_.nodes.size(); ++n) {
            refresh(n);
        }
    }

    const char* name() const override { return "slots"; }

    void submitted(JobIndex j) override {
        const SimJob& job = state_.jobs[j];
        if (!job.impossible) {
            queue_.put(j, shape_of(job), team_of(j), 0, job.runs > 0);
            due_ = true;
        }
    }

    void left_queue(JobIndex j) override {
        if (state_.jobs[j].impossible) {
            return;
        }
        const auto it = claim_of(j);
        if (it == claims_.end()) {
            queue_.remove(j);
        } else {
            drop(it, false);
        }
        due_ = true;
    }

    void run_over(JobIndex j) override {
        const SimJob& job = state_.jobs[j];
        if (!is_preemptible_[j]) {
            teams_[team_of(j)].opted_out -= job.spec->gpus;
        }
        for (const NodeShare& share : job.where) {
            if (is_leaving_[j]) {
                leaving_[share.node] -= share.gpus;
            } else if (is_preemptible_[j]) {
                preemptible_gpus_[share.node] -= share.gpus;
            }
            if (is_preemptible_[j]) {
                std::erase(runs_on_[share.node], j);
            }
            refresh(share.node);
        }
        due_ = true;
    }

    void changed(JobIndex) override {}

    void node_changed(std::uint32_t n) override {
        refresh(n);
        for (auto it = claims_.begin(); it != claims_.end();) {
            const bool lost = !state_.nodes[n].usable() &&
                              std::any_of(it->where.begin(), it->where.end(),
                                          [n](const NodeShare& share) { return share.node == n; });
            it = lost ? drop(it, true) : it + 1;
        }
        read_limits();
        due_ = true;
    }

    void event(const WorkloadEvent& event) override {
        if (event.kind == EventKind::set_shares || event.kind == EventKind::add_budget) {
            if (auto tree = apply_tree_event(tree_, event); tree.ok()) {
                tree_ = std::move(*tree);
                fractions_.set_tree(state_.now, tree_);
                read_limits();
                due_ = true;
            }
        }
    }

    void pass(std::int64_t, Orders& orders) override {
        if (!due_) {
            return;
        }
        due_ = false;
        start_claims(orders);
        blocked_.assign(teams_.size(), false);
        for (QueuedJob next = next_within_limit(); next; next = next_within_limit()) {
            if (!place_within_limit(next.job, orders)) {
                blocked_[team_of(next.job)] = true;
            }
        }
        for (QueuedJob next = next_on_idle(); next; next = next_on_idle()) {
            pool_.place(shape_of(state_.jobs[next.job]), where_);
            queue_.remove(next.job);
            start(next.job, where_, true, orders);
        }
    }

    std::int64_t wake_at() const override { return kNever; }

  private:
    GangShape shape_of(const SimJob& job) const {
        return {job.nodes, job.spec->gpus, pool_.type_of(job.spec->gpu_type)};
    }

    std::uint32_t team_of(JobIndex j) {
        if (team_of_.size() <= j) {
            team_of_.resize(state_.jobs.size(), kNoId);
            is_preemptible_.resize(state_.jobs.size(), false);
            is_leaving_.resize(state_.jobs.size(), false);
        }
        if (team_of_[j] == kNoId) {
            const std::string& budget = state_.jobs[j].spec->budget;
            if (budget.empty()) {
                return team_of_[j] = 0;
            }
            const auto [it, is_new] =
                team_index_.try_emplace(budget, static_cast<std::uint32_t>(teams_.size()));
            if (is_new) {
                teams_.emplace_back();
                teams_.back().budget = budget;
                queue_.add_lane();
                if (tree_.find(budget) != nullptr) {
                    fractions_.activate_own_side(state_.now, fractions_.budget_id(budget));
                }
            }
            team_of_[j] = it->second;
        }
        return team_of_[j];
    }

    void read_limits() {
        std::int64_t available = 0;
        for (NodeIndex n = 0; n < state_.nodes.size(); ++n) {
            available += state_.nodes[n].usable() ? state_.cluster.nodes[n].gpus : 0;
        }
        const Standings& standings = fractions_.standings(state_.now);
        for (Team& team : teams_) {
            const BudgetId id = team.budget.empty() ? kNoId : fractions_.find_budget(team.budget);
            // Fractions are cut to 2^-32: a third of 24 GPUs is 8.
            team.limit = id == kNoId
                             ? 0
                             : static_cast<std::int64_t>(
                                   ((UInt128{standings.budgets[id].funded_fraction} + 1024) *
                                    static_cast<UInt128>(available)) >>
                                   kFractionBits);
        }
    }

    void refresh(NodeIndex n) {
        const SimNodeState& node = state_.nodes[n];
        const std::int64_t later = node.free_gpus + leaving_[n] - owed_[n];
        pool_.set(n,
                  node.usable() ? std::max<std::int64_t>(std::min(node.free_gpus, later), 0) : -1);
    }

    std::vector<Claim>::iterator claim_of(JobIndex j) {
        return std::find_if(claims_.begin(), claims_.end(),
                            [j](const Claim& claim) { return claim.job == j; });
    }

    // Its victims leave all the same: they have been told.
    std::vector<Claim>::iterator drop(std::vector<Claim>::iterator claim, bool requeue) {
        const JobIndex j = claim->job;
        const std::vector<NodeShare> where = std::move(claim->where);
        const auto next = claims_.erase(claim);
        teams_[team_of(j)].opted_out -= state_.jobs[j].spec->gpus;
        for (const NodeShare& share : where) {
            owed_[share.node] -= share.gpus;
            refresh(share.node);
        }
        if (requeue) {
            queue_.put(j, shape_of(state_.jobs[j]), team_of(j), 0);
        }
        return next;
    }

    void start(JobIndex j, const std::vector<NodeShare>& where, bool preemptible, Orders& orders) {
        StartOrder order;
        order.job = j;
        order.where = where;
        order.kind = state_.jobs[j].allocated ? RunKind::allocated : RunKind::unallocated;
        order.contract_seconds = preemptible ? 0 : kNever;
        orders.start(order);
        is_preemptible_[j] = preemptible;
        is_leaving_[j] = false;
        for (const NodeShare& share : state_.jobs[j].where) {
            if (preemptible) {
                preemptible_gpus_[share.node] += share.gpus;
                runs_on_[share.node].push_back(j);
            }
            refresh(share.node);
        }
    }

    void start_claims(Orders& orders) {
        for (auto it = claims_.begin(); it != claims_.end();) {
            const bool ready =
                std::all_of(it->where.begin(), it->where.end(), [this](const NodeShare& share) {
                    return state_.nodes[share.node].free_gpus >= share.gpus;
                });
            if (!ready) {
                ++it;
                continue;
            }
            const Claim claim = std::move(*it);
            it = claims_.erase(it);
            for (const NodeShare& share : claim.where) {
                owed_[share.node] -= share.gpus;
            }
            start(claim.job, claim.where, false, orders);
        }
    }

    // Of the teams that are not blocked, the head that came first and is within its limit.
    QueuedJob next_within_limit() const {
        QueuedJob best;
        for (std::uint32_t t = 1; t < teams_.size(); ++t) {
            const Team& team = teams_[t];
            if (blocked_[t] || team.opted_out >= team.limit) {
                continue;
            }
            QueuedJob head;
            std::int64_t gpus = 0;
            for (std::size_t s = 0; s < queue_.shapes(); ++s) {
                // One that is larger than the limit never comes within it.
                if (queue_.shape(s).gpus > team.limit) {
                    continue;
                }
                const QueuedJob job = queue_.first_of_lane(s, t);
                if (job && (!head || job < head)) {
                    head = job;
                    gpus = queue_.shape(s).gpus;
                }
            }
            if (head && team.opted_out + gpus <= team.limit && (!best || head < best)) {
                best = head;
            }
        }
        return best;
    }

    QueuedJob next_on_idle() const {
        QueuedJob best;
        for (std::size_t s = 0; s < queue_.shapes() && pool_.free_gpus() > 0; ++s) {
            if (queue_.jobs_of(s) > 0 && pool_.fits(queue_.shape(s))) {
                const QueuedJob job = queue_.first(s, kNever);
                if (!best || job < best) {
                    best = job;
                }
            }
        }
        return best;
    }

    bool place_within_limit(JobIndex j, Orders& orders) {
        const SimJob& job = state_.jobs[j];
        Team& team = teams_[team_of(j)];
        if (pool_.place(shape_of(job), where_)) {
            queue_.remove(j);
            team.opted_out += job.spec->gpus;
            start(j, where_, false, orders);
            return true;
        }
        std::vector<JobIndex> victims;
        if (!choose_victims(shape_of(job), victims)) {
            return false;
        }
        queue_.remove(j);
        team.opted_out += job.spec->gpus;
        for (const NodeShare& share : where_) {
            owed_[share.node] += share.gpus;
        }
        claims_.push_back({j, where_});
        for (const JobIndex victim : victims) {
            is_leaving_[victim] = true;
            for (const NodeShare& share : state_.jobs[victim].where) {
                preemptible_gpus_[share.node] -= share.gpus;
                leaving_[share.node] += share.gpus;
                refresh(share.node);
            }
            LeaveOrder order;
            order.victim = victim;
            order.claimant = j;
            order.grace_seconds = settings_.grace_time_seconds;
            order.requeue_anyway = true;
            order.reason = "beyond-limit";
            orders.leave(order);
        }
        for (const NodeShare& share : where_) {
            refresh(share.node);
        }
        return true;
    }

    std::int64_t room_later(NodeIndex n) const {
        return state_.nodes[n].free_gpus + leaving_[n] - owed_[n];
    }

    // Fills `where_`. Member by member the node on which the fewest GPUs have to be taken.
    bool choose_victims(const GangShape& shape, std::vector<JobIndex>& victims) {
        where_.clear();
        std::unordered_map<NodeIndex, std::int64_t> freed;  // by victims chosen so far
        for (std::uint32_t member = 0; member < shape.nodes; ++member) {
            const std::int64_t gpus =
                shape.gpus / shape.nodes + (member < shape.gpus % shape.nodes ? 1 : 0);
            NodeIndex best = kNoId;
            std::int64_t least = 0;
            for (NodeIndex n = 0; n < state_.nodes.size(); ++n) {
                if (!state_.nodes[n].usable() ||
                    (shape.type != NodePool::kAnyType &&
                     shape.type != pool_.type_of(state_.cluster.nodes[n].gpu_type)) ||
                    std::any_of(where_.begin(), where_.end(),
                                [n](const NodeShare& share) { return share.node == n; })) {
                    continue;
                }
                const auto it = freed.find(n);
                const std::int64_t already = it == freed.end() ? 0 : it->second;
                const std::int64_t need = std::max<std::int64_t>(gpus - room_later(n) - already, 0);
                if (need <= preemptible_gpus_[n] - already && (best == kNoId || need < least)) {
                    best = n;
                    least = need;
                }
            }
            if (best == kNoId) {
                return false;
            }
            // The youngest run last: it is taken first.
            const std::vector<JobIndex>& runs = runs_on_[best];
            for (auto it = runs.rbegin(); it != runs.rend() && least > 0; ++it) {
                if (is_leaving_[*it] ||
                    std::find(victims.begin(), victims.end(), *it) != victims.end()) {
                    continue;
                }
                victims.push_back(*it);
                for (const NodeShare& share : state_.jobs[*it].where) {
                    freed[share.node] += share.gpus;
                    least -= share.node == best ? share.gpus : 0;
                }
            }
            where_.push_back({best, gpus, 0, 0});
        }
        drop_unneeded(victims, freed);
        return true;
    }

    // The oldest first: they have most to lose.
    void drop_unneeded(std::vector<JobIndex>& victims,
                       std::unordered_map<NodeIndex, std::int64_t>& freed) const {
        std::vector<JobIndex> by_age = victims;
        std::sort(by_age.begin(), by_age.end(), [this](JobIndex a, JobIndex b) {
            return std::pair(state_.jobs[a].began_at, a) < std::pair(state_.jobs[b].began_at, b);
        });
        for (const JobIndex victim : by_age) {
            const auto& shares = state_.jobs[victim].where;
            const bool needed =
                std::any_of(shares.begin(), shares.end(), [&](const NodeShare& share) {
                    const auto it = std::find_if(
                        where_.begin(), where_.end(),
                        [&](const NodeShare& taken) { return taken.node == share.node; });
                    return it != where_.end() &&
                           room_later(share.node) + freed[share.node] - share.gpus < it->gpus;
                });
            if (!needed) {
                std::erase(victims, victim);
                for (const NodeShare& share : shares) {
                    freed[share.node] -= share.gpus;
                }
            }
        }
    }

    const SimState& state_;
    const Settings settings_;
    BudgetTree tree_;
    UsageLedger fractions_;  // holds no use: what budgets are funded
    QueueIndex queue_;       // lanes are teams
    NodePool pool_;          // what is free now and owed to nobody
    std::vector<Team> teams_;
    std::unordered_map<std::string, std::uint32_t> team_index_;
    std::vector<std::uint32_t> team_of_;  // by job
    std::vector<bool> is_preemptible_, is_leaving_;
    std::vector<Claim> claims_;
    // By node, in GPUs: owed to claims, of runs that leave, of runs that could be taken.
    std::vector<std::int64_t> owed_, leaving_, preemptible_gpus_;
    std::vector<std::vector<JobIndex>> runs_on_;  // preemptible ones, by node and start
    std::vector<bool> blocked_;
    std::vector<NodeShare> where_;
    bool due_ = true;
};

}  // namespace

std::unique_ptr<Scheduler> make_slots(const SimState& state, const Settings& settings,
                                      const BudgetTree& tree) {
    return std::make_unique<Slots>(state, settings, tree);
}

}  // namespace tranche::sim
