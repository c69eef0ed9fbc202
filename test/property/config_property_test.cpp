// SPDX-License-Identifier: GPL-2.0-or-later
// Texts of strangers: whatever they are, reading them gives a value or a bounded error, and what
// was accepted can be written and read again. Fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/config/contract_request.hpp"
#include "common/config/settings.hpp"
#include "common/config/time_format.hpp"

namespace tranche {
namespace {

class Scribe {
  public:
    explicit Scribe(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t end) { return random_() % end; }

    template <typename List>
    std::string one_of(const List& list) {
        return std::string(list[below(std::size(list))]);
    }

    // Up to `longest` bytes from an alphabet that is likely to mean something.
    std::string scribble(std::size_t longest) {
        constexpr std::string_view kAlphabet = "0123456789:-dhms=,.#\"' \t\\\n()gpuABC\xc3\xa9\x01";
        std::string text;
        for (std::size_t length = below(longest + 1); length > 0; --length) {
            text += kAlphabet[below(kAlphabet.size())];
        }
        return text;
    }

    // A few bytes changed, dropped or doubled.
    std::string damaged(std::string text) {
        for (std::size_t count = below(4); count > 0 && !text.empty(); --count) {
            const std::size_t at = below(text.size());
            switch (below(3)) {
                case 0:
                    text[at] = static_cast<char>(below(256));
                    break;
                case 1:
                    text.erase(at, 1 + below(3));
                    break;
                default:
                    text.insert(at, text.substr(at, 1 + below(8)));
            }
        }
        return text;
    }

  private:
    std::mt19937_64 random_;
};

constexpr const char* kTimes[] = {"2h",  "90",   "1-2:3:4",     "15:00",   "7-00:00:00",
                                  "30s", "1d2h", "99999999999", "8:00:00", "1h30m"};

TEST(ConfigProperty, a_time_that_is_read_is_in_range_and_survives_writing) {
    Scribe scribe(11);
    std::size_t read = 0;
    for (int i = 0; i < 50'000; ++i) {
        const std::string text =
            scribe.below(2) == 0 ? scribe.scribble(12) : scribe.damaged(scribe.one_of(kTimes));
        const auto span = parse_time_span(text, PlainNumber::minutes);
        if (!span.ok()) {
            EXPECT_EQ(span.error().find('\n'), std::string::npos);
            continue;
        }
        ++read;
        ASSERT_GE(*span, 0) << text;
        ASSERT_LE(*span, kLongestTimeSpanSeconds) << text;
        ASSERT_EQ(*parse_time_span(format_time_span(*span), PlainNumber::minutes), *span);
        ASSERT_EQ(*parse_time_span(std::to_string(*span) + "s", PlainNumber::minutes), *span);
    }
    EXPECT_GT(read, 10'000u);
}

TEST(ConfigProperty, settings_that_are_read_survive_writing) {
    Scribe scribe(12);
    const std::vector<SettingRow>& table = settings_table();
    std::size_t read = 0;
    for (int i = 0; i < 5'000; ++i) {
        std::string text;
        for (std::size_t lines = 1 + scribe.below(4); lines > 0; --lines) {
            const SettingRow& row = table[scribe.below(table.size())];
            std::string value = row.default_value;
            if (scribe.below(4) == 0) {
                value = scribe.scribble(10);
            } else if (scribe.below(4) == 0) {
                value = row.article_value;
            }
            text += row.name + "=" + (scribe.below(2) == 0 ? "\"" + value + "\"" : value) + "\n";
        }
        if (scribe.below(3) == 0) {
            text = scribe.damaged(text);
        }
        const auto settings = parse_settings(text, "f");
        if (!settings.ok()) {
            EXPECT_LT(settings.error().size(), 20u * 1000u);
            EXPECT_EQ(settings.error().rfind("f:", 0), 0u) << settings.error();
            continue;
        }
        ++read;
        Settings copy;
        for (const SettingRow& row : table) {
            std::string rest = setting_value(*settings, row.name);
            do {
                const std::size_t end = rest.find('\n');
                const Status status = apply_setting(copy, row.name, rest.substr(0, end));
                ASSERT_TRUE(status.ok()) << status.error() << "\nread from: " << text;
                rest = end == std::string::npos ? std::string() : rest.substr(end + 1);
            } while (!rest.empty());
        }
        ASSERT_EQ(copy, *settings) << text;
    }
    EXPECT_GT(read, 500u);
}

TEST(ConfigProperty, terms_that_are_granted_are_within_the_cap_and_stored_as_they_are) {
    Scribe scribe(13);
    constexpr const char* kEntries[] = {
        "min_runtime=", "resumable=", "team_priority=", "budget=", "contract="};
    constexpr const char* kValues[] = {"2h", "(null)", "high", "projA", "debug", "0", "yes"};
    const auto settings = parse_settings("Contract=debug min-runtime=15m resumable\n", "f");
    ASSERT_TRUE(settings.ok());
    std::size_t granted = 0;
    for (int i = 0; i < 50'000; ++i) {
        std::vector<std::string> entries;
        std::string script = "#!/bin/sh\n";
        for (std::size_t count = scribe.below(4); count > 0; --count) {
            std::string pair = scribe.one_of(kEntries) + scribe.one_of(kValues);
            if (scribe.below(4) == 0) {
                pair = scribe.damaged(pair);
            }
            if (scribe.below(3) == 0) {
                std::replace(pair.begin(), pair.end(), '_', '-');
                script += "#SBATCH --" + pair + (scribe.below(2) == 0 ? " " : "\n");
            } else {
                entries.push_back(std::string(kSpankOptionPrefix) + pair);
            }
        }
        // Whatever comes, the engine makes terms of it that keep the cap.
        ASSERT_LE(terms_of_job(entries, *settings, false).min_runtime_seconds,
                  settings->max_min_runtime_seconds);
        const auto request = read_request(entries, script, {});
        if (!request.ok()) {
            EXPECT_EQ(request.error().find('\n'), std::string::npos) << request.error();
            continue;
        }
        const auto terms = resolve_terms(*request, *settings, {});
        if (!terms.ok()) {
            EXPECT_EQ(terms.error().find('\n'), std::string::npos) << terms.error();
            continue;
        }
        ++granted;
        ASSERT_LE(terms->min_runtime_seconds, settings->max_min_runtime_seconds);
        auto stored = parse_stored_terms(store_terms(entries, *terms));
        ASSERT_TRUE(stored.has_value());
        stored->declared_min_runtime = terms->declared_min_runtime;
        ASSERT_EQ(*stored, *terms);
    }
    EXPECT_GT(granted, 5'000u);
}

}  // namespace
}  // namespace tranche
