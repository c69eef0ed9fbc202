// SPDX-License-Identifier: GPL-2.0-or-later
// Prints what is written from the table of settings: etc/tranche.conf.example and the settings
// section of tranche.conf(5). For developers; not installed.
#include <cstdio>
#include <string>
#include <string_view>

#include "common/config/settings.hpp"

int main(int argument_count, char** arguments) {
    const std::string_view what = argument_count == 2 ? arguments[1] : "";
    std::string text;
    if (what == "example") {
        text = tranche::example_settings_file();
    } else if (what == "manual") {
        text = tranche::settings_manual_section();
    } else {
        std::fputs("usage: settings_text example|manual\n", stderr);
        return 2;
    }
    return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
}
