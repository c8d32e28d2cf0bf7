// Which kernels are attention, whatever their scores are made of: a product over keys, o[.., i, .., e] +=
// p[.., i, j] * v[.., j, .., e], whose first factor comes, element by element, from products, from reductions over all
// keys j of a row i, and from inputs. Values may count for some rows only: they are 0 for others. Keys may slide along
// with the rows, v[.., i + o - LEFT, h, e]: j is then o. Several such products may share scores, as the gradients of
// keys and values do. Or there is none, and reductions over the keys are the results: the statistics of rows that
// several sums over the same scores need (passes/recompute_scores).
#pragma once

#include "compiler/kernels/attention/sliding.h"
#include "compiler/kernels/product/product.h"

#include "llvm/ADT/DenseMap.h"

namespace heddle::attention {

/// What a loop or axis of an op in the kernel runs along: an axis of the result, or the keys.
using Role = int;
constexpr Role keys = -1;
constexpr Role summed = -2; // a reduction loop of a product other than the last one

/// Where a product over keys has its rows: an axis of the result, and how keys follow along, if they do.
struct Rows {
  int axis = -1;
  std::optional<Slide> slide; // nothing: all rows have the same keys

  bool operator==(const Rows &) const = default;
};

/// Those of a product whose loops run along axes of its result or, -1, the keys. Nothing where no factor has lanes.
std::optional<Rows> rows_of_values(const contraction::Reached &weighted);

struct Match {
  std::vector<contraction::Reached> weighted; // the products over keys, of the same rows; none: statistics
  int row_axis = -1;                          // of the result: the queries
  int lane_axis = -1;         // of the result: its innermost one, the features; of statistics, that of the rows
  bool rounds_freely = false; // the weights to the type that they are multiplied in: it may be left out
  std::optional<Slide> slide; // by which keys follow rows; nothing: all rows have the same keys
  /// The ops behind the weights: products, reductions over keys, element-wise ops. Roles of each op's loops.
  llvm::DenseMap<mlir::Operation *, std::vector<Role>> roles;

  bool has_values() const { return !weighted.empty(); }
};

std::optional<Match> match(mlir::func::FuncOp kernel);

} // namespace heddle::attention
