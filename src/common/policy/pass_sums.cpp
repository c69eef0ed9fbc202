// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/policy/pass_sums.hpp"

#include <algorithm>

#include "common/policy/classes.hpp"

namespace tranche {

bool is_takeable(const Run& run, std::int64_t now) noexcept {
    return run.kind != RunKind::outside && !run.spared &&
           (run.state == RunState::running || run.state == RunState::suspended) &&
           now >= run.others_protected_until &&
           (run.kind == RunKind::unallocated || now >= run.protected_until);
}

PassSums sums_of(const ClusterView& view, const Settings& settings, bool one_plan_per_node) {
    PassSums sums;
    const std::size_t count = view.nodes.size();
    sums.empty.resize(count);
    sums.runs_on.resize(count);
    for (NodeIndex n = 0; n < count; ++n) {
        const Node& node = view.nodes[n];
        const bool open = node.usable && !node.settling;
        sums.empty[n] = {node.free_gpus, node.free_cpus, node.free_memory_mib, open, open, kNever};
    }
    sums.room = sums.future = sums.empty;
    for (NodeIndex n = 0; n < count; ++n) {
        sums.future[n].open = view.nodes[n].usable;
    }
    for (std::uint32_t r = 0; r < view.runs.size(); ++r) {
        const Run& run = view.runs[r];
        const bool leaves = run.state == RunState::leaving || run.state == RunState::completing;
        const bool counts = run.under_contract(view.now) && !run.express;
        for (const NodeShare& share : run.where) {
            sums.runs_on[share.node].push_back(r);
            if (leaves) {
                sums.future[share.node].gpus += share.gpus;
                sums.future[share.node].cpus += share.cpus;
                sums.future[share.node].memory_mib += share.memory_mib;
            }
            if (counts && view.nodes[share.node].usable) {
                sums.protected_gpus += share.gpus;
            }
        }
        if (run.express) {
            sums.express_runs.push_back(r);
        }
        if (is_takeable(run, view.now)) {
            sums.takeable.push_back(r);
        }
        if (run.kind == RunKind::allocated && run.protected_until > view.now) {
            sums.next_contract_end_at = std::min(sums.next_contract_end_at, run.protected_until);
        }
    }
    for (const Plan& plan : view.plans) {
        sums.protected_gpus += plan.express ? 0 : plan.gpus;
        for (const NodeShare& share : plan.where) {
            for (std::vector<RoomNode>* rooms : {&sums.room, &sums.future}) {
                (*rooms)[share.node].gpus -= share.gpus;
                (*rooms)[share.node].cpus -= share.cpus;
                (*rooms)[share.node].memory_mib -= share.memory_mib;
            }
            if (one_plan_per_node) {
                sums.room[share.node].open = false;
                sums.future[share.node].plannable = false;
            }
        }
    }
    sums.available_gpus = view.available_gpus();
    sums.allowed_protected_gpus = protected_gpus_allowed(view, settings);
    return sums;
}

}  // namespace tranche
