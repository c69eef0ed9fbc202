// SPDX-License-Identifier: GPL-2.0-or-later
// All files that a replay reads, read and checked against each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"
#include "common/model/budget_tree.hpp"
#include "sim/snapshot_file.hpp"
#include "sim/workload.hpp"
#include "tools/sreplay_options.hpp"

namespace tranche {

struct ReplayInputs {
    sim::Workload workload;
    sim::SimCluster cluster;
    BudgetTree tree;
    Settings settings;  // of --config; policies and --set come on top
    std::int64_t until = kNever;
    // Of a snapshot: where it goes on, and what runs there.
    std::optional<std::int64_t> begin_at;
    std::vector<sim::StandingRun> standing;
    // What was left out, assumed, drawn; those that begin with "warning: " are for the user's eyes.
    std::vector<std::string> notes;
};

// The Error has all mistakes of all files, one a line, each FILE:LINE.
Result<ReplayInputs> read_replay_inputs(const ReplayCommand& command);

// The settings of one policy: those of the inputs, the policy's own, then --set.
Result<Settings> replay_settings(const ReplayInputs& inputs, const ReplayCommand& command,
                                 const std::string& policy);

}  // namespace tranche
