// SPDX-License-Identifier: GPL-2.0-or-later
// Rules as users write them on the command line: NAME=EXPRESSION words with blanks between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.hpp"

namespace tranche::sim {

// What an expression may name, of one job; seconds and GPUs.
struct RuleValues {
    double runtime = 0, gpus = 0, nodes = 0, time_limit = 0;
};

// Numbers with a unit (90, 1.5h, 30m, 2d, 8:00:00), runtime, gpus, nodes, time_limit, min(a,b,…),
// max(a,b,…), + - * / and parentheses.
class RuleExpression {
  public:
    static Result<RuleExpression> parse(std::string_view text);

    // Rounded to whole ones, halves up. "is negative, -92" and "divides by zero" are errors.
    Result<std::int64_t> evaluate(const RuleValues& values) const;
    bool is_constant() const noexcept;

  private:
    friend class RuleParser;
    enum class Step : std::uint8_t {
        number,
        runtime,
        gpus,
        nodes,
        time_limit,
        least,
        most,
        add,
        subtract,
        multiply,
        divide,
    };
    struct Code {
        Step step;
        double number;
    };
    std::vector<Code> codes_;  // in the order of a stack machine
};

// "a=min(1h, runtime) b=2" as pairs; blanks inside parentheses belong to the value. A word without
// '=' has an empty value and `bare` true.
struct RuleWord {
    std::string name, value;
    bool bare = false;
};
Result<std::vector<RuleWord>> split_rules(std::string_view text);

// A whole number in digits alone; nullopt: it is none, as "1.5".
std::optional<std::int64_t> parse_count(std::string_view text) noexcept;

// A seed: 0 to 2^63 - 1.
Result<std::uint64_t> parse_seed(std::string_view text);

}  // namespace tranche::sim
