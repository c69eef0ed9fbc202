// SPDX-License-Identifier: GPL-2.0-or-later
// tranche-run's options, without its processes.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "tools/command_line.hpp"

namespace tranche {

const CommandTable& tranche_run_table();

struct RunCommand {
    std::string on_preempt;  // for /bin/sh -c
    int signal = 0;          // the warning
    int kill_after_seconds = 5;
    bool first_task_only = false;
    std::vector<std::string> program;  // with its arguments
};

Result<RunCommand> run_command_of(const CommandLine& line);

// "TERM", "SIGTERM", "15"; 0: none of ours.
int signal_named(std::string text) noexcept;

}  // namespace tranche
