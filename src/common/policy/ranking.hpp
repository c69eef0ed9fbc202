// SPDX-License-Identifier: GPL-2.0-or-later
// The queue's order: progressive, hierarchical, a strict total order in exact integers
// (DESIGN 2.4).
//
// At each level the side with the smaller ratio goes first; a placed job's commitment counts on
// its side before the next is chosen. Inside a budget: team priority, then the user with the
// smaller charge (unless pooled), then nice, first submission and job id.
//
// Cost: O(jobs x levels x log(siblings)). The order of the input does not matter.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/settings.hpp"
#include "common/model/cluster.hpp"

namespace tranche {

enum class Band : std::uint8_t { plan, express, allocated, unallocated };

struct RankedEntry {
    std::uint32_t job = 0;         // index into ClusterView::pending
    std::uint32_t first_task = 0;  // of an array's pending tasks, in their order
    std::uint32_t tasks = 1;       // consecutive ones that stand before the next other job
    Band band = Band::unallocated;
    bool counts = true;  // it could start if there were room, so its commitment was added
    // The side it competed on at its own budget's level, as it was before this job was placed.
    SideId side = kNoId;
    UInt128 tag_charge = 0;
    UInt128 tag_entitlement = 0;
};

// Which jobs a reader of the ranked queue wants to see: by colour, a number below 64 that the host
// gave each kind of job. All others are passed over, counted as they are passed.
struct WantedJobs {
    std::vector<std::uint64_t> allocated;  // by BudgetId: a bit each colour
    std::uint64_t unallocated = ~std::uint64_t{0};
    // By kind, a number the host gave: contracts as long as this or longer are not wanted.
    std::vector<std::int64_t> too_long;
    bool everything = true;
    std::uint64_t version = 0;  // rises with every change
};

// The ranked queue job by job.
class RankSource {
  public:
    virtual ~RankSource() = default;
    virtual bool next(RankedEntry& entry) = 0;  // false: that was all
    // Read at each next(); it may pass over what is not wanted, or not. What is not wanted now is
    // never wanted later. nullptr: everything is wanted.
    virtual void show_only(const WantedJobs*) {}
};

// All pending jobs, best first. `standings` must hold the commitments of runs and plans.
std::vector<RankedEntry> rank_queue(const ClusterView& view, const Standings& standings,
                                    const Settings& settings);

// Adds the commitments of the view's runs and standing plans; none where Commitments=no.
void add_commitments(Standings& standings, const ClusterView& view, const Settings& settings);

// Slurm priorities for a ranked list: inside the band's range, descending, spaced so that a new
// job rarely changes others. `previous` holds each entry's priority of the last cycle, 0 for none;
// those that still fit are kept. Bands: plan 4000000000, express 3000000000, allocated 2000000000,
// unallocated 1000000000; each below the next one's edge, plan below 4294000000.
std::vector<std::uint32_t> spaced_priorities(const std::vector<Band>& bands,
                                             const std::vector<std::uint32_t>& previous);

std::uint32_t band_floor(Band band) noexcept;

// By whose use jobs of that kind are ordered: free ones by free use.
inline RunKind ordering_use(RunKind kind, const Settings& settings) noexcept {
    return settings.has(Rule::free_use_order) ? kind : RunKind::allocated;
}

}  // namespace tranche
