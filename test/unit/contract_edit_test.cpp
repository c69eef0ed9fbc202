// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/contract_edit.hpp"

#include <gtest/gtest.h>

namespace tranche {
namespace {

constexpr std::int64_t kHour = 3600;

ContractTerms signed_terms() {
    ContractTerms terms;
    terms.min_runtime_seconds = 2 * kHour;
    terms.budget = "projA";
    terms.declared_min_runtime = true;
    return terms;
}

ContractEdit edit_of(const char* key, const char* word) {
    ContractEdit edit;
    *word_of(edit, key) = word;
    return edit;
}

EditedJob running() {
    EditedJob job;
    job.runs = true;
    return job;
}

Result<ContractTerms> edited(const char* key, const char* word, const EditedJob& job = {},
                             const ContractTerms& before = signed_terms()) {
    return edited_terms(before, edit_of(key, word), job, Settings{});
}

void expect_refused(const Result<ContractTerms>& terms, const std::string& expected) {
    ASSERT_FALSE(terms.ok()) << "accepted; expected: " << expected;
    EXPECT_NE(terms.error().find(expected), std::string::npos) << terms.error();
    EXPECT_EQ(terms.error().find('\n'), std::string::npos) << terms.error();
}

TEST(ContractEdit, what_is_not_mentioned_stays) {
    const auto terms = edited("min-runtime", "4h");
    ASSERT_TRUE(terms.ok()) << terms.error();
    ContractTerms expected = signed_terms();
    expected.min_runtime_seconds = 4 * kHour;
    EXPECT_EQ(*terms, expected);
    EXPECT_EQ(contract_changes(signed_terms(), *terms),
              (std::vector<ContractChange>{{"min-runtime", "02:00:00", "04:00:00"}}));
    EXPECT_TRUE(contract_changes(*terms, *terms).empty());
}

TEST(ContractEdit, a_plain_number_is_minutes_and_flags_are_yes_or_no) {
    EXPECT_EQ(edited("min-runtime", "90")->min_runtime_seconds, 5400);
    EXPECT_TRUE(edited("resumable", "yes")->resumable);
    EXPECT_TRUE(edited("free-first", "1")->free_first);
    EXPECT_EQ(edited("team-priority", "Urgent")->team_priority, TeamPriority::urgent);
}

TEST(ContractEdit, it_is_checked_as_at_submission) {
    expect_refused(edited("min-runtime", "9h"), "protected for at most 8 h here (MaxMinRuntime)");
    expect_refused(edited("min-runtime", "soon"), "min-runtime: 'soon' is not a time");
    expect_refused(edited("team-priority", "top"), "write low, normal, high or urgent");
    expect_refused(edited("resumable", "maybe"), "resumable='maybe': expected yes or no");
    EditedJob limited;
    limited.time_limit_seconds = kHour;
    expect_refused(edited("min-runtime", "2h", limited), "above the job's time limit of 1 h");
    EditedJob shrinking;
    shrinking.time_min_seconds = kHour;
    expect_refused(edited("min-runtime", "2h", shrinking), "above --time-min, 1 h");
    EditedJob session;
    session.interactive = true;
    expect_refused(edited("resumable", "yes", session), "cannot be requeued");
    EditedJob stubborn;
    stubborn.refuses_requeue = true;
    expect_refused(edited("resumable", "yes", stubborn), "it was submitted with --no-requeue");
    EXPECT_TRUE(edited("resumable", "no", stubborn).ok());
    // What was signed before is not judged again.
    EXPECT_TRUE(edited("team-priority", "low", limited).ok());
}

TEST(ContractEdit, the_owner_of_a_run_can_only_give_up_protection) {
    ContractTerms strong = signed_terms();
    strong.resumable = true;
    strong.free_first = true;
    const struct {
        const char* key;
        const char* down;
        const char* up;
    } cases[] = {{"min-runtime", "1h", "3h"},
                 {"team-priority", "low", "high"},
                 {"resumable", "yes", "no"},
                 {"free-first", "yes", "no"}};
    for (const auto& c : cases) {
        EXPECT_TRUE(edited(c.key, c.down, running(), strong).ok()) << c.key;
        expect_refused(edited(c.key, c.up, running(), strong), std::string(c.key) + " ");
        expect_refused(edited(c.key, c.up, running(), strong), "give up protection");
        EXPECT_TRUE(edited(c.key, c.up, {}, strong).ok()) << c.key;
        EditedJob by_operator = running();
        by_operator.by_operator = true;
        EXPECT_TRUE(edited(c.key, c.up, by_operator, strong).ok()) << c.key;
    }
    EXPECT_TRUE(edited("min-runtime", "0", running()).ok());
    EXPECT_TRUE(edited("resumable", "yes", running()).ok());
    // One step down does not pay for one up.
    ContractEdit both = edit_of("min-runtime", "1h");
    both.team_priority = "high";
    expect_refused(edited_terms(signed_terms(), both, running(), Settings{}), "min-runtime 02:00");
}

TEST(ContractEdit, an_operator_is_bound_by_the_cap_too) {
    EditedJob by_operator = running();
    by_operator.by_operator = true;
    expect_refused(edited("min-runtime", "9h", by_operator), "MaxMinRuntime");
}

TEST(ContractEdit, a_cluster_that_requires_a_minimum_does_not_ask_for_one_in_every_edit) {
    Settings settings;
    settings.require_min_runtime = true;
    EXPECT_TRUE(edited_terms(signed_terms(), edit_of("team-priority", "low"), {}, settings).ok());
}

TEST(ContractEdit, words_can_be_checked_where_they_are_typed) {
    EXPECT_TRUE(check_contract_edit(edit_of("min-runtime", "2h")).ok());
    EXPECT_NE(check_contract_edit({}).error().find("no change is said"), std::string::npos);
    EXPECT_FALSE(check_contract_edit(edit_of("min-runtime", "x")).ok());
    ContractEdit edit;
    EXPECT_EQ(word_of(edit, "budget"), nullptr);
    EXPECT_EQ(contract_edit_keys().size(), 4u);
}

}  // namespace
}  // namespace tranche
