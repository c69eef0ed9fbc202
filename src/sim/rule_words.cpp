// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/rule_words.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"

namespace tranche::sim {
namespace {

constexpr int kDeepest = 50;               // parentheses
constexpr std::size_t kMostOnStack = 200;  // numbers that wait for an operator
constexpr double kLargest = 4e15;          // of a result; still exact as a double

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace

// Recursive descent: sum = product {(+|-) product}, product = value {(*|/) value}.
class RuleParser {
  public:
    explicit RuleParser(std::string_view text) : text_(text) {}

    Result<RuleExpression> parse() {
        sum();
        skip_blanks();
        if (mistake_.empty() && at_ < text_.size()) {
            mistake_ = quoted(text_.substr(at_)) + " is not expected";
        }
        if (mistake_.empty() && deepest_stack_ > kMostOnStack) {
            mistake_ = "it is too long";
        }
        if (!mistake_.empty()) {
            return Error{quoted(text_) + ": " + mistake_ +
                         "; such as 1h, min(1h,runtime) or 0.5*runtime would be right"};
        }
        return std::move(out_);
    }

  private:
    using Step = RuleExpression::Step;

    void skip_blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
            ++at_;
        }
    }
    bool take(char c) {
        skip_blanks();
        if (at_ < text_.size() && text_[at_] == c) {
            ++at_;
            return true;
        }
        return false;
    }
    void fail(std::string text) {
        if (mistake_.empty()) {
            mistake_ = std::move(text);
        }
    }
    void put(Step step, double number = 0) {
        const bool pushes = step <= Step::time_limit;
        stack_ = pushes ? stack_ + 1 : stack_ - 1;
        deepest_stack_ = std::max(deepest_stack_, stack_);
        out_.codes_.push_back({step, number});
    }

    void sum() {
        product();
        while (mistake_.empty()) {
            if (take('+')) {
                product();
                put(Step::add);
            } else if (take('-')) {
                product();
                put(Step::subtract);
            } else {
                break;
            }
        }
    }
    void product() {
        value();
        while (mistake_.empty()) {
            if (take('*')) {
                value();
                put(Step::multiply);
            } else if (take('/')) {
                value();
                put(Step::divide);
            } else {
                break;
            }
        }
    }
    void value() {
        if (++depth_ > kDeepest) {
            fail("parentheses nest too deep");
        }
        if (!mistake_.empty()) {
            return;
        }
        skip_blanks();
        if (take('(')) {
            sum();
            close();
        } else if (at_ < text_.size() && is_digit(text_[at_])) {
            number();
        } else if (at_ < text_.size() && is_word(text_[at_])) {
            word();
        } else {
            fail(at_ < text_.size() ? quoted(text_.substr(at_)) + " is no value"
                                    : std::string("a value is missing at its end"));
        }
        --depth_;
    }
    void close() {
        if (mistake_.empty() && !take(')')) {
            fail("a parenthesis is not closed");
        }
    }
    void number() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && (is_digit(text_[at_]) || is_word(text_[at_]) ||
                                      text_[at_] == '.' || text_[at_] == ':')) {
            ++at_;
        }
        const std::string_view word = text_.substr(begin, at_ - begin);
        double amount = 0;
        const auto read = std::from_chars(word.data(), word.data() + word.size(), amount);
        const std::string_view unit(read.ptr,
                                    static_cast<std::size_t>(word.data() + word.size() - read.ptr));
        double factor = 0;
        for (const auto& [name, seconds] :
             {std::pair{"", 1.0}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}}) {
            factor = unit == name ? seconds : factor;
        }
        if (read.ec == std::errc() && factor > 0 && std::isfinite(amount) &&
            amount * factor <= kLargest) {
            put(Step::number, amount * factor);
        } else if (const auto span = parse_time_span(word, PlainNumber::seconds); span.ok()) {
            put(Step::number, static_cast<double>(*span));
        } else {
            fail(quoted(word) + " is no number with a unit (s, m, h, d)");
        }
    }
    void word() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && (is_word(text_[at_]) || is_digit(text_[at_]))) {
            ++at_;
        }
        const std::string_view name = text_.substr(begin, at_ - begin);
        if (name == "min" || name == "max") {
            if (!take('(')) {
                return fail(std::string(name) + " wants its values in parentheses");
            }
            sum();
            while (mistake_.empty() && take(',')) {
                sum();
                put(name == "min" ? Step::least : Step::most);
            }
            return close();
        }
        const std::pair<const char*, Step> names[] = {{"runtime", Step::runtime},
                                                      {"gpus", Step::gpus},
                                                      {"nodes", Step::nodes},
                                                      {"time_limit", Step::time_limit}};
        for (const auto& each : names) {
            if (name == each.first) {
                return put(each.second);
            }
        }
        fail(quoted(name) + " is not known; runtime, gpus, nodes, time_limit, min and max are");
    }

    std::string_view text_;
    std::size_t at_ = 0, stack_ = 0, deepest_stack_ = 0;
    int depth_ = 0;
    std::string mistake_;
    RuleExpression out_;
};

Result<RuleExpression> RuleExpression::parse(std::string_view text) {
    return RuleParser(text).parse();
}

bool RuleExpression::is_constant() const noexcept {
    return std::none_of(codes_.begin(), codes_.end(), [](const Code& code) {
        return code.step >= Step::runtime && code.step <= Step::time_limit;
    });
}

Result<std::int64_t> RuleExpression::evaluate(const RuleValues& values) const {
    double stack[kMostOnStack + 1] = {};
    std::size_t top = 0;
    for (const Code& code : codes_) {
        if (code.step <= Step::time_limit) {
            double number = code.number;
            number = code.step == Step::runtime ? values.runtime : number;
            number = code.step == Step::gpus ? values.gpus : number;
            number = code.step == Step::nodes ? values.nodes : number;
            number = code.step == Step::time_limit ? values.time_limit : number;
            stack[top++] = number;
            continue;
        }
        const double right = stack[--top];
        double& left = stack[top - 1];
        switch (code.step) {
            case Step::least:
                left = std::min(left, right);
                break;
            case Step::most:
                left = std::max(left, right);
                break;
            case Step::add:
                left += right;
                break;
            case Step::subtract:
                left -= right;
                break;
            case Step::multiply:
                left *= right;
                break;
            default:
                if (right == 0) {
                    return Error{"divides by zero"};
                }
                left /= right;
        }
    }
    const double result = top == 0 ? 0 : stack[0];
    const double whole = std::floor(std::clamp(result, -kLargest, kLargest) + 0.5);
    if (result < 0) {
        const auto shown = static_cast<std::int64_t>(whole);
        return Error{"is negative" + (shown < 0 ? ", " + std::to_string(shown) : std::string())};
    }
    return static_cast<std::int64_t>(whole);
}

std::optional<std::int64_t> parse_count(std::string_view text) noexcept {
    std::int64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, count);
    return read.ec == std::errc() && read.ptr == end ? std::optional(count) : std::nullopt;
}

Result<std::vector<RuleWord>> split_rules(std::string_view text) {
    std::vector<RuleWord> words;
    std::size_t begin = 0, depth = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        const bool blank = i == text.size() || text[i] == ' ' || text[i] == '\t' || text[i] == '\n';
        if (blank && (depth == 0 || i == text.size())) {
            if (const std::string_view word = text.substr(begin, i - begin); !word.empty()) {
                const std::size_t equals = word.find('=');
                RuleWord rule;
                rule.bare = equals == std::string_view::npos;
                rule.name = word.substr(0, equals);
                rule.value = rule.bare ? "" : word.substr(equals + 1);
                if (rule.name.empty() || (!rule.bare && rule.value.empty())) {
                    return Error{quoted(word) + ": NAME=VALUE would be right"};
                }
                words.push_back(std::move(rule));
            }
            begin = i + 1;
        } else if (text[i] == '(') {
            ++depth;
        } else if (text[i] == ')' && depth > 0) {
            --depth;
        }
    }
    return words;
}

Result<std::uint64_t> parse_seed(std::string_view text) {
    std::int64_t seed = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, seed);
    if (text.empty() || read.ec != std::errc() || read.ptr != end || seed < 0) {
        return Error{"seed " + quoted(text) + ": a whole number from 0 on would be right"};
    }
    return static_cast<std::uint64_t>(seed);
}

}  // namespace tranche::sim
