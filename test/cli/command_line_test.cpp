// SPDX-License-Identifier: GPL-2.0-or-later
// Options, sbudget's grammar, tables and man pages, without a Slurm.
#include "tools/command_line.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tools/instants.hpp"
#include "tools/sbudget_options.hpp"
#include "tools/srank_options.hpp"
#include "tools/sreplay_options.hpp"
#include "tools/table.hpp"
#include "tools/text_file.hpp"
#include "tools/tranche_run.hpp"

namespace tranche {
namespace {

using Kind = BudgetEdit::Kind;
using Verb = BudgetCommand::Verb;

Result<CommandLine> parse(const CommandTable& table, std::vector<std::string> words) {
    words.insert(words.begin(), table.name);
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    return parse_command_line(table, static_cast<int>(words.size()), arguments.data());
}

BudgetCommand budget_command(const std::vector<std::string>& words) {
    auto command = parse_budget_command(words);
    EXPECT_TRUE(command.ok()) << (command.ok() ? "" : command.error());
    return command.ok() ? *command : BudgetCommand{};
}

std::string refusal(const std::vector<std::string>& words) {
    const auto command = parse_budget_command(words);
    EXPECT_FALSE(command.ok());
    return command.ok() ? "" : command.error();
}

std::string man_page(const std::string& name) {
    std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/doc/man/" + name + ".1");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(CommandLine, options_are_read_in_any_place_and_words_are_kept) {
    const auto line =
        parse(sbudget_table(), {"-P", "add", "budget", "a", "--noheader", "shares=4", "-M", "x"});
    ASSERT_TRUE(line.ok()) << line.error();
    EXPECT_TRUE(line->has("parsable2"));
    EXPECT_TRUE(line->has("noheader"));
    EXPECT_EQ(line->value("cluster"), "x");
    EXPECT_EQ(line->words, (std::vector<std::string>{"add", "budget", "a", "shares=4"}));
    const auto why = parse(srank_table(), {"--why=12_3"});
    ASSERT_TRUE(why.ok());
    EXPECT_EQ(why->value("why"), "12_3");
}

TEST(CommandLine, unknown_options_and_missing_values_are_named) {
    EXPECT_NE(parse(srank_table(), {"--bogus"}).error().find("'--bogus'"), std::string::npos);
    EXPECT_NE(parse(srank_table(), {"-z"}).error().find("'-z'"), std::string::npos);
    EXPECT_NE(parse(srank_table(), {"--why"}).error().find("needs a value"), std::string::npos);
    EXPECT_NE(parse(srank_table(), {"-j"}).error().find("'-j' needs a value"), std::string::npos);
    EXPECT_FALSE(parse(srank_table(), {"--json=x"}).ok());
}

TEST(CommandLine, letters_and_names_of_options_are_used_once) {
    for (const CommandTable* table :
         {&srank_table(), &sbudget_table(), &sreplay_table(), &tranche_run_table()}) {
        std::set<std::string> names;
        std::set<char> letters;
        for (const OptionRow& row : table->options) {
            EXPECT_TRUE(names.insert(row.name).second) << row.name;
            EXPECT_TRUE(row.letter == '\0' || letters.insert(row.letter).second) << row.letter;
        }
    }
    std::set<char> letters;
    for (const ColumnName& column : srank_columns()) {
        EXPECT_TRUE(letters.insert(column.letter).second) << column.letter;
    }
}

TEST(ManPages, options_and_columns_are_those_of_the_tables) {
    for (const CommandTable* table :
         {&srank_table(), &sbudget_table(), &sreplay_table(), &tranche_run_table()}) {
        std::string page = man_page(table->name);
        ASSERT_FALSE(page.empty()) << table->name;
        page = std::regex_replace(page, std::regex(R"(\\-)"), "-");
        std::set<std::string> known;
        for (const OptionRow& row : table->options) {
            std::string entry =
                row.letter != '\0' ? std::string("\\fB-") + row.letter + "\\fR, " : std::string();
            entry += std::string("\\fB--") + row.name + "\\fR";
            if (row.value != nullptr) {
                entry += std::string("=\\fI") + row.value + "\\fR";
            }
            EXPECT_NE(page.find(".TP\n" + entry + "\n"), std::string::npos)
                << table->name << ".1 lacks " << entry;
            known.insert(row.name);
            EXPECT_NE(help_text(*table).find(std::string("--") + row.name), std::string::npos);
        }
        const std::regex option(R"(--([a-z][a-z0-9-]+))");
        for (std::sregex_iterator it(page.begin(), page.end(), option), end; it != end; ++it) {
            const std::string name = (*it)[1];
            const bool of_sbatch = name == "min-runtime" || name == "gpus" || name == "resumable";
            EXPECT_TRUE(known.contains(name) || of_sbatch) << table->name << ".1 names --" << name;
        }
    }
    const std::string page = man_page("srank");
    std::size_t rows = 0;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
        rows += line.starts_with("%") ? 1 : 0;
    }
    EXPECT_EQ(rows, srank_columns().size());
    for (const ColumnName& column : srank_columns()) {
        const std::string row = std::string(".TP\n%") + column.letter + ", " + column.name + "\n";
        EXPECT_NE(page.find(row), std::string::npos) << column.name;
    }
}

TEST(BudgetGrammar, a_budget_is_added_with_its_keys) {
    const BudgetEdit edit =
        budget_command({"add", "budget", "projA", "parent=progA", "shares=35",
                        "accounts=proja,projb", "managers=alice", "reason=plan of May"})
            .edit;
    EXPECT_EQ(edit.kind, Kind::add);
    EXPECT_EQ(edit.name, "projA");
    EXPECT_EQ(edit.parent, "progA");
    EXPECT_EQ(edit.shares, 35);
    EXPECT_EQ(edit.accounts, (std::vector<std::string>{"proja", "projb"}));
    EXPECT_EQ(edit.managers, (std::vector<std::string>{"alice"}));
    EXPECT_EQ(edit.reason, "plan of May");
    EXPECT_EQ(budget_command({"add", "budget", "name=x"}).edit.name, "x");
}

TEST(BudgetGrammar, a_budget_is_modified_by_where_and_set) {
    const BudgetEdit edit =
        budget_command({"modify", "budget", "where", "name=projA", "set", "shares=40",
                        "accounts+=x,y", "users-=bob", "sharing=pooled", "managers="})
            .edit;
    EXPECT_EQ(edit.kind, Kind::modify);
    EXPECT_EQ(edit.name, "projA");
    EXPECT_EQ(edit.shares, 40);
    EXPECT_EQ(edit.add_accounts, (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(edit.remove_users, (std::vector<std::string>{"bob"}));
    EXPECT_EQ(edit.sharing, BudgetSharing::pooled);
    ASSERT_TRUE(edit.managers.has_value());
    EXPECT_TRUE(edit.managers->empty());
    EXPECT_EQ(budget_command({"modify", "budget", "projA", "set", "shares=1"}).edit.name, "projA");
    EXPECT_EQ(budget_command({"modify", "budget", "projA", "shares=1"}).edit.shares, 1);
    EXPECT_EQ(budget_command({"delete", "budget", "where", "name=a"}).edit.kind, Kind::remove);
    EXPECT_EQ(budget_command({"delete", "budget", "a"}).edit.name, "a");
    const BudgetEdit move = budget_command({"move", "budget", "a", "parent=b"}).edit;
    EXPECT_EQ(move.kind, Kind::move);
    EXPECT_EQ(move.parent, "b");
}

TEST(BudgetGrammar, words_are_read_in_any_case_and_shortened) {
    EXPECT_EQ(budget_command({"LIST", "Tree"}).verb, Verb::show_tree);
    EXPECT_EQ(budget_command({"sh", "b"}).verb, Verb::show_budget);
    EXPECT_EQ(budget_command({"s", "preem"}).verb, Verb::show_preemption);
    const BudgetCommand period = budget_command(
        {"show", "preemption", "start=yesterday", "End=now-2h", "where", "job=12,13_4"});
    EXPECT_EQ(period.start, "yesterday");
    EXPECT_EQ(period.end, "now-2h");
    EXPECT_EQ(period.jobs, (std::vector<std::string>{"12", "13_4"}));
    EXPECT_FALSE(parse_budget_command({"show", "tree", "start=yesterday"}).ok());
    EXPECT_FALSE(parse_budget_command({"show", "edit", "job=12"}).ok());
    EXPECT_EQ(budget_command({"show"}).verb, Verb::show_tree);
    EXPECT_EQ(budget_command({"a", "bud", "x", "Sharing=USERS"}).edit.sharing,
              BudgetSharing::users);
    EXPECT_EQ(budget_command({"mod", "budget", "x", "SET", "acc+=y"}).edit.add_accounts,
              (std::vector<std::string>{"y"}));
    EXPECT_NE(refusal({"d", "x"}).find("may mean several"), std::string::npos);
    EXPECT_NE(refusal({"mo", "budget", "x"}).find("may mean several"), std::string::npos);
}

TEST(BudgetGrammar, show_is_narrowed_and_formatted) {
    const BudgetCommand command = budget_command(
        {"show", "budget", "where", "name=a,b", "parent=p", "format=name%30,shares"});
    EXPECT_EQ(command.names, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(command.parents, (std::vector<std::string>{"p"}));
    EXPECT_EQ(command.columns, (std::vector<std::string>{"name%30", "shares"}));
    EXPECT_EQ(budget_command({"show", "budget", "a,b"}).names.size(), 2u);
    EXPECT_EQ(budget_command({"dump", "t.json"}).file, "t.json");
    EXPECT_EQ(budget_command({"load", "file=t.json", "reason=x"}).edit.reason, "x");
}

TEST(BudgetGrammar, a_job_is_named_as_squeue_does_and_its_keys_may_be_shortened) {
    const BudgetCommand command =
        budget_command({"job", "12_4", "set", "min-runtime=2h", "RESUM=no", "team=low",
                        "free_first=yes", "rea=x"});
    EXPECT_EQ(command.verb, Verb::job);
    EXPECT_EQ(command.job.job.id, 12);
    EXPECT_EQ(command.job.job.array_task, 4);
    EXPECT_EQ(command.job.edit.min_runtime, "2h");
    EXPECT_EQ(command.job.edit.resumable, "no");
    EXPECT_EQ(command.job.edit.team_priority, "low");
    EXPECT_EQ(command.job.edit.free_first, "yes");
    EXPECT_EQ(command.job.reason, "x");
    EXPECT_TRUE(budget_command({"job", "12", "check"}).job.checkpointed);
    EXPECT_EQ(budget_command({"show", "contract", "12"}).verb, Verb::show_contract);
}

TEST(BudgetGrammar, a_task_of_an_array_that_names_its_own_job_means_itself) {
    const auto own = parse_job_command({"12", "checkpointed"}, "12", "12_4");
    ASSERT_TRUE(own.ok()) << own.error();
    EXPECT_EQ(own->job.array_task, 4);
    EXPECT_EQ(parse_job_command({"13", "checkpointed"}, "12", "12_4")->job.array_task, -1);
    EXPECT_EQ(parse_job_command({"12", "checkpointed"}, "12", "")->job.array_task, -1);
    EXPECT_EQ(parse_job_command({"12", "set", "resumable=yes"}, "12", "12_4")->job.array_task, -1);
}

TEST(BudgetGrammar, mistakes_are_named_with_what_is_right) {
    const struct {
        std::vector<std::string> words;
        const char* expected;
    } cases[] = {
        {{}, "a verb is expected"},
        {{"destroy"}, "unknown verb 'destroy'; known are add, modify, delete, move, show"},
        {{"job"}, "job JOBID set min-runtime=2h would be right"},
        {{"job", "x"}, "job 'x'"},
        {{"job", "12"}, "job 12: what is to be done?"},
        {{"job", "12", "drop"}, "'set' or 'checkpointed' is expected after 'job 12', not 'drop'"},
        {{"job", "12", "set"}, "no change is said"},
        {{"job", "12", "set", "2h"}, "'2h' is not KEY=VALUE"},
        {{"job", "12", "set", "budget=a"}, "unknown key 'budget'; known are min-runtime"},
        {{"job", "12", "set", "re=a"}, "'re' may mean several; known are min-runtime, resumable"},
        {{"job", "12", "set", "min=1", "min=2"}, "min-runtime is given twice"},
        {{"job", "12", "set", "min=soon"}, "min-runtime: 'soon' is not a time"},
        {{"job", "12", "checkpointed", "now"}, "'now' is too much"},
        {{"add"}, "'budget' and a name are expected"},
        {{"add", "projA", "shares=1"}, "'budget' is expected after 'add', not 'projA'"},
        {{"add", "budget"}, "add budget NAME would be right"},
        {{"add", "budget", "a", "b"}, "two names are said"},
        {{"add", "budget", "a,b"}, "one budget is changed at a time"},
        {{"add", "budget", "a", "shares=many"}, "shares='many' is not a whole number from 0 to"},
        {{"add", "budget", "a", "shares=-1"}, "shares='-1' is not"},
        {{"add", "budget", "a", "shares=65536"}, "shares='65536' is not"},
        {{"add", "budget", "a", "shares=99999999999999999999"}, "is not a whole number"},
        {{"add", "budget", "a", "shares=1.5"}, "shares='1.5' is not"},
        {{"add", "budget", "a", "shares="}, "shares='' is not"},
        {{"add", "budget", "a", "shares+=1"}, "shares+= is not possible"},
        {{"add", "budget", "a", "colour=red"}, "unknown key 'colour'; known are name, parent"},
        {{"add", "budget", "a", "=1"}, "is not KEY=VALUE"},
        {{"add", "budget", "a", "sharing=some"}, "users, pooled"},
        {{"modify", "budget", "where", "parent=a", "set", "shares=1"}, "where name="},
        {{"modify", "budget", "where", "name=a", "set", "name=b"}, "cannot be renamed"},
        {{"show", "everything"}, "unknown entity 'everything'"},
        {{"show", "tree", "shares=3"}, "show takes name="},
        {{"dump"}, "dump FILE would be right"},
        {{"dump", "a", "b"}, "takes one file"},
    };
    for (const auto& c : cases) {
        const std::string text = refusal(c.words);
        EXPECT_NE(text.find(c.expected), std::string::npos) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
    EXPECT_LT(refusal({"add", "budget", "a", std::string(10000, 'k') + "=1"}).size(), 500u);
}

TEST(RankOptions, job_names_columns_and_sort_keys_are_read) {
    EXPECT_EQ(parse_job_name("123")->id, 123);
    EXPECT_EQ(parse_job_name("123_4")->array_task, 4);
    EXPECT_EQ(parse_job_name("28+1")->het_offset, 1);
    EXPECT_EQ(parse_job_name("28+1")->array_task, -1);
    for (const char* text : {"", "x", "-1", "0", "1_", "_1", "1_x", "4294967296", "1 ", "1+",
                             "1_2_3", "1+2+3", "1_+2"}) {
        EXPECT_FALSE(parse_job_name(text).ok()) << text;
    }
    const auto letters = parse_column_choice("%.10i %u");
    ASSERT_TRUE(letters.ok()) << letters.error();
    EXPECT_EQ(letters->at(0).name, "jobid");
    EXPECT_EQ(letters->at(0).width, 10u);
    EXPECT_TRUE(letters->at(0).right);
    EXPECT_EQ(letters->at(1).name, "user");
    const auto names = parse_column_choice("jobid:8,RATIO");
    ASSERT_TRUE(names.ok()) << names.error();
    EXPECT_EQ(names->at(0).width, 8u);
    for (const char* text : {"%z", "%", "nope", "", "%99999i", "jobid:0", "jobid:x"}) {
        EXPECT_FALSE(parse_column_choice(text).ok()) << text;
    }
    const auto keys = parse_sort_keys("-ratio,u");
    ASSERT_TRUE(keys.ok());
    EXPECT_TRUE(keys->at(0).descending);
    EXPECT_EQ(keys->at(1).json_key, "user");
    EXPECT_FALSE(parse_sort_keys("nope").ok());
    const auto line = parse(srank_table(), {"-j", "5,6_2,7+1", "-u", "a,b"});
    ASSERT_TRUE(line.ok());
    EXPECT_EQ(filter_of(*line)->compact(), R"({"jobs":[5,"6_2","7+1"],"users":["a","b"]})");
    EXPECT_FALSE(filter_of(*parse(srank_table(), {"-j", "x"})).ok());
}

TEST(RankOptions, an_option_that_a_view_does_not_have_is_refused) {
    const struct {
        std::vector<std::string> words;
        const char* expected;
    } cases[] = {
        {{"--running", "-o", "%i %u"}, "--format is for the queue, not for --running"},
        {{"--running", "-S", "user"}, "--sort is for the queue"},
        {{"--why", "5", "-u", "x"}, "--user narrows the queue and --running, not --why"},
        {{"--health", "-j", "5"}, "--jobs narrows"},
        {{"--health", "--running"}, "at a time"},
    };
    for (const auto& c : cases) {
        const Status status = check_views(*parse(srank_table(), c.words));
        ASSERT_FALSE(status.ok()) << c.expected;
        EXPECT_NE(status.error().find(c.expected), std::string::npos) << status.error();
    }
    EXPECT_TRUE(check_views(*parse(srank_table(), {"--running", "-j", "5", "-l"})).ok());
    EXPECT_TRUE(check_views(*parse(srank_table(), {"-o", "%i", "-S", "user"})).ok());
    EXPECT_TRUE(check_views(*parse(srank_table(), {"--health", "-l", "-n"})).ok());
}

TEST(RankOptions, a_list_of_tasks_is_read_as_slurm_writes_it) {
    for (const std::int64_t task : {0, 3, 7, 10, 15, 20}) {
        EXPECT_TRUE(list_holds("0-3,7,10-20:5", task)) << task;
    }
    for (const std::int64_t task : {4, 8, 11, 21}) {
        EXPECT_FALSE(list_holds("0-3,7,10-20:5", task)) << task;
    }
    EXPECT_FALSE(list_holds("", 0));
    EXPECT_FALSE(list_holds("...", 0));
}

TEST(TextFile, what_is_no_file_of_reasonable_length_is_refused_in_one_line) {
    const auto own = read_text_file(std::string(TRANCHE_SOURCE_DIR) + "/doc/man/srank.1");
    ASSERT_TRUE(own.ok()) << own.error();
    EXPECT_EQ(*own, man_page("srank"));
    EXPECT_EQ(read_text_file("/dev/null").value(), "");
    EXPECT_EQ(read_text_file("/").error(), "file '/' cannot be read: it is a directory");
    EXPECT_EQ(read_text_file("/dev/zero").error(),
              "file '/dev/zero' is not a text: it has control characters");
    const std::string name =
        testing::TempDir() + "/tranche-long-" + std::to_string(getpid()) + ".txt";
    std::ofstream(name) << std::string((std::size_t{1} << 20U) + 1, 'x');
    EXPECT_NE(read_text_file(name, std::size_t{1} << 20U)
                  .error()
                  .find("is longer than the 1 MiB that are read"),
              std::string::npos);
    std::remove(name.c_str());
    EXPECT_EQ(read_text_file("/no/such/file").error(),
              "file '/no/such/file' cannot be read: No such file or directory");
}

TEST(Table, columns_are_aligned_and_the_widest_text_gives_way) {
    const std::vector<TableColumn> columns = {{"NAME"}, {"N", true}};
    const std::vector<std::vector<std::string>> rows = {{"a rather long name", "1"}, {"é", "100"}};
    TableStyle style;
    EXPECT_EQ(table_text(columns, rows, style),
              "NAME                 N\na rather long name   1\né                  100\n");
    style.terminal_width = 14;
    EXPECT_EQ(table_text(columns, rows, style), "NAME         N\na rather +   1\né          100\n");
    style.heading = false;
    style.parsable = true;
    EXPECT_EQ(table_text(columns, rows, style), "a rather long name|1\né|100\n");
}

TEST(Table, texts_of_others_do_not_act_on_the_terminal) {
    TableStyle style;
    style.heading = false;
    EXPECT_EQ(table_text({{"X"}}, {{"a\033[2Jb\nc\xC2\x9B"}}, style), "a?[2Jb?c?\n");
}

TEST(Try, takes_the_words_of_sbatch_and_refuses_others_by_name) {
    const auto asked = [](const std::string& words) {
        const auto json = try_arguments(words);
        return json.ok() ? json->compact() : "refused: " + json.error();
    };
    EXPECT_EQ(asked("-N4 --min-runtime=2h"), R"({"min_runtime_seconds":7200,"nodes":4})");
    EXPECT_EQ(asked("-N 2 --gres=gpu:h100:4 --resumable"),
              R"({"gpu_type":"h100","gpus_per_node":4,"nodes":2,"resumable":true})");
    EXPECT_EQ(asked("--gpus=8 --min-runtime 30 -t 1-00:00:00 -p main -A acc --budget=b"),
              R"({"account":"acc","budget":"b","gpus":8,"min_runtime_seconds":1800,)"
              R"("partition":"main","time_limit_seconds":86400})");
    EXPECT_EQ(asked("--gres=gpu --exclusive --team-priority=high"),
              R"({"exclusive":true,"gpus_per_node":1,"team_priority":"high"})");
    for (const auto& [words, named] : {std::pair{"--mem=4G", "--mem"},
                                       {"-N4 -c 3", "-c"},
                                       {"train.sh", "train.sh"},
                                       {"--gpus=many", "many"},
                                       {"--gpus=0", "0"},
                                       {"--gres=shard:2", "shard:2"},
                                       {"--min-runtime=soon", "soon"},
                                       {"-N", "-N"}}) {
        const std::string answer = asked(words);
        EXPECT_TRUE(answer.starts_with("refused: ")) << answer;
        EXPECT_NE(answer.find(named), std::string::npos) << answer;
    }
}

TEST(Instants, are_read_as_slurm_s_commands_read_them) {
    std::tm broken{};
    broken.tm_year = 126;
    broken.tm_mon = 10;
    broken.tm_mday = 30;
    broken.tm_hour = 14;
    broken.tm_isdst = -1;
    const std::int64_t now = std::mktime(&broken);
    const auto at = [now](const char* text) {
        const auto read = parse_instant(text, now);
        return read.ok() ? *read - now : INT64_MIN;
    };
    EXPECT_EQ(at("now"), 0);
    EXPECT_EQ(at("now-2hours"), -7200);
    EXPECT_EQ(at("now+3days"), 3 * 86400);
    EXPECT_EQ(at("now-30"), -30);
    EXPECT_EQ(at("14:05"), 300);
    EXPECT_EQ(at("14:00:07"), 7);
    EXPECT_EQ(at("today"), -14 * 3600);
    EXPECT_EQ(at("2026-11-30T15:00"), 3600);
    EXPECT_EQ(at("2026-11-30 15:00:01"), 3601);
    EXPECT_EQ(at("2026-11-30"), -14 * 3600);
    for (const char* wrong : {"", "soon", "25:00", "14:60", "2026-13-01", "2026-11-30T", "now-",
                              "now-2moons", "14:05x"}) {
        EXPECT_EQ(at(wrong), INT64_MIN) << wrong;
    }
}

}  // namespace
}  // namespace tranche
