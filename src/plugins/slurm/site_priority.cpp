// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugins/slurm/site_priority.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <fstream>
#include <mutex>
#include <sstream>
#include <utility>

#include "common/config/settings.hpp"

namespace tranche {
namespace {

constexpr std::uint32_t kSeries = 0xffff00;  // of a version: 22.05 without the .8

struct Rehearsal {
    bool on = false;
    std::shared_ptr<SitePriority> plugin;
    std::string complaint;
};

std::mutex mutex;  // a leaf: copies only
// Never destroyed: the plugin's own thread may outlive this library's destructors.
Rehearsal& state() {
    static Rehearsal& rehearsal = *new Rehearsal;
    return rehearsal;
}

Settings readable_settings_file() {
    const std::ifstream file(settings_path());
    std::ostringstream text;
    if (file.is_open()) {
        text << file.rdbuf();
    }
    return readable_settings(text.str());
}

// "priority/multifactor" is priority_multifactor.so in one of PluginDir's folders.
std::string path_of(std::string type) {
    type[type.find('/')] = '_';
    const std::string folders = text_of(slurm_conf.plugindir);
    for (std::size_t at = 0; at <= folders.size();) {
        const std::size_t end = std::min(folders.find(':', at), folders.size());
        const std::string path = folders.substr(at, end - at) + "/" + type + ".so";
        struct stat about {};
        if (stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
            return path;
        }
        at = end + 1;
    }
    return {};
}

template <typename Function>
bool find(void* library, const char* name, Function*& out) {
    out = reinterpret_cast<Function*>(dlsym(library, name));
    return out != nullptr;
}

}  // namespace

std::string settings_path() {
    const std::string beside = text_of(slurm_conf.slurm_conf);
    const std::size_t slash = beside.rfind('/');
    return (slash == std::string::npos ? std::string("/etc/slurm") : beside.substr(0, slash)) +
           "/tranche.conf";
}

SitePriority::~SitePriority() {
    if (library_ != nullptr) {
        dlclose(library_);
    }
}

void start_rehearsal() {
    const Settings settings = readable_settings_file();
    Rehearsal next;
    next.on = settings.dry_run;
    if (next.on) {
        const std::string& type = settings.dry_run_priority_type;
        const std::string path = path_of(type);
        auto plugin = std::make_shared<SitePriority>();
        int (*init)() = nullptr;
        const char* name = nullptr;
        const std::uint32_t* version = nullptr;
        std::string trouble;
        // Its references are bound to slurmctld first, as those of every plugin.
        if (path.empty()) {
            trouble = "there is no such plugin in PluginDir=" + text_of(slurm_conf.plugindir);
        } else if (plugin->library_ = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
                   plugin->library_ == nullptr) {
            const char* why = dlerror();
            trouble = text_of(why);
        } else if (void* library = plugin->library_;
                   !find(library, "plugin_type", name) || text_of(name) != type) {
            trouble = path + " is another plugin";
        } else if (!find(library, "plugin_version", version) ||
                   ((*version ^ std::uint32_t{SLURM_VERSION_NUMBER}) & kSeries) != 0) {
            trouble = path + " is of another series of Slurm";
        } else if (!find(library, "init", init) || !find(library, "fini", plugin->fini_) ||
                   !find(library, "priority_p_set", plugin->set) ||
                   !find(library, "priority_p_reconfig", plugin->reconfigure) ||
                   !find(library, "priority_p_set_assoc_usage", plugin->set_assoc_usage) ||
                   !find(library, "priority_p_calc_fs_factor", plugin->fs_factor) ||
                   !find(library, "priority_p_get_priority_factors_list", plugin->factors) ||
                   !find(library, "priority_p_job_end", plugin->job_end)) {
            trouble = path + " lacks an entry point";
        } else if (init() != SLURM_SUCCESS) {
            trouble = path + " does not start";
        }
        if (trouble.empty()) {
            next.plugin = std::move(plugin);
        } else {
            next.complaint = "DryRun=yes, but DryRunPriorityType=" + type +
                             " cannot be used: " + trouble +
                             "; the queue is ordered by submission until slurmctld is restarted";
        }
    }
    const std::lock_guard lock(mutex);
    std::swap(state(), next);
}

void stop_rehearsal() {
    Rehearsal last;
    {
        const std::lock_guard lock(mutex);
        std::swap(state(), last);
    }
    if (last.plugin != nullptr) {
        last.plugin->fini_();
    }
}

bool rehearses() noexcept {
    const std::lock_guard lock(mutex);
    return state().on;
}

std::shared_ptr<const SitePriority> site_priority() noexcept {
    const std::lock_guard lock(mutex);
    return state().plugin;
}

std::string rehearsal_complaint() {
    const std::lock_guard lock(mutex);
    return state().complaint;
}

}  // namespace tranche
