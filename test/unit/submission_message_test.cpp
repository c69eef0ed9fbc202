// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/submission_message.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tranche {
namespace {

// The example of the design: 8 GPUs for 2 h.
SubmissionNumbers example() {
    SubmissionNumbers numbers;
    numbers.terms.min_runtime_seconds = 7200;
    numbers.terms.declared_min_runtime = true;
    numbers.cost_milli_hours = 16'000;
    numbers.budget = "projA";
    numbers.funded = true;
    numbers.used_milli_hours = 910'000;
    numbers.funded_milli_hours = 1'120'000;
    numbers.ratio_milli = 810;
    numbers.position = 14;
    numbers.queue_length = 37;
    return numbers;
}

TEST(SubmissionMessage, a_protected_job_hears_what_it_costs_and_where_its_budget_stands) {
    EXPECT_EQ(submission_message(example()),
              "protected for 2 h, costs 16 GPU h; projA used 910 of the 1 120 GPU h funded in the "
              "last 7 days (0.81), 14th of 37 in the queue");
}

TEST(SubmissionMessage, what_else_was_understood_is_repeated) {
    SubmissionNumbers numbers = example();
    numbers.terms.resumable = true;
    numbers.terms.team_priority = TeamPriority::high;
    numbers.array = true;
    numbers.window_seconds = 4 * 3600;
    numbers.position = 0;
    EXPECT_EQ(submission_message(numbers),
              "protected for 2 h, resumable, team priority high, costs 16 GPU h a task; projA used "
              "910 of the 1 120 GPU h funded in the last 4 h (0.81)");
}

TEST(SubmissionMessage, a_job_that_starts_free_hears_when_its_protection_begins) {
    SubmissionNumbers numbers = example();
    numbers.terms.free_first = true;
    numbers.terms.resumable = true;
    EXPECT_EQ(submission_message(numbers),
              "starts free where there is room, protected for 2 h once others want its GPUs, "
              "resumable, costs 16 GPU h; projA used 910 of the 1 120 GPU h funded in the last 7 "
              "days (0.81), 14th of 37 in the queue");
    numbers.terms.min_runtime_seconds = 0;
    EXPECT_EQ(submission_message(numbers),
              "runs free: may be ended at any second; --min-runtime=1h would protect it");
}

TEST(SubmissionMessage, a_budget_over_its_funding_still_runs) {
    SubmissionNumbers numbers = example();
    numbers.ratio_milli = 1296;
    const std::string text = submission_message(numbers);
    EXPECT_NE(text.find("(1.30)"), std::string::npos) << text;
    EXPECT_NE(text.find("still runs when its turn comes"), std::string::npos) << text;
    numbers.ratio_milli = 1000;
    EXPECT_EQ(submission_message(numbers).find("still runs"), std::string::npos);
}

TEST(SubmissionMessage, a_free_job_hears_what_would_protect_it) {
    SubmissionNumbers numbers = example();
    numbers.terms.min_runtime_seconds = 0;
    EXPECT_EQ(submission_message(numbers),
              "runs free: may be ended at any second; --min-runtime=1h would protect it");
}

TEST(SubmissionMessage, a_job_without_a_funded_budget_hears_that_it_is_unallocated) {
    SubmissionNumbers numbers = example();
    numbers.funded = false;
    EXPECT_EQ(submission_message(numbers),
              "unallocated: budget projA has no shares; runs free: may be ended at any second");
    numbers.budget.clear();
    EXPECT_EQ(submission_message(numbers),
              "unallocated: no budget pays for this account and user; runs free: may be ended at "
              "any second");
}

TEST(SubmissionMessage, jobs_that_contracts_do_not_concern_hear_nothing_unless_they_asked) {
    SubmissionNumbers numbers = example();
    numbers.terms.declared_min_runtime = false;
    numbers.costs_something = false;
    EXPECT_EQ(submission_message(numbers), "");
    numbers.terms.declared_min_runtime = true;
    EXPECT_NE(submission_message(numbers).find("a contract is for GPUs"), std::string::npos);
    numbers.under_contract = false;
    EXPECT_NE(submission_message(numbers).find("no contracts in this partition"),
              std::string::npos);
    numbers.terms.declared_min_runtime = false;
    numbers.sets_priority = true;
    EXPECT_EQ(submission_message(numbers), "");
}

TEST(SubmissionMessage, a_job_outside_the_order_gets_no_place_in_it) {
    SubmissionNumbers numbers = example();
    numbers.held = true;
    EXPECT_EQ(submission_message(numbers),
              "protected for 2 h, costs 16 GPU h; projA used 910 of the 1 120 GPU h funded in the "
              "last 7 days (0.81), held: it has no place in the queue until it is released");
    numbers.held = false;
    numbers.fixed_priority = true;
    EXPECT_EQ(submission_message(numbers),
              "protected for 2 h, costs 16 GPU h; projA used 910 of the 1 120 GPU h funded in the "
              "last 7 days (0.81); --priority of an operator stays and competes as that number, "
              "outside the order of budgets; --team-priority orders your team's jobs");
}

TEST(SubmissionMessage, priority_and_nice_get_a_hint) {
    SubmissionNumbers numbers = example();
    numbers.sets_nice = true;
    EXPECT_NE(submission_message(numbers).find("; --nice orders only your own jobs"),
              std::string::npos);
    numbers.sets_priority = true;
    EXPECT_NE(submission_message(numbers).find("; --priority does not count"), std::string::npos);
}

TEST(SubmissionMessage, a_message_is_one_line) {
    SubmissionNumbers numbers = example();
    numbers.used_milli_hours = std::numeric_limits<std::int64_t>::max() / 2;
    numbers.ratio_milli = std::numeric_limits<std::int64_t>::max() / 2;
    const std::string text = submission_message(numbers);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_LT(text.size(), 400u);
}

TEST(SubmissionMessage, gpu_hours_and_ordinals_are_written_for_people) {
    const struct {
        std::int64_t milli_hours;
        const char* text;
    } hours[] = {{0, "0"},           {1, "<0.01"},
                 {17, "0.02"},       {250, "0.25"},
                 {994, "0.99"},      {999, "1"},
                 {2'500, "2.5"},     {9'949, "9.9"},
                 {9'960, "10"},      {16'000, "16"},
                 {999'600, "1 000"}, {1'120'000, "1 120"},
                 {-2'500, "-2.5"},   {1'234'567'000, "1 234 567"}};
    for (const auto& c : hours) {
        EXPECT_EQ(format_gpu_hours(c.milli_hours), c.text) << c.milli_hours;
    }
    const struct {
        std::int64_t number;
        const char* text;
    } ordinals[] = {{1, "1st"},     {2, "2nd"},     {3, "3rd"},       {4, "4th"},
                    {11, "11th"},   {12, "12th"},   {13, "13th"},     {21, "21st"},
                    {102, "102nd"}, {111, "111th"}, {1001, "1 001st"}};
    for (const auto& c : ordinals) {
        EXPECT_EQ(format_ordinal(c.number), c.text);
    }
}

}  // namespace
}  // namespace tranche
