// Short names for the arithmetic that launches are full of: of indices, and of conditions on them.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

#include <algorithm>

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

  /// The place of a group of 16 bytes, in groups, among lines of so many groups of shared memory: eight lines have the
  /// same group in different banks, and eight groups that follow one another, as threads write them, lie in different
  /// banks, too. Groups of a line change places: by so many bits of the line's number as its length is no help.
  Value swizzled(Value line, Value group, int64_t groups) {
    int64_t together = std::min<int64_t>(groups & -groups, 8), apart = 8 / together; // lines until banks repeat
    if (together > 1)
      group = mlir::arith::XOrIOp::create(b, loc, group, rem(div(line, index(apart)), index(together)));
    return add(mul(line, index(groups)), group);
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace heddle::gpu
