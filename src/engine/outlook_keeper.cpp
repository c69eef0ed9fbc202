// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/outlook_keeper.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/policy/outlook.hpp"
#include "common/report/reason_text.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMostShown = 200;        // ranks
constexpr std::int64_t kEstimateEvery = 5000;  // milliseconds, at least
constexpr std::int64_t kEstimateShare = 20;    // of the time, one part at most
constexpr std::int64_t kRewriteEvery = 250;    // milliseconds: what RPCs wiped out
constexpr std::int64_t kRounding = 60;         // seconds of an estimate

// A plan's claimant starts when the last victim's grace is over, not sooner.
std::int64_t shown_start(const EngineView& view, const PendingJob& job, const StartTimes& starts,
                         WaitReason reason) {
    for (const Assembly& assembly : view.view.assemblies) {
        if (assembly.claimant == job.id && assembly.date_at > view.at) {
            return assembly.date_at;
        }
    }
    const auto known = starts.find(job.id);
    if (known == starts.end() || reason == WaitReason::starting) {
        return kNever;
    }
    // Of what is passed and has not come nothing more is known.
    if (known->second <= view.at) {
        return kNever;
    }
    return (known->second + kRounding - 1) / kRounding * kRounding;
}

}  // namespace

OutlookKeeper::OutlookKeeper(Host& host, View view, CalendarOf calendar,
                             std::function<std::int64_t()> milliseconds)
    : host_(host),
      view_(std::move(view)),
      calendar_(calendar),
      milliseconds_(std::move(milliseconds)) {}

std::shared_ptr<const StartTimes> OutlookKeeper::starts() const {
    const std::lock_guard lock(mutex_);
    return starts_;
}

void OutlookKeeper::estimate() {
    const std::int64_t begun = milliseconds_();
    const auto view = view_();
    if (view == nullptr || view->health.cycles == estimated_cycle_ ||
        begun < estimate_not_before_) {
        return;
    }
    estimated_cycle_ = view->health.cycles;
    const std::vector<std::int64_t> expected =
        expected_starts(view->view, view->ranking, view->standings, *view->settings,
                        view->pass_rules, {.most_jobs = kMostShown});
    auto starts = std::make_shared<StartTimes>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const PendingJob& job = view->view.pending[i];
        if (expected[i] != kNever && job.turn_run < 0) {
            starts->emplace(job.id, expected[i]);
        }
    }
    {
        const std::lock_guard lock(mutex_);
        starts_ = std::move(starts);
    }
    const std::int64_t took = milliseconds_() - begun;
    estimate_not_before_ = begun + std::max(kEstimateEvery, took * kEstimateShare);
}

std::vector<Outlook> OutlookKeeper::outlook_of(const EngineView& view,
                                               const StartTimes& starts) const {
    const Moment now{view.at, calendar_};
    const bool names_jobs = !host_.is_private("jobs");
    const bool numbers = !host_.is_private("usage") && !host_.is_private("accounts");
    std::map<std::tuple<BudgetId, std::int64_t>, std::optional<NearestClaim>> claims;
    std::vector<Outlook> out;
    std::vector<bool> seen(view.view.pending.size(), false);
    for (std::size_t i = 0; i < view.ranking.size() && out.size() < kMostShown; ++i) {
        const RankedEntry& entry = view.ranking[i];
        const PendingJob& job = view.view.pending[entry.job];
        // Jobs that could not start keep Slurm's reason: it knows which limit, which dependency.
        if (seen[entry.job] || job.turn_run >= 0 || !job.governed ||
            job.block != StartBlock::none || entry.job >= view.pass.verdicts.size()) {
            continue;
        }
        seen[entry.job] = true;
        ReasonFacts facts;
        facts.verdict = view.pass.verdicts[entry.job];
        facts.rank = static_cast<std::uint32_t>(i + 1);
        facts.ranked = static_cast<std::uint32_t>(view.ranking.size());
        facts.numbers = numbers;
        facts.expected_at = shown_start(view, job, starts, facts.verdict.reason);
        if (job.waits_for != 0 && names_jobs) {
            const JobCard* card = view.card(job.waits_for);
            facts.waits_for = card != nullptr && !card->label().empty()
                                  ? card->label()
                                  : std::to_string(job.waits_for);
        }
        if (numbers && facts.verdict.reason == WaitReason::ratio) {
            const auto [claim, is_new] = claims.try_emplace(
                {job.budget, job.weight_milli * job.contract_seconds()}, std::nullopt);
            if (is_new) {
                claim->second = nearest_claim(view.view, view.standings, *view.settings, job,
                                              view.available_weight_milli);
            }
            facts.claim = claim->second;
        }
        Outlook outlook{job.id, reason_text(facts, now),
                        facts.expected_at == kNever ? 0 : facts.expected_at};
        if (!outlook.reason.empty() || outlook.start_at != 0) {
            out.push_back(std::move(outlook));
        }
    }
    return out;
}

void OutlookKeeper::look() {
    const auto view = view_();
    if (view == nullptr || view->settings->dry_run) {
        return;
    }
    const std::uint64_t passes = host_.passes();
    const std::int64_t now = milliseconds_();
    const auto known = starts();
    const bool is_new = view != written_view_ || known != written_starts_;
    if (!is_new && passes == passes_ && now - written_at_ < kRewriteEvery) {
        return;
    }
    if (is_new) {
        jobs_ = outlook_of(*view, *known);
        written_view_ = view;
        written_starts_ = known;
    }
    passes_ = passes;
    written_at_ = now;
    host_.set_outlook(jobs_);
}

}  // namespace tranche
