// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/timeline_svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/summary.hpp"
#include "sim/timeline.hpp"
#include "sim/words.hpp"

namespace tranche::sim {
namespace {

constexpr double kMargin = 16;
constexpr double kNamesWidth = 62;             // of nodes, left of a panel
constexpr double kHeadHeight = 44;             // policy and figures above a panel
constexpr double kAxisHeight = 40;             // below it
constexpr double kCharWidth = 6.6;             // of 12 px text, on average
constexpr std::size_t kMostRects = 36000;      // of all panels: some 2 MB
constexpr std::size_t kMostTitles = 2500;      // bars that say more when pointed at
constexpr std::uint32_t kMerged = 0xffffffff;  // the segment of short bars that became one
constexpr std::size_t kMostLegend = 48;        // teams

std::string number(double value) {
    const auto hundredths = static_cast<std::int64_t>(std::llround(value * 100));
    const std::int64_t magnitude = hundredths < 0 ? -hundredths : hundredths;
    std::string out = hundredths < 0 ? "-" : "";
    out += std::to_string(magnitude / 100);
    if (magnitude % 100 != 0) {
        out += '.';
        out += static_cast<char>('0' + magnitude / 10 % 10);
        if (magnitude % 10 != 0) {
            out += static_cast<char>('0' + magnitude % 10);
        }
    }
    return out;
}

struct Box {
    double x = 0, y = 0, width = 0, height = 0;
};

std::string path_of(const Box& box) {
    return "M" + number(box.x) + " " + number(box.y) + "h" + number(box.width) + "v" +
           number(box.height) + "h" + number(-box.width) + "z";
}

std::string rect(const Box& box, const std::string& attributes) {
    return "<rect x=\"" + number(box.x) + "\" y=\"" + number(box.y) + "\" width=\"" +
           number(box.width) + "\" height=\"" + number(box.height) + "\" " + attributes + "/>";
}

std::string text_at(double x, double y, const std::string& attributes, const std::string& text) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" +
           (attributes.empty() ? "" : " " + attributes) + ">" + escaped(text) + "</text>\n";
}

// Shortened to about that many pixels.
std::string fitted(const std::string& text, double width) {
    const auto most = static_cast<std::size_t>(std::max(1.0, width / kCharWidth));
    if (shown_columns(text) <= most) {
        return text;
    }
    std::string out;
    std::size_t columns = 0;
    for (const char c : text) {
        if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++columns >= most) {
            break;
        }
        out += c;
    }
    return out + "…";
}

// What all panels of a picture show, so that an instant is at the same place in each.
struct Times {
    std::int64_t begin_at = 0, end_at = 0;
    std::int64_t seconds() const { return std::max<std::int64_t>(1, end_at - begin_at); }
};

// Where rows and instants are in a panel.
class Scale {
  public:
    Scale(Times times, const Timeline& timeline, Box box, double row_height)
        : begin_at_(times.begin_at),
          seconds_(times.seconds()),
          box_(box),
          row_height_(row_height),
          gap_(gap_of(row_height)) {
        for (std::size_t node = 0; node + 1 < timeline.first_row.size(); ++node) {
            for (std::uint32_t row = timeline.first_row[node]; row < timeline.first_row[node + 1];
                 ++row) {
                node_of_.push_back(static_cast<std::uint32_t>(node));
            }
        }
    }

    static double gap_of(double row_height) { return std::min(3.0, row_height / 2); }
    static double height(const Timeline& timeline, double row_height) {
        const std::size_t nodes = timeline.first_row.size() - 1;
        return timeline.rows() * row_height +
               static_cast<double>(nodes == 0 ? 0 : nodes - 1) * gap_of(row_height);
    }

    double x(std::int64_t at) const {
        return box_.x +
               box_.width * static_cast<double>(at - begin_at_) / static_cast<double>(seconds_);
    }
    double y(std::uint32_t row) const { return box_.y + row * row_height_ + node_of_[row] * gap_; }
    double row_height() const { return row_height_; }
    const Box& box() const { return box_; }

    Box bar(std::uint32_t row, std::uint32_t rows, std::int64_t from, std::int64_t to) const {
        // A hair's breadth between bars, where there is room for it.
        const double across = row_height_ >= 6 ? 1.0 : row_height_ * 0.12;
        Box out{x(from), y(row), x(to) - x(from), rows * row_height_ - across};
        if (out.width > 3) {
            out.width -= 0.6;
        }
        return out;
    }

  private:
    std::int64_t begin_at_, seconds_;
    Box box_;
    double row_height_, gap_;
    std::vector<std::uint32_t> node_of_;
};

using ColourKey = std::pair<std::uint32_t, std::uint8_t>;  // team, shade

// Bars shorter than a cell, gathered: in each cell of a row, the colour that held longest, as wide
// as all of them together.
class ShortBars {
  public:
    ShortBars(std::int64_t begin_at, double seconds_per_cell)
        : begin_at_(begin_at), seconds_per_cell_(seconds_per_cell) {}

    bool is_short(const Bar& bar) const {
        return static_cast<double>(bar.end_at - bar.begin_at) < seconds_per_cell_;
    }
    void add(const Bar& bar) {
        ++merged_;
        const auto cell = static_cast<std::int64_t>(static_cast<double>(bar.begin_at - begin_at_) /
                                                    seconds_per_cell_);
        for (std::uint32_t row = bar.row; row < bar.row + bar.rows; ++row) {
            parts_.push_back({cell, row, &bar});
        }
    }
    // As bars; rows of one cell that look alike are one.
    std::vector<Bar> bars() {
        std::stable_sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
            return std::tie(a.cell, a.row) < std::tie(b.cell, b.row);
        });
        std::vector<Bar> out;
        std::int64_t last_cell = -1;
        for (std::size_t from = 0, to = 0; from < parts_.size(); from = to) {
            while (to < parts_.size() && parts_[to].cell == parts_[from].cell &&
                   parts_[to].row == parts_[from].row) {
                ++to;
            }
            const Bar bar = merged_bar(from, to);
            if (!out.empty() && parts_[from].cell == last_cell && alike(out.back(), bar)) {
                ++out.back().rows;
            } else {
                out.push_back(bar);
            }
            last_cell = parts_[from].cell;
        }
        return out;
    }
    std::size_t merged() const { return merged_; }

  private:
    struct Part {
        std::int64_t cell;
        std::uint32_t row;
        const Bar* bar;
    };
    struct Held {
        ColourKey colour;
        std::int64_t seconds;
    };

    // Of the parts of one cell.
    Bar merged_bar(std::size_t from, std::size_t to) {
        Bar out;
        out.segment = kMerged;
        out.row = parts_[from].row;
        out.begin_at = parts_[from].bar->begin_at;
        std::int64_t seconds = 0, open_seconds = 0;
        held_.clear();
        for (std::size_t i = from; i < to; ++i) {
            const Bar& bar = *parts_[i].bar;
            out.begin_at = std::min(out.begin_at, bar.begin_at);
            out.preempted = out.preempted || bar.preempted;
            seconds += bar.end_at - bar.begin_at;
            open_seconds += std::max<std::int64_t>(0, bar.end_at - bar.open_from);
            const ColourKey colour{bar.team, bar.shade};
            const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& each) {
                return each.colour == colour;
            });
            if (found == held_.end()) {
                held_.push_back({colour, bar.end_at - bar.begin_at});
            } else {
                found->seconds += bar.end_at - bar.begin_at;
            }
        }
        out.end_at = out.begin_at + seconds;
        out.open_from = 2 * open_seconds > seconds ? out.begin_at : out.end_at;
        const auto longest =
            std::max_element(held_.begin(), held_.end(),
                             [](const Held& a, const Held& b) { return a.seconds < b.seconds; });
        out.team = longest->colour.first;
        out.shade = longest->colour.second;
        return out;
    }
    static bool alike(const Bar& a, const Bar& b) {
        return a.row + a.rows == b.row && a.begin_at == b.begin_at && a.end_at == b.end_at &&
               a.open_from == b.open_from && a.team == b.team && a.shade == b.shade &&
               a.preempted == b.preempted;
    }
    std::int64_t begin_at_;
    double seconds_per_cell_;
    std::size_t merged_ = 0;
    std::vector<Part> parts_;
    std::vector<Held> held_;
};

struct DrawnBars {
    std::vector<Bar> bars;
    std::size_t all = 0, merged = 0;
};

DrawnBars drawn_bars(Times times, const Timeline& timeline, double width, std::size_t most) {
    const double seconds_per_pixel = static_cast<double>(times.seconds()) / width;
    DrawnBars out;
    out.all = timeline.bars.size();
    std::vector<std::int64_t> lengths;
    for (const Bar& bar : timeline.bars) {
        lengths.push_back(bar.end_at - bar.begin_at);
    }
    std::sort(lengths.begin(), lengths.end());
    double pixels = 0.5;
    // Where the bars that stay by themselves are too many already, nothing need be tried.
    while (most < lengths.size() && pixels < width &&
           static_cast<double>(lengths[lengths.size() - most - 1]) >= pixels * seconds_per_pixel) {
        pixels *= 1.6;
    }
    for (;; pixels *= 1.6) {
        ShortBars short_bars(times.begin_at, pixels * seconds_per_pixel);
        out.bars.clear();
        for (const Bar& bar : timeline.bars) {
            if (short_bars.is_short(bar)) {
                short_bars.add(bar);
            } else {
                out.bars.push_back(bar);
            }
        }
        const std::vector<Bar> gathered = short_bars.bars();
        out.merged = short_bars.merged();
        out.bars.insert(out.bars.end(), gathered.begin(), gathered.end());
        std::stable_sort(out.bars.begin(), out.bars.end(), [](const Bar& a, const Bar& b) {
            return std::tie(a.begin_at, a.row) < std::tie(b.begin_at, b.row);
        });
        if (out.bars.size() <= most || pixels > width) {
            return out;
        }
    }
}

std::string bar_title(const SimRecord& record, const Bar& bar) {
    const SegmentRecord& segment = record.segments[bar.segment];
    const WorkloadJob& job = record.jobs[segment.job].job;
    std::string out = job.id + (job.name.empty() ? "" : " " + job.name) + ", " +
                      std::to_string(job.gpus) + (job.gpus == 1 ? " GPU" : " GPUs");
    out += "\n" + (job.budget.empty() ? std::string("no budget") : job.budget) +
           (job.user.empty() ? "" : ", user " + job.user) + ", run " + std::to_string(segment.run);
    out += "\n" + instant_text(segment.begin_at) + " to " + instant_text(bar.end_at) + " (" +
           short_duration(bar.end_at - segment.begin_at) + "), " +
           std::string(end_text(segment.end));
    if (segment.taken_for != kNoJob && segment.taken_for < record.jobs.size()) {
        out += " for " + record.jobs[segment.taken_for].job.id;
    }
    out += segment.protected_until == kNever ? "\nnever to be interrupted"
           : segment.protected_until == 0
               ? std::string("\nfree")
               : "\nprotected until " + instant_text(segment.protected_until);
    return out;
}

class Panel {
  public:
    Panel(const SimRecord& record, Times times, const TeamColours& colours, double width,
          double row_height, std::size_t most_rects)
        : record_(record),
          times_(times),
          timeline_(lay_out(record, colours)),
          width_(width),
          row_height_(row_height),
          drawn_(drawn_bars(times, timeline_, width - kNamesWidth, most_rects)) {}

    double height() const {
        return kHeadHeight + Scale::height(timeline_, row_height_) + kAxisHeight;
    }
    std::size_t merged() const { return drawn_.merged; }
    std::size_t bars() const { return drawn_.all; }
    bool has_drains() const { return !record_.drains.empty(); }

    std::string draw(double left, double top) const {
        const Scale scale(times_, timeline_,
                          {left + kNamesWidth, top + kHeadHeight, width_ - kNamesWidth,
                           Scale::height(timeline_, row_height_)},
                          row_height_);
        return head(left, top) + ground(scale) + axis(scale) + runs(scale) + drains(scale) +
               node_names(scale);
    }

  private:
    const SimRecord& record_;
    Times times_;
    Timeline timeline_;
    double width_, row_height_;
    DrawnBars drawn_;

    std::string head(double left, double top) const {
        const Summary summary = summarize(record_);
        const auto percent = [](double fraction) {
            return number(std::round(fraction * 1000) / 10) + " %";
        };
        std::string figures = "GPUs busy " + percent(summary.occupancy) + ", free runs " +
                              percent(summary.unallocated_fraction) + ", delivered " +
                              percent(summary.delivered_fraction) + " of owed";
        for (const NamedWaits& each : summary.waits) {
            if (each.name == "debug" && each.waits.count > 0) {
                figures += ", debug waits p90 " + short_duration(each.waits.p90);
            }
        }
        figures += ", " + grouped(static_cast<std::int64_t>(summary.preemptions.total)) +
                   (summary.preemptions.total == 1 ? " preemption" : " preemptions");
        return text_at(left + kNamesWidth, top + 15, "class=\"policy\"", record_.policy) +
               text_at(left + kNamesWidth, top + 34, "", fitted(figures, width_ - kNamesWidth));
    }

    std::string ground(const Scale& scale) const {
        std::string path;
        for (std::size_t node = 0; node + 1 < timeline_.first_row.size(); ++node) {
            const std::uint32_t first = timeline_.first_row[node];
            const std::uint32_t rows = timeline_.first_row[node + 1] - first;
            if (rows > 0) {
                path += path_of({scale.x(record_.begin_at), scale.y(first),
                                 scale.x(record_.end_at) - scale.x(record_.begin_at),
                                 rows * row_height_ - (row_height_ >= 6 ? 1.0 : 0.0)});
            }
        }
        return "<path class=\"idle\" d=\"" + path + "\"/>\n";
    }

    std::string axis(const Scale& scale) const {
        const Box& box = scale.box();
        const std::int64_t step =
            axis_step(times_.seconds(), static_cast<std::int64_t>(box.width / 64));
        std::string lines, texts;
        const double bottom = box.y + box.height;
        std::int64_t at = times_.begin_at / step * step;
        for (at += at < times_.begin_at ? step : 0; at <= times_.end_at; at += step) {
            const double x = scale.x(at);
            lines += "M" + number(x) + " " + number(box.y) + "V" + number(bottom + 5);
            const bool last = x > box.x + box.width - 16;
            texts +=
                text_at(x, bottom + 18, last ? "text-anchor=\"end\"" : "text-anchor=\"middle\"",
                        axis_text(at, step));
        }
        const bool dates = times_.begin_at >= 315532800;
        texts +=
            text_at(box.x + box.width / 2, bottom + 35, "class=\"quiet\" text-anchor=\"middle\"",
                    dates ? "time, UTC" : "time since the start of the workload");
        return "<path class=\"grid\" d=\"" + lines + "\"/>\n" + texts;
    }

    std::string runs(const Scale& scale) const {
        const bool titles = drawn_.bars.size() <= kMostTitles;
        std::map<ColourKey, std::string> by_colour;
        std::string hatched, edges, labels;
        const double edge = edge_width();
        // Of each row, so that a crowd of edges does not paint it red.
        std::vector<double> edge_at(timeline_.rows(), -1e9);
        for (const Bar& bar : drawn_.bars) {
            const Box box = scale.bar(bar.row, bar.rows, bar.begin_at, bar.end_at);
            std::string& drawn = by_colour[{bar.team, bar.shade}];
            if (titles && bar.segment != kMerged) {
                drawn += "<path d=\"" + path_of(box) + "\"><title>" +
                         escaped_lines(bar_title(record_, bar)) + "</title></path>\n";
            } else if (titles) {
                drawn += "<path d=\"" + path_of(box) + "\"/>\n";
            } else {
                drawn += path_of(box);
            }
            if (bar.open_from < bar.end_at) {
                const double from = std::max(box.x, scale.x(bar.open_from));
                if (box.x + box.width > from) {
                    hatched += path_of({from, box.y, box.x + box.width - from, box.height});
                }
            }
            if (bar.preempted && box.x + box.width - edge_at[bar.row] >= 2.5 * edge) {
                edge_at[bar.row] = box.x + box.width;
                edges += "M" + number(box.x + box.width) + " " + number(box.y) + "v" +
                         number(box.height);
            }
            if (titles && bar.segment != kMerged && box.width >= 44 && box.height >= 11) {
                labels += label(bar, box);
            }
        }
        std::string out;
        for (const auto& [colour, drawn] : by_colour) {
            out += titles ? "<g fill=\"" : "<path fill=\"";
            out += team_colour(colour.first, colour.second);
            out += titles ? "\">\n" : "\" d=\"";
            out += drawn;
            out += titles ? "</g>\n" : "\"/>\n";
        }
        if (!hatched.empty()) {
            out += "<path class=\"open\" d=\"" + hatched + "\"/>\n";
        }
        if (!edges.empty()) {
            out += "<path class=\"taken\" stroke-width=\"" + number(edge) + "\" d=\"" + edges +
                   "\"/>\n";
        }
        return out + labels;
    }

    // Thin where the runs that end at one are short, so that red does not cover them.
    double edge_width() const {
        const double widest = row_height_ >= 6 ? 2.4 : row_height_ >= 3 ? 1.6 : 1.1;
        std::int64_t seconds = 0, edges = 0;
        for (const Bar& bar : drawn_.bars) {
            seconds += bar.preempted ? bar.end_at - bar.begin_at : 0;
            edges += bar.preempted ? 1 : 0;
        }
        const double mean =
            (width_ - kNamesWidth) * static_cast<double>(seconds) /
            static_cast<double>(std::max<std::int64_t>(1, edges) * times_.seconds());
        return std::clamp(mean / 6, 1.1, edges > 300 ? std::min(widest, 1.6) : widest);
    }

    std::string label(const Bar& bar, const Box& box) const {
        const JobRecord& job = record_.jobs[record_.segments[bar.segment].job];
        const std::string text = job.job.id + (job.job.budget.empty() ? "" : " " + job.job.budget);
        const double width = (shown_columns(text) * kCharWidth * 10) / 12;
        const std::string shown =
            width <= box.width - 8 ? text : fitted(job.job.id, (box.width - 8) * 1.2);
        return text_at(box.x + 4, box.y + std::min(box.height / 2 + 3.6, 13.0), "class=\"label\"",
                       shown);
    }

    static std::string escaped_lines(const std::string& text) {
        std::string out;
        for (std::size_t at = 0; at <= text.size();) {
            const std::size_t end = std::min(text.find('\n', at), text.size());
            out += (out.empty() ? "" : "\n") + escaped(text.substr(at, end - at));
            at = end + 1;
        }
        return out;
    }

    std::string drains(const Scale& scale) const {
        std::string path;
        for (const DrainRecord& drain : record_.drains) {
            for (std::size_t node = 0; node < record_.cluster.nodes.size(); ++node) {
                const std::uint32_t first = timeline_.first_row[node];
                const std::uint32_t rows = timeline_.first_row[node + 1] - first;
                if (record_.cluster.nodes[node].name != drain.node || rows == 0) {
                    continue;
                }
                const double from = scale.x(std::max(drain.at, record_.begin_at));
                const double to = scale.x(
                    drain.back_at < 0 ? record_.end_at : std::min(drain.back_at, record_.end_at));
                if (to > from) {
                    path += path_of({from, scale.y(first), to - from, rows * row_height_ - 0.5});
                }
            }
        }
        return path.empty() ? std::string() : "<path class=\"drain\" d=\"" + path + "\"/>\n";
    }

    std::string node_names(const Scale& scale) const {
        std::string out;
        double free_from = 0;
        for (std::size_t node = 0; node < record_.cluster.nodes.size(); ++node) {
            const std::uint32_t first = timeline_.first_row[node];
            const std::uint32_t rows = timeline_.first_row[node + 1] - first;
            if (rows == 0) {
                continue;
            }
            const double middle = scale.y(first) + rows * row_height_ / 2;
            if (middle - 6 < free_from) {
                continue;
            }
            free_from = middle + 7;
            out += text_at(scale.box().x - 7, middle + 4, "text-anchor=\"end\"",
                           fitted(record_.cluster.nodes[node].name, kNamesWidth - 8));
        }
        return out;
    }
};

// What the colours and marks mean, below the panels; `height` becomes what it needs.
class Legend {
  public:
    Legend(double left, double top, double width)
        : left_(left), right_(left + width), x_(left), y_(top) {}

    void head(const std::string& text) {
        line_break();
        out_ += text_at(left_, y_ + 11, "class=\"strong\"", text);
        x_ = left_ + shown_columns(text) * kCharWidth * 1.1 + 14;
    }
    void entry(const std::string& mark, double mark_width, const std::string& text) {
        const double width = mark_width + 6 + shown_columns(text) * kCharWidth + 16;
        if (x_ + width > right_ && x_ > left_) {
            line_break();
        }
        out_ += "<g transform=\"translate(" + number(x_) + " " + number(y_) + ")\">" + mark +
                "</g>\n" + text_at(x_ + mark_width + 6, y_ + 11, "", text);
        x_ += width;
    }
    void line_break() {
        if (x_ > left_) {
            x_ = left_;
            y_ += 22;
        }
    }
    double bottom() const { return y_ + (x_ > left_ ? 22 : 0); }
    const std::string& text() const { return out_; }

  private:
    double left_, right_, x_, y_;
    std::string out_;
};

Legend legend(const TeamColours& colours, const std::vector<Panel>& panels, double top,
              double width) {
    Legend out(kMargin, top, width);
    out.head("Teams");
    const std::size_t shown = std::min(colours.teams().size(), kMostLegend);
    for (std::size_t team = 0; team < shown; ++team) {
        std::string mark;
        for (std::size_t shade = 0; shade < 3; ++shade) {
            mark += rect({static_cast<double>(shade) * 7, 0, 7, 13},
                         "fill=\"" + std::string(team_colour(team, shade)) + "\"");
        }
        out.entry(mark, 21, fitted(colours.teams()[team], 150));
    }
    if (shown < colours.teams().size()) {
        out.entry("", 0, "and " + std::to_string(colours.teams().size() - shown) + " more");
    }
    if (colours.has_jobs_without_team()) {
        out.entry(rect({0, 0, 21, 13}, "fill=\"" + std::string(kNoTeamColour) + "\""), 21,
                  "no budget");
    }
    out.head("Runs");
    const char* base = team_colour(0, 0);
    const std::string bar = rect({0, 0, 26, 13}, "fill=\"" + std::string(base) + "\"");
    out.entry(bar, 26, "protected by its contract");
    out.entry(bar + rect({0, 0, 26, 13}, "class=\"open\""), 26, "may be interrupted");
    out.entry(bar + "<path class=\"taken\" stroke-width=\"2.4\" d=\"M26 0v13\"/>", 27,
              "preempted here");
    out.entry(rect({0, 0, 8, 13}, "fill=\"" + std::string(team_colour(0, 0)) + "\"") +
                  rect({9, 0, 8, 13}, "fill=\"" + std::string(team_colour(0, 1)) + "\"") +
                  rect({18, 0, 8, 13}, "fill=\"" + std::string(team_colour(0, 3)) + "\""),
              26, "shade: the workload");
    out.entry(rect({0, 0, 26, 13}, "class=\"idle\""), 26, "idle");
    if (std::any_of(panels.begin(), panels.end(),
                    [](const Panel& panel) { return panel.has_drains(); })) {
        out.entry(rect({0, 0, 26, 13}, "class=\"idle\"") + rect({0, 0, 26, 13}, "class=\"drain\""),
                  26, "node drains or is away");
    }
    std::size_t merged = 0, all = 0;
    for (const Panel& panel : panels) {
        merged += panel.merged();
        all += panel.bars();
    }
    if (merged > 0) {
        out.line_break();
        out.entry("", -6,
                  grouped(static_cast<std::int64_t>(merged)) + " of " +
                      grouped(static_cast<std::int64_t>(all)) +
                      " bars are too short for this width: those next to each other are one, in "
                      "the colour that lasted longest.");
    }
    if (colours.teams().size() > kHues) {
        out.line_break();
        out.entry("", -6,
                  "More than " + std::to_string(kHues) + " teams: hues begin again with " +
                      fitted(colours.teams()[kHues], 150) + ".");
    }
    out.line_break();
    return out;
}

// Of one of several panels below each other.
double row_height_for(std::uint32_t rows, std::size_t panels) {
    if (rows == 0) {
        return 14;
    }
    const double height = panels < 2 ? 760.0 : std::max(300.0, 1200.0 / double(panels));
    return std::clamp(height / rows, std::min(panels < 2 ? 2.8 : 1.6, 1600.0 / rows), 15.0);
}

std::string head_of(const std::string& title, const std::string& about, double width, double height,
                    bool thin) {
    const std::string hatch_size = thin ? "4" : "6";
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
           number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
           "\" role=\"img\" aria-labelledby=\"title about\">\n<title id=\"title\">" +
           escaped(title) + "</title>\n<desc id=\"about\">" + escaped(about) +
           "</desc>\n<defs><pattern id=\"hatch\" width=\"" + hatch_size + "\" height=\"" +
           hatch_size +
           "\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"" +
           (thin ? "1.7" : "2.3") + "\" height=\"" + hatch_size +
           "\" fill=\"#fff\" fill-opacity=\".72\"/></pattern></defs>\n"
           "<style>text{font:12px system-ui,'Segoe UI','DejaVu Sans',Arial,sans-serif;fill:#1c1c1c}"
           ".title{font-size:17px;font-weight:600}.policy{font-size:14px;font-weight:600}"
           ".strong{font-weight:600}.quiet{fill:#505050}"
           ".label{font-size:10px;pointer-events:none;paint-order:stroke;stroke:#fff;stroke-"
           "opacity:.6;"
           "stroke-width:2.5px;stroke-linejoin:round}"
           ".idle{fill:#efefec}.grid{stroke:#c9c9c4;stroke-width:1;fill:none}"
           ".open{fill:url(#hatch);pointer-events:none}"
           ".taken{stroke:#d0021b;fill:none;pointer-events:none}"
           ".drain{fill:#2b2b2b;fill-opacity:.2;pointer-events:none}</style>\n" +
           rect({0, 0, width, height}, "fill=\"#fff\"") + "\n";
}

}  // namespace

std::string timeline_svg(std::span<const SimRecord* const> records,
                         const TimelineOptions& options) {
    const TeamColours colours(records);
    const bool side_by_side =
        options.layout == TimelineOptions::Layout::side_by_side ||
        (options.layout == TimelineOptions::Layout::automatic && records.size() == 2);
    std::uint32_t rows = 0;
    std::string policies;
    Times times{records.empty() ? 0 : records[0]->begin_at,
                records.empty() ? 0 : records[0]->end_at};
    for (const SimRecord* record : records) {
        times.begin_at = std::min(times.begin_at, record->begin_at);
        times.end_at = std::max(times.end_at, record->end_at);
        rows = std::max(rows, static_cast<std::uint32_t>(record->cluster.gpus()));
        policies += (policies.empty() ? "" : ", ") + record->policy;
    }
    const std::size_t columns = side_by_side ? std::max<std::size_t>(1, records.size()) : 1;
    const double panel_width = side_by_side ? 800 : 1280;
    const double gap = 28;
    const double row_height = row_height_for(rows, side_by_side ? 1 : records.size());
    std::vector<Panel> panels;
    panels.reserve(records.size());
    for (const SimRecord* record : records) {
        panels.emplace_back(*record, times, colours, panel_width, row_height,
                            kMostRects / records.size());
    }
    const double inner =
        static_cast<double>(columns) * panel_width + static_cast<double>(columns - 1) * gap;
    const double width = inner + 2 * kMargin;
    const double title_height = 34;
    double bottom = kMargin + title_height, row_bottom = bottom;
    std::string drawn;
    for (std::size_t i = 0; i < panels.size(); ++i) {
        const std::size_t column = i % columns;
        if (column == 0) {
            bottom = row_bottom;
        }
        drawn +=
            panels[i].draw(kMargin + static_cast<double>(column) * (panel_width + gap), bottom);
        row_bottom = std::max(row_bottom, bottom + panels[i].height() + 10);
    }
    const Legend below = legend(colours, panels, row_bottom + 8, inner);
    const double height = below.bottom() + kMargin;
    std::string title = options.title;
    if (title.empty()) {
        title = records.empty()
                    ? std::string("Nothing was simulated")
                    : cluster_text(*records[0]) + ", " +
                          short_duration(times.end_at - times.begin_at) + ": " + policies;
    }
    const std::string about =
        "Timeline of a simulated cluster: a row for each GPU, a bar for each run, coloured by "
        "team; "
        "hatched while it may be interrupted, with a red edge where it was preempted. Policies: " +
        policies + ".";
    return head_of(title, about, width, height, row_height < 6) +
           text_at(kMargin, kMargin + 16, "class=\"title\"", fitted(title, inner * 0.7)) + drawn +
           below.text() + "</svg>\n";
}

}  // namespace tranche::sim
