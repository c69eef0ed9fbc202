// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/start_estimates.hpp"

#include <algorithm>

#include "common/wire/json.hpp"

namespace tranche::sim {

void EstimatingScheduler::pass(std::int64_t now, Orders& orders) {
    scheduler_.pass(now, orders);
    if (next_at_ >= 0 && now < next_at_) {
        return;
    }
    next_at_ = now + every_seconds_;
    std::uint32_t rank = 0;
    for (const auto& [job, expected_at] : policy_.expected(now)) {
        estimates_.push_back({now, job, ++rank, expected_at});
    }
}

std::string estimates_trace(const SimRecord& record, const std::vector<StartEstimate>& estimates) {
    std::vector<std::vector<std::int64_t>> starts(record.jobs.size());
    std::vector<std::uint32_t> last_run(record.jobs.size(), 0);
    for (const SegmentRecord& segment : record.segments) {
        if (segment.run != last_run[segment.job]) {
            last_run[segment.job] = segment.run;
            starts[segment.job].push_back(segment.begin_at);
        }
    }
    const auto instant = [](std::int64_t at) {
        return at < 0 || at == kNever ? Json() : Json::integer(at);
    };
    std::string text;
    for (const StartEstimate& estimate : estimates) {
        const JobRecord& job = record.jobs[estimate.job];
        const auto& known = starts[estimate.job];
        const auto start = std::lower_bound(known.begin(), known.end(), estimate.at);
        Json json = Json::object();
        json.set("at", estimate.at)
            .set("job", job.job.id)
            .set("class", job.job.wait_class)
            .set("rank", estimate.rank)
            .set("expected_at", instant(estimate.expected_at))
            .set("started_at", instant(start == known.end() ? -1 : *start));
        if (start == known.end() && job.ended_at >= 0) {
            json.set("left_at", job.ended_at);
        }
        text += json.compact() + "\n";
    }
    return text;
}

}  // namespace tranche::sim
