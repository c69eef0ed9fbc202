// SPDX-License-Identifier: GPL-2.0-or-later
// Every rule of the policy earns its place: left out, its own scenarios fail and the others hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "property/rule_exceptions.hpp"
#include "sim/rule_switches.hpp"
#include "sim/scenario.hpp"

namespace tranche::test {
namespace {

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

const std::vector<sim::Scenario>& scenarios() {
    static const std::vector<sim::Scenario> all = [] {
        std::vector<std::filesystem::path> files;
        for (const auto& entry :
             std::filesystem::directory_iterator(TRANCHE_SOURCE_DIR "/test/scenarios")) {
            files.push_back(entry.path());
        }
        std::sort(files.begin(), files.end());
        std::vector<sim::Scenario> read;
        for (const auto& file : files) {
            auto scenario = sim::read_scenario(text_of(file), file.filename().string());
            EXPECT_TRUE(scenario.ok()) << scenario.error();
            if (scenario.ok()) {
                read.push_back(std::move(*scenario));
            }
        }
        return read;
    }();
    return all;
}

// The first expectation that fails without the rule; empty: it holds.
std::string failure_without(const sim::Scenario& scenario, const sim::RuleSwitch& rule) {
    sim::Scenario without = scenario;
    without.settings = sim::without_rule(std::move(without.settings), rule);
    try {
        const auto outcome = sim::check_scenario(without);
        return outcome.holds() ? std::string() : outcome.failures.front();
    } catch (const std::logic_error& defect) {
        return defect.what();
    }
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        words.push_back(text.substr(0, text.find(' ')));
        text.remove_prefix(std::min(words.back().size() + 1, text.size()));
    }
    return words;
}

enum class Excepted : std::uint8_t { no, as_one_of_a_kind, by_name };

Excepted exception_of(const sim::Scenario& scenario, std::string_view rule) {
    for (const RuleException& exception : kRuleExceptions) {
        if (exception.rule != rule) {
            continue;
        }
        for (std::string_view word : words_of(exception.cases)) {
            if (word == scenario.name) {
                return Excepted::by_name;
            }
            if (word.back() == '*' && scenario.rule.starts_with(word.substr(0, word.size() - 1))) {
                return Excepted::as_one_of_a_kind;
            }
        }
    }
    return Excepted::no;
}

// Under a sanitizer, which makes each run five times as long, every fifth of the other rules'
// cases.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kEvery = 5;
#else
constexpr std::size_t kEvery = 1;
#endif

class WithoutRule : public testing::TestWithParam<sim::RuleSwitch> {};

TEST_P(WithoutRule, its_own_scenarios_fail_and_the_others_hold) {
    const sim::RuleSwitch& rule = GetParam();
    std::size_t own = 0, number = 0;
    for (const sim::Scenario& scenario : scenarios()) {
        if (scenario.rule != rule.name && ++number % kEvery != 0) {
            continue;
        }
        const std::string failure = failure_without(scenario, rule);
        if (scenario.rule == rule.name) {
            ++own;
            EXPECT_NE(failure, "") << scenario.name << " holds without " << rule.name
                                   << ": a case that holds without its rule is no case";
            continue;
        }
        const Excepted excepted = exception_of(scenario, rule.name);
        if (excepted == Excepted::no) {
            EXPECT_EQ(failure, "")
                << scenario.name << " (" << scenario.rule << ") fails without " << rule.name;
        } else if (excepted == Excepted::by_name) {
            EXPECT_NE(failure, "")
                << scenario.name << " holds without " << rule.name << " and need not be excepted";
        }
    }
    EXPECT_GT(own, 0U) << "no scenario is about " << rule.name;
}

INSTANTIATE_TEST_SUITE_P(Rules, WithoutRule, testing::ValuesIn(sim::rule_switches()),
                         [](const auto& rule) {
                             std::string name(rule.param.name);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(RuleSwitches, every_scenario_names_a_rule_or_is_a_definition) {
    for (const sim::Scenario& scenario : scenarios()) {
        EXPECT_TRUE(scenario.rule == "definition" ||
                    sim::find_rule_switch(scenario.rule) != nullptr)
            << scenario.name << " is about \"" << scenario.rule << "\"";
    }
}

TEST(RuleSwitches, exceptions_name_rules_and_scenarios_that_are_there) {
    for (const RuleException& exception : kRuleExceptions) {
        EXPECT_NE(sim::find_rule_switch(exception.rule), nullptr) << exception.rule;
        EXPECT_NE(exception.reason, "");
        for (const std::string_view word : words_of(exception.cases)) {
            const bool known =
                word.back() == '*' ||
                std::any_of(scenarios().begin(), scenarios().end(),
                            [word](const sim::Scenario& each) { return each.name == word; });
            EXPECT_TRUE(known) << exception.rule << ": " << word;
        }
    }
}

TEST(RuleSwitches, each_bit_of_the_core_is_left_out_by_one_rule) {
    std::set<Rule> bits;
    std::set<std::string_view> names;
    for (const sim::RuleSwitch& rule : sim::rule_switches()) {
        EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
        EXPECT_NE(rule.rule.has_value(), !rule.settings.empty()) << rule.name;
        if (rule.rule) {
            EXPECT_TRUE(bits.insert(*rule.rule).second) << rule.name;
        }
    }
    EXPECT_EQ(bits.size(), static_cast<std::size_t>(Rule::count_));
}

TEST(RuleSwitches, what_a_setting_has_switched_off_stays_off) {
    const sim::RuleSwitch& cap = *sim::find_rule_switch("express-lane-cap");
    Settings settings = sim::scenario_defaults();
    EXPECT_EQ(sim::without_rule(settings, cap).express_fraction_ppm, 0);
    settings.express_fraction_ppm = 100'000;
    EXPECT_EQ(sim::without_rule(settings, cap).express_fraction_ppm, kPpm);
}

// tranche-scenario(5): the list as the table has it.
TEST(RuleSwitches, the_manual_page_holds_the_table) {
    const auto in_roff = [](std::string_view text) {
        std::string roff;
        for (const char c : text) {
            roff += c == '-' ? "\\-" : std::string(1, c);
        }
        return roff;
    };
    std::string list;
    for (const sim::RuleSwitch& rule : sim::rule_switches()) {
        list += ".TP\n\\fB" + in_roff(rule.name) + "\\fR\n" + in_roff(rule.text) + ".";
        for (const std::string_view setting : words_of(rule.settings)) {
            list += " \\fB" + in_roff(setting) + "\\fR";
        }
        list += "\n";
    }
    const std::string page = text_of(TRANCHE_SOURCE_DIR "/doc/man/tranche-scenario.5");
    const std::string begin = ".\\\" Rules begin.\n", end = ".\\\" Rules end.\n";
    const std::size_t from = page.find(begin), to = page.find(end);
    ASSERT_NE(from, std::string::npos);
    ASSERT_NE(to, std::string::npos);
    EXPECT_EQ(page.substr(from + begin.size(), to - from - begin.size()), list);
}

}  // namespace
}  // namespace tranche::test
