// SPDX-License-Identifier: GPL-2.0-or-later
// Instants as Slurm's commands take them: 2026-11-30, 2026-11-30T14:05[:00], 14:05 (today),
// today, yesterday, now, now-2hours, now+3days.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

// Epoch seconds, by the local time zone; `now` is the instant that words like today are about. The
// Error names the text and the forms.
Result<std::int64_t> parse_instant(std::string_view text, std::int64_t now);

}  // namespace tranche
