// SPDX-License-Identifier: GPL-2.0-or-later
// A large file that a user names, mapped into memory; unpacked where gzip packed it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.hpp"

namespace tranche {

inline constexpr std::size_t kLongestInput = std::size_t{8} << 30U;     // bytes, of a plain file
inline constexpr std::size_t kLongestInMemory = std::size_t{2} << 30U;  // bytes, piped or unpacked

class InputFile {
  public:
    // "-" is standard input; pipes are read whole, and packed files unpacked, up to
    // kLongestInMemory.
    static Result<InputFile> open(const std::string& name, std::size_t longest = kLongestInput);

    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&& other) noexcept;
    ~InputFile();

    // Valid as long as this is.
    std::string_view text() const noexcept {
        return mapped_ != nullptr ? std::string_view(mapped_, mapped_size_) : read_;
    }

  private:
    InputFile() = default;
    static Result<InputFile> open_whole(const std::string& name, std::size_t longest);

    const char* mapped_ = nullptr;
    std::size_t mapped_size_ = 0;
    std::string read_;
};

}  // namespace tranche
