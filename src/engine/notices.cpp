// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/notices.hpp"

#include <unordered_map>

#include "common/config/time_format.hpp"
#include "engine/job_tracker.hpp"

namespace tranche {
namespace {

constexpr char kPath[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

std::string name_of(const JobCard& card) {
    return card.array_job_id != 0 && card.array_task != kNoTask
               ? std::to_string(card.array_job_id) + "_" + std::to_string(card.array_task)
               : std::to_string(card.id);
}

// No line break can slip into a program's input by a job's name.
std::string one_line(std::string text) {
    for (char& character : text) {
        if (static_cast<unsigned char>(character) < ' ') {
            character = ' ';
        }
    }
    return text;
}

Notice notice_of(const char* kind, const EngineView& view, const JobCard& card, const HostJob& job,
                 const std::string& text) {
    Notice notice;
    notice.program = view.settings->notify_program;
    notice.about = std::string(kind) + " of job " + name_of(card);
    const auto set = [&notice](const char* name, const std::string& value) {
        notice.environment.push_back(std::string(name) + "=" + one_line(value));
    };
    notice.environment.emplace_back(kPath);
    set("TRANCHE_NOTICE", kind);
    set("TRANCHE_TEXT", text);
    set("TRANCHE_CLUSTER", view.cluster);
    set("TRANCHE_JOB_ID", name_of(card));
    set("TRANCHE_JOB_NAME", card.name);
    set("TRANCHE_USER", card.user);
    set("TRANCHE_MAIL_USER", job.mail_user.empty() ? card.user : job.mail_user);
    set("TRANCHE_ACCOUNT", card.account);
    set("TRANCHE_PARTITION", card.partition);
    set("TRANCHE_BUDGET", card.budget);
    set("TRANCHE_RUN", std::to_string(card.runs));
    set("TRANCHE_RESUMABLE", card.terms.resumable ? "yes" : "no");
    return notice;
}

std::string ending_text(const JobCard& card, const Run& run, std::int64_t left,
                        const Settings& settings) {
    const std::string name = "job " + name_of(card);
    const std::string after =
        run.interactive
            ? "; from then on it may be ended when a job with a better claim needs its GPUs, " +
                  format_duration(settings.grace_time_interactive_seconds) + " after a warning"
        : run.resumable
            ? "; from then on it may be requeued when a job with a better claim needs its GPUs, so "
              "a checkpoint just before loses nothing"
            : "; from then on it may be ended when a job with a better claim needs its GPUs";
    return "the contract of " + name + " ends in " + format_duration(left) + after;
}

}  // namespace

std::int64_t notice_due(std::int64_t left, std::int64_t contract_seconds,
                        std::int64_t noticed_seconds) noexcept {
    std::int64_t due = 0;
    for (const std::int64_t seconds : kNoticeSeconds) {
        if (left <= seconds && seconds < contract_seconds && seconds < noticed_seconds) {
            due = seconds;
        }
    }
    return left > 0 ? due : 0;
}

void Notices::tell(const EngineView& view, const HostSnapshot& snapshot,
                   const std::vector<WarnedRun>& warned, LedgerBatch& out) {
    const bool mails = !view.settings->notify_program.empty();
    std::unordered_map<JobId, const HostJob*> asked;
    for (const HostJob& job : snapshot.jobs) {
        if (mails && job.wants_notices) {
            asked.emplace(job.id, &job);
        }
    }
    for (const JobCard& card : view.cards) {
        const bool of_component = card.het_job_id != 0 && card.het_offset != 0;
        if (card.run_index < 0 || of_component) {
            continue;
        }
        const Run& run = view.view.runs[static_cast<std::size_t>(card.run_index)];
        const auto wish = asked.find(card.id);
        if ((!run.interactive && wish == asked.end()) || run.state != RunState::running ||
            run.protected_until == kNever || !run.under_contract(view.at)) {
            continue;
        }
        const std::int64_t left = run.protected_until - view.at;
        const std::int64_t due =
            notice_due(left, run.contract_seconds, tracker_.noticed_seconds(card.id));
        if (due == 0) {
            continue;
        }
        tracker_.set_noticed(card.id, due, out);
        const std::string text = ending_text(card, run, left, *view.settings);
        if (run.interactive) {
            host_.tell(card.id, "tranche: " + text);
        }
        if (wish != asked.end() && due == kMailNoticeSeconds) {
            Notice notice = notice_of("contract-ending", view, card, *wish->second, text);
            notice.environment.push_back("TRANCHE_PROTECTED_UNTIL=" +
                                         std::to_string(run.protected_until));
            send_(std::move(notice));
        }
    }
    for (const WarnedRun& one : warned) {
        const auto wish = asked.find(one.record.victim);
        const JobCard* card = view.card(one.record.victim);
        if (wish == asked.end() || card == nullptr) {
            continue;
        }
        Notice notice = notice_of("preempted", view, *card, *wish->second, one.text);
        notice.environment.push_back("TRANCHE_REASON=" + one_line(one.record.reason));
        notice.environment.push_back("TRANCHE_CLAIMANT_JOB_ID=" +
                                     std::to_string(one.record.claimant));
        notice.environment.push_back(std::string("TRANCHE_REQUEUE=") +
                                     (one.requeue ? "yes" : "no"));
        send_(std::move(notice));
    }
}

}  // namespace tranche
