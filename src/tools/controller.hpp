// SPDX-License-Identifier: GPL-2.0-or-later
// Where a cluster's query service is: controllers, SlurmUser and munge's socket from slurm.conf,
// ServicePort from tranche.conf beside it.
#pragma once

#include <string>

#include "common/base/result.hpp"
#include "tools/service_client.hpp"

namespace tranche {

// Asks the running controller for its configuration, through libslurm. An empty cluster is the
// local one; another is looked up in slurmdbd.
Result<ServiceAddress> find_service(const std::string& cluster);

}  // namespace tranche
