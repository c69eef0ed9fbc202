// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/complaints.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "common/policy/ranking.hpp"
#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {
namespace {

constexpr std::uint32_t kLongestKillWait = 30;
constexpr std::uint32_t kShortestJobAge = 60;
constexpr std::int64_t kLongestBackfillInterval = 5;

// SchedulerParameters as words: "bf_continue,bf_interval=5".
class Parameters {
  public:
    explicit Parameters(std::string text) : text_(std::move(text)) {}

    bool has(std::string_view name) const { return value(name).has_value(); }
    // Empty for a word without a value.
    std::optional<std::string> value(std::string_view name) const {
        for (std::size_t at = 0; at < text_.size();) {
            const std::size_t end = std::min(text_.find(',', at), text_.size());
            const std::string_view word = std::string_view(text_).substr(at, end - at);
            if (word.starts_with(name) &&
                (word.size() == name.size() || word[name.size()] == '=')) {
                return word.size() == name.size() ? std::string()
                                                  : std::string(word.substr(name.size() + 1));
            }
            at = end + 1;
        }
        return std::nullopt;
    }
    std::optional<std::int64_t> number(std::string_view name) const {
        const auto word = value(name);
        std::int64_t parsed = 0;
        if (!word.has_value() ||
            std::from_chars(word->data(), word->data() + word->size(), parsed).ec != std::errc()) {
            return std::nullopt;
        }
        return parsed;
    }

  private:
    std::string text_;
};

}  // namespace

std::vector<std::string> configuration_complaints() {
    std::vector<std::string> out;
    const auto complain = [&](const std::string& what, const std::string& instead) {
        out.push_back(what + "; write " + instead);
    };
    if (text_of(slurm_conf.priority_type) != "priority/budget") {
        complain("PriorityType is " + text_of(slurm_conf.priority_type) +
                     ": preempt/contract works only together with priority/budget",
                 "PriorityType=priority/budget");
    }
    if (text_of(slurm_conf.preempt_type) != "preempt/contract") {
        complain("PreemptType is " + text_of(slurm_conf.preempt_type) +
                     ": Slurm evicts by other rules than the contracts",
                 "PreemptType=preempt/contract");
    }
    const std::uint16_t mode = slurm_conf.preempt_mode;
    if (mode != PREEMPT_MODE_REQUEUE) {
        complain("PreemptMode is " + text_of(preempt_mode_string(mode)) +
                     ": resumable jobs would not come back if slurmctld itself has to end a grace",
                 "PreemptMode=REQUEUE");
    }
    if (slurm_conf.preempt_exempt_time != INFINITE && slurm_conf.preempt_exempt_time != 0) {
        complain("PreemptExemptTime=" + std::to_string(slurm_conf.preempt_exempt_time) +
                     " s counts from before the nodes are ready and promises what contracts do not",
                 "PreemptExemptTime=-1");
    }
    const Parameters parameters(text_of(slurm_conf.sched_params));
    const std::string plan_band = std::to_string(band_floor(Band::plan));
    const auto reserve = parameters.value("bf_min_prio_reserve");
    if (!reserve.has_value()) {
        complain(
            "SchedulerParameters has no bf_min_prio_reserve: the first job that waits closes "
            "its partition for all behind it",
            "SchedulerParameters=bf_min_prio_reserve=" + plan_band);
    } else if (*reserve != plan_band) {
        complain("SchedulerParameters has bf_min_prio_reserve=" + *reserve +
                     ", which is not where the band of the plans begins",
                 "SchedulerParameters=bf_min_prio_reserve=" + plan_band);
    }
    if (!parameters.has("bf_continue")) {
        complain(
            "SchedulerParameters has no bf_continue: each change of priorities ends the "
            "backfill cycle that is under way",
            "SchedulerParameters=bf_continue");
    }
    if (const auto interval = parameters.number("bf_interval");
        interval.value_or(30) > kLongestBackfillInterval) {
        complain("bf_interval is " + std::to_string(interval.value_or(30)) +
                     " s, and what only backfill starts waits that long",
                 "SchedulerParameters=bf_interval=5");
    }
    if (const auto delay = parameters.number("batch_sched_delay"); delay.value_or(3) > 1) {
        complain("batch_sched_delay is " + std::to_string(delay.value_or(3)) +
                     " s, which every submission waits",
                 "SchedulerParameters=batch_sched_delay=1");
    }
    if (const auto depth = parameters.number("default_queue_depth"); depth.value_or(100) < 1000) {
        complain("default_queue_depth is " + std::to_string(depth.value_or(100)) +
                     ": jobs further back are not tried when a job ends",
                 "SchedulerParameters=default_queue_depth=1000");
    }
    for (const char* word :
         {"preempt_strict_order", "preempt_youngest_first", "preempt_reorder_count"}) {
        if (parameters.has(word)) {
            complain("SchedulerParameters has " + std::string(word) +
                         ", which orders victims otherwise than the plans",
                     "SchedulerParameters without " + std::string(word));
        }
    }
    for (const char* word : {"bf_hetjob_prio", "bf_one_resv_per_job"}) {
        if (parameters.has(word)) {
            complain("SchedulerParameters has " + std::string(word) +
                         ", which changes the order of the ranked queue",
                     "SchedulerParameters without " + std::string(word));
        }
    }
    if (slurm_conf.job_file_append == 0) {
        complain(
            "JobFileAppend=0: a requeued job's output is truncated, and with it the line that "
            "says why it was preempted",
            "JobFileAppend=1");
    }
    if (slurm_conf.kill_wait > kLongestKillWait) {
        complain("KillWait=" + std::to_string(slurm_conf.kill_wait) +
                     ": a victim that ignores SIGTERM keeps its GPUs that long after its grace",
                 "KillWait=5");
    }
    if ((slurm_conf.prolog_flags & PROLOG_FLAG_ALLOC) == 0) {
        complain("PrologFlags has no Alloc: a contract cannot begin when the prolog is over",
                 "PrologFlags=Alloc");
    }
    if (slurm_conf.min_job_age != 0 && slurm_conf.min_job_age < kShortestJobAge) {
        complain("MinJobAge=" + std::to_string(slurm_conf.min_job_age) +
                     ": the end of a run may be gone before it is read",
                 "MinJobAge=60");
    }
    if (slurm_conf.complete_wait != 0) {
        complain("CompleteWait=" + std::to_string(slurm_conf.complete_wait) +
                     ": claimants wait for jobs that complete elsewhere",
                 "CompleteWait=0");
    }
    return out;
}

}  // namespace tranche
