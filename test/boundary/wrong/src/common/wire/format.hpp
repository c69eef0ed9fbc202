// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <iostream>
#include "common/policy/rank.hpp"
