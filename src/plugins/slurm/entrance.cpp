// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/entrance.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/pins.hpp"
#include "plugins/slurm/slurm_host.hpp"

namespace tranche {
namespace {

constexpr std::size_t kJobsBetweenLooks = 64;
constexpr std::chrono::milliseconds kLongestLock{3};

using NodeNames = std::vector<std::string>;

struct Rule {
    std::shared_ptr<const NodeNames> closed;  // nullptr: none
    std::time_t closed_until = 0;
    std::time_t not_before = 0;  // 0: not held
    // The begin time we wrote, 0: none, and the one that was there.
    std::time_t written = 0;
    std::time_t begin = 0;
    std::uint64_t serial = 0;  // of the snapshot before it was held for want of a rank
};

std::atomic<std::uint64_t>& last_serial() {
    static std::atomic<std::uint64_t> serial{0};
    return serial;
}

// Of the process, as the jobs are: plugins and engines come and go.
std::unordered_map<JobId, Rule>& rules() {
    static std::unordered_map<JobId, Rule> all;
    return all;
}

class Bitmap {
  public:
    explicit Bitmap(bitstr_t* bitmap = nullptr) : bitmap_(bitmap) {}
    ~Bitmap() { FREE_NULL_BITMAP(bitmap_); }
    Bitmap(Bitmap&& other) noexcept : bitmap_(std::exchange(other.bitmap_, nullptr)) {}
    Bitmap(const Bitmap&) = delete;
    Bitmap& operator=(const Bitmap&) = delete;
    bitstr_t* get() const { return bitmap_; }
    bitstr_t* release() { return std::exchange(bitmap_, nullptr); }

  private:
    bitstr_t* bitmap_;
};

// Bitmaps of node lists that repeat from job to job, good while one lock is held.
class NodeMaps {
  public:
    bitstr_t* of(const std::shared_ptr<const NodeNames>& names) {
        const auto known = maps_.find(names.get());
        if (known != maps_.end()) {
            return known->second.get();
        }
        Bitmap map(bit_alloc(node_record_count));
        for (const std::string& name : *names) {
            if (const node_record_t* node = find_node_record(mutable_text(name.c_str()))) {
                bit_set(map.get(), node->index);
            }
        }
        return maps_.emplace(names.get(), std::move(map)).first->second.get();
    }

  private:
    std::unordered_map<const NodeNames*, Bitmap> maps_;
};

bool same(bitstr_t* a, bitstr_t* b) {
    if (a == nullptr || b == nullptr) {
        return a == b;
    }
    return bit_size(a) == bit_size(b) && bit_equal(a, b) != 0;
}

bool fits_table(bitstr_t* map) {
    return map != nullptr && bit_size(map) == node_record_count;
}

// A job that its partition leaves fewer nodes than it needs, or without one that it requires, is
// impossible to slurmctld, for ever (job_scheduler.c of 22.05.8). The core has seen to that for
// all its nodes taken together; here it is each partition by itself.
bool leaves_enough(const job_record_t& job, bitstr_t* closed) {
    const Bitmap required(nodes_of_user(*job.details));
    if (fits_table(required.get()) && bit_overlap_any(required.get(), closed) != 0) {
        return false;
    }
    bool enough = true;
    const auto look = [&](const part_record_t& partition) {
        if (!fits_table(partition.node_bitmap)) {
            return;
        }
        bitoff_t left = 0;
        for (bitoff_t n = 0; n < node_record_count; ++n) {
            const node_record_t* node = node_record_table_ptr[n];
            if (node != nullptr && bit_test(partition.node_bitmap, n) != 0 &&
                bit_test(closed, n) == 0 &&
                (job.gres_list_req == nullptr || node->gres_list != nullptr)) {
                ++left;
            }
        }
        enough = enough && left >= static_cast<bitoff_t>(
                                       std::max(job.details->min_nodes, partition.min_nodes));
    };
    if (job.part_ptr_list != nullptr) {
        for_each_in<part_record_t>(job.part_ptr_list, look);
    } else if (job.part_ptr != nullptr) {
        look(*job.part_ptr);
    }
    return enough;
}

// What the record should say by that rule.
struct Wanted {
    Bitmap excluded;
    std::time_t hold = 0;
};

Wanted wanted_of(const job_record_t& job, const Rule& rule, NodeMaps& maps) {
    bitstr_t* user = excluded_by_user(*job.details);
    std::time_t hold = rule.not_before;
    if (rule.closed) {
        Bitmap all(bit_copy(maps.of(rule.closed)));
        if (fits_table(user)) {
            bit_or(all.get(), user);
        }
        if (leaves_enough(job, all.get())) {
            FREE_NULL_BITMAP(user);
            user = all.release();
        } else {
            hold = std::max(hold, rule.closed_until);
        }
    }
    return {Bitmap(user), hold};
}

bool is_ours(const job_details& details, const Rule& rule) {
    return rule.written != 0 && details.begin_time == rule.written;
}

// Somebody's own wish to begin later stands, and with it a requeue's delay.
bool may_hold(const job_details& details, const Rule& rule, std::time_t now) {
    return is_ours(details, rule) || details.begin_time <= now;
}

bool is_as(const job_record_t& job, const Rule& rule, NodeMaps& maps, std::time_t now) {
    const Wanted wanted = wanted_of(job, rule, maps);
    const job_details& details = *job.details;
    if (!same(wanted.excluded.get(), details.exc_node_bitmap)) {
        return false;
    }
    if (wanted.hold == 0 || !may_hold(details, rule, now)) {
        return rule.written == 0;
    }
    return rule.written == wanted.hold && details.begin_time == wanted.hold;
}

void unhold(job_record_t& job, Rule& rule) {
    if (is_ours(*job.details, rule)) {
        job.details->begin_time = rule.begin;
        if (job.state_reason == WAIT_TIME) {
            job.state_reason = WAIT_NO_REASON;
            xfree(job.state_desc);
        }
    }
    rule.written = rule.begin = 0;
}

void hold(job_record_t& job, Rule& rule, std::time_t until, std::time_t now) {
    job_details& details = *job.details;
    if (!may_hold(details, rule, now)) {
        rule.written = rule.begin = 0;
        return;
    }
    if (!is_ours(details, rule)) {
        rule.begin = details.begin_time;
    }
    details.begin_time = rule.written = until;
}

void put_in_force(job_record_t& job, Rule& rule, NodeMaps& maps, std::time_t now) {
    Wanted wanted = wanted_of(job, rule, maps);
    if (!same(wanted.excluded.get(), job.details->exc_node_bitmap)) {
        FREE_NULL_BITMAP(job.details->exc_node_bitmap);
        job.details->exc_node_bitmap = wanted.excluded.release();
    }
    if (wanted.hold != 0) {
        hold(job, rule, wanted.hold, now);
    } else {
        unhold(job, rule);
    }
}

bool can_have_rule(const job_record_t* job) {
    return job != nullptr && job->details != nullptr && IS_JOB_PENDING(job);
}

// Goes through `ids` in slices of the given lock; `body` is called for each with what is known of
// nodes meanwhile.
template <typename Body>
void in_slices(const std::vector<JobId>& ids, const slurmctld_lock_t& levels, Body&& body) {
    for (std::size_t next = 0; next < ids.size();) {
        const ControllerLock lock(levels);
        const auto begun = std::chrono::steady_clock::now();
        NodeMaps maps;
        do {
            const std::size_t end = std::min(next + kJobsBetweenLooks, ids.size());
            for (; next < end; ++next) {
                body(ids[next], maps);
            }
        } while (next < ids.size() && std::chrono::steady_clock::now() - begun < kLongestLock);
    }
}

}  // namespace

std::uint64_t next_entrance_serial() {
    return ++last_serial();
}

bitstr_t* excluded_by_user(const job_details& details) {
    bitstr_t* bitmap = nullptr;
    if (details.exc_nodes != nullptr && details.exc_nodes[0] != '\0' &&
        node_name2bitmap(details.exc_nodes, true, &bitmap) != SLURM_SUCCESS) {
        FREE_NULL_BITMAP(bitmap);
    }
    return bitmap;
}

bool is_held_back(const job_record_t& job) {
    const auto rule = rules().find(job.job_id);
    return rule != rules().end() && job.details != nullptr && is_ours(*job.details, rule->second);
}

std::int64_t own_begin_time(const job_record_t& job) {
    if (job.details == nullptr) {
        return 0;
    }
    const auto rule = rules().find(job.job_id);
    return rule != rules().end() && is_ours(*job.details, rule->second) ? rule->second.begin
                                                                        : job.details->begin_time;
}

bool has_stray_exclusion(const job_record_t& job) {
    return can_have_rule(&job) && job.details->exc_node_bitmap != nullptr &&
           (job.details->exc_nodes == nullptr || job.restart_cnt > 0) &&
           !rules().contains(job.job_id);
}

void renew_entrance(job_record_t& job) {
    const auto rule = rules().find(job.job_id);
    if (rule != rules().end() && can_have_rule(&job)) {
        NodeMaps maps;
        put_in_force(job, rule->second, maps, std::time(nullptr));
    }
}

void hold_back(job_record_t& job, std::int64_t until_at) {
    if (can_have_rule(&job)) {
        Rule& rule = rules()[job.job_id];
        rule.not_before = static_cast<std::time_t>(until_at);
        rule.serial = last_serial();
        hold(job, rule, rule.not_before, std::time(nullptr));
    }
}

void lift_entrance(job_record_t& job) {
    const auto rule = rules().find(job.job_id);
    if (rule == rules().end() || job.details == nullptr) {
        return;
    }
    NodeMaps maps;
    rule->second.closed.reset();
    rule->second.not_before = 0;
    put_in_force(job, rule->second, maps, std::time(nullptr));
    rules().erase(rule);
}

void inherit_entrance(JobId array_record, JobId task) {
    if (const auto rule = rules().find(array_record); rule != rules().end()) {
        Rule copy = rule->second;
        copy.serial = last_serial();  // no ranking has named the task yet
        rules()[task] = copy;
    }
}

void renew_all_entrances() {
    std::vector<JobId> ids;
    {
        const ControllerLock lock(kReadJobs);
        for (const auto& [id, rule] : rules()) {
            ids.push_back(id);
        }
    }
    const std::time_t now = std::time(nullptr);
    in_slices(ids, kWriteJobs, [now](JobId id, NodeMaps& maps) {
        job_record_t* job = find_job_record(id);
        const auto rule = rules().find(id);
        if (rule != rules().end() && can_have_rule(job)) {
            put_in_force(*job, rule->second, maps, now);
        }
    });
}

void SlurmHost::remember_held_back(const std::vector<HeldBack>& held) {
    const ControllerLock lock(kWriteJobs);
    for (const HeldBack& one : held) {
        Rule rule;
        rule.not_before = rule.written = static_cast<std::time_t>(one.until_at);
        rule.begin = static_cast<std::time_t>(one.begin_at);
        rules().try_emplace(one.job, rule);
    }
}

std::vector<HeldBack> SlurmHost::set_entrance(const HostEntrance& entrance) {
    std::vector<std::shared_ptr<const NodeNames>> sets;
    for (const NodeNames& names : entrance.node_sets) {
        sets.push_back(std::make_shared<const NodeNames>(names));
    }
    std::unordered_map<JobId, Rule> wanted;
    for (const JobEntrance& job : entrance.jobs) {
        Rule& rule = wanted[job.job];
        if (job.closed != kNoTask) {
            rule.closed = sets[job.closed];
            rule.closed_until = static_cast<std::time_t>(job.closed_until_at);
        }
        rule.not_before = static_cast<std::time_t>(job.not_before_at);
    }
    // Most jobs are as they should be: read locks tell.
    std::vector<JobId> ids, differ;
    {
        const ControllerLock lock(kReadJobs);
        for (const auto& [id, rule] : rules()) {
            if (!wanted.contains(id) && rule.serial < entrance.serial) {
                differ.push_back(id);
            }
        }
    }
    for (const auto& [id, rule] : wanted) {
        ids.push_back(id);
    }
    const std::time_t now = std::time(nullptr);
    in_slices(ids, kReadEverything, [&](JobId id, NodeMaps& maps) {
        const job_record_t* job = find_job_record(id);
        if (!can_have_rule(job)) {
            return;
        }
        const auto known = rules().find(id);
        Rule rule = wanted.at(id);
        if (known != rules().end()) {
            rule.written = known->second.written;
            rule.begin = known->second.begin;
        }
        if (known == rules().end() || !is_as(*job, rule, maps, now)) {
            differ.push_back(id);
        } else {
            // The names may mean other nodes after a reconfigure: they are kept anyway.
            wanted[id] = rule;
        }
    });
    {
        const std::lock_guard lock(stray_mutex_);
        differ.insert(differ.end(), stray_.begin(), stray_.end());
        stray_.clear();
    }
    bool changed = false;
    in_slices(differ, kWriteJobs, [&](JobId id, NodeMaps& maps) {
        job_record_t* job = find_job_record(id);
        const auto known = rules().find(id);
        const auto rule = wanted.find(id);
        if (!can_have_rule(job)) {
            if (known != rules().end()) {
                rules().erase(known);
            }
            return;
        }
        if (rule == wanted.end() || pinned_.contains(id)) {
            changed = true;
            if (known != rules().end()) {
                lift_entrance(*job);
            } else if (!pinned_.contains(id)) {
                Rule none;
                put_in_force(*job, none, maps, now);
            }
            return;
        }
        Rule& in_force = rules()[id];
        const std::time_t held_before = in_force.written;
        in_force.closed = rule->second.closed;
        in_force.closed_until = rule->second.closed_until;
        in_force.not_before = rule->second.not_before;
        put_in_force(*job, in_force, maps, now);
        changed = changed || (held_before != 0 && in_force.written == 0);
    });
    std::vector<HeldBack> held;
    {
        const ControllerLock lock(kWriteJobs);
        for (auto& [id, rule] : rules()) {
            if (const auto it = wanted.find(id); it != wanted.end()) {
                rule.closed = it->second.closed;
                rule.closed_until = it->second.closed_until;
                rule.not_before = it->second.not_before;
            }
            if (rule.written != 0) {
                held.push_back({id, rule.written, rule.begin});
            }
        }
        if (changed) {
            last_job_update = now;
        }
    }
    if (changed) {
        wake();
    }
    return held;
}

}  // namespace tranche
