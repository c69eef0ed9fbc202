// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/store/ledger_replay.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace tranche {
namespace {

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
    const auto put = [&](std::int64_t batch, std::int64_t at, std::size_t index,
                         Event::Kind kind) {
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

    for (const Event& event : events) {
        switch (event.kind) {
            case Event::Kind::tree:
                ledger.set_tree(event.at, contents.trees[event.index].tree);
                break;
            case Event::Kind::begin_open:
                ledger.begin(contents.open[event.index].segment());
                break;
            case Event::Kind::begin_closed: {
                const ClosedSegment& s = contents.closed[event.index];
                ledger.begin({s.key, contents.names[s.budget], contents.names[s.user], s.kind,
                              s.weight_milli});
                break;
            }
            case Event::Kind::end: {
                const ClosedSegment& s = contents.closed[event.index];
                ledger.end(s.key, s.charged_until);
                break;
            }
        }
    }
}

}  // namespace tranche
