// SPDX-License-Identifier: GPL-2.0-or-later
// A record laid out for a picture: bars on GPU rows, and the colours of their teams.
//
// Rows are counted through the nodes in order. Runs without rows of their own are put on the first
// rows that are free.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/record.hpp"

namespace tranche::sim {

inline constexpr std::size_t kHues = 16;
inline constexpr std::size_t kShades = 5;
inline constexpr const char* kNoTeamColour = "#a8a8a8";

// "#599df3". Hues are told apart with the common colour blindnesses as far as 16 can be, and
// begin again with the 17th; none is close to the red of preemptions. Dark text reads on all.
const char* team_colour(std::size_t team, std::size_t shade) noexcept;

// Teams are the budgets that pay for jobs, by name, so that a team has one hue in all pictures of
// one workload; shades go round among the workloads of a team in the order of the jobs.
class TeamColours {
  public:
    static constexpr std::uint32_t kNoTeam = 0xffffffff;

    explicit TeamColours(std::span<const SimRecord* const> records);

    const std::vector<std::string>& teams() const noexcept { return teams_; }
    bool has_jobs_without_team() const noexcept { return without_team_; }
    std::uint32_t team_of(const WorkloadJob& job) const;
    std::uint8_t shade_of(const WorkloadJob& job) const;

  private:
    std::vector<std::string> teams_;
    std::map<std::pair<std::uint32_t, std::string>, std::uint8_t> shades_;
    bool without_team_ = false;
};

// The workload that a job belongs to: its parent, else its array, else user and name, else itself.
std::string workload_of(const WorkloadJob& job);

// One segment on consecutive rows of one node.
struct Bar {
    std::uint32_t segment = 0;
    std::uint32_t row = 0, rows = 1;
    std::int64_t begin_at = 0, end_at = 0;
    std::int64_t open_from = 0;  // may be interrupted from here on; end_at: never
    std::uint32_t team = TeamColours::kNoTeam;
    std::uint8_t shade = 0;
    bool preempted = false;
};

struct Timeline {
    std::vector<std::uint32_t> first_row;  // of each node; one more: of all
    std::vector<Bar> bars;                 // by begin, then row

    std::uint32_t rows() const noexcept { return first_row.back(); }
};

Timeline lay_out(const SimRecord& record, const TeamColours& colours);

std::string_view end_text(SegmentEnd end) noexcept;  // "preempted, queued again"

}  // namespace tranche::sim
