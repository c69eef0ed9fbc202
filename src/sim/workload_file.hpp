// SPDX-License-Identifier: GPL-2.0-or-later
// Jobs from a file: comma-separated columns, a dump of `sacct -P`, or the Standard Workload Format.
//
// The whole text is read, and every mistake found up to 20 is reported with its line. Jobs may
// stand in any order and come out by time of submission. Cost: linear, about a microsecond a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/budget_tree.hpp"
#include "sim/mistakes.hpp"
#include "sim/workload.hpp"

namespace tranche::sim {

enum class WorkloadFormat : std::uint8_t { csv, sacct, swf };

// csv, sacct or swf.
std::optional<WorkloadFormat> parse_workload_format(std::string_view text);

// What the file itself said about one job, as bits; the rest has the defaults of WorkloadJob.
enum class Said : std::uint16_t {
    account = 1U << 0U,
    user = 1U << 1U,
    min_runtime = 1U << 2U,
    resumable = 1U << 3U,
    time_limit = 1U << 4U,
    exit_seconds = 1U << 5U,
    restart_seconds = 1U << 6U,
    checkpoint_seconds = 1U << 7U,
    team_priority = 1U << 8U,
    interactive = 1U << 9U,
    free_first = 1U << 10U,
    wait_class = 1U << 11U,
    nodes = 1U << 12U,
    runtime = 1U << 13U,
};

struct JobOrigin {
    std::uint32_t line = 0;  // 0: added by us
    std::uint16_t said = 0;

    bool says(Said what) const noexcept { return (said & static_cast<std::uint16_t>(what)) != 0; }
    void say(Said what) noexcept {
        said = static_cast<std::uint16_t>(said | static_cast<std::uint16_t>(what));
    }
};

struct ReadWorkload {
    std::string file;
    std::vector<WorkloadJob> jobs;   // by submit_at, ties in file order
    std::vector<JobOrigin> origins;  // of each job
    std::vector<std::string> notes;  // "12 jobs without GPUs are left out"
    bool says_contracts = false;     // some job has a minimum runtime of its own
    std::optional<std::int64_t>
        zero_at;  // since 1970: the calendar's instant of second 0, where there is one
};

// Without a format it is found by looking at the text.
Result<ReadWorkload> read_workload(std::string_view text, const std::string& file,
                                   std::optional<WorkloadFormat> format = std::nullopt);

// Leaves out jobs that are submitted at that instant or later; a note says how many.
void leave_out_from(ReadWorkload& workload, std::int64_t until);

// An instant that a user writes: seconds of the workload or a time span (2d, 1-00:00:00), which
// count from `zero_at` where there is one, and there also an ISO 8601 text.
Result<std::int64_t> parse_instant(std::string_view text, std::optional<std::int64_t> zero_at);

// The same of a duration: seconds or a time span.
Result<std::int64_t> parse_duration(std::string_view text);

// What the cluster can hold when it is empty.
class ClusterRoom {
  public:
    explicit ClusterRoom(const SimCluster& cluster);
    std::int64_t gpus() const;
    // Why it can never hold that job, "asks for 9 GPUs; the cluster has 8"; empty: it can.
    std::string objection(const WorkloadJob& job) const;

  private:
    struct Nodes {
        std::vector<std::int64_t> gpus;
        std::int64_t sum = 0;
    };
    std::map<std::string, Nodes, std::less<>> kinds_;  // by type, "" for all
};

// Every job must fit the cluster when it is empty; each that does not is a mistake with its line.
Status check_fits(const ReadWorkload& workload, const SimCluster& cluster);

// Sets the budget of each job that names none, by account and user (DESIGN 2.1); says in a note
// whose jobs no budget pays for.
void assign_budgets(ReadWorkload& workload, const BudgetTree& tree);

// A budget of one share for each account (user, where a job has no account) of the workload: what
// is used when the user names no budgets. Sets the budget of each job. Names are made fit for one,
// and differ for different owners; notes tell which were changed.
Result<std::vector<Budget>> budgets_of_accounts(ReadWorkload& workload);

}  // namespace tranche::sim
