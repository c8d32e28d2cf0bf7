// Extents follow the values: an argument has them in its attribute, a kernel's result has its callee's formula
// with the call's sizes put in, a view has those of its op. Evaluation is MLIR's own constant folding, so that no
// table of index ops is needed here.
#include "compiler/passes/entry_values.h"

#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numeric>

namespace heddle::passes {

using namespace mlir;

std::vector<ModuleDim> module_dims(ModuleOp module) {
  std::vector<ModuleDim> out;
  if (auto dims = module->getAttrOfType<ArrayAttr>(ir::names::dims))
    for (auto dim : dims.getAsRange<DictionaryAttr>()) {
      auto most = dim.getAs<IntegerAttr>("most");
      auto product = dim.getAs<AffineMapAttr>("product");
      out.push_back(
          {dim.getAs<StringAttr>("name").str(), most ? most.getInt() : -1, product ? product.getValue() : AffineMap()});
    }
  return out;
}

size_t given_dims(ModuleOp module) {
  return llvm::count_if(module_dims(module), [](const ModuleDim &dim) { return !dim.product; });
}

std::vector<bool> dims_in(ModuleOp module, AffineMap map) {
  std::vector<ModuleDim> dims = module_dims(module);
  std::vector<bool> out(dims.size());
  std::vector<AffineMap> todo{map};
  while (!todo.empty()) {
    AffineMap next = todo.back();
    todo.pop_back();
    for (size_t i = 0; i < dims.size(); ++i)
      if (!out[i] && next.isFunctionOfDim(i)) {
        out[i] = true;
        if (dims[i].product)
          todo.push_back(dims[i].product);
      }
  }
  out.resize(given_dims(module));
  return out;
}

std::vector<func::FuncOp> entries(ModuleOp module) {
  std::vector<func::FuncOp> out;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(ir::names::entry))
      out.push_back(function);
  return out;
}

Value bytes_of(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      tensor = insert.getDest();
    else if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(op))
      tensor = op->getOperand(0);
    else
      break;
  }
  return tensor;
}

Value owner_of(Value tensor) {
  tensor = bytes_of(tensor);
  while (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>())
    tensor = bytes_of(slice.getSource());
  return tensor;
}

bool is_read_once(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isa<func::CallOp>(user))
      return user->hasAttr(ir::names::once);
    return user->getNumResults() == 1 && is_read_once(user->getResult(0));
  });
}

static Extent constant_extent(int64_t value) { return {value, {}}; }

/// The extent of a value that has formula `expr` over `operands`.
static Extent formula(AffineExpr expr, unsigned dims, ValueRange operands, bool of_dims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant_extent(constant.getValue());
  return {1, {{AffineMap::get(dims, 0, expr), llvm::to_vector(operands), of_dims}}};
}

static SmallVector<Extent> from_map(RankedTensorType type, AffineMap map, ValueRange operands, bool of_dims) {
  SmallVector<Extent> out;
  for (auto [expr, extent] : llvm::zip_equal(map.getResults(), type.getShape()))
    out.push_back(ShapedType::isDynamic(extent) ? formula(expr, map.getNumDims(), operands, of_dims)
                                                : constant_extent(extent));
  return out;
}

static Extent from_value(OpFoldResult extent) {
  if (auto attribute = dyn_cast<Attribute>(extent))
    return constant_extent(cast<IntegerAttr>(attribute).getInt());
  auto value = cast<Value>(extent);
  return formula(getAffineDimExpr(0, value.getContext()), 1, value, false);
}

static FailureOr<SmallVector<Extent>> collapsed(tensor::CollapseShapeOp op) {
  auto from = extents_of(op.getSrc());
  if (failed(from))
    return failure();
  SmallVector<Extent> out;
  for (const ReassociationIndices &group : op.getReassociationIndices()) {
    Extent product;
    for (int64_t axis : group) {
      product.constant *= (*from)[axis].constant;
      llvm::append_range(product.factors, (*from)[axis].factors);
    }
    out.push_back(product);
  }
  return out;
}

FailureOr<SmallVector<Extent>> extents_of(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.hasStaticShape())
    return llvm::map_to_vector(type.getShape(), constant_extent);
  Operation *op = tensor.getDefiningOp();
  if (!op) {
    auto argument = cast<BlockArgument>(tensor);
    if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
      return extents_of(loop.getTiedLoopInit(argument)->get());
    auto entry = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (auto map = entry.getArgAttrOfType<AffineMapAttr>(argument.getArgNumber(), ir::names::extents))
      return from_map(type, map.getValue(), {}, true);
    entry.emitError() << "argument " << argument.getArgNumber() << " of @" << entry.getName() << " has no "
                      << ir::names::extents;
    return failure();
  }
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    unsigned number = cast<OpResult>(tensor).getResultNumber();
    if (auto map = kernel.getResultAttrOfType<AffineMapAttr>(number, ir::names::extents))
      return from_map(type, map.getValue(), call.getOperands().take_front(map.getValue().getNumDims()), false);
    kernel.emitError() << "result " << number << " of @" << kernel.getName() << " has no " << ir::names::extents;
    return failure();
  }
  if (auto group = dyn_cast<ir::GroupOp>(op)) {
    if (tensor == group.getPlaces())
      return extents_of(group.getNumbers());
    SmallVector<Extent> out{from_value(group.getTiles())};
    if (tensor == group.getRows())
      out.push_back(constant_extent(type.getDimSize(1)));
    return out;
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return extents_of(loop.getInitArgs()[cast<OpResult>(tensor).getResultNumber()]);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return extents_of(insert.getDest());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    SmallVector<Extent> out;
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (auto [axis, size] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped.test(axis))
        out.push_back(from_value(size));
    return out;
  }
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return llvm::map_to_vector(empty.getMixedSizes(), from_value);
  if (auto read = dyn_cast<ir::ReadOp>(op)) {
    auto state = SymbolTable::lookupNearestSymbolFrom<ir::StateOp>(op, read.getStateAttr());
    return from_map(type, state.getExtents(), {}, true);
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return llvm::map_to_vector(expand.getMixedOutputShape(), from_value);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return collapsed(collapse);
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return extents_of(cast.getSource());
  op->emitError() << "a value between kernels is made by " << op->getName()
                  << "; kernels, views and weights are expected";
  return failure();
}

SizeEvaluator::SizeEvaluator(ModuleOp module, std::vector<int64_t> dims)
    : names_(module_dims(module)), dims_(std::move(dims)) {
  dims_.resize(names_.size());
  for (auto [i, dim] : llvm::enumerate(names_))
    if (dim.product) {
      SmallVector<int64_t> factors = dim.product.compose(dims_);
      dims_[i] = std::accumulate(factors.begin(), factors.end(), int64_t(1), std::multiplies<>());
    }
}

FailureOr<int64_t> SizeEvaluator::index(Value value) {
  if (auto known = known_.find(value); known != known_.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  if (!op)
    return failure();
  if (auto dim = dyn_cast<ir::DimOp>(op)) {
    for (auto [i, candidate] : llvm::enumerate(names_))
      if (candidate.name == dim.getName())
        return known_[value] = dims_[i];
    return op->emitError() << "there is no dim of that name", failure();
  }
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands()) {
    auto number = index(operand);
    if (failed(number))
      return failure();
    operands.push_back(IntegerAttr::get(operand.getType(), *number));
  }
  SmallVector<OpFoldResult> folded;
  if (failed(op->fold(operands, folded)) || folded.empty())
    return op->emitError() << "a size is computed by " << op->getName() << ", which does not fold", failure();
  OpFoldResult result = folded[cast<OpResult>(value).getResultNumber()];
  if (auto same = dyn_cast<Value>(result))
    return index(same);
  return known_[value] = cast<IntegerAttr>(cast<Attribute>(result)).getInt();
}

FailureOr<int64_t> SizeEvaluator::extent(const Extent &extent) {
  int64_t product = extent.constant;
  for (const Extent::Factor &factor : extent.factors) {
    SmallVector<int64_t> operands;
    if (factor.of_dims)
      operands.assign(dims_.begin(), dims_.end());
    for (Value operand : factor.operands) {
      auto number = index(operand);
      if (failed(number))
        return failure();
      operands.push_back(*number);
    }
    product *= factor.map.compose(operands)[0];
  }
  return product;
}

FailureOr<int64_t> SizeEvaluator::bytes(Value tensor) {
  auto extents = extents_of(tensor);
  if (failed(extents))
    return failure();
  int64_t product = ir::element_bytes(cast<RankedTensorType>(tensor.getType()).getElementType());
  for (const Extent &extent : *extents) {
    auto number = this->extent(extent);
    if (failed(number))
      return failure();
    product *= *number;
  }
  return product;
}

} // namespace heddle::passes
