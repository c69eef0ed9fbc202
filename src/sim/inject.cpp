// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/inject.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/random.hpp"
#include "sim/rule_words.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kMostADay = 1'000'000;
constexpr std::int64_t kMostDrawnGpus = 8;
constexpr std::int64_t kMostInjected = 5'000'000;

struct InjectRule {
    std::string name;
    std::int64_t a_day = 0;
    std::int64_t gpus = 0;  // 0: drawn
    std::int64_t min_runtime_seconds = 900;
    std::uint64_t seed = 1;
};

Result<InjectRule> parse_rule(std::string_view text, std::uint64_t seed) {
    const auto bad = [&](const std::string& what) {
        return Error{"inject " + quoted(text) + ": " + what};
    };
    const auto words = split_rules(text);
    if (!words.ok()) {
        return Error{"inject " + words.error()};
    }
    InjectRule rule;
    rule.seed = seed;
    for (const RuleWord& word : *words) {
        if (word.bare) {
            const std::size_t colon = word.name.find(':');
            const std::size_t slash = word.name.find('/');
            if (!rule.name.empty() || colon == std::string::npos || slash == std::string::npos ||
                slash < colon || colon == 0) {
                return bad("debug:120/day would be right");
            }
            rule.name = word.name.substr(0, colon);
            const auto count =
                parse_count(std::string_view(word.name).substr(colon + 1, slash - colon - 1));
            const std::string unit = word.name.substr(slash + 1);
            if (!count || *count < 1 || *count > kMostADay || (unit != "day" && unit != "hour") ||
                check_budget_name(rule.name).ok() == false) {
                return bad("a whole number from 1 to " + std::to_string(kMostADay) +
                           ", as in debug:120/day or debug:5/hour, would be right");
            }
            rule.a_day = unit == "day" ? *count : *count * 24;
        } else if (word.name == "gpus") {
            const auto count = parse_count(word.value);
            if (!count || *count < 1 || *count > kMostGpus) {
                return bad("gpus=N with 1 to " + std::to_string(kMostGpus) + " would be right");
            }
            rule.gpus = *count;
        } else if (word.name == "min") {
            const auto minimum = parse_duration(word.value);
            if (!minimum.ok() || *minimum < 1) {
                return bad("min=15m would be right");
            }
            rule.min_runtime_seconds = *minimum;
        } else if (word.name == "seed") {
            const auto given = parse_seed(word.value);
            if (!given.ok()) {
                return bad(given.error());
            }
            rule.seed = *given;
        } else {
            return bad(quoted(word.name) + " is not known; debug:120/day gpus=N min=TIME seed=N");
        }
    }
    if (rule.a_day == 0) {
        return bad("it names no jobs; debug:120/day would be right");
    }
    return rule;
}

struct Owner {
    std::string account;
    std::vector<std::string> users;
};

std::vector<Owner> owners_of(const std::vector<WorkloadJob>& jobs) {
    std::map<std::string, std::set<std::string>> by_account;
    for (const WorkloadJob& job : jobs) {
        by_account[job.account].insert(job.user);
    }
    std::vector<Owner> owners;
    owners.reserve(by_account.size());
    for (const auto& each : by_account) {
        owners.push_back({each.first, {each.second.begin(), each.second.end()}});
    }
    return owners;
}

// One id that no job has yet.
std::string free_prefix(const std::vector<WorkloadJob>& jobs, std::string prefix) {
    const auto is_taken = [&] {
        return std::any_of(jobs.begin(), jobs.end(),
                           [&](const WorkloadJob& job) { return job.id.starts_with(prefix); });
    };
    while (is_taken()) {
        prefix.insert(0, "+");
    }
    return prefix;
}

}  // namespace

Status inject(ReadWorkload& workload, std::string_view rules, std::uint64_t seed,
              const SimCluster& cluster, std::size_t number, std::int64_t until,
              std::optional<std::int64_t> from) {
    const auto rule = parse_rule(rules, seed);
    if (!rule.ok()) {
        return rule.failure();
    }
    const ClusterRoom room(cluster);
    WorkloadJob largest;
    largest.gpus = rule->gpus != 0 ? rule->gpus : kMostDrawnGpus;
    if (const std::string what = room.objection(largest); !what.empty()) {
        return Error{"inject " + quoted(rules) + ": " +
                     (rule->gpus != 0 ? "each job " : "without gpus=N some job ") + what +
                     "; gpus=N with 1 to " + std::to_string(room.gpus()) + " would be right"};
    }
    if (workload.jobs.empty()) {
        return Error{"inject: there are no jobs beside which any could be added"};
    }
    const std::int64_t begin = from.value_or(workload.jobs.front().submit_at);
    const std::int64_t end = until != kNever ? until : workload.jobs.back().submit_at + 1;
    if (end <= begin) {
        return Error{"inject " + quoted(rules) +
                     ": there is no time in which jobs could be added; "
                     "--until=TIME would be right"};
    }
    const std::vector<Owner> owners = owners_of(workload.jobs);
    if ((end - begin) / kDay * rule->a_day > kMostInjected) {
        return Error{"inject " + quoted(rules) + ": that is more than " +
                     std::to_string(kMostInjected) + " jobs"};
    }
    // The first rule's stream has no number.
    Random random(rule->seed, "inject " + rule->name +
                                  (number == 0 ? std::string() : " " + std::to_string(number)));
    std::vector<WorkloadJob> added;
    for (std::int64_t day = begin; day < end; day += kDay) {
        const std::int64_t length = std::min(kDay, end - day);
        const std::int64_t count = (rule->a_day * length + kDay / 2) / kDay;
        for (std::int64_t i = 0; i < count; ++i) {
            const Owner& owner = owners[random.below(owners.size())];
            WorkloadJob job;
            job.submit_at = day + random.between(0, length - 1);
            job.account = owner.account;
            job.user = owner.users[random.below(owner.users.size())];
            job.name = rule->name;
            job.wait_class = rule->name;
            const auto drawn = std::int64_t{1} << random.below(4);
            job.gpus = rule->gpus != 0 ? rule->gpus : drawn;
            job.min_runtime_seconds = rule->min_runtime_seconds;
            job.runtime_seconds =
                random.between(std::max<std::int64_t>(rule->min_runtime_seconds / 8, 1),
                               rule->min_runtime_seconds);
            job.resumable = false;
            job.says_resumable = true;
            added.push_back(std::move(job));
        }
    }
    std::stable_sort(added.begin(), added.end(), [](const WorkloadJob& a, const WorkloadJob& b) {
        return a.submit_at < b.submit_at;
    });
    const std::string prefix = free_prefix(workload.jobs, rule->name + "-");
    JobOrigin origin;
    for (const Said said : {Said::account, Said::user, Said::min_runtime, Said::resumable,
                            Said::runtime, Said::wait_class}) {
        origin.say(said);
    }
    std::vector<WorkloadJob> jobs;
    std::vector<JobOrigin> origins;
    jobs.reserve(workload.jobs.size() + added.size());
    origins.reserve(workload.jobs.size() + added.size());
    std::size_t put = 0;
    const auto put_added = [&] {
        added[put].id = prefix + std::to_string(put + 1);
        jobs.push_back(std::move(added[put]));
        origins.push_back(origin);
        ++put;
    };
    for (std::size_t i = 0; i < workload.jobs.size(); ++i) {
        while (put < added.size() && added[put].submit_at < workload.jobs[i].submit_at) {
            put_added();
        }
        jobs.push_back(std::move(workload.jobs[i]));
        origins.push_back(workload.origins[i]);
    }
    while (put < added.size()) {
        put_added();
    }
    workload.jobs = std::move(jobs);
    workload.origins = std::move(origins);
    workload.notes.push_back(
        std::to_string(added.size()) + " " + rule->name +
        (added.size() == 1 ? " job was added, " : " jobs were added, ") +
        std::to_string(rule->a_day) + " a day, minimum " +
        format_duration(rule->min_runtime_seconds) + ", " +
        (rule->gpus != 0 ? std::to_string(rule->gpus) : std::string("1, 2, 4 or 8")) +
        (rule->gpus == 1 ? " GPU, with seed " : " GPUs, with seed ") + std::to_string(rule->seed));
    return {};
}

}  // namespace tranche::sim
