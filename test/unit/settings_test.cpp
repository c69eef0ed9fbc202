// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace tranche {
namespace {

Settings read_well(std::string_view text) {
    const auto settings = parse_settings(text, "tranche.conf");
    EXPECT_TRUE(settings.ok()) << (settings.ok() ? "" : settings.error());
    return settings.ok() ? settings.value() : Settings{};
}

std::string read_badly(std::string_view text) {
    const auto settings = parse_settings(text, "tranche.conf");
    EXPECT_FALSE(settings.ok()) << "accepted: " << text.substr(0, 200);
    return settings.ok() ? std::string() : settings.error();
}

std::string file_text(const std::string& path) {
    std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/" + path);
    EXPECT_TRUE(file.good()) << path;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The defaults as the design lists them, one key a line.
constexpr std::string_view kDesignDefaults = R"(
Policy=tranche LookbackWindow=7-00:00:00 WindowShape=linear EntitlementHistory=yes Commitments=yes
MaxMinRuntime=8:00:00 DefaultMinRuntime= DefaultMinRuntimeInteractive=1:00:00 RequeueIsResumable=yes
Partitions= Sharing=users RaisedShare=1.5 RankInterval=5 PreemptMargin=0.05
Contract=
PreemptWithinBudget=no GraceTime=60 GraceTimeFree=10 GraceTimeInteractive=600 ExpressGPUs=8
ExpressNodes=2 ExpressMinRuntime=15:00 ExpressGPUsPerUser=8 ExpressFraction=0.10
ExpressHoursPerUser=16 ExpressVictimProtection=1:00:00 MaxProtectedFraction=0.95 Reservations=2
MaxAssemblies=1 AssemblyPause=8:00:00 AssemblyMinFraction=0.25 ChargeWeights=gpu=1
RefundNodeFailure=yes RefundMax=1:00:00 MaxPreemptionsPerHour=0
DrainReasons="gpu-health:*,Epilog error*,Kill task failed*,batch job complete failure*"
DrainGangWait=1:00:00
RepairProgram= RepairTimeout=1:00:00 MaxRepairing=4 MaxDrainFraction=0.2 NotifyProgram= DryRun=no
DryRunPriorityType=priority/multifactor ServicePort=6830 DatabasePath=
)";

TEST(Settings, an_empty_file_gives_the_defaults) {
    EXPECT_EQ(read_well(""), Settings{});
    EXPECT_EQ(read_well("# nothing but a comment\n\n   \t\n"), Settings{});
}

TEST(Settings, defaults_are_those_of_the_design) {
    EXPECT_EQ(read_well(kDesignDefaults), Settings{});
    for (const SettingRow& row : settings_table()) {
        EXPECT_NE(kDesignDefaults.find(row.name + "="), std::string_view::npos) << row.name;
    }
}

TEST(Settings, the_table_names_each_key_once_with_type_and_text) {
    std::set<std::string> names;
    for (const SettingRow& row : settings_table()) {
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        EXPECT_FALSE(row.type.empty()) << row.name;
        EXPECT_EQ(row.text.back(), '.') << row.name;
    }
}

TEST(Settings, every_default_of_the_table_is_read_back_as_the_default) {
    for (const SettingRow& row : settings_table()) {
        Settings settings;
        const Status status = apply_setting(settings, row.name, row.default_value);
        EXPECT_TRUE(status.ok()) << row.name << ": " << status.error();
        EXPECT_EQ(settings, Settings{}) << row.name;
    }
}

TEST(Settings, every_value_is_written_so_that_it_is_read_back) {
    const Settings settings = read_well(
        "Policy=article LookbackWindow=4:00:00 DefaultMinRuntime=1:00:00 Partitions=gpu,debug\n"
        "Contract=debug min-runtime=15 team-priority=high resumable budget=projA\n"
        "Contract=long min-runtime=8h resumable=no\n"
        "RaisedShare=2.000001 RankInterval=899 GraceTime=900 ExpressVictimProtection=0\n"
        "ChargeWeights=gpu=1,gpu:h100=2.5,cpu=0.001 RepairProgram=\"/opt/my repair\"\n"
        "PreemptWithinBudget=both DryRun=yes DrainReasons=\"bad disk*,x\"\n");
    Settings copy;
    for (const SettingRow& row : settings_table()) {
        std::istringstream lines(setting_value(settings, row.name));
        std::string line;
        do {
            std::getline(lines, line);
            const Status status = apply_setting(copy, row.name, line);
            EXPECT_TRUE(status.ok()) << row.name << ": " << status.error();
            line.clear();
        } while (lines.good());
    }
    EXPECT_EQ(copy, settings);
}

TEST(Settings, values_of_every_kind_are_read) {
    const Settings settings = read_well(
        "lookbackwindow=2-0\r\n"
        "  WINDOWSHAPE = flat   # a comment\n"
        "PreemptMargin=0.000001 RaisedShare=.5\n"
        "ServicePort=1\n"
        "ExpressVictimProtection=full\n"
        "DefaultMinRuntime=require\n"
        "NotifyProgram=\"/usr/bin/tell them#all\"\n"
        "Partitions=a,b-c\n"
        "DryRunPriorityType=priority/basic\n"
        "ChargeWeights=gpu:h100=2,cpu=0.01");
    EXPECT_EQ(settings.lookback_window_seconds, 172800);
    EXPECT_EQ(settings.window_shape, WindowShape::flat);
    EXPECT_EQ(settings.preempt_margin_ppm, 1);
    EXPECT_EQ(settings.raised_share_ppm, 500000);
    EXPECT_EQ(settings.service_port, 1);
    EXPECT_FALSE(settings.express_victim_protection_seconds.has_value());
    EXPECT_TRUE(settings.require_min_runtime);
    EXPECT_EQ(settings.notify_program, "/usr/bin/tell them#all");
    EXPECT_EQ(settings.gpu_weight_milli("h100"), 2000);
    EXPECT_EQ(settings.gpu_weight_milli("H100"), 2000);
    EXPECT_EQ(settings.gpu_weight_milli("a100"), 1000);
    EXPECT_EQ(settings.gpu_weight_milli(""), 1000);
    EXPECT_EQ(settings.cpu_weight_milli(), 10);
}

TEST(Settings, the_policy_of_the_article_sets_its_column_and_single_keys_win) {
    const Settings article = read_well("Policy=article");
    EXPECT_EQ(article.window_shape, WindowShape::flat);
    EXPECT_FALSE(article.entitlement_history);
    EXPECT_FALSE(article.commitments);
    EXPECT_EQ(article.preempt_margin_ppm, 0);
    EXPECT_EQ(article.express_fraction_ppm, 0);
    EXPECT_EQ(article.max_protected_fraction_ppm, kPpm);
    EXPECT_FALSE(article.express_victim_protection_seconds.has_value());
    EXPECT_EQ(article.reservations, 0);
    EXPECT_EQ(article.max_assemblies, 0);
    EXPECT_EQ(article.sharing, Sharing::pooled);
    EXPECT_EQ(article.raised_share_ppm, 0);
    EXPECT_FALSE(article.refund_node_failure);
    EXPECT_EQ(article.drain_gang_wait_seconds, 0);

    Settings undone = article;
    undone.policy = PolicyName::tranche;
    undone.window_shape = WindowShape::linear;
    undone.entitlement_history = true;
    undone.commitments = true;
    undone.preempt_margin_ppm = 50000;
    undone.express_fraction_ppm = 100000;
    undone.max_protected_fraction_ppm = 950000;
    undone.express_victim_protection_seconds = 3600;
    undone.reservations = 2;
    undone.max_assemblies = 1;
    undone.sharing = Sharing::users;
    undone.raised_share_ppm = 1500000;
    undone.refund_node_failure = true;
    undone.drain_gang_wait_seconds = 3600;
    EXPECT_EQ(undone, Settings{}) << "Policy=article sets a key outside its column";

    for (const char* text : {"Policy=article\nWindowShape=linear\nExpressFraction=0.2",
                             "WindowShape=linear\nExpressFraction=0.2\nPolicy=article"}) {
        const Settings mixed = read_well(text);
        EXPECT_EQ(mixed.window_shape, WindowShape::linear);
        EXPECT_EQ(mixed.express_fraction_ppm, 200000);
        EXPECT_EQ(mixed.sharing, Sharing::pooled);
    }
}

TEST(Settings, named_contracts_are_read_in_order) {
    const Settings settings = read_well(
        "Contract=debug min-runtime=15m team-priority=high # short\n"
        "Contract=\"train min-runtime=480 resumable\"\n"
        "Contract=plain\n");
    ASSERT_EQ(settings.contracts.size(), 3u);
    EXPECT_EQ(settings.contracts[0].name, "debug");
    EXPECT_EQ(settings.contracts[0].min_runtime_seconds, 900);
    EXPECT_EQ(settings.contracts[0].team_priority, TeamPriority::high);
    EXPECT_FALSE(settings.contracts[0].resumable.has_value());
    EXPECT_EQ(settings.contracts[1].min_runtime_seconds, 28800);
    EXPECT_EQ(settings.contracts[1].resumable, true);
    EXPECT_EQ(settings.find_contract("DEBUG"), &settings.contracts[0]);
    EXPECT_EQ(settings.find_contract("deb"), nullptr);
}

TEST(Settings, mistakes_name_file_line_value_and_what_was_expected) {
    const struct {
        const char* text;
        const char* expected;
    } cases[] = {
        {"LookbakWindow=5",
         "tranche.conf:1: unknown setting 'LookbakWindow': did you mean "
         "LookbackWindow?"},
        {"\n\nzzzzzzzzz=5", "tranche.conf:3: unknown setting 'zzzzzzzzz'; tranche.conf(5) lists"},
        {"LookbackWindow=x", "tranche.conf:1: LookbackWindow: 'x' is not a time: write seconds"},
        {"LookbackWindow=", "LookbackWindow: '' is not a time"},
        {"LookbackWindow=-5", "LookbackWindow: '-5' is negative"},
        {"LookbackWindow=99999999999999999999", "is too long a time"},
        {"LookbackWindow=59", "LookbackWindow='59': expected a time from 60 to 366-00:00:00"},
        {"MaxMinRuntime=0", "MaxMinRuntime='0': expected a time from 1 to"},
        {"PreemptMargin=1", "PreemptMargin='1': expected a number from 0 to 0.999999"},
        {"PreemptMargin=-0.1", "expected a number from 0"},
        {"PreemptMargin=0.0000001", "at most six decimals"},
        {"PreemptMargin=5%", "PreemptMargin='5%': expected a number"},
        {"PreemptMargin=1e-2", "expected a number"},
        {"PreemptMargin=nan", "expected a number"},
        {"PreemptMargin=.", "expected a number"},
        {"PreemptMargin=0.", "expected a number"},
        {"RaisedShare=99999999999999999999999", "expected a number from 0 to 1000"},
        {"MaxProtectedFraction=0", "expected a number from 0.000001 to 1"},
        {"ExpressGPUs=0", "ExpressGPUs='0': expected a whole number from 1 to 1000000"},
        {"ExpressGPUs=8.5", "expected a whole number"},
        {"ExpressGPUs=18446744073709551616", "expected a whole number"},
        {"ServicePort=65536", "expected a whole number from 1 to 65535"},
        {"ServicePort=http", "expected a whole number"},
        {"DryRun=maybe", "DryRun='maybe': expected yes or no"},
        {"DryRun=", "DryRun='': expected yes or no"},
        {"Policy=ours", "Policy='ours': expected tranche or article"},
        {"WindowShape=round", "expected linear or flat"},
        {"Sharing=none", "expected users or pooled"},
        {"PreemptWithinBudget=all", "expected no, users, priority or both"},
        {"DefaultMinRuntime=always", "or `require`"},
        {"DefaultMinRuntime=9:00:00",
         "DefaultMinRuntime='9:00:00': expected at most "
         "MaxMinRuntime, which is 8:00:00 here"},
        {"MaxMinRuntime=600\nDefaultMinRuntimeInteractive=1200",
         "tranche.conf:2: "
         "DefaultMinRuntimeInteractive"},
        {"Contract=x min-runtime=9h", "expected at most MaxMinRuntime"},
        {"ExpressVictimProtection=none", "or `full`"},
        {"Partitions=a,,b", "expected names of partitions"},
        {"Partitions=a,a", "partition 'a' is named twice"},
        {"Partitions=\"a b\"", "expected names of partitions"},
        {"Contract=a\nContract=A", "tranche.conf:2: Contract: the contract 'A' is defined twice"},
        {"Contract=-x", "expected 1 to 64 letters"},
        {"Contract=x min-runtime", "contract 'x': min-runtime: '' is not a time"},
        {"Contract=x min_runtime=5", "contract 'x': unknown option 'min_runtime=5'"},
        {"Contract=x free-at-first", "contract 'x': unknown option 'free-at-first'"},
        {"Contract=x min-runtime=1h min-runtime=2h", "min-runtime is given twice"},
        {"Contract=x team-priority=top", "write low, normal, high or urgent"},
        {"Contract=x resumable=perhaps", "expected yes or no"},
        {"Contract=x budget=a'b", "contract 'x': "},
        {"ChargeWeights=", "expected at least one weight"},
        {"ChargeWeights=gpu", "expected gpu=WEIGHT"},
        {"ChargeWeights=gpu=1,", "expected gpu=WEIGHT"},
        {"ChargeWeights=gpu=-1", "expected gpu=WEIGHT"},
        {"ChargeWeights=gpu=1.0001", "at most three decimals"},
        {"ChargeWeights=gpu=1001", "weights from 0 to 1000"},
        {"ChargeWeights=mem=1", "expected gpu=WEIGHT"},
        {"ChargeWeights=gpu:=1", "expected gpu=WEIGHT"},
        {"ChargeWeights=gpu=1,gpu=2", "'gpu' is weighted twice"},
        {"DrainReasons=a,,b", "none of them empty"},
        {"RepairProgram=fix.sh", "RepairProgram='fix.sh': expected an absolute path"},
        {"DryRunPriorityType=multifactor", "expected another priority plugin"},
        {"DryRunPriorityType=priority/budget", "expected another priority plugin"},
        {"DryRunPriorityType=priority/../x", "expected another priority plugin"},
        {"GraceTime=5\ngracetime=6", "tranche.conf:2: GraceTime is already set in line 1"},
        {"GraceTime", "found 'GraceTime' where Key=Value was expected"},
        {"DrainReasons=Epilog error*",
         "found 'error' where Key=Value was expected (values with "
         "blanks stand in double quotes)"},
        {"=5", "found '=5' where Key=Value was expected"},
        {"GraceTime=\"5", "is never closed"},
        {"NotifyProgram=\"/x\ty\x01\"", "without control characters"},
    };
    for (const auto& c : cases) {
        const std::string error = read_badly(c.text);
        EXPECT_NE(error.find(c.expected), std::string::npos) << c.text << "\n" << error;
        EXPECT_EQ(error.rfind("tranche.conf:", 0), 0u) << error;
        EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    }
}

TEST(Settings, all_mistakes_are_reported_up_to_twenty) {
    const std::string three = read_badly("A=1\nGraceTime=5\nServicePort=x\nDryRun=x\n");
    EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 2);
    EXPECT_NE(three.find("tranche.conf:1:"), std::string::npos);
    EXPECT_NE(three.find("tranche.conf:3:"), std::string::npos);
    EXPECT_NE(three.find("tranche.conf:4:"), std::string::npos);

    std::string many;
    for (int i = 0; i < 50; ++i) {
        many += "Nonsense" + std::to_string(i) + "=1\n";
    }
    const std::string twenty = read_badly(many);
    EXPECT_EQ(std::count(twenty.begin(), twenty.end(), '\n'), 20);
    EXPECT_NE(twenty.find("and 30 more mistakes"), std::string::npos);
}

TEST(Settings, files_that_are_no_settings_are_refused_in_bounded_text) {
    EXPECT_LT(read_badly(std::string(10000, 'x')).size(), 300u);
    EXPECT_LT(read_badly("NotifyProgram=/" + std::string(10000, 'x')).size(), 300u);
    EXPECT_LT(read_badly(std::string(2 << 20, '\n')).size(), 300u);
    EXPECT_LT(read_badly(std::string("\0\0\0\0", 4)).size(), 300u);
    EXPECT_LT(read_badly("Policy=\xff\xfe").size(), 300u);
}

TEST(Settings, other_defaults_can_be_given) {
    Settings base;
    base.express_fraction_ppm = 0;
    base.raised_share_ppm = 0;
    const auto settings = parse_settings("RaisedShare=2", "scenario", base);
    ASSERT_TRUE(settings.ok());
    EXPECT_EQ(settings->express_fraction_ppm, 0);
    EXPECT_EQ(settings->raised_share_ppm, 2 * kPpm);
}

TEST(Settings, the_example_file_is_that_of_the_table_and_says_only_defaults) {
    const std::string example = file_text("etc/tranche.conf.example");
    EXPECT_TRUE(example == example_settings_file())
        << "write it anew: settings_text example > etc/tranche.conf.example";
    EXPECT_EQ(read_well(example), Settings{});
    // With the keys taken out of their comments, too.
    std::string shown;
    std::istringstream lines(example);
    for (std::string line; std::getline(lines, line);) {
        if (line.size() > 1 && line[0] == '#' && line[1] != ' ') {
            shown += line.substr(1) + "\n";
        }
    }
    EXPECT_EQ(read_well(shown), Settings{});
    EXPECT_EQ(static_cast<std::size_t>(std::count(shown.begin(), shown.end(), '\n')),
              settings_table().size());
}

TEST(Settings, the_manual_page_holds_the_table) {
    const std::string page = file_text("doc/man/tranche.conf.5");
    EXPECT_TRUE(page.find(settings_manual_section()) != std::string::npos)
        << "put the output of `settings_text manual` between its two marks";
}

}  // namespace
}  // namespace tranche
