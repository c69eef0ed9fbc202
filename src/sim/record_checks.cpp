// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/record_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>

namespace tranche::sim {
namespace {

constexpr std::size_t kMostViolations = 20;

class Checks {
  public:
    explicit Checks(const SimRecord& record) : record_(record) {}

    Invariants all() {
        contracts();
        nodes();
        sum();
        charges();
        order();
        shapes();
        return std::move(found_);
    }

  private:
    const SimRecord& record_;
    Invariants found_;

    void broken(bool Invariants::*rule, std::string text) {
        found_.*rule = false;
        if (found_.violations.size() < kMostViolations) {
            found_.violations.push_back(std::move(text));
        }
    }

    std::string run_name(const SegmentRecord& segment) const {
        return "job " + record_.jobs[segment.job].job.id + ", run " + std::to_string(segment.run);
    }

    void contracts() {
        for (const SegmentRecord& segment : record_.segments) {
            const bool taken = segment.end == SegmentEnd::preempted_requeued ||
                               segment.end == SegmentEnd::preempted_ended ||
                               segment.end == SegmentEnd::drained_requeued ||
                               segment.end == SegmentEnd::drained_ended;
            const std::int64_t asked_at =
                segment.warned_at != 0 ? segment.warned_at : segment.end_at;
            if (taken && asked_at < segment.protected_until) {
                broken(&Invariants::no_preemption_inside_contract,
                       run_name(segment) + ": asked to leave at " + std::to_string(asked_at) +
                           ", protected until " + std::to_string(segment.protected_until));
            }
        }
    }

    void nodes() {
        struct Change {
            std::int64_t at;
            std::int64_t gpus;
            std::size_t segment;
        };
        std::vector<std::vector<Change>> changes(record_.cluster.nodes.size());
        // Of each GPU, until when it is held; segments come in the order of their begin.
        std::vector<std::vector<std::int64_t>> held_until;
        for (const SimNode& node : record_.cluster.nodes) {
            held_until.emplace_back(static_cast<std::size_t>(node.gpus), INT64_MIN);
        }
        for (const std::size_t i : by_begin()) {
            const SegmentRecord& segment = record_.segments[i];
            const std::int64_t end_at = end_of(record_, segment);
            if (end_at <= segment.begin_at) {
                continue;
            }
            const bool has_rows =
                static_cast<std::int64_t>(segment.slots.size()) == gpus_of(segment);
            std::size_t slot = 0;
            for (const NodeShare& share : segment.where) {
                if (share.node >= changes.size()) {
                    broken(&Invariants::no_node_overfilled,
                           run_name(segment) + ": on node " + std::to_string(share.node) + " of " +
                               std::to_string(changes.size()));
                    slot += static_cast<std::size_t>(share.gpus);
                    continue;
                }
                changes[share.node].push_back({segment.begin_at, share.gpus, i});
                changes[share.node].push_back({end_at, -share.gpus, i});
                for (std::int64_t k = 0; has_rows && k < share.gpus; ++k) {
                    hold_row(segment, share.node, segment.slots[slot++], end_at,
                             held_until[share.node]);
                }
            }
        }
        for (std::size_t node = 0; node < changes.size(); ++node) {
            std::vector<Change>& list = changes[node];
            std::sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
                return std::tie(a.at, a.gpus, a.segment) < std::tie(b.at, b.gpus, b.segment);
            });
            std::int64_t held = 0;
            for (const Change& change : list) {
                held += change.gpus;
                if (change.gpus > 0 && held > record_.cluster.nodes[node].gpus) {
                    broken(&Invariants::no_node_overfilled,
                           "node " + record_.cluster.nodes[node].name + ": " +
                               std::to_string(held) + " of its " +
                               std::to_string(record_.cluster.nodes[node].gpus) +
                               " GPUs are held at " + std::to_string(change.at) + ", by " +
                               run_name(record_.segments[change.segment]) + " too");
                    break;
                }
            }
        }
    }

    std::vector<std::size_t> by_begin() const {
        std::vector<std::size_t> order(record_.segments.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto earlier = [&](std::size_t a, std::size_t b) {
            return record_.segments[a].begin_at < record_.segments[b].begin_at;
        };
        if (!std::is_sorted(order.begin(), order.end(), earlier)) {
            std::stable_sort(order.begin(), order.end(), earlier);
        }
        return order;
    }

    void hold_row(const SegmentRecord& segment, NodeIndex node, std::size_t row,
                  std::int64_t end_at, std::vector<std::int64_t>& held_until) {
        const std::string& name = record_.cluster.nodes[node].name;
        if (row >= held_until.size()) {
            broken(&Invariants::no_node_overfilled,
                   run_name(segment) + ": on GPU " + std::to_string(row) + " of node " + name +
                       ", which has " + std::to_string(held_until.size()));
        } else if (held_until[row] > segment.begin_at) {
            broken(&Invariants::no_node_overfilled, "node " + name + ": GPU " +
                                                        std::to_string(row) + " has two runs at " +
                                                        std::to_string(segment.begin_at));
        } else {
            held_until[row] = end_at;
        }
    }

    void sum() {
        std::int64_t held = 0;
        for (const SegmentRecord& segment : record_.segments) {
            const std::int64_t begin_at = std::max(segment.begin_at, record_.begin_at);
            held +=
                std::max<std::int64_t>(0, end_of(record_, segment) - begin_at) * gpus_of(segment);
        }
        if (held != record_.used_gpu_seconds) {
            broken(&Invariants::segments_sum_to_used, "the runs held " + std::to_string(held) +
                                                          " GPU seconds, counted as used are " +
                                                          std::to_string(record_.used_gpu_seconds));
        }
    }

    // A budget is charged at most for the allocated runs of its jobs and of those below it.
    void charges() {
        std::map<std::string, std::size_t> index;
        for (std::size_t i = 0; i < record_.budgets.size(); ++i) {
            if (!record_.budgets[i].name.empty()) {  // else jobs that no budget pays for
                index.emplace(record_.budgets[i].name, i);
            }
        }
        std::vector<std::int64_t> allocated(record_.budgets.size(), 0);
        for (const SegmentRecord& segment : record_.segments) {
            if (segment.kind != RunKind::allocated) {
                continue;
            }
            const std::string& budget = record_.jobs[segment.job].job.budget;
            auto found = index.find(budget);
            if (found == index.end()) {
                broken(&Invariants::only_allocated_runs_charged,
                       run_name(segment) + ": allocated, but no budget pays for it");
                continue;
            }
            const std::int64_t begin_at = std::max(segment.begin_at, record_.begin_at);
            const std::int64_t amount =
                std::max<std::int64_t>(0, end_of(record_, segment) - begin_at) * gpus_of(segment);
            for (std::size_t depth = 0; found != index.end() && depth < index.size(); ++depth) {
                allocated[found->second] += amount;
                found = index.find(record_.budgets[found->second].parent);
            }
        }
        for (std::size_t i = 0; i < record_.budgets.size(); ++i) {
            std::int64_t charged = 0;
            for (const BudgetHour& hour : record_.budgets[i].hours) {
                charged += hour.charged;
            }
            if (charged > allocated[i]) {
                broken(&Invariants::only_allocated_runs_charged,
                       "budget " + record_.budgets[i].name + ": charged " +
                           std::to_string(charged) + " GPU seconds, its allocated runs held " +
                           std::to_string(allocated[i]));
            }
        }
    }

    void order() {
        std::vector<const SegmentRecord*> by_job;
        by_job.reserve(record_.segments.size());
        for (const SegmentRecord& segment : record_.segments) {
            by_job.push_back(&segment);
        }
        std::stable_sort(by_job.begin(), by_job.end(),
                         [](const SegmentRecord* a, const SegmentRecord* b) {
                             return std::tie(a->job, a->begin_at, a->end_at) <
                                    std::tie(b->job, b->begin_at, b->end_at);
                         });
        for (std::size_t i = 1; i < by_job.size(); ++i) {
            const SegmentRecord& before = *by_job[i - 1];
            const SegmentRecord& after = *by_job[i];
            if (before.job == after.job && after.begin_at < end_of(record_, before)) {
                broken(&Invariants::runs_of_a_job_disjoint,
                       run_name(after) + ": begins at " + std::to_string(after.begin_at) +
                           ", while run " + std::to_string(before.run) + " goes on until " +
                           std::to_string(end_of(record_, before)));
            }
        }
    }

    void shapes() {
        std::map<std::string, std::int64_t> largest;  // GPUs of a node, by type; "": of any
        for (const SimNode& node : record_.cluster.nodes) {
            for (const std::string& type : {std::string(), node.gpu_type}) {
                std::int64_t& gpus = largest[type];
                gpus = std::max(gpus, node.gpus);
            }
        }
        for (const SegmentRecord& segment : record_.segments) {
            const WorkloadJob& job = record_.jobs[segment.job].job;
            std::string fault = shape_fault(job, segment, largest[job.gpu_type]);
            if (!fault.empty()) {
                broken(&Invariants::gangs_on_exactly_their_nodes, run_name(segment) + ": " + fault);
            }
        }
    }

    std::string shape_fault(const WorkloadJob& job, const SegmentRecord& segment,
                            std::int64_t node_gpus) const {
        std::vector<NodeIndex> nodes;
        std::int64_t least = INT64_MAX, most = 0;
        for (const NodeShare& share : segment.where) {
            nodes.push_back(share.node);
            least = std::min(least, share.gpus);
            most = std::max(most, share.gpus);
            if (!job.gpu_type.empty() && share.node < record_.cluster.nodes.size() &&
                record_.cluster.nodes[share.node].gpu_type != job.gpu_type) {
                return "wants " + job.gpu_type + ", is on node " +
                       record_.cluster.nodes[share.node].name;
            }
        }
        const auto count = static_cast<std::int64_t>(nodes.size());
        std::sort(nodes.begin(), nodes.end());
        if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) {
            return "has one node twice";
        }
        if (gpus_of(segment) != job.gpus) {
            return "wants " + std::to_string(job.gpus) + " GPUs, has " +
                   std::to_string(gpus_of(segment));
        }
        const std::int64_t wanted =
            job.nodes > 0
                ? job.nodes
                : (node_gpus > 0 ? std::max<std::int64_t>(1, (job.gpus + node_gpus - 1) / node_gpus)
                                 : count);
        if (count != wanted) {
            return "wants " + std::to_string(wanted) + " nodes, has " + std::to_string(count);
        }
        if (count > 1 && most - least > 1) {
            return "has " + std::to_string(least) + " to " + std::to_string(most) +
                   " GPUs on its nodes";
        }
        return {};
    }
};

}  // namespace

std::int64_t gpus_of(const SegmentRecord& segment) noexcept {
    std::int64_t sum = 0;
    for (const NodeShare& share : segment.where) {
        sum += share.gpus;
    }
    return sum;
}

std::int64_t end_of(const SimRecord& record, const SegmentRecord& segment) noexcept {
    return segment.end == SegmentEnd::still_running ? record.end_at
                                                    : std::min(segment.end_at, record.end_at);
}

Invariants check_invariants(const SimRecord& record) {
    return Checks(record).all();
}

}  // namespace tranche::sim
