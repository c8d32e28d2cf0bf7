// Calls are inlined. A function whose results have no shape is read as part of the expression it stands in; any other
// runs in a frame of its own and leaves stages.
#include "dsl/check/calls.h"
#include "dsl/check/expressions.h"
#include "dsl/check/gradients.h"
#include "dsl/check/random.h"
#include "dsl/check/signatures.h"
#include "dsl/check/statements.h"

namespace heddle::checking {

using syntax::Formal;

namespace {

constexpr size_t deepest_call = 64;

} // namespace

const Expr *Calls::builtin(const Tree &e, const ScalarFunction &f, std::vector<const Expr *> args) {
  Type type = args[0]->type;
  if (f.meaning == ScalarFunction::stop)
    return build_.stopped(args[0]);
  for (const Expr *arg : args) {
    if (arg->type == Type::boolean) {
      report(Code::E038, e.span, {std::string(f.name), "a condition"});
      return nullptr;
    }
    type = common_type(type, arg->type);
  }
  bool whole = f.op == Expr::maximum || f.op == Expr::minimum || f.op == Expr::absolute;
  if (!whole && is_integer(type))
    type = real_;
  for (const Expr *&arg : args)
    arg = build_.convert(arg, type);
  const Expr *result = build_.apply(f.op, type, args, e.span);
  if (!result)
    report(Code::E048, e.span, {"this whole number does not fit 32 bits", "make it real"});
  return result;
}

Entity Calls::call_builtin(const Tree &e, const ScalarFunction &f, Frame &frame) {
  std::vector<Entity> args;
  bool shaped = false, failed = false;
  for (const auto &arg : e.args) {
    args.push_back(expressions_.eval(*arg, frame));
    shaped |= args.back().tensor_like();
    failed |= args.back().kind == Entity::error;
  }
  if (args.size() != f.arguments) {
    report(Code::E029, e.span,
           {std::string(f.name), count_of(f.arguments, "argument"), std::to_string(args.size()),
            std::string(f.name) + (f.arguments == 1 ? "(x)" : "(x, y)")});
    return {};
  }
  for (size_t i = 0; i < args.size() && !failed; ++i)
    failed = !expressions_.made_of_numbers(args[i], *e.args[i]);
  if (failed)
    return {};
  if (shaped && !frame.per_element)
    return expressions_.lift(e, args, [&](std::vector<const Expr *> x) { return builtin(e, f, x); });
  std::vector<const Expr *> scalars;
  for (size_t i = 0; i < args.size(); ++i) {
    scalars.push_back(expressions_.as_scalar(args[i], *e.args[i]));
    failed |= !scalars.back();
  }
  return entity(failed ? nullptr : builtin(e, f, scalars));
}

Entity Calls::eval(const Tree &e, Frame &frame) {
  if (auto known = frame.evaluated.find(&e); known != frame.evaluated.end())
    return known->second;
  Entity f = expressions_.eval(*e.callee, frame);
  std::string name = text(e.callee->span);
  if (f.kind == Entity::error) {
    for (const auto &arg : e.args)
      expressions_.eval(*arg, frame); // for its messages
    return {};
  }
  if (f.kind == Entity::instance) {
    auto call = f.module->members.find("call");
    if (call == f.module->members.end() || call->second.kind != Entity::function) {
      report(Code::E046, e.callee->span, {name, "module `" + f.module->module->name.text + "` has no `fn call`"});
      return {};
    }
    f = Entity(call->second);
  }
  if (f.kind == Entity::builtin && f.operation->meaning == ScalarFunction::gradient)
    return gradients_.gradient(e, frame);
  if (f.kind == Entity::builtin && f.operation->meaning == ScalarFunction::random)
    return random_.number(e, frame);
  if (f.kind == Entity::builtin && f.operation->meaning == ScalarFunction::fold)
    return random_.fold(e, frame);
  if (!e.places.empty()) {
    report(Code::E046, e.places[0].span, {name + "(…, " + text(e.places[0].span) + ")", "only `random` takes indices"});
    return {};
  }
  if (f.kind == Entity::builtin && f.operation->meaning == ScalarFunction::params) {
    report(Code::E046, e.callee->span, {name, "it stands after `in` of a loop, or as the type of a state"});
    return {};
  }
  if (f.kind == Entity::builtin)
    return call_builtin(e, *f.operation, frame);
  if (f.kind == Entity::function)
    return call_function(e, f, frame);
  report(Code::E046, e.callee->span,
         {name, f.kind == Entity::array ? "it is an array: call one member, `" + name + "[…]`"
                                        : "only functions and modules are called"});
  return {};
}

Entity Calls::call_function(const Tree &e, const Entity &f, Frame &frame) {
  const syntax::Function &code = *f.code;
  signatures_.check_size_names(code, f.home, f.self);
  std::string name = text(e.callee->span);
  if (e.args.size() != code.formals.size()) {
    std::string formals;
    for (const Formal &formal : code.formals)
      formals += (formals.empty() ? "" : ", ") + formal.name.text;
    report(
        Code::E029, e.span,
        {name, count_of(code.formals.size(), "argument"), std::to_string(e.args.size()), name + "(" + formals + ")"});
    return {};
  }
  if (messages_.calls().size() >= deepest_call) {
    budget_.stop();
    report(Code::E050, e.span, {name, "calls", "write it as a loop: calls are inlined, so they must end"});
    return {};
  }
  bool plain_result = true, plain = true;
  for (const syntax::Type &type : code.results)
    plain_result &= !type.has_shape;
  for (const Formal &formal : code.formals)
    plain &= !formal.type.has_shape;
  plain &= plain_result && code.results.size() == 1;

  std::vector<Entity> args;
  bool shaped = false, failed = false;
  for (size_t i = 0; i < e.args.size(); ++i) {
    bool outer = frame.per_element;
    if (code.formals[i].type.has_shape)
      frame.per_element = false;
    args.push_back(expressions_.eval(*e.args[i], frame));
    frame.per_element = outer;
    shaped |= args.back().tensor_like() && !args.back().extents().empty();
    failed |= args.back().kind == Entity::error;
  }
  if (failed)
    return {};

  auto inlined = [&](std::vector<Entity> values) -> Entity {
    Frame callee;
    callee.home = f.home;
    callee.self = f.self;
    callee.scopes.resize(1);
    callee.per_element = plain_result && (frame.per_element || plain);
    std::string own = f.self ? f.self->path : "";
    if (plain_result) {
      callee.path = frame.path;
      callee.defining = frame.defining;
    } else if (f.self) {
      callee.path = own + (own.empty() ? "" : ".") + (code.name.text == "call" ? "" : code.name.text + ".");
    } else {
      callee.path = frame.path + code.name.text + ".";
    }
    messages_.enter_call(e.span);
    // First what the signature binds, then what must agree with it.
    bool good = true;
    for (bool last : {false, true})
      for (size_t i = 0; good && i < values.size(); ++i)
        good = signatures_.bind_formal(code.formals[i], values[i], *e.args[i], callee, last);
    Entity result;
    if (good) {
      if (code.expr) {
        Entity value = expressions_.eval(*code.expr, callee);
        callee.results = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
        callee.returned = true;
      } else {
        statements_.run(code.body, callee);
      }
      result = signatures_.results(code, callee);
    }
    messages_.leave_call();
    return result;
  };

  for (size_t i = 0; plain && i < args.size(); ++i)
    if (!expressions_.made_of_numbers(args[i], *e.args[i]))
      return {};
  if (plain && shaped && !frame.per_element)
    return expressions_.lift(e, args, [&](std::vector<const Expr *> x) -> const Expr * {
      std::vector<Entity> values;
      for (const Expr *value : x)
        values.push_back(entity(value));
      Entity result = inlined(values);
      return result.kind == Entity::scalar ? result.value : nullptr;
    });
  return inlined(args);
}

} // namespace heddle::checking
