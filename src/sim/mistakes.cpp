// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/mistakes.hpp"

namespace tranche::sim {

void Mistakes::add(std::size_t line, std::string_view text) {
    if (wanted()) {
        text_ += text_.empty() ? "" : "\n";
        text_ += file_;
        text_ += line == 0 ? std::string() : ":" + std::to_string(line);
        text_ += ": ";
        text_ += text;
    }
    ++count_;
}

Error Mistakes::error() const {
    if (count_ <= kMostMistakes) {
        return {text_};
    }
    return {text_ + "\n\u2026 and " + std::to_string(count_ - kMostMistakes) + " more"};
}

}  // namespace tranche::sim
