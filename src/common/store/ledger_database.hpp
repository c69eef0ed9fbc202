// SPDX-License-Identifier: GPL-2.0-or-later
// The ledger's file: an SQLite database with one writer (DESIGN 2.3).
//
// Every transaction checks the `epoch` row that open() raised: once another controller has opened
// the file, writing fails for ever in this one, even if it was frozen meanwhile. For that the
// check must read the file and not a cache: so locks are taken for a transaction only and the
// journal is a rollback journal, which also works over NFS (a write-ahead log with exclusive locks
// would never look at the file again, and one without needs shared memory). synchronous=FULL.
//
// Not thread-safe: one thread at a time. Never waits: a file that somebody else locks right now is
// an Error, try again. Errors change nothing: a batch is written whole or not at all. No clock:
// instants are parameters. Cost: a transaction is about three fsync.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/store/ledger_rows.hpp"

namespace tranche {

inline constexpr int kLedgerSchemaVersion = 5;
inline constexpr int kLedgerApplicationId = 0x54724e63;  // PRAGMA application_id

// The statements that lead from schema version `version` - 1 to `version`.
const char* ledger_schema_step(int version);

class LedgerDatabase {
  public:
    // Opens or creates the file, brings an older schema up to date, checks the whole and raises
    // the epoch. A corrupt file is set aside as PATH.corrupt-YYYYMMDDTHHMMSS (by `now`, UTC) and a
    // new one begun: see set_aside(). A file of a newer schema, or of something else, is an Error.
    // `own_epoch`: of the same owner's last opening, when it opens anew after a failure; a file
    // that somebody else has opened since is an Error then. 0: takes the file from whoever had it.
    static Result<LedgerDatabase> open(const std::string& path, std::int64_t now,
                                       std::int64_t own_epoch = 0);

    LedgerDatabase(LedgerDatabase&&) noexcept;
    LedgerDatabase& operator=(LedgerDatabase&&) noexcept;
    ~LedgerDatabase();

    const std::string& path() const;
    // Where the corrupt file lies that was found at open, and what was wrong; empty if none was.
    const std::string& set_aside() const;
    const std::string& set_aside_reason() const;
    // The version the file had at open; kLedgerSchemaVersion for a new one.
    int opened_version() const;
    std::int64_t epoch() const;
    // Whether another controller has opened the file since. Then everything here fails for ever,
    // and opening the file anew would take it from its rightful owner.
    bool fenced() const;

    Status apply(const LedgerBatch& batch);

    // Everything that a start needs: `since` is the window's begin.
    Result<LedgerContents> load(std::int64_t since, std::int64_t preemptions_since);

    // Recorded between the two instants, both included; the newest first, at most `most`.
    Result<std::vector<TreeEditRow>> edits(std::int64_t from, std::int64_t to, std::size_t most);
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                      std::size_t most);
    // Of one job, or of a task or component (`part` >= 0); an id alone stands for all its parts.
    // The newest `most` segments and preemptions.
    Result<JobHistory> history(std::uint32_t id, std::int64_t part, bool is_component,
                               std::size_t most);
    Result<std::vector<ContractEditRow>> contract_edits(std::size_t most);  // the newest first
    // Of jobs whose turn came between the two instants, both included; the newest first.
    Result<std::vector<AssemblyRow>> assemblies(std::int64_t from, std::int64_t to,
                                                std::size_t most);
    // Segments, whole, that were charged in [from, to); by begin.
    Result<std::vector<SegmentRow>> segments(std::int64_t from, std::int64_t to, std::size_t most);

  private:
    struct State;
    explicit LedgerDatabase(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace tranche
