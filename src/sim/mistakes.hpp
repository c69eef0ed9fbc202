// SPDX-License-Identifier: GPL-2.0-or-later
// The mistakes of one input file: all of them up to 20, then how many more.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche::sim {

inline constexpr std::size_t kMostMistakes = 20;

class Mistakes {
  public:
    explicit Mistakes(std::string file) : file_(std::move(file)) {}

    // "FILE:LINE: text"; line 0 is the file as a whole.
    void add(std::size_t line, std::string_view text);
    bool none() const noexcept { return count_ == 0; }
    std::size_t count() const noexcept { return count_; }
    // Whether the text of one more would be kept; saves making it.
    bool wanted() const noexcept { return count_ < kMostMistakes; }
    const std::string& file() const noexcept { return file_; }

    // Ask none() before. One mistake a line.
    Error error() const;

  private:
    std::string file_;
    std::string text_;
    std::size_t count_ = 0;
};

}  // namespace tranche::sim
