// Each read is proven inside its tensor: with nothing but the ranges of the indices
// (then it may be done anywhere), else under the conditions around it, else by its outside value; what is left is an
// error.
#include "dsl/check/subscripts.h"
#include "dsl/check/expressions.h"
#include "dsl/check/params.h"

#include <algorithm>

namespace heddle::checking {

void Subscripts::refuse_subscripts(const Entity &base, const Tree &e, const Frame &frame) {
  bool index = e.kind == Tree::name && frame.indices.count(e.text);
  const char *what = index                                                        ? "an index here"
                     : base.kind == Entity::scalar || base.kind == Entity::tensor ? "one number"
                     : base.kind == Entity::instance                              ? "a module"
                     : base.kind == Entity::tuple                                 ? "several values"
                     : base.kind == Entity::text                                  ? "a string"
                                                                                  : "a function";
  Diagnostic &d = report(Code::E027, e.span, {text(e.span), what});
  auto hidden = index ? scopes_.find_but_index(e.text, frame) : std::nullopt;
  if (hidden && hidden->tensor_like() && !hidden->extents().empty())
    d.help = "it hides the tensor `" + e.text + "`; give the index another name, here and on the left side";
}

Entity Subscripts::access_list(const Entity &base, const Tree &e, Frame &frame) {
  if (e.places.size() != 1 || e.places[0].kind != syntax::Place::value || e.outside) {
    report(Code::E061, e.span, {text(e.callee->span)});
    return {};
  }
  const Expr *at = expressions_.scalar(*e.places[0].expr, frame);
  if (!at)
    return {};
  auto number = whole_constant(at);
  if (!number) {
    report(Code::E041, e.places[0].span, {text(e.places[0].span)});
    return {};
  }
  bool array = base.kind == Entity::array;
  int64_t count = array ? base.modules.size() : base.items.size();
  if (*number < base.first || *number >= base.first + count) {
    report(Code::E049, e.places[0].span,
           {text(e.callee->span), members_of(base.first, count), std::to_string(*number)});
    return {};
  }
  if (!array)
    return base.items[*number];
  Entity member;
  member.kind = Entity::instance;
  member.module = base.modules[*number - base.first];
  return member;
}

Entity Subscripts::eval(const Tree &e, Frame &frame) {
  Entity base;
  if (auto known = frame.evaluated.find(e.callee.get()); known != frame.evaluated.end()) {
    base = known->second;
  } else {
    bool outer = frame.per_element;
    frame.per_element = false;
    base = expressions_.eval(*e.callee, frame);
    frame.per_element = outer;
    if (base.kind == Entity::lazy) {
      std::vector<Extent> shape = base.extents();
      base = entity(steps_.materialise(base, "value", e.callee->span), shape);
    }
    if (e.callee->kind == Tree::call)
      frame.evaluated[e.callee.get()] = base;
  }
  if (base.kind == Entity::error) {
    for (const auto &place : e.places)
      if (place.kind == syntax::Place::value)
        expressions_.eval(*place.expr, frame); // for its messages
    return {};
  }
  if (base.kind == Entity::family)
    return params_.of_param(base, {text(e.callee->span), e.callee->span}, e.places, e.span, frame).value_or(Entity{});
  if (base.kind == Entity::list || base.kind == Entity::array)
    return access_list(base, e, frame);
  bool of_packs = std::all_of(e.places.begin(), e.places.end(),
                              [](const syntax::Place &place) { return place.kind == syntax::Place::pack; });
  if (base.kind != Entity::tensor || (base.read->shape.empty() && !of_packs)) { // `m[..s]` where s is no index at all
    refuse_subscripts(base, *e.callee, frame);
    return {};
  }

  // One expression per dimension; null where the dimension stays (`:`).
  std::vector<const Expr *> at;
  bool failed = false, slice = false;
  for (const auto &place : e.places) {
    if (place.kind == syntax::Place::pack) {
      auto pack = frame.index_packs.find(place.name.text);
      if (pack == frame.index_packs.end()) {
        report(
            Code::E020, place.span,
            {".." + place.name.text, "an index pack stands on the left side too: `y[.." + place.name.text + "] = …`"});
        return {};
      }
      for (int variable : pack->second)
        at.push_back(build_.index(variable));
    } else if (place.kind == syntax::Place::all) {
      at.push_back(nullptr);
      slice = true;
    } else {
      bool bare = place.expr->kind == Tree::name && frame.per_element;
      const Expr *index = bare ? expressions_.as_scalar(scopes_.meaning(*place.expr, frame, true), *place.expr)
                               : expressions_.scalar(*place.expr, frame);
      if (index && !is_integer(index->type)) {
        report(Code::E031, place.span, {text(place.span), type_name(index->type), "a whole number"});
        index = nullptr;
      }
      failed |= !index;
      at.push_back(index);
    }
  }
  if (failed)
    return {};
  size_t rank = base.read->shape.size();
  if (at.size() < rank && !frame.per_element) {
    slice = true;
    at.resize(rank, nullptr);
  }
  if (at.size() != rank) {
    report(Code::E025, e.span, {text(e.callee->span), text(base.shape), count_of(at.size(), "subscript")});
    return {};
  }
  if (slice && frame.per_element) {
    std::vector<Extent> left;
    for (size_t i = 0; i < rank; ++i)
      if (!at[i])
        left.push_back(base.shape[i]);
    report(Code::E026, e.span, {text(e.span), text(left)});
    return {};
  }
  if (!slice)
    return entity(read(base, at, e, frame));

  auto result = std::make_shared<Lazy>();
  for (size_t i = 0; i < rank; ++i)
    if (!at[i]) {
      result->shape.push_back(base.shape[i]);
      result->variables.push_back(indices_.new_variable("i" + std::to_string(result->variables.size()), base.shape[i]));
      at[i] = build_.index(result->variables.back());
    }
  result->value = read(base, at, e, frame);
  if (!result->value)
    return {};
  Entity out;
  out.kind = Entity::lazy;
  out.formula = result;
  return out;
}

namespace {

/// Whether `e` reads something that is inside only under a condition: elsewhere its value means nothing, so what
/// is looked up by it is not inside there either.
bool conditional(const Expr *e) {
  std::vector<const Expr *> nodes = nodes_of(e);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Expr *node) { return node->op == Expr::read && !node->always_inside; });
}

} // namespace

const Expr *Subscripts::read(const Entity &base, const std::vector<const Expr *> &at, const Tree &e, Frame &frame) {
  bool always = std::none_of(at.begin(), at.end(),
                             [&](const Expr *index) { return conditional(index) || knowledge_.may_wrap(index); });
  const Expr *inside = nullptr; // what remains to be tested
  auto test = [&](Expr::Op op, const Expr *a, const Expr *b) {
    const Expr *c = build_.apply(op, Type::boolean, {a, b}, e.span);
    inside = inside ? build_.apply(Expr::logical_and, Type::boolean, {inside, c}, e.span) : c;
  };
  for (size_t axis = 0; axis < at.size(); ++axis) {
    const Size &extent = base.read->shape[axis];
    if (at[axis]->op == Expr::index && indices_[at[axis]->position].extent == extent)
      continue;
    if (at[axis]->op == Expr::loop_index && indices_.loops()[at[axis]->position].extent == extent)
      continue;
    if (knowledge_.is_index_of(at[axis], extent))
      continue;
    const Expr *size = build_.of_size(extent), *last = build_.of_size(extent - Size(1));
    const Expr *room = build_.apply(Expr::sub, Type::i32, {last, build_.convert(at[axis], Type::i32)}, e.span);
    for (const Expr *goal : {at[axis], room}) {
      bool below = goal != room;
      if (goal && knowledge_.prove_always(goal).kind == Prover::Outcome::proven)
        continue;
      always = false;
      // A difference whose factors leave 32 bits is no expression, and nothing is known of it.
      Prover::Outcome outcome = goal ? knowledge_.prove(goal) : Prover::Outcome{Prover::Outcome::unknown, {}, 0};
      if (outcome.kind == Prover::Outcome::proven)
        continue;
      if (!e.outside) {
        report_outside(base, axis, at[axis], outcome, e, below);
        return nullptr;
      }
      if (below)
        test(Expr::less_equal, build_.integer(0), at[axis]);
      else
        test(Expr::less, at[axis], size);
    }
  }
  if (always)
    for (const Expr *index : at)
      knowledge_.rely_on(index);
  const Expr *value = build_.read(base.read, at, always, e.span);
  if (!e.outside)
    return value;
  const Expr *outside = expressions_.scalar(*e.outside, frame);
  if (!outside || !inside)
    return outside ? value : nullptr;
  if ((outside->type == Type::boolean) != (value->type == Type::boolean)) {
    report(Code::E031, e.outside->span, {text(e.outside->span), type_name(outside->type), type_name(value->type)});
    return nullptr;
  }
  Type type = is_floating(value->type) ? value->type : common_type(value->type, outside->type);
  return build_.select(inside, build_.convert(value, type), build_.convert(outside, type));
}

void Subscripts::report_outside(const Entity &base, size_t axis, const Expr *at, const Prover::Outcome &outcome,
                                const Tree &e, bool below) {
  // The place that stands for this axis: packs and missing subscripts are always inside, so counting from an end works.
  const syntax::Place *place = nullptr;
  size_t position = 0;
  for (const auto &p : e.places) {
    size_t width = p.kind == syntax::Place::pack ? base.read->shape.size() + 1 - e.places.size() : 1;
    if (axis >= position && axis < position + width)
      place = &p;
    position += width;
  }
  std::string subscript = place ? text(place->span) : "", name = text(e.callee->span), whole = text(e.span);
  std::string cure = whole.substr(0, whole.rfind(']')) + " | 0]";
  Span span = place ? place->span : e.span;
  if (outcome.kind == Prover::Outcome::unknown) {
    const Extent &extent = base.shape[axis];
    report(Code::E022, span, {subscript, name, cure, extent.name.empty() ? text(extent.size) : extent.name});
    return;
  }
  if (outcome.none) {
    const auto &[number, some] = *outcome.none;
    Diagnostic &d =
        report(Code::E021, span,
               {name, "`" + number + "`", knowledge_.when(outcome), "the best of no numbers has no place", "", cure});
    d.help = "require some before (`require " + text(some) + " > 0`), or say what lies outside (`" + cure + "`)";
    return;
  }
  Miss there = knowledge_.miss(base.shape[axis], outcome, below);
  bool asked = at->op == Expr::read && at->tensor->kind == Tensor::input;
  if (asked && !asked_.emplace(at->tensor, there.end).second)
    return; // one declaration mends all
  std::string guard = below ? "0 <= " + subscript : subscript + " < " + there.end;
  Diagnostic &d = report(Code::E021, span, {name, there.row, there.when, there.rows, guard, cure});
  bool computed = at->op == Expr::read && !asked; // by the model, which no longer says of what it is an index
  const Size &extent = base.shape[axis].size;
  if (at->op == Expr::integer && (at->whole < 0 || extent.is_constant()) && extent != Size(0))
    d.help = "subscripts count from 0: the last one is `" + text(base.shape[axis].size - Size(1)) + "`";
  else if (asked)
    d.help = "declare `" + at->tensor->name + "` as `index(" + there.end +
             ")`, which each call is checked for, or say what lies outside (`" + cure + "`)";
  else if (computed)
    d.help = "say what it is an index of, which each call is checked for (`index(" + there.end + ")(" + subscript +
             ")`), or say what lies outside (`" + cure + "`)";
  else if (as_size(at))
    d.help = "require it before (`require " + guard + "`), or say what lies outside (`" + cure + "`)";
  knowledge_.label_range(d, at, knowledge_.facts());
}

} // namespace heddle::checking
