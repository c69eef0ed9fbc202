// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/ranked_queue.hpp"

#include <algorithm>

namespace tranche {
namespace {

constexpr std::uint32_t kAllocatedTree = 0, kFreeTree = 1;

std::uint32_t class_of(TeamPriority priority) noexcept {
    return 3U - static_cast<std::uint32_t>(priority);
}
constexpr std::uint32_t kNormalClass = 3U - static_cast<std::uint32_t>(TeamPriority::normal);

}  // namespace

RankedQueue::RankedQueue(const ClusterView& view, const Settings& settings,
                         const std::vector<std::uint32_t>& express_runs)
    : view_(view), settings_(settings), express_runs_(express_runs) {
    clear();
}

void RankedQueue::clear() {
    for (Tree& tree : trees_) {
        tree = Tree();
        tree.nodes.emplace_back();
    }
    trees_[kFreeTree].kind = RunKind::unallocated;
    where_.clear();
    where_count_ = 0;
    lane_.clear();
    pending_of_.clear();
}

RankedQueue::Queued RankedQueue::queued(std::uint32_t slot, bool allocated) const {
    const PendingJob& job = view_.pending[slot];
    const std::int64_t seconds = !allocated              ? kFreeJobSeconds
                                 : settings_.commitments ? job.contract_seconds()
                                                         : 0;
    return {job.nice, job.first_submit_at, job.order_key(),
            static_cast<UInt128>(std::max<std::int64_t>(seconds, 0)) *
                static_cast<UInt128>(job.weight_milli),
            slot};
}

std::uint32_t RankedQueue::node_of(Tree& tree, BudgetId budget, const Standings& standings) {
    std::uint32_t at = 0;
    for (const SideId side : standings.budgets[budget].path) {
        const auto [it, is_new] =
            tree.by_side.try_emplace(side, static_cast<std::uint32_t>(tree.nodes.size()));
        if (is_new) {
            SideNode node;
            node.side = side;
            node.parent = at;
            tree.nodes[at].children.push_back(it->second);
            tree.nodes.push_back(std::move(node));
        }
        at = it->second;
    }
    return at;
}

void RankedQueue::insert(std::uint32_t slot, bool allocated, const Standings& standings) {
    const PendingJob& job = view_.pending[slot];
    Tree& tree = trees_[allocated ? kAllocatedTree : kFreeTree];
    const std::uint32_t node = node_of(tree, job.budget, standings);
    if (tree.nodes[node].leaf == kNoId) {
        tree.nodes[node].leaf = static_cast<std::uint32_t>(tree.leaves.size());
        tree.leaves.emplace_back();
        tree.leaves.back().budget = job.budget;
    }
    Where where;
    where.tree = allocated ? kAllocatedTree : kFreeTree;
    where.node = node;
    where.leaf = tree.nodes[node].leaf;
    Leaf& leaf = tree.leaves[where.leaf];
    const auto [it, is_new] =
        leaf.by_member.try_emplace(job.member, static_cast<std::uint32_t>(leaf.members.size()));
    if (is_new) {
        leaf.members.emplace_back();
        leaf.members.back().member = job.member;
    }
    where.member = it->second;
    where.list = class_of(job.team_priority);
    where.lane = allocated && fits_lane(job, settings_);
    MemberJobs& jobs = leaf.members[where.member];
    auto& list = jobs.lists[where.list];
    const Queued item = queued(slot, allocated);
    list.insert(std::upper_bound(list.begin(), list.end(), item), item);
    ++jobs.count;
    for (std::uint32_t n = node; n != kNoId; n = tree.nodes[n].parent) {
        ++tree.nodes[n].jobs;
    }
    if (where.lane) {
        lane_.emplace(job.first_submit_at, job.order_key(), slot);
    }
    if (slot >= where_.size()) {
        where_.resize(slot + 1);
    }
    where_[slot] = where;
    ++where_count_;
}

void RankedQueue::erase(std::uint32_t slot) {
    if (slot >= where_.size() || where_[slot].tree == kNoId) {
        return;
    }
    const PendingJob& job = view_.pending[slot];
    const Where where = where_[slot];
    where_[slot] = Where();
    --where_count_;
    Tree& tree = trees_[where.tree];
    MemberJobs& jobs = tree.leaves[where.leaf].members[where.member];
    auto& list = jobs.lists[where.list];
    const Queued item = queued(slot, where.tree == kAllocatedTree);
    auto at = std::lower_bound(list.begin(), list.end(), item);
    while (at->slot != slot) {
        ++at;
    }
    list.erase(at);
    --jobs.count;
    for (std::uint32_t n = where.node; n != kNoId; n = tree.nodes[n].parent) {
        --tree.nodes[n].jobs;
    }
    if (where.lane) {
        lane_.erase({job.first_submit_at, job.order_key(), slot});
    }
}

void RankedQueue::begin(Standings& standings) {
    standings_ = &standings;
    ++stamp_;
    next_plan_ = next_express_ = 0;
    tree_ = kAllocatedTree;
    lane_done_ = false;
    express_.clear();
    added_sides_.clear();
    added_members_.clear();
    for (; members_known_ < standings.members.size(); ++members_known_) {
        const BudgetId budget = standings.members[members_known_].budget;
        if (budget >= members_of_.size()) {
            members_of_.resize(budget + 1);
        }
        members_of_[budget].push_back(static_cast<MemberId>(members_known_));
    }
    for (std::size_t kind = 0; kind < kRaiseKinds; ++kind) {
        raise_stamps_[kind].resize(standings.members.size(), 0);
        raises_[kind].resize(standings.members.size(), true);
    }
    pending_of_.resize(std::max(pending_of_.size(), standings.members.size()), 0);
}

void RankedQueue::count_pending(MemberId member, std::int32_t change) {
    if (member >= pending_of_.size()) {
        pending_of_.resize(member + 1, 0);
    }
    pending_of_[member] += static_cast<std::uint32_t>(change);
}

UInt128 RankedQueue::raise_charge(std::size_t kind, MemberId member) {
    UInt128 charge = standings_->member(member).charge_of(kind == kByFreeUse ? RunKind::unallocated
                                                                             : RunKind::allocated);
    if (kind == kByRank && !added_members_.empty()) {
        const auto added = added_members_.find(member);
        charge += added == added_members_.end() ? 0 : added->second;
    }
    return charge;
}

// RaisedShare, of all users of the member's budget at once.
bool RankedQueue::raises(std::size_t kind, MemberId asked) {
    if (settings_.raised_share_ppm == 0) {
        return true;
    }
    if (raise_stamps_[kind][asked] == stamp_) {
        return raises_[kind][asked];
    }
    const std::vector<MemberId>& members = members_of_[standings_->members[asked].budget];
    UInt128 sum = 0;
    std::uint64_t users = 0;
    for (const MemberId m : members) {
        const UInt128 charge = raise_charge(kind, m);
        if (pending_of_[m] > 0 || charge > 0) {
            sum += charge;
            ++users;
        }
    }
    for (const MemberId m : members) {
        const UInt128 charge = raise_charge(kind, m);
        raise_stamps_[kind][m] = stamp_;
        raises_[kind][m] =
            charge == 0 || compare_products(charge, static_cast<UInt128>(users) * kPpm, sum,
                                            static_cast<UInt128>(settings_.raised_share_ppm)) <= 0;
    }
    return raises_[kind][asked];
}

// Express jobs stand by first submission and count on their sides before the others; what is over
// a cap stands among the ordinary jobs.
void RankedQueue::begin_lane() {
    lane_done_ = true;
    if (lane_.empty()) {
        return;
    }
    ExpressLane lane(view_, *standings_, settings_, &express_runs_);
    for (const auto& [submit, order, slot] : lane_) {
        const PendingJob& job = view_.pending[slot];
        const std::string& user = standings_->members[job.member].user;
        if (lane.check(user, job.shape.gpus) != ExpressCap::none) {
            continue;
        }
        lane.add(user, job.shape.gpus);
        express_.push_back(slot);
        where_[slot].skipped = stamp_;
        if (settings_.commitments) {
            const UInt128 amount = standings_->window.at_weight_one(job.contract_seconds()) *
                                   static_cast<UInt128>(job.weight_milli);
            for (const SideId side : standings_->budgets[job.budget].path) {
                added_sides_[side] += amount;
            }
            added_members_[job.member] += amount;
        }
    }
}

bool RankedQueue::next(RankedEntry& entry) {
    const auto put = [&](std::uint32_t slot, Band band) {
        entry = RankedEntry{slot, 0, 1, band, true, kNoId, 0, 0};
        return true;
    };
    while (next_plan_ < view_.plans.size()) {
        const JobId claimant = view_.plans[next_plan_].claimant;
        const std::uint32_t slot = view_.plan_jobs[next_plan_];
        ++next_plan_;
        if (slot != kNoId && view_.pending[slot].id == claimant) {
            return put(slot, Band::plan);
        }
    }
    if (!lane_done_) {
        begin_lane();
        open(trees_[kAllocatedTree], 0);
        tree_ = kAllocatedTree;
    }
    if (next_express_ < express_.size()) {
        return put(express_[next_express_++], Band::express);
    }
    while (tree_ <= kFreeTree) {
        Tree& tree = trees_[tree_];
        if (prepare(tree, 0)) {
            entry = RankedEntry{};
            entry.band = tree_ == kAllocatedTree ? Band::allocated : Band::unallocated;
            pop(tree, 0, entry);
            return true;
        }
        if (++tree_ <= kFreeTree) {
            open(trees_[tree_], 0);
        }
    }
    return false;
}

// Reads the node's children for this walk.
void RankedQueue::open(Tree& tree, std::uint32_t n) {
    SideNode& node = tree.nodes[n];
    node.stamp = stamp_;
    if (node.leaf != kNoId && node.children.empty()) {
        open_leaf(tree, tree.leaves[node.leaf]);
        return;
    }
    const bool allocated = tree.kind == RunKind::allocated;
    node.heap.clear();
    for (const std::uint32_t c : node.children) {
        SideNode& child = tree.nodes[c];
        if (child.jobs == 0) {
            continue;
        }
        const SideStanding& side = standings_->side(child.side);
        child.charge = side.charge_of(tree.kind);
        if (allocated && !added_sides_.empty()) {
            const auto added = added_sides_.find(child.side);
            child.charge += added == added_sides_.end() ? 0 : added->second;
        }
        // Among free jobs, budgets without shares today come last (DESIGN 2.4).
        child.entitlement = allocated || side.shares > 0 ? side.entitlement : 0;
        if (child.keys_of != child.entitlement) {
            child.keys = KeyMaker(child.entitlement);
            child.keys_of = child.entitlement;
        }
        child.key = child.keys.key(child.charge);
        child.shares = side.shares;
        node.heap.push_back(c);
    }
    for (std::size_t i = node.heap.size() / 2; i-- > 0;) {
        sift_down(tree, node.heap, i);
    }
}

void RankedQueue::open_leaf(const Tree& tree, Leaf& leaf) {
    leaf.rank_class = 0;
    leaf.active.clear();
    leaf.ready = false;
    leaf.charges.clear();
    const bool pooled = standings_->budgets[leaf.budget].pooled;
    for (const MemberJobs& jobs : leaf.members) {
        UInt128 charge = 0;
        if (!pooled && jobs.count > 0) {
            charge = standings_->member(jobs.member).charge_of(tree.kind);
            if (tree.kind == RunKind::allocated && !added_members_.empty()) {
                const auto added = added_members_.find(jobs.member);
                charge += added == added_members_.end() ? 0 : added->second;
            }
        }
        leaf.charges.push_back(charge);
    }
    activate_class(tree, leaf);
}

bool RankedQueue::skip_given(const Leaf&, const MemberJobs& jobs, Head& head) const {
    const auto& list = jobs.lists[head.list];
    while (head.at < list.size() && where_[list[head.at].slot].skipped == stamp_) {
        ++head.at;
    }
    return head.at < list.size();
}

// The users who have jobs of the leaf's present class of team priority.
void RankedQueue::activate_class(const Tree& tree, Leaf& leaf) {
    const std::size_t kind = tree.kind == RunKind::allocated ? kByRank : kByFreeUse;
    const bool pooled = standings_->budgets[leaf.budget].pooled;
    leaf.active.clear();
    for (std::uint32_t m = 0; m < leaf.members.size(); ++m) {
        const MemberJobs& jobs = leaf.members[m];
        if (jobs.count == 0) {
            continue;
        }
        Active active{leaf.charges[m], m, {}, 0};
        const auto add = [&](std::uint32_t list) {
            Head head{list, 0};
            if (!jobs.lists[list].empty() && skip_given(leaf, jobs, head)) {
                active.heads[active.lists++] = head;
            }
        };
        const auto present = static_cast<std::uint32_t>(leaf.rank_class);
        const bool has_raised = !jobs.lists[0].empty() || !jobs.lists[1].empty();
        const bool may = !has_raised || pooled || raises(kind, jobs.member);
        if (present < kNormalClass) {
            if (may) {
                add(present);
            }
        } else {
            add(present);
            if (present == kNormalClass && !may) {
                for (std::uint32_t list = 0; list < kNormalClass; ++list) {
                    add(list);
                }
            }
        }
        if (active.lists > 0) {
            leaf.active.push_back(active);
        }
    }
}

// Finds the leaf's next job. False: it has none left.
bool RankedQueue::prepare_leaf(Tree& tree, Leaf& leaf) {
    if (leaf.ready) {
        return true;
    }
    while (leaf.active.empty()) {
        if (++leaf.rank_class >= kClasses) {
            return false;
        }
        activate_class(tree, leaf);
    }
    const bool pooled = standings_->budgets[leaf.budget].pooled;
    bool found = false;
    const Queued* best = nullptr;
    for (std::uint32_t a = 0; a < leaf.active.size(); ++a) {
        const Active& active = leaf.active[a];
        const MemberJobs& jobs = leaf.members[active.member];
        std::uint32_t first = 0;
        const Queued* head = &jobs.lists[active.heads[0].list][active.heads[0].at];
        for (std::uint32_t h = 1; h < active.lists; ++h) {
            const Queued* other = &jobs.lists[active.heads[h].list][active.heads[h].at];
            if (*other < *head) {
                head = other;
                first = h;
            }
        }
        bool better = !found;
        if (found && pooled) {
            better = *head < *best;
        } else if (found) {
            const UInt128 theirs = leaf.active[leaf.best].charge;
            better = active.charge != theirs ? active.charge < theirs
                                             : std::tie(head->first_submit_at, head->order) <
                                                   std::tie(best->first_submit_at, best->order);
        }
        if (better) {
            found = true;
            best = head;
            leaf.best = a;
            leaf.best_head = first;
        }
    }
    leaf.ready = true;
    return true;
}

bool RankedQueue::prepare(Tree& tree, std::uint32_t n) {
    if (tree.nodes[n].jobs == 0) {
        return false;
    }
    if (tree.nodes[n].stamp != stamp_) {
        open(tree, n);
    }
    if (tree.nodes[n].children.empty()) {
        return tree.nodes[n].leaf != kNoId && prepare_leaf(tree, tree.leaves[tree.nodes[n].leaf]);
    }
    std::vector<std::uint32_t>& heap = tree.nodes[n].heap;
    while (!heap.empty()) {
        if (prepare(tree, heap[0])) {
            return true;
        }
        heap[0] = heap.back();
        heap.pop_back();
        sift_down(tree, heap, 0);
    }
    return false;
}

// Of a node that is prepared.
const RankedQueue::Queued& RankedQueue::head_of(const Tree& tree, std::uint32_t n) const {
    const SideNode* node = &tree.nodes[n];
    while (!node->children.empty()) {
        node = &tree.nodes[node->heap[0]];
    }
    const Leaf& leaf = tree.leaves[node->leaf];
    const Active& active = leaf.active[leaf.best];
    const Head& head = active.heads[leaf.best_head];
    return leaf.members[active.member].lists[head.list][head.at];
}

// Takes the head of a prepared node; what it counts, times the window.
UInt128 RankedQueue::pop(Tree& tree, std::uint32_t n, RankedEntry& entry) {
    SideNode& node = tree.nodes[n];
    if (node.children.empty()) {
        Leaf& leaf = tree.leaves[node.leaf];
        Active& active = leaf.active[leaf.best];
        Head& head = active.heads[leaf.best_head];
        const MemberJobs& jobs = leaf.members[active.member];
        const Queued& item = jobs.lists[head.list][head.at];
        const UInt128 amount = times_window(item.amount);
        entry.job = item.slot;
        entry.side = node.side;
        entry.tag_charge = node.charge;
        entry.tag_entitlement = node.entitlement;
        active.charge += amount;
        leaf.charges[active.member] = active.charge;
        ++head.at;
        if (!skip_given(leaf, jobs, head)) {
            head = active.heads[--active.lists];
            if (active.lists == 0) {
                active = leaf.active.back();
                leaf.active.pop_back();
            }
        }
        leaf.ready = false;
        return amount;
    }
    const std::uint32_t c = node.heap[0];
    const UInt128 amount = pop(tree, c, entry);
    SideNode& child = tree.nodes[c];
    if (amount != 0) {
        child.charge += amount;
        child.key = child.keys.key(child.charge);
    }
    if (prepare(tree, c)) {
        sift_down(tree, node.heap, 0);
    } else {
        node.heap[0] = node.heap.back();
        node.heap.pop_back();
        sift_down(tree, node.heap, 0);
    }
    return amount;
}

void RankedQueue::sift_down(Tree& tree, std::vector<std::uint32_t>& heap, std::size_t hole) {
    if (hole >= heap.size()) {
        return;
    }
    const std::uint32_t moved = heap[hole];
    for (;;) {
        std::size_t child = 2 * hole + 1;
        if (child >= heap.size()) {
            break;
        }
        if (child + 1 < heap.size() && goes_first(tree, heap[child + 1], heap[child])) {
            ++child;
        }
        if (!goes_first(tree, heap[child], moved)) {
            break;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

bool RankedQueue::goes_first(Tree& tree, std::uint32_t a, std::uint32_t b) {
    {
        const SideNode& x = tree.nodes[a];
        const SideNode& y = tree.nodes[b];
        if (x.key + kKeySlack < y.key) {
            return true;
        }
        if (y.key + kKeySlack < x.key) {
            return false;
        }
        const auto order = compare_ratio(x.charge, x.entitlement, y.charge, y.entitlement);
        if (order != 0) {
            return order < 0;
        }
        if (x.shares != y.shares) {
            return x.shares > y.shares;
        }
    }
    if (!prepare(tree, b)) {
        return true;
    }
    if (!prepare(tree, a)) {
        return false;
    }
    const std::int64_t submit_a = head_of(tree, a).first_submit_at;
    const std::int64_t submit_b = head_of(tree, b).first_submit_at;
    if (submit_a != submit_b) {
        return submit_a < submit_b;
    }
    const SideId side_a = tree.nodes[a].side, side_b = tree.nodes[b].side;
    const std::string& name_a = standings_->budgets[side_a / 2].name;
    const std::string& name_b = standings_->budgets[side_b / 2].name;
    return std::tie(name_a, side_a) < std::tie(name_b, side_b);
}

}  // namespace tranche
