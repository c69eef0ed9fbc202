// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/kept_settings.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tranche {
namespace {

constexpr const char* kAtRestart = " takes effect at the next restart of slurmctld";

// Empty: a ledger can be kept there.
std::string trouble_with(const std::string& path) {
    if (path.empty()) {
        return {};
    }
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == 0 ? "/" : path.substr(0, slash);
    return access(folder.c_str(), R_OK | W_OK | X_OK) == 0
               ? std::string()
               : "; no ledger can be kept in " + folder + ": " + std::strerror(errno);
}

}  // namespace

std::vector<std::string> keep_until_restart(Settings& wanted, const Settings& in_force,
                                            bool rehearses) {
    std::vector<std::string> out;
    if (wanted.database_path != in_force.database_path) {
        out.push_back("DatabasePath=" + wanted.database_path + kAtRestart +
                      trouble_with(wanted.database_path));
        wanted.database_path = in_force.database_path;
    }
    if (wanted.service_port != in_force.service_port) {
        out.push_back("ServicePort=" + std::to_string(wanted.service_port) + kAtRestart +
                      "; until then the commands must ask port " +
                      std::to_string(in_force.service_port));
        wanted.service_port = in_force.service_port;
    }
    if (rehearses && !wanted.dry_run) {
        out.push_back(std::string("DryRun=no") + kAtRestart + ": until then " +
                      in_force.dry_run_priority_type + " orders the queue and nobody is preempted");
        wanted.dry_run = true;
    } else if (!rehearses && wanted.dry_run) {
        out.push_back(
            "DryRun=yes: nobody is preempted from now on, but the order of the queue stays that of "
            "the budgets; " +
            wanted.dry_run_priority_type + " has it from the next restart of slurmctld on");
    }
    if (wanted.dry_run_priority_type != in_force.dry_run_priority_type) {
        if (rehearses) {
            out.push_back("DryRunPriorityType=" + wanted.dry_run_priority_type + kAtRestart);
        }
        wanted.dry_run_priority_type = in_force.dry_run_priority_type;
    }
    return out;
}

}  // namespace tranche
