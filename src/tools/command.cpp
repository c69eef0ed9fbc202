// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/command.hpp"

#include <cstdio>
#include <ctime>
#include <exception>

#include "tools/controller.hpp"

namespace tranche {

int complain(const CommandTable& table, const std::string& text, int code) {
    std::fprintf(stderr, "%s: %s\n", table.name, text.c_str());
    return code;
}

int run_command(const CommandTable& (*table)(), int (*body)(int, char**), int count,
                char** arguments) noexcept {
    try {
        return body(count, arguments);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: internal fault: %s\n", table().name, e.what());
    } catch (...) {
        std::fprintf(stderr, "%s: internal fault\n", table().name);
    }
    return kRefused;
}

int print_answer(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
        std::fputs("the answer cannot be written to standard output\n", stderr);
        return kRefused;
    }
    return kDone;
}

std::optional<int> print_about(const CommandTable& table, const CommandLine& line) {
    if (line.has("help")) {
        return print_answer(help_text(table));
    }
    if (line.has("usage")) {
        return print_answer(usage_text(table));
    }
    if (line.has("version")) {
        return print_answer(version_text(table));
    }
    return std::nullopt;
}

CalendarTime local_calendar(std::int64_t at) {
    const auto instant = static_cast<time_t>(at);
    std::tm broken{};
    if (localtime_r(&instant, &broken) == nullptr) {
        return {};
    }
    return {broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday,
            broken.tm_hour,        broken.tm_min,     broken.tm_sec};
}

Result<Json> ask_controller(const CommandLine& line, const std::string& method,
                            const Json& arguments) {
    const auto address = find_service(line.value("cluster"));
    if (!address.ok()) {
        return address.failure();
    }
    return ask_service(*address, method, arguments);
}

}  // namespace tranche
