// SPDX-License-Identifier: GPL-2.0-or-later
// All chance in the simulator: xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64.
//
// The same seed gives the same numbers with every compiler and library.
#pragma once

#include <cstdint>
#include <string_view>

namespace tranche::sim {

// One step of splitmix64: spreads what is in `state` over all 64 bits.
constexpr std::uint64_t splitmix64(std::uint64_t& state) noexcept {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
}

class Random {
  public:
    // `stream` keeps what is drawn for one thing apart from what is drawn for another.
    explicit constexpr Random(std::uint64_t seed, std::string_view stream = {}) noexcept {
        std::uint64_t state = seed;
        for (const char c : stream) {
            state = splitmix64(state) ^ static_cast<unsigned char>(c);
        }
        for (std::uint64_t& word : words_) {
            word = splitmix64(state);
        }
    }

    constexpr std::uint64_t next() noexcept {
        const std::uint64_t result = turned(words_[1] * 5, 7) * 9;
        const std::uint64_t shifted = words_[1] << 17U;
        words_[2] ^= words_[0];
        words_[3] ^= words_[1];
        words_[1] ^= words_[2];
        words_[0] ^= words_[3];
        words_[2] ^= shifted;
        words_[3] = turned(words_[3], 45);
        return result;
    }

    // 0 to bound - 1, each alike; 0 for a bound of 0.
    constexpr std::uint64_t below(std::uint64_t bound) noexcept {
        if (bound == 0) {
            return 0;
        }
        const std::uint64_t unfair = (0 - bound) % bound;  // 2^64 mod bound
        for (;;) {
            const std::uint64_t drawn = next();
            if (drawn >= unfair) {
                return drawn % bound;
            }
        }
    }

    // least to most, both included.
    constexpr std::int64_t between(std::int64_t least, std::int64_t most) noexcept {
        return least + static_cast<std::int64_t>(
                           below(static_cast<std::uint64_t>(most - least) + std::uint64_t{1}));
    }

    // 0 to 1 without 1, in steps of 2^-53.
    constexpr double fraction() noexcept { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  private:
    static constexpr std::uint64_t turned(std::uint64_t word, unsigned count) noexcept {
        return (word << count) | (word >> (64U - count));
    }

    std::uint64_t words_[4] = {};
};

}  // namespace tranche::sim
