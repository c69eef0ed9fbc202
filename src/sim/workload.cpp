// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/workload.hpp"

#include <array>
#include <utility>

namespace tranche::sim {
namespace {

constexpr std::array<std::pair<EventKind, const char*>, 11> kEventWords = {{
    {EventKind::cancel, "cancel"},
    {EventKind::suspend, "suspend"},
    {EventKind::resume_job, "resume_job"},
    {EventKind::drain, "drain"},
    {EventKind::undrain, "undrain"},
    {EventKind::node_fail, "node_fail"},
    {EventKind::node_up, "node_up"},
    {EventKind::set_shares, "set_shares"},
    {EventKind::add_budget, "add_budget"},
    {EventKind::set_team_priority, "set_team_priority"},
    {EventKind::restart, "restart"},
}};

}  // namespace

std::string_view to_text(EventKind kind) noexcept {
    for (const auto& word : kEventWords) {
        if (word.first == kind) {
            return word.second;
        }
    }
    return "unknown";
}

std::optional<EventKind> parse_event_kind(std::string_view text) {
    for (const auto& word : kEventWords) {
        if (word.second == text) {
            return word.first;
        }
    }
    return std::nullopt;
}

}  // namespace tranche::sim
