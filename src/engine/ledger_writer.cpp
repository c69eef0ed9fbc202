// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/ledger_writer.hpp"

#include <ctime>

namespace tranche {
namespace {

constexpr std::chrono::seconds kRetry{5};
constexpr std::chrono::milliseconds kAnswerPatience{5000};

}  // namespace

LedgerWriter::LedgerWriter(std::string path, std::int64_t keep_seconds)
    : path_(std::move(path)), keep_seconds_(keep_seconds) {
    health_.text = path_;
    thread_ = std::thread([this] { run(); });
}

LedgerWriter::~LedgerWriter() {
    stop();
}

void LedgerWriter::say(const std::string& text) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(text);
}

bool LedgerWriter::open_file() {
    const std::int64_t now = std::time(nullptr);
    auto opened = LedgerDatabase::open(path_, now, own_epoch_);
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
        auto loaded = database->load(now - keep_seconds_, now - 86400);
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
                                "; going on in memory, it is tried again every 5 s");
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

void LedgerWriter::run() {
    bool retry_later = false;
    for (;;) {
        std::unique_lock lock(mutex_);
        const auto has_work = [&] {
            return stopping_ || (!retry_later && (!database_ || waiting_count_ > 0)) ||
                   !questions_.empty();
        };
        if (retry_later) {
            wake_.wait_for(lock, kRetry, has_work);
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
                    messages_.push_back("the ledger cannot be written: " + status.error() +
                                        "; going on in memory" +
                                        (database_->fenced() ? "" : ", it is tried again every 5 s"));
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
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, patience, [&] { return loaded_ || stopping_; });
    std::optional<LedgerContents> out = std::move(contents_);
    contents_.reset();
    return out;
}

void LedgerWriter::put(LedgerBatch batch) {
    const std::lock_guard lock(mutex_);
    waiting_.append(std::move(batch));
    ++waiting_count_;
    ++put_;
    wake_.notify_all();
}

Status LedgerWriter::put_and_wait(LedgerBatch batch, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    waiting_.append(std::move(batch));
    ++waiting_count_;
    const std::uint64_t mine = ++put_;
    wake_.notify_all();
    if (!done_.wait_for(lock, patience, [&] { return written_ >= mine || stopping_; }) ||
        written_ < mine) {
        return Error{"not yet written to the ledger: " + health_.text};
    }
    return {};
}

template <typename Rows>
Result<Rows> LedgerWriter::ask(std::function<Result<Rows>(LedgerDatabase&)> question) {
    auto promise = std::make_shared<std::promise<Result<Rows>>>();
    std::future<Result<Rows>> answer = promise->get_future();
    {
        const std::lock_guard lock(mutex_);
        questions_.push_back([promise, question = std::move(question)](LedgerDatabase& database) {
            promise->set_value(question(database));
        });
        wake_.notify_all();
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
    return ask<std::vector<PreemptionRecord>>([=](LedgerDatabase& database) {
        return database.preemptions(from, to, most);
    });
}

Result<LedgerContents> LedgerWriter::load_again() {
    return ask<LedgerContents>([this](LedgerDatabase& database) {
        const std::int64_t now = std::time(nullptr);
        return database.load(now - keep_seconds_, now - 86400);
    });
}

LedgerWriter::Health LedgerWriter::health() const {
    const std::lock_guard lock(mutex_);
    Health out = health_;
    out.waiting = waiting_count_;
    return out;
}

std::vector<std::string> LedgerWriter::take_messages() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
}

void LedgerWriter::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
        done_.notify_all();
    }
    if (thread_.joinable()) {
        thread_.join();
    }
}

}  // namespace tranche
