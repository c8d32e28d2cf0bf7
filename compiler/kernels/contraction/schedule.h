// Applies a row of the contraction kind's schedule.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle::contraction {

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target);

} // namespace heddle::contraction
