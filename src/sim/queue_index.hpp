// SPDX-License-Identifier: GPL-2.0-or-later
// A queue that finds its best job of a size, and of those its best that is over soon enough,
// without looking at the others.
//
// Jobs are kept by shape and lane. Lanes (a user, a team; one for all) have ranks; of two lanes the
// one of smaller rank goes first, of equal ones, and within a lane, the job that came first.
//
// Cost: put and remove O(log jobs); first() O(lanes with jobs of that shape x log jobs).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/node_pool.hpp"
#include "sim/scheduler.hpp"

namespace tranche::sim {

struct QueuedJob {
    JobIndex job = kNoJob;
    std::uint32_t rank = 0;  // of its lane
    std::uint64_t place = 0;

    explicit operator bool() const noexcept { return job != kNoJob; }
    bool operator<(const QueuedJob& other) const noexcept {  // goes before the other
        return rank != other.rank ? rank < other.rank : place < other.place;
    }
};

class QueueIndex {
  public:
    explicit QueueIndex(std::size_t lanes) : ranks_(lanes, 0) {}

    void set_rank(std::uint32_t lane, std::uint32_t rank) { ranks_[lane] = rank; }
    void add_lane() { ranks_.push_back(0); }
    std::size_t lanes() const noexcept { return ranks_.size(); }

    // At the end of its lane; a job that was there before takes its old place again unless
    // `behind`.
    void put(JobIndex job, const GangShape& shape, std::uint32_t lane, std::int64_t seconds,
             bool behind = false);
    void remove(JobIndex job);
    bool empty() const noexcept { return count_ == 0; }
    std::size_t size() const noexcept { return count_; }

    std::size_t shapes() const noexcept { return shapes_.size(); }
    const GangShape& shape(std::size_t index) const { return shapes_[index].shape; }
    std::size_t jobs_of(std::size_t shape) const { return shapes_[shape].count; }

    // Of that shape the one that goes first, and takes at most that long.
    QueuedJob first(std::size_t shape, std::int64_t seconds) const;
    // The same in one lane.
    QueuedJob first_of_lane(std::size_t shape, std::uint32_t lane) const;

  private:
    // The jobs of one shape in one lane: a tree of the least seconds below each node.
    struct List {
        std::uint32_t shape = 0, lane = 0;
        std::size_t leaves = 0;  // a power of two
        std::vector<std::int64_t> least;
        std::vector<JobIndex> jobs;
        std::vector<std::uint64_t> places;
        std::size_t count = 0;
        std::uint32_t place_in_active = 0;

        void set(std::size_t leaf, std::int64_t seconds);
        void grow();
        std::size_t find(std::int64_t seconds) const;  // `leaves`: none
    };
    struct Shape {
        GangShape shape;
        std::size_t count = 0;
        std::vector<std::uint32_t> active;   // lists with jobs
        std::vector<std::uint32_t> by_lane;  // kNone: none
    };
    struct Spot {
        std::uint32_t list = kNone, leaf = 0;
    };
    static constexpr std::uint32_t kNone = 0xffffffff;

    std::uint32_t list_of(const GangShape& shape, std::uint32_t lane);
    QueuedJob first_of_list(const List& list, std::int64_t seconds) const;

    std::vector<std::uint32_t> ranks_;
    std::vector<Shape> shapes_;
    std::vector<List> lists_;
    std::vector<Spot> spots_;  // by job
    std::uint64_t next_place_ = 0;
    std::size_t count_ = 0;
};

}  // namespace tranche::sim
