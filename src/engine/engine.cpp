// SPDX-License-Identifier: GPL-2.0-or-later
// Threads: the cycle thread (collect, rank, pass, act), the clock thread (victims in grace), the
// estimate thread (when jobs will start), the outlook thread (what squeue shows), the
// ledger writer, the service's own. Mutexes are leaves and are held for copies only.
#include "engine/engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "common/policy/classes.hpp"
#include "engine/alarm.hpp"
#include "engine/engine_cycle.hpp"
#include "engine/service.hpp"

namespace tranche {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLedgerPatience{10000};  // before the cycle goes on in memory
constexpr milliseconds kContractPatience{10000};
constexpr milliseconds kLedgerLook{50};     // so long a stop waits meanwhile
constexpr milliseconds kShortestCycle{20};  // between two cycles
constexpr milliseconds kGraceStep{5};       // while a victim may leave by itself
constexpr milliseconds kQuietStep{1000};
constexpr milliseconds kOutlookStep{20};    // between a pass and our words
constexpr milliseconds kEstimateLook{250};  // for a newer view

std::int64_t milliseconds_now() {
    return std::chrono::duration_cast<milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

// The threads around one EngineCycle.
class EngineParts {
  public:
    EngineParts(Engine& engine, std::unique_ptr<Host> host, EngineOptions options)
        : options_(options),
          cycle_(
              std::move(host), std::move(options), [this] { kick(); }, milliseconds_now),
          service_(engine) {
        cycle_thread_ =
            std::thread([this] { guard("cycle thread", cycle_alarm_, [this] { run_cycles(); }); });
        try {
            clock_thread_ = std::thread(
                [this] { guard("clock thread", clock_alarm_, [this] { run_clock(); }); });
            estimate_thread_ = std::thread(
                [this] { guard("estimate thread", estimate_alarm_, [this] { run_estimates(); }); });
            outlook_thread_ = std::thread(
                [this] { guard("outlook thread", outlook_alarm_, [this] { run_outlook(); }); });
        } catch (...) {
            shut_down();
            throw;
        }
    }

    // Ends the threads, once. Not in the destructor: an entry point may let go of the last
    // reference while its caller holds Slurm's locks, for which these threads may be waiting.
    void shut_down() {
        stopping_ = true;
        cycle_alarm_.ring();
        clock_alarm_.ring();
        estimate_alarm_.ring();
        outlook_alarm_.ring();
        cycle_thread_.join();
        for (std::thread* thread : {&clock_thread_, &estimate_thread_, &outlook_thread_}) {
            if (thread->joinable()) {
                thread->join();
            }
        }
        cycle_.contracts().refuse_all("the controller is stopping; nothing was changed");
        service_.stop();
        cycle_.close();
    }

    void kick() {
        kicked_ = true;
        cycle_alarm_.ring();
        clock_alarm_.ring();
    }

    EngineCycle& cycle() { return cycle_; }

  private:
    // Runs the body of a thread; whatever it throws ends that round and is counted, not the daemon.
    template <typename Body>
    void guard(const char* where, Alarm& alarm, Body&& body) noexcept {
        for (;;) {
            try {
                body();
                return;
            } catch (const std::exception& e) {
                cycle_.fault(where, e.what());
            } catch (...) {
                cycle_.fault(where, "an exception of unknown type");
            }
            if (sleeps(alarm, Clock::now() + std::chrono::seconds(1))) {
                return;
            }
        }
    }
    // True: the engine stops.
    bool sleeps(Alarm& alarm, Clock::time_point until) {
        while (!stopping_ && Clock::now() < until) {
            alarm.wait(rest_of(until));
        }
        return stopping_;
    }
    static milliseconds rest_of(Clock::time_point until) {
        return std::chrono::ceil<milliseconds>(until - Clock::now());
    }

    void run_cycles();
    void run_clock();
    void run_estimates();
    void run_outlook();
    void start_service();

    const EngineOptions options_;
    EngineCycle cycle_;
    Service service_;
    bool opened_ = false, service_started_ = false;  // the cycle thread's own

    Alarm cycle_alarm_, clock_alarm_, estimate_alarm_, outlook_alarm_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> kicked_{false};
    std::thread cycle_thread_, clock_thread_, estimate_thread_, outlook_thread_;
};

void EngineParts::start_service() {
    service_started_ = true;
    const Status status =
        service_.start(static_cast<int>(cycle_.settings().service_port), options_.munge_socket,
                       options_.slurm_user_uid, options_.cluster);
    if (!status.ok()) {
        cycle_.complain(status.error());
    }
}

void EngineParts::run_cycles() {
    if (!opened_) {
        cycle_.open();
        opened_ = true;
        const Clock::time_point enough = Clock::now() + kLedgerPatience;
        while (!cycle_.wait_for_ledger(kLedgerLook) && Clock::now() < enough) {
            if (stopping_) {
                return;
            }
        }
        cycle_.announce();
    }
    for (;;) {
        const Clock::time_point begun = Clock::now();
        cycle_.step();
        if (!service_started_) {
            start_service();
        }
        // A storm of submissions may not keep slurmctld's locks busy: cycles take at most a fifth
        // of the time.
        const Clock::time_point not_before =
            begun + std::max(kShortestCycle,
                             std::chrono::duration_cast<milliseconds>((Clock::now() - begun) * 5));
        const Clock::time_point due = Clock::now() + cycle_.due_in() + milliseconds(2);
        while (!stopping_ && !kicked_ && Clock::now() < due) {
            cycle_alarm_.wait(rest_of(due));
        }
        if (sleeps(cycle_alarm_, not_before)) {
            return;
        }
        kicked_ = false;
    }
}

void EngineParts::run_clock() {
    while (!stopping_) {
        if (cycle_.follow_victims()) {
            clock_alarm_.wait_real(kGraceStep);
        } else {
            clock_alarm_.wait(kQuietStep);  // a new plan rings
        }
    }
}

void EngineParts::run_estimates() {
    while (!stopping_) {
        cycle_.outlook().estimate();
        estimate_alarm_.wait_real(kEstimateLook);
    }
}

// Looks at two counters and takes a lock only when one of them has moved.
void EngineParts::run_outlook() {
    while (!stopping_) {
        cycle_.outlook().look();
        outlook_alarm_.wait_real(kOutlookStep);
    }
}

// Engine.

namespace {

// Held or put off when it was ranked: no pass has said yet whether it may start.
bool was_blocked(const EngineView& view, JobId id) {
    const JobCard* card = view.card(id);
    return card != nullptr && card->pending_index >= 0 &&
           view.view.pending[static_cast<std::size_t>(card->pending_index)].block !=
               StartBlock::none;
}

// What a job that no ranking has seen yet would be.
struct NewJobTerms {
    std::string budget;
    std::int64_t contract_seconds = 0;  // 0: it runs free
};

NewJobTerms terms_of_new(const EngineView& view, const std::string& account,
                         const std::string& user, const std::vector<std::string>& entries,
                         bool governed, const JobShape& shape) {
    NewJobTerms out;
    const auto stored = parse_stored_terms(entries);
    const ContractTerms terms = stored ? *stored : default_terms(*view.settings, false);
    const auto match = view.tree->match(account, user, terms.budget);
    if (!match.ok()) {
        return out;
    }
    out.budget = match->name;
    const bool funded =
        !out.budget.empty() &&
        std::any_of(view.standings.budgets.begin(), view.standings.budgets.end(),
                    [&](const BudgetPlace& place) {
                        return place.name == out.budget && place.funded_fraction > 0;
                    });
    if (funded && governed && shape.gpus > 0) {
        out.contract_seconds = std::clamp<std::int64_t>(terms.min_runtime_seconds, 0,
                                                        view.settings->max_min_runtime_seconds);
    }
    return out;
}

}  // namespace

Engine& Engine::instance() {
    static Engine engine;
    return engine;
}

Engine::Engine() = default;
Engine::~Engine() {
    stop();
}

std::shared_ptr<EngineParts> Engine::parts() const noexcept {
    const std::lock_guard lock(parts_mutex_);
    return parts_;
}

void Engine::start(std::unique_ptr<Host> host, const EngineOptions& options) noexcept {
    try {
        stop();
        auto parts = std::make_shared<EngineParts>(*this, std::move(host), options);
        const std::lock_guard lock(parts_mutex_);
        parts_ = std::move(parts);
    } catch (...) {
        // No thread or no memory: as if we were not there.
    }
}

void Engine::stop() noexcept {
    std::shared_ptr<EngineParts> parts;
    {
        const std::lock_guard lock(parts_mutex_);
        parts = std::move(parts_);
        parts_.reset();
    }
    if (parts) {
        try {
            parts->shut_down();
        } catch (...) {
            // A thread that cannot be joined: nothing more can be done here.
        }
    }
}

void Engine::reconfigure() noexcept {
    if (const auto p = parts()) {
        p->cycle().reload_settings();
        p->kick();
    }
}

bool Engine::running() const noexcept {
    return parts() != nullptr;
}

std::shared_ptr<const EngineView> Engine::view() const noexcept {
    const auto p = parts();
    return p ? p->cycle().view() : nullptr;
}

QueuePlace Engine::place_for(JobId id, const std::string& account, const std::string& user,
                             const std::vector<std::string>& entries, bool governed,
                             const JobShape& shape, std::uint32_t tasks) noexcept {
    try {
        const auto p = parts();
        if (!p) {
            return {};
        }
        const auto view = p->cycle().view();
        const std::uint32_t known = p->cycle().known_priority(id);
        if (known != 0 && !(view && was_blocked(*view, id))) {
            return {known, 0};
        }
        p->kick();
        Band band = Band::unallocated;
        std::int64_t contract_seconds = 0;
        if (view) {
            contract_seconds =
                terms_of_new(*view, account, user, entries, governed, shape).contract_seconds;
        }
        if (contract_seconds > 0) {
            PendingJob job;
            job.shape = shape;
            job.min_runtime_seconds = contract_seconds;
            band = fits_lane(job, *view->settings) ? Band::express : Band::allocated;
        }
        // The last of its band until it is ranked, some milliseconds from now.
        QueuePlace place{known != 0 ? known : band_floor(band) + 1, 0};
        if (view) {
            place.not_before_at =
                p->cycle().let_in(*view, band != Band::unallocated, band == Band::express,
                                  contract_seconds, shape.gpus * std::max<std::uint32_t>(tasks, 1));
        }
        return place;
    } catch (...) {
        return {};
    }
}

void Engine::kick() noexcept {
    if (const auto p = parts()) {
        p->kick();
    }
}

void Engine::note_start_attempt(JobId id) noexcept {
    if (const auto p = parts()) {
        p->cycle().note_start_attempt(id);
    }
}

std::optional<StartStamp> Engine::stamp(JobId id, std::int64_t now) const noexcept {
    try {
        const auto now_view = view();
        if (!now_view) {
            return std::nullopt;
        }
        const JobCard* card = now_view->card(id);
        StartStamp stamp;
        if (card == nullptr || card->pending_index < 0) {
            return card == nullptr ? std::optional<StartStamp>() : stamp;
        }
        const PendingJob& job =
            now_view->view.pending[static_cast<std::size_t>(card->pending_index)];
        stamp.budget = card->budget;
        stamp.time_limit_seconds = job.time_limit_seconds;
        stamp.run = card->runs + 1;
        if (is_allocated(job, now_view->standings)) {
            stamp.min_runtime_seconds = job.contract_seconds();
            stamp.protected_until = now + stamp.min_runtime_seconds;
        }
        return stamp;
    } catch (...) {
        return std::nullopt;
    }
}

std::optional<StartStamp> Engine::stamp_of_new(const std::string& account, const std::string& user,
                                               const std::vector<std::string>& entries,
                                               bool governed, const JobShape& shape,
                                               std::int64_t now) const noexcept {
    try {
        const auto now_view = view();
        if (!now_view) {
            return std::nullopt;
        }
        const NewJobTerms terms = terms_of_new(*now_view, account, user, entries, governed, shape);
        StartStamp stamp;
        stamp.budget = terms.budget;
        stamp.min_runtime_seconds = terms.contract_seconds;
        stamp.protected_until = terms.contract_seconds > 0 ? now + terms.contract_seconds : 0;
        return stamp;
    } catch (...) {
        return std::nullopt;
    }
}

Result<EditOutcome> Engine::edit(const Actor& actor, const BudgetEdit& edit, bool only_try) {
    const auto p = parts();
    return p ? p->cycle().edit(actor, edit, only_try)
             : Result<EditOutcome>(Error{"the engine does not run"});
}

Result<std::vector<EditRecord>> Engine::edits(std::size_t most) {
    const auto p = parts();
    return p ? p->cycle().edits(most)
             : Result<std::vector<EditRecord>>(Error{"the engine does not run"});
}

Result<ContractOutcome> Engine::change_contract(const Actor& actor, ContractQuestion question) {
    const auto p = parts();
    if (!p) {
        return Error{"the engine does not run"};
    }
    ContractEditor& contracts = p->cycle().contracts();
    const auto posted = contracts.post(actor, std::move(question));
    p->kick();
    return contracts.wait(posted, kContractPatience);
}

Result<std::vector<ContractEditRow>> Engine::contract_edits(std::size_t most) {
    const auto p = parts();
    return p ? p->cycle().contract_edits(most)
             : Result<std::vector<ContractEditRow>>(Error{"the engine does not run"});
}

Result<std::vector<PreemptionRecord>> Engine::preemptions(std::int64_t from, std::int64_t to,
                                                          std::size_t most) {
    const auto p = parts();
    return p ? p->cycle().preemptions(from, to, most)
             : Result<std::vector<PreemptionRecord>>(Error{"the engine does not run"});
}

Result<JobHistory> Engine::history(std::uint32_t id, std::int64_t part, bool is_component,
                                   std::size_t most) {
    const auto p = parts();
    return p ? p->cycle().history(id, part, is_component, most)
             : Result<JobHistory>(Error{"the engine does not run"});
}

Host* Engine::host() noexcept {
    const auto p = parts();
    return p ? p->cycle().host() : nullptr;
}

void Engine::fault(const char* where, const char* what) noexcept {
    if (const auto p = parts()) {
        p->cycle().fault(where, what);
    }
}

}  // namespace tranche
