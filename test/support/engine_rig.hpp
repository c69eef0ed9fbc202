// SPDX-License-Identifier: GPL-2.0-or-later
// A fake cluster with an engine that is stepped second by second, and can be cut and started anew
// on the same ledger.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/store/ledger_database.hpp"
#include "engine/engine_cycle.hpp"
#include "support/fake_host.hpp"

namespace tranche::test {

inline Budget budget_of(std::string name, std::uint32_t shares, std::string parent = "root") {
    Budget budget;
    budget.name = std::move(name);
    budget.parent = std::move(parent);
    budget.shares = shares;
    return budget;
}

class EngineRig {
  public:
    EngineRig(std::uint32_t nodes, std::int64_t gpus_each, std::string settings = "")
        : cluster(std::make_shared<FakeCluster>(nodes, gpus_each)) {
        static int number = 0;
        directory = std::filesystem::path(testing::TempDir()) /
                    ("tranche-engine-" + std::to_string(getpid()) + "-" + std::to_string(++number));
        std::filesystem::create_directories(directory);
        write_settings(settings);
    }
    ~EngineRig() {
        stop();
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
    EngineRig(const EngineRig&) = delete;
    EngineRig& operator=(const EngineRig&) = delete;

    void write_settings(const std::string& text) {
        std::ofstream(settings_path()) << "DefaultMinRuntime=0\n" << text << "\n";
    }
    std::string settings_path() const { return (directory / "tranche.conf").string(); }
    std::string state_directory() const { return (directory / "state").string(); }
    std::string database_path() const { return state_directory() + "/usage.db"; }

    EngineOptions options() const {
        EngineOptions options;
        options.cluster = "test";
        options.settings_path = settings_path();
        options.state_directory = state_directory();
        options.ledger_retry = std::chrono::milliseconds(1);
        options.rehearses = rehearses;
        return options;
    }

    // Starts the engine; `wait` is for the ledger.
    void start(std::chrono::milliseconds wait = std::chrono::seconds(20)) {
        if (make_directory) {
            std::filesystem::create_directories(state_directory());
        }
        engine = std::make_unique<EngineCycle>(
            std::make_unique<FakeHost>(cluster), options(), [this] { kicked_ = true; },
            [c = cluster] { return c->now() * 1000; });
        engine->open();
        engine->wait_for_ledger(wait);
        step();
    }
    void stop() {
        if (engine) {
            engine->close();
            engine.reset();
        }
    }
    void restart() {
        stop();
        cluster->forget_entrance();
        start();
    }
    void step() {
        int rounds = 0;
        do {
            kicked_ = false;
            engine->step();
        } while (kicked_ && ++rounds < 6);
    }
    // One second: time passes, graces end, the engine steps, the scheduler starts what fits.
    void second() {
        cluster->tick();
        if (engine) {
            engine->follow_victims();
            step();
        }
        cluster->schedule();
        for (const JobId id : cluster->take_tried()) {
            if (engine) {
                engine->note_start_attempt(id);
            }
        }
    }
    void run(std::int64_t seconds) {
        for (std::int64_t i = 0; i < seconds; ++i) {
            second();
        }
    }
    // Until it holds, at most so many seconds.
    bool run_until(const std::function<bool()>& holds, std::int64_t seconds) {
        for (std::int64_t i = 0; i < seconds && !holds(); ++i) {
            second();
        }
        return holds();
    }

    Result<EditOutcome> load_tree(std::vector<Budget> budgets, Actor actor = {0, "root", true}) {
        BudgetEdit edit;
        edit.kind = BudgetEdit::Kind::load;
        edit.tree = std::move(budgets);
        return engine->edit(actor, edit, false);
    }
    // Starts with that tree in force.
    void begin(std::vector<Budget> budgets) {
        start();
        const auto loaded = load_tree(std::move(budgets));
        ASSERT_TRUE(loaded.ok()) << loaded.error();
        step();
    }

    HostJobState state(JobId id) const { return cluster->job(id).value().state; }
    bool is_running(JobId id) const { return state(id) == HostJobState::running; }
    bool is_pending(JobId id) const { return state(id) == HostJobState::pending; }
    std::string nodes_of(JobId id) const {
        const HostJob job = cluster->job(id).value();
        std::string text;
        for (const NodeShare& share : job.where) {
            text += (text.empty() ? "n" : ",n") + std::to_string(share.node + 1);
        }
        return text;
    }
    const Run* run_of(JobId id) {
        view_ = engine->view();
        const JobCard* card = view_->card(id);
        return card == nullptr || card->run_index < 0
                   ? nullptr
                   : &view_->view.runs[static_cast<std::size_t>(card->run_index)];
    }
    const JobCard* card(JobId id) {
        view_ = engine->view();
        return view_->card(id);
    }
    std::string wait_reason(JobId id) {
        view_ = engine->view();
        const JobCard* card = view_->card(id);
        return card == nullptr || card->pending_index < 0
                   ? std::string("-")
                   : std::string(
                         to_text(view_->pass.verdicts[static_cast<std::size_t>(card->pending_index)]
                                     .reason));
    }
    // Plain GPU seconds that a budget was charged in the window.
    std::int64_t charged(const std::string& budget, RunKind kind = RunKind::allocated) {
        view_ = engine->view();
        for (std::size_t b = 0; b < view_->standings.budgets.size(); ++b) {
            if (view_->standings.budgets[b].name == budget) {
                return static_cast<std::int64_t>(
                    view_->standings.sides[2 * b].usage.plain[static_cast<std::size_t>(kind)] /
                    1000);
            }
        }
        return 0;
    }

    // What the file holds; the engine must be stopped.
    std::vector<SegmentRow> segments() const {
        auto database = LedgerDatabase::open(database_path(), cluster->now(), 0);
        EXPECT_TRUE(database.ok()) << (database.ok() ? "" : database.error());
        auto rows = database->segments(0, kNever, 100000);
        EXPECT_TRUE(rows.ok()) << (rows.ok() ? "" : rows.error());
        return rows.ok() ? *rows : std::vector<SegmentRow>();
    }
    std::vector<PreemptionRecord> preemptions() {
        auto rows = engine->preemptions(0, kNever, 1000);
        EXPECT_TRUE(rows.ok()) << (rows.ok() ? "" : rows.error());
        auto out = rows.ok() ? *rows : std::vector<PreemptionRecord>();
        std::reverse(out.begin(), out.end());  // oldest first
        return out;
    }
    bool logged(const std::string& part) const {
        const auto lines = cluster->logged();
        return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
            return line.find(part) != std::string::npos;
        });
    }

    std::shared_ptr<FakeCluster> cluster;
    std::unique_ptr<EngineCycle> engine;
    std::filesystem::path directory;
    bool make_directory = true;
    bool rehearses = false;  // another plugin orders the queue: the next start's option

  private:
    std::shared_ptr<const EngineView> view_;  // what pointers handed out point into
    bool kicked_ = false;
};

}  // namespace tranche::test
