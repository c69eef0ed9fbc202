// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

class OpenFile {
  public:
    explicit OpenFile(const std::string& name)
        : number_(name == "-" ? STDIN_FILENO : open(name.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~OpenFile() {
        if (number_ > STDIN_FILENO) {
            close(number_);
        }
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    int number() const { return number_; }

  private:
    int number_;
};

}  // namespace

bool looks_binary(std::string_view beginning) noexcept {
    return std::any_of(beginning.begin(), beginning.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && std::strchr("\t\n\v\f\r\x1b", byte) == nullptr) || byte == 0;
    });
}

Result<std::string> read_text_file(const std::string& name, std::size_t longest) {
    const std::string shown = name == "-" ? "standard input" : "file " + quoted(name);
    const auto unreadable = [&] {
        return Error{shown + " cannot be read: " + std::strerror(errno)};
    };
    const OpenFile file(name);
    struct stat about {};
    if (file.number() < 0 || fstat(file.number(), &about) != 0) {
        return unreadable();
    }
    if (S_ISDIR(about.st_mode)) {
        return Error{shown + " cannot be read: it is a directory"};
    }
    std::string text;
    char buffer[65536];
    for (;;) {
        const ssize_t got = read(file.number(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return unreadable();
        }
        if (got == 0) {
            return text;
        }
        if (text.size() + static_cast<std::size_t>(got) > longest) {
            return Error{shown + " is longer than the " + std::to_string(longest >> 20) +
                         " MiB that are read"};
        }
        const std::string_view block(buffer, static_cast<std::size_t>(got));
        if (text.empty() && !block.starts_with("\x1f\x8b") && looks_binary(block)) {
            return Error{shown + " is not a text: it has control characters"};
        }
        text.append(buffer, static_cast<std::size_t>(got));
    }
}

}  // namespace tranche
