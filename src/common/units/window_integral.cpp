// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/units/window_integral.hpp"

#include <algorithm>

namespace tranche {

void WindowIntegral::add(std::int64_t at, std::int64_t delta) {
    if (delta == 0) {
        return;
    }
    if (!has_epoch_) {
        has_epoch_ = true;
        epoch_ = at;
    }
    // A step that is already older than the window is settled by the next advance().
    const Int128 t = at - epoch_;
    sum0_ += delta;
    sum1_ += t * delta;
    sum2_ += t * t * delta;
    if (steps_.empty() || steps_.back().at <= at) {
        steps_.push_back({at, delta});
    } else {
        late_.push_back({at, delta});
    }
}

void WindowIntegral::sort_in_late_steps() {
    const auto earlier = [](const Step& a, const Step& b) { return a.at < b.at; };
    std::sort(late_.begin(), late_.end(), earlier);
    // Only what is later than the first of them moves.
    const auto first = std::upper_bound(steps_.begin(), steps_.end(), late_.front(), earlier);
    const auto kept = first - steps_.begin();
    const auto middle = static_cast<std::ptrdiff_t>(steps_.size());
    steps_.insert(steps_.end(), late_.begin(), late_.end());
    std::inplace_merge(steps_.begin() + kept, steps_.begin() + middle, steps_.end(), earlier);
    std::vector<Step>().swap(late_);
}

void WindowIntegral::advance(std::int64_t now, const Window& window) {
    now_ = std::max(now_, now);
    if (!late_.empty()) {
        sort_in_late_steps();
    }
    while (!steps_.empty() && now_ - steps_.front().at >= window.length_seconds) {
        const Step step = steps_.front();
        steps_.pop_front();
        const Int128 t = step.at - epoch_;
        settled_ += step.delta;
        sum0_ -= step.delta;
        sum1_ -= t * step.delta;
        sum2_ -= t * t * step.delta;
    }
    if (steps_.empty()) {
        // Nothing refers to the origin any more: a later step may choose its own, so that the
        // moments stay small for ever.
        has_epoch_ = false;
    }
}

Int128 WindowIntegral::plain(const Window& window) const noexcept {
    const Int128 now = has_epoch_ ? now_ - epoch_ : 0;
    return Int128{settled_} * window.length_seconds + now * sum0_ - sum1_;
}

Int128 WindowIntegral::faded(const Window& window) const noexcept {
    const Int128 length = window.length_seconds;
    if (window.shape == WindowShape::flat) {
        return plain(window) * length;
    }
    const Int128 now = has_epoch_ ? now_ - epoch_ : 0;
    const Int128 sum_age = now * sum0_ - sum1_;
    const Int128 sum_age_squared = now * now * sum0_ - 2 * now * sum1_ + sum2_;
    return 2 * length * sum_age - sum_age_squared + Int128{settled_} * length * length;
}

}  // namespace tranche
