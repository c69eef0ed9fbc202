// SPDX-License-Identifier: GPL-2.0-or-later
// JSON values, and a strict reader of objects that strangers sent.
//
// A Json shares its value with its copies, as a pointer would. Objects keep the order in which
// keys were set. Texts that are not UTF-8 are repaired when they are put in: a job's name may hold
// anything. Running out of memory throws std::bad_alloc.
#pragma once

#include <jansson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"

namespace tranche {

class Json {
  public:
    Json();  // null
    Json(const Json& other) noexcept : value_(json_incref(other.value_)) {}
    Json(Json&& other) noexcept;
    Json& operator=(Json other) noexcept;
    ~Json() { json_decref(value_); }

    // Takes over one reference; nullptr throws std::bad_alloc.
    static Json adopt(json_t* owned) { return Json(owned); }
    static Json object();
    static Json array();
    static Json integer(std::int64_t value);
    static Json text(std::string_view value);
    static Json boolean(bool value);
    static Json texts(const std::vector<std::string>& values);
    // Thousandths as a decimal number: 1500 is 1.5.
    static Json thousandths(std::int64_t milli);

    // Objects only. The overloads keep a number from becoming a text by accident.
    Json& set(const char* key, const Json& value);
    Json& set(const char* key, std::string_view value) { return set(key, text(value)); }
    Json& set(const char* key, const char* value) { return set(key, text(value)); }
    Json& set(const char* key, std::int64_t value) { return set(key, integer(value)); }
    Json& set(const char* key, int value) { return set(key, integer(value)); }
    Json& set(const char* key, std::uint32_t value) {
        return set(key, integer(static_cast<std::int64_t>(value)));
    }
    Json& set(const char* key, bool value) { return set(key, boolean(value)); }
    // Arrays only.
    Json& append(const Json& value);

    bool is_null() const noexcept { return json_is_null(value_); }
    bool is_object() const noexcept { return json_is_object(value_); }
    bool is_array() const noexcept { return json_is_array(value_); }
    bool is_integer() const noexcept { return json_is_integer(value_); }
    bool is_number() const noexcept { return json_is_number(value_); }
    bool is_text() const noexcept { return json_is_string(value_); }
    bool is_boolean() const noexcept { return json_is_boolean(value_); }

    // Lenient look-ups, for the answers of our own service: what is missing or of another type
    // is null, empty, 0 or false.
    Json at(const char* key) const;
    Json at(std::size_t index) const;
    std::size_t size() const noexcept;  // of an array or object
    std::string as_text() const;
    std::int64_t as_integer() const noexcept;
    std::int64_t as_thousandths() const noexcept;
    bool as_boolean() const noexcept { return json_is_true(value_); }
    std::vector<std::string> keys() const;

    std::string compact() const;
    std::string pretty() const;  // indented, ends with a line break

    const char* type_name() const noexcept;  // "an object", "a text", …

  private:
    explicit Json(json_t* owned);
    json_t* value_;
};

struct JsonLimits {
    std::size_t bytes = 1 << 20;
    std::size_t depth = 16;
};

// One whole JSON value and nothing behind it. `what` names it in the Error: "the request".
Result<Json> parse_json(std::string_view text, const std::string& what,
                        const JsonLimits& limits = {});

// Reads one object key by key; whatever is wrong first is the error, and a key that nobody asked
// for is wrong.
class ObjectReader {
  public:
    // `path` names the object: "budgets[3]".
    ObjectReader(Json object, std::string path);

    std::optional<std::string> text(const char* key);
    std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most);
    std::optional<bool> boolean(const char* key);
    std::optional<std::vector<std::string>> texts(const char* key);
    std::optional<Json> array(const char* key);
    std::optional<Json> object(const char* key);
    // A mistake of the caller's, of that key.
    void refuse(const char* key, const std::string& text);
    void require(const char* key);  // it must be there

    // After all keys were asked for.
    Status finish();
    bool failed() const noexcept { return !first_mistake_.empty(); }
    const std::string& path() const noexcept { return path_; }

  private:
    std::optional<Json> find(const char* key);
    std::string name_of(const char* key) const;

    Json object_;
    std::string path_;
    std::vector<std::string> asked_;
    std::string first_mistake_;
};

}  // namespace tranche
