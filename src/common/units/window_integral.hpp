// SPDX-License-Identifier: GPL-2.0-or-later
// The integral of a step function over a sliding window, plain and faded by age, in exact
// integers.
//
// A quantity that holds from instant s to instant e at level g is two steps: +g at s and -g at e.
// A step d at instant t contributes, at instant now and with a = now - t >= 0,
//     plain:  d * min(a, W)
//     faded:  d * (2 W a - a^2) for a <= W, d * W^2 after it      (linear: w(age) = 2 (1 - age/W))
//     faded:  d * W * min(a, W)                                   (flat:   w(age) = 1)
// which is the integral times W, so that it is a whole number (DESIGN 2.3: for ages a > b the
// stay counts 2 W (a - b) - (a^2 - b^2)).
//
// Cost: add() is O(1); advance() is O(1) amortised, and for steps that came out of order O(log)
// each and O(later ones) together; values are O(1). Range: |level| < 2^62, instants within 2^40 s
// of each other.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/units/wide_int.hpp"

namespace tranche {

enum class WindowShape : std::uint8_t { linear, flat };

// The window all integrals of one ledger share.
struct Window {
    std::int64_t length_seconds = 7 * 86400;
    WindowShape shape = WindowShape::linear;

    // The faded integral, times the window, of level 1 over the whole window.
    UInt128 full() const noexcept {
        return static_cast<UInt128>(length_seconds) * static_cast<UInt128>(length_seconds);
    }
    // Level 1 for that many seconds at weight 1 (how a commitment counts), times the window.
    UInt128 at_weight_one(std::int64_t seconds) const noexcept {
        return static_cast<UInt128>(length_seconds) *
               static_cast<UInt128>(seconds > 0 ? seconds : 0);
    }
};

class WindowIntegral {
  public:
    // The level that held since before any window.
    void add_forever(std::int64_t level) noexcept { settled_ += level; }

    // The level changes by `delta` at instant `at`. Steps may come in any order, also ones older
    // than the window, but none later than the instant values are asked for.
    void add(std::int64_t at, std::int64_t delta);

    // Moves the window's end to `now`; earlier instants than the last one are ignored: the values
    // below then still hold for any now >= the last.
    void advance(std::int64_t now, const Window& window);

    // Level-seconds in the window that ends at the instant last advanced to.
    Int128 plain(const Window& window) const noexcept;
    // The faded integral times the window's length.
    Int128 faded(const Window& window) const noexcept;
    // The level at that instant.
    std::int64_t level() const noexcept { return settled_ + static_cast<std::int64_t>(sum0_); }
    bool empty() const noexcept { return settled_ == 0 && steps_.empty() && late_.empty(); }

  private:
    struct Step {
        std::int64_t at;
        std::int64_t delta;
    };
    void sort_in_late_steps();

    std::deque<Step> steps_;    // inside the window, by time
    std::vector<Step> late_;    // the same, that came out of order since the last advance()
    std::int64_t settled_ = 0;  // sum of the steps older than the window
    std::int64_t now_ = 0;      // the instant last advanced to
    std::int64_t epoch_ = 0;    // origin of the moments below
    bool has_epoch_ = false;
    Int128 sum0_ = 0, sum1_ = 0, sum2_ = 0;  // sum of delta * (at - epoch)^k over both
};

}  // namespace tranche
