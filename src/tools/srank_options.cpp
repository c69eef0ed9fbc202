// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/srank_options.hpp"

#include <algorithm>
#include <charconv>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"

namespace tranche {
namespace {

Result<std::int64_t> parse_number(std::string_view text, std::int64_t most) {
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || code != std::errc() || end != text.data() + text.size() || number < 0 ||
        number > most) {
        return Error{"not a number"};
    }
    return number;
}

const ColumnName* find_column(std::string_view name) {
    for (const ColumnName& column : srank_columns()) {
        if (equal_ignoring_case(column.name, name) || equal_ignoring_case(column.head, name)) {
            return &column;
        }
    }
    return nullptr;
}

std::string known_columns() {
    std::string known;
    for (const ColumnName& column : srank_columns()) {
        known += std::string(known.empty() ? "" : ", ") + column.name;
    }
    return known;
}

}  // namespace

const std::vector<ColumnName>& srank_columns() {
    static const std::vector<ColumnName> columns = {
        {'k', "rank", "RANK", "rank", true, "place in the queue, 1 is next"},
        {'Y', "priority", "PRIORITY", "priority", true, "Slurm's priority"},
        {'i', "jobid", "JOBID", "job_id", true,
         "job, 123_4 for an array's task, 123_[x9] for nine of its tasks without an id, 123+1 for "
         "a "
         "component"},
        {'j', "name", "NAME", "name", false, "job name"},
        {'u', "user", "USER", "user", false, "user"},
        {'o', "account", "ACCOUNT", "account", false, "account"},
        {'r', "partition", "PARTITION", "partition", false, "partition"},
        {'b', "budget", "BUDGET", "budget", false, "budget that pays"},
        {'c', "class", "CLASS", "band", false, "plan, express, allocated or unallocated"},
        {'t', "team", "TEAM_PRIORITY", "team_priority", false, "team priority"},
        {'D', "nodes", "NODES", "nodes", true, "nodes asked for"},
        {'g', "gpus", "GPUS", "gpus", true, "GPUs asked for, of one task"},
        {'m', "minruntime", "MIN_RUNTIME", "min_runtime_seconds", true, "minimum runtime"},
        {'e', "resumable", "RESUMABLE", "resumable", false,
         "whether it is requeued when it leaves"},
        {'x', "runs", "RUNS", "runs", true, "runs that began"},
        {'V', "submitted", "SUBMITTED", "first_submit_at", false, "first submission"},
        {'R', "reason", "WAIT_REASON", "wait_reason", false, "why it waits"},
        {'s', "slurmreason", "SLURM_REASON", "slurm_reason", false, "Slurm's own reason"},
        {'N', "next", "NEXT_CHANGE", "next_change_at", false,
         "when a contract's end can change that"},
        {'T', "start", "EXPECTED_START", "expected_start_at", false,
         "by when it is expected to start, an estimate"},
        {'U', "used", "USED(GPUh)", "used_gpu_hours", true, "what its budget used in the window"},
        {'F', "funded", "FUNDED(GPUh)", "funded_gpu_hours", true,
         "what its budget was funded in the window"},
        {'a', "ratio", "RATIO", "ratio", true,
         "faded use and commitments over entitlement; 1.00: used what was funded"},
        {'l', "levels", "LEVELS", "levels", false, "the ratio on each level of the tree"},
    };
    return columns;
}

const CommandTable& srank_table() {
    static const std::string columns_help = [] {
        std::string text = "Columns of -o and -S (letter, name):\n";
        for (const ColumnName& column : srank_columns()) {
            std::string left = std::string("  %") + column.letter + "  " + column.name;
            left.resize(std::max<std::size_t>(left.size(), 19), ' ');
            text += left + column.text + "\n";
        }
        return text + "GPU hours are weighted.\n";
    }();
    static const CommandTable table = [] {
        CommandTable made;
        made.name = "srank";
        made.about = "Shows the ranked queue, and why a job waits, runs or was preempted.";
        made.usages = {"[OPTIONS]",
                       "[OPTIONS] me",
                       "[OPTIONS] --running",
                       "[OPTIONS] --why JOBID",
                       "[OPTIONS] --try \"-N4 --min-runtime=2h\"",
                       "[OPTIONS] --health"};
        made.options = common_options();
        const std::vector<OptionRow> own = {
            {'h', "no-header", nullptr, "the same as -n"},
            {'r', "running", nullptr, "running jobs: protected until, who could take them"},
            {'w', "why", "JOBID", "why a job waits, who could take it, or who took its place"},
            {'\0', "try", "WORDS",
             "when a job asked for by these words of sbatch would start, and what starts sooner"},
            {'\0', "health", nullptr, "how the controller's part is doing"},
            {'j', "jobs", "LIST", "only these jobs"},
            {'u', "user", "LIST", "only jobs of these users"},
            {'A', "account", "LIST", "only jobs of these accounts"},
            {'p', "partition", "LIST", "only jobs of these partitions"},
            {'b', "budget", "LIST", "only jobs of these budgets"},
            {'l', "long", nullptr, "more columns, the ratio on each level"},
            {'o', "format", "FORMAT", "columns: '%.10i %u' as in sprio, or jobid:10,user"},
            {'S', "sort", "LIST", "order by columns, -name descending; default: rank"}};
        made.options.insert(made.options.end(), own.begin(), own.end());
        made.more = columns_help.c_str();
        return made;
    }();
    return table;
}

Result<Json> filter_of(const CommandLine& line) {
    Json filter = Json::object();
    if (line.has("jobs")) {
        Json jobs = Json::array();
        for (const std::string& word : split_list(line.value("jobs"))) {
            const auto name = parse_job_name(word);
            if (!name.ok()) {
                return name.failure();
            }
            const bool is_whole = name->array_task < 0 && name->het_offset < 0;
            jobs.append(is_whole ? Json::integer(name->id) : Json::text(to_text(*name)));
        }
        filter.set("jobs", jobs);
    }
    for (const auto& [option, key] : {std::pair{"user", "users"},
                                      {"account", "accounts"},
                                      {"partition", "partitions"},
                                      {"budget", "budgets"}}) {
        if (line.has(option)) {
            filter.set(key, Json::texts(split_list(line.value(option))));
        }
    }
    return filter;
}

Result<Json> try_arguments(const std::string& text) {
    static const CommandTable words = [] {
        CommandTable made;
        made.name = "--try";
        made.about = "";
        made.options = {{'N', "nodes", "N", ""},          {'G', "gpus", "N", ""},
                        {'\0', "gpus-per-node", "N", ""}, {'\0', "gres", "LIST", ""},
                        {'\0', "min-runtime", "T", ""},   {'t', "time", "T", ""},
                        {'\0', "resumable", nullptr, ""}, {'\0', "exclusive", nullptr, ""},
                        {'p', "partition", "P", ""},      {'A', "account", "A", ""},
                        {'\0', "budget", "B", ""},        {'\0', "team-priority", "P", ""}};
        made.more = "";
        return made;
    }();
    const std::vector<std::string> given = split_list(text, ' ');
    std::vector<std::string> copies = {"--try"};
    copies.insert(copies.end(), given.begin(), given.end());
    std::vector<char*> arguments;
    arguments.reserve(copies.size() + 1);
    for (std::string& word : copies) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    constexpr const char* kKnown =
        "; -N, --gpus, --gpus-per-node, --gres=gpu:, --min-runtime, --time, --resumable, "
        "--exclusive, --team-priority, -p, -A and --budget would be right";
    const auto line = parse_command_line(words, static_cast<int>(copies.size()), arguments.data());
    if (!line.ok()) {
        return Error{"--try " + line.error().substr(0, line.error().find(';')) + kKnown};
    }
    if (!line->words.empty()) {
        return Error{"--try " + quoted(line->words.front()) + " is not known" + kKnown};
    }
    Json json = Json::object();
    const auto count = [&](const std::string& option, std::string value,
                           const char* key) -> Status {
        // gpu:h100:4, h100:4
        if (const std::size_t colon = value.rfind(':'); colon != std::string::npos) {
            json.set("gpu_type", value.substr(0, colon));
            value = value.substr(colon + 1);
        }
        const auto number = parse_number(value, 1000000);
        if (!number.ok() || *number == 0) {
            return Error{"--try: --" + option + "=" + quoted(line->value(option)) +
                         " is not a number from 1 on"};
        }
        json.set(key, *number);
        return {};
    };
    for (const auto& [option, value] : line->options) {
        Status status;
        if (option == "nodes") {
            status = count(option, value, "nodes");
        } else if (option == "gpus") {
            status = count(option, value, "gpus");
        } else if (option == "gpus-per-node") {
            status = count(option, value, "gpus_per_node");
        } else if (option == "gres") {
            if (value != "gpu" && !value.starts_with("gpu:")) {
                status = Error{"--try: --gres=" + quoted(value) + "; gpu:4 would be right"};
            } else {
                status = count(option, value == "gpu" ? "1" : value.substr(4), "gpus_per_node");
            }
        } else if (option == "min-runtime" || option == "time") {
            const auto seconds = parse_time_span(value, PlainNumber::minutes);
            if (!seconds.ok()) {
                return Error{"--try: --" + option + ": " + seconds.error()};
            }
            json.set(option == "time" ? "time_limit_seconds" : "min_runtime_seconds", *seconds);
        } else if (option == "resumable" || option == "exclusive") {
            json.set(option.c_str(), true);
        } else if (option == "team-priority") {
            json.set("team_priority", value);
        } else {
            json.set(option.c_str(), value);
        }
        if (!status.ok()) {
            return status.failure();
        }
    }
    return json;
}

Status check_views(const CommandLine& line) {
    const bool me = line.words.size() == 1 && line.words.front() == "me";
    if (!line.words.empty() && !me) {
        return Error{quoted(line.words.front()) +
                     " is not expected; me, or options, srank --help lists them"};
    }
    const char* view = line.has("why")       ? "--why"
                       : line.has("running") ? "--running"
                       : line.has("health")  ? "--health"
                       : line.has("try")     ? "--try"
                       : me                  ? "me"
                                             : nullptr;
    if (line.has("why") + line.has("running") + line.has("health") + line.has("try") + me > 1) {
        return Error{"one of me, --why, --running, --health and --try at a time"};
    }
    if (view == nullptr) {
        return {};
    }
    for (const char* option : {"format", "sort"}) {
        if (line.has(option)) {
            return Error{std::string("--") + option + " is for the queue, not for " + view +
                         "; --json gives everything"};
        }
    }
    for (const char* option : {"jobs", "user", "account", "partition", "budget"}) {
        if (line.has(option) && !line.has("running")) {
            return Error{std::string("--") + option + " narrows the queue and --running, not " +
                         view + "; leave it out"};
        }
    }
    return {};
}

Result<std::vector<ColumnChoice>> parse_column_choice(const std::string& text) {
    std::vector<ColumnChoice> choices;
    const auto bad = [&](const std::string& what) {
        return Error{"format " + quoted(text) + ": " + what};
    };
    if (text.find('%') != std::string::npos) {
        for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at)) {
            ++at;
            ColumnChoice choice;
            if (at < text.size() && text[at] == '.') {
                choice.right = true;
                ++at;
            }
            const std::size_t digits = at;
            while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
                ++at;
            }
            if (at > digits) {
                const auto width =
                    parse_number(std::string_view(text).substr(digits, at - digits), 1000);
                if (!width.ok()) {
                    return bad("a width is 1 to 1000");
                }
                choice.width = static_cast<std::size_t>(*width);
            }
            const auto it = std::find_if(srank_columns().begin(), srank_columns().end(),
                                         [&](const ColumnName& column) {
                                             return at < text.size() && column.letter == text[at];
                                         });
            if (it == srank_columns().end()) {
                return bad("there is no column %" +
                           (at < text.size() ? std::string(1, text[at]) : std::string()) +
                           "; srank --help lists them");
            }
            choice.name = it->name;
            choices.push_back(choice);
        }
    } else {
        for (const std::string& word : split_list(text)) {
            const std::size_t colon = word.find(':');
            const ColumnName* column = find_column(word.substr(0, colon));
            if (column == nullptr) {
                return bad("there is no column " + quoted(word.substr(0, colon)) + "; known are " +
                           known_columns());
            }
            ColumnChoice choice{column->name, 0, column->right};
            if (colon != std::string::npos) {
                const auto width = parse_number(std::string_view(word).substr(colon + 1), 1000);
                if (!width.ok() || *width == 0) {
                    return bad("a width is 1 to 1000");
                }
                choice.width = static_cast<std::size_t>(*width);
            }
            choices.push_back(choice);
        }
    }
    if (choices.empty()) {
        return bad("it names no column; '%i %u' or jobid,user would be right");
    }
    return choices;
}

Result<std::vector<SortKey>> parse_sort_keys(const std::string& text) {
    std::vector<SortKey> keys;
    for (std::string word : split_list(text)) {
        SortKey key;
        if (word.front() == '-' || word.front() == '+') {
            key.descending = word.front() == '-';
            word.erase(0, 1);
        }
        const auto by_letter = std::find_if(
            srank_columns().begin(), srank_columns().end(),
            [&](const ColumnName& c) { return word.size() == 1 && c.letter == word[0]; });
        const ColumnName* column =
            by_letter != srank_columns().end() ? &*by_letter : find_column(word);
        if (column == nullptr) {
            return Error{"sort key " + quoted(word) + " is no column; known are " +
                         known_columns()};
        }
        key.json_key = column->json_key;
        keys.push_back(key);
    }
    return keys;
}

}  // namespace tranche
