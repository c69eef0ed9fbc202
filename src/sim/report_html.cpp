// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/report_html.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "common/wire/json.hpp"
#include "sim/record_checks.hpp"
#include "sim/report_page.hpp"
#include "sim/summary.hpp"
#include "sim/timeline.hpp"
#include "sim/words.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kMostPoints = 420;  // of a line over time
constexpr std::size_t kMostBudgets = 40;  // with a chart of their own
constexpr std::size_t kCurveParts = 100;  // of a distribution of waits

template <typename... Values>
std::string written(const char* format, Values... values) {
    char text[160];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

std::string percent(double fraction) {
    return written("%.1f\u00a0%%", 100 * fraction);
}
std::string grouped_count(std::uint64_t value) {
    return grouped(static_cast<std::int64_t>(value));
}
std::string waits_or_dash(const WaitSummary& waits, std::int64_t seconds) {
    return waits.count == 0 ? "–" : short_duration(seconds);
}

// JSON inside of a script element: nothing in it may end the element.
std::string json_text(std::string_view text) {
    std::string out;
    for (const char c : Json::text(printable(text)).compact()) {
        out += c == '<' ? std::string("\\u003c") : std::string(1, c);
    }
    return out;
}

class List {
  public:
    void add(const std::string& item) {
        text_ += text_.empty() ? "[" : ",";
        text_ += item;
    }
    void add(std::int64_t value) { add(std::to_string(value)); }
    std::string text() const { return text_.empty() ? "[]" : text_ + "]"; }

  private:
    std::string text_;
};

// One decimal, none where it is 0.
std::string tenths(double value) {
    const auto all = static_cast<std::int64_t>(std::llround(value * 10));
    std::string out = (all < 0 ? "-" : "") + std::to_string(std::abs(all) / 10);
    return all % 10 == 0 ? out : out + "." + std::to_string(std::abs(all) % 10);
}

// The jobs of the bars, and the bars: six numbers each, as the page's script reads them.
std::string bars_json(const SimRecord& record, const TeamColours& colours) {
    const Timeline timeline = lay_out(record, colours);
    std::map<JobIndex, std::int64_t> places;
    List jobs;
    std::string bars;
    std::int64_t last = record.begin_at;
    for (const Bar& bar : timeline.bars) {
        const JobIndex index = record.segments[bar.segment].job;
        auto place = places.find(index);
        if (place == places.end()) {
            place = places.emplace(index, static_cast<std::int64_t>(places.size())).first;
            const WorkloadJob& job = record.jobs[index].job;
            List fields;
            fields.add(json_text(job.id));
            fields.add(bar.team);
            fields.add(bar.shade);
            fields.add(job.gpus);
            fields.add(json_text(job.user));
            fields.add(json_text(job.name));
            jobs.add(fields.text());
        }
        const std::int64_t length = bar.end_at - bar.begin_at;
        const std::int64_t open_after = std::min(bar.open_from - bar.begin_at, length);
        bars += bars.empty() ? "" : ",";
        for (const std::int64_t value : {std::int64_t{bar.row}, std::int64_t{bar.rows},
                                         bar.begin_at - last, length, open_after}) {
            bars += std::to_string(value) + ",";
        }
        bars += std::to_string(2 * place->second + (bar.preempted ? 1 : 0));
        last = bar.begin_at;
    }
    return "\"jobs\":" + jobs.text() + ",\"bars\":[" + bars + "]";
}

std::string waits_json(const SimRecord& record, const Summary& summary) {
    List list;
    for (const NamedWaits& each : summary.waits) {
        const std::vector<std::int64_t> waits = sorted_waits(record, each.name);
        List curve;
        for (std::size_t part = 0; part <= kCurveParts && !waits.empty(); ++part) {
            curve.add(waits[part * (waits.size() - 1) / kCurveParts]);
        }
        list.add("{\"name\":" + json_text(each.name) + ",\"count\":" +
                 std::to_string(each.waits.count) + ",\"p50\":" + std::to_string(each.waits.p50) +
                 ",\"p90\":" + std::to_string(each.waits.p90) + ",\"curve\":" + curve.text() + "}");
    }
    return "\"waits\":" + list.text();
}

std::vector<std::size_t> charted_budgets(const SimRecord& record, const Summary& summary) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < record.budgets.size(); ++i) {
        const BudgetRecord& budget = record.budgets[i];
        const bool holds = std::any_of(
            budget.hours.begin(), budget.hours.end(),
            [](const BudgetHour& hour) { return hour.charged + hour.free + hour.demand > 0; });
        if (budget.is_leaf || holds) {
            out.push_back(i);
        }
    }
    if (out.size() > kMostBudgets) {
        const auto held = [&](std::size_t i) {
            return summary.budgets[i].charged_gpu_seconds +
                   summary.budgets[i].unallocated_gpu_seconds;
        };
        std::stable_sort(out.begin(), out.end(),
                         [&](std::size_t a, std::size_t b) { return held(a) > held(b); });
        out.resize(kMostBudgets);
        std::sort(out.begin(), out.end());
    }
    return out;
}

std::string budget_title(const BudgetRecord& budget) {
    return budget.name.empty() ? "(no budget)"
           : budget.is_leaf    ? budget.name
                               : budget.name + " (jobs of its own)";
}

// The begin of the hour that holds it.
std::int64_t hour_of(std::int64_t at) {
    return (at >= 0 ? at / 3600 : -((-at + 3599) / 3600)) * 3600;
}

std::string budgets_json(const SimRecord& record, const Summary& summary,
                         const TeamColours& colours) {
    std::size_t hours = 0;
    for (const BudgetRecord& budget : record.budgets) {
        hours = std::max(hours, budget.hours.size());
    }
    const std::size_t step = std::max<std::size_t>(1, (hours + kMostPoints - 1) / kMostPoints);
    const std::int64_t first_at = hour_of(record.begin_at);
    const double seconds =
        static_cast<double>(std::max<std::int64_t>(1, record.end_at - record.begin_at));
    List list;
    for (const std::size_t index : charted_budgets(record, summary)) {
        const BudgetRecord& budget = record.budgets[index];
        const BudgetSummary& figures = summary.budgets[index];
        const auto line = [&](std::int64_t BudgetHour::*member) {
            List out;
            for (std::size_t from = 0; from < hours; from += step) {
                // The first and the last hour may be parts of one.
                const std::int64_t at = first_at + static_cast<std::int64_t>(from) * 3600;
                const std::int64_t until = at + static_cast<std::int64_t>(step) * 3600;
                const auto span = static_cast<double>(std::max<std::int64_t>(
                    1, std::min(until, record.end_at) - std::max(at, record.begin_at)));
                std::int64_t sum = 0;
                for (std::size_t i = from; i < std::min(from + step, budget.hours.size()); ++i) {
                    sum += budget.hours[i].*member;
                }
                out.add(tenths(static_cast<double>(sum) / span));
            }
            return out.text();
        };
        BudgetHour sum;
        for (const BudgetHour& hour : budget.hours) {
            sum.funded += hour.funded;
            sum.charged += hour.charged;
            sum.free += hour.free;
        }
        WorkloadJob paid;
        paid.budget = budget.name;
        list.add("{\"name\":" + json_text(budget_title(budget)) + ",\"colour\":\"" +
                 team_colour(colours.team_of(paid), 0) + "\",\"delivered\":" +
                 (figures.owed_gpu_seconds > 0 ? written("%.4f", figures.delivered_fraction())
                                               : std::string("null")) +
                 ",\"funded_mean\":" + tenths(static_cast<double>(sum.funded) / seconds) +
                 ",\"charged_mean\":" + tenths(static_cast<double>(sum.charged) / seconds) +
                 ",\"held\":" + tenths(static_cast<double>(sum.charged + sum.free) / seconds) +
                 ",\"funded\":" + line(&BudgetHour::funded) + ",\"demand\":" +
                 line(&BudgetHour::demand) + ",\"charged\":" + line(&BudgetHour::charged) +
                 ",\"free\":" + line(&BudgetHour::free) + "}");
    }
    return "\"hours_from\":" + std::to_string(first_at) +
           ",\"step_seconds\":" + std::to_string(step * 3600) + ",\"budgets\":" + list.text();
}

std::string record_json(const SimRecord& record, const Summary& summary,
                        const TeamColours& colours) {
    List nodes, drains;
    for (const SimNode& node : record.cluster.nodes) {
        nodes.add("[" + json_text(node.name) + "," + std::to_string(node.gpus) + "]");
    }
    for (const DrainRecord& drain : record.drains) {
        for (std::size_t node = 0; node < record.cluster.nodes.size(); ++node) {
            if (record.cluster.nodes[node].name == drain.node) {
                drains.add("[" + std::to_string(node) + "," + std::to_string(drain.at) + "," +
                           std::to_string(drain.back_at) + "]");
            }
        }
    }
    return "{\"policy\":" + json_text(record.policy) +
           ",\"begin\":" + std::to_string(record.begin_at) +
           ",\"end\":" + std::to_string(std::max(record.begin_at + 1, record.end_at)) +
           ",\"nodes\":" + nodes.text() + ",\"drains\":" + drains.text() + "," +
           bars_json(record, colours) + "," + waits_json(record, summary) + "," +
           budgets_json(record, summary, colours) + "}";
}

std::string page_json(std::span<const SimRecord* const> records,
                      const std::vector<Summary>& summaries, const TeamColours& colours) {
    List teams, rows, lines, all;
    for (const std::string& team : colours.teams()) {
        teams.add(json_text(team));
    }
    for (std::size_t hue = 0; hue < kHues; ++hue) {
        List shades;
        for (std::size_t shade = 0; shade < kShades; ++shade) {
            shades.add("\"" + std::string(team_colour(hue, shade)) + "\"");
        }
        rows.add(shades.text());
        lines.add("\"" + std::string(team_colour(hue, 0)) + "\"");
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
        all.add(record_json(*records[i], summaries[i], colours));
    }
    return "{\"dates_from\":315532800,\"no_team\":\"" + std::string(kNoTeamColour) +
           "\",\"teams\":" + teams.text() + ",\"colours\":" + rows.text() +
           ",\"line_colours\":" + lines.text() + ",\"records\":" + all.text() + "}";
}

struct Figure {
    const char* name;
    const char* about;
    std::string (*value)(const Summary& summary);
};

std::string debug_p90(const Summary& summary) {
    return waits_or_dash(summary.waits[1].waits, summary.waits[1].waits.p90);
}

const std::vector<Figure>& figures() {
    static const std::vector<Figure> kAll = {
        {"GPUs busy", "of the available GPU time",
         [](const Summary& s) { return percent(s.occupancy); }},
        {"Delivered", "of the GPU hours owed to the budgets",
         [](const Summary& s) { return percent(s.delivered_fraction); }},
        {"Teams with 95 % or more", "of what they were owed",
         [](const Summary& s) {
             return std::to_string(s.teams_at_95_percent) + " of " + std::to_string(s.teams);
         }},
        {"Worst team", "of what it was owed",
         [](const Summary& s) {
             return s.teams == 0 ? std::string("–") : percent(s.worst_team_delivered);
         }},
        {"Starved half-days", "with demand, less than a quarter of the funding",
         [](const Summary& s) { return percent(s.starved_fraction); }},
        {"Debug jobs, p90", "wait of nine in ten", debug_p90},
        {"All jobs, p50", "wait of every second job",
         [](const Summary& s) { return waits_or_dash(s.waits[0].waits, s.waits[0].waits.p50); }},
        {"All jobs, p90", "wait of nine in ten",
         [](const Summary& s) { return waits_or_dash(s.waits[0].waits, s.waits[0].waits.p90); }},
        {"Free runs", "of the available GPU time",
         [](const Summary& s) { return percent(s.unallocated_fraction); }},
        {"Demand", "times the available GPUs, allocated + free",
         [](const Summary& s) {
             return written("%.2f + %.2f", s.demand_allocated, s.demand_free);
         }},
        {"Goodput", "of the used GPU time was not lost",
         [](const Summary& s) { return percent(s.goodput_fraction); }},
        {"Preemptions", "none of them inside a contract",
         [](const Summary& s) { return grouped_count(s.preemptions.total); }},
    };
    return kAll;
}

std::string key_figures(const std::vector<Summary>& summaries) {
    std::string out;
    if (summaries.size() == 1) {
        out = "<ul class=\"cards\">\n";
        for (const Figure& figure : figures()) {
            std::string about = figure.about;
            const std::uint64_t inside = summaries[0].preemptions.inside_contract;
            if (about == "none of them inside a contract" && inside > 0) {
                about = grouped_count(inside) + " of them inside a contract";
            }
            out += "<li>" + std::string(figure.name) + "<b>" + escaped(figure.value(summaries[0])) +
                   "</b><small>" + escaped(about) + "</small></li>\n";
        }
        return out + "</ul>\n";
    }
    out =
        "<table class=\"wide\"><caption>Key figures by policy</caption><thead><tr>"
        "<th scope=\"col\">Figure</th>";
    for (const Summary& summary : summaries) {
        out += "<th scope=\"col\">" + escaped(summary.policy) + "</th>";
    }
    out += "</tr></thead><tbody>\n";
    const auto row = [&](const std::string& name, auto value) {
        out += "<tr><th scope=\"row\">" + escaped(name) + "</th>";
        for (const Summary& summary : summaries) {
            out += "<td data-label=\"" + escaped(summary.policy) + "\">" + escaped(value(summary)) +
                   "</td>";
        }
        out += "</tr>\n";
    };
    for (const Figure& figure : figures()) {
        row(figure.name, figure.value);
    }
    row("Preemptions inside a contract",
        [](const Summary& s) { return grouped_count(s.preemptions.inside_contract); });
    return out + "</tbody></table>\n";
}

std::string waits_table(const std::vector<NamedWaits>& list, const char* caption,
                        const char* head) {
    std::string out = "<table class=\"wide\"><caption>" + std::string(caption) +
                      "</caption><thead><tr><th scope=\"col\">" + head +
                      "</th><th scope=\"col\">Jobs</th><th scope=\"col\">p50</th>"
                      "<th scope=\"col\">p90</th><th scope=\"col\">Mean</th>"
                      "<th scope=\"col\">Longest</th></tr></thead><tbody>\n";
    for (const NamedWaits& each : list) {
        const WaitSummary& waits = each.waits;
        const auto cell = [&](const char* label, const std::string& value) {
            return "<td data-label=\"" + std::string(label) + "\">" + value + "</td>";
        };
        std::string interval;
        if (waits.p90_interval) {
            interval = "<small>" + short_duration(waits.p90_interval->low) + " to " +
                       short_duration(waits.p90_interval->high) + "</small>";
        }
        out += "<tr><th scope=\"row\">" + escaped(each.name) + "</th>" +
               cell("Jobs", grouped_count(waits.count)) +
               cell("p50", waits_or_dash(waits, waits.p50)) +
               cell("p90", waits_or_dash(waits, waits.p90) + interval) +
               cell("Mean", waits_or_dash(waits, std::llround(waits.mean))) +
               cell("Longest", waits_or_dash(waits, waits.max)) + "</tr>\n";
    }
    return out + "</tbody></table>\n";
}

std::string budgets_table(const Summary& summary) {
    std::string out =
        "<table class=\"wide\"><caption>Budgets over the whole time</caption><thead><tr>"
        "<th scope=\"col\">Budget</th><th scope=\"col\">Funded, %</th>"
        "<th scope=\"col\">Charged, GPU h</th><th scope=\"col\">Free, GPU h</th>"
        "<th scope=\"col\">Owed, GPU h</th><th scope=\"col\">Delivered, %</th>"
        "<th scope=\"col\">Starved, %</th><th scope=\"col\">Wait p50</th>"
        "<th scope=\"col\">Wait p90</th><th scope=\"col\">Runs taken</th></tr></thead><tbody>\n";
    const auto hours = [](std::int64_t gpu_seconds) {
        return grouped((gpu_seconds + 1800) / 3600);
    };
    for (const BudgetSummary& budget : summary.budgets) {
        const auto cell = [&](const char* label, const std::string& value) {
            return "<td data-label=\"" + std::string(label) + "\">" + value + "</td>";
        };
        out += "<tr><th scope=\"row\">" +
               escaped(budget.name.empty() ? "(no budget)" : budget.name) + "</th>" +
               cell("Funded, %", written("%.1f", 100 * budget.funded_fraction)) +
               cell("Charged, GPU h", hours(budget.charged_gpu_seconds)) +
               cell("Free, GPU h", hours(budget.unallocated_gpu_seconds)) +
               cell("Owed, GPU h", hours(budget.owed_gpu_seconds)) +
               cell("Delivered, %", budget.owed_gpu_seconds > 0
                                        ? written("%.1f", 100 * budget.delivered_fraction())
                                        : std::string("–")) +
               cell("Starved, %", budget.half_days_with_demand > 0
                                      ? written("%.1f", 100 * budget.starved_fraction())
                                      : std::string("–")) +
               cell("Wait p50", waits_or_dash(budget.waits, budget.waits.p50)) +
               cell("Wait p90", waits_or_dash(budget.waits, budget.waits.p90)) +
               cell("Runs taken", grouped_count(budget.preemptions_suffered)) + "</tr>\n";
    }
    return out + "</tbody></table>\n";
}

std::string growth_table(const GrowthLists& lists, const std::string& before,
                         const std::string& after) {
    if (lists.users.empty() && lists.budgets.empty()) {
        return {};
    }
    std::string out = "<table class=\"wide\"><caption>Who waits longer under " + escaped(after) +
                      " than under " + escaped(before) +
                      ": the largest growth of p90</caption><thead><tr><th scope=\"col\">Who</th>"
                      "<th scope=\"col\">Jobs</th><th scope=\"col\">p90 " +
                      escaped(before) + "</th><th scope=\"col\">p90 " + escaped(after) +
                      "</th></tr></thead><tbody>\n";
    const auto rows = [&](const char* kind, const std::vector<Growth>& list) {
        for (const Growth& each : list) {
            out += "<tr><th scope=\"row\">" + std::string(kind) + escaped(each.name) +
                   "</th><td data-label=\"Jobs\">" + grouped_count(each.jobs) +
                   "</td><td data-label=\"p90 " + escaped(before) + "\">" +
                   short_duration(each.p90_before) + "</td><td data-label=\"p90 " + escaped(after) +
                   "\">" + short_duration(each.p90_after) + "</td></tr>\n";
        }
    };
    rows("user ", lists.users);
    rows("budget ", lists.budgets);
    return out + "</tbody></table>\n";
}

std::string policy_switch(std::span<const SimRecord* const> records) {
    if (records.size() < 2) {
        return {};
    }
    std::string out =
        "<div class=\"bar\" id=\"switch\" role=\"group\" aria-label=\"Policy shown\">"
        "<span>Policy:</span>\n";
    for (std::size_t i = 0; i < records.size(); ++i) {
        out += "<button type=\"button\" data-show=\"" + std::to_string(i) + "\" aria-pressed=\"" +
               (i == 0 ? "true" : "false") + "\">" + escaped(records[i]->policy) + "</button>\n";
    }
    return out + "</div>\n";
}

std::string legend(const TeamColours& colours, bool drains) {
    std::string out =
        "<ul class=\"legend\" id=\"teams\" aria-label=\"Teams; a button shows its "
        "team alone\">\n";
    const auto entry = [&](std::uint32_t team, const std::string& name) {
        out += "<li><button type=\"button\" aria-pressed=\"false\" data-team=\"" +
               std::to_string(team) +
               "\"><span class=\"swatch\" style=\"background:" + team_colour(team, 0) +
               "\"></span>" + escaped(name) + "</button></li>\n";
    };
    const std::size_t most = std::min<std::size_t>(colours.teams().size(), 60);
    for (std::uint32_t team = 0; team < most; ++team) {
        entry(team, colours.teams()[team]);
    }
    if (colours.has_jobs_without_team()) {
        entry(TeamColours::kNoTeam, "no budget");
    }
    out += "</ul>\n<ul class=\"legend\" aria-label=\"Marks\">\n";
    const auto mark = [&](const char* classes, bool filled, const char* text) {
        out += "<li class=\"mark\"><span class=\"swatch " + std::string(classes) + "\"" +
               (filled ? " style=\"background-color:" + std::string(team_colour(0, 0)) + "\""
                       : std::string()) +
               "></span>" + text + "</li>\n";
    };
    mark("", true, "protected by its contract");
    mark("open", true, "may be interrupted");
    mark("taken", true, "preempted here");
    mark("idle", false, "idle");
    if (drains) {
        mark("drain", false, "node drains or is away");
    }
    return out +
           "</ul>\n<p class=\"quiet\">The shade tells the workloads of a team apart; a run "
           "that was queued again keeps its shade." +
           (colours.teams().size() > kHues ? " There are more than " + std::to_string(kHues) +
                                                 " teams: their hues come round again."
                                           : std::string()) +
           "</p>\n";
}

std::string timeline_section(const SimRecord& first, const TeamColours& colours, bool drains) {
    return "<section aria-labelledby=\"h-timeline\">\n<h2 id=\"h-timeline\">Timeline</h2>\n"
           "<p class=\"quiet\">A row for each GPU, a bar for each run.</p>\n"
           "<div class=\"bar\" role=\"group\" aria-label=\"Time shown\">"
           "<button type=\"button\" id=\"zoom-in\" aria-label=\"Zoom in\">+</button>"
           "<button type=\"button\" id=\"zoom-out\" aria-label=\"Zoom out\">−</button>"
           "<button type=\"button\" id=\"pan-left\" aria-label=\"Earlier\">←</button>"
           "<button type=\"button\" id=\"pan-right\" aria-label=\"Later\">→</button>"
           "<button type=\"button\" id=\"zoom-all\">All</button>"
           "<span id=\"shown\" class=\"quiet\" role=\"status\"></span></div>\n"
           "<figure class=\"frame\"><canvas id=\"timeline\" tabindex=\"0\" role=\"application\" "
           "aria-roledescription=\"timeline\" aria-label=\"Timeline of " +
           escaped(cluster_text(first)) +
           "\" aria-describedby=\"timeline-keys\"></canvas></figure>\n"
           "<output id=\"about-run\" aria-live=\"polite\" style=\"display:block\" "
           "data-hint=\"Point "
           "at a run to read about it here.\">Point at a run to read about it here.</output>\n" +
           legend(colours, drains) +
           "<p class=\"quiet\" id=\"timeline-keys\">Drag to move; Ctrl and wheel, a double click "
           "or "
           "two fingers to zoom. With the keyboard, on the timeline: + and − zoom, ← and → move, "
           "Home shows all, n and p go to the next and the previous run.</p>\n</section>\n";
}

std::string waits_section(std::span<const SimRecord* const> records,
                          const std::vector<Summary>& summaries) {
    std::string out =
        "<section aria-labelledby=\"h-waits\">\n<h2 id=\"h-waits\">Waits</h2>\n"
        "<p class=\"quiet\">How many of the jobs had started within a time. Who did not start "
        "waits until the end.</p>\n<div class=\"bar\"><label>Lines <select id=\"wait-lines\">"
        "<option value=\"\">all classes, one policy</option>";
    if (records.size() > 1) {
        for (const NamedWaits& each : summaries[0].waits) {
            if (each.waits.count > 0) {
                out += "<option value=\"" + escaped(each.name) +
                       "\">all policies: " + escaped(each.name) + "</option>";
            }
        }
    }
    out +=
        "</select></label></div>\n<div id=\"waits\"></div>\n"
        "<ul class=\"legend\" id=\"wait-legend\"></ul>\n";
    for (std::size_t i = 0; i < summaries.size(); ++i) {
        const std::string under =
            summaries.size() > 1 ? " under " + escaped(summaries[i].policy) : "";
        out += "<div data-record=\"" + std::to_string(i) + "\">\n" +
               waits_table(summaries[i].waits,
                           ("Waits by class" + under +
                            "; below a p90 of fewer than 200 jobs its 95 % interval")
                               .c_str(),
                           "Class") +
               waits_table(summaries[i].waits_by_size, ("Waits by size" + under).c_str(), "GPUs") +
               "</div>\n";
    }
    for (std::size_t i = 1; i < records.size(); ++i) {
        out += growth_table(largest_growth(*records[0], *records[i]), records[0]->policy,
                            records[i]->policy);
    }
    return out + "</section>\n";
}

std::string shares_section(const std::vector<Summary>& summaries) {
    std::string out =
        "<section aria-labelledby=\"h-shares\">\n<h2 id=\"h-shares\">Shares over time</h2>\n"
        "<p class=\"quiet\">GPUs that each budget held, free runs included, stacked.</p>\n"
        "<div id=\"shares\"></div>\n<p class=\"quiet\" style=\"margin-top:14px\">Each budget "
        "against its funding, in GPUs: full colour is charged, striped is free; the dashed line is "
        "what it is funded for, the thin line its demand, cut off at the top.</p>\n"
        "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
        "<pattern id=\"free-stripes\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"2.3\" height=\"6\" "
        "style=\"fill:var(--stripe)\"/></pattern></defs></svg>\n"
        "<div id=\"budgets\" class=\"many\"></div>\n";
    for (std::size_t i = 0; i < summaries.size(); ++i) {
        out += "<div data-record=\"" + std::to_string(i) + "\">\n" + budgets_table(summaries[i]) +
               "</div>\n";
    }
    return out + "</section>\n";
}

std::string warnings(std::span<const SimRecord* const> records,
                     const std::vector<Summary>& summaries) {
    std::string out;
    for (const Summary& summary : summaries) {
        if (!summary.invariants.all_hold()) {
            out += "<div class=\"warn\" role=\"alert\"><p>Policy " + escaped(summary.policy) +
                   " breaks rules that no policy may break:</p><ul>";
            for (const std::string& each : summary.invariants.violations) {
                out += "<li>" + escaped(each) + "</li>";
            }
            out += "</ul></div>\n";
        }
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
        for (const std::string& note : records[i]->notes) {
            if (i == 0 || std::find(records[0]->notes.begin(), records[0]->notes.end(), note) ==
                              records[0]->notes.end()) {
                out += "<p class=\"quiet\">" + escaped(note) + "</p>\n";
            }
        }
    }
    return out;
}

}  // namespace

std::string report_html(std::span<const SimRecord* const> records, const ReportOptions& options) {
    if (records.empty()) {
        return {};
    }
    const TeamColours colours(records);
    std::vector<Summary> summaries;
    std::string policies;
    bool drains = false;
    std::int64_t longest = 0;
    for (const SimRecord* record : records) {
        summaries.push_back(summarize(*record));
        policies += (policies.empty() ? "" : ", ") + record->policy;
        drains = drains || !record->drains.empty();
        longest = std::max(longest, record->end_at - record->begin_at);
    }
    const SimRecord& first = *records[0];
    const std::string title = options.title.empty() ? cluster_text(first) + ", " +
                                                          short_duration(longest) + ": " + policies
                                                    : options.title;
    std::string out =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n<title>" +
        escaped(title) + "</title>\n<style>" + kPageStyle +
        "</style>\n</head>\n<body>\n<header>\n" + "<h1>" + escaped(title) +
        "</h1>\n<p class=\"quiet\">" + grouped_count(summaries[0].jobs) + " jobs, " +
        grouped_count(summaries[0].finished) + " finished" +
        (records.size() > 1 ? " under " + escaped(first.policy) : std::string()) +
        "; simulated with sreplay.</p>\n</header>\n<main>\n" + warnings(records, summaries) +
        key_figures(summaries) +
        "<noscript><p class=\"warn\">The pictures of this page are drawn by its script, which does "
        "not run here; the tables are complete.</p></noscript>\n" +
        policy_switch(records) + timeline_section(first, colours, drains) +
        waits_section(records, summaries) + shares_section(summaries) +
        "</main>\n<footer>One page, nothing is loaded from elsewhere.</footer>\n"
        "<script type=\"application/json\" id=\"record\">" +
        page_json(records, summaries, colours) + "</script>\n<script>" + kPageScript +
        "</script>\n</body>\n</html>\n";
    return out;
}

}  // namespace tranche::sim
