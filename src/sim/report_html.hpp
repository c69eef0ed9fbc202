// SPDX-License-Identifier: GPL-2.0-or-later
// One self-contained page about a simulated run, or about several policies on one workload:
// timeline to zoom into, waits by class, share over time against funding, key figures.
//
// The page loads nothing from anywhere. The first record is what the others are compared with.
#pragma once

#include <span>
#include <string>

#include "sim/record.hpp"

namespace tranche::sim {

struct ReportOptions {
    std::string title;  // empty: the cluster and the policies
};

std::string report_html(std::span<const SimRecord* const> records,
                        const ReportOptions& options = {});

}  // namespace tranche::sim
