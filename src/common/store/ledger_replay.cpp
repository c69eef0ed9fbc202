// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/store/ledger_replay.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <unordered_map>

namespace tranche {
namespace {

constexpr std::int64_t kReportedAgainSeconds = 86400;  // as UsageLedger::begin() remembers

// What was recorded in one transaction came in the order of a LedgerBatch: trees, begins, ends.
struct Event {
    enum class Kind : std::uint8_t { tree, begin_closed, begin_open, end };
    std::int64_t batch;
    std::int64_t at;
    std::uint32_t index;
    Kind kind;

    int phase() const noexcept { return kind == Kind::tree ? 0 : kind == Kind::end ? 2 : 1; }
};

}  // namespace

void replay(const LedgerContents& contents, UsageLedger& ledger) {
    // The tree that held at the window's begin comes first, whatever was recorded before it: for
    // all instants inside the window it is as if it had held for ever.
    std::size_t next_tree = 0;
    if (!contents.trees.empty() && contents.trees.front().at <= contents.since_at) {
        ledger.set_tree(contents.trees.front().at, contents.trees.front().tree);
        next_tree = 1;
    }
    for (const auto& [budget, at] : contents.first_uses) {
        if (at <= contents.since_at && !budget.empty()) {
            ledger.activate_own_side(at, ledger.budget_id(budget));
        }
    }
    if (contents.first_allocated_at <= contents.since_at) {
        ledger.assume_charged();
    }

    std::vector<Event> events;
    events.reserve(contents.trees.size() + contents.open.size() + 2 * contents.closed.size());
    const auto put = [&](std::int64_t batch, std::int64_t at, std::size_t index, Event::Kind kind) {
        events.push_back({batch, at, static_cast<std::uint32_t>(index), kind});
    };
    for (std::size_t i = next_tree; i < contents.trees.size(); ++i) {
        put(contents.tree_batches[i], contents.trees[i].at, i, Event::Kind::tree);
    }
    for (std::size_t i = 0; i < contents.open.size(); ++i) {
        put(contents.open_batches[i], contents.open[i].key.begin_at, i, Event::Kind::begin_open);
    }
    for (std::size_t i = 0; i < contents.closed.size(); ++i) {
        const ClosedSegment& segment = contents.closed[i];
        put(segment.begun_batch, segment.key.begin_at, i, Event::Kind::begin_closed);
        put(segment.ended_batch, segment.charged_until, i, Event::Kind::end);
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return std::tuple(a.batch, a.phase(), a.at, a.kind, a.index) <
               std::tuple(b.batch, b.phase(), b.at, b.kind, b.index);
    });

    // Segments that may be reported again, and those over which the tree changed, are told one by
    // one; the many others are two sums.
    // The window may have been changed since they were read: then since_at does not tell.
    const std::int64_t now = contents.read_at != 0
                                 ? contents.read_at
                                 : contents.since_at + ledger.rules().window.length_seconds;
    std::vector<std::int64_t> tree_batches(
        contents.tree_batches.begin() + static_cast<std::ptrdiff_t>(next_tree),
        contents.tree_batches.end());
    std::sort(tree_batches.begin(), tree_batches.end());
    const auto is_plain = [&](const ClosedSegment& s) {
        const auto next = std::upper_bound(tree_batches.begin(), tree_batches.end(), s.begun_batch);
        return s.charged_until < now - kReportedAgainSeconds &&
               (next == tree_batches.end() || *next > s.ended_batch);
    };
    std::vector<BudgetId> budgets(contents.names.size(), kNoId);
    std::unordered_map<std::uint64_t, MemberId> members;
    const auto charge = [&](const ClosedSegment& s, std::int64_t at, std::int64_t delta) {
        BudgetId& budget = budgets[s.budget];
        if (budget == kNoId) {
            const std::string& name = contents.names[s.budget];
            budget = name.empty() ? kNoBudgetId : ledger.budget_id(name);
        }
        const auto [member, is_new] =
            members.try_emplace(std::uint64_t{s.budget} << 32 | s.user, kNoId);
        if (is_new) {
            member->second = ledger.member_id(budget, contents.names[s.user]);
        }
        ledger.charge(budget, member->second, s.kind, at, delta);
    };

    for (const Event& event : events) {
        if (event.kind == Event::Kind::tree) {
            ledger.set_tree(event.at, contents.trees[event.index].tree);
            continue;
        }
        if (event.kind == Event::Kind::begin_open) {
            ledger.begin(contents.open[event.index].segment());
            continue;
        }
        const ClosedSegment& s = contents.closed[event.index];
        const bool begins = event.kind == Event::Kind::begin_closed;
        if (is_plain(s)) {
            charge(s, begins ? s.key.begin_at : std::max(s.charged_until, s.key.begin_at),
                   begins ? s.weight_milli : -s.weight_milli);
        } else if (begins) {
            ledger.begin(
                {s.key, contents.names[s.budget], contents.names[s.user], s.kind, s.weight_milli});
        } else {
            ledger.end(s.key, s.charged_until);
        }
    }
}

}  // namespace tranche
