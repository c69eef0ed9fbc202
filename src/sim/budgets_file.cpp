// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/budgets_file.hpp"

#include <map>

#include "common/wire/budgets_json.hpp"
#include "sim/events_file.hpp"
#include "sim/mistakes.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kLongestBudgetsFile = std::size_t{64} << 20U;

// Of the budget that a message names first.
std::size_t line_of(const std::string& message,
                    const std::map<std::string, std::size_t, std::less<>>& lines) {
    const std::size_t open = message.find('\'');
    const std::size_t close = message.find('\'', open + 1);
    if (open == std::string::npos || close == std::string::npos) {
        return 0;
    }
    const auto it = lines.find(std::string_view(message).substr(open + 1, close - open - 1));
    return it == lines.end() ? 0 : it->second;
}

}  // namespace

Result<BudgetTree> read_budgets(std::string_view text, const std::string& file) {
    JsonLimits limits;
    limits.bytes = kLongestBudgetsFile;
    const auto json = parse_json(text, file, limits);
    if (!json.ok()) {
        return json.failure();
    }
    Mistakes mistakes(file);
    const Json list = json->at("budgets");
    if (!json->is_object() || !list.is_array()) {
        const auto whole = budgets_from_json(*json);
        mistakes.add(1, whole.ok() ? std::string("there are no budgets in it") : whole.error());
        return mistakes.error();
    }
    const std::vector<std::size_t> element = element_lines(text, 2);
    std::map<std::string, std::size_t, std::less<>> lines;
    std::vector<Budget> budgets;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::size_t line = i < element.size() ? element[i] : 0;
        Json one = Json::object();
        one.set("version", 1).set("budgets", Json::array().append(list.at(i)));
        auto read = budgets_from_json(one);
        if (!read.ok()) {
            std::string message = read.error();
            if (const std::size_t at = message.find("budgets[0]"); at != std::string::npos) {
                message.replace(at, 10, "budgets[" + std::to_string(i) + "]");
            }
            mistakes.add(line, message);
            continue;
        }
        lines[read->front().name] = line;
        budgets.push_back(std::move(read->front()));
    }
    if (mistakes.none()) {
        // What stands beside the list is judged with the list left out.
        Json rest = Json::object();
        for (const std::string& key : json->keys()) {
            rest.set(key.c_str(), key == "budgets" ? Json::array() : json->at(key.c_str()));
        }
        if (const auto read = budgets_from_json(rest); !read.ok()) {
            mistakes.add(0, read.error());
        }
    }
    if (!mistakes.none()) {
        return mistakes.error();
    }
    if (budgets.empty()) {
        mistakes.add(0, "there is no budget in it");
        return mistakes.error();
    }
    auto tree = BudgetTree::build(std::move(budgets));
    if (tree.ok()) {
        return tree;
    }
    const std::string texts = tree.error();
    for (std::size_t begin = 0; begin < texts.size();) {
        const std::size_t end = std::min(texts.find('\n', begin), texts.size());
        const std::string message = texts.substr(begin, end - begin);
        mistakes.add(line_of(message, lines), message);
        begin = end + 1;
    }
    return mistakes.error();
}

}  // namespace tranche::sim
