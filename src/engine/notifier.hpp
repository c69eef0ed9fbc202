// SPDX-License-Identifier: GPL-2.0-or-later
// Runs a program for each notice, one after the other, from a thread of its own.
//
// put() never waits: the queue is bounded, and what does not fit is dropped and counted. A program
// that does not end in time is killed with all it started. It gets nothing of the daemon's: no
// descriptor, no signal mask, an environment of its own, and runs in a process group of its own as
// the daemon's user. Its time limit is real time, whatever the cluster's clock does.
//
// Threads: put() is anybody's, no Slurm lock matters. The thread starts with the first notice.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/alarm.hpp"

namespace tranche {

struct Notice {
    std::string program;
    std::string about;                     // for the log: "contract-ending of job 12"
    std::vector<std::string> environment;  // NAME=value
};

class Notifier {
  public:
    struct Limits {
        std::size_t waiting = 256;
        std::chrono::milliseconds run{30000};
    };
    // `complain` is called from the thread; it may do what a thread of the engine may.
    using Complain = std::function<void(const std::string& text)>;

    explicit Notifier(Complain complain) : Notifier(std::move(complain), Limits{}) {}
    Notifier(Complain complain, const Limits& limits);
    ~Notifier();
    Notifier(const Notifier&) = delete;
    Notifier& operator=(const Notifier&) = delete;

    void put(Notice notice);
    // Kills what runs, forgets what waits and ends the thread; put() does nothing from then on.
    void stop();

  private:
    void run_all();
    void run(const Notice& notice);

    const Complain complain_;
    const Limits limits_;
    Alarm alarm_;
    std::mutex mutex_;  // a leaf; guards what follows
    std::deque<Notice> waiting_;
    std::size_t dropped_ = 0;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace tranche
