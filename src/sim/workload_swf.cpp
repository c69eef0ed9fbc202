// SPDX-License-Identifier: GPL-2.0-or-later
// Standard Workload Format 2.2: lines of 18 numbers, -1 where nothing is known, comments with ';'.
// One processor of it is one GPU here.
#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kFields = 18;

enum Field : std::size_t {
    kJobNumber,
    kSubmit,
    kWait,
    kRunTime,
    kAllocated,
    kAverageCpu,
    kUsedMemory,
    kRequested,
    kRequestedTime,
    kRequestedMemory,
    kStatus,
    kUser,
    kGroup,
};

constexpr const char* kNames[kFields] = {"job number",
                                         "submit time",
                                         "wait time",
                                         "run time",
                                         "allocated processors",
                                         "average CPU time",
                                         "used memory",
                                         "requested processors",
                                         "requested time",
                                         "requested memory",
                                         "status",
                                         "user",
                                         "group",
                                         "executable",
                                         "queue",
                                         "partition",
                                         "preceding job",
                                         "think time"};

bool is_partial(std::int64_t status) {
    return status >= 2 && status <= 4;
}

}  // namespace

Result<ReadWorkload> read_swf(std::string_view text, Gathering& gathering) {
    Lines lines(text);
    std::string_view line;
    std::int64_t values[kFields] = {};
    while (lines.next(line)) {
        line = trimmed(line);
        if (line.empty() || line.front() == ';') {
            continue;
        }
        const std::size_t number = lines.number();
        std::size_t count = 0;
        bool good = true;
        for (std::size_t at = 0; at < line.size();) {
            const std::size_t stop = std::min(line.find_first_of(" \t", at), line.size());
            if (count < kFields) {
                const auto value = parse_whole(line.substr(at, stop - at));
                if (!value) {
                    gathering.wrong(number, kNames[count], line.substr(at, stop - at), "a number");
                    good = false;
                }
                values[count] = value.value_or(-1);
            }
            ++count;
            at = std::min(line.find_first_not_of(" \t", stop), line.size());
        }
        if (good && count != kFields) {
            gathering.mistakes.add(number, "has " + std::to_string(count) +
                                               " fields; the Standard Workload Format has 18");
            good = false;
        }
        if (!good || is_partial(values[kStatus])) {
            continue;
        }
        WorkloadJob job;
        JobOrigin origin{static_cast<std::uint32_t>(number), 0};
        const auto within = [&](Field field, std::int64_t least, std::int64_t most) {
            if (values[field] < least || values[field] > most) {
                gathering.wrong(
                    number, kNames[field], std::to_string(values[field]),
                    "a number from " + std::to_string(least) + " to " + std::to_string(most));
                good = false;
            }
        };
        within(kJobNumber, 0, INT64_MAX);
        within(kSubmit, 0, kLongestTimeSpanSeconds);
        within(kRunTime, -1, kLongestTimeSpanSeconds);
        within(kAllocated, -1, kMostGpus);
        within(kRequested, -1, kMostGpus);
        within(kRequestedTime, -1, kLongestTimeSpanSeconds);
        if (!good) {
            continue;
        }
        job.id = std::to_string(values[kJobNumber]);
        job.submit_at = values[kSubmit];
        job.runtime_seconds = values[kRunTime];
        const bool never_started = values[kAllocated] <= 0 && values[kRunTime] <= 0;
        job.gpus = values[kAllocated] > 0 ? values[kAllocated] : values[kRequested];
        if (never_started) {
            job.runtime_seconds = -1;
        }
        if (job.gpus <= 0) {
            job.gpus = job.runtime_seconds < 0 ? 1 : 0;
        }
        if (values[kRequestedTime] > 0) {
            job.time_limit_seconds = values[kRequestedTime];
            origin.say(Said::time_limit);
        }
        if (values[kUser] >= 0) {
            job.user = "u" + std::to_string(values[kUser]);
            origin.say(Said::user);
        }
        if (values[kGroup] >= 0) {
            job.account = "g" + std::to_string(values[kGroup]);
            origin.say(Said::account);
        }
        job.resumable = false;
        gathering.add(std::move(job), origin);
    }
    return gathering.finish();
}

}  // namespace tranche::sim
