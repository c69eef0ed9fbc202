// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/workload_reading.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/calendar.hpp"

namespace tranche::sim {
namespace {

constexpr std::int64_t kLongestSpan = std::int64_t{20} * 366 * 86400;  // of a workload

}  // namespace

bool Lines::next(std::string_view& line) noexcept {
    if (rest_.empty()) {
        return false;
    }
    const void* end = std::memchr(rest_.data(), '\n', rest_.size());
    const std::size_t length =
        end == nullptr ? rest_.size()
                       : static_cast<std::size_t>(static_cast<const char*>(end) - rest_.data());
    line = rest_.substr(0, length);
    rest_.remove_prefix(std::min(length + 1, rest_.size()));
    if (!line.empty() && line.back() == '\r') {
        line.remove_suffix(1);
    }
    ++number_;
    return true;
}

std::size_t Lines::left() const noexcept {
    return static_cast<std::size_t>(std::count(rest_.begin(), rest_.end(), '\n')) + 1;
}

bool Fields::cut(std::string_view line, char separator, bool quotes) {
    fields_.clear();
    if (quotes && std::memchr(line.data(), '"', line.size()) != nullptr) {
        return cut_quoted(line, separator);
    }
    const char* begin = line.data();
    const char* const end = begin + line.size();
    while (begin != end) {
        const void* found = std::memchr(begin, separator, static_cast<std::size_t>(end - begin));
        if (found == nullptr) {
            break;
        }
        const char* stop = static_cast<const char*>(found);
        fields_.emplace_back(begin, static_cast<std::size_t>(stop - begin));
        begin = stop + 1;
    }
    fields_.emplace_back(begin, static_cast<std::size_t>(end - begin));
    return true;
}

bool Fields::cut_quoted(std::string_view line, char separator) {
    unquoted_.clear();
    unquoted_.reserve(line.size());  // so that views into it stay
    std::size_t at = 0;
    for (;;) {
        if (at < line.size() && line[at] == '"') {
            const std::size_t begin = unquoted_.size();
            for (++at;; ++at) {
                if (at >= line.size()) {
                    return false;
                }
                if (line[at] == '"') {
                    if (at + 1 >= line.size() || line[at + 1] != '"') {
                        break;
                    }
                    ++at;
                }
                unquoted_ += line[at];
            }
            ++at;
            fields_.push_back(std::string_view(unquoted_).substr(begin));
            at = std::min(line.find(separator, at), line.size());
        } else {
            const std::size_t stop = std::min(line.find(separator, at), line.size());
            fields_.push_back(line.substr(at, stop - at));
            at = stop;
        }
        if (at >= line.size()) {
            return true;
        }
        ++at;
    }
}

std::optional<std::int64_t> parse_whole(std::string_view text) noexcept {
    const char* const end = text.data() + text.size();
    std::int64_t number = 0;
    const auto whole = std::from_chars(text.data(), end, number);
    if (whole.ec == std::errc() && whole.ptr == end) {
        return number;
    }
    double real = 0;
    const auto broken = std::from_chars(text.data(), end, real);
    if (broken.ec != std::errc() || broken.ptr != end || !std::isfinite(real) ||
        std::abs(real) > 1e15) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(std::floor(real + 0.5));
}

std::optional<std::int64_t> parse_seconds(std::string_view text) noexcept {
    if (const auto number = parse_whole(text)) {
        return number;
    }
    const auto span = parse_time_span(text, PlainNumber::seconds);
    return span.ok() ? std::optional(*span) : std::nullopt;
}

void Gathering::wrong(std::size_t line, std::string_view column, std::string_view value,
                      std::string_view right) {
    if (!mistakes.wanted()) {
        mistakes.add(line, {});
        return;
    }
    mistakes.add(line, std::string(column) + " " + quoted(value) + ": " + std::string(right) +
                           " would be right");
}

bool is_sacct_table(std::string_view heading) {
    heading = trimmed(heading);
    if (heading.find('|') != std::string_view::npos ||
        heading.find(',') != std::string_view::npos) {
        return false;
    }
    while (!heading.empty()) {
        const std::size_t stop = std::min(heading.find_first_of(" \t"), heading.size());
        if (equal_ignoring_case(heading.substr(0, stop), "JobID")) {
            return true;
        }
        heading = trimmed(heading.substr(stop));
    }
    return false;
}

void Gathering::expect(std::size_t jobs) {
    read.jobs.reserve(std::min(jobs, kMostJobs));
    read.origins.reserve(std::min(jobs, kMostJobs));
}

void Gathering::add(WorkloadJob&& job, JobOrigin origin) {
    if (job.gpus == 0) {
        ++counts.no_gpus;
        return;
    }
    if (job.runtime_seconds < 0) {
        ++counts.never_ran;
        return;
    }
    if (job.nodes > job.gpus) {
        mistakes.add(origin.line, std::to_string(job.gpus) + " GPUs on " +
                                      std::to_string(job.nodes) +
                                      " nodes: a job has at least one GPU on each of its nodes");
        return;
    }
    if (read.jobs.size() >= kMostJobs) {
        if (!counts.too_many) {
            mistakes.add(origin.line, "more than the " + std::to_string(kMostJobs) +
                                          " jobs that are read; cut the file");
        }
        counts.too_many = true;
        return;
    }
    // Slurm counts whole seconds: a job of less than one is there all the same.
    job.runtime_seconds = std::max<std::int64_t>(job.runtime_seconds, 1);
    // It is a log of what was: the job ended later than its limit, and the replay must not end it
    // before.
    if (job.time_limit_seconds < job.runtime_seconds) {
        job.time_limit_seconds = job.runtime_seconds;
        ++counts.raised_limits;
    }
    job.resumable = job.resumable && !job.interactive;
    read.says_contracts = read.says_contracts || job.min_runtime_seconds.has_value();
    read.jobs.push_back(std::move(job));
    origin.say(Said::runtime);
    read.origins.push_back(origin);
}

Result<ReadWorkload> Gathering::finish() {
    read.file = mistakes.file();
    std::vector<WorkloadJob>& jobs = read.jobs;
    if (mistakes.none()) {
        // Ids may repeat only by mistake; the views hold while nothing moves.
        std::unordered_map<std::string_view, std::uint32_t> lines;
        lines.reserve(jobs.size());
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            if (jobs[i].id.empty()) {
                jobs[i].id = "L" + std::to_string(read.origins[i].line);
            }
            const auto [it, is_new] = lines.emplace(jobs[i].id, read.origins[i].line);
            if (!is_new) {
                mistakes.add(read.origins[i].line, mistakes.wanted()
                                                       ? "job_id " + quoted(jobs[i].id) +
                                                             " is that of line " +
                                                             std::to_string(it->second) + " already"
                                                       : std::string());
            }
        }
    }
    if (mistakes.none() && jobs.empty()) {
        const std::size_t left = counts.no_gpus + counts.never_ran;
        mistakes.add(0, left == 0 ? std::string("there is no job in it")
                                  : "no job is left: " + std::to_string(counts.no_gpus) +
                                        " without GPUs, " + std::to_string(counts.never_ran) +
                                        " never ran");
    }
    if (!mistakes.none()) {
        return mistakes.error();
    }
    if (calendar_times != 0 && calendar_times < jobs.size()) {
        mistakes.add(0,
                     "some submissions are calendar instants and some plain seconds; one of "
                     "them for all would be right");
        return mistakes.error();
    }
    const auto earlier = [&](std::size_t a, std::size_t b) {
        return jobs[a].submit_at < jobs[b].submit_at;
    };
    std::vector<std::uint32_t> order(jobs.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<std::uint32_t>(i);
    }
    if (!std::is_sorted(order.begin(), order.end(), earlier)) {
        std::stable_sort(order.begin(), order.end(), earlier);
        std::vector<WorkloadJob> sorted_jobs;
        std::vector<JobOrigin> sorted_origins;
        sorted_jobs.reserve(jobs.size());
        sorted_origins.reserve(jobs.size());
        for (const std::uint32_t i : order) {
            sorted_jobs.push_back(std::move(jobs[i]));
            sorted_origins.push_back(read.origins[i]);
        }
        jobs = std::move(sorted_jobs);
        read.origins = std::move(sorted_origins);
    }
    const std::int64_t first = jobs.front().submit_at;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (jobs[i].submit_at - first > kLongestSpan) {
            mistakes.add(
                read.origins[i].line,
                "submitted " + std::to_string((jobs[i].submit_at - first) / (365 * 86400)) +
                    " years after the first job, of line " +
                    std::to_string(read.origins.front().line) + "; at most 20 are simulated");
        }
    }
    if (!mistakes.none()) {
        return mistakes.error();
    }
    if (calendar_times != 0 || first >= kEpochFrom) {
        const std::int64_t zero = first - ((first % 86400) + 86400) % 86400;
        read.zero_at = zero;
        read.notes.push_back("times are UTC; plain seconds count from " + format_calendar(zero));
    }
    const auto note = [&](std::size_t count, const char* one, const char* many) {
        if (count != 0) {
            read.notes.push_back(std::to_string(count) + (count == 1 ? one : many));
        }
    };
    note(counts.no_gpus, " job without GPUs is left out", " jobs without GPUs are left out");
    note(counts.never_ran, " job that never ran, or for an unknown time, is left out",
         " jobs that never ran, or for an unknown time, are left out");
    note(counts.part_gpus, " job asks for a part of a GPU and gets a whole one",
         " jobs ask for a part of a GPU and get a whole one");
    note(counts.raised_limits,
         " job ran longer than its time limit, which is raised to its runtime",
         " jobs ran longer than their time limits, which are raised to their runtimes");
    note(counts.still_running, " job still runs and counts as done",
         " jobs still run and count as done");
    return std::move(read);
}

}  // namespace tranche::sim
