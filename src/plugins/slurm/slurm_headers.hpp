// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's internal headers as one C++ include. Nothing else in the tree includes them.
//
// They are C: everything is declared inside extern "C", and the standard headers that they pull in
// come before, as C++. From 24.11 on a member is called `operator`, which is renamed meanwhile.
// The macros that log.h leaves behind would rename our own members (`error`, `info`), so they go.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>

// The order counts.
// clang-format off
#define operator slurm_operator
extern "C" {
#include "config.h"
// Renames what must not be mixed up with other libraries' names; before the declarations.
#include "src/common/slurm_xlator.h"
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurmdb.h"
#include "src/common/assoc_mgr.h"
#include "src/common/bitstring.h"
#include "src/common/gres.h"
#include "src/common/job_resources.h"
#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/node_conf.h"
#include "src/common/slurm_accounting_storage.h"
#include "src/common/slurm_priority.h"
#include "src/common/slurm_protocol_defs.h"
#include "src/common/slurm_cred.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
#include "src/slurmctld/acct_policy.h"
#include "src/slurmctld/job_scheduler.h"
#include "src/slurmctld/locks.h"
#include "src/slurmctld/preempt.h"
#include "src/slurmctld/reservation.h"
#include "src/slurmctld/slurmctld.h"
#include "src/slurmctld/srun_comm.h"
#include "src/slurmctld/state_save.h"

// Exported beside slurm_info() and slurm_verbose(), but only a macro in log.h.
void slurm_debug(const char* format, ...) __attribute__((format(printf, 1, 2)));
}
#undef operator
// clang-format on

// Variables of slurmctld itself. Clients load plugins as well (sshare the priority one), and
// functions are bound at their first call, but variables at loading: weak, they are merely null
// there. No entry point looks at one outside slurmctld.
#pragma weak accounting_enforce
#pragma weak acct_db_conn
#pragma weak active_feature_list
#pragma weak avail_node_bitmap
#pragma weak default_part_loc
#pragma weak job_list
#pragma weak last_job_update
#pragma weak last_part_update
#pragma weak part_list
#pragma weak resv_list
#pragma weak slurmctld_config
#pragma weak slurmctld_diag_stats
#pragma weak slurmctld_tres_cnt

#undef error
#undef fatal
#undef info
#undef verbose
#undef debug
#undef debug2
#undef debug3
#undef debug4
#undef debug5
#undef log_flag
#undef MIN
#undef MAX

namespace tranche {

// Slurm's strings may be null.
inline std::string text_of(const char* text) {
    return text != nullptr ? std::string(text) : std::string();
}

// Several of Slurm's functions take text they only read as char*.
inline char* mutable_text(const char* text) {
    return const_cast<char*>(text);
}

// Slurm's locks in their one order (locks.h), held for a scope.
class ControllerLock {
  public:
    explicit ControllerLock(const slurmctld_lock_t& levels) : levels_(levels) {
        lock_slurmctld(levels_);
    }
    ~ControllerLock() { unlock_slurmctld(levels_); }
    ControllerLock(const ControllerLock&) = delete;
    ControllerLock& operator=(const ControllerLock&) = delete;

  private:
    slurmctld_lock_t levels_;
};

// conf, job, node, part, fed.
inline constexpr slurmctld_lock_t kReadEverything = {READ_LOCK, READ_LOCK, READ_LOCK, READ_LOCK,
                                                     NO_LOCK};
inline constexpr slurmctld_lock_t kReadJobs = {NO_LOCK, READ_LOCK, NO_LOCK, NO_LOCK, NO_LOCK};
inline constexpr slurmctld_lock_t kReadConfiguration = {READ_LOCK, NO_LOCK, NO_LOCK, NO_LOCK,
                                                        NO_LOCK};
inline constexpr slurmctld_lock_t kWriteJobs = {NO_LOCK, WRITE_LOCK, READ_LOCK, READ_LOCK, NO_LOCK};
// What slurmctld itself holds where it preempts (controller.c, 22.05.8: around job_time_limit).
inline constexpr slurmctld_lock_t kEvict = {READ_LOCK, WRITE_LOCK, WRITE_LOCK, READ_LOCK,
                                            READ_LOCK};

// Calls `body(record)` for each element of one of Slurm's lists. The list's own lock is held
// meanwhile: the body must not add, remove or look for elements of it. A body that returns false
// ends the walk. An exception of the body ends it too and goes on from here, past Slurm's frames.
template <typename Record, typename Body>
void for_each_in(List list, Body&& body) {
    if (list == nullptr) {
        return;
    }
    using Function = std::remove_reference_t<Body>;
    struct Walk {
        Function* body;
        std::exception_ptr thrown;
        static int step(void* record, void* argument) noexcept {
            auto& walk = *static_cast<Walk*>(argument);
            try {
                if constexpr (std::is_same_v<std::invoke_result_t<Function&, Record&>, bool>) {
                    return (*walk.body)(*static_cast<Record*>(record)) ? 0 : -1;
                } else {
                    (*walk.body)(*static_cast<Record*>(record));
                    return 0;
                }
            } catch (...) {
                walk.thrown = std::current_exception();
                return -1;
            }
        }
    } walk{&body, nullptr};
    list_for_each_ro(list, Walk::step, &walk);
    if (walk.thrown) {
        std::rethrow_exception(walk.thrown);
    }
}

// A walk along one of Slurm's lists that may pause: Slurm keeps iterators right when elements come
// and go (list.c). The list itself must outlive the walk.
template <typename Record>
class ListWalk {
  public:
    explicit ListWalk(List list) : iterator_(list_iterator_create(list)) {}
    ~ListWalk() { list_iterator_destroy(iterator_); }
    ListWalk(const ListWalk&) = delete;
    ListWalk& operator=(const ListWalk&) = delete;
    Record* next() { return static_cast<Record*>(list_next(iterator_)); }

  private:
    ListIterator iterator_;
};

}  // namespace tranche
