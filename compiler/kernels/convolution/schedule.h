// The loop nest of the kind's variants.
#pragma once

#include "compiler/kernels/kinds.h"

namespace heddle::convolution {

/// The row of a picture that a place of it is in, with `length` places in each row. It multiplies, as nothing divides
/// vectors of whole numbers; for all places that an int counts, rounding moves a quotient by less than half of
/// 1 / length.
Halide::Expr row_of_place(const Halide::Expr &place, const Halide::Expr &length);

/// `depth`: terms at most that are summed in registers before they are added to the block; 0: all terms are.
Status schedule(LoweredKernel &kernel, const ScheduleRow &row, int64_t depth, const Target &target);

} // namespace heddle::convolution
