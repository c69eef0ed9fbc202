// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tranche {
namespace {

std::size_t usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return std::max(1U, std::thread::hardware_concurrency());
    }
    return static_cast<std::size_t>(std::max(CPU_COUNT(&set), 1));
}

}  // namespace

void for_all_cores(std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> faults(count);
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                body(i);
            } catch (...) {
                faults[i] = std::current_exception();
            }
        }
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min(count, usable_cores()); ++i) {
        threads.emplace_back(work);
    }
    work();
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const std::exception_ptr& fault : faults) {
        if (fault) {
            std::rethrow_exception(fault);
        }
    }
}

}  // namespace tranche
