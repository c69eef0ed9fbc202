// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/assume.hpp"

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

constexpr std::int64_t kMostUsers = 10'000;  // of one account

struct SecondsRule {
    const char* name;
    Said said;
    void (*set)(WorkloadJob& job, std::int64_t value);
};

void set_min_runtime(WorkloadJob& job, std::int64_t value) {
    job.min_runtime_seconds = value;
}
void set_time_limit(WorkloadJob& job, std::int64_t value) {
    job.time_limit_seconds = value > 0 ? value : kNever;
}
void set_exit(WorkloadJob& job, std::int64_t value) {
    job.exit_seconds = value;
}
void set_restart(WorkloadJob& job, std::int64_t value) {
    job.restart_seconds = value;
}
void set_checkpoint(WorkloadJob& job, std::int64_t value) {
    job.checkpoint_seconds = value;
}
void set_nodes(WorkloadJob& job, std::int64_t value) {
    job.nodes = value;
}

void set_runtime(WorkloadJob& job, std::int64_t value) {
    job.runtime_seconds = std::max<std::int64_t>(value, 1);
}

constexpr SecondsRule kSeconds[] = {
    {"runtime", Said::runtime, set_runtime},
    {"min_runtime", Said::min_runtime, set_min_runtime},
    {"time_limit", Said::time_limit, set_time_limit},
    {"exit_seconds", Said::exit_seconds, set_exit},
    {"restart_seconds", Said::restart_seconds, set_restart},
    {"checkpoint_seconds", Said::checkpoint_seconds, set_checkpoint},
    {"nodes", Said::nodes, set_nodes},
};

void set_resumable(WorkloadJob& job, bool value) {
    job.resumable = value && !job.interactive;
}
void set_interactive(WorkloadJob& job, bool value) {
    job.interactive = value;
    job.resumable = job.resumable && !value;
}
void set_free_first(WorkloadJob& job, bool value) {
    job.free_first = value;
}

struct YesRule {
    const char* name;
    Said said;
    void (*set)(WorkloadJob& job, bool value);
};

constexpr YesRule kYes[] = {
    {"interactive", Said::interactive, set_interactive},
    {"resumable", Said::resumable, set_resumable},
    {"free_first", Said::free_first, set_free_first},
};

std::string jobs_text(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " job" : " jobs");
}

class Assumption {
  public:
    Assumption(ReadWorkload& workload, std::uint64_t seed, const SimCluster& cluster)
        : workload_(workload), seed_(seed), room_(cluster) {}

    Status apply(std::string_view text) {
        const auto words = split_rules(text);
        if (!words.ok()) {
            return Error{"assume " + words.error()};
        }
        if (words->empty()) {
            return Error{
                "assume: there is no rule; such as min_runtime=min(1h,runtime) would be "
                "right"};
        }
        std::set<std::string> seen;
        for (const RuleWord& word : *words) {
            if (!seen.insert(word.name).second) {
                return Error{"assume: " + word.name + " is there twice"};
            }
            if (word.name == "seed" && !word.bare) {
                const auto seed = parse_seed(word.value);
                if (!seed.ok()) {
                    return Error{"assume: " + seed.error()};
                }
                seed_ = *seed;
            }
        }
        for (const RuleWord& word : *words) {
            if (const Status status = apply(word); !status.ok()) {
                return Error{"assume: " + status.error()};
            }
        }
        return {};
    }

  private:
    template <typename Set>
    void for_silent(const RuleWord& word, Said said, Set&& set) {
        std::size_t count = 0;
        for (std::size_t i = 0; i < workload_.jobs.size(); ++i) {
            if (!workload_.origins[i].says(said)) {
                set(workload_.jobs[i]);
                ++count;
            }
        }
        workload_.notes.push_back("assumed " + word.name + "=" + word.value + " of " +
                                  jobs_text(count));
        if (count == 0) {
            workload_.notes.back() = "warning: assumed " + word.name + "=" + word.value +
                                     " of no job: the file says it of each";
        }
    }

    // "nodes=9 for job '7' (line 3): 9 nodes for 8 GPUs".
    Error refusal(const RuleWord& word, std::size_t i, const std::string& what) const {
        const std::uint32_t line = workload_.origins[i].line;
        return Error{word.name + "=" + word.value + " " + what + ", first of job " +
                     quoted(workload_.jobs[i].id) +
                     (line == 0 ? std::string() : " of line " + std::to_string(line))};
    }

    Status apply(const RuleWord& word) {
        if (word.name == "seed" && !word.bare) {
            return {};
        }
        for (const SecondsRule& rule : kSeconds) {
            if (word.name == rule.name && !word.bare) {
                return apply_seconds(word, rule);
            }
        }
        for (const YesRule& rule : kYes) {
            if (word.name == rule.name) {
                const bool yes = word.bare || word.value == "1" || word.value == "yes";
                if (!yes && word.value != "0" && word.value != "no") {
                    return Error{word.name + " " + quoted(word.value) + ": 1 or 0 would be right"};
                }
                for_silent({word.name, yes ? "1" : "0", false}, rule.said,
                           [&](WorkloadJob& job) { rule.set(job, yes); });
                return {};
            }
        }
        if (word.name == "team_priority" && !word.bare) {
            const auto priority = parse_team_priority(word.value);
            if (!priority.ok()) {
                return priority.failure();
            }
            for_silent(word, Said::team_priority,
                       [&](WorkloadJob& job) { job.team_priority = *priority; });
            return {};
        }
        if (word.name == "class" && !word.bare) {
            for_silent(word, Said::wait_class,
                       [&](WorkloadJob& job) { job.wait_class = word.value; });
            return {};
        }
        if (word.name == "account" && !word.bare) {
            for_silent(word, Said::account, [&](WorkloadJob& job) { job.account = word.value; });
            return {};
        }
        if (word.name == "users" && !word.bare) {
            return draw_users(word);
        }
        return Error{quoted(word.name) + (word.bare ? " has no value" : " is not known") +
                     "; known are " + std::string(kAssumeNames)};
    }

    Status apply_seconds(const RuleWord& word, const SecondsRule& rule) {
        const auto expression = RuleExpression::parse(word.value);
        if (!expression.ok()) {
            return Error{word.name + " " + expression.error()};
        }
        std::string mistake;
        std::size_t first = 0;
        for_silent(word, rule.said, [&](WorkloadJob& job) {
            if (!mistake.empty()) {
                return;
            }
            RuleValues values;
            values.runtime = static_cast<double>(job.runtime_seconds);
            values.gpus = static_cast<double>(job.gpus);
            values.nodes = static_cast<double>(std::max<std::int64_t>(job.nodes, 1));
            values.time_limit =
                static_cast<double>(std::min(job.time_limit_seconds, kLongestTimeSpanSeconds));
            first = static_cast<std::size_t>(&job - workload_.jobs.data());
            const auto value = expression->evaluate(values);
            if (!value.ok()) {
                mistake = value.error();
                return;
            }
            rule.set(job, std::min(*value, kLongestTimeSpanSeconds));
            if (rule.said == Said::nodes) {
                mistake = mistake_of_nodes(job);
            }
        });
        if (!mistake.empty()) {
            return refusal(word, first, mistake);
        }
        workload_.says_contracts = workload_.says_contracts || rule.said == Said::min_runtime;
        return {};
    }

    std::string mistake_of_nodes(const WorkloadJob& job) const {
        if (job.nodes < 1) {
            return "is no node";
        }
        if (job.nodes > job.gpus) {
            return "is " + std::to_string(job.nodes) + " nodes for " + std::to_string(job.gpus) +
                   (job.gpus == 1 ? " GPU" : " GPUs");
        }
        return room_.objection(job);
    }

    Status draw_users(const RuleWord& word) {
        const auto count = parse_count(word.value);
        if (!count || *count < 1 || *count > kMostUsers) {
            return Error{"users " + quoted(word.value) + ": a number from 1 to " +
                         std::to_string(kMostUsers) + " would be right"};
        }
        std::map<std::string, Random> streams;
        for_silent(word, Said::user, [&](WorkloadJob& job) {
            const auto stream =
                streams.try_emplace(job.account, seed_, "users of " + job.account).first;
            job.user = (job.account.empty() ? std::string("user") : job.account + "-user") +
                       std::to_string(1 + stream->second.below(static_cast<std::uint64_t>(*count)));
        });
        if (!streams.empty()) {
            workload_.notes.back() += ", drawn with seed " + std::to_string(seed_);
        }
        return {};
    }

    ReadWorkload& workload_;
    std::uint64_t seed_;
    ClusterRoom room_;
};

}  // namespace

Status assume(ReadWorkload& workload, std::string_view rules, std::uint64_t seed,
              const SimCluster& cluster) {
    return Assumption(workload, seed, cluster).apply(rules);
}

}  // namespace tranche::sim
