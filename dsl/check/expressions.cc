// Nothing is evaluated in a branch that a constant condition rules out: it may name what a config leaves out.
#include "dsl/check/expressions.h"
#include "dsl/check/calls.h"
#include "dsl/check/conversions.h"
#include "dsl/check/foreign.h"
#include "dsl/check/mentioned_names.h"
#include "dsl/check/nearest.h"
#include "dsl/check/reductions.h"
#include "dsl/check/subscripts.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Operator;

namespace {

Expr::Op operation(Operator op) {
  switch (op) {
  case Operator::add:
    return Expr::add;
  case Operator::sub:
    return Expr::sub;
  case Operator::mul:
    return Expr::mul;
  case Operator::div:
    return Expr::div;
  case Operator::floor_div:
    return Expr::floor_div;
  case Operator::mod:
    return Expr::mod;
  case Operator::power:
    return Expr::power;
  case Operator::less:
    return Expr::less;
  case Operator::less_equal:
    return Expr::less_equal;
  case Operator::greater:
    return Expr::greater;
  case Operator::greater_equal:
    return Expr::greater_equal;
  case Operator::equal:
    return Expr::equal;
  case Operator::not_equal:
    return Expr::not_equal;
  case Operator::logical_and:
    return Expr::logical_and;
  case Operator::logical_or:
    return Expr::logical_or;
  case Operator::logical_not:
    return Expr::logical_not;
  case Operator::negate:
    return Expr::negate;
  }
  return Expr::add;
}

const char *symbol(Operator op) {
  constexpr const char *symbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "-"};
  return symbols[static_cast<int>(op)];
}

bool is_comparison(Operator op) { return op >= Operator::less && op <= Operator::not_equal; }

} // namespace

Entity Expressions::eval(const Tree &e, Frame &frame) {
  if (!budget_.spend(e.span))
    return {};
  switch (e.kind) {
  case Tree::integer:
    if (e.number > INT32_MAX) {
      report(Code::E048, e.span, {"this whole number does not fit 32 bits", "write it as a real (`" + e.text + ".0`)"});
      return {};
    }
    return entity(build_.integer(static_cast<int64_t>(e.number)));
  case Tree::real:
    return entity(build_.real(e.number, real_));
  case Tree::boolean:
    return entity(build_.boolean(e.number != 0));
  case Tree::string: {
    Entity text;
    text.kind = Entity::text;
    text.string = e.text;
    return text;
  }
  case Tree::list: {
    Entity list;
    list.kind = Entity::list;
    for (const auto &item : e.args)
      list.items.push_back(eval(*item, frame));
    return list;
  }
  case Tree::name:
    return scopes_.meaning(e, frame);
  case Tree::unary: {
    if (e.op == Operator::negate && e.args[0]->kind == Tree::integer && e.args[0]->number == -double(INT32_MIN))
      return entity(build_.integer(INT32_MIN)); // the only number that fits with its sign alone
    Entity a = eval(*e.args[0], frame);
    if (a.tensor_like() && !frame.per_element)
      return lift(e, {a}, [&](std::vector<const Expr *> x) { return arithmetic(e, x[0], nullptr); });
    const Expr *x = as_scalar(a, *e.args[0]);
    return entity(x ? arithmetic(e, x, nullptr) : nullptr);
  }
  case Tree::binary:
    return eval_binary(e, frame);
  case Tree::condition:
    return eval_condition(e, frame);
  case Tree::call:
    return calls_.eval(e, frame);
  case Tree::access:
    return subscripts_.eval(e, frame);
  case Tree::field:
    return eval_field(e, frame);
  case Tree::cast:
    return conversions_.cast(e, frame);
  case Tree::reduce:
    return entity(reductions_.eval(e, frame));
  }
  return {};
}

const Expr *Expressions::as_scalar(const Entity &e, const Tree &at) {
  switch (e.kind) {
  case Entity::error:
    return nullptr;
  case Entity::scalar:
    return e.value;
  case Entity::tensor:
    if (e.read->shape.empty())
      return build_.read(e.read, {}, true, at.span);
    [[fallthrough]];
  case Entity::lazy:
    if (e.extents().empty())
      return e.formula->value;
    report(Code::E026, at.span, {text(at.span), text(e.extents())});
    return nullptr;
  default: {
    const char *what = e.kind == Entity::text       ? "a string"
                       : e.kind == Entity::list     ? "a list"
                       : e.kind == Entity::instance ? "a module"
                       : e.kind == Entity::array    ? "an array of modules"
                       : e.kind == Entity::tuple    ? "several values"
                       : e.kind == Entity::family   ? "a state for each param"
                                                    : "a function";
    Diagnostic &d = report(Code::E031, at.span, {text(at.span), what, "a number"});
    if (e.kind == Entity::instance || e.kind == Entity::function || e.kind == Entity::builtin)
      d.help = "call it: `" + text(at.span) + "(…)`";
    else if (e.kind == Entity::list || e.kind == Entity::array)
      d.help = "take one of it: `" + text(at.span) + "[0]`";
    else if (e.kind == Entity::family)
      d.help = "take that of one param: `" + text(at.span) + "[p]`";
    return nullptr;
  }
  }
}

bool Expressions::made_of_numbers(const Entity &e, const Tree &at) { return e.tensor_like() || as_scalar(e, at); }

const Expr *Expressions::scalar(const Tree &e, Frame &frame) { return as_scalar(eval(e, frame), e); }

const Expr *Expressions::condition(const Tree &e, Frame &frame) {
  const Expr *c = scalar(e, frame);
  if (c && c->type != Type::boolean) {
    report(Code::E037, e.span, {type_name(c->type), text(e.span)});
    return nullptr;
  }
  return c;
}

std::optional<Size> Expressions::size(const Tree &e, Frame &frame, const char *what) {
  const Expr *value = scalar(e, frame);
  if (!value)
    return std::nullopt;
  // What is wrong with a name's value is said once, however many sizes have it.
  auto is_new = [&] { return e.kind != Tree::name || refused_sizes_.insert(e.text).second; };
  auto result = as_size(value);
  if (!result) {
    if (is_new())
      report(Code::E043, e.span, {what});
    return std::nullopt;
  }
  if (result->is_constant() && result->constant() < 0) {
    if (is_new())
      report(Code::E056, e.span, {what, std::to_string(result->constant()), " for these settings"});
    return std::nullopt;
  }
  if (!result->is_constant() && result->as_dim() < 0) {
    Prover::Outcome outcome = knowledge_.prove_always(value);
    if (outcome.kind == Prover::Outcome::refuted) {
      std::string when;
      for (const auto &[who, number] : outcome.example)
        when += (when.empty() ? " (when " : ", ") + who + " = " + std::to_string(number);
      report(Code::E056, e.span, {what, std::to_string(outcome.value), when + ")"});
      return std::nullopt;
    }
  }
  return result;
}

std::optional<Extent> Expressions::extent(const Tree &e, Frame &frame) {
  auto result = size(e, frame, "an extent");
  if (!result)
    return std::nullopt;
  bool folded = result->is_constant() && e.kind != Tree::integer;
  return Extent{*result, folded ? text(e.span) : ""};
}

const Expr *Expressions::arithmetic(const Tree &e, const Expr *a, const Expr *b) {
  Operator op = e.op;
  auto refuse = [&](const Expr *x) {
    Diagnostic &d = report(Code::E038, e.span, {symbol(op), x->type == Type::boolean ? "a condition" : "a number"});
    if (x->type == Type::boolean)
      d.help = "a condition chooses: `if … then … else …`; as a number it is `real(…)` or `i32(…)`";
    return nullptr;
  };
  bool logic = op == Operator::logical_and || op == Operator::logical_or || op == Operator::logical_not;
  for (const Expr *x : {a, b})
    if (x && logic != (x->type == Type::boolean) &&
        !((op == Operator::equal || op == Operator::not_equal) && a->type == b->type))
      return refuse(x);
  Type type = b ? common_type(a->type, b->type) : a->type;
  if (type == Type::i8)
    type = Type::i32;
  if (op == Operator::div && is_integer(type))
    type = real_;
  if (op == Operator::power && is_integer(type)) {
    // A small constant power of a whole number stays whole; any other is real.
    auto times = whole_constant(b);
    if (times && *times >= 0 && *times <= 8) {
      const Expr *product = build_.integer(1), *factor = build_.convert(a, Type::i32);
      for (int64_t i = 0; i < *times && product; ++i)
        product = build_.apply(Expr::mul, Type::i32, {product, factor}, e.span);
      if (product)
        return product;
    }
    type = real_;
  }
  bool divides = op == Operator::floor_div || op == Operator::mod;
  if (auto by = divides && is_integer(type) ? as_size(b) : std::nullopt; by && !by->is_constant()) {
    std::string divisor = text(e.args[1]->span);
    report(Code::E058, e.span,
           {text(e.span), divisor,
            as_size(a) ? "what the size should be is for the caller to say: declare it as a `dim` of its own"
                       : "an index with pieces has them: `n in (i in N, j in " + divisor + ")`"});
    return nullptr;
  }
  std::vector<const Expr *> args{build_.convert(a, type)};
  if (b)
    args.push_back(build_.convert(b, type));
  const Expr *result = build_.apply(operation(op), is_comparison(op) || logic ? Type::boolean : type, args, e.span);
  if (!result) {
    bool zero = divides && whole_constant(args[1]) == 0;
    report(Code::E048, e.span,
           {zero ? "this divides by zero" : "this whole number does not fit 32 bits",
            zero ? "the right side is 0 for these settings" : "make one side real"});
  }
  return result;
}

Entity Expressions::eval_binary(const Tree &e, Frame &frame) {
  Entity a = eval(*e.args[0], frame);
  if (a.kind == Entity::error) {
    eval(*e.args[1], frame); // for its messages
    return {};
  }
  if (a.kind == Entity::text || a.kind == Entity::list) {
    Entity b = eval(*e.args[1], frame);
    if (b.kind == Entity::error)
      return {};
    bool equality = e.op == Operator::equal || e.op == Operator::not_equal;
    if (a.kind == Entity::list || b.kind != Entity::text || !equality) {
      Diagnostic &d = report(Code::E038, e.span, {symbol(e.op), a.kind == Entity::list ? "a list" : "a string"});
      if (a.kind == Entity::text && equality)
        d.help = "a string is compared with a string: `" + text(e.args[0]->span) + " " + symbol(e.op) + " \"" +
                 text(e.args[1]->span) + "\"`";
      return {};
    }
    return entity(build_.boolean((a.string == b.string) == (e.op == Operator::equal)));
  }
  bool logic = e.op == Operator::logical_and || e.op == Operator::logical_or;
  if (logic && !a.tensor_like()) {
    const Expr *left = as_scalar(a, *e.args[0]);
    if (!left)
      return {};
    if (left->type != Type::boolean) {
      report(Code::E037, e.args[0]->span, {type_name(left->type), text(e.args[0]->span)});
      return {};
    }
    bool conjunction = e.op == Operator::logical_and;
    if (auto known = truth(left); known && *known != conjunction)
      return a;
    Entity b;
    {
      auto around = knowledge_.assume(left, conjunction); // the right side matters only then
      b = eval(*e.args[1], frame);
    }
    const Expr *right = as_scalar(b, *e.args[1]);
    if (right && right->type != Type::boolean) {
      report(Code::E037, e.args[1]->span, {type_name(right->type), text(e.args[1]->span)});
      return {};
    }
    return entity(right ? arithmetic(e, left, right) : nullptr);
  }
  Entity b = eval(*e.args[1], frame);
  if (b.kind == Entity::error || !made_of_numbers(a, *e.args[0]) || !made_of_numbers(b, *e.args[1]))
    return {};
  if ((a.tensor_like() || b.tensor_like()) && !frame.per_element)
    return lift(e, {a, b}, [&](std::vector<const Expr *> x) { return arithmetic(e, x[0], x[1]); });
  const Expr *x = as_scalar(a, *e.args[0]), *y = as_scalar(b, *e.args[1]);
  return entity(x && y ? arithmetic(e, x, y) : nullptr);
}

Entity Expressions::eval_condition(const Tree &e, Frame &frame) {
  const Expr *test = condition(*e.args[0], frame);
  if (!test) {
    check_names(*e.args[1], {}, frame);
    check_names(*e.args[2], {}, frame);
    return {};
  }
  if (auto known = truth(test))
    return eval(*e.args[*known ? 1 : 2], frame);
  Entity arms[2];
  for (bool arm : {true, false}) {
    auto around = knowledge_.assume(test, arm);
    arms[arm] = eval(*e.args[arm ? 1 : 2], frame);
  }
  const Entity &yes = arms[1], &no = arms[0];
  auto choose = [&](const Expr *a, const Expr *b) -> const Expr * {
    if ((a->type == Type::boolean) != (b->type == Type::boolean)) {
      report(Code::E031, e.args[2]->span, {text(e.args[2]->span), type_name(b->type), type_name(a->type)});
      return nullptr;
    }
    Type type = common_type(a->type, b->type);
    return build_.select(test, build_.convert(a, type), build_.convert(b, type));
  };
  if (yes.kind == Entity::error || no.kind == Entity::error || !made_of_numbers(yes, *e.args[1]) ||
      !made_of_numbers(no, *e.args[2]))
    return {};
  if ((yes.tensor_like() || no.tensor_like()) && !frame.per_element)
    return lift(e, {yes, no}, [&](std::vector<const Expr *> x) { return choose(x[0], x[1]); });
  const Expr *a = as_scalar(yes, *e.args[1]), *b = as_scalar(no, *e.args[2]);
  return entity(a && b ? choose(a, b) : nullptr);
}

Entity Expressions::eval_field(const Tree &e, Frame &frame) {
  Entity base = eval(*e.callee, frame);
  if (base.kind == Entity::error)
    return {};
  if (base.kind == Entity::list && e.text == "length")
    return entity(build_.integer(static_cast<int64_t>(base.items.size())));
  if (base.kind != Entity::instance) {
    if (base.kind == Entity::array)
      report(Code::E047, e.span, {text(e.callee->span), e.text, "it is an array: take one member with `[…]`"});
    else
      report(Code::E047, e.span,
             {text(e.callee->span), e.text,
              base.tensor_like() && !instead_of_member(e.text).empty() ? instead_of_member(e.text)
                                                                       : "only modules have members"});
    return {};
  }
  auto found = base.module->members.find(e.text);
  if (found != base.module->members.end()) {
    note({e.span.file, e.span.end - static_cast<int>(e.text.size()), e.span.end}, found->second);
    return found->second;
  }
  std::vector<std::string> known;
  std::string all;
  const std::vector<syntax::Name> &sizes = base.module->module->sizes;
  for (const auto &[name, member] : base.module->members) {
    known.push_back(name);
    if (std::none_of(sizes.begin(), sizes.end(), [&](const syntax::Name &size) { return size.text == name; }))
      all += (all.empty() ? "" : ", ") + name;
  }
  std::string close = nearest_of(e.text, known);
  std::string what = "its module `" + base.module->module->name.text + "` has " + (all.empty() ? "none" : all);
  report(Code::E047, e.span, {text(e.callee->span), e.text, close.empty() ? what : "did you mean `" + close + "`?"});
  return {};
}

Entity Expressions::lift(const Tree &e, const std::vector<Entity> &args,
                         const std::function<const Expr *(std::vector<const Expr *>)> &f) {
  const Entity *shaped = nullptr;
  for (const Entity &arg : args) {
    if (arg.kind == Entity::error)
      return {};
    if (!arg.tensor_like() || arg.extents().empty())
      continue;
    if (!shaped) {
      shaped = &arg;
      continue;
    }
    const auto &a = shaped->extents(), &b = arg.extents();
    bool equal = a.size() == b.size();
    for (size_t i = 0; equal && i < a.size(); ++i)
      equal = a[i].size == b[i].size;
    if (!equal) {
      report(Code::E028, e.span, {text(a), text(b)});
      return {};
    }
  }
  auto result = std::make_shared<Lazy>();
  if (shaped)
    result->shape = shaped->extents();
  for (size_t i = 0; i < result->shape.size(); ++i)
    result->variables.push_back(indices_.new_variable("i" + std::to_string(i), result->shape[i]));
  std::vector<const Expr *> elements;
  for (const Entity &arg : args) {
    bool whole = arg.tensor_like() && !arg.extents().empty();
    Span span = args.size() == e.args.size() ? e.args[&arg - args.data()]->span : e.span;
    elements.push_back(steps_.element(arg, whole ? result->variables : std::vector<int>{}, span));
  }
  result->value = f(elements);
  if (!result->value)
    return {};
  if (!shaped)
    return entity(result->value);
  Entity out;
  out.kind = Entity::lazy;
  out.formula = result;
  return out;
}

void Expressions::check_names(const Tree &e, std::set<std::string> bound, Frame &frame) {
  if (e.kind == Tree::name) {
    if (!bound.count(e.text))
      scopes_.meaning(e, frame);
    return;
  }
  if (e.kind == Tree::condition) { // the arm that a config excludes may name what isn't there
    bool constant = true;
    mentions(*e.args[0], [&](const std::string &name, Span) {
      auto found = find(name, frame);
      constant &= found && !bound.count(name) &&
                  (found->kind == Entity::text || found->kind == Entity::list ||
                   (found->kind == Entity::scalar && checking::constant(found->value)));
    });
    const Expr *test = constant ? condition(*e.args[0], frame) : nullptr;
    if (auto known = test ? truth(test) : std::nullopt)
      return check_names(*e.args[*known ? 1 : 2], bound, frame);
    if (constant)
      return;
  }
  for (const syntax::Place &place : e.places)
    if (e.kind == Tree::reduce)
      bind_names(place, bound);
  for (const auto &arg : e.args)
    check_names(*arg, bound, frame);
  for (const syntax::Place &place : e.places) {
    if (place.expr)
      check_names(*place.expr, bound, frame);
    if (place.upper)
      check_names(*place.upper, bound, frame);
    for (const syntax::Place &piece : place.pieces)
      check_names(*piece.expr, bound, frame);
  }
  if (e.callee)
    check_names(*e.callee, bound, frame);
  if (e.outside)
    check_names(*e.outside, bound, frame);
}

} // namespace heddle::checking
