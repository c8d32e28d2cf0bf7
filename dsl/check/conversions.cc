// What the author writes rounds; what the checker converts is rounded where it is stored.
#include "dsl/check/conversions.h"
#include "dsl/check/expressions.h"

namespace heddle::checking {

Entity Conversions::cast(const Tree &e, Frame &frame) {
  Entity value = expressions_.eval(*e.args[0], frame);
  std::optional<Size> range;
  if (e.text == "index" && !(range = expressions_.size(*e.args[1], frame, "the range of an index")))
    return {};
  syntax::Type named;
  named.scalar = e.text;
  Type type = type_of(named);
  auto convert = [&](const Expr *x) -> const Expr * {
    if (range)
      return indexed(e, x, *range, frame);
    return e.text == "real" ? build_.convert(x, type) : build_.cast(x, type);
  };
  if (value.kind == Entity::error)
    return {};
  if (value.tensor_like() && !frame.per_element)
    return expressions_.lift(e, {value}, [&](std::vector<const Expr *> x) { return convert(x[0]); });
  const Expr *x = expressions_.as_scalar(value, *e.args[0]);
  return entity(x ? convert(x) : nullptr);
}

const Expr *Conversions::indexed(const Tree &e, const Expr *x, const Size &range, Frame &frame) {
  const Tree &arg = *e.args[0];
  if (!is_integer(x->type)) {
    report(Code::E031, arg.span, {text(arg.span), type_name(x->type), "a whole number"});
    return nullptr;
  }
  x = build_.convert(x, Type::i32);
  const Expr *room = build_.apply(Expr::sub, Type::i32, {build_.of_size(range - Size(1)), x}, e.span);
  bool proven = room && knowledge_.proven(x) && knowledge_.proven(room);
  if (!proven) {
    const Expr *low = build_.apply(Expr::less_equal, Type::boolean, {build_.integer(0), x}, e.span);
    const Expr *high = build_.apply(Expr::less, Type::boolean, {x, build_.of_size(range)}, e.span);
    const Expr *test = build_.apply(Expr::logical_and, Type::boolean, {low, high}, e.span);
    if (auto known = truth(test); known && !*known && knowledge_.facts().empty()) {
      report(Code::E060, arg.span, {text(arg.span), text(e.args[1]->span), text(range)}).help = "it is not one of them";
      return nullptr;
    }
    steps_.need(test, "`" + text(arg.span) + "` is not an index below " + text(e.args[1]->span), e.span, frame.path);
  }
  // Under conditions that no proof understands (`if go then …`) it is bounded all the same, and so is what may be
  // another number in 32 bits than in proofs and tests.
  bool wraps = knowledge_.may_wrap(x), positive = range.is_constant() && range.constant() > 0;
  bool bounded = wraps || (!proven && !knowledge_.facts().empty() && positive);
  if (bounded) {
    const Expr *first = build_.integer(0), *last = build_.of_size(range - Size(1));
    x = build_.apply(Expr::maximum, Type::i32, {x, first}, e.span);
    x = build_.apply(Expr::minimum, Type::i32, {x, last}, e.span);
    if (!positive) // where nothing is an index it is 0
      x = build_.apply(Expr::maximum, Type::i32, {x, first}, e.span);
  } else {
    knowledge_.rely_on(x);
  }
  if (knowledge_.facts().empty() || (bounded && positive)) // else it is known under conditions only
    knowledge_.set_bound(x, range);
  return x;
}

std::optional<double> Conversions::initial(const Tree &e, Type type, Frame &frame) {
  const Expr *value = expressions_.scalar(e, frame);
  if (!value)
    return std::nullopt;
  auto number = constant(value);
  if (!number) {
    report(Code::E041, e.span, {text(e.span)});
    return std::nullopt;
  }
  if ((is_floating(value->type) && !is_floating(type)) || (value->type == Type::boolean) != (type == Type::boolean)) {
    report(Code::E031, e.span, {text(e.span), type_name(value->type), type_name(type)});
    return std::nullopt;
  }
  double most = type == Type::i8 ? 127 : INT32_MAX;
  if (is_integer(type) && (*number > most || *number < -most - 1)) {
    report(Code::E048, e.span,
           {"`" + text(e.span) + "` does not fit " + type_name(type),
            "choose a number from " + std::to_string(int64_t(-most - 1)) + " to " + std::to_string(int64_t(most))});
    return std::nullopt;
  }
  return number;
}

std::optional<Entity> Conversions::converted(const Entity &e, Type type, const std::string &name, Span span) {
  Type own = e.kind == Entity::scalar ? e.value->type : e.kind == Entity::lazy ? e.formula->value->type : e.read->type;
  if (own == type)
    return e;
  if ((own == Type::boolean) != (type == Type::boolean) || (is_floating(own) && is_integer(type))) {
    report(Code::E031, span, {name, type_name(own), type_name(type)});
    return std::nullopt;
  }
  if (e.kind == Entity::scalar)
    return entity(build_.convert(e.value, type));
  auto result = std::make_shared<Lazy>();
  result->shape = e.extents();
  for (size_t i = 0; i < result->shape.size(); ++i)
    result->variables.push_back(indices_.new_variable("i" + std::to_string(i), result->shape[i]));
  result->value = build_.convert(steps_.element(e, result->variables, span), type);
  Entity out;
  out.kind = Entity::lazy;
  out.formula = result;
  return out;
}

} // namespace heddle::checking
