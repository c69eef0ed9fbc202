// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/contract_edit.hpp"

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"

namespace tranche {
namespace {

struct Key {
    const char* name;
    std::optional<std::string> ContractEdit::*word;
    std::optional<AskedWord> ContractRequest::*asked;
};

constexpr Key kKeys[] = {
    {"min-runtime", &ContractEdit::min_runtime, &ContractRequest::min_runtime},
    {"resumable", &ContractEdit::resumable, &ContractRequest::resumable},
    {"team-priority", &ContractEdit::team_priority, &ContractRequest::team_priority},
    {"free-first", &ContractEdit::free_first, &ContractRequest::free_first},
};

// The same reading, and so the same words, as at submission.
Result<ContractRequest> request_of(const ContractEdit& edit) {
    ContractRequest request;
    for (const Key& key : kKeys) {
        if (edit.*key.word) {
            const Status status = read_word(key.name, *(edit.*key.word), key.name, request);
            if (!status.ok()) {
                return status.failure();
            }
        }
    }
    return request;
}

std::string yes_or_no(bool value) {
    return value ? "yes" : "no";
}

}  // namespace

const std::vector<std::string>& contract_edit_keys() {
    static const std::vector<std::string> keys = [] {
        std::vector<std::string> names;
        for (const Key& key : kKeys) {
            names.emplace_back(key.name);
        }
        return names;
    }();
    return keys;
}

std::optional<std::string>* word_of(ContractEdit& edit, std::string_view key) {
    for (const Key& known : kKeys) {
        if (key == known.name) {
            return &(edit.*known.word);
        }
    }
    return nullptr;
}

const std::optional<std::string>* word_of(const ContractEdit& edit, std::string_view key) {
    return word_of(const_cast<ContractEdit&>(edit), key);
}

Status check_contract_edit(const ContractEdit& edit) {
    if (edit == ContractEdit{}) {
        return Error{
            "no change is said; set min-runtime=TIME, resumable=yes|no, team-priority=WORD or "
            "free-first=yes|no would be right"};
    }
    const auto request = request_of(edit);
    if (!request.ok()) {
        return request.failure();
    }
    return check_request(*request, {});
}

Result<ContractTerms> edited_terms(const ContractTerms& before, const ContractEdit& edit,
                                   const EditedJob& job, const Settings& settings) {
    const auto request = request_of(edit);
    if (!request.ok()) {
        return request.failure();
    }
    if (request->resumable && request->resumable->value == "yes" && job.refuses_requeue &&
        !job.interactive) {
        return Error{
            "resumable=yes: it was submitted with --no-requeue; allow its requeue first (scontrol "
            "update JobId=… Requeue=1)"};
    }
    ContractCircumstances circumstances;
    circumstances.interactive = job.interactive;
    circumstances.time_limit_seconds = job.time_limit_seconds;
    circumstances.time_min_seconds = job.time_min_seconds;
    circumstances.costs_something = false;  // nobody asks for a minimum that was not mentioned
    const auto asked = resolve_terms(*request, settings, circumstances);
    if (!asked.ok()) {
        return asked.failure();
    }
    ContractTerms after = before;
    if (request->min_runtime) {
        after.min_runtime_seconds = asked->min_runtime_seconds;
        after.declared_min_runtime = true;
    }
    if (request->resumable) {
        after.resumable = asked->resumable;
    }
    if (request->team_priority) {
        after.team_priority = asked->team_priority;
    }
    if (request->free_first) {
        after.free_first = asked->free_first;
    }
    if (job.runs && !job.by_operator && protects_more(before, after)) {
        std::string what;
        for (const ContractChange& change : contract_changes(before, after)) {
            what += (what.empty() ? "" : ", ") + change.field + " " + change.before + " to " +
                    change.after;
        }
        return Error{what +
                     ": while a job runs its owner can only give up protection (a shorter minimum, "
                     "resumable=yes, a lower team priority, free-first=yes); change it while it "
                     "waits, or ask an operator"};
    }
    return after;
}

bool protects_more(const ContractTerms& before, const ContractTerms& after) {
    return after.min_runtime_seconds > before.min_runtime_seconds ||
           (before.resumable && !after.resumable) || after.team_priority > before.team_priority ||
           (before.free_first && !after.free_first);
}

std::vector<ContractChange> contract_changes(const ContractTerms& before,
                                             const ContractTerms& after) {
    std::vector<ContractChange> changes;
    const auto differ = [&changes](const char* field, std::string old_text, std::string new_text) {
        if (old_text != new_text) {
            changes.push_back({field, std::move(old_text), std::move(new_text)});
        }
    };
    differ("min-runtime", format_time_span(before.min_runtime_seconds),
           format_time_span(after.min_runtime_seconds));
    differ("resumable", yes_or_no(before.resumable), yes_or_no(after.resumable));
    differ("team-priority", std::string(to_text(before.team_priority)),
           std::string(to_text(after.team_priority)));
    differ("free-first", yes_or_no(before.free_first), yes_or_no(after.free_first));
    return changes;
}

}  // namespace tranche
