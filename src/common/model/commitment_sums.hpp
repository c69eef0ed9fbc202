// SPDX-License-Identifier: GPL-2.0-or-later
// What is left of all contracts that run, by side and member, at any instant: between two contract
// ends it falls in a straight line, so two sums hold it.
//
// Cost of a change: O(levels).
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/cluster.hpp"
#include "common/model/standings.hpp"

namespace tranche {

class CommitmentSums {
  public:
    // A run's contract counts until it is removed with the same arguments. `until`: kNever for one
    // whose clock stands still; then `seconds` are left of it.
    void add(const std::vector<SideId>& path, MemberId member, std::int64_t weight_milli,
             std::int64_t until, std::int64_t seconds) {
        change(path, member, weight_milli, until, seconds);
    }
    void remove(const std::vector<SideId>& path, MemberId member, std::int64_t weight_milli,
                std::int64_t until, std::int64_t seconds) {
        change(path, member, -weight_milli, until, seconds);
    }
    void clear() {
        sides_.clear();
        members_.clear();
    }

    // In milli-weighted seconds; the contracts that are over must have been removed.
    UInt128 of_side(SideId side, std::int64_t now) const { return at(sides_, side, now); }
    UInt128 of_member(MemberId member, std::int64_t now) const { return at(members_, member, now); }

  private:
    struct Sum {
        Int128 fixed = 0;         // weight x seconds
        Int128 weight_until = 0;  // weight x instant
        std::int64_t weight = 0;
    };
    static UInt128 at(const std::vector<Sum>& sums, std::uint32_t id, std::int64_t now) {
        if (id >= sums.size()) {
            return 0;
        }
        const Sum& sum = sums[id];
        const Int128 left = sum.fixed + sum.weight_until - Int128{sum.weight} * now;
        return left > 0 ? static_cast<UInt128>(left) : 0;
    }
    static void change(std::vector<Sum>& sums, std::uint32_t id, std::int64_t weight_milli,
                       std::int64_t until, std::int64_t seconds) {
        if (id >= sums.size()) {
            sums.resize(id + 1);
        }
        if (until == kNever) {
            sums[id].fixed += Int128{weight_milli} * seconds;
        } else {
            sums[id].weight_until += Int128{weight_milli} * until;
            sums[id].weight += weight_milli;
        }
    }
    void change(const std::vector<SideId>& path, MemberId member, std::int64_t weight_milli,
                std::int64_t until, std::int64_t seconds) {
        for (const SideId side : path) {
            change(sides_, side, weight_milli, until, seconds);
        }
        change(members_, member, weight_milli, until, seconds);
    }

    std::vector<Sum> sides_, members_;
};

}  // namespace tranche
