// Applies a row of the convolution kind's schedule.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle::convolution {

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target);

} // namespace heddle::convolution
