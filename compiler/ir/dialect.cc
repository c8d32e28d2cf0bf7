// The heddle dialect's verifiers: each says what is wrong with the actual numbers. Attributes that the
// dialect puts on other ops (sizes of arguments, layouts, schedules) are checked here too, so that text fed to
// heddle-opt by hand fails with a message rather than in a later pass.
#include "compiler/ir/dialect.h"
#include "compiler/ir/parameters.h"
#include "compiler/layout/layout.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/ir/heddle_dialect_defs.inc"

#include "compiler/ir/heddle_enum_defs.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/heddle_attr_defs.inc"

#define GET_OP_CLASSES
#include "compiler/ir/heddle_op_defs.inc"

namespace heddle::ir {

using namespace mlir;

void HeddleDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/ir/heddle_attr_defs.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/ir/heddle_op_defs.inc"
      >();
}

bool may_end_call(mlir::Operation *op) {
  return op->walk([](RequireOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted();
}

void register_dialects(DialectRegistry &registry) {
  registry.insert<HeddleDialect, affine::AffineDialect, arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                  math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
}

SmallVector<StringRef> dim_names(ModuleOp module) {
  SmallVector<StringRef> out;
  if (auto dims = module->getAttrOfType<ArrayAttr>(names::dims))
    for (auto dim : dims.getAsRange<DictionaryAttr>())
      out.push_back(dim.getAs<StringAttr>("name").getValue());
  return out;
}

SmallVector<WeightOp> packed_weights(ModuleOp module) {
  llvm::StringSet<> read;
  module.walk([&](GetOp get) { read.insert(get.getWeight()); });
  for (auto state : module.getOps<StateOp>())
    if (auto weight = state->getAttrOfType<FlatSymbolRefAttr>(names::begins))
      read.insert(weight.getValue());
  return llvm::filter_to_vector(module.getOps<WeightOp>(),
                                [&](WeightOp weight) { return read.contains(weight.getSymName()); });
}

int dim_number(ModuleOp module, StringRef name) {
  auto all = dim_names(module);
  auto found = llvm::find(all, name);
  return found == all.end() ? -1 : found - all.begin();
}

static LogicalResult verify_layout(function_ref<InFlightDiagnostic()> emit, Type type, LayoutAttr layout) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return emit() << "a layout needs a tensor of constant shape, not " << type;
  return layout::verify(layout.getMap(), tensor.getRank(), emit);
}

LogicalResult WeightOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (getNames().empty() != getComputed().has_value())
    return emitOpError(getComputed() ? "is computed, but has a name in the weights file"
                                     : "has no name in the weights file");
  if (getComputed() && (getPart() || getGathered()))
    return emitOpError("is computed, but taken from a tensor of the weights file");
  int64_t stored = 1;
  for (int64_t extent : getStored())
    stored *= extent;
  if (getPart().has_value() != getAt().has_value())
    return emitOpError("has one of `part` and `at` only");
  if (getPart()) {
    int64_t elements = 1, seen = 1;
    if (getPart()->size() != getAt()->size())
      return emitOpError("has a part of other axes than its places");
    for (auto [extent, place] : llvm::zip_equal(*getPart(), *getAt())) {
      if (place < -1 || place >= extent)
        return emitOpError() << "has no place " << place << " on an axis of " << extent;
      seen *= extent;
      elements *= place < 0 ? extent : 1;
    }
    if (seen != stored)
      return emitOpError() << "is part of " << seen << " elements, but there are " << stored << " in the weights file";
    stored = elements;
  }
  if (auto gathered = getGathered()) {
    if (getPart())
      return emitOpError("is gathered from a part");
    if (llvm::product_of(gathered->getFrom()) != stored)
      return emitOpError() << "is gathered from " << llvm::product_of(gathered->getFrom())
                           << " elements, but there are " << stored << " in the weights file";
    AffineMap places = gathered->getPlaces();
    if (places.getNumDims() != gathered->getShape().size() || places.getNumResults() != gathered->getFrom().size() ||
        places.getNumSymbols())
      return emitOpError("is gathered at places that are none of the tensor's");
    stored = llvm::product_of(gathered->getShape());
  }
  if (auto derived = getDerived()) {
    int64_t channels = 1;
    for (int64_t axis : derived->getChannels())
      if (axis < 0 || axis >= int64_t(derived->getShape().size()))
        return emitOpError() << "has no axis " << axis << " of channels";
      else
        channels *= derived->getShape()[axis];
    if (llvm::product_of(derived->getShape()) != stored)
      return emitOpError() << "is derived from " << llvm::product_of(derived->getShape()) << " elements, but there are "
                           << stored << " in the weights file";
    if (derived->getWhat() != Derivation::quantized)
      stored = channels;
  }
  if (stored != type.getNumElements())
    return emitOpError() << "has " << type.getNumElements() << " elements, but " << stored << " in the weights file";
  if (auto layout = getLayout())
    return verify_layout([&] { return emitOpError(); }, type, *layout);
  return success();
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto computed = getComputed();
  if (!computed)
    return success();
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, computed->getFunction());
  if (!function || !function->hasAttr(names::computes))
    return emitOpError() << computed->getFunction() << " is no function that computes weights";
  FunctionType type = function.getFunctionType();
  if (type.getNumInputs() != computed->getOf().size() || type.getNumResults() != 1 ||
      cast<RankedTensorType>(type.getResult(0)).getShape() != getStored())
    return emitOpError() << computed->getFunction() << " is " << type;
  for (auto [input, name] : llvm::zip_equal(type.getInputs(), computed->getOf())) {
    auto weight = symbols.lookupNearestSymbolFrom<WeightOp>(*this, name);
    if (!weight)
      return emitOpError() << name << " is not a heddle.weight";
    if (cast<RankedTensorType>(weight.getType()).getNumElements() != cast<RankedTensorType>(input).getNumElements())
      return emitOpError() << name << " is " << weight.getType() << ", which is no view of " << input;
  }
  return success();
}

LogicalResult GetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = symbols.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight)
    return emitOpError() << "@" << getWeight() << " is not a heddle.weight";
  auto from = cast<RankedTensorType>(weight.getType()), to = cast<RankedTensorType>(getType());
  if (from == to)
    return success();
  if (weight.getLayout())
    return emitOpError() << "sees @" << getWeight() << " as " << to << ", but its layout is that of " << from;
  if (from.getElementType() != to.getElementType() || from.getNumElements() != to.getNumElements())
    return emitOpError() << "sees @" << getWeight() << " as " << to << ", which is no view of " << from;
  return success();
}

LogicalResult DimOp::verify() {
  if (auto module = (*this)->getParentOfType<ModuleOp>(); module && dim_number(module, getName()) < 0)
    return emitOpError() << "\"" << getName() << "\" is not one of the module's heddle.dims";
  return success();
}

LogicalResult StateOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  AffineMap extents = getExtents();
  auto module = (*this)->getParentOfType<ModuleOp>();
  unsigned dims = module ? dim_names(module).size() : extents.getNumDims();
  if (int64_t(extents.getNumResults()) != type.getRank() || extents.getNumDims() != dims || extents.getNumSymbols())
    return emitOpError() << "has extents " << AffineMapAttr::get(extents) << " for " << type << " over " << dims
                         << " dims";
  if (auto axis = getSlides(); axis && int64_t(*axis) >= type.getRank())
    return emitOpError() << "slides along axis " << *axis << " of " << type << ", which has none";
  if (auto begins = (*this)->getAttrOfType<FlatSymbolRefAttr>(names::begins)) {
    auto weight = SymbolTable::lookupNearestSymbolFrom<WeightOp>(*this, begins);
    if (!weight || weight.getType() != type || weight.getLayout())
      return emitOpError() << "is " << type << " and begins as " << begins << ", which is no weight that lies so";
  }
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr());
  if (!state)
    return emitOpError() << "@" << getState() << " is not a heddle.state";
  if (state.getType() != getType())
    return emitOpError() << "sees @" << getState() << " as " << getType() << ", but it is " << state.getType();
  return success();
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr());
  if (!state)
    return emitOpError() << "@" << getState() << " is not a heddle.state";
  if (getSliding() && !state.getSlides())
    return emitOpError() << "slides, and @" << getState() << " does not";
  auto to = cast<RankedTensorType>(state.getType()), from = cast<RankedTensorType>(getValue().getType());
  if (from.getElementType() != to.getElementType())
    return emitOpError() << "writes " << from << " to @" << getState() << ", which is " << to;
  if (getOffsets().empty())
    return from.getRank() == to.getRank() ? success()
                                          : LogicalResult(emitOpError() << "writes " << from << " over all of @"
                                                                        << getState() << ", which is " << to);
  if (int64_t(getOffsets().size()) != to.getRank())
    return emitOpError() << "has " << getOffsets().size() << " offsets for " << to;
  ArrayRef<int64_t> axes = *getAxes();
  bool ascending = llvm::all_of(llvm::seq<size_t>(0, axes.size()),
                                [&](size_t i) { return axes[i] < to.getRank() && axes[i] > (i ? axes[i - 1] : -1); });
  if (int64_t(axes.size()) != from.getRank() || !ascending)
    return emitOpError() << "needs, for each axis of " << from << ", an axis of " << to << ", ascending";
  return success();
}

LogicalResult GroupOp::verify() {
  auto rows = cast<RankedTensorType>(getRows().getType()), of_tiles = cast<RankedTensorType>(getOfTiles().getType());
  for (Type type : {getNumbers().getType(), getRows().getType(), getOfTiles().getType()})
    if (!getElementTypeOrSelf(type).isInteger(32))
      return emitOpError() << "is about tensors of i32, not " << type;
  if (rows.getRank() != 2 || rows.isDynamicDim(1) || rows.getDimSize(1) < 1 || of_tiles.getRank() != 1 ||
      rows.getDimSize(0) != of_tiles.getDimSize(0))
    return emitOpError() << "has no tiles of so many rows: " << rows << ", " << of_tiles;
  if (getPlaces().getType() != getNumbers().getType())
    return emitOpError("has a place for each number");
  if (getBelow() < 1 || getBelow() > HEDDLE_MOST_GROUPS)
    return emitOpError() << "sorts by numbers below " << HEDDLE_MOST_GROUPS << ", not below " << getBelow();
  return success();
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  if (!llvm::equal(block.getArgumentTypes(), getInputs().getTypes()))
    return emitOpError("has operands of other types than its block's arguments");
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || !llvm::equal(yield.getValues().getTypes(), getOutputs().getTypes()))
    return emitOpError("yields values of other types than its results");
  int stage = 0; // sizes, scalars, tensors
  for (Type type : getInputs().getTypes()) {
    int at = isa<IndexType>(type) ? 0 : isa<RankedTensorType>(type) ? 2 : 1;
    if (at < stage)
      return emitOpError("takes sizes first, then scalars, then tensors");
    stage = at;
  }
  return success();
}

static LogicalResult verify_dims(Operation *op, Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  llvm::StringSet<> seen;
  for (Attribute item : list ? list.getValue() : ArrayRef<Attribute>()) {
    auto dim = dyn_cast<DictionaryAttr>(item);
    auto name = dim ? dim.getAs<StringAttr>("name") : StringAttr();
    if (!name)
      return op->emitError() << names::dims << " wants dictionaries with a name";
    if (!seen.insert(name).second)
      return op->emitError() << names::dims << " has \"" << name.getValue() << "\" twice";
  }
  if (!list || !isa<ModuleOp>(op))
    return op->emitError() << names::dims << " is an array on a module";
  return success();
}

static LogicalResult verify_schedule(Operation *op, Attribute value) {
  auto rows = dyn_cast<ArrayAttr>(value);
  if (!rows || rows.empty())
    return op->emitError() << names::schedule << " wants at least one row";
  for (auto [i, item] : llvm::enumerate(rows)) {
    auto row = dyn_cast<DictionaryAttr>(item);
    if (!row || !row.getAs<StringAttr>("variant"))
      return op->emitError() << names::schedule << ": row " << i << " has no variant";
    if (i + 1 == rows.size() && row.get("when"))
      return op->emitError() << names::schedule << ": the last row must hold always";
  }
  return success();
}

LogicalResult HeddleDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == names::dims)
    return verify_dims(op, attribute.getValue());
  if (attribute.getName() == names::schedule)
    return verify_schedule(op, attribute.getValue());
  return success();
}

/// Number of sizes that `heddle.extents` of a function's arguments and results range over: the leading
/// index arguments of a kernel, the dims of the module for an entry.
static unsigned size_count(func::FuncOp function) {
  if (function->hasAttr(names::entry))
    return dim_names(function->getParentOfType<ModuleOp>()).size();
  return llvm::count_if(function.getArgumentTypes(), [](Type type) { return isa<IndexType>(type); });
}

static LogicalResult verify_value(Operation *op, Type type, NamedAttribute attribute, const Twine &which) {
  auto emit = [&] { return op->emitError() << which << ": "; };
  if (attribute.getName() == names::extents) {
    auto map = dyn_cast<AffineMapAttr>(attribute.getValue());
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto function = dyn_cast<func::FuncOp>(op);
    if (!map || !tensor || !function)
      return emit() << names::extents << " is an affine_map on a tensor of a function";
    AffineMap extents = map.getValue();
    if (int64_t(extents.getNumResults()) != tensor.getRank())
      return emit() << names::extents << " has " << extents.getNumResults() << " results for " << tensor;
    if (extents.getNumDims() != size_count(function) || extents.getNumSymbols())
      return emit() << names::extents << " ranges over " << extents.getNumDims() << " sizes, the function has "
                    << size_count(function);
    for (auto [extent, expr] : llvm::zip_equal(tensor.getShape(), extents.getResults())) {
      auto constant = dyn_cast<AffineConstantExpr>(expr);
      if (!ShapedType::isDynamic(extent) && constant && constant.getValue() != extent)
        return emit() << names::extents << " says " << constant.getValue() << " where " << tensor << " has " << extent;
    }
  }
  if (attribute.getName() == names::layout) {
    auto layout = dyn_cast<LayoutAttr>(attribute.getValue());
    if (!layout)
      return emit() << names::layout << " is a #heddle.layout";
    return verify_layout(emit, type, layout);
  }
  return success();
}

LogicalResult HeddleDialect::verifyRegionArgAttribute(Operation *op, unsigned region, unsigned index,
                                                      NamedAttribute attribute) {
  auto function = dyn_cast<func::FuncOp>(op); // a declaration has no block to take the type from
  return function ? verify_value(op, function.getArgumentTypes()[index], attribute, "argument " + Twine(index))
                  : success();
}

LogicalResult HeddleDialect::verifyRegionResultAttribute(Operation *op, unsigned region, unsigned index,
                                                         NamedAttribute attribute) {
  auto function = dyn_cast<func::FuncOp>(op);
  return function ? verify_value(op, function.getResultTypes()[index], attribute, "result " + Twine(index)) : success();
}

} // namespace heddle::ir
