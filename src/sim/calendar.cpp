// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/calendar.hpp"

#include <cstddef>

namespace tranche::sim {
namespace {

constexpr int kFirstYear = 1900, kLastYear = 2200;

// Days since 1970-01-01 in the Gregorian calendar: years that begin in March, so that the leap day
// is their last.
constexpr std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) noexcept {
    const std::int64_t shifted = month <= 2 ? year - 1 : year;
    const std::int64_t from_march = (month + 9) % 12;
    const std::int64_t leaps = shifted / 4 - shifted / 100 + shifted / 400;
    constexpr std::int64_t kToEpoch = 719468;
    return 365 * shifted + leaps + (153 * from_march + 2) / 5 + day - 1 - kToEpoch;
}
static_assert(days_of(1970, 1, 1) == 0 && days_of(2000, 3, 1) == 11017);

constexpr bool is_leap(std::int64_t year) noexcept {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

constexpr std::int64_t days_in(std::int64_t year, std::int64_t month) noexcept {
    constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return kDays[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

class Cursor {
  public:
    explicit Cursor(std::string_view text) : text_(text) {}

    // Exactly so many digits, or -1.
    std::int64_t digits(std::size_t count) noexcept {
        if (at_ + count > text_.size()) {
            return -1;
        }
        std::int64_t number = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const char c = text_[at_ + i];
            if (c < '0' || c > '9') {
                return -1;
            }
            number = 10 * number + (c - '0');
        }
        at_ += count;
        return number;
    }
    bool take(char c) noexcept {
        if (at_ < text_.size() && text_[at_] == c) {
            ++at_;
            return true;
        }
        return false;
    }
    bool over() const noexcept { return at_ == text_.size(); }

  private:
    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> parse_calendar(std::string_view text) noexcept {
    Cursor in(text);
    const std::int64_t year = in.digits(4);
    if (!in.take('-')) {
        return std::nullopt;
    }
    const std::int64_t month = in.digits(2);
    if (!in.take('-')) {
        return std::nullopt;
    }
    const std::int64_t day = in.digits(2);
    if (year < kFirstYear || year > kLastYear || month < 1 || month > 12 || day < 1 ||
        day > days_in(year, month)) {
        return std::nullopt;
    }
    std::int64_t at = days_of(year, month, day) * 86400;
    if (in.over()) {
        return at;
    }
    if (!in.take('T') && !in.take(' ')) {
        return std::nullopt;
    }
    const std::int64_t hour = in.digits(2);
    const bool has_minute = in.take(':');
    const std::int64_t minute = has_minute ? in.digits(2) : -1;
    std::int64_t second = 0;
    if (in.take(':')) {
        second = in.digits(2);
        if (in.take('.')) {
            while (in.digits(1) >= 0) {
            }
        }
    }
    if (hour < 0 || hour > 24 || minute < 0 || minute > 59 || second < 0 || second > 60) {
        return std::nullopt;
    }
    at += hour * 3600 + minute * 60 + second;
    if (in.over() || (in.take('Z') && in.over())) {
        return at;
    }
    const bool east = in.take('+');
    if (!east && !in.take('-')) {
        return std::nullopt;
    }
    const std::int64_t zone_hours = in.digits(2);
    std::int64_t zone_minutes = 0;
    if (in.take(':') || !in.over()) {
        zone_minutes = in.digits(2);
    }
    if (zone_hours < 0 || zone_hours > 14 || zone_minutes < 0 || zone_minutes > 59 || !in.over()) {
        return std::nullopt;
    }
    const std::int64_t zone = zone_hours * 3600 + zone_minutes * 60;
    return east ? at - zone : at + zone;
}

std::string format_calendar(std::int64_t at) {
    std::int64_t days = at / 86400;
    std::int64_t rest = at % 86400;
    if (rest < 0) {
        rest += 86400;
        --days;
    }
    std::int64_t year = 1970 + days / 366;
    while (days_of(year + 1, 1, 1) <= days) {
        ++year;
    }
    while (days_of(year, 1, 1) > days) {
        --year;
    }
    std::int64_t month = 1;
    while (month < 12 && days_of(year, month + 1, 1) <= days) {
        ++month;
    }
    const auto padded = [](std::int64_t number, std::size_t width) {
        std::string digits = std::to_string(number);
        return std::string(digits.size() < width ? width - digits.size() : 0, '0') + digits;
    };
    return padded(year, 4) + "-" + padded(month, 2) + "-" +
           padded(days - days_of(year, month, 1) + 1, 2) + "T" + padded(rest / 3600, 2) + ":" +
           padded(rest / 60 % 60, 2) + ":" + padded(rest % 60, 2);
}

}  // namespace tranche::sim
