// Params that an entry updates, and what goes over all params of a module: `for p in params(encoder) { … p <- … }` and
// `state m: params(encoder) = 0`, of which `m[p]` is that of one param.
#include "dsl/check/params.h"
#include "dsl/check/conversions.h"
#include "dsl/check/expressions.h"

#include <utility>

namespace heddle::checking {

bool Params::is_params(const Tree &e, Frame &frame) {
  if (e.kind != Tree::call || e.callee->kind != Tree::name || e.callee->text != "params")
    return false;
  auto found = find("params", frame);
  return found && found->kind == Entity::builtin;
}

std::optional<std::vector<Entity>> Params::params_of(const Tree &e, Frame &frame) {
  std::map<const Tensor *, Entity> found;
  std::function<void(const Instance &)> of_module = [&](const Instance &instance) {
    for (const auto &[name, member] : instance.members)
      if (member.kind == Entity::tensor && declared_.weights.count(member.read))
        found[member.read] = member;
      else if (member.kind == Entity::instance)
        of_module(*member.module);
      else if (member.kind == Entity::array)
        for (const Instance *one : member.modules)
          of_module(*one);
  };
  for (const auto &arg : e.args) {
    bool outer = std::exchange(frame.per_element, false);
    Entity of = expressions_.eval(*arg, frame);
    frame.per_element = outer;
    if (of.kind == Entity::error)
      return std::nullopt;
    if (of.kind == Entity::tensor && declared_.weights.count(of.read))
      found[of.read] = of;
    else if (of.kind == Entity::instance)
      of_module(*of.module);
    else if (of.kind == Entity::array)
      for (const Instance *one : of.modules)
        of_module(*one);
    else {
      report(Code::E084, arg->span, {text(arg->span), of.tensor_like() ? "a tensor" : "something else"});
      return std::nullopt;
    }
  }
  if (e.args.empty() && frame.self)
    of_module(*frame.self);
  std::vector<Entity> list;
  for (const Tensor &tensor : program_.tensors) // as they are declared
    if (auto one = found.find(&tensor); one != found.end())
      list.push_back(one->second);
  return list;
}

Entity Params::state_of_params(const syntax::Member &m, Frame &frame) {
  if (!is_params(*m.type.range, frame)) {
    report(Code::E013, m.type.span,
           {"expected a type, found `" + text(m.type.span) + "`", "write `params(…)`, or a type such as `real[N]`"});
    return {};
  }
  auto params = params_of(*m.type.range, frame);
  if (!params)
    return {};
  auto by_param = std::make_shared<std::map<const Tensor *, Entity>>();
  for (const Entity &param : *params) {
    std::optional<double> initial;
    if (m.expr && !(initial = conversions_.initial(*m.expr, param.read->type, frame)))
      return {};
    const Tensor *tensor = steps_.new_tensor(Tensor::state, m.name.text + "." + param.read->name, param.read->type,
                                             param.read->shape, m.name.span);
    declared_.states.push_back({tensor, initial});
    (*by_param)[param.read] = entity(tensor, param.shape);
  }
  Entity family;
  family.kind = Entity::family;
  family.by_param = std::move(by_param);
  return family;
}

std::optional<Entity> Params::of_param(const Entity &family, const syntax::Name &name,
                                       const std::vector<syntax::Place> &places, Span span, Frame &frame) {
  auto refuse = [&](Span at, const std::string &why) {
    report(Code::E085, at, {name.text, why});
    return std::nullopt;
  };
  if (places.size() != 1 || places[0].kind != syntax::Place::value)
    return refuse(span, "`" + text(span) + "` names none");
  const Tree &at = *places[0].expr;
  bool outer = std::exchange(frame.per_element, false);
  Entity param = expressions_.eval(at, frame);
  frame.per_element = outer;
  if (param.kind == Entity::error)
    return std::nullopt;
  auto found = param.kind == Entity::tensor ? family.by_param->find(param.read) : family.by_param->end();
  if (found == family.by_param->end())
    return refuse(at.span, "`" + text(at.span) + "` is none of them");
  return found->second;
}

bool Params::become_state(const syntax::Target &target, const Tensor *param) {
  if (target.has_places) {
    report(Code::E086, target.span, {target.name.text});
    return false;
  }
  if (updated_params_.emplace(param, declared_.weights.at(param)).second) {
    const_cast<Tensor *>(param)->kind = Tensor::state; // the program's own
    declared_.states.push_back({param, std::nullopt});
  }
  return true;
}

void Params::check_paths() {
  std::map<std::string, const Tensor *> others; // by path
  for (const Weight &weight : program_.weights)
    others.try_emplace(weight.names[0], weight.tensor);
  for (const State &state : program_.states)
    if (auto updated = updated_params_.find(state.tensor); updated != updated_params_.end()) {
      const std::string &path = updated->second.names[0];
      if (auto [other, is_new] = others.try_emplace(path, state.tensor); !is_new)
        report(Code::E088, state.tensor->span, {state.tensor->name, other->second->name, path});
    }
}

void Params::begin_as_weights() {
  for (State &state : program_.states) {
    auto found = updated_params_.find(state.tensor);
    if (found == updated_params_.end())
      continue;
    const Tensor &own = *state.tensor;
    Weight weight = found->second;
    weight.tensor = state.begins = steps_.new_tensor(Tensor::weight, own.name + ".file", own.type, own.shape, own.span);
    program_.weights.push_back(std::move(weight));
  }
}

} // namespace heddle::checking
