// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/replay_progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace tranche {
namespace {

constexpr std::int64_t kFirstAfter = 500, kEvery = 200;  // milliseconds

bool has_terminal() {
    const char* terminal = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb";
}

std::int64_t milliseconds_now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

ReplayProgress::ReplayProgress(std::uint64_t total)
    : is_shown_(has_terminal()),
      total_(std::max<std::uint64_t>(total, 1)),
      next_milliseconds_(is_shown_ ? milliseconds_now() + kFirstAfter : 0) {}

ReplayProgress::~ReplayProgress() {
    if (is_shown_) {
        std::fputs("\r\033[K", stderr);
    }
}

void ReplayProgress::show() {
    if (!is_shown_) {
        return;
    }
    const std::int64_t now = milliseconds_now();
    if (now < next_milliseconds_.load(std::memory_order_relaxed)) {
        return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (now < next_milliseconds_.load(std::memory_order_relaxed)) {
        return;
    }
    next_milliseconds_.store(now + kEvery, std::memory_order_relaxed);
    const std::uint64_t done = std::min(submitted_.load(std::memory_order_relaxed), total_);
    std::fprintf(stderr, "\rsreplay: %3u %% of %llu jobs submitted\033[K",
                 static_cast<unsigned>(100 * done / total_),
                 static_cast<unsigned long long>(total_));
    std::fflush(stderr);
}

}  // namespace tranche
