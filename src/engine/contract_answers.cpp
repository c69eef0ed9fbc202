// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/contract_answers.hpp"

#include "common/wire/envelope.hpp"

namespace tranche {
namespace {

constexpr std::size_t kLongestWord = 200;
constexpr std::size_t kLongestReason = 1000;

// "min-runtime" is min_runtime in JSON.
std::string json_key(std::string key) {
    for (char& character : key) {
        character = character == '-' ? '_' : character;
    }
    return key;
}

Json change_to_json(const ContractChange& change) {
    return Json::object()
        .set("field", change.field)
        .set("before", change.before)
        .set("after", change.after);
}

}  // namespace

Result<ContractQuestion> contract_question_from_json(const Json& arguments, bool checkpointed) {
    ContractQuestion question;
    question.checkpointed = checkpointed;
    ObjectReader reader(arguments, "arguments");
    reader.require("job_id");
    question.job.id = reader.integer("job_id", 1, UINT32_MAX).value_or(0);
    question.job.array_task = reader.integer("array_task_id", 0, UINT32_MAX).value_or(-1);
    question.job.het_offset = reader.integer("het_offset", 0, UINT32_MAX).value_or(-1);
    question.only_try = reader.boolean("try").value_or(false);
    if (checkpointed) {
        const Status status = reader.finish();
        return status.ok() ? Result<ContractQuestion>(question) : status.failure();
    }
    question.reason = reader.text("reason").value_or("");
    if (question.reason.size() > kLongestReason) {
        reader.refuse("reason", "is longer than " + std::to_string(kLongestReason) + " bytes");
    }
    reader.require("set");
    const auto set = reader.object("set");
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    ObjectReader words(*set, "set");
    for (const std::string& key : contract_edit_keys()) {
        const std::string name = json_key(key);
        auto word = words.text(name.c_str());
        if (word && word->size() > kLongestWord) {
            words.refuse(name.c_str(), "is no such word: it is too long");
        }
        *word_of(question.edit, key) = std::move(word);
    }
    if (const Status status = words.finish(); !status.ok()) {
        return status.failure();
    }
    if (const Status status = check_contract_edit(question.edit); !status.ok()) {
        return status.failure();
    }
    return question;
}

Json answer_contract(const ContractOutcome& outcome) {
    Json changes = Json::array();
    for (const ContractChange& change : outcome.changes) {
        changes.append(change_to_json(change));
    }
    return Json::object()
        .set("version", kWireVersion)
        .set("applied", outcome.applied)
        .set("job", outcome.job)
        .set("changes", changes)
        .set("notes", Json::texts(outcome.notes));
}

Json answer_contract_edits(const EngineView& view, const Viewer& viewer,
                           const std::vector<ContractEditRow>& records) {
    Json rows = Json::array();
    for (const ContractEditRow& record : records) {
        if (!viewer.is_operator && viewer.jobs_private && record.owner != viewer.user) {
            continue;
        }
        for (const ContractChange& change : record.changes) {
            rows.append(change_to_json(change)
                            .set("at", record.at)
                            .set("user", record.user)
                            .set("job", record.job_name)
                            .set("owner", record.owner)
                            .set("reason", record.reason));
        }
    }
    return Json::object()
        .set("version", kWireVersion)
        .set("cluster", view.cluster)
        .set("at", view.at)
        .set("contract_edits", rows);
}

}  // namespace tranche
