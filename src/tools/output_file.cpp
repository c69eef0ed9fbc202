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

// Where links lead, also to a file that is not there yet.
std::string followed(std::string name) {
    constexpr int kMostLinks = 40;
    char target[4096];
    for (int links = 0; links < kMostLinks; ++links) {
        const ssize_t length = readlink(name.c_str(), target, sizeof target);
        if (length <= 0 || length == static_cast<ssize_t>(sizeof target)) {
            break;
        }
        const std::string to(target, static_cast<std::size_t>(length));
        std::string next = to.front() == '/' ? std::string() : folder_of(name).append("/");
        name = next.append(to);
    }
    return name;
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
    return access(folder_of(followed(name)).c_str(), W_OK | X_OK) == 0 ? Status()
                                                                       : unwritable(name);
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
    const std::string target = followed(name);
    std::string temporary = target + ".XXXXXX";
    const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
    if (descriptor < 0) {
        return unwritable(name);
    }
    const mode_t mask = umask(0);
    umask(mask);
    const bool is_whole =
        write_all(descriptor, text) && fchmod(descriptor, kNewFileMode & ~mask) == 0;
    const bool is_closed = close(descriptor) == 0;
    if (is_whole && is_closed && rename(temporary.c_str(), target.c_str()) == 0) {
        return {};
    }
    const Error failure = unwritable(name);
    unlink(temporary.c_str());
    return failure;
}

bool same_file(const std::string& one, const std::string& other) {
    struct stat first {};
    struct stat second {};
    const bool is_there = stat(one.c_str(), &first) == 0;
    if (is_there != (stat(other.c_str(), &second) == 0)) {
        return false;
    }
    if (is_there) {
        return S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
               first.st_ino == second.st_ino;
    }
    const std::string left = followed(one), right = followed(other);
    return stat(folder_of(left).c_str(), &first) == 0 &&
           stat(folder_of(right).c_str(), &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino &&
           left.substr(left.rfind('/') + 1) == right.substr(right.rfind('/') + 1);
}

}  // namespace tranche
