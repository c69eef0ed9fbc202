// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <slurm/slurm.h>
#include "rank_order.hpp"
#include "common/base/clock.hpp"
