// SPDX-License-Identifier: GPL-2.0-or-later
// What a submission asks of its contract: read from what the client sent, completed from
// tranche.conf, checked, and written into the job so that it can be read back.
//
// A request comes from three places, the first that names an option wins: entries of the SPANK
// environment (_SLURM_SPANK_OPTION_contract_min_runtime=2h, a flag carries "(null)"; set by our
// SPANK plugin or by a REST client), #SBATCH lines of the script, and TRANCHE_REQUEST_* variables
// of the job's environment. Everything is checked here, whoever sent it: a client can send
// anything. Errors are one line and name the option, the value and what would be right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"
#include "common/units/team_priority.hpp"

namespace tranche {

inline constexpr std::string_view kSpankOptionPrefix = "_SLURM_SPANK_OPTION_contract_";
inline constexpr std::string_view kRequestVariablePrefix = "TRANCHE_REQUEST_";

// One option as it was written. `said_by` is how the user wrote it: "--min-runtime",
// "#SBATCH --min-runtime", "TRANCHE_REQUEST_MIN_RUNTIME", "contract 'debug'".
struct AskedWord {
    std::string value;
    std::string said_by;
};

// What was asked, unread; nullopt where nothing was said.
struct ContractRequest {
    std::optional<AskedWord> min_runtime;
    std::optional<AskedWord> resumable;  // the value is "yes" or "no"
    std::optional<AskedWord> team_priority;
    std::optional<AskedWord> budget;
    std::optional<AskedWord> contract;
    std::optional<AskedWord> free_first;  // "yes" or "no"
};

// What the job will run under.
struct ContractTerms {
    std::int64_t min_runtime_seconds = 0;
    bool resumable = false;
    TeamPriority team_priority = TeamPriority::normal;
    std::string budget;                 // the one asked for by name; empty: the one that matches
    bool free_first = false;            // starts free, turns allocated when its GPUs are wanted
    bool declared_min_runtime = false;  // false: from DefaultMinRuntime

    bool operator==(const ContractTerms&) const = default;
};

// What else of the submission decides what may be asked.
struct ContractCircumstances {
    bool interactive = false;     // salloc or srun: no script
    std::optional<bool> requeue;  // --requeue or --no-requeue; nullopt: neither was said
    std::optional<std::int64_t> time_limit_seconds;  // nullopt: none, or not known yet
    std::optional<std::int64_t> time_min_seconds;    // --time-min
    bool costs_something = true;  // false: no GPUs and no weight on CPUs, a contract buys nothing
};

// Collects the request. `script` may be empty; `environment` and `spank_entries` are NAME=VALUE.
Result<ContractRequest> read_request(const std::vector<std::string>& spank_entries,
                                     std::string_view script,
                                     const std::vector<std::string>& environment);

// Takes one option's word into the request; flags are read ("yes", "1", "(null)", …). The Error
// names `said_by`.
Status read_word(std::string_view option, std::string_view value, std::string said_by,
                 ContractRequest& request);

// One option alone ("min-runtime", …): format, names. What can be said on the submit host.
Status check_option(std::string_view option, std::string_view value);

// The request with its named contract and the defaults filled in, checked against the cap, the
// time limit and the rest of the submission.
Result<ContractTerms> resolve_terms(const ContractRequest& request, const Settings& settings,
                                    const ContractCircumstances& circumstances);

// Without settings (no engine runs): every word alone, and what contradicts itself.
Status check_request(const ContractRequest& request, const ContractCircumstances& circumstances);

// The entries with ours replaced by the terms in the one form that reads the same everywhere
// (times as "7200s"); other plugins' entries are kept in place.
std::vector<std::string> store_terms(const std::vector<std::string>& spank_entries,
                                     const ContractTerms& terms);

// Reads store_terms() back. nullopt: no minimum is stored, the job never passed
// job_submit/contract. Words that cannot be read count as not said; nothing is capped here.
// declared_min_runtime is always true: what is stored does not tell a default from a wish.
std::optional<ContractTerms> parse_stored_terms(const std::vector<std::string>& spank_entries);

// What a job that says nothing gets, `require` being 0.
ContractTerms default_terms(const Settings& settings, bool interactive);

// The terms of a job as the engine takes them, whatever reached the controller: stored ones, or
// those of entries that did not pass job_submit/contract with their named contract and the
// defaults filled in; never above the cap.
ContractTerms terms_of_job(const std::vector<std::string>& spank_entries, const Settings& settings,
                           bool interactive);

}  // namespace tranche
