// Calls are inlined. A function whose results have no shape is read as part of the expression it stands in; any other
// runs in a frame of its own and leaves stages. Signatures bind size parameters (capitals that mean nothing yet).
#include "dsl/check/elaborate.h"
#include "dsl/check/mentions.h"

namespace heddle::checking {

using syntax::Formal;
using syntax::Place;

namespace {

constexpr size_t deepest_call = 64;

} // namespace

const Expr *Elaborator::builtin(const Tree &e, const ScalarFunction &f, std::vector<const Expr *> args) {
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
  return build_.apply(f.op, type, args, e.span);
}

Entity Elaborator::call_builtin(const Tree &e, const ScalarFunction &f, Frame &frame) {
  std::vector<Entity> args;
  bool shaped = false, failed = false;
  for (const auto &arg : e.args) {
    args.push_back(eval(*arg, frame));
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
    failed = !made_of_numbers(args[i], *e.args[i], frame);
  if (failed)
    return {};
  if (shaped && !frame.per_element)
    return lift(e, args, [&](std::vector<const Expr *> x) { return builtin(e, f, x); });
  std::vector<const Expr *> scalars;
  for (size_t i = 0; i < args.size(); ++i) {
    scalars.push_back(as_scalar(args[i], *e.args[i], frame));
    failed |= !scalars.back();
  }
  return entity(failed ? nullptr : builtin(e, f, scalars));
}

Entity Elaborator::cast(const Tree &e, Frame &frame) {
  Entity value = eval(*e.args[0], frame);
  std::optional<Size> range;
  if (e.text == "index" && !(range = size(*e.args[1], frame, "the range of an index")))
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
    return lift(e, {value}, [&](std::vector<const Expr *> x) { return convert(x[0]); });
  const Expr *x = as_scalar(value, *e.args[0], frame);
  return entity(x ? convert(x) : nullptr);
}

/// index(N)(x): x, which is proven to be one of 0 to N - 1, or else tested when it is computed.
const Expr *Elaborator::indexed(const Tree &e, const Expr *x, const Size &range, Frame &frame) {
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
  if (!proven && !knowledge_.facts().empty() && range.is_constant() && range.constant() > 0) {
    // Under conditions that no proof understands (`if go then …`) it is bounded all the same.
    x = build_.apply(Expr::maximum, Type::i32, {x, build_.integer(0)}, e.span);
    x = build_.apply(Expr::minimum, Type::i32, {x, build_.integer(range.constant() - 1)}, e.span);
  }
  if (knowledge_.facts().empty() ||
      (!proven && x->op == Expr::minimum && range.is_constant())) // else it is known under conditions only
    knowledge_.set_bound(x, range);
  return x;
}

Entity Elaborator::eval_call(const Tree &e, Frame &frame) {
  if (auto known = frame.evaluated.find(&e); known != frame.evaluated.end())
    return known->second;
  Entity f = eval(*e.callee, frame);
  std::string name = text(e.callee->span);
  if (f.kind == Entity::error) {
    for (const auto &arg : e.args)
      eval(*arg, frame); // for its messages
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
    return gradient(e, frame);
  if (f.kind == Entity::builtin && f.operation->meaning == ScalarFunction::random)
    return random(e, frame);
  if (f.kind == Entity::builtin && f.operation->meaning == ScalarFunction::fold)
    return fold(e, frame);
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

Entity Elaborator::call_function(const Tree &e, const Entity &f, Frame &frame) {
  const syntax::Function &code = *f.code;
  check_size_names(code, f.home, f.self);
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
    args.push_back(eval(*e.args[i], frame));
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
        good = bind_formal(code.formals[i], values[i], *e.args[i], callee, last);
    Entity result;
    if (good) {
      if (code.expr) {
        Entity value = eval(*code.expr, callee);
        callee.results = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
        callee.returned = true;
      } else {
        run(code.body, callee);
      }
      result = finish_call(code, callee);
    }
    messages_.leave_call();
    return result;
  };

  for (size_t i = 0; plain && i < args.size(); ++i)
    if (!made_of_numbers(args[i], *e.args[i], frame))
      return {};
  if (plain && shaped && !frame.per_element)
    return lift(e, args, [&](std::vector<const Expr *> x) -> const Expr * {
      std::vector<Entity> values;
      for (const Expr *value : x)
        values.push_back(entity(value));
      Entity result = inlined(values);
      return result.kind == Entity::scalar ? result.value : nullptr;
    });
  return inlined(args);
}

namespace {

/// "dim of line 3", "setting of line 1", where the file declares a size of that name; else "".
std::string declared_in(const syntax::File &file, const std::string &name, const Sources &sources, int seen_from) {
  auto line = [&](const syntax::Name &at) {
    return " of line " + std::to_string(sources.position(at.span.file, at.span.begin).line) +
           (at.span.file == seen_from ? "" : " of " + sources.path(at.span.file));
  };
  for (const syntax::Declaration &d : file.declarations) {
    for (const syntax::Bound &bound : d.bounds)
      if (bound.name.text == name)
        return "dim" + line(bound.name);
    for (const syntax::Setting &setting : d.settings)
      if (setting.name.text == name)
        return "setting" + line(setting.name);
  }
  return "";
}

} // namespace

bool Elaborator::bind_formal(const Formal &formal, Entity arg, const Tree &at, Frame &callee, bool last_round) {
  const std::string &name = formal.name.text;
  Type type = type_of(formal.type);
  if (!formal.type.has_shape) {
    if (!last_round) {
      const Expr *value = as_scalar(arg, at, callee);
      auto right = value ? converted(entity(value), type, name, at.span) : std::nullopt;
      if (!right)
        return false;
      callee.scopes[0].names[name] = *right;
      note(formal.name.span, *right);
      return true;
    }
  } else if (!last_round) {
    if (!arg.tensor_like()) {
      if (arg.kind == Entity::scalar)
        report(Code::E030, at.span, {name, "[]", text(formal.type.span)});
      else
        as_scalar(arg, at, callee); // says what it is
      return false;
    }
    std::vector<Extent> named = arg.extents();
    bool fits = check_shape(formal.type.shape, named, callee, true, named);
    auto right = converted(arg, type, name, at.span);
    const Tensor *tensor = right ? steps_.materialise(*right, callee.path + name, at.span) : nullptr;
    if (!tensor)
      return false;
    callee.scopes[0].names[name] = entity(tensor, named);
    if (!fits)
      report(Code::E030, at.span, {name, text(arg.extents()), text(formal.type.span)});
    return fits;
  } else {
    Entity &bound = callee.scopes[0].names[name];
    std::vector<Extent> actual = bound.shape, named = actual;
    if (!check_shape(formal.type.shape, actual, callee, false, named)) {
      Diagnostic &d = report(Code::E030, at.span, {name, text(arg.extents()), text(formal.type.span)});
      std::string values, fixed;
      bool by_axis = arg.extents().size() == formal.type.shape.size(); // else a pack takes several
      for (size_t axis = 0; axis < formal.type.shape.size(); ++axis)
        if (const Place &place = formal.type.shape[axis];
            place.kind == Place::value && place.expr->kind != Tree::integer)
          if (auto value = find(place.expr->text, callee);
              place.expr->kind == Tree::name && value && value->kind == Entity::scalar && as_size(value->value)) {
            const std::string &size = place.expr->text;
            std::string origin =
                callee.scopes[0].names.count(size) ? "" : declared_in(*callee.home->tree, size, sources_, at.span.file);
            values += (values.empty() ? "" : ", ") + size + " = " + text(*as_size(value->value));
            values = origin.starts_with("dim") ? values.substr(0, values.rfind('=')) + "is the " + origin : values;
            bool fits = by_axis && arg.extents()[axis].size == *as_size(value->value);
            if (!origin.empty() && fixed.empty() && !fits)
              fixed = "`" + size + "` means the " + origin +
                      " in this signature, too: to take any size, write a name " + "that is not declared";
          }
      if (!values.empty())
        d.label = "where " + values;
      if (!fixed.empty())
        d.help = fixed;
      return false;
    }
    bound.shape = named;
    note(formal.name.span, bound);
  }
  if (last_round && formal.type.scalar == "index") {
    auto range = size(*formal.type.range, callee, "the range of an index");
    if (!range)
      return false;
    const Entity &bound = callee.scopes[0].names[name];
    const Expr *limit = build_.of_size(*range - Size(1));
    bool inside = false;
    if (bound.kind == Entity::scalar) {
      const Expr *room = build_.apply(Expr::sub, Type::i32, {limit, bound.value}, at.span);
      inside = knowledge_.proven(bound.value) && knowledge_.proven(room);
    } else if (auto below = knowledge_.bound_of(bound.read)) {
      inside = knowledge_.proven(build_.of_size(*range - below->below));
    }
    if (!inside) {
      report(Code::E060, at.span, {text(at.span), text(formal.type.range->span), text(*range)});
      return false;
    }
  }
  return true;
}

bool Elaborator::check_shape(const std::vector<Place> &declared, const std::vector<Extent> &actual, Frame &frame,
                             bool may_bind, std::vector<Extent> &named) {
  size_t packs = 0;
  for (const Place &place : declared)
    packs += place.kind == Place::pack;
  size_t single = declared.size() - packs;
  if (packs > 1 || (packs == 0 ? actual.size() != single : actual.size() < single))
    return false;
  size_t axis = 0;
  for (const Place &place : declared) {
    if (place.kind == Place::pack) {
      std::vector<Extent> part(actual.begin() + axis, actual.begin() + axis + (actual.size() - single));
      axis += part.size();
      auto known = frame.packs.find(place.name.text);
      if (known == frame.packs.end()) {
        if (may_bind)
          frame.packs[place.name.text] = part;
        continue;
      }
      if (known->second.size() != part.size())
        return false;
      for (size_t i = 0; i < part.size(); ++i)
        if (!knowledge_.equal(known->second[i].size, part[i].size))
          return false;
      continue;
    }
    const Extent &here = actual[axis];
    bool lost = false; // a name whose value is lost is any size
    if (place.kind == Place::value && place.expr->kind == Tree::name) {
      auto known = find(place.expr->text, frame);
      lost = known ? known->kind == Entity::error : messages_.left_out().names.count(place.expr->text) > 0;
    }
    if (place.kind == Place::value && !lost) {
      const Tree &e = *place.expr;
      if (may_bind) {
        if (e.kind == Tree::name) {
          auto found = find(e.text, frame);
          if (!found || found->kind == Entity::function || found->kind == Entity::builtin)
            note(e.span, frame.scopes[0].names[e.text] = entity(build_.of_size(here.size)));
        }
      } else {
        auto wanted = size(e, frame, "an extent");
        if (!wanted || !knowledge_.equal(*wanted, here.size))
          return false;
      }
      named[axis] = {here.size, here.size.is_constant() && e.kind != Tree::integer ? text(e.span) : ""};
    }
    ++axis;
  }
  return true;
}

std::optional<Entity> Elaborator::converted(const Entity &e, Type type, const std::string &name, Span span) {
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

Entity Elaborator::finish_call(const syntax::Function &f, Frame &callee) {
  if (!callee.returned) {
    report(Code::E057, f.name.span, {f.name.text});
    return {};
  }
  for (const Entity &result : callee.results)
    if (result.kind == Entity::error)
      return {};
  Span place = f.body.empty() ? f.expr ? f.expr->span : f.span : f.body.back().span;
  if (callee.results.size() != f.results.size()) {
    report(Code::E068, place,
           {f.name.text, count_of(callee.results.size(), "value"), std::to_string(f.results.size())});
    return {};
  }
  std::vector<Entity> values;
  for (size_t i = 0; i < f.results.size(); ++i) {
    const syntax::Type &declared = f.results[i];
    Entity value = callee.results[i];
    if (!value.tensor_like() && value.kind != Entity::scalar) {
      report(Code::E031, place, {"the result of `" + f.name.text + "`", "not made of numbers", text(declared.span)});
      return {};
    }
    std::vector<Extent> shape = value.kind == Entity::scalar ? std::vector<Extent>{} : value.extents(), named = shape;
    if (!check_shape(declared.shape, shape, callee, false, named)) {
      report(Code::E032, place, {f.name.text, text(shape), text(declared.span)});
      return {};
    }
    auto right = converted(value, type_of(declared), "the result of `" + f.name.text + "`", place);
    if (!right)
      return {};
    if (right->kind == Entity::tensor && right->read->shape.empty())
      right = entity(build_.read(right->read, {}, true, place));
    if (right->kind == Entity::lazy && right->extents().empty())
      right = entity(right->formula->value);
    values.push_back(*right);
  }
  if (values.size() == 1)
    return values[0];
  Entity tuple;
  tuple.kind = Entity::tuple;
  tuple.items = std::move(values);
  return tuple;
}

void Elaborator::check_size_names(const syntax::Function &f, FileScope *home, Instance *self) {
  if (!size_names_checked_.insert(&f).second)
    return;
  Frame frame;
  frame.home = home;
  frame.self = self;
  std::map<std::string, Span> first;
  auto collect = [&](const syntax::Type &type) {
    for (const Place &place : type.shape) {
      bool name = place.kind == Place::value && place.expr->kind == Tree::name;
      if (place.kind == Place::pack && place.name.text != "_") // `.._` is any shape
        first.emplace(place.name.text, place.span);
      else if (name && !find(place.expr->text, frame))
        first.emplace(place.expr->text, place.span);
    }
  };
  for (const Formal &formal : f.formals)
    collect(formal.type);
  std::map<std::string, int> count;
  mentions(f, [&](const std::string &name, Span) { ++count[name]; });
  for (const auto &[name, span] : first)
    if (count[name] == 1)
      report(Code::E036, span, {name});
}

} // namespace heddle::checking
