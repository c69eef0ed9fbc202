// SPDX-License-Identifier: GPL-2.0-or-later
// sreplay's options, before any file is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"
#include "sim/rule_switches.hpp"
#include "sim/workload_file.hpp"
#include "tools/command_line.hpp"

namespace tranche {

const CommandTable& sreplay_table();

inline constexpr const char* kReplayPolicies[] = {"budget", "article", "slots", "fairtree", "fifo"};

struct ReplayCommand {
    enum class Verb : std::uint8_t { run, compare, check, sweep, snapshot };
    Verb verb = Verb::run;
    std::vector<std::string> files;  // of check; the one of snapshot
    std::string jobs_file, budgets_file, events_file, config_file, snapshot_file;
    std::optional<sim::WorkloadFormat> format;
    std::string cluster;                                        // "128x8" or a file
    std::vector<std::string> policies;                          // run, sweep: one
    std::vector<std::pair<std::string, std::string>> settings;  // --set
    std::string sweep_key;
    std::vector<std::string> sweep_values;
    std::vector<const sim::RuleSwitch*> without;
    bool lists_rules = false;  // check --list-rules
    std::string until, assume;
    std::vector<std::string> inject;
    std::uint64_t seed = 1;
    std::string svg_file, html_file, trace_file, estimates_file;
    bool is_array_task = false;  // sweep --array: only the value of this task
    bool timing = false;
};

// The Error is a mistake in the command line.
Result<ReplayCommand> replay_command(const CommandLine& line);

// Whether settings fit each other once all are merged; `swept` is the value of sweep's key, if any.
// The Error names the option that does not fit.
Status check_merged(const Settings& settings, const ReplayCommand& command,
                    const std::string& swept = {});

// Warnings of settings and rules that no policy of the command has.
std::vector<std::string> settings_without_effect(const ReplayCommand& command);

}  // namespace tranche
