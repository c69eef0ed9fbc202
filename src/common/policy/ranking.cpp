// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/ranking.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "common/policy/classes.hpp"
#include "common/policy/ratio_key.hpp"

namespace tranche {
namespace {

// What is ordered in one run of the algorithm.
struct Basis {
    RunKind kind;
    bool commitments;  // allocated: the contract counts when placed; else one hour
};

// What express jobs added before the others are ranked; empty: nothing.
struct Added {
    std::vector<UInt128> sides;
    std::vector<UInt128> members;

    UInt128 to_side(SideId side) const noexcept { return sides.empty() ? 0 : sides[side]; }
    UInt128 to_member(MemberId member) const noexcept {
        return members.empty() ? 0 : members[member];
    }
};

// One competing side with pending jobs, inner or last.
struct RankNode {
    UInt128 charge = 0;  // grows while its parent's list is made
    UInt128 entitlement = 0;
    KeyMaker keys;
    SideId side = kNoId;
    std::uint32_t shares = 0;
    std::uint32_t first_child = kNoId;
    std::uint32_t next_sibling = kNoId;
    // Its placements: of an inner one in its list of Ranker::lists_, of a last one in a row (while
    // they are not made yet: its items).
    std::uint32_t list = kNoId;
    std::uint32_t first = 0, count = 0;

    bool is_last() const noexcept { return first_child == kNoId; }
};

// The order is made from the bottom up. What a budget places, and in which order, does not depend
// on other budgets; so each side's list is the merge of its children's lists, always taking the
// child whose ratio is smallest with what it has placed so far. That is the progressive order of
// DESIGN 2.4, with all state of one merge in the cache.
class Ranker {
  public:
    // `has_pending` (by member) and `added` must be complete when run() is called.
    Ranker(const ClusterView& view, const Standings& standings, const Settings& settings,
           const std::vector<bool>& has_pending, const Added& added, Basis basis)
        : view_(view),
          standings_(standings),
          settings_(settings),
          has_pending_(has_pending),
          added_(added),
          basis_(basis),
          available_gpus_(view.available_gpus()),
          window_seconds_(static_cast<std::uint64_t>(standings.window.length_seconds)) {
        nodes_.emplace_back();  // the root
        places_.resize(standings.budgets.size());
    }

    void reserve(std::size_t jobs) { items_.reserve(jobs); }

    // All its pending tasks but the first `placed`.
    void add(std::uint32_t index, std::uint32_t placed) {
        const PendingJob& job = view_.pending[index];
        ++places_[job.budget].jobs;
        Item& item = items_.emplace_back();
        item.group = group_of(job.team_priority, job.member);
        item.nice = job.nice;
        item.first_submit_at = job.first_submit_at;
        item.order = job.order_key();
        item.amount = amount_of(job);
        item.job = index;
        item.budget = job.budget;
        item.counts = job.block == StartBlock::none;
        item.is_array = job.tasks != 1;
        if (placed > 0) {
            placed_.emplace(index, placed);
        }
        raises_ = raises_ || job.team_priority > TeamPriority::normal;
    }

    void run(Band band, std::vector<RankedEntry>& out) {
        if (items_.empty()) {
            return;
        }
        make_nodes();
        sum_charges();
        lower_those_above_their_share();
        sort_into_budgets();
        for (std::uint32_t n = 1; n < nodes_.size(); ++n) {
            if (nodes_[n].is_last()) {
                place_budget(n);
            }
        }
        // Children were made after their parents.
        for (auto n = static_cast<std::uint32_t>(nodes_.size()); n-- > 0;) {
            if (!nodes_[n].is_last()) {
                merge_children(n);
            }
        }
        const std::size_t first_out = out.size();
        const std::vector<std::uint32_t>& order = lists_[nodes_[0].list];
        for (std::size_t i = 0; i < order.size(); ++i) {
            if (i + 16 < order.size()) {
                __builtin_prefetch(&placements_[order[i + 16]]);
                __builtin_prefetch(&nodes_[placements_[order[i + 8]].node]);
            }
            const Placement& placement = placements_[order[i]];
            if (out.size() > first_out && out.back().job == placement.job) {
                out.back().tasks += placement.tasks;
                continue;
            }
            const RankNode& last = nodes_[placement.node];
            out.push_back({placement.job, placement.first_task, placement.tasks, band,
                           placement.counts, last.side, placement.tag, last.entitlement});
        }
    }

  private:
    struct Item {
        std::uint64_t group;  // urgent first, then by member; in a pooled budget all are one
        std::int64_t nice;
        std::int64_t first_submit_at;
        std::uint64_t order;
        std::uint64_t amount;  // of one task
        std::uint32_t job;
        BudgetId budget : 30;
        std::uint32_t counts : 1;
        std::uint32_t is_array : 1;  // several tasks

        bool operator<(const Item& other) const noexcept {
            if (group != other.group) {
                return group < other.group;
            }
            if (nice != other.nice) {
                return nice < other.nice;
            }
            if (first_submit_at != other.first_submit_at) {
                return first_submit_at < other.first_submit_at;
            }
            return order < other.order;
        }
    };
    // A job's task, or its tasks beyond what could start as one block.
    struct Placement {
        UInt128 tag;  // its budget's charge before
        std::uint32_t job;
        std::uint32_t first_task;
        std::uint32_t tasks;
        std::uint32_t node;
        bool counts;
    };
    // Where a budget's jobs go.
    struct Place {
        std::uint32_t node = kNoId;
        std::uint32_t jobs = 0;
        bool pooled = false;
    };
    struct User {
        UInt128 charge;
        MemberId member;
        std::uint32_t next, end;  // into sorted_, of the current class
        std::uint32_t task;       // of the next one's
    };
    // A child's list while it is merged.
    struct Cursor {
        RatioKey key;
        const std::uint32_t* next;
        const std::uint32_t* end;
        std::uint64_t amount;  // of *next
        RankNode* node;
    };

    // In the order of budgets, which is that of the standings' memory.
    void make_nodes() {
        nodes_.reserve(std::min(items_.size(), places_.size()) + 64);
        for (BudgetId budget = 0; budget < places_.size(); ++budget) {
            if (places_[budget].jobs > 0) {
                places_[budget].node = make_node(budget);
                places_[budget].pooled = standings_.budgets[budget].pooled;
            }
        }
    }

    std::uint32_t make_node(BudgetId budget) {
        std::uint32_t at = 0;
        for (const SideId side : standings_.budgets[budget].path) {
            if (node_by_side_.empty()) {
                node_by_side_.assign(standings_.sides.size(), kNoId);
            }
            if (node_by_side_[side] == kNoId) {
                const SideStanding& standing = standings_.sides[side];
                RankNode node;
                node.side = side;
                // Among free jobs, budgets without shares today come last (DESIGN 2.4).
                node.entitlement = basis_.kind == RunKind::allocated || standing.shares > 0
                                       ? standing.entitlement
                                       : 0;
                node.keys = KeyMaker(node.entitlement);
                node.shares = standing.shares;
                node_by_side_[side] = static_cast<std::uint32_t>(nodes_.size());
                node.next_sibling = nodes_[at].first_child;
                nodes_[at].first_child = node_by_side_[side];
                nodes_.push_back(node);
            }
            at = node_by_side_[side];
        }
        return at;
    }

    static std::uint64_t group_of(TeamPriority priority, MemberId member) noexcept {
        return std::uint64_t{3U - static_cast<std::uint8_t>(priority)} << 32 | member;
    }

    void sum_charges() {
        const bool allocated = basis_.kind == RunKind::allocated;
        const RunKind by = ordering_use(basis_.kind, settings_);
        for (std::size_t n = 1; n < nodes_.size(); ++n) {
            RankNode& node = nodes_[n];
            node.charge = standings_.sides[node.side].charge_of(by) +
                          (allocated ? added_.to_side(node.side) : 0);
        }
        member_charges_.resize(standings_.members.size());
        for (MemberId m = 0; m < member_charges_.size(); ++m) {
            member_charges_[m] =
                standings_.members[m].charge_of(by) + (allocated ? added_.to_member(m) : 0);
        }
    }

    void lower_those_above_their_share() {
        if (!raises_ || settings_.raised_share_ppm == 0) {
            return;
        }
        const std::vector<bool> raised =
            members_that_may_raise(has_pending_, member_charges_, standings_, settings_);
        for (Item& item : items_) {
            const auto member = static_cast<MemberId>(item.group);
            if (!places_[item.budget].pooled && !raised[member]) {
                item.group = std::max(item.group, group_of(TeamPriority::normal, member));
            }
        }
    }

    // By budget: each budget's items will be sorted where they lie.
    void sort_into_budgets() {
        std::uint32_t sum = 0;
        for (Place& place : places_) {
            if (place.node != kNoId) {
                nodes_[place.node].first = sum;
                nodes_[place.node].count = place.jobs;
                sum += place.jobs;
                place.jobs = sum - place.jobs;  // from now on: where its next one goes
            }
        }
        sorted_.reset(new Item[items_.size()]);  // not set to zero: all are written below
        for (const Item& item : items_) {
            Place& place = places_[item.budget];
            Item& to = sorted_[place.jobs++];
            to = item;
            if (place.pooled) {
                to.group &= ~std::uint64_t{0xffffffff};
            }
        }
        placements_.reserve(items_.size());
        amounts_.reserve(items_.size());
    }

    // How many of its tasks are looked at one by one: one more than the cluster could hold.
    std::uint32_t single_tasks(const PendingJob& job) const {
        const std::int64_t each = std::max<std::int64_t>(job.shape.gpus, 1);
        return static_cast<std::uint32_t>(
            std::min<std::int64_t>(available_gpus_ / each + 1, job.tasks));
    }

    static std::uint64_t saturated(UInt128 amount) noexcept {
        return (amount >> 64) != 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(amount);
    }

    // What one task counts, without the window's length; far beyond any cluster it saturates.
    std::uint64_t amount_of(const PendingJob& job) const {
        if (job.block != StartBlock::none || !settings_.has(Rule::progressive)) {
            return 0;
        }
        const std::int64_t seconds = basis_.kind != RunKind::allocated ? kFreeJobSeconds
                                     : basis_.commitments              ? job.contract_seconds()
                                                                       : 0;
        return saturated(static_cast<UInt128>(std::max<std::int64_t>(seconds, 0)) *
                         static_cast<UInt128>(job.weight_milli));
    }

    UInt128 times_window(std::uint64_t amount) const noexcept {
        return static_cast<UInt128>(amount) * window_seconds_;
    }

    // Appends one budget's placements in the order its own rules give: team priority, then the user
    // with the smaller charge, then nice, first submission and job id.
    void place_budget(std::uint32_t n) {
        RankNode& node = nodes_[n];
        std::sort(&sorted_[node.first], &sorted_[node.first] + node.count);
        const std::uint32_t last = node.first + node.count;
        node.first = static_cast<std::uint32_t>(placements_.size());
        UInt128 charge = node.charge;
        users_.clear();
        for (std::uint32_t at = last - node.count; at < last;) {
            // One class of team priority; charges go on from class to class.
            const std::uint64_t rank_class = sorted_[at].group >> 32;
            std::size_t active = 0;
            while (at < last && sorted_[at].group >> 32 == rank_class) {
                const std::uint64_t group = sorted_[at].group;
                const std::uint32_t from = at;
                while (at < last && sorted_[at].group == group) {
                    ++at;
                }
                activate(active++, static_cast<MemberId>(group), n, from, at);
            }
            while (active > 0) {
                std::size_t best = 0;
                for (std::size_t u = 1; u < active; ++u) {
                    if (user_goes_first(users_[u], users_[best])) {
                        best = u;
                    }
                }
                User& user = users_[best];
                const Item& item = sorted_[user.next];
                const std::uint32_t all = item.is_array ? view_.pending[item.job].tasks : 1;
                const std::uint32_t tasks =
                    item.is_array && user.task >= single_tasks(view_.pending[item.job])
                        ? all - user.task
                        : 1;
                const std::uint64_t amount =
                    tasks == 1 ? item.amount : saturated(static_cast<UInt128>(item.amount) * tasks);
                placements_.push_back({charge, item.job, user.task, tasks, n, item.counts != 0});
                amounts_.push_back(amount);
                charge += times_window(amount);
                user.charge += times_window(amount);
                user.task += tasks;
                if (user.task >= all) {
                    if (++user.next == user.end) {
                        std::swap(users_[best], users_[--active]);
                    } else {
                        user.task = placed_of(sorted_[user.next]);
                    }
                }
            }
        }
        node.count = static_cast<std::uint32_t>(placements_.size()) - node.first;
    }

    // Makes the user one of the first `active` + 1, with his charge from earlier classes.
    void activate(std::size_t active, MemberId member, std::uint32_t n, std::uint32_t from,
                  std::uint32_t to) {
        std::size_t u = active;
        while (u < users_.size() && users_[u].member != member) {
            ++u;
        }
        if (u == users_.size()) {
            const bool pooled = places_[nodes_[n].side / 2].pooled;
            users_.push_back({pooled ? 0 : member_charges_[member], member, 0, 0, 0});
        }
        std::swap(users_[active], users_[u]);
        users_[active].next = from;
        users_[active].end = to;
        users_[active].task = placed_of(sorted_[from]);
    }

    std::uint32_t placed_of(const Item& item) const {
        if (!item.is_array || placed_.empty()) {
            return 0;
        }
        const auto it = placed_.find(item.job);
        return it == placed_.end() ? 0 : it->second;
    }

    bool user_goes_first(const User& a, const User& b) const noexcept {
        if (a.charge != b.charge) {
            return a.charge < b.charge;
        }
        const Item& x = sorted_[a.next];
        const Item& y = sorted_[b.next];
        return std::tie(x.first_submit_at, x.order) < std::tie(y.first_submit_at, y.order);
    }

    void merge_children(std::uint32_t n) {
        if (identity_.size() < placements_.size()) {
            identity_.resize(placements_.size());
            std::iota(identity_.begin(), identity_.end(), 0U);
        }
        heap_.clear();
        std::size_t total = 0;
        for (std::uint32_t c = nodes_[n].first_child; c != kNoId; c = nodes_[c].next_sibling) {
            RankNode& child = nodes_[c];
            const std::uint32_t* first =
                child.is_last() ? identity_.data() + child.first : lists_[child.list].data();
            const std::size_t count = child.is_last() ? child.count : lists_[child.list].size();
            heap_.push_back(
                {child.keys.key(child.charge), first, first + count, amounts_[*first], &child});
            total += count;
        }
        std::vector<std::uint32_t> list(total);
        std::uint32_t* out = list.data();
        const auto later = [this](const Cursor& a, const Cursor& b) { return goes_first(b, a); };
        std::make_heap(heap_.begin(), heap_.end(), later);
        std::size_t size = heap_.size();
        while (size > 1) {
            Cursor top = heap_[0];
            *out++ = *top.next++;
            if (top.next == top.end) {
                top = heap_[--size];
            } else {
                if (top.amount != 0) {
                    RankNode& child = *top.node;
                    child.charge += times_window(top.amount);
                    top.key = child.keys.key(child.charge);
                }
                top.amount = amounts_[*top.next];
                if (top.next + 1 != top.end) {
                    __builtin_prefetch(&amounts_[top.next[1]]);
                }
            }
            sift_down(top, size);
        }
        out = std::copy(heap_[0].next, heap_[0].end, out);
        nodes_[n].list = static_cast<std::uint32_t>(lists_.size());
        lists_.push_back(std::move(list));
    }

    // Puts the cursor where it belongs from the top of the heap down.
    void sift_down(const Cursor& cursor, std::size_t size) {
        std::size_t hole = 0;
        for (;;) {
            std::size_t child = 2 * hole + 1;
            if (child >= size) {
                break;
            }
            if (child + 1 < size && goes_first(heap_[child + 1], heap_[child])) {
                ++child;
            }
            if (!goes_first(heap_[child], cursor)) {
                break;
            }
            heap_[hole] = heap_[child];
            hole = child;
        }
        heap_[hole] = cursor;
    }

    bool goes_first(const Cursor& a, const Cursor& b) const {
        if (a.key + kKeySlack < b.key) {
            return true;
        }
        if (b.key + kKeySlack < a.key) {
            return false;
        }
        return goes_first_exactly(a, b);
    }

    bool goes_first_exactly(const Cursor& a, const Cursor& b) const {
        const RankNode& x = *a.node;
        const RankNode& y = *b.node;
        const auto order = compare_ratio(x.charge, x.entitlement, y.charge, y.entitlement);
        if (order != 0) {
            return order < 0;
        }
        const bool ties = settings_.has(Rule::ties);
        if (ties && x.shares != y.shares) {
            return x.shares > y.shares;
        }
        const std::int64_t submit_x = view_.pending[placements_[*a.next].job].first_submit_at;
        const std::int64_t submit_y = view_.pending[placements_[*b.next].job].first_submit_at;
        if (ties && submit_x != submit_y) {
            return submit_x < submit_y;
        }
        const std::string& name_x = standings_.budgets[x.side / 2].name;
        const std::string& name_y = standings_.budgets[y.side / 2].name;
        return std::tie(name_x, x.side) < std::tie(name_y, y.side);
    }

    const ClusterView& view_;
    const Standings& standings_;
    const Settings& settings_;
    const std::vector<bool>& has_pending_;  // by member
    const Added& added_;
    const Basis basis_;
    const std::int64_t available_gpus_;
    const std::uint64_t window_seconds_;
    bool raises_ = false;  // somebody asks for more than normal
    std::vector<RankNode> nodes_;
    std::vector<Place> places_;  // by budget
    std::vector<std::uint32_t> node_by_side_;
    std::vector<UInt128> member_charges_;
    std::vector<Item> items_;
    std::unique_ptr<Item[]> sorted_;
    std::unordered_map<std::uint32_t, std::uint32_t> placed_;  // tasks before these, by job
    std::vector<Placement> placements_;
    std::vector<std::uint64_t> amounts_;  // beside placements_
    std::vector<std::uint32_t> identity_;
    std::vector<std::vector<std::uint32_t>> lists_;
    std::vector<User> users_;
    std::vector<Cursor> heap_;
};

// A queue of 100 000 jobs is far larger than the cache.
constexpr std::size_t kJobsAhead = 8;
inline void prefetch(const PendingJob& job) noexcept {
    const char* bytes = reinterpret_cast<const char*>(&job);
    for (std::size_t line = 0; line < sizeof(PendingJob); line += 64) {
        __builtin_prefetch(bytes + line);
    }
}

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
        if (!settings.has(Rule::plan_commitment)) {
            break;
        }
        standings.commit(plan.budget, plan.member, plan.weight_milli, plan.commitment_seconds);
    }
}

std::vector<RankedEntry> rank_queue(const ClusterView& view, const Standings& standings,
                                    const Settings& settings) {
    std::vector<RankedEntry> out;
    out.reserve(view.pending.size());
    Added added;
    const auto put = [&](std::uint32_t index, std::uint32_t tasks, Band band) {
        const PendingJob& job = view.pending[index];
        RankedEntry entry{index, 0, tasks, band, true, kNoId, 0, 0};
        const auto& path = standings.budgets[job.budget].path;
        if (!path.empty()) {
            entry.side = path.back();
            entry.tag_charge = standings.sides[entry.side].charge() + added.to_side(entry.side);
            entry.tag_entitlement = standings.sides[entry.side].entitlement;
        }
        out.push_back(entry);
    };

    std::vector<bool> has_pending(standings.members.size(), false);
    const auto ranker_of = [&](RunKind kind) {
        return Ranker(view, standings, settings, has_pending, added, {kind, settings.commitments});
    };
    Ranker allocated = ranker_of(RunKind::allocated);
    Ranker unallocated = ranker_of(RunKind::unallocated);
    Ranker outside = ranker_of(RunKind::outside);
    allocated.reserve(view.pending.size());
    std::vector<std::uint32_t> express;
    std::vector<bool> funded(standings.budgets.size());
    for (BudgetId b = 0; b < funded.size(); ++b) {
        funded[b] = standings.funded(b);
    }
    std::unordered_map<JobId, std::uint32_t> planned;  // index of each claimant
    for (const Plan& plan : view.plans) {
        planned.emplace(plan.claimant, kNoId);
    }
    for (std::uint32_t i = 0; i < view.pending.size(); ++i) {
        const PendingJob& job = view.pending[i];
        if (i + kJobsAhead < view.pending.size()) {
            prefetch(view.pending[i + kJobsAhead]);
        }
        has_pending[job.member] = true;
        if (!planned.empty()) {
            if (const auto plan = planned.find(job.id); plan != planned.end()) {
                plan->second = i;
                continue;
            }
        }
        if (!job.governed) {
            outside.add(i, 0);
        } else if (!is_allocated(job, funded[job.budget])) {
            (settings.has(Rule::free_ranks_below) ? unallocated : allocated).add(i, 0);
        } else if (job.block == StartBlock::none && fits_lane(job, settings)) {
            express.push_back(i);
        } else {
            allocated.add(i, 0);
        }
    }
    for (const Plan& plan : view.plans) {
        if (std::uint32_t& index = planned[plan.claimant]; index != kNoId) {
            put(index, view.pending[index].tasks, Band::plan);
            index = kNoId;
        }
    }

    // Express jobs stand by first submission and count on their sides before the others. The caps
    // are counted on as they are placed: what is over them stands among the ordinary jobs.
    if (!express.empty()) {
        ExpressLane lane(view, standings, settings);
        std::sort(express.begin(), express.end(), [&](std::uint32_t a, std::uint32_t b) {
            return earlier_submitted(view.pending[a], view.pending[b]);
        });
        added.sides.assign(standings.sides.size(), 0);
        added.members.assign(standings.members.size(), 0);
        for (const std::uint32_t index : express) {
            const PendingJob& job = view.pending[index];
            const std::string& user = standings.members[job.member].user;
            std::uint32_t tasks = 0;
            while (tasks < job.tasks && lane.check(user, job.shape.gpus) == ExpressCap::none) {
                lane.add_ranked(user, job.shape.gpus);
                ++tasks;
            }
            if (tasks < job.tasks) {
                allocated.add(index, tasks);
            }
            if (tasks == 0) {
                continue;
            }
            put(index, tasks, Band::express);
            if (settings.commitments) {
                const UInt128 amount = standings.window.at_weight_one(job.contract_seconds()) *
                                       static_cast<UInt128>(job.weight_milli) * tasks;
                for (const SideId side : standings.budgets[job.budget].path) {
                    added.sides[side] += amount;
                }
                added.members[job.member] += amount;
            }
        }
    }

    allocated.run(Band::allocated, out);
    unallocated.run(Band::unallocated, out);
    outside.run(Band::unallocated, out);
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
