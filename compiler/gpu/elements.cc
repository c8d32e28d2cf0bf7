// A read of a tensor that isn't stored becomes the code of what computes it, over and over along the chain of stages;
// LLVM shares what is equal. What a reduction adds may be contracted with the product that it adds, as on CPUs.
#include "compiler/gpu/elements.h"

#include "compiler/ir/shapes.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::gpu {

using namespace mlir;
using linalg::LinalgOp;

static Type in_memory(OpBuilder &b, Type element) { return element.isInteger(1) ? Type(b.getI8Type()) : element; }

Value Elements::address(const Stored &tensor, ValueRange place) {
  Value at = arith::ConstantIndexOp::create(b, loc, 0);
  for (auto [index, extent] : llvm::zip_equal(place, tensor.extents)) {
    at = arith::MulIOp::create(b, loc, at, extent);
    at = arith::AddIOp::create(b, loc, at, index);
  }
  Value offset = arith::IndexCastOp::create(b, loc, b.getI32Type(), at);
  return LLVM::GEPOp::create(b, loc, tensor.address.getType(), in_memory(b, tensor.element), tensor.address,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value Elements::load(const Stored &from, ValueRange place) {
  Value value = LLVM::LoadOp::create(b, loc, in_memory(b, from.element), address(from, place));
  if (!from.element.isInteger(1))
    return value;
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 8);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
}

void Elements::store(const Stored &to, ValueRange place, Value element) {
  if (to.element.isInteger(1))
    element = arith::ExtUIOp::create(b, loc, b.getI8Type(), element);
  LLVM::StoreOp::create(b, loc, element, address(to, place));
}

Value Elements::size(AffineExpr formula, Operation *kernel) {
  SmallVector<Value> sizes =
      llvm::map_to_vector(ir::size_arguments(kernel), [&](Value size) { return scalars_.lookup(size); });
  return ir::build_size(b, loc, formula, sizes);
}

SmallVector<Value> Elements::loop_extents(LinalgOp op) {
  SmallVector<Value> out;
  auto formulas = ir::loop_extents(op);
  if (failed(formulas)) {
    op->emitOpError("has a loop whose extent no operand tells");
    return out;
  }
  for (AffineExpr formula : *formulas)
    out.push_back(size(formula, ir::scope_of(op)));
  return out;
}

SmallVector<Value> Elements::apply(AffineMap map, ValueRange loops) {
  SmallVector<Value> out;
  for (AffineExpr expr : map.getResults())
    out.push_back(affine::expandAffineExpr(b, loc, expr, loops, {}));
  return out;
}

/// The places of the parallel loops among all.
static SmallVector<unsigned> parallel_loops(LinalgOp op) {
  SmallVector<unsigned> out;
  op.getParallelDims(out);
  return out;
}

SmallVector<Value> Elements::place_of(LinalgOp op, unsigned number, ValueRange parallel) {
  SmallVector<Value> loops(op.getNumLoops(), Value());
  for (auto [loop, value] : llvm::zip_equal(parallel_loops(op), parallel))
    loops[loop] = value;
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  for (Value &loop : loops)
    loop = loop ? loop : zero;
  return apply(op.getMatchingIndexingMap(op.getDpsInitOperand(number)), loops);
}

Value Elements::element(Value tensor, ValueRange place) {
  if (Value given = given_.lookupOrNull(tensor))
    return given;
  if (auto found = stored_.find(tensor); found != stored_.end() && !hidden_.contains(tensor))
    return load(found->second, place);
  Type type = cast<RankedTensorType>(tensor.getType()).getElementType();
  Operation *op = tensor.getDefiningOp();
  if (isa_and_nonnull<tensor::EmptyOp>(op))
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  if (auto fill = dyn_cast_or_null<linalg::FillOp>(op))
    return scalar(fill.getInputs()[0]);
  if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op))
    if (auto elements = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return arith::ConstantOp::create(b, loc, elements.getSplatValue<TypedAttr>());
  auto stage = dyn_cast_or_null<LinalgOp>(op);
  if (!stage) {
    emitError(tensor.getLoc(), "a tensor of a kernel is neither an argument nor computed in it");
    return {};
  }
  unsigned number = cast<OpResult>(tensor).getResultNumber();
  AffineMap map = stage.getMatchingIndexingMap(stage.getDpsInitOperand(number));
  SmallVector<unsigned> parallel = parallel_loops(stage);
  SmallVector<Value> loops;
  for (unsigned loop : parallel) {
    auto axis = map.getResultPosition(getAffineDimExpr(loop, b.getContext()));
    loops.push_back(axis ? place[*axis] : arith::ConstantIndexOp::create(b, loc, 0).getResult());
  }
  SmallVector<Value> results = compute(stage, loops);
  return results.empty() ? Value() : results[number];
}

/// Data never leads outside of a tensor.
Value Elements::extracted(Value tensor, ValueRange place) {
  auto formulas = ir::extent_formulas(tensor);
  if (failed(formulas)) {
    emitError(tensor.getLoc(), "a tensor of a kernel has an extent that is no formula of its sizes");
    return {};
  }
  Operation *kernel = ir::scope_of(tensor.getParentBlock()->getParentOp());
  SmallVector<Value> inside;
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  for (auto [index, formula] : llvm::zip_equal(place, *formulas)) {
    Value last = arith::SubIOp::create(b, loc, size(formula, kernel), one);
    Value at = arith::MinSIOp::create(b, loc, index, last);
    inside.push_back(arith::MaxSIOp::create(b, loc, at, zero));
  }
  return element(tensor, inside);
}

/// A sum's addition and the product that it adds.
static void allow_contraction(LinalgOp op, Operation *copy, Operation *original) {
  auto yielded = op.getBlock()->getTerminator()->getOperands();
  auto combines = [&](Operation *candidate) {
    return isa<arith::AddFOp>(candidate) &&
           llvm::any_of(yielded, [&](Value v) { return v.getDefiningOp() == candidate; });
  };
  bool combiner = combines(original);
  bool factor = isa<arith::MulFOp>(original) && original->hasOneUse() && combines(*original->user_begin());
  if (!combiner && !factor)
    return;
  auto flags = arith::FastMathFlagsAttr::get(copy->getContext(), arith::FastMathFlags::contract);
  copy->setAttr("fastmath", flags);
}

LogicalResult Elements::write_body(LinalgOp op, ValueRange loops, ValueRange before, IRMapping &map) {
  Block &block = *op.getBlock();
  for (OpOperand *operand : op.getDpsInputOperands()) {
    BlockArgument argument = block.getArgument(operand->getOperandNumber());
    if (argument.use_empty())
      continue;
    bool tensor = isa<RankedTensorType>(operand->get().getType());
    Value value =
        tensor ? element(operand->get(), apply(op.getMatchingIndexingMap(operand), loops)) : scalar(operand->get());
    if (!value)
      return failure();
    map.map(argument, value);
  }
  for (auto [argument, value] : llvm::zip_equal(op.getRegionOutputArgs(), before))
    map.map(argument, value);
  bool reduces = op.getNumReductionLoops() > 0;
  for (Operation &inner : block.without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      map.map(index.getResult(), loops[index.getDim()]);
    } else if (auto read = dyn_cast<tensor::ExtractOp>(inner)) {
      SmallVector<Value> place =
          llvm::map_to_vector(read.getIndices(), [&](Value index) { return map.lookupOrDefault(index); });
      Value value = extracted(read.getTensor(), place);
      if (!value)
        return failure();
      map.map(read.getResult(), value);
    } else {
      Operation *copy = b.clone(inner, map);
      if (reduces)
        allow_contraction(op, copy, &inner);
    }
  }
  return success();
}

SmallVector<Value> Elements::body(LinalgOp op, ValueRange loops, ValueRange before) {
  IRMapping map(scalars_);
  if (failed(write_body(op, loops, before, map)))
    return {};
  return llvm::map_to_vector(op.getBlock()->getTerminator()->getOperands(),
                             [&](Value value) { return map.lookupOrDefault(value); });
}

Value Elements::inner(LinalgOp op, Value value, ValueRange loops) {
  SmallVector<Value> before;
  for (BlockArgument argument : op.getRegionOutputArgs())
    before.push_back(arith::ConstantOp::create(b, loc, b.getZeroAttr(argument.getType())));
  IRMapping map(scalars_);
  return failed(write_body(op, loops, before, map)) ? Value() : map.lookupOrDefault(value);
}

SmallVector<Value> Elements::compute(LinalgOp op, ValueRange parallel) {
  SmallVector<Value> loops(op.getNumLoops(), Value()), extents = loop_extents(op), before;
  if (extents.size() != loops.size())
    return {};
  for (auto [loop, value] : llvm::zip_equal(parallel_loops(op), parallel))
    loops[loop] = value;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    Value value = element(init.get(), place_of(op, init.getOperandNumber() - op.getNumDpsInputs(), parallel));
    if (!value)
      return {};
    before.push_back(value);
  }
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  if (reduced.empty())
    return body(op, loops, before);
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<scf::ForOp> nest;
  for (unsigned loop : reduced) {
    auto next = scf::ForOp::create(b, loc, zero, extents[loop], one, before);
    if (!nest.empty())
      scf::YieldOp::create(b, loc, next.getResults());
    nest.push_back(next);
    loops[loop] = next.getInductionVar();
    before.assign(next.getRegionIterArgs().begin(), next.getRegionIterArgs().end());
    b.setInsertionPointToStart(next.getBody());
  }
  SmallVector<Value> after = body(op, loops, before);
  if (after.empty())
    return {};
  scf::YieldOp::create(b, loc, after);
  return SmallVector<Value>(nest.front().getResults());
}

} // namespace heddle::gpu
