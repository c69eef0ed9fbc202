// SPDX-License-Identifier: GPL-2.0-or-later
// What is asked of the simulated cluster: jobs as their owners submit them, and what happens to
// the cluster meanwhile. Plain values, before anything is simulated.
//
// Instants are whole seconds of the workload's own zero; durations whole seconds; GPUs the job's
// total.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/cluster.hpp"
#include "common/model/standings.hpp"
#include "common/units/team_priority.hpp"

namespace tranche::sim {

struct WorkloadJob {
    std::string id;
    std::int64_t submit_at = 0;
    std::string account, user;  // as in the file; empty: not said
    std::string budget;         // that pays; empty: none (found from account and user)
    std::string name;
    std::string gpu_type;    // empty: any
    std::string node;        // where its first run is placed; empty: anywhere
    std::string wait_class;  // the `class` column; empty: only the classes of DESIGN 1
    std::string array;       // tasks of one array have the same text; empty: not of an array
    std::string parent;      // the workload it belongs to; empty: array, else user and name
    std::int64_t gpus = 0;
    std::int64_t nodes = 0;                           // 0: as few as hold its GPUs
    std::optional<std::int64_t> min_runtime_seconds;  // nullopt: not said, DefaultMinRuntime holds
    std::int64_t runtime_seconds = 0;                 // of work, if nobody disturbs it
    std::int64_t time_limit_seconds = kNever;
    std::int64_t exit_seconds = 30;       // to leave when warned, capped by the grace
    std::int64_t restart_seconds = 0;     // of each run after the first, before work goes on
    std::int64_t checkpoint_seconds = 0;  // between checkpoints; 0: always saved
    std::int64_t nice = 0;
    TeamPriority team_priority = TeamPriority::normal;
    bool resumable = true;
    bool says_resumable = false;  // the file had it
    bool interactive = false;
    bool free_first = false;
    bool endless = false;  // submitted anew when it ends
};

enum class EventKind : std::uint8_t {
    cancel,
    suspend,
    resume_job,
    drain,
    undrain,
    node_fail,
    node_up,
    set_shares,
    add_budget,
    set_team_priority,
    restart,
};

// The words of DESIGN 4.6's `do`.
std::string_view to_text(EventKind kind) noexcept;
std::optional<EventKind> parse_event_kind(std::string_view text);

struct WorkloadEvent {
    std::int64_t at = 0;
    EventKind kind = EventKind::cancel;
    std::string job;                 // cancel, suspend, resume_job, set_team_priority
    std::vector<std::string> nodes;  // drain, undrain, node_fail, node_up
    std::string reason;              // drain
    std::string budget, parent;      // set_shares, add_budget
    std::uint32_t shares = 0;
    TeamPriority team_priority = TeamPriority::normal;
};

// What the ledger holds before the workload begins: `gpus` from `from` to `to`.
struct PastUse {
    std::string budget, user;
    std::int64_t gpus = 0, from = 0, to = 0;
    RunKind kind = RunKind::allocated;
};

struct Workload {
    std::vector<WorkloadJob> jobs;  // by submit_at, ties in file order
    std::vector<WorkloadEvent> events;
    std::vector<PastUse> past;
};

struct SimNode {
    std::string name;
    std::string gpu_type;  // empty: untyped
    std::int64_t gpus = 0;
};

struct SimCluster {
    std::vector<SimNode> nodes;
    std::int64_t cycle_seconds = 30;  // passes run at least this often
    std::int64_t boot_seconds = 0;    // when a node is first allocated

    std::int64_t gpus() const noexcept {
        std::int64_t sum = 0;
        for (const SimNode& node : nodes) {
            sum += node.gpus;
        }
        return sum;
    }
};

}  // namespace tranche::sim
