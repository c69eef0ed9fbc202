// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/ranking.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>

#include "common/policy/classes.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kFreeJobSeconds = 3600;  // what a free job counts when placed

// A ratio as a 64-bit key that orders like it, exact to 1 part in 2^30: 8 bits of exponent, 56 of
// mantissa. Near ties are settled by the exact comparison.
class RatioKey {
  public:
    RatioKey() = default;
    RatioKey(UInt128 charge, UInt128 entitlement) noexcept {
        if (charge == 0 || entitlement == 0) {
            return;  // callers tell these cases apart before they look at the key
        }
        const int charge_shift = bits(charge) - 64, entitlement_shift = bits(entitlement) - 32;
        const std::uint64_t numerator = shifted(charge, charge_shift);
        const std::uint64_t denominator = shifted(entitlement, entitlement_shift);
        const std::uint64_t quotient = numerator / denominator;  // 2^31 .. 2^33
        const int width = 64 - std::countl_zero(quotient);
        const int exponent = charge_shift - entitlement_shift + width + 128;  // 1 .. 255
        const std::uint64_t mantissa = (quotient << (56 - width)) & ((std::uint64_t{1} << 55) - 1);
        key_ = (static_cast<std::uint64_t>(exponent) << 55) | mantissa;
    }
    // -1, 0 or 1; 0 means "too near to tell".
    int compare(const RatioKey& other) const noexcept {
        constexpr std::uint64_t kSlack = std::uint64_t{1} << 27;
        if (key_ + kSlack < other.key_) {
            return -1;
        }
        return other.key_ + kSlack < key_ ? 1 : 0;
    }

  private:
    static int bits(UInt128 value) noexcept {
        const auto high = static_cast<std::uint64_t>(value >> 64);
        return high != 0 ? 128 - std::countl_zero(high)
                         : 64 - std::countl_zero(static_cast<std::uint64_t>(value));
    }
    static std::uint64_t shifted(UInt128 value, int right) noexcept {
        return static_cast<std::uint64_t>(right >= 0 ? value >> right : value << -right);
    }
    std::uint64_t key_ = 0;
};

// What is ordered in one run of the algorithm.
struct Basis {
    RunKind kind;
    bool commitments;  // allocated: the contract counts when placed; else one hour
};


// The head of a queue, as far as ties between its owners need it.
struct Head {
    std::int64_t first_submit_at = 0;
    std::uint64_t order = 0;
};

// The pending jobs of one budget, in the order its own rules give.
class BudgetQueue {
  public:
    struct Item {
        std::uint32_t job;
        std::uint8_t rank_class;  // 3 = urgent .. 0 = low
        MemberId member;          // 0 for all in a pooled budget
        std::int64_t nice;
        std::int64_t first_submit_at;
        std::uint64_t order;
    };

    void add(Item item) { items_.push_back(item); }

    // Sorts and makes the first group current. `view` is for the tie of users by name.
    void start(const Standings& standings, bool pooled, const Basis& basis) {
        pooled_ = pooled;
        standings_ = &standings;
        basis_ = basis;
        std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
            return std::tuple(-int{a.rank_class}, a.member, a.nice, a.first_submit_at, a.order) <
                   std::tuple(-int{b.rank_class}, b.member, b.nice, b.first_submit_at, b.order);
        });
        next_class();
    }

    bool empty() const noexcept { return users_.empty(); }
    const Item& head() const noexcept { return items_[users_.front().next]; }
    Head head_of_queue() const noexcept { return {head().first_submit_at, head().order}; }

    // The head's job was placed and `amount` counted; with `stays`, more tasks of it wait.
    void place_head(UInt128 amount, bool stays) {
        std::pop_heap(users_.begin(), users_.end(), Later{this});
        User& user = users_.back();
        charges_[user.charge].second += amount;
        if (!stays) {
            ++user.next;
        }
        if (user.next == user.end) {
            users_.pop_back();
        } else {
            std::push_heap(users_.begin(), users_.end(), Later{this});
        }
        if (users_.empty()) {
            next_class();
        }
    }

  private:
    struct User {
        std::uint32_t next;  // into items_
        std::uint32_t end;
        std::uint32_t charge;  // into charges_
    };
    // For a max-heap: true if a goes later than b.
    struct Later {
        const BudgetQueue* queue;
        bool operator()(const User& a, const User& b) const {
            const UInt128 charge_a = queue->charges_[a.charge].second;
            const UInt128 charge_b = queue->charges_[b.charge].second;
            if (charge_a != charge_b) {
                return charge_a > charge_b;
            }
            const Item& x = queue->items_[a.next];
            const Item& y = queue->items_[b.next];
            return std::tie(x.first_submit_at, x.order) > std::tie(y.first_submit_at, y.order);
        }
    };

    // Charges progress over the classes: what a user placed as urgent counts when normal jobs
    // are ordered.
    std::uint32_t charge_slot(MemberId member) {
        const auto it = std::lower_bound(
            charges_.begin(), charges_.end(), member,
            [](const std::pair<MemberId, UInt128>& c, MemberId m) { return c.first < m; });
        return static_cast<std::uint32_t>(it - charges_.begin());
    }

    void next_class() {
        users_.clear();
        if (position_ == 0) {
            for (const Item& item : items_) {
                charges_.emplace_back(item.member, 0);
            }
            std::sort(charges_.begin(), charges_.end());
            charges_.erase(std::unique(charges_.begin(), charges_.end()), charges_.end());
            for (auto& [member, charge] : charges_) {
                charge = pooled_ ? 0 : start_charge(member);
            }
        }
        if (position_ == items_.size()) {
            return;
        }
        const std::uint8_t rank_class = items_[position_].rank_class;
        while (position_ < items_.size() && items_[position_].rank_class == rank_class) {
            const auto first = static_cast<std::uint32_t>(position_);
            const MemberId member = items_[position_].member;
            while (position_ < items_.size() && items_[position_].rank_class == rank_class &&
                   items_[position_].member == member) {
                ++position_;
            }
            users_.push_back({first, static_cast<std::uint32_t>(position_), charge_slot(member)});
        }
        std::make_heap(users_.begin(), users_.end(), Later{this});
    }

    UInt128 start_charge(MemberId member) const {
        const MemberStanding& standing = standings_->members[member];
        return standing.charge_of(basis_.kind);
    }

    Basis basis_{RunKind::allocated, true};
    std::vector<Item> items_;
    std::size_t position_ = 0;
    std::vector<User> users_;
    std::vector<std::pair<MemberId, UInt128>> charges_;
    const Standings* standings_ = nullptr;
    bool pooled_ = false;
};

// One competing side with pending jobs, inner or last.
struct RankNode {
    SideId side = kNoId;
    UInt128 charge = 0;
    UInt128 entitlement = 0;
    RatioKey key;
    std::uint32_t shares = 0;
    Head head;
    std::uint32_t parent = kNoId;
    std::vector<std::uint32_t> heap;  // children, best first
    BudgetQueue queue;                // of a last one
    bool is_last = false;
};

class Ranker {
  public:
    Ranker(const ClusterView& view, const Standings& standings, const Settings& settings,
           Basis basis)
        : view_(view), standings_(standings), basis_(basis) {
        nodes_.emplace_back();  // the root
        raised_ = members_that_may_raise(view, standings, settings, basis.kind);
    }

    // All its pending tasks but the first `placed`.
    void add(std::uint32_t index, std::uint32_t placed) {
        const PendingJob& job = view_.pending[index];
        RankNode& node = nodes_[node_of(job.budget)];
        const bool pooled = standings_.budgets[job.budget].pooled;
        const TeamPriority priority =
            effective_priority(job.team_priority, pooled || raised_[job.member]);
        if (placed > 0) {
            placed_.emplace(index, placed);
        }
        node.queue.add({index, static_cast<std::uint8_t>(priority), pooled ? 0 : job.member,
                        job.nice, job.first_submit_at, job.order_key()});
    }

    void run(Band band, std::vector<RankedEntry>& out) {
        start_queues();
        std::vector<std::uint32_t> placed(view_.pending.size(), 0);
        for (const auto& [index, tasks] : placed_) {
            placed[index] = tasks;
        }
        const std::size_t first_out = out.size();
        while (!nodes_[0].heap.empty()) {
            std::uint32_t at = 0;
            while (!nodes_[at].is_last) {
                at = nodes_[at].heap.front();
            }
            RankNode& last = nodes_[at];
            const std::uint32_t index = last.queue.head().job;
            const PendingJob& job = view_.pending[index];
            std::uint32_t tasks = 1;
            if (placed[index] >= expanded_tasks(job)) {
                tasks = job.tasks - placed[index];  // more than can start: one block
            }
            const bool counts = job.block == StartBlock::none;
            UInt128 amount = 0;
            if (counts) {
                const std::int64_t seconds =
                    basis_.kind != RunKind::allocated ? kFreeJobSeconds
                    : basis_.commitments              ? job.contract_seconds()
                                                      : 0;
                amount = standings_.window.at_weight_one(seconds) *
                         static_cast<UInt128>(job.weight_milli) * tasks;
            }
            if (out.size() > first_out && out.back().job == index) {
                out.back().tasks += tasks;
            } else {
                out.push_back({index, placed[index], tasks, band, counts, last.side, last.charge,
                               last.entitlement});
            }
            placed[index] += tasks;
            last.queue.place_head(amount, placed[index] < job.tasks);
            add_to_path(at, amount);
        }
    }

  private:
    std::uint32_t expanded_tasks(const PendingJob& job) const {
        const std::int64_t each = std::max<std::int64_t>(job.shape.gpus, 1);
        return static_cast<std::uint32_t>(
            std::min<std::int64_t>(available_gpus_ / each + 1, job.tasks));
    }

    std::uint32_t node_of(BudgetId budget) {
        const auto& path = standings_.budgets[budget].path;
        std::uint32_t at = 0;
        for (const SideId side : path) {
            if (node_by_side_.size() <= side) {
                node_by_side_.resize(standings_.sides.size(), kNoId);
            }
            if (node_by_side_[side] == kNoId) {
                const SideStanding& standing = standings_.sides[side];
                RankNode node;
                node.side = side;
                node.charge = standing.charge_of(basis_.kind);
                // Among free jobs, budgets without shares today come last (DESIGN 2.4).
                node.entitlement = basis_.kind == RunKind::allocated || standing.shares > 0
                                       ? standing.entitlement
                                       : 0;
                node.key = RatioKey(node.charge, node.entitlement);
                node.shares = standing.shares;
                node.parent = at;
                node_by_side_[side] = static_cast<std::uint32_t>(nodes_.size());
                nodes_[at].heap.push_back(node_by_side_[side]);
                nodes_.push_back(std::move(node));
            }
            at = node_by_side_[side];
        }
        nodes_[at].is_last = true;
        return at;
    }

    void start_queues() {
        available_gpus_ = view_.available_gpus();
        // Children were made after their parents: heads are known bottom up.
        for (std::uint32_t i = static_cast<std::uint32_t>(nodes_.size()); i-- > 0;) {
            RankNode& node = nodes_[i];
            if (node.is_last) {
                node.queue.start(standings_, standings_.budgets[node.side / 2].pooled, basis_);
                node.head = node.queue.head_of_queue();
            } else if (!node.heap.empty()) {
                std::make_heap(node.heap.begin(), node.heap.end(), later());
                node.head = nodes_[node.heap.front()].head;
            }
        }
    }

    // For a max-heap of the standard library: true if a goes later than b.
    struct Later {
        const Ranker* ranker;
        bool operator()(std::uint32_t a, std::uint32_t b) const { return ranker->goes_later(a, b); }
    };
    Later later() const { return {this}; }

    bool goes_later(std::uint32_t a, std::uint32_t b) const {
        const RankNode& x = nodes_[a];
        const RankNode& y = nodes_[b];
        if (x.entitlement != 0 && y.entitlement != 0 && x.charge != 0 && y.charge != 0) {
            if (const int decided = x.key.compare(y.key); decided != 0) {
                return decided > 0;
            }
        }
        const auto order = compare_ratio(x.charge, x.entitlement, y.charge, y.entitlement);
        if (order != 0) {
            return order > 0;
        }
        if (x.shares != y.shares) {
            return x.shares < y.shares;
        }
        if (x.head.first_submit_at != y.head.first_submit_at) {
            return x.head.first_submit_at > y.head.first_submit_at;
        }
        const std::string& name_x = standings_.budgets[x.side / 2].name;
        const std::string& name_y = standings_.budgets[y.side / 2].name;
        return std::tie(name_x, x.side) > std::tie(name_y, y.side);
    }

    // Every node on the way is the front of its parent's heap: it sinks to its new place.
    void add_to_path(std::uint32_t at, UInt128 amount) {
        bool gone = nodes_[at].queue.empty();
        if (!gone) {
            nodes_[at].head = nodes_[at].queue.head_of_queue();
        }
        while (at != 0) {
            RankNode& node = nodes_[at];
            if (!gone && amount != 0) {
                node.charge += amount;
                node.key = RatioKey(node.charge, node.entitlement);
            }
            RankNode& parent = nodes_[node.parent];
            std::pop_heap(parent.heap.begin(), parent.heap.end(), later());
            if (gone) {
                parent.heap.pop_back();
            } else {
                std::push_heap(parent.heap.begin(), parent.heap.end(), later());
            }
            gone = parent.heap.empty();
            if (!gone) {
                parent.head = nodes_[parent.heap.front()].head;
            }
            at = node.parent;
        }
    }

    const ClusterView& view_;
    const Standings& standings_;
    Basis basis_;
    std::vector<bool> raised_;  // by member
    std::unordered_map<std::uint32_t, std::uint32_t> placed_;  // tasks before these, by job
    std::vector<RankNode> nodes_;
    std::vector<std::uint32_t> node_by_side_;
    std::int64_t available_gpus_ = 0;
};

bool earlier_submitted(const PendingJob& a, const PendingJob& b) {
    return std::pair(a.first_submit_at, a.order_key()) <
           std::pair(b.first_submit_at, b.order_key());
}

}  // namespace

void add_commitments(Standings& standings, const ClusterView& view, const Settings& settings) {
    if (!settings.commitments) {
        return;
    }
    for (const Run& run : view.runs) {
        if (const std::int64_t seconds = run.commitment_seconds(view.now); seconds > 0) {
            standings.commit(run.budget, run.member, run.weight_milli, seconds);
        }
    }
    for (const Plan& plan : view.plans) {
        standings.commit(plan.budget, plan.member, plan.weight_milli, plan.commitment_seconds);
    }
}

std::vector<RankedEntry> rank_queue(const ClusterView& view, const Standings& standings,
                                    const Settings& settings) {
    std::vector<RankedEntry> out;
    out.reserve(view.pending.size());
    const auto last_side = [&](const PendingJob& job) {
        const auto& path = standings.budgets[job.budget].path;
        return path.empty() ? kNoId : path.back();
    };
    const auto put = [&](std::uint32_t index, Band band, const Standings& now) {
        const PendingJob& job = view.pending[index];
        RankedEntry entry{index, 0, job.tasks, band, true, last_side(job), 0, 0};
        if (entry.side != kNoId) {
            entry.tag_charge = now.sides[entry.side].charge();
            entry.tag_entitlement = now.sides[entry.side].entitlement;
        }
        out.push_back(entry);
    };

    enum class Kind : std::uint8_t { plan, express, allocated, unallocated, outside };
    std::vector<Kind> kinds(view.pending.size(), Kind::unallocated);
    std::vector<std::uint32_t> planned, express;
    for (std::uint32_t i = 0; i < view.pending.size(); ++i) {
        const PendingJob& job = view.pending[i];
        kinds[i] = !job.governed                ? Kind::outside
                   : is_allocated(job, standings) ? Kind::allocated
                                                  : Kind::unallocated;
        if (kinds[i] == Kind::allocated && job.block == StartBlock::none &&
            fits_lane(job, settings)) {
            express.push_back(i);
        }
    }
    if (!view.plans.empty()) {
        std::unordered_map<JobId, std::uint32_t> by_id;
        for (std::uint32_t i = 0; i < view.pending.size(); ++i) {
            by_id.emplace(view.pending[i].id, i);
        }
        for (const Plan& plan : view.plans) {
            if (const auto it = by_id.find(plan.claimant); it != by_id.end()) {
                kinds[it->second] = Kind::plan;
                planned.push_back(it->second);
            }
        }
    }
    for (const std::uint32_t index : planned) {
        put(index, Band::plan, standings);
    }

    // Express jobs stand by first submission and count on their sides before the others. The caps
    // are counted on as they are placed: what is over them stands among the ordinary jobs.
    std::unordered_map<std::uint32_t, std::uint32_t> express_tasks;
    Standings with_express;
    const Standings* current = &standings;
    if (!express.empty()) {
        with_express = standings;
        current = &with_express;
        ExpressLane lane(view, standings, settings);
        std::sort(express.begin(), express.end(), [&](std::uint32_t a, std::uint32_t b) {
            return earlier_submitted(view.pending[a], view.pending[b]);
        });
        for (const std::uint32_t index : express) {
            const PendingJob& job = view.pending[index];
            const std::string& user = standings.members[job.member].user;
            std::uint32_t tasks = 0;
            while (kinds[index] == Kind::allocated && tasks < job.tasks &&
                   lane.check(user, job.shape.gpus) == ExpressCap::none) {
                lane.add(user, job.shape.gpus);
                ++tasks;
            }
            if (tasks == 0) {
                continue;
            }
            if (tasks == job.tasks) {
                kinds[index] = Kind::express;
            }
            express_tasks.emplace(index, tasks);
            put(index, Band::express, with_express);
            out.back().tasks = tasks;
            if (settings.commitments) {
                with_express.commit(job.budget, job.member, job.weight_milli * tasks,
                                    job.contract_seconds());
            }
        }
    }

    const auto rank_kind = [&](Kind kind, RunKind basis, Band band) {
        Ranker ranker(view, *current, settings, {basis, settings.commitments});
        for (std::uint32_t i = 0; i < view.pending.size(); ++i) {
            if (kinds[i] == kind) {
                const auto before = express_tasks.find(i);
                ranker.add(i, before == express_tasks.end() ? 0 : before->second);
            }
        }
        ranker.run(band, out);
    };
    rank_kind(Kind::allocated, RunKind::allocated, Band::allocated);
    rank_kind(Kind::unallocated, RunKind::unallocated, Band::unallocated);
    rank_kind(Kind::outside, RunKind::outside, Band::unallocated);
    return out;
}

std::uint32_t band_floor(Band band) noexcept {
    switch (band) {
        case Band::plan:
            return 4000000000U;
        case Band::express:
            return 3000000000U;
        case Band::allocated:
            return 2000000000U;
        case Band::unallocated:
            break;
    }
    return 1000000000U;
}

std::vector<std::uint32_t> spaced_priorities(const std::vector<Band>& bands,
                                             const std::vector<std::uint32_t>& previous) {
    std::vector<std::uint32_t> out(bands.size(), 0);
    std::size_t begin = 0;
    while (begin < bands.size()) {
        std::size_t end = begin;
        while (end < bands.size() && bands[end] == bands[begin]) {
            ++end;
        }
        const std::uint32_t low = band_floor(bands[begin]);
        const std::uint32_t high = low + (bands[begin] == Band::plan ? 294000000U : 999000000U);
        // The longest descending run of old priorities is kept (patience sorting).
        std::vector<std::uint32_t> tails;  // indices; priorities descending
        std::vector<std::uint32_t> before(end - begin, kNoId);
        for (std::size_t i = begin; i < end; ++i) {
            if (previous[i] <= low || previous[i] >= high) {
                continue;
            }
            const auto place = std::lower_bound(
                tails.begin(), tails.end(), previous[i],
                [&](std::uint32_t t, std::uint32_t value) { return previous[t] > value; });
            if (place != tails.begin()) {
                before[i - begin] = *(place - 1);
            }
            if (place == tails.end()) {
                tails.push_back(static_cast<std::uint32_t>(i));
            } else {
                *place = static_cast<std::uint32_t>(i);
            }
        }
        std::vector<bool> kept(end - begin, false);
        if (!tails.empty()) {
            for (std::uint32_t i = tails.back(); i != kNoId; i = before[i - begin]) {
                kept[i - begin] = true;
            }
        }
        const auto fill = [&](bool keep) {
            bool fits = true;
            std::uint64_t upper = high;
            for (std::size_t i = begin; i < end;) {
                std::size_t next = i;
                while (next < end && !(keep && kept[next - begin])) {
                    ++next;
                }
                const std::uint64_t lower = next < end ? previous[next] : low;
                const std::uint64_t step = (upper - lower) / (next - i + 1);
                fits = fits && (next == i || step > 0);
                for (std::size_t k = i; k < next; ++k) {
                    out[k] = static_cast<std::uint32_t>(upper - step * (k - i + 1));
                }
                if (next < end) {
                    out[next] = previous[next];
                    upper = previous[next];
                    ++next;
                }
                i = next;
            }
            return fits;
        };
        if (!fill(true)) {
            fill(false);
        }
        begin = end;
    }
    return out;
}

}  // namespace tranche
