// From the linalg ops of a kernel to Funcs. Parallel loops become Vars, reduction loops the RVars of one RDom, indexing
// maps and extract indices become index expressions, run-time sizes int32 parameters. Relies on the form of docs/ir.md
// section 2: dense tensors in row-major or other layouts, extents that follow from arguments and tensor.empty.
#include "compiler/halide/lower.h"

#include "compiler/halide/affine.h"
#include "compiler/halide/infinities.h"
#include "compiler/halide/ranges.h"
#include "compiler/halide/scalars.h"
#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace heddle {

using Halide::Expr;
using mlir::linalg::LinalgOp;

LoweredOp *LoweredKernel::stage_of(mlir::Value value) {
  auto found = stage_by_value.find(value);
  return found == stage_by_value.end() ? nullptr : found->second;
}

KernelInput *LoweredKernel::input_of(mlir::Value value) {
  for (KernelInput &input : inputs)
    if (input.value == value)
      return &input;
  return nullptr;
}

namespace {

int64_t constant_or_dynamic(const Expr &e) {
  std::optional<int64_t> value = Halide::Internal::as_const_int(e);
  return value.value_or(-1);
}

class Lowering {
public:
  explicit Lowering(mlir::func::FuncOp kernel)
      : kernel_(kernel),
        scalars_([this](mlir::Value tensor, std::vector<Expr> indices) { return gather(tensor, std::move(indices)); }) {
    out_.function = kernel;
  }

  Result<LoweredKernel> run() {
    if (!llvm::hasSingleElement(kernel_.getBody()))
      return Error{"kernel @" + kernel_.getName().str() + " has branches"};
    for (mlir::BlockArgument argument : kernel_.getArguments())
      add_argument(argument);
    for (mlir::Operation &op : kernel_.getBody().front()) {
      if (scalars_.error())
        break;
      if (auto linalg = llvm::dyn_cast<LinalgOp>(op))
        add_op(linalg);
      else if (auto dim = llvm::dyn_cast<mlir::tensor::DimOp>(op))
        add_dim(dim);
      else if (llvm::isa<mlir::func::ReturnOp>(op))
        for (mlir::Value result : op.getOperands())
          add_output(result);
      else if (op.getNumResults() != 1 || llvm::isa<mlir::RankedTensorType>(op.getResult(0).getType())) {
        if (!llvm::isa<mlir::tensor::EmptyOp, mlir::arith::ConstantOp>(op))
          scalars_.fail(&op, "has no form in a kernel");
      }
    }
    if (scalars_.error())
      return Error{"kernel @" + kernel_.getName().str() + ": " + scalars_.error()->message};
    return std::move(out_);
  }

private:
  void add_argument(mlir::BlockArgument argument) {
    std::string name = "arg" + std::to_string(argument.getArgNumber());
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(argument.getType());
    std::optional<Halide::Type> type = halide_type(tensor ? tensor.getElementType() : argument.getType());
    if (!type)
      return scalars_.fail(kernel_, "has an argument of a type that kernels don't compute with");
    if (!tensor) {
      Halide::Parameter parameter(*type, false, 0, name);
      scalars_.define(argument, Halide::Internal::Variable::make(*type, name, parameter));
      out_.arguments.push_back(Halide::Argument(name, Halide::Argument::InputScalar, *type, 0, {}));
      arguments_.push_back(scalars_.value(argument));
      if (argument.getType().isIndex())
        sizes_.push_back(scalars_.value(argument));
      return;
    }
    arguments_.push_back(Expr());
    KernelInput input{argument, {}, {}};
    std::vector<Expr> shape = extents(argument);
    if (auto attr = kernel_.getArgAttrOfType<ir::LayoutAttr>(argument.getArgNumber(), ir::names::layout)) {
      input.layout = attr.getMap();
      shape.clear();
      for (int64_t extent : layout::memory_shape(input.layout, tensor.getShape()))
        shape.push_back(int(extent));
    }
    input.param = Halide::ImageParam(*type, int(shape.size()), name);
    Expr stride = 1;
    for (int axis = int(shape.size()) - 1, dim = 0; axis >= 0; --axis, ++dim) {
      input.param.dim(dim).set_bounds(0, shape[axis]).set_stride(stride);
      stride = stride * shape[axis];
    }
    out_.arguments.push_back(input.param);
    out_.inputs.push_back(std::move(input));
  }

  /// The extents of a tensor, outermost first.
  std::vector<Expr> extents(mlir::Value tensor) {
    auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
    std::vector<Expr> shape;
    if (type.hasStaticShape()) {
      for (int64_t size : type.getShape())
        shape.push_back(int(size));
      return shape;
    }
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(tensor)) {
      auto attr = kernel_.getArgAttrOfType<mlir::AffineMapAttr>(argument.getArgNumber(), ir::names::extents);
      if (attr && attr.getValue().getNumResults() == type.getRank() && attr.getValue().getNumDims() <= sizes_.size()) {
        for (mlir::AffineExpr expr : attr.getValue().getResults())
          shape.push_back(affine(expr, sizes_));
        return shape;
      }
    } else if (auto empty = tensor.getDefiningOp<mlir::tensor::EmptyOp>()) {
      auto dynamic = empty.getDynamicSizes().begin();
      for (int64_t size : type.getShape())
        shape.push_back(mlir::ShapedType::isDynamic(size) ? scalars_.value(*dynamic++) : Expr(int(size)));
      return shape;
    } else if (auto op = tensor.getDefiningOp<LinalgOp>()) {
      return extents(op.getDpsInitOperand(llvm::cast<mlir::OpResult>(tensor).getResultNumber())->get());
    }
    scalars_.fail(kernel_, "has a tensor whose extents don't follow from `heddle.extents` or tensor.empty");
    return std::vector<Expr>(type.getRank(), Expr(1));
  }

  void add_dim(mlir::tensor::DimOp dim) {
    std::optional<int64_t> axis = dim.getConstantIndex();
    if (!axis)
      return scalars_.fail(dim, "needs a constant axis");
    scalars_.define(dim, extents(dim.getSource())[*axis]);
  }

  /// A tensor's element at indices that lie within it.
  Expr load(mlir::Value tensor, std::vector<Expr> indices) {
    if (auto found = fills_.find(tensor); found != fills_.end())
      return found->second;
    if (auto found = funcs_.find(tensor); found != funcs_.end()) {
      std::reverse(indices.begin(), indices.end());
      Halide::FuncRef element = found->second.func(indices);
      return found->second.element < 0 ? Expr(element) : Expr(element[found->second.element]);
    }
    if (KernelInput *input = out_.input_of(tensor)) {
      if (input->layout)
        indices = this->indices(input->layout, indices);
      std::reverse(indices.begin(), indices.end());
      return input->param(indices);
    }
    Halide::Type type =
        halide_type(llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType()).value_or(Halide::Int(32));
    if (tensor.getDefiningOp<mlir::tensor::EmptyOp>())
      return Halide::undef(type);
    mlir::DenseElementsAttr elements;
    if (auto constant = tensor.getDefiningOp<mlir::arith::ConstantOp>())
      elements = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    if (elements && elements.isSplat()) {
      if (llvm::isa<mlir::FloatType>(elements.getElementType()))
        return Halide::Internal::make_const(type, elements.getSplatValue<llvm::APFloat>().convertToDouble());
      return Halide::Internal::make_const(type, elements.getSplatValue<llvm::APInt>().getSExtValue());
    }
    if (mlir::Operation *op = tensor.getDefiningOp())
      scalars_.fail(op, "has no form in a kernel");
    return Halide::Internal::make_zero(type);
  }

  /// tensor.extract. What is computed from loops is within bounds by the program's own clamps; what is looked up in
  /// a tensor is clamped once more, because memory safety must not rest on data.
  Expr gather(mlir::Value tensor, std::vector<Expr> indices) {
    std::vector<Expr> shape = extents(tensor);
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      Expr &index = indices[axis];
      if (reads_tensors(index))
        index = Halide::clamp(index, 0, shape[axis] - 1);
      else if (!index.as<Halide::Internal::Variable>() && !Halide::Internal::is_const(index))
        index = Halide::unsafe_promise_clamped(index, 0, shape[axis] - 1);
    }
    return load(tensor, std::move(indices));
  }

  std::vector<LoweredLoop> loops_of(LinalgOp op) {
    std::vector<LoweredLoop> loops(op.getNumLoops());
    for (mlir::OpOperand &operand : op->getOpOperands()) {
      if (!llvm::isa<mlir::RankedTensorType>(operand.get().getType()))
        continue;
      std::vector<Expr> shape = extents(operand.get());
      for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
        if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) {
          LoweredLoop &loop = loops[dim.getPosition()];
          if (!loop.extent.defined() || constant_or_dynamic(shape[axis]) >= 0)
            loop.extent = shape[axis];
        }
    }
    auto kinds = op.getIteratorTypesArray();
    std::vector<Expr> extents;
    for (LoweredLoop &loop : loops) {
      if (!loop.extent.defined()) {
        scalars_.fail(op, "has a loop whose extent no operand carries");
        loop.extent = 1;
      }
      extents.push_back(loop.extent);
    }
    Halide::Region region; // innermost first
    for (size_t i = loops.size(); i-- > 0;) {
      LoweredLoop &loop = loops[i];
      loop.size = constant_or_dynamic(loop.extent);
      loop.reduction = kinds[i] == mlir::utils::IteratorType::reduction;
      if (Expr needed = loop.reduction && loop.size < 0 ? needed_extent(kernel_, op, i, extents, arguments_) : Expr();
          needed.defined())
        loop.extent = Halide::clamp(needed, 0, loop.extent);
      if (loop.reduction)
        region.push_back({0, loop.extent});
      else
        loop.var = Halide::Var("d" + std::to_string(i));
    }
    if (!region.empty()) {
      Halide::RDom domain(region);
      int next = 0;
      for (size_t i = loops.size(); i-- > 0;)
        if (loops[i].reduction)
          loops[i].rvar = domain[next++];
    }
    return loops;
  }

  std::vector<Expr> indices(mlir::AffineMap map, const std::vector<Expr> &loops) {
    std::vector<Expr> all;
    for (mlir::AffineExpr expr : map.getResults())
      all.push_back(affine(expr, loops));
    return all;
  }

  void add_op(LinalgOp op) {
    if (auto fill = llvm::dyn_cast<mlir::linalg::FillOp>(op.getOperation())) {
      fills_[fill.getResult(0)] = scalars_.value(fill.getInputs()[0]);
      return;
    }
    if (op.getNumDpsInits() == 0 || !op.hasPureTensorSemantics())
      return scalars_.fail(op, "is not an op on tensors");
    std::vector<LoweredLoop> loops = loops_of(op);
    std::vector<Expr> at; // the loops as the body reads them
    for (const LoweredLoop &loop : loops)
      at.push_back(loop.reduction ? Expr(loop.rvar) : Expr(loop.var));
    scalars_.set_loops(at);
    mlir::Block &body = *op.getBlock();
    for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
      mlir::BlockArgument argument = body.getArgument(operand->getOperandNumber());
      if (argument.use_empty())
        continue;
      bool tensor = llvm::isa<mlir::RankedTensorType>(operand->get().getType());
      scalars_.define(argument, tensor ? load(operand->get(), indices(op.getMatchingIndexingMap(operand), at))
                                       : scalars_.value(operand->get()));
    }
    bool reduces = op.getNumReductionLoops() > 0;
    scalars_.set_combiner(reduces && !adds_infinities(op) ? combiner_of(op) : nullptr);
    if (!reduces)
      for (unsigned result = 0; result < unsigned(op.getNumDpsInits()); ++result)
        add_pointwise(op, result, loops, at);
    else
      add_reduction(op, loops, at);
  }

  /// The result's axes as Vars, outermost first.
  std::vector<Halide::Var> axes_of(LinalgOp op, unsigned result, const std::vector<LoweredLoop> &loops) {
    std::vector<Halide::Var> axes;
    for (mlir::AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(result)).getResults()) {
      auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
      bool repeated = false;
      if (dim && !loops[dim.getPosition()].reduction)
        for (const Halide::Var &axis : axes)
          repeated |= axis.same_as(loops[dim.getPosition()].var);
      if (dim && !loops[dim.getPosition()].reduction && !repeated)
        axes.push_back(loops[dim.getPosition()].var);
      else if (expr == mlir::getAffineConstantExpr(0, op.getContext())) // an axis of extent 1
        axes.push_back(Halide::Var());
      else
        scalars_.fail(op, "writes its result at something else than its own parallel loops");
    }
    return axes;
  }

  static std::vector<std::string> names_of(const std::vector<LoweredLoop> &loops) {
    std::vector<std::string> names;
    for (const LoweredLoop &loop : loops)
      names.push_back(loop.reduction ? loop.rvar.name() : loop.var.name());
    return names;
  }

  static std::vector<Halide::Var> innermost_first(const std::vector<Halide::Var> &axes) {
    return {axes.rbegin(), axes.rend()};
  }

  LoweredOp &add_stage(LinalgOp op, const std::vector<LoweredLoop> &loops, std::vector<Halide::Var> axes) {
    out_.stages.push_back({op, Halide::Func("s" + std::to_string(out_.stages.size())), loops, std::move(axes)});
    return out_.stages.back();
  }

  void bind(mlir::Value value, LoweredOp &stage, int element) {
    funcs_.insert({value, {stage.func, element}});
    out_.stage_by_value[value] = &stage;
  }

  mlir::Value yielded(LinalgOp op, unsigned result) { return op.getBlock()->getTerminator()->getOperand(result); }

  void add_pointwise(LinalgOp op, unsigned result, const std::vector<LoweredLoop> &loops, const std::vector<Expr> &at) {
    mlir::OpOperand *init = op.getDpsInitOperand(result);
    mlir::BlockArgument argument = op.getBlock()->getArgument(init->getOperandNumber());
    if (!argument.use_empty())
      scalars_.define(argument, load(init->get(), indices(op.getMatchingIndexingMap(init), at)));
    LoweredOp &stage = add_stage(op, loops, axes_of(op, result, loops));
    scalars_.set_lane(stage.axes.empty() ? std::string() : stage.axes.back().name());
    scalars_.begin_body(names_of(loops), {});
    Expr value = scalars_.value(yielded(op, result));
    scalars_.end_body();
    scalars_.set_lane({});
    if (!scalars_.error())
      stage.func(innermost_first(stage.axes)) = value;
    bind(op->getResult(result), stage, -1);
  }

  /// The results of a reduction in an order in which they may be stored one after the other: what reads another
  /// result's old value comes before it (argmax: the position, then the best value). Halide 21 keeps the old values of
  /// a Tuple only where it sees the reads, and inside intrinsics, such as an exact comparison, it does not look.
  std::vector<unsigned> order_of_stores(LinalgOp op) {
    unsigned results = op.getNumDpsInits();
    std::vector<std::vector<bool>> reads(results, std::vector<bool>(results));
    for (unsigned result = 0; result < results; ++result) {
      llvm::SmallVector<mlir::Value> todo = {yielded(op, result)};
      llvm::DenseSet<mlir::Value> seen;
      while (!todo.empty()) {
        mlir::Value value = todo.pop_back_val();
        if (!seen.insert(value).second)
          continue;
        if (mlir::Operation *inner = value.getDefiningOp()) {
          llvm::append_range(todo, inner->getOperands());
          continue;
        }
        for (unsigned other = 0; other < results; ++other)
          if (value == op.getBlock()->getArgument(op.getDpsInitOperand(other)->getOperandNumber()))
            reads[result][other] = other != result;
      }
    }
    std::vector<unsigned> order;
    std::vector<bool> placed(results);
    while (order.size() < results) {
      size_t before = order.size();
      for (unsigned result = 0; result < results; ++result) {
        bool ready = !placed[result];
        for (unsigned other = 0; other < results; ++other)
          ready &= placed[other] || !reads[other][result];
        if (ready) {
          order.push_back(result);
          placed[result] = true;
        }
      }
      if (order.size() == before) {
        scalars_.fail(op, "reduces to results that need each other's old values");
        break;
      }
    }
    return order;
  }

  /// The loops as the body of a reduction of whole numbers reads them. Halide 21 trims the loop of `f = min(f, r)` to
  /// the iterations in which r is less than the first f, and then takes that for granted in all of them.
  static std::vector<Expr> hidden(const std::vector<LoweredLoop> &loops, std::vector<Expr> at) {
    for (auto [i, loop] : llvm::enumerate(loops))
      if (loop.reduction)
        at[i] = hidden_value(at[i]);
    return at;
  }

  /// A sum whose term is a negative number in disguise simplifies to a difference, of which Halide does not see that it
  /// may be cut into partial sums. It is simplified with what stands in it twice named, as Halide does: what is made of
  /// the sine of a sine of … is short only so.
  static Expr plain_sum(const Expr &update, const std::string &self) {
    const auto *add = update.as<Halide::Internal::Add>();
    if (!add)
      return update;
    Expr simple = Halide::Internal::simplify(Halide::Internal::common_subexpression_elimination(update));
    while (const auto *let = simple.as<Halide::Internal::Let>())
      simple = let->body;
    if (!simple.as<Halide::Internal::Sub>())
      return update;
    const auto *first = add->a.as<Halide::Internal::Call>();
    bool self_first = first && first->name == self;
    const Expr &term = self_first ? add->b : add->a, &sum = self_first ? add->a : add->b;
    return Halide::Internal::Add::make(sum, hidden_value(term));
  }

  /// A body that mentions none of the reduction's loops is to be repeated for their iterations all the same, and Halide
  /// would not know of them. A choice between two equal values names one, and costs nothing: it goes when it is
  /// simplified.
  static void repeat(const std::vector<LoweredLoop> &loops, std::vector<Expr> &values) {
    const LoweredLoop *first = nullptr;
    for (const LoweredLoop &loop : loops) {
      if (!loop.reduction)
        continue;
      for (const Expr &value : values)
        if (Halide::Internal::expr_uses_var(value, loop.rvar.name()))
          return;
      first = first ? first : &loop;
    }
    if (first)
      values[0] = Halide::Internal::Select::make(Expr(first->rvar) >= 0, values[0], values[0]);
  }

  void add_reduction(LinalgOp op, const std::vector<LoweredLoop> &loops, const std::vector<Expr> &at) {
    unsigned results = op.getNumDpsInits();
    for (unsigned result = 1; result < results; ++result)
      if (op.getMatchingIndexingMap(op.getDpsInitOperand(result)) != op.getMatchingIndexingMap(op.getDpsInitOperand(0)))
        return scalars_.fail(op, "reduces to results of different axes");
    LoweredOp &stage = add_stage(op, loops, axes_of(op, 0, loops));
    if (scalars_.error())
      return;
    std::vector<Halide::Var> args = innermost_first(stage.axes);
    std::vector<unsigned> order = order_of_stores(op);
    if (scalars_.error())
      return;
    std::vector<Expr> before, after;
    for (unsigned result : order) {
      mlir::OpOperand *init = op.getDpsInitOperand(result);
      before.push_back(load(init->get(), {stage.axes.begin(), stage.axes.end()}));
    }
    results == 1 ? stage.func(args) = before[0] : stage.func(args) = Halide::Tuple(before);
    for (auto [element, result] : llvm::enumerate(order)) {
      mlir::BlockArgument argument = op.getBlock()->getArgument(op.getDpsInitOperand(result)->getOperandNumber());
      scalars_.define(argument, results == 1 ? Expr(stage.func(args)) : Expr(stage.func(args)[int(element)]));
    }
    if (!llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(op->getResult(0).getType())))
      scalars_.set_loops(hidden(loops, at));
    scalars_.begin_body(names_of(loops), mlir::ValueRange(op.getRegionOutputArgs()));
    for (unsigned result : order)
      after.push_back(scalars_.value(yielded(op, result)));
    scalars_.end_body();
    if (scalars_.error())
      return;
    if (results == 1)
      after[0] = plain_sum(after[0], stage.func.name());
    repeat(loops, after);
    results == 1 ? stage.func(args) = after[0] : stage.func(args) = Halide::Tuple(after);
    for (auto [element, result] : llvm::enumerate(order))
      bind(op->getResult(result), stage, results == 1 ? -1 : int(element));
  }

  void add_output(mlir::Value result) {
    if (scalars_.error())
      return;
    KernelOutput output{Halide::Func("result" + std::to_string(out_.outputs.size())), {}, result};
    std::vector<Expr> shape = extents(result), position;
    std::vector<Halide::Var> vars;
    for (auto [i, extent] : llvm::enumerate(shape)) {
      output.axes.push_back({Halide::Var("a" + std::to_string(i)), extent, constant_or_dynamic(extent)});
      vars.push_back(output.axes.back().var);
      position.push_back(output.axes.back().var);
    }
    output.func(innermost_first(vars)) = load(result, position);
    Halide::OutputImageParam buffer = output.func.output_buffer();
    Expr stride = 1;
    for (int axis = int(shape.size()) - 1, dim = 0; axis >= 0; --axis, ++dim) {
      buffer.dim(dim).set_bounds(0, shape[axis]).set_stride(stride);
      stride = stride * shape[axis];
      if (output.axes[axis].size >= 0)
        output.func.bound(output.axes[axis].var, 0, int(output.axes[axis].size));
    }
    out_.outputs.push_back(std::move(output));
  }

  struct Source {
    Halide::Func func;
    int element; // of a Tuple; -1: the Func has one value
  };

  mlir::func::FuncOp kernel_;
  LoweredKernel out_;
  Scalars scalars_;
  std::vector<Expr> sizes_;     // the index arguments
  std::vector<Expr> arguments_; // all that are scalars, by number
  llvm::DenseMap<mlir::Value, Expr> fills_;
  llvm::DenseMap<mlir::Value, Source> funcs_;
};

} // namespace

Expr hidden_value(const Expr &value) {
  using Halide::Internal::Call;
  return Call::make(value.type(), Call::unsafe_promise_clamped, {value, value, value}, Call::PureIntrinsic);
}

Result<LoweredKernel> lower_kernel(mlir::func::FuncOp kernel) { return Lowering(kernel).run(); }

} // namespace heddle
