// SPDX-License-Identifier: GPL-2.0-or-later
// Runs a program in the foreground of a job step or batch script, and a command when the job is
// warned that it will be preempted.
//
// slurmstepd signals every process of a step, not its tasks only (req.c, _handle_signal_container
// of 22.05): the program would be gone before the command could ask it for anything. So inside a
// step it is started with the warning ignored, and ended from here once the command is over.
// Signals that reach this process alone, as the batch shell's do, are passed on.
#include "tools/tranche_run.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tools/command.hpp"

namespace tranche {
namespace {

constexpr int kNotFound = 127, kNotRunnable = 126;
constexpr int kPassedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCONT};

bool in_step() {
    const char* step = std::getenv("SLURM_STEP_ID");
    return step != nullptr && *step != '\0';
}

bool is_first_task() {
    const char* rank = std::getenv("SLURM_PROCID");
    return rank == nullptr || std::strcmp(rank, "0") == 0;
}

// A child with the mask that we were started with; `ignored`: that signal, 0: none.
pid_t start(const std::vector<std::string>& words, const sigset_t& mask, int ignored) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) {
        return child;
    }
    if (ignored != 0) {
        signal(ignored, SIG_IGN);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execvp(arguments[0], arguments.data());
    const int failure = errno;
    std::fprintf(stderr, "tranche-run: %s: %s\n", arguments[0], std::strerror(failure));
    _exit(failure == ENOENT ? kNotFound : kNotRunnable);
}

int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Supervisor {
  public:
    explicit Supervisor(const RunCommand& command) : command_(command) {}

    int run() {
        sigemptyset(&waited_for_);
        sigaddset(&waited_for_, SIGCHLD);
        for (const int signal_number : kPassedOn) {
            sigaddset(&waited_for_, signal_number);
        }
        sigprocmask(SIG_BLOCK, &waited_for_, &before_);
        step_ = in_step();
        program_ = start(command_.program, before_, step_ ? command_.signal : 0);
        if (program_ < 0) {
            std::fprintf(stderr, "tranche-run: no process for %s: %s\n",
                         command_.program.front().c_str(), std::strerror(errno));
            return kNotRunnable;
        }
        while (!program_status_ || notice_ > 0) {
            siginfo_t what = {};
            const int signal_number = wait(what);
            if (signal_number == SIGCHLD || signal_number < 0) {
                reap();
                look_at_time();
            } else {
                take(signal_number, what);
            }
        }
        return exit_code_of(*program_status_);
    }

  private:
    // A signal, or -1 when it is time to kill the program.
    int wait(siginfo_t& what) {
        if (!kill_at_) {
            return sigwaitinfo(&waited_for_, &what);
        }
        timespec now = {};
        clock_gettime(CLOCK_MONOTONIC, &now);
        timespec rest = {*kill_at_ > now.tv_sec ? *kill_at_ - now.tv_sec : 0, 0};
        return sigtimedwait(&waited_for_, &what, &rest);
    }

    void look_at_time() {
        timespec now = {};
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (kill_at_ && now.tv_sec >= *kill_at_ && !program_status_) {
            kill(program_, SIGKILL);
            kill_at_.reset();
        }
    }

    void reap() {
        int status = 0;
        for (pid_t child = 0; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
            if (child == program_) {
                program_status_ = status;
            } else if (child == notice_) {
                notice_ = 0;
                if (exit_code_of(status) != 0) {
                    std::fprintf(stderr, "tranche-run: the command of --on-preempt ended with %d\n",
                                 exit_code_of(status));
                }
                end_program();
            }
        }
    }

    void end_program() {
        if (program_status_) {
            return;
        }
        kill(program_, SIGTERM);
        timespec now = {};
        clock_gettime(CLOCK_MONOTONIC, &now);
        // A plain program ignores the warning and so SIGTERM, if that is the same.
        kill_at_ = now.tv_sec + command_.kill_after_seconds;
    }

    void take(int signal_number, const siginfo_t& what) {
        if (signal_number == command_.signal && !warned_) {
            warned_ = true;
            if (!command_.first_task_only || is_first_task()) {
                warn();
            }
            return;
        }
        // The terminal signals the program too; in a step slurmstepd does. After the warning it is
        // ended when the command is over.
        const bool comes_by_itself = what.si_code == SI_KERNEL || step_;
        const bool is_warning = signal_number == command_.signal;
        if (!program_status_ && !comes_by_itself && !(is_warning && notice_ > 0)) {
            kill(program_, signal_number);
        } else if (is_warning && step_ && command_.first_task_only && !is_first_task()) {
            end_program();  // the grace is over
        }
    }

    void warn() {
        setenv("TRANCHE_NOTICE", "preempted", 1);
        setenv("TRANCHE_SIGNAL", std::to_string(command_.signal).c_str(), 1);
        setenv("TRANCHE_PROGRAM_PID", std::to_string(program_).c_str(), 1);
        notice_ = start({"/bin/sh", "-c", command_.on_preempt}, before_, 0);
        if (notice_ < 0) {
            std::fprintf(stderr, "tranche-run: no process for the command of --on-preempt: %s\n",
                         std::strerror(errno));
            notice_ = 0;
            end_program();
        }
    }

    const RunCommand& command_;
    sigset_t waited_for_ = {}, before_ = {};
    pid_t program_ = 0, notice_ = 0;
    std::optional<int> program_status_;
    std::optional<time_t> kill_at_;  // on the monotonic clock
    bool warned_ = false, step_ = false;
};

int run(int count, char** arguments) {
    const CommandTable& table = tranche_run_table();
    const auto line = parse_command_line(table, count, arguments);
    if (!line.ok()) {
        return complain(table, line.error(), kUsage);
    }
    if (const auto code = print_about(table, *line)) {
        return *code;
    }
    const auto command = run_command_of(*line);
    if (!command.ok()) {
        return complain(table, command.error(), kUsage);
    }
    return Supervisor(*command).run();
}

}  // namespace
}  // namespace tranche

int main(int count, char** arguments) {
    return tranche::run_command(tranche::tranche_run_table, tranche::run, count, arguments);
}
