// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "sim/scenario.hpp"

namespace tranche::sim {
namespace {

// One node, two equal budgets; `a` runs from 0 to 7200, `b` waits for it, `c` is free work.
std::string scenario_text(const std::string& expect, const std::string& more = "") {
    return R"({"name": "x", "rule": "definition", "cluster": {"nodes": [{"name": "n[1-2]", "gpus": 8}], "cycle": 30},
 "config": {}, "budgets": [{"name": "A", "shares": 1}, {"name": "B", "shares": 1}],
 "jobs": [{"id": "a", "budget": "A", "gpus": 16, "nodes": 2, "min_runtime": 3600, "runtime": 7200, "exit_seconds": 10},
          {"id": "b", "at": 600, "budget": "B", "gpus": 8, "min_runtime": 3600, "runtime": 1800},
          {"id": "c", "at": 600, "budget": "B", "gpus": 8, "runtime": 600, "class": "tiny"},
          {"id": "big", "at": 600, "budget": "B", "gpus": 8, "min_runtime": 30000, "runtime": 600}],
 )" + more +
           R"("until": 14400, "expect": [)" + expect + "]}";
}

std::vector<std::string> failures_of(const std::string& expect, const std::string& more = "") {
    const auto scenario = read_scenario(scenario_text(expect, more), "f");
    EXPECT_TRUE(scenario.ok()) << scenario.error();
    return scenario.ok() ? check_scenario(*scenario).failures : std::vector<std::string>{};
}

std::string mistakes_of(const std::string& text) {
    const auto scenario = read_scenario(text, "f");
    EXPECT_FALSE(scenario.ok());
    return scenario.ok() ? "" : scenario.error();
}

// b takes a's place when a's contract is over at 3600; a comes back at 5410.
TEST(Scenario, every_kind_of_expectation_that_holds_holds) {
    const char* const good[] = {
        R"({"at": 600, "job": "a", "state": "running"})",
        R"({"at": 600, "job": "b", "state": "pending"})",
        R"({"at": 600, "job": "big", "state": "refused"})",
        R"({"at": 3605, "job": "a", "state": "leaving"})",
        R"({"at": 3620, "job": "a", "state": "pending"})",
        R"({"at": 14400, "job": "a", "state": "completed"})",
        R"({"at": 100, "job": "a", "protected_until": 3600})",
        R"({"job": "b", "starts": [3610, 3610]})",
        R"({"job": "a", "runs": 2})",
        R"({"at": 700, "order": ["b", "c"]})",
        R"({"at": 1800, "budget": "A", "charged_gpu_hours": 16})",
        R"({"at": 1800, "budget": "A", "gpus": 16})",
        R"({"at": 3620, "budget": "B", "gpus": {"min": 8, "max": 16}})",
        R"({"from": 0, "to": 3600, "every": 1800, "budget": "A", "gpus": {"min": 16}})",
        R"({"at": 100, "node": "n1", "state": "busy"})",
        R"({"at": 100, "node": "n2", "gpus_used": 8})",
        R"({"at": 14000, "node": "n2", "state": "idle"})",
        R"({"metric": "preemptions", "equals": 1})",
        R"({"metric": "preemptions.A", "equals": 1})",
        R"({"metric": "preemptions.B", "equals": 0})",
        R"({"metric": "wasted_preemptions", "equals": 0})",
        R"({"metric": "inside_contract", "equals": 0})",
        R"({"metric": "charged_gpu_hours.B", "equals": 4})",
        R"({"metric": "unallocated_gpu_hours.B", "at_least": 1.3, "at_most": 1.34})",
        R"({"metric": "wait_p90.tiny", "equals": 3010})",
        R"({"metric": "wait_p90.B", "equals": 3010})",
    };
    for (const char* expectation : good) {
        for (const std::string& failure : failures_of(expectation)) {
            ADD_FAILURE() << failure;
        }
    }
}

TEST(Scenario, every_kind_of_expectation_that_fails_says_what_was_found) {
    const std::pair<const char*, const char*> bad[] = {
        {R"({"at": 600, "job": "a", "state": "pending"})", "found running"},
        {R"({"at": 100, "job": "a", "protected_until": 3601})", "found protected until 3600"},
        {R"({"job": "b", "starts": [0, 3600]})", "found its first start at 3610"},
        {R"({"job": "big", "starts": [0, 3600]})", "found that it never started"},
        {R"({"job": "a", "runs": 1})", "found 2 runs\n    segments from 0, 5410"},
        {R"({"at": 700, "order": ["c", "b"]})", "found b, c"},
        {R"({"at": 1800, "budget": "A", "charged_gpu_hours": 15.9, "tol": 0.05})",
         "found 16\n    charged 8, committed 8"},
        {R"({"at": 1800, "budget": "A", "gpus": 15})", "found 16\n    A: used"},
        {R"({"at": 3620, "budget": "B", "gpus": {"min": 17}})", "found 16"},
        {R"({"from": 0, "to": 3600, "every": 1800, "budget": "A", "gpus": {"max": 15}})",
         "found 16 from 0 to 1800"},
        {R"({"at": 100, "node": "n1", "state": "idle"})",
         "found busy\n    on it: a (protected until 3600)"},
        {R"({"at": 100, "node": "n2", "gpus_used": 7})", "found 8 GPUs in use"},
        {R"({"metric": "preemptions", "equals": 0})",
         "found 1\n    at 3600 a for b: smaller-ratio"},
        {R"({"metric": "charged_gpu_hours.B", "at_most": 3.999})", "found 4\n    A "},
        {R"({"metric": "wait_p90.tiny", "at_most": 3009})", "found 3010\n    1 jobs"},
    };
    for (const auto& [expectation, found] : bad) {
        const auto failures = failures_of(expectation);
        ASSERT_FALSE(failures.empty()) << expectation;
        EXPECT_TRUE(failures[0].starts_with("expect[0] {")) << failures[0];
        EXPECT_NE(failures[0].find(found), std::string::npos) << failures[0] << "\nnot: " << found;
    }
}

TEST(Scenario, a_pending_job_that_should_run_is_explained_with_both_sides_numbers) {
    const auto failures = failures_of(R"({"at": 3000, "job": "b", "state": "running"})");
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_NE(failures[0].find("B 8.0 of"), std::string::npos) << failures[0];
    EXPECT_NE(failures[0].find("A "), std::string::npos) << failures[0];
}

TEST(Scenario, nodes_drain_and_fail) {
    const std::string events = R"("events": [
        {"at": 60, "do": "drain", "node": "n1", "reason": "planned"},
        {"at": 120, "do": "node_fail", "node": "n2"},
        {"at": 180, "do": "cancel", "job": "a"}],)";
    const char* const good[] = {
        R"({"at": 60, "node": "n1", "state": "draining"})",
        R"({"at": 120, "node": "n1", "state": "drained"})",
        R"({"at": 120, "node": "n2", "state": "down"})",
        R"({"at": 200, "job": "a", "state": "cancelled"})",
    };
    for (const char* expectation : good) {
        for (const std::string& failure : failures_of(expectation, events)) {
            ADD_FAILURE() << failure;
        }
    }
}

TEST(Scenario, copies_are_numbered_and_endless_ones_go_on) {
    const std::string text =
        R"({"cluster": {"nodes": [{"name": "n", "gpus": 8}]}, "budgets": [{"name": "A"}],
        "jobs": [{"id": "e", "budget": "A", "gpus": 4, "runtime": 100, "repeat": 2, "endless": true},
                 {"id": "r", "budget": "A", "gpus": 8, "runtime": 100, "repeat": 3, "every": 10, "at": 5000}],
        "until": 300, "expect": [{"at": 150, "job": "e.4", "state": "running"},
                                 {"at": 150, "job": "e.1", "state": "completed"},
                                 {"at": 150, "job": "e.9", "state": "running"},
                                 {"job": "r.3", "runs": 0}]})";
    const auto scenario = read_scenario(text, "f");
    ASSERT_TRUE(scenario.ok()) << scenario.error();
    const auto failures = check_scenario(*scenario).failures;
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_NE(failures[0].find("found no such copy yet"), std::string::npos) << failures[0];
}

TEST(Scenario, defaults_are_those_of_scenarios_and_a_policy_sets_its_keys) {
    const std::string any = R"({"job": "a", "runs": 1})";
    const auto plain = read_scenario(scenario_text(any), "f");
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(plain->settings, scenario_defaults());
    EXPECT_EQ(plain->rule, "definition");
    std::string text = scenario_text(any);
    text.replace(text.find(R"("config": {})"), 12,
                 R"("config": {"PreemptMargin": 0.1, "Policy": "article", "GraceTime": 90})");
    const auto article = read_scenario(text, "f");
    ASSERT_TRUE(article.ok()) << article.error();
    EXPECT_EQ(article->settings.policy, PolicyName::article);
    EXPECT_EQ(article->settings.preempt_margin_ppm, 100'000);
    EXPECT_EQ(article->settings.window_shape, WindowShape::flat);
    EXPECT_EQ(article->settings.grace_time_seconds, 90);
}

TEST(Scenario, what_could_never_hold_or_happen_is_a_mistake) {
    const std::pair<const char*, const char*> expectations[] = {
        {"", "expect is empty"},
        {R"({"at": 600, "order": []})", "expect[0].order is empty"},
        {R"({"at": 600, "order": ["a", "b", "a"]})", "expect[0].order[2]: job 'a' is there twice"},
        {R"({"job": "a", "starts": [10, 0]})", "expect[0].starts is [10,0]"},
        {R"({"at": 5, "budget": "A", "gpus": {"min": 3, "max": 2}})", "min is above max"},
        {R"({"metric": "preemptions", "at_least": 2, "at_most": 1})", "at_least is above at_most"}};
    for (const auto& [expectation, mistake] : expectations) {
        const std::string mistakes = mistakes_of(scenario_text(expectation));
        EXPECT_NE(mistakes.find(mistake), std::string::npos) << expectation << "\n" << mistakes;
    }
    const std::string mistakes = mistakes_of(
        R"({"name": "x", "rule": "lukc", "cluster": {"nodes": [{"name": "n", "gpus": 8}]},
      "budgets": [{"name": "A"}],
      "events": [{"at": 101, "do": "restart"}], "until": 100})");
    for (const char* mistake :
         {"rule 'lukc' is not known", "events[0].at is 101, after `until`", "expect is missing"}) {
        EXPECT_NE(mistakes.find(mistake), std::string::npos) << mistake << "\n" << mistakes;
    }
}

TEST(Scenario, a_job_that_no_nodes_could_hold_can_never_start) {
    const auto scenario = read_scenario(
        R"({"cluster": {"nodes": [{"name": "n", "gpus": 8}]}, "until": 100,
            "budgets": [{"name": "A"}],
            "jobs": [{"id": "j", "budget": "A", "gpus": 9, "nodes": 1, "runtime": 5}],
            "expect": [{"at": 50, "job": "j", "state": "running"},
                       {"job": "j", "starts": [0, 5]}]})",
        "f");
    ASSERT_TRUE(scenario.ok()) << scenario.error();
    const auto failures = check_scenario(*scenario).failures;
    ASSERT_EQ(failures.size(), 2U);
    for (const std::string& failure : failures) {
        EXPECT_NE(failure.find("it can never start: "), std::string::npos) << failure;
    }
}

TEST(Scenario, each_mistake_names_file_and_place) {
    const std::string text = R"({"name": "x", "cluster": {"nodes": [{"name": "n", "gpus": 8}]},
      "config": {"GraceTim": 60}, "until": 100, "expct": [],
      "budgets": [{"name": "A", "parent": "B"}, {"name": "B", "parent": "A", "shares": -1}],
      "jobs": [{"id": "a", "budget": "A", "gpus": 8, "runtime": "x"},
               {"id": "b", "budget": "Q", "gpus": 8, "runtime": 5, "foo": 1},
               {"id": "b", "budget": "Q", "gpus": 8, "runtime": 5, "node": "m"},
               {"id": "c", "gpus": 8, "runtime": 5, "repeat": 2}],
      "events": [{"at": 1, "do": "drain", "node": "n9"}, {"at": 2, "do": "cancel", "job": "zz"}],
      "expect": [{"at": 700, "job": "b", "state": "runing"}, {"metric": "foo", "equals": 1},
                 {"at": 1, "job": "c", "state": "running"}, {"metric": "preemptions"}, {"at": 1}]})";
    const std::string mistakes = mistakes_of(text);
    for (const char* each :
         {"f: the scenario has an unknown key 'expct'", "f: config.GraceTim: unknown setting",
          "f: budgets[1].shares is -1", "f: budgets: budget 'A' is below itself",
          "f: events[0]: node 'n9' is not in this scenario", "f: jobs[0].runtime is a text 'x'",
          "f: jobs[1] has an unknown key 'foo'", "f: jobs[2]: budget 'Q' is not in this scenario",
          "f: jobs[2]: node 'm' is not in this scenario", "job 'zz' is not in this scenario",
          "f: expect[0].at is 700", "f: expect[0].state is 'runing'",
          "f: expect[1].metric is 'foo'", "its copies are c.1, c.2", "f: expect[3] expects nothing",
          "f: expect[4] expects nothing"}) {
        EXPECT_NE(mistakes.find(each), std::string::npos) << each << "\nnot in\n" << mistakes;
    }
    EXPECT_NE(mistakes_of("{").find("f is not JSON"), std::string::npos);
    EXPECT_NE(mistakes_of("[]").find("f: the scenario is a list"), std::string::npos);
}

TEST(Scenario, of_many_mistakes_twenty_are_told) {
    std::string expect;
    for (int i = 0; i < 50; ++i) {
        expect += std::string(i == 0 ? "" : ", ") + R"({"metric": "foo", "equals": 1})";
    }
    const std::string mistakes = mistakes_of(scenario_text(expect));
    EXPECT_EQ(std::count(mistakes.begin(), mistakes.end(), '\n'), 20);
    EXPECT_NE(mistakes.find("and 30 more"), std::string::npos);
}

}  // namespace
}  // namespace tranche::sim
