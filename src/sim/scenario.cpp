// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/policy/explain.hpp"
#include "common/report/people.hpp"
#include "sim/budget_scheduler.hpp"
#include "sim/simulation.hpp"

namespace tranche::sim {
namespace {

std::string_view word_of(JobState state) {
    switch (state) {
        case JobState::future:
            return "not submitted yet";
        case JobState::pending:
            return "pending";
        case JobState::running:
            return "running";
        case JobState::leaving:
            return "leaving";
        case JobState::completed:
            return "completed";
        case JobState::ended:
            return "ended";
        case JobState::cancelled:
            return "cancelled";
        case JobState::refused:
            return "refused";
    }
    return "";
}

// With at most three decimals.
std::string number_text(double value) {
    const auto milli = static_cast<std::int64_t>(std::llround(std::abs(value) * 1000));
    std::string text = (value < 0 && milli > 0 ? "-" : "") + std::to_string(milli / 1000);
    if (milli % 1000 != 0) {
        std::string digits = std::to_string(1000 + milli % 1000).substr(1);
        digits.erase(digits.find_last_not_of('0') + 1);
        text += "." + digits;
    }
    return text;
}

class Check {
  public:
    Check(const Scenario& scenario, const std::function<void(BudgetScheduler&)>& prepare)
        : scenario_(scenario),
          simulation_(scenario.cluster, scenario.settings, scenario.tree, scenario.workload,
                      options_of(scenario)),
          scheduler_(simulation_.state(), scenario.settings, scenario.tree, scenario.workload.past,
                     0),
          stretch_begins_(scenario.expectations.size(), 0) {
        if (prepare) {
            prepare(scheduler_);
        }
        simulation_.attach(scheduler_);
    }

    ScenarioOutcome run() {
        for (const std::int64_t at : instants()) {
            simulation_.advance(at);
            for (std::size_t i = 0; i < scenario_.expectations.size(); ++i) {
                look(scenario_.expectations[i], i);
            }
        }
        simulation_.advance(scenario_.until);
        // Before the record is closed: explanations read the live state.
        for (const Expectation& e : scenario_.expectations) {
            if (e.kind == Expectation::Kind::job) {
                look_at_whole(e);
            }
        }
        outcome_.record = simulation_.finish();
        for (const Expectation& e : scenario_.expectations) {
            if (e.kind == Expectation::Kind::metric) {
                measure(e);
            }
        }
        return std::move(outcome_);
    }

  private:
    static SimOptions options_of(const Scenario& scenario) {
        SimOptions options;
        options.begin_at = 0;
        options.until = scenario.until;
        options.slots = true;
        return options;
    }

    std::vector<std::int64_t> instants() const {
        std::vector<std::int64_t> at;
        for (const Expectation& e : scenario_.expectations) {
            if (e.kind == Expectation::Kind::budget_mean) {
                for (std::int64_t edge = e.from; edge <= e.to; edge += e.every) {
                    at.push_back(edge);
                }
            } else if (e.kind != Expectation::Kind::metric && e.kind != Expectation::Kind::job) {
                at.push_back(e.at);
            }
        }
        std::sort(at.begin(), at.end());
        at.erase(std::unique(at.begin(), at.end()), at.end());
        return at;
    }

    void fail(const Expectation& e, const std::string& found, const std::string& numbers) {
        std::string text = e.place + " " + e.text + ": found " + found;
        std::string rest = numbers;
        while (!rest.empty()) {
            const auto end = rest.find('\n');
            text += "\n    " + rest.substr(0, end);
            rest = end == std::string::npos ? "" : rest.substr(end + 1);
        }
        outcome_.failures.push_back(std::move(text));
    }

    JobIndex find_job(const std::string& id) {
        const auto& jobs = simulation_.state().jobs;
        for (; known_ < jobs.size(); ++known_) {
            by_id_.emplace(jobs[known_].spec->id, static_cast<JobIndex>(known_));
        }
        const auto it = by_id_.find(id);
        return it == by_id_.end() ? kNoJob : it->second;
    }

    std::string explain(JobIndex j) {
        const SimJob& job = simulation_.state().jobs[j];
        if (job.state == JobState::pending && job.impossible) {
            return "it can never start: no set of nodes could ever hold it";
        }
        return scheduler_.explain(j, simulation_.now());
    }

    void look(const Expectation& e, std::size_t index) {
        const std::int64_t now = simulation_.now();
        if (e.kind == Expectation::Kind::budget_mean) {
            if (now >= e.from && now <= e.to && (now - e.from) % e.every == 0) {
                look_at_stretch(e, index);
            }
            return;
        }
        if (e.at != now) {
            return;
        }
        switch (e.kind) {
            case Expectation::Kind::job_at:
                look_at_job(e);
                break;
            case Expectation::Kind::order:
                look_at_order(e);
                break;
            case Expectation::Kind::budget_charge:
                look_at_charge(e);
                break;
            case Expectation::Kind::budget_gpus: {
                const std::int64_t gpus = sum_below(e.name, [this](const std::string& name) {
                    return simulation_.held_gpus(name);
                });
                if (!e.wanted.holds(static_cast<double>(gpus))) {
                    fail(e, std::to_string(gpus), siblings(e.name));
                }
                break;
            }
            case Expectation::Kind::node:
                look_at_node(e);
                break;
            default:
                break;
        }
    }

    void look_at_job(const Expectation& e) {
        const JobIndex j = find_job(e.name);
        if (j == kNoJob) {
            fail(e, "no such copy yet", {});
            return;
        }
        const SimJob& job = simulation_.state().jobs[j];
        if (!e.state.empty() && word_of(job.state) != e.state) {
            fail(e, std::string(word_of(job.state)), explain(j));
        }
        if (e.protected_until && job.protected_until != *e.protected_until) {
            fail(e, "protected until " + std::to_string(job.protected_until), explain(j));
        }
    }

    void look_at_whole(const Expectation& e) {
        const JobIndex j = find_job(e.name);
        if (j == kNoJob) {
            fail(e, "no such copy until the end", {});
            return;
        }
        const SimJob& job = simulation_.state().jobs[j];
        std::int64_t first_start = -1;
        std::string runs;
        for (const SegmentRecord& segment : simulation_.record().segments) {
            if (segment.job == j) {
                first_start = first_start < 0 ? segment.begin_at : first_start;
                runs += (runs.empty() ? "segments from " : ", ") + std::to_string(segment.begin_at);
            }
        }
        if (e.starts && (first_start < e.starts->first || first_start > e.starts->second)) {
            fail(e,
                 first_start < 0 ? "that it never started"
                                 : "its first start at " + std::to_string(first_start),
                 explain(j));
        }
        if (e.runs && job.runs != *e.runs) {
            fail(e, std::to_string(job.runs) + (job.runs == 1 ? " run" : " runs"),
                 runs.empty() ? explain(j) : runs);
        }
    }

    void look_at_order(const Expectation& e) {
        std::vector<std::string> wanted, found;
        std::vector<JobIndex> ranked;
        const auto& jobs = simulation_.state().jobs;
        for (const JobIndex j : scheduler_.ranked(simulation_.now())) {
            const std::string& id = jobs[j].spec->id;
            if (std::find(e.order.begin(), e.order.end(), id) != e.order.end()) {
                found.push_back(id);
                ranked.push_back(j);
            }
        }
        // "The pending jobs among those named."
        for (const std::string& id : e.order) {
            if (std::find(found.begin(), found.end(), id) != found.end()) {
                wanted.push_back(id);
            }
        }
        if (found == wanted && !found.empty()) {
            return;
        }
        std::string text;
        for (const std::string& id : found) {
            text += (text.empty() ? "" : ", ") + id;
        }
        const auto differ = std::mismatch(found.begin(), found.end(), wanted.begin()).first;
        const JobIndex displaced =
            differ == found.end() ? kNoJob : find_job(wanted[std::size_t(differ - found.begin())]);
        fail(e, found.empty() ? "none of them pending" : text,
             displaced == kNoJob ? "" : explain(displaced));
    }

    void look_at_charge(const Expectation& e) {
        const Standings standings = scheduler_.standings(simulation_.now());
        for (BudgetId b = 0; b < standings.budgets.size(); ++b) {
            if (standings.budgets[b].name != e.name) {
                continue;
            }
            const SideStanding& side = standings.side(2 * b);
            const double seconds = static_cast<double>(standings.window.length_seconds);
            const double plain = static_cast<double>(side.usage.plain[0]) / 3.6e6;
            const double committed = static_cast<double>(side.commitment) / seconds / 3.6e6;
            if (!e.wanted.holds(plain + committed)) {
                fail(e, number_text(plain + committed),
                     "charged " + number_text(plain) + ", committed " + number_text(committed));
            }
            return;
        }
        fail(e, "no such budget yet", {});
    }

    void look_at_node(const Expectation& e) {
        const auto& nodes = simulation_.state().cluster.nodes;
        const auto it = std::find_if(nodes.begin(), nodes.end(),
                                     [&e](const SimNode& node) { return node.name == e.name; });
        const SimNodeState& state =
            simulation_.state().nodes[static_cast<std::size_t>(it - nodes.begin())];
        const std::int64_t used = it->gpus - state.free_gpus;
        const std::string word = state.down       ? "down"
                                 : state.draining ? (used > 0 ? "draining" : "drained")
                                 : used > 0       ? "busy"
                                                  : "idle";
        std::string who;
        for (const SimJob& job : simulation_.state().jobs) {
            if (std::any_of(job.where.begin(), job.where.end(), [&](const NodeShare& share) {
                    return share.node == static_cast<NodeIndex>(it - nodes.begin());
                })) {
                who += (who.empty() ? "on it: " : ", ") + job.spec->id + " (protected until " +
                       std::to_string(job.protected_until) + ")";
            }
        }
        if (!e.state.empty() && word != e.state) {
            fail(e, word, who);
        }
        if (e.gpus_used && used != *e.gpus_used) {
            fail(e, std::to_string(used) + " GPUs in use", who);
        }
    }

    void look_at_stretch(const Expectation& e, std::size_t index) {
        const std::int64_t held = sum_below(
            e.name, [this](const std::string& name) { return simulation_.held_gpu_seconds(name); });
        if (simulation_.now() > e.from) {
            const double mean =
                static_cast<double>(held - stretch_begins_[index]) / static_cast<double>(e.every);
            if (!e.wanted.holds(mean)) {
                fail(e,
                     number_text(mean) + " from " + std::to_string(simulation_.now() - e.every) +
                         " to " + std::to_string(simulation_.now()),
                     siblings(e.name));
            }
        }
        stretch_begins_[index] = held;
    }

    // Of a budget and all below it.
    template <typename Value>
    std::int64_t sum_below(const std::string& top, Value value) const {
        std::int64_t sum = 0;
        for (const auto& [name, above] : scenario_.ancestors) {
            if (above == top) {
                sum += value(name);
            }
        }
        return sum;
    }

    // The sides that compete with that budget, with their numbers.
    std::string siblings(const std::string& name) {
        const Standings standings = scheduler_.standings(simulation_.now());
        std::int64_t available = 0;
        const SimState& state = simulation_.state();
        for (NodeIndex n = 0; n < state.nodes.size(); ++n) {
            const SimNode& node = state.cluster.nodes[n];
            available += state.nodes[n].usable()
                             ? node.gpus * scenario_.settings.gpu_weight_milli(node.gpu_type)
                             : 0;
        }
        BudgetId parent = kNoId;
        for (const BudgetPlace& place : standings.budgets) {
            parent = place.name == name ? place.parent : parent;
        }
        std::string text;
        for (BudgetId b = 2; b < standings.budgets.size() && parent != kNoId; ++b) {
            const BudgetPlace& place = standings.budgets[b];
            if (!place.exists || place.parent != parent) {
                continue;
            }
            const SideNumbers side =
                side_numbers(standings, 2 * b, standings.side(2 * b).charge(), available);
            text += (text.empty() ? "" : "\n") + place.name + ": used " +
                    people_gpu_hours(side.charge_milli_hours) + " of " +
                    people_gpu_hours(side.entitled_milli_hours) + " GPU h funded (ratio " +
                    people_ratio(side.ratio_milli()) + "), holds " +
                    std::to_string(sum_below(
                        place.name,
                        [this](const std::string& each) { return simulation_.held_gpus(each); })) +
                    " GPUs";
        }
        return text;
    }

    void measure(const Expectation& e) {
        const SimRecord& record = outcome_.record;
        double value = 0;
        std::string numbers;
        if (e.name == "preemptions" || e.name == "wasted_preemptions" ||
            e.name == "inside_contract") {
            value = static_cast<double>(count_preemptions(e, numbers));
        } else if (e.name == "idle_gpu_hours") {
            value = static_cast<double>(record.idle_gpu_seconds) / 3600;
            numbers = "of " + number_text(double(record.available_gpu_seconds) / 3600) +
                      " available GPU hours";
        } else if (e.name == "wait_p90") {
            value = wait_p90(e.of, numbers);
        } else {
            const bool charged = e.name == "charged_gpu_hours";
            const auto hours = [&](const std::string& name) {
                std::int64_t sum = 0;
                for (const BudgetRecord& budget : record.budgets) {
                    for (std::size_t h = 0; budget.name == name && h < budget.hours.size(); ++h) {
                        sum += charged ? budget.hours[h].charged : budget.hours[h].free;
                    }
                }
                return sum;
            };
            value = static_cast<double>(sum_below(e.of, hours)) / 3600;
            for (const BudgetRecord& budget : record.budgets) {
                numbers += (numbers.empty() ? "" : ", ") + budget.name + " " +
                           number_text(double(hours(budget.name)) / 3600);
            }
        }
        if (!e.wanted.holds(value)) {
            fail(e, number_text(value), numbers);
        }
    }

    std::int64_t count_preemptions(const Expectation& e, std::string& numbers) const {
        const SimRecord& record = outcome_.record;
        std::int64_t count = 0;
        const auto note = [&](std::int64_t at, JobIndex victim, const std::string& how) {
            if (++count <= 10) {
                numbers += (numbers.empty() ? "at " : "\nat ") + std::to_string(at) + " " +
                           record.jobs[victim].job.id + " " + how;
            }
        };
        for (const PreemptionEvent& event : record.preemptions) {
            if ((e.name == "preemptions" &&
                 (e.of.empty() || record.jobs[event.victim].job.budget == e.of)) ||
                (e.name == "wasted_preemptions" && event.outcome == PreemptionOutcome::wasted) ||
                (e.name == "inside_contract" && event.inside_contract)) {
                note(event.at, event.victim,
                     "for " + record.jobs[event.claimant].job.id + ": " + event.reason);
            }
        }
        for (const SegmentRecord& segment : record.segments) {
            if (e.name == "inside_contract" &&
                (segment.end == SegmentEnd::drained_requeued ||
                 segment.end == SegmentEnd::drained_ended) &&
                segment.warned_at < segment.protected_until) {
                note(segment.warned_at, segment.job, "for a drain");
            }
        }
        return count;
    }

    // Nearest rank. Who has not started waits until the end, or until it left.
    double wait_p90(const std::string& of, std::string& numbers) const {
        const SimRecord& record = outcome_.record;
        const std::int64_t gpus = record.cluster.gpus();
        std::vector<std::int64_t> waits;
        for (const JobRecord& job : record.jobs) {
            const bool small = job.job.gpus <= 8 && !job.fits_lane;
            const bool belongs = of == "all" || job.job.wait_class == of || job.job.budget == of ||
                                 (of == "debug" && job.fits_lane) || (of == "small" && small) ||
                                 (of == "large" && job.job.gpus * 4 >= gpus);
            if (!belongs || job.state == JobState::future || job.state == JobState::refused) {
                continue;
            }
            const std::int64_t until = job.first_start_at >= 0 ? job.first_start_at
                                       : job.ended_at >= 0     ? job.ended_at
                                                               : record.end_at;
            waits.push_back(until - job.submitted_at);
        }
        if (waits.empty()) {
            numbers = "no such job was submitted";
            return 0;
        }
        std::sort(waits.begin(), waits.end());
        numbers = std::to_string(waits.size()) + " jobs, the longest wait " +
                  std::to_string(waits.back()) + " s";
        return static_cast<double>(waits[(waits.size() * 90 + 99) / 100 - 1]);
    }

    const Scenario& scenario_;
    Simulation simulation_;
    BudgetScheduler scheduler_;
    ScenarioOutcome outcome_;
    std::vector<std::int64_t> stretch_begins_;
    std::unordered_map<std::string, JobIndex> by_id_;
    std::size_t known_ = 0;
};

}  // namespace

bool Wanted::holds(double value) const noexcept {
    constexpr double kHair = 1e-9;
    const double slack = static_cast<double>(tolerance_milli) / 1000 + kHair;
    const auto number = [](std::int64_t milli) { return static_cast<double>(milli) / 1000; };
    return (!equals_milli || std::abs(value - number(*equals_milli)) <= slack) &&
           (!least_milli || value >= number(*least_milli) - slack) &&
           (!most_milli || value <= number(*most_milli) + slack);
}

ScenarioOutcome check_scenario(const Scenario& scenario,
                               const std::function<void(BudgetScheduler&)>& prepare) {
    return Check(scenario, prepare).run();
}

}  // namespace tranche::sim
