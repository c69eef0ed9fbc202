// SPDX-License-Identifier: GPL-2.0-or-later
//
// The rules of the source tree that a compiler does not check: who includes whom, and what the core
// and the plugins never use. Reads text only; a tree is any folder that has a src/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tranche::boundary {

// One breach, as "src/common/base/clock.hpp:4: <chrono> …", the path relative to the tree.
using Breaches = std::vector<std::string>;

// All breaches under tree/src, sorted. Throws std::filesystem::filesystem_error if there is no src.
Breaches breaches_of(const std::filesystem::path& tree);

// C++ files under tree/src and tree/test that no local.am names, sorted: they would be missing from
// a release. test/boundary/wrong and the folders that are shipped whole do not count.
Breaches unlisted_in(const std::filesystem::path& tree);

}  // namespace tranche::boundary
