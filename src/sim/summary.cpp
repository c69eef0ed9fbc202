// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <string_view>

namespace tranche::sim {
namespace {

constexpr std::size_t kIntervalBelow = 200;  // jobs (DESIGN 4.5)
constexpr std::size_t kResamples = 2000;
constexpr std::uint64_t kBootstrapSeed = 20220131;
constexpr std::size_t kHalfDay = 12;  // hours

// Rank, from 0, of a percentile of `count` values.
std::size_t rank_of(std::size_t count, int percent) {
    const std::size_t rank = (count * static_cast<std::size_t>(percent) + 99) / 100;
    return rank == 0 ? 0 : rank - 1;
}

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
std::uint64_t next_random(std::uint64_t& state) {
    std::uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

struct Ranks {
    std::size_t low = 0, high = 0;
};

// Which order statistics bound the p90 of `count` values. Samples are drawn by index, so the
// ranks depend on the count alone.
Ranks bootstrap_ranks(std::size_t count) {
    std::uint64_t state = kBootstrapSeed + count;
    const std::size_t wanted = rank_of(count, 90);
    std::vector<std::uint32_t> drawn(count);
    std::vector<std::size_t> p90s(kResamples);
    for (std::size_t& p90 : p90s) {
        std::fill(drawn.begin(), drawn.end(), 0U);
        for (std::size_t i = 0; i < count; ++i) {
            ++drawn[next_random(state) % count];
        }
        std::size_t below = 0, index = 0;
        while ((below += drawn[index]) <= wanted) {
            ++index;
        }
        p90 = index;
    }
    std::sort(p90s.begin(), p90s.end());
    return {p90s[kResamples * 25 / 1000 - 1], p90s[kResamples * 975 / 1000 - 1]};
}

class WaitSummaries {
  public:
    WaitSummary of(std::vector<std::int64_t>& waits, bool with_interval) {
        WaitSummary out;
        out.count = waits.size();
        if (waits.empty()) {
            return out;
        }
        std::sort(waits.begin(), waits.end());
        std::int64_t sum = 0;
        for (const std::int64_t wait : waits) {
            sum += wait;
        }
        out.p50 = waits[rank_of(waits.size(), 50)];
        out.p90 = waits[rank_of(waits.size(), 90)];
        out.max = waits.back();
        out.mean = static_cast<double>(sum) / static_cast<double>(waits.size());
        if (with_interval && waits.size() < kIntervalBelow) {
            auto found = ranks_.find(waits.size());
            if (found == ranks_.end()) {
                found = ranks_.emplace(waits.size(), bootstrap_ranks(waits.size())).first;
            }
            out.p90_interval = Interval{waits[found->second.low], waits[found->second.high]};
        }
        return out;
    }

  private:
    std::map<std::size_t, Ranks> ranks_;
};

using WaitLists = std::map<std::string, std::vector<std::int64_t>>;

bool waited(const JobRecord& job) {
    return job.state != JobState::future && job.state != JobState::refused;
}

std::int64_t wait_of(const SimRecord& record, const JobRecord& job) {
    const std::int64_t until = job.first_start_at >= 0 ? job.first_start_at
                               : job.ended_at >= 0     ? job.ended_at
                                                       : record.end_at;
    return std::max<std::int64_t>(0, until - job.submitted_at);
}

constexpr std::string_view kDefinedClasses[] = {"all", "debug", "small", "large"};

bool is_defined(const std::string& wait_class) {
    return std::find(std::begin(kDefinedClasses), std::end(kDefinedClasses), wait_class) !=
           std::end(kDefinedClasses);
}

bool is_of(const JobRecord& job, std::string_view wait_class, std::int64_t cluster_gpus) {
    const bool debug = job.fits_lane || job.job.wait_class == "debug";
    if (wait_class == "all" || job.job.wait_class == wait_class) {
        return true;
    }
    return wait_class == "debug"   ? debug
           : wait_class == "small" ? job.job.gpus <= 8 && !debug
           : wait_class == "large" ? 4 * job.job.gpus >= cluster_gpus
                                   : false;
}

// Upper ends of the sizes: 1, 2-4, 5-8, 9-16, …
std::size_t size_index(std::int64_t gpus) {
    std::size_t index = 0;
    for (std::int64_t most = 1; gpus > most; most = index == 0 ? 4 : most * 2, ++index) {
    }
    return index;
}
std::string size_name(std::size_t index) {
    if (index == 0) {
        return "1";
    }
    const std::int64_t most = std::int64_t{2} << index;
    const std::int64_t least = index == 1 ? 2 : most / 2 + 1;
    return std::to_string(least) + "-" + std::to_string(most);
}

// Without those below it.
BudgetSummary summarize_budget(const BudgetRecord& budget) {
    BudgetSummary out;
    out.name = budget.name;
    out.parent = budget.parent;
    out.is_leaf = budget.is_leaf;
    out.funded_fraction = budget.funded_fraction;
    out.preemptions_suffered = budget.preemptions_suffered;
    out.preemptions_caused = budget.preemptions_caused;
    for (const BudgetHour& hour : budget.hours) {
        out.charged_gpu_seconds += hour.charged;
        out.unallocated_gpu_seconds += hour.free;
        out.owed_gpu_seconds += std::min(hour.funded, hour.demand);
    }
    out.delivered_gpu_seconds = std::min(out.charged_gpu_seconds, out.owed_gpu_seconds);
    for (std::size_t from = 0; from + kHalfDay <= budget.hours.size(); from += kHalfDay) {
        std::int64_t funded = 0, charged = 0;
        bool wanted_all = true;
        for (std::size_t i = from; i < from + kHalfDay; ++i) {
            const BudgetHour& hour = budget.hours[i];
            funded += hour.funded;
            charged += hour.charged;
            // A thousandth is rounding.
            wanted_all = wanted_all && hour.demand >= hour.funded - hour.funded / 1000;
        }
        if (funded > 0 && wanted_all) {
            ++out.half_days_with_demand;
            out.starved_half_days += 4 * charged < funded ? 1 : 0;
        }
    }
    return out;
}

// Which budgets are above which, by their place in a list.
class BudgetChains {
  public:
    explicit BudgetChains(const std::vector<BudgetRecord>& budgets) : budgets_(budgets) {
        for (std::size_t i = 0; i < budgets.size(); ++i) {
            places_.emplace(budgets[i].name, i);
        }
    }
    // The budget itself, its parent, and so on; nothing for a name that is not in the list.
    std::vector<std::size_t> from(const std::string& name) const {
        std::vector<std::size_t> out;
        for (auto place = places_.find(name); place != places_.end() && out.size() < places_.size();
             place = places_.find(budgets_[place->second].parent)) {
            out.push_back(place->second);
            if (budgets_[place->second].parent.empty()) {
                break;
            }
        }
        return out;
    }

  private:
    const std::vector<BudgetRecord>& budgets_;
    std::map<std::string_view, std::size_t> places_;
};

double ratio(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

double gpu_hours(std::int64_t gpu_seconds) {
    return static_cast<double>(gpu_seconds) / 3600;
}

void summarize_budgets(const SimRecord& record, Summary& out) {
    std::vector<BudgetSummary> own;
    std::int64_t owed = 0, delivered = 0;
    std::uint64_t half_days = 0, starved = 0;
    for (const BudgetRecord& each : record.budgets) {
        const BudgetSummary& budget = own.emplace_back(summarize_budget(each));
        if (budget.owed_gpu_seconds == 0) {
            continue;
        }
        owed += budget.owed_gpu_seconds;
        delivered += budget.delivered_gpu_seconds;
        half_days += budget.half_days_with_demand;
        starved += budget.starved_half_days;
        out.teams_at_95_percent += budget.delivered_fraction() >= 0.95 ? 1 : 0;
        if (out.teams++ == 0 || budget.delivered_fraction() < out.worst_team_delivered) {
            out.worst_team = budget.name;
            out.worst_team_delivered = budget.delivered_fraction();
        }
    }
    out.delivered_fraction = owed == 0 ? 1.0 : ratio(delivered, owed);
    out.starved_fraction =
        ratio(static_cast<std::int64_t>(starved), static_cast<std::int64_t>(half_days));
    out.budgets = own;
    const BudgetChains chains(record.budgets);
    for (std::size_t i = 0; i < own.size(); ++i) {
        for (const std::size_t above : chains.from(own[i].name)) {
            if (above == i) {
                continue;
            }
            BudgetSummary& sum = out.budgets[above];
            sum.charged_gpu_seconds += own[i].charged_gpu_seconds;
            sum.unallocated_gpu_seconds += own[i].unallocated_gpu_seconds;
            sum.owed_gpu_seconds += own[i].owed_gpu_seconds;
            sum.delivered_gpu_seconds += own[i].delivered_gpu_seconds;
            sum.half_days_with_demand += own[i].half_days_with_demand;
            sum.starved_half_days += own[i].starved_half_days;
            sum.preemptions_suffered += own[i].preemptions_suffered;
            sum.preemptions_caused += own[i].preemptions_caused;
        }
    }
}

void summarize_waits(const SimRecord& record, Summary& out) {
    const std::int64_t cluster_gpus = record.cluster.gpus();
    std::vector<std::vector<std::int64_t>> defined(std::size(kDefinedClasses));
    WaitLists classes;
    const BudgetChains chains(record.budgets);
    std::map<std::string, std::vector<std::size_t>> chain_of;
    std::vector<std::vector<std::int64_t>> budgets(record.budgets.size());
    std::map<std::size_t, std::vector<std::int64_t>> sizes;
    for (const JobRecord& job : record.jobs) {
        if (!waited(job)) {
            continue;
        }
        const std::int64_t wait = wait_of(record, job);
        const std::string& named = job.job.wait_class;
        for (std::size_t i = 0; i < defined.size(); ++i) {
            if (is_of(job, kDefinedClasses[i], cluster_gpus)) {
                defined[i].push_back(wait);
            }
        }
        if (!named.empty() && !is_defined(named)) {
            classes[named].push_back(wait);
        }
        sizes[size_index(job.job.gpus)].push_back(wait);
        const auto chain = chain_of.try_emplace(job.job.budget);
        if (chain.second) {
            chain.first->second = chains.from(job.job.budget);
            if (chain.first->second.empty()) {
                chain.first->second = chains.from("(none)");
            }
        }
        for (const std::size_t budget : chain.first->second) {
            budgets[budget].push_back(wait);
        }
    }
    WaitSummaries summaries;
    for (std::size_t i = 0; i < defined.size(); ++i) {
        out.waits.push_back({std::string(kDefinedClasses[i]), summaries.of(defined[i], true)});
    }
    for (auto& [name, waits] : classes) {
        out.waits.push_back({name, summaries.of(waits, true)});
    }
    for (auto& [index, waits] : sizes) {
        out.waits_by_size.push_back({size_name(index), summaries.of(waits, true)});
    }
    for (std::size_t i = 0; i < budgets.size(); ++i) {
        out.budgets[i].waits = summaries.of(budgets[i], true);
    }
}

Json decimal(double value, int places) {
    const double scale = std::pow(10.0, places);
    return Json::adopt(json_real(std::round(value * scale) / scale));
}
Json count(std::uint64_t value) {
    return Json::integer(static_cast<std::int64_t>(value));
}
Json instant(std::int64_t at) {
    return at < 0 ? Json() : Json::integer(at);
}

Json waits_to_json(const WaitSummary& waits, bool whole) {
    const auto seconds = [&](std::int64_t value) {
        return waits.count == 0 ? Json() : Json::integer(value);
    };
    Json out = Json::object();
    out.set("count", count(waits.count));
    out.set("p50", seconds(waits.p50));
    out.set("p90", seconds(waits.p90));
    if (whole) {
        out.set("mean", waits.count == 0 ? Json() : decimal(waits.mean, 3));
        out.set("max", seconds(waits.max));
    }
    if (waits.p90_interval) {
        out.set("p90_interval", Json::array()
                                    .append(Json::integer(waits.p90_interval->low))
                                    .append(Json::integer(waits.p90_interval->high)));
    }
    return out;
}

Json budget_to_json(const BudgetSummary& budget) {
    Json out = Json::object();
    out.set("name", budget.name);
    out.set("parent", budget.parent);
    out.set("leaf", budget.is_leaf);
    out.set("funded_fraction", decimal(budget.funded_fraction, 6));
    out.set("charged_gpu_hours", decimal(gpu_hours(budget.charged_gpu_seconds), 3));
    out.set("unallocated_gpu_hours", decimal(gpu_hours(budget.unallocated_gpu_seconds), 3));
    out.set("owed_gpu_hours", decimal(gpu_hours(budget.owed_gpu_seconds), 3));
    out.set("delivered_fraction", decimal(budget.delivered_fraction(), 6));
    out.set("starved_fraction", decimal(budget.starved_fraction(), 6));
    out.set("wait_seconds", waits_to_json(budget.waits, false));
    out.set("preemptions", Json::object()
                               .set("suffered", count(budget.preemptions_suffered))
                               .set("caused", count(budget.preemptions_caused)));
    return out;
}

Json to_json(const SimRecord& record, const Summary& summary, const SummaryOptions& options) {
    Json out = Json::object();
    out.set("version", 1);
    out.set("policy", summary.policy);
    out.set("jobs", count(summary.jobs));
    out.set("finished", count(summary.finished));
    out.set("simulated_seconds", summary.simulated_seconds);
    if (options.wall_seconds) {
        out.set("wall_seconds", decimal(summary.wall_seconds, 3));
    }
    out.set("occupancy", decimal(summary.occupancy, 6));
    out.set("unallocated_fraction", decimal(summary.unallocated_fraction, 6));
    out.set("availability", decimal(summary.availability, 6));
    Json waits = Json::object();
    for (const NamedWaits& each : summary.waits) {
        // A key must be UTF-8, a class is whatever a trace held.
        waits.set(Json::text(each.name).as_text().c_str(), waits_to_json(each.waits, true));
    }
    out.set("wait_seconds", waits);
    Json sizes = Json::object();
    for (const NamedWaits& each : summary.waits_by_size) {
        sizes.set(each.name.c_str(), waits_to_json(each.waits, true));
    }
    out.set("wait_seconds_by_size", sizes);
    Json budgets = Json::array();
    for (const BudgetSummary& budget : summary.budgets) {
        budgets.append(budget_to_json(budget));
    }
    out.set("budgets", budgets);
    out.set("delivered_fraction", decimal(summary.delivered_fraction, 6));
    out.set("starved_fraction", decimal(summary.starved_fraction, 6));
    Json teams = Json::object();
    teams.set("count", count(summary.teams));
    teams.set("at_least_95_percent", count(summary.teams_at_95_percent));
    teams.set("worst", summary.teams == 0 ? Json()
                                          : Json::object()
                                                .set("name", summary.worst_team)
                                                .set("delivered_fraction",
                                                     decimal(summary.worst_team_delivered, 6)));
    out.set("teams", teams);
    out.set("demand_factor", Json::object()
                                 .set("allocated", decimal(summary.demand_allocated, 6))
                                 .set("free", decimal(summary.demand_free, 6)));
    Json assemblies = Json::array();
    for (const AssemblyRecord& assembly : record.assemblies) {
        assemblies.append(Json::object()
                              .set("job", record.jobs[assembly.job].job.id)
                              .set("turn_at", assembly.turn_at)
                              .set("granted_at", instant(assembly.granted_at))
                              .set("date_at", instant(assembly.date_at))
                              .set("started_at", instant(assembly.started_at)));
    }
    out.set("assemblies", assemblies);
    out.set("lost_gpu_hours", Json::object()
                                  .set("requeued", decimal(summary.lost_requeued_gpu_hours, 3))
                                  .set("ended", decimal(summary.lost_ended_gpu_hours, 3)));
    out.set("goodput_fraction", decimal(summary.goodput_fraction, 6));
    const PreemptionCounts& preemptions = summary.preemptions;
    out.set("preemptions", Json::object()
                               .set("total", count(preemptions.total))
                               .set("requeued", count(preemptions.requeued))
                               .set("ended", count(preemptions.ended))
                               .set("wasted", count(preemptions.wasted))
                               .set("overtaken", count(preemptions.overtaken))
                               .set("claimant_left", count(preemptions.claimant_left))
                               .set("inside_contract", count(preemptions.inside_contract)));
    const Invariants& rules = summary.invariants;
    out.set("invariants",
            Json::object()
                .set("no_preemption_inside_contract", rules.no_preemption_inside_contract)
                .set("no_node_overfilled", rules.no_node_overfilled)
                .set("segments_sum_to_used", rules.segments_sum_to_used)
                .set("only_allocated_runs_charged", rules.only_allocated_runs_charged)
                .set("runs_of_a_job_disjoint", rules.runs_of_a_job_disjoint)
                .set("gangs_on_exactly_their_nodes", rules.gangs_on_exactly_their_nodes));
    out.set("violations", Json::texts(rules.violations));
    out.set("notes", Json::texts(record.notes));
    return out;
}

using JobKey = const std::string& (*)(const JobRecord& job);

std::map<std::string, WaitSummary> waits_by(const SimRecord& record, JobKey key) {
    WaitLists lists;
    for (const JobRecord& job : record.jobs) {
        if (waited(job) && !key(job).empty()) {
            lists[key(job)].push_back(wait_of(record, job));
        }
    }
    std::map<std::string, WaitSummary> out;
    WaitSummaries summaries;
    for (auto& [name, waits] : lists) {
        out.emplace(name, summaries.of(waits, false));
    }
    return out;
}

std::vector<Growth> growth_by(const SimRecord& before, const SimRecord& after, JobKey key,
                              std::size_t at_most) {
    std::vector<Growth> out;
    const std::map<std::string, WaitSummary> were = waits_by(before, key);
    for (const auto& [name, is] : waits_by(after, key)) {
        const auto was = were.find(name);
        if (was != were.end() && is.p90 > was->second.p90) {
            out.push_back({name, is.count, was->second.p90, is.p90});
        }
    }
    std::stable_sort(out.begin(), out.end(), [](const Growth& a, const Growth& b) {
        return a.p90_after - a.p90_before > b.p90_after - b.p90_before;
    });
    if (out.size() > at_most) {
        out.resize(at_most);
    }
    return out;
}

Json growth_to_json(const std::vector<Growth>& list) {
    Json out = Json::array();
    for (const Growth& each : list) {
        out.append(Json::object()
                       .set("name", each.name)
                       .set("jobs", count(each.jobs))
                       .set("p90_before_seconds", each.p90_before)
                       .set("p90_after_seconds", each.p90_after));
    }
    return out;
}

}  // namespace

std::optional<std::int64_t> percentile(std::span<const std::int64_t> sorted, int percent) {
    if (sorted.empty()) {
        return std::nullopt;
    }
    return sorted[rank_of(sorted.size(), percent)];
}

std::vector<std::int64_t> sorted_waits(const SimRecord& record, const std::string& wait_class) {
    std::vector<std::int64_t> out;
    const std::int64_t cluster_gpus = record.cluster.gpus();
    for (const JobRecord& job : record.jobs) {
        if (waited(job) && is_of(job, wait_class, cluster_gpus)) {
            out.push_back(wait_of(record, job));
        }
    }
    std::sort(out.begin(), out.end());
    return out;
}

Summary summarize(const SimRecord& record) {
    Summary out;
    out.policy = record.policy;
    out.simulated_seconds = record.end_at - record.begin_at;
    out.wall_seconds = record.wall_seconds;
    for (const JobRecord& job : record.jobs) {
        out.jobs += job.state != JobState::future ? 1 : 0;
        out.finished += job.state == JobState::completed ? 1 : 0;
    }
    out.occupancy = ratio(record.used_gpu_seconds, record.available_gpu_seconds);
    out.availability = ratio(record.available_gpu_seconds, record.installed_gpu_seconds);
    out.demand_allocated = ratio(record.demand_allocated_gpu_seconds, record.available_gpu_seconds);
    out.demand_free = ratio(record.demand_free_gpu_seconds, record.available_gpu_seconds);
    std::int64_t free = 0;
    for (const SegmentRecord& segment : record.segments) {
        if (segment.kind == RunKind::unallocated) {
            free += std::max<std::int64_t>(
                        0, end_of(record, segment) - std::max(segment.begin_at, record.begin_at)) *
                    gpus_of(segment);
        }
    }
    out.unallocated_fraction = ratio(free, record.available_gpu_seconds);
    out.lost_requeued_gpu_hours = gpu_hours(record.lost_requeued_gpu_seconds);
    out.lost_ended_gpu_hours = gpu_hours(record.lost_ended_gpu_seconds);
    out.goodput_fraction =
        1 - ratio(record.lost_requeued_gpu_seconds + record.lost_ended_gpu_seconds,
                  record.used_gpu_seconds);
    summarize_budgets(record, out);
    for (const PreemptionEvent& event : record.preemptions) {
        PreemptionCounts& counts = out.preemptions;
        ++counts.total;
        ++(event.requeued ? counts.requeued : counts.ended);
        counts.wasted += event.outcome == PreemptionOutcome::wasted ? 1 : 0;
        counts.overtaken += event.outcome == PreemptionOutcome::overtaken ? 1 : 0;
        counts.claimant_left += event.outcome == PreemptionOutcome::claimant_left ? 1 : 0;
        counts.inside_contract += event.inside_contract ? 1 : 0;
    }
    summarize_waits(record, out);
    out.invariants = check_invariants(record);
    return out;
}

Json summary_to_json(const SimRecord& record, const SummaryOptions& options) {
    return to_json(record, summarize(record), options);
}

GrowthLists largest_growth(const SimRecord& before, const SimRecord& after, std::size_t at_most) {
    return {
        growth_by(
            before, after, [](const JobRecord& job) -> const std::string& { return job.job.user; },
            at_most),
        growth_by(
            before, after,
            [](const JobRecord& job) -> const std::string& { return job.job.budget; }, at_most)};
}

Json comparison_to_json(std::span<const SimRecord* const> records, const SummaryOptions& options) {
    Json out = Json::object();
    out.set("version", 1);
    Json policies = Json::array();
    for (const SimRecord* record : records) {
        policies.append(summary_to_json(*record, options));
    }
    out.set("policies", policies);
    Json growths = Json::array();
    for (std::size_t i = 1; i < records.size(); ++i) {
        const GrowthLists lists = largest_growth(*records[0], *records[i]);
        growths.append(Json::object()
                           .set("before", records[0]->policy)
                           .set("after", records[i]->policy)
                           .set("users", growth_to_json(lists.users))
                           .set("budgets", growth_to_json(lists.budgets)));
    }
    out.set("largest_p90_growth", growths);
    return out;
}

std::vector<std::string> closing_notes(const SimRecord& record) {
    std::size_t refused = 0, waiting = 0, running = 0, ended = 0;
    for (const JobRecord& job : record.jobs) {
        refused += job.state == JobState::refused ? 1 : 0;
        waiting += (job.state == JobState::pending && job.first_start_at < 0) ? 1 : 0;
        running += (job.state == JobState::running || job.state == JobState::leaving ||
                    (job.state == JobState::pending && job.first_start_at >= 0))
                       ? 1
                       : 0;
    }
    for (const SegmentRecord& segment : record.segments) {
        ended += segment.end == SegmentEnd::preempted_ended ? 1 : 0;
    }
    const auto jobs = [](std::size_t number) {
        return std::to_string(number) + (number == 1 ? " job" : " jobs");
    };
    std::vector<std::string> notes;
    if (refused > 0) {
        notes.push_back("warning: " +
                        (refused == record.jobs.size() ? "no job is accepted: all " + jobs(refused)
                                                       : jobs(refused)) +
                        (refused == 1 ? " was" : " were") + " refused at submission");
    }
    if (waiting > 0) {
        notes.push_back("warning: " + jobs(waiting) + " never started");
    }
    if (running > 0) {
        notes.push_back("warning: " + jobs(running) + " did not finish");
    }
    if (ended > 0) {
        notes.push_back(jobs(ended) + " that cannot resume " + (ended == 1 ? "was" : "were") +
                        " ended by preemption");
    }
    return notes;
}

}  // namespace tranche::sim
