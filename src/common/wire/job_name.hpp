// SPDX-License-Identifier: GPL-2.0-or-later
// A job as people and squeue name it: 123, 123_4 (a task of an array), 123+1 (a component of a
// heterogeneous job).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

struct JobName {
    std::int64_t id = 0;
    std::int64_t array_task = -1;  // -1: not said
    std::int64_t het_offset = -1;
};

Result<JobName> parse_job_name(std::string_view text);
std::string to_text(const JobName& name);

// Whether Slurm's list of numbers ("0-3,7,10-20:5") holds one.
bool list_holds(std::string_view list, std::int64_t number) noexcept;

}  // namespace tranche
