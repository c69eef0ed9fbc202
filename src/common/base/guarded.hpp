// SPDX-License-Identifier: GPL-2.0-or-later
// The border to foreign C code: no exception crosses it.
#pragma once

#include <exception>
#include <utility>

namespace tranche {

// Runs the body of an entry point. If it throws, `on_fault(entry_point, what)` is told and the
// neutral answer is given: the one that is as if we were not there.
template <typename Answer, typename Body, typename OnFault>
Answer guarded(const char* entry_point, Answer neutral, Body&& body, OnFault&& on_fault) noexcept {
    try {
        return std::forward<Body>(body)();
    } catch (const std::exception& fault) {
        try {
            on_fault(entry_point, fault.what());
        } catch (...) {  // telling failed too: nothing is left to do
        }
    } catch (...) {
        try {
            on_fault(entry_point, "an exception that is no std::exception");
        } catch (...) {
        }
    }
    return neutral;
}

}  // namespace tranche
