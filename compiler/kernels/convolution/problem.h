// A convolution in numbers: what its variants offer candidates from, and what these are expected to cost.
#pragma once

#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"

#include <optional>
#include <vector>

namespace heddle::convolution {

extern const Variant tiles, chunks;

struct Problem {
  const MicroKernel *micro_kernel;
  int64_t columns;                      // of the axis along which lanes run; -1: a run-time size
  std::vector<mlir::AffineExpr> others; // extents of the other axes: places and pictures; null where nothing is known
  int64_t terms;                        // of the sum; run-time sizes count as 256
  bool turned;                          // sums are put down across the lanes
  std::optional<int64_t> given_width;   // of the panels that the weight has along the lanes
};

/// The product behind a kernel's results, whose axes are counted so that the last one is the weight's channels: lanes
/// run along them, wherever they are in the result.
struct Match {
  contraction::Reached reached;
  std::vector<int> axes; // of the result, in the order in which `reached` counts them
  /// Whether sums are put down across the lanes, as the result has its channels further out.
  bool is_turned() const { return axes.back() + 1 != int(axes.size()); }
};
std::optional<Match> match(mlir::func::FuncOp kernel);
bool is_convolution(mlir::func::FuncOp kernel);
/// Nothing where the kernel is no convolution.
std::optional<Problem> problem_of(mlir::func::FuncOp kernel, const Target &target);

/// Whether so many terms along which a window slides are written out for each place before a micro-kernel takes them in
/// groups, as all terms are for tiles.
bool writes_out(const MicroKernel &micro_kernel, int64_t terms);

/// Widths of panels that registers like.
std::vector<int64_t> panel_widths(const Problem &problem, const Target &target);

/// The layout in panels of `width` of argument number `argument`, where it is the weight and has a fixed shape; null
/// otherwise.
mlir::AffineMap panels_of_weight(mlir::func::FuncOp kernel, unsigned argument, int64_t width, const Target &target);

/// Candidates of a variant for panels of `width`: `depth` terms at most in registers; 0: the whole sum.
std::vector<Candidate> candidates(const Problem &problem, std::string_view variant, int64_t width, int64_t depth,
                                  const Target &target);

/// Parameters that both variants have.
std::vector<Parameter> tile_parameters();

} // namespace heddle::convolution
