// Checked program to module: weights and states become symbols, entries functions, loops scf.for, stages linalg.generic
// ops whose bodies import_body.cc writes. Nothing is optimised here; what the checker proved (reads inside, equal
// extents) is only written down. Relies on the program being checked: every expression has the type it says.
#include "compiler/ir/import.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/import_entry.h"
#include "compiler/ir/import_gather.h"
#include "compiler/ir/import_reducers.h"
#include "compiler/ir/import_sizes.h"
#include "compiler/ir/parameters.h"
#include "compiler/ir/shapes.h"
#include "dsl/check/exact.h"
#include "dsl/check/used_tensors.h"
#include "dsl/forms/forms.h"
#include "dsl/forms/shapes.h"

namespace heddle::ir {

using namespace mlir;
using HExpr = heddle::Expr;

namespace {

class Importer {
public:
  Importer(const Program &program, MLIRContext &context, Diagnostics &diagnostics)
      : program_(program), forms_(program), steps_(forms_.steps(program)),
        module_sizes_(program, steps_, forms_.tensors(), context), context_(context), diagnostics_(diagnostics),
        builder_(&context) {}

  OwningOpRef<ModuleOp> run();

private:
  void import_weights();
  void import_states();
  void import_entry(const Entry &entry, const std::vector<Step> &steps);
  void import_steps(const std::vector<Step> &steps);
  void import_step(const Stage &stage);
  void import_step(const Loop &loop);
  void import_step(const Update &update);
  void import_step(const Require &require);
  mlir::Value pointwise(const Stage &stage);
  mlir::Value reduction(const Stage &stage);
  mlir::Value best_position(const Stage &stage);
  mlir::Value reshape(const Tensor &from, const Tensor &to);
  mlir::Value gather(const Stage &stage);

  /// The operands of a stage with their maps, and which argument of the body each read is.
  struct Operands {
    SmallVector<mlir::Value> values;
    SmallVector<AffineMap> maps;
    std::map<std::pair<const Tensor *, std::vector<int>>, int> number;
  };
  Operands operands(const Stage &stage);
  void collect(const HExpr &expr, const Stage &stage, Operands &into, std::map<const HExpr *, bool> &seen);
  /// One linalg.generic: `finish` turns the stage's value and the outs' arguments into what is yielded.
  ValueRange generic(const Stage &stage, ValueRange outs, ArrayRef<AffineMap> out_maps,
                     function_ref<SmallVector<mlir::Value>(OpBuilder &, Location, mlir::Value, ValueRange)> finish);

  AffineMap kept_indices(const Stage &stage);
  BodyWriter writer(OpBuilder &body, const Stage &stage, std::function<mlir::Value(const HExpr &read)> operand,
                    bool on_host = false);
  mlir::Value value_of(const Tensor &tensor);
  mlir::Value scalar_of(const Tensor &tensor);
  /// Makes what every later step may use: in front of all loops.
  template <class F> mlir::Value in_front(F make);
  mlir::Value size_value(const Size &size);
  mlir::Value dim_value(int number);
  mlir::Value empty(const std::vector<Size> &shape, mlir::Type element);
  mlir::Value fill(mlir::Value into, double value);
  RankedTensorType type_of(const std::vector<Size> &shape, mlir::Type element);
  DictionaryAttr input_attributes(const Input &input);
  AffineMapAttr extents_attribute(const std::vector<Size> &shape);
  Location location(Span span, const std::string &name = "");

  const Program &program_;
  forms::Forms forms_;
  std::vector<std::vector<Step>> steps_; // of each entry, in their forms
  ModuleSizes module_sizes_;
  MLIRContext &context_;
  Diagnostics &diagnostics_;
  OpBuilder builder_;
  OwningOpRef<ModuleOp> module_;
  DenseMap<const Tensor *, std::string> symbols_; // of weights and states
  DenseMap<const Tensor *, WeightOp> weights_;
  int gathered_ = 0; // weights
  // of the entry being built
  Location loc_ = UnknownLoc::get(&context_);
  DenseMap<const Tensor *, mlir::Value> values_;
  std::map<int, mlir::Value> dims_;
  std::map<Size, mlir::Value> sizes_;
  SmallVector<scf::ForOp> loops_; // around the builder's place, outermost first
};

Location Importer::location(Span span, const std::string &name) {
  if (!span.valid())
    return UnknownLoc::get(&context_);
  const Sources &sources = diagnostics_.sources();
  auto at = sources.position(span.file, span.begin);
  Location place = FileLineColLoc::get(&context_, sources.path(span.file), at.line, at.column);
  return name.empty() ? place : Location(NameLoc::get(builder_.getStringAttr(name), place));
}

RankedTensorType Importer::type_of(const std::vector<Size> &shape, mlir::Type element) {
  SmallVector<int64_t> extents;
  for (const Size &size : shape)
    extents.push_back(size.is_constant() ? size.constant() : ShapedType::kDynamic);
  return RankedTensorType::get(extents, element);
}

AffineMapAttr Importer::extents_attribute(const std::vector<Size> &shape) {
  SmallVector<AffineExpr> extents;
  for (const Size &size : shape)
    extents.push_back(module_sizes_.to_affine(size));
  return AffineMapAttr::get(AffineMap::get(module_sizes_.count(), 0, extents, &context_));
}

// --- sizes

void Importer::import_weights() {
  for (const Weight &weight : program_.weights) {
    std::string symbol = "w" + std::to_string(symbols_.size());
    symbols_[weight.tensor] = symbol;
    SmallVector<StringRef> names(weight.names.begin(), weight.names.end());
    SmallVector<int64_t> stored(weight.stored.begin(), weight.stored.end());
    weights_[weight.tensor] =
        WeightOp::create(builder_, location(weight.tensor->span, weight.tensor->name), builder_.getStringAttr(symbol),
                         TypeAttr::get(type_of(weight.tensor->shape, to_mlir(weight.tensor->type, &context_))),
                         builder_.getStrArrayAttr(names), builder_.getDenseI64ArrayAttr(stored), DenseI64ArrayAttr(),
                         DenseI64ArrayAttr(), LayoutAttr(), DerivedAttr(), GatheredAttr(), ComputedAttr());
  }
}

void Importer::import_states() {
  for (auto [i, state] : llvm::enumerate(program_.states)) {
    const Tensor &tensor = *state.tensor;
    std::string symbol = "s" + std::to_string(i);
    symbols_[&tensor] = symbol;
    auto op = StateOp::create(builder_, location(tensor.span, tensor.name), builder_.getStringAttr(symbol),
                              TypeAttr::get(type_of(tensor.shape, to_mlir(tensor.type, &context_))),
                              builder_.getStringAttr(tensor.name), extents_attribute(tensor.shape),
                              state.initial ? builder_.getF64FloatAttr(*state.initial) : FloatAttr(), IntegerAttr(),
                              state.below ? builder_.getI64IntegerAttr(*state.below) : IntegerAttr());
    if (state.begins)
      op->setAttr(names::begins, FlatSymbolRefAttr::get(&context_, symbols_.at(state.begins)));
  }
}

template <class F> mlir::Value Importer::in_front(F make) {
  OpBuilder::InsertionGuard guard(builder_);
  if (!loops_.empty())
    builder_.setInsertionPoint(loops_.front());
  return make();
}

mlir::Value Importer::dim_value(int number) {
  mlir::Value &value = dims_[number];
  if (!value)
    value = in_front([&]() -> mlir::Value {
      auto name = builder_.getStringAttr(module_sizes_.name(number));
      return DimOp::create(builder_, loc_, builder_.getIndexType(), name);
    });
  return value;
}

mlir::Value Importer::size_value(const Size &size) {
  if (int dim = size.as_dim(); dim >= 0)
    return dim_value(dim);
  mlir::Value &value = sizes_[size];
  if (value)
    return value;
  if (size.is_constant())
    return value = in_front(
               [&]() -> mlir::Value { return arith::ConstantIndexOp::create(builder_, loc_, size.constant()); });
  AffineExpr formula = module_sizes_.to_affine(size);
  if (auto dim = dyn_cast<AffineDimExpr>(formula))
    return value = dim_value(dim.getPosition());
  SmallVector<AffineExpr> renumbered;
  SmallVector<mlir::Value> operands;
  for (size_t i = 0; i < module_sizes_.count(); ++i) {
    bool used = formula.isFunctionOfDim(i);
    renumbered.push_back(used ? getAffineDimExpr(operands.size(), &context_) : getAffineConstantExpr(0, &context_));
    if (used)
      operands.push_back(dim_value(i));
  }
  AffineMap map = AffineMap::get(operands.size(), 0, formula.replaceDims(renumbered));
  return value =
             in_front([&]() -> mlir::Value { return affine::AffineApplyOp::create(builder_, loc_, map, operands); });
}

mlir::Value Importer::empty(const std::vector<Size> &shape, mlir::Type element) {
  SmallVector<OpFoldResult> sizes;
  for (const Size &size : shape)
    if (size.is_constant())
      sizes.push_back(builder_.getIndexAttr(size.constant()));
    else
      sizes.push_back(size_value(size));
  return tensor::EmptyOp::create(builder_, loc_, sizes, element);
}

mlir::Value Importer::value_of(const Tensor &tensor) {
  mlir::Value &value = values_[&tensor];
  if (!value) { // a weight or a state at its first use; everything else was defined before
    auto type = type_of(tensor.shape, to_mlir(tensor.type, &context_));
    value = in_front([&]() -> mlir::Value {
      std::string symbol = symbols_.lookup(&tensor);
      if (tensor.kind == Tensor::state)
        return ReadOp::create(builder_, loc_, type, symbol);
      return GetOp::create(builder_, loc_, type, symbol);
    });
  }
  return value;
}

mlir::Value Importer::scalar_of(const Tensor &tensor) {
  return tensor::ExtractOp::create(builder_, loc_, value_of(tensor), ValueRange());
}

void Importer::collect(const HExpr &expr, const Stage &stage, Operands &into, std::map<const HExpr *, bool> &seen) {
  if (!seen.try_emplace(&expr, true).second)
    return;
  if (is_scalar(expr))
    return;
  if (expr.op == HExpr::read && is_operand(expr, stage)) {
    std::vector<int> places;
    SmallVector<AffineExpr> results;
    for (const HExpr *at : expr.args) {
      places.push_back(at->position);
      results.push_back(getAffineDimExpr(at->position, &context_));
    }
    if (into.number.try_emplace({expr.tensor, places}, into.values.size()).second) {
      into.values.push_back(value_of(*expr.tensor));
      into.maps.push_back(AffineMap::get(stage.space.size() + stage.over.size(), 0, results, &context_));
    }
    return;
  }
  for (const HExpr *arg : expr.args)
    collect(*arg, stage, into, seen);
}

Importer::Operands Importer::operands(const Stage &stage) {
  Operands out;
  std::map<const HExpr *, bool> seen;
  collect(*stage.value, stage, out, seen);
  // A reduction index that nothing carries gets an operand that has only a shape.
  size_t n = stage.space.size() + stage.over.size();
  for (size_t i = stage.space.size(); i < n; ++i) {
    bool carried = llvm::any_of(out.maps, [&](AffineMap map) { return map.isFunctionOfDim(i); });
    if (carried)
      continue;
    out.values.push_back(empty({index_extent(stage, i)}, builder_.getF32Type()));
    out.maps.push_back(AffineMap::get(n, 0, getAffineDimExpr(i, &context_)));
  }
  return out;
}

BodyWriter Importer::writer(OpBuilder &body, const Stage &stage, std::function<mlir::Value(const HExpr &read)> operand,
                            bool on_host) {
  return BodyWriter(body, {.stage = stage,
                           .operand = std::move(operand),
                           .tensor = [&](const Tensor &tensor) { return value_of(tensor); },
                           .size = [&](const Size &size) { return size_value(size); },
                           .scalar = [&](const Tensor &tensor) { return scalar_of(tensor); },
                           .loop = [&](int position) { return loops_[position].getInductionVar(); },
                           .location = [&](Span span) { return location(span); },
                           .on_host = on_host});
}

ValueRange
Importer::generic(const Stage &stage, ValueRange outs, ArrayRef<AffineMap> out_maps,
                  function_ref<SmallVector<mlir::Value>(OpBuilder &, Location, mlir::Value, ValueRange)> finish) {
  Operands in = operands(stage);
  SmallVector<AffineMap> maps(in.maps);
  llvm::append_range(maps, out_maps);
  SmallVector<utils::IteratorType> iterators(stage.space.size(), utils::IteratorType::parallel);
  iterators.append(stage.over.size(), utils::IteratorType::reduction);
  SmallVector<mlir::Type> types(outs.getTypes());
  OpBuilder inner(builder_); // moves into the body, while builder_ makes weights and sizes in front of the op
  auto op = linalg::GenericOp::create(
      inner, loc_, types, in.values, outs, maps, iterators, [&](OpBuilder &body, Location, ValueRange arguments) {
        BodyWriter writer = this->writer(body, stage, [&](const HExpr &read) {
          std::vector<int> places;
          for (const HExpr *at : read.args)
            places.push_back(at->position);
          return arguments[in.number.at({read.tensor, places})];
        });
        mlir::Value value = writer.write(*stage.value);
        linalg::YieldOp::create(body, loc_, finish(body, loc_, value, arguments.drop_front(in.values.size())));
      });
  return op->getResults();
}

mlir::Value Importer::pointwise(const Stage &stage) {
  AffineMap identity = AffineMap::getMultiDimIdentityMap(stage.space.size(), &context_);
  mlir::Type type = to_mlir(stage.result->type, &context_);
  mlir::Value out = empty(stage.result->shape, type);
  return generic(stage, out, identity, [&](OpBuilder &body, Location loc, mlir::Value value, ValueRange) {
    return SmallVector<mlir::Value>{narrow(body, loc, value, type, false)};
  })[0];
}

/// From all indices of a stage to those of its space, which may be none.
AffineMap Importer::kept_indices(const Stage &stage) {
  SmallVector<AffineExpr> results;
  for (size_t i = 0; i < stage.space.size(); ++i)
    results.push_back(getAffineDimExpr(i, &context_));
  return AffineMap::get(stage.space.size() + stage.over.size(), 0, results, &context_);
}

mlir::Value Importer::fill(mlir::Value into, double value) {
  mlir::Type element = cast<RankedTensorType>(into.getType()).getElementType();
  TypedAttr attribute = isa<FloatType>(element) ? TypedAttr(builder_.getFloatAttr(element, value))
                                                : TypedAttr(builder_.getIntegerAttr(element, int64_t(value)));
  mlir::Value constant = arith::ConstantOp::create(builder_, loc_, attribute);
  return linalg::FillOp::create(builder_, loc_, constant, into).getResult(0);
}

mlir::Value Importer::reduction(const Stage &stage) {
  AffineMap kept = kept_indices(stage);
  // Narrow types accumulate in a wide one; the result is rounded once, at the end.
  heddle::Type type = stage.result->type, wide = computed_as(type);
  mlir::Type accumulator = to_mlir(wide, &context_);
  mlir::Value start = fill(empty(stage.result->shape, accumulator), neutral(stage.reducer, accumulator));
  mlir::Value sum = generic(stage, start, kept, [&](OpBuilder &body, Location loc, mlir::Value value, ValueRange acc) {
    return SmallVector<mlir::Value>{combine(body, loc, stage.reducer, acc[0], value)};
  })[0];
  if (wide == type)
    return sum;
  mlir::Type stored = to_mlir(type, &context_);
  AffineMap identity = AffineMap::getMultiDimIdentityMap(stage.space.size(), &context_);
  SmallVector<utils::IteratorType> parallel(stage.space.size(), utils::IteratorType::parallel);
  mlir::Value out = empty(stage.result->shape, stored);
  return linalg::GenericOp::create(builder_, loc_, TypeRange{out.getType()}, ValueRange{sum}, ValueRange{out},
                                   SmallVector<AffineMap>{identity, identity}, parallel,
                                   [&](OpBuilder &body, Location loc, ValueRange arguments) {
                                     linalg::YieldOp::create(body, loc, narrow(body, loc, arguments[0], stored, false));
                                   })
      ->getResult(0);
}

/// argmax and argmin: the best value so far and where it was; an equal one later does not replace it.
mlir::Value Importer::best_position(const Stage &stage) {
  AffineMap kept = kept_indices(stage);
  mlir::Type type = to_mlir(computed_as(stage.value->type), &context_);
  mlir::Value best = fill(empty(stage.result->shape, type), neutral(stage.reducer, type));
  mlir::Value place = fill(empty(stage.result->shape, builder_.getI32Type()), 0);
  bool greatest = stage.reducer == Reducer::argmax;
  return generic(
      stage, {best, place}, {kept, kept}, [&](OpBuilder &body, Location loc, mlir::Value value, ValueRange acc) {
        mlir::Value at = linalg::IndexOp::create(body, loc, stage.space.size());
        at = arith::IndexCastOp::create(body, loc, body.getI32Type(), at);
        mlir::Value better;
        if (isa<FloatType>(type))
          better = arith::CmpFOp::create(body, loc, greatest ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT,
                                         value, acc[0]);
        else
          better = arith::CmpIOp::create(body, loc, greatest ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt,
                                         value, acc[0]);
        return SmallVector<mlir::Value>{arith::SelectOp::create(body, loc, better, value, acc[0]),
                                        arith::SelectOp::create(body, loc, better, at, acc[1])};
      })[1];
}

/// The elements of `from` in their order, as a tensor of another shape. Null where that takes a copy.
mlir::Value Importer::reshape(const Tensor &from, const Tensor &to) {
  RankedTensorType type = type_of(to.shape, to_mlir(to.type, &context_));
  if (from.kind == Tensor::weight)
    return GetOp::create(builder_, loc_, type, symbols_.lookup(&from));
  auto axes = forms::axes_in_common(from.shape, to.shape);
  if (!axes || from.kind != Tensor::stage)
    return {};
  // A dim times 0 is the constant 0; MLIR gives the view of a shape that has a dim a dynamic extent.
  auto has_dims = [](const std::vector<Size> &shape, const forms::CommonAxes::Group &group) {
    return llvm::any_of(group, [&](auto axis) { return !shape[size_t(axis)].is_constant(); });
  };
  for (size_t i = 0; i < axes->places.size(); ++i)
    if (axes->places[i].is_constant() && (has_dims(from.shape, axes->from[i]) || has_dims(to.shape, axes->to[i])))
      return {};
  auto groups = [](const std::vector<forms::CommonAxes::Group> &list) {
    return llvm::map_to_vector(list, [](auto &group) { return ReassociationIndices(group.begin(), group.end()); });
  };
  mlir::Value value = value_of(from);
  if (axes->places.size() < from.shape.size())
    value = tensor::CollapseShapeOp::create(builder_, loc_, type_of(axes->places, type.getElementType()), value,
                                            groups(axes->from));
  if (failed(extent_formulas(value)))
    return {};
  if (axes->places.size() == to.shape.size())
    return value;
  SmallVector<OpFoldResult> extents;
  for (const Size &extent : to.shape)
    extents.push_back(extent.is_constant() ? OpFoldResult(builder_.getIndexAttr(extent.constant()))
                                           : OpFoldResult(size_value(extent)));
  return tensor::ExpandShapeOp::create(builder_, loc_, type, value, groups(axes->to), extents);
}

/// Elements of a weight at places that are known when it is packed: a weight that packing gathers. Null for any other
/// stage.
mlir::Value Importer::gather(const Stage &stage) {
  RankedTensorType type = type_of(stage.result->shape, to_mlir(stage.result->type, &context_));
  std::optional<Gather> places = type.hasStaticShape() ? gather_of(stage, &context_) : std::nullopt;
  if (!places || places->weight->type != stage.result->type)
    return {};
  WeightOp of = weights_.lookup(places->weight);
  auto from = cast<RankedTensorType>(of.getType());
  OpBuilder builder(of);
  auto attribute = GatheredAttr::get(&context_, type.getShape(), places->map, from.getShape());
  std::string symbol = of.getSymName().str() + "_" + std::to_string(gathered_++);
  builder.setInsertionPointAfter(of);
  WeightOp::create(builder, loc_, builder.getStringAttr(symbol), TypeAttr::get(type), of.getNames(), of.getStoredAttr(),
                   DenseI64ArrayAttr(), DenseI64ArrayAttr(), LayoutAttr(), DerivedAttr(), attribute, ComputedAttr());
  return in_front([&]() -> mlir::Value { return GetOp::create(builder_, loc_, type, symbol); });
}

void Importer::import_step(const Stage &stage) {
  loc_ = location(stage.span, stage.result->name);
  mlir::Value value;
  if (stage.space.empty() && stage.reducer == Reducer::none && is_whole(*stage.value)) {
    auto operand = [&](const HExpr &read) { return scalar_of(*read.tensor); };
    BodyWriter writer = this->writer(builder_, stage, operand, true);
    mlir::Value element = writer.write(*stage.value);
    value = tensor::FromElementsOp::create(builder_, loc_, RankedTensorType::get({}, element.getType()), element);
  } else if (stage.reducer == Reducer::none && !stage.exact && stage.value->tensor &&
             stage.value->type == stage.result->type && forms::reshapes(*stage.value, stage.space)) {
    value = reshape(*stage.value->tensor, *stage.result);
    value = value ? value : pointwise(stage);
  } else if (stage.reducer == Reducer::none) {
    value = gather(stage);
    value = value ? value : pointwise(stage);
  } else if (stage.reducer == Reducer::argmax || stage.reducer == Reducer::argmin) {
    value = best_position(stage);
  } else {
    value = reduction(stage);
  }
  values_[stage.result] = value;
}

void Importer::import_step(const Loop &loop) {
  Location loc = loc_ = location(loop.span, loop.index.name);
  SmallVector<mlir::Value> inits;
  for (const Loop::Carried &carried : loop.carried)
    inits.push_back(value_of(*carried.start));
  for (const Loop::Collected &collected : loop.collected)
    inits.push_back(empty(collected.whole->shape, to_mlir(collected.whole->type, &context_)));
  mlir::Value zero = arith::ConstantIndexOp::create(builder_, loc, 0);
  mlir::Value one = arith::ConstantIndexOp::create(builder_, loc, 1);
  auto op = scf::ForOp::create(builder_, loc, zero, size_value(loop.index.extent), one, inits);
  auto define = [&](ValueRange values) {
    for (auto [i, carried] : llvm::enumerate(loop.carried))
      values_[carried.carried] = values[i];
    for (auto [i, collected] : llvm::enumerate(loop.collected))
      values_[collected.whole] = values[loop.carried.size() + i];
  };
  {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(op.getBody());
    loops_.push_back(op);
    define(op.getRegionIterArgs());
    import_steps(loop.steps);
    loc_ = loc;
    SmallVector<mlir::Value> next;
    for (const Loop::Carried &carried : loop.carried)
      next.push_back(value_of(*carried.next));
    for (const Loop::Collected &collected : loop.collected) {
      const std::vector<Size> &shape = collected.whole->shape;
      SmallVector<OpFoldResult> offsets(shape.size(), builder_.getIndexAttr(0)), extents,
          strides(shape.size(), builder_.getIndexAttr(1));
      offsets[collected.axis] = op.getInductionVar();
      for (const Size &extent : shape)
        extents.push_back(extent.is_constant() ? OpFoldResult(builder_.getIndexAttr(extent.constant()))
                                               : OpFoldResult(size_value(extent)));
      extents[collected.axis] = builder_.getIndexAttr(1);
      next.push_back(tensor::InsertSliceOp::create(builder_, loc, value_of(*collected.slice),
                                                   values_.lookup(collected.whole), offsets, extents, strides));
    }
    loops_.pop_back();
    if (!next.empty()) // else the op has its end already
      scf::YieldOp::create(builder_, loc, next);
  }
  define(op.getResults());
}

void Importer::import_step(const Update &update) {
  loc_ = location(update.span, update.state->name);
  Stage nowhere{}; // offsets have no indices
  nowhere.exact = true;
  auto operand = [&](const HExpr &read) { return scalar_of(*read.tensor); };
  BodyWriter writer = this->writer(builder_, nowhere, operand, true);
  SmallVector<mlir::Value> offsets;
  SmallVector<int64_t> axes;
  for (auto [axis, along] : llvm::enumerate(update.place)) {
    offsets.push_back(writer.write_place(*along.offset, Size(), true, loc_));
    if (along.in_value)
      axes.push_back(axis);
  }
  UpdateOp::create(builder_, loc_, symbols_.lookup(update.state), value_of(*update.value), offsets,
                   offsets.empty() ? DenseI64ArrayAttr() : builder_.getDenseI64ArrayAttr(axes));
}

void Importer::import_step(const Require &require) {
  loc_ = location(require.span);
  RequireOp::create(builder_, loc_, scalar_of(*require.condition), builder_.getStringAttr(require.message));
}

void Importer::import_steps(const std::vector<Step> &steps) {
  for (const Step &step : steps)
    std::visit([&](const auto &what) { import_step(what); }, step.what);
}

DictionaryAttr Importer::input_attributes(const Input &input) {
  SmallVector<NamedAttribute> out;
  out.emplace_back(names::name, builder_.getStringAttr(input.name));
  out.emplace_back(names::extents, extents_attribute(input.tensor->shape));
  if (input.below && input.below->is_constant())
    out.emplace_back(names::below, builder_.getI64IntegerAttr(input.below->constant()));
  else if (input.below)
    out.emplace_back(names::below, AffineMapAttr::get(AffineMap::get(module_sizes_.count(), 0,
                                                                     module_sizes_.to_affine(*input.below))));
  if (input.initial)
    out.emplace_back(names::initial, builder_.getF64FloatAttr(*input.initial));
  return builder_.getDictionaryAttr(out);
}

void Importer::import_entry(const Entry &entry, const std::vector<Step> &steps) {
  values_.clear();
  dims_.clear();
  sizes_.clear();
  SmallVector<mlir::Type> inputs, results;
  SmallVector<DictionaryAttr> input_attributes_of, result_attributes_of;
  for (const Input &input : entry.inputs) {
    inputs.push_back(type_of(input.tensor->shape, to_mlir(input.tensor->type, &context_)));
    input_attributes_of.push_back(input_attributes(input));
  }
  for (const Output &output : entry.outputs) {
    results.push_back(type_of(output.tensor->shape, to_mlir(output.tensor->type, &context_)));
    result_attributes_of.push_back(
        builder_.getDictionaryAttr({builder_.getNamedAttr(names::name, builder_.getStringAttr(output.name)),
                                    builder_.getNamedAttr(names::extents, extents_attribute(output.tensor->shape))}));
  }
  loc_ = location(entry.span, entry.name);
  auto function = func::FuncOp::create(builder_, loc_, entry.name, builder_.getFunctionType(inputs, results));
  function.setAllArgAttrs(input_attributes_of);
  function.setAllResultAttrs(result_attributes_of);
  function->setAttr(names::entry, builder_.getUnitAttr());
  SmallVector<StringRef> reads;
  for (const Uses::OfState &use : uses_of(program_, entry.steps).states)
    if (use.reads)
      reads.push_back(symbols_.at(use.state));
  if (!reads.empty())
    function->setAttr(names::reads, builder_.getStrArrayAttr(reads));
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(function.addEntryBlock());
  for (auto [input, argument] : llvm::zip_equal(entry.inputs, function.getArguments()))
    values_[input.tensor] = argument;
  import_steps(steps);
  SmallVector<mlir::Value> returned;
  for (const Output &output : entry.outputs)
    returned.push_back(value_of(*output.tensor));
  func::ReturnOp::create(builder_, location(entry.span), returned);
}

OwningOpRef<ModuleOp> Importer::run() {
  module_ = ModuleOp::create(UnknownLoc::get(&context_), program_.name);
  (*module_)->setAttr(names::dims, module_sizes_.attribute());
  builder_.setInsertionPointToEnd(module_->getBody());
  import_weights();
  import_states();
  for (auto [entry, steps] : llvm::zip_equal(program_.entries, steps_))
    import_entry(entry, steps);
  return std::move(module_);
}

} // namespace

OwningOpRef<ModuleOp> import_program(const Program &program, MLIRContext &context, Diagnostics &diagnostics) {
  return Importer(program, context, diagnostics).run();
}

} // namespace heddle::ir
