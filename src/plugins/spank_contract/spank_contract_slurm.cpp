// SPDX-License-Identifier: GPL-2.0-or-later
// The submission options of sbatch, salloc and srun: --min-runtime, --resumable, --team-priority,
// --budget, --contract and --free-first.
//
// Slurm itself carries the options to slurmctld, as entries of the job's SPANK environment, where
// job_submit/contract checks and completes them. Here only what is wrong by itself is refused, on
// the submit host, in one line. Does nothing on compute nodes: there the options are registered so
// that slurmstepd knows the entries that come with a job.
//
// Commands are single-threaded while they read options. Needs neither the engine nor a
// configuration file.
#include <errno.h>  // program_invocation_short_name
#include <stdlib.h>
#include <unistd.h>  // environ

#include <string>
#include <string_view>
#include <vector>

#include "common/base/guarded.hpp"
#include "common/config/contract_request.hpp"

extern "C" {
#include "slurm/slurm_version.h"
#include "slurm/spank.h"

// The name is part of the entries' names.
extern const char plugin_name[] = "contract";
extern const char plugin_type[] = "spank";
extern const unsigned int plugin_version = SLURM_VERSION_NUMBER;
extern const unsigned int spank_plugin_version = 1;
}

namespace {

struct OptionText {
    const char* name;
    const char* argument;  // nullptr: a flag
    const char* usage;
};

constexpr OptionText kOptionTexts[] = {
    {"min-runtime", "TIME",
     "shortest run that is worth having; the job is protected from preemption for exactly that "
     "long "
     "(minutes, or as --time; also 15m, 2h, 1d)"},
    {"resumable", nullptr,
     "the job can go on where it stopped: when preempted it is requeued, not ended (implies "
     "--requeue; sbatch only)"},
    {"team-priority", "low|normal|high|urgent",
     "order among the jobs of your own budget; no effect outside it"},
    {"budget", "NAME", "budget that pays, of those that match your account and user"},
    {"contract", "NAME",
     "named set of these options, as the cluster's tranche.conf defines it; options given "
     "explicitly win"},
    {"free-first", nullptr,
     "start unprotected and uncharged as soon as there is room, keep the place in the queue, and "
     "be "
     "protected from the moment others want the GPUs"},
};

void log_fault(const char* entry_point, const char* what) {
    slurm_error("tranche: internal fault in %s: %s", entry_point, what);
}

bool is_sbatch() noexcept {
    return std::string_view(program_invocation_short_name) == "sbatch";
}

// What stands in one line is the reason; Slurm would add a second line that says less.
[[noreturn]] void refuse(const std::string& text) {
    slurm_error("%s", text.c_str());
    exit(1);
}

// Called for an option on the command line or in an #SBATCH line, and on compute nodes (`remote`)
// for each entry that came with the job.
int on_option(int index, const char* value, int remote) noexcept {
    return tranche::guarded(
        "contract option", int{ESPANK_SUCCESS},
        [&]() -> int {
            const spank_context_t context = spank_context();
            const bool submits = context == S_CTX_ALLOCATOR || context == S_CTX_LOCAL;
            if (remote != 0 || !submits || index < 0 ||
                index >= static_cast<int>(std::size(kOptionTexts))) {
                return ESPANK_SUCCESS;
            }
            // A step of a running job has no contract of its own.
            if (context == S_CTX_LOCAL && getenv("SLURM_JOB_ID") != nullptr) {
                return ESPANK_SUCCESS;
            }
            const OptionText& option = kOptionTexts[index];
            const tranche::Status status = tranche::check_option(
                option.name,
                option.argument == nullptr ? "" : std::string_view(value == nullptr ? "" : value));
            if (!status.ok()) {
                refuse(status.error());
            }
            if (option.name == std::string_view("resumable") && !is_sbatch()) {
                refuse(
                    "--resumable is for batch jobs: a session of salloc or srun cannot be "
                    "requeued; "
                    "leave it out");
            }
            return ESPANK_SUCCESS;
        },
        log_fault);
}

// A submission inside an allocation must not inherit its contract: Slurm leaves the options of
// salloc in the environment of its shell, and reads them again from there (plugstack.c 22.05.8,
// spank_process_env_options).
void forget_inherited_options() {
    const std::string option(tranche::kSpankOptionPrefix);
    const std::string prefixes[] = {option, "SLURM_SPANK_" + option, "SPANK_" + option};
    std::vector<std::string> names;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view pair(*variable);
        for (const std::string& prefix : prefixes) {
            if (pair.substr(0, prefix.size()) == prefix) {
                names.emplace_back(pair.substr(0, pair.find('=')));
            }
        }
    }
    for (const std::string& name : names) {
        unsetenv(name.c_str());
    }
}

}  // namespace

// Called once in every context, before any option is read.
extern "C" int slurm_spank_init(spank_t spank, int, char**) {
    return tranche::guarded(
        "slurm_spank_init", int{ESPANK_SUCCESS},
        [&]() -> int {
            const spank_context_t context = spank_context();
            if (context != S_CTX_ALLOCATOR && context != S_CTX_LOCAL && context != S_CTX_REMOTE) {
                return ESPANK_SUCCESS;
            }
            if (context != S_CTX_REMOTE) {
                forget_inherited_options();
            }
            for (int i = 0; i < static_cast<int>(std::size(kOptionTexts)); ++i) {
                const OptionText& text = kOptionTexts[i];
                // Slurm copies the texts; that it takes them as char* is the interface's age.
                struct spank_option option = {};
                option.name = const_cast<char*>(text.name);
                option.arginfo = const_cast<char*>(text.argument);
                option.usage = const_cast<char*>(text.usage);
                option.has_arg = text.argument == nullptr ? 0 : 1;
                option.val = i;
                option.cb = on_option;
                if (spank_option_register(spank, &option) != ESPANK_SUCCESS) {
                    slurm_error("tranche: the option --%s cannot be registered", text.name);
                }
            }
            return ESPANK_SUCCESS;
        },
        log_fault);
}
