// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/queue_index.hpp"

#include <algorithm>

namespace tranche::sim {

void QueueIndex::List::set(std::size_t leaf, std::int64_t seconds) {
    std::size_t node = leaves + leaf;
    least[node] = seconds;
    for (node /= 2; node > 0; node /= 2) {
        const std::int64_t value = std::min(least[2 * node], least[2 * node + 1]);
        if (least[node] == value) {
            break;
        }
        least[node] = value;
    }
}

void QueueIndex::List::grow() {
    const std::size_t larger = std::max<std::size_t>(2 * leaves, 8);
    std::vector<std::int64_t> tree(2 * larger, kNever);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        tree[larger + i] = least[leaves + i];
    }
    for (std::size_t node = larger - 1; node > 0; --node) {
        tree[node] = std::min(tree[2 * node], tree[2 * node + 1]);
    }
    leaves = larger;
    least = std::move(tree);
}

std::size_t QueueIndex::List::find(std::int64_t seconds) const {
    if (count == 0 || least[1] > seconds) {
        return leaves;
    }
    std::size_t node = 1;
    while (node < leaves) {
        node = least[2 * node] <= seconds ? 2 * node : 2 * node + 1;
    }
    return node - leaves;
}

std::uint32_t QueueIndex::list_of(const GangShape& shape, std::uint32_t lane) {
    const auto it = std::find_if(shapes_.begin(), shapes_.end(),
                                 [&shape](const Shape& each) { return each.shape == shape; });
    const auto index = static_cast<std::size_t>(it - shapes_.begin());
    if (it == shapes_.end()) {
        shapes_.emplace_back();
        shapes_.back().shape = shape;
    }
    Shape& found = shapes_[index];
    if (found.by_lane.size() <= lane) {
        found.by_lane.resize(lane + 1, kNone);
    }
    if (found.by_lane[lane] == kNone) {
        found.by_lane[lane] = static_cast<std::uint32_t>(lists_.size());
        lists_.emplace_back();
        lists_.back().shape = static_cast<std::uint32_t>(index);
        lists_.back().lane = lane;
    }
    return found.by_lane[lane];
}

void QueueIndex::put(JobIndex job, const GangShape& shape, std::uint32_t lane, std::int64_t seconds,
                     bool behind) {
    if (spots_.size() <= job) {
        spots_.resize(std::max<std::size_t>(job + 1, spots_.size() * 2));
    }
    Spot& spot = spots_[job];
    if (spot.list == kNone || behind) {
        spot.list = list_of(shape, lane);
        List& list = lists_[spot.list];
        if (list.jobs.size() == list.leaves) {
            list.grow();
        }
        spot.leaf = static_cast<std::uint32_t>(list.jobs.size());
        list.jobs.push_back(job);
        list.places.push_back(next_place_++);
    }
    List& list = lists_[spot.list];
    Shape& whole = shapes_[list.shape];
    list.set(spot.leaf, std::min(seconds, kNever - 1));
    if (list.count++ == 0) {
        list.place_in_active = static_cast<std::uint32_t>(whole.active.size());
        whole.active.push_back(spot.list);
    }
    ++whole.count;
    ++count_;
}

void QueueIndex::remove(JobIndex job) {
    const Spot& spot = spots_[job];
    List& list = lists_[spot.list];
    Shape& whole = shapes_[list.shape];
    list.set(spot.leaf, kNever);
    if (--list.count == 0) {
        const std::uint32_t last = whole.active.back();
        whole.active[list.place_in_active] = last;
        lists_[last].place_in_active = list.place_in_active;
        whole.active.pop_back();
    }
    --whole.count;
    --count_;
}

QueuedJob QueueIndex::first_of_list(const List& list, std::int64_t seconds) const {
    const std::size_t leaf = list.find(seconds);
    return leaf == list.leaves ? QueuedJob{}
                               : QueuedJob{list.jobs[leaf], ranks_[list.lane], list.places[leaf]};
}

QueuedJob QueueIndex::first(std::size_t shape, std::int64_t seconds) const {
    QueuedJob best;
    seconds = std::min(seconds, kNever - 1);
    for (const std::uint32_t index : shapes_[shape].active) {
        const List& list = lists_[index];
        if (best && ranks_[list.lane] > best.rank) {
            continue;
        }
        const QueuedJob job = first_of_list(list, seconds);
        if (job && (!best || job < best)) {
            best = job;
        }
    }
    return best;
}

QueuedJob QueueIndex::first_of_lane(std::size_t shape, std::uint32_t lane) const {
    const Shape& whole = shapes_[shape];
    if (lane >= whole.by_lane.size() || whole.by_lane[lane] == kNone) {
        return {};
    }
    return first_of_list(lists_[whole.by_lane[lane]], kNever - 1);
}

}  // namespace tranche::sim
