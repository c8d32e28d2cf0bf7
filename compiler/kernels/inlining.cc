// Works on the Funcs that lowering made, not on MLIR: what an op means is decided in one place.
#include "compiler/kernels/inlining.h"

#include "compiler/kernels/loads_first.h"

namespace heddle {

using Halide::Expr;
namespace hi = Halide::Internal;

Inliner::Inliner(LoweredKernel &kernel) {
  for (LoweredOp &stage : kernel.stages)
    stages_[stage.func.name()] = &stage;
}

Expr Inliner::visit(const Halide::Internal::Call *call) {
  auto found = call->call_type == Halide::Internal::Call::Halide ? stages_.find(call->name) : stages_.end();
  if (found == stages_.end())
    return IRGraphMutator::visit(call);
  std::vector<Expr> indices;
  for (const Expr &arg : call->args)
    indices.push_back(mutate(arg));
  if (auto replacement = replacements_.find(call->name); replacement != replacements_.end())
    return replacement->second(indices);
  LoweredOp &stage = *found->second;
  if (stage.has_update())
    return Halide::Internal::Call::make(stage.func.function(), indices, call->value_index);
  Substitution arguments;
  std::vector<Halide::Var> vars = stage.func.args();
  for (size_t i = 0; i < vars.size(); ++i)
    arguments[vars[i].name()] = indices[i];
  return mutate(replaced(arguments, stage.func.values()[call->value_index]));
}

namespace {

class Replace : public hi::IRGraphMutator {
public:
  explicit Replace(const Substitution &variables) : variables_(variables) {}

private:
  using IRGraphMutator::visit;
  Expr visit(const hi::Variable *variable) override {
    auto found = variables_.find(variable->name);
    return found == variables_.end() ? Expr(variable) : found->second;
  }

  const Substitution &variables_;
};

/// Halide's own goes every way, too.
class RemovePromises : public hi::IRGraphMutator {
  using IRGraphMutator::visit;
  Expr visit(const hi::Call *call) override {
    bool promise = call->is_intrinsic({hi::Call::promise_clamped, hi::Call::unsafe_promise_clamped});
    return promise ? mutate(call->args[0]) : IRGraphMutator::visit(call);
  }
};

} // namespace

Expr replaced(const Substitution &variables, const Expr &in) { return Replace(variables).mutate(in); }

Halide::Region reduction_loops(const LoweredOp &stage) {
  Halide::Region region;
  for (size_t i = stage.loops.size(); i-- > 0;)
    if (stage.loops[i].reduction)
      region.push_back({0, stage.loops[i].extent});
  return region;
}

std::vector<std::string> reduction_names(const LoweredOp &stage) {
  std::vector<std::string> names;
  for (size_t i = stage.loops.size(); i-- > 0;)
    if (stage.loops[i].reduction)
      names.push_back(stage.loops[i].rvar.name());
  return names;
}

std::optional<std::pair<Expr, Expr>> factors_of(const LoweredOp &product) {
  Expr update = hi::substitute_in_all_lets(product.func.update_value(0));
  auto is_self = [&](const Expr &expr) {
    const hi::Call *call = expr.as<hi::Call>();
    return call && call->name == product.func.name();
  };
  if (const hi::Select *either = update.as<hi::Select>(); either && hi::equal(either->true_value, either->false_value))
    update = either->true_value; // a term that is the same in every iteration
  if (is_self(update))
    return std::pair(hi::make_zero(update.type()), hi::make_zero(update.type()));
  const hi::Add *add = update.as<hi::Add>();
  if (!add || is_self(add->a) == is_self(add->b))
    return std::nullopt;
  Expr term = RemovePromises().mutate(is_self(add->a) ? add->b : add->a);
  const hi::Mul *times = term.as<hi::Mul>();
  return times ? std::pair(times->a, times->b) : std::pair(term, hi::make_one(term.type()));
}

std::vector<Expr> scalars_of(LoweredKernel &kernel) {
  class Find : public hi::IRGraphVisitor {
  public:
    std::map<std::string, Expr> found;

  protected:
    using IRGraphVisitor::visit;
    void visit(const hi::Variable *variable) override {
      if (variable->param.defined() && !variable->param.is_buffer())
        found.emplace(variable->name, Expr(variable));
    }
  } find;
  for (LoweredOp &stage : kernel.stages) {
    for (const LoweredLoop &loop : stage.loops)
      loop.extent.accept(&find);
    std::vector<Expr> values = stage.func.values().as_vector();
    if (stage.has_update())
      values = stage.func.update_values().as_vector();
    for (const Expr &value : values)
      value.accept(&find);
  }
  std::vector<Expr> scalars(kernel.arguments.size());
  for (size_t i = 0; i < scalars.size(); ++i)
    if (auto named = find.found.find(kernel.arguments[i].name); named != find.found.end())
      scalars[i] = named->second;
  return scalars;
}

static bool same_shape(const KernelOutput &a, const KernelOutput &b) {
  if (a.axes.size() != b.axes.size())
    return false;
  for (size_t axis = 0; axis < a.axes.size(); ++axis)
    if (!hi::graph_equal(hi::simplify(a.axes[axis].extent), hi::simplify(b.axes[axis].extent)))
      return false;
  return true;
}

/// A Func of these values with the bounds and strides of `output`, in its place.
static Halide::Func replace(KernelOutput &output, const std::string &name, const std::vector<Expr> &values) {
  std::vector<Halide::Var> args; // innermost first
  for (size_t i = output.axes.size(); i-- > 0;)
    args.push_back(output.axes[i].var);
  Halide::Func func(name);
  if (values.size() == 1)
    func(args) = values[0];
  else
    func(args) = Halide::Tuple(values);
  std::vector<Halide::OutputImageParam> buffers = func.output_buffers();
  Expr stride = 1;
  for (size_t dim = 0; dim < args.size(); ++dim) {
    const OutputAxis &axis = output.axes[output.axes.size() - 1 - dim];
    buffers[0].dim(int(dim)).set_bounds(0, axis.extent); // the others' follow
    for (Halide::OutputImageParam &buffer : buffers)
      buffer.dim(int(dim)).set_stride(stride);
    stride = stride * axis.extent;
  }
  output.func = func;
  return func;
}

void join_outputs(LoweredKernel &kernel) {
  std::vector<KernelOutput> &outputs = kernel.outputs;
  std::vector<Expr> values;
  for (const KernelOutput &output : outputs) {
    if (!same_shape(output, outputs.back()))
      return;
    values.push_back(output.func.value());
  }
  if (outputs.size() == 1)
    return;
  replace(outputs.back(), "results", values);
  for (const OutputAxis &axis : outputs.back().axes)
    if (axis.size >= 0)
      outputs.back().func.bound(axis.var, 0, int(axis.size));
  outputs.erase(outputs.begin(), outputs.end() - 1);
}

void join_outputs_loads_first(LoweredKernel &kernel) {
  bool several = kernel.outputs.size() > 1;
  join_outputs(kernel);
  if (several && kernel.outputs.size() == 1)
    kernel.passes.push_back(loads_first());
}

namespace {

/// Hides the axes of an output from Halide where conditions ask for them. Of `if i < j then sum[i, j] else 0` it would
/// conclude which columns of the tile need a sum, and where the stored tile begins.
class HideConditions : public hi::IRGraphMutator {
public:
  explicit HideConditions(const KernelOutput &output) : output_(output) {}

private:
  using hi::IRGraphMutator::visit;

  Expr visit(const hi::Select *op) override {
    return hi::Select::make(Condition(*this).mutate(op->condition), mutate(op->true_value), mutate(op->false_value));
  }

  class Condition : public hi::IRGraphMutator {
  public:
    explicit Condition(HideConditions &outside) : outside_(outside) {}

  private:
    using hi::IRGraphMutator::visit;

    Expr visit(const hi::Variable *op) override {
      bool is_axis =
          llvm::any_of(outside_.output_.axes, [&](const OutputAxis &axis) { return axis.var.name() == op->name; });
      return is_axis ? hidden_value(op) : Expr(op);
    }
    /// Places say what is needed of something stored.
    Expr visit(const hi::Call *op) override {
      bool reads = op->call_type == hi::Call::Halide || op->call_type == hi::Call::Image;
      return reads ? outside_.mutate(op) : hi::IRGraphMutator::visit(op);
    }

    HideConditions &outside_;
  };

  const KernelOutput &output_;
};

} // namespace

Halide::Func redefine(KernelOutput &output, const std::function<Expr(const Expr &)> &definition) {
  std::vector<Expr> values;
  const Halide::Tuple before = output.func.values();
  for (const Expr &value : before.as_vector())
    values.push_back(HideConditions(output).mutate(definition(value)));
  Halide::Func func = replace(output, output.func.name() + "_tiled", values);
  for (const OutputAxis &axis : output.axes)
    func.bound(axis.var, 0, axis.extent);
  return func;
}

Halide::Func redefine_by_sums(LoweredKernel &kernel, KernelOutput &output,
                              const std::function<Expr(LoweredOp &, const std::vector<Expr> &)> &value_of) {
  Inliner inline_all(kernel);
  for (LoweredOp &stage : kernel.stages)
    if (stage.has_update())
      inline_all.replace(stage, [&](const std::vector<Expr> &indices) { return value_of(stage, indices); });
  return redefine(output, [&](const Expr &value) { return inline_all(value); });
}

} // namespace heddle
