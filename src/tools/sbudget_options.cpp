// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/sbudget_options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

using Verb = BudgetCommand::Verb;

struct Word {
    const char* text;
    const char* meaning;  // the main word that it stands for
};

constexpr Word kVerbs[] = {{"add", "add"},       {"create", "add"},    {"modify", "modify"},
                           {"delete", "delete"}, {"remove", "delete"}, {"move", "move"},
                           {"show", "show"},     {"list", "show"},     {"dump", "dump"},
                           {"load", "load"},     {"job", "job"}};
constexpr Word kEntities[] = {{"tree", "tree"},
                              {"budget", "budget"},
                              {"budgets", "budget"},
                              {"edit", "edit"},
                              {"edits", "edit"},
                              {"preemption", "preemption"},
                              {"preemptions", "preemption"},
                              {"contract", "contract"},
                              {"contracts", "contract"}};
constexpr Word kKeys[] = {
    {"name", "name"},         {"names", "name"},        {"parent", "parent"},
    {"parents", "parent"},    {"shares", "shares"},     {"own_shares", "own_shares"},
    {"sharing", "sharing"},   {"accounts", "accounts"}, {"users", "users"},
    {"managers", "managers"}, {"reason", "reason"},     {"format", "format"},
    {"jobs", "jobs"},         {"start", "start"},       {"end", "end"}};

// The meaning of a word that is whole, or the beginning of words with one meaning.
template <std::size_t N>
Result<std::string> meaning_of(const std::string& text, const Word (&words)[N],
                               const std::string& what) {
    std::string found, all;
    bool ambiguous = false;
    for (const Word& word : words) {
        if (equal_ignoring_case(word.text, text)) {
            return std::string(word.meaning);
        }
        if (all.find(std::string(" ") + word.meaning + ",") == std::string::npos) {
            all += std::string(" ") + word.meaning + ",";
        }
        if (!text.empty() && starts_with_ignoring_case(word.text, text)) {
            ambiguous = ambiguous || (!found.empty() && found != word.meaning);
            found = word.meaning;
        }
    }
    all.pop_back();
    if (ambiguous) {
        return Error{what + " " + quoted(text) + " may mean several of" + all};
    }
    if (found.empty()) {
        return Error{"unknown " + what + " " + quoted(text) + "; known are" + all};
    }
    return found;
}

struct Setting {
    std::string key;
    char operation = '=';  // '+' and '-' for += and -=
    std::string value;
};

Result<Setting> parse_setting(const std::string& word) {
    const std::size_t at = word.find('=');
    if (at == std::string::npos || at == 0) {
        return Error{quoted(word) + " is not KEY=VALUE"};
    }
    Setting setting;
    std::string key = word.substr(0, at);
    if (key.back() == '+' || key.back() == '-') {
        setting.operation = key.back();
        key.pop_back();
    }
    const auto meaning = meaning_of(key, kKeys, "key");
    if (!meaning.ok()) {
        return meaning.failure();
    }
    setting.key = *meaning;
    setting.value = word.substr(at + 1);
    const bool is_list =
        setting.key == "accounts" || setting.key == "users" || setting.key == "managers";
    if (setting.operation != '=' && !is_list) {
        return Error{setting.key + setting.operation +
                     "= is not possible; only accounts, users and managers are lists"};
    }
    return setting;
}

Result<std::int64_t> parse_shares(const std::string& key, const std::string& text) {
    std::int64_t shares = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), shares);
    if (text.empty() || code != std::errc() || end != text.data() + text.size() || shares < 0 ||
        shares > kMaxShares) {
        return Error{key + "=" + quoted(text) + " is not a whole number from 0 to " +
                     std::to_string(kMaxShares)};
    }
    return shares;
}

Status apply_to_edit(BudgetEdit& edit, const Setting& setting) {
    const auto list = [&](std::optional<std::vector<std::string>>& whole,
                          std::vector<std::string>& add, std::vector<std::string>& remove) {
        const auto names = split_list(setting.value);
        if (setting.operation == '=') {
            whole = names;
        } else {
            auto& changed = setting.operation == '+' ? add : remove;
            changed.insert(changed.end(), names.begin(), names.end());
        }
    };
    if (setting.key == "name") {
        if (!edit.name.empty()) {
            return Error{"two names are said, " + quoted(edit.name) + " and " +
                         quoted(setting.value) +
                         "; one budget is changed at a time (load changes "
                         "many at once)"};
        }
        if (setting.value.find(',') != std::string::npos) {
            return Error{"name=" + quoted(setting.value) +
                         ": one budget is changed at a time (load changes many at once)"};
        }
        edit.name = setting.value;
    } else if (setting.key == "parent") {
        edit.parent = setting.value;
    } else if (setting.key == "shares" || setting.key == "own_shares") {
        const auto shares = parse_shares(setting.key, setting.value);
        if (!shares.ok()) {
            return shares.failure();
        }
        (setting.key == "shares" ? edit.shares : edit.own_shares) = *shares;
    } else if (setting.key == "sharing") {
        if (setting.value.empty()) {
            edit.sharing = BudgetSharing::unset;
        } else if (equal_ignoring_case(setting.value, "users")) {
            edit.sharing = BudgetSharing::users;
        } else if (equal_ignoring_case(setting.value, "pooled")) {
            edit.sharing = BudgetSharing::pooled;
        } else {
            return Error{"sharing=" + quoted(setting.value) +
                         "; users, pooled, or nothing (as Sharing= says) would be right"};
        }
    } else if (setting.key == "accounts") {
        list(edit.accounts, edit.add_accounts, edit.remove_accounts);
    } else if (setting.key == "users") {
        list(edit.users, edit.add_users, edit.remove_users);
    } else if (setting.key == "managers") {
        list(edit.managers, edit.add_managers, edit.remove_managers);
    } else if (setting.key == "reason") {
        edit.reason = setting.value;
    } else {
        return Error{setting.key + "= belongs to show"};
    }
    return {};
}

// add|modify|delete|move budget ...
Result<BudgetCommand> parse_write(BudgetEdit::Kind kind, const std::string& verb,
                                  const std::vector<std::string>& words, std::size_t at) {
    BudgetCommand command;
    command.verb = Verb::write;
    BudgetEdit& edit = command.edit;
    edit.kind = kind;
    if (at >= words.size()) {
        return Error{"'budget' and a name are expected after '" + verb + "'"};
    }
    const auto entity = meaning_of(words[at], kEntities, "entity");
    if (!entity.ok() || *entity != "budget") {
        return Error{"'budget' is expected after '" + verb + "', not " + quoted(words[at])};
    }
    const bool has_set = std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return equal_ignoring_case(word, "set");
    });
    const bool is_change = kind == BudgetEdit::Kind::modify || kind == BudgetEdit::Kind::move;
    bool in_where = is_change && has_set;
    for (++at; at < words.size(); ++at) {
        const std::string& word = words[at];
        if (equal_ignoring_case(word, "where")) {
            in_where = true;
            continue;
        }
        if (equal_ignoring_case(word, "set")) {
            in_where = false;
            continue;
        }
        Setting setting{"name", '=', word};
        if (word.find('=') != std::string::npos) {
            const auto parsed = parse_setting(word);
            if (!parsed.ok()) {
                return parsed.failure();
            }
            setting = *parsed;
            if (in_where && setting.key != "name") {
                return Error{"where " + setting.key +
                             "=: a budget is found by its name; where "
                             "name=… would be right"};
            }
            if (!in_where && has_set && is_change && setting.key == "name") {
                return Error{"set name=: a budget cannot be renamed"};
            }
        }
        if (const Status status = apply_to_edit(edit, setting); !status.ok()) {
            return status.failure();
        }
    }
    if (edit.name.empty()) {
        return Error{verb + ": no name is said; " + verb + " budget NAME would be right"};
    }
    return command;
}

Result<BudgetCommand> parse_show(const std::vector<std::string>& words, std::size_t at) {
    BudgetCommand command;
    if (at < words.size()) {
        const auto entity = meaning_of(words[at], kEntities, "entity");
        if (!entity.ok()) {
            return entity.failure();
        }
        command.verb = *entity == "tree"       ? Verb::show_tree
                       : *entity == "budget"   ? Verb::show_budget
                       : *entity == "edit"     ? Verb::show_edit
                       : *entity == "contract" ? Verb::show_contract
                                               : Verb::show_preemption;
    }
    for (++at; at < words.size(); ++at) {
        const std::string& word = words[at];
        if (equal_ignoring_case(word, "where")) {
            continue;
        }
        if (word.find('=') == std::string::npos) {
            const auto names = split_list(word);
            command.names.insert(command.names.end(), names.begin(), names.end());
            continue;
        }
        const auto setting = parse_setting(word);
        if (!setting.ok()) {
            return setting.failure();
        }
        const bool of_events = command.verb == Verb::show_preemption ||
                               command.verb == Verb::show_edit ||
                               command.verb == Verb::show_contract;
        if (setting->operation == '=' && of_events &&
            (setting->key == "start" || setting->key == "end")) {
            (setting->key == "start" ? command.start : command.end) = setting->value;
            continue;
        }
        const auto values = split_list(setting->value);
        auto* list = setting->key == "name"       ? &command.names
                     : setting->key == "parent"   ? &command.parents
                     : setting->key == "accounts" ? &command.accounts
                     : setting->key == "users"    ? &command.users
                     : setting->key == "managers" ? &command.managers
                     : setting->key == "format"   ? &command.columns
                     : setting->key == "jobs" && command.verb == Verb::show_preemption
                         ? &command.jobs
                         : nullptr;
        if (list == nullptr || setting->operation != '=') {
            return Error{quoted(word) +
                         ": show takes name=, parent=, accounts=, users=, "
                         "managers= and format=; of edits and preemptions also start= and end=, "
                         "of preemptions job="};
        }
        list->insert(list->end(), values.begin(), values.end());
    }
    return command;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

// "12_4" inside a task of an array.
std::string own_array_task() {
    const std::string array = variable("SLURM_ARRAY_JOB_ID"),
                      task = variable("SLURM_ARRAY_TASK_ID");
    return array.empty() || task.empty() ? std::string() : array + "_" + task;
}

}  // namespace

const CommandTable& sbudget_table() {
    static const CommandTable table = [] {
        CommandTable made;
        made.name = "sbudget";
        made.about = "Shows and changes the budgets that pay for GPU time.";
        made.usages = {
            "[OPTIONS] show tree|budget|edit|contract|preemption [[where] NAME|KEY=LIST ...] "
            "[start=TIME] [end=TIME] [format=COLUMNS]",
            "[OPTIONS] add budget NAME [parent=NAME] [shares=N] [accounts=LIST] [users=LIST] "
            "[managers=LIST] ...",
            "[OPTIONS] modify budget where name=NAME set KEY=VALUE ...",
            "[OPTIONS] move budget NAME parent=NAME",
            "[OPTIONS] delete budget NAME",
            "[OPTIONS] job JOBID set KEY=VALUE ... [reason=TEXT]",
            "[OPTIONS] job JOBID checkpointed",
            "[OPTIONS] dump FILE",
            "[OPTIONS] load FILE"};
        made.options = common_options();
        made.options.push_back({'i', "immediate", nullptr, "write without asking"});
        made.options.push_back(
            {'\0', "what-if", nullptr, "show what a change would do, and do not make it"});
        made.more =
            "Keys: parent, shares (0 to 65535), own_shares, sharing (users or pooled), accounts,\n"
            "users, managers, reason; accounts+=LIST and accounts-=LIST add and remove, so do "
            "users\n"
            "and managers. Verbs, entities and keys may be shortened; list is show.\n"
            "Keys of job: min-runtime=TIME, resumable=yes|no, "
            "team-priority=low|normal|high|urgent,\n"
            "free-first=yes|no, reason; its owner changes all while it waits, and gives up\n"
            "protection while it runs; checkpointed says that it has just written a checkpoint.\n"
            "GPU hours are weighted. FILE - is standard output or input.\n";
        return made;
    }();
    return table;
}

Result<BudgetCommand> parse_budget_command(const std::vector<std::string>& words) {
    if (words.empty()) {
        return Error{"a verb is expected: show, add, modify, delete, move, job, dump or load"};
    }
    const auto verb = meaning_of(words[0], kVerbs, "verb");
    if (!verb.ok()) {
        return verb.failure();
    }
    if (*verb == "show") {
        return parse_show(words, 1);
    }
    if (*verb == "job") {
        const auto job = parse_job_command({words.begin() + 1, words.end()},
                                           variable("SLURM_JOB_ID"), own_array_task());
        if (!job.ok()) {
            return job.failure();
        }
        BudgetCommand command;
        command.verb = Verb::job;
        command.job = *job;
        return command;
    }
    if (*verb == "dump" || *verb == "load") {
        BudgetCommand command;
        command.verb = *verb == "dump" ? Verb::dump : Verb::load;
        for (std::size_t i = 1; i < words.size(); ++i) {
            if (command.verb == Verb::load && starts_with_ignoring_case(words[i], "reason=")) {
                command.edit.reason = words[i].substr(7);
            } else if (starts_with_ignoring_case(words[i], "file=")) {
                command.file = words[i].substr(5);
            } else if (command.file.empty()) {
                command.file = words[i];
            } else {
                return Error{quoted(words[i]) + " is too much: " + *verb + " takes one file"};
            }
        }
        if (command.file.empty()) {
            return Error{*verb + ": no file is said; " + *verb + " FILE would be right"};
        }
        command.edit.kind = BudgetEdit::Kind::load;
        return command;
    }
    const BudgetEdit::Kind kind = *verb == "add"      ? BudgetEdit::Kind::add
                                  : *verb == "modify" ? BudgetEdit::Kind::modify
                                  : *verb == "delete" ? BudgetEdit::Kind::remove
                                                      : BudgetEdit::Kind::move;
    return parse_write(kind, *verb, words, 1);
}

}  // namespace tranche
