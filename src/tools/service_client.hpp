// SPDX-License-Identifier: GPL-2.0-or-later
// Asks the query service of a cluster's controller (DESIGN 4.4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.hpp"
#include "common/wire/json.hpp"

namespace tranche {

// Where the service is and whom to believe.
struct ServiceAddress {
    std::string cluster;
    std::vector<std::string> hosts;  // controllers, the primary first
    int port = 6830;
    std::string munge_socket;  // empty: munge's default
    std::uint32_t slurm_uid = 0;
};

struct ServicePatience {
    std::int64_t connect_milliseconds = 3000;  // for each address
    std::int64_t answer_milliseconds = 90000;  // for the whole answer
};

// The result of one call; an Error is what the controller said, or that none answered. A question
// that was sent is not sent to another host: an edit may have been carried out.
Result<Json> ask_service(const ServiceAddress& address, const std::string& method,
                         const Json& arguments, const ServicePatience& patience = {});

}  // namespace tranche
