// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "common/base/quoted.hpp"
#include "tools/sbudget_job.hpp"

namespace tranche {
namespace {

// min-runtime, min_runtime and minruntime, whole or shortened.
std::string plain(std::string_view word) {
    std::string text;
    for (const char character : word) {
        if (character != '-' && character != '_') {
            text.push_back(character);
        }
    }
    return text;
}

Result<std::string> key_named(const std::string& word) {
    std::vector<std::string> keys = contract_edit_keys();
    keys.emplace_back("reason");
    std::vector<std::string> meant;
    std::string known;
    for (const std::string& key : keys) {
        known += (known.empty() ? "" : ", ") + key;
        if (equal_ignoring_case(plain(key), plain(word))) {
            return key;
        }
        if (!word.empty() && starts_with_ignoring_case(plain(key), plain(word))) {
            meant.push_back(key);
        }
    }
    if (meant.size() == 1) {
        return meant.front();
    }
    return Error{
        (meant.empty() ? "unknown key " + quoted(word) : quoted(word) + " may mean several") +
        "; known are " + known};
}

}  // namespace

Result<JobCommand> parse_job_command(const std::vector<std::string>& words,
                                     const std::string& environment_job,
                                     const std::string& environment_task) {
    if (words.empty()) {
        return Error{"job: no job is said; job JOBID set min-runtime=2h would be right"};
    }
    const auto job = parse_job_name(words[0]);
    if (!job.ok()) {
        return job.failure();
    }
    JobCommand command;
    command.job = *job;
    if (words.size() == 1) {
        return Error{"job " + words[0] + ": what is to be done? job " + words[0] +
                     " set min-runtime=2h, or job " + words[0] + " checkpointed, would be right"};
    }
    if (starts_with_ignoring_case("checkpointed", words[1]) && words[1].size() > 1) {
        if (words.size() > 2) {
            return Error{quoted(words[2]) + " is too much: job " + words[0] +
                         " checkpointed takes no more words"};
        }
        command.checkpointed = true;
        if (!environment_task.empty() && words[0] == environment_job) {
            const auto task = parse_job_name(environment_task);
            command.job = task.ok() ? *task : command.job;
        }
        return command;
    }
    if (!equal_ignoring_case(words[1], "set")) {
        return Error{"'set' or 'checkpointed' is expected after 'job " + words[0] + "', not " +
                     quoted(words[1])};
    }
    for (std::size_t i = 2; i < words.size(); ++i) {
        const std::size_t equals = words[i].find('=');
        if (equals == std::string::npos || equals == 0) {
            return Error{quoted(words[i]) + " is not KEY=VALUE"};
        }
        const auto key = key_named(words[i].substr(0, equals));
        if (!key.ok()) {
            return key.failure();
        }
        const std::string value = words[i].substr(equals + 1);
        std::optional<std::string>* word = word_of(command.edit, *key);
        if (word == nullptr) {
            command.reason = value;
        } else if (*word) {
            return Error{*key + " is given twice"};
        } else {
            *word = value;
        }
    }
    const Status status = check_contract_edit(command.edit);
    if (!status.ok()) {
        return status.failure();
    }
    return command;
}

}  // namespace tranche
