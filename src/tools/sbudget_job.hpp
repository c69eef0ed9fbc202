// SPDX-License-Identifier: GPL-2.0-or-later
// `sbudget job JOBID …`: changes of a contract, and an owner's word that a checkpoint was written.
#pragma once

#include <string>
#include <vector>

#include "common/config/contract_edit.hpp"
#include "common/wire/job_name.hpp"
#include "tools/command_line.hpp"

namespace tranche {

struct JobCommand {
    JobName job;
    bool checkpointed = false;
    ContractEdit edit;
    std::string reason;
};

// The words behind "job". `environment_task` names the task that the command runs in ("12_4";
// empty: none), and `environment_job` its job id: a script that says its own SLURM_JOB_ID means
// itself, though the last task of an array bears the array's id.
Result<JobCommand> parse_job_command(const std::vector<std::string>& words,
                                     const std::string& environment_job,
                                     const std::string& environment_task);

// Asks the controller, shows and asks the user. The exit code.
int run_job_command(const CommandLine& line, const CommandTable& table, const JobCommand& command);

// Of any write: whether it may go on. Asks on standard error where somebody can answer.
bool agreed();

}  // namespace tranche
