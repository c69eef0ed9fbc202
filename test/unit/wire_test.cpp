// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "common/wire/budgets_json.hpp"
#include "common/wire/envelope.hpp"
#include "common/wire/json.hpp"

namespace tranche {
namespace {

const std::string kNonce = "00112233445566778899aabbccddeeff";

TEST(Json, numbers_of_thousandths_are_written_short) {
    const Json list = Json::array()
                          .append(Json::thousandths(910250))
                          .append(Json::thousandths(100))
                          .append(Json::thousandths(0))
                          .append(Json::thousandths(-1500))
                          .append(Json::thousandths(123456789012345));
    EXPECT_EQ(list.compact(), "[910.25,0.1,0,-1.5,123456789012.345]");
    EXPECT_EQ(list.at(std::size_t{0}).as_thousandths(), 910250);
    EXPECT_EQ(list.at(std::size_t{2}).as_thousandths(), 0);
    EXPECT_EQ(list.at(std::size_t{4}).as_thousandths(), 123456789012345);
}

TEST(Json, texts_that_are_not_utf8_are_repaired) {
    EXPECT_EQ(Json::text("caf\xE9").as_text(), "caf\xEF\xBF\xBD");
    EXPECT_EQ(Json::text("\xED\xA0\x80").as_text().size(), 9u);  // half of a surrogate pair
    EXPECT_EQ(Json::text("é€😀").as_text(), "é€😀");
    EXPECT_EQ(Json::text("\xF0\x9F\x98").as_text().size(), 9u);  // cut off
}

TEST(Json, what_is_not_one_json_value_is_one_short_error) {
    const std::string cases[] = {"",
                                 "{",
                                 "not json",
                                 "{\"a\":1} x",
                                 "{\"a\":1,\"a\":2}",
                                 "[1,]",
                                 "\xff\xfe",
                                 "{\"a\":\"\x01\"}",
                                 "{\"a\":\"\\u0000\"}",
                                 "99999999999999999999999",
                                 std::string("[1]\0", 4),
                                 "1e999",
                                 "nan"};
    for (const std::string& text : cases) {
        const auto json = parse_json(text, "the file");
        ASSERT_FALSE(json.ok()) << text;
        EXPECT_EQ(json.error().rfind("the file ", 0), 0u) << json.error();
        EXPECT_EQ(json.error().find('\n'), std::string::npos) << json.error();
        EXPECT_LT(json.error().size(), 300u);
    }
}

TEST(Json, too_deep_and_too_long_are_refused_before_they_are_parsed) {
    EXPECT_TRUE(parse_json(std::string(16, '[') + std::string(16, ']'), "x").ok());
    const auto deep = parse_json(std::string(17, '[') + std::string(17, ']'), "x");
    ASSERT_FALSE(deep.ok());
    EXPECT_NE(deep.error().find("deeper than 16"), std::string::npos);
    EXPECT_FALSE(parse_json(std::string(500000, '['), "x").ok());
    EXPECT_TRUE(parse_json("[\"[[[[[[[[[[[[[[[[[[[[[[\\\"[[[\"]", "x").ok());
    const auto longer = parse_json(std::string((1 << 20) + 1, ' '), "x");
    ASSERT_FALSE(longer.ok());
    EXPECT_NE(longer.error().find("too long"), std::string::npos);
}

TEST(Envelope, a_frame_announces_its_length) {
    const std::string frame = framed("hello");
    EXPECT_EQ(frame, std::string("\0\0\0\5hello", 9));
    EXPECT_EQ(frame_length(frame, 5).value(), 5u);
    EXPECT_FALSE(frame_length(frame, 4).ok());
    EXPECT_FALSE(frame_length(std::string(4, '\0'), 100).ok());
    EXPECT_FALSE(frame_length("\xff\xff\xff\xff", kLongestRequestBytes).ok());
    EXPECT_FALSE(frame_length("\1", 1 << 30).ok());
}

TEST(Envelope, requests_are_read_back) {
    Request request{"lab", kNonce, "why", Json::object().set("job_id", 7)};
    const auto read = parse_request(request_text(request));
    ASSERT_TRUE(read.ok()) << read.error();
    EXPECT_EQ(read->cluster, "lab");
    EXPECT_EQ(read->nonce, kNonce);
    EXPECT_EQ(read->method, "why");
    EXPECT_EQ(read->arguments.at("job_id").as_integer(), 7);
}

TEST(Envelope, requests_of_another_form_are_refused_by_key) {
    const std::string good = R"("version":1,"cluster":"c","nonce":")" + kNonce + "\"";
    const struct {
        std::string text;
        const char* expected;
    } cases[] = {
        {"[]", "request is a list"},
        {"{}", "request.version is missing"},
        {R"({"version":2})", "request.version is 2"},
        {R"({"version":"1"})", "request.version is a text '1'"},
        {"{" + good + "}", "request.method is missing"},
        {"{" + good + R"(,"method":7})", "request.method is a whole number"},
        {"{" + good + R"(,"method":null})", "request.method is null"},
        {"{" + good + R"(,"method":"m","arguments":[]})", "request.arguments is a list"},
        {"{" + good + R"(,"method":"m","extra":1})", "unknown key 'extra'"},
        {R"({"version":1,"cluster":"c","nonce":"short","method":"m"})", "request.nonce is not 32"},
    };
    for (const auto& c : cases) {
        const auto request = parse_request(c.text);
        ASSERT_FALSE(request.ok()) << c.text;
        EXPECT_NE(request.error().find(c.expected), std::string::npos)
            << c.text << ": " << request.error();
    }
}

TEST(Envelope, a_long_reply_comes_back_in_order_and_only_to_its_request) {
    Reply reply{true, Json::text(std::string(2 * kReplyPartBytes, 'x')), ""};
    const std::string text = reply_text(reply);
    const auto parts = reply_parts(text, kNonce);
    ASSERT_EQ(parts.size(), 3u);
    ReplyAssembly assembly(kNonce);
    for (const std::string& part : parts) {
        EXPECT_FALSE(assembly.complete());
        ASSERT_TRUE(assembly.add(part).ok());
    }
    ASSERT_TRUE(assembly.complete());
    EXPECT_EQ(assembly.text(), text);
    EXPECT_EQ(parse_reply(assembly.text())->result.as_text().size(), 2 * kReplyPartBytes);

    ReplyAssembly stranger("ffffffffffffffffffffffffffffffff");
    EXPECT_NE(stranger.add(parts[0]).error().find("another request"), std::string::npos);
    ReplyAssembly shuffled(kNonce);
    EXPECT_FALSE(shuffled.add(parts[1]).ok());
    ReplyAssembly repeated(kNonce);
    ASSERT_TRUE(repeated.add(parts[0]).ok());
    EXPECT_FALSE(repeated.add(parts[0]).ok());
    for (const char* garbage : {"", "tranche-reply", "GET / HTTP/1.1\r\n\r\n",
                                "tranche-reply 00112233445566778899aabbccddeeff 1 0\n",
                                "tranche-reply 00112233445566778899aabbccddeeff x 1\n"}) {
        ReplyAssembly fresh(kNonce);
        EXPECT_FALSE(fresh.add(garbage).ok()) << garbage;
    }
}

TEST(BudgetsJson, a_dump_is_loaded_back_as_the_same_tree) {
    Budget outer, inner;
    outer.name = "progA";
    outer.shares = 40;
    outer.own_shares = 0;
    outer.sharing = BudgetSharing::pooled;
    inner.name = "a";  // sorts before its parent
    inner.parent = "progA";
    inner.accounts = {"x", "y"};
    inner.users = {"ann"};
    inner.managers = {"bob"};
    const auto tree = BudgetTree::build({outer, inner});
    ASSERT_TRUE(tree.ok());
    const std::string text = budgets_to_json(tree.value()).pretty();
    EXPECT_LT(text.find("progA"), text.find("\"a\""));
    const auto budgets = parse_budgets(text, "the file");
    ASSERT_TRUE(budgets.ok()) << budgets.error();
    const auto again = BudgetTree::build(budgets.value());
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(again.value() == tree.value());
}

TEST(BudgetsJson, only_the_name_must_be_said) {
    const auto budgets = parse_budgets(R"({"version":1,"budgets":[{"name":"a"}]})", "f");
    ASSERT_TRUE(budgets.ok()) << budgets.error();
    EXPECT_EQ(budgets->at(0).parent, "root");
    EXPECT_EQ(budgets->at(0).shares, 1u);
}

TEST(BudgetsJson, mistakes_name_the_budget_the_key_and_what_would_be_right) {
    const struct {
        const char* budgets;
        const char* expected;
    } cases[] = {
        {R"([{"shares":1}])", "budgets[0].name is missing"},
        {R"([{"name":"a"},7])", "budgets[1] is a whole number"},
        {R"([{"name":"a","shares":"many"}])", "budget 'a'.shares is a text 'many'"},
        {R"([{"name":"a","shares":-1}])", "budget 'a'.shares is -1; 0 to 65535"},
        {R"([{"name":"a","shares":65536}])", "budget 'a'.shares is 65536; 0 to 65535"},
        {R"([{"name":"a","shares":1.5}])", "a number with a fraction"},
        {R"([{"name":"a","shares":99999999999999999999}])", "is not JSON"},
        {R"([{"name":"a","share":1}])", "unknown key 'share'"},
        {R"([{"name":"a","accounts":"x"}])", "budget 'a'.accounts is a text; a list"},
        {R"([{"name":"a","accounts":[1]}])", "holds a whole number"},
        {R"([{"name":"a","sharing":"all"}])", "budget 'a'.sharing is 'all'"},
        {R"([{"name":7}])", "budgets[0].name is a whole number"},
        {R"({"name":"a"})", "budgets.budgets is an object"},
    };
    for (const auto& c : cases) {
        const std::string text = std::string(R"({"version":1,"budgets":)") + c.budgets + "}";
        const auto budgets = parse_budgets(text, "file 'tree.json'");
        ASSERT_FALSE(budgets.ok()) << text;
        EXPECT_NE(budgets.error().find(c.expected), std::string::npos) << budgets.error();
        EXPECT_EQ(budgets.error().find("file 'tree.json'"), 0u) << budgets.error();
    }
    EXPECT_NE(parse_budgets(R"({"budgets":[]})", "f").error().find("version is missing"),
              std::string::npos);
    EXPECT_NE(parse_budgets(R"({"version":2,"budgets":[]})", "f").error().find("version is 2"),
              std::string::npos);
}

TEST(BudgetsJson, edits_are_read_back) {
    BudgetEdit edit;
    edit.kind = BudgetEdit::Kind::modify;
    edit.name = "projA";
    edit.shares = -5;  // judged later, with the budget's name
    edit.sharing = BudgetSharing::pooled;
    edit.users = std::vector<std::string>{};
    edit.add_accounts = {"x"};
    edit.remove_managers = {"bob"};
    edit.reason = "quarter's plan";
    const auto read = edit_from_json(edit_to_json(edit));
    ASSERT_TRUE(read.ok()) << read.error();
    EXPECT_EQ(edit_to_json(read.value()).compact(), edit_to_json(edit).compact());
    EXPECT_EQ(read->shares, -5);
    ASSERT_TRUE(read->users.has_value());
    EXPECT_TRUE(read->users->empty());
    EXPECT_FALSE(read->managers.has_value());

    BudgetEdit load;
    load.kind = BudgetEdit::Kind::load;
    load.tree.resize(1);
    load.tree[0].name = "a";
    const auto loaded = edit_from_json(edit_to_json(load));
    ASSERT_TRUE(loaded.ok()) << loaded.error();
    EXPECT_EQ(loaded->tree, load.tree);
}

TEST(BudgetsJson, edits_of_another_form_are_refused) {
    for (const char* text :
         {R"({})", R"({"kind":"destroy","name":"a"})", R"({"kind":"add"})",
          R"({"kind":"delete","name":"a","shares":1})", R"({"kind":"move","name":"a","users":[]})",
          R"({"kind":"load","name":"a"})", R"({"kind":"load","tree":[{"name":"a","x":1}]})",
          R"({"kind":"modify","name":"a","shares":"4"})", R"(["add"])"}) {
        const auto edit = edit_from_json(parse_json(text, "t").value());
        EXPECT_FALSE(edit.ok()) << text;
    }
}

}  // namespace
}  // namespace tranche
