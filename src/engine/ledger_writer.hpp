// SPDX-License-Identifier: GPL-2.0-or-later
// The one thread that touches the ledger's file.
//
// Batches are written in the order they come; while the file cannot be opened or written they are
// kept in memory and tried again, and status() says so. Nothing here is called with a Slurm lock
// held except put(), which only appends to a list.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.hpp"
#include "common/store/ledger_database.hpp"

namespace tranche {

class LedgerWriter {
  public:
    struct Health {
        bool ok = true;
        std::string text;         // the path, or what is wrong
        std::size_t waiting = 0;  // batches
    };
    // Epoch seconds; called by the writer's thread, also after stop() gave it up.
    using Clock = std::function<std::int64_t()>;

    LedgerWriter(std::string path, std::int64_t keep_seconds, Clock clock,
                 std::chrono::milliseconds retry = std::chrono::seconds(5));
    ~LedgerWriter();
    LedgerWriter(const LedgerWriter&) = delete;
    LedgerWriter& operator=(const LedgerWriter&) = delete;

    // The contents of the file once it is open; waits at most that long, then nullopt: it goes on
    // trying, and what was put meanwhile is written later.
    std::optional<LedgerContents> contents(std::chrono::milliseconds patience);

    // How far back contents reach from now on.
    void keep(std::int64_t seconds);
    // Once more, after all that was put has been written.
    Result<LedgerContents> load_again();

    void put(LedgerBatch batch);
    // As put(), and waits until it is written or `patience` is over.
    Status put_and_wait(LedgerBatch batch, std::chrono::milliseconds patience);

    Result<std::vector<TreeEditRow>> edits(std::size_t most);
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                      std::size_t most);
    Result<JobHistory> history(std::uint32_t id, std::int64_t part, bool is_component,
                               std::size_t most);
    Result<std::vector<ContractEditRow>> contract_edits(std::size_t most);
    Health health() const;
    // Messages for the log since the last call (a file set aside, an error and its end).
    std::vector<std::string> take_messages();
    // Writes what waits, closes the file and ends the thread. False where the file system does not
    // answer in time: the thread is left behind and ends by itself once it does.
    bool stop(std::chrono::milliseconds patience = std::chrono::seconds(10));

  private:
    struct State;
    template <typename Rows>
    Result<Rows> ask(std::function<Result<Rows>(LedgerDatabase&)> question);

    std::shared_ptr<State> state_;  // the thread's too
    std::thread thread_;
};

}  // namespace tranche
