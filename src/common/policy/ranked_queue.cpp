// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/ranked_queue.hpp"

#include <algorithm>

namespace tranche {
namespace {

constexpr std::uint32_t kAllocatedTree = 0, kFreeTree = 1;
constexpr std::size_t kBlock = 96;  // jobs of a full block
constexpr std::uint64_t kAllColours = ~std::uint64_t{0};

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
    const std::int64_t seconds = !settings_.has(Rule::progressive) ? 0
                                 : !allocated                      ? kFreeJobSeconds
                                 : settings_.commitments           ? job.contract_seconds()
                                                                   : 0;
    return {job.nice,
            job.first_submit_at,
            job.order_key(),
            static_cast<UInt128>(std::max<std::int64_t>(seconds, 0)) *
                static_cast<UInt128>(job.weight_milli),
            job.contract_seconds(),
            slot,
            0,
            0};
}

void RankedQueue::List::insert(const Queued& item) {
    auto block = std::partition_point(blocks.begin(), blocks.end(),
                                      [&](const Block& b) { return b.jobs.back() < item; });
    if (block == blocks.end()) {
        if (blocks.empty() || blocks.back().jobs.size() >= kBlock) {
            blocks.emplace_back();
        }
        block = blocks.end() - 1;
    }
    block->jobs.insert(std::upper_bound(block->jobs.begin(), block->jobs.end(), item), item);
    block->amount += item.amount;
    block->colours |= std::uint64_t{1} << item.colour;
    if (block->jobs.size() > 2 * kBlock) {
        Block second;
        second.jobs.assign(block->jobs.begin() + kBlock, block->jobs.end());
        block->jobs.resize(kBlock);
        for (Block* half : {&*block, &second}) {
            half->amount = 0;
            half->colours = 0;
            for (const Queued& job : half->jobs) {
                half->amount += job.amount;
                half->colours |= std::uint64_t{1} << job.colour;
            }
        }
        blocks.insert(block + 1, std::move(second));
    }
}

RankedQueue::Head RankedQueue::List::find(const Queued& item) const {
    const auto block = std::partition_point(blocks.begin(), blocks.end(),
                                            [&](const Block& b) { return b.jobs.back() < item; });
    const auto job = std::lower_bound(block->jobs.begin(), block->jobs.end(), item);
    return {static_cast<std::uint32_t>(block - blocks.begin()),
            static_cast<std::uint32_t>(job - block->jobs.begin())};
}

void RankedQueue::List::erase(const Queued& item) {
    Head head = find(item);
    while (at(head).slot != item.slot) {
        step(head);
    }
    Block& block = blocks[head.block];
    block.jobs.erase(block.jobs.begin() + head.at);
    if (block.jobs.empty()) {
        blocks.erase(blocks.begin() + head.block);
        return;
    }
    block.amount -= item.amount;
    block.colours = 0;
    for (const Queued& job : block.jobs) {
        block.colours |= std::uint64_t{1} << job.colour;
    }
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

void RankedQueue::insert(std::uint32_t slot, bool allocated, std::uint8_t colour,
                         std::uint32_t kind, const Standings& standings) {
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
    Queued item = queued(slot, allocated);
    item.colour = colour;
    item.kind = kind;
    jobs.lists[where.list].insert(item);
    ++jobs.count;
    leaf.of_no_amount += item.amount == 0 ? 1 : 0;
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
    Leaf& leaf = tree.leaves[where.leaf];
    MemberJobs& jobs = leaf.members[where.member];
    const Queued item = queued(slot, where.tree == kAllocatedTree);
    jobs.lists[where.list].erase(item);
    --jobs.count;
    leaf.of_no_amount -= item.amount == 0 ? 1 : 0;
    for (std::uint32_t n = where.node; n != kNoId; n = tree.nodes[n].parent) {
        --tree.nodes[n].jobs;
    }
    if (where.lane) {
        lane_.erase({job.first_submit_at, job.order_key(), slot});
    }
}

void RankedQueue::begin(Standings& standings) {
    standings_ = &standings;
    wanted_ = nullptr;
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
        lane.add_ranked(user, job.shape.gpus);
        express_.push_back(slot);
        where_[slot].skipped = stamp_;
        const Where& where = where_[slot];
        List& list = trees_[where.tree].leaves[where.leaf].members[where.member].lists[where.list];
        list.blocks[list.find(queued(slot, true)).block].given = stamp_;
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
    node.prepared = false;
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
        child.charge = side.charge_of(ordering_use(tree.kind, settings_));
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
            charge = standings_->member(jobs.member).charge_of(ordering_use(tree.kind, settings_));
            if (tree.kind == RunKind::allocated && !added_members_.empty()) {
                const auto added = added_members_.find(jobs.member);
                charge += added == added_members_.end() ? 0 : added->second;
            }
        }
        leaf.charges.push_back(charge);
    }
    activate_class(tree, leaf);
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
        Active active;
        active.charge = leaf.charges[m];
        active.member = m;
        const auto add = [&](std::uint32_t list) {
            if (!jobs.lists[list].empty()) {
                active.strands[active.count++].list = list;
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
        if (active.count > 0) {
            leaf.active.push_back(active);
        }
    }
}

// Finds the user's next wanted job; what stands before it goes into `before`. False: none.
bool RankedQueue::seek(const Leaf& leaf, Active& active, std::uint64_t colours) const {
    const MemberJobs& jobs = leaf.members[active.member];
    active.before = 0;
    if (active.count == 1) {
        const List& list = jobs.lists[active.strands[0].list];
        Head head = active.strands[0].head;
        while (!list.ends(head)) {
            const Block& block = list.blocks[head.block];
            if (head.at == 0 && (block.colours & colours) == 0 && block.given != stamp_) {
                active.before += block.amount;
                ++head.block;
                continue;
            }
            const Queued& item = list.at(head);
            if (!is_given(item)) {
                if (is_wanted(item, colours)) {
                    active.strand = 0;
                    active.found = head;
                    return true;
                }
                active.before += item.amount;
            }
            list.step(head);
        }
        return false;
    }
    // Jobs lowered to normal among the normal ones: step by step.
    Strand strands[kClasses];
    std::copy(active.strands, active.strands + active.count, strands);
    for (;;) {
        const Queued* first = nullptr;
        std::uint32_t which = 0;
        for (std::uint32_t s = 0; s < active.count; ++s) {
            const List& list = jobs.lists[strands[s].list];
            if (!list.ends(strands[s].head) &&
                (first == nullptr || list.at(strands[s].head) < *first)) {
                first = &list.at(strands[s].head);
                which = s;
            }
        }
        if (first == nullptr) {
            return false;
        }
        if (!is_given(*first)) {
            if (is_wanted(*first, colours)) {
                active.strand = which;
                active.found = strands[which].head;
                return true;
            }
            active.before += first->amount;
        }
        jobs.lists[strands[which].list].step(strands[which].head);
    }
}

// Passes the user's jobs that stand before that one: those with a smaller tag, or in a pooled
// budget those earlier in the common order. What they count.
UInt128 RankedQueue::pass_before(const Leaf& leaf, Active& active, const Queued& item, UInt128 tag,
                                 bool pooled) {
    const MemberJobs& jobs = leaf.members[active.member];
    UInt128 passed = 0;
    const auto is_before = [&](const Queued& job, UInt128 charge) {
        if (pooled) {
            return job < item;
        }
        return charge != tag ? charge < tag
                             : std::tie(job.first_submit_at, job.order) <
                                   std::tie(item.first_submit_at, item.order);
    };
    for (;;) {
        std::uint32_t which = 0;
        const Queued* first = nullptr;
        for (std::uint32_t s = 0; s < active.count; ++s) {
            const List& list = jobs.lists[active.strands[s].list];
            if (!list.ends(active.strands[s].head) &&
                (first == nullptr || list.at(active.strands[s].head) < *first)) {
                first = &list.at(active.strands[s].head);
                which = s;
            }
        }
        if (first == nullptr) {
            break;
        }
        const List& list = jobs.lists[active.strands[which].list];
        Head& head = active.strands[which].head;
        const Block& block = list.blocks[head.block];
        if (head.at == 0 && active.count == 1 && block.given != stamp_) {
            // All of it, if the last is: tags rise. Equal ones are told apart job by job.
            const Queued& last = block.jobs.back();
            if (pooled ? last < item
                       : active.charge + times_window(block.amount - last.amount) < tag) {
                passed += block.amount;
                active.charge += times_window(block.amount);
                ++head.block;
                continue;
            }
        }
        if (!is_given(*first)) {
            if (!is_before(*first, active.charge)) {
                break;
            }
            passed += first->amount;
            active.charge += times_window(first->amount);
        }
        list.step(head);
    }
    return passed;
}

// Passes all that is left of the user's present lists.
UInt128 RankedQueue::pass_all(const Leaf& leaf, Active& active) {
    const MemberJobs& jobs = leaf.members[active.member];
    UInt128 passed = 0;
    for (std::uint32_t s = 0; s < active.count; ++s) {
        const List& list = jobs.lists[active.strands[s].list];
        Head& head = active.strands[s].head;
        while (!list.ends(head)) {
            const Block& block = list.blocks[head.block];
            if (head.at == 0 && block.given != stamp_) {
                passed += block.amount;
                ++head.block;
                continue;
            }
            passed += is_given(list.at(head)) ? 0 : list.at(head).amount;
            list.step(head);
        }
    }
    active.charge += times_window(passed);
    return passed;
}

// Finds the leaf's next wanted job and passes what stands before it. False: it has none left.
bool RankedQueue::prepare_leaf(const Tree& tree, Leaf& leaf, std::uint64_t colours,
                               UInt128& passed) {
    const std::uint64_t version = wanted_ == nullptr ? 0 : wanted_->version;
    if (leaf.ready && leaf.sought_for == version) {
        return true;
    }
    if (leaf.sought_for != version) {
        leaf.sought_for = version;
        for (Active& active : leaf.active) {
            active.sought = false;
        }
    }
    leaf.ready = false;
    const bool pooled = standings_->budgets[leaf.budget].pooled;
    for (;;) {
        const Queued* best = nullptr;
        UInt128 best_tag = 0;
        for (std::uint32_t a = 0; a < leaf.active.size();) {
            Active& active = leaf.active[a];
            if (!active.sought) {
                if (!seek(leaf, active, colours)) {
                    // Nothing of his is wanted, but it counts where it stands.
                    active.sought = true;
                    active.strand = kNoId;
                } else {
                    active.sought = true;
                }
            }
            if (active.strand != kNoId) {
                const MemberJobs& jobs = leaf.members[active.member];
                const Queued& item =
                    jobs.lists[active.strands[active.strand].list].at(active.found);
                const UInt128 tag = active.charge + times_window(active.before);
                bool better = best == nullptr;
                if (best != nullptr && pooled) {
                    better = item < *best;
                } else if (best != nullptr) {
                    better = tag != best_tag ? tag < best_tag
                                             : std::tie(item.first_submit_at, item.order) <
                                                   std::tie(best->first_submit_at, best->order);
                }
                if (better) {
                    best = &item;
                    best_tag = tag;
                    leaf.best = a;
                }
            }
            ++a;
        }
        if (best != nullptr) {
            for (std::uint32_t a = 0; a < leaf.active.size(); ++a) {
                Active& active = leaf.active[a];
                UInt128 before = 0;
                if (a == leaf.best) {
                    before = active.before;
                    active.charge += times_window(before);
                    active.before = 0;
                    if (active.count == 1) {
                        active.strands[0].head = active.found;
                    } else {
                        const MemberJobs& jobs = leaf.members[active.member];
                        for (std::uint32_t s = 0; s < active.count; ++s) {
                            const List& list = jobs.lists[active.strands[s].list];
                            Head& head = active.strands[s].head;
                            while (!list.ends(head) && list.at(head) < *best) {
                                list.step(head);
                            }
                        }
                    }
                } else {
                    before = pass_before(leaf, active, *best, best_tag, pooled);
                    active.before -= active.strand == kNoId ? 0 : before;
                }
                passed += before;
            }
            leaf.ready = true;
            return true;
        }
        for (Active& active : leaf.active) {
            passed += pass_all(leaf, active);
            leaf.charges[active.member] = active.charge;
        }
        if (++leaf.rank_class >= kClasses) {
            leaf.active.clear();
            return false;
        }
        activate_class(tree, leaf);
    }
}

// What is not wanted is passed over at once only in leaves directly below the root (elsewhere the
// order of a whole level depends on it), and only where every job counts something: among jobs
// that count nothing users take turns by their first jobs alone.
std::uint64_t RankedQueue::colours_wanted(const Tree& tree, std::uint32_t n) const {
    const SideNode& node = tree.nodes[n];
    if (wanted_ == nullptr || wanted_->everything || node.parent != 0 ||
        tree.leaves[node.leaf].of_no_amount > 0) {
        return kAllColours;
    }
    if (tree.kind != RunKind::allocated) {
        return wanted_->unallocated;
    }
    const BudgetId budget = tree.leaves[node.leaf].budget;
    return budget < wanted_->allocated.size() ? wanted_->allocated[budget] : 0;
}

// Whether the node's next wanted job is known.
bool RankedQueue::is_refined(Tree& tree, std::uint32_t n) const {
    const SideNode& node = tree.nodes[n];
    if (node.stamp != stamp_ || !node.prepared) {
        return false;
    }
    return !node.children.empty() ||
           tree.leaves[node.leaf].sought_for == (wanted_ == nullptr ? 0 : wanted_->version);
}

// Afterwards the node's charge is the tag of its next job. False: it has none.
bool RankedQueue::prepare(Tree& tree, std::uint32_t n) {
    if (tree.nodes[n].jobs == 0) {
        return false;
    }
    if (tree.nodes[n].children.empty()) {
        if (tree.nodes[n].leaf == kNoId) {
            return false;
        }
        const std::uint64_t colours = colours_wanted(tree, n);
        if (colours == 0) {
            return false;
        }
        if (tree.nodes[n].stamp != stamp_) {
            open(tree, n);
        }
        UInt128 passed = 0;
        const bool more = prepare_leaf(tree, tree.leaves[tree.nodes[n].leaf], colours, passed);
        if (passed != 0) {
            SideNode& node = tree.nodes[n];
            node.charge += times_window(passed);
            node.key = node.keys.key(node.charge);
        }
        tree.nodes[n].prepared = more;
        return more;
    }
    if (tree.nodes[n].stamp != stamp_) {
        open(tree, n);
    }
    std::vector<std::uint32_t>& heap = tree.nodes[n].heap;
    while (!heap.empty()) {
        // A leaf's key may be that of jobs which are not wanted: it can only grow.
        const std::uint32_t top = heap[0];
        if (is_refined(tree, top)) {
            tree.nodes[n].prepared = true;
            return true;
        }
        if (!prepare(tree, top)) {
            heap[0] = heap.back();
            heap.pop_back();
            sift_down(tree, heap, 0);
            continue;
        }
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
    return leaf.members[active.member].lists[active.strands[active.strand].list].at(active.found);
}

// Takes the head of a prepared node; what it counts, times the window.
UInt128 RankedQueue::pop(Tree& tree, std::uint32_t n, RankedEntry& entry) {
    SideNode& node = tree.nodes[n];
    node.prepared = false;
    if (node.children.empty()) {
        Leaf& leaf = tree.leaves[node.leaf];
        Active& active = leaf.active[leaf.best];
        Strand& strand = active.strands[active.strand];
        const List& list = leaf.members[active.member].lists[strand.list];
        const Queued& item = list.at(active.found);
        const UInt128 amount = times_window(item.amount);
        entry.job = item.slot;
        entry.side = node.side;
        entry.tag_charge = node.charge;
        entry.tag_entitlement = node.entitlement;
        active.charge += amount;
        strand.head = active.found;
        list.step(strand.head);
        active.sought = false;
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
    if (n != 0 && !prepare(tree, c)) {
        node.heap[0] = node.heap.back();
        node.heap.pop_back();
    }
    sift_down(tree, node.heap, 0);
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
        if (x.shares != y.shares && settings_.has(Rule::ties)) {
            return x.shares > y.shares;
        }
    }
    // One whose next job is not known yet goes first, to be looked at.
    const bool known_a = is_refined(tree, a), known_b = is_refined(tree, b);
    if (!known_a || !known_b) {
        return known_a != known_b ? !known_a : tree.nodes[a].side < tree.nodes[b].side;
    }
    const std::int64_t submit_a = head_of(tree, a).first_submit_at;
    const std::int64_t submit_b = head_of(tree, b).first_submit_at;
    if (submit_a != submit_b && settings_.has(Rule::ties)) {
        return submit_a < submit_b;
    }
    const SideId side_a = tree.nodes[a].side, side_b = tree.nodes[b].side;
    const std::string& name_a = standings_->budgets[side_a / 2].name;
    const std::string& name_b = standings_->budgets[side_b / 2].name;
    return std::tie(name_a, side_a) < std::tie(name_b, side_b);
}

}  // namespace tranche
