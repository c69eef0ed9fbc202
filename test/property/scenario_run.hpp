// SPDX-License-Identifier: GPL-2.0-or-later
// A host of the core in virtual time, just large enough to run scenario files (DESIGN 4.6) and
// random workloads against the very objects that decide inside slurmctld.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/model/usage_ledger.hpp"
#include "common/policy/pass.hpp"
#include "common/wire/json.hpp"

namespace tranche::test {

struct ScenarioJob {
    std::string id, budget, user, node, type;
    std::int64_t at = 0, gpus = 0, nodes = 0, min_runtime = 0, runtime = 0, time_limit = kNever;
    std::int64_t exit_seconds = 30, nice = 0;
    bool resumable = true, interactive = false, endless = false;
    TeamPriority priority = TeamPriority::normal;

    enum class State { future, pending, running, leaving, completed, ended, cancelled, refused };
    State state = State::future;
    std::int64_t left = 0;  // of its runtime
    std::int64_t first_submit_at = 0, began_at = 0, protected_until = 0, leaves_at = kNever;
    std::int64_t cap = kNever, contract = 0, segment_at = 0, first_start_at = -1;
    std::uint32_t runs = 0;
    RunKind kind = RunKind::unallocated;
    bool express = false, wants_turn = false;
    JobId waits_for = 0, leaving_for = 0;
    bool suspended = false;
    std::int64_t boots_until = 0, contract_left = 0;
    std::vector<NodeShare> where;
};

// What a preemption looked like when it was decided.
struct Taken {
    std::int64_t at = 0;
    JobId claimant = 0, victim = 0;
    TakeVerdict verdict;
    bool inside_contract = false;
};

class ScenarioRun {
  public:
    explicit ScenarioRun(const Json& scenario);

    // Runs to the end; the expectations that failed, each one line.
    std::vector<std::string> run();

    const std::vector<Taken>& taken() const { return taken_; }
    // Called after every pass.
    std::function<void(const ClusterView&, const Standings&, const PassResult&)> on_pass;

  private:
    struct Event {
        std::int64_t at;
        Json what;
    };
    void submit_due();
    void apply_ends();
    void apply(const Json& event);
    void pass();
    void start(JobId id, const std::vector<NodeShare>& where, bool as_free, bool express);
    void stop_run(JobId id, ScenarioJob::State state, std::int64_t charged_until);
    void begin_segment(ScenarioJob& job, JobId id);
    void end_segment(ScenarioJob& job, JobId id, std::int64_t charged_until);
    ClusterView view();
    std::int64_t next_instant() const;
    void check(std::int64_t at);
    void check_end();
    std::string state_name(const ScenarioJob& job) const;
    std::int64_t gpus_of(const std::string& budget) const;
    std::vector<JobId> ids_of(const std::string& name) const;
    void fail(const Json& expectation, const std::string& found);

    Json scenario_;
    Settings settings_;
    std::int64_t now_ = 0, until_ = 0, cycle_ = 30, boot_ = 0;
    std::vector<Node> nodes_;
    std::vector<bool> booted_;
    std::vector<ScenarioJob> jobs_;  // JobId is index + 1
    std::map<std::string, std::vector<std::string>> spec_;
    std::vector<Budget> budgets_;
    UsageLedger ledger_;
    std::vector<Event> events_;
    std::size_t next_event_ = 0;
    std::vector<Plan> plans_;
    std::vector<ExpressUse> express_;
    std::vector<Taken> taken_;
    std::vector<std::int64_t> evictions_;
    std::int64_t wake_at_ = 0, last_pass_ = 0;
    std::int64_t idle_gpu_seconds_ = 0;
    std::map<std::string, std::int64_t> charged_, unallocated_;  // GPU seconds since zero
    std::map<std::size_t, std::int64_t> stretch_;  // GPU seconds of {from, to, every} expectations
    std::vector<std::string> failures_;
};

// Replaces the keys that a scenario leaves out by the scenario defaults of DESIGN 4.6.
Settings scenario_settings(const Json& config);

}  // namespace tranche::test
