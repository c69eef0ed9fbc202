// SPDX-License-Identifier: GPL-2.0-or-later
#include "property/scenario_run.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tranche::test {
namespace {

using State = ScenarioJob::State;

double number_of(const Json& value) {
    return static_cast<double>(value.as_thousandths()) / 1000.0;
}

std::vector<std::string> expand(const std::string& list) {
    const auto open = list.find('[');
    if (open == std::string::npos) {
        return {list};
    }
    const auto dash = list.find('-', open), close = list.find(']', open);
    std::vector<std::string> names;
    for (int i = std::stoi(list.substr(open + 1, dash - open - 1));
         i <= std::stoi(list.substr(dash + 1, close - dash - 1)); ++i) {
        names.push_back(list.substr(0, open) + std::to_string(i));
    }
    return names;
}

std::string text_of_config(const Json& value) {
    if (value.is_text()) {
        return value.as_text();
    }
    if (value.is_integer()) {
        return std::to_string(value.as_integer());
    }
    std::string text = value.compact();
    return text;
}

}  // namespace

Settings scenario_settings(const Json& config) {
    Settings settings;
    settings.reservations = 0;
    settings.max_assemblies = 0;
    settings.assembly_pause_seconds = 0;
    settings.express_fraction_ppm = 0;
    settings.max_protected_fraction_ppm = kPpm;
    settings.raised_share_ppm = 0;
    settings.preempt_within_budget = PreemptWithinBudget::both;
    for (const std::string& key : config.keys()) {
        const Status status = apply_setting(settings, key, text_of_config(config.at(key.c_str())));
        if (!status.ok()) {
            throw std::runtime_error(status.error());
        }
    }
    return settings;
}

ScenarioRun::ScenarioRun(const Json& scenario)
    : scenario_(scenario),
      settings_(scenario_settings(scenario.at("config"))),
      ledger_({settings_.window(), settings_.max_min_runtime_seconds, settings_.entitlement_history,
               settings_.sharing == Sharing::pooled}) {
    const Json cluster = scenario.at("cluster");
    until_ = scenario.at("until").as_integer();
    cycle_ = std::max<std::int64_t>(cluster.at("cycle").as_integer(), 1);
    boot_ = cluster.at("boot").as_integer();
    for (std::size_t i = 0; i < cluster.at("nodes").size(); ++i) {
        const Json spec = cluster.at("nodes").at(i);
        for (const std::string& name : expand(spec.at("name").as_text())) {
            Node node;
            node.name = name;
            node.gpus = spec.at("gpus").as_integer();
            node.cpus = 1000;
            node.memory_mib = 1000;
            node.gpu_type = spec.at("type").as_text();
            nodes_.push_back(node);
        }
    }
    booted_.assign(nodes_.size(), boot_ == 0);
    for (std::size_t i = 0; i < scenario.at("budgets").size(); ++i) {
        const Json spec = scenario.at("budgets").at(i);
        Budget budget;
        budget.name = spec.at("name").as_text();
        budget.parent = spec.at("parent").as_text();
        budget.shares = static_cast<std::uint32_t>(spec.at("shares").as_integer());
        if (!spec.at("own_shares").is_null()) {
            budget.own_shares = static_cast<std::uint32_t>(spec.at("own_shares").as_integer());
        }
        const std::string sharing = spec.at("sharing").as_text();
        budget.sharing = sharing == "pooled"  ? BudgetSharing::pooled
                         : sharing == "users" ? BudgetSharing::users
                                              : BudgetSharing::unset;
        budgets_.push_back(budget);
    }
    auto tree = BudgetTree::build(budgets_);
    if (!tree.ok()) {
        throw std::runtime_error(tree.error());
    }
    ledger_.set_tree(-10 * settings_.lookback_window_seconds, *tree);
    for (std::size_t i = 0; i < scenario.at("jobs").size(); ++i) {
        ledger_.activate_own_side(
            -10 * settings_.lookback_window_seconds,
            ledger_.budget_id(scenario.at("jobs").at(i).at("budget").as_text()));
    }
    for (std::size_t i = 0; i < scenario.at("usage").size(); ++i) {
        const Json use = scenario.at("usage").at(i);
        Segment segment;
        segment.key = {1000000000U + static_cast<std::uint32_t>(i), 0, use.at("from").as_integer()};
        segment.budget = use.at("budget").as_text();
        segment.user = use.at("user").is_null() ? segment.budget : use.at("user").as_text();
        segment.kind = RunKind::allocated;
        segment.weight_milli = use.at("gpus").as_integer() * 1000;
        ledger_.begin(segment);
        ledger_.end(segment.key, use.at("to").as_integer());
    }
    for (std::size_t i = 0; i < scenario.at("jobs").size(); ++i) {
        const Json spec = scenario.at("jobs").at(i);
        ScenarioJob job;
        job.budget = spec.at("budget").as_text();
        job.user = spec.at("user").is_null() ? job.budget : spec.at("user").as_text();
        job.node = spec.at("node").as_text();
        job.type = spec.at("type").as_text();
        job.gpus = spec.at("gpus").as_integer();
        const std::int64_t largest =
            std::max_element(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
                return a.gpus < b.gpus;
            })->gpus;
        job.nodes = spec.at("nodes").is_null() ? (job.gpus + largest - 1) / largest
                                               : spec.at("nodes").as_integer();
        job.min_runtime = spec.at("min_runtime").as_integer();
        job.runtime = spec.at("runtime").as_integer();
        if (!spec.at("time_limit").is_null()) {
            job.time_limit = spec.at("time_limit").as_integer();
        }
        if (!spec.at("exit_seconds").is_null()) {
            job.exit_seconds = spec.at("exit_seconds").as_integer();
        }
        job.nice = spec.at("nice").as_integer();
        job.resumable = spec.at("resumable").is_null() || spec.at("resumable").as_boolean();
        job.interactive = spec.at("interactive").as_boolean();
        job.resumable = job.resumable && !job.interactive;
        job.endless = spec.at("endless").as_boolean();
        if (!spec.at("team_priority").is_null()) {
            job.priority = *parse_team_priority(spec.at("team_priority").as_text());
        }
        const std::int64_t repeat =
            spec.at("repeat").is_null() ? 1 : spec.at("repeat").as_integer();
        const std::string id = spec.at("id").as_text();
        for (std::int64_t k = 0; k < repeat; ++k) {
            ScenarioJob copy = job;
            copy.id = repeat == 1 && !job.endless ? id : id + "." + std::to_string(k + 1);
            copy.at = spec.at("at").as_integer() + k * spec.at("every").as_integer();
            copy.left = copy.runtime;
            jobs_.push_back(copy);
        }
    }
    // Job ids, the last tie, rise with the time of submission.
    std::stable_sort(jobs_.begin(), jobs_.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
    for (std::size_t i = 0; i < scenario.at("events").size(); ++i) {
        const Json event = scenario.at("events").at(i);
        events_.push_back({event.at("at").as_integer(), event});
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
}

std::vector<JobId> ScenarioRun::ids_of(const std::string& name) const {
    std::vector<JobId> ids;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (jobs_[i].id == name) {
            ids.push_back(static_cast<JobId>(i + 1));
        }
    }
    return ids;
}

void ScenarioRun::begin_segment(ScenarioJob& job, JobId id) {
    job.segment_at = now_;
    ledger_.begin({{id, job.runs, now_}, job.budget, job.user, job.kind, job.gpus * 1000});
}

void ScenarioRun::end_segment(ScenarioJob& job, JobId id, std::int64_t charged_until) {
    const SegmentKey key{id, job.runs, job.segment_at};
    if (!ledger_.end(key, charged_until)) {
        return;
    }
    auto& sums = job.kind == RunKind::allocated ? charged_ : unallocated_;
    sums[job.budget] += job.gpus * std::max<std::int64_t>(charged_until - job.segment_at, 0);
}

void ScenarioRun::start(JobId id, const std::vector<NodeShare>& where, bool as_free, bool express) {
    ScenarioJob& job = jobs_[id - 1];
    job.where = where;
    job.state = State::running;
    job.began_at = now_;
    if (job.first_start_at < 0) {
        job.first_start_at = now_;
    }
    ++job.runs;
    job.waits_for = 0;
    std::int64_t boot = 0;
    for (const NodeShare& share : where) {
        boot = booted_[share.node] ? boot : boot_;
        booted_[share.node] = true;
    }
    const Standings& standings = ledger_.standings(now_);
    job.contract = std::min(job.min_runtime, job.cap);
    job.cap = kNever;
    const bool allocated =
        job.contract > 0 && standings.funded(ledger_.budget_id(job.budget)) && job.gpus > 0;
    job.kind = allocated && !as_free ? RunKind::allocated : RunKind::unallocated;
    job.wants_turn = allocated && as_free;
    job.express = express && job.kind == RunKind::allocated;
    job.boots_until = now_ + boot;
    job.protected_until = job.kind == RunKind::allocated ? job.boots_until + job.contract : 0;
    if (job.express) {
        express_.push_back({job.user, job.gpus, now_, 0, job.protected_until});
    }
    begin_segment(job, id);
}

void ScenarioRun::stop_run(JobId id, State state, std::int64_t charged_until) {
    ScenarioJob& job = jobs_[id - 1];
    if (!job.suspended) {
        end_segment(job, id, charged_until);
    }
    for (ExpressUse& use : express_) {
        if (job.express && use.user == job.user && use.ended_at == 0 &&
            use.started_at == job.began_at) {
            use.ended_at = now_;
        }
    }
    job.left -= std::max<std::int64_t>(now_ - job.boots_until, 0);
    job.where.clear();
    job.leaves_at = kNever;
    job.leaving_for = 0;
    job.wants_turn = job.express = job.suspended = false;
    job.state = state;
    if (state == State::pending && !job.resumable) {
        job.left = job.runtime;
    }
    if (job.endless && (state == State::completed || state == State::ended)) {
        ScenarioJob copy;
        const ScenarioJob& old = jobs_[id - 1];
        copy.id = old.id;
        copy.budget = old.budget;
        copy.user = old.user;
        copy.type = old.type;
        copy.gpus = old.gpus;
        copy.nodes = old.nodes;
        copy.min_runtime = old.min_runtime;
        copy.runtime = copy.left = old.runtime;
        copy.time_limit = old.time_limit;
        copy.exit_seconds = old.exit_seconds;
        copy.resumable = old.resumable;
        copy.interactive = old.interactive;
        copy.priority = old.priority;
        copy.endless = true;
        copy.at = now_;
        jobs_.push_back(copy);
    }
}

void ScenarioRun::apply_ends() {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        const auto id = static_cast<JobId>(i + 1);
        if (jobs_[i].state == State::leaving && jobs_[i].leaves_at <= now_) {
            const JobId claimant = jobs_[i].leaving_for;
            stop_run(id, jobs_[i].resumable ? State::pending : State::ended, now_);
            jobs_[i].waits_for = claimant;
        } else if ((jobs_[i].state == State::running || jobs_[i].state == State::leaving) &&
                   !jobs_[i].suspended && now_ - jobs_[i].boots_until >= jobs_[i].left) {
            stop_run(id, State::completed, now_);
        }
    }
}

void ScenarioRun::submit_due() {
    for (ScenarioJob& job : jobs_) {
        if (job.state == State::future && job.at <= now_) {
            job.first_submit_at = job.at;
            job.state = job.min_runtime > settings_.max_min_runtime_seconds ? State::refused
                                                                            : State::pending;
        }
    }
}

void ScenarioRun::apply(const Json& event) {
    const std::string what = event.at("do").as_text();
    const auto for_nodes = [&](auto&& change) {
        for (const std::string& name : expand(event.at("node").as_text())) {
            for (NodeIndex n = 0; n < nodes_.size(); ++n) {
                if (nodes_[n].name == name) {
                    change(n);
                }
            }
        }
    };
    const auto for_jobs = [&](auto&& change) {
        for (const JobId id : ids_of(event.at("job").as_text())) {
            change(id, jobs_[id - 1]);
        }
    };
    const auto new_tree = [&] {
        auto tree = BudgetTree::build(budgets_);
        if (!tree.ok()) {
            throw std::runtime_error(tree.error());
        }
        ledger_.set_tree(now_, *tree);
    };
    if (what == "cancel") {
        for_jobs([&](JobId id, ScenarioJob& job) {
            if (job.state == State::running || job.state == State::leaving) {
                stop_run(id, State::cancelled, now_);
            }
            jobs_[id - 1].state = State::cancelled;
        });
    } else if (what == "suspend") {
        for_jobs([&](JobId id, ScenarioJob& job) {
            job.suspended = true;
            job.left -= now_ - job.boots_until;
            job.contract_left = std::max<std::int64_t>(job.protected_until - now_, 0);
            end_segment(job, id, now_);
        });
    } else if (what == "resume_job") {
        for_jobs([&](JobId id, ScenarioJob& job) {
            job.suspended = false;
            job.boots_until = now_;
            if (job.contract_left > 0) {
                job.protected_until = now_ + job.contract_left;
            }
            begin_segment(job, id);
        });
    } else if (what == "drain" || what == "undrain" || what == "node_up") {
        for_nodes([&](NodeIndex n) { nodes_[n].usable = what != "drain"; });
    } else if (what == "node_fail") {
        for_nodes([&](NodeIndex n) {
            nodes_[n].usable = false;
            for (std::size_t i = 0; i < jobs_.size(); ++i) {
                ScenarioJob& job = jobs_[i];
                if ((job.state == State::running || job.state == State::leaving) &&
                    std::any_of(job.where.begin(), job.where.end(),
                                [n](const NodeShare& share) { return share.node == n; })) {
                    std::int64_t until = now_;
                    if (settings_.refund_node_failure && job.kind == RunKind::allocated) {
                        until = now_ < job.protected_until
                                    ? job.segment_at
                                    : std::max(job.protected_until,
                                               now_ - settings_.refund_max_seconds);
                    }
                    stop_run(static_cast<JobId>(i + 1),
                             job.resumable ? State::pending : State::ended, until);
                }
            }
        });
    } else if (what == "set_shares") {
        for (Budget& budget : budgets_) {
            if (budget.name == event.at("budget").as_text()) {
                budget.shares = static_cast<std::uint32_t>(event.at("shares").as_integer());
            }
        }
        new_tree();
    } else if (what == "add_budget") {
        Budget budget;
        budget.name = event.at("name").as_text();
        budget.parent = event.at("parent").as_text();
        budget.shares = static_cast<std::uint32_t>(event.at("shares").as_integer());
        budgets_.push_back(budget);
        new_tree();
    } else if (what == "set_team_priority") {
        for_jobs([&](JobId, ScenarioJob& job) {
            job.priority = *parse_team_priority(event.at("team_priority").as_text());
        });
    } else {
        throw std::runtime_error("event '" + what + "' is not known here");
    }
}

ClusterView ScenarioRun::view() {
    ClusterView view;
    view.now = now_;
    view.nodes = nodes_;
    for (Node& node : view.nodes) {
        node.free_gpus = node.gpus;
        node.free_cpus = node.cpus;
        node.free_memory_mib = node.memory_mib;
    }
    view.node_sets.push_back(std::vector<bool>(nodes_.size(), true));
    std::map<NodeIndex, std::uint32_t> single_sets;
    view.plans = plans_;
    std::erase_if(express_, [&](const ExpressUse& use) {
        return use.ended_at != 0 && use.ended_at < now_ - 86400;
    });
    view.express_uses = express_;
    std::erase_if(evictions_, [&](std::int64_t at) { return at < now_ - 3600; });
    view.evictions_last_hour = static_cast<std::int64_t>(evictions_.size());
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        const ScenarioJob& job = jobs_[i];
        const auto id = static_cast<JobId>(i + 1);
        const BudgetId budget = ledger_.budget_id(job.budget);
        const MemberId member = ledger_.member_id(budget, job.user);
        PendingJob pending;
        pending.id = id;
        pending.name = job.id;
        pending.budget = budget;
        pending.member = member;
        pending.shape.nodes = static_cast<std::uint32_t>(std::max<std::int64_t>(job.nodes, 1));
        pending.shape.gpus = job.gpus;
        pending.shape.gpu_type = job.type;
        pending.weight_milli = job.gpus * 1000;
        pending.min_runtime_seconds = job.min_runtime;
        pending.first_submit_at = job.first_submit_at;
        pending.protection_cap_seconds = job.cap;
        pending.nice = job.nice;
        pending.runs_before = job.runs;
        pending.team_priority = job.priority;
        pending.resumable = job.resumable;
        pending.interactive = job.interactive;
        pending.waits_for = job.waits_for;
        if (job.state == State::pending) {
            if (!job.node.empty() && job.runs == 0) {
                for (NodeIndex n = 0; n < nodes_.size(); ++n) {
                    if (nodes_[n].name == job.node) {
                        std::vector<bool> only(nodes_.size(), false);
                        only[n] = true;
                        pending.shape.node_set = static_cast<std::uint32_t>(view.node_sets.size());
                        view.node_sets.push_back(only);
                    }
                }
                if (pending.shape.nodes > 1) {
                    pending.shape.node_set = 0;
                }
            }
            view.pending.push_back(pending);
        } else if (job.state == State::running || job.state == State::leaving) {
            Run run;
            run.id = id;
            run.name = job.id;
            run.budget = budget;
            run.member = member;
            run.kind = job.kind;
            run.state = job.state == State::leaving ? RunState::leaving
                        : job.suspended             ? RunState::suspended
                        : now_ < job.boots_until    ? RunState::configuring
                                                    : RunState::running;
            run.where = job.where;
            run.gpus = job.gpus;
            run.weight_milli = job.gpus * 1000;
            run.started_at = job.began_at;
            run.protected_until = job.protected_until;
            if (job.suspended && job.contract_left > 0) {
                run.protected_until = kNever;
            }
            run.contract_seconds = job.suspended ? job.contract_left : job.contract;
            run.team_priority = job.priority;
            run.resumable = job.resumable;
            run.interactive = job.interactive;
            run.express = job.express;
            run.wants_turn = job.wants_turn;
            run.leaving_for = job.leaving_for;
            for (const NodeShare& share : job.where) {
                view.nodes[share.node].free_gpus -= share.gpus;
            }
            if (job.wants_turn && job.state == State::running) {
                pending.turn_run = static_cast<std::int64_t>(view.runs.size());
                view.pending.push_back(pending);
            }
            view.runs.push_back(run);
        }
    }
    return view;
}

void ScenarioRun::pass() {
    last_pass_ = now_;
    for (int round = 0; round < 1000; ++round) {
        ClusterView now_view = view();
        mark_impossible(now_view);
        Standings standings = ledger_.standings(now_);
        add_commitments(standings, now_view, settings_);
        const auto ranking = rank_queue(now_view, standings, settings_);
        const PassResult result = run_pass(now_view, ranking, standings, settings_);
        if (on_pass) {
            on_pass(now_view, standings, result);
        }
        wake_at_ = result.wake_at;
        for (const StartDecision& decision : result.starts) {
            const JobId id = now_view.pending[decision.job].id;
            start(id, decision.where, decision.as_free, decision.express);
            std::erase_if(plans_, [&](const Plan& plan) { return plan.claimant == id; });
            for (ScenarioJob& job : jobs_) {
                job.waits_for = job.waits_for == id ? 0 : job.waits_for;
            }
        }
        for (const PlanDecision& decision : result.plans) {
            for (const VictimDecision& victim : decision.victims) {
                const Run& run = now_view.runs[victim.run];
                ScenarioJob& job = jobs_[run.id - 1];
                job.state = State::leaving;
                job.leaving_for = decision.plan.claimant;
                job.leaves_at = now_ + std::min(job.exit_seconds, grace_seconds(run, settings_));
                if (decision.plan.express && settings_.express_victim_protection_seconds) {
                    job.cap = *settings_.express_victim_protection_seconds;
                }
                evictions_.push_back(now_);
                taken_.push_back({now_, decision.plan.claimant, run.id, victim.verdict,
                                  run.under_contract(now_)});
            }
            plans_.push_back(decision.plan);
        }
        for (const std::uint32_t index : result.turns) {
            const JobId id = now_view.runs[index].id;
            ScenarioJob& job = jobs_[id - 1];
            end_segment(job, id, now_);
            job.kind = RunKind::allocated;
            job.wants_turn = false;
            job.contract = job.min_runtime;
            job.protected_until = now_ + job.contract;
            begin_segment(job, id);
        }
        // A plan whose claimant is gone lets its victims' successors go.
        std::erase_if(plans_, [&](const Plan& plan) {
            const State state = jobs_[plan.claimant - 1].state;
            if (state == State::pending) {
                return false;
            }
            for (ScenarioJob& job : jobs_) {
                job.waits_for = job.waits_for == plan.claimant ? 0 : job.waits_for;
            }
            return true;
        });
        if (result.starts.empty() && result.plans.empty() && result.turns.empty()) {
            return;
        }
    }
    throw std::runtime_error("the pass does not come to rest");
}

std::int64_t ScenarioRun::next_instant() const {
    std::int64_t next = std::min(until_, last_pass_ + cycle_);
    const auto consider = [&](std::int64_t at) {
        if (at > now_) {
            next = std::min(next, at);
        }
    };
    consider(wake_at_);
    for (const ScenarioJob& job : jobs_) {
        if (job.state == State::future) {
            consider(job.at);
        } else if (job.state == State::running || job.state == State::leaving) {
            if (!job.suspended) {
                consider(job.boots_until + job.left);
                consider(job.boots_until);
            }
            consider(job.leaves_at);
        }
    }
    if (next_event_ < events_.size()) {
        consider(events_[next_event_].at);
    }
    for (std::size_t i = 0; i < scenario_.at("expect").size(); ++i) {
        const Json e = scenario_.at("expect").at(i);
        consider(e.at("at").as_integer());
        const std::int64_t every = e.at("every").as_integer();
        if (every > 0) {
            const std::int64_t from = e.at("from").as_integer();
            consider(now_ < from ? from : from + ((now_ - from) / every + 1) * every);
        }
    }
    return next;
}

std::string ScenarioRun::state_name(const ScenarioJob& job) const {
    switch (job.state) {
        case State::future:
            return "future";
        case State::pending:
            return "pending";
        case State::running:
            return "running";
        case State::leaving:
            return "leaving";
        case State::completed:
            return "completed";
        case State::ended:
            return "ended";
        case State::cancelled:
            return "cancelled";
        case State::refused:
            return "refused";
    }
    return "";
}

std::int64_t ScenarioRun::gpus_of(const std::string& budget) const {
    std::int64_t sum = 0;
    for (const ScenarioJob& job : jobs_) {
        if (job.budget == budget && (job.state == State::running || job.state == State::leaving)) {
            sum += job.gpus;
        }
    }
    return sum;
}

void ScenarioRun::fail(const Json& expectation, const std::string& found) {
    failures_.push_back(expectation.compact() + " at " + std::to_string(now_) + ": found " + found);
}

void ScenarioRun::check(std::int64_t at) {
    for (std::size_t i = 0; i < scenario_.at("expect").size(); ++i) {
        const Json e = scenario_.at("expect").at(i);
        if (e.at("at").is_null() || e.at("at").as_integer() != at) {
            continue;
        }
        if (!e.at("order").is_null()) {
            ClusterView now_view = view();
            mark_impossible(now_view);
            Standings standings = ledger_.standings(now_);
            add_commitments(standings, now_view, settings_);
            std::vector<std::string> wanted, found;
            for (std::size_t k = 0; k < e.at("order").size(); ++k) {
                wanted.push_back(e.at("order").at(k).as_text());
            }
            for (const RankedEntry& entry : rank_queue(now_view, standings, settings_)) {
                const std::string& name = now_view.pending[entry.job].name;
                if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) {
                    found.push_back(name);
                }
            }
            if (found != wanted) {
                std::string text;
                for (const std::string& name : found) {
                    text += name + " ";
                }
                fail(e, text);
            }
        } else if (!e.at("job").is_null()) {
            const auto ids = ids_of(e.at("job").as_text());
            const ScenarioJob& job = jobs_.at(ids.at(0) - 1);
            if (!e.at("state").is_null() && state_name(job) != e.at("state").as_text()) {
                fail(e, state_name(job));
            }
            if (!e.at("protected_until").is_null() &&
                job.protected_until != e.at("protected_until").as_integer()) {
                fail(e, std::to_string(job.protected_until));
            }
        } else if (!e.at("budget").is_null() && !e.at("charged_gpu_hours").is_null()) {
            ClusterView now_view = view();
            Standings standings = ledger_.standings(now_);
            add_commitments(standings, now_view, settings_);
            const BudgetId id = ledger_.budget_id(e.at("budget").as_text());
            const SideStanding& side = standings.sides[2 * id];
            const double hours = (static_cast<double>(side.usage.plain[0]) +
                                  static_cast<double>(side.commitment) /
                                      static_cast<double>(settings_.lookback_window_seconds)) /
                                 3.6e6;
            if (std::abs(hours - number_of(e.at("charged_gpu_hours"))) >
                number_of(e.at("tol")) + 1e-9) {
                fail(e, std::to_string(hours));
            }
        } else if (!e.at("budget").is_null()) {
            const std::int64_t gpus = gpus_of(e.at("budget").as_text());
            const Json wanted = e.at("gpus");
            const bool ok =
                wanted.is_object()
                    ? (wanted.at("min").is_null() || gpus >= wanted.at("min").as_integer()) &&
                          (wanted.at("max").is_null() || gpus <= wanted.at("max").as_integer())
                    : gpus == wanted.as_integer();
            if (!ok) {
                fail(e, std::to_string(gpus));
            }
        }
    }
    for (std::size_t i = 0; i < scenario_.at("expect").size(); ++i) {
        const Json e = scenario_.at("expect").at(i);
        const std::int64_t every = e.at("every").as_integer(), from = e.at("from").as_integer();
        if (every > 0 && at > from && at <= e.at("to").as_integer() && (at - from) % every == 0) {
            const double mean = static_cast<double>(stretch_[i]) / static_cast<double>(every);
            stretch_[i] = 0;
            const Json wanted = e.at("gpus");
            if ((!wanted.at("min").is_null() && mean < number_of(wanted.at("min"))) ||
                (!wanted.at("max").is_null() && mean > number_of(wanted.at("max")))) {
                fail(e, std::to_string(mean));
            }
        }
    }
}

void ScenarioRun::check_end() {
    for (std::size_t i = 0; i < scenario_.at("expect").size(); ++i) {
        const Json e = scenario_.at("expect").at(i);
        if (!e.at("job").is_null() && e.at("at").is_null()) {
            const ScenarioJob& job = jobs_.at(ids_of(e.at("job").as_text()).at(0) - 1);
            if (!e.at("starts").is_null() &&
                (job.first_start_at < e.at("starts").at(std::size_t{0}).as_integer() ||
                 job.first_start_at > e.at("starts").at(std::size_t{1}).as_integer())) {
                fail(e, std::to_string(job.first_start_at));
            }
            if (!e.at("runs").is_null() && job.runs != e.at("runs").as_integer()) {
                fail(e, std::to_string(job.runs));
            }
        }
        const std::string metric = e.at("metric").as_text();
        if (metric.empty()) {
            continue;
        }
        const auto dot = metric.find('.');
        const std::string name = metric.substr(0, dot);
        const std::string budget = dot == std::string::npos ? "" : metric.substr(dot + 1);
        double value = 0;
        if (name == "preemptions") {
            value = static_cast<double>(taken_.size());
        } else if (name == "inside_contract") {
            for (const Taken& taken : taken_) {
                value += taken.inside_contract ? 1 : 0;
            }
        } else if (name == "wasted_preemptions") {
            value = 0;  // a plan here ends by its claimant's start or leave only
        } else if (name == "idle_gpu_hours") {
            value = static_cast<double>(idle_gpu_seconds_) / 3600.0;
        } else if (name == "charged_gpu_hours" || name == "unallocated_gpu_hours") {
            const RunKind kind =
                name == "charged_gpu_hours" ? RunKind::allocated : RunKind::unallocated;
            auto& sums = kind == RunKind::allocated ? charged_ : unallocated_;
            value = static_cast<double>(sums[budget]);
            for (const ScenarioJob& job : jobs_) {
                if (job.budget == budget && job.kind == kind &&
                    (job.state == State::running || job.state == State::leaving) &&
                    !job.suspended) {
                    value += static_cast<double>(job.gpus * (now_ - job.segment_at));
                }
            }
            value /= 3600.0;
        } else {
            throw std::runtime_error("metric '" + metric + "' is not known here");
        }
        if ((!e.at("equals").is_null() && std::abs(value - number_of(e.at("equals"))) > 1e-9) ||
            (!e.at("at_least").is_null() && value < number_of(e.at("at_least"))) ||
            (!e.at("at_most").is_null() && value > number_of(e.at("at_most")))) {
            fail(e, std::to_string(value));
        }
    }
}

std::vector<std::string> ScenarioRun::run() {
    for (;;) {
        apply_ends();
        while (next_event_ < events_.size() && events_[next_event_].at <= now_) {
            apply(events_[next_event_++].what);
        }
        submit_due();
        pass();
        check(now_);
        if (now_ >= until_) {
            break;
        }
        const std::int64_t next = next_instant();
        std::int64_t free_gpus = 0;
        for (const Node& node : nodes_) {
            free_gpus += node.usable ? node.gpus : 0;
        }
        for (const ScenarioJob& job : jobs_) {
            if (job.state == State::running || job.state == State::leaving) {
                free_gpus -= job.gpus;
            }
        }
        idle_gpu_seconds_ += std::max<std::int64_t>(free_gpus, 0) * (next - now_);
        for (std::size_t i = 0; i < scenario_.at("expect").size(); ++i) {
            const Json e = scenario_.at("expect").at(i);
            if (e.at("every").as_integer() > 0 && now_ >= e.at("from").as_integer() &&
                now_ < e.at("to").as_integer()) {
                stretch_[i] += gpus_of(e.at("budget").as_text()) * (next - now_);
            }
        }
        now_ = next;
    }
    check_end();
    return failures_;
}

}  // namespace tranche::test
