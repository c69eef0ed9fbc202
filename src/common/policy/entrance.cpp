// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/entrance.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/policy/classes.hpp"
#include "common/policy/victims.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMostKeepings = 64;  // one bit each
constexpr std::int64_t kClosedLook = 60;   // how long a hold for closed nodes is good for

using KeepingBits = std::uint64_t;

class EntranceMaker {
  public:
    EntranceMaker(const ClusterView& view, const std::vector<RankedEntry>& ranking,
                  const Standings& standings, const Settings& settings, const PassResult& pass,
                  const std::vector<std::uint32_t>& planned, const EntranceLimits& limits)
        : view_(view),
          ranking_(ranking),
          standings_(standings),
          settings_(settings),
          pass_(pass),
          limits_(limits),
          left_(pass.headroom_left_gpus),
          allowed_(protected_gpus_allowed(view, settings)),
          rule_of_(view.pending.size(), kNoId),
          exempt_(view.pending.size(), false),
          starting_(view.pending.size(), 0) {
        for (const std::uint32_t job : planned) {
            exempt_[job] = true;
        }
        for (std::uint32_t job = 0; job < view.pending.size(); ++job) {
            if (const JobId first = view.pending[job].goes_with; first != 0) {
                components_.push_back({job, index_of(first)});
                exempt_[job] =
                    components_.back().second != kNoId && exempt_[components_.back().second];
            }
        }
        for (const StartDecision& start : pass.starts) {
            starting_[start.job] += start.as_free || start.express ? 0 : 1;
        }
        count_ = std::min(pass.keepings.size(), kMostKeepings);
        for (std::size_t k = 0; k < count_; ++k) {
            const NodeKeeping& keeping = pass.keepings[k];
            const std::int64_t until = opens_at(keeping);
            list_.kept_until_at =
                list_.kept_until_at == 0 ? until : std::min(list_.kept_until_at, until);
            list_.closed = list_.closed || keeping.closed;
        }
        list_.headroom_left_gpus = left_;
    }

    EntranceList make() {
        const std::size_t entries = std::min<std::size_t>(ranking_.size(), limits_.most_entries);
        for (std::uint32_t p = 0; p < entries; ++p) {
            const RankedEntry& entry = ranking_[p];
            const PendingJob& job = view_.pending[entry.job];
            if (entry.band == Band::plan || job.turn_run >= 0 || exempt_[entry.job]) {
                continue;
            }
            limit_headroom(entry, job);
            keep_off(p, entry, job);
        }
        join_components();
        for (EntranceRule& rule : list_.rules) {
            close(rule);
        }
        std::erase_if(list_.rules, [](const EntranceRule& rule) {
            return rule.closed == kNoId && rule.not_before_at == 0 && !rule.as_free;
        });
        return std::move(list_);
    }

  private:
    std::int64_t opens_at(const NodeKeeping& keeping) const {
        return keeping.closed ? std::max(keeping.until_at, view_.now + kClosedLook)
                              : keeping.until_at;
    }

    std::uint32_t index_of(JobId id) const {
        for (std::uint32_t job = 0; job < view_.pending.size(); ++job) {
            if (view_.pending[job].id == id && view_.pending[job].turn_run < 0) {
                return job;
            }
        }
        return kNoId;
    }

    // The components of a heterogeneous job start free or are held together.
    void join_components() {
        for (const auto& [job, first] : components_) {
            if (first == kNoId || rule_of_[first] == kNoId || exempt_[job]) {
                continue;
            }
            const EntranceRule of_first = list_.rules[rule_of_[first]];
            if (of_first.as_free || of_first.not_before_at != 0) {
                rule(job).as_free = of_first.as_free;
                rule(job).not_before_at = of_first.not_before_at;
            }
        }
    }

    EntranceRule& rule(std::uint32_t job) {
        if (rule_of_[job] == kNoId) {
            rule_of_[job] = static_cast<std::uint32_t>(list_.rules.size());
            list_.rules.emplace_back().job = job;
            bits_.push_back(0);
        }
        return list_.rules[rule_of_[job]];
    }

    bool is_large(const PendingJob& job) const {
        return std::any_of(view_.assemblies.begin(), view_.assemblies.end(),
                           [&](const Assembly& a) { return a.claimant == job.id; }) ||
               std::any_of(
                   pass_.assemblies.begin(), pass_.assemblies.end(),
                   [&](const AssemblyDecision& a) { return a.assembly.claimant == job.id; });
    }

    // Only as many jobs as may come under contract between this pass and the next stay free to:
    // those that start in it, then by rank.
    void limit_headroom(const RankedEntry& entry, const PendingJob& job) {
        if (entry.band != Band::allocated || job.goes_with != 0) {
            return;
        }
        if (job.free_first) {
            rule(entry.job).as_free = true;
            return;
        }
        if (left_ == kNever || job.whole_gpus() > allowed_ || is_large(job)) {
            return;
        }
        if (rule_of_[entry.job] != kNoId && (list_.rules[rule_of_[entry.job]].as_free ||
                                             list_.rules[rule_of_[entry.job]].not_before_at != 0)) {
            return;  // its first tasks do not all fit: none of the later ones come before them
        }
        std::uint32_t tasks_now = 0;
        for (; tasks_now < entry.tasks; ++tasks_now) {
            if (starting_[entry.job] > 0) {
                --starting_[entry.job];  // counted by the pass
            } else if (job.whole_gpus() <= left_) {
                left_ -= job.whole_gpus();
            } else {
                break;
            }
        }
        if (tasks_now == entry.tasks) {
            tasks_of_[entry.job] += tasks_now;
            return;
        }
        EntranceRule& limited = rule(entry.job);
        limited.tasks_now = tasks_of_[entry.job] + tasks_now;
        if (job.resumable) {
            limited.as_free = true;
            return;
        }
        const std::int64_t at = pass_.next_contract_end_at == kNever ? view_.now + kClosedLook
                                                                     : pass_.next_contract_end_at;
        limited.not_before_at = std::max(at, view_.now) + limits_.slack_seconds;
    }

    void keep_off(std::uint32_t position, const RankedEntry& entry, const PendingJob& job) {
        if (count_ == 0) {
            return;
        }
        const bool as_free =
            rule_of_[entry.job] != kNoId && list_.rules[rule_of_[entry.job]].as_free;
        const bool allocated = is_allocated(job, standings_) && !as_free;
        const std::int64_t contract_end =
            allocated ? view_.now + limits_.slack_seconds + job.contract_seconds()
                      : (settings_.has(Rule::free_enters) ? 0 : kNever);
        KeepingBits bits = 0;
        for (std::size_t k = 0; k < count_; ++k) {
            const NodeKeeping& keeping = pass_.keepings[k];
            if (keeping.claimant == job.id || (keeping.behind && position <= *keeping.behind)) {
                continue;
            }
            if (keeping.closed || keeping.until_at < contract_end) {
                bits |= KeepingBits{1} << k;
            }
        }
        if (bits != 0 && some_suit(bits, job.shape)) {
            rule(entry.job);
            bits_[rule_of_[entry.job]] |= bits;
        }
    }

    struct KnownShape {
        KeepingBits bits;
        JobShape shape;
        bool answer;
    };
    template <typename Body>
    static bool remembered(std::vector<KnownShape>& known, KeepingBits bits, const JobShape& shape,
                           Body body) {
        for (const KnownShape& k : known) {
            if (k.bits == bits && k.shape == shape) {
                return k.answer;
            }
        }
        known.push_back({bits, shape, body()});
        return known.back().answer;
    }

    // Whether the job could be placed on one of those nodes at all.
    bool some_suit(KeepingBits bits, const JobShape& shape) {
        return remembered(suiting_, bits, shape, [&] {
            const std::vector<NodeIndex>& nodes = list_.node_sets[set_of(bits)];
            return std::any_of(nodes.begin(), nodes.end(), [&](NodeIndex n) {
                return node_suits(view_, shape, n, shape.nodes - 1);
            });
        });
    }

    std::uint32_t set_of(KeepingBits bits) {
        const auto [known, is_new] = sets_.try_emplace(bits, 0);
        if (is_new) {
            std::vector<NodeIndex> nodes;
            for (std::size_t k = 0; k < count_; ++k) {
                if ((bits >> k & 1) != 0) {
                    const auto& more = pass_.keepings[k].nodes;
                    nodes.insert(nodes.end(), more.begin(), more.end());
                }
            }
            std::sort(nodes.begin(), nodes.end());
            nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
            known->second = static_cast<std::uint32_t>(list_.node_sets.size());
            list_.node_sets.push_back(std::move(nodes));
        }
        return known->second;
    }

    // Nodes that are down count: they come back.
    bool enough_left(KeepingBits bits, const JobShape& shape) {
        return remembered(fitting_, bits, shape, [&] {
            std::vector<bool> closed(view_.nodes.size(), false);
            for (const NodeIndex n : list_.node_sets[set_of(bits)]) {
                closed[n] = true;
            }
            const auto larger = static_cast<std::uint32_t>(shape.gpus % shape.nodes);
            std::uint32_t large = 0, all = 0;
            for (NodeIndex n = 0; n < view_.nodes.size(); ++n) {
                if (!closed[n] && node_suits(view_, shape, n, shape.nodes - 1)) {
                    ++all;
                    large += node_suits(view_, shape, n, 0) ? 1 : 0;
                }
            }
            return all >= shape.nodes && large >= larger;
        });
    }

    void close(EntranceRule& rule) {
        const KeepingBits bits = bits_[rule_of_[rule.job]];
        if (bits == 0) {
            return;
        }
        std::int64_t first = kNever;
        for (std::size_t k = 0; k < count_; ++k) {
            if ((bits >> k & 1) != 0) {
                first = std::min(first, opens_at(pass_.keepings[k]));
            }
        }
        first = std::max(first, view_.now) + limits_.slack_seconds;
        if (enough_left(bits, view_.pending[rule.job].shape)) {
            rule.closed = set_of(bits);
            rule.closed_until_at = first;
        } else {
            rule.not_before_at = std::max(rule.not_before_at, first);
        }
    }

    const ClusterView& view_;
    const std::vector<RankedEntry>& ranking_;
    const Standings& standings_;
    const Settings& settings_;
    const PassResult& pass_;
    const EntranceLimits limits_;
    std::size_t count_ = 0;  // of keepings
    std::int64_t left_;
    const std::int64_t allowed_;
    std::vector<std::uint32_t> rule_of_;                               // by pending job
    std::vector<bool> exempt_;                                         // by pending job
    std::vector<std::pair<std::uint32_t, std::uint32_t>> components_;  // later ones, and the first
    std::vector<std::uint32_t> starting_;  // by pending job: tasks that come under contract
    std::unordered_map<std::uint32_t, std::uint32_t> tasks_of_;
    std::vector<KeepingBits> bits_;  // beside list_.rules
    std::unordered_map<KeepingBits, std::uint32_t> sets_;
    std::vector<KnownShape> suiting_, fitting_;
    EntranceList list_;
};

}  // namespace

EntranceList entrance_of(const ClusterView& view, const std::vector<RankedEntry>& ranking,
                         const Standings& standings, const Settings& settings,
                         const PassResult& pass, const std::vector<std::uint32_t>& planned,
                         const EntranceLimits& limits) {
    return EntranceMaker(view, ranking, standings, settings, pass, planned, limits).make();
}

bool waits_for_pass(const EntranceList& entrance, std::int64_t now, bool allocated, bool express,
                    std::int64_t contract_seconds, std::int64_t gpus, std::int64_t unranked_gpus,
                    const EntranceLimits& limits) {
    if (entrance.closed) {
        return true;
    }
    if (!allocated) {
        return false;
    }
    if (entrance.kept_until_at != 0 &&
        now + limits.slack_seconds + contract_seconds > entrance.kept_until_at) {
        return true;
    }
    return !express && entrance.headroom_left_gpus != kNever &&
           unranked_gpus + gpus > entrance.headroom_left_gpus;
}

}  // namespace tranche
