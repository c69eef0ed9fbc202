// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/node_sets.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace tranche {
namespace {

// The "gpu" entry of a node's GRES; nullptr where it has none.
const gres_node_state_t* gpus_of(const node_record_t& node) {
    const gres_node_state_t* found = nullptr;
    for_each_in<gres_state_t>(node.gres_list, [&](gres_state_t& gres) {
        if (gres.gres_name != nullptr && std::strcmp(gres.gres_name, "gpu") == 0) {
            found = static_cast<const gres_node_state_t*>(gres.gres_data);
            return false;
        }
        return true;
    });
    return found;
}

std::string main_type(const gres_node_state_t& gpus) {
    std::uint64_t most = 0;
    std::string name;
    for (int i = 0; i < gpus.type_cnt; ++i) {
        if (gpus.type_cnt_avail[i] > most) {
            most = gpus.type_cnt_avail[i];
            name = text_of(gpus.type_name[i]);
        }
    }
    return name;
}

// A node that does not respond, or is not known yet after a restart, is up until slurmctld says
// DOWN: runs and plans on it stand. Nothing is placed there meanwhile, verify() sees to it.
bool is_up(const node_record_t& node) {
    const node_record_t* pointer = &node;  // the macros take one
    return !IS_NODE_DOWN(pointer) && !IS_NODE_FUTURE(pointer) && !IS_NODE_REBOOT_ISSUED(pointer) &&
           !IS_NODE_INVALID_REG(pointer);
}

}  // namespace

void read_nodes(std::vector<HostNode>& out) {
    out.reserve(static_cast<std::size_t>(node_record_count));
    for (int i = 0; i < node_record_count; ++i) {
        HostNode& to = out.emplace_back();
        const node_record_t* node = node_record_table_ptr[i];
        if (node == nullptr || node->name == nullptr) {
            to.up = false;
            continue;
        }
        to.name = node->name;
        if (const gres_node_state_t* gpus = gpus_of(*node); gpus != nullptr) {
            to.gpus = gpus->gres_cnt_avail == NO_VAL64
                          ? 0
                          : static_cast<std::int64_t>(gpus->gres_cnt_avail);
            to.gpu_type = main_type(*gpus);
        }
        to.cpus = node->cpus_efctv != 0 ? node->cpus_efctv : node->cpus;
        to.memory_mib = static_cast<std::int64_t>(
            node->real_memory - std::min(node->real_memory, node->mem_spec_limit));
        to.up = is_up(*node);
        to.draining = IS_NODE_DRAIN(node) || IS_NODE_FAIL(node);
        to.completing = IS_NODE_COMPLETING(node);
        to.reason = text_of(node->reason);
    }
}

NodeSets::NodeSets(HostSnapshot& snapshot) : snapshot_(snapshot) {
    reserved_.assign(snapshot_.nodes.size(), false);
    const std::time_t now = static_cast<std::time_t>(snapshot_.now);
    for_each_in<slurmctld_resv_t>(resv_list, [&](slurmctld_resv_t& reservation) {
        if (reservation.node_bitmap == nullptr ||
            (reservation.ctld_flags & RESV_CTLD_FULL_NODE) == 0 || reservation.start_time > now ||
            reservation.end_time <= now) {
            return;
        }
        const Bits nodes = from(reservation.node_bitmap);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            reserved_[i] = reserved_[i] || nodes[i];
        }
    });
}

NodeSets::Bits NodeSets::from(const bitstr_t* bitmap) const {
    Bits bits(snapshot_.nodes.size(), false);
    if (bitmap == nullptr) {
        return bits;
    }
    bitstr_t* map = const_cast<bitstr_t*>(bitmap);  // only read
    const std::size_t size =
        std::min(bits.size(), static_cast<std::size_t>(std::max<std::int64_t>(bit_size(map), 0)));
    for (std::size_t i = 0; i < size; ++i) {
        bits[i] = bit_test(map, static_cast<bitoff_t>(i)) != 0;
    }
    return bits;
}

std::uint32_t NodeSets::add(Bits&& bits) {
    if (const auto known = index_.find(bits); known != index_.end()) {
        return known->second;
    }
    SetSummary summary;
    for (std::size_t i = 0; i < bits.size(); ++i) {
        const HostNode& node = snapshot_.nodes[i];
        if (!bits[i] || node.name.empty()) {
            continue;
        }
        const bool first = summary.nodes++ == 0;
        summary.most_gpus = std::max(summary.most_gpus, node.gpus);
        summary.fewest_gpus = first ? node.gpus : std::min(summary.fewest_gpus, node.gpus);
        summary.most_cpus = std::max(summary.most_cpus, node.cpus);
        summary.fewest_memory_mib =
            first ? node.memory_mib : std::min(summary.fewest_memory_mib, node.memory_mib);
        const node_record_t* record = node_record_table_ptr[i];
        summary.most_threads = std::max<std::int64_t>(summary.most_threads, record->tpc);
    }
    const std::uint32_t set = static_cast<std::uint32_t>(snapshot_.node_sets.size());
    snapshot_.node_sets.push_back(bits);
    summaries_.push_back(summary);
    index_.emplace(std::move(bits), set);
    return set;
}

NodeSets::Bits NodeSets::of_partitions(const job_record_t& job) const {
    if (job.part_ptr_list == nullptr) {
        return from(job.part_ptr != nullptr ? job.part_ptr->node_bitmap : nullptr);
    }
    Bits bits(snapshot_.nodes.size(), false);
    for_each_in<part_record_t>(job.part_ptr_list, [&](part_record_t& partition) {
        const Bits more = from(partition.node_bitmap);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = bits[i] || more[i];
        }
    });
    return bits;
}

const NodeSets::Bits& NodeSets::named(const char* node_list) {
    const auto [entry, is_new] = named_.try_emplace(node_list);
    if (is_new) {
        bitstr_t* bitmap = nullptr;
        if (node_name2bitmap(mutable_text(node_list), true, &bitmap) != SLURM_SUCCESS) {
            FREE_NULL_BITMAP(bitmap);
        }
        entry->second = from(bitmap);
        FREE_NULL_BITMAP(bitmap);
    }
    return entry->second;
}

// An upper bound where features are counted or exclusive alternatives: the nodes that match any of
// them. The placement is verified before anybody is evicted for it.
NodeSets::Bits NodeSets::with_features(List features) const {
    Bits bits(snapshot_.nodes.size(), true);
    bool first = true;
    bool all_of = true;
    for_each_in<job_feature_t>(features, [&](job_feature_t& feature) {
        Bits having(snapshot_.nodes.size(), false);
        for_each_in<node_feature_t>(active_feature_list, [&](node_feature_t& known) {
            if (known.name != nullptr && feature.name != nullptr &&
                std::strcmp(known.name, feature.name) == 0) {
                having = from(known.node_bitmap);
                return false;
            }
            return true;
        });
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = first ? having[i] : (all_of ? bits[i] && having[i] : bits[i] || having[i]);
        }
        first = false;
        all_of = feature.op_code == FEATURE_OP_AND;
    });
    return bits;
}

std::uint32_t NodeSets::of(const job_record_t& job) {
    const job_details* details = job.details;
    const bool plain =
        job.part_ptr_list == nullptr && job.resv_ptr == nullptr &&
        (details == nullptr || (details->features == nullptr && details->req_nodes == nullptr &&
                                details->exc_nodes == nullptr));
    if (plain) {
        if (const auto known = plain_.find(job.part_ptr); known != plain_.end()) {
            return known->second;
        }
    }
    Bits bits = of_partitions(job);
    const auto keep = [&](const Bits& other, bool wanted) {
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = bits[i] && other[i] == wanted;
        }
    };
    if (job.resv_ptr == nullptr) {
        keep(reserved_, false);
    } else if ((job.resv_ptr->flags & RESERVE_FLAG_FLEX) == 0) {
        keep(from(job.resv_ptr->node_bitmap), true);
    }
    if (details != nullptr && details->feature_list != nullptr) {
        keep(with_features(details->feature_list), true);
    }
    if (details != nullptr && details->exc_nodes != nullptr) {
        keep(named(details->exc_nodes), false);
    }
    if (details != nullptr && details->req_nodes != nullptr) {
        // Nodes that the job must have, not all that it may have.
        const Bits& required = named(details->req_nodes);
        const auto count = std::count(required.begin(), required.end(), true);
        if (count > 0 && static_cast<std::uint32_t>(count) >= details->min_nodes) {
            keep(required, true);
        }
    }
    const std::uint32_t set = add(std::move(bits));
    if (plain) {
        plain_.emplace(job.part_ptr, set);
    }
    return set;
}

void NodeSets::forget_partitions() {
    plain_.clear();
    gpu_partitions_.clear();
}

bool NodeSets::has_gpus(const part_record_t& partition) {
    const auto [entry, is_new] = gpu_partitions_.try_emplace(&partition, false);
    if (is_new) {
        const Bits bits = from(partition.node_bitmap);
        for (std::size_t i = 0; i < bits.size() && !entry->second; ++i) {
            entry->second = bits[i] && snapshot_.nodes[i].gpus > 0;
        }
    }
    return entry->second;
}

}  // namespace tranche
