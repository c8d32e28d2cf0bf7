// Extents are affine maps; MLIR's own expansion turns them into arithmetic.
#include "compiler/emit/host/size_builder.h"

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace heddle {

using namespace mlir;

SizeBuilder::SizeBuilder(OpBuilder &builder, ModuleOp module, Value dims)
    : builder_(builder), names_(passes::module_dims(module)) {
  auto i64 = builder.getI64Type();
  for (size_t i = 0; i < names_.size(); ++i) {
    Location loc = dims.getLoc();
    if (names_[i].product) {
      Value all;
      SmallVector<Value> known(dims_);
      known.resize(names_.size(), dims_.front()); // those behind it, which it does not mention
      auto factors = affine::expandAffineMap(builder, loc, names_[i].product, known);
      for (Value factor : *factors)
        all = all ? limited(arith::MulIOp::create(builder, loc, all, limited(factor))) : limited(factor);
      dims_.push_back(all);
      continue;
    }
    Value at = LLVM::GEPOp::create(builder, loc, dims.getType(), i64, dims, ArrayRef<LLVM::GEPArg>{int32_t(i)});
    Value size = LLVM::LoadOp::create(builder, loc, i64, at);
    dims_.push_back(arith::IndexCastOp::create(builder, loc, builder.getIndexType(), size));
  }
}

/// Within 2^31, so that no product of two sizes leaves 64 bits; a tensor of such a size is refused either way.
Value SizeBuilder::limited(Value size) {
  constexpr int64_t most = int64_t(1) << 31;
  Value below = arith::MinSIOp::create(builder_, size.getLoc(), size, constant(most));
  return arith::MaxSIOp::create(builder_, size.getLoc(), below, constant(-most));
}

Value SizeBuilder::constant(int64_t value) {
  return arith::ConstantIndexOp::create(builder_, builder_.getUnknownLoc(), value);
}

Value SizeBuilder::as_i64(Value index) {
  return arith::IndexCastOp::create(builder_, index.getLoc(), builder_.getI64Type(), index);
}

Value SizeBuilder::index(Value entry_value) {
  if (Value known = mapping_.lookupOrNull(entry_value))
    return known;
  Operation *op = entry_value.getDefiningOp();
  if (auto dim = dyn_cast<ir::DimOp>(op)) {
    int number = ir::dim_number(op->getParentOfType<ModuleOp>(), dim.getName());
    mapping_.map(entry_value, dims_[number]);
  } else {
    for (Value operand : op->getOperands())
      index(operand);
    builder_.clone(*op, mapping_); // maps the results
  }
  return mapping_.lookup(entry_value);
}

void SizeBuilder::copy(Operation *entry_op) {
  if (entry_op->getNumResults() && !mapping_.contains(entry_op->getResult(0))) {
    if (isa<ir::DimOp>(entry_op))
      index(entry_op->getResult(0));
    else
      builder_.clone(*entry_op, mapping_);
  }
}

FailureOr<SmallVector<Value>> SizeBuilder::extents(Value tensor) {
  auto formulas = passes::extents_of(tensor);
  if (failed(formulas))
    return failure();
  SmallVector<Value> out;
  for (const passes::Extent &formula : *formulas) {
    Value product;
    auto multiply = [&](Value by) {
      product = product ? Value(arith::MulIOp::create(builder_, by.getLoc(), limited(product), limited(by))) : by;
    };
    for (const passes::Extent::Factor &factor : formula.factors) {
      SmallVector<Value> operands = factor.of_dims ? dims_ : SmallVector<Value>();
      for (Value operand : factor.operands)
        operands.push_back(index(operand));
      auto value = affine::expandAffineMap(builder_, tensor.getLoc(), factor.map, operands);
      if (!value)
        return failure();
      multiply(value->front());
    }
    if (formula.constant != 1 || !product)
      multiply(constant(formula.constant));
    out.push_back(product);
  }
  return out;
}

} // namespace heddle
