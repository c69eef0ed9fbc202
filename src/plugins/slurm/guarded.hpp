// SPDX-License-Identifier: GPL-2.0-or-later
// Nothing that goes wrong in here crosses a plugin entry point.
#pragma once

#include <exception>
#include <utility>

#include "engine/engine.hpp"

namespace tranche {

// Runs `body`; where it throws, the fault is counted and the answer is `neutral`: as if we were
// not there. `entry` is the entry point's name.
template <typename Answer, typename Body>
Answer guarded(const char* entry, Answer neutral, Body&& body) noexcept {
    try {
        return std::forward<Body>(body)();
    } catch (const std::exception& fault) {
        Engine::instance().fault(entry, fault.what());
    } catch (...) {
        Engine::instance().fault(entry, "an exception of an unknown type");
    }
    return neutral;
}

template <typename Body>
void guarded(const char* entry, Body&& body) noexcept {
    guarded(entry, 0, [&] {
        std::forward<Body>(body)();
        return 0;
    });
}

}  // namespace tranche
