// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/wire/explanation_json.hpp"

#include <algorithm>

namespace tranche {
namespace {

constexpr int kMostEnumerators = 64;

// The enumerator that to_text() calls `text`; the first where none does.
template <typename E>
E enum_from_text(const std::string& text) {
    for (int i = 0; i < kMostEnumerators; ++i) {
        if (to_text(static_cast<E>(i)) == text) {
            return static_cast<E>(i);
        }
    }
    return E{};
}

std::string_view to_text(RunState state) {
    switch (state) {
        case RunState::configuring:
            return "configuring";
        case RunState::running:
            return "running";
        case RunState::suspended:
            return "suspended";
        case RunState::leaving:
            return "leaving";
        case RunState::completing:
            break;
    }
    return "completing";
}

RunState run_state_from_text(const std::string& text) {
    for (const RunState state :
         {RunState::configuring, RunState::running, RunState::suspended, RunState::leaving}) {
        if (to_text(state) == text) {
            return state;
        }
    }
    return RunState::completing;
}

std::int64_t instant(const Json& json, const char* key) {
    const Json value = json.at(key);
    return value.is_integer() ? value.as_integer() : kNever;
}

std::uint32_t number32(const Json& json, const char* key) {
    return static_cast<std::uint32_t>(json.at(key).as_integer());
}

Json to_json(const SideNumbers& side) {
    Json json = Json::object();
    json.set("name", side.name)
        .set("faded_charge_gpu_hours", Json::thousandths(side.charge_milli_hours))
        .set("entitlement_gpu_hours", Json::thousandths(side.entitled_milli_hours));
    set_ratio(json, "ratio", side.ratio_milli());
    return json;
}

SideNumbers side_from_json(const Json& json) {
    return {json.at("name").as_text(), json.at("faded_charge_gpu_hours").as_thousandths(),
            json.at("entitlement_gpu_hours").as_thousandths()};
}

Json to_json(const TakeOutlook& outlook) {
    Json json = Json::object();
    json.set("job_id", outlook.job)
        .set("budget", outlook.budget)
        .set("user", outlook.user)
        .set("gpus", outlook.gpus)
        .set("may", outlook.may)
        .set("reason", to_text(outlook.reason));
    if (outlook.may) {
        set_instant(json, "from_at", outlook.from_at);
    }
    if (outlook.suspended) {
        json.set("suspended", true);
    }
    if (!outlook.level.empty()) {
        json.set("level", outlook.level)
            .set("claimant_side", to_json(outlook.claimant_side))
            .set("victim_side", to_json(outlook.victim_side));
        if (outlook.reason == TakeReason::ratio_too_large) {
            json.set("over_gpu_hours", Json::thousandths(outlook.over_milli_hours));
        }
    }
    return json;
}

TakeOutlook outlook_from_json(const Json& json) {
    TakeOutlook outlook;
    outlook.job = number32(json, "job_id");
    outlook.budget = json.at("budget").as_text();
    outlook.user = json.at("user").as_text();
    outlook.gpus = json.at("gpus").as_integer();
    outlook.may = json.at("may").as_boolean();
    outlook.reason = enum_from_text<TakeReason>(json.at("reason").as_text());
    outlook.from_at = outlook.may ? instant(json, "from_at") : 0;
    outlook.suspended = json.at("suspended").as_boolean();
    outlook.level = json.at("level").as_text();
    outlook.claimant_side = side_from_json(json.at("claimant_side"));
    outlook.victim_side = side_from_json(json.at("victim_side"));
    outlook.over_milli_hours = json.at("over_gpu_hours").as_thousandths();
    return outlook;
}

template <typename T, typename Read>
std::vector<T> list_from_json(const Json& json, Read read) {
    std::vector<T> items;
    for (std::size_t i = 0; i < json.size(); ++i) {
        items.push_back(read(json.at(i)));
    }
    return items;
}

Json to_json(const RankLoss& loss) {
    return Json::object()
        .set("level", loss.level)
        .set("depth", static_cast<std::int64_t>(loss.depth))
        .set("ours", to_json(loss.ours))
        .set("theirs", to_json(loss.theirs))
        .set("behind_gpu_hours", Json::thousandths(loss.behind_milli_hours))
        .set("job_id", loss.job)
        .set("budget", loss.budget)
        .set("user", loss.user)
        .set("jobs", loss.jobs);
}

RankLoss loss_from_json(const Json& json) {
    return {json.at("level").as_text(),
            static_cast<std::size_t>(json.at("depth").as_integer()),
            side_from_json(json.at("ours")),
            side_from_json(json.at("theirs")),
            json.at("behind_gpu_hours").as_thousandths(),
            number32(json, "job_id"),
            json.at("budget").as_text(),
            json.at("user").as_text(),
            number32(json, "jobs")};
}

template <typename T>
Json list_to_json(const std::vector<T>& items) {
    Json list = Json::array();
    for (const T& item : items) {
        list.append(to_json(item));
    }
    return list;
}

}  // namespace

void set_instant(Json& json, const char* key, std::int64_t at) {
    if (at > 0 && at != kNever) {
        json.set(key, at);
    }
}

void set_ratio(Json& json, const char* key, std::optional<std::int64_t> ratio_milli) {
    json.set(key, ratio_milli ? Json::thousandths(*ratio_milli) : Json());
}

Json to_json(const PendingExplanation& e) {
    Json json = Json::object();
    json.set("job_id", e.job)
        .set("budget", e.budget)
        .set("user", e.user)
        .set("band", to_text(e.band))
        .set("rank", e.rank)
        .set("ranked", e.ranked)
        .set("before_in_better_bands", e.before_in_better_bands)
        .set("could_start", e.counts)
        .set("wait_reason", to_text(e.reason))
        .set("gpus", e.gpus)
        .set("commitment_gpu_hours", Json::thousandths(e.commitment_milli_hours))
        .set("losses", list_to_json(e.losses));
    if (e.express_cap != ExpressCap::none) {
        json.set("express_cap", to_text(e.express_cap));
    }
    if (e.own_loss) {
        json.set(
            "own_budget",
            Json::object()
                .set("reason", to_text(e.own_loss->why))
                .set("job_id", e.own_loss->job)
                .set("user", e.own_loss->user)
                .set("our_user_gpu_hours", Json::thousandths(e.own_loss->our_user_milli_hours))
                .set("their_user_gpu_hours", Json::thousandths(e.own_loss->their_user_milli_hours))
                .set("jobs", e.own_loss->jobs));
    }
    Json victims = Json::array();
    for (const JobId victim : e.plan_victims) {
        victims.append(Json::integer(victim));
    }
    json.set("plan_victims", victims);
    if (e.waits_for != 0) {
        json.set("waits_for_job_id", e.waits_for);
    }
    json.set("could_take", list_to_json(e.could_take))
        .set("could_take_count", static_cast<std::int64_t>(e.could_take_count))
        .set("could_take_gpus_now", e.could_take_gpus_now)
        .set("could_take_gpus_later", e.could_take_gpus_later)
        .set("cannot_take", list_to_json(e.cannot_take))
        .set("cannot_take_count", static_cast<std::int64_t>(e.cannot_take_count));
    set_instant(json, "next_change_at", e.next_change_at);
    return json;
}

PendingExplanation pending_explanation_from_json(const Json& json) {
    PendingExplanation e;
    e.job = number32(json, "job_id");
    e.budget = json.at("budget").as_text();
    e.user = json.at("user").as_text();
    e.band = enum_from_text<Band>(json.at("band").as_text());
    e.rank = number32(json, "rank");
    e.ranked = number32(json, "ranked");
    e.before_in_better_bands = number32(json, "before_in_better_bands");
    e.counts = json.at("could_start").as_boolean();
    e.reason = enum_from_text<WaitReason>(json.at("wait_reason").as_text());
    e.express_cap = enum_from_text<ExpressCap>(json.at("express_cap").as_text());
    e.gpus = json.at("gpus").as_integer();
    e.commitment_milli_hours = json.at("commitment_gpu_hours").as_thousandths();
    e.losses = list_from_json<RankLoss>(json.at("losses"), loss_from_json);
    if (const Json own = json.at("own_budget"); own.is_object()) {
        e.own_loss = OwnLoss{enum_from_text<OwnOrder>(own.at("reason").as_text()),
                             number32(own, "job_id"),
                             own.at("user").as_text(),
                             own.at("our_user_gpu_hours").as_thousandths(),
                             own.at("their_user_gpu_hours").as_thousandths(),
                             number32(own, "jobs")};
    }
    e.plan_victims = list_from_json<JobId>(json.at("plan_victims"), [](const Json& victim) {
        return static_cast<JobId>(victim.as_integer());
    });
    e.waits_for = number32(json, "waits_for_job_id");
    e.could_take = list_from_json<TakeOutlook>(json.at("could_take"), outlook_from_json);
    e.could_take_count = static_cast<std::size_t>(json.at("could_take_count").as_integer());
    e.could_take_gpus_now = json.at("could_take_gpus_now").as_integer();
    e.could_take_gpus_later = json.at("could_take_gpus_later").as_integer();
    e.cannot_take = list_from_json<TakeOutlook>(json.at("cannot_take"), outlook_from_json);
    e.cannot_take_count = static_cast<std::size_t>(json.at("cannot_take_count").as_integer());
    e.next_change_at = instant(json, "next_change_at");
    return e;
}

Json to_json(const RunningExplanation& e) {
    Json json = Json::object();
    json.set("job_id", e.job)
        .set("budget", e.budget)
        .set("user", e.user)
        .set("allocated", e.allocated)
        .set("state", to_text(e.state))
        .set("resumable", e.resumable)
        .set("gpus", e.gpus)
        .set("started_at", e.started_at);
    set_instant(json, "protected_until", e.protected_until);
    json.set("contract_left_seconds", e.contract_left_seconds);
    set_instant(json, "checkpointed_at", e.checkpointed_at);
    if (e.protected_until == kNever) {
        json.set("contract_clock_runs", false);
    }
    if (e.leaving_for != 0) {
        json.set("leaving_for_job_id", e.leaving_for);
    }
    if (e.spared) {
        json.set("preempt_mode_off", true);
    }
    json.set("takers", list_to_json(e.takers))
        .set("takers_count", static_cast<std::int64_t>(e.takers_count));
    set_instant(json, "takeable_from_at", e.takeable_from_at);
    return json;
}

RunningExplanation running_explanation_from_json(const Json& json) {
    RunningExplanation e;
    e.job = number32(json, "job_id");
    e.budget = json.at("budget").as_text();
    e.user = json.at("user").as_text();
    e.allocated = json.at("allocated").as_boolean();
    e.state = run_state_from_text(json.at("state").as_text());
    e.resumable = json.at("resumable").as_boolean();
    e.gpus = json.at("gpus").as_integer();
    e.started_at = json.at("started_at").as_integer();
    e.protected_until = json.at("contract_clock_runs").is_boolean()
                            ? kNever
                            : json.at("protected_until").as_integer();
    e.contract_left_seconds = json.at("contract_left_seconds").as_integer();
    e.checkpointed_at = json.at("checkpointed_at").as_integer();
    e.leaving_for = number32(json, "leaving_for_job_id");
    e.spared = json.at("preempt_mode_off").is_boolean();
    e.takers = list_from_json<TakeOutlook>(json.at("takers"), outlook_from_json);
    e.takers_count = static_cast<std::size_t>(json.at("takers_count").as_integer());
    e.takeable_from_at = instant(json, "takeable_from_at");
    return e;
}

Json to_json(const PreemptionRecord& record) {
    const auto side = [](const std::string& name, std::int64_t charge, std::int64_t funded) {
        return to_json(SideNumbers{name, charge, funded});
    };
    Json json = Json::object();
    json.set("id", record.id)
        .set("victim_job_id", record.victim)
        .set("victim_budget", record.victim_budget)
        .set("victim_user", record.victim_user)
        .set("claimant_job_id", record.claimant)
        .set("claimant_budget", record.claimant_budget)
        .set("claimant_user", record.claimant_user)
        .set("reason", record.reason)
        .set("level", record.level);
    if (!record.level.empty()) {
        json.set("victim_side", side(record.victim_side, record.victim_charge_milli_hours,
                                     record.victim_funded_milli_hours))
            .set("claimant_side", side(record.claimant_side, record.claimant_charge_milli_hours,
                                       record.claimant_funded_milli_hours));
    }
    set_instant(json, "contract_ended_at", record.contract_ended_at);
    set_instant(json, "planned_at", record.planned_at);
    set_instant(json, "warned_at", record.warned_at);
    set_instant(json, "gone_at", record.gone_at);
    set_instant(json, "claimant_started_at", record.claimant_started_at);
    if (!record.victim_label.empty()) {
        json.set("victim_job", record.victim_label);
    }
    if (!record.claimant_label.empty()) {
        json.set("claimant_job", record.claimant_label);
    }
    return json.set("nodes", record.nodes)
        .set("claimant_nodes", record.claimant_nodes)
        .set("outcome", record.outcome);
}

PreemptionRecord preemption_from_json(const Json& json) {
    PreemptionRecord record;
    record.id = json.at("id").as_integer();
    record.victim = number32(json, "victim_job_id");
    record.victim_budget = json.at("victim_budget").as_text();
    record.victim_user = json.at("victim_user").as_text();
    record.claimant = number32(json, "claimant_job_id");
    record.claimant_budget = json.at("claimant_budget").as_text();
    record.claimant_user = json.at("claimant_user").as_text();
    record.reason = json.at("reason").as_text();
    record.level = json.at("level").as_text();
    const SideNumbers victim = side_from_json(json.at("victim_side"));
    const SideNumbers claimant = side_from_json(json.at("claimant_side"));
    record.victim_side = victim.name;
    record.victim_charge_milli_hours = victim.charge_milli_hours;
    record.victim_funded_milli_hours = victim.entitled_milli_hours;
    record.claimant_side = claimant.name;
    record.claimant_charge_milli_hours = claimant.charge_milli_hours;
    record.claimant_funded_milli_hours = claimant.entitled_milli_hours;
    record.contract_ended_at = json.at("contract_ended_at").as_integer();
    record.planned_at = json.at("planned_at").as_integer();
    record.warned_at = json.at("warned_at").as_integer();
    record.gone_at = json.at("gone_at").as_integer();
    record.claimant_started_at = json.at("claimant_started_at").as_integer();
    record.nodes = json.at("nodes").as_text();
    record.claimant_nodes = json.at("claimant_nodes").as_text();
    record.victim_label = json.at("victim_job").as_text();
    record.claimant_label = json.at("claimant_job").as_text();
    record.outcome = json.at("outcome").as_text();
    return record;
}

Json to_json(const PastRun& run) {
    Json json = Json::object();
    json.set("job_id", run.job)
        .set("run", run.number)
        .set("budget", run.budget)
        .set("user", run.user)
        .set("allocated", run.allocated)
        .set("gpus", run.gpus)
        .set("nodes", run.nodes)
        .set("began_at", run.began_at);
    set_instant(json, "ended_at", run.ended_at);
    set_instant(json, "protected_until", run.protected_until);
    return json.set("charged_gpu_hours", Json::thousandths(run.charged_milli_hours))
        .set("end", run.end);
}

PastRun past_run_from_json(const Json& json) {
    PastRun run;
    run.job = number32(json, "job_id");
    run.number = number32(json, "run");
    run.budget = json.at("budget").as_text();
    run.user = json.at("user").as_text();
    run.allocated = json.at("allocated").as_boolean();
    run.gpus = json.at("gpus").as_integer();
    run.nodes = json.at("nodes").as_text();
    run.began_at = json.at("began_at").as_integer();
    run.ended_at = json.at("ended_at").as_integer();
    run.protected_until = json.at("protected_until").as_integer();
    run.charged_milli_hours = json.at("charged_gpu_hours").as_thousandths();
    run.end = json.at("end").as_text();
    return run;
}

}  // namespace tranche
