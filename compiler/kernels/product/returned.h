// What a launch stores of a product when its sums are known.
#pragma once

#include "compiler/gpu/program.h"
#include "compiler/kernels/product/nest.h"

namespace heddle::contraction {

/// Computes what the kernel returns of one element of a product, at a place of all of its loops (null where they are
/// terms), and stores it. Tensors that are returned must be hidden (gpu::Elements). Failure was reported.
mlir::LogicalResult store_returned(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest,
                                   mlir::ValueRange loops, mlir::Value sum);

} // namespace heddle::contraction
