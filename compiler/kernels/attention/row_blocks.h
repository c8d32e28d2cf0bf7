// Blocks of rows with lanes along the rows, and all keys at once; also of keys that slide.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"

namespace heddle::attention {

/// `blocks`: of a task, which then copies keys and values; 0: a task is one block and copies nothing.
Status schedule_row_blocks(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, int rows,
                           int blocks, const Target &target);

} // namespace heddle::attention
