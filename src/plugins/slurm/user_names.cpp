// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/user_names.hpp"

#include <pwd.h>

#include <mutex>
#include <unordered_map>
#include <vector>

namespace tranche {
namespace {

struct NameBook {
    std::mutex mutex;
    std::unordered_map<std::uint32_t, std::string> names;
};

// Never destroyed: threads may still ask while the process ends.
NameBook& book() {
    static NameBook* const kept = new NameBook;
    return *kept;
}

}  // namespace

std::string remembered_user_name(std::uint32_t uid) {
    NameBook& kept = book();
    const std::lock_guard<std::mutex> guard(kept.mutex);
    const auto known = kept.names.find(uid);
    return known != kept.names.end() ? known->second : std::string();
}

std::string user_name_of(std::uint32_t uid) {
    std::string name = remembered_user_name(uid);
    if (!name.empty()) {
        return name;
    }
    std::vector<char> buffer(16384);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
        return name;
    }
    name = found->pw_name;
    NameBook& kept = book();
    const std::lock_guard<std::mutex> guard(kept.mutex);
    kept.names[uid] = name;
    return name;
}

}  // namespace tranche
