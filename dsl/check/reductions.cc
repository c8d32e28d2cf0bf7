// The terms that `where` drops are replaced by the number that changes nothing; a mean is a sum and a division.
#include "dsl/check/reductions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/mentioned_names.h"
#include "dsl/check/ranges.h"

#include <limits>

namespace heddle::checking {

const Expr *Reductions::neutral(Reducer reducer, Type type) {
  double infinity = std::numeric_limits<double>::infinity();
  switch (reducer) {
  case Reducer::prod:
    return build_.convert(build_.integer(1), type);
  case Reducer::max:
  case Reducer::argmax:
    return is_floating(type) ? build_.real(-infinity, type) : build_.integer(INT32_MIN);
  case Reducer::min:
  case Reducer::argmin:
    return is_floating(type) ? build_.real(infinity, type) : build_.integer(INT32_MAX);
  case Reducer::any:
    return build_.boolean(false);
  case Reducer::all:
    return build_.boolean(true);
  default:
    return build_.convert(build_.integer(0), type);
  }
}

const Expr *Reductions::eval(const Tree &e, Frame &frame) {
  static const std::map<std::string, Reducer> reducers = {
      {"sum", Reducer::sum},       {"mean", Reducer::sum}, {"prod", Reducer::prod},
      {"max", Reducer::max},       {"min", Reducer::min},  {"argmax", Reducer::argmax},
      {"argmin", Reducer::argmin}, {"any", Reducer::any},  {"all", Reducer::all}};
  Reducer reducer = reducers.at(e.text);
  bool logic = reducer == Reducer::any || reducer == Reducer::all;
  bool position = reducer == Reducer::argmax || reducer == Reducer::argmin;

  std::vector<Binder> binders;
  std::vector<int> over;
  Size begin; // of the last index
  std::vector<const Tree *> uses{e.args[0].get()};
  if (e.outside)
    uses.push_back(e.outside.get());
  bool per_element = frame.per_element, failed = false;
  frame.per_element = true;
  for (const auto &place : e.places) {
    std::optional<std::vector<Extent>> extents;
    bool pack = place.kind == syntax::Place::pack;
    Size first;
    if (place.upper) {
      if (auto given = ranges_.range(*place.expr, *place.upper, frame)) {
        first = given->first;
        extents = {{{given->second, ""}}};
      }
    } else if (place.expr || !place.pieces.empty()) {
      if (auto given = ranges_.range_of(place, frame))
        extents = {{*given}};
    } else {
      extents = ranges_.inferred(place.name, pack, uses, frame);
    }
    auto binder = extents ? ranges_.bind_index(place.name, pack, *extents, frame) : std::nullopt;
    failed |= !binder || !ranges_.bind_pieces(place, *binder, frame);
    if (binder) {
      over.insert(over.end(), binder->variables.begin(), binder->variables.end());
      binders.push_back(*binder);
      begin = first;
      if (first != Size(0)) {
        frame.firsts[place.name.text] = first;
        if (first.is_constant())
          indices_[binder->variables[0]].first = first.constant();
        else
          indices_[binder->variables[0]].name += " - " + text(first);
      }
    }
  }
  const Expr *value = nullptr, *where = nullptr;
  if (!failed) {
    if (e.outside) {
      where = expressions_.condition(*e.outside, frame);
      failed = !where;
    }
    auto around = knowledge_.assume(where, true);
    value = expressions_.scalar(*e.args[0], frame);
  }
  for (const Binder &binder : binders)
    ranges_.release(binder, frame);
  frame.per_element = per_element;
  if (failed && !where) { // what it says is still looked at
    std::set<std::string> bound;
    for (const auto &place : e.places)
      bind_names(place, bound);
    for (const Tree *use : uses)
      expressions_.check_names(*use, bound, frame);
  }
  if (!value || failed)
    return nullptr;

  if (logic != (value->type == Type::boolean)) {
    report(Code::E031, e.args[0]->span,
           {text(e.args[0]->span), type_name(value->type), logic ? "a condition" : "a number"});
    return nullptr;
  }
  if (position && over.size() != 1) {
    report(Code::E076, e.span, {e.text, std::to_string(over.size())});
    return nullptr;
  }
  // Where only its pieces are used, a merged index is two loops.
  std::set<int> used = variables_of(value);
  if (where)
    used.merge(variables_of(where));
  for (size_t i = 0; i < over.size() && !position; ++i)
    if (std::vector<int> pieces = indices_[over[i]].pieces; !pieces.empty() && !used.count(over[i])) {
      over.erase(over.begin() + i);
      over.insert(over.begin() + i, pieces.begin(), pieces.end());
    }
  if (e.text == "mean" && !is_floating(value->type))
    value = build_.convert(value, real_);
  // Sums of i8 are i32; those of narrow floats are kept in f32 until they are complete.
  Type narrow = value->type;
  bool adds = reducer == Reducer::sum || reducer == Reducer::prod;
  if (value->type == Type::i8)
    value = build_.convert(value, Type::i32);
  if (adds && is_floating(value->type))
    value = build_.convert(value, Type::f32);
  const Expr *count = nullptr;
  if (e.text == "mean") {
    count = build_.real(1, value->type);
    for (int v : over) {
      const Expr *extent = build_.convert(build_.of_size(indices_[v].extent), value->type);
      count = build_.apply(Expr::mul, value->type, {count, extent}, e.span);
    }
  }
  auto reduce = [&](const Expr *term) -> const Expr * {
    std::set<int> free = indices_.indices_of(term);
    for (int v : over) {
      free.erase(v);
      for (int piece : indices_[v].pieces)
        free.erase(piece);
    }
    std::vector<int> space(free.begin(), free.end());
    const Tensor *result = steps_.reduction(frame.path + (frame.defining.empty() ? "" : frame.defining + ".") + e.text,
                                            space, reducer, over, term, e.span);
    if (!result)
      return nullptr;
    if (position)
      knowledge_.set_bound(result, Prover::Bound{indices_[over[0]].extent, true});
    if (reducer == Reducer::all)
      knowledge_.set_all(result, {space, over, term});
    std::vector<const Expr *> at;
    for (int v : space)
      at.push_back(build_.index(v));
    return build_.read(result, at, true, e.span);
  };
  if (where) {
    if (e.text == "mean")
      count = reduce(build_.select(where, build_.real(1, value->type), build_.real(0, value->type)));
    value = build_.select(where, value, neutral(reducer, value->type));
  }
  const Expr *result = reduce(value);
  if (count && result)
    result = build_.apply(Expr::div, value->type, {result, count}, e.span);
  if (result && position && begin != Size(0))
    result = build_.apply(Expr::add, Type::i32, {result, build_.of_size(begin)}, e.span);
  return result && adds && is_floating(narrow) ? build_.convert(result, narrow) : result;
}

} // namespace heddle::checking
