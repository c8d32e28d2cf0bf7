// Conversions become stages of the program, so that everything that reads programs sees one that was written so:
//
//   entry run(x: f32[S]) -> y: f32[S] { … }      as bf16:
//   input x: bf16[S]   x[s] = f32(x#in[s])   …   y#out[s] = bf16(y[s])   result y: bf16[S]
#include "compiler/driver/interface_types.h"

#include "compiler/driver/commands.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace heddle {

namespace {

/// A stage that converts a tensor element by element.
Stage conversion(Program &program, const Tensor &from, const Tensor &to) {
  Expr read{.op = Expr::read, .type = from.type, .args = {}, .tensor = &from, .extent = {}, .span = from.span};
  Stage out{.result = &to, .space = {}, .over = {}, .value = nullptr, .span = from.span, .calls = {}};
  for (size_t axis = 0; axis < from.shape.size(); ++axis) {
    out.space.push_back({"i" + std::to_string(axis), from.shape[axis]});
    Expr index{
        .op = Expr::index, .type = Type::i32, .args = {}, .position = int(axis), .extent = {}, .span = from.span};
    read.args.push_back(&program.exprs.emplace_back(std::move(index)));
  }
  Expr cast{.op = Expr::cast, .type = to.type, .args = {}, .extent = {}, .rounds = true, .span = from.span};
  cast.args = {&program.exprs.emplace_back(std::move(read))};
  out.value = &program.exprs.emplace_back(std::move(cast));
  return out;
}

const Tensor &tensor_like(Program &program, const Tensor &like, Tensor::Kind kind, Type type) {
  std::string name = like.name + (kind == Tensor::input ? "#in" : "#out"); // no author's name has that sign
  return program.tensors.emplace_back(Tensor{kind, name, type, like.shape, like.span});
}

} // namespace

Status set_interface_types(Program &program, const std::string &name) {
  Type type = Type::i32;
  for (Type real : {Type::f32, Type::bf16, Type::f16})
    type = name == type_name(real) ? real : type;
  if (type == Type::i32)
    return Error{usage_mark + ("--io wants f32, bf16 or f16, not `" + name + "`")};
  for (Entry &entry : program.entries) {
    std::vector<Step> before;
    for (Input &input : entry.inputs) {
      if (!is_floating(input.tensor->type) || input.tensor->type == type)
        continue;
      Tensor &inner = *std::find_if(program.tensors.begin(), program.tensors.end(),
                                    [&](const Tensor &tensor) { return &tensor == input.tensor; });
      inner.kind = Tensor::stage;
      input.tensor = &tensor_like(program, inner, Tensor::input, type);
      before.push_back({conversion(program, *input.tensor, inner)});
    }
    entry.steps.insert(entry.steps.begin(), std::make_move_iterator(before.begin()),
                       std::make_move_iterator(before.end()));
    std::map<const Tensor *, const Tensor *> converted; // a tensor may be two results
    for (Output &output : entry.outputs) {
      if (!is_floating(output.tensor->type) || output.tensor->type == type)
        continue;
      auto [known, is_new] = converted.try_emplace(output.tensor);
      if (is_new) {
        known->second = &tensor_like(program, *output.tensor, Tensor::stage, type);
        entry.steps.push_back({conversion(program, *output.tensor, *known->second)});
      }
      output.tensor = known->second;
    }
  }
  return Done{};
}

} // namespace heddle
