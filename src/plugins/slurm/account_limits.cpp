// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/account_limits.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

namespace tranche {
namespace {

constexpr double kLn2 = 0.693;  // as multifactor has it

// assoc, file, qos, res, tres, user, wckey.
constexpr assoc_mgr_lock_t kChargeLocks = {WRITE_LOCK, NO_LOCK, WRITE_LOCK, NO_LOCK,
                                           READ_LOCK,  NO_LOCK, NO_LOCK};

class AssociationLock {
  public:
    explicit AssociationLock(const assoc_mgr_lock_t& levels) : levels_(levels) {
        assoc_mgr_lock(&levels_);
    }
    ~AssociationLock() { assoc_mgr_unlock(&levels_); }
    AssociationLock(const AssociationLock&) = delete;
    AssociationLock& operator=(const AssociationLock&) = delete;

  private:
    assoc_mgr_lock_t levels_;
};

// When the books were last brought up to date. Written by a tick only, under the job read lock, so
// that job ends (job write lock) see it whole.
struct Books {
    std::time_t charged_until = 0;  // 0: not since this start
    std::time_t last_reset = 0;
    std::time_t started = 0;
};
Books books;
std::atomic<bool> opened{false};  // the first tick is over
std::atomic_flag ticking = ATOMIC_FLAG_INIT;

bool has_accounting() {
    return assoc_mgr_root_assoc != nullptr && slurm_with_slurmdbd() != 0;
}
bool limits_enforced() {
    return (accounting_enforce & ACCOUNTING_ENFORCE_LIMITS) != 0;
}

double decay_per_second() {
    const double half_life = slurm_conf.priority_decay_hl;
    return half_life > 0 ? 1 - kLn2 / half_life : 1.0;
}

// One stretch of a run, as it is added to the books.
struct Stretch {
    double wall = 0;            // seconds, decayed, by the QOS's usage factor
    double wall_undecayed = 0;  // for a QOS with NoDecay
    double billed = 0, billed_undecayed = 0;
    std::uint64_t planned = 0;  // seconds to take away from the run-seconds
};

bool counts(const job_record_t& job, int tres) {
    return job.tres_alloc_cnt != nullptr && job.tres_alloc_cnt[tres] != 0 &&
           job.tres_alloc_cnt[tres] != NO_CONSUME_VAL64 && tres != TRES_ARRAY_ENERGY;
}

// Both of a QOS's and an association's usage have these members.
template <typename BookUsage>
void take_run_seconds(BookUsage& usage, const job_record_t& job, double planned) {
    for (int i = 0; i < slurmctld_tres_cnt; ++i) {
        if (!counts(job, i)) {
            continue;
        }
        const auto seconds =
            static_cast<std::uint64_t>(planned * static_cast<double>(job.tres_alloc_cnt[i]));
        std::uint64_t& left = usage.grp_used_tres_run_secs[i];
        if (seconds > left) {
            slurm_debug("tranche: job %u takes %lu run-seconds of a limit that has %lu", job.job_id,
                        static_cast<unsigned long>(seconds), static_cast<unsigned long>(left));
        }
        left -= std::min(left, seconds);
    }
}

template <typename BookUsage>
void add_used(BookUsage& usage, const job_record_t& job, double seconds) {
    for (int i = 0; i < slurmctld_tres_cnt; ++i) {
        if (counts(job, i)) {
            usage.usage_tres_raw[i] +=
                static_cast<long double>(seconds) * static_cast<long double>(job.tres_alloc_cnt[i]);
        }
    }
}

void charge_qos(slurmdb_qos_rec_t* qos, const job_record_t& job, const Stretch& stretch) {
    if (qos == nullptr || qos->usage == nullptr) {
        return;
    }
    const bool keeps = (qos->flags & QOS_FLAG_NO_DECAY) != 0;
    const double wall = keeps ? stretch.wall_undecayed : stretch.wall;
    qos->usage->grp_used_wall += wall;
    qos->usage->usage_raw += keeps ? stretch.billed_undecayed : stretch.billed;
    if (limits_enforced()) {
        add_used(*qos->usage, job, wall);
        take_run_seconds(*qos->usage, job, static_cast<double>(stretch.planned));
    }
}

// The associations from the job's own up to the root. What sshare shows as raw usage is not kept
// here but written from the budgets.
template <typename Body>
void for_each_association(const job_record_t& job, Body&& body) {
    for (slurmdb_assoc_rec_t* association = job.assoc_ptr;
         association != nullptr && association->usage != nullptr;
         association = association->usage->parent_assoc_ptr) {
        body(*association->usage);
    }
}

slurmdb_qos_rec_t* partition_qos(const job_record_t& job) {
    return job.part_ptr != nullptr && job.part_ptr->qos_ptr != job.qos_ptr ? job.part_ptr->qos_ptr
                                                                           : nullptr;
}

double usage_factor(const job_record_t& job) {
    return job.qos_ptr != nullptr && job.qos_ptr->usage_factor >= 0 ? job.qos_ptr->usage_factor
                                                                    : 1.0;
}

// How many seconds of the time limit, all of which were added at the start, are over.
std::uint64_t planned_seconds(const job_record_t& job, std::time_t from, std::time_t to) {
    const job_record_t* pointer = &job;  // the macros take one
    const auto limit_end = static_cast<std::uint64_t>(job.start_time) +
                           static_cast<std::uint64_t>(job.time_limit) * 60;
    if (static_cast<std::uint64_t>(from) >= limit_end) {
        return 0;
    }
    if (IS_JOB_FINISHED(pointer) || IS_JOB_COMPLETING(pointer) || IS_JOB_RESIZING(pointer)) {
        return limit_end - static_cast<std::uint64_t>(from);  // all that is left
    }
    const std::time_t end = std::min(to, job.end_time_exp);
    return end > from ? static_cast<std::uint64_t>(end - from) : 0;
}

// Charges the part of a run that lies after `from`. Each run is closed once: end_time_exp says so.
void charge(job_record_t& job, std::time_t from, std::time_t to, bool at_end) {
    if (job.end_time_exp == static_cast<std::time_t>(NO_VAL)) {
        return;
    }
    from = std::max(from, job.start_time);
    if (at_end && job.end_time != 0) {
        to = std::min(to, job.end_time);
    }
    const double seconds = std::max(0.0, difftime(to, from));
    const std::uint64_t planned = planned_seconds(job, from, to);
    if (at_end) {
        job.end_time_exp = static_cast<std::time_t>(NO_VAL);
    }
    const AssociationLock lock(kChargeLocks);
    const double billable = calc_job_billable_tres(&job, from, true);
    const double factor = usage_factor(job);
    Stretch stretch;
    stretch.wall = seconds * std::pow(decay_per_second(), seconds) * factor;
    stretch.wall_undecayed = seconds * factor;
    stretch.billed = stretch.wall * billable;
    stretch.billed_undecayed = stretch.wall_undecayed * billable;
    stretch.planned = static_cast<std::uint64_t>(static_cast<double>(planned) * factor);
    charge_qos(job.qos_ptr, job, stretch);
    charge_qos(partition_qos(job), job, stretch);
    for_each_association(job, [&](slurmdb_assoc_usage_t& usage) {
        usage.grp_used_wall += stretch.wall;
        if (limits_enforced()) {
            add_used(usage, job, stretch.wall);
            take_run_seconds(usage, job, static_cast<double>(stretch.planned));
        }
    });
}

// slurmctld has just added whole time limits for all runs: what was over at `until` goes again.
void take_used_time(std::time_t until) {
    if (!limits_enforced()) {
        return;
    }
    const ControllerLock jobs({NO_LOCK, READ_LOCK, NO_LOCK, READ_LOCK, NO_LOCK});
    const AssociationLock lock(kChargeLocks);
    for_each_in<job_record_t>(job_list, [&](job_record_t& job) {
        const job_record_t* pointer = &job;
        if (job.end_time_exp == static_cast<std::time_t>(NO_VAL) || !IS_JOB_RUNNING(pointer) ||
            job.start_time > until) {
            return;
        }
        const double planned = usage_factor(job) * static_cast<double>(until - job.start_time);
        const auto take = [&](slurmdb_qos_rec_t* qos) {
            if (qos != nullptr && qos->usage != nullptr) {
                take_run_seconds(*qos->usage, job, planned);
            }
        };
        take(job.qos_ptr);
        take(partition_qos(job));
        for_each_association(
            job, [&](slurmdb_assoc_usage_t& usage) { take_run_seconds(usage, job, planned); });
    });
}

template <typename BookUsage>
void scale(BookUsage& usage, double by) {
    usage.grp_used_wall *= by;
    for (int i = 0; i < slurmctld_tres_cnt; ++i) {
        usage.usage_tres_raw[i] *= by;
    }
}

// `by` 0 forgets everything, as PriorityUsageResetPeriod does; NoDecay keeps a QOS out of the rest.
void scale_all(double by) {
    const AssociationLock lock(kChargeLocks);
    for_each_in<slurmdb_assoc_rec_t>(assoc_mgr_assoc_list, [&](slurmdb_assoc_rec_t& association) {
        if (association.usage == nullptr) {
            return;
        }
        scale(*association.usage, by);
        if (association.leaf_usage != nullptr && association.leaf_usage != association.usage) {
            scale(*association.leaf_usage, by);
        }
    });
    for_each_in<slurmdb_qos_rec_t>(assoc_mgr_qos_list, [&](slurmdb_qos_rec_t& qos) {
        if (qos.usage != nullptr && (by == 0 || (qos.flags & QOS_FLAG_NO_DECAY) == 0)) {
            qos.usage->usage_raw *= by;
            scale(*qos.usage, by);
        }
    });
}

// The begin of the first whole period after `last`, in local time; 0 for none.
std::time_t next_reset(std::uint16_t period, std::time_t last) {
    std::tm day{};
    if (localtime_r(&last, &day) == nullptr) {
        return 0;
    }
    day.tm_sec = day.tm_min = day.tm_hour = 0;
    day.tm_isdst = -1;
    switch (period) {
        case PRIORITY_RESET_DAILY:
            day.tm_mday += 1;
            break;
        case PRIORITY_RESET_WEEKLY:
            day.tm_mday += 7 - day.tm_wday;
            break;
        case PRIORITY_RESET_MONTHLY:
            day.tm_mday = 1;
            day.tm_mon += 1;
            break;
        case PRIORITY_RESET_QUARTERLY:
            day.tm_mday = 1;
            day.tm_mon = (day.tm_mon / 3 + 1) * 3;
            break;
        case PRIORITY_RESET_YEARLY:
            day.tm_mday = 1;
            day.tm_mon = 0;
            day.tm_year += 1;
            break;
        default:
            return 0;
    }
    return std::mktime(&day);
}

// The file of priority/multifactor: two times, big-endian, so that a site may change the plugin.
std::string books_path() {
    return text_of(slurm_conf.state_save_location) + "/priority_last_decay_ran";
}

std::time_t read_time(const unsigned char* bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
        value = value << 8 | bytes[i];
    }
    return static_cast<std::time_t>(value);
}

void read_books(Books& out) {
    std::array<unsigned char, 16> bytes{};
    const int file = open(books_path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    if (read(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
        out.charged_until = read_time(bytes.data());
        out.last_reset = read_time(bytes.data() + 8);
    }
    close(file);
}

void write_books(const Books& in) {
    std::array<unsigned char, 16> bytes{};
    for (int i = 0; i < 8; ++i) {
        bytes[7 - i] = static_cast<unsigned char>(in.charged_until >> (8 * i));
        bytes[15 - i] = static_cast<unsigned char>(in.last_reset >> (8 * i));
    }
    const std::string path = books_path();
    const std::string fresh = path + ".new";
    const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written =
        file >= 0 &&
        write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
        fsync(file) == 0;
    if (file >= 0) {
        close(file);
    }
    if (!written || std::rename(fresh.c_str(), path.c_str()) != 0) {
        slurm_error("tranche: %s cannot be written: %s", path.c_str(), std::strerror(errno));
    }
}

void reset_if_due(Books& to, std::time_t now) {
    const std::uint16_t period = slurm_conf.priority_reset_period;
    if (period == PRIORITY_RESET_NOW) {
        if (to.last_reset < to.started) {  // once for each start
            scale_all(0);
            to.last_reset = now;
        }
        return;
    }
    const std::time_t due = next_reset(period, to.last_reset);
    if (due != 0 && now >= due) {
        scale_all(0);
        to.last_reset = now;
    }
}

bool is_charged(const job_record_t& job) {
    const job_record_t* pointer = &job;
    return !IS_JOB_FINISHED(pointer) && !IS_JOB_COMPLETING(pointer) && !IS_JOB_PENDING(pointer) &&
           !IS_JOB_POWER_UP_NODE(pointer) && job.start_time != 0 && job.assoc_ptr != nullptr;
}

void open_books(std::time_t now) {
    Books found;
    found.started = books.started;
    read_books(found);
    if (found.charged_until == 0 || found.charged_until > now) {
        found.charged_until = now;
    }
    if (found.last_reset == 0) {
        found.last_reset = now;
    }
    take_used_time(found.charged_until);
    const ControllerLock jobs(kReadJobs);
    books = found;
    opened = true;
}

void tick(std::time_t now) {
    if (!opened) {
        open_books(now);
    }
    Books next = books;
    reset_if_due(next, now);
    const double elapsed = difftime(now, next.charged_until);
    if (elapsed < std::max<double>(1, slurm_conf.priority_calc_period)) {
        return;
    }
    const double decay = std::max(std::pow(decay_per_second(), elapsed), DBL_MIN);
    if (decay != 1) {
        scale_all(decay);
    }
    {
        const ControllerLock jobs({NO_LOCK, READ_LOCK, READ_LOCK, READ_LOCK, NO_LOCK});
        for_each_in<job_record_t>(job_list, [&](job_record_t& job) {
            if (is_charged(job)) {
                charge(job, next.charged_until, now, false);
            }
        });
        next.charged_until = now;
        books = next;
    }
    write_books(next);
}

}  // namespace

void account_limits_start() {
    books = Books{};
    books.started = std::time(nullptr);
    opened = false;
}

void account_limits_tick(std::int64_t now) {
    if (!has_accounting() || ticking.test_and_set()) {
        return;
    }
    struct Release {
        ~Release() { ticking.clear(); }
    } release;
    tick(static_cast<std::time_t>(now));
}

// Before the first tick nothing was taken away yet: the whole limit goes, and the whole run counts
// as used, which errs against the account by what the former slurmctld had charged already.
void account_limits_job_end(job_record_t& job) {
    const std::time_t now = std::time(nullptr);
    if (opened) {
        charge(job, books.charged_until, now, true);
        return;
    }
    if (job.end_time_exp == static_cast<std::time_t>(NO_VAL)) {
        return;
    }
    charge(job, job.start_time, now, true);
}

void account_limits_reconfigure(bool whole_limits_were_added) {
    if (whole_limits_were_added && opened && has_accounting()) {
        take_used_time(books.charged_until);
    }
}

}  // namespace tranche
