#include "dsl/check/hovers.h"

#include "dsl/syntax/lexer.h"

namespace heddle::checking {

void Hovers::note(Span at, const Entity &e) const {
  if (options_.note && at.valid() && e.kind != Entity::error)
    options_.note(at, [&] { return described(e); });
}

void Hovers::note_loop(Span at, const Size &extent) const {
  if (options_.note)
    options_.note(at, [&] { return "iteration, 0 to " + messages_.text(extent - Size(1)); });
}

std::string Hovers::described(const Entity &e) const {
  auto shaped = [&](Type type, const std::vector<Extent> &shape) {
    std::string out;
    for (const Extent &extent : shape)
      out += (out.empty() ? "" : ", ") + messages_.text(extent);
    return type_name(type) + (shape.empty() ? "" : "[" + out + "]");
  };
  auto number = [](double value) {
    std::string out = std::to_string(value);
    out.erase(out.find_last_not_of('0') + 1);
    return out.ends_with('.') ? out + "0" : out;
  };
  auto sized = [&](const Instance &module) {
    std::string sizes;
    for (const syntax::Name &size : module.module->sizes)
      sizes += (sizes.empty() ? "" : ", ") + described(module.members.at(size.text));
    return module.module->name.text + (sizes.empty() ? "" : "(" + sizes + ")");
  };
  switch (e.kind) {
  case Entity::text:
    return syntax::quote(e.string);
  case Entity::list:
  case Entity::tuple: {
    std::string items;
    for (const Entity &item : e.items)
      items += (items.empty() ? "" : ", ") + described(item);
    return e.kind == Entity::list ? "[" + items + "]" : items;
  }
  case Entity::scalar: {
    if (auto known = truth(e.value); known && e.value->type == Type::boolean)
      return *known ? "true" : "false";
    if (auto size = as_size(e.value))
      return messages_.text(*size);
    if (auto value = constant(e.value))
      return number(*value);
    if (e.value->op == Expr::index)
      return "index, 0 to " + messages_.text(indices_[e.value->position].extent - Size(1));
    if (e.value->op == Expr::loop_index)
      return "iteration, 0 to " + messages_.text(indices_.loops()[e.value->position].extent - Size(1));
    return type_name(e.value->type);
  }
  case Entity::tensor: {
    std::string out = shaped(e.read->type, e.shape);
    if (auto weight = declared_.weights.find(e.read); weight != declared_.weights.end())
      out += ", weight " + syntax::quote(weight->second.names[0]);
    return e.read->kind == Tensor::state ? out + ", state" : out;
  }
  case Entity::lazy:
    return shaped(e.formula->value->type, e.formula->shape);
  case Entity::instance:
    return sized(*e.module);
  case Entity::array:
    return e.modules.empty() ? "no members" : std::to_string(e.modules.size()) + " × " + sized(*e.modules[0]);
  case Entity::family:
    return "a state for each of " + std::to_string(e.by_param->size()) + " params";
  case Entity::function:
  case Entity::builtin:
  case Entity::error:
    return "";
  }
  return "";
}

} // namespace heddle::checking
