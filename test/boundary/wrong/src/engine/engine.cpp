// SPDX-License-Identifier: GPL-2.0-or-later
#include <iostream>
#include "src/slurmctld/slurmctld.h"
#include <mutex>
#include "common/wire/format.hpp"
void leave_out(Settings& settings) { settings.rules_off = 1; }
