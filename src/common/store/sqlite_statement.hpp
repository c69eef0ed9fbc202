// SPDX-License-Identifier: GPL-2.0-or-later
// SQLite's C interface with owners, for the ledger database only.
//
// Failures throw SqlFailure; LedgerDatabase catches it in each public function.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace tranche {

struct SqlFailure {
    int code = SQLITE_ERROR;  // primary result code
    std::string text;
};

struct CloseConnection {
    void operator()(sqlite3* connection) const noexcept { sqlite3_close_v2(connection); }
};
using SqlConnection = std::unique_ptr<sqlite3, CloseConnection>;

[[noreturn]] inline void fail(sqlite3* connection, int code) {
    throw SqlFailure{code & 0xff, sqlite3_errmsg(connection)};
}

// One statement or several, without results.
inline void execute(sqlite3* connection, const char* sql) {
    if (const int code = sqlite3_exec(connection, sql, nullptr, nullptr, nullptr);
        code != SQLITE_OK) {
        fail(connection, code);
    }
}

class Statement {
  public:
    Statement(sqlite3* connection, const char* sql) : connection_(connection) {
        sqlite3_stmt* statement = nullptr;
        if (const int code = sqlite3_prepare_v2(connection, sql, -1, &statement, nullptr);
            code != SQLITE_OK) {
            fail(connection, code);
        }
        statement_.reset(statement);
    }

    // Binds all parameters in order. Texts must live until the statement was stepped.
    template <typename... Values>
    Statement& with(const Values&... values) {
        sqlite3_reset(statement_.get());
        int place = 0;
        (bind(++place, values), ...);
        return *this;
    }
    // Whether there is a row.
    bool step() {
        const int code = sqlite3_step(statement_.get());
        if (code != SQLITE_ROW && code != SQLITE_DONE) {
            const SqlFailure failure{code & 0xff, sqlite3_errmsg(connection_)};
            sqlite3_reset(statement_.get());
            throw failure;
        }
        if (code == SQLITE_DONE) {
            sqlite3_reset(statement_.get());
        }
        return code == SQLITE_ROW;
    }
    // For statements without rows.
    void run() {
        while (step()) {
        }
    }

    std::int64_t integer(int column) const noexcept {
        return sqlite3_column_int64(statement_.get(), column);
    }
    std::string text(int column) const {
        const auto* bytes = sqlite3_column_text(statement_.get(), column);
        const int size = sqlite3_column_bytes(statement_.get(), column);
        return bytes == nullptr ? std::string()
                                : std::string(reinterpret_cast<const char*>(bytes),
                                              static_cast<std::size_t>(size));
    }

  private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
    };

    template <typename Value>
    requires std::is_integral_v<Value> || std::is_enum_v<Value>
    void bind(int place, Value value) {
        check(sqlite3_bind_int64(statement_.get(), place, static_cast<sqlite3_int64>(value)));
    }
    void bind(int place, std::string_view value) {
        check(sqlite3_bind_text(statement_.get(), place,
                                value.data() == nullptr ? "" : value.data(),
                                static_cast<int>(value.size()), SQLITE_STATIC));
    }
    void check(int code) {
        if (code != SQLITE_OK) {
            fail(connection_, code);
        }
    }

    sqlite3* connection_;
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace tranche
