// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/input_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/quoted.hpp"
#include "tools/text_file.hpp"

namespace tranche {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kPiece = std::size_t{1} << 20U;
constexpr std::size_t kLookedAt = 65536;  // bytes, for whether it is a text

bool is_gzip(std::string_view text) {
    return text.starts_with("\x1f\x8b");
}

struct Inflater {
    Inflater() { ready = inflateInit2(&stream, kGzipOnly) == Z_OK; }
    ~Inflater() {
        if (ready) {
            inflateEnd(&stream);
        }
    }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream stream{};
    bool ready = false;
};

// Several packed parts one behind the other are one text, as for gzip.
Result<std::string> unpacked(std::string_view packed, const std::string& shown,
                             std::size_t longest) {
    Inflater inflater;
    if (!inflater.ready) {
        return Error{shown + " cannot be unpacked: no memory"};
    }
    z_stream& stream = inflater.stream;
    std::string text;
    std::size_t at = 0, size = 0;
    bool is_over = false;
    while (at < packed.size() || !is_over) {
        if (is_over && inflateReset(&stream) != Z_OK) {
            return Error{shown + " cannot be unpacked"};
        }
        const std::size_t given = std::min(packed.size() - at, kPiece);
        // zlib does not write to its input.
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + at));
        stream.avail_in = static_cast<uInt>(given);
        if (text.size() - size < kPiece) {
            text.resize(std::max(size + kPiece, std::min(text.size() * 2, longest + kPiece)));
        }
        const std::size_t room = std::min(text.size() - size, std::size_t{1} << 30U);
        stream.next_out = reinterpret_cast<Bytef*>(text.data() + size);
        stream.avail_out = static_cast<uInt>(room);
        const int code = inflate(&stream, Z_NO_FLUSH);
        const std::size_t taken = given - stream.avail_in, made = room - stream.avail_out;
        at += taken;
        if (size == 0 && looks_binary({text.data(), std::min(made, kLookedAt)})) {
            return Error{shown + ", unpacked, is not a text: it has control characters"};
        }
        size += made;
        is_over = code == Z_STREAM_END;
        if (size > longest) {
            return Error{shown + " is longer, unpacked, than the " +
                         std::to_string(longest >> 20U) + " MiB that are read"};
        }
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
            return Error{shown + " cannot be unpacked: " +
                         (stream.msg != nullptr ? stream.msg : "it is damaged")};
        }
        if (!is_over && taken == 0 && made == 0) {
            return Error{shown + " cannot be unpacked: its end is missing"};
        }
    }
    text.resize(size);
    return text;
}

class Descriptor {
  public:
    explicit Descriptor(const std::string& name)
        : number_(::open(name.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~Descriptor() {
        if (number_ >= 0) {
            close(number_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

  private:
    int number_;
};

}  // namespace

InputFile::InputFile(InputFile&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_size_(std::exchange(other.mapped_size_, 0)),
      read_(std::move(other.read_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_size_, other.mapped_size_);
    std::swap(read_, other.read_);
    return *this;
}

InputFile::~InputFile() {
    if (mapped_ != nullptr) {
        munmap(const_cast<char*>(mapped_), mapped_size_);
    }
}

Result<InputFile> InputFile::open(const std::string& name, std::size_t longest) {
    try {
        return open_whole(name, longest);
    } catch (const std::bad_alloc&) {
        return Error{(name == "-" ? std::string("standard input") : "file " + quoted(name)) +
                     " does not fit into memory; a part of it would be right"};
    }
}

Result<InputFile> InputFile::open_whole(const std::string& name, std::size_t longest) {
    const std::string shown = name == "-" ? "standard input" : "file " + quoted(name);
    InputFile file;
    bool read_whole = name == "-";
    if (!read_whole) {
        const Descriptor descriptor(name);
        struct stat about {};
        if (descriptor.number() < 0 || fstat(descriptor.number(), &about) != 0) {
            return Error{shown + " cannot be read: " + std::strerror(errno)};
        }
        read_whole = !S_ISREG(about.st_mode) || about.st_size == 0;
        if (!read_whole) {
            const auto size = static_cast<std::size_t>(about.st_size);
            if (size > longest) {
                return Error{shown + " is longer than the " + std::to_string(longest >> 20U) +
                             " MiB that are read"};
            }
            void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number(), 0);
            if (mapped == MAP_FAILED) {
                return Error{shown + " cannot be read: " + std::strerror(errno)};
            }
            madvise(mapped, size, MADV_SEQUENTIAL);
            file.mapped_ = static_cast<const char*>(mapped);
            file.mapped_size_ = size;
        }
    }
    if (read_whole) {
        auto text = read_text_file(name, std::min(longest, kLongestInMemory));
        if (!text.ok()) {
            return text.failure();
        }
        file.read_ = std::move(*text);
    }
    if (!is_gzip(file.text())) {
        return file;
    }
    auto text = unpacked(file.text(), shown, std::min(longest, kLongestInMemory));
    if (!text.ok()) {
        return text.failure();
    }
    InputFile plain;
    plain.read_ = std::move(*text);
    return plain;
}

}  // namespace tranche
