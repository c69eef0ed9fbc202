// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/workload_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"
#include "sim/calendar.hpp"
#include "sim/workload_reading.hpp"

namespace tranche::sim {
namespace {

constexpr std::size_t kLookedAt = 65536;  // bytes, for what a text is
constexpr std::size_t kNamesShown = 5;

// The first line that has a byte which no text has; 0: there is none.
std::size_t binary_line(std::string_view text) {
    std::size_t at = text.find('\0');
    for (std::size_t i = 0; i < std::min(text.size(), kLookedAt) && i < at; ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
            at = i;
        }
    }
    return at == std::string_view::npos
               ? 0
               : 1 + static_cast<std::size_t>(std::count(
                         text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

WorkloadFormat format_of(std::string_view text) {
    Lines lines(text.substr(0, kLookedAt));
    std::string_view line;
    while (lines.next(line)) {
        line = trimmed(line);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        if (line.front() == ';') {
            return WorkloadFormat::swf;
        }
        if (line.find(',') == std::string_view::npos && line.find('|') != std::string_view::npos) {
            return WorkloadFormat::sacct;
        }
        return line.find(',') == std::string_view::npos &&
                       line.find_first_not_of("0123456789 .\t-") == std::string_view::npos
                   ? WorkloadFormat::swf
                   : WorkloadFormat::csv;
    }
    return WorkloadFormat::csv;
}

std::string names_text(const std::map<std::string, std::size_t>& names) {
    std::string text;
    std::size_t shown = 0;
    for (const auto& [name, count] : names) {
        if (++shown > kNamesShown) {
            return text + " and " + std::to_string(names.size() - kNamesShown) + " more";
        }
        text += (text.empty() ? "" : ", ") + (name.empty() ? "(none)" : quoted(name));
    }
    return text;
}

// A name that check_budget_name takes.
std::string as_budget_name(const std::string& text) {
    std::string name;
    for (const char c : text.substr(0, kMaxBudgetNameLength)) {
        const bool letter =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        name += letter || (!name.empty() && std::strchr("_-.+@", c) != nullptr && c != '\0')
                    ? c
                    : (name.empty() ? 'x' : '_');
    }
    return name == kRootBudget ? "root_" : name;
}

// The names of the budgets of accounts, and of users where a job has no account. Different owners
// have different names; accounts are the same in any case, as for Slurm.
class OwnerNames {
  public:
    void add(const std::string& account, const std::string& user) {
        if (account.empty() && user.empty()) {
            return;
        }
        const bool is_user = account.empty();
        const auto [it, is_new] =
            owners_.try_emplace({is_user, is_user ? user : lower_case(account)});
        if (is_new) {
            it->second.shown = is_user ? user : account;
        } else if (!is_user && account != it->second.shown) {
            it->second.also.insert(account);
        }
    }

    // Owners whose own name will do keep it, the others get what is free.
    void choose() {
        for (auto& owner : owners_) {
            if (as_budget_name(owner.second.shown) == owner.second.shown) {
                take(owner.second, owner.second.shown);
            }
        }
        for (auto& owner : owners_) {
            const std::string wanted = as_budget_name(owner.second.shown);
            std::string name = wanted;
            for (std::size_t number = 2; owner.second.name.empty() && !take(owner.second, name);
                 ++number) {
                const std::string end = "." + std::to_string(number);
                name = wanted.substr(0, kMaxBudgetNameLength - end.size()) + end;
            }
        }
    }

    // By lower-case name.
    const std::map<std::string, std::string>& names() const { return names_; }
    std::string name_of(const std::string& account, const std::string& user) const {
        const auto it =
            owners_.find({account.empty(), account.empty() ? user : lower_case(account)});
        return it == owners_.end() ? std::string() : it->second.name;
    }

    void note(std::vector<std::string>& notes) const {
        std::vector<std::string> renamed, merged;
        for (const auto& each : owners_) {
            const Owner& owner = each.second;
            if (owner.name != owner.shown) {
                renamed.push_back((each.first.first ? "user " : "account ") + quoted(owner.shown) +
                                  " is " + owner.name);
            }
            for (const std::string& other : owner.also) {
                merged.push_back(quoted(other) + " is " + owner.name);
            }
        }
        if (!renamed.empty()) {
            notes.push_back("budgets whose names are not their owners' own: " + listed(renamed));
        }
        if (!merged.empty()) {
            notes.push_back("accounts are the same in upper and lower case: " + listed(merged));
        }
    }

  private:
    struct Owner {
        std::string shown, name;
        std::set<std::string> also;  // the same account in another case
    };

    bool take(Owner& owner, const std::string& name) {
        if (names_.emplace(lower_case(name), name).second) {
            owner.name = name;
            return true;
        }
        return false;
    }
    static std::string listed(const std::vector<std::string>& texts) {
        std::string text;
        for (std::size_t i = 0; i < texts.size() && i < kNamesShown; ++i) {
            text += (i == 0 ? "" : ", ") + texts[i];
        }
        return texts.size() > kNamesShown
                   ? text + " and " + std::to_string(texts.size() - kNamesShown) + " more"
                   : text;
    }

    std::map<std::pair<bool, std::string>, Owner> owners_;  // accounts, then users
    std::map<std::string, std::string> names_;
};

std::string gpus_text(std::int64_t gpus) {
    return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
}

}  // namespace

std::optional<WorkloadFormat> parse_workload_format(std::string_view text) {
    if (text == "csv") {
        return WorkloadFormat::csv;
    }
    if (text == "sacct") {
        return WorkloadFormat::sacct;
    }
    return text == "swf" ? std::optional(WorkloadFormat::swf) : std::nullopt;
}

Result<ReadWorkload> read_workload(std::string_view text, const std::string& file,
                                   std::optional<WorkloadFormat> format) {
    if (text.starts_with("\xEF\xBB\xBF")) {
        text.remove_prefix(3);
    }
    Gathering gathering(file);
    if (const std::size_t line = binary_line(text); line != 0) {
        gathering.mistakes.add(line, "this is not a text: it has control characters");
        return gathering.mistakes.error();
    }
    switch (format.value_or(format_of(text))) {
        case WorkloadFormat::csv:
            return read_csv(text, gathering);
        case WorkloadFormat::sacct:
            return read_sacct(text, gathering);
        case WorkloadFormat::swf:
            return read_swf(text, gathering);
    }
    return gathering.finish();
}

void leave_out_from(ReadWorkload& workload, std::int64_t until) {
    const auto first =
        std::partition_point(workload.jobs.begin(), workload.jobs.end(),
                             [&](const WorkloadJob& job) { return job.submit_at < until; });
    const auto kept = static_cast<std::size_t>(first - workload.jobs.begin());
    const std::size_t left = workload.jobs.size() - kept;
    if (left != 0) {
        workload.jobs.erase(first, workload.jobs.end());
        workload.origins.resize(kept);
        workload.notes.push_back(std::to_string(left) +
                                 (left == 1 ? " job is submitted after the end and left out"
                                            : " jobs are submitted after the end and left out"));
    }
}

Result<std::int64_t> parse_duration(std::string_view text) {
    const auto seconds = parse_seconds(text);
    if (!seconds || *seconds < 0 || *seconds > kLongestTimeSpanSeconds) {
        return Error{quoted(text) +
                     " is no duration; seconds, 90m, 12h, 30d or 1-12:00:00 would be right"};
    }
    return *seconds;
}

Result<std::int64_t> parse_instant(std::string_view text, std::optional<std::int64_t> zero_at) {
    if (const auto at = parse_calendar(text)) {
        if (!zero_at) {
            return Error{quoted(text) +
                         " is an instant of the calendar, and the jobs' times are plain seconds; "
                         "seconds or 30d would be right"};
        }
        return *at;
    }
    const auto seconds = parse_seconds(text);
    if (!seconds || *seconds < 0 || *seconds > kLongestTimeSpanSeconds) {
        return Error{quoted(text) +
                     " is no instant; seconds, 30d, 1-12:00:00 or 2024-05-01T12:30:00 would be "
                     "right"};
    }
    const bool counts_from_zero = zero_at && *seconds < kEpochFrom;
    return counts_from_zero ? *zero_at + *seconds : *seconds;
}

ClusterRoom::ClusterRoom(const SimCluster& cluster) {
    for (const SimNode& node : cluster.nodes) {
        for (const std::string& type : std::set<std::string>{"", node.gpu_type}) {
            kinds_[type].gpus.push_back(node.gpus);
            kinds_[type].sum += node.gpus;
        }
    }
    for (auto& kind : kinds_) {
        std::sort(kind.second.gpus.rbegin(), kind.second.gpus.rend());
    }
}

std::int64_t ClusterRoom::gpus() const {
    const auto all = kinds_.find("");
    return all == kinds_.end() ? 0 : all->second.sum;
}

std::string ClusterRoom::objection(const WorkloadJob& job) const {
    const auto kind = kinds_.find(job.gpu_type);
    if (kind == kinds_.end()) {
        return "asks for GPUs of the type " + quoted(job.gpu_type) +
               ", which the cluster does not have";
    }
    // Largest first.
    const std::vector<std::int64_t>& sizes = kind->second.gpus;
    if (job.gpus > kind->second.sum) {
        return "asks for " + std::to_string(job.gpus) + " GPUs; the cluster has " +
               std::to_string(kind->second.sum);
    }
    if (job.nodes > 0) {
        // Member m gets its even part; the largest parts come first.
        const std::int64_t large = job.gpus % job.nodes, part = job.gpus / job.nodes;
        const auto count = static_cast<std::int64_t>(sizes.size());
        const auto holds = [&](std::int64_t nodes, std::int64_t gpus) {
            return nodes == 0 ||
                   (nodes <= count && sizes[static_cast<std::size_t>(nodes - 1)] >= gpus);
        };
        if (!holds(large, part + 1) || !holds(job.nodes, part)) {
            return "asks for " + gpus_text(job.gpus) + " on " + std::to_string(job.nodes) +
                   (job.nodes == 1 ? " node" : " nodes") + "; the cluster's " +
                   (count == 1 ? std::string("one node has")
                               : std::to_string(count) + " nodes have") +
                   " at most " + std::to_string(sizes.front()) + (count == 1 ? "" : " each");
        }
    } else if (sizes.size() > 1 && job.gpus > 0 && sizes.front() == 0) {
        return "asks for GPUs; the cluster has none";
    }
    return {};
}

Status check_fits(const ReadWorkload& workload, const SimCluster& cluster) {
    const ClusterRoom room(cluster);
    Mistakes mistakes(workload.file);
    for (std::size_t i = 0; i < workload.jobs.size(); ++i) {
        if (const std::string what = room.objection(workload.jobs[i]); !what.empty()) {
            mistakes.add(workload.origins[i].line,
                         mistakes.wanted() ? "job " + quoted(workload.jobs[i].id) + " " + what
                                           : std::string());
        }
    }
    return mistakes.none() ? Status() : Status(mistakes.error());
}

void assign_budgets(ReadWorkload& workload, const BudgetTree& tree) {
    std::map<std::pair<std::string, std::string>, std::string> known;
    std::map<std::string, std::size_t> unknown;
    std::size_t unmatched = 0;
    for (WorkloadJob& job : workload.jobs) {
        if (!job.budget.empty()) {
            continue;
        }
        const auto [it, is_new] = known.try_emplace({job.account, job.user});
        if (is_new) {
            const auto match = tree.match(job.account, job.user);
            it->second = match.ok() ? match->name : std::string();
        }
        job.budget = it->second;
        if (job.budget.empty()) {
            ++unmatched;
            ++unknown[job.account.empty() ? job.user : job.account];
        }
    }
    if (unmatched != 0) {
        workload.notes.push_back("warning: no budget pays for " + std::to_string(unmatched) +
                                 (unmatched == 1 ? " job" : " jobs") + " of " +
                                 names_text(unknown) +
                                 (unmatched == 1 ? "; it runs free" : "; they run free"));
    }
}

Result<std::vector<Budget>> budgets_of_accounts(ReadWorkload& workload) {
    OwnerNames names;
    for (const WorkloadJob& job : workload.jobs) {
        names.add(job.account, job.user);
    }
    names.choose();
    if (names.names().empty()) {
        return Error{workload.file +
                     ": no job has an account or a user that a budget could pay for; "
                     "--assume users=10 draws users"};
    }
    for (WorkloadJob& job : workload.jobs) {
        job.budget = names.name_of(job.account, job.user);
    }
    std::vector<Budget> list;
    list.reserve(names.names().size());
    for (const auto& each : names.names()) {
        Budget& budget = list.emplace_back();
        budget.name = each.second;
    }
    names.note(workload.notes);
    return list;
}

}  // namespace tranche::sim
