// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/wire/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

json_t* checked(json_t* value) {
    if (value == nullptr) {
        throw std::bad_alloc();
    }
    return value;
}

// Length of the UTF-8 sequence at `at`, 0 if there is none (RFC 3629, table of section 4).
std::size_t sequence_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
        return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return tail(1) ? 2 : 0;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        const unsigned least = first == 0xE0 ? 0xA0 : 0x80;
        const unsigned most = first == 0xED ? 0x9F : 0xBF;
        return byte(1) >= least && byte(1) <= most && tail(2) ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const unsigned least = first == 0xF0 ? 0x90 : 0x80;
        const unsigned most = first == 0xF4 ? 0x8F : 0xBF;
        return byte(1) >= least && byte(1) <= most && tail(2) && tail(3) ? 4 : 0;
    }
    return 0;
}

std::string repaired(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = sequence_length(text, i);
        if (length == 0) {
            out += "\xEF\xBF\xBD";  // U+FFFD
            ++i;
        } else {
            out.append(text.substr(i, length));
            i += length;
        }
    }
    return out;
}

// Before the parser recurses: how deep brackets nest outside of texts.
std::size_t nesting(std::string_view text) {
    std::size_t depth = 0, deepest = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_text) {
            if (c == '\\') {
                ++i;
            } else if (c == '"') {
                in_text = false;
            }
        } else if (c == '"') {
            in_text = true;
        } else if (c == '{' || c == '[') {
            deepest = std::max(deepest, ++depth);
        } else if ((c == '}' || c == ']') && depth > 0) {
            --depth;
        }
    }
    return deepest;
}

std::string dumped(const json_t* value, std::size_t flags) {
    char* text = json_dumps(value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (text == nullptr) {
        throw std::bad_alloc();
    }
    std::string out(text);
    std::free(text);
    return out;
}

}  // namespace

Json::Json() : value_(json_null()) {}
Json::Json(json_t* owned) : value_(checked(owned)) {}
Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, json_null())) {}
Json& Json::operator=(Json other) noexcept {
    std::swap(value_, other.value_);
    return *this;
}

Json Json::object() {
    return Json(json_object());
}
Json Json::array() {
    return Json(json_array());
}
Json Json::integer(std::int64_t value) {
    return Json(json_integer(value));
}
Json Json::boolean(bool value) {
    return Json(json_boolean(value));
}
Json Json::text(std::string_view value) {
    if (json_t* good = json_stringn(value.data(), value.size()); good != nullptr) {
        return Json(good);
    }
    const std::string good = repaired(value);
    return Json(json_stringn(good.data(), good.size()));
}
Json Json::texts(const std::vector<std::string>& values) {
    Json list = array();
    for (const std::string& value : values) {
        list.append(text(value));
    }
    return list;
}
Json Json::thousandths(std::int64_t milli) {
    if (milli % 1000 == 0) {
        return integer(milli / 1000);
    }
    return Json(json_real(static_cast<double>(milli) / 1000));
}

Json& Json::set(const char* key, const Json& value) {
    if (json_object_set(value_, key, value.value_) != 0) {
        throw std::bad_alloc();
    }
    return *this;
}

Json& Json::append(const Json& value) {
    if (json_array_append(value_, value.value_) != 0) {
        throw std::bad_alloc();
    }
    return *this;
}

Json Json::at(const char* key) const {
    json_t* found = json_object_get(value_, key);
    return found == nullptr ? Json() : Json(json_incref(found));
}

Json Json::at(std::size_t index) const {
    json_t* found = json_array_get(value_, index);
    return found == nullptr ? Json() : Json(json_incref(found));
}

std::size_t Json::size() const noexcept {
    return is_array() ? json_array_size(value_) : json_object_size(value_);
}

std::string Json::as_text() const {
    return is_text() ? std::string(json_string_value(value_), json_string_length(value_))
                     : std::string();
}

std::int64_t Json::as_integer() const noexcept {
    return json_integer_value(value_);
}

std::int64_t Json::as_thousandths() const noexcept {
    return is_integer() ? json_integer_value(value_) * 1000
                        : std::llround(json_real_value(value_) * 1000);
}

std::vector<std::string> Json::keys() const {
    std::vector<std::string> names;
    for (void* it = json_object_iter(value_); it != nullptr;
         it = json_object_iter_next(value_, it)) {
        names.emplace_back(json_object_iter_key(it));
    }
    return names;
}

std::string Json::compact() const {
    return dumped(value_, JSON_COMPACT);
}

std::string Json::pretty() const {
    return dumped(value_, JSON_INDENT(2)) + "\n";
}

const char* Json::type_name() const noexcept {
    switch (json_typeof(value_)) {
        case JSON_OBJECT:
            return "an object";
        case JSON_ARRAY:
            return "a list";
        case JSON_STRING:
            return "a text";
        case JSON_INTEGER:
            return "a whole number";
        case JSON_REAL:
            return "a number with a fraction";
        case JSON_TRUE:
        case JSON_FALSE:
            return "true or false";
        case JSON_NULL:
            break;
    }
    return "null";
}

Result<Json> parse_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
    if (text.size() > limits.bytes) {
        return Error{what + " is too long: " + std::to_string(text.size()) + " bytes; at most " +
                     std::to_string(limits.bytes) + " are read"};
    }
    if (nesting(text) > limits.depth) {
        return Error{what + " nests deeper than " + std::to_string(limits.depth) + " levels"};
    }
    json_error_t mistake;
    json_t* value = json_loadb(text.data(), text.size(), JSON_REJECT_DUPLICATES, &mistake);
    if (value == nullptr) {
        return Error{what + " is not JSON: line " + std::to_string(mistake.line) + ", column " +
                     std::to_string(mistake.column) + ": " +
                     quoted(mistake.text, sizeof mistake.text)};
    }
    return Json::adopt(value);
}

ObjectReader::ObjectReader(Json object, std::string path)
    : object_(std::move(object)), path_(std::move(path)) {
    if (!object_.is_object()) {
        first_mistake_ =
            path_ + " is " + object_.type_name() + "; an object in braces would be right";
    }
}

std::string ObjectReader::name_of(const char* key) const {
    return path_ + "." + key;
}

std::optional<Json> ObjectReader::find(const char* key) {
    asked_.emplace_back(key);
    if (failed()) {
        return std::nullopt;
    }
    Json value = object_.at(key);
    if (value.is_null()) {
        const auto names = object_.keys();
        if (std::find(names.begin(), names.end(), key) != names.end()) {
            refuse(key, "is null; leave it out instead");
        }
        return std::nullopt;
    }
    return value;
}

void ObjectReader::refuse(const char* key, const std::string& text) {
    if (!failed()) {
        first_mistake_ = name_of(key) + " " + text;
    }
}

void ObjectReader::require(const char* key) {
    if (!failed() && object_.at(key).is_null()) {
        refuse(key, "is missing");
    }
}

std::optional<std::string> ObjectReader::text(const char* key) {
    const auto value = find(key);
    if (!value) {
        return std::nullopt;
    }
    if (!value->is_text()) {
        refuse(key, std::string("is ") + value->type_name() + "; a text would be right");
        return std::nullopt;
    }
    return value->as_text();
}

std::optional<std::int64_t> ObjectReader::integer(const char* key, std::int64_t least,
                                                  std::int64_t most) {
    const auto value = find(key);
    if (!value) {
        return std::nullopt;
    }
    const std::string range =
        std::to_string(least) + " to " + std::to_string(most) + " would be right";
    if (!value->is_integer()) {
        refuse(key, std::string("is ") + value->type_name() +
                        (value->is_text() ? " " + quoted(value->as_text()) : "") +
                        "; a whole number, " + range);
        return std::nullopt;
    }
    if (value->as_integer() < least || value->as_integer() > most) {
        refuse(key, "is " + std::to_string(value->as_integer()) + "; " + range);
        return std::nullopt;
    }
    return value->as_integer();
}

std::optional<bool> ObjectReader::boolean(const char* key) {
    const auto value = find(key);
    if (!value) {
        return std::nullopt;
    }
    if (!value->is_boolean()) {
        refuse(key, std::string("is ") + value->type_name() + "; true or false would be right");
        return std::nullopt;
    }
    return value->as_boolean();
}

std::optional<std::vector<std::string>> ObjectReader::texts(const char* key) {
    const auto list = array(key);
    if (!list) {
        return std::nullopt;
    }
    std::vector<std::string> out;
    for (std::size_t i = 0; i < list->size(); ++i) {
        const Json each = list->at(i);
        if (!each.is_text()) {
            refuse(key, std::string("holds ") + each.type_name() + "; only texts would be right");
            return std::nullopt;
        }
        out.push_back(each.as_text());
    }
    return out;
}

std::optional<Json> ObjectReader::array(const char* key) {
    auto value = find(key);
    if (value && !value->is_array()) {
        refuse(key,
               std::string("is ") + value->type_name() + "; a list in brackets would be right");
        return std::nullopt;
    }
    return value;
}

std::optional<Json> ObjectReader::object(const char* key) {
    auto value = find(key);
    if (value && !value->is_object()) {
        refuse(key,
               std::string("is ") + value->type_name() + "; an object in braces would be right");
        return std::nullopt;
    }
    return value;
}

Status ObjectReader::finish() {
    if (!failed()) {
        for (const std::string& key : object_.keys()) {
            if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
                std::string known;
                for (const std::string& name : asked_) {
                    known += (known.empty() ? "" : ", ") + name;
                }
                first_mistake_ =
                    path_ + " has an unknown key " + quoted(key) + "; known are " + known;
                break;
            }
        }
    }
    return failed() ? Status(Error{first_mistake_}) : Status();
}

}  // namespace tranche
