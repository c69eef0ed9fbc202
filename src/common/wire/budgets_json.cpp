// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/wire/budgets_json.hpp"

#include "common/base/quoted.hpp"
#include "common/wire/envelope.hpp"

namespace tranche {
namespace {

constexpr std::size_t kMostBudgets = 100000;

const char* sharing_word(BudgetSharing sharing) {
    switch (sharing) {
        case BudgetSharing::users:
            return "users";
        case BudgetSharing::pooled:
            return "pooled";
        case BudgetSharing::unset:
            break;
    }
    return "";
}

std::optional<BudgetSharing> read_sharing(ObjectReader& reader) {
    const auto word = reader.text("sharing");
    if (!word) {
        return std::nullopt;
    }
    if (word->empty()) {
        return BudgetSharing::unset;
    }
    if (*word == "users") {
        return BudgetSharing::users;
    }
    if (*word == "pooled") {
        return BudgetSharing::pooled;
    }
    reader.refuse("sharing", "is " + quoted(*word) +
                                 "; users, pooled, or an empty text (as Sharing= says) would be "
                                 "right");
    return std::nullopt;
}

Result<Budget> budget_from_json(const Json& json, std::size_t index) {
    const std::string name = json.at("name").as_text();
    ObjectReader reader(
        json, name.empty() ? "budgets[" + std::to_string(index) + "]" : "budget " + quoted(name));
    reader.require("name");
    Budget budget;
    if (auto text = reader.text("name")) {
        budget.name = *text;
    }
    if (auto parent = reader.text("parent")) {
        budget.parent = *parent;
    }
    if (auto shares = reader.integer("shares", 0, kMaxShares)) {
        budget.shares = static_cast<std::uint32_t>(*shares);
    }
    if (auto own_shares = reader.integer("own_shares", 0, kMaxShares)) {
        budget.own_shares = static_cast<std::uint32_t>(*own_shares);
    }
    budget.sharing = read_sharing(reader).value_or(BudgetSharing::unset);
    budget.accounts = reader.texts("accounts").value_or(std::vector<std::string>());
    budget.users = reader.texts("users").value_or(std::vector<std::string>());
    budget.managers = reader.texts("managers").value_or(std::vector<std::string>());
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    return budget;
}

Result<std::vector<Budget>> read_budgets(const Json& list) {
    if (list.size() > kMostBudgets) {
        return Error{std::to_string(list.size()) + " budgets are too many; at most " +
                     std::to_string(kMostBudgets) + " are read"};
    }
    std::vector<Budget> budgets;
    for (std::size_t i = 0; i < list.size(); ++i) {
        auto budget = budget_from_json(list.at(i), i);
        if (!budget.ok()) {
            return budget.failure();
        }
        budgets.push_back(std::move(budget).value());
    }
    return budgets;
}

void append_below(Json& list, const BudgetTree& tree, std::string_view parent) {
    for (const std::string& name : tree.children(parent)) {
        list.append(budget_to_json(*tree.find(name)));
        append_below(list, tree, name);
    }
}

// Without what parse_budgets() adds by itself: a tree of 10 000 budgets fits one request.
Json short_budget_to_json(const Budget& budget) {
    const Json whole = budget_to_json(budget);
    const Json usual = budget_to_json(Budget());
    Json json = Json::object();
    for (const std::string& key : whole.keys()) {
        const Json value = whole.at(key.c_str());
        if (value.compact() != usual.at(key.c_str()).compact()) {
            json.set(key.c_str(), value);
        }
    }
    return json;
}

struct KindWord {
    BudgetEdit::Kind kind;
    const char* word;
};
constexpr KindWord kKinds[] = {{BudgetEdit::Kind::add, "add"},
                               {BudgetEdit::Kind::modify, "modify"},
                               {BudgetEdit::Kind::remove, "delete"},
                               {BudgetEdit::Kind::move, "move"},
                               {BudgetEdit::Kind::load, "load"}};

}  // namespace

Json budget_to_json(const Budget& budget) {
    return Json::object()
        .set("name", budget.name)
        .set("parent", budget.parent)
        .set("shares", budget.shares)
        .set("own_shares", budget.own_shares)
        .set("sharing", sharing_word(budget.sharing))
        .set("accounts", Json::texts(budget.accounts))
        .set("users", Json::texts(budget.users))
        .set("managers", Json::texts(budget.managers));
}

Json budgets_to_json(const BudgetTree& tree) {
    Json list = Json::array();
    append_below(list, tree, kRootBudget);
    return Json::object().set("version", kWireVersion).set("budgets", list);
}

Result<std::vector<Budget>> budgets_from_json(const Json& json) {
    ObjectReader reader(json, "budgets");
    reader.integer("version", kWireVersion, kWireVersion);
    reader.require("version");
    const auto list = reader.array("budgets");
    reader.require("budgets");
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    return read_budgets(*list);
}

Result<std::vector<Budget>> parse_budgets(std::string_view text, const std::string& what) {
    const auto json = parse_json(text, what, {std::size_t{64} << 20, 16});
    if (!json.ok()) {
        return json.failure();
    }
    auto budgets = budgets_from_json(json.value());
    if (!budgets.ok()) {
        return Error{what + ": " + budgets.error()};
    }
    return budgets;
}

Json edit_to_json(const BudgetEdit& edit) {
    Json json = Json::object();
    for (const KindWord& each : kKinds) {
        if (each.kind == edit.kind) {
            json.set("kind", each.word);
        }
    }
    if (edit.kind == BudgetEdit::Kind::load) {
        Json list = Json::array();
        for (const Budget& budget : edit.tree) {
            list.append(short_budget_to_json(budget));
        }
        json.set("tree", list);
    } else {
        json.set("name", edit.name);
    }
    if (edit.parent) {
        json.set("parent", *edit.parent);
    }
    if (edit.shares) {
        json.set("shares", *edit.shares);
    }
    if (edit.own_shares) {
        json.set("own_shares", *edit.own_shares);
    }
    if (edit.sharing) {
        json.set("sharing", sharing_word(*edit.sharing));
    }
    for (const auto& [key, list] : {std::pair{"accounts", &edit.accounts},
                                    {"users", &edit.users},
                                    {"managers", &edit.managers}}) {
        if (*list) {
            json.set(key, Json::texts(**list));
        }
    }
    for (const auto& [key, list] : {std::pair{"add_accounts", &edit.add_accounts},
                                    {"remove_accounts", &edit.remove_accounts},
                                    {"add_users", &edit.add_users},
                                    {"remove_users", &edit.remove_users},
                                    {"add_managers", &edit.add_managers},
                                    {"remove_managers", &edit.remove_managers}}) {
        if (!list->empty()) {
            json.set(key, Json::texts(*list));
        }
    }
    if (!edit.reason.empty()) {
        json.set("reason", edit.reason);
    }
    return json;
}

Result<BudgetEdit> edit_from_json(const Json& json) {
    ObjectReader reader(json, "edit");
    BudgetEdit edit;
    reader.require("kind");
    const std::string kind = reader.text("kind").value_or("");
    bool known = false;
    for (const KindWord& each : kKinds) {
        if (kind == each.word) {
            edit.kind = each.kind;
            known = true;
        }
    }
    if (!known) {
        reader.refuse("kind",
                      "is " + quoted(kind) + "; add, modify, delete, move or load would be right");
    }
    edit.reason = reader.text("reason").value_or("");
    if (edit.reason.size() > 1000) {
        reader.refuse("reason", "is longer than 1000 bytes");
    }
    if (edit.kind == BudgetEdit::Kind::load) {
        reader.require("tree");
        const auto list = reader.array("tree");
        if (const Status status = reader.finish(); !status.ok()) {
            return status.failure();
        }
        auto budgets = read_budgets(*list);
        if (!budgets.ok()) {
            return budgets.failure();
        }
        edit.tree = std::move(budgets).value();
        return edit;
    }
    reader.require("name");
    edit.name = reader.text("name").value_or("");
    if (edit.kind != BudgetEdit::Kind::remove) {
        edit.parent = reader.text("parent");
    }
    if (edit.kind == BudgetEdit::Kind::add || edit.kind == BudgetEdit::Kind::modify) {
        // The range is apply_edit's to judge, with the budget's name.
        edit.shares = reader.integer("shares", INT64_MIN, INT64_MAX);
        edit.own_shares = reader.integer("own_shares", INT64_MIN, INT64_MAX);
        edit.sharing = read_sharing(reader);
        edit.accounts = reader.texts("accounts");
        edit.users = reader.texts("users");
        edit.managers = reader.texts("managers");
        for (const auto& [key, list] : {std::pair{"add_accounts", &edit.add_accounts},
                                        {"remove_accounts", &edit.remove_accounts},
                                        {"add_users", &edit.add_users},
                                        {"remove_users", &edit.remove_users},
                                        {"add_managers", &edit.add_managers},
                                        {"remove_managers", &edit.remove_managers}}) {
            *list = reader.texts(key).value_or(std::vector<std::string>());
        }
    }
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    return edit;
}

Json changes_to_json(const std::vector<BudgetChange>& changes) {
    Json list = Json::array();
    for (const BudgetChange& change : changes) {
        list.append(Json::object()
                        .set("budget", change.budget)
                        .set("field", change.field)
                        .set("before", change.before)
                        .set("after", change.after));
    }
    return list;
}

std::vector<BudgetChange> changes_from_json(const Json& json) {
    std::vector<BudgetChange> changes;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const Json each = json.at(i);
        changes.push_back({each.at("budget").as_text(), each.at("field").as_text(),
                           each.at("before").as_text(), each.at("after").as_text()});
    }
    return changes;
}

}  // namespace tranche
