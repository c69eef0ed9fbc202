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
        std::string text;  // the path, or what is wrong
        std::size_t waiting = 0;  // batches
    };

    LedgerWriter(std::string path, std::int64_t keep_seconds);
    ~LedgerWriter();
    LedgerWriter(const LedgerWriter&) = delete;
    LedgerWriter& operator=(const LedgerWriter&) = delete;

    // The contents of the file once it is open; waits at most that long, then nullopt: it goes on
    // trying, and what was put meanwhile is written later.
    std::optional<LedgerContents> contents(std::chrono::milliseconds patience);

    // Once more, after all that was put has been written.
    Result<LedgerContents> load_again();

    void put(LedgerBatch batch);
    // As put(), and waits until it is written or `patience` is over.
    Status put_and_wait(LedgerBatch batch, std::chrono::milliseconds patience);

    Result<std::vector<TreeEditRow>> edits(std::size_t most);
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                      std::size_t most);
    Health health() const;
    // Messages for the log since the last call (a file set aside, an error and its end).
    std::vector<std::string> take_messages();
    // Writes what waits, closes the file and ends the thread.
    void stop();

  private:
    using Question = std::function<void(LedgerDatabase&)>;
    void run();
    bool open_file();
    template <typename Rows>
    Result<Rows> ask(std::function<Result<Rows>(LedgerDatabase&)> question);
    void say(const std::string& text);

    const std::string path_;
    const std::int64_t keep_seconds_;
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    LedgerBatch waiting_;
    std::size_t waiting_count_ = 0;
    std::uint64_t put_ = 0, written_ = 0;
    std::vector<Question> questions_;
    std::optional<LedgerContents> contents_;
    bool loaded_ = false;
    bool stopping_ = false;
    Health health_;
    std::vector<std::string> messages_;
    std::unique_ptr<LedgerDatabase> database_;  // the thread's alone
    std::int64_t own_epoch_ = 0;                // the thread's alone; 0: never opened
    std::thread thread_;
};

}  // namespace tranche
