// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/engine_cycle.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unordered_set>

#include "common/policy/classes.hpp"
#include "common/store/ledger_replay.hpp"
#include "engine/kept_settings.hpp"
#include "engine/local_calendar.hpp"
#include "engine/partitions.hpp"
#include "engine/real_clock.hpp"

namespace tranche {
namespace {

using Stopwatch = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kEditPatience{5000};
constexpr char kLedgerNotOpen[] =
    "the ledger is not open yet, so edits cannot be kept; try again in a moment (srank --health "
    "says more)";
constexpr std::int64_t kNotesLook = 1000;           // milliseconds, while a new run is to be told
constexpr std::int64_t kRegistrationSeconds = 600;  // in which nodes register at a first start
constexpr std::int64_t kRebuildPause = 30;          // after the ledger did not answer
constexpr std::uint32_t kMostSplits = 500;          // tasks in one cycle: 5 ms of the job lock

std::int64_t microseconds_since(Stopwatch::time_point start) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Stopwatch::now() - start).count();
}

UsageLedger::Rules rules_of(const Settings& settings) {
    UsageLedger::Rules rules;
    rules.window = settings.window();
    rules.backdate_seconds = settings.max_min_runtime_seconds;
    rules.entitlement_history = settings.entitlement_history;
    rules.pooled_by_default = settings.sharing == Sharing::pooled;
    return rules;
}

PlanDecision plan_without_victims(const StartDecision& start, const PendingJob& job,
                                  std::int64_t at) {
    PlanDecision decision;
    decision.job = start.job;
    decision.plan.claimant = job.id;
    decision.plan.budget = job.budget;
    decision.plan.member = job.member;
    decision.plan.weight_milli = job.weight_milli;
    decision.plan.commitment_seconds = job.contract_seconds();
    decision.plan.gpus = job.shape.gpus;
    decision.plan.where = start.where;
    decision.plan.made_at = at;
    return decision;
}

}  // namespace

bool EngineCycle::load_settings(bool first) {
    // A folder opens as a file and reads as an empty one.
    std::ifstream file(options_.settings_path);
    std::stringstream text;
    if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) {
        text << file.rdbuf();
    }
    if (!file.is_open() || file.bad()) {
        settings_complaints_ = {
            options_.settings_path + " cannot be read",
            first ? "the defaults are in force" : "the settings before it stay in force"};
        log(Host::LogLevel::error,
            settings_complaints_.front() + "; " + settings_complaints_.back());
        return first;
    }
    auto parsed = parse_settings(text.str(), options_.settings_path);
    if (!parsed.ok()) {
        settings_complaints_ = {parsed.error(),
                                first ? "what can be read of it is in force, and nobody is "
                                        "preempted until it is right (then: scontrol reconfigure)"
                                      : "the settings before it stay in force"};
        log(Host::LogLevel::error, parsed.error() + "; " + settings_complaints_.back());
        if (first) {
            // No good settings to go on with: the harmless ones, found where the commands look.
            Settings harmless = readable_settings(text.str());
            harmless.dry_run = true;
            settings_ = std::make_shared<const Settings>(std::move(harmless));
        }
        return first;
    }
    settings_complaints_.clear();
    Settings wanted = std::move(parsed).value();
    if (first) {
        wanted.dry_run = wanted.dry_run || options_.rehearses;
    } else {
        for (std::string& line : keep_until_restart(wanted, *settings_, options_.rehearses)) {
            log(Host::LogLevel::error, line);
            settings_complaints_.push_back(std::move(line));
        }
    }
    auto settings = std::make_shared<const Settings>(std::move(wanted));
    if (!settings->default_min_runtime_seconds && !settings->require_min_runtime) {
        settings_complaints_.push_back(
            "DefaultMinRuntime is not set: jobs that declare nothing run free and may be ended at "
            "any second; write DefaultMinRuntime=require, 0 or a time into " +
            options_.settings_path);
        log(Host::LogLevel::error, settings_complaints_.back());
    }
    const bool rules_differ =
        settings->window().length_seconds != settings_->window().length_seconds ||
        settings->window_shape != settings_->window_shape ||
        settings->max_min_runtime_seconds != settings_->max_min_runtime_seconds ||
        settings->entitlement_history != settings_->entitlement_history ||
        settings->sharing != settings_->sharing;
    settings_ = std::move(settings);
    return rules_differ;
}

EngineCycle::EngineCycle(std::unique_ptr<Host> host, EngineOptions options,
                         std::function<void()> kick, std::function<std::int64_t()> clock)
    : host_(std::move(host)),
      options_(std::move(options)),
      kick_(std::move(kick)),
      clock_(std::move(clock)),
      notes_(*host_, local_calendar, real_milliseconds),
      entrance_(*host_),
      plans_(*host_, tracker_, kick_, clock_),
      notifier_([this](const std::string& text) { log(Host::LogLevel::error, text); }),
      notices_(*host_, tracker_, [this](Notice notice) { notifier_.put(std::move(notice)); }),
      outlook_(
          *host_, [this] { return view(); }, local_calendar, real_milliseconds) {}

void EngineCycle::open() {
    load_settings(true);
    health_.started_at = host_->now();
    look_at_host();
    const std::string path = settings_->database_path.empty()
                                 ? options_.state_directory + "/usage.db"
                                 : settings_->database_path;
    ledger_ = std::make_unique<UsageLedger>(rules_of(*settings_));
    writer_ = std::make_unique<LedgerWriter>(
        path, settings_->lookback_window_seconds, [clock = clock_] { return clock() / 1000; },
        options_.ledger_retry);
    writer_ptr_ = writer_.get();
}

// What is said already is not logged again.
void EngineCycle::look_at_host() {
    std::vector<std::string> complaints = host_->complaints();
    for (const std::string& complaint : complaints) {
        if (std::find(host_complaints_.begin(), host_complaints_.end(), complaint) ==
            host_complaints_.end()) {
            log(Host::LogLevel::error, complaint);
        }
    }
    host_complaints_ = std::move(complaints);
}

void EngineCycle::govern(HostSnapshot& snapshot) {
    apply_partitions(snapshot, *settings_);
    std::vector<std::string> unknown = unknown_partitions(snapshot, *settings_);
    if (unknown != unknown_partitions_) {
        for (const std::string& line : unknown) {
            log(Host::LogLevel::error, line);
        }
        unknown_partitions_ = std::move(unknown);
    }
}

bool EngineCycle::wait_for_ledger(milliseconds patience) {
    if (!ledger_loaded_) {
        if (const auto contents = writer_->contents(patience)) {
            take_over(*contents);
        }
    }
    return ledger_loaded_;
}

void EngineCycle::announce() {
    const std::string text = writer_->health().text;
    if (ledger_loaded_) {
        log(Host::LogLevel::info, "engine started, ledger " + text);
    } else {
        log(Host::LogLevel::error, "engine started, but the ledger is not open yet (" + text +
                                       "); ranking in memory until it is");
    }
}

// What was seen meanwhile is seen again: the jobs are still there, and which runs are allocated
// shows only now that the tree is known.
void EngineCycle::take_over(const LedgerContents& contents) {
    tracker_ = JobTracker();
    tracker_.restore(contents);
    unwritten_ = {};
    plans_.restore(contents, *settings_);
    assemblies_.restore(contents);
    entrance_.restore(contents);
    rebuild_ledger(contents);
    ledger_loaded_ = true;
    const std::lock_guard lock(new_tree_mutex_);
    if (!contents.trees.empty()) {
        tree_ = std::make_shared<const BudgetTree>(contents.trees.back().tree);
    }
    last_edit_number_ = contents.last_edit_number;
    edits_allowed_ = true;
}

void EngineCycle::rebuild_ledger(const LedgerContents& contents) {
    auto ledger = std::make_unique<UsageLedger>(rules_of(*settings_));
    replay(contents, *ledger);
    ledger_ = std::move(ledger);
    tracker_.reopen_segments(*ledger_);
    capacity_ = contents.capacity;
}

void EngineCycle::follow_settings() {
    if (reload_settings_.exchange(false)) {
        look_at_host();
        if (load_settings(false)) {
            rebuild_due_ = true;
            rebuild_not_before_ = 0;
            writer_->keep(settings_->lookback_window_seconds);
        }
    }
    if (!rebuild_due_ || !ledger_loaded_ || host_->now() < rebuild_not_before_) {
        return;
    }
    if (const auto contents = writer_->load_again(); contents.ok()) {
        rebuild_ledger(*contents);
        rebuild_due_ = false;
        log(Host::LogLevel::info,
            "the window's charges were computed anew: the settings of the window changed");
    } else {
        rebuild_not_before_ = host_->now() + kRebuildPause;
        log(Host::LogLevel::error,
            "the settings of the window changed, but its charges cannot be "
            "computed anew yet: " +
                contents.error());
    }
}

void EngineCycle::note_capacity(const HostSnapshot& snapshot, LedgerBatch& out) {
    std::int64_t available = 0;
    for (const HostNode& node : snapshot.nodes) {
        if (node.up && !node.draining) {
            available += node.gpus * settings_->gpu_weight_milli(node.gpu_type);
        }
    }
    if (capacity_.empty() || capacity_.back().available_weight_milli != available) {
        capacity_.push_back({snapshot.now, available});
        out.capacity.push_back(capacity_.back());
    }
}

Int128 EngineCycle::capacity_over_window(std::int64_t now) {
    const std::int64_t since = now - settings_->lookback_window_seconds;
    const auto first_inside =
        std::find_if(capacity_.begin(), capacity_.end(),
                     [since](const CapacityRow& row) { return row.at > since; });
    if (first_inside - capacity_.begin() > 1) {
        capacity_.erase(capacity_.begin(), first_inside - 1);
    }
    Int128 sum = 0;
    if (!capacity_.empty() && capacity_.front().at > since) {
        // Before the first one was noted the cluster is taken to have been as it was soon after:
        // nodes register one by one when a controller starts for the first time.
        std::int64_t settled = 0;
        for (const CapacityRow& row : capacity_) {
            if (row.at <= capacity_.front().at + kRegistrationSeconds) {
                settled = std::max(settled, row.available_weight_milli);
            }
        }
        sum += Int128{settled} * (std::min(capacity_.front().at, now) - since);
    }
    for (std::size_t i = 0; i < capacity_.size(); ++i) {
        const std::int64_t from = std::max(capacity_[i].at, since);
        const std::int64_t to = i + 1 < capacity_.size() ? capacity_[i + 1].at : now;
        if (to > from) {
            sum += Int128{capacity_[i].available_weight_milli} * (to - from);
        }
    }
    return sum;
}

std::shared_ptr<const BudgetTree> EngineCycle::apply_new_tree() {
    const std::lock_guard lock(new_tree_mutex_);
    if (new_tree_) {
        tree_ = new_tree_->second;
        ledger_->set_tree(new_tree_->first, *tree_);
        new_tree_.reset();
    }
    return tree_;
}

// Tasks that may start before the next ranking get records of their own, so that slurmctld does
// not run through an array at one priority (SLURM_HOWTO 6.1). Also a task that is to be planned
// for. The records that were split.
std::vector<JobId> EngineCycle::split_arrays(const EngineView& next) {
    std::vector<JobId> split;
    // As much of the list as the whole cluster could hold: nodes may come back all at once, and
    // slurmctld's pass is quicker than the next ranking.
    std::int64_t reach = 0;
    for (const Node& node : next.view.nodes) {
        reach += node.gpus;
    }
    std::unordered_map<std::uint32_t, std::uint32_t> tasks;
    std::uint32_t budget = kMostSplits;
    std::unordered_set<std::uint32_t> reached;
    for (const RankedEntry& entry : next.ranking) {
        const PendingJob& job = next.view.pending[entry.job];
        if (!entry.counts || job.turn_run >= 0) {
            continue;
        }
        if (reach <= 0) {
            break;
        }
        reached.insert(entry.job);
        std::uint32_t within = 0;
        while (within < entry.tasks && reach > 0) {
            ++within;
            reach -= std::max<std::int64_t>(job.shape.gpus, 1);
        }
        if (job.tasks > 1) {
            tasks[entry.job] += within;
        }
    }
    if (reached.size() > 1) {
        for (const auto& [index, count] : tasks) {
            const PendingJob& job = next.view.pending[index];
            const std::uint32_t now = std::min({count, job.tasks, budget});
            if (now > 0 && !host_->split_array(job.id, now).empty()) {
                split.push_back(job.id);
                budget -= now;
            }
        }
    }
    std::vector<std::uint32_t> alone = next.pass.turns_come;
    for (const PlanDecision& decision : next.pass.plans) {
        alone.push_back(decision.job);
    }
    for (const std::uint32_t index : alone) {
        const PendingJob& job = next.view.pending[index];
        if (job.tasks > 1 && std::find(split.begin(), split.end(), job.id) == split.end() &&
            !host_->split_array(job.id, 1).empty()) {
            split.push_back(job.id);
        }
    }
    return split;
}

void EngineCycle::write_priorities(EngineView& next) {
    std::vector<Band> bands;
    std::vector<std::uint32_t> previous, listed;
    std::unordered_set<std::uint32_t> seen;
    {
        const std::lock_guard lock(view_mutex_);
        for (const RankedEntry& entry : next.ranking) {
            if (next.view.pending[entry.job].turn_run >= 0 || !seen.insert(entry.job).second) {
                continue;  // an array's record stands where its first task stands
            }
            const auto it = priorities_.find(next.view.pending[entry.job].id);
            bands.push_back(entry.band);
            previous.push_back(it == priorities_.end() ? 0 : it->second);
            listed.push_back(entry.job);
        }
    }
    std::vector<std::uint32_t> assigned = spaced_priorities(bands, previous);
    const auto of_plans = plans_.priorities();
    for (std::size_t i = 0; !of_plans.empty() && i < listed.size(); ++i) {
        if (const auto it = of_plans.find(next.view.pending[listed[i]].id); it != of_plans.end()) {
            assigned[i] = it->second;
        }
    }
    std::unordered_map<JobId, std::uint32_t> priorities;
    std::vector<PriorityChange> changes;
    for (std::size_t i = 0; i < listed.size(); ++i) {
        const JobId id = next.view.pending[listed[i]].id;
        priorities.emplace(id, assigned[i]);
        JobCard& card = next.cards[next.card_by_id.at(id)];
        if (card.priority != assigned[i]) {
            changes.push_back({id, assigned[i]});
            card.priority = assigned[i];
        }
    }
    {
        const std::lock_guard lock(view_mutex_);
        priorities_ = std::move(priorities);
    }
    if (!changes.empty()) {
        host_->set_priorities(changes);
    }
}

void EngineCycle::publish(std::shared_ptr<EngineView> next) {
    const std::lock_guard lock(view_mutex_);
    view_ = std::move(next);
}

void EngineCycle::order_queue(EngineView& next) {
    const std::vector<JobId> split = split_arrays(next);
    write_priorities(next);
    if (!split.empty()) {
        kick_();  // the new records are ranked at once
    }
}

// Carries out what the pass decided. True: slurmctld should look at its queue at once.
bool EngineCycle::act(EngineView& next, const HostSnapshot& snapshot, LedgerBatch& out) {
    bool wake = false;
    if (!options_.rehearses) {
        order_queue(next);
    }
    std::unordered_set<JobId> express, as_free;
    for (const RankedEntry& entry : next.ranking) {
        if (entry.band == Band::express) {
            express.insert(next.view.pending[entry.job].id);
        }
    }
    for (const Plan& plan : next.view.plans) {
        if (plan.express) {
            express.insert(plan.claimant);
        }
    }
    std::vector<PlanDecision> plans = next.pass.plans;
    for (const StartDecision& start : next.pass.starts) {
        const PendingJob& job = next.view.pending[start.job];
        if (start.as_free) {
            as_free.insert(job.id);
        }
        if (assemblies_.has(job.id) && job.plannable &&
            std::none_of(next.view.plans.begin(), next.view.plans.end(),
                         [&](const Plan& plan) { return plan.claimant == job.id; })) {
            // Its nodes are free: it is pinned to them, above all others.
            plans.push_back(plan_without_victims(start, job, next.at));
        }
        wake = true;
    }
    std::vector<std::uint32_t> planned;
    for (const PlanDecision& decision : plans) {
        const JobId id = next.view.pending[decision.job].id;
        if (next.view.pending[decision.job].tasks > 1) {
            continue;  // the task gets a record of its own first: planned in the next cycle
        }
        if (plans_.make(decision, next, out)) {
            planned.push_back(decision.job);
            if (decision.plan.express) {
                express.insert(id);
            }
        }
    }
    if (!planned.empty()) {
        plans_.put(out);
        kick_();  // the claimant's priority is that of the plan band
    }
    if (ledger_loaded_) {
        if (assemblies_.note(next, out)) {
            kick_();
        }
        for (const std::string& message : assemblies_.take_messages()) {
            log(Host::LogLevel::info, message);
        }
        if (entrance_.apply(next, snapshot.serial, planned, as_free, out)) {
            kick_();
        }
    }
    tracker_.expect_starts(std::move(express), std::move(as_free));
    for (const std::uint32_t run : next.pass.turns) {
        tracker_.turn(next.view.runs[run].id, snapshot.now, *ledger_, out);
    }
    for (const JobId id : tracker_.to_release(snapshot)) {
        if (!entrance_.is_held(id)) {
            wake = host_->release_requeued(id) || wake;
        }
    }
    return wake;
}

void EngineCycle::step() {
    const Stopwatch::time_point begun = Stopwatch::now();
    follow_settings();
    if (!ledger_loaded_ && wait_for_ledger(milliseconds(0))) {
        log(Host::LogLevel::info, "the ledger could be opened; its charges count from now on");
    }
    for (const std::string& message : writer_->take_messages()) {
        log(Host::LogLevel::error, message);
        if (message.find("set aside") != std::string::npos) {
            own_complaints_.push_back(message);  // runs and budgets of before are not known here
        }
    }

    HostSnapshot snapshot;
    entrance_.begin_cycle();
    host_->collect(snapshot);
    govern(snapshot);
    const std::int64_t collected = microseconds_since(begun);
    const std::shared_ptr<const BudgetTree> tree = apply_new_tree();

    LedgerBatch& batch = unwritten_;
    note_capacity(snapshot, batch);
    tracker_.observe(snapshot, *settings_, *tree, *ledger_, batch);
    contracts_.answer_all(
        {snapshot, view().get(), *settings_, *host_, tracker_, plans_, *ledger_, batch},
        ledger_loaded_ ? "" : kLedgerNotOpen);
    plans_.follow(snapshot, *settings_, batch);
    assemblies_.follow(snapshot, batch);

    auto next = std::make_shared<EngineView>();
    next->at = snapshot.now;
    next->cluster = options_.cluster;
    next->settings = settings_;
    next->tree = tree;
    tracker_.fill(snapshot, *settings_, *ledger_, next->view, next->cards);
    for (std::size_t i = 0; i < next->cards.size(); ++i) {
        next->card_by_id.emplace(next->cards[i].id, i);
    }
    for (const Node& node : next->view.nodes) {
        next->available_weight_milli +=
            node.usable ? node.gpus * settings_->gpu_weight_milli(node.gpu_type) : 0;
    }
    plans_.fill(*next, *ledger_);
    assemblies_.fill(*next, *ledger_);
    mark_impossible(next->view);

    next->standings = ledger_->standings(snapshot.now);
    add_commitments(next->standings, next->view, *settings_);
    next->ranking = rank_queue(next->view, next->standings, *settings_);
    next->pass_rules = {.one_plan_per_node = true, .large_jobs = true, .drains = false};
    next->pass = run_pass(next->view, next->ranking, next->standings, *settings_, next->pass_rules);
    next->starts = outlook_.starts();
    const std::int64_t ranked = microseconds_since(begun) - collected;

    bool wake = plans_.needs_wake(snapshot.now);
    if (!settings_->dry_run) {
        wake = act(*next, snapshot, batch) || wake;
        notices_.tell(*next, snapshot, plans_.take_warned(), batch);
    } else {
        if (!options_.rehearses) {
            order_queue(*next);
        }
        plans_.rehearse(*next, batch);
        if (ledger_loaded_) {
            entrance_.lift(*next, snapshot.serial, batch);
        }
    }

    const Int128 capacity = capacity_over_window(snapshot.now);
    next->funded_milli_seconds.reserve(next->standings.sides.size());
    for (SideId side = 0; side < next->standings.sides.size(); ++side) {
        next->funded_milli_seconds.push_back(funded_milli_seconds(next->standings, side, capacity));
    }
    if (!ledger_loaded_) {
        unwritten_ = {};
    } else if (!unwritten_.empty()) {
        writer_->put(std::exchange(unwritten_, {}));
    }
    const LedgerWriter::Health database = writer_->health();
    ++health_.cycles;
    health_.last_cycle_at = snapshot.now;
    health_.last_collect_microseconds = collected;
    health_.last_rank_microseconds = ranked;
    health_.database_ok = database.ok;
    health_.database_text = database.text;
    health_.open_runs = static_cast<std::int64_t>(tracker_.open_runs());
    {
        const std::lock_guard lock(fault_mutex_);
        health_.faults = faults_;
        health_.last_fault = last_fault_;
    }
    health_.rehearses = options_.rehearses;
    health_.complaints = settings_complaints_;
    for (const auto* more : {&unknown_partitions_, &host_complaints_, &own_complaints_}) {
        health_.complaints.insert(health_.complaints.end(), more->begin(), more->end());
    }
    next->health = health_;
    plans_.report(*next);
    notes_wait_ = notes_.step(*next);
    publish(std::move(next));
    if (wake) {
        host_->wake();
    }
}

milliseconds EngineCycle::due_in() const {
    std::int64_t due = std::min(settings_->rank_interval_seconds * 1000, plans_.due_in());
    if (notes_wait_) {
        due = std::min(due, kNotesLook);
    }
    if (const auto now_view = view(); now_view && now_view->pass.wake_at != kNever) {
        due = std::min(due, std::max<std::int64_t>(now_view->pass.wake_at * 1000 - clock_(), 0));
    }
    return milliseconds(due);
}

void EngineCycle::complain(const std::string& text) {
    own_complaints_.push_back(text);
    log(Host::LogLevel::error, text);
}

void EngineCycle::close() {
    notifier_.stop();
    writer_ptr_ = nullptr;
    if (writer_ && !writer_->stop()) {
        log(Host::LogLevel::error,
            "the ledger's file does not answer: what was not written yet is "
            "left to its thread");
    }
}

std::shared_ptr<const EngineView> EngineCycle::view() const {
    const std::lock_guard lock(view_mutex_);
    return view_;
}

std::uint32_t EngineCycle::known_priority(JobId id) const {
    const std::lock_guard lock(view_mutex_);
    const auto it = priorities_.find(id);
    return it == priorities_.end() ? 0 : it->second;
}

Result<std::vector<ContractEditRow>> EngineCycle::contract_edits(std::size_t most) {
    LedgerWriter* writer = writer_ptr_;
    if (writer == nullptr) {
        return Error{"the ledger is not open yet; try again in a moment"};
    }
    return writer->contract_edits(most);
}

std::int64_t EngineCycle::let_in(const EngineView& now_view, bool allocated, bool express,
                                 std::int64_t contract_seconds, std::int64_t gpus) {
    return now_view.settings->dry_run ? 0
                                      : entrance_.let_in(now_view.entrance, host_->now(), allocated,
                                                         express, contract_seconds, gpus);
}

Result<std::vector<PreemptionRecord>> EngineCycle::preemptions(std::int64_t from, std::int64_t to,
                                                               std::size_t most) {
    LedgerWriter* writer = writer_ptr_;
    if (writer == nullptr) {
        return Error{"the ledger is not open yet; try again in a moment"};
    }
    return writer->preemptions(from, to, most);
}

Result<JobHistory> EngineCycle::history(std::uint32_t id, std::int64_t part, bool is_component,
                                        std::size_t most) {
    LedgerWriter* writer = writer_ptr_;
    if (writer == nullptr) {
        return Error{"the ledger is not open yet; try again in a moment"};
    }
    return writer->history(id, part, is_component, most);
}

void EngineCycle::fault(const char* where, const char* what) noexcept {
    try {
        const std::string text = std::string(where) + ": " + what;
        bool is_new = false;
        {
            const std::lock_guard lock(fault_mutex_);
            ++faults_;
            last_fault_ = text;
            is_new = logged_faults_.size() < 100 && logged_faults_.insert(text).second;
        }
        if (is_new) {
            host_->log(Host::LogLevel::error, "internal fault in " + text +
                                                  "; it is counted in srank --health and logged "
                                                  "once");
        }
    } catch (...) {
        // Without memory there is nothing left to say.
    }
}

// A budget that pays for a run cannot go. Asked of the host itself: the published view may not know
// yet what started a moment ago.
Status EngineCycle::check_deleted_run_nothing(const BudgetTree& before, const BudgetTree& after) {
    const auto is_deleted = [&](const std::string& name) {
        return before.find(name) != nullptr && after.find(name) == nullptr;
    };
    if (std::none_of(before.budgets().begin(), before.budgets().end(),
                     [&](const auto& entry) { return is_deleted(entry.first); })) {
        return {};
    }
    HostSnapshot snapshot;
    host_->collect(snapshot);
    const auto now_view = view();
    for (const HostJob& job : snapshot.jobs) {
        if (job.state != HostJobState::configuring && job.state != HostJobState::running &&
            job.state != HostJobState::suspended) {
            continue;
        }
        const JobCard* card = now_view ? now_view->card(job.id) : nullptr;
        std::string payer;
        if (card != nullptr && card->run_index >= 0) {
            const Run& run = now_view->view.runs[static_cast<std::size_t>(card->run_index)];
            payer = run.budget == kNoBudgetId ? "" : now_view->standings.budgets[run.budget].name;
        } else {
            const auto terms = parse_stored_terms(job.contract_entries);
            const auto match =
                before.match(job.account, job.user, terms ? terms->budget : std::string());
            payer = match.ok() ? match->name : std::string();
        }
        if (is_deleted(payer)) {
            return Error{"budget '" + payer + "' cannot be deleted: job " + std::to_string(job.id) +
                         " runs on it"};
        }
    }
    return {};
}

Result<EditOutcome> EngineCycle::edit(const Actor& actor, const BudgetEdit& edit, bool only_try) {
    const std::lock_guard one_at_a_time(edit_mutex_);
    LedgerWriter* const writer = writer_ptr_;
    std::shared_ptr<const BudgetTree> before;
    std::int64_t number = 0;
    {
        const std::lock_guard lock(new_tree_mutex_);
        if (!edits_allowed_ || writer == nullptr) {
            return Error{kLedgerNotOpen};
        }
        before = new_tree_ ? new_tree_->second : tree_;
        number = last_edit_number_ + 1;
    }
    auto after = apply_edit(*before, edit);
    if (!after.ok()) {
        return after.failure();
    }
    if (!actor.is_operator) {
        if (const Status status = check_rights(*before, *after, actor); !status.ok()) {
            return status.failure();
        }
    }
    if (const Status status = check_deleted_run_nothing(*before, *after); !status.ok()) {
        return status.failure();
    }
    EditOutcome outcome;
    outcome.changes = tree_changes(*before, *after);
    if (only_try || outcome.changes.empty()) {
        return outcome;
    }
    const std::int64_t at = host_->now();
    LedgerBatch batch;
    TreeEditRow row;
    row.number = number;
    row.at = at;
    row.user = actor.user;
    row.reason = edit.reason;
    row.changes = outcome.changes;
    row.tree = *after;
    batch.edits.push_back(std::move(row));
    if (const Status status = writer->put_and_wait(std::move(batch), kEditPatience); !status.ok()) {
        log(Host::LogLevel::error,
            "an edit of " + actor.user + " is in force but " + status.error());
    }
    {
        const std::lock_guard lock(new_tree_mutex_);
        last_edit_number_ = number;
        new_tree_ = {at, std::make_shared<const BudgetTree>(std::move(after).value())};
    }
    outcome.applied = true;
    kick_();
    return outcome;
}

Result<std::vector<EditRecord>> EngineCycle::edits(std::size_t most) {
    LedgerWriter* writer = writer_ptr_;
    if (writer == nullptr) {
        return Error{"the ledger is not open yet; try again in a moment"};
    }
    auto rows = writer->edits(most);
    if (!rows.ok()) {
        return rows.failure();
    }
    std::vector<EditRecord> out;
    for (const TreeEditRow& row : *rows) {
        for (const BudgetChange& change : row.changes) {
            out.push_back({row.at, row.user, change, row.reason});
        }
    }
    return out;
}

}  // namespace tranche
