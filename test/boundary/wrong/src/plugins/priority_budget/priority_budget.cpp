// SPDX-License-Identifier: GPL-2.0-or-later
#include <slurm/slurm_errno.h>
