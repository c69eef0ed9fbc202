// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a plan would work, asked of Slurm's own placement before anybody is evicted for it.
//
// The select plugin is asked as backfill asks it: will the job run on these nodes now, once the
// victims are gone (SELECT_MODE_WILL_RUN, job_test.c of select/cons_tres 22.05.8). TEST_NOW_ONLY
// keeps it from looking into the future. What it writes into the record is put back.
#include <algorithm>
#include <ctime>

#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/pins.hpp"
#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/slurm_host.hpp"

extern "C" {
#include "src/common/select.h"
}

namespace tranche {
namespace {

constexpr std::uint32_t kMostNodes = 500000;  // Slurm's own guard against overflow

// The partition of the job that has all of these nodes; nullptr if none has.
part_record_t* partition_with(const job_record_t& job, bitstr_t* nodes) {
    part_record_t* found = nullptr;
    const auto fits = [&](part_record_t& partition) {
        if (partition.node_bitmap != nullptr &&
            bit_size(partition.node_bitmap) == bit_size(nodes) &&
            bit_super_set(nodes, partition.node_bitmap) != 0) {
            found = &partition;
            return false;
        }
        return true;
    };
    if (job.part_ptr_list != nullptr) {
        for_each_in<part_record_t>(job.part_ptr_list, fits);
    } else if (job.part_ptr != nullptr) {
        fits(*job.part_ptr);
    }
    return found;
}

class OwnedBitmap {
  public:
    explicit OwnedBitmap(bitstr_t* bitmap = nullptr) : bitmap_(bitmap) {}
    ~OwnedBitmap() { FREE_NULL_BITMAP(bitmap_); }
    OwnedBitmap(const OwnedBitmap&) = delete;
    OwnedBitmap& operator=(const OwnedBitmap&) = delete;
    bitstr_t* get() const { return bitmap_; }
    bitstr_t** out() { return &bitmap_; }

  private:
    bitstr_t* bitmap_;
};

class OwnedList {
  public:
    explicit OwnedList(List list = nullptr) : list_(list) {}
    ~OwnedList() { FREE_NULL_LIST(list_); }
    OwnedList(const OwnedList&) = delete;
    OwnedList& operator=(const OwnedList&) = delete;
    List get() const { return list_; }
    List* out() { return &list_; }

  private:
    List list_;
};

// What a test leaves in the record of a pending job.
class RecordKeeper {
  public:
    explicit RecordKeeper(job_record_t& job)
        : job_(job),
          partition_(job.part_ptr),
          start_(job.start_time),
          flags_(job.bit_flags),
          cpus_(job.total_cpus),
          share_(job.details->share_res),
          whole_(job.details->whole_node),
          required_(job.details->req_node_bitmap),
          excluded_(job.details->exc_node_bitmap) {
        // A pin is not the user's wish, nor is what keeps the job off other jobs' nodes.
        job.details->req_node_bitmap = nodes_of_user(*job.details);
        job.details->exc_node_bitmap = excluded_by_user(*job.details);
    }
    ~RecordKeeper() {
        job_.part_ptr = partition_;
        job_.start_time = start_;
        job_.bit_flags = flags_;
        job_.total_cpus = cpus_;
        job_.details->share_res = share_;
        job_.details->whole_node = whole_;
        FREE_NULL_BITMAP(job_.details->req_node_bitmap);
        job_.details->req_node_bitmap = required_;
        FREE_NULL_BITMAP(job_.details->exc_node_bitmap);
        job_.details->exc_node_bitmap = excluded_;
    }
    RecordKeeper(const RecordKeeper&) = delete;
    RecordKeeper& operator=(const RecordKeeper&) = delete;

  private:
    job_record_t& job_;
    part_record_t* partition_;
    std::time_t start_;
    std::uint64_t flags_;
    std::uint32_t cpus_;
    std::uint8_t share_;
    std::uint8_t whole_;
    bitstr_t* required_;
    bitstr_t* excluded_;
};

// A limit of the claimant's account or QOS that would hold it back on free nodes as well. Slurm
// looks at the size only once it has found nodes, so on a full cluster the job's reason does not
// say so yet. Not asked where a victim counts against the same limits.
bool held_by_limit(job_record_t& job, const std::vector<job_record_t*>& victims) {
    if ((accounting_enforce & ACCOUNTING_ENFORCE_LIMITS) == 0 || job.tres_req_cnt == nullptr) {
        return false;
    }
    for (const job_record_t* victim : victims) {
        if (victim->assoc_ptr == job.assoc_ptr || victim->qos_ptr == job.qos_ptr ||
            text_of(victim->account) == text_of(job.account)) {
            return false;
        }
    }
    std::vector<std::uint64_t> wanted(job.tres_req_cnt, job.tres_req_cnt + slurmctld_tres_cnt);
    return !acct_policy_job_runnable_pre_select(&job, false) ||
           !acct_policy_job_runnable_post_select(&job, wanted.data(), false);
}

}  // namespace

Status SlurmHost::verify(JobId claimant, const std::vector<JobId>& victims,
                         const std::vector<std::string>& nodes) {
    const std::string name = "job " + std::to_string(claimant);
    const ControllerLock lock(kEvict);
    job_record_t* job = find_job_record(claimant);
    const job_record_t* pointer = job;
    if (job == nullptr || job->details == nullptr || !IS_JOB_PENDING(pointer)) {
        return Error{name + " does not wait any more"};
    }
    const OwnedBitmap wanted(bit_alloc(node_record_count));
    for (const std::string& node_name : nodes) {
        const node_record_t* node = find_node_record(mutable_text(node_name.c_str()));
        if (node == nullptr) {
            return Error{"node " + node_name + " is not known to slurmctld"};
        }
        if (bit_test(avail_node_bitmap, node->index) == 0) {
            return Error{"node " + node_name + " is down or drains"};
        }
        bit_set(wanted.get(), node->index);
    }
    const RecordKeeper keeper(*job);
    part_record_t* partition = partition_with(*job, wanted.get());
    if (partition == nullptr) {
        return Error{name + ": none of its partitions has all the nodes of the plan"};
    }
    job->part_ptr = partition;
    if (job->details->exc_node_bitmap != nullptr &&
        bit_overlap_any(job->details->exc_node_bitmap, wanted.get()) != 0) {
        return Error{name + " may not use all nodes of the plan (--exclude)"};
    }
    if (job->details->req_node_bitmap != nullptr &&
        bit_super_set(job->details->req_node_bitmap, wanted.get()) == 0) {
        return Error{name + " needs nodes that are not in the plan (--nodelist)"};
    }
    std::time_t when = std::time(nullptr);
    OwnedBitmap open;
    OwnedBitmap closed_cores;
    bool overlap = false;
    if (job_test_resv(job, &when, true, open.out(), closed_cores.out(), &overlap, false) !=
            SLURM_SUCCESS ||
        open.get() == nullptr || bit_super_set(wanted.get(), open.get()) == 0) {
        return Error{name + ": a reservation is in the way on the plan's nodes"};
    }
    std::vector<job_record_t*> leaving;
    const OwnedList candidates(list_create(nullptr));
    for (const JobId id : victims) {
        job_record_t* victim = find_job_record(id);
        if (victim != nullptr && is_het_component(*victim)) {
            victim = find_job_record(victim->het_job_id);
        }
        if (victim != nullptr &&
            std::find(leaving.begin(), leaving.end(), victim) == leaving.end()) {
            if (is_spared(*victim)) {
                return Error{"job " + std::to_string(victim->job_id) +
                             " is on a partition with PreemptMode=OFF and is not taken"};
            }
            leaving.push_back(victim);
            list_append(candidates.get(), victim);
        }
    }
    if (held_by_limit(*job, leaving)) {
        return Error{name + " is held back by a limit: " +
                     text_of(job_reason_string(static_cast<job_state_reason>(job->state_reason)))};
    }
    const std::uint32_t fewest = std::max(job->details->min_nodes, partition->min_nodes);
    const std::uint32_t most =
        std::min({job->details->max_nodes != 0 ? job->details->max_nodes : partition->max_nodes,
                  partition->max_nodes, kMostNodes});
    job->bit_flags |= TEST_NOW_ONLY;
    OwnedList used;
    const int rc = select_g_job_test(job, wanted.get(), fewest, most, fewest, SELECT_MODE_WILL_RUN,
                                     candidates.get(), used.out(), closed_cores.get());
    if (rc != SLURM_SUCCESS) {
        return Error{name + " would not fit on the plan's nodes with the victims gone"};
    }
    return {};
}

}  // namespace tranche
