// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "common/wire/credential.hpp"

namespace tranche {

// A munged in a folder of its own.
class PrivateMunge {
  public:
    PrivateMunge() {
        char folder[] = "/tmp/tranche-munge-XXXXXX";
        if (mkdtemp(folder) == nullptr) {
            return;
        }
        folder_ = folder;
        chmod(folder, 0755);
        std::ofstream(folder_ + "/key") << std::string(64, 'k') << getpid();
        chmod((folder_ + "/key").c_str(), 0600);
        child_ = fork();
        if (child_ == 0) {
            const int null = open("/dev/null", O_RDWR);
            dup2(null, 0);
            dup2(null, 1);
            dup2(null, 2);
            const std::string key = "--key-file=" + folder_ + "/key",
                              socket_option = "--socket=" + socket(),
                              pid = "--pid-file=" + folder_ + "/pid",
                              log = "--log-file=" + folder_ + "/log",
                              seed = "--seed-file=" + folder_ + "/seed";
            for (const char* program : {"/usr/sbin/munged", "/usr/local/sbin/munged"}) {
                execl(program, "munged", "--foreground", "--force", key.c_str(),
                      socket_option.c_str(), pid.c_str(), log.c_str(), seed.c_str(), nullptr);
            }
            _exit(127);
        }
        for (int i = 0; i < 400 && !ready_; ++i) {
            if (std::filesystem::exists(socket())) {
                Munge munge(socket());
                ready_ = munge.encode("x", std::nullopt).ok();
            }
            int status = 0;
            if (waitpid(child_, &status, WNOHANG) == child_) {
                child_ = -1;
                return;
            }
            if (!ready_) {
                usleep(10000);
            }
        }
    }
    ~PrivateMunge() {
        if (child_ > 0) {
            kill(child_, SIGTERM);
            waitpid(child_, nullptr, 0);
        }
        if (!folder_.empty()) {
            std::filesystem::remove_all(folder_);
        }
    }
    bool ready() const { return ready_; }
    pid_t pid() const { return child_; }
    std::string socket() const { return folder_ + "/socket"; }

  private:
    std::string folder_;
    pid_t child_ = -1;
    bool ready_ = false;
};

}  // namespace tranche
