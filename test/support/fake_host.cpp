// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/fake_host.hpp"

#include <algorithm>
#include <utility>

namespace tranche::test {
namespace {

constexpr std::int64_t kMinJobAge = 300;  // a finished job is forgotten

bool left_politely(RunEnd end) {
    return end == RunEnd::completed || end == RunEnd::failed || end == RunEnd::timeout;
}

}  // namespace

FakeCluster::FakeCluster(std::uint32_t nodes, std::int64_t gpus_each) {
    for (std::uint32_t i = 1; i <= nodes; ++i) {
        HostNode node;
        node.name = "n" + std::to_string(i);
        node.gpus = gpus_each;
        node.cpus = 64;
        node.memory_mib = 1 << 20;
        nodes_.push_back(std::move(node));
    }
}

std::int64_t FakeCluster::now() const {
    const std::lock_guard lock(mutex_);
    return now_;
}

bool FakeCluster::holds(const Record& record) {
    return record.job.state == HostJobState::configuring ||
           record.job.state == HostJobState::running || record.job.state == HostJobState::suspended;
}

void FakeCluster::tick() {
    const std::lock_guard lock(mutex_);
    ++now_;
    for (auto it = jobs_.begin(); it != jobs_.end();) {
        Record& record = it->second;
        HostJob& job = record.job;
        if (job.state == HostJobState::configuring && record.boots_until <= now_) {
            job.state = HostJobState::running;
            job.start_at = now_;  // job_config_fini moves it
        } else if (job.state == HostJobState::running) {
            ++record.worked_seconds;
            const std::int64_t limit =
                job.start_at + job.suspended_seconds + job.time_limit_seconds;
            if (record.worked_seconds >= record.wish.runtime_seconds) {
                leave(record, RunEnd::completed, false);
            } else if (record.warned_at != 0 && record.wish.exit_seconds != kNever &&
                       now_ >= record.warned_at + record.wish.exit_seconds) {
                leave(record, RunEnd::completed, false);
            } else if (now_ >= limit) {
                leave(record, RunEnd::timeout, false);
            }
        } else if (job.state == HostJobState::completing && record.completes_until <= now_) {
            completed(record);
        }
        it = record.forget_at <= now_ ? jobs_.erase(it) : std::next(it);
    }
}

// The end of a run: its GPUs are free, its nodes are not until the epilog is over.
void FakeCluster::leave(Record& record, RunEnd end, bool comes_back) {
    HostJob& job = record.job;
    if (job.state == HostJobState::suspended) {
        job.suspended_seconds += now_ - job.suspended_at;
    }
    job.state = HostJobState::completing;
    job.end = end;
    job.end_at = now_;
    record.comes_back = comes_back;
    record.completes_until = now_ + completing_seconds_;
    if (completing_seconds_ == 0) {
        completed(record);
    }
}

void FakeCluster::completed(Record& record) {
    HostJob& job = record.job;
    job.where.clear();
    job.held_gpus.clear();
    job.held_cpus = 0;
    if (!record.comes_back) {
        job.state = HostJobState::finished;
        record.forget_at = now_ + kMinJobAge;
        return;
    }
    job.state = HostJobState::pending;
    job.submit_at = now_;
    job.start_at = job.end_at = 0;
    job.suspended_at = job.suspended_seconds = 0;
    ++job.restarts;
    record.begin_at = now_ + kRequeueDelay;
    record.comes_back = false;
    record.forget_at = kNever;
}

JobId FakeCluster::submit(const Wish& wish) {
    const std::lock_guard lock(mutex_);
    const JobId id = next_id_++;
    Record& record = jobs_[id];
    record.wish = wish;
    HostJob& job = record.job;
    job.id = id;
    job.name = "job" + std::to_string(id);
    job.account = wish.account;
    job.user = wish.user;
    job.uid = 1000;
    job.partition = wish.partition;
    job.partitions = {wish.partition};
    job.spared = wish.spared;
    job.submit_at = now_;
    job.time_limit_seconds = wish.time_limit_seconds;
    job.batch = !wish.interactive;
    job.requeue = job.batch && wish.resumable;
    job.explicit_requeue = job.requeue;
    job.het_job_id = wish.het_job_id;
    job.wants_notices = wish.wants_mail;
    job.shape.nodes = wish.nodes;
    job.shape.gpus = wish.gpus;
    job.shape.cpus_per_node = 1;
    job.priority = 1;
    ContractTerms terms;
    terms.min_runtime_seconds = wish.min_runtime_seconds;
    terms.resumable = job.requeue;
    terms.team_priority = wish.team_priority;
    terms.free_first = wish.free_first;
    job.contract_entries = store_terms({}, terms);
    if (wish.tasks > 0) {
        job.array_job_id = id;
        for (std::uint32_t task = 0; task < wish.tasks; ++task) {
            record.tasks.push_back(task);
        }
    }
    return id;
}

void FakeCluster::cancel(JobId id) {
    const std::lock_guard lock(mutex_);
    Record& record = jobs_.at(id);
    if (holds(record)) {
        leave(record, RunEnd::cancelled, false);
    } else if (record.job.state == HostJobState::pending) {
        record.job.state = HostJobState::finished;
        record.job.end = RunEnd::cancelled;
        record.job.start_at = record.job.end_at = now_;  // as Slurm writes them
        record.forget_at = now_ + kMinJobAge;
    }
}

void FakeCluster::requeue(JobId id) {
    const std::lock_guard lock(mutex_);
    leave(jobs_.at(id), RunEnd::requeued, true);
}

void FakeCluster::hold(JobId id, bool held) {
    const std::lock_guard lock(mutex_);
    Record& record = jobs_.at(id);
    record.held = held;
    record.job.priority = held ? 0 : 1;
}

void FakeCluster::suspend(JobId id) {
    const std::lock_guard lock(mutex_);
    HostJob& job = jobs_.at(id).job;
    job.state = HostJobState::suspended;
    job.suspended_at = now_;
}

void FakeCluster::resume(JobId id) {
    const std::lock_guard lock(mutex_);
    HostJob& job = jobs_.at(id).job;
    job.state = HostJobState::running;
    job.suspended_seconds += now_ - job.suspended_at;
    job.suspended_at = 0;
}

void FakeCluster::resize(JobId id, std::int64_t gpus) {
    const std::lock_guard lock(mutex_);
    HostJob& job = jobs_.at(id).job;
    job.where.at(0).gpus = gpus;
    job.held_gpus = {{"", gpus}};
}

void FakeCluster::reshape(JobId id, std::uint32_t nodes, std::int64_t gpus) {
    const std::lock_guard lock(mutex_);
    JobShape& shape = jobs_.at(id).job.shape;
    shape.nodes = nodes;
    shape.gpus = gpus;
}

void FakeCluster::set_node(const std::string& name, bool up, bool draining) {
    const std::lock_guard lock(mutex_);
    for (NodeIndex n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].name != name) {
            continue;
        }
        nodes_[n].up = up;
        nodes_[n].draining = draining;
        for (auto& [id, record] : jobs_) {
            const bool there = std::any_of(record.job.where.begin(), record.job.where.end(),
                                           [n](const NodeShare& share) { return share.node == n; });
            if (!up && there && holds(record)) {
                // What a requeued one ended of, a scan cannot see.
                leave(record, record.job.requeue ? RunEnd::requeued : RunEnd::node_failure,
                      record.job.requeue);
            }
        }
    }
}

void FakeCluster::set_completing_seconds(std::int64_t seconds) {
    const std::lock_guard lock(mutex_);
    completing_seconds_ = seconds;
}

void FakeCluster::refuse(JobId id, Refusal refusal) {
    const std::lock_guard lock(mutex_);
    jobs_.at(id).refusal = refusal;
}

std::vector<JobId> FakeCluster::take_tried() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tried_, {});
}

std::vector<std::int64_t> FakeCluster::last_calls(JobId id) const {
    const std::lock_guard lock(mutex_);
    return jobs_.at(id).last_calls;
}

HostJob FakeCluster::shown(const Record& record) const {
    HostJob job = record.job;
    job.array_tasks_pending = static_cast<std::uint32_t>(record.tasks.size());
    for (const std::uint32_t task : record.tasks) {
        job.array_tasks += (job.array_tasks.empty() ? "" : ",") + std::to_string(task);
    }
    if (job.state == HostJobState::pending) {
        job.eligible_at = record.held_begin_at ? *record.held_begin_at
                                               : std::max(record.begin_at, record.held_until);
        job.block = record.held              ? StartBlock::held
                    : job.eligible_at > now_ ? StartBlock::begin_time
                                             : record.wish.block;
    }
    return job;
}

std::optional<HostJob> FakeCluster::job(JobId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(id);
    return it == jobs_.end() ? std::optional<HostJob>() : shown(it->second);
}

std::vector<JobId> FakeCluster::ids(HostJobState state) const {
    const std::lock_guard lock(mutex_);
    std::vector<JobId> out;
    for (const auto& [id, record] : jobs_) {
        if (record.job.state == state) {
            out.push_back(id);
        }
    }
    return out;
}

std::vector<std::string> FakeCluster::logged() const {
    const std::lock_guard lock(mutex_);
    return logged_;
}

std::vector<std::string> FakeCluster::told(JobId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = told_.find(id);
    return it == told_.end() ? std::vector<std::string>() : it->second;
}

// Scheduling.

std::vector<std::int64_t> FakeCluster::free_gpus() const {
    std::vector<std::int64_t> free;
    for (const HostNode& node : nodes_) {
        free.push_back(node.up && !node.draining ? node.gpus : 0);
    }
    for (const auto& [id, record] : jobs_) {
        for (const NodeShare& share : record.job.where) {
            // Completing nodes are for nobody.
            free[share.node] -= holds(record) ? share.gpus : free[share.node];
        }
    }
    return free;
}

bool FakeCluster::startable(const Record& record) const {
    return record.job.state == HostJobState::pending && !record.held && record.begin_at <= now_ &&
           record.held_until <= now_ && record.wish.block == StartBlock::none;
}

std::optional<std::vector<NodeShare>> FakeCluster::place(const Record& record,
                                                         const std::vector<std::int64_t>& free,
                                                         const std::vector<bool>& open) const {
    const JobShape& shape = record.job.shape;
    std::vector<NodeShare> where;
    for (NodeIndex n = 0; n < nodes_.size() && where.size() < shape.nodes; ++n) {
        const std::int64_t need = shape.gpus_on(static_cast<std::uint32_t>(where.size()));
        const bool allowed = record.pin.empty() ? open[n]
                                                : std::find(record.pin.begin(), record.pin.end(),
                                                            nodes_[n].name) != record.pin.end();
        const bool closed = std::find(record.closed.begin(), record.closed.end(), nodes_[n].name) !=
                            record.closed.end();
        if (allowed && !closed && nodes_[n].up && !nodes_[n].draining && free[n] >= need) {
            where.push_back({n, need, shape.cpus_per_node, 0});
        }
    }
    return where.size() == shape.nodes ? std::optional(std::move(where)) : std::nullopt;
}

void FakeCluster::begin(Record& record, std::vector<NodeShare> where) {
    HostJob& job = record.job;
    job.where = std::move(where);
    job.held_gpus = {{"", job.shape.gpus}};
    job.held_cpus = job.shape.cpus_per_node * job.shape.nodes;
    job.start_at = now_;
    job.end_at = now_ + job.time_limit_seconds;
    job.state = record.wish.boot_seconds > 0 ? HostJobState::configuring : HostJobState::running;
    job.end = RunEnd::unknown;
    record.boots_until = now_ + record.wish.boot_seconds;
    record.worked_seconds = 0;
    record.warned_at = 0;
    record.pin.clear();
    record.closed.clear();
    record.held_until = 0;
    record.held_begin_at.reset();
    if (!record.tasks.empty()) {
        job.array_task = record.tasks.front();  // the last one is the record itself
        record.tasks.clear();
    }
}

// A record of its own for the array's first pending task.
FakeCluster::Record& FakeCluster::split(Record& array) {
    const JobId id = next_id_++;
    Record& task = jobs_[id];
    task = array;
    task.job.id = id;
    task.job.array_task = array.tasks.front();
    task.tasks.clear();
    array.tasks.erase(array.tasks.begin());
    array.pin.clear();
    return task;
}

std::vector<JobId> FakeCluster::schedule() {
    const std::lock_guard lock(mutex_);
    ++passes_;
    outlook_.clear();
    std::vector<std::pair<std::uint32_t, JobId>> queue;
    for (const auto& [id, record] : jobs_) {
        if (startable(record)) {
            queue.emplace_back(record.job.priority, id);
        }
    }
    std::sort(queue.begin(), queue.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    std::vector<JobId> started;
    std::vector<std::int64_t> free = free_gpus();
    std::vector<bool> open(nodes_.size(), true);
    JobId rejected_array = 0;  // slurmctld passes over the tasks of an array after one that failed
    for (const auto& [priority, id] : queue) {
        for (;;) {
            Record& record = jobs_.at(id);
            const JobId array = record.job.array_job_id;
            if (array != 0 && array == rejected_array) {
                break;
            }
            if (record.refusal != Refusal::never_tried) {
                tried_.push_back(id);
            }
            auto where = record.refusal == Refusal::none ? place(record, free, open) : std::nullopt;
            rejected_array = array == 0 ? rejected_array : where ? 0 : array;
            if (!where) {
                for (NodeIndex n = 0; n < nodes_.size(); ++n) {
                    open[n] = open[n] && std::find(record.pin.begin(), record.pin.end(),
                                                   nodes_[n].name) == record.pin.end();
                }
                break;
            }
            for (const NodeShare& share : *where) {
                free[share.node] -= share.gpus;
            }
            const bool more = record.tasks.size() > 1;
            Record& runs = more ? split(record) : record;
            started.push_back(runs.job.id);
            begin(runs, std::move(*where));
            if (!more) {
                break;
            }
        }
    }
    return started;
}

// The engine's side.

void FakeCluster::collect(HostSnapshot& out) const {
    const std::lock_guard lock(mutex_);
    out.now = now_;
    out.nodes = nodes_;
    out.node_sets = {std::vector<bool>(nodes_.size(), true)};
    out.partitions = {"gpu", "other"};
    out.jobs.clear();
    for (const auto& [id, record] : jobs_) {
        out.jobs.push_back(shown(record));
        if (record.job.state == HostJobState::completing) {
            for (const NodeShare& share : record.job.where) {
                out.nodes[share.node].completing = true;
            }
        }
    }
}

void FakeCluster::set_priorities(const std::vector<PriorityChange>& changes) {
    const std::lock_guard lock(mutex_);
    for (const PriorityChange& change : changes) {
        const auto it = jobs_.find(change.id);
        if (it != jobs_.end() && !it->second.held && !it->second.job.admin_priority) {
            it->second.job.priority = change.priority;
        }
    }
}

std::vector<JobId> FakeCluster::split_array(JobId array_record, std::uint32_t count) {
    const std::lock_guard lock(mutex_);
    std::vector<JobId> out;
    const auto it = jobs_.find(array_record);
    while (it != jobs_.end() && it->second.job.state == HostJobState::pending &&
           it->second.tasks.size() > 1 && out.size() < count) {
        out.push_back(split(it->second).job.id);
    }
    return out;
}

Status FakeCluster::verify(JobId claimant, const std::vector<JobId>& victims,
                           const std::vector<std::string>& nodes) const {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(claimant);
    if (it == jobs_.end() || it->second.job.state != HostJobState::pending) {
        return Error{"job " + std::to_string(claimant) + " does not wait"};
    }
    std::vector<std::int64_t> free(nodes_.size(), 0);
    for (NodeIndex n = 0; n < nodes_.size(); ++n) {
        free[n] = nodes_[n].gpus;
    }
    for (const auto& [id, record] : jobs_) {
        if (holds(record) && std::find(victims.begin(), victims.end(), id) == victims.end()) {
            for (const NodeShare& share : record.job.where) {
                free[share.node] -= share.gpus;
            }
        }
    }
    Record there = it->second;
    there.pin = nodes;
    there.closed.clear();
    if (!place(there, free, std::vector<bool>(nodes_.size(), true))) {
        return Error{"job " + std::to_string(claimant) + " does not fit there"};
    }
    return {};
}

void FakeCluster::pin(JobId claimant, std::vector<std::string> nodes) {
    const std::lock_guard lock(mutex_);
    if (const auto it = jobs_.find(claimant);
        it != jobs_.end() && it->second.job.state == HostJobState::pending) {
        it->second.pin = std::move(nodes);
        it->second.closed.clear();
        it->second.held_until = 0;
        it->second.held_begin_at.reset();
    }
}

std::vector<HeldBack> FakeCluster::set_entrance(const HostEntrance& entrance) {
    const std::lock_guard lock(mutex_);
    std::map<JobId, const JobEntrance*> named;
    for (const JobEntrance& job : entrance.jobs) {
        named[job.job] = &job;
    }
    std::vector<HeldBack> held;
    for (auto& [id, record] : jobs_) {
        const auto it = named.find(id);
        const JobEntrance* rule = it == named.end() ? nullptr : it->second;
        record.closed.clear();
        if (record.job.state != HostJobState::pending || !record.pin.empty()) {
            continue;
        }
        if (record.held_begin_at) {
            record.held_until = 0;
            record.held_begin_at.reset();
        }
        if (rule != nullptr && rule->closed != kNoTask) {
            record.closed = entrance.node_sets.at(rule->closed);
        }
        if (rule != nullptr && rule->not_before_at != 0 && record.begin_at <= now_ &&
            record.held_until <= now_) {
            record.held_until = rule->not_before_at;
            record.held_begin_at = record.begin_at;
            held.push_back({id, record.held_until, record.begin_at});
        }
    }
    return held;
}

void FakeCluster::remember_held_back(const std::vector<HeldBack>& held) {
    const std::lock_guard lock(mutex_);
    for (const HeldBack& one : held) {
        if (const auto it = jobs_.find(one.job);
            it != jobs_.end() && it->second.held_until == one.until_at) {
            it->second.held_begin_at = one.begin_at;
        }
    }
}

void FakeCluster::forget_entrance() {
    const std::lock_guard lock(mutex_);
    for (auto& [id, record] : jobs_) {
        record.closed.clear();
        record.held_begin_at.reset();
    }
}

std::vector<std::string> FakeCluster::closed_to(JobId id) const {
    const std::lock_guard lock(mutex_);
    return jobs_.at(id).closed;
}

std::int64_t FakeCluster::begin_at(JobId id) const {
    const std::lock_guard lock(mutex_);
    return std::max(jobs_.at(id).begin_at, jobs_.at(id).held_until);
}

void FakeCluster::unpin(JobId claimant) {
    const std::lock_guard lock(mutex_);
    if (const auto it = jobs_.find(claimant); it != jobs_.end()) {
        it->second.pin.clear();
    }
}

Status FakeCluster::warn(const Eviction& eviction) {
    const std::lock_guard lock(mutex_);
    const std::string name = "job " + std::to_string(eviction.victim);
    const auto it = jobs_.find(eviction.victim);
    if (it == jobs_.end() || !holds(it->second)) {
        return Error{name + " does not run any more"};
    }
    if (it->second.job.state == HostJobState::configuring) {
        return Error{name + " is still configuring and is not taken"};
    }
    if (it->second.warned_at == 0) {
        it->second.warned_at = now_;
        told_[eviction.victim].push_back(eviction.message);
    }
    return {};
}

void FakeCluster::forget_warning(JobId id) {
    const std::lock_guard lock(mutex_);
    if (const auto it = jobs_.find(id); it != jobs_.end()) {
        it->second.warned_at = 0;
    }
}

void FakeCluster::last_call(const Eviction& eviction) {
    const std::lock_guard lock(mutex_);
    if (const auto it = jobs_.find(eviction.victim); it != jobs_.end() && holds(it->second)) {
        it->second.last_calls.push_back(now_);
    }
}

EvictionState FakeCluster::follow(const Eviction& eviction, std::int64_t grace_ends_at) {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(eviction.victim);
    if (it == jobs_.end()) {
        return EvictionState::gone;
    }
    Record& record = it->second;
    if (holds(record)) {
        if (record.warned_at == 0) {
            return EvictionState::not_ours;
        }
        if (now_ < grace_ends_at) {
            return EvictionState::in_grace;
        }
        comments_[eviction.victim] = eviction.comment;
        leave(record, eviction.requeue ? RunEnd::requeued : RunEnd::preempted, eviction.requeue);
    } else if (eviction.requeue && record.warned_at != 0 &&
               record.job.state != HostJobState::pending && left_politely(record.job.end)) {
        record.warned_at = 0;
        record.comes_back = true;
        record.job.end = RunEnd::requeued;
        if (record.job.state == HostJobState::finished) {
            completed(record);
        }
    }
    return record.job.state == HostJobState::completing ? EvictionState::leaving
                                                        : EvictionState::gone;
}

bool FakeCluster::take_back(const Eviction& eviction) {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(eviction.victim);
    if (it == jobs_.end() || !holds(it->second)) {
        return false;
    }
    it->second.warned_at = 0;
    return true;
}

Status FakeCluster::write_contracts(const std::vector<ContractWrite>& writes) {
    const std::lock_guard lock(mutex_);
    for (const ContractWrite& write : writes) {
        const auto it = jobs_.find(write.id);
        if (it == jobs_.end() || it->second.job.submit_at != write.submit_at ||
            (write.runs ? !holds(it->second) : it->second.job.state != HostJobState::pending)) {
            return Error{"job " + std::to_string(write.id) + " has changed meanwhile; ask again"};
        }
    }
    for (const ContractWrite& write : writes) {
        Record* record = &jobs_.at(write.id);
        if (write.task != kNoTask && record->tasks.size() > 1) {
            const auto task = std::find(record->tasks.begin(), record->tasks.end(), write.task);
            std::rotate(record->tasks.begin(), task, task + 1);
            Record& alone = split(*record);
            std::sort(record->tasks.begin(), record->tasks.end());
            record = &alone;
        }
        record->job.contract_entries = write.entries;
        record->job.requeue = record->job.requeue || write.requeue;
        if (write.takes_warning_back) {
            record->warned_at = 0;
        }
    }
    return {};
}

bool FakeCluster::is_warned(JobId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(id);
    return it != jobs_.end() && it->second.warned_at != 0;
}

bool FakeCluster::release_requeued(JobId id) {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) {
        return true;
    }
    Record& record = it->second;
    if (record.job.state == HostJobState::completing ||
        (record.job.state == HostJobState::pending && record.job.submit_at >= now_)) {
        return false;
    }
    if (record.job.state == HostJobState::pending &&
        record.begin_at <= record.job.submit_at + kRequeueDelay + 1) {
        record.begin_at = 0;
    }
    return true;
}

void FakeCluster::tell(JobId id, std::string_view text) {
    const std::lock_guard lock(mutex_);
    told_[id].emplace_back(text);
}

std::string FakeCluster::comment(JobId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = comments_.find(id);
    return it == comments_.end() ? std::string() : it->second;
}

std::uint64_t FakeCluster::passes() const {
    const std::lock_guard lock(mutex_);
    return passes_;
}

void FakeCluster::set_outlook(const std::vector<Outlook>& jobs) {
    const std::lock_guard lock(mutex_);
    outlook_ = jobs;
}

std::vector<Outlook> FakeCluster::shown_outlook() const {
    const std::lock_guard lock(mutex_);
    return outlook_;
}

void FakeCluster::log(std::string_view text) {
    const std::lock_guard lock(mutex_);
    logged_.emplace_back(text);
}

}  // namespace tranche::test
