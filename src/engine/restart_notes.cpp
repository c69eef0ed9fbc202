// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/restart_notes.hpp"

#include <algorithm>

#include "common/report/explanation_text.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kScriptPatience = 2000;  // milliseconds from a start to its batch step
constexpr std::int64_t kOldNews = 600;          // seconds: of a run that began before this engine

}  // namespace

bool RestartNotes::step(const EngineView& view) {
    ++round_;
    bool soon = false;
    for (const JobCard& card : view.cards) {
        if (card.run_index < 0 || card.runs < 2) {
            continue;
        }
        const Run& run = view.view.runs[static_cast<std::size_t>(card.run_index)];
        Told& told = told_[card.id];
        told.seen = round_;
        if (told.run == card.runs && told.not_before == 0) {
            continue;
        }
        if (run.state == RunState::configuring) {
            soon = true;
            continue;
        }
        if (told.run != card.runs) {
            const bool is_old = view.at - run.started_at > kOldNews;
            told.run = card.runs;
            told.not_before = is_old ? 0 : milliseconds_() + kScriptPatience;
            soon = soon || !is_old;
            continue;
        }
        if (milliseconds_() < told.not_before) {
            soon = true;
            continue;
        }
        told.not_before = 0;
        // The newest of its preemptions that really made it go.
        const auto record = std::find_if(
            view.recent_preemptions.rbegin(), view.recent_preemptions.rend(),
            [&](const PreemptionRecord& each) {
                return each.victim == card.id && each.outcome != "taken-back" &&
                       each.outcome != "rehearsed" && each.planned_at <= run.started_at;
            });
        if (record == view.recent_preemptions.rend()) {
            continue;  // requeued by hand, or its node failed
        }
        const Moment now{view.at, calendar_};
        const std::string claimant = record->claimant_label.empty()
                                         ? std::to_string(record->claimant)
                                         : record->claimant_label;
        const std::string why = preemption_reason_text(*record);
        host_.tell(card.id, "tranche: run " + std::to_string(card.runs) + ": run " +
                                std::to_string(card.runs - 1) + " was preempted " +
                                people_when(record->planned_at, now) + " for job " + claimant +
                                " of " + record->claimant_user + (why.empty() ? "" : ": " + why));
    }
    std::erase_if(told_, [&](const auto& entry) { return entry.second.seen != round_; });
    return soon;
}

}  // namespace tranche
