// SPDX-License-Identifier: GPL-2.0-or-later
// srank's options, without the network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/wire/job_name.hpp"
#include "common/wire/json.hpp"
#include "tools/command_line.hpp"

namespace tranche {

const CommandTable& srank_table();

// -j -u -A -p and --budget as the service's filter.
Result<Json> filter_of(const CommandLine& line);

// The words of sbatch behind --try as the service's arguments: -N, --gpus, --gpus-per-node,
// --gres=gpu:, --min-runtime, --time, --resumable, --exclusive, --team-priority, -p, -A, --budget.
// Others are refused by name.
Result<Json> try_arguments(const std::string& text);

// What is asked to be shown, at once and with that view's options.
Status check_views(const CommandLine& line);

// A column asked for by -o: "%.18i" or "jobid:18".
struct ColumnChoice {
    std::string name;
    std::size_t width = 0;
    bool right = false;
};
// Letters and names are those of srank_columns().
Result<std::vector<ColumnChoice>> parse_column_choice(const std::string& text);

struct ColumnName {
    char letter;  // '\0': none
    const char* name;
    const char* head;
    const char* json_key;  // of a row; what is sorted by
    bool right;
    const char* text;
};
const std::vector<ColumnName>& srank_columns();

// One key of -S: "-ratio" is descending.
struct SortKey {
    std::string json_key;
    bool descending = false;
};
Result<std::vector<SortKey>> parse_sort_keys(const std::string& text);

}  // namespace tranche
