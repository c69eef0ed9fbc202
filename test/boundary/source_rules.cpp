// SPDX-License-Identifier: GPL-2.0-or-later
#include "boundary/source_rules.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

namespace tranche::boundary {
namespace {

namespace fs = std::filesystem;

// Includes go to a lower level or stay in the folder.
const std::map<std::string, int> kLevels = {
    {"common/base", 0},
    {"common/units", 1},
    {"common/model", 2},
    {"common/config", 3},
    {"common/policy", 4},
    {"common/wire", 5},
    {"common/store", 5},
    {"common/report", 5},
    {"engine", 6},
    {"sim", 6},
    {"plugins/slurm", 7},
    {"plugins/priority_budget", 8},
    {"plugins/preempt_contract", 8},
    {"plugins/job_submit_contract", 8},
    {"plugins/spank_contract", 8},
    {"tools", 8},
};

struct Ban {
    std::regex pattern;
    std::string what;
};

// Of the core and the simulator: everything that would make two equal inputs give two answers, or
// that a host (slurmctld, the command) has to decide.
const std::vector<Ban> kCoreBans = {
    {std::regex(
         R"(#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|future|stop_token)>)"),
     "threads and locks belong to the engine"},
    {std::regex(R"(#\s*include\s*<(chrono|sys/time\.h)>)"),
     "the core has no clock; instants are arguments"},
    {std::regex(
         R"((^|[^\w.:>])(std::|::)?(time|clock_gettime|gettimeofday|localtime|localtime_r|mktime)\s*\()"),
     "the core has no clock; instants are arguments"},
    {std::regex(R"(\b(system_clock|steady_clock|high_resolution_clock|random_device)\b)"),
     "the core has no clock and no chance"},
    {std::regex(
         R"(#\s*include\s*<(iostream|syslog\.h)>|\b(std::cerr|std::cout|syslog)\b|\bstderr\b)"),
     "the core does not log"},
};

// Of all but the simulator and sreplay: rules of the policy hold.
const std::vector<Ban> kRuleBans = {
    {std::regex(R"(\brules_off\b)"), "only the simulator leaves out rules"},
};
// Where the bits are kept.
constexpr const char* kRuleBits = "common/config/settings.hpp";

// Of all that slurmctld loads.
const std::vector<Ban> kLoadedBans = {
    {std::regex(R"(#\s*include\s*<iostream>)"), "<iostream> has static constructors"},
};

// The text with comments and the inside of literals blanked, line breaks kept.
std::string code_of(const std::string& text) {
    enum class In { kCode, kLine, kBlock, kString, kChar } in = In::kCode;
    std::string code;
    code.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const char next = i + 1 < text.size() ? text[i + 1] : '\0';
        bool blank = in != In::kCode;
        switch (in) {
            case In::kCode:
                if (c == '/' && (next == '/' || next == '*')) {
                    in = next == '/' ? In::kLine : In::kBlock;
                    code += ' ';
                    ++i;
                    blank = true;
                } else if (c == '"') {
                    in = In::kString;
                } else if (c == '\'' &&
                           (i == 0 || !isalnum(static_cast<unsigned char>(text[i - 1])))) {
                    in = In::kChar;  // not the separator of 1'000
                }
                break;
            case In::kLine:
                if (c == '\n')
                    in = In::kCode;
                break;
            case In::kBlock:
                if (c == '*' && next == '/') {
                    code += ' ';
                    ++i;
                    in = In::kCode;
                }
                break;
            case In::kString:
            case In::kChar:
                if (c == '\\') {
                    code += ' ';
                    ++i;
                } else if (c == (in == In::kString ? '"' : '\'') || c == '\n') {
                    in = In::kCode;
                    blank = false;
                }
                break;
        }
        code += c == '\n' || !blank ? c : ' ';
    }
    return code;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

// The folder of a file below src/ as kLevels knows it.
std::optional<std::string> folder_of(const std::string& below_src) {
    const size_t slash = below_src.rfind('/');
    if (slash == std::string::npos || !kLevels.contains(below_src.substr(0, slash)))
        return {};
    return below_src.substr(0, slash);
}

bool is_slurms(const std::string& header) {
    return header.starts_with("slurm/") || header.starts_with("src/") || header == "config.h";
}

bool may_know_slurm(const fs::path& below_src) {
    return below_src.parent_path() == "plugins/slurm" ||
           below_src.stem().string().ends_with("_slurm");
}

class Reader {
  public:
    Reader(const fs::path& tree, Breaches& breaches) : src_(tree / "src"), breaches_(breaches) {}

    void read(const fs::path& file) {
        below_src_ = fs::relative(file, src_).generic_string();
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        const std::vector<std::string> raw = lines_of(text.str());
        const std::vector<std::string> code = lines_of(code_of(text.str()));
        folder_ = folder_of(below_src_);
        if (!folder_) {
            breach(1, "this folder has no place in the order of includes");
            return;
        }
        const int level = kLevels.at(*folder_);
        for (size_t i = 0; i < code.size(); ++i) {
            // Literals are blanked in `code`, and a header's name looks like one.
            static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)([>"]))");
            std::smatch match;
            static const std::regex kDirective(R"(^\s*#\s*include\b)");
            if (std::regex_search(code[i], kDirective) &&
                std::regex_search(raw[i], match, kInclude))
                check_include(i + 1, match[1], match[2] == "\"", level);
            if (level <= kLevels.at("common/report") || *folder_ == "sim")
                check_bans(i + 1, code[i], kCoreBans);
            else if (*folder_ != "tools")
                check_bans(i + 1, code[i], kLoadedBans);
            if (*folder_ != "sim" && !below_src_.starts_with("tools/sreplay") &&
                below_src_ != kRuleBits)
                check_bans(i + 1, code[i], kRuleBans);
        }
    }

  private:
    void check_include(size_t line, const std::string& header, bool quoted, int level) {
        if (is_slurms(header)) {
            if (!may_know_slurm(below_src_))
                breach(line, header + ": only src/plugins/slurm and *_slurm.cpp know Slurm");
            return;
        }
        if (!quoted || header == "tranche_config.h")
            return;
        const std::optional<std::string> other = folder_of(header);
        if (!fs::exists(src_ / header) || !other) {
            breach(line, header + ": no such file below src/, where paths of includes begin");
        } else if (*other != *folder_ && kLevels.at(*other) >= level) {
            breach(line, header + ": " + *folder_ + " is not above " + *other);
        }
    }

    void check_bans(size_t line, const std::string& code, const std::vector<Ban>& bans) {
        for (const Ban& ban : bans)
            if (std::regex_search(code, ban.pattern))
                breach(line, ban.what);
    }

    void breach(size_t line, const std::string& what) {
        breaches_.push_back("src/" + below_src_ + ":" + std::to_string(line) + ": " + what);
    }

    fs::path src_;
    Breaches& breaches_;
    std::string below_src_;
    std::optional<std::string> folder_;
};

bool is_source(const fs::directory_entry& entry) {
    const std::string extension = entry.path().extension().string();
    return entry.is_regular_file() && entry.path().filename() != "tranche_config.h" &&
           (extension == ".hpp" || extension == ".cpp" || extension == ".h");
}

}  // namespace

Breaches breaches_of(const fs::path& tree) {
    Breaches breaches;
    Reader reader(tree, breaches);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(tree / "src")) {
        if (is_source(entry))
            reader.read(entry.path());
    }
    std::sort(breaches.begin(), breaches.end());
    return breaches;
}

Breaches unlisted_in(const fs::path& tree) {
    std::set<std::string> listed;  // files, and folders given to EXTRA_DIST
    std::vector<std::string> sources;
    const fs::path wrong = fs::path(TRANCHE_SOURCE_DIR) / "test/boundary/wrong";
    for (const char* part : {"src", "test"}) {
        if (!fs::exists(tree / part))
            continue;
        for (auto it = fs::recursive_directory_iterator(tree / part); it != decltype(it)(); ++it) {
            if (it->path() == wrong) {
                it.disable_recursion_pending();
            } else if (it->path().filename() == "local.am") {
                std::ifstream file(it->path());
                for (std::string word; file >> word;)
                    listed.insert(word);
            } else if (is_source(*it)) {
                sources.push_back(fs::relative(it->path(), tree).generic_string());
            }
        }
    }
    Breaches unlisted;
    for (const std::string& source : sources) {
        if (!listed.contains(source) &&
            !listed.contains(fs::path(source).parent_path().generic_string())) {
            unlisted.push_back(source);
        }
    }
    std::sort(unlisted.begin(), unlisted.end());
    return unlisted;
}

}  // namespace tranche::boundary
