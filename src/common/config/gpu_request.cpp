// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/gpu_request.hpp"

#include <algorithm>
#include <optional>

#include "common/base/quoted.hpp"

namespace tranche {

namespace {

constexpr std::int64_t kMostGpus = std::int64_t{1} << 40;

std::int64_t scaled(std::int64_t count, std::int64_t factor) noexcept {
    factor = std::max<std::int64_t>(factor, 1);
    return count > kMostGpus / factor ? kMostGpus : count * factor;
}

// "2", "2k"; nullopt if it is no number.
std::optional<std::int64_t> parse_count(std::string_view text) {
    std::int64_t factor = 1;
    if (!text.empty()) {
        constexpr std::string_view kSuffixes = "kmg";
        const char last = static_cast<char>(text.back() | 0x20);
        const std::size_t power = kSuffixes.find(last);
        if (power != std::string_view::npos) {
            factor = std::int64_t{1} << (10 * (power + 1));
            text.remove_suffix(1);
        }
    }
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
        return std::nullopt;
    }
    std::int64_t count = 0;
    for (char digit : text) {
        count = std::min(kMostGpus, count * 10 + (digit - '0'));
    }
    return scaled(count, factor);
}

void add(std::vector<RequestedGpus>& gpus, std::string_view type, std::int64_t count) {
    for (RequestedGpus& one : gpus) {
        if (one.type == type) {
            one.count = std::min(kMostGpus, one.count + count);
            return;
        }
    }
    gpus.push_back({std::string(type), count});
}

// One entry of a request, behind "gres:" or "gres/".
void parse_entry(std::string_view entry, std::vector<RequestedGpus>& gpus) {
    constexpr std::string_view kGpu = "gpu";
    for (std::string_view prefix : {"gres:", "gres/"}) {
        if (starts_with_ignoring_case(entry, prefix)) {
            entry.remove_prefix(prefix.size());
            break;
        }
    }
    if (!starts_with_ignoring_case(entry, kGpu)) {
        return;
    }
    entry.remove_prefix(kGpu.size());
    if (entry.empty()) {
        add(gpus, {}, 1);
        return;
    }
    if (entry[0] != ':' && entry[0] != '=') {
        return;  // another resource whose name begins so
    }
    entry.remove_prefix(1);
    if (const auto count = parse_count(entry)) {
        add(gpus, {}, *count);
        return;
    }
    const std::size_t separator = entry.find_last_of(":=");
    if (separator == std::string_view::npos) {
        add(gpus, entry, 1);
    } else if (const auto count = parse_count(entry.substr(separator + 1))) {
        add(gpus, entry.substr(0, separator), *count);
    }
}

std::vector<RequestedGpus> times(std::vector<RequestedGpus> gpus, std::int64_t factor) {
    for (RequestedGpus& one : gpus) {
        one.count = scaled(one.count, factor);
    }
    return gpus;
}

std::int64_t rounded_up(std::int64_t count, std::int64_t step) noexcept {
    return count / step + (count % step != 0 ? 1 : 0);
}

}  // namespace

std::vector<RequestedGpus> parse_gpu_request(std::string_view text) {
    std::vector<RequestedGpus> gpus;
    while (!text.empty()) {
        const std::size_t end = text.find_first_of(",;");
        parse_entry(trimmed(text.substr(0, end)), gpus);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    gpus.erase(std::remove_if(gpus.begin(), gpus.end(),
                              [](const RequestedGpus& one) { return one.count == 0; }),
               gpus.end());
    return gpus;
}

std::int64_t requested_nodes(const GpuRequestStrings& request) {
    if (request.nodes > 0) {
        return request.nodes;
    }
    if (request.tasks > 0 && request.tasks_per_node > 0) {
        return rounded_up(request.tasks, request.tasks_per_node);
    }
    return 1;
}

std::vector<RequestedGpus> requested_gpus(const GpuRequestStrings& request) {
    const std::int64_t nodes = requested_nodes(request);
    if (request.exclusive && !request.gpus_of_a_node.empty()) {
        return times(request.gpus_of_a_node, nodes);
    }
    // Each is a lower bound of what Slurm would allocate; the total, where it is said, is exact.
    if (auto gpus = parse_gpu_request(request.per_job); !gpus.empty()) {
        return gpus;
    }
    if (auto gpus = parse_gpu_request(request.per_node); !gpus.empty()) {
        return times(std::move(gpus), nodes);
    }
    if (auto gpus = parse_gpu_request(request.per_task); !gpus.empty()) {
        const std::int64_t tasks =
            request.tasks > 0 ? request.tasks
                              : scaled(nodes, std::max<std::int64_t>(request.tasks_per_node, 1));
        return times(std::move(gpus), tasks);
    }
    if (auto gpus = parse_gpu_request(request.per_socket); !gpus.empty()) {
        return times(std::move(gpus),
                     scaled(nodes, std::max<std::int64_t>(request.sockets_per_node, 1)));
    }
    if (request.tasks_per_gpu > 0 && request.tasks > 0) {
        return {{"", rounded_up(request.tasks, request.tasks_per_gpu)}};
    }
    return {};
}

}  // namespace tranche
