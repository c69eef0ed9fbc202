// SPDX-License-Identifier: GPL-2.0-or-later
// A change of a contract that was signed already (`sbudget job JOBID set …`): what was asked, who
// may have it, and the terms that come of it.
//
// The owner may change everything while the job waits. While it runs he may only give up
// protection: whoever signed for two hours was charged and ranked by that. Operators may do both.
// Checked as at submission. Errors are one line and name what was asked and what would be right,
// but not the job: the caller puts its name before them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/contract_request.hpp"

namespace tranche {

// The words as they were written; nullopt: stays as it is.
struct ContractEdit {
    std::optional<std::string> min_runtime;
    std::optional<std::string> resumable;
    std::optional<std::string> team_priority;
    std::optional<std::string> free_first;

    bool operator==(const ContractEdit&) const = default;
};

// The options that can be changed, in one order: "min-runtime", …
const std::vector<std::string>& contract_edit_keys();
// The word of a key; nullptr for a key that is none.
std::optional<std::string>* word_of(ContractEdit& edit, std::string_view key);
const std::optional<std::string>* word_of(const ContractEdit& edit, std::string_view key);

// Each word alone, as far as the submit host can tell; also that anything is asked at all.
Status check_contract_edit(const ContractEdit& edit);

// What of the job decides whether it may have the change.
struct EditedJob {
    bool runs = false;
    bool by_operator = false;      // not just the owner
    bool interactive = false;      // salloc or srun
    bool refuses_requeue = false;  // it was submitted with --no-requeue
    std::optional<std::int64_t> time_limit_seconds;
    std::optional<std::int64_t> time_min_seconds;
};

Result<ContractTerms> edited_terms(const ContractTerms& before, const ContractEdit& edit,
                                   const EditedJob& job, const Settings& settings);

// Whether a run keeps its room longer, or more surely, by the new terms than by the old ones.
bool protects_more(const ContractTerms& before, const ContractTerms& after);

struct ContractChange {
    std::string field;  // "min-runtime", …
    std::string before;
    std::string after;

    bool operator==(const ContractChange&) const = default;
};
std::vector<ContractChange> contract_changes(const ContractTerms& before,
                                             const ContractTerms& after);

}  // namespace tranche
