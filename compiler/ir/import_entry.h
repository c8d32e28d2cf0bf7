// What the parts of import share: the entry that is being built. import.cc makes modules, entries and stages;
// import_body.cc turns a stage's scalar expression into the body of its linalg.generic.
#pragma once

#include "dsl/check/program.h"
#include "dsl/errors/source.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"

#include <functional>
#include <map>

namespace heddle::ir {

mlir::Type to_mlir(heddle::Type type, mlir::MLIRContext *context);

bool is_narrow_real(heddle::Type type);
/// The type in which formulas over elements of `type` are computed: f32 for narrow reals, i32 for i8.
heddle::Type computed_as(heddle::Type type);
/// An element as formulas compute with it.
mlir::Value widen(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);
/// A computed value as a tensor of `type` holds it. `always`: its rounding may not be left out where the value stays
/// in a kernel.
mlir::Value narrow(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Type type, bool always);

/// Whether a read takes one element at bare, distinct indices whose ranges are the tensor's extents: only such
/// reads can be operands of the stage.
bool is_operand(const heddle::Expr &read, const Stage &stage);
/// Whether a read is of one whole number that all points of the stage share. It is no operand either, but a scalar, so
/// that places and ranges can be computed from it.
bool is_scalar(const heddle::Expr &read);
/// The extent of index `position` of a stage: its space, then what it reduces over.
const Size &index_extent(const Stage &stage, int position);

/// Writes the scalar expression of one stage at the builder's place, which is the body of its linalg.generic.
class BodyWriter {
public:
  struct Surroundings {
    const Stage &stage;
    std::function<mlir::Value(const heddle::Expr &read)> operand; // the body's argument for an operand read
    std::function<mlir::Value(const Tensor &tensor)> tensor;      // the tensor itself, from outside the body
    std::function<mlir::Value(const Size &size)> size;            // an index value, from outside the body
    std::function<mlir::Value(const Tensor &tensor)> scalar;      // the element of a tensor of rank 0, from outside
    std::function<mlir::Value(int position)> loop; // the iteration of that enclosing loop, an index value
    std::function<mlir::Location(heddle::Span span)> location;
    bool on_host = false; // where an index has 64 bits; a kernel's has 32
  };
  BodyWriter(mlir::OpBuilder &builder, Surroundings around) : builder_(builder), around_(std::move(around)) {}

  mlir::Value write(const heddle::Expr &expr);
  /// A whole number as an index value; clamped to a place below `extent` unless it is proven to be one.
  mlir::Value write_place(const heddle::Expr &at, const Size &extent, bool inside, mlir::Location loc);

private:
  mlir::Value write_narrow(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_new(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_arithmetic(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_comparison(const heddle::Expr &expr, mlir::Location loc);
  /// A whole number of an exact stage, with 64 bits.
  mlir::Value write_wide(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_wide_arithmetic(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_function(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_power(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_whole_quotient(const heddle::Expr &expr, mlir::Value a, mlir::Value b, mlir::Location loc);
  mlir::Value write_cast(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_philox(const heddle::Expr &expr, mlir::Location loc);
  mlir::Value write_number_as_real(mlir::Value x, heddle::Type from, mlir::Location loc);
  mlir::Value write_whole(mlir::Value x, mlir::Location loc);
  mlir::Value write_extract(const heddle::Expr &read, mlir::Location loc);
  /// The expression as a formula over indices (dims) and sizes (symbols); null where it is none.
  mlir::AffineExpr formula(const heddle::Expr &expr);
  mlir::AffineExpr new_formula(const heddle::Expr &expr);
  mlir::Value write_formula(mlir::AffineExpr formula, mlir::Location loc);
  mlir::Value constant(mlir::Type type, double value, mlir::Location loc);

  mlir::OpBuilder &builder_;
  Surroundings around_;
  std::map<const heddle::Expr *, mlir::Value> written_, wide_;
  struct Formula {
    mlir::AffineExpr expr;
    int64_t size; // operations, each as often as it is used
  };
  std::map<const heddle::Expr *, Formula> formulas_;
  /// What a formula has besides indices: a size, the iteration of a loop, a whole number read from a tensor of rank 0.
  struct Symbol {
    Size size = {};
    int loop = -1;
    const Tensor *scalar = nullptr;
    bool operator==(const Symbol &other) const {
      return size == other.size && loop == other.loop && scalar == other.scalar;
    }
  };
  std::map<int, mlir::Value> indices_; // written at their first use, before all others
  mlir::AffineExpr symbol(const Symbol &symbol);
  mlir::Value write_symbol(const Symbol &symbol, mlir::Location loc);
  std::vector<Symbol> symbols_; // that formulas use, by number
};

} // namespace heddle::ir
