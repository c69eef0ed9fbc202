// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "sim/summary.hpp"
#include "sim/words.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kMostBudgets = 40;  // in a table; JSON has all of them

template <typename... Values>
std::string written(const char* format, Values... values) {
    char text[160];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

std::string percent(double fraction) {
    return written("%.1f", 100 * fraction);
}
std::string hours(std::int64_t gpu_seconds) {
    return grouped((gpu_seconds + 1800) / 3600);
}
std::string waits_or_dash(const WaitSummary& waits, std::int64_t seconds) {
    return waits.count == 0 ? "-" : short_duration(seconds);
}
std::string interval_text(const WaitSummary& waits) {
    return waits.p90_interval ? short_duration(waits.p90_interval->low) + " .. " +
                                    short_duration(waits.p90_interval->high)
                              : std::string();
}

std::string delivered_text(const Summary& summary) {
    return summary.teams == 0 ? "-" : percent(summary.delivered_fraction);
}

// Rows of texts, the first of them the heads; all columns but the first are numbers.
class Rows {
  public:
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

    std::string text() const {
        std::vector<std::size_t> widths;
        for (const auto& row : rows_) {
            widths.resize(std::max(widths.size(), row.size()));
            for (std::size_t i = 0; i < row.size(); ++i) {
                widths[i] = std::max(widths[i], shown_columns(row[i]));
            }
        }
        std::string out;
        for (const auto& row : rows_) {
            std::string line;
            for (std::size_t i = 0; i < row.size(); ++i) {
                const std::string space(widths[i] - shown_columns(row[i]), ' ');
                line += i == 0 ? row[i] + space : "  " + space + row[i];
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        return out;
    }

  private:
    std::vector<std::vector<std::string>> rows_;
};

std::string waits_text(const std::string& head, const std::vector<NamedWaits>& list) {
    Rows rows;
    const bool intervals = std::any_of(list.begin(), list.end(), [](const NamedWaits& each) {
        return each.waits.p90_interval.has_value();
    });
    rows.add({head, "JOBS", "P50", "P90", intervals ? "P90, 95 % SURE" : "", "MEAN", "MAX"});
    for (const NamedWaits& each : list) {
        const WaitSummary& waits = each.waits;
        rows.add({printable(each.name), grouped(static_cast<std::int64_t>(waits.count)),
                  waits_or_dash(waits, waits.p50), waits_or_dash(waits, waits.p90),
                  interval_text(waits), waits_or_dash(waits, std::llround(waits.mean)),
                  waits_or_dash(waits, waits.max)});
    }
    return rows.text();
}

// Budgets as they are shown: those with the most GPU time first where they are too many.
std::vector<const BudgetSummary*> shown_budgets(const Summary& summary) {
    std::vector<const BudgetSummary*> out;
    for (const BudgetSummary& budget : summary.budgets) {
        out.push_back(&budget);
    }
    if (out.size() > kMostBudgets) {
        std::stable_sort(out.begin(), out.end(),
                         [](const BudgetSummary* a, const BudgetSummary* b) {
                             return a->charged_gpu_seconds + a->unallocated_gpu_seconds >
                                    b->charged_gpu_seconds + b->unallocated_gpu_seconds;
                         });
        out.resize(kMostBudgets);
    }
    return out;
}

std::string budget_name(const BudgetSummary& budget) {
    return budget.name.empty() ? "(no budget)" : printable(budget.name);
}

std::string more_budgets(const Summary& summary) {
    return summary.budgets.size() > kMostBudgets
               ? "… and " + std::to_string(summary.budgets.size() - kMostBudgets) +
                     " budgets with fewer GPU hours\n"
               : std::string();
}

std::string budgets_text(const Summary& summary) {
    Rows rows;
    rows.add({"BUDGET", "FUNDED", "CHARGED", "FREE", "OWED", "DELIV.", "STARVED", "P50", "P90",
              "TAKEN"});
    rows.add({"", "%", "GPU h", "GPU h", "GPU h", "%", "%", "wait", "wait", "runs"});
    for (const BudgetSummary* budget : shown_budgets(summary)) {
        const bool owed = budget->owed_gpu_seconds > 0;
        rows.add({budget_name(*budget), percent(budget->funded_fraction),
                  hours(budget->charged_gpu_seconds), hours(budget->unallocated_gpu_seconds),
                  hours(budget->owed_gpu_seconds),
                  owed ? percent(budget->delivered_fraction()) : "-",
                  budget->half_days_with_demand > 0 ? percent(budget->starved_fraction()) : "-",
                  waits_or_dash(budget->waits, budget->waits.p50),
                  waits_or_dash(budget->waits, budget->waits.p90),
                  grouped(static_cast<std::int64_t>(budget->preemptions_suffered))});
    }
    return rows.text() + more_budgets(summary);
}

std::string teams_text(const Summary& summary) {
    if (summary.teams == 0) {
        return "nothing was owed to any budget";
    }
    return std::to_string(summary.teams_at_95_percent) + " of " + std::to_string(summary.teams) +
           " teams got 95 % or more, the worst, " + printable(summary.worst_team) + ", " +
           percent(summary.worst_team_delivered) + " %";
}

std::string preemptions_text(const PreemptionCounts& counts) {
    const auto of = [](std::uint64_t value, const char* what) {
        return grouped(static_cast<std::int64_t>(value)) + " " + what;
    };
    std::string out = of(counts.requeued, "requeued") + ", " + of(counts.ended, "ended") + "; " +
                      of(counts.wasted, "wasted") + ", " + of(counts.overtaken, "overtaken");
    out += "\n" + std::string(24, ' ') + of(counts.claimant_left, "claimants left") + "; " +
           of(counts.inside_contract, "inside a contract");
    return out;
}

std::string figure_line(const char* name, const std::string& value, const std::string& more) {
    std::string line = written("%-13s %8s", name, value.c_str());
    return more.empty() ? line + "\n" : line + "  " + more + "\n";
}

std::string broken_rules(const Summary& summary) {
    if (summary.invariants.all_hold()) {
        return {};
    }
    std::string out = "\nTHE RECORD BREAKS RULES THAT NO POLICY MAY BREAK:\n";
    for (const std::string& each : summary.invariants.violations) {
        out += "  " + printable(each) + "\n";
    }
    return out;
}

std::string assemblies_text(const SimRecord& record) {
    if (record.assemblies.empty()) {
        return {};
    }
    Rows rows;
    rows.add({"LARGE JOB", "GPUS", "ITS TURN", "GRANTED", "FOR", "STARTED"});
    const std::size_t shown = std::min<std::size_t>(record.assemblies.size(), 20);
    for (std::size_t i = 0; i < shown; ++i) {
        const AssemblyRecord& each = record.assemblies[i];
        const auto after = [&](std::int64_t at) {
            return at < 0 ? std::string("-") : "+" + short_duration(at - each.turn_at);
        };
        const WorkloadJob& job = record.jobs[each.job].job;
        rows.add({printable(job.id), grouped(job.gpus), instant_text(each.turn_at),
                  after(each.granted_at), after(each.date_at), after(each.started_at)});
    }
    std::string out = "\n" + rows.text();
    if (shown < record.assemblies.size()) {
        out += "… and " + std::to_string(record.assemblies.size() - shown) + " more\n";
    }
    return out;
}

// Warnings are said elsewhere, once.
bool is_noted(const std::string& note) {
    return !note.starts_with("warning: ");
}

std::string notes_text(const SimRecord& record) {
    std::string out;
    for (const std::string& note : record.notes) {
        if (is_noted(note)) {
            out += (out.empty() ? "\nNote: " : "Note: ") + printable(note) + "\n";
        }
    }
    return out;
}

// Those of the first, then what only one of the others has.
std::string notes_of_all(std::span<const SimRecord* const> records) {
    std::string out;
    const std::vector<std::string>& first = records[0]->notes;
    for (const SimRecord* record : records) {
        for (const std::string& note : record->notes) {
            const bool common = std::all_of(records.begin(), records.end(), [&](const auto* each) {
                return std::find(each->notes.begin(), each->notes.end(), note) != each->notes.end();
            });
            const bool again =
                record != records[0] && std::find(first.begin(), first.end(), note) != first.end();
            if (!is_noted(note) || (common && again)) {
                continue;
            }
            out += (out.empty() ? "\nNote: " : "Note: ") +
                   (common ? std::string() : printable(record->policy) + ": ") + printable(note) +
                   "\n";
        }
    }
    return out;
}

std::string growth_text(const char* head, const std::vector<Growth>& list, const SimRecord& before,
                        const SimRecord& after) {
    if (list.empty()) {
        return {};
    }
    Rows rows;
    rows.add({head, "JOBS", "P90 " + printable(before.policy), "P90 " + printable(after.policy)});
    for (const Growth& each : list) {
        rows.add({printable(each.name), grouped(static_cast<std::int64_t>(each.jobs)),
                  short_duration(each.p90_before), short_duration(each.p90_after)});
    }
    return "\n" + rows.text();
}

const WaitSummary* waits_named(const std::vector<NamedWaits>& list, const std::string& name) {
    const auto found = std::find_if(list.begin(), list.end(),
                                    [&](const NamedWaits& each) { return each.name == name; });
    return found == list.end() ? nullptr : &found->waits;
}

// Names in the order of the first list that has them.
std::vector<std::string> wait_names(const std::vector<Summary>& all,
                                    std::vector<NamedWaits> Summary::*list) {
    std::vector<std::string> names;
    for (const Summary& summary : all) {
        for (const NamedWaits& each : summary.*list) {
            if (std::find(names.begin(), names.end(), each.name) == names.end()) {
                names.push_back(each.name);
            }
        }
    }
    return names;
}

template <typename Cell>
void add_row(Rows& rows, const std::string& name, const std::vector<Summary>& all, Cell cell) {
    std::vector<std::string> row = {name};
    for (const Summary& summary : all) {
        row.push_back(cell(summary));
    }
    rows.add(std::move(row));
}

void add_wait_rows(Rows& rows, const char* what, const std::vector<Summary>& all,
                   std::vector<NamedWaits> Summary::*list) {
    for (const std::string& name : wait_names(all, list)) {
        const auto figure = [&](std::int64_t WaitSummary::*member) {
            return [&, member](const Summary& summary) {
                const WaitSummary* waits = waits_named(summary.*list, name);
                return waits == nullptr ? std::string("-") : waits_or_dash(*waits, waits->*member);
            };
        };
        const std::string label = what + printable(name);
        add_row(rows, label + ", p50", all, figure(&WaitSummary::p50));
        add_row(rows, label + ", p90", all, figure(&WaitSummary::p90));
        const bool few = std::any_of(all.begin(), all.end(), [&](const Summary& summary) {
            const WaitSummary* waits = waits_named(summary.*list, name);
            return waits != nullptr && waits->p90_interval.has_value();
        });
        if (few) {
            const auto bound = [&](std::int64_t Interval::*member) {
                return [&, member](const Summary& summary) {
                    const WaitSummary* waits = waits_named(summary.*list, name);
                    return waits != nullptr && waits->p90_interval
                               ? short_duration((*waits->p90_interval).*member)
                               : std::string("-");
                };
            };
            add_row(rows, "  p90 95 % sure, from", all, bound(&Interval::low));
            add_row(rows, "  to", all, bound(&Interval::high));
        }
    }
}

std::string key_figures(const std::vector<Summary>& all) {
    Rows rows;
    add_row(rows, "", all, [](const Summary& s) { return printable(s.policy); });
    add_row(rows, "finished jobs", all,
            [](const Summary& s) { return grouped(static_cast<std::int64_t>(s.finished)); });
    add_row(rows, "occupancy, %", all, [](const Summary& s) { return percent(s.occupancy); });
    add_row(rows, "free runs, % of the GPUs", all,
            [](const Summary& s) { return percent(s.unallocated_fraction); });
    add_row(rows, "delivered, % of owed", all, [](const Summary& s) { return delivered_text(s); });
    add_row(rows, "teams with 95 % or more", all, [](const Summary& s) {
        return std::to_string(s.teams_at_95_percent) + " of " + std::to_string(s.teams);
    });
    add_row(rows, "worst team, %", all, [](const Summary& s) {
        return s.teams == 0 ? std::string("-") : percent(s.worst_team_delivered);
    });
    add_row(rows, "starved half-days, %", all,
            [](const Summary& s) { return percent(s.starved_fraction); });
    add_row(rows, "goodput, %", all, [](const Summary& s) { return percent(s.goodput_fraction); });
    add_row(rows, "lost, GPU h", all, [](const Summary& s) {
        return written("%.0f", s.lost_requeued_gpu_hours + s.lost_ended_gpu_hours);
    });
    add_row(rows, "preemptions", all, [](const Summary& s) {
        return grouped(static_cast<std::int64_t>(s.preemptions.total));
    });
    add_row(rows, "  inside a contract", all, [](const Summary& s) {
        return grouped(static_cast<std::int64_t>(s.preemptions.inside_contract));
    });
    return rows.text();
}

std::string team_hours(const std::vector<Summary>& all) {
    Rows rows;
    std::vector<std::string> head = {"GPU HOURS", "FUNDED %"};
    for (const Summary& summary : all) {
        head.push_back(printable(summary.policy));
    }
    rows.add(std::move(head));
    for (const BudgetSummary* budget : shown_budgets(all.front())) {
        std::vector<std::string> row = {budget_name(*budget), percent(budget->funded_fraction)};
        for (const Summary& summary : all) {
            const auto found =
                std::find_if(summary.budgets.begin(), summary.budgets.end(),
                             [&](const BudgetSummary& each) { return each.name == budget->name; });
            row.push_back(found == summary.budgets.end()
                              ? "-"
                              : hours(found->charged_gpu_seconds + found->unallocated_gpu_seconds));
        }
        rows.add(std::move(row));
    }
    return rows.text() + more_budgets(all.front());
}

std::string jobs_text(std::size_t count) {
    return grouped(static_cast<std::int64_t>(count)) + (count == 1 ? " job" : " jobs");
}

}  // namespace

std::string summary_text(const SimRecord& record, const SummaryOptions& options) {
    const Summary summary = summarize(record);
    std::string out = cluster_text(record) + ", policy " + printable(summary.policy) + ", " +
                      short_duration(summary.simulated_seconds) + ": " + jobs_text(summary.jobs) +
                      ", " + grouped(static_cast<std::int64_t>(summary.finished)) + " finished\n";
    if (options.wall_seconds) {
        out += written("simulated in %.2f s\n", summary.wall_seconds);
    }
    out += "\n";
    out += figure_line("occupancy", percent(summary.occupancy) + " %",
                       "of the available GPU time, free runs included");
    out += figure_line("free runs", percent(summary.unallocated_fraction) + " %",
                       "of the available GPU time");
    out += figure_line("availability", percent(summary.availability) + " %",
                       "of the installed GPU time");
    out += figure_line("demand", written("%.2f x", summary.demand_allocated + summary.demand_free),
                       written("the available GPUs: %.2f allocated, %.2f free",
                               summary.demand_allocated, summary.demand_free));
    out += figure_line("delivered", summary.teams == 0 ? "-" : delivered_text(summary) + " %",
                       teams_text(summary));
    out += figure_line("starved", percent(summary.starved_fraction) + " %",
                       "of the half-days with demand");
    out += figure_line("goodput", percent(summary.goodput_fraction) + " %",
                       written("lost GPU hours: %.0f requeued, %.0f ended",
                               summary.lost_requeued_gpu_hours, summary.lost_ended_gpu_hours));
    out += figure_line("preemptions", grouped(static_cast<std::int64_t>(summary.preemptions.total)),
                       preemptions_text(summary.preemptions));
    out += "\n" + waits_text("WAIT", summary.waits);
    if (!summary.waits_by_size.empty()) {
        out += "\n" + waits_text("WAIT BY GPUS", summary.waits_by_size);
    }
    if (!summary.budgets.empty()) {
        out += "\n" + budgets_text(summary);
    }
    return out + assemblies_text(record) + notes_text(record) + broken_rules(summary);
}

std::string comparison_text(std::span<const SimRecord* const> records,
                            const SummaryOptions& options) {
    if (records.empty()) {
        return {};
    }
    std::vector<Summary> all;
    for (const SimRecord* record : records) {
        all.push_back(summarize(*record));
    }
    std::int64_t longest = 0;
    for (const Summary& summary : all) {
        longest = std::max(longest, summary.simulated_seconds);
    }
    std::string out = cluster_text(*records[0]) + ", " + short_duration(longest) + ": " +
                      jobs_text(all[0].jobs) + "\n\n" + key_figures(all) + "\n";
    if (options.wall_seconds) {
        Rows rows;
        add_row(rows, "simulated in, s", all,
                [](const Summary& s) { return written("%.2f", s.wall_seconds); });
        out += rows.text() + "\n";
    }
    Rows waits;
    add_row(waits, "WAIT", all, [](const Summary& s) { return printable(s.policy); });
    add_wait_rows(waits, "", all, &Summary::waits);
    add_wait_rows(waits, "GPUs ", all, &Summary::waits_by_size);
    out += waits.text();
    if (!all.front().budgets.empty()) {
        out += "\n" + team_hours(all);
    }
    for (std::size_t i = 1; i < records.size(); ++i) {
        const GrowthLists lists = largest_growth(*records[0], *records[i]);
        out += growth_text("USERS WHO WAIT LONGER", lists.users, *records[0], *records[i]);
        out += growth_text("BUDGETS THAT WAIT LONGER", lists.budgets, *records[0], *records[i]);
    }
    out += notes_of_all(records);
    for (const Summary& summary : all) {
        if (!summary.invariants.all_hold()) {
            out += "\n" + printable(summary.policy) + ":" + broken_rules(summary);
        }
    }
    return out;
}

}  // namespace tranche::sim
