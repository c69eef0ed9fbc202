// SPDX-License-Identifier: GPL-2.0-or-later
#include <signal.h>

#include <charconv>

#include "common/base/quoted.hpp"
#include "tools/tranche_run.hpp"

namespace tranche {
namespace {

constexpr int kLongestKillAfter = 3600;

struct SignalName {
    const char* name;
    int number;
};

constexpr SignalName kSignals[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
                                   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};

}  // namespace

int signal_named(std::string text) noexcept {
    for (char& character : text) {
        character = character >= 'a' && character <= 'z' ? static_cast<char>(character - 'a' + 'A')
                                                         : character;
    }
    if (text.starts_with("SIG")) {
        text.erase(0, 3);
    }
    for (const SignalName& known : kSignals) {
        if (text == known.name || text == std::to_string(known.number)) {
            return known.number;
        }
    }
    return 0;
}

const CommandTable& tranche_run_table() {
    static const CommandTable table = [] {
        CommandTable made;
        made.name = "tranche-run";
        made.about = "Runs a program, and a command when its job is warned of a preemption.";
        made.usages = {"--on-preempt=CMD [OPTIONS] [--] PROGRAM [ARGUMENT ...]"};
        made.options = {
            {'\0', "help", nullptr, "print this and exit"},
            {'\0', "usage", nullptr, "print the forms of the command and exit"},
            {'V', "version", nullptr, "print the version and exit"},
            {'p', "on-preempt", "CMD", "run by /bin/sh at the warning, once"},
            {'s', "signal", "NAME", "the warning: TERM (default), INT, HUP, QUIT, USR1 or USR2"},
            {'k', "kill-after", "SECONDS",
             "from SIGTERM to SIGKILL for PROGRAM once CMD is over (default 5)"},
            {'1', "first-task", nullptr, "under srun: CMD in task 0 of the step only"}};
        made.more =
            "CMD sees TRANCHE_NOTICE, TRANCHE_SIGNAL and TRANCHE_PROGRAM_PID beside the job's own\n"
            "environment. The exit code is PROGRAM's, 128 + N if signal N ended it.\n"
            "In a batch script without srun: #SBATCH --signal=B:TERM, and exec tranche-run ...\n";
        made.words_end_options = true;
        return made;
    }();
    return table;
}

Result<RunCommand> run_command_of(const CommandLine& line) {
    RunCommand command;
    command.on_preempt = line.value("on-preempt");
    if (command.on_preempt.empty()) {
        return Error{
            "no command is said; --on-preempt='touch checkpoint-now' PROGRAM would be right"};
    }
    const std::string name = line.has("signal") ? line.value("signal") : "TERM";
    command.signal = signal_named(name);
    if (command.signal == 0) {
        return Error{"--signal=" + quoted(name) +
                     ": TERM, INT, HUP, QUIT, USR1 or USR2 would be "
                     "right"};
    }
    if (line.has("kill-after")) {
        const std::string text = line.value("kill-after");
        const auto [end, code] =
            std::from_chars(text.data(), text.data() + text.size(), command.kill_after_seconds);
        if (text.empty() || code != std::errc() || end != text.data() + text.size() ||
            command.kill_after_seconds < 0 || command.kill_after_seconds > kLongestKillAfter) {
            return Error{"--kill-after=" + quoted(text) +
                         " is not a whole number of seconds from "
                         "0 to " +
                         std::to_string(kLongestKillAfter)};
        }
    }
    command.first_task_only = line.has("first-task");
    command.program = line.words;
    if (command.program.empty()) {
        return Error{"no program is said; tranche-run --on-preempt=CMD PROGRAM would be right"};
    }
    return command;
}

}  // namespace tranche
