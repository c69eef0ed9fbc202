// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/environment.hpp"

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

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

constexpr std::string_view kTimeLimit = "TRANCHE_TIME_LIMIT=";  // minutes

std::optional<std::uint32_t> stamped_time_limit(const job_details& details) {
    for (std::uint16_t i = 0; i < details.env_cnt; ++i) {
        const std::string_view entry = details.env_sup[i] != nullptr ? details.env_sup[i] : "";
        std::uint32_t minutes = 0;
        if (entry.starts_with(kTimeLimit) &&
            std::from_chars(entry.data() + kTimeLimit.size(), entry.data() + entry.size(), minutes)
                    .ec == std::errc()) {
            return minutes;
        }
    }
    return std::nullopt;
}

}  // namespace

void stamp_environment(job_record_t& job, const StartStamp& stamp) {
    if (job.details == nullptr) {
        return;
    }
    // Backfill lowers the limit while it tries such a job, and its requeue keeps what it got.
    if (job.time_min != 0 && job.time_min != NO_VAL && stamp.time_limit_seconds != kNever) {
        set_variable(*job.details, kTimeLimit,
                     std::string(kTimeLimit) + std::to_string(stamp.time_limit_seconds / 60));
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

void restore_time_limit(job_record_t& job) {
    if (job.details == nullptr || job.time_min == 0 || job.time_min == NO_VAL) {
        return;
    }
    if (const auto minutes = stamped_time_limit(*job.details);
        minutes && job.time_limit < *minutes) {
        job.time_limit = *minutes;
        last_job_update = std::time(nullptr);
    }
}

}  // namespace tranche
