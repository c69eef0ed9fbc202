// SPDX-License-Identifier: GPL-2.0-or-later
// Nothing that goes wrong in here crosses a plugin entry point.
#pragma once

#include <utility>

#include "common/base/guarded.hpp"
#include "engine/engine.hpp"

namespace tranche {

// Runs `body`; where it throws, the fault is counted and the answer is `neutral`: as if we were
// not there. `entry` is the entry point's name.
template <typename Answer, typename Body>
Answer guarded(const char* entry, Answer neutral, Body&& body) noexcept {
    return guarded(
        entry, std::move(neutral), std::forward<Body>(body),
        [](const char* where, const char* what) { Engine::instance().fault(where, what); });
}

template <typename Body>
void guarded(const char* entry, Body&& body) noexcept {
    guarded(entry, 0, [&] {
        std::forward<Body>(body)();
        return 0;
    });
}

}  // namespace tranche
