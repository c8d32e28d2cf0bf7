// Short names for the arithmetic that launches are full of: of indices, and of conditions on them.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace heddle::gpu {

/// Code is made at the builder's place. Index values are never negative, unless a name says so.
class Arithmetic {
protected:
  using Value = mlir::Value;

  Arithmetic(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, loc, value); }
  Value real(double value) { return mlir::arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(value))); }
  Value add(Value p, Value q) { return mlir::arith::AddIOp::create(b, loc, p, q); }
  Value sub(Value p, Value q) { return mlir::arith::SubIOp::create(b, loc, p, q); }
  Value mul(Value p, Value q) { return mlir::arith::MulIOp::create(b, loc, p, q); }
  Value div(Value p, Value q) { return mlir::arith::DivUIOp::create(b, loc, p, q); }
  Value rem(Value p, Value q) { return mlir::arith::RemUIOp::create(b, loc, p, q); }
  Value least(Value p, Value q) { return mlir::arith::MinSIOp::create(b, loc, p, q); }    // signed
  Value greatest(Value p, Value q) { return mlir::arith::MaxSIOp::create(b, loc, p, q); } // signed
  Value below(Value p, Value q) { return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::ult, p, q); }
  Value both(Value p, Value q) { return mlir::arith::AndIOp::create(b, loc, p, q); }
  Value choose(Value condition, Value p, Value q) { return mlir::arith::SelectOp::create(b, loc, condition, p, q); }
  /// How many times `size` it takes to reach `count`.
  Value times(Value count, int64_t size) { return div(add(count, index(size - 1)), index(size)); }

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace heddle::gpu
