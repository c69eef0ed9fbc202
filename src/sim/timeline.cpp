// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>

#include "sim/record_checks.hpp"

namespace tranche::sim {
namespace {

// Chosen in OKLCH one after the other, each as far as can be from those before it, as people with
// full colour vision, deuteranopia and protanopia see them (matrices of Machado and others, 2009);
// the shades of a row differ in lightness. Hues near red are left out.
constexpr const char* kColours[kHues][kShades] = {
    {"#599df3", "#6eadfd", "#5294e6", "#8cbefe", "#a2cafe"},
    {"#c85c87", "#d66e96", "#bc557e", "#e580a6", "#f08eb2"},
    {"#769316", "#86a236", "#6e8a0e", "#95b24f", "#a2be60"},
    {"#d9cf52", "#e8e06c", "#c8bf49", "#f5ed7f", "#bbb242"},
    {"#f1b1f0", "#ffc4fe", "#dfa3de", "#fedafd", "#d097cf"},
    {"#fc915f", "#fea982", "#e78354", "#fdbda0", "#d7784c"},
    {"#72e2c9", "#89f2d9", "#67d1b9", "#9bfee7", "#5fc3ad"},
    {"#986ecd", "#a77eda", "#8f66c1", "#b58fe8", "#c19df2"},
    {"#0997a6", "#36a6b4", "#128d9b", "#51b5c3", "#64c1ce"},
    {"#5ac2d7", "#71d1e5", "#4fb1c5", "#83def1", "#47a4b7"},
    {"#00b785", "#3bc695", "#0dac7d", "#5ad5a6", "#6ee1b3"},
    {"#96c07f", "#a7cf91", "#88af72", "#b4dc9f", "#7da269"},
    {"#a9a5fd", "#bab8ff", "#9a96e9", "#c8c8fd", "#8e8bd8"},
    {"#b99802", "#c8a834", "#ae8f0c", "#d7b851", "#e2c564"},
    {"#b87252", "#c68263", "#ad6a4b", "#d49375", "#e0a084"},
    {"#ca79ca", "#d88ad8", "#bf71bf", "#e79ce6", "#f2aaf2"},
};

// Rows of the segments that bring none: the first that are free, node by node.
class RowFinder {
  public:
    explicit RowFinder(const SimCluster& cluster) {
        for (const SimNode& node : cluster.nodes) {
            free_at_.emplace_back(static_cast<std::size_t>(node.gpus), INT64_MIN);
        }
    }

    // Segments in the order of their begin.
    std::vector<std::uint16_t> find(const SegmentRecord& segment, std::int64_t end_at) {
        std::vector<std::uint16_t> out;
        for (const NodeShare& share : segment.where) {
            if (share.node >= free_at_.size()) {
                out.resize(out.size() + static_cast<std::size_t>(share.gpus), 0);
                continue;
            }
            std::vector<std::int64_t>& free_at = free_at_[share.node];
            std::int64_t wanted = share.gpus;
            for (std::size_t row = 0; row < free_at.size() && wanted > 0; ++row) {
                if (free_at[row] <= segment.begin_at) {
                    free_at[row] = end_at;
                    out.push_back(static_cast<std::uint16_t>(row));
                    --wanted;
                }
            }
            out.resize(out.size() + static_cast<std::size_t>(wanted), 0);
        }
        return out;
    }

  private:
    std::vector<std::vector<std::int64_t>> free_at_;
};

}  // namespace

const char* team_colour(std::size_t team, std::size_t shade) noexcept {
    return team == TeamColours::kNoTeam ? kNoTeamColour : kColours[team % kHues][shade % kShades];
}

std::string workload_of(const WorkloadJob& job) {
    if (!job.parent.empty()) {
        return job.parent;
    }
    if (!job.array.empty()) {
        return job.array;
    }
    return job.name.empty() && job.user.empty() ? job.id : job.user + "\n" + job.name;
}

TeamColours::TeamColours(std::span<const SimRecord* const> records) {
    std::set<std::string> names;
    for (const SimRecord* record : records) {
        for (const JobRecord& job : record->jobs) {
            if (job.job.budget.empty()) {
                without_team_ = true;
            } else {
                names.insert(job.job.budget);
            }
        }
    }
    teams_.assign(names.begin(), names.end());
    std::map<std::uint32_t, std::size_t> counts;
    for (const SimRecord* record : records) {
        for (const JobRecord& job : record->jobs) {
            const std::uint32_t team = team_of(job.job);
            const auto placed = shades_.try_emplace({team, workload_of(job.job)}, std::uint8_t{0});
            if (placed.second) {
                placed.first->second = static_cast<std::uint8_t>(counts[team]++ % kShades);
            }
        }
    }
}

std::uint32_t TeamColours::team_of(const WorkloadJob& job) const {
    const auto found = std::lower_bound(teams_.begin(), teams_.end(), job.budget);
    return found == teams_.end() || *found != job.budget
               ? kNoTeam
               : static_cast<std::uint32_t>(found - teams_.begin());
}

std::uint8_t TeamColours::shade_of(const WorkloadJob& job) const {
    const auto found = shades_.find({team_of(job), workload_of(job)});
    return found == shades_.end() ? std::uint8_t{0} : found->second;
}

Timeline lay_out(const SimRecord& record, const TeamColours& colours) {
    Timeline out;
    std::uint32_t rows = 0;
    for (const SimNode& node : record.cluster.nodes) {
        out.first_row.push_back(rows);
        rows += static_cast<std::uint32_t>(node.gpus);
    }
    out.first_row.push_back(rows);
    struct Colour {
        std::uint32_t team;
        std::uint8_t shade;
    };
    std::vector<Colour> of_job;
    of_job.reserve(record.jobs.size());
    for (const JobRecord& job : record.jobs) {
        of_job.push_back({colours.team_of(job.job), colours.shade_of(job.job)});
    }
    RowFinder finder(record.cluster);
    std::vector<std::uint16_t> found, of_node;
    for (std::size_t i = 0; i < record.segments.size(); ++i) {
        const SegmentRecord& segment = record.segments[i];
        Bar bar;
        bar.segment = static_cast<std::uint32_t>(i);
        bar.begin_at = std::max(segment.begin_at, record.begin_at);
        bar.end_at = end_of(record, segment);
        if (bar.end_at <= bar.begin_at) {
            continue;
        }
        bar.open_from = std::clamp(segment.protected_until, bar.begin_at, bar.end_at);
        bar.team = of_job[segment.job].team;
        bar.shade = of_job[segment.job].shade;
        bar.preempted = segment.end == SegmentEnd::preempted_requeued ||
                        segment.end == SegmentEnd::preempted_ended;
        const bool has_rows = static_cast<std::int64_t>(segment.slots.size()) == gpus_of(segment);
        if (!has_rows) {
            found = finder.find(segment, bar.end_at);
        }
        const std::vector<std::uint16_t>& slots = has_rows ? segment.slots : found;
        std::size_t at = 0;
        for (const NodeShare& share : segment.where) {
            const std::size_t until = at + static_cast<std::size_t>(share.gpus);
            of_node.assign(slots.begin() + static_cast<std::ptrdiff_t>(at),
                           slots.begin() + static_cast<std::ptrdiff_t>(until));
            at = until;
            if (share.node >= record.cluster.nodes.size()) {
                continue;
            }
            std::sort(of_node.begin(), of_node.end());
            const auto last = static_cast<std::uint32_t>(
                std::max<std::int64_t>(0, record.cluster.nodes[share.node].gpus - 1));
            for (std::size_t first = 0; first < of_node.size();) {
                std::size_t next = first + 1;
                while (next < of_node.size() && of_node[next] == of_node[next - 1] + 1) {
                    ++next;
                }
                bar.row = out.first_row[share.node] + std::min<std::uint32_t>(of_node[first], last);
                bar.rows = static_cast<std::uint32_t>(next - first);
                bar.rows = std::min(bar.rows, out.first_row[share.node + 1] - bar.row);
                if (bar.rows > 0) {
                    out.bars.push_back(bar);
                }
                first = next;
            }
        }
    }
    std::stable_sort(out.bars.begin(), out.bars.end(), [](const Bar& a, const Bar& b) {
        return std::tie(a.begin_at, a.row) < std::tie(b.begin_at, b.row);
    });
    return out;
}

std::string_view end_text(SegmentEnd end) noexcept {
    switch (end) {
        case SegmentEnd::still_running:
            return "still running";
        case SegmentEnd::completed:
            return "completed";
        case SegmentEnd::time_limit:
            return "at its time limit";
        case SegmentEnd::preempted_requeued:
            return "preempted, queued again";
        case SegmentEnd::preempted_ended:
            return "preempted, ended";
        case SegmentEnd::drained_requeued:
            return "left a draining node, queued again";
        case SegmentEnd::drained_ended:
            return "ended on a draining node";
        case SegmentEnd::node_failed:
            return "its node failed";
        case SegmentEnd::cancelled:
            return "cancelled";
        case SegmentEnd::turned:
            return "turned from free to allocated";
        case SegmentEnd::suspended:
            return "suspended";
    }
    return "unknown";
}

}  // namespace tranche::sim
