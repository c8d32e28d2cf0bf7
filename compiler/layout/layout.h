// How a tensor lies in memory: an affine map from its logical index to its index in memory, both row-major. The map
// writes each axis in digits of a mixed radix and puts the digits of all axes into any order:
//
//   (n, k) -> (n, k)                                             row-major
//   (n, k) -> (n floordiv 48, k, n mod 48)                       panels of 48 rows
//   (n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)   the same, in pairs along k
//
// An axis whose extent is no multiple of its digits is padded with zeros. Since every digit belongs to one axis, the
// address of an element is a sum of one number per axis, which is all that packing needs to know.
#pragma once

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::layout {

/// (index of `axis` floordiv `divisor`) mod `radix`; without `mod` where radix is 0.
struct Digit {
  unsigned axis;
  int64_t divisor, radix;
};

/// A result of a layout as a digit; nothing where it is none.
std::optional<Digit> digit_of(mlir::AffineExpr result);

/// Whether the map is a layout of a tensor of that rank: digits only, and those of each axis make up its index.
mlir::LogicalResult verify(mlir::AffineMap layout, int64_t rank,
                           llvm::function_ref<mlir::InFlightDiagnostic()> emit_error);

/// Axis `axis` cut into panels of `width`: the number of the panel is outermost, the place in it innermost, and between
/// them the other axes lie in that order. With a `group`, so many indices of the last of the others lie side by side.
mlir::AffineMap panels(mlir::MLIRContext *context, unsigned axis, int64_t width, llvm::ArrayRef<unsigned> others,
                       int64_t group = 1);

/// What `panels` made: the axis in panels, their width, and of which axis how many indices lie side by side.
struct Panels {
  unsigned axis;
  int64_t width;
  unsigned grouped_axis; // where group > 1
  int64_t group;
};
/// Nothing for a null map and where no part of an axis is innermost.
std::optional<Panels> panels_of(mlir::AffineMap layout);

/// The extents in memory of a tensor of these extents; formulas stay formulas.
llvm::SmallVector<mlir::AffineExpr> memory_extents(mlir::AffineMap layout, llvm::ArrayRef<mlir::AffineExpr> extents);
llvm::SmallVector<int64_t> memory_shape(mlir::AffineMap layout, llvm::ArrayRef<int64_t> shape);

/// For readers: "row-major", "panels of 48 along axis 0", "panels of 48 along axis 0, 2 of axis 1 side by side", or the
/// map.
std::string describe(mlir::AffineMap layout);

/// Where the elements of a tensor of constant shape lie.
class Addresses {
public:
  Addresses(mlir::AffineMap layout, llvm::ArrayRef<int64_t> shape);

  /// The address is the sum over the axes of `along(axis)[index of the axis]`.
  llvm::ArrayRef<int64_t> along(unsigned axis) const { return tables_[axis]; }
  /// Sums of `along` over the axes `begin` .. `end` - 1, for all their indices in row-major order.
  std::vector<int64_t> along(unsigned begin, unsigned end) const;
  /// All elements in memory, padding included.
  int64_t elements() const { return elements_; }

private:
  std::vector<std::vector<int64_t>> tables_;
  int64_t elements_ = 1;
};

} // namespace heddle::layout
