// SPDX-License-Identifier: GPL-2.0-or-later
// A wait that another thread can end: one sleeper, any number of ringers.
//
// By an event descriptor and poll(), because the wait has to follow the clock that the daemon
// lives by: poll's time-outs are relative and no step of the system's clock stretches them, and on
// a test cluster whose time runs faster libfaketime scales them, which it does not do for the
// timed waits of condition variables on the steady clock.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>

#include "engine/real_clock.hpp"

namespace tranche {

class Alarm {
  public:
    // Throws std::system_error where there is no descriptor left.
    Alarm() : number_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (number_ < 0) {
            throw std::system_error(errno, std::generic_category(), "eventfd");
        }
    }
    ~Alarm() { close(number_); }
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    // Ends the present wait, or the next one if nobody waits.
    void ring() noexcept {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = write(number_, &one, sizeof one);
    }

    // Until rung or the time is over; may return early.
    void wait(std::chrono::milliseconds time) noexcept {
        constexpr std::int64_t kMost = 60'000;
        struct pollfd polled = {number_, POLLIN, 0};
        const auto most = std::clamp<std::int64_t>(time.count(), 0, kMost);
        forget(poll(&polled, 1, static_cast<int>(most)));
    }

    // The same in real time, whatever the cluster's clock does: a step of polling that must not
    // become a busy loop where time runs faster.
    void wait_real(std::chrono::milliseconds time) noexcept {
        struct pollfd polled = {number_, POLLIN, 0};
        forget(real_poll(&polled, 1, time.count()));
    }

  private:
    void forget(int rung) noexcept {
        if (rung > 0) {
            std::uint64_t count = 0;
            [[maybe_unused]] const auto read_bytes = read(number_, &count, sizeof count);
        }
    }

    const int number_;
};

}  // namespace tranche
