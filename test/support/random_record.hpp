// SPDX-License-Identifier: GPL-2.0-or-later
// Records of a simulation that never was: a small greedy scheduler, so that reports and pictures
// have something to show in tests. Seeded; all invariants of a record hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/record.hpp"

namespace tranche::sim {

struct RandomRecordShape {
    std::size_t nodes = 4;
    std::int64_t gpus_per_node = 8;
    std::int64_t hours = 4;
    std::size_t jobs = 60;
    std::size_t teams = 4;
    std::uint64_t seed = 1;
    std::int64_t mean_runtime_seconds = 3600;
    std::string policy = "budget";
    bool with_slots = true;
};

class RandomRecord {
  public:
    explicit RandomRecord(RandomRecordShape shape)
        : shape_(std::move(shape)), state_(shape_.seed) {}

    SimRecord make() {
        const std::int64_t end = shape_.hours * 3600;
        record_.policy = shape_.policy;
        record_.end_at = end;
        for (std::size_t n = 0; n < shape_.nodes; ++n) {
            record_.cluster.nodes.push_back(
                {"n" + std::to_string(n + 1), "", shape_.gpus_per_node});
        }
        held_.assign(shape_.nodes, std::vector<bool>(std::size_t(shape_.gpus_per_node), false));
        for (std::size_t t = 0; t < shape_.teams; ++t) {
            BudgetRecord budget;
            budget.name = "team" + std::string(t < 9 ? "0" : "") + std::to_string(t + 1);
            budget.parent = "root";
            budget.funded_fraction = 1.0 / double(shape_.teams);
            budget.hours.resize(std::size_t(shape_.hours));
            record_.budgets.push_back(budget);
        }
        add_jobs(end);
        for (std::int64_t now = 0; now < end; now += 30) {
            step(now);
        }
        finish(end);
        return std::move(record_);
    }

  private:
    struct Live {
        std::size_t segment;
        std::int64_t leaves_at;
        SegmentEnd how;
    };

    RandomRecordShape shape_;
    std::uint64_t state_;
    SimRecord record_;
    std::vector<std::vector<bool>> held_;
    std::vector<Live> live_;
    std::vector<JobIndex> queue_;
    std::vector<std::int64_t> left_;  // work of each job
    std::size_t next_ = 0;

    std::uint64_t random(std::uint64_t below) {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return (state_ >> 33) % below;
    }

    void add_jobs(std::int64_t end) {
        for (std::size_t j = 0; j < shape_.jobs; ++j) {
            JobRecord job;
            const std::size_t team = random(shape_.teams) * random(shape_.teams) / shape_.teams;
            job.job.id = "J" + std::to_string(j + 1);
            job.job.budget = record_.budgets[team].name;
            job.job.user = "u" + std::to_string(team * 10 + random(10));
            job.job.name = "train" + std::to_string(random(4));
            job.submitted_at = static_cast<std::int64_t>(random(std::uint64_t(end)));
            job.fits_lane = random(4) == 0;
            job.allocated = random(6) != 0;
            const std::int64_t sizes[] = {1, 1, 2, 4, 8, 8, 16, 32};
            job.job.gpus = job.fits_lane ? std::int64_t(1) << random(4) : sizes[random(8)];
            job.job.gpus = std::min(
                job.job.gpus, shape_.gpus_per_node * static_cast<std::int64_t>(shape_.nodes) / 2);
            if (job.job.gpus > shape_.gpus_per_node) {
                job.job.gpus -= job.job.gpus % shape_.gpus_per_node;
            }
            job.job.runtime_seconds =
                job.fits_lane
                    ? 300 + std::int64_t(random(900))
                    : 600 + std::int64_t(random(std::uint64_t(shape_.mean_runtime_seconds) * 2));
            record_.jobs.push_back(job);
        }
        std::stable_sort(
            record_.jobs.begin(), record_.jobs.end(),
            [](const JobRecord& a, const JobRecord& b) { return a.submitted_at < b.submitted_at; });
        for (JobRecord& job : record_.jobs) {
            job.job.submit_at = job.submitted_at;
            left_.push_back(job.job.runtime_seconds);
        }
    }

    void release(const Live& live, std::int64_t now) {
        SegmentRecord& segment = record_.segments[live.segment];
        JobRecord& job = record_.jobs[segment.job];
        segment.end_at = now;
        segment.charged_until = now;
        segment.end = live.how;
        std::size_t slot = 0;
        for (const NodeShare& share : segment.where) {
            for (std::int64_t k = 0; k < share.gpus; ++k) {
                held_[share.node][all_slots_[live.segment][slot++]] = false;
            }
        }
        left_[segment.job] -= now - segment.begin_at;
        if (live.how == SegmentEnd::completed) {
            job.state = JobState::completed;
            job.ended_at = now;
        } else {
            job.state = JobState::pending;
            ++job.preemptions;
            queue_.insert(queue_.begin(), segment.job);
        }
    }

    std::vector<std::vector<std::uint16_t>> all_slots_;

    bool start(JobIndex index, std::int64_t now) {
        JobRecord& job = record_.jobs[index];
        const std::int64_t per_node = std::min(job.job.gpus, shape_.gpus_per_node);
        std::int64_t wanted = job.job.gpus / per_node;
        SegmentRecord segment;
        std::vector<std::uint16_t> slots;
        for (std::size_t n = 0; n < held_.size() && wanted > 0; ++n) {
            if (std::count(held_[n].begin(), held_[n].end(), false) < per_node) {
                continue;
            }
            std::int64_t taken = 0;
            for (std::size_t k = 0; k < held_[n].size() && taken < per_node; ++k) {
                if (!held_[n][k]) {
                    slots.push_back(static_cast<std::uint16_t>(k));
                    ++taken;
                }
            }
            segment.where.push_back({static_cast<NodeIndex>(n), per_node, 0, 0});
            --wanted;
        }
        if (wanted > 0) {
            return false;
        }
        std::size_t at = 0;
        for (const NodeShare& share : segment.where) {
            for (std::int64_t k = 0; k < share.gpus; ++k) {
                held_[share.node][slots[at++]] = true;
            }
        }
        segment.job = index;
        segment.run = ++job.runs;
        segment.kind = job.allocated ? RunKind::allocated : RunKind::unallocated;
        segment.express = job.fits_lane;
        segment.begin_at = now;
        segment.protected_until =
            job.allocated ? now + std::min<std::int64_t>(job.job.runtime_seconds / 2, 8 * 3600) : 0;
        if (job.first_start_at < 0) {
            job.first_start_at = now;
        }
        job.state = JobState::running;
        all_slots_.push_back(slots);
        if (shape_.with_slots) {
            segment.slots = slots;
        }
        live_.push_back({record_.segments.size(), now + left_[index], SegmentEnd::completed});
        record_.segments.push_back(segment);
        return true;
    }

    // One run whose contract is over leaves for the job.
    void preempt(JobIndex claimant, std::int64_t now) {
        for (Live& live : live_) {
            SegmentRecord& segment = record_.segments[live.segment];
            if (segment.protected_until <= now && live.how == SegmentEnd::completed &&
                live.leaves_at > now + 60 && segment.begin_at < now &&
                gpus_of_segment(segment) >= record_.jobs[claimant].job.gpus) {
                live.leaves_at = now + 30;
                live.how = SegmentEnd::preempted_requeued;
                segment.warned_at = now;
                segment.taken_for = claimant;
                PreemptionEvent event;
                event.at = now;
                event.claimant = claimant;
                event.victim = segment.job;
                event.requeued = true;
                event.outcome = PreemptionOutcome::started;
                record_.preemptions.push_back(event);
                return;
            }
        }
    }

    static std::int64_t gpus_of_segment(const SegmentRecord& segment) {
        std::int64_t sum = 0;
        for (const NodeShare& share : segment.where) {
            sum += share.gpus;
        }
        return sum;
    }

    void step(std::int64_t now) {
        std::vector<Live> stay;
        for (const Live& live : std::exchange(live_, {})) {
            if (live.leaves_at <= now) {
                release(live, now);
            } else {
                stay.push_back(live);
            }
        }
        live_ = std::move(stay);
        while (next_ < record_.jobs.size() && record_.jobs[next_].submitted_at <= now) {
            record_.jobs[next_].state = JobState::pending;
            queue_.push_back(static_cast<JobIndex>(next_++));
        }
        std::vector<JobIndex> wait;
        for (const JobIndex job : std::exchange(queue_, {})) {
            if (wait.size() > 20 || !start(job, now)) {
                if (wait.size() < 20 && random(4) == 0 && now % 1800 == 0) {
                    preempt(job, now);
                }
                wait.push_back(job);
            }
        }
        queue_ = std::move(wait);
    }

    void finish(std::int64_t end) {
        const std::int64_t gpus = record_.cluster.gpus();
        record_.installed_gpu_seconds = record_.available_gpu_seconds = gpus * end;
        for (SegmentRecord& segment : record_.segments) {
            if (segment.end == SegmentEnd::still_running) {
                segment.end_at = segment.charged_until = end;
            }
            const JobRecord& job = record_.jobs[segment.job];
            BudgetRecord& budget = *std::find_if(
                record_.budgets.begin(), record_.budgets.end(),
                [&](const BudgetRecord& each) { return each.name == job.job.budget; });
            for (std::int64_t at = segment.begin_at; at < segment.end_at;) {
                const std::int64_t until = std::min(segment.end_at, (at / 3600 + 1) * 3600);
                BudgetHour& hour = budget.hours[std::size_t(at / 3600)];
                (segment.kind == RunKind::allocated ? hour.charged : hour.free) +=
                    (until - at) * gpus_of_segment(segment);
                at = until;
            }
            record_.used_gpu_seconds +=
                (segment.end_at - segment.begin_at) * gpus_of_segment(segment);
            budget.preemptions_suffered += segment.warned_at != 0 ? 1 : 0;
        }
        for (BudgetRecord& budget : record_.budgets) {
            for (BudgetHour& hour : budget.hours) {
                hour.funded = gpus * 3600 / static_cast<std::int64_t>(shape_.teams);
                hour.demand = hour.charged + std::int64_t(random(std::uint64_t(hour.funded)));
                record_.demand_allocated_gpu_seconds += hour.demand;
                record_.demand_free_gpu_seconds += hour.free;
            }
        }
        record_.lost_requeued_gpu_seconds =
            static_cast<std::int64_t>(record_.preemptions.size()) * 1800;
    }
};

inline SimRecord random_record(const RandomRecordShape& shape) {
    return RandomRecord(shape).make();
}

}  // namespace tranche::sim
