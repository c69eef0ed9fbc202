// SPDX-License-Identifier: GPL-2.0-or-later
// Comma-separated jobs: the columns of DESIGN 4.5, and those of three published traces, which are
// known by their header.
#include <array>
#include <charconv>
#include <cmath>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/calendar.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

enum class Column : std::uint8_t {
    none,  // known and not used
    job_id,
    submit,
    account,
    user,
    gpus,
    gpus_of_a_worker,  // times `workers`
    workers,
    nodes,
    nodes_at_most,  // more than GPUs are as many as GPUs
    min_runtime,
    resumable,
    team_priority,
    free_first,
    interactive,
    runtime,
    time_limit,
    wait_class,
    spot_class,  // "Spot": free work
    exit_seconds,
    restart_seconds,
    checkpoint_seconds,
    type,
    name,
    array,
    parent,
};

struct ColumnWord {
    const char* word;
    Column column;
};

constexpr ColumnWord kOwn[] = {{"job_id", Column::job_id},
                               {"submit", Column::submit},
                               {"account", Column::account},
                               {"user", Column::user},
                               {"gpus", Column::gpus},
                               {"nodes", Column::nodes},
                               {"min_runtime", Column::min_runtime},
                               {"resumable", Column::resumable},
                               {"team_priority", Column::team_priority},
                               {"free_first", Column::free_first},
                               {"interactive", Column::interactive},
                               {"runtime", Column::runtime},
                               {"time_limit", Column::time_limit},
                               {"class", Column::wait_class},
                               {"exit_seconds", Column::exit_seconds},
                               {"restart_seconds", Column::restart_seconds},
                               {"checkpoint_seconds", Column::checkpoint_seconds},
                               {"type", Column::type},
                               {"name", Column::name},
                               {"array", Column::array},
                               {"parent", Column::parent}};

// Helios: Hu et al., SC 2021. `queue` is the time it waited.
constexpr ColumnWord kHelios[] = {
    {"job_id", Column::job_id},    {"user", Column::user},
    {"vc", Column::account},       {"gpu_num", Column::gpus},
    {"cpu_num", Column::none},     {"node_num", Column::nodes_at_most},
    {"state", Column::none},       {"submit_time", Column::submit},
    {"start_time", Column::none},  {"end_time", Column::none},
    {"duration", Column::runtime}, {"queue", Column::none}};

// Acme: Hu et al., NSDI 2024. `type` is what the job is for.
constexpr ColumnWord kAcme[] = {{"job_id", Column::job_id},
                                {"user", Column::user},
                                {"node_num", Column::nodes_at_most},
                                {"gpu_num", Column::gpus},
                                {"cpu_num", Column::none},
                                {"type", Column::wait_class},
                                {"state", Column::none},
                                {"submit_time", Column::submit},
                                {"start_time", Column::none},
                                {"end_time", Column::none},
                                {"duration", Column::runtime},
                                {"queue", Column::none},
                                {"gpu_time", Column::none},
                                {"fail_time", Column::none},
                                {"stop_time", Column::none},
                                {"mem_per_pod_GB", Column::none},
                                {"shared_mem_per_pod", Column::none}};

// Alibaba's trace of spot GPUs.
constexpr ColumnWord kSpot[] = {{"job_name", Column::job_id},
                                {"organization", Column::account},
                                {"gpu_model", Column::type},
                                {"cpu_request", Column::none},
                                {"gpu_request", Column::gpus_of_a_worker},
                                {"worker_num", Column::workers},
                                {"submit_time", Column::submit},
                                {"duration", Column::runtime},
                                {"job_type", Column::spot_class}};

bool has(const Fields& heads, std::string_view word) {
    for (std::size_t i = 0; i < heads.size(); ++i) {
        if (equal_ignoring_case(trimmed(heads.at(i)), word)) {
            return true;
        }
    }
    return false;
}

std::vector<ColumnWord> words_of(const Fields& heads) {
    if (has(heads, "gpu_num") && has(heads, "vc")) {
        return {std::begin(kHelios), std::end(kHelios)};
    }
    if (has(heads, "gpu_num") && has(heads, "submit_time")) {
        return {std::begin(kAcme), std::end(kAcme)};
    }
    if (has(heads, "gpu_request") && has(heads, "worker_num")) {
        return {std::begin(kSpot), std::end(kSpot)};
    }
    return {std::begin(kOwn), std::end(kOwn)};
}

// What a heading without commas was meant to be; empty: nothing that is known.
std::string cause_of_one_column(std::string_view heading) {
    if (heading.find(',') != std::string_view::npos) {
        return {};
    }
    if (is_sacct_table(heading)) {
        return std::string(kSacctWithoutP);
    }
    for (const char separator : {';', '\t', '|'}) {
        if (heading.find(separator) != std::string_view::npos) {
            return "the columns are separated by " +
                   (separator == '\t' ? std::string("tabs") : quoted(std::string(1, separator))) +
                   "; ',' would be right";
        }
    }
    return {};
}

std::optional<bool> parse_yes(std::string_view text) {
    for (const char* yes : {"1", "yes", "true"}) {
        if (equal_ignoring_case(text, yes)) {
            return true;
        }
    }
    for (const char* no : {"0", "no", "false"}) {
        if (equal_ignoring_case(text, no)) {
            return false;
        }
    }
    return std::nullopt;
}

class CsvReader {
  public:
    CsvReader(std::string_view text, Gathering& gathering) : lines_(text), out_(gathering) {}

    Result<ReadWorkload> read() {
        if (!find_header()) {
            return out_.mistakes.error();
        }
        out_.expect(lines_.left());
        std::string_view line;
        while (lines_.next(line)) {
            if (trimmed(line).empty() || line.front() == '#') {
                continue;
            }
            if (!fields_.cut(line, ',', true)) {
                out_.mistakes.add(lines_.number(), "a double quote is opened and not closed");
                continue;
            }
            if (fields_.size() != columns_.size()) {
                out_.mistakes.add(lines_.number(), "has " + std::to_string(fields_.size()) +
                                                       " fields; the header has " +
                                                       std::to_string(columns_.size()));
                continue;
            }
            read_job();
        }
        return out_.finish();
    }

  private:
    bool find_header() {
        std::string_view line;
        do {
            if (!lines_.next(line)) {
                out_.mistakes.add(0, "is empty; a line with the names of the columns comes first");
                return false;
            }
        } while (trimmed(line).empty() || line.front() == '#');
        const std::size_t number = lines_.number();
        if (!fields_.cut(line, ',', true)) {
            out_.mistakes.add(number, "a double quote is opened and not closed");
            return false;
        }
        if (const std::string cause = cause_of_one_column(line); !cause.empty()) {
            out_.mistakes.add(number, cause);
            return false;
        }
        const std::vector<ColumnWord> words = words_of(fields_);
        for (std::size_t i = 0; i < fields_.size(); ++i) {
            const std::string_view head = trimmed(fields_.at(i));
            Column column = Column::none;
            bool is_known = false;
            for (const ColumnWord& word : words) {
                if (equal_ignoring_case(head, word.word)) {
                    column = word.column;
                    is_known = true;
                }
            }
            if (!is_known) {
                std::string known;
                for (const ColumnWord& word : words) {
                    known += (known.empty() ? "" : ", ") + std::string(word.word);
                }
                out_.mistakes.add(number,
                                  "column " + quoted(head) + " is not known; known are " + known);
            }
            for (std::size_t j = 0; j < i && column != Column::none; ++j) {
                if (columns_[j] == column) {
                    out_.mistakes.add(number, "column " + quoted(head) + " is there twice");
                }
            }
            columns_.push_back(column);
            heads_.emplace_back(head);
        }
        const auto need = [&](std::initializer_list<Column> any, const char* name) {
            for (const Column column : columns_) {
                for (const Column each : any) {
                    if (column == each) {
                        return;
                    }
                }
            }
            out_.mistakes.add(number, "there is no column " + std::string(name) +
                                          "; submit, gpus and runtime must be there");
        };
        need({Column::submit}, "submit");
        need({Column::gpus, Column::gpus_of_a_worker}, "gpus");
        need({Column::runtime}, "runtime");
        return out_.mistakes.none();
    }

    void read_job() {
        WorkloadJob job;
        job.resumable = false;  // as in Slurm: it has to be said
        JobOrigin origin{static_cast<std::uint32_t>(lines_.number()), 0};
        gpus_of_a_worker_ = 0;
        workers_ = 1;
        may_have_fewer_nodes_ = false;
        has_part_ = false;
        is_good_ = true;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            if (const std::string_view text = trimmed(fields_.at(i)); !text.empty()) {
                read_field(columns_[i], i, text, job, origin);
            } else if (columns_[i] == Column::submit || columns_[i] == Column::gpus ||
                       columns_[i] == Column::runtime) {
                wrong(i, text, "a value");
            }
        }
        if (gpus_of_a_worker_ > 0) {
            job.gpus = static_cast<std::int64_t>(std::ceil(gpus_of_a_worker_)) * workers_;
            has_part_ = std::ceil(gpus_of_a_worker_) != gpus_of_a_worker_;
        }
        if (may_have_fewer_nodes_) {
            job.nodes = std::min(job.nodes, job.gpus);
        }
        if (is_good_) {
            out_.counts.part_gpus += has_part_ ? 1U : 0U;
            out_.add(std::move(job), origin);
        }
    }

    void read_field(Column column, std::size_t i, std::string_view text, WorkloadJob& job,
                    JobOrigin& origin) {
        switch (column) {
            case Column::none:
                break;
            case Column::job_id:
                job.id = text;
                break;
            case Column::submit:
                read_submit(i, text, job);
                break;
            case Column::account:
                job.account = text;
                origin.say(Said::account);
                break;
            case Column::user:
                job.user = text;
                origin.say(Said::user);
                break;
            case Column::gpus:
                job.gpus = gpus(i, text);
                break;
            case Column::gpus_of_a_worker: {
                const char* const end = text.data() + text.size();
                const auto read = std::from_chars(text.data(), end, gpus_of_a_worker_);
                if (read.ec != std::errc() || read.ptr != end || !(gpus_of_a_worker_ >= 0) ||
                    gpus_of_a_worker_ > 1000) {
                    gpus_of_a_worker_ = 0;
                    wrong(i, text, "a number from 0 to 1000");
                }
                break;
            }
            case Column::workers:
                workers_ = number(i, text, 1, kMostNodes);
                break;
            case Column::nodes:
                job.nodes = number(i, text, 1, kMostNodes);
                origin.say(Said::nodes);
                break;
            case Column::nodes_at_most:
                job.nodes = number(i, text, 0, kMostNodes);
                may_have_fewer_nodes_ = true;
                origin.say(Said::nodes);
                break;
            case Column::min_runtime:
                job.min_runtime_seconds = seconds(i, text);
                origin.say(Said::min_runtime);
                break;
            case Column::resumable:
                job.resumable = yes(i, text);
                job.says_resumable = true;
                origin.say(Said::resumable);
                break;
            case Column::team_priority:
                if (const auto priority = parse_team_priority(text); priority.ok()) {
                    job.team_priority = *priority;
                } else {
                    wrong(i, text, "low, normal, high or urgent");
                }
                origin.say(Said::team_priority);
                break;
            case Column::free_first:
                job.free_first = yes(i, text);
                origin.say(Said::free_first);
                break;
            case Column::interactive:
                job.interactive = yes(i, text);
                origin.say(Said::interactive);
                break;
            case Column::runtime:
                job.runtime_seconds = seconds(i, text);
                break;
            case Column::time_limit:
                if (!equal_ignoring_case(text, "unlimited")) {
                    job.time_limit_seconds = seconds(i, text);
                }
                origin.say(Said::time_limit);
                break;
            case Column::wait_class:
                job.wait_class = lower_case(text);
                origin.say(Said::wait_class);
                break;
            case Column::spot_class:
                job.wait_class = lower_case(text);
                origin.say(Said::wait_class);
                if (job.wait_class == "spot") {
                    job.min_runtime_seconds = 0;
                    origin.say(Said::min_runtime);
                }
                break;
            case Column::exit_seconds:
                job.exit_seconds = seconds(i, text);
                origin.say(Said::exit_seconds);
                break;
            case Column::restart_seconds:
                job.restart_seconds = seconds(i, text);
                origin.say(Said::restart_seconds);
                break;
            case Column::checkpoint_seconds:
                job.checkpoint_seconds = seconds(i, text);
                origin.say(Said::checkpoint_seconds);
                break;
            case Column::type:
                job.gpu_type = text;
                break;
            case Column::name:
                job.name = text;
                break;
            case Column::array:
                job.array = text;
                break;
            case Column::parent:
                job.parent = text;
                break;
        }
    }

    void read_submit(std::size_t i, std::string_view text, WorkloadJob& job) {
        if (const auto number = parse_whole(text)) {
            if (*number < 0 || *number > kLongestTimeSpanSeconds) {
                wrong(i, text, "a number of seconds from 0 to a hundred years");
            }
            job.submit_at = *number;
        } else if (const auto at = parse_calendar(text)) {
            job.submit_at = *at;
            ++out_.calendar_times;
        } else {
            wrong(i, text, "a number of seconds or an instant as 2024-05-01T12:30:00");
        }
    }

    void wrong(std::size_t i, std::string_view text, std::string_view right) {
        is_good_ = false;
        out_.wrong(lines_.number(), heads_[i], text, right);
    }
    std::int64_t number(std::size_t i, std::string_view text, std::int64_t least,
                        std::int64_t most) {
        const auto value = parse_whole(text);
        if (!value || *value < least || *value > most) {
            wrong(i, text,
                  "a number from " + std::to_string(least) + " to " + std::to_string(most));
        }
        return value.value_or(0);
    }
    // A part of a GPU is a whole one.
    std::int64_t gpus(std::size_t i, std::string_view text) {
        double amount = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, amount);
        if (read.ec != std::errc() || read.ptr != end || !(amount >= 0) ||
            amount > static_cast<double>(kMostGpus)) {
            wrong(i, text, "a number from 0 to " + std::to_string(kMostGpus));
            return 0;
        }
        has_part_ = std::ceil(amount) != amount;
        return static_cast<std::int64_t>(std::ceil(amount));
    }
    std::int64_t seconds(std::size_t i, std::string_view text) {
        const auto value = parse_seconds(text);
        if (!value || *value < 0 || *value > kLongestTimeSpanSeconds) {
            wrong(i, text, "seconds or a time such as 8:00:00, at most a hundred years,");
        }
        return value.value_or(0);
    }
    bool yes(std::size_t i, std::string_view text) {
        const auto value = parse_yes(text);
        if (!value) {
            wrong(i, text, "1 or 0, yes or no");
        }
        return value.value_or(false);
    }

    Lines lines_;
    Fields fields_;
    Gathering& out_;
    std::vector<Column> columns_;
    std::vector<std::string> heads_;
    double gpus_of_a_worker_ = 0;
    std::int64_t workers_ = 1;
    bool may_have_fewer_nodes_ = false, has_part_ = false, is_good_ = true;
};

}  // namespace

Result<ReadWorkload> read_csv(std::string_view text, Gathering& gathering) {
    return CsvReader(text, gathering).read();
}

}  // namespace tranche::sim
