// SPDX-License-Identifier: GPL-2.0-or-later
// The figures of a simulated run: what `sreplay run --json` prints, and the same as tables.
//
// Everything is computed from the record alone, the invariants too. Percentiles are by nearest
// rank. Waits are from the first submission to the first start; who has not started waits until
// it left or until the end of the record. Texts are the same bytes for the same record.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/wire/json.hpp"
#include "sim/record.hpp"
#include "sim/record_checks.hpp"

namespace tranche::sim {

// Where a p90 may lie: the 95 % interval of 2 000 bootstrap samples, for fewer than 200 jobs.
struct Interval {
    std::int64_t low = 0, high = 0;
};

struct WaitSummary {
    std::uint64_t count = 0;
    std::int64_t p50 = 0, p90 = 0, max = 0;  // seconds; 0 where count is 0
    double mean = 0;
    std::optional<Interval> p90_interval;  // 1 to 199 jobs
};

// Waits of one class, budget, user or size, under its name.
struct NamedWaits {
    std::string name;
    WaitSummary waits;
};

// Of a budget with all budgets below it.
struct BudgetSummary {
    std::string name;  // empty: the jobs that no budget pays for
    std::string parent;
    bool is_leaf = true;
    double funded_fraction = 0;
    std::int64_t charged_gpu_seconds = 0, unallocated_gpu_seconds = 0;
    // Of one budget: the sum over hours of min(funded, demand), and min(charged, owed) of the two
    // sums over the whole record. Of those above it: the sums of both.
    std::int64_t owed_gpu_seconds = 0, delivered_gpu_seconds = 0;
    // Half-days of 12 hours, counted from the record's first hour, in each hour of which demand
    // reached the funding; and those of them in which less than a quarter of the funding was
    // charged.
    std::uint64_t half_days_with_demand = 0, starved_half_days = 0;
    WaitSummary waits;
    std::uint64_t preemptions_suffered = 0, preemptions_caused = 0;

    // 1 where nothing was owed.
    double delivered_fraction() const noexcept {
        return owed_gpu_seconds == 0 ? 1.0
                                     : static_cast<double>(delivered_gpu_seconds) /
                                           static_cast<double>(owed_gpu_seconds);
    }
    double starved_fraction() const noexcept {
        return half_days_with_demand == 0 ? 0.0
                                          : static_cast<double>(starved_half_days) /
                                                static_cast<double>(half_days_with_demand);
    }
};

struct PreemptionCounts {
    std::uint64_t total = 0, requeued = 0, ended = 0;
    std::uint64_t wasted = 0, overtaken = 0, claimant_left = 0, inside_contract = 0;
};

struct Summary {
    std::string policy;
    std::uint64_t jobs = 0;      // submitted, refused ones too
    std::uint64_t finished = 0;  // completed
    std::int64_t simulated_seconds = 0;
    double wall_seconds = 0;
    double occupancy = 0;             // used / available GPU time
    double unallocated_fraction = 0;  // GPU time of free runs / available
    double availability = 0;          // available / installed GPU time
    // all, debug, small, large, then the names of the `class` column in order. A job that the
    // column calls one of these four names belongs there too.
    std::vector<NamedWaits> waits;
    std::vector<NamedWaits> waits_by_size;  // "1", "2-4", "5-8", … GPUs; only sizes that occur
    std::vector<BudgetSummary> budgets;     // by name
    double demand_allocated = 0, demand_free = 0;
    double lost_requeued_gpu_hours = 0, lost_ended_gpu_hours = 0;
    double goodput_fraction = 1;
    PreemptionCounts preemptions;
    Invariants invariants;
    // Of the teams: the leaf budgets, and inner budgets that pay for jobs of their own, each with
    // these jobs only; those to which anything was owed.
    double delivered_fraction = 1;  // sum of min(charged, owed) / sum of owed
    double starved_fraction = 0;    // starved half-days / half-days with demand
    std::uint64_t teams = 0, teams_at_95_percent = 0;
    std::string worst_team;
    double worst_team_delivered = 1;
};

// Cost: n log n in segments and jobs.
Summary summarize(const SimRecord& record);

struct SummaryOptions {
    bool wall_seconds = false;  // what a clock said: not where output is compared
};

// DESIGN 4.5, `run --json`. Keys beyond it: availability, delivered_fraction, starved_fraction,
// teams, wait_seconds_by_size, violations, notes; `p90_interval` where fewer than 200 jobs waited.
// Instants that did not come about and percentiles of nobody are null.
Json summary_to_json(const SimRecord& record, const SummaryOptions& options = {});

// For people, at most 80 columns unless names are long.
std::string summary_text(const SimRecord& record, const SummaryOptions& options = {});

// What a reader of a finished replay must know before its figures: jobs that were refused, never
// started or did not finish (with "warning: " in front), and those that preemption ended.
std::vector<std::string> closing_notes(const SimRecord& record);

// A user or budget and its p90 under two policies.
struct Growth {
    std::string name;
    std::uint64_t jobs = 0;  // in the second record
    std::int64_t p90_before = 0, p90_after = 0;
};
struct GrowthLists {
    std::vector<Growth> users, budgets;  // largest growth first; only who grows
};
// Those whose p90 grows most from one record to the other, at most that many of each.
GrowthLists largest_growth(const SimRecord& before, const SimRecord& after,
                           std::size_t at_most = 10);

// Several policies on one workload. The first record is what the others are compared with.
Json comparison_to_json(std::span<const SimRecord* const> records,
                        const SummaryOptions& options = {});
std::string comparison_text(std::span<const SimRecord* const> records,
                            const SummaryOptions& options = {});

// Waits of one class of Summary::waits, in seconds, sorted.
std::vector<std::int64_t> sorted_waits(const SimRecord& record, const std::string& wait_class);

// Nearest rank: the smallest of `sorted` that at least that share of them do not exceed;
// nullopt of nothing.
std::optional<std::int64_t> percentile(std::span<const std::int64_t> sorted, int percent);

}  // namespace tranche::sim
