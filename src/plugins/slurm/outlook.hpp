// SPDX-License-Identifier: GPL-2.0-or-later
// Words of ours that stay with a job's record.
#pragma once

#include <string>

#include "plugins/slurm/slurm_headers.hpp"

namespace tranche {

// Why the job was preempted, in its SystemComment: shown by scontrol, squeue -O and sacct, which
// keeps it. Not AdminComment: sites and users write there. Of somebody else's words nothing is
// lost. Job write lock.
void comment_on(job_record_t& job, const std::string& text);

}  // namespace tranche
