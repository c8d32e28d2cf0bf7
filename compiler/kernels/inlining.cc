// Works on the Funcs that lowering made, not on MLIR: what an op means is decided in one place.
#include "compiler/kernels/inlining.h"

namespace heddle {

using Halide::Expr;

Inliner::Inliner(LoweredKernel &kernel) {
  for (Stage &stage : kernel.stages)
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
  Stage &stage = *found->second;
  if (stage.has_update())
    return Halide::Internal::Call::make(stage.func.function(), indices, call->value_index);
  Substitution arguments;
  std::vector<Halide::Var> vars = stage.func.args();
  for (size_t i = 0; i < vars.size(); ++i)
    arguments[vars[i].name()] = indices[i];
  return mutate(Halide::Internal::substitute(arguments, stage.func.values()[call->value_index]));
}

Halide::RDom fresh_domain(const Stage &stage) {
  Halide::Region region;
  for (size_t i = stage.loops.size(); i-- > 0;)
    if (stage.loops[i].reduction)
      region.push_back({0, stage.loops[i].extent});
  return Halide::RDom(region);
}

std::vector<std::string> reduction_names(const Stage &stage) {
  std::vector<std::string> names;
  for (size_t i = stage.loops.size(); i-- > 0;)
    if (stage.loops[i].reduction)
      names.push_back(stage.loops[i].rvar.name());
  return names;
}

Halide::Func redefine(Output &output, Expr value) {
  std::vector<Halide::Var> args; // innermost first
  for (size_t i = output.axes.size(); i-- > 0;)
    args.push_back(output.axes[i].var);
  Halide::Func func(output.func.name() + "_tiled");
  func(args) = std::move(value);
  Halide::OutputImageParam buffer = func.output_buffer();
  Expr stride = 1;
  for (size_t dim = 0; dim < args.size(); ++dim) {
    const Axis &axis = output.axes[output.axes.size() - 1 - dim];
    buffer.dim(int(dim)).set_bounds(0, axis.extent).set_stride(stride);
    stride = stride * axis.extent;
    func.bound(axis.var, 0, axis.extent);
  }
  output.func = func;
  return func;
}

} // namespace heddle
