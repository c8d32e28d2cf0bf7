// Checked program to module: weights become symbols, entries functions, stages linalg.generic ops whose bodies
// import_body.cc writes. Nothing is optimised here; what the checker proved (reads inside, equal extents) is only
// written down. Relies on the program being checked: every expression has the type it says.
#include "compiler/ir/import.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/import_entry.h"

namespace heddle::ir {

using namespace mlir;
using HExpr = heddle::Expr;

AffineExpr to_affine(const Size &size, MLIRContext *context) {
  AffineExpr out = getAffineConstantExpr(size.constant(), context);
  for (const Size::Term &term : size.terms()) {
    const Size::Atom &atom = term.atom;
    AffineExpr value;
    if (atom.kind == Size::Atom::dim)
      value = getAffineDimExpr(atom.dim_index, context);
    else if (atom.kind == Size::Atom::floor_div)
      value = to_affine(*atom.inner, context).floorDiv(atom.divisor);
    else
      value = to_affine(*atom.inner, context) % atom.divisor;
    out = out + value * term.factor;
  }
  return out;
}

namespace {

bool is_narrow_real(heddle::Type type) { return type == heddle::Type::f16 || type == heddle::Type::bf16; }

class Importer {
public:
  Importer(const Program &program, MLIRContext &context, Diagnostics &diagnostics)
      : program_(program), context_(context), diagnostics_(diagnostics), builder_(&context) {}

  OwningOpRef<ModuleOp> run();

private:
  void report_unsupported();
  void report_unsupported(const std::vector<Step> &steps);
  void import_weights();
  void import_entry(const Entry &entry);
  void import_stage(const Stage &stage);
  mlir::Value pointwise(const Stage &stage);
  mlir::Value reduction(const Stage &stage);
  mlir::Value best_position(const Stage &stage);

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
  mlir::Value value_of(const Tensor &tensor);
  mlir::Value size_value(const Size &size);
  mlir::Value dim_value(int number);
  mlir::Value empty(const std::vector<Size> &shape, mlir::Type element);
  mlir::Value fill(mlir::Value into, double value);
  RankedTensorType type_of(const std::vector<Size> &shape, mlir::Type element);
  DictionaryAttr input_attributes(const Input &input);
  AffineMapAttr extents_attribute(const std::vector<Size> &shape);
  Location location(Span span, const std::string &name = "");

  const Program &program_;
  MLIRContext &context_;
  Diagnostics &diagnostics_;
  OpBuilder builder_;
  OwningOpRef<ModuleOp> module_;
  DenseMap<const Tensor *, std::string> weight_symbols_;
  // of the entry being built
  Location loc_ = UnknownLoc::get(&context_);
  DenseMap<const Tensor *, mlir::Value> values_;
  std::map<int, mlir::Value> dims_;
  std::map<Size, mlir::Value> sizes_;
};

Location Importer::location(Span span, const std::string &name) {
  if (!span.valid())
    return UnknownLoc::get(&context_);
  const Sources &sources = diagnostics_.sources();
  auto at = sources.position(span.file, span.begin);
  Location place = FileLineColLoc::get(&context_, sources.path(span.file), at.line, at.column);
  return name.empty() ? place : Location(NameLoc::get(builder_.getStringAttr(name), place));
}

void Importer::report_unsupported(const std::vector<Step> &steps) {
  for (const Step &step : steps) {
    if (auto loop = std::get_if<Loop>(&step.what))
      diagnostics_.report(Code::E090, loop->span, {"a loop over a run-time size (`" + loop->index.name + "`)"});
    else if (auto require = std::get_if<Require>(&step.what))
      diagnostics_.report(Code::E090, require->span, {"a `require` that depends on run-time values"});
  }
}

void Importer::report_unsupported() {
  for (const State &state : program_.states)
    diagnostics_.report(Code::E090, state.tensor->span, {"the state `" + state.tensor->name + "`"});
  for (const Entry &entry : program_.entries)
    report_unsupported(entry.steps);
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
    extents.push_back(to_affine(size, &context_));
  return AffineMapAttr::get(AffineMap::get(program_.dims.size(), 0, extents, &context_));
}

void Importer::import_weights() {
  for (const Weight &weight : program_.weights) {
    std::string symbol = "w" + std::to_string(weight_symbols_.size());
    weight_symbols_[weight.tensor] = symbol;
    SmallVector<StringRef> names(weight.names.begin(), weight.names.end());
    SmallVector<int64_t> stored(weight.stored.begin(), weight.stored.end());
    WeightOp::create(builder_, location(weight.tensor->span, weight.tensor->name), builder_.getStringAttr(symbol),
                     TypeAttr::get(type_of(weight.tensor->shape, to_mlir(weight.tensor->type, &context_))),
                     builder_.getStrArrayAttr(names), builder_.getDenseI64ArrayAttr(stored), PanelsAttr());
  }
}

mlir::Value Importer::dim_value(int number) {
  mlir::Value &value = dims_[number];
  if (!value)
    value = DimOp::create(builder_, loc_, builder_.getIndexType(), builder_.getStringAttr(program_.dims[number].name));
  return value;
}

mlir::Value Importer::size_value(const Size &size) {
  if (int dim = size.as_dim(); dim >= 0)
    return dim_value(dim);
  mlir::Value &value = sizes_[size];
  if (value)
    return value;
  if (size.is_constant())
    return value = arith::ConstantIndexOp::create(builder_, loc_, size.constant());
  AffineExpr formula = to_affine(size, &context_);
  SmallVector<AffineExpr> renumbered;
  SmallVector<mlir::Value> operands;
  for (size_t i = 0; i < program_.dims.size(); ++i) {
    bool used = formula.isFunctionOfDim(i);
    renumbered.push_back(used ? getAffineDimExpr(operands.size(), &context_) : getAffineConstantExpr(0, &context_));
    if (used)
      operands.push_back(dim_value(i));
  }
  return value = affine::AffineApplyOp::create(
             builder_, loc_, AffineMap::get(operands.size(), 0, formula.replaceDims(renumbered)), operands);
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
  if (!value) { // a weight at its first use; everything else was defined before
    auto type = type_of(tensor.shape, to_mlir(tensor.type, &context_));
    value = GetOp::create(builder_, loc_, type, weight_symbols_.lookup(&tensor));
  }
  return value;
}

void Importer::collect(const HExpr &expr, const Stage &stage, Operands &into, std::map<const HExpr *, bool> &seen) {
  if (!seen.try_emplace(&expr, true).second)
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
        BodyWriter writer(body, {.stage = stage,
                                 .operand =
                                     [&](const HExpr &read) {
                                       std::vector<int> places;
                                       for (const HExpr *at : read.args)
                                         places.push_back(at->position);
                                       return arguments[in.number.at({read.tensor, places})];
                                     },
                                 .tensor = [&](const Tensor &tensor) { return value_of(tensor); },
                                 .size = [&](const Size &size) { return size_value(size); },
                                 .location = [&](Span span) { return location(span); }});
        mlir::Value value = writer.write(*stage.value);
        linalg::YieldOp::create(body, loc_, finish(body, loc_, value, arguments.drop_front(in.values.size())));
      });
  return op->getResults();
}

mlir::Value Importer::pointwise(const Stage &stage) {
  AffineMap identity = AffineMap::getMultiDimIdentityMap(stage.space.size(), &context_);
  mlir::Value out = empty(stage.result->shape, to_mlir(stage.result->type, &context_));
  return generic(stage, out, identity, [](OpBuilder &, Location, mlir::Value value, ValueRange) {
    return SmallVector<mlir::Value>{value};
  })[0];
}

/// From all indices of a stage to those of its space, which may be none.
AffineMap Importer::kept_indices(const Stage &stage) {
  SmallVector<AffineExpr> results;
  for (size_t i = 0; i < stage.space.size(); ++i)
    results.push_back(getAffineDimExpr(i, &context_));
  return AffineMap::get(stage.space.size() + stage.over.size(), 0, results, &context_);
}

/// The neutral element of a reducer.
double neutral(Reducer reducer, mlir::Type type) {
  bool real = isa<FloatType>(type);
  unsigned bits = type.getIntOrFloatBitWidth();
  switch (reducer) {
  case Reducer::prod:
  case Reducer::all:
    return 1;
  case Reducer::max:
  case Reducer::argmax:
    return real ? -INFINITY : -std::ldexp(1.0, bits - 1);
  case Reducer::min:
  case Reducer::argmin:
    return real ? INFINITY : std::ldexp(1.0, bits - 1) - 1;
  default:
    return 0;
  }
}

mlir::Value combine(OpBuilder &body, Location loc, Reducer reducer, mlir::Value acc, mlir::Value value) {
  bool real = isa<FloatType>(acc.getType());
  switch (reducer) {
  case Reducer::sum:
    return real ? mlir::Value(arith::AddFOp::create(body, loc, acc, value))
                : mlir::Value(arith::AddIOp::create(body, loc, acc, value));
  case Reducer::prod:
    return real ? mlir::Value(arith::MulFOp::create(body, loc, acc, value))
                : mlir::Value(arith::MulIOp::create(body, loc, acc, value));
  case Reducer::max:
    return real ? mlir::Value(arith::MaximumFOp::create(body, loc, acc, value))
                : mlir::Value(arith::MaxSIOp::create(body, loc, acc, value));
  case Reducer::min:
    return real ? mlir::Value(arith::MinimumFOp::create(body, loc, acc, value))
                : mlir::Value(arith::MinSIOp::create(body, loc, acc, value));
  case Reducer::any:
    return arith::OrIOp::create(body, loc, acc, value);
  case Reducer::all:
    return arith::AndIOp::create(body, loc, acc, value);
  default:
    llvm_unreachable("argmax and argmin keep two values");
  }
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
  heddle::Type type = stage.result->type, wide = type;
  if (stage.reducer == Reducer::sum || stage.reducer == Reducer::prod)
    wide = is_narrow_real(type) ? heddle::Type::f32 : type == heddle::Type::i8 ? heddle::Type::i32 : type;
  mlir::Type accumulator = to_mlir(wide, &context_);
  mlir::Value start = fill(empty(stage.result->shape, accumulator), neutral(stage.reducer, accumulator));
  mlir::Value sum = generic(stage, start, kept, [&](OpBuilder &body, Location loc, mlir::Value value, ValueRange acc) {
    if (value.getType() != accumulator)
      value = isa<FloatType>(accumulator) ? mlir::Value(arith::ExtFOp::create(body, loc, accumulator, value))
                                          : mlir::Value(arith::ExtSIOp::create(body, loc, accumulator, value));
    return SmallVector<mlir::Value>{combine(body, loc, stage.reducer, acc[0], value)};
  })[0];
  if (wide == type)
    return sum;
  mlir::Type narrow = to_mlir(type, &context_);
  AffineMap identity = AffineMap::getMultiDimIdentityMap(stage.space.size(), &context_);
  SmallVector<utils::IteratorType> parallel(stage.space.size(), utils::IteratorType::parallel);
  mlir::Value out = empty(stage.result->shape, narrow);
  return linalg::GenericOp::create(builder_, loc_, TypeRange{out.getType()}, ValueRange{sum}, ValueRange{out},
                                   SmallVector<AffineMap>{identity, identity}, parallel,
                                   [&](OpBuilder &body, Location loc, ValueRange arguments) {
                                     mlir::Value value =
                                         isa<FloatType>(narrow)
                                             ? mlir::Value(arith::TruncFOp::create(body, loc, narrow, arguments[0]))
                                             : mlir::Value(arith::TruncIOp::create(body, loc, narrow, arguments[0]));
                                     linalg::YieldOp::create(body, loc, value);
                                   })
      ->getResult(0);
}

/// argmax and argmin: the best value so far and where it was; an equal one later does not replace it.
mlir::Value Importer::best_position(const Stage &stage) {
  AffineMap kept = kept_indices(stage);
  mlir::Type type = to_mlir(stage.value->type, &context_);
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

void Importer::import_stage(const Stage &stage) {
  loc_ = location(stage.span, stage.result->name);
  mlir::Value value;
  if (stage.reducer == Reducer::none)
    value = pointwise(stage);
  else if (stage.reducer == Reducer::argmax || stage.reducer == Reducer::argmin)
    value = best_position(stage);
  else
    value = reduction(stage);
  values_[stage.result] = value;
}

DictionaryAttr Importer::input_attributes(const Input &input) {
  SmallVector<NamedAttribute> out;
  out.emplace_back(names::name, builder_.getStringAttr(input.name));
  out.emplace_back(names::extents, extents_attribute(input.tensor->shape));
  if (input.below && input.below->is_constant())
    out.emplace_back(names::below, builder_.getI64IntegerAttr(input.below->constant()));
  else if (input.below)
    out.emplace_back(names::below,
                     AffineMapAttr::get(AffineMap::get(program_.dims.size(), 0, to_affine(*input.below, &context_))));
  if (input.initial)
    out.emplace_back(names::initial, builder_.getF64FloatAttr(*input.initial));
  return builder_.getDictionaryAttr(out);
}

void Importer::import_entry(const Entry &entry) {
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
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(function.addEntryBlock());
  for (auto [input, argument] : llvm::zip_equal(entry.inputs, function.getArguments()))
    values_[input.tensor] = argument;
  for (const Step &step : entry.steps)
    import_stage(std::get<Stage>(step.what));
  SmallVector<mlir::Value> returned;
  for (const Output &output : entry.outputs)
    returned.push_back(value_of(*output.tensor));
  func::ReturnOp::create(builder_, location(entry.span), returned);
}

OwningOpRef<ModuleOp> Importer::run() {
  report_unsupported();
  if (diagnostics_.has_errors())
    return {};
  module_ = ModuleOp::create(UnknownLoc::get(&context_), program_.name);
  SmallVector<Attribute> dims;
  for (const Dim &dim : program_.dims) {
    SmallVector<NamedAttribute> row{builder_.getNamedAttr("name", builder_.getStringAttr(dim.name))};
    if (dim.most)
      row.push_back(builder_.getNamedAttr("most", builder_.getI64IntegerAttr(*dim.most)));
    dims.push_back(builder_.getDictionaryAttr(row));
  }
  (*module_)->setAttr(names::dims, builder_.getArrayAttr(dims));
  builder_.setInsertionPointToEnd(module_->getBody());
  import_weights();
  for (const Entry &entry : program_.entries)
    import_entry(entry);
  return std::move(module_);
}

} // namespace

OwningOpRef<ModuleOp> import_program(const Program &program, MLIRContext &context, Diagnostics &diagnostics) {
  return Importer(program, context, diagnostics).run();
}

} // namespace heddle::ir
