// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/decision_trace.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/wire/json.hpp"

namespace tranche::sim {
namespace {

enum class What : std::uint8_t { end, drain, preempt, assembly, turn, start };

struct Line {
    std::int64_t at;
    What what;
    std::size_t index;  // into the list that it comes from
};

const std::string& id_of(const SimRecord& record, JobIndex job) {
    static const std::string nobody;
    return job < record.jobs.size() ? record.jobs[job].job.id : nobody;
}

std::string where_text(const SimRecord& record, const std::vector<NodeShare>& where) {
    std::string text;
    for (const NodeShare& share : where) {
        text += (text.empty() ? "" : ",") + record.cluster.nodes[share.node].name + ":" +
                std::to_string(share.gpus);
    }
    return text;
}

void set_instant(Json& json, const char* key, std::int64_t at) {
    json.set(key, at < 0 || at == kNever ? Json() : Json::integer(at));
}

void put_start(const SimRecord& record, const SegmentRecord& segment, Json& json) {
    std::int64_t gpus = 0;
    for (const NodeShare& share : segment.where) {
        gpus += share.gpus;
    }
    json.set("job", id_of(record, segment.job)).set("run", segment.run);
    json.set("budget", record.jobs[segment.job].job.budget);
    json.set("kind", segment.kind == RunKind::allocated ? "allocated" : "unallocated");
    json.set("express", segment.express).set("gpus", gpus);
    json.set("where", where_text(record, segment.where));
    json.set("protected_until", segment.protected_until > 0 && segment.protected_until != kNever
                                    ? Json::integer(segment.protected_until)
                                    : Json());
}

void put_end(const SimRecord& record, const SegmentRecord& segment, Json& json) {
    json.set("job", id_of(record, segment.job)).set("run", segment.run);
    json.set("reason", to_text(segment.end)).set("for", id_of(record, segment.taken_for));
    set_instant(json, "warned_at", segment.warned_at > 0 ? segment.warned_at : -1);
    set_instant(json, "charged_until", segment.charged_until);
}

void put_preempt(const SimRecord& record, const PreemptionEvent& event, Json& json) {
    json.set("job", id_of(record, event.victim)).set("for", id_of(record, event.claimant));
    json.set("reason", event.reason).set("requeued", event.requeued);
    json.set("inside_contract", event.inside_contract).set("outcome", to_text(event.outcome));
}

}  // namespace

const char* to_text(SegmentEnd end) noexcept {
    switch (end) {
        case SegmentEnd::still_running:
            return "still-running";
        case SegmentEnd::completed:
            return "completed";
        case SegmentEnd::time_limit:
            return "time-limit";
        case SegmentEnd::preempted_requeued:
            return "preempted-requeued";
        case SegmentEnd::preempted_ended:
            return "preempted-ended";
        case SegmentEnd::drained_requeued:
            return "drained-requeued";
        case SegmentEnd::drained_ended:
            return "drained-ended";
        case SegmentEnd::node_failed:
            return "node-failed";
        case SegmentEnd::cancelled:
            return "cancelled";
        case SegmentEnd::turned:
            return "turned";
        case SegmentEnd::suspended:
            return "suspended";
    }
    return "unknown";
}

const char* to_text(PreemptionOutcome outcome) noexcept {
    switch (outcome) {
        case PreemptionOutcome::open:
            return "open";
        case PreemptionOutcome::started:
            return "started";
        case PreemptionOutcome::wasted:
            return "wasted";
        case PreemptionOutcome::overtaken:
            return "overtaken";
        case PreemptionOutcome::claimant_left:
            return "claimant-left";
    }
    return "unknown";
}

std::string decision_trace(const SimRecord& record) {
    std::vector<Line> lines;
    lines.reserve(2 * record.segments.size() + record.preemptions.size() +
                  record.assemblies.size() + record.drains.size());
    std::vector<bool> was_turned(record.jobs.size());
    for (std::size_t i = 0; i < record.segments.size(); ++i) {
        const SegmentRecord& segment = record.segments[i];
        lines.push_back({segment.begin_at, was_turned[segment.job] ? What::turn : What::start, i});
        was_turned[segment.job] = segment.end == SegmentEnd::turned;
        if (segment.end != SegmentEnd::still_running && segment.end != SegmentEnd::turned) {
            lines.push_back({segment.end_at, What::end, i});
        }
    }
    for (std::size_t i = 0; i < record.preemptions.size(); ++i) {
        lines.push_back({record.preemptions[i].at, What::preempt, i});
    }
    for (std::size_t i = 0; i < record.assemblies.size(); ++i) {
        const AssemblyRecord& assembly = record.assemblies[i];
        lines.push_back(
            {assembly.granted_at >= 0 ? assembly.granted_at : assembly.turn_at, What::assembly, i});
    }
    for (std::size_t i = 0; i < record.drains.size(); ++i) {
        lines.push_back({record.drains[i].at, What::drain, i});
    }
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
        return a.at != b.at ? a.at < b.at : a.what < b.what;
    });
    constexpr const char* kWords[] = {"end", "drain", "preempt", "assembly", "turn", "start"};
    std::string text;
    for (const Line& line : lines) {
        Json json = Json::object();
        json.set("at", line.at).set("do", kWords[static_cast<std::size_t>(line.what)]);
        switch (line.what) {
            case What::start:
            case What::turn:
                put_start(record, record.segments[line.index], json);
                break;
            case What::end:
                put_end(record, record.segments[line.index], json);
                break;
            case What::preempt:
                put_preempt(record, record.preemptions[line.index], json);
                break;
            case What::assembly: {
                const AssemblyRecord& assembly = record.assemblies[line.index];
                json.set("job", id_of(record, assembly.job));
                set_instant(json, "turn_at", assembly.turn_at);
                set_instant(json, "granted_at", assembly.granted_at);
                set_instant(json, "date_at", assembly.date_at);
                set_instant(json, "started_at", assembly.started_at);
                break;
            }
            case What::drain: {
                const DrainRecord& drain = record.drains[line.index];
                json.set("node", drain.node).set("reason", drain.reason);
                set_instant(json, "empty_at", drain.empty_at);
                set_instant(json, "back_at", drain.back_at);
                break;
            }
        }
        text += json.compact();
        text += '\n';
    }
    return text;
}

}  // namespace tranche::sim
