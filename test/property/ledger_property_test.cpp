// SPDX-License-Identifier: GPL-2.0-or-later
// Random weeks of runs and edits: charges against plain sums of intervals, entitlements against an
// integration hour by hour, and a restart at any moment against a ledger that went on. Fixed seeds.
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <random>

#include "common/store/ledger_database.hpp"
#include "common/store/ledger_replay.hpp"
#include "support/situation.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kZero = 1'000'000'000;

struct RunRecord {
    SegmentKey key;
    std::string budget, user;
    RunKind kind;
    std::int64_t weight_milli = 0;
    std::int64_t charged_until = kNever;  // kNever: open
};

// One event of a history, to be done to a ledger and written into a batch.
struct Happening {
    std::int64_t at = 0;
    enum class Kind { tree, begin, end } kind = Kind::begin;
    BudgetTree tree;
    std::size_t run = 0;
    std::int64_t charged_until = 0;
};

class History {
  public:
    History(std::uint64_t seed, std::int64_t length_seconds, int events) : random_(seed) {
        Happening first;
        first.at = kZero;
        first.kind = Happening::Kind::tree;
        first.tree = next_tree();
        happenings.push_back(first);
        std::int64_t now = kZero;
        std::vector<std::size_t> open;
        for (int i = 0; i < events; ++i) {
            now += static_cast<std::int64_t>(
                random_() % static_cast<std::uint64_t>(2 * length_seconds / events));
            Happening h;
            h.at = now;
            const auto dice = random_() % 20;
            if (dice == 0) {
                h.kind = Happening::Kind::tree;
                h.tree = next_tree();
            } else if (dice < 11 || open.empty()) {
                RunRecord run;
                const auto names = running_budgets();
                run.budget = random_() % 10 == 0 ? "" : names[random_() % names.size()];
                run.user = "u" + std::to_string(random_() % 3);
                const auto kind = random_() % 6;
                run.kind = kind == 0   ? RunKind::outside
                           : kind == 1 ? RunKind::unallocated
                                       : RunKind::allocated;
                run.weight_milli = 500 * (1 + static_cast<std::int64_t>(random_() % 64));
                // Seen up to a second late.
                const std::int64_t begin_at = now - static_cast<std::int64_t>(random_() % 2);
                run.key = {static_cast<JobId>(1 + runs.size() % 40),
                           kZero + static_cast<std::int64_t>(runs.size()), begin_at};
                h.run = runs.size();
                open.push_back(runs.size());
                runs.push_back(run);
            } else {
                h.kind = Happening::Kind::end;
                const std::size_t which = random_() % open.size();
                h.run = open[which];
                open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
                RunRecord& run = runs[h.run];
                const std::int64_t refund =
                    random_() % 5 == 0 ? static_cast<std::int64_t>(random_() % 3600) : 0;
                run.charged_until = std::max(run.key.begin_at, now - refund);
                h.charged_until = run.charged_until;
            }
            happenings.push_back(h);
        }
        end_at = now;
    }

    void happen(const Happening& h, UsageLedger& ledger) const {
        const RunRecord* run = h.kind == Happening::Kind::tree ? nullptr : &runs[h.run];
        switch (h.kind) {
            case Happening::Kind::tree:
                ledger.set_tree(h.at, h.tree);
                break;
            case Happening::Kind::begin:
                ASSERT_TRUE(
                    ledger.begin({run->key, run->budget, run->user, run->kind, run->weight_milli}));
                break;
            case Happening::Kind::end:
                ASSERT_TRUE(ledger.end(run->key, h.charged_until));
                break;
        }
    }

    LedgerBatch batch_of(const Happening& h, std::int64_t edit_number) const {
        LedgerBatch batch;
        if (h.kind == Happening::Kind::tree) {
            TreeEditRow edit;
            edit.number = edit_number;
            edit.at = h.at;
            edit.tree = h.tree;
            batch.edits.push_back(edit);
            return batch;
        }
        const RunRecord& run = runs[h.run];
        SegmentRow row;
        row.key = run.key;
        row.budget = run.budget;
        row.user = run.user;
        row.kind = run.kind;
        row.weight_milli = run.weight_milli;
        if (h.kind == Happening::Kind::begin) {
            batch.begun.push_back(row);
        } else {
            row.ended_at = h.at;
            row.charged_until = h.charged_until;
            batch.ended.push_back(row);
        }
        return batch;
    }

    std::vector<Happening> happenings;
    std::vector<RunRecord> runs;
    std::int64_t end_at = 0;

  private:
    // Some of a fixed set of budgets, with random parents and shares; ones with open runs stay.
    BudgetTree next_tree() {
        std::vector<Budget> budgets;
        current_.clear();
        for (int i = 0; i < 8; ++i) {
            const std::string name = "b" + std::to_string(i);
            const bool in_use = std::any_of(runs.begin(), runs.end(), [&](const RunRecord& run) {
                return run.budget == name && run.charged_until == kNever;
            });
            if (!in_use && random_() % 5 == 0) {
                continue;
            }
            const std::string parent = current_.empty() || random_() % 2 == 0
                                           ? "root"
                                           : current_[random_() % current_.size()];
            budgets.push_back(make_budget(
                name, static_cast<std::uint32_t>(random_() % 4 == 0 ? 0 : random_() % 100),
                parent));
            budgets.back().own_shares = static_cast<std::uint32_t>(random_() % 3);
            current_.push_back(name);
        }
        if (current_.empty()) {
            budgets.push_back(make_budget("b0", 1));
            current_.emplace_back("b0");
        }
        return make_tree(budgets);
    }
    std::vector<std::string> running_budgets() const { return current_; }

    std::mt19937_64 random_;
    std::vector<std::string> current_;
};

UsageLedger::Rules short_rules(WindowShape shape) {
    UsageLedger::Rules rules;
    rules.window = {20 * kHour, shape};
    rules.backdate_seconds = kHour;
    return rules;
}

TEST(LedgerProperty, charges_are_the_sums_of_their_intervals) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const UsageLedger::Rules rules =
            short_rules(seed % 2 == 0 ? WindowShape::flat : WindowShape::linear);
        const History history(seed, 60 * kHour, 400);
        UsageLedger ledger(rules);
        std::size_t done = 0;
        for (std::int64_t now = kZero; now <= history.end_at; now += 7 * kHour + 13) {
            std::map<std::pair<std::string, RunKind>, Int128> expected;
            Int128 expected_all[kRunKinds] = {};
            std::vector<std::pair<std::size_t, std::int64_t>> ended_so_far;
            while (done < history.happenings.size() && history.happenings[done].at <= now) {
                history.happen(history.happenings[done++], ledger);
            }
            std::vector<std::int64_t> until(history.runs.size(), -1);  // -1: not begun
            for (std::size_t i = 0; i < done; ++i) {
                const Happening& h = history.happenings[i];
                if (h.kind == Happening::Kind::begin) {
                    until[h.run] = now;
                } else if (h.kind == Happening::Kind::end) {
                    until[h.run] = h.charged_until;
                }
            }
            for (std::size_t r = 0; r < history.runs.size(); ++r) {
                const RunRecord& run = history.runs[r];
                const std::int64_t from =
                    std::max(run.key.begin_at, now - rules.window.length_seconds);
                if (until[r] > from) {
                    const Int128 amount = Int128{until[r] - from} * run.weight_milli;
                    expected[{run.budget, run.kind}] += amount;
                    expected_all[static_cast<std::size_t>(run.kind)] += amount;
                }
            }
            const Standings& standings = ledger.standings(now);
            Int128 members[kRunKinds] = {};
            for (const MemberStanding& member : standings.members) {
                for (std::size_t k = 0; k < kRunKinds; ++k) {
                    members[k] += member.usage.plain[k];
                }
            }
            for (std::size_t k = 0; k < kRunKinds; ++k) {
                ASSERT_TRUE(standings.sides[2 * kRootId].usage.plain[k] == expected_all[k]);
                ASSERT_TRUE(members[k] == expected_all[k]);
                for (BudgetId b = kNoBudgetId; b < standings.budgets.size(); ++b) {
                    const std::string name = b == kNoBudgetId ? "" : standings.budgets[b].name;
                    const auto it = expected.find({name, static_cast<RunKind>(k)});
                    // What a budget's own jobs used, whoever its ancestors were.
                    ASSERT_TRUE(standings.sides[2 * b + 1].usage.plain[k] ==
                                (it == expected.end() ? Int128{0} : it->second))
                        << name << " seed " << seed;
                }
            }
        }
    }
}

TEST(LedgerProperty, an_edit_never_changes_a_past_instant_s_charge_or_entitlement) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const UsageLedger::Rules rules = short_rules(WindowShape::linear);
        const History history(seed, 40 * kHour, 200);
        UsageLedger with(rules), without(rules);
        for (const Happening& h : history.happenings) {
            history.happen(h, with);
            history.happen(h, without);
        }
        const std::int64_t now = history.end_at;
        // Same places, other shares: none to zero or from it, whose past is judged anew (2.3).
        std::vector<Budget> budgets;
        for (const auto& [name, budget] : with.tree().budgets()) {
            budgets.push_back(budget);
            budgets.back().shares = budget.shares == 0 ? 0 : 1 + (budget.shares * 7 + 3) % 90;
        }
        with.set_tree(now, make_tree(budgets));
        const Standings a = with.standings(now);
        const Standings b = without.standings(now);
        ASSERT_EQ(a.sides.size(), b.sides.size());
        for (SideId side = 0; side < a.sides.size(); ++side) {
            for (std::size_t k = 0; k < kRunKinds; ++k) {
                ASSERT_TRUE(a.sides[side].usage.faded[k] == b.sides[side].usage.faded[k]);
                ASSERT_TRUE(a.sides[side].usage.plain[k] == b.sides[side].usage.plain[k]);
            }
            ASSERT_TRUE(a.sides[side].entitlement == b.sides[side].entitlement) << side;
        }
    }
}

TEST(LedgerProperty, entitlements_of_a_level_add_up_to_the_whole_while_nothing_is_added) {
    std::mt19937_64 random(4);
    for (int round = 0; round < 20; ++round) {
        UsageLedger ledger(short_rules(WindowShape::linear));
        std::vector<Budget> budgets;
        for (int i = 0; i < 6; ++i) {
            budgets.push_back(make_budget("b" + std::to_string(i), 1));
        }
        ledger.set_tree(kZero, make_tree(budgets));
        ledger.begin({{1, kZero, kZero}, "b0", "u", RunKind::allocated, 1000});
        std::int64_t now = kZero;
        for (int edit = 0; edit < 30; ++edit) {
            now += static_cast<std::int64_t>(random() % 7200);
            for (Budget& budget : budgets) {
                budget.shares = static_cast<std::uint32_t>(1 + random() % 65535);
            }
            ledger.set_tree(now, make_tree(budgets));
            const Standings& standings = ledger.standings(now);
            UInt128 sum = 0;
            for (const Budget& budget : budgets) {
                sum += standings.sides[2 * ledger.find_budget(budget.name)].entitlement;
            }
            const UInt128 whole = standings.window.full() << kFractionBits;
            ASSERT_TRUE(sum <= whole);
            // Each fraction is rounded down by less than 2^-32.
            ASSERT_TRUE(whole - sum < standings.window.full() * 6);
        }
    }
}

void expect_equal_standings(UsageLedger& live, UsageLedger& restarted, std::int64_t now,
                            std::uint64_t seed, std::size_t cut) {
    const Standings& a = live.standings(now);
    const Standings& b = restarted.standings(now);
    for (BudgetId id = 0; id < a.budgets.size(); ++id) {
        const std::string& name = a.budgets[id].name;
        const BudgetId other = id == kNoBudgetId ? id : restarted.find_budget(name);
        for (SideId part = 0; part < 2; ++part) {
            const SideStanding& x = a.sides[2 * id + part];
            const SideStanding y = other == kNoId ? SideStanding{} : b.sides[2 * other + part];
            for (std::size_t k = 0; k < kRunKinds; ++k) {
                ASSERT_TRUE(x.usage.plain[k] == y.usage.plain[k])
                    << name << " seed " << seed << " cut " << cut;
                ASSERT_TRUE(x.usage.faded[k] == y.usage.faded[k]) << name;
            }
            if (other != kNoId && a.budgets[id].exists) {
                ASSERT_TRUE(x.entitlement == y.entitlement)
                    << name << " part " << part << " seed " << seed << " cut " << cut << ": "
                    << to_decimal(x.entitlement) << " and " << to_decimal(y.entitlement);
                ASSERT_EQ(x.shares, y.shares);
            }
        }
        if (other != kNoId) {
            ASSERT_EQ(a.budgets[id].funded_fraction, b.budgets[other].funded_fraction);
        }
    }
}

TEST(LedgerProperty, a_restart_at_any_moment_changes_nothing) {
    // In memory where there is such a folder: hundreds of transactions would wait for the disk.
    std::string pattern =
        (::access("/dev/shm", W_OK) == 0 ? std::string("/dev/shm/") : testing::TempDir()) +
        "ledgerXXXXXX";
    const std::string folder = ::mkdtemp(pattern.data());
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const UsageLedger::Rules rules =
            short_rules(seed % 2 == 0 ? WindowShape::flat : WindowShape::linear);
        const History history(seed, 60 * kHour, 240);
        const std::string path = folder + "/" + std::to_string(seed) + ".db";
        std::optional<LedgerDatabase> database;
        database.emplace(std::move(LedgerDatabase::open(path, kZero)).value());
        UsageLedger live(rules);
        std::int64_t edit_number = 0;
        for (std::size_t i = 0; i < history.happenings.size(); ++i) {
            const Happening& h = history.happenings[i];
            history.happen(h, live);
            edit_number += h.kind == Happening::Kind::tree ? 1 : 0;
            ASSERT_TRUE(database->apply(history.batch_of(h, edit_number)).ok());
            if (i % 16 == 0 && i > 0) {
                live.standings(h.at);  // asked for all the time, as the engine does
            }
            if (i % 23 == 0 && i > 0) {
                database.reset();
                database.emplace(std::move(LedgerDatabase::open(path, h.at)).value());
                const auto contents =
                    database->load(h.at - rules.window.length_seconds, h.at - 86400);
                ASSERT_TRUE(contents.ok()) << contents.error();
                UsageLedger restarted(rules);
                replay(*contents, restarted);
                ASSERT_EQ(restarted.open_count(), live.open_count());
                expect_equal_standings(live, restarted, h.at, seed, i);
                if (testing::Test::HasFatalFailure()) {
                    std::filesystem::remove_all(folder);
                    return;
                }
            }
        }
    }
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tranche
