// SPDX-License-Identifier: GPL-2.0-or-later
// User names by uid, remembered for the life of the process. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace tranche {

// Asks the system's user database where the name is not known yet: may take long. Empty if there is
// no such user.
std::string user_name_of(std::uint32_t uid);

// Only what is known already, else empty: for callers that hold Slurm's locks.
std::string remembered_user_name(std::uint32_t uid);

}  // namespace tranche
