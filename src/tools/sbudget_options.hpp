// SPDX-License-Identifier: GPL-2.0-or-later
// sbudget's options and grammar, without the network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/model/budget_edit.hpp"
#include "tools/command_line.hpp"
#include "tools/sbudget_job.hpp"

namespace tranche {

const CommandTable& sbudget_table();

// What the words of a command line ask for.
struct BudgetCommand {
    enum class Verb : std::uint8_t {
        write,
        show_tree,
        show_budget,
        show_edit,
        show_preemption,
        show_contract,
        dump,
        load,
        job
    };
    Verb verb = Verb::show_tree;
    BudgetEdit edit;  // write; load: the reason
    JobCommand job;
    std::string file;                  // dump, load
    std::vector<std::string> columns;  // format=, "Name%20"
    // where of show; empty lists narrow nothing.
    std::vector<std::string> names, parents, accounts, users, managers;
    std::vector<std::string> jobs;  // of preemptions: "123", "123_4"
    std::string start, end;         // of edits and preemptions; empty: any time
};

// sacctmgr's grammar: verb, entity, key=value; verbs, entities and keys in any case and shortened
// as long as it is plain which is meant. The Error says what was expected.
Result<BudgetCommand> parse_budget_command(const std::vector<std::string>& words);

}  // namespace tranche
