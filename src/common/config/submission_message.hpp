// SPDX-License-Identifier: GPL-2.0-or-later
// What a user is told when a job is accepted: what was understood, what it costs, and where its
// budget stands.
//
// One line without a tag; Slurm's commands print it behind their own name. GPU hours are weighted
// and come in thousandths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/config/contract_request.hpp"

namespace tranche {

// Hours of GPU time for people: "0.25", "2.5", "16", "1 120".
std::string format_gpu_hours(std::int64_t milli_hours);

// "1st", "2nd", "11th", "23rd".
std::string format_ordinal(std::int64_t number);

struct SubmissionNumbers {
    ContractTerms terms;
    bool under_contract = true;         // the partition has budgets and contracts
    bool costs_something = true;        // GPUs, or CPUs with a weight
    std::int64_t cost_milli_hours = 0;  // of the minimum runtime
    bool array = false;                 // the cost is that of one task
    std::string budget;                 // empty: none matches
    bool funded = false;
    std::int64_t used_milli_hours = 0;  // in the window
    std::int64_t funded_milli_hours = 0;
    std::optional<std::int64_t> ratio_milli;
    std::int64_t window_seconds = 7 * 86400;
    std::int64_t position = 0;  // in the queue, 0: not known
    std::int64_t queue_length = 0;
    bool sets_priority = false;   // --priority
    bool sets_nice = false;       // --nice
    bool fixed_priority = false;  // --priority of an operator, which stays
    bool held = false;            // --hold
};

// Empty where nothing is worth saying.
std::string submission_message(const SubmissionNumbers& numbers);

}  // namespace tranche
