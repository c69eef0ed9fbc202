// SPDX-License-Identifier: GPL-2.0-or-later
// priority/budget: Slurm's entry points, each a call to what it is about.
//
// The engine lives and dies with this plugin. sshare and sprio load it too, in the client: there
// everything is neutral.
#include "plugins/slurm/account_limits.hpp"
#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/factor_list.hpp"
#include "plugins/slurm/guarded.hpp"
#include "plugins/slurm/job_priority.hpp"
#include "plugins/slurm/shares.hpp"
#include "plugins/slurm/site_priority.hpp"
#include "plugins/slurm/slurm_headers.hpp"

using namespace tranche;

extern "C" {

extern const char plugin_name[] = "Priority by budgets over a sliding window";
extern const char plugin_type[] = "priority/budget";
extern const std::uint32_t plugin_version = SLURM_VERSION_NUMBER;

// May run with all of slurmctld's write locks held (22.05 loads the plugin lazily): it only starts
// threads. With DryRun=yes it opens the site's own plugin first, which then does here what it would
// do if slurmctld had loaded it.
int init() {
    return guarded("priority/budget init", SLURM_SUCCESS, [] {
        start_rehearsal();
        if (running_in_slurmctld()) {
            account_limits_start();
            start_engine();
        }
        return SLURM_SUCCESS;
    });
}

// No locks held.
int fini() {
    return guarded("priority/budget fini", SLURM_SUCCESS, [] {
        Engine::instance().stop();
        stop_rehearsal();
        return SLURM_SUCCESS;
    });
}

// Job write lock held.
std::uint32_t priority_p_set(std::uint32_t last_priority, job_record_t* job) {
    return guarded("priority_p_set", job->priority != 0 ? job->priority : 1, [&] {
        if (const auto site = site_priority()) {
            Engine::instance().kick();
            return site->set(last_priority, job);
        }
        return engine_priority(last_priority, *job);
    });
}

// No locks held. `clear`: slurmctld has added the whole time limits to the run-minutes again.
void priority_p_reconfig(bool clear) {
    guarded("priority_p_reconfig", [&] {
        renew_all_entrances();  // first: until then jobs may enter nodes that are kept
        if (const auto site = site_priority()) {
            site->reconfigure(clear);
        } else {
            account_limits_reconfigure(clear);
        }
        Engine::instance().reconfigure();
    });
}

// Associations write lock held.
void priority_p_set_assoc_usage(slurmdb_assoc_rec_t* association) {
    guarded("priority_p_set_assoc_usage", [&] {
        if (const auto site = site_priority()) {
            site->set_assoc_usage(association);
        } else {
            keep_share(*association);
        }
    });
}

// Also called in the client, by sshare.
double priority_p_calc_fs_factor(long double usage, long double shares) {
    return guarded("priority_p_calc_fs_factor", 0.0, [&] {
        const auto site = site_priority();
        return site ? site->fs_factor(usage, shares) : fair_share_factor(usage, shares);
    });
}

// No locks held.
List priority_p_get_priority_factors_list(priority_factors_request_msg_t* request, uid_t uid) {
    return guarded("priority_p_get_priority_factors_list", static_cast<List>(nullptr), [&] {
        const auto site = site_priority();
        return site ? site->factors(request, uid) : factor_list(*request, uid);
    });
}

// Job write lock held. Called with enforced limits only, and for pending het jobs in a simulation
// as well: bookkeeping, no news of an end.
void priority_p_job_end(job_record_t* job) {
    guarded("priority_p_job_end", [&] {
        if (const auto site = site_priority()) {
            site->job_end(job);
        } else {
            account_limits_job_end(*job);
        }
    });
}

}  // extern "C"
