// Structure only: a weight's element is read at loops and at one number that is computed from data and rows.
#include "compiler/passes/keyed_products.h"

#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;
using linalg::GenericOp;

namespace {

/// What a scalar of a body is computed from.
struct Slice {
  llvm::SetVector<Operation *> ops; // of the body
  llvm::SmallBitVector loops;
  bool reads = false; // elements of tensors
  bool plain = true;  // of whole numbers and loops only
};

void collect(GenericOp op, Value value, Slice &slice) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != op.getBlock())
      return;
    OpOperand *operand = op.getMatchingOpOperand(argument);
    slice.plain &= op.isDpsInput(operand) && argument.getType().isSignlessInteger();
    slice.reads = true;
    AffineMap map = op.getMatchingIndexingMap(operand);
    for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
      if (map.isFunctionOfDim(loop))
        slice.loops.set(loop);
    return;
  }
  Operation *made = value.getDefiningOp();
  if (made->getBlock() != op.getBlock() || slice.ops.contains(made))
    return;
  if (auto index = dyn_cast<linalg::IndexOp>(made))
    slice.loops.set(index.getDim());
  slice.reads |= isa<tensor::ExtractOp>(made);
  slice.plain &= made->getNumRegions() == 0 && made->getNumResults() == 1;
  for (Value operand : made->getOperands())
    if (!isa<RankedTensorType>(operand.getType()))
      collect(op, operand, slice);
  slice.ops.insert(made);
}

bool is_parallel(GenericOp op, unsigned loop) {
  return op.getIteratorTypesArray()[loop] == utils::IteratorType::parallel;
}

} // namespace

bool has_plain_maps(GenericOp op) {
  return op.hasPureTensorSemantics() && op->getNumResults() == 1 &&
         llvm::all_of(op.getIndexingMapsArray(),
                      [](AffineMap map) { return map.getNumSymbols() == 0 && map.isProjectedPermutation(); });
}

std::optional<Keyed> keyed(GenericOp op) {
  auto product = contraction::product_of(op);
  if (!product || !has_plain_maps(op) || !op.getDpsInits()[0].getDefiningOp<linalg::FillOp>())
    return std::nullopt;
  for (bool left : {true, false}) {
    const contraction::Factor &own = left ? product->left : product->right;
    const contraction::Factor &other = left ? product->right : product->left;
    auto read = unwidened(own.value).getDefiningOp<tensor::ExtractOp>();
    if (!read || !read.getTensor().getDefiningOp<ir::GetOp>() || failed(ir::loop_extents(op)))
      continue;
    Keyed out{op, read, 0, 0, {}, {}};
    llvm::SmallBitVector of_weight(op.getNumLoops());
    Slice number{{}, llvm::SmallBitVector(op.getNumLoops())};
    bool fits = true;
    for (auto [axis, index] : llvm::enumerate(read.getIndices())) {
      if (auto loop = index.getDefiningOp<linalg::IndexOp>()) {
        fits &= !of_weight.test(loop.getDim());
        of_weight.set(loop.getDim());
        continue;
      }
      fits &= out.below == 0;
      out.axis = unsigned(axis);
      out.below = cast<RankedTensorType>(read.getTensor().getType()).getDimSize(axis);
      collect(op, index, number);
    }
    if (!fits || out.below < 2 || out.below > HEDDLE_MOST_GROUPS || !number.reads || !number.plain)
      continue;
    bool lanes = false, terms = false;
    for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
      bool parallel = is_parallel(op, loop);
      lanes |= parallel && of_weight.test(loop) && !other.loops.test(loop);
      terms |= !parallel && of_weight.test(loop) && other.loops.test(loop);
      fits &= !of_weight.test(loop) || !number.loops.test(loop);
      if (of_weight.test(loop) || !(number.loops.test(loop) || (parallel && other.loops.test(loop))))
        continue;
      out.rows.push_back(loop);
      if (!parallel)
        out.summed.push_back(loop);
    }
    if (fits && lanes && terms && number.loops.any())
      return out;
  }
  return std::nullopt;
}

OpFoldResult extent(OpBuilder &b, Operation *entry, Location loc, AffineExpr formula) {
  if (auto constant = dyn_cast<AffineConstantExpr>(formula))
    return b.getIndexAttr(constant.getValue());
  return ir::build_formula(b, loc, formula, entry);
}

linalg::GenericOp without_sum(OpBuilder &b, Operation *entry, const Keyed &found) {
  GenericOp op = found.op;
  Location loc = op.getLoc();
  b.setInsertionPoint(op);
  auto kinds = op.getIteratorTypesArray();
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  unsigned axes = maps.back().getNumResults();
  SmallVector<AffineExpr> results(maps.back().getResults());
  for (unsigned loop : found.summed) {
    kinds[loop] = utils::IteratorType::parallel;
    results.push_back(b.getAffineDimExpr(loop));
  }
  maps.back() = AffineMap::get(op.getNumLoops(), 0, results, b.getContext());
  SmallVector<AffineExpr> extents = *ir::loop_extents(op);
  SmallVector<OpFoldResult> shape;
  for (AffineExpr loop : results)
    shape.push_back(extent(b, entry, loc, extents[cast<AffineDimExpr>(loop).getPosition()]));
  Value init = op.getDpsInits()[0];
  Type element = getElementTypeOrSelf(init.getType());
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(element));
  Value start =
      linalg::FillOp::create(b, loc, zero, tensor::EmptyOp::create(b, loc, shape, element).getResult()).getResult(0);
  auto inner = GenericOp::create(b, loc, TypeRange(start.getType()), op.getDpsInputs(), ValueRange(start), maps, kinds);
  inner.getRegion().takeBody(op.getRegion());
  SmallVector<utils::IteratorType> outer_kinds(axes, utils::IteratorType::parallel);
  outer_kinds.append(found.summed.size(), utils::IteratorType::reduction);
  AffineMap all = b.getMultiDimIdentityMap(unsigned(outer_kinds.size()));
  auto outer = GenericOp::create(b, loc, op->getResultTypes(), inner->getResults(), ValueRange(init),
                                 ArrayRef<AffineMap>{all, all.getMajorSubMap(axes)}, outer_kinds,
                                 [](OpBuilder &body, Location loc, ValueRange elements) {
                                   Value sum =
                                       isa<FloatType>(elements[0].getType())
                                           ? arith::AddFOp::create(body, loc, elements[1], elements[0]).getResult()
                                           : arith::AddIOp::create(body, loc, elements[1], elements[0]).getResult();
                                   linalg::YieldOp::create(body, loc, sum);
                                 });
  op.replaceAllUsesWith(outer);
  op.erase();
  return inner;
}

Value numbers_of(OpBuilder &b, Operation *entry, const Keyed &found) {
  GenericOp op = found.op;
  tensor::ExtractOp read = found.read;
  Value index = read.getIndices()[found.axis];
  MLIRContext *context = op.getContext();
  SmallVector<AffineExpr> rows;
  for (unsigned loop : found.rows)
    rows.push_back(getAffineDimExpr(loop, context));
  auto cast = index.getDefiningOp<arith::IndexCastOp>();
  auto element = cast ? dyn_cast<BlockArgument>(cast.getIn()) : BlockArgument();
  if (element && element.getOwner() == op.getBlock() && element.getType().isInteger(32)) {
    OpOperand *operand = op.getMatchingOpOperand(element);
    if (op.getMatchingIndexingMap(operand).getResults() == ArrayRef<AffineExpr>(rows))
      return operand->get();
  }
  auto extents = ir::loop_extents(op);
  if (failed(extents))
    return {};
  Slice slice{{}, llvm::SmallBitVector(op.getNumLoops())};
  collect(op, index, slice);
  DenseMap<unsigned, unsigned> place; // of a loop among the rows
  SmallVector<AffineExpr> all(op.getNumLoops(), getAffineConstantExpr(0, context));
  for (auto [i, loop] : llvm::enumerate(found.rows)) {
    place[loop] = unsigned(i);
    all[loop] = getAffineDimExpr(unsigned(i), context);
  }
  b.setInsertionPoint(op);
  SmallVector<OpFoldResult> shape;
  for (unsigned loop : found.rows)
    shape.push_back(extent(b, entry, op.getLoc(), (*extents)[loop]));
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  SmallVector<unsigned> of_body; // numbers of the operands that the slice takes
  for (OpOperand *operand : op.getDpsInputOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(operand);
    if (llvm::none_of(argument.getUsers(), [&](Operation *user) { return slice.ops.contains(user); }))
      continue;
    of_body.push_back(operand->getOperandNumber());
    operands.push_back(operand->get());
    maps.push_back(op.getMatchingIndexingMap(operand).replaceDimsAndSymbols(all, {}, unsigned(rows.size()), 0));
  }
  maps.push_back(b.getMultiDimIdentityMap(unsigned(rows.size())));
  Value empty = tensor::EmptyOp::create(b, op.getLoc(), shape, b.getI32Type());
  SmallVector<utils::IteratorType> loops(rows.size(), utils::IteratorType::parallel);
  auto made = GenericOp::create(
      b, op.getLoc(), TypeRange(empty.getType()), operands, ValueRange(empty), maps, loops,
      [&](OpBuilder &body, Location loc, ValueRange elements) {
        IRMapping map;
        for (auto [number, value] : llvm::zip(of_body, elements))
          map.map(op.getBlock()->getArgument(number), value);
        for (Operation *inner : slice.ops)
          if (auto loop = dyn_cast<linalg::IndexOp>(inner))
            map.map(loop.getResult(), linalg::IndexOp::create(body, loc, place.at(loop.getDim())).getResult());
          else
            body.clone(*inner, map);
        linalg::YieldOp::create(
            body, loc,
            arith::IndexCastOp::create(body, loc, body.getI32Type(), map.lookupOrDefault(index)).getResult());
      });
  return made.getResult(0);
}

} // namespace heddle::passes
