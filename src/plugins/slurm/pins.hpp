// SPDX-License-Identifier: GPL-2.0-or-later
// What the user himself required with --nodelist, whatever a pin says meanwhile.
#pragma once

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// The caller owns the bitmap; nullptr where the user required no nodes. Node read lock.
bitstr_t* nodes_of_user(const job_details& details);

}  // namespace tranche
