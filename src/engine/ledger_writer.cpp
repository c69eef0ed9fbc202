// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/ledger_writer.hpp"

#include <future>
#include <utility>

namespace tranche {
namespace {

constexpr std::chrono::milliseconds kAnswerPatience{5000};
constexpr std::int64_t kPreemptionsKept = 86400;

}  // namespace

struct LedgerWriter::State {
    using Question = std::function<void(LedgerDatabase&)>;

    State(std::string path, Clock clock, std::chrono::milliseconds retry)
        : path_(std::move(path)), clock_(std::move(clock)), retry_(retry) {}
    void run();
    bool open_file();
    void say(const std::string& text);
    void fail(const std::string& what);
    bool rest();
    Result<LedgerContents> load(LedgerDatabase& database);

    const std::string path_;
    const Clock clock_;
    const std::chrono::milliseconds retry_;

    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    std::int64_t keep_seconds_ = 0;
    LedgerBatch waiting_;
    std::size_t waiting_count_ = 0;
    std::uint64_t put_ = 0, written_ = 0;
    std::vector<Question> questions_;
    std::optional<LedgerContents> contents_;
    bool loaded_ = false;
    bool stopping_ = false;
    bool ended_ = false;
    Health health_;
    std::vector<std::string> messages_;
    std::unique_ptr<LedgerDatabase> database_;  // the thread's alone
    std::int64_t own_epoch_ = 0;                // the thread's alone; 0: never opened
};

LedgerWriter::LedgerWriter(std::string path, std::int64_t keep_seconds, Clock clock,
                           std::chrono::milliseconds retry)
    : state_(std::make_shared<State>(std::move(path), std::move(clock), retry)) {
    state_->keep_seconds_ = keep_seconds;
    state_->health_.text = state_->path_;
    thread_ = std::thread([state = state_] {
        do {
            try {
                state->run();
                break;
            } catch (const std::exception& e) {
                state->fail(e.what());
            } catch (...) {
                state->fail("an exception of unknown type");
            }
        } while (!state->rest());
        const std::lock_guard lock(state->mutex_);
        state->ended_ = true;
        state->done_.notify_all();
    });
}

LedgerWriter::~LedgerWriter() {
    stop();
}

void LedgerWriter::State::say(const std::string& text) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(text);
}

// What was being written is lost to the file; what comes is tried anew.
void LedgerWriter::State::fail(const std::string& what) {
    database_.reset();
    const std::lock_guard lock(mutex_);
    health_.ok = false;
    health_.text = "internal fault: " + what;
    questions_.clear();
    messages_.push_back("the ledger's thread had an internal fault: " + what);
}

// True: no more.
bool LedgerWriter::State::rest() {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, retry_, [this] { return stopping_; });
}

Result<LedgerContents> LedgerWriter::State::load(LedgerDatabase& database) {
    const std::int64_t now = clock_();
    std::int64_t keep = 0;
    {
        const std::lock_guard lock(mutex_);
        keep = keep_seconds_;
    }
    auto contents = database.load(now - keep, now - kPreemptionsKept);
    if (contents.ok()) {
        contents->read_at = now;
    }
    return contents;
}

bool LedgerWriter::State::open_file() {
    auto opened = LedgerDatabase::open(path_, clock_(), own_epoch_);
    std::string failure;
    if (!opened.ok()) {
        failure = opened.error();
    } else {
        auto database = std::make_unique<LedgerDatabase>(std::move(opened).value());
        own_epoch_ = database->epoch();
        if (!database->set_aside().empty()) {
            say("the ledger was unusable (" + database->set_aside_reason() +
                ") and was set aside as " + database->set_aside() + "; a new one is begun");
        }
        auto loaded = load(*database);
        if (loaded.ok()) {
            database_ = std::move(database);
            const std::lock_guard lock(mutex_);
            if (!loaded_) {
                contents_ = std::move(loaded).value();
                loaded_ = true;
            }
        } else {
            failure = loaded.error();
        }
    }
    const std::lock_guard lock(mutex_);
    if (!failure.empty()) {
        if (health_.ok) {
            messages_.push_back("the ledger cannot be used: " + failure +
                                "; going on in memory, it is tried again every few seconds");
        }
        health_.ok = false;
        health_.text = failure;
        return false;
    }
    if (!health_.ok) {
        messages_.push_back("the ledger is usable again: " + path_);
    }
    health_.ok = true;
    health_.text = path_;
    done_.notify_all();
    return true;
}

void LedgerWriter::State::run() {
    bool retry_later = false;
    for (;;) {
        std::unique_lock lock(mutex_);
        const auto has_work = [&] {
            return stopping_ || (!retry_later && (!database_ || waiting_count_ > 0)) ||
                   !questions_.empty();
        };
        if (retry_later) {
            wake_.wait_for(lock, retry_, has_work);
            retry_later = false;
        } else {
            wake_.wait(lock, has_work);
        }
        const bool stopping = stopping_;
        lock.unlock();

        if (!database_ && !open_file()) {
            retry_later = true;
        }
        lock.lock();
        if (database_ && waiting_count_ > 0) {
            LedgerBatch batch = std::move(waiting_);
            waiting_ = {};
            const std::size_t count = waiting_count_;
            const std::uint64_t up_to = put_;
            waiting_count_ = 0;
            lock.unlock();
            const Status status = database_->apply(batch);
            lock.lock();
            if (status.ok()) {
                written_ = up_to;
                if (!health_.ok) {
                    messages_.push_back("the ledger is written again: " + path_);
                }
                health_.ok = true;
                health_.text = path_;
            } else {
                if (health_.ok) {
                    messages_.push_back(
                        "the ledger cannot be written: " + status.error() + "; going on in memory" +
                        (database_->fenced() ? "" : ", it is tried again every few seconds"));
                }
                health_.ok = false;
                health_.text = status.error();
                if (database_->fenced()) {
                    // Another controller owns the file: opening it anew would take it back from
                    // that one. Nothing of ours will ever be written.
                    waiting_ = {};
                    waiting_count_ = 0;
                } else {
                    batch.append(std::move(waiting_));
                    waiting_ = std::move(batch);
                    waiting_count_ += count;
                    retry_later = true;
                    database_.reset();  // opened anew, with a new check
                }
            }
            done_.notify_all();
        }
        if (database_ && waiting_count_ > 0) {
            continue;  // put meanwhile: what is asked now must know it
        }
        std::vector<Question> questions = std::move(questions_);
        questions_.clear();
        lock.unlock();
        if (database_) {
            for (const Question& question : questions) {
                question(*database_);
            }
        }
        questions.clear();  // unanswered ones break their promise: the asker gets an Error
        if (stopping) {
            break;
        }
    }
    database_.reset();
}

std::optional<LedgerContents> LedgerWriter::contents(std::chrono::milliseconds patience) {
    std::unique_lock lock(state_->mutex_);
    state_->done_.wait_for(lock, patience, [&] { return state_->loaded_ || state_->stopping_; });
    std::optional<LedgerContents> out = std::move(state_->contents_);
    state_->contents_.reset();
    return out;
}

void LedgerWriter::put(LedgerBatch batch) {
    const std::lock_guard lock(state_->mutex_);
    state_->waiting_.append(std::move(batch));
    ++state_->waiting_count_;
    ++state_->put_;
    state_->wake_.notify_all();
}

Status LedgerWriter::put_and_wait(LedgerBatch batch, std::chrono::milliseconds patience) {
    std::unique_lock lock(state_->mutex_);
    state_->waiting_.append(std::move(batch));
    ++state_->waiting_count_;
    const std::uint64_t mine = ++state_->put_;
    state_->wake_.notify_all();
    if (!state_->done_.wait_for(lock, patience,
                                [&] { return state_->written_ >= mine || state_->stopping_; }) ||
        state_->written_ < mine) {
        return Error{"not yet written to the ledger: " + state_->health_.text};
    }
    return {};
}

template <typename Rows>
Result<Rows> LedgerWriter::ask(std::function<Result<Rows>(LedgerDatabase&)> question) {
    auto promise = std::make_shared<std::promise<Result<Rows>>>();
    std::future<Result<Rows>> answer = promise->get_future();
    {
        const std::lock_guard lock(state_->mutex_);
        state_->questions_.push_back(
            [promise, question = std::move(question)](LedgerDatabase& database) {
                promise->set_value(question(database));
            });
        state_->wake_.notify_all();
    }
    promise.reset();
    if (answer.wait_for(kAnswerPatience) != std::future_status::ready) {
        return Error{"the ledger does not answer; srank --health says more"};
    }
    try {
        return answer.get();
    } catch (const std::future_error&) {
        return Error{"the ledger cannot be read now: " + health().text};
    }
}

Result<std::vector<TreeEditRow>> LedgerWriter::edits(std::size_t most) {
    return ask<std::vector<TreeEditRow>>(
        [most](LedgerDatabase& database) { return database.edits(0, kNever, most); });
}

Result<std::vector<PreemptionRecord>> LedgerWriter::preemptions(std::int64_t from, std::int64_t to,
                                                                std::size_t most) {
    return ask<std::vector<PreemptionRecord>>(
        [=](LedgerDatabase& database) { return database.preemptions(from, to, most); });
}

Result<JobHistory> LedgerWriter::history(std::uint32_t id, std::int64_t part, bool is_component,
                                         std::size_t most) {
    return ask<JobHistory>(
        [=](LedgerDatabase& database) { return database.history(id, part, is_component, most); });
}

Result<std::vector<ContractEditRow>> LedgerWriter::contract_edits(std::size_t most) {
    return ask<std::vector<ContractEditRow>>(
        [=](LedgerDatabase& database) { return database.contract_edits(most); });
}

void LedgerWriter::keep(std::int64_t seconds) {
    const std::lock_guard lock(state_->mutex_);
    state_->keep_seconds_ = seconds;
}

Result<LedgerContents> LedgerWriter::load_again() {
    // The thread asks itself: its state outlives the question.
    return ask<LedgerContents>(
        [state = state_.get()](LedgerDatabase& database) { return state->load(database); });
}

LedgerWriter::Health LedgerWriter::health() const {
    const std::lock_guard lock(state_->mutex_);
    Health out = state_->health_;
    out.waiting = state_->waiting_count_;
    return out;
}

std::vector<std::string> LedgerWriter::take_messages() {
    const std::lock_guard lock(state_->mutex_);
    return std::exchange(state_->messages_, {});
}

bool LedgerWriter::stop(std::chrono::milliseconds patience) {
    if (!thread_.joinable()) {
        return true;
    }
    bool ended = false;
    {
        std::unique_lock lock(state_->mutex_);
        state_->stopping_ = true;
        state_->wake_.notify_all();
        state_->done_.notify_all();
        ended = state_->done_.wait_for(lock, patience, [this] { return state_->ended_; });
    }
    if (ended) {
        thread_.join();
    } else {
        thread_.detach();
    }
    return ended;
}

}  // namespace tranche
