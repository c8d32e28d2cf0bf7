// What makes an op a product, y[..m.., ..n..] += x[..m.., ..k..] * w[..n.., ..k..], judged by which loops each factor
// depends on. The factors may be any expressions: bare operands, casts, reads at computed places (a convolution).
#pragma once

#include "compiler/layout/layout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

#include <optional>
#include <vector>

namespace heddle::contraction {

struct Factor {
  mlir::Value value;          // in the op's body
  llvm::SmallBitVector loops; // that it depends on
};

struct Product {
  mlir::linalg::LinalgOp op;
  Factor left, right;
};

/// The values of a body that one is made of, itself the first. Each once: values are shared, so that there may be many
/// more ways to one than there are values.
llvm::SetVector<mlir::Value> values_behind(mlir::linalg::LinalgOp op, mlir::Value value);

/// The loops of an op that a value of its body depends on.
llvm::SmallBitVector loops_behind(mlir::linalg::LinalgOp op, mlir::Value value);

/// `op` as a product: a sum over at least one loop that both factors depend on, with a parallel loop that only one
/// of them depends on (so that the other's elements are reused).
std::optional<Product> product_of(mlir::linalg::LinalgOp op);

/// Whether `op` is a product both of whose factors are reused: going by rows would fetch a matrix for every row.
bool is_matrix_product(mlir::linalg::LinalgOp op);

/// A product seen from a result of the kernel that is an element-wise function of it.
struct Reached {
  Product product;
  std::vector<int> axis_of_loop; // the result's axis that each loop of the product runs along; -1: a reduction loop
};

/// Which values of a kernel have a reduction behind them. Each op is looked at once, however many ways lead to it.
class Reductions {
public:
  bool are_behind(mlir::Value value);
  bool are_read_by(mlir::linalg::LinalgOp op);

private:
  llvm::DenseMap<mlir::Operation *, bool> known_;
};

/// How the result `value` of a kernel comes from products, or nothing where it isn't element-wise in at least one
/// product, read at its own indices (in any order of axes).
std::optional<std::vector<Reached>> products_behind(mlir::Value value);

/// The loop of a product that runs along the innermost axis of the result: vector lanes run along it.
int lane_loop(const Reached &reached);
/// The factor that depends on the lane loop, where only one does: its rows become vectors; null otherwise.
const Factor *wide_factor(const Reached &reached);
/// The product with the factor that has rows on the left, and the one that lanes run along on the right.
Product rows_by_lanes(const Reached &reached);
/// The innermost axis of the result that only the other factor depends on: registers hold several of its rows.
/// -1: there is none.
int row_axis(const Reached &reached);

/// The read that a factor is, apart from casts and from a condition without which it is 0: an argument of the body, or
/// a tensor.extract.
mlir::Value element_read(mlir::Value factor);

/// Whether an index of a body is made of numbers that tensors hold, not of the loops' indices alone.
bool is_data(mlir::linalg::LinalgOp op, mlir::Value index);

/// Whether a factor of the product is 0 by a condition on loops that its elements lack.
bool counts_for_some_rows(mlir::linalg::LinalgOp op);

/// The axis of the result each index of which has a number that says where the wide factor is read, and beside which
/// stands a row axis of fixed extent: tiles of rows that have the number in common. -1: there is none.
int tile_axis(const Reached &reached);
/// How many rows a tile of that axis has.
int64_t rows_of_tile(const Reached &reached);

/// Whether all results are element-wise functions of the same product at the same place.
bool has_one_product(const std::vector<std::vector<Reached>> &results);

/// All results of a kernel, where each comes from products and nothing else in the kernel is a reduction.
std::optional<std::vector<std::vector<Reached>>> match(mlir::func::FuncOp kernel);

/// The panels in which an argument of the kernel lies, where it has its layout already and that is one of panels.
std::optional<layout::Panels> given_panels(mlir::func::FuncOp kernel, unsigned argument);

} // namespace heddle::contraction
