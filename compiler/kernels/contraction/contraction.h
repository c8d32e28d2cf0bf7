// What the files of this kind share.
#pragma once

#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"

namespace heddle::contraction {

extern const Variant tiles, chunks, copied_rows, packed_panels, matrix_tiles, split_tiles;

/// The micro-kernel for all products of a kernel.
const MicroKernel &micro_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target);

/// The one that multiplies tiles, for all products of a kernel; null where there is none.
const MicroKernel *matrix_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target);

/// The one that multiplies tiles of parts of f32, for all products of a kernel; null where there is none.
const MicroKernel *splitting_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target);

/// The layout of argument number `argument` in panels of `width` along the lanes, where it is an argument of fixed
/// extent there that a product multiplies with lanes along it; null otherwise.
mlir::AffineMap panels_along_lanes(mlir::func::FuncOp kernel, unsigned argument, int64_t width, const Target &target);

/// How an element of a body is read: from which tensor, and at which loops, or loops and a number; at what is neither,
/// a symbol. Null: it isn't read.
std::pair<mlir::Value, mlir::AffineMap> place_read(mlir::linalg::LinalgOp op, mlir::Value element);

} // namespace heddle::contraction
