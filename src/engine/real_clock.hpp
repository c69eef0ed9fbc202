// SPDX-License-Identifier: GPL-2.0-or-later
// Patience with the network is not cluster time: on a test cluster whose clock runs faster
// (libfaketime wraps the library's functions) time-outs would be milliseconds. These two go to the
// kernel.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace tranche {

inline std::int64_t real_milliseconds() noexcept {
    struct timespec now {};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

// As poll(); negative: waits without end.
inline int real_poll(struct pollfd* descriptors, nfds_t count, std::int64_t milliseconds) noexcept {
    struct timespec wait {};
    wait.tv_sec = milliseconds / 1000;
    wait.tv_nsec = milliseconds % 1000 * 1000000;
    return static_cast<int>(
        syscall(SYS_ppoll, descriptors, count, milliseconds < 0 ? nullptr : &wait, nullptr, 0));
}

}  // namespace tranche
