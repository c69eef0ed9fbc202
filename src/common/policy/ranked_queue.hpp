// SPDX-License-Identifier: GPL-2.0-or-later
// The pending jobs in a form from which the ranked queue can be taken job by job, best first,
// without ordering all of it: the same order as rank_queue() (a property test holds the two
// together).
//
// Jobs are governed ones of one task, told apart by their slot in ClusterView::pending. Cost:
// insert and erase O(log jobs of the user) and little else; a walk O(sides of the top level), then
// O(levels x log siblings + users of the budget) a job.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"
#include "common/policy/classes.hpp"
#include "common/policy/pass.hpp"
#include "common/policy/ranking.hpp"
#include "common/policy/ratio_key.hpp"

namespace tranche {

class RankedQueue : public RankSource, public RaiseRights {
  public:
    // All outlive this; `view.pending` holds the jobs.
    RankedQueue(const ClusterView& view, const Settings& settings,
                const std::vector<std::uint32_t>& express_runs);

    // What is_allocated() says of it must hold until it is erased. A job that could not start if
    // there were room, and one whose plan stands, is not inserted.
    // `colour` and `kind`: see WantedJobs.
    void insert(std::uint32_t slot, bool allocated, std::uint8_t colour, std::uint32_t kind,
                const Standings& standings);
    void erase(std::uint32_t slot);
    void clear();
    // One more or less pending job of that member, inserted or not (RaisedShare).
    void count_pending(MemberId member, std::int32_t change);
    std::size_t size() const noexcept { return where_count_; }

    // Begins at the top, by these numbers, which must stay as they are but for what is placed.
    void begin(Standings& standings);
    bool next(RankedEntry& entry) override;
    void show_only(const WantedJobs* wanted) override { wanted_ = wanted; }
    bool may_raise(MemberId member) override { return raises(kByCharge, member); }

  private:
    // By what RaisedShare is judged: the allocated charge, the same with what express jobs of this
    // walk add, or free use.
    static constexpr std::size_t kByCharge = 0, kByRank = 1, kByFreeUse = 2, kRaiseKinds = 3;
    bool raises(std::size_t kind, MemberId member);
    UInt128 raise_charge(std::size_t kind, MemberId member);

    struct Queued {
        std::int64_t nice;
        std::int64_t first_submit_at;
        std::uint64_t order;
        UInt128 amount;  // what it counts when placed, without the window's length
        std::int64_t contract_seconds;
        std::uint32_t slot;
        std::uint32_t kind;
        std::uint8_t colour;

        bool operator<(const Queued& other) const noexcept {
            return std::tie(nice, first_submit_at, order) <
                   std::tie(other.nice, other.first_submit_at, other.order);
        }
    };
    // Sorted jobs in blocks that can be passed over as a whole.
    struct Block {
        std::vector<Queued> jobs;
        UInt128 amount = 0;
        std::uint64_t colours = 0;
        std::uint64_t given = 0;  // stamp of the walk that gave out one of them as an express one
    };
    struct Head {
        std::uint32_t block = 0, at = 0;
    };
    class List {
      public:
        void insert(const Queued& item);
        void erase(const Queued& item);
        Head find(const Queued& item) const;
        bool empty() const noexcept { return blocks.empty(); }
        bool ends(const Head& head) const noexcept { return head.block >= blocks.size(); }
        const Queued& at(const Head& head) const { return blocks[head.block].jobs[head.at]; }
        void step(Head& head) const {
            if (++head.at >= blocks[head.block].jobs.size()) {
                ++head.block;
                head.at = 0;
            }
        }
        std::vector<Block> blocks;
    };
    static constexpr std::size_t kClasses = 4;  // urgent, high, normal, low
    struct MemberJobs {
        MemberId member = 0;
        List lists[kClasses];
        std::size_t count = 0;
    };
    // One list of a user at work, its head at the next job that is wanted.
    struct Strand {
        std::uint32_t list = 0;
        Head head;
    };
    struct Active {
        UInt128 charge;        // with all that was passed
        std::uint32_t member;  // into Leaf::members
        Strand strands[kClasses];
        std::uint32_t count = 0;
        // The next wanted job: of which strand, and what stands before it.
        bool sought = false;
        std::uint32_t strand = 0;
        Head found;
        UInt128 before = 0;
    };
    struct Leaf {
        BudgetId budget;
        std::vector<MemberJobs> members;
        std::unordered_map<MemberId, std::uint32_t> by_member;
        std::size_t of_no_amount = 0;  // jobs that count nothing when placed
        // Of the walk:
        std::size_t rank_class = 0;
        std::vector<UInt128> charges;  // by place in members
        std::vector<Active> active;
        std::uint32_t best = 0;
        std::uint64_t sought_for = 0;  // version of what was wanted
        bool ready = false;            // `best` has the next job
    };
    struct SideNode {
        SideId side = kNoId;
        std::uint32_t parent = kNoId;
        std::uint32_t leaf = kNoId;
        std::size_t jobs = 0;  // below
        std::vector<std::uint32_t> children;
        // Of the walk:
        std::uint64_t stamp = 0;
        bool prepared = false;
        UInt128 charge = 0, entitlement = 0, keys_of = 0;
        KeyMaker keys;
        RatioKey key = 0;
        std::uint32_t shares = 0;
        std::vector<std::uint32_t> heap;
    };
    struct Tree {
        RunKind kind = RunKind::allocated;
        std::vector<SideNode> nodes;  // 0: the root
        std::vector<Leaf> leaves;
        std::unordered_map<SideId, std::uint32_t> by_side;
        std::unordered_map<BudgetId, std::uint32_t> leaf_of;
    };
    struct Where {
        std::uint32_t tree = kNoId, leaf = 0, node = 0, member = 0, list = 0;
        bool lane = false;
        std::uint64_t skipped = 0;  // stamp of the walk that gave it out as an express one
    };

    std::uint32_t node_of(Tree& tree, BudgetId budget, const Standings& standings);
    Queued queued(std::uint32_t slot, bool allocated) const;
    void begin_lane();
    void open(Tree& tree, std::uint32_t node);
    void open_leaf(const Tree& tree, Leaf& leaf);
    std::uint64_t colours_wanted(const Tree& tree, std::uint32_t node) const;
    bool prepare(Tree& tree, std::uint32_t node);
    bool prepare_leaf(const Tree& tree, Leaf& leaf, std::uint64_t colours, UInt128& passed);
    void activate_class(const Tree& tree, Leaf& leaf);
    bool seek(const Leaf& leaf, Active& active, std::uint64_t colours) const;
    UInt128 pass_before(const Leaf& leaf, Active& active, const Queued& item, UInt128 tag,
                        bool pooled);
    UInt128 pass_all(const Leaf& leaf, Active& active);
    bool is_wanted(const Queued& item, std::uint64_t colours) const {
        return (colours >> item.colour & 1) != 0 &&
               (wanted_ == nullptr || item.kind >= wanted_->too_long.size() ||
                item.contract_seconds < wanted_->too_long[item.kind]);
    }
    bool is_given(const Queued& item) const { return where_[item.slot].skipped == stamp_; }
    bool is_refined(Tree& tree, std::uint32_t node) const;
    const Queued& head_of(const Tree& tree, std::uint32_t node) const;
    UInt128 pop(Tree& tree, std::uint32_t node, RankedEntry& entry);
    bool goes_first(Tree& tree, std::uint32_t a, std::uint32_t b);
    void sift_down(Tree& tree, std::vector<std::uint32_t>& heap, std::size_t hole);
    UInt128 times_window(UInt128 amount) const noexcept {
        return amount * static_cast<UInt128>(standings_->window.length_seconds);
    }

    const ClusterView& view_;
    const Settings& settings_;
    const std::vector<std::uint32_t>& express_runs_;
    Standings* standings_ = nullptr;
    const WantedJobs* wanted_ = nullptr;
    Tree trees_[2];
    std::vector<Where> where_;  // by slot
    std::size_t where_count_ = 0;
    std::set<std::tuple<std::int64_t, std::uint64_t, std::uint32_t>> lane_;  // submit, order, slot

    std::uint64_t stamp_ = 0;
    std::size_t next_plan_ = 0, next_express_ = 0;
    std::uint32_t tree_ = 0;  // of the walk
    bool lane_done_ = false;
    std::vector<std::uint32_t> express_;
    std::unordered_map<SideId, UInt128> added_sides_;
    std::unordered_map<MemberId, UInt128> added_members_;
    // RaisedShare:
    std::vector<std::vector<MemberId>> members_of_;  // by budget
    std::size_t members_known_ = 0;
    std::vector<std::uint32_t> pending_of_;  // by member
    std::vector<std::uint64_t> raise_stamps_[kRaiseKinds];
    std::vector<bool> raises_[kRaiseKinds];
};

}  // namespace tranche
