// SPDX-License-Identifier: GPL-2.0-or-later
// The simulator decides with the core's own objects: what sreplay is linked from, and who defines
// what in the two libraries.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace tranche::boundary {
namespace {

std::string read_all(const std::string& name) {
    std::ifstream file(name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Words of NAME = …, continued lines included.
std::set<std::string> words_of(const std::string& makefile, const std::string& name) {
    std::string text = makefile;
    for (std::size_t at = 0; (at = text.find("\\\n", at)) != std::string::npos;) {
        text.replace(at, 2, " ");
    }
    std::set<std::string> words;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name + " =") || line.starts_with(name + " +=")) {
            std::istringstream rest(line.substr(line.find('=') + 1));
            for (std::string word; rest >> word;) {
                words.insert(word);
            }
        }
    }
    return words;
}

// Symbols of a library by nm's letter: T is defined code, U is wanted from elsewhere.
std::map<char, std::set<std::string>> symbols_of(const std::string& library) {
    std::map<char, std::set<std::string>> symbols;
    const std::string command = "nm -C '" TRANCHE_BUILD_DIR "/.libs/" + library + "' 2>/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return symbols;
    }
    std::array<char, 8192> buffer{};
    while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
        std::string line(buffer.data());
        line.erase(line.find_last_not_of('\n') + 1);
        // 16 digits or blanks, a blank, the letter, a blank, the name.
        if (line.size() > 19 && line[18] == ' ') {
            symbols[line[17]].insert(line.substr(19));
        }
    }
    pclose(pipe);
    return symbols;
}

TEST(ReplayLink, sreplay_is_linked_from_the_simulator_and_the_core_and_nothing_else) {
    const std::string tools = read_all(TRANCHE_SOURCE_DIR "/src/tools/local.am");
    const std::set<std::string> allowed = {"libtranche_sim.la", "$(tool_libs)", "$(ZLIB_LIBS)",
                                           "$(SLURM_LIBS)"};
    const std::set<std::string> libraries = words_of(tools, "sreplay_LDADD");
    EXPECT_EQ(libraries, allowed);
    EXPECT_EQ(words_of(tools, "tool_libs"),
              (std::set<std::string>{"libtranche_core.la", "$(core_libs)"}));
    for (const std::string& source : words_of(tools, "sreplay_SOURCES")) {
        EXPECT_TRUE(source == "$(command_sources)" || source.starts_with("src/tools/")) << source;
    }
    const std::string sim = read_all(TRANCHE_SOURCE_DIR "/src/sim/local.am");
    const std::set<std::string> sources = words_of(sim, "sim_sources");
    EXPECT_GT(sources.size(), 10U);
    for (const std::string& source : sources) {
        EXPECT_TRUE(source.starts_with("src/sim/")) << source;
    }
}

TEST(ReplayLink, nothing_that_the_core_defines_is_defined_by_the_simulator_too) {
    const auto core = symbols_of("libtranche_core.a"), sim = symbols_of("libtranche_sim.a");
    ASSERT_GT(core.at('T').size(), 100U);
    ASSERT_GT(sim.at('T').size(), 50U);
    for (const std::string& name : sim.at('T')) {
        EXPECT_FALSE(core.at('T').contains(name)) << name;
    }
}

TEST(ReplayLink, the_simulator_takes_the_pass_and_the_standings_from_the_core) {
    const auto core = symbols_of("libtranche_core.a"), sim = symbols_of("libtranche_sim.a");
    for (const char* part : {"pass(", "UsageLedger::standings("}) {
        EXPECT_TRUE(std::any_of(sim.at('U').begin(), sim.at('U').end(),
                                [&](const std::string& name) {
                                    return name.find(part) != std::string::npos &&
                                           core.at('T').contains(name);
                                }))
            << part;
    }
}

}  // namespace
}  // namespace tranche::boundary
