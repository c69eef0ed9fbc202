// SPDX-License-Identifier: GPL-2.0-or-later
// What `sacct -P` prints, with its heading. Times without a zone count as UTC.
#include <unordered_map>

#include "common/base/quoted.hpp"
#include "common/config/gpu_request.hpp"
#include "common/config/time_format.hpp"
#include "sim/calendar.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

enum Field : std::size_t {
    kJobId,
    kSubmit,
    kStart,
    kEnd,
    kAccount,
    kUser,
    kAllocTres,
    kReqTres,
    kNodes,
    kElapsedRaw,
    kElapsed,
    kTimelimitRaw,
    kTimelimit,
    kState,
    kJobName,
    kFieldCount,
};

// Other columns may be there.
constexpr const char* kNames[kFieldCount] = {
    "JobID",  "Submit",     "Start",   "End",          "Account",   "User",  "AllocTRES", "ReqTRES",
    "NNodes", "ElapsedRaw", "Elapsed", "TimelimitRaw", "Timelimit", "State", "JobName"};

constexpr std::size_t kNotThere = SIZE_MAX;

bool is_unknown(std::string_view text) {
    return text.empty() || text == "Unknown" || text == "None" || text == "N/A" ||
           text == "INVALID";
}

class SacctReader {
  public:
    SacctReader(std::string_view text, Gathering& gathering) : lines_(text), out_(gathering) {}

    Result<ReadWorkload> read() {
        if (!find_header()) {
            return out_.mistakes.error();
        }
        std::string_view line;
        while (lines_.next(line)) {
            if (trimmed(line).empty()) {
                continue;
            }
            fields_.cut(line, '|', false);
            // `sacct -p` ends each line with one more '|'.
            const bool fits = fields_.size() == head_count_ || (fields_.size() == head_count_ + 1 &&
                                                                fields_.at(head_count_).empty());
            const bool is_long = fields_.size() > head_count_ && there(kJobName);
            if (!fits && !(is_long && name_is_last())) {
                out_.mistakes.add(
                    lines_.number(),
                    "has " + std::to_string(fields_.size()) + " fields; the heading has " +
                        std::to_string(head_count_) +
                        (is_long ? "; where a JobName has a '|' in it, JobName as the last column "
                                   "of sacct -o would be right"
                                 : ""));
                continue;
            }
            rest_ = fits ? std::string_view() : rest_from(line, head_count_ - 1);
            read_row();
        }
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            out_.add(std::move(jobs_[i]), origins_[i]);
        }
        if (merged_ != 0) {
            out_.read.notes.push_back(
                std::to_string(merged_) + (merged_ == 1 ? " row" : " rows") +
                " of jobs that were restarted count as more runtime of the same job");
        }
        const auto note = [&](std::size_t count, const char* one, const char* many) {
            if (count != 0) {
                out_.read.notes.push_back(std::to_string(count) + (count == 1 ? one : many));
            }
        };
        note(several_types_, " job had GPUs of several types and may get any",
             " jobs had GPUs of several types and may get any");
        note(recycled_,
             " job has the JobID of another account's or user's job and is told from it by '#'",
             " jobs have the JobID of another account's or user's job and are told from it by '#'");
        return out_.finish();
    }

  private:
    bool find_header() {
        std::string_view line;
        do {
            if (!lines_.next(line)) {
                out_.mistakes.add(0, "is empty; the heading that sacct -P prints comes first");
                return false;
            }
        } while (trimmed(line).empty());
        if (is_sacct_table(line)) {
            out_.mistakes.add(lines_.number(), std::string(kSacctWithoutP));
            return false;
        }
        fields_.cut(line, '|', false);
        head_count_ = fields_.size();
        if (head_count_ > 1 && fields_.at(head_count_ - 1).empty()) {
            --head_count_;
            ends_with_bar_ = true;
        }
        for (std::size_t field = 0; field < kFieldCount; ++field) {
            where_[field] = kNotThere;
            for (std::size_t i = 0; i < head_count_; ++i) {
                if (equal_ignoring_case(trimmed(fields_.at(i)), kNames[field])) {
                    where_[field] = i;
                }
            }
        }
        const auto need = [&](std::initializer_list<Field> any, const char* text) {
            for (const Field field : any) {
                if (there(field)) {
                    return;
                }
            }
            out_.mistakes.add(lines_.number(),
                              "there is no column " + std::string(text) +
                                  "; sacct -a -P -D -X -o JobID,JobName,Submit,Start,End,"
                                  "Account,User,AllocTRES,NNodes,ElapsedRaw,TimelimitRaw,State "
                                  "writes all that is used");
        };
        need({kJobId}, "JobID");
        need({kSubmit}, "Submit");
        need({kAllocTres, kReqTres}, "AllocTRES or ReqTRES");
        need({kElapsedRaw, kElapsed, kEnd}, "ElapsedRaw");
        return out_.mistakes.none();
    }

    bool there(Field field) const { return where_[field] != kNotThere; }
    bool name_is_last() const { return where_[kJobName] == head_count_ - 1; }
    // What a name with '|' in it is cut into, in one piece.
    std::string_view rest_from(std::string_view line, std::size_t field) const {
        std::string_view rest =
            line.substr(static_cast<std::size_t>(fields_.at(field).data() - line.data()));
        if (ends_with_bar_ && rest.ends_with('|')) {
            rest.remove_suffix(1);
        }
        return trimmed(rest);
    }
    std::string_view text(Field field) const {
        return there(field) ? trimmed(fields_.at(where_[field])) : std::string_view();
    }

    void read_row() {
        const std::string_view id = text(kJobId);
        if (id.find('.') != std::string_view::npos) {
            return;  // a step
        }
        is_good_ = true;
        if (id.empty() || id.front() < '0' || id.front() > '9') {
            wrong(kJobId, "a job such as 123, 123_4 or 123+1");
            return;
        }
        WorkloadJob job;
        JobOrigin origin{static_cast<std::uint32_t>(lines_.number()), 0};
        job.id = id;
        job.resumable = false;
        if (const std::size_t mark = id.find_first_of("_+"); mark != std::string_view::npos) {
            (id[mark] == '_' ? job.array : job.parent) = id.substr(0, mark);
        }
        job.name = rest_.empty() ? text(kJobName) : rest_;
        job.account = text(kAccount);
        job.user = text(kUser);
        if (!job.account.empty()) {
            origin.say(Said::account);
        }
        if (!job.user.empty()) {
            origin.say(Said::user);
        }
        if (const auto at = parse_calendar(text(kSubmit))) {
            job.submit_at = *at;
        } else if (const auto epoch = parse_whole(text(kSubmit)); epoch && *epoch > 0) {
            job.submit_at = *epoch;
        } else {
            wrong(kSubmit, "an instant as 2024-05-01T12:30:00");
        }
        read_gpus(job);
        if (!text(kNodes).empty()) {
            const auto nodes = parse_whole(text(kNodes));
            if (!nodes || *nodes < 0 || *nodes > kMostNodes) {
                wrong(kNodes, "a number from 0 to " + std::to_string(kMostNodes));
            }
            job.nodes = std::min(nodes.value_or(0), job.gpus);
            origin.say(Said::nodes);
        }
        job.runtime_seconds = elapsed();
        const std::string_view state = text(kState);
        if (starts_with_ignoring_case(state, "PENDING")) {
            job.runtime_seconds = -1;
        }
        const bool still_runs = starts_with_ignoring_case(state, "RUNNING") ||
                                starts_with_ignoring_case(state, "SUSPENDED");
        read_time_limit(job, origin);
        if (is_good_) {
            merge(std::move(job), origin, still_runs);
        }
    }

    void read_gpus(WorkloadJob& job) {
        for (const Field field : {kAllocTres, kReqTres}) {
            if (text(field).empty()) {
                continue;
            }
            // "gres/gpu=8,gres/gpu:h100=8": the total, and the same by type.
            std::int64_t total = 0, typed = 0;
            std::string type;
            bool several_types = false;
            has_several_types_ = false;
            for (const RequestedGpus& each : parse_gpu_request(as_request(text(field)))) {
                if (each.type.empty()) {
                    total += each.count;
                } else {
                    typed += each.count;
                    several_types = several_types || (!type.empty() && type != each.type);
                    type = each.type;
                }
            }
            job.gpus = std::max(total, typed);
            job.gpu_type = several_types || typed < job.gpus ? std::string() : type;
            if (job.gpus > kMostGpus) {
                wrong(field, "at most " + std::to_string(kMostGpus) + " GPUs");
            }
            if (job.gpus > 0) {
                has_several_types_ = several_types;
                return;
            }
        }
    }

    // "gres/gpu:h100=8" as "gres/gpu:h100:8", which is what a request looks like.
    std::string as_request(std::string_view tres) {
        std::string request(tres);
        for (char& c : request) {
            c = c == '=' ? ':' : c;
        }
        return request;
    }

    std::int64_t elapsed() {
        if (const std::string_view raw = text(kElapsedRaw); !raw.empty()) {
            const auto seconds = parse_whole(raw);
            if (!seconds || *seconds < 0 || *seconds > kLongestTimeSpanSeconds) {
                wrong(kElapsedRaw, "a number of seconds");
            }
            return started() ? seconds.value_or(0) : -1;
        }
        if (const std::string_view shown = text(kElapsed); !shown.empty()) {
            // Slurm's own form: "01:02" are minutes and seconds, which time limits have too.
            const auto span = parse_time_span(shown, PlainNumber::seconds);
            if (!span.ok()) {
                wrong(kElapsed, "a time such as 1-02:03:04");
                return 0;
            }
            return started() ? *span : -1;
        }
        if (is_unknown(text(kStart)) || is_unknown(text(kEnd))) {
            return -1;
        }
        const auto start = parse_calendar(text(kStart)), end = parse_calendar(text(kEnd));
        if (!start || !end || *end < *start) {
            wrong(!start ? kStart : kEnd, "an instant as 2024-05-01T12:30:00, the end last,");
            return 0;
        }
        return *end - *start;
    }
    bool started() const { return !there(kStart) || !is_unknown(text(kStart)); }

    void read_time_limit(WorkloadJob& job, JobOrigin& origin) {
        if (const std::string_view raw = text(kTimelimitRaw);
            !raw.empty() && raw.front() >= '0' && raw.front() <= '9') {
            const auto minutes = parse_whole(raw);
            if (!minutes || *minutes > kLongestTimeSpanSeconds / 60) {
                wrong(kTimelimitRaw, "a number of minutes");
                return;
            }
            job.time_limit_seconds = *minutes * 60;
            origin.say(Said::time_limit);
        } else if (const std::string_view shown = text(kTimelimit);
                   !shown.empty() && shown.front() >= '0' && shown.front() <= '9') {
            const auto limit = parse_time_span(shown, PlainNumber::minutes);
            if (!limit.ok()) {
                wrong(kTimelimit, "a time such as 1-02:03:04");
                return;
            }
            job.time_limit_seconds = *limit;
            origin.say(Said::time_limit);
        }
        if (job.time_limit_seconds == 0) {
            job.time_limit_seconds = kNever;
        }
    }

    // The id of this job: a second job of a recycled id gets one of its own.
    void tell_apart(WorkloadJob& job) {
        const auto is_of_another = [&](const std::string& id) {
            const auto it = index_.find(id);
            return it != index_.end() &&
                   (jobs_[it->second].account != job.account || jobs_[it->second].user != job.user);
        };
        std::string id = job.id;
        std::size_t number = 1;
        while (is_of_another(id)) {
            id = job.id + "#" + std::to_string(++number);
        }
        if (number == 1) {
            return;
        }
        recycled_ += index_.contains(id) ? 0U : 1U;
        for (std::string* text : {&job.array, &job.parent}) {
            *text += text->empty() ? "" : "#" + std::to_string(number);
        }
        job.id = std::move(id);
    }

    // Rows of one id, account and user are runs of one job: -D prints them all.
    void merge(WorkloadJob&& job, JobOrigin origin, bool still_runs) {
        out_.counts.still_running += still_runs ? 1 : 0;
        tell_apart(job);
        const auto [it, is_new] = index_.emplace(job.id, jobs_.size());
        if (is_new) {
            several_types_ += has_several_types_ && job.runtime_seconds >= 0 ? 1U : 0U;
            jobs_.push_back(std::move(job));
            origins_.push_back(origin);
            return;
        }
        WorkloadJob& first = jobs_[it->second];
        ++merged_;
        first.submit_at = std::min(first.submit_at, job.submit_at);
        if (job.runtime_seconds >= 0) {
            first.runtime_seconds =
                std::max<std::int64_t>(first.runtime_seconds, 0) + job.runtime_seconds;
        }
        // The limit holds for each run; here they are one.
        first.time_limit_seconds = std::max(first.time_limit_seconds, first.runtime_seconds);
        if (first.gpus == 0) {
            first.gpus = job.gpus;
            first.gpu_type = std::move(job.gpu_type);
            first.nodes = job.nodes;
        }
    }

    void wrong(Field field, std::string_view right) {
        is_good_ = false;
        out_.wrong(lines_.number(), kNames[field], text(field), right);
    }

    Lines lines_;
    Fields fields_;
    Gathering& out_;
    std::size_t where_[kFieldCount] = {};
    std::size_t head_count_ = 0, merged_ = 0, several_types_ = 0, recycled_ = 0;
    std::string_view rest_;  // of a name with '|' in it
    bool is_good_ = true, has_several_types_ = false, ends_with_bar_ = false;
    std::vector<WorkloadJob> jobs_;
    std::vector<JobOrigin> origins_;
    std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

Result<ReadWorkload> read_sacct(std::string_view text, Gathering& gathering) {
    return SacctReader(text, gathering).read();
}

}  // namespace tranche::sim
