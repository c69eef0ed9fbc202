// SPDX-License-Identifier: GPL-2.0-or-later
// Included first by clang-tidy, which judges system headers too: Slurm's have "text"macro without a
// space, an error in C++ that compilers let pass in system headers.
#pragma once
#pragma clang diagnostic ignored "-Wreserved-user-defined-literal"
