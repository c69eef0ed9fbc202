// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/environment.hpp"

#include <limits>
#include <string_view>

namespace tranche {
namespace {

void set_variable(job_details& details, std::string_view name, const std::string& entry) {
    for (std::uint16_t i = 0; i < details.env_cnt; ++i) {
        char* known = details.env_sup[i];
        if (known == nullptr || !std::string_view(known).starts_with(name)) {
            continue;
        }
        if (std::strlen(known) == entry.size()) {
            std::memcpy(known, entry.data(), entry.size());
        } else {
            xfree(details.env_sup[i]);
            details.env_sup[i] = xstrdup(entry.c_str());
        }
        return;
    }
    if (details.env_cnt >= std::numeric_limits<std::uint16_t>::max() - 1) {
        return;
    }
    xrecalloc(details.env_sup, static_cast<std::size_t>(details.env_cnt) + 2, sizeof(char*));
    details.env_sup[details.env_cnt++] = xstrdup(entry.c_str());
}

}  // namespace

void stamp_environment(job_record_t& job, const StartStamp& stamp) {
    if (job.details == nullptr) {
        return;
    }
    const auto set = [&](const char* name, const std::string& value) {
        const std::string prefix = std::string(name) + "=";
        set_variable(*job.details, prefix, prefix + value);
    };
    set("TRANCHE_BUDGET", stamp.budget);
    set("TRANCHE_RUN", std::to_string(stamp.run));
    set("TRANCHE_MIN_RUNTIME", std::to_string(stamp.min_runtime_seconds));
    set("TRANCHE_PROTECTED_UNTIL", std::to_string(stamp.protected_until));
}

}  // namespace tranche
