// SPDX-License-Identifier: GPL-2.0-or-later
#include "boundary/source_rules.hpp"

#include <gtest/gtest.h>

namespace tranche::boundary {
namespace {

std::string all(const Breaches& breaches) {
    std::string text;
    for (const std::string& breach : breaches)
        text += breach + "\n";
    return text;
}

TEST(SourceRules, this_tree_keeps_them) {
    EXPECT_EQ(all(breaches_of(TRANCHE_SOURCE_DIR)), "");
}

// The tree test/boundary/wrong breaks each rule once, and has what only looks like a breach.
TEST(SourceRules, each_breach_in_a_wrong_tree_is_found_and_nothing_else) {
    EXPECT_EQ(
        all(breaches_of(TRANCHE_SOURCE_DIR "/test/boundary/wrong")),
        "src/common/base/clock.hpp:4: the core has no clock; instants are arguments\n"
        "src/common/base/clock.hpp:5: threads and locks belong to the engine\n"
        "src/common/base/clock.hpp:8: the core has no clock; instants are arguments\n"
        "src/common/base/upwards.hpp:4: common/policy/rank.hpp: common/base is not above "
        "common/policy\n"
        "src/common/policy/rank.hpp:4: slurm/slurm.h: only src/plugins/slurm and *_slurm.cpp know "
        "Slurm\n"
        "src/common/policy/rank.hpp:5: rank_order.hpp: no such file below src/, where paths of "
        "includes begin\n"
        "src/common/store/sideways.hpp:4: common/wire/format.hpp: common/store is not above "
        "common/wire\n"
        "src/common/wire/format.hpp:4: the core does not log\n"
        "src/engine/engine.cpp:2: <iostream> has static constructors\n"
        "src/engine/engine.cpp:3: src/slurmctld/slurmctld.h: only src/plugins/slurm and "
        "*_slurm.cpp know Slurm\n"
        "src/engine/engine.cpp:6: only the simulator leaves out rules\n"
        "src/plugins/priority_budget/priority_budget.cpp:2: slurm/slurm_errno.h: only "
        "src/plugins/slurm and *_slurm.cpp know Slurm\n"
        "src/sim/replay.cpp:2: the core has no clock; instants are arguments\n"
        "src/sim/replay.cpp:3: engine/engine.cpp: sim is not above engine\n"
        "src/stray.hpp:1: this folder has no place in the order of includes\n");
}

TEST(SourceRules, every_source_is_named_in_a_local_am) {
    EXPECT_EQ(all(unlisted_in(TRANCHE_SOURCE_DIR)), "");
}

TEST(SourceRules, a_source_that_no_local_am_names_is_found) {
    EXPECT_EQ(all(unlisted_in(TRANCHE_SOURCE_DIR "/test/boundary/wrong")), "src/stray.hpp\n");
}

}  // namespace
}  // namespace tranche::boundary
