// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/contract_request.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tranche {
namespace {

using Words = std::vector<std::string>;

std::string entry(const std::string& name, const std::string& value) {
    return "_SLURM_SPANK_OPTION_contract_" + name + "=" + value;
}

Settings settings_of(const std::string& text) {
    const auto settings = parse_settings(text, "tranche.conf");
    EXPECT_TRUE(settings.ok()) << (settings.ok() ? "" : settings.error());
    return settings.ok() ? settings.value() : Settings{};
}

Result<ContractTerms> ask(const Words& entries, const std::string& script = "",
                          const Words& environment = {}, const Settings& settings = {},
                          const ContractCircumstances& circumstances = {}) {
    const auto request = read_request(entries, script, environment);
    return request.ok() ? resolve_terms(request.value(), settings, circumstances)
                        : Result<ContractTerms>(request.failure());
}

ContractTerms granted(const Result<ContractTerms>& terms) {
    EXPECT_TRUE(terms.ok()) << (terms.ok() ? "" : terms.error());
    return terms.ok() ? terms.value() : ContractTerms{};
}

void expect_refused(const Result<ContractTerms>& terms, const std::string& expected) {
    ASSERT_FALSE(terms.ok()) << "accepted; expected: " << expected;
    EXPECT_NE(terms.error().find(expected), std::string::npos) << terms.error();
    EXPECT_EQ(terms.error().find('\n'), std::string::npos) << terms.error();
    EXPECT_LT(terms.error().size(), 500u);
}

TEST(ContractRequest, the_options_of_the_spank_plugin_are_read) {
    const ContractTerms terms =
        granted(ask({entry("min_runtime", "2h"), "OTHER=1", entry("resumable", "(null)"),
                     entry("team_priority", "High"), entry("budget", "projA")}));
    EXPECT_EQ(terms.min_runtime_seconds, 7200);
    EXPECT_TRUE(terms.resumable);
    EXPECT_EQ(terms.team_priority, TeamPriority::high);
    EXPECT_EQ(terms.budget, "projA");
    EXPECT_TRUE(terms.declared_min_runtime);
    EXPECT_FALSE(terms.free_first);
}

TEST(ContractRequest, free_first_is_read_from_all_three_places) {
    EXPECT_TRUE(granted(ask({entry("free_first", "(null)")})).free_first);
    EXPECT_TRUE(granted(ask({}, "#!/bin/sh\n#SBATCH --min-runtime=1h --free-first\n")).free_first);
    EXPECT_TRUE(granted(ask({}, "", {"TRANCHE_REQUEST_FREE_FIRST=yes"})).free_first);
    EXPECT_FALSE(granted(ask({entry("min_runtime", "1h")})).free_first);
    ContractCircumstances session;
    session.interactive = true;
    EXPECT_TRUE(granted(ask({entry("free_first", "(null)")}, "", {}, {}, session)).free_first);
}

TEST(ContractRequest, a_plain_number_is_minutes) {
    EXPECT_EQ(granted(ask({entry("min_runtime", "90")})).min_runtime_seconds, 5400);
}

TEST(ContractRequest, directives_of_the_script_are_read_up_to_its_first_command) {
    const std::string script =
        "#!/bin/bash\n"
        "#SBATCH --time=4:00:00 --min-runtime=30m\n"
        "# a comment\n"
        "\n"
        "#SBATCH --resumable # --budget=no\n"
        "#SBATCH --budget 'projA' --comment=\"--team-priority=low\"\n"
        "#SBATCH --resumables --min-runtimes=5\n"
        "python train.py\n"
        "#SBATCH --team-priority=urgent\n";
    const ContractTerms terms = granted(ask({}, script));
    EXPECT_EQ(terms.min_runtime_seconds, 1800);
    EXPECT_TRUE(terms.resumable);
    EXPECT_EQ(terms.budget, "projA");
    EXPECT_EQ(terms.team_priority, TeamPriority::normal);
}

TEST(ContractRequest, the_second_component_of_a_heterogeneous_script_is_not_read) {
    EXPECT_EQ(granted(ask({},
                          "#!/bin/sh\n#SBATCH --min-runtime=1h\n#SBATCH hetjob\n"
                          "#SBATCH --min-runtime=2h\n"))
                  .min_runtime_seconds,
              3600);
}

TEST(ContractRequest, scripts_with_carriage_returns_and_without_a_last_line_break_are_read) {
    EXPECT_EQ(
        granted(ask({}, "#!/bin/sh\r\n#SBATCH --min-runtime=1h\r\n#SBATCH --budget=a")).budget,
        "a");
}

TEST(ContractRequest, variables_of_the_environment_are_read) {
    const ContractTerms terms = granted(
        ask({}, "",
            {"HOME=/home/a", "TRANCHE_REQUEST_MIN_RUNTIME=2h", "TRANCHE_REQUEST_RESUMABLE=1",
             "TRANCHE_REQUEST_TEAM_PRIORITY=low", "TRANCHE_REQUEST_BUDGET=b", "TRANCHE_RUN=1"}));
    EXPECT_EQ(terms.min_runtime_seconds, 7200);
    EXPECT_TRUE(terms.resumable);
    EXPECT_EQ(terms.team_priority, TeamPriority::low);
    EXPECT_EQ(terms.budget, "b");
    EXPECT_FALSE(granted(ask({}, "", {"TRANCHE_REQUEST_RESUMABLE=no"})).resumable);
}

TEST(ContractRequest, options_win_over_the_script_and_the_script_over_the_environment) {
    const std::string script = "#!/bin/sh\n#SBATCH --min-runtime=2h --budget=s\n";
    const Words environment = {"TRANCHE_REQUEST_MIN_RUNTIME=3h", "TRANCHE_REQUEST_BUDGET=e",
                               "TRANCHE_REQUEST_TEAM_PRIORITY=high"};
    const ContractTerms terms = granted(ask({entry("min_runtime", "1h")}, script, environment));
    EXPECT_EQ(terms.min_runtime_seconds, 3600);
    EXPECT_EQ(terms.budget, "s");
    EXPECT_EQ(terms.team_priority, TeamPriority::high);
}

TEST(ContractRequest, a_named_contract_fills_in_and_what_is_said_wins) {
    const Settings settings =
        settings_of("Contract=debug min-runtime=15m team-priority=high resumable budget=d\n");
    const ContractTerms plain = granted(ask({entry("contract", "Debug")}, "", {}, settings));
    EXPECT_EQ(plain.min_runtime_seconds, 900);
    EXPECT_EQ(plain.team_priority, TeamPriority::high);
    EXPECT_TRUE(plain.resumable);
    EXPECT_EQ(plain.budget, "d");
    EXPECT_TRUE(plain.declared_min_runtime);
    const ContractTerms mixed =
        granted(ask({entry("contract", "debug"), entry("min_runtime", "5"),
                     entry("team_priority", "normal"), entry("budget", "x")},
                    "", {"TRANCHE_REQUEST_RESUMABLE=no"}, settings));
    EXPECT_EQ(mixed.min_runtime_seconds, 300);
    EXPECT_EQ(mixed.team_priority, TeamPriority::normal);
    EXPECT_FALSE(mixed.resumable);
    EXPECT_EQ(mixed.budget, "x");
    const Settings eager = settings_of("Contract=fill min-runtime=1h free-first\n");
    EXPECT_TRUE(granted(ask({entry("contract", "fill")}, "", {}, eager)).free_first);
    EXPECT_TRUE(terms_of_job({entry("contract", "fill")}, eager, false).free_first);
    EXPECT_FALSE(
        granted(ask({entry("contract", "fill")}, "", {"TRANCHE_REQUEST_FREE_FIRST=no"}, eager))
            .free_first);
    // A session cannot resume and --no-requeue is explicit: the set does not insist.
    ContractCircumstances session;
    session.interactive = true;
    EXPECT_FALSE(granted(ask({entry("contract", "debug")}, "", {}, settings, session)).resumable);
    ContractCircumstances no_requeue;
    no_requeue.requeue = false;
    EXPECT_FALSE(
        granted(ask({entry("contract", "debug")}, "", {}, settings, no_requeue)).resumable);
}

TEST(ContractRequest, defaults_apply_to_jobs_that_say_nothing) {
    ContractCircumstances session;
    session.interactive = true;
    EXPECT_EQ(granted(ask({})).min_runtime_seconds, 0);
    EXPECT_FALSE(granted(ask({})).declared_min_runtime);
    EXPECT_EQ(granted(ask({}, "", {}, {}, session)).min_runtime_seconds, 3600);
    const Settings kind = settings_of("DefaultMinRuntime=2:00:00");
    EXPECT_EQ(granted(ask({}, "", {}, kind)).min_runtime_seconds, 7200);
    // A default bows to what the job says of its time, and to the cap.
    ContractCircumstances brief;
    brief.time_limit_seconds = 1800;
    EXPECT_EQ(granted(ask({}, "", {}, kind, brief)).min_runtime_seconds, 1800);
    brief.time_min_seconds = 600;
    EXPECT_EQ(granted(ask({}, "", {}, kind, brief)).min_runtime_seconds, 600);
    EXPECT_EQ(
        granted(ask({}, "", {}, settings_of("MaxMinRuntime=600"), session)).min_runtime_seconds,
        600);
}

TEST(ContractRequest, require_refuses_batch_jobs_that_say_nothing_and_names_the_line) {
    const Settings strict = settings_of("DefaultMinRuntime=require\nContract=a team-priority=low");
    expect_refused(ask({}, "", {}, strict), "#SBATCH --min-runtime=1h");
    expect_refused(ask({entry("contract", "a")}, "", {}, strict), "#SBATCH --min-runtime=1h");
    EXPECT_EQ(granted(ask({entry("min_runtime", "0")}, "", {}, strict)).min_runtime_seconds, 0);
    ContractCircumstances session;
    session.interactive = true;
    EXPECT_TRUE(ask({}, "", {}, strict, session).ok());
    ContractCircumstances costs_nothing;
    costs_nothing.costs_something = false;
    EXPECT_TRUE(ask({}, "", {}, strict, costs_nothing).ok());
}

TEST(ContractRequest, an_explicit_requeue_is_resumable_where_the_site_says_so) {
    ContractCircumstances requeue;
    requeue.requeue = true;
    EXPECT_TRUE(granted(ask({}, "", {}, {}, requeue)).resumable);
    EXPECT_FALSE(granted(ask({}, "", {}, settings_of("RequeueIsResumable=no"), requeue)).resumable);
    EXPECT_FALSE(granted(ask({})).resumable);
    requeue.interactive = true;
    EXPECT_FALSE(granted(ask({}, "", {}, {}, requeue)).resumable);
}

TEST(ContractRequest, what_contradicts_itself_is_refused) {
    ContractCircumstances session;
    session.interactive = true;
    ContractCircumstances no_requeue;
    no_requeue.requeue = false;
    ContractCircumstances brief;
    brief.time_limit_seconds = 3600;
    ContractCircumstances shrinks;
    shrinks.time_limit_seconds = 7200;
    shrinks.time_min_seconds = 1800;
    const Settings debug = settings_of("Contract=debug min-runtime=2h");
    expect_refused(ask({entry("resumable", "(null)")}, "", {}, {}, session),
                   "--resumable is for batch jobs");
    expect_refused(ask({entry("resumable", "(null)")}, "", {}, {}, no_requeue),
                   "--resumable and --no-requeue contradict each other");
    expect_refused(ask({entry("min_runtime", "2h")}, "", {}, {}, brief),
                   "--min-runtime='2h' is above the job's time limit of 1 h");
    EXPECT_TRUE(ask({entry("min_runtime", "1h")}, "", {}, {}, brief).ok());
    expect_refused(ask({entry("min_runtime", "1h")}, "", {}, {}, shrinks), "above --time-min");
    expect_refused(ask({entry("contract", "debug")}, "", {}, debug, brief),
                   "the minimum runtime of contract 'debug', 2 h, is above the job's time limit");
}

TEST(ContractRequest, a_minimum_above_the_cap_is_refused_with_the_cap) {
    expect_refused(ask({entry("min_runtime", "8:00:01")}), "at most 8 h here (MaxMinRuntime)");
    EXPECT_TRUE(ask({entry("min_runtime", "8h")}).ok());
}

TEST(ContractRequest, bad_words_are_refused_and_name_who_said_them) {
    const struct {
        Words entries;
        const char* script;
        Words environment;
        const char* expected;
    } cases[] = {
        {{entry("min_runtime", "soon")}, "", {}, "--min-runtime: 'soon' is not a time"},
        {{entry("min_runtime", "-5")}, "", {}, "--min-runtime: '-5' is negative"},
        {{entry("min_runtime", "")}, "", {}, "--min-runtime: '' is not a time"},
        {{entry("min_runtime", "(null)")}, "", {}, "--min-runtime: '(null)' is not a time"},
        {{entry("min_runtime", "99999999999999999999")}, "", {}, "too long a time"},
        {{entry("team_priority", "top")}, "", {}, "--team-priority='top': write low, normal"},
        {{entry("resumable", "maybe")}, "", {}, "--resumable='maybe': expected yes or no"},
        {{entry("budget", "")}, "", {}, "--budget: a budget without a name"},
        {{entry("budget", "a b")}, "", {}, "--budget: budget name"},
        {{entry("budget", "a'b\"c")}, "", {}, "--budget: budget name"},
        {{entry("budget", "a\nb")}, "", {}, "--budget: budget name"},
        {{entry("budget", std::string(10000, 'x'))}, "", {}, "--budget: budget name"},
        {{entry("contract", "a b")}, "", {}, "--contract: contract name 'a b': expected 1 to 64"},
        {{entry("contract", std::string(10000, 'y'))}, "", {}, "(10000 bytes)"},
        {{entry("contract", "none")}, "", {}, "no such contract; none is defined"},
        {{entry("free_first", "later")}, "", {}, "--free-first='later': expected yes or no"},
        {{entry("free", "(null)")}, "", {}, "unknown contract option 'free'"},
        {{}, "#SBATCH --min-runtime=x", {}, "#SBATCH --min-runtime: 'x' is not a time"},
        {{}, "#SBATCH --min-runtime", {}, "#SBATCH --min-runtime: expected a value"},
        {{}, "#SBATCH --budget=\"a b", {}, "#SBATCH --budget: budget name"},
        {{}, "", {"TRANCHE_REQUEST_MIN_RUNTIME=x"}, "TRANCHE_REQUEST_MIN_RUNTIME: 'x' is not"},
        {{}, "", {"TRANCHE_REQUEST_RESUMABLE=perhaps"}, "TRANCHE_REQUEST_RESUMABLE='perhaps'"},
        {{}, "", {"TRANCHE_REQUEST_FREE=1"}, "unknown variable 'TRANCHE_REQUEST_FREE'"},
        {{}, "", {"TRANCHE_REQUEST_"}, "unknown variable"},
    };
    for (const auto& c : cases) {
        expect_refused(ask(c.entries, c.script, c.environment), c.expected);
    }
    expect_refused(ask({entry("contract", "x")}, "", {}, settings_of("Contract=a\nContract=b")),
                   "--contract='x': no such contract; this cluster has a, b");
}

TEST(ContractRequest, one_option_alone_can_be_checked_on_the_submit_host) {
    EXPECT_TRUE(check_option("min-runtime", "2h").ok());
    EXPECT_TRUE(check_option("resumable", "(null)").ok());
    EXPECT_TRUE(check_option("contract", "debug").ok());
    EXPECT_FALSE(check_option("min-runtime", "2x").ok());
    EXPECT_FALSE(check_option("team-priority", "").ok());
    EXPECT_FALSE(check_option("budget", "a b").ok());
    EXPECT_FALSE(check_option("contract", "").ok());
    EXPECT_TRUE(check_option("free-first", "").ok());
    EXPECT_FALSE(check_option("free-first", "later").ok());
    EXPECT_FALSE(check_option("free", "").ok());
}

TEST(ContractRequest, the_manual_page_names_every_option_and_no_other) {
    std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/doc/man/tranche.7");
    ASSERT_TRUE(file.good());
    std::ostringstream text;
    text << file.rdbuf();
    const std::string page = text.str();
    const std::string section = page.substr(
        page.find(".SH OPTIONS"), page.find(".SH WHAT YOU ARE TOLD") - page.find(".SH OPTIONS"));
    Words described;
    std::istringstream lines(section);
    for (std::string line, before; std::getline(lines, line); before = line) {
        if (before == ".TP") {
            std::string name = line.substr(line.find("\\-\\-") + 4);
            name.resize(name.find("\\fR"));
            name.erase(std::remove(name.begin(), name.end(), '\\'), name.end());
            described.push_back(name);
        }
    }
    // What check_option() says of a name that is none lists all that are.
    std::string known;
    for (const std::string& name : described) {
        known += (known.empty() ? "--" : ", --") + name;
    }
    EXPECT_EQ(check_option("none", "").error(),
              "unknown contract option 'none': known are " + known);
}

TEST(ContractRequest, without_settings_the_words_alone_are_checked) {
    const auto fine = read_request({entry("min_runtime", "100h"), entry("contract", "x")}, "", {});
    ASSERT_TRUE(fine.ok());
    EXPECT_TRUE(check_request(fine.value(), {}).ok());
    const auto wrong = read_request({entry("min_runtime", "x")}, "", {});
    ASSERT_TRUE(wrong.ok());
    EXPECT_FALSE(check_request(wrong.value(), {}).ok());
}

TEST(ContractRequest, stored_terms_are_read_back_and_other_entries_stay) {
    ContractTerms terms;
    terms.declared_min_runtime = true;
    for (std::int64_t seconds : {0, 1, 61, 7200}) {
        for (bool resumable : {false, true}) {
            for (TeamPriority priority : {TeamPriority::low, TeamPriority::normal,
                                          TeamPriority::high, TeamPriority::urgent}) {
                for (const char* budget : {"", "projA"}) {
                    terms.free_first = seconds == 61;
                    terms.min_runtime_seconds = seconds;
                    terms.resumable = resumable;
                    terms.team_priority = priority;
                    terms.budget = budget;
                    const Words stored = store_terms(
                        {"A=1", entry("contract", "debug"), entry("min_runtime", "5"), "B=2"},
                        terms);
                    EXPECT_EQ(stored[0], "A=1");
                    EXPECT_EQ(stored[1], "B=2");
                    EXPECT_EQ(std::count_if(stored.begin(), stored.end(),
                                            [](const std::string& entry) {
                                                return entry.find("contract_contract") !=
                                                       std::string::npos;
                                            }),
                              0);
                    EXPECT_EQ(parse_stored_terms(stored), terms);
                    EXPECT_EQ(store_terms(stored, terms), stored);
                    // The stored form means the same as a request, so nothing is lost if it comes
                    // by again.
                    EXPECT_EQ(granted(ask(stored)), terms);
                    EXPECT_EQ(terms_of_job(stored, Settings{}, false), terms);
                }
            }
        }
    }
}

TEST(ContractRequest, jobs_that_never_passed_the_submit_plugin_have_no_stored_terms) {
    EXPECT_FALSE(parse_stored_terms({}).has_value());
    EXPECT_FALSE(parse_stored_terms({"A=1", entry("budget", "x")}).has_value());
    EXPECT_FALSE(parse_stored_terms({entry("min_runtime", "x")}).has_value());
    EXPECT_FALSE(parse_stored_terms({"_SLURM_SPANK_OPTION_contract_min_runtime"}).has_value());
}

TEST(ContractRequest, terms_of_a_job_are_completed_and_never_above_the_cap) {
    const Settings settings =
        settings_of("DefaultMinRuntime=1:00:00\nContract=debug min-runtime=15m resumable\n");
    EXPECT_EQ(terms_of_job({}, settings, false).min_runtime_seconds, 3600);
    EXPECT_EQ(terms_of_job({entry("team_priority", "high")}, settings, false).team_priority,
              TeamPriority::high);
    EXPECT_EQ(terms_of_job({entry("contract", "debug")}, settings, false).min_runtime_seconds, 900);
    EXPECT_TRUE(terms_of_job({entry("contract", "debug")}, settings, false).resumable);
    EXPECT_FALSE(terms_of_job({entry("contract", "debug")}, settings, true).resumable);
    EXPECT_EQ(terms_of_job({entry("min_runtime", "100h")}, settings, false).min_runtime_seconds,
              28800);
    EXPECT_EQ(terms_of_job({entry("min_runtime", "x"), entry("budget", "a b")}, settings, false),
              default_terms(settings, false));
}

}  // namespace
}  // namespace tranche
