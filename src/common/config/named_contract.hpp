// SPDX-License-Identifier: GPL-2.0-or-later
// The value of a `Contract=` line of tranche.conf: a name and submission options.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.hpp"
#include "common/config/settings.hpp"

namespace tranche {

inline constexpr std::size_t kMaxContractNameLength = 64;

// 1 to kMaxContractNameLength of letters, digits and "_ - .", the first a letter or digit.
Status check_contract_name(std::string_view name);

// Reads "debug min-runtime=15m resumable team-priority=high budget=projA". A plain number of
// min-runtime is minutes, as in the option.
Result<NamedContract> parse_named_contract(std::string_view text);

// Written so that parse_named_contract() reads it back.
std::string to_text(const NamedContract& contract);

}  // namespace tranche
