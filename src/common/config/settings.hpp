// SPDX-License-Identifier: GPL-2.0-or-later
// The settings of tranche.conf: one table of all keys, the typed values, and the reader.
//
// Units are in the names: _seconds, _ppm (parts per million of one: 0.05 is 50 000), _milli
// (thousandths). A default-constructed Settings holds the defaults of the table. Settings are
// values: a file that cannot be read whole gives an Error and no Settings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/config/rules.hpp"
#include "common/units/team_priority.hpp"
#include "common/units/window_integral.hpp"

namespace tranche {

inline constexpr std::int64_t kPpm = 1'000'000;

enum class PolicyName : std::uint8_t { tranche, article };
enum class Sharing : std::uint8_t { users, pooled };
enum class PreemptWithinBudget : std::uint8_t { no, users, priority, both };

// `Contract=NAME min-runtime=… …`: a named set of submission options.
struct NamedContract {
    std::string name;
    std::optional<std::int64_t> min_runtime_seconds;
    std::optional<bool> resumable;
    std::optional<TeamPriority> team_priority;
    std::string budget;  // empty: not said
    std::optional<bool> free_first;

    bool operator==(const NamedContract&) const = default;
};

// One entry of ChargeWeights: "gpu", "gpu:TYPE" or "cpu", in thousandths of a plain GPU.
struct ChargeWeight {
    std::string name;
    std::int64_t milli = 0;

    bool operator==(const ChargeWeight&) const = default;
};

struct Settings {
    PolicyName policy = PolicyName::tranche;
    std::int64_t lookback_window_seconds = 7 * 86400;
    WindowShape window_shape = WindowShape::linear;
    bool entitlement_history = true;
    bool commitments = true;
    std::int64_t max_min_runtime_seconds = 8 * 3600;
    // Unset counts as 0, with a warning at each start; `require` refuses jobs that say nothing.
    std::optional<std::int64_t> default_min_runtime_seconds;
    bool require_min_runtime = false;
    std::int64_t default_min_runtime_interactive_seconds = 3600;
    bool requeue_is_resumable = true;
    std::vector<std::string> partitions;  // empty: those that have a node with GPUs
    std::vector<NamedContract> contracts;
    Sharing sharing = Sharing::users;
    std::int64_t raised_share_ppm = 1'500'000;  // 0 = no limit
    std::int64_t rank_interval_seconds = 5;
    std::int64_t preempt_margin_ppm = 50'000;
    PreemptWithinBudget preempt_within_budget = PreemptWithinBudget::no;
    std::int64_t grace_time_seconds = 60;
    std::int64_t grace_time_free_seconds = 10;
    std::int64_t grace_time_interactive_seconds = 600;
    std::int64_t express_gpus = 8;
    std::int64_t express_nodes = 2;
    std::int64_t express_min_runtime_seconds = 900;
    std::int64_t express_gpus_per_user = 8;
    std::int64_t express_fraction_ppm = 100'000;  // 0 = no express lane
    std::int64_t express_hours_per_user = 16;     // GPU hours in the last day
    std::optional<std::int64_t> express_victim_protection_seconds = 3600;  // nullopt = full
    std::int64_t max_protected_fraction_ppm = 950'000;
    std::int64_t reservations = 2;
    std::int64_t max_assemblies = 1;
    std::int64_t assembly_pause_seconds = 8 * 3600;
    std::int64_t assembly_min_fraction_ppm = 250'000;
    std::vector<ChargeWeight> charge_weights = {{"gpu", 1000}};
    bool refund_node_failure = true;
    std::int64_t refund_max_seconds = 3600;
    std::int64_t max_preemptions_per_hour = 0;  // 0 = no limit
    std::vector<std::string> drain_reasons = {"gpu-health:*", "Epilog error*", "Kill task failed*",
                                              "batch job complete failure*"};
    std::int64_t drain_gang_wait_seconds = 3600;
    std::string repair_program;  // empty: none
    std::int64_t repair_timeout_seconds = 3600;
    std::int64_t max_repairing = 4;
    std::int64_t max_drain_fraction_ppm = 200'000;
    std::string notify_program;  // empty: none
    bool dry_run = false;
    std::string dry_run_priority_type = "priority/multifactor";
    std::int64_t service_port = 6830;
    std::string database_path;  // empty: usage.db under StateSaveLocation

    // Rules left out by the simulator; no key sets it.
    std::uint64_t rules_off = 0;
    bool has(Rule rule) const noexcept {
        return (rules_off >> static_cast<unsigned>(rule) & 1) == 0;
    }

    Window window() const noexcept { return {lookback_window_seconds, window_shape}; }
    // What one GPU of that type costs; an empty or unlisted type costs what "gpu" says.
    std::int64_t gpu_weight_milli(std::string_view gpu_type) const noexcept;
    std::int64_t cpu_weight_milli() const noexcept;
    const NamedContract* find_contract(std::string_view name) const noexcept;

    bool operator==(const Settings&) const = default;
};

// One row of the table that the example file, the man page, `srank --health` and the errors
// come from.
struct SettingRow {
    std::string name;           // "LookbackWindow"
    std::string type;           // "time", "fraction", "yes|no", …
    std::string range;          // "1:00 to 366-00:00:00", empty where the type says all
    std::string default_value;  // as written in tranche.conf, empty = not set
    std::string unit;           // "seconds", "GPUs", …, empty for words
    std::string text;           // one or more sentences
    std::string article_value;  // what Policy=article sets, empty = the default
};

// Whether a drain with that reason empties its node by contract (DrainReasons).
bool matches_drain_reason(const Settings& settings, const std::string& reason);

const std::vector<SettingRow>& settings_table();

// The value of one key as it would be written in tranche.conf; every line of a repeated key.
std::string setting_value(const Settings& settings, std::string_view name);

// Sets one key; the name in any case. The Error says what was expected.
Status apply_setting(Settings& settings, std::string_view name, std::string_view value);

// Reads a whole file. `defaults` is what keys that do not appear have. Up to 20 mistakes are
// reported, one a line, each "FILE:LINE: …".
Result<Settings> parse_settings(std::string_view text, const std::string& file_name,
                                const Settings& defaults = {});

// What can be read of a file whatever is wrong with the rest: for a command that only looks for the
// controller, which has its own, good settings.
Settings readable_settings(std::string_view text);

// The text of etc/tranche.conf.example.
std::string example_settings_file();

// The table as a section of tranche.conf(5), in roff.
std::string settings_manual_section();

}  // namespace tranche
