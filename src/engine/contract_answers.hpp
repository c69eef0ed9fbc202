// SPDX-License-Identifier: GPL-2.0-or-later
// Changes of contracts on the wire, for the query service.
//
// contract: {"job_id", "array_task_id", "het_offset", "set": {"min_runtime": "2h", …}, "reason",
// "try"}; checkpointed: {"job_id", …}. Words are those of the user; the engine reads them.
#pragma once

#include <vector>

#include "common/wire/json.hpp"
#include "engine/answers.hpp"
#include "engine/contract_editor.hpp"

namespace tranche {

Result<ContractQuestion> contract_question_from_json(const Json& arguments, bool checkpointed);
Json answer_contract(const ContractOutcome& outcome);
// Of others' jobs only where PrivateData allows it.
Json answer_contract_edits(const EngineView& view, const Viewer& viewer,
                           const std::vector<ContractEditRow>& records);

}  // namespace tranche
