// Scalar SSA values as Halide expressions: the bodies of linalg ops and the index arithmetic around them. Each value
// is translated when it is first asked for and remembered, so a body's unused parts cost nothing.
#pragma once

#include "dsl/errors/result.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "mlir/IR/ValueRange.h"

#include "llvm/ADT/DenseMap.h"

#include <Halide.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// The Halide type of elements and scalars: an `index` is an int32, an `i1` a bool of one byte.
std::optional<Halide::Type> halide_type(mlir::Type type);

/// Whether a value depends on the contents of a tensor, so that its range is not a matter of loop bounds.
bool reads_tensors(const Halide::Expr &value);

class Scalars {
public:
  /// Reads a tensor at row-major indices.
  using Load = std::function<Halide::Expr(mlir::Value tensor, std::vector<Halide::Expr> indices)>;

  explicit Scalars(Load load) : load_(std::move(load)) {}

  void define(mlir::Value value, Halide::Expr expr) { known_[value] = std::move(expr); }
  /// The loops that `linalg.index` of the op now being lowered means.
  void set_loops(std::vector<Halide::Expr> loops) { loops_ = std::move(loops); }
  /// The loop that lanes run along: a quotient whose divisor doesn't depend on it becomes a product, so that a row is
  /// divided once and not at every element. Costs half an ulp.
  void set_lane(std::string var) { lane_ = std::move(var); }
  /// The op that combines a reduction's accumulator with the next value: it stays free to be reassociated,
  /// and contracted with the product that it adds.
  void set_combiner(mlir::Operation *op) { combiner_ = op; }

  /// The body of an op with these loops is lowered from here on. What it computes of no element of them, nor of
  /// `changing`, is stored every few ops: Halide works out how large such values get as expressions, which double with
  /// each use.
  void begin_body(std::vector<std::string> loops, mlir::ValueRange changing);
  void end_body() { depths_.reset(); }

  /// The expression of `value`. After a failure, which `error()` then tells, it is some expression of that type.
  Halide::Expr value(mlir::Value value);

  const std::optional<Error> &error() const { return error_; }
  void fail(mlir::Operation *op, const std::string &what);

private:
  Halide::Expr translate(mlir::Operation &op);
  Halide::Expr stored_where_deep(mlir::Operation &op, Halide::Expr expr);
  /// Ops since what is stored or read, `varies` for what depends on a loop.
  int depth_of(mlir::Value value);
  bool uses_loops(const Halide::Expr &expr) const;
  /// Both results of an op that gives what its first has no bits for as a second.
  std::array<Halide::Expr, 2> extended(mlir::Operation &op);
  Halide::Expr arithmetic(mlir::Operation &op);
  Halide::Expr function(mlir::Operation &op);
  Halide::Expr conversion(mlir::Operation &op);
  Halide::Expr quotient(const Halide::Expr &a, const Halide::Expr &b);
  Halide::Expr combine(mlir::Operation &op, Halide::Internal::IRNodeType node);
  Halide::Expr operand(mlir::Operation &op, unsigned i) { return value(op.getOperand(i)); }

  Load load_;
  std::string lane_;
  mlir::Operation *combiner_ = nullptr;
  std::vector<Halide::Expr> loops_;
  llvm::DenseMap<mlir::Value, Halide::Expr> known_;
  static constexpr int varies = -1;
  std::vector<std::string> loop_names_;
  std::optional<llvm::DenseMap<mlir::Value, int>> depths_;
  std::optional<Error> error_;
};

} // namespace heddle
