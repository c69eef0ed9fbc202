// SPDX-License-Identifier: GPL-2.0-or-later
// What sshare prints: each association with the numbers of the budget that matches it.
#pragma once

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Writes the engine's newest numbers into all associations. No locks held; takes the association
// manager's write lock. The fields that limits compare with are not touched.
void publish_shares();

// slurmctld asks for one association to be brought up to date: ours are, once a cycle.
// Associations write lock held.
void keep_share(slurmdb_assoc_rec_t& association);

// From 1 (nothing used) over 1/2 (used what was funded) towards 0. Any process.
double fair_share_factor(long double usage, long double shares) noexcept;

}  // namespace tranche
