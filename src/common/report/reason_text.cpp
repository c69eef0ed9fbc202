// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/report/reason_text.hpp"

namespace tranche {
namespace {

std::string with_instant(const std::string& text, const char* word, std::int64_t at,
                         const Moment& now) {
    return at == kNever || at <= now.at ? text : text + word + people_minute(at, now);
}

}  // namespace

std::string reason_text(const ReasonFacts& facts, const Moment& now) {
    const auto expected = [&](const char* text) {
        return with_instant(text, ", expected by ", facts.expected_at, now);
    };
    const auto until = [&](const char* text) {
        return with_instant(text, " until ", facts.verdict.next_change_at, now);
    };
    switch (facts.verdict.reason) {
        case WaitReason::held:
        case WaitReason::dependency:
        case WaitReason::begin_time:
        case WaitReason::limit:
        case WaitReason::impossible:
        case WaitReason::nodes_unavailable:
            return {};
        case WaitReason::none:
            return expected(
                ("rank " + std::to_string(facts.rank) + " of " + std::to_string(facts.ranked))
                    .c_str());
        case WaitReason::starting:
            return "room is free, starts with the next pass";
        case WaitReason::planned:
            return with_instant("victims leaving", ", starts about ", facts.expected_at, now);
        case WaitReason::claimant_first:
            return facts.waits_for.empty()
                       ? "the job it was preempted for starts first"
                       : "job " + facts.waits_for + ", for which it was preempted, starts first";
        case WaitReason::idle_gpus:
            return expected("free work, waits for idle GPUs");
        case WaitReason::contracts:
            return until("contracts");
        case WaitReason::ratio:
            if (facts.claim && facts.numbers) {
                return facts.claim->side +
                       " is over its share: " + people_ratio(facts.claim->ratio_milli) + ", " +
                       people_ratio(facts.claim->allowed_milli) + " would do";
            }
            return expected("its budget is over its share");
        case WaitReason::own_budget:
            return expected("only runs of its own budget could go");
        case WaitReason::room_coming:
            return with_instant("room is being made", ", starts about ", facts.expected_at, now);
        case WaitReason::room:
            return expected("no room yet");
        case WaitReason::headroom:
            return until("contracts hold all they may");
        case WaitReason::express_cap:
            return "a cap of the debug lane is reached, queued as others";
        case WaitReason::preemption_limit:
            return "this hour's preemptions are used up";
        case WaitReason::kept_nodes:
            return expected("free nodes are kept for a large job");
        case WaitReason::assembling:
            return with_instant("large job: nodes gathered", " until ", facts.expected_at, now);
    }
    return {};
}

}  // namespace tranche
