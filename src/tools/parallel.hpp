// SPDX-License-Identifier: GPL-2.0-or-later
// Independent pieces of work on all cores that this program may use.
#pragma once

#include <cstddef>
#include <functional>

namespace tranche {

// Calls body(0) to body(count - 1), each once, several at a time; returns when all are done. What
// one of them throws is thrown here, the lowest number's first.
void for_all_cores(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace tranche
