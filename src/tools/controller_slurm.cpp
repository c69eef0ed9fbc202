// SPDX-License-Identifier: GPL-2.0-or-later
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "common/base/quoted.hpp"
#include "common/config/settings.hpp"
#include "tools/controller.hpp"

namespace tranche {
namespace {

std::string text_of(const char* text) {
    return text == nullptr ? "" : text;
}

// "socket=/run/x,ttl=60" has munge's socket under "socket=".
std::string socket_of(const std::string& auth_info) {
    constexpr std::string_view kKey = "socket=";
    std::istringstream words(auth_info);
    for (std::string word; std::getline(words, word, ',');) {
        if (word.starts_with(kKey)) {
            return word.substr(kKey.size());
        }
    }
    return "";
}

// tranche.conf lies beside slurm.conf; a missing one has all defaults.
int service_port(const std::string& slurm_conf) {
    const char* said = std::getenv("SLURM_CONF");
    for (const std::string& beside : {said == nullptr ? std::string() : std::string(said),
                                      slurm_conf, std::string("/etc/slurm/slurm.conf")}) {
        if (beside.empty()) {
            continue;
        }
        const std::string path =
            std::filesystem::path(beside).replace_filename("tranche.conf").string();
        std::ifstream file(path);
        if (!file) {
            continue;
        }
        std::ostringstream text;
        text << file.rdbuf();
        return static_cast<int>(readable_settings(text.str()).service_port);
    }
    return static_cast<int>(Settings().service_port);
}

Status use_cluster(const std::string& cluster) {
    std::string name = cluster;
    List found = slurmdb_get_info_cluster(name.data());
    if (found == nullptr) {
        return Error{"cluster " + tranche::quoted(cluster) + " is not known to slurmdbd"};
    }
    ListIterator each = slurm_list_iterator_create(found);
    working_cluster_rec = static_cast<slurmdb_cluster_rec_t*>(slurm_list_next(each));
    slurm_list_iterator_destroy(each);
    // The record lives in the list, which is needed until the command ends.
    if (working_cluster_rec == nullptr) {
        return Error{"cluster " + tranche::quoted(cluster) + " is not known to slurmdbd"};
    }
    return {};
}

struct FreeConf {
    void operator()(slurm_conf_t* conf) const { slurm_free_ctl_conf(conf); }
};

Result<std::unique_ptr<slurm_conf_t, FreeConf>> load_conf() {
    slurm_conf_t* conf = nullptr;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) {
        return Error{std::string("slurmctld does not tell its configuration: ") +
                     slurm_strerror(errno)};
    }
    return std::unique_ptr<slurm_conf_t, FreeConf>(conf);
}

}  // namespace

Result<ServiceAddress> find_service(const std::string& cluster) {
    slurm_init(nullptr);
    auto conf = load_conf();
    if (!conf.ok() && cluster.empty()) {
        return conf.failure();
    }
    if (!cluster.empty() && (!conf.ok() || text_of((*conf)->cluster_name) != cluster)) {
        if (const Status status = use_cluster(cluster); !status.ok()) {
            return status.failure();
        }
        conf = load_conf();
        if (!conf.ok()) {
            return conf.failure();
        }
    }
    const slurm_conf_t& slurm = **conf;
    ServiceAddress address;
    address.cluster = text_of(slurm.cluster_name);
    address.slurm_uid = slurm.slurm_user_id;
    address.munge_socket = socket_of(text_of(slurm.authinfo));
    for (std::uint32_t i = 0; i < slurm.control_cnt; ++i) {
        const std::string host = text_of(slurm.control_addr[i]);
        address.hosts.push_back(host.empty() ? text_of(slurm.control_machine[i]) : host);
    }
    address.port = service_port(text_of(slurm.slurm_conf));
    return address;
}

}  // namespace tranche
