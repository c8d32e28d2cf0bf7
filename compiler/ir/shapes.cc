// Extents as formulas: walks from a tensor to what its shape was built from. Constant dimensions never need the
// walk. Relies on docs/ir.md: extents of results are those of their `outs`, of arguments those of heddle.extents.
#include "compiler/ir/shapes.h"
#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

namespace heddle::ir {

using namespace mlir;

Operation *scope_of(Operation *op) {
  while (op && !isa<func::FuncOp, KernelOp>(op))
    op = op->getParentOp();
  return op;
}

SmallVector<Value> size_arguments(Operation *scope) {
  SmallVector<Value> out;
  if (scope->hasAttr(names::entry) || scope->getNumRegions() == 0 || scope->getRegion(0).empty())
    return out;
  for (Value argument : scope->getRegion(0).getArguments())
    if (isa<IndexType>(argument.getType()))
      out.push_back(argument);
  return out;
}

unsigned size_count(Operation *scope) {
  if (scope->hasAttr(names::entry))
    return dim_names(scope->getParentOfType<ModuleOp>()).size();
  return size_arguments(scope).size();
}

int64_t element_bytes(Type element) { return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8); }

static Operation *scope_of(Value value) {
  if (Operation *op = value.getDefiningOp())
    return scope_of(op->getParentOp());
  return scope_of(cast<BlockArgument>(value).getOwner()->getParentOp());
}

AffineExpr size_formula(Value index) {
  MLIRContext *context = index.getContext();
  IntegerAttr constant;
  if (matchPattern(index, m_Constant(&constant)))
    return getAffineConstantExpr(constant.getInt(), context);
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto sizes = size_arguments(scope_of(index));
    auto found = llvm::find(sizes, index);
    return found == sizes.end() ? AffineExpr() : getAffineDimExpr(found - sizes.begin(), context);
  }
  Operation *op = index.getDefiningOp();
  if (auto dim = dyn_cast<DimOp>(op))
    return getAffineDimExpr(dim_number(op->getParentOfType<ModuleOp>(), dim.getName()), context);
  SmallVector<AffineExpr> operands;
  for (Value operand : op->getOperands()) {
    AffineExpr formula = isa<IndexType>(operand.getType()) ? size_formula(operand) : AffineExpr();
    if (!formula)
      return {};
    operands.push_back(formula);
  }
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
    AffineMap map = apply.getAffineMap();
    ArrayRef<AffineExpr> all(operands);
    return map.getResult(0).replaceDimsAndSymbols(all.take_front(map.getNumDims()), all.drop_front(map.getNumDims()));
  }
  if (isa<arith::AddIOp>(op))
    return operands[0] + operands[1];
  if (isa<arith::SubIOp>(op))
    return operands[0] - operands[1];
  if (isa<arith::MulIOp>(op) && llvm::any_of(operands, [](AffineExpr e) { return isa<AffineConstantExpr>(e); }))
    return operands[0] * operands[1];
  return {};
}

using Formulas = FailureOr<SmallVector<AffineExpr>>;

static Formulas of_static(RankedTensorType type) {
  SmallVector<AffineExpr> out;
  for (int64_t extent : type.getShape())
    out.push_back(getAffineConstantExpr(extent, type.getContext()));
  return out;
}

static Formulas of_mixed(ArrayRef<OpFoldResult> sizes) {
  SmallVector<AffineExpr> out;
  for (OpFoldResult size : sizes) {
    AffineExpr formula;
    if (auto value = dyn_cast<Value>(size))
      formula = size_formula(value);
    else
      formula = getAffineConstantExpr(*getConstantIntValue(size), size.getContext());
    if (!formula)
      return failure();
    out.push_back(formula);
  }
  return out;
}

/// The dim of the module that is the product of these; null where there is none, or in a kernel.
static AffineExpr product_of_sizes(Operation *op, ArrayRef<AffineExpr> sizes) {
  auto dims = op->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(names::dims);
  if (!dims || !scope_of(op)->hasAttr(names::entry))
    return {};
  for (auto [number, dim] : llvm::enumerate(dims)) {
    auto product = cast<DictionaryAttr>(dim).getAs<AffineMapAttr>("product");
    if (product && product.getValue().getNumResults() == sizes.size() &&
        std::is_permutation(sizes.begin(), sizes.end(), product.getValue().getResults().begin()))
      return getAffineDimExpr(unsigned(number), op->getContext());
  }
  return {};
}

/// The same, one more dim of the module where there is none. What is a map over all dims is one over one more then.
static AffineExpr new_product_of_sizes(Operation *entry, ArrayRef<AffineExpr> sizes) {
  auto module = entry->getParentOfType<ModuleOp>();
  auto dims = module->getAttrOfType<ArrayAttr>(names::dims);
  Builder builder(module.getContext());
  unsigned count = unsigned(dims.size());
  auto wider = [&](AffineMap map) {
    return AffineMap::get(count + 1, map.getNumSymbols(), map.getResults(), map.getContext());
  };
  SmallVector<Attribute> all;
  for (auto dim : dims.getAsRange<DictionaryAttr>()) {
    NamedAttrList fields(dim);
    if (auto product = dim.getAs<AffineMapAttr>("product"))
      fields.set("product", AffineMapAttr::get(wider(product.getValue())));
    all.push_back(fields.getDictionary(module.getContext()));
  }
  std::string name;
  llvm::raw_string_ostream text(name);
  for (AffineExpr size : sizes) {
    text << (name.empty() ? "" : " * ");
    if (auto dim = dyn_cast<AffineDimExpr>(size))
      text << dim_names(module)[dim.getPosition()];
    else
      text << "(" << size << ")";
  }
  all.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("name", builder.getStringAttr(name)),
       builder.getNamedAttr("product", AffineMapAttr::get(AffineMap::get(count + 1, 0, sizes, module.getContext())))}));
  module->setAttr(names::dims, builder.getArrayAttr(all));
  for (auto state : module.getOps<StateOp>())
    state.setExtents(wider(state.getExtents()));
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(names::entry))
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto map = function.getArgAttrOfType<AffineMapAttr>(i, names::extents))
        function.setArgAttr(i, names::extents, AffineMapAttr::get(wider(map.getValue())));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto map = function.getResultAttrOfType<AffineMapAttr>(i, names::extents))
        function.setResultAttr(i, names::extents, AffineMapAttr::get(wider(map.getValue())));
  }
  return builder.getAffineDimExpr(count);
}

AffineExpr product_of(Operation *entry, ArrayRef<AffineExpr> extents) {
  AffineExpr constant = getAffineConstantExpr(1, entry->getContext());
  SmallVector<AffineExpr> sizes;
  for (AffineExpr extent : extents)
    if (isa<AffineConstantExpr>(extent))
      constant = constant * extent;
    else
      sizes.push_back(extent);
  if (sizes.empty())
    return constant;
  AffineExpr size = sizes.size() == 1 ? sizes[0] : product_of_sizes(entry, sizes);
  return (size ? size : new_product_of_sizes(entry, sizes)) * constant;
}

static Formulas of_collapse(tensor::CollapseShapeOp op) {
  auto source = extent_formulas(op.getSrc());
  if (failed(source))
    return failure();
  SmallVector<AffineExpr> out;
  for (auto group : op.getReassociationIndices()) {
    AffineExpr product = getAffineConstantExpr(1, op.getContext());
    SmallVector<AffineExpr> sizes;
    for (int64_t at : group)
      if (isa<AffineConstantExpr>((*source)[at]))
        product = product * (*source)[at];
      else
        sizes.push_back((*source)[at]);
    AffineExpr size = sizes.size() == 1 ? sizes[0] : sizes.empty() ? product : product_of_sizes(op, sizes);
    if (!size)
      return failure();
    out.push_back(sizes.empty() ? product : size * product);
  }
  return out;
}

/// A callee's result: its heddle.extents, with the call's sizes put in.
static Formulas of_call(func::CallOp call, unsigned number) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  auto map = callee ? callee.getResultAttrOfType<AffineMapAttr>(number, names::extents) : AffineMapAttr();
  if (!map)
    return failure();
  SmallVector<AffineExpr> sizes, out;
  for (Value operand : call.getOperands())
    if (isa<IndexType>(operand.getType()))
      sizes.push_back(size_formula(operand));
  for (AffineExpr extent : map.getValue().getResults()) {
    for (auto [i, size] : llvm::enumerate(sizes))
      if (!size && extent.isFunctionOfDim(i))
        return failure();
    SmallVector<AffineExpr> replacement;
    for (auto [i, size] : llvm::enumerate(sizes))
      replacement.push_back(size ? size : getAffineDimExpr(i, call.getContext()));
    out.push_back(extent.replaceDims(replacement));
  }
  return out;
}

/// An operand of a heddle.kernel, seen from inside: the outer extents with each outer size replaced by the
/// kernel's argument for it.
static Formulas of_kernel_argument(KernelOp kernel, unsigned number) {
  auto outer = extent_formulas(kernel.getInputs()[number]);
  if (failed(outer))
    return failure();
  MLIRContext *context = kernel.getContext();
  DenseMap<AffineExpr, AffineExpr> inner; // outer formula -> symbol: dims are still the outer ones
  SmallVector<AffineExpr> dims;
  for (Value input : kernel.getInputs())
    if (isa<IndexType>(input.getType())) {
      if (AffineExpr formula = size_formula(input))
        inner.try_emplace(formula, getAffineSymbolExpr(dims.size(), context));
      dims.push_back(getAffineDimExpr(dims.size(), context));
    }
  SmallVector<AffineExpr> out;
  for (AffineExpr extent : *outer) {
    bool outside = false;
    extent = extent.replace(inner);
    extent.walk([&](AffineExpr e) { outside |= isa<AffineDimExpr>(e); });
    if (outside)
      return failure();
    out.push_back(extent.replaceSymbols(dims));
  }
  return out;
}

static Formulas of_argument(BlockArgument argument) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto kernel = dyn_cast<KernelOp>(parent))
    return of_kernel_argument(kernel, argument.getArgNumber());
  if (auto loop = dyn_cast<scf::ForOp>(parent)) // no iteration changes a shape
    return extent_formulas(loop.getTiedLoopInit(argument)->get());
  if (auto function = dyn_cast<func::FuncOp>(parent))
    if (auto map = function.getArgAttrOfType<AffineMapAttr>(argument.getArgNumber(), names::extents))
      return llvm::to_vector(map.getValue().getResults());
  return failure();
}

Formulas extent_formulas(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.hasStaticShape())
    return of_static(type);
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return of_argument(argument);
  Operation *op = tensor.getDefiningOp();
  unsigned number = cast<OpResult>(tensor).getResultNumber();
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return of_mixed(empty.getMixedSizes());
  if (auto writer = dyn_cast<DestinationStyleOpInterface>(op))
    return extent_formulas(writer.getDpsInitOperand(number)->get());
  if (auto group = dyn_cast<GroupOp>(op)) {
    if (number == 2)
      return extent_formulas(group.getNumbers());
    auto tiles = of_mixed({OpFoldResult(group.getTiles())});
    if (succeeded(tiles) && number == 0)
      tiles->push_back(getAffineConstantExpr(type.getDimSize(1), op->getContext()));
    return tiles;
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return extent_formulas(loop.getInitArgs()[number]);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return extent_formulas(insert.getDest());
  if (auto read = dyn_cast<ReadOp>(op))
    return llvm::to_vector(
        SymbolTable::lookupNearestSymbolFrom<StateOp>(op, read.getStateAttr()).getExtents().getResults());
  if (auto view = dyn_cast<tensor::CastOp>(op))
    return extent_formulas(view.getSource());
  if (auto view = dyn_cast<tensor::CollapseShapeOp>(op))
    return of_collapse(view);
  if (auto view = dyn_cast<tensor::ExpandShapeOp>(op))
    return of_mixed(view.getMixedOutputShape());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    SmallVector<OpFoldResult> kept;
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (auto [axis, size] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped.test(axis))
        kept.push_back(size);
    return of_mixed(kept);
  }
  if (auto call = dyn_cast<func::CallOp>(op))
    return of_call(call, number);
  if (auto kernel = dyn_cast<KernelOp>(op)) {
    auto inner = extent_formulas(kernel.getBody().front().getTerminator()->getOperand(number));
    if (failed(inner))
      return failure();
    SmallVector<AffineExpr> sizes, out;
    for (Value input : kernel.getInputs())
      if (isa<IndexType>(input.getType()))
        sizes.push_back(size_formula(input));
    if (llvm::is_contained(sizes, AffineExpr()))
      return failure();
    for (AffineExpr extent : *inner)
      out.push_back(extent.replaceDims(sizes));
    return out;
  }
  return failure();
}

Formulas loop_extents(Operation *linalg_op) {
  auto op = cast<linalg::LinalgOp>(linalg_op);
  SmallVector<AffineExpr> out(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    auto extents = extent_formulas(operand.get());
    if (failed(extents))
      return failure();
    for (auto [at, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
      if (auto loop = dyn_cast<AffineDimExpr>(expr))
        out[loop.getPosition()] = (*extents)[at];
  }
  if (llvm::is_contained(out, AffineExpr()))
    return failure();
  return out;
}

Value build_size(OpBuilder &builder, Location loc, AffineExpr formula, ValueRange sizes) {
  if (auto constant = dyn_cast<AffineConstantExpr>(formula))
    return arith::ConstantIndexOp::create(builder, loc, constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(formula))
    return sizes[dim.getPosition()];
  return affine::AffineApplyOp::create(builder, loc, AffineMap::get(sizes.size(), 0, formula), sizes);
}

Value dim_value(Operation *entry, unsigned number) {
  StringRef name = dim_names(entry->getParentOfType<ModuleOp>())[number];
  Block &body = entry->getRegion(0).front();
  for (auto known : body.getOps<DimOp>())
    if (known.getName() == name) {
      known->moveBefore(&body, body.begin());
      return known;
    }
  auto builder = OpBuilder::atBlockBegin(&body);
  return DimOp::create(builder, entry->getLoc(), builder.getIndexType(), builder.getStringAttr(name));
}

Value build_formula(OpBuilder &builder, Location loc, AffineExpr formula, Operation *entry, ValueRange symbols) {
  SmallVector<Value> operands;
  SmallVector<AffineExpr> dims, others;
  auto next = [&](Value value) {
    operands.push_back(value);
    return builder.getAffineDimExpr(unsigned(operands.size() - 1));
  };
  for (unsigned dim = 0; dim < size_count(entry); ++dim)
    dims.push_back(formula.isFunctionOfDim(dim) ? next(dim_value(entry, dim)) : builder.getAffineDimExpr(dim));
  for (Value symbol : symbols)
    others.push_back(next(symbol));
  return build_size(builder, loc, formula.replaceDimsAndSymbols(dims, others), operands);
}

FailureOr<SmallVector<OpFoldResult>> build_extents_behind(OpBuilder &builder, Value tensor) {
  auto extents = extent_formulas(tensor);
  if (failed(extents))
    return failure();
  Operation *entry = tensor.getParentBlock()->getParentOp();
  while (!isa<func::FuncOp>(entry))
    entry = entry->getParentOp();
  for (AffineExpr extent : *extents) // before the place is found: they move to the beginning of the entry
    extent.walk([&](AffineExpr e) {
      if (auto dim = dyn_cast<AffineDimExpr>(e))
        dim_value(entry, dim.getPosition());
    });
  builder.setInsertionPointAfterValue(tensor);
  while (isa<DimOp>(*builder.getInsertionPoint()))
    builder.setInsertionPointAfter(&*builder.getInsertionPoint());
  SmallVector<OpFoldResult> out;
  for (AffineExpr extent : *extents)
    if (auto constant = dyn_cast<AffineConstantExpr>(extent))
      out.push_back(builder.getIndexAttr(constant.getValue()));
    else
      out.push_back(build_formula(builder, tensor.getLoc(), extent, entry));
  return out;
}

} // namespace heddle::ir
