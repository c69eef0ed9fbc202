// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/time_format.hpp"

#include <cstdio>
#include <optional>
#include <vector>

#include "common/base/quoted.hpp"

namespace tranche {

namespace {

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = 86400;

bool is_digit(char character) noexcept {
    return character >= '0' && character <= '9';
}

// Digits only. Larger values than the longest span stop growing: they are refused anyway.
std::optional<std::int64_t> parse_digits(std::string_view digits) noexcept {
    if (digits.empty()) {
        return std::nullopt;
    }
    std::int64_t value = 0;
    for (char character : digits) {
        if (!is_digit(character)) {
            return std::nullopt;
        }
        if (value <= kLongestTimeSpanSeconds) {
            value = value * 10 + (character - '0');
        }
    }
    return value;
}

// Σ count × unit, or a value above the longest span if it would exceed it.
std::int64_t add_scaled(std::int64_t sum, std::int64_t count, std::int64_t unit) noexcept {
    if (sum > kLongestTimeSpanSeconds || count > kLongestTimeSpanSeconds / unit) {
        return kLongestTimeSpanSeconds + 1;
    }
    return sum + count * unit;
}

// Unit letters in falling order: 1d2h, 1h30m, 30s.
std::optional<std::int64_t> parse_suffixed(std::string_view text) noexcept {
    std::int64_t sum = 0;
    std::int64_t last_unit = kDay + 1;
    while (!text.empty()) {
        std::size_t length = 0;
        while (length < text.size() && is_digit(text[length])) {
            ++length;
        }
        const auto count = parse_digits(text.substr(0, length));
        if (!count || length == text.size()) {
            return std::nullopt;
        }
        std::int64_t unit = 0;
        switch (text[length]) {
            case 'd':
            case 'D':
                unit = kDay;
                break;
            case 'h':
            case 'H':
                unit = kHour;
                break;
            case 'm':
            case 'M':
                unit = kMinute;
                break;
            case 's':
            case 'S':
                unit = 1;
                break;
            default:
                return std::nullopt;
        }
        if (unit >= last_unit) {
            return std::nullopt;
        }
        last_unit = unit;
        sum = add_scaled(sum, *count, unit);
        text.remove_prefix(length + 1);
    }
    return sum;
}

// Numbers separated by colons; nullopt if one of them is none or there are more than three.
std::optional<std::vector<std::int64_t>> parse_fields(std::string_view text) {
    std::vector<std::int64_t> fields;
    for (;;) {
        const std::size_t colon = text.find(':');
        const auto value = parse_digits(text.substr(0, colon));
        if (!value || fields.size() == 3) {
            return std::nullopt;
        }
        fields.push_back(*value);
        if (colon == std::string_view::npos) {
            return fields;
        }
        text.remove_prefix(colon + 1);
    }
}

std::optional<std::int64_t> parse_colons(std::string_view text, PlainNumber plain) {
    const std::size_t dash = text.find('-');
    if (dash != std::string_view::npos) {
        const auto days = parse_digits(text.substr(0, dash));
        const auto fields = parse_fields(text.substr(dash + 1));
        if (!days || !fields) {
            return std::nullopt;
        }
        constexpr std::int64_t kUnits[] = {kHour, kMinute, 1};
        std::int64_t sum = add_scaled(0, *days, kDay);
        for (std::size_t i = 0; i < fields->size(); ++i) {
            sum = add_scaled(sum, (*fields)[i], kUnits[i]);
        }
        return sum;
    }
    const auto fields = parse_fields(text);
    if (!fields) {
        return std::nullopt;
    }
    switch (fields->size()) {
        case 1:
            return add_scaled(0, (*fields)[0], plain == PlainNumber::minutes ? kMinute : 1);
        case 2:
            return add_scaled(add_scaled(0, (*fields)[0], kMinute), (*fields)[1], 1);
        default:
            return add_scaled(add_scaled(add_scaled(0, (*fields)[0], kHour), (*fields)[1], kMinute),
                              (*fields)[2], 1);
    }
}

}  // namespace

Result<std::int64_t> parse_time_span(std::string_view text, PlainNumber plain) {
    const std::string_view bare = trimmed(text);
    auto seconds = parse_colons(bare, plain);
    if (!seconds && !bare.empty()) {
        seconds = parse_suffixed(bare);
    }
    if (!seconds) {
        const std::string plain_unit = plain == PlainNumber::minutes ? "minutes" : "seconds";
        const bool is_negative = bare.size() > 1 && bare[0] == '-' && is_digit(bare[1]);
        return Error{quoted(text) + (is_negative ? " is negative" : " is not a time") + ": write " +
                     plain_unit +
                     ", minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, "
                     "days-hours:minutes:seconds, or 30s, 15m, 2h, 1d"};
    }
    if (*seconds > kLongestTimeSpanSeconds) {
        return Error{quoted(text) + " is too long a time: the longest is " +
                     std::to_string(kLongestTimeSpanSeconds / kDay) + " days"};
    }
    return *seconds;
}

std::string format_time_span(std::int64_t seconds) {
    const bool is_negative = seconds < 0;
    const auto magnitude =
        is_negative ? -static_cast<std::uint64_t>(seconds) : static_cast<std::uint64_t>(seconds);
    const auto days = static_cast<unsigned long long>(magnitude / kDay);
    const auto hours = static_cast<unsigned>(magnitude % kDay / kHour);
    const auto minutes = static_cast<unsigned>(magnitude % kHour / kMinute);
    const auto rest = static_cast<unsigned>(magnitude % kMinute);
    char text[48];
    if (days > 0) {
        std::snprintf(text, sizeof text, "%s%llu-%02u:%02u:%02u", is_negative ? "-" : "", days,
                      hours, minutes, rest);
    } else {
        std::snprintf(text, sizeof text, "%s%02u:%02u:%02u", is_negative ? "-" : "", hours, minutes,
                      rest);
    }
    return text;
}

std::string format_duration(std::int64_t seconds) {
    const bool is_negative = seconds < 0;
    const auto magnitude =
        is_negative ? -static_cast<std::uint64_t>(seconds) : static_cast<std::uint64_t>(seconds);
    const struct {
        std::uint64_t count;
        const char* unit;
    } parts[] = {{magnitude / kDay, " d"},
                 {magnitude % kDay / kHour, " h"},
                 {magnitude % kHour / kMinute, " min"},
                 {magnitude % kMinute, " s"}};
    std::string text;
    for (const auto& part : parts) {
        if (part.count > 0) {
            text += (text.empty() ? "" : " ") + std::to_string(part.count) + part.unit;
        }
    }
    if (text.empty()) {
        return "0 s";
    }
    return is_negative ? "-" + text : text;
}

}  // namespace tranche
