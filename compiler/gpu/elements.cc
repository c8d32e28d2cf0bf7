// A read of a tensor that isn't stored becomes the code of what computes it, over and over along the chain of stages;
// LLVM shares what is equal. What a reduction adds may be contracted with the product that it adds, as on CPUs.
#include "compiler/gpu/elements.h"

#include "compiler/ir/shapes.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <array>
#include <utility>

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
  if (!remembers_)
    return made(tensor, place);
  std::pair<void *, std::vector<void *>> key{tensor.getAsOpaquePointer(), {}};
  for (Value index : place)
    key.second.push_back(index.getAsOpaquePointer());
  auto known = remembered_.find(key);
  if (known == remembered_.end())
    known = remembered_.emplace(key, made(tensor, place)).first;
  return known->second;
}

/// An element that isn't given.
Value Elements::made(Value tensor, ValueRange place) {
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
  SmallVector<Value> there = inside(tensor, place);
  return there.size() == place.size() ? element(tensor, there) : Value();
}

SmallVector<Value> Elements::inside(Value tensor, ValueRange place) {
  auto formulas = ir::extent_formulas(tensor);
  if (failed(formulas)) {
    emitError(tensor.getLoc(), "a tensor of a kernel has an extent that is no formula of its sizes");
    return {};
  }
  Operation *kernel = ir::scope_of(tensor.getParentBlock()->getParentOp());
  SmallVector<Value> out;
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  for (auto [index, formula] : llvm::zip_equal(place, *formulas)) {
    Value last = arith::SubIOp::create(b, loc, size(formula, kernel), one);
    Value at = arith::MinSIOp::create(b, loc, index, last);
    out.push_back(arith::MaxSIOp::create(b, loc, at, zero));
  }
  return out;
}

Operation *combiner_of(LinalgOp op) {
  if (op.getNumReductionLoops() == 0 || op->getNumResults() != 1)
    return nullptr;
  BlockArgument so_far = op.getRegionOutputArgs().front();
  Operation *combiner = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  bool any_order =
      isa_and_nonnull<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp, arith::MaximumFOp, arith::MaxNumFOp,
                      arith::MinimumFOp, arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp>(combiner);
  bool in_register = so_far.getType().isF32() || so_far.getType().isInteger(32); // which lanes can exchange
  return any_order && in_register && so_far.hasOneUse() && llvm::is_contained(combiner->getOperands(), so_far)
             ? combiner
             : nullptr;
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

/// The ops and arguments of a body that values of it come from, of `without` only those that its condition does.
static DenseSet<Value> behind(ValueRange wanted, Block &body, arith::SelectOp without = {}) {
  DenseSet<Value> found;
  SmallVector<Value> open(wanted);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (value.getParentBlock() != &body || !found.insert(value).second)
      continue;
    if (Operation *made = value.getDefiningOp(); made && made == without)
      open.push_back(without.getCondition());
    else if (made)
      llvm::append_range(open, made->getOperands());
  }
  return found;
}

/// Whether a value of a body is read from a tensor, and no given element.
bool Elements::reads(LinalgOp op, Value value) const {
  Value tensor;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getArgNumber() < unsigned(op.getNumDpsInputs()))
      tensor = op->getOperand(argument.getArgNumber());
  } else if (auto read = value.getDefiningOp<tensor::ExtractOp>()) {
    tensor = read.getTensor();
  }
  return tensor && isa<RankedTensorType>(tensor.getType()) && !given_.contains(tensor);
}

/// The choices of a body one of whose arms alone reads something, and what each arm alone needs, which is taken out of
/// `needed`. Lanes that share sums, or elements that are remembered, are for all of them to make.
SmallVector<Elements::Choice> Elements::choices(LinalgOp op, ValueRange wanted, DenseSet<Value> &needed) const {
  SmallVector<Choice> out;
  if (remembers_ || lanes_.count > 1)
    return out;
  for (Operation &inner : llvm::reverse(op.getBlock()->without_terminator())) {
    auto select = dyn_cast<arith::SelectOp>(inner);
    if (!select || !needed.contains(select.getResult()) || !select.getCondition().getType().isInteger(1))
      continue;
    DenseSet<Value> outside = behind(wanted, *op.getBlock(), select);
    std::array<Value, 2> values{select.getTrueValue(), select.getFalseValue()};
    std::array<DenseSet<Value>, 2> arms;
    bool has_reads = false;
    for (int arm : {0, 1}) {
      DenseSet<Value> other = behind(values[1 - arm], *op.getBlock());
      for (Value value : behind(values[arm], *op.getBlock()))
        if (!outside.contains(value) && !other.contains(value)) {
          arms[arm].insert(value);
          has_reads |= reads(op, value);
        }
    }
    if (!has_reads)
      continue;
    for (const DenseSet<Value> &arm : arms)
      for (Value value : arm)
        needed.erase(value);
    out.push_back({select, std::move(arms)});
  }
  return out;
}

/// What is read for one arm of a choice alone is read where that is chosen.
bool Elements::write(LinalgOp op, ValueRange wanted, DenseSet<Value> needed, ValueRange loops, IRMapping &map) {
  Block &block = *op.getBlock();
  SmallVector<Choice> choices = this->choices(op, wanted, needed);
  for (OpOperand *operand : op.getDpsInputOperands()) {
    BlockArgument argument = block.getArgument(operand->getOperandNumber());
    if (!needed.contains(argument))
      continue;
    bool tensor = isa<RankedTensorType>(operand->get().getType());
    Value value =
        tensor ? element(operand->get(), apply(op.getMatchingIndexingMap(operand), loops)) : scalar(operand->get());
    if (!value)
      return false;
    map.map(argument, value);
  }
  bool reduces = op.getNumReductionLoops() > 0;
  for (Operation &inner : block.without_terminator()) {
    if (llvm::none_of(inner.getResults(), [&](Value result) { return needed.contains(result); }))
      continue;
    auto choice = llvm::find_if(choices, [&](const Choice &choice) { return choice.select == &inner; });
    if (choice != choices.end()) {
      Value value = chosen(op, *choice, loops, map);
      if (!value)
        return false;
      map.map(inner.getResult(0), value);
    } else if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      map.map(index.getResult(), loops[index.getDim()]);
    } else if (auto read = dyn_cast<tensor::ExtractOp>(inner)) {
      SmallVector<Value> place =
          llvm::map_to_vector(read.getIndices(), [&](Value index) { return map.lookupOrDefault(index); });
      Value value = extracted(read.getTensor(), place);
      if (!value)
        return false;
      map.map(read.getResult(), value);
    } else {
      Operation *copy = b.clone(inner, map);
      if (reduces)
        allow_contraction(op, copy, &inner);
    }
  }
  return true;
}

Value Elements::chosen(LinalgOp op, const Choice &choice, ValueRange loops, const IRMapping &map) {
  arith::SelectOp select = choice.select;
  auto branch = scf::IfOp::create(b, loc, select.getType(), map.lookupOrDefault(select.getCondition()),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  const std::array<Value, 2> values{select.getTrueValue(), select.getFalseValue()};
  for (auto [arm, value] : llvm::enumerate(values)) {
    b.setInsertionPointToStart(arm == 0 ? branch.thenBlock() : branch.elseBlock());
    IRMapping own(map);
    if (!write(op, value, choice.arms[arm], loops, own))
      return {};
    scf::YieldOp::create(b, loc, own.lookupOrDefault(value));
  }
  return branch.getResult(0);
}

SmallVector<Value> Elements::body(LinalgOp op, ValueRange wanted, ValueRange loops, ValueRange before) {
  IRMapping map(scalars_);
  for (auto [argument, value] : llvm::zip_equal(op.getRegionOutputArgs(), before))
    map.map(argument, value);
  if (!write(op, wanted, behind(wanted, *op.getBlock()), loops, map))
    return {};
  return llvm::map_to_vector(wanted, [&](Value value) { return map.lookupOrDefault(value); });
}

Value Elements::inner(LinalgOp op, Value value, ValueRange loops) {
  SmallVector<Value> before;
  for (BlockArgument argument : op.getRegionOutputArgs())
    before.push_back(arith::ConstantOp::create(b, loc, b.getZeroAttr(argument.getType())));
  SmallVector<Value> out = body(op, value, loops, before);
  return out.empty() ? Value() : out.front();
}

std::optional<Value> Elements::address_of(LinalgOp op, Value read, ValueRange loops) {
  SmallVector<Value> before, place;
  Value tensor;
  if (auto argument = dyn_cast<BlockArgument>(read)) {
    OpOperand &operand = op->getOpOperand(argument.getArgNumber());
    tensor = operand.get();
    if (is_stored(tensor))
      place = apply(op.getMatchingIndexingMap(&operand), loops);
  } else if (auto extract = read.getDefiningOp<tensor::ExtractOp>()) {
    tensor = extract.getTensor();
    if (is_stored(tensor)) {
      SmallVector<Value> at;
      for (Value index : extract.getIndices())
        at.push_back(index.getParentBlock() == op.getBlock() ? inner(op, index, loops) : scalar(index));
      if (llvm::all_of(at, [](Value index) { return bool(index); }))
        place = inside(tensor, at);
    }
  }
  if (!tensor || !is_stored(tensor) || int64_t(place.size()) != cast<RankedTensorType>(tensor.getType()).getRank())
    return std::nullopt;
  return address(stored_.at(tensor), place);
}

SmallVector<Value> Elements::next(LinalgOp op, ValueRange loops, ValueRange before) {
  return body(op, op.getBlock()->getTerminator()->getOperands(), loops, before);
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
  ValueRange yielded = op.getBlock()->getTerminator()->getOperands();
  if (reduced.empty())
    return body(op, yielded, loops, before);
  Operation *combiner = lanes_.count > 1 ? combiner_of(op) : nullptr;
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  SmallVector<scf::ForOp> nest;
  {
    OpBuilder::InsertionGuard guard(b);
    for (unsigned loop : reduced) {
      bool dealt = combiner && loop == reduced.back(); // to the lanes, in turn
      Value step = dealt ? arith::ConstantIndexOp::create(b, loc, lanes_.count).getResult() : one;
      auto next = scf::ForOp::create(b, loc, dealt ? lanes_.number : zero, extents[loop], step, before);
      if (!nest.empty())
        scf::YieldOp::create(b, loc, next.getResults());
      nest.push_back(next);
      loops[loop] = next.getInductionVar();
      before.assign(next.getRegionIterArgs().begin(), next.getRegionIterArgs().end());
      b.setInsertionPointToStart(next.getBody());
    }
    // Lanes are at different terms here: none helps another. What is computed in a loop is not there behind it.
    int64_t together = std::exchange(lanes_.count, 1);
    Forgetting forgetting(*this);
    SmallVector<Value> after = body(op, yielded, loops, before);
    lanes_.count = together;
    if (after.empty())
      return {};
    scf::YieldOp::create(b, loc, after);
  }
  SmallVector<Value> out(nest.front().getResults());
  for (int32_t bits = 1; combiner && bits < lanes_.count; bits *= 2) {
    IRMapping map;
    map.map(combiner->getOperand(0), out[0]);
    map.map(combiner->getOperand(1), lanes_.exchanged(out[0], bits));
    out[0] = b.clone(*combiner, map)->getResult(0);
  }
  return out;
}

} // namespace heddle::gpu
