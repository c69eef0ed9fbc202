// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/partitions.hpp"

#include <algorithm>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void apply_partitions(HostSnapshot& snapshot, const Settings& settings) {
    if (settings.partitions.empty()) {
        return;
    }
    for (HostJob& job : snapshot.jobs) {
        job.governed = std::any_of(
            job.partitions.begin(), job.partitions.end(),
            [&](const std::string& name) { return contains(settings.partitions, name); });
    }
}

std::vector<std::string> unknown_partitions(const HostSnapshot& snapshot,
                                            const Settings& settings) {
    std::vector<std::string> out;
    std::string known;
    for (const std::string& name : snapshot.partitions) {
        known += (known.empty() ? "" : ", ") + name;
    }
    for (const std::string& name : settings.partitions) {
        if (!contains(snapshot.partitions, name)) {
            out.push_back("Partitions=" + quoted(name) + ": there is no such partition; there " +
                          (snapshot.partitions.size() == 1 ? "is " : "are ") +
                          (known.empty() ? "none" : known));
        }
    }
    return out;
}

}  // namespace tranche
