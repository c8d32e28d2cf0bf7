// First a signature binds its size parameters (capitals that mean nothing yet) and packs, then all shapes must agree.
#include "dsl/check/signatures.h"
#include "dsl/check/conversions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/mentioned_names.h"

namespace heddle::checking {

using syntax::Formal;
using syntax::Place;

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

bool Signatures::bind_formal(const Formal &formal, Entity arg, const Tree &at, Frame &callee, bool last_round) {
  const std::string &name = formal.name.text;
  Type type = type_of(formal.type);
  if (!formal.type.has_shape) {
    if (!last_round) {
      const Expr *value = expressions_.as_scalar(arg, at);
      auto right = value ? conversions_.converted(entity(value), type, name, at.span) : std::nullopt;
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
        expressions_.as_scalar(arg, at); // says what it is
      return false;
    }
    std::vector<Extent> named = arg.extents();
    bool fits = check_shape(formal.type.shape, named, callee, true, named);
    auto right = conversions_.converted(arg, type, name, at.span);
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
    auto range = expressions_.size(*formal.type.range, callee, "the range of an index");
    if (!range)
      return false;
    if (!are_below(callee.scopes[0].names[name], *range, at.span)) {
      report(Code::E060, at.span, {text(at.span), text(formal.type.range->span), text(*range)});
      return false;
    }
  }
  return true;
}

bool Signatures::are_below(const Entity &value, const Size &range, Span at) {
  if (value.kind == Entity::tensor) {
    auto below = knowledge_.bound_of(value.read);
    return below && knowledge_.proven(build_.of_size(range - below->below));
  }
  const Expr *number = value.kind == Entity::scalar ? value.value : value.formula->value;
  const Expr *room = build_.apply(Expr::sub, Type::i32, {build_.of_size(range - Size(1)), number}, at);
  return knowledge_.proven(number) && knowledge_.proven(room);
}

bool Signatures::check_range(const syntax::Type &type, const Entity &value, Frame &frame, Span at) {
  if (type.scalar != "index")
    return true;
  auto range = expressions_.size(*type.range, frame, "the range of an index");
  if (!range)
    return false;
  if (are_below(value, *range, at))
    return true;
  std::string end = text(type.range->span);
  report(Code::E060, at, {text(at), end, text(*range)}).help =
      "say what they are indices of, which each call is checked for: `index(" + end + ")(…)`";
  return false;
}

bool Signatures::check_shape(const std::vector<Place> &declared, const std::vector<Extent> &actual, Frame &frame,
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
        auto wanted = expressions_.size(e, frame, "an extent");
        if (!wanted || !knowledge_.equal(*wanted, here.size))
          return false;
      }
      named[axis] = {here.size, here.size.is_constant() && e.kind != Tree::integer ? text(e.span) : ""};
    }
    ++axis;
  }
  return true;
}

Entity Signatures::results(const syntax::Function &f, Frame &callee) {
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
      report(Code::E031, place, {f.name.text + "(…)", "not made of numbers", text(declared.span)});
      return {};
    }
    std::vector<Extent> shape = value.kind == Entity::scalar ? std::vector<Extent>{} : value.extents(), named = shape;
    if (!check_shape(declared.shape, shape, callee, false, named)) {
      report(Code::E032, place, {f.name.text, text(shape), text(declared.span)});
      return {};
    }
    auto right = conversions_.converted(value, type_of(declared), f.name.text + "(…)", place);
    if (!right)
      return {};
    bool own =
        !f.body.empty() && f.body.back().kind == syntax::Stmt::give && f.body.back().exprs.size() == f.results.size();
    if (!check_range(declared, *right, callee, own ? f.body.back().exprs[i]->span : place))
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

void Signatures::check_size_names(const syntax::Function &f, FileScope *home, Instance *self) {
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
