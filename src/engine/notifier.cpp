// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/notifier.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "engine/real_clock.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kFirstLookMilliseconds = 5;  // doubled up to the longest
constexpr std::int64_t kLongestLookMilliseconds = 200;
constexpr std::int64_t kFarewellMilliseconds = 2000;  // for a killed program to be gone

// posix_spawn's attributes and file actions, freed at the end.
class SpawnPlan {
  public:
    SpawnPlan() {
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_init(&actions);
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        close_the_rest();
    }
    ~SpawnPlan() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;

    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;

  private:
    // slurmctld does not mark all of its descriptors close-on-exec.
    void close_the_rest() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
        posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#else
        if (DIR* folder = opendir("/proc/self/fd"); folder != nullptr) {
            while (const dirent* entry = readdir(folder)) {
                const int number = std::atoi(entry->d_name);
                if (number > 2 && number != dirfd(folder)) {
                    posix_spawn_file_actions_addclose(&actions, number);
                }
            }
            closedir(folder);
        }
#endif
    }
};

// The wait status; nullopt while it runs. Somebody else may have waited for it: then it is over.
std::optional<int> ended(pid_t child) {
    int status = 0;
    const pid_t found = waitpid(child, &status, WNOHANG);
    if (found == child) {
        return status;
    }
    return found < 0 && errno == ECHILD ? std::optional(0) : std::nullopt;
}

}  // namespace

Notifier::Notifier(Complain complain, const Limits& limits)
    : complain_(std::move(complain)), limits_(limits) {}

Notifier::~Notifier() {
    stop();
}

void Notifier::put(Notice notice) {
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            return;
        }
        if (waiting_.size() >= limits_.waiting) {
            ++dropped_;
            return;
        }
        waiting_.push_back(std::move(notice));
        if (!thread_.joinable()) {
            thread_ = std::thread([this] { run_all(); });
        }
    }
    alarm_.ring();
}

void Notifier::stop() {
    std::thread thread;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        waiting_.clear();
        thread.swap(thread_);
    }
    alarm_.ring();
    if (thread.joinable()) {
        thread.join();
    }
}

void Notifier::run_all() {
    for (;;) {
        std::optional<Notice> next;
        std::size_t dropped = 0;
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) {
                return;
            }
            std::swap(dropped, dropped_);
            if (!waiting_.empty()) {
                next = std::move(waiting_.front());
                waiting_.pop_front();
            }
        }
        try {
            if (dropped > 0) {
                complain_(std::to_string(dropped) +
                          " notices were dropped: NotifyProgram does not keep up");
            }
            if (next) {
                run(*next);
            }
        } catch (...) {
            // Without memory one notice is lost; the next has its chance.
        }
        if (!next) {
            alarm_.wait_real(std::chrono::milliseconds(60000));
        }
    }
}

void Notifier::run(const Notice& notice) {
    const SpawnPlan plan;
    std::string program = notice.program;
    std::vector<std::string> texts = notice.environment;
    std::vector<char*> environment;
    environment.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        environment.push_back(text.data());
    }
    environment.push_back(nullptr);
    char* arguments[] = {program.data(), nullptr};
    const std::string name = "NotifyProgram " + program + " for " + notice.about;
    pid_t child = 0;
    const int failure = posix_spawn(&child, program.c_str(), &plan.actions, &plan.attributes,
                                    arguments, environment.data());
    if (failure != 0) {
        complain_(name + " cannot be run: " + std::strerror(failure));
        return;
    }
    const std::int64_t until = real_milliseconds() + limits_.run.count();
    std::int64_t look = kFirstLookMilliseconds;
    std::optional<int> status = ended(child);
    bool stopping = false;
    while (!status && !stopping && real_milliseconds() < until) {
        alarm_.wait_real(std::chrono::milliseconds(look));
        look = std::min(look * 2, kLongestLookMilliseconds);
        {
            const std::lock_guard lock(mutex_);
            stopping = stopping_;
        }
        status = ended(child);
    }
    // What it left behind goes as well.
    kill(-child, SIGKILL);
    if (status) {
        if (WIFEXITED(*status) && WEXITSTATUS(*status) == 127) {
            complain_(name +
                      " ended with status 127: it, or what its first line names, was not "
                      "found");
        } else if (WIFEXITED(*status) && WEXITSTATUS(*status) != 0) {
            complain_(name + " ended with status " + std::to_string(WEXITSTATUS(*status)));
        } else if (WIFSIGNALED(*status)) {
            complain_(name + " was ended by signal " + std::to_string(WTERMSIG(*status)));
        }
        return;
    }
    for (std::int64_t waited = 0; waited < kFarewellMilliseconds && !ended(child); waited += 10) {
        const timespec pause{0, 10'000'000};
        nanosleep(&pause, nullptr);
    }
    if (!stopping) {
        complain_(name + " did not end in " + std::to_string(limits_.run.count() / 1000) +
                  " s and was killed");
    }
}

}  // namespace tranche
