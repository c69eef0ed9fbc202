// SPDX-License-Identifier: GPL-2.0-or-later
// Munge credentials: text that proves who made it, encrypted under the cluster's key.
//
// Both calls ask munged over its socket and may block for as long as munged does. One object a
// thread.
#pragma once

#include <munge.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

struct Opened {
    std::string payload;
    std::uint32_t uid = 0;  // who made it
    std::int64_t encoded_at = 0;
};

class Munge {
  public:
    // An empty path is munge's default socket.
    explicit Munge(const std::string& socket_path);

    // With `only_uid` nobody else can decode it.
    Result<std::string> encode(std::string_view payload, std::optional<std::uint32_t> only_uid);
    // Refuses what was decoded before, expired, forged or is not for us.
    Result<Opened> decode(const std::string& credential);

  private:
    struct Destroy {
        void operator()(munge_ctx_t context) const { munge_ctx_destroy(context); }
    };
    std::unique_ptr<std::remove_pointer_t<munge_ctx_t>, Destroy> context_;
};

}  // namespace tranche
