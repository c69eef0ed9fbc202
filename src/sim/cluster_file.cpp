// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/cluster_file.hpp"

#include <charconv>
#include <set>

#include "common/base/quoted.hpp"

namespace tranche::sim {
namespace {

constexpr std::int64_t kMostGpusOfANode = 1024;
constexpr std::int64_t kMostGpusOfACluster = 1'000'000;
constexpr std::int64_t kDay = 86400;

std::optional<std::int64_t> parse_count(std::string_view text) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (text.empty() || text.size() > 9 || read.ec != std::errc() || read.ptr != end ||
        number < 0) {
        return std::nullopt;
    }
    return number;
}

std::string too_many() {
    return "at most " + std::to_string(kMostClusterNodes) + " nodes would be right";
}

// The names of one entry; false with a reason.
Status expand_entry(std::string_view entry, std::vector<std::string>& names) {
    const auto bad = [&] {
        return Error{"node list " + quoted(entry) + ": n[1-4] or n1,n2 would be right"};
    };
    const std::size_t open = entry.find('[');
    if (entry.empty() || open == 0 ||
        (open == std::string_view::npos && entry.find(']') != std::string_view::npos)) {
        return bad();
    }
    if (open == std::string_view::npos) {
        names.emplace_back(entry);
        return {};
    }
    const std::size_t close = entry.find(']', open);
    if (close == std::string_view::npos) {
        return bad();
    }
    const std::string_view head = entry.substr(0, open), tail = entry.substr(close + 1);
    std::string_view ranges = entry.substr(open + 1, close - open - 1);
    if (tail.find_first_of("[]") != std::string_view::npos || ranges.empty()) {
        return bad();
    }
    while (!ranges.empty()) {
        const std::size_t comma = std::min(ranges.find(','), ranges.size());
        const std::string_view range = ranges.substr(0, comma);
        ranges.remove_prefix(std::min(comma + 1, ranges.size()));
        const std::size_t dash = std::min(range.find('-'), range.size());
        const auto first = parse_count(range.substr(0, dash));
        const auto last = dash == range.size() ? first : parse_count(range.substr(dash + 1));
        if (!first || !last || *last < *first) {
            return bad();
        }
        if (static_cast<std::size_t>(*last - *first) >= kMostClusterNodes - names.size()) {
            return Error{"node list " + quoted(entry) + ": " + too_many()};
        }
        for (std::int64_t i = *first; i <= *last; ++i) {
            std::string number = std::to_string(i);
            if (number.size() < dash) {
                number.insert(0, dash - number.size(), '0');
            }
            names.push_back(std::string(head) + number + std::string(tail));
        }
    }
    return {};
}

Status check_whole(const SimCluster& cluster, const std::string& what) {
    std::set<std::string_view> names;
    for (const SimNode& node : cluster.nodes) {
        if (!names.insert(node.name).second) {
            return Error{what + ": node " + quoted(node.name) + " is there twice"};
        }
    }
    if (cluster.gpus() == 0) {
        return Error{what + ": there is no GPU in it"};
    }
    if (cluster.gpus() > kMostGpusOfACluster) {
        return Error{what + ": " + std::to_string(cluster.gpus()) + " GPUs; at most " +
                     std::to_string(kMostGpusOfACluster) + " would be right"};
    }
    return {};
}

}  // namespace

Result<std::vector<std::string>> expand_names(std::string_view list) {
    std::vector<std::string> names;
    std::size_t depth = 0, begin = 0;
    for (std::size_t i = 0; i <= list.size(); ++i) {
        if (i == list.size() || (list[i] == ',' && depth == 0)) {
            const Status status = expand_entry(trimmed(list.substr(begin, i - begin)), names);
            if (!status.ok()) {
                return status.failure();
            }
            if (names.size() > kMostClusterNodes) {
                return Error{"node list " + quoted(list) + ": " + too_many()};
            }
            begin = i + 1;
        } else if (list[i] == '[') {
            ++depth;
        } else if (list[i] == ']' && depth > 0) {
            --depth;
        }
    }
    return names;
}

Result<SimCluster> parse_cluster(std::string_view text) {
    const auto bad = [&](const std::string& right) {
        return Error{"cluster " + quoted(text) + ": " + right + " would be right"};
    };
    SimCluster cluster;
    std::string_view rest = text;
    while (true) {
        const std::size_t plus = std::min(rest.find('+'), rest.size());
        const std::string_view part = trimmed(rest.substr(0, plus));
        const std::size_t cross = part.find_first_of("xX");
        const std::size_t colon = std::min(part.find(':'), part.size());
        if (cross == std::string_view::npos || cross > colon) {
            return bad("NODESxGPUS, such as 128x8,");
        }
        const auto nodes = parse_count(part.substr(0, cross));
        const auto gpus = parse_count(part.substr(cross + 1, colon - cross - 1));
        if (!nodes || !gpus) {
            return bad("NODESxGPUS, such as 128x8,");
        }
        if (*nodes < 1 ||
            static_cast<std::size_t>(*nodes) + cluster.nodes.size() > kMostClusterNodes) {
            return bad("1 to " + std::to_string(kMostClusterNodes) + " nodes");
        }
        // One pool of many GPUs is how other simulators see a cluster.
        if (*gpus < 1 || *gpus > 100 * kMostGpusOfANode) {
            return bad("1 to " + std::to_string(100 * kMostGpusOfANode) + " GPUs on a node");
        }
        const std::string type(colon < part.size() ? part.substr(colon + 1) : "");
        if (colon < part.size() && type.empty()) {
            return bad("a type of GPUs behind the colon");
        }
        for (std::int64_t i = 0; i < *nodes; ++i) {
            cluster.nodes.push_back({"n" + std::to_string(cluster.nodes.size() + 1), type, *gpus});
        }
        if (plus == rest.size()) {
            break;
        }
        rest.remove_prefix(plus + 1);
    }
    if (const Status status = check_whole(cluster, "cluster " + quoted(text)); !status.ok()) {
        return status.failure();
    }
    return cluster;
}

Result<SimCluster> cluster_from_json(const Json& json, const std::string& path) {
    ObjectReader reader(json, path);
    SimCluster cluster;
    cluster.cycle_seconds = reader.integer("cycle", 1, kDay).value_or(cluster.cycle_seconds);
    cluster.boot_seconds = reader.integer("boot", 0, kDay).value_or(cluster.boot_seconds);
    reader.require("nodes");
    const auto nodes = reader.array("nodes");
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    for (std::size_t i = 0; i < nodes->size(); ++i) {
        ObjectReader entry(nodes->at(i), path + ".nodes[" + std::to_string(i) + "]");
        entry.require("name");
        entry.require("gpus");
        const std::string name = entry.text("name").value_or("");
        const std::int64_t gpus = entry.integer("gpus", 0, 100 * kMostGpusOfANode).value_or(0);
        const std::string type = entry.text("type").value_or("");
        if (const Status status = entry.finish(); !status.ok()) {
            return status.failure();
        }
        auto names = expand_names(name);
        if (!names.ok()) {
            return Error{entry.path() + ".name: " + names.error()};
        }
        for (std::string& each : *names) {
            cluster.nodes.push_back({std::move(each), type, gpus});
        }
        if (cluster.nodes.size() > kMostClusterNodes) {
            return Error{path + ".nodes: " + too_many()};
        }
    }
    if (const Status status = check_whole(cluster, path); !status.ok()) {
        return status.failure();
    }
    return cluster;
}

}  // namespace tranche::sim
