// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/wire/job_name.hpp"

#include <charconv>
#include <optional>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t most) noexcept {
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || text.front() == '-' || code != std::errc() ||
        end != text.data() + text.size() || number > most) {
        return std::nullopt;
    }
    return number;
}

}  // namespace

Result<JobName> parse_job_name(std::string_view text) {
    const std::size_t mark = text.find_first_of("_+");
    const auto id = parse_number(text.substr(0, mark), UINT32_MAX);
    std::optional<std::int64_t> part = -1;
    if (mark != std::string_view::npos) {
        part = parse_number(text.substr(mark + 1), UINT32_MAX - 1);
    }
    if (!id || *id == 0 || !part) {
        return Error{"job " + quoted(text) +
                     " is not a job id; 123, 123_4 or 123+1 would be right"};
    }
    JobName name;
    name.id = *id;
    if (mark != std::string_view::npos) {
        (text[mark] == '_' ? name.array_task : name.het_offset) = *part;
    }
    return name;
}

std::string to_text(const JobName& name) {
    std::string text = std::to_string(name.id);
    if (name.array_task >= 0) {
        text += "_" + std::to_string(name.array_task);
    }
    if (name.het_offset >= 0) {
        text += "+" + std::to_string(name.het_offset);
    }
    return text;
}

bool list_holds(std::string_view list, std::int64_t number) noexcept {
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        std::string_view range = list.substr(0, comma);
        list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
        const std::size_t colon = range.find(':');
        const auto step = colon == std::string_view::npos
                              ? std::optional<std::int64_t>(1)
                              : parse_number(range.substr(colon + 1), UINT32_MAX);
        range = range.substr(0, colon);
        const std::size_t dash = range.find('-');
        const auto first = parse_number(range.substr(0, dash), UINT32_MAX);
        const auto last = dash == std::string_view::npos
                              ? first
                              : parse_number(range.substr(dash + 1), UINT32_MAX);
        if (first && last && step && *step > 0 && number >= *first && number <= *last &&
            (number - *first) % *step == 0) {
            return true;
        }
    }
    return false;
}

}  // namespace tranche
