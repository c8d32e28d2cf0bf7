// Keys that slide along with the queries: a factor read at k[i + o - LEFT], where i is the query and o counts the keys
// of a window. It depends on both by one affine form, a * i + c * o, so the keys of a block of queries are the union of
// their windows: a band. Works on the body of an op to recognise this, and on Halide's expressions to make use of it.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <Halide.h>

#include <cstdint>
#include <optional>

namespace heddle::attention {

/// The form, without common factors; row > 0.
struct Slide {
  int64_t row = 0, key = 0;

  bool operator==(const Slide &) const = default;
};

/// The form by which `value`, a scalar of the op's body, depends on the two loops; nothing where it depends on them in
/// any other way, or on one of them not at all.
std::optional<Slide> slide_of(mlir::linalg::LinalgOp op, mlir::Value value, unsigned row_loop, unsigned key_loop);

/// Writes `window` for slide.row * row + slide.key * key wherever an index has this form, whatever is added to it.
Halide::Expr with_window(const Halide::Expr &value, const Slide &slide, const Halide::Var &row, const Halide::Var &key,
                         const Halide::Var &window);

} // namespace heddle::attention
