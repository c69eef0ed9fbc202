// SPDX-License-Identifier: GPL-2.0-or-later
// What sprio prints.
#pragma once

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// The pending jobs that `uid` may see and `request` asks for, our number in the FAIRSHARE column;
// nullptr for none. The caller owns the list. 22.05 calls without locks: taken here.
List factor_list(const priority_factors_request_msg_t& request, uid_t uid);

}  // namespace tranche
