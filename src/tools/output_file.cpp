// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

constexpr mode_t kNewFileMode = 0666;

Error unwritable(const std::string& name) {
    return Error{"file " + quoted(name) + " cannot be written: " + std::strerror(errno)};
}

std::string folder_of(const std::string& name) {
    const std::size_t slash = name.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : name.substr(0, slash);
}

bool is_special(const std::string& name) {
    struct stat about {};
    return stat(name.c_str(), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace

Status check_writable(const std::string& name) {
    struct stat about {};
    if (name.empty()) {
        return Error{"a file to write has no name"};
    }
    if (stat(name.c_str(), &about) == 0) {
        if (S_ISDIR(about.st_mode)) {
            errno = EISDIR;
            return unwritable(name);
        }
        if (access(name.c_str(), W_OK) != 0) {
            return unwritable(name);
        }
        if (!S_ISREG(about.st_mode)) {
            return {};
        }
    }
    return access(folder_of(name).c_str(), W_OK | X_OK) == 0 ? Status() : unwritable(name);
}

Status write_file(const std::string& name, std::string_view text) {
    if (is_special(name)) {
        const int descriptor = open(name.c_str(), O_WRONLY | O_CLOEXEC);
        const bool good = descriptor >= 0 && write_all(descriptor, text);
        const Status status = good ? Status() : unwritable(name);
        if (descriptor >= 0) {
            close(descriptor);
        }
        return status;
    }
    std::string temporary = name + ".XXXXXX";
    const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
    if (descriptor < 0) {
        return unwritable(name);
    }
    const mode_t mask = umask(0);
    umask(mask);
    const bool is_whole =
        write_all(descriptor, text) && fchmod(descriptor, kNewFileMode & ~mask) == 0;
    const bool is_closed = close(descriptor) == 0;
    if (is_whole && is_closed && rename(temporary.c_str(), name.c_str()) == 0) {
        return {};
    }
    const Error failure = unwritable(name);
    unlink(temporary.c_str());
    return failure;
}

}  // namespace tranche
