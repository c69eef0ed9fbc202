// SPDX-License-Identifier: GPL-2.0-or-later
// A value or the reason why there is none, for failures that are expected.
//
// The text of an Error names the object, the value found and what would be right; it is
// printed to people unchanged. Broken invariants are not Errors: they throw and are caught
// at the entry point.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace tranche {

struct Error {
    std::string text;
};

// Holds a T or an Error. Ask ok() before value(); value() of a failure throws
// std::bad_variant_access, which is a broken invariant.
template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(*explicit*)
    Result(Error failure)
        : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT(*explicit*)

    bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }
    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const std::string& error() const { return std::get<1>(state_).text; }
    Error failure() const { return std::get<1>(state_); }

  private:
    std::variant<T, Error> state_;
};

// Success, or an Error.
class [[nodiscard]] Status {
  public:
    Status() = default;
    Status(Error failure) : failed_(true), failure_(std::move(failure)) {}  // NOLINT(*explicit*)

    bool ok() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return ok(); }
    const std::string& error() const noexcept { return failure_.text; }
    Error failure() const { return failure_; }

  private:
    bool failed_ = false;
    Error failure_;
};

}  // namespace tranche
