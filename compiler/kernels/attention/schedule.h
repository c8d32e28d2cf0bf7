// Applies a row of the attention kind's schedule.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle::attention {

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target);

} // namespace heddle::attention
