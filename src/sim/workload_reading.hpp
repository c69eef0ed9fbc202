// SPDX-License-Identifier: GPL-2.0-or-later
// What the readers of the three formats of workload_file.hpp share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/mistakes.hpp"
#include "sim/workload_file.hpp"

namespace tranche::sim {

inline constexpr std::int64_t kMostGpus = 1'000'000;  // of one job
inline constexpr std::int64_t kMostNodes = 100'000;
// Seconds from there on are since 1970.
inline constexpr std::int64_t kEpochFrom = std::int64_t{10} * 365 * 86400;
inline constexpr std::size_t kMostJobs = 20'000'000;

// Lines of a text without their ends; CR LF counts as one.
class Lines {
  public:
    explicit Lines(std::string_view text) : rest_(text) {}
    bool next(std::string_view& line) noexcept;
    std::size_t left() const noexcept;  // how many are still to come, at most one off
    std::size_t number() const noexcept { return number_; }  // of the last one, 1 is the first

  private:
    std::string_view rest_;
    std::size_t number_ = 0;
};

// Cuts a line at the separator. With `quotes`, a field in double quotes may hold it, and two of
// them stand for one; false if a quote is never closed. Fields point into the line or, for as long
// as it is not cut again, into this.
class Fields {
  public:
    bool cut(std::string_view line, char separator, bool quotes);
    std::size_t size() const noexcept { return fields_.size(); }
    std::string_view at(std::size_t index) const noexcept { return fields_[index]; }

  private:
    bool cut_quoted(std::string_view line, char separator);

    std::vector<std::string_view> fields_;
    std::string unquoted_;
};

// A number of a file: "12", "12.0", "1e5"; nullopt: none. Halves are rounded up.
std::optional<std::int64_t> parse_whole(std::string_view text) noexcept;
// Seconds or any of Slurm's time spans; nullopt: none of these. May be negative.
std::optional<std::int64_t> parse_seconds(std::string_view text) noexcept;

// Whether a heading is that of a table of `sacct` with blanks between the columns, and what to say.
bool is_sacct_table(std::string_view heading);
inline constexpr std::string_view kSacctWithoutP =
    "this is a table as sacct prints it without -P; sacct -P, with '|' between the columns, would "
    "be right";

// Counts for the notes.
struct Counts {
    std::size_t no_gpus = 0, never_ran = 0, part_gpus = 0, still_running = 0, raised_limits = 0;
    bool too_many = false;
};

// Gathers jobs and mistakes of one file, and makes the result of them.
class Gathering {
  public:
    explicit Gathering(std::string file) : mistakes(std::move(file)) {}

    void expect(std::size_t jobs);  // about so many; saves moving them
    // Checks what holds in every format. A job without GPUs or without a runtime is only counted.
    // Lines come in rising order.
    void add(WorkloadJob&& job, JobOrigin origin);
    // "gpus '-3': a number from 1 to 1000000 would be right".
    void wrong(std::size_t line, std::string_view column, std::string_view value,
               std::string_view right);
    Result<ReadWorkload> finish();

    Mistakes mistakes;
    ReadWorkload read;
    Counts counts;
    std::size_t calendar_times = 0;  // submissions that were calendar texts
};

Result<ReadWorkload> read_csv(std::string_view text, Gathering& gathering);
Result<ReadWorkload> read_sacct(std::string_view text, Gathering& gathering);
Result<ReadWorkload> read_swf(std::string_view text, Gathering& gathering);

}  // namespace tranche::sim
