// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
// time() and <mutex> in a comment are no breach.
#include <chrono>
#include <mutex>
#include <vector>

inline long now() { return time(nullptr); }
inline long runtime(long at) { return at; }
inline const char* text() { return "time(nullptr)"; }
