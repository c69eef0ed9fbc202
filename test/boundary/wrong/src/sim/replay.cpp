// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include "engine/engine.cpp"
#include "common/policy/rank.hpp"
