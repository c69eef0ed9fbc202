// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "sim/baselines.hpp"
#include "sim/baselines_backfill.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

// An account or a user in one.
struct Association {
    std::uint32_t parent = kNone;
    std::uint32_t lane = kNone;  // of users
    long double shares = 1;
    long double usage = 0;  // decayed GPU seconds
    long double level_fs = 0;
    std::vector<std::uint32_t> children;
};

class FairTree final : public BackfillScheduler {
  public:
    FairTree(const SimState& state, BudgetTree tree, std::int64_t begin_at,
             const FairTreeOptions& options)
        : BackfillScheduler(state, 0),
          tree_(std::move(tree)),
          options_(options),
          next_at_(begin_at + options.period_seconds),
          counted_at_(begin_at) {
        for (std::int64_t s = 0; s <= options_.period_seconds; ++s) {
            decays_.push_back(decay(s));
        }
        associations_.emplace_back();
        accounts_.emplace(std::string(kRootBudget), 0);
        place_accounts();
        for (JobIndex j = 0; j < state.jobs.size(); ++j) {
            user_of(j);
        }
        rank();
    }

    const char* name() const override { return "fairtree"; }

    void submitted(JobIndex job) override {
        catch_up();
        BackfillScheduler::submitted(job);
    }
    void run_over(JobIndex job) override {
        catch_up();
        count_run(job);
        const auto it = std::find(running_.begin(), running_.end(), job);
        running_.erase(it);
        BackfillScheduler::run_over(job);
    }
    void changed(JobIndex job) override {
        catch_up();
        if (state().jobs[job].suspended) {
            count_run(job);
            since_[job] = kNever;
        } else if (job < since_.size() && since_[job] == kNever) {
            since_[job] = state().now;
        }
        BackfillScheduler::changed(job);
    }
    void event(const WorkloadEvent& event) override {
        catch_up();
        if (event.kind == EventKind::set_shares || event.kind == EventKind::add_budget) {
            if (auto tree = apply_tree_event(tree_, event); tree.ok()) {
                tree_ = std::move(*tree);
                place_accounts();
            }
        }
    }
    void pass(std::int64_t now, Orders& orders) override {
        catch_up();
        BackfillScheduler::pass(now, orders);
    }
    std::int64_t wake_at() const override { return queue_empty() ? kNever : next_at_; }

  private:
    std::uint32_t lane_of(JobIndex job) override { return associations_[user_of(job)].lane; }

    std::int64_t estimate(const SimJob& job) const override {
        return job.spec->time_limit_seconds == kNever ? BackfillScheduler::estimate(job)
                                                      : job.spec->time_limit_seconds;
    }
    std::int64_t estimated_end(const SimJob& job) const override {
        return job.spec->time_limit_seconds == kNever ? job.ends_at
                                                      : job.works_at + job.spec->time_limit_seconds;
    }
    bool closes_nodes() const override { return true; }
    void started(JobIndex job) override {
        if (since_.size() <= job) {
            since_.resize(state().jobs.size(), kNever);
        }
        since_[job] = state().now;
        running_.push_back(job);
    }

    long double decay(std::int64_t seconds) const {
        // Slurm's own factor of a second; ln 2 would be 0.6931.
        return std::pow(1 - 0.693L / static_cast<long double>(options_.half_life_seconds),
                        static_cast<long double>(seconds));
    }

    // Accounts are added, never taken away: an event cannot delete one.
    void place_accounts() {
        for (const auto& entry : tree_.budgets()) {
            place_account(entry.first);
        }
    }
    std::uint32_t place_account(const std::string& name) {
        const Budget* budget = tree_.find(name);
        if (const auto it = accounts_.find(name); it != accounts_.end()) {
            if (budget != nullptr) {
                associations_[it->second].shares = budget->shares;
            }
            return it->second;
        }
        const std::uint32_t parent = place_account(budget->parent);
        const std::uint32_t index = add_association(parent);
        associations_[index].shares = budget->shares;
        accounts_.emplace(name, index);
        return index;
    }
    std::uint32_t add_association(std::uint32_t parent) {
        const auto index = static_cast<std::uint32_t>(associations_.size());
        associations_.emplace_back();
        associations_.back().parent = parent;
        associations_[parent].children.push_back(index);
        return index;
    }

    std::uint32_t user_of(JobIndex job) {
        if (users_.size() <= job) {
            users_.resize(state().jobs.size(), kNone);
        }
        if (users_[job] == kNone) {
            const WorkloadJob& spec = *state().jobs[job].spec;
            const auto account = accounts_.find(spec.budget);
            const std::uint32_t parent = account == accounts_.end() ? 0 : account->second;
            const auto [it, is_new] = users_by_name_.try_emplace({parent, spec.user}, kNone);
            if (is_new) {
                it->second = add_association(parent);
                associations_[it->second].lane = lanes_++;
                add_lane();
            }
            users_[job] = it->second;
        }
        return users_[job];
    }

    // What a run has used since it was counted last, decayed as Slurm does within a period: the
    // whole stretch by its length.
    void count_run(JobIndex job) {
        const std::int64_t from = since_[job];
        if (from == kNever) {
            return;
        }
        const std::int64_t seconds = std::max<std::int64_t>(state().now - from, 0);
        add_usage(job, std::min(seconds, options_.period_seconds));
    }
    void add_usage(JobIndex job, std::int64_t seconds) {
        const long double usage = static_cast<long double>(state().jobs[job].spec->gpus) *
                                  static_cast<long double>(seconds) *
                                  decays_[static_cast<std::size_t>(seconds)];
        new_usage_.push_back({user_of(job), usage});
    }

    void catch_up() {
        while (next_at_ <= state().now) {
            if (running_.empty() && new_usage_.empty()) {
                // Only decay: all periods that are over at once.
                const std::int64_t periods = (state().now - next_at_) / options_.period_seconds;
                next_at_ += periods * options_.period_seconds;
            }
            count_period(next_at_);
            next_at_ += options_.period_seconds;
        }
    }

    // As Slurm does: what ended since the last period was counted at its end and fades with the
    // rest, what runs is counted then.
    void count_period(std::int64_t at) {
        count_new_usage();
        const long double factor = decay(at - counted_at_);
        for (Association& association : associations_) {
            association.usage *= factor;
        }
        counted_at_ = at;
        for (const JobIndex job : running_) {
            if (since_[job] != kNever) {
                add_usage(job, at - since_[job]);
                since_[job] = at;
            }
        }
        count_new_usage();
        rank();
    }
    void count_new_usage() {
        for (const auto& [user, usage] : new_usage_) {
            for (std::uint32_t a = user; a != kNone; a = associations_[a].parent) {
                associations_[a].usage += usage;
            }
        }
        new_usage_.clear();
    }

    void rank() {
        std::uint32_t rank = lanes_, untied = lanes_;
        rank_children(0, rank, untied, false);
        order_changed();
    }

    void rank_children(std::uint32_t account, std::uint32_t& rank, std::uint32_t& untied,
                       bool account_tied) {
        std::vector<std::uint32_t> siblings = associations_[account].children;
        const long double parent_usage = associations_[account].usage;
        long double shares = 0;
        for (const std::uint32_t s : siblings) {
            shares += associations_[s].shares;
        }
        for (const std::uint32_t s : siblings) {
            Association& each = associations_[s];
            const long double usage = parent_usage > 0 ? each.usage / parent_usage : 0;
            each.level_fs = each.shares <= 0 ? 0
                            : usage <= 0     ? std::numeric_limits<long double>::infinity()
                                             : each.shares / shares / usage;
        }
        std::stable_sort(siblings.begin(), siblings.end(), [this](auto a, auto b) {
            const Association &left = associations_[a], &right = associations_[b];
            if (left.level_fs != right.level_fs) {
                return left.level_fs > right.level_fs;
            }
            return left.lane != kNone && right.lane == kNone;  // users before accounts
        });
        long double before = -1;
        for (std::size_t i = 0; i < siblings.size(); ++i) {
            const Association& each = associations_[siblings[i]];
            const bool tied = (i == 0 && account_tied) || before == each.level_fs;
            before = each.level_fs;
            if (each.lane == kNone) {
                rank_children(siblings[i], rank, untied, tied);
                continue;
            }
            rank = tied ? rank : untied;
            --untied;
            set_rank(each.lane, lanes_ - rank);
        }
    }

    BudgetTree tree_;
    const FairTreeOptions options_;
    std::vector<long double> decays_;        // by seconds of one period
    std::vector<Association> associations_;  // 0: the root
    std::map<std::string, std::uint32_t> accounts_;
    std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> users_by_name_;
    std::vector<std::uint32_t> users_;  // by job
    std::uint32_t lanes_ = 0;
    std::vector<JobIndex> running_;
    std::vector<std::int64_t> since_;  // by job: counted until then; kNever: does not run
    std::vector<std::pair<std::uint32_t, long double>> new_usage_;  // not counted yet
    std::int64_t next_at_, counted_at_;
};

}  // namespace

std::unique_ptr<Scheduler> make_fairtree(const SimState& state, const BudgetTree& tree,
                                         std::int64_t begin_at, const FairTreeOptions& options) {
    return std::make_unique<FairTree>(state, tree, begin_at, options);
}

}  // namespace tranche::sim
