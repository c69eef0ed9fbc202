// SPDX-License-Identifier: GPL-2.0-or-later
// A plan's nodes as the claimant's required nodes.
//
// Only the bitmap is set, never the text: the text is what the user said with --nodelist, the
// bitmap is rebuilt from it by reconfigure and restart and by us when the pin ends. A pinned
// claimant at the top of the queue keeps lower jobs off its nodes in the main scheduler without
// closing the partition, and in backfill (job_scheduler.c, backfill.c of 22.05.8).
#include "plugins/slurm/pins.hpp"

#include "plugins/slurm/entrance.hpp"
#include "plugins/slurm/job_records.hpp"
#include "plugins/slurm/slurm_headers.hpp"
#include "plugins/slurm/slurm_host.hpp"

namespace tranche {

bitstr_t* nodes_of_user(const job_details& details) {
    bitstr_t* bitmap = nullptr;
    if (details.req_nodes != nullptr && details.req_nodes[0] != '\0' &&
        node_name2bitmap(details.req_nodes, true, &bitmap) != SLURM_SUCCESS) {
        FREE_NULL_BITMAP(bitmap);
    }
    return bitmap;
}

namespace {

bool same(bitstr_t* a, bitstr_t* b) {
    if (a == nullptr || b == nullptr) {
        return a == b;
    }
    return bit_size(a) == bit_size(b) && bit_equal(a, b) != 0;
}

// The plan's nodes and the user's own; nullptr if one of them is not known.
bitstr_t* pinned_nodes(const job_details& details, const std::vector<std::string>& nodes) {
    bitstr_t* bitmap = nodes_of_user(details);
    if (bitmap == nullptr) {
        bitmap = bit_alloc(node_record_count);
    }
    for (const std::string& name : nodes) {
        const node_record_t* node = find_node_record(mutable_text(name.c_str()));
        if (node == nullptr) {
            FREE_NULL_BITMAP(bitmap);
            return nullptr;
        }
        bit_set(bitmap, node->index);
    }
    return bitmap;
}

bool takes_pin(const job_record_t* job) {
    return job != nullptr && job->details != nullptr && IS_JOB_PENDING(job);
}

void restore(job_record_t& job) {
    if (job.details == nullptr) {
        return;
    }
    bitstr_t* own = nodes_of_user(*job.details);
    if (same(own, job.details->req_node_bitmap)) {
        FREE_NULL_BITMAP(own);
        return;
    }
    FREE_NULL_BITMAP(job.details->req_node_bitmap);
    job.details->req_node_bitmap = own;
}

}  // namespace

void SlurmHost::pin(JobId claimant, const std::vector<std::string>& nodes) {
    // Most calls find the pin in place: read locks tell.
    {
        const ControllerLock lock(kReadEverything);
        const job_record_t* job = find_job_record(claimant);
        if (!takes_pin(job)) {
            return;
        }
        bitstr_t* wanted = pinned_nodes(*job->details, nodes);
        const bool done = wanted == nullptr || same(wanted, job->details->req_node_bitmap);
        FREE_NULL_BITMAP(wanted);
        if (done) {
            return;
        }
    }
    const ControllerLock lock(kWriteJobs);
    job_record_t* job = find_job_record(claimant);
    if (!takes_pin(job)) {
        return;
    }
    bitstr_t* wanted = pinned_nodes(*job->details, nodes);
    if (wanted == nullptr) {
        return;
    }
    const std::uint32_t most = job->details->max_nodes;
    if (most != 0 && most != NO_VAL && static_cast<std::uint32_t>(bit_set_count(wanted)) > most) {
        // With more required nodes than it may have the job could never start.
        FREE_NULL_BITMAP(wanted);
        return;
    }
    // A job that is kept off nodes it must have would be impossible to slurmctld.
    lift_entrance(*job);
    FREE_NULL_BITMAP(job->details->req_node_bitmap);
    job->details->req_node_bitmap = wanted;
    pinned_.insert(claimant);
}

void SlurmHost::unpin(JobId claimant) {
    const ControllerLock lock(kWriteJobs);
    pinned_.erase(claimant);
    job_record_t* job = find_job_record(claimant);
    if (job == nullptr) {
        return;
    }
    if (job->het_job_list != nullptr) {
        for_each_in<job_record_t>(job->het_job_list, [&](job_record_t& component) {
            pinned_.erase(component.job_id);
            restore(component);
        });
        return;
    }
    restore(*job);
    // A task that started took the pin along under another id, and the rest of its array has a
    // copy of it (job_array_split).
    if (job->array_job_id == 0) {
        return;
    }
    const std::uint32_t array = job->array_job_id;
    for_each_in<job_record_t>(job_list, [&](job_record_t& record) {
        if (record.array_job_id == array && !pinned_.contains(record.job_id)) {
            restore(record);
        }
    });
}

}  // namespace tranche
