// SPDX-License-Identifier: GPL-2.0-or-later
// The fixed parts of the report's page: its style and its script, which draws what
// report_html.cpp wrote into the element "record".
#pragma once

namespace tranche::sim {

extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace tranche::sim
