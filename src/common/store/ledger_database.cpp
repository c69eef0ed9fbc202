// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/store/ledger_database.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "common/store/sqlite_statement.hpp"

namespace tranche {
namespace {

constexpr int kBusyMilliseconds = 100;

// Texts that repeat (budgets, users, accounts, partitions) are numbers in `segment`; the view
// `segments` is for people.
constexpr const char* kStep1 = R"sql(
CREATE TABLE owner (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL,
                    batch INTEGER NOT NULL);
INSERT INTO owner VALUES (1, 0, 0);
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE segment (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL, submit_at INTEGER NOT NULL, begin_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,       -- 0 while open
    charged_until INTEGER NOT NULL,  -- the largest integer while open
    kind INTEGER NOT NULL, weight_milli INTEGER NOT NULL,
    budget INTEGER NOT NULL, user INTEGER NOT NULL, account INTEGER NOT NULL,
    partition INTEGER NOT NULL, name TEXT NOT NULL, gpus INTEGER NOT NULL, nodes TEXT NOT NULL,
    team_priority INTEGER NOT NULL, resumable INTEGER NOT NULL, interactive INTEGER NOT NULL,
    express INTEGER NOT NULL, min_runtime_seconds INTEGER NOT NULL, ready_at INTEGER NOT NULL,
    protected_until INTEGER NOT NULL, run INTEGER NOT NULL, leaving_for INTEGER NOT NULL,
    end_reason TEXT NOT NULL, begun_batch INTEGER NOT NULL, ended_batch INTEGER NOT NULL,
    UNIQUE (job_id, submit_at, begin_at));
CREATE INDEX segment_by_charge ON segment (charged_until);
CREATE TABLE first_use (budget INTEGER PRIMARY KEY, at INTEGER NOT NULL,
                        allocated_at INTEGER NOT NULL);
CREATE TABLE job (id INTEGER PRIMARY KEY, first_submit_at INTEGER NOT NULL, runs INTEGER NOT NULL,
                  protection_cap_seconds INTEGER NOT NULL, waits_for INTEGER NOT NULL);
CREATE TABLE tree_edit (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, user TEXT NOT NULL,
                        reason TEXT NOT NULL, batch INTEGER NOT NULL);
CREATE INDEX tree_edit_by_time ON tree_edit (at);
CREATE TABLE tree_change (number INTEGER NOT NULL, place INTEGER NOT NULL, budget TEXT NOT NULL,
                          field TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
                          PRIMARY KEY (number, place)) WITHOUT ROWID;
-- Budgets that an edit added, changed or (exists = 0) deleted; lists are separated by commas.
CREATE TABLE tree_budget (number INTEGER NOT NULL, budget TEXT NOT NULL, "exists" INTEGER NOT NULL,
                          parent TEXT NOT NULL, shares INTEGER NOT NULL,
                          own_shares INTEGER NOT NULL, sharing INTEGER NOT NULL,
                          accounts TEXT NOT NULL, users TEXT NOT NULL, managers TEXT NOT NULL,
                          PRIMARY KEY (number, budget)) WITHOUT ROWID;
CREATE VIEW segments AS
    SELECT s.job_id, s.run, b.text AS budget, u.text AS user, a.text AS account,
           p.text AS partition, s.name, s.gpus, s.nodes,
           CASE s.kind WHEN 0 THEN 'allocated' WHEN 1 THEN 'unallocated' ELSE 'outside' END AS kind,
           datetime(s.begin_at, 'unixepoch') AS began,
           CASE WHEN s.ended_at > 0 THEN datetime(s.ended_at, 'unixepoch') END AS ended,
           CASE WHEN s.ended_at > 0
                THEN (s.charged_until - s.begin_at) * s.weight_milli / 3600000.0
                END AS charged_gpu_hours,
           s.end_reason
    FROM segment s JOIN name b ON b.id = s.budget JOIN name u ON u.id = s.user
         JOIN name a ON a.id = s.account JOIN name p ON p.id = s.partition;
)sql";

constexpr const char* kStep2 = R"sql(
CREATE TABLE preemption (
    id INTEGER PRIMARY KEY,
    victim INTEGER NOT NULL, claimant INTEGER NOT NULL, planned_at INTEGER NOT NULL,
    victim_budget TEXT NOT NULL, claimant_budget TEXT NOT NULL, victim_user TEXT NOT NULL,
    claimant_user TEXT NOT NULL, reason TEXT NOT NULL, level TEXT NOT NULL,
    victim_side TEXT NOT NULL, claimant_side TEXT NOT NULL,
    victim_charge_milli_hours INTEGER NOT NULL, victim_funded_milli_hours INTEGER NOT NULL,
    claimant_charge_milli_hours INTEGER NOT NULL, claimant_funded_milli_hours INTEGER NOT NULL,
    contract_ended_at INTEGER NOT NULL, warned_at INTEGER NOT NULL, gone_at INTEGER NOT NULL,
    claimant_started_at INTEGER NOT NULL, nodes TEXT NOT NULL, outcome TEXT NOT NULL,
    UNIQUE (victim, claimant, planned_at));
CREATE INDEX preemption_by_time ON preemption (planned_at);
CREATE TABLE plan (claimant INTEGER PRIMARY KEY, budget TEXT NOT NULL, user TEXT NOT NULL,
                   weight_milli INTEGER NOT NULL, commitment_seconds INTEGER NOT NULL,
                   gpus INTEGER NOT NULL, made_at INTEGER NOT NULL, express INTEGER NOT NULL);
CREATE TABLE plan_node (claimant INTEGER NOT NULL, place INTEGER NOT NULL, node TEXT NOT NULL,
                        gpus INTEGER NOT NULL, cpus INTEGER NOT NULL, memory_mib INTEGER NOT NULL,
                        PRIMARY KEY (claimant, place)) WITHOUT ROWID;
CREATE TABLE plan_victim (claimant INTEGER NOT NULL, place INTEGER NOT NULL,
                          victim INTEGER NOT NULL, PRIMARY KEY (claimant, place)) WITHOUT ROWID;
CREATE TABLE capacity (at INTEGER PRIMARY KEY, available_weight_milli INTEGER NOT NULL);
)sql";

// A task of an array and a component keep no name of their own in `segment`: most jobs have none.
constexpr const char* kStep3 = R"sql(
ALTER TABLE preemption ADD COLUMN claimant_nodes TEXT NOT NULL DEFAULT '';
ALTER TABLE preemption ADD COLUMN victim_label TEXT NOT NULL DEFAULT '';
ALTER TABLE preemption ADD COLUMN claimant_label TEXT NOT NULL DEFAULT '';
CREATE INDEX preemption_by_claimant ON preemption (claimant);
CREATE TABLE part (id INTEGER PRIMARY KEY, whole INTEGER NOT NULL, number INTEGER NOT NULL,
                   is_component INTEGER NOT NULL);
CREATE INDEX part_by_whole ON part (whole, is_component, number);
)sql";

constexpr const char* kStep4 = R"sql(
ALTER TABLE job ADD COLUMN checkpointed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN noticed_seconds INTEGER NOT NULL DEFAULT 9223372036854775807;
CREATE TABLE contract_edit (
    number INTEGER NOT NULL, place INTEGER NOT NULL, at INTEGER NOT NULL, user TEXT NOT NULL,
    job INTEGER NOT NULL, job_name TEXT NOT NULL, owner TEXT NOT NULL, reason TEXT NOT NULL,
    field TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
    PRIMARY KEY (number, place)) WITHOUT ROWID;
)sql";

constexpr const char* kStep5 = R"sql(
CREATE TABLE assembly (
    claimant INTEGER NOT NULL, turn_at INTEGER NOT NULL, budget TEXT NOT NULL, user TEXT NOT NULL,
    gpus INTEGER NOT NULL, weight_milli INTEGER NOT NULL, commitment_seconds INTEGER NOT NULL,
    granted_at INTEGER NOT NULL,  -- 0: not yet
    date_at INTEGER NOT NULL,
    nodes TEXT NOT NULL,          -- separated by commas
    started_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, outcome TEXT NOT NULL,
    PRIMARY KEY (claimant, turn_at)) WITHOUT ROWID;
CREATE INDEX assembly_by_grant ON assembly (budget, granted_at);
CREATE TABLE held_back (job INTEGER PRIMARY KEY, until_at INTEGER NOT NULL,
                        begin_at INTEGER NOT NULL);
)sql";

std::int64_t query_integer(sqlite3* connection, const char* sql) {
    Statement statement(connection, sql);
    return statement.step() ? statement.integer(0) : 0;
}

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) {
        out += (out.empty() ? "" : ",") + name;
    }
    return out;
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

std::string stamp_of(std::int64_t at) {
    const std::time_t seconds = at;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[40];
    std::strftime(text, sizeof text, "%Y%m%dT%H%M%S", &parts);
    return text;
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

// Only slurmctld's own user reads it: it names everybody's jobs.
Status create_private(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) {
        return Error{"cannot create the ledger " + path + ": " + std::strerror(errno) +
                     "; its folder must exist and be writable (DatabasePath= or "
                     "StateSaveLocation)"};
    }
    if (file >= 0) {
        ::close(file);
    }
    return {};
}

// Moves the file and what SQLite keeps beside it out of the way; the new name.
Result<std::string> put_aside(const std::string& path, std::int64_t now) {
    const std::string base = path + ".corrupt-" + stamp_of(now);
    std::string target = base;
    for (int i = 2; exists(target); ++i) {
        target = base + "-" + std::to_string(i);
    }
    if (std::rename(path.c_str(), target.c_str()) != 0) {
        return Error{"the ledger " + path + " is corrupt and cannot be renamed to " + target +
                     ": " + std::strerror(errno)};
    }
    for (const char* suffix : {"-journal", "-wal", "-shm"}) {
        if (exists(path + suffix)) {
            std::rename((path + suffix).c_str(), (target + suffix).c_str());
        }
    }
    return target;
}

// In a transaction until commit(); rolled back otherwise.
class Transaction {
  public:
    explicit Transaction(sqlite3* connection) : connection_(connection) {
        execute(connection_, "BEGIN IMMEDIATE");
    }
    ~Transaction() {
        if (!done_) {
            sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
        }
    }
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit() {
        execute(connection_, "COMMIT");
        done_ = true;
    }

  private:
    sqlite3* connection_;
    bool done_ = false;
};

SqlConnection connect(const std::string& path) {
    sqlite3* raw = nullptr;
    const int code =
        sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    SqlConnection connection(raw);
    if (code != SQLITE_OK) {
        throw SqlFailure{code & 0xff,
                         raw == nullptr ? std::string("out of memory") : sqlite3_errmsg(raw)};
    }
    sqlite3_busy_timeout(raw, kBusyMilliseconds);
    return connection;
}

void refuse_other_epoch(std::int64_t found, std::int64_t ours) {
    if (found != ours) {
        throw SqlFailure{SQLITE_PERM, "another controller has opened it since (epoch " +
                                          std::to_string(found) + ", ours is " +
                                          std::to_string(ours) +
                                          "); this one writes no more until it is restarted"};
    }
}

struct Preparation {
    int opened_version = kLedgerSchemaVersion;
    std::int64_t epoch = 0;
};

// Corruption throws SQLITE_CORRUPT or SQLITE_NOTADB; what is no fault of the file's throws
// SQLITE_MISUSE.
Preparation prepare(sqlite3* connection, std::int64_t own_epoch) {
    execute(connection, "PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF");
    // A log that another program left behind is taken in by this; no-op otherwise.
    Statement(connection, "PRAGMA journal_mode=TRUNCATE").run();
    {
        Statement check(connection, "PRAGMA quick_check(1)");
        if (!check.step() || check.text(0) != "ok") {
            throw SqlFailure{SQLITE_CORRUPT, "the check says: " + check.text(0)};
        }
    }
    Preparation out;
    Transaction transaction(connection);
    const auto application = query_integer(connection, "PRAGMA application_id");
    const auto version = query_integer(connection, "PRAGMA user_version");
    const bool blank = query_integer(connection, "SELECT count(*) FROM sqlite_master") == 0;
    if (application != kLedgerApplicationId && !(blank && application == 0 && version == 0)) {
        throw SqlFailure{SQLITE_MISUSE, "it is the database of another program; name another file"};
    }
    if (version > kLedgerSchemaVersion) {
        throw SqlFailure{SQLITE_MISUSE, "its schema has version " + std::to_string(version) +
                                            ", written by a newer Tranche; this one knows up to " +
                                            std::to_string(kLedgerSchemaVersion)};
    }
    if (own_epoch != 0 && !blank) {
        refuse_other_epoch(query_integer(connection, "SELECT epoch FROM owner"), own_epoch);
    }
    out.opened_version = blank ? kLedgerSchemaVersion : static_cast<int>(version);
    for (int step = static_cast<int>(version) + 1; step <= kLedgerSchemaVersion; ++step) {
        execute(connection, ledger_schema_step(step));
    }
    execute(connection, ("PRAGMA application_id=" + std::to_string(kLedgerApplicationId) +
                         "; PRAGMA user_version=" + std::to_string(kLedgerSchemaVersion) +
                         "; UPDATE owner SET epoch = epoch + 1")
                            .c_str());
    out.epoch = query_integer(connection, "SELECT epoch FROM owner");
    transaction.commit();
    return out;
}

constexpr const char* kSegmentColumns =
    "s.job_id, s.submit_at, s.begin_at, s.ended_at, s.charged_until, s.kind, s.weight_milli, "
    "b.text, u.text, a.text, p.text, s.name, s.gpus, s.nodes, s.team_priority, s.resumable, "
    "s.interactive, s.express, s.min_runtime_seconds, s.ready_at, s.protected_until, s.run, "
    "s.leaving_for, s.end_reason, s.begun_batch "
    "FROM segment s JOIN name b ON b.id = s.budget JOIN name u ON u.id = s.user "
    "JOIN name a ON a.id = s.account JOIN name p ON p.id = s.partition ";

SegmentRow read_segment(const Statement& from) {
    SegmentRow row;
    row.key = {static_cast<JobId>(from.integer(0)), from.integer(1), from.integer(2)};
    row.ended_at = from.integer(3);
    row.charged_until = row.ended_at == 0 ? 0 : from.integer(4);
    row.kind = static_cast<RunKind>(from.integer(5));
    row.weight_milli = from.integer(6);
    row.budget = from.text(7);
    row.user = from.text(8);
    row.account = from.text(9);
    row.partition = from.text(10);
    row.name = from.text(11);
    row.gpus = from.integer(12);
    row.nodes = from.text(13);
    row.team_priority = static_cast<TeamPriority>(from.integer(14));
    row.resumable = from.integer(15) != 0;
    row.interactive = from.integer(16) != 0;
    row.express = from.integer(17) != 0;
    row.min_runtime_seconds = from.integer(18);
    row.ready_at = from.integer(19);
    row.protected_until = from.integer(20);
    row.run = static_cast<std::uint32_t>(from.integer(21));
    row.leaving_for = static_cast<JobId>(from.integer(22));
    row.end_reason = from.text(23);
    return row;
}

constexpr const char* kPreemptionColumns =
    "id, victim, claimant, planned_at, victim_budget, claimant_budget, victim_user, "
    "claimant_user, reason, level, victim_side, claimant_side, victim_charge_milli_hours, "
    "victim_funded_milli_hours, claimant_charge_milli_hours, claimant_funded_milli_hours, "
    "contract_ended_at, warned_at, gone_at, claimant_started_at, nodes, outcome, "
    "claimant_nodes, victim_label, claimant_label ";

PreemptionRecord read_preemption(const Statement& from) {
    PreemptionRecord row;
    row.id = from.integer(0);
    row.victim = static_cast<JobId>(from.integer(1));
    row.claimant = static_cast<JobId>(from.integer(2));
    row.planned_at = from.integer(3);
    row.victim_budget = from.text(4);
    row.claimant_budget = from.text(5);
    row.victim_user = from.text(6);
    row.claimant_user = from.text(7);
    row.reason = from.text(8);
    row.level = from.text(9);
    row.victim_side = from.text(10);
    row.claimant_side = from.text(11);
    row.victim_charge_milli_hours = from.integer(12);
    row.victim_funded_milli_hours = from.integer(13);
    row.claimant_charge_milli_hours = from.integer(14);
    row.claimant_funded_milli_hours = from.integer(15);
    row.contract_ended_at = from.integer(16);
    row.warned_at = from.integer(17);
    row.gone_at = from.integer(18);
    row.claimant_started_at = from.integer(19);
    row.nodes = from.text(20);
    row.outcome = from.text(21);
    row.claimant_nodes = from.text(22);
    row.victim_label = from.text(23);
    row.claimant_label = from.text(24);
    return row;
}

std::int64_t limit_of(std::size_t most) {
    return static_cast<std::int64_t>(std::min<std::size_t>(most, INT32_MAX));
}

}  // namespace

const char* ledger_schema_step(int version) {
    constexpr const char* kSteps[] = {kStep1, kStep2, kStep3, kStep4, kStep5};
    return version >= 1 && version <= kLedgerSchemaVersion ? kSteps[version - 1] : "";
}

bool TreeEditRow::operator==(const TreeEditRow& other) const {
    const auto same = [](const BudgetChange& a, const BudgetChange& b) {
        return a.budget == b.budget && a.field == b.field && a.before == b.before &&
               a.after == b.after;
    };
    return number == other.number && at == other.at && user == other.user &&
           reason == other.reason && tree == other.tree &&
           std::equal(changes.begin(), changes.end(), other.changes.begin(), other.changes.end(),
                      same);
}

bool LedgerBatch::empty() const {
    return edits.empty() && begun.empty() && ended.empty() && jobs.empty() && jobs_gone.empty() &&
           preemptions.empty() && !plans && capacity.empty() && parts.empty() &&
           contract_edits.empty() && assemblies.empty() && !held_back;
}

void LedgerBatch::append(LedgerBatch later) {
    const auto move_in = [](auto& to, auto& from) {
        to.insert(to.end(), std::make_move_iterator(from.begin()),
                  std::make_move_iterator(from.end()));
    };
    // Within one batch all jobs are written before the gone ones are taken away.
    std::erase_if(jobs_gone, [&](JobId id) {
        return std::any_of(later.jobs.begin(), later.jobs.end(),
                           [id](const JobRow& job) { return job.id == id; });
    });
    move_in(edits, later.edits);
    move_in(begun, later.begun);
    move_in(ended, later.ended);
    move_in(jobs, later.jobs);
    move_in(jobs_gone, later.jobs_gone);
    move_in(preemptions, later.preemptions);
    move_in(capacity, later.capacity);
    move_in(parts, later.parts);
    move_in(contract_edits, later.contract_edits);
    move_in(assemblies, later.assemblies);
    if (later.held_back) {
        held_back = std::move(later.held_back);
    }
    if (later.plans) {
        plans = std::move(later.plans);
    }
}

struct LedgerDatabase::State {
    std::string path;
    std::string set_aside, set_aside_reason;
    int opened_version = kLedgerSchemaVersion;
    std::int64_t epoch = 0;
    bool fenced = false;
    SqlConnection connection;
    std::unordered_map<std::string, std::int64_t> names;  // those of `name` met so far
    // The tree of the last edit, for what the next one changes; nullopt: not read yet.
    std::optional<std::map<std::string, Budget, std::less<>>> last_tree;

    sqlite3* db() const { return connection.get(); }

    Error error_of(const SqlFailure& failure, const char* doing) const {
        if (failure.code == SQLITE_BUSY || failure.code == SQLITE_LOCKED) {
            return {"the ledger " + path + " is in use by another program right now (" +
                    failure.text + "); it will be tried again"};
        }
        return {std::string("cannot ") + doing + " the ledger " + path + ": " + failure.text};
    }

    // In a transaction: whether the file is still ours.
    void check_epoch() {
        const std::int64_t found = query_integer(db(), "SELECT epoch FROM owner");
        fenced = found != epoch;
        refuse_other_epoch(found, epoch);
    }

    std::int64_t name_id(const std::string& text) {
        if (const auto it = names.find(text); it != names.end()) {
            return it->second;
        }
        Statement insert(db(), "INSERT OR IGNORE INTO name (text) VALUES (?)");
        insert.with(text).run();
        Statement select(db(), "SELECT id FROM name WHERE text = ?");
        select.with(text).step();
        return names.emplace(text, select.integer(0)).first->second;
    }

    // Calls `edit_seen(number, budgets)` with the whole tree after each edit, by number.
    template <typename Visitor>
    void fold_trees(Visitor edit_seen) {
        std::map<std::string, Budget, std::less<>> budgets;
        Statement edits(db(), "SELECT number FROM tree_edit ORDER BY number");
        Statement rows(db(),
                       "SELECT budget, \"exists\", parent, shares, own_shares, sharing, accounts, "
                       "users, managers FROM tree_budget WHERE number = ?");
        while (edits.step()) {
            const std::int64_t number = edits.integer(0);
            rows.with(number);
            while (rows.step()) {
                const std::string name = rows.text(0);
                if (rows.integer(1) == 0) {
                    budgets.erase(name);
                    continue;
                }
                Budget& budget = budgets[name];
                budget.name = name;
                budget.parent = rows.text(2);
                budget.shares = static_cast<std::uint32_t>(rows.integer(3));
                budget.own_shares = static_cast<std::uint32_t>(rows.integer(4));
                budget.sharing = static_cast<BudgetSharing>(rows.integer(5));
                budget.accounts = split(rows.text(6));
                budget.users = split(rows.text(7));
                budget.managers = split(rows.text(8));
            }
            edit_seen(number, budgets);
        }
        last_tree = std::move(budgets);
    }

    void write_edit(const TreeEditRow& edit, std::int64_t batch) {
        Statement insert(db(),
                         "INSERT OR IGNORE INTO tree_edit (number, at, user, reason, batch) "
                         "VALUES (?, ?, ?, ?, ?)");
        insert.with(edit.number, edit.at, edit.user, edit.reason, batch).run();
        if (sqlite3_changes(db()) == 0) {
            return;
        }
        if (query_integer(db(), "SELECT max(number) FROM tree_edit") != edit.number) {
            throw SqlFailure{SQLITE_MISUSE, "edit " + std::to_string(edit.number) +
                                                " of the budget tree comes after a later one"};
        }
        Statement change(db(), "INSERT INTO tree_change VALUES (?, ?, ?, ?, ?, ?)");
        std::int64_t place = 0;
        for (const BudgetChange& c : edit.changes) {
            change.with(edit.number, place++, c.budget, c.field, c.before, c.after).run();
        }
        Statement row(db(), "INSERT INTO tree_budget VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        const auto put = [&](const Budget& b, int exists) {
            const std::string accounts = joined(b.accounts), users = joined(b.users),
                              managers = joined(b.managers);
            row.with(edit.number, b.name, exists, b.parent, b.shares, b.own_shares, b.sharing,
                     accounts, users, managers)
                .run();
        };
        const auto& budgets = edit.tree.budgets();
        for (const auto& [name, budget] : *last_tree) {
            if (!budgets.contains(name)) {
                put(budget, 0);
            }
        }
        for (const auto& [name, budget] : budgets) {
            const auto it = last_tree->find(name);
            if (it == last_tree->end() || it->second != budget) {
                put(budget, 1);
            }
        }
        last_tree = budgets;
    }

    void write_segments(const std::vector<SegmentRow>& rows, bool ended, std::int64_t batch) {
        if (rows.empty()) {
            return;
        }
        // The batch numbers of a row that exists stay: they are the order of replay.
        std::string sql =
            "INSERT INTO segment (job_id, submit_at, begin_at, ended_at, charged_until, kind, "
            "weight_milli, budget, user, account, partition, name, gpus, nodes, team_priority, "
            "resumable, interactive, express, min_runtime_seconds, ready_at, protected_until, run, "
            "leaving_for, end_reason, begun_batch, ended_batch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
            "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (job_id, submit_at, begin_at) DO UPDATE SET ended_at = excluded.ended_at, "
            "charged_until = excluded.charged_until, name = excluded.name, "
            "partition = excluded.partition, nodes = excluded.nodes, "
            "team_priority = excluded.team_priority, resumable = excluded.resumable, "
            "min_runtime_seconds = excluded.min_runtime_seconds, ready_at = excluded.ready_at, "
            "protected_until = excluded.protected_until, run = excluded.run, "
            "leaving_for = excluded.leaving_for, end_reason = excluded.end_reason";
        sql += ended ? ", ended_batch = CASE segment.ended_at WHEN 0 THEN excluded.ended_batch "
                       "ELSE segment.ended_batch END"
                     : " WHERE segment.ended_at = 0";
        Statement insert(db(), sql.c_str());
        Statement use(db(),
                      "INSERT INTO first_use VALUES (?, ?, ?) ON CONFLICT (budget) DO UPDATE SET "
                      "at = min(at, excluded.at), "
                      "allocated_at = min(allocated_at, excluded.allocated_at)");
        std::unordered_map<std::int64_t, std::pair<std::int64_t, std::int64_t>> uses;
        for (const SegmentRow& row : rows) {
            const std::int64_t budget = name_id(row.budget);
            insert
                .with(row.key.job_id, row.key.submit_at, row.key.begin_at, ended ? row.ended_at : 0,
                      ended ? row.charged_until : kNever, row.kind, row.weight_milli, budget,
                      name_id(row.user), name_id(row.account), name_id(row.partition), row.name,
                      row.gpus, row.nodes, row.team_priority, row.resumable, row.interactive,
                      row.express, row.min_runtime_seconds, row.ready_at, row.protected_until,
                      row.run, row.leaving_for, row.end_reason, batch, ended ? batch : 0)
                .run();
            auto& [at, allocated_at] = uses.try_emplace(budget, kNever, kNever).first->second;
            at = std::min(at, row.key.begin_at);
            if (row.kind == RunKind::allocated) {
                allocated_at = std::min(allocated_at, row.key.begin_at);
            }
        }
        for (const auto& [budget, first] : uses) {
            use.with(budget, first.first, first.second).run();
        }
    }

    void write_jobs(const LedgerBatch& batch) {
        Statement put(db(),
                      "INSERT INTO job (id, first_submit_at, runs, protection_cap_seconds, "
                      "waits_for, checkpointed_at, noticed_seconds) VALUES (?, ?, ?, ?, ?, ?, ?) "
                      "ON CONFLICT (id) DO UPDATE SET "
                      "first_submit_at = excluded.first_submit_at, runs = excluded.runs, "
                      "protection_cap_seconds = excluded.protection_cap_seconds, "
                      "waits_for = excluded.waits_for, "
                      "checkpointed_at = excluded.checkpointed_at, "
                      "noticed_seconds = excluded.noticed_seconds");
        for (const JobRow& job : batch.jobs) {
            put.with(job.id, job.first_submit_at, job.runs, job.protection_cap_seconds,
                     job.waits_for, job.checkpointed_at, job.noticed_seconds)
                .run();
        }
        Statement drop(db(), "DELETE FROM job WHERE id = ?");
        for (const JobId id : batch.jobs_gone) {
            drop.with(id).run();
        }
    }

    void write_contract_edits(const std::vector<ContractEditRow>& rows) {
        Statement put(
            db(), "INSERT OR IGNORE INTO contract_edit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        for (const ContractEditRow& row : rows) {
            std::int64_t place = 0;
            for (const ContractChange& change : row.changes) {
                put.with(row.number, place++, row.at, row.user, row.job, row.job_name, row.owner,
                         row.reason, change.field, change.before, change.after)
                    .run();
            }
        }
    }

    void write_preemptions(const std::vector<PreemptionRecord>& records) {
        Statement put(
            db(),
            "INSERT INTO preemption (victim, claimant, planned_at, victim_budget, "
            "claimant_budget, victim_user, claimant_user, reason, level, victim_side, "
            "claimant_side, victim_charge_milli_hours, victim_funded_milli_hours, "
            "claimant_charge_milli_hours, claimant_funded_milli_hours, contract_ended_at, "
            "warned_at, gone_at, claimant_started_at, nodes, outcome, claimant_nodes, "
            "victim_label, claimant_label) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
            "?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (victim, claimant, planned_at) "
            "DO UPDATE SET warned_at = excluded.warned_at, gone_at = excluded.gone_at, "
            "claimant_started_at = excluded.claimant_started_at, nodes = excluded.nodes, "
            "outcome = excluded.outcome, claimant_nodes = excluded.claimant_nodes");
        for (const PreemptionRecord& r : records) {
            put.with(r.victim, r.claimant, r.planned_at, r.victim_budget, r.claimant_budget,
                     r.victim_user, r.claimant_user, r.reason, r.level, r.victim_side,
                     r.claimant_side, r.victim_charge_milli_hours, r.victim_funded_milli_hours,
                     r.claimant_charge_milli_hours, r.claimant_funded_milli_hours,
                     r.contract_ended_at, r.warned_at, r.gone_at, r.claimant_started_at, r.nodes,
                     r.outcome, r.claimant_nodes, r.victim_label, r.claimant_label)
                .run();
        }
    }

    void write_parts(const std::vector<PartRow>& parts) {
        Statement put(db(), "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?)");
        for (const PartRow& part : parts) {
            put.with(part.id, part.whole, part.number, part.is_component).run();
        }
    }

    // The parts that a name stands for; none where it is a job of its own.
    std::vector<PartRow> parts_of(std::uint32_t id, std::int64_t number, bool is_component,
                                  std::size_t most) {
        std::string sql = "SELECT id, whole, number, is_component FROM part WHERE whole = ?1";
        sql += number < 0 ? "" : " AND is_component = ?3 AND number = ?4";
        Statement select(db(), (sql + " ORDER BY id DESC LIMIT ?2").c_str());
        if (number < 0) {
            select.with(id, limit_of(most));
        } else {
            select.with(id, limit_of(most), is_component, number);
        }
        std::vector<PartRow> out;
        while (select.step()) {
            out.push_back({static_cast<JobId>(select.integer(0)),
                           static_cast<std::uint32_t>(select.integer(1)),
                           static_cast<std::uint32_t>(select.integer(2)), select.integer(3) != 0});
        }
        return out;
    }

    void add_history(JobId id, std::size_t most, JobHistory& out) {
        Statement segments(db(), (std::string("SELECT ") + kSegmentColumns +
                                  "WHERE s.job_id = ? ORDER BY s.begin_at DESC LIMIT ?")
                                     .c_str());
        segments.with(id, limit_of(most));
        while (segments.step()) {
            out.segments.push_back(read_segment(segments));
        }
        Statement preemptions(db(), (std::string("SELECT ") + kPreemptionColumns +
                                     "FROM preemption WHERE victim = ?1 OR claimant = ?1 "
                                     "ORDER BY planned_at DESC, id DESC LIMIT ?2")
                                        .c_str());
        preemptions.with(id, limit_of(most));
        while (preemptions.step()) {
            out.preemptions.push_back(read_preemption(preemptions));
        }
    }

    void write_plans(const std::vector<PlanRow>& plans) {
        execute(db(), "DELETE FROM plan; DELETE FROM plan_node; DELETE FROM plan_victim");
        Statement put(db(), "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
        Statement put_node(db(), "INSERT INTO plan_node VALUES (?, ?, ?, ?, ?, ?)");
        Statement put_victim(db(), "INSERT INTO plan_victim VALUES (?, ?, ?)");
        for (const PlanRow& plan : plans) {
            put.with(plan.claimant, plan.budget, plan.user, plan.weight_milli,
                     plan.commitment_seconds, plan.gpus, plan.made_at, plan.express)
                .run();
            std::int64_t place = 0;
            for (const PlanNodeRow& node : plan.nodes) {
                put_node
                    .with(plan.claimant, place++, node.node, node.gpus, node.cpus, node.memory_mib)
                    .run();
            }
            place = 0;
            for (const JobId victim : plan.victims) {
                put_victim.with(plan.claimant, place++, victim).run();
            }
        }
    }

    void write_assemblies(const std::vector<AssemblyRow>& rows) {
        Statement put(db(),
                      "INSERT INTO assembly VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                      "ON CONFLICT (claimant, turn_at) DO UPDATE SET "
                      "granted_at = excluded.granted_at, date_at = excluded.date_at, "
                      "nodes = excluded.nodes, started_at = excluded.started_at, "
                      "ended_at = excluded.ended_at, outcome = excluded.outcome");
        for (const AssemblyRow& row : rows) {
            put.with(row.claimant, row.turn_at, row.budget, row.user, row.gpus, row.weight_milli,
                     row.commitment_seconds, row.granted_at, row.date_at, joined(row.nodes),
                     row.started_at, row.ended_at, row.outcome)
                .run();
        }
    }

    void write_held_back(const std::vector<HeldBackRow>& rows) {
        execute(db(), "DELETE FROM held_back");
        Statement put(db(), "INSERT INTO held_back VALUES (?, ?, ?)");
        for (const HeldBackRow& row : rows) {
            put.with(row.job, row.until_at, row.begin_at).run();
        }
    }

    std::vector<AssemblyRow> assemblies(const std::string& where) {
        std::vector<AssemblyRow> out;
        Statement select(db(), ("SELECT claimant, turn_at, budget, user, gpus, weight_milli, "
                                "commitment_seconds, granted_at, date_at, nodes, started_at, "
                                "ended_at, outcome FROM assembly a " +
                                where)
                                   .c_str());
        while (select.step()) {
            AssemblyRow& row = out.emplace_back();
            row.claimant = static_cast<JobId>(select.integer(0));
            row.turn_at = select.integer(1);
            row.budget = select.text(2);
            row.user = select.text(3);
            row.gpus = select.integer(4);
            row.weight_milli = select.integer(5);
            row.commitment_seconds = select.integer(6);
            row.granted_at = select.integer(7);
            row.date_at = select.integer(8);
            row.nodes = split(select.text(9));
            row.started_at = select.integer(10);
            row.ended_at = select.integer(11);
            row.outcome = select.text(12);
        }
        return out;
    }

    void load_large_jobs(LedgerContents& out) {
        out.assemblies = assemblies(
            "WHERE ended_at = 0 OR (granted_at > 0 AND granted_at = (SELECT max(granted_at) FROM "
            "assembly b WHERE b.budget = a.budget)) ORDER BY turn_at, claimant");
        Statement held(db(), "SELECT job, until_at, begin_at FROM held_back ORDER BY job");
        while (held.step()) {
            out.held_back.push_back(
                {static_cast<JobId>(held.integer(0)), held.integer(1), held.integer(2)});
        }
    }

    void load_trees(LedgerContents& out) {
        Statement base(db(), "SELECT max(number) FROM tree_edit WHERE at <= ?");
        base.with(out.since_at).step();
        const std::int64_t first = base.integer(0);  // 0: none
        fold_trees([&](std::int64_t number, const auto& budgets) {
            out.last_edit_number = number;
            if (number < first) {
                return;
            }
            std::vector<Budget> list;
            list.reserve(budgets.size());
            for (const auto& [name, budget] : budgets) {
                list.push_back(budget);
            }
            Result<BudgetTree> tree = BudgetTree::build(std::move(list));
            if (!tree.ok()) {
                throw SqlFailure{SQLITE_MISUSE, "the budget tree of edit " +
                                                    std::to_string(number) +
                                                    " is not valid: " + tree.error()};
            }
            out.trees.emplace_back().number = number;
            out.trees.back().tree = std::move(tree).value();
        });
        Statement edit(db(), "SELECT at, user, reason, batch FROM tree_edit WHERE number = ?");
        for (TreeEditRow& row : out.trees) {
            edit.with(row.number).step();
            row.at = edit.integer(0);
            row.user = edit.text(1);
            row.reason = edit.text(2);
            out.tree_batches.push_back(edit.integer(3));
            row.changes = changes_of(row.number);
        }
    }

    std::vector<BudgetChange> changes_of(std::int64_t number) {
        std::vector<BudgetChange> changes;
        Statement select(db(),
                         "SELECT budget, field, before, after FROM tree_change WHERE number = ? "
                         "ORDER BY place");
        select.with(number);
        while (select.step()) {
            changes.push_back({select.text(0), select.text(1), select.text(2), select.text(3)});
        }
        return changes;
    }

    void load_segments(LedgerContents& out) {
        Statement open(db(), (std::string("SELECT ") + kSegmentColumns +
                              "WHERE s.charged_until = ? AND s.ended_at = 0 ORDER BY s.id")
                                 .c_str());
        open.with(kNever);
        while (open.step()) {
            out.open.push_back(read_segment(open));
            out.open_batches.push_back(open.integer(24));
        }
        std::unordered_map<std::int64_t, std::uint32_t> places;
        {
            Statement select(db(), "SELECT id, text FROM name");
            while (select.step()) {
                places.emplace(select.integer(0), static_cast<std::uint32_t>(out.names.size()));
                names.emplace(select.text(1), select.integer(0));
                out.names.push_back(select.text(1));
            }
        }
        Statement closed(db(),
                         "SELECT job_id, submit_at, begin_at, budget, user, kind, weight_milli, "
                         "charged_until, begun_batch, ended_batch FROM segment "
                         "WHERE charged_until > ? AND ended_at > 0");
        closed.with(out.since_at);
        while (closed.step()) {
            ClosedSegment& row = out.closed.emplace_back();
            row.key = {static_cast<JobId>(closed.integer(0)), closed.integer(1), closed.integer(2)};
            row.budget = places.at(closed.integer(3));
            row.user = places.at(closed.integer(4));
            row.kind = static_cast<RunKind>(closed.integer(5));
            row.weight_milli = closed.integer(6);
            row.charged_until = closed.integer(7);
            row.begun_batch = closed.integer(8);
            row.ended_batch = closed.integer(9);
        }
        Statement uses(db(),
                       "SELECT n.text, f.at, f.allocated_at FROM first_use f JOIN name n "
                       "ON n.id = f.budget ORDER BY f.at, n.text");
        while (uses.step()) {
            out.first_uses.emplace_back(uses.text(0), uses.integer(1));
            out.first_allocated_at = std::min(out.first_allocated_at, uses.integer(2));
        }
    }

    void load_plans(LedgerContents& out) {
        Statement select(db(),
                         "SELECT claimant, budget, user, weight_milli, commitment_seconds, gpus, "
                         "made_at, express FROM plan ORDER BY made_at, claimant");
        Statement nodes(db(),
                        "SELECT node, gpus, cpus, memory_mib FROM plan_node WHERE claimant = ? "
                        "ORDER BY place");
        Statement victims(db(), "SELECT victim FROM plan_victim WHERE claimant = ? ORDER BY place");
        while (select.step()) {
            PlanRow& plan = out.plans.emplace_back();
            plan.claimant = static_cast<JobId>(select.integer(0));
            plan.budget = select.text(1);
            plan.user = select.text(2);
            plan.weight_milli = select.integer(3);
            plan.commitment_seconds = select.integer(4);
            plan.gpus = select.integer(5);
            plan.made_at = select.integer(6);
            plan.express = select.integer(7) != 0;
            nodes.with(plan.claimant);
            while (nodes.step()) {
                plan.nodes.push_back(
                    {nodes.text(0), nodes.integer(1), nodes.integer(2), nodes.integer(3)});
            }
            victims.with(plan.claimant);
            while (victims.step()) {
                plan.victims.push_back(static_cast<JobId>(victims.integer(0)));
            }
        }
    }

    void load_rest(LedgerContents& out, std::int64_t preemptions_since) {
        Statement jobs(db(),
                       "SELECT id, first_submit_at, runs, protection_cap_seconds, waits_for, "
                       "checkpointed_at, noticed_seconds "
                       "FROM job ORDER BY id");
        while (jobs.step()) {
            out.jobs.push_back({static_cast<JobId>(jobs.integer(0)), jobs.integer(1),
                                static_cast<std::uint32_t>(jobs.integer(2)), jobs.integer(3),
                                static_cast<JobId>(jobs.integer(4)), jobs.integer(5),
                                jobs.integer(6)});
        }
        Statement preemptions(db(),
                              (std::string("SELECT ") + kPreemptionColumns +
                               "FROM preemption WHERE planned_at >= ? ORDER BY planned_at, id")
                                  .c_str());
        preemptions.with(preemptions_since);
        while (preemptions.step()) {
            out.preemptions.push_back(read_preemption(preemptions));
        }
        Statement capacity(db(),
                           "SELECT at, available_weight_milli FROM capacity WHERE at >= "
                           "coalesce((SELECT max(at) FROM capacity WHERE at <= ?1), ?1) "
                           "ORDER BY at");
        capacity.with(out.since_at);
        while (capacity.step()) {
            out.capacity.push_back({capacity.integer(0), capacity.integer(1)});
        }
    }

    // Runs `body` in a transaction of ours.
    template <typename Body>
    Status transact(const char* doing, Body body) {
        try {
            Transaction transaction(db());
            check_epoch();
            body();
            transaction.commit();
            return {};
        } catch (const SqlFailure& failure) {
            // What was learnt in a transaction that never was must be forgotten.
            names.clear();
            last_tree.reset();
            return error_of(failure, doing);
        }
    }
};

LedgerDatabase::LedgerDatabase(std::unique_ptr<State> state) : state_(std::move(state)) {}
LedgerDatabase::LedgerDatabase(LedgerDatabase&&) noexcept = default;
LedgerDatabase& LedgerDatabase::operator=(LedgerDatabase&&) noexcept = default;
LedgerDatabase::~LedgerDatabase() = default;

const std::string& LedgerDatabase::path() const {
    return state_->path;
}
const std::string& LedgerDatabase::set_aside() const {
    return state_->set_aside;
}
const std::string& LedgerDatabase::set_aside_reason() const {
    return state_->set_aside_reason;
}
int LedgerDatabase::opened_version() const {
    return state_->opened_version;
}
std::int64_t LedgerDatabase::epoch() const {
    return state_->epoch;
}
bool LedgerDatabase::fenced() const {
    return state_->fenced;
}

Result<LedgerDatabase> LedgerDatabase::open(const std::string& path, std::int64_t now,
                                            std::int64_t own_epoch) {
    auto state = std::make_unique<State>();
    state->path = path;
    for (int attempt = 0; attempt < 2; ++attempt) {
        if (const Status created = create_private(path); !created.ok()) {
            return created.failure();
        }
        try {
            state->connection = connect(path);
            const Preparation prepared = prepare(state->db(), own_epoch);
            state->opened_version = prepared.opened_version;
            state->epoch = prepared.epoch;
            return LedgerDatabase(std::move(state));
        } catch (const SqlFailure& failure) {
            state->connection.reset();
            // SQLITE_ERROR: tables that our schema has are missing.
            const bool corrupt = failure.code == SQLITE_CORRUPT || failure.code == SQLITE_NOTADB ||
                                 failure.code == SQLITE_ERROR;
            if (!corrupt || attempt > 0) {
                return state->error_of(failure, "open");
            }
            Result<std::string> aside = put_aside(path, now);
            if (!aside.ok()) {
                return aside.failure();
            }
            state->set_aside = std::move(aside).value();
            state->set_aside_reason = failure.text;
        }
    }
    return Error{"cannot open the ledger " + path};
}

Status LedgerDatabase::apply(const LedgerBatch& batch) {
    State& s = *state_;
    return s.transact("write", [&] {
        execute(s.db(), "UPDATE owner SET batch = batch + 1");
        const std::int64_t number = query_integer(s.db(), "SELECT batch FROM owner");
        if (!batch.edits.empty() && !s.last_tree) {
            s.fold_trees([](std::int64_t, const auto&) {});
        }
        for (const TreeEditRow& edit : batch.edits) {
            s.write_edit(edit, number);
        }
        s.write_segments(batch.begun, false, number);
        s.write_segments(batch.ended, true, number);
        s.write_jobs(batch);
        s.write_preemptions(batch.preemptions);
        s.write_parts(batch.parts);
        s.write_contract_edits(batch.contract_edits);
        if (batch.plans) {
            s.write_plans(*batch.plans);
        }
        Statement capacity(s.db(),
                           "INSERT INTO capacity VALUES (?, ?) ON CONFLICT (at) DO UPDATE SET "
                           "available_weight_milli = excluded.available_weight_milli");
        for (const CapacityRow& row : batch.capacity) {
            capacity.with(row.at, row.available_weight_milli).run();
        }
        s.write_assemblies(batch.assemblies);
        if (batch.held_back) {
            s.write_held_back(*batch.held_back);
        }
    });
}

Result<LedgerContents> LedgerDatabase::load(std::int64_t since, std::int64_t preemptions_since) {
    State& s = *state_;
    LedgerContents out;
    out.since_at = since;
    const Status status = s.transact("read", [&] {
        s.load_trees(out);
        s.load_segments(out);
        s.load_plans(out);
        s.load_rest(out, preemptions_since);
        s.load_large_jobs(out);
        Statement express(s.db(), (std::string("SELECT ") + kSegmentColumns +
                                   "WHERE s.charged_until > ? AND s.ended_at > 0 AND "
                                   "s.express <> 0 ORDER BY s.id")
                                      .c_str());
        express.with(preemptions_since);
        while (express.step()) {
            out.express.push_back(read_segment(express));
        }
    });
    if (!status.ok()) {
        return status.failure();
    }
    return out;
}

Result<std::vector<TreeEditRow>> LedgerDatabase::edits(std::int64_t from, std::int64_t to,
                                                       std::size_t most) {
    State& s = *state_;
    std::vector<TreeEditRow> out;
    const Status status = s.transact("read", [&] {
        Statement select(s.db(),
                         "SELECT number, at, user, reason FROM tree_edit WHERE at BETWEEN ? AND ? "
                         "ORDER BY number DESC LIMIT ?");
        select.with(from, to, limit_of(most));
        while (select.step()) {
            TreeEditRow& row = out.emplace_back();
            row.number = select.integer(0);
            row.at = select.integer(1);
            row.user = select.text(2);
            row.reason = select.text(3);
            row.changes = s.changes_of(row.number);
        }
    });
    if (!status.ok()) {
        return status.failure();
    }
    return out;
}

Result<std::vector<ContractEditRow>> LedgerDatabase::contract_edits(std::size_t most) {
    State& s = *state_;
    std::vector<ContractEditRow> out;
    const Status status = s.transact("read", [&] {
        Statement select(s.db(),
                         "SELECT number, at, user, job, job_name, owner, reason, field, before, "
                         "after FROM contract_edit ORDER BY number DESC, place LIMIT ?");
        select.with(limit_of(most));
        while (select.step()) {
            if (out.empty() || out.back().number != select.integer(0)) {
                ContractEditRow& row = out.emplace_back();
                row.number = select.integer(0);
                row.at = select.integer(1);
                row.user = select.text(2);
                row.job = static_cast<JobId>(select.integer(3));
                row.job_name = select.text(4);
                row.owner = select.text(5);
                row.reason = select.text(6);
            }
            out.back().changes.push_back({select.text(7), select.text(8), select.text(9)});
        }
    });
    if (!status.ok()) {
        return status.failure();
    }
    return out;
}

Result<std::vector<PreemptionRecord>> LedgerDatabase::preemptions(std::int64_t from,
                                                                  std::int64_t to,
                                                                  std::size_t most) {
    State& s = *state_;
    std::vector<PreemptionRecord> out;
    const Status status = s.transact("read", [&] {
        Statement select(s.db(), (std::string("SELECT ") + kPreemptionColumns +
                                  "FROM preemption WHERE planned_at BETWEEN ? AND ? "
                                  "ORDER BY planned_at DESC, id DESC LIMIT ?")
                                     .c_str());
        select.with(from, to, limit_of(most));
        while (select.step()) {
            out.push_back(read_preemption(select));
        }
    });
    if (!status.ok()) {
        return status.failure();
    }
    return out;
}

Result<std::vector<AssemblyRow>> LedgerDatabase::assemblies(std::int64_t from, std::int64_t to,
                                                            std::size_t most) {
    std::vector<AssemblyRow> out;
    const Status status = state_->transact("read", [&] {
        out = state_->assemblies("WHERE turn_at BETWEEN " + std::to_string(from) + " AND " +
                                 std::to_string(to) + " ORDER BY turn_at DESC, claimant LIMIT " +
                                 std::to_string(limit_of(most)));
    });
    if (!status.ok()) {
        return status.failure();
    }
    return out;
}

Result<JobHistory> LedgerDatabase::history(std::uint32_t id, std::int64_t part, bool is_component,
                                           std::size_t most) {
    State& s = *state_;
    JobHistory out;
    const Status status = s.transact("read", [&] {
        out.parts = s.parts_of(id, part, is_component, most);
        for (const PartRow& row : out.parts) {
            s.add_history(row.id, most, out);
        }
        const bool is_known = std::any_of(out.parts.begin(), out.parts.end(),
                                          [id](const PartRow& row) { return row.id == id; });
        if (part < 0 && !is_known) {
            s.add_history(id, most, out);
        }
    });
    if (!status.ok()) {
        return status.failure();
    }
    std::sort(
        out.segments.begin(), out.segments.end(), [](const SegmentRow& a, const SegmentRow& b) {
            return std::tie(a.key.begin_at, a.key.job_id) < std::tie(b.key.begin_at, b.key.job_id);
        });
    std::sort(out.preemptions.begin(), out.preemptions.end(),
              [](const PreemptionRecord& a, const PreemptionRecord& b) {
                  return std::tie(a.planned_at, a.id) < std::tie(b.planned_at, b.id);
              });
    return out;
}

Result<std::vector<SegmentRow>> LedgerDatabase::segments(std::int64_t from, std::int64_t to,
                                                         std::size_t most) {
    State& s = *state_;
    std::vector<SegmentRow> out;
    const Status status = s.transact("read", [&] {
        Statement select(s.db(), (std::string("SELECT ") + kSegmentColumns +
                                  "WHERE s.charged_until > ? AND s.begin_at < ? "
                                  "ORDER BY s.begin_at, s.id LIMIT ?")
                                     .c_str());
        select.with(from, to, limit_of(most));
        while (select.step()) {
            out.push_back(read_segment(select));
        }
    });
    if (!status.ok()) {
        return status.failure();
    }
    return out;
}

}  // namespace tranche
