// Definitions by index, `y[b, i] = …`: what stands on the left is an index for each dimension, or a place that a loop
// around gives, slice by slice. One statement may define several tensors from a formula with several values.
#include "dsl/check/definitions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/mentioned_names.h"

#include <utility>

namespace heddle::checking {

using syntax::Place;
using syntax::Stmt;

bool Definitions::slot_of(const syntax::Target &target, const Tree &right, Frame &frame, Slot &slot,
                          std::vector<Binder> &binders) {
  bool failed = false;
  // What an index ranges over may depend on the right side only, so nothing is bound before all are known.
  std::vector<std::tuple<syntax::Name, bool, std::vector<Extent>, const Place *>> wanted;
  for (const Place &place : target.places) {
    bool bare = place.kind == Place::value && place.expr->kind == Tree::name;
    std::optional<Entity> known;
    if (bare)
      for (size_t k = frame.scopes.size(); k-- > 0 && !known;)
        if (auto found = frame.scopes[k].names.find(place.expr->text);
            found != frame.scopes[k].names.end() && found->second.kind == Entity::scalar &&
            found->second.value->type == Type::i32 && found->second.value->op != Expr::size) {
          known = found->second;
          if (frame.scopes[k].loop && frame.scopes[k].loop->names[0].text == place.expr->text &&
              known->value->op == Expr::integer && !slot.slices)
            slot.slices = &frame.scopes[k];
        }
    if (place.kind == Place::value && !bare) {
      bool names_known = true; // `y[i + 1]` introduces no index
      mentions(*place.expr, [&](const std::string &name, Span) { names_known &= find(name, frame).has_value(); });
      if (names_known)
        known = expressions_.eval(*place.expr, frame);
      if (!names_known || (known->kind == Entity::scalar && known->value->op != Expr::integer)) {
        report(Code::E075, place.span,
               {"`" + text(place.span) + "` is computed, but a definition gives all places by their index",
                "write an index here, and shift the subscripts on the right side"});
        failed = true;
        continue;
      }
    }
    if (known) {
      if (known->kind == Entity::scalar && known->value->op == Expr::integer) {
        slot.places.push_back(known->value->whole);
      } else if (known->kind == Entity::scalar && known->value->op == Expr::loop_index && slot.loop_axis < 0) {
        slot.loop_axis = slot.places.size();
        slot.loop_depth = known->value->position;
        slot.places.push_back(std::nullopt);
      } else {
        if (known->kind != Entity::error)
          report(Code::E075, place.span,
                 {"`" + text(place.span) + "` is computed, but a definition gives all places by their index",
                  "define the tensor over all its places, with `if`; a loop that begins at 0 gives one place per "
                  "iteration"});
        failed = true;
      }
      continue;
    }
    bool pack = place.kind == Place::pack;
    const syntax::Name name = bare ? syntax::Name{place.expr->text, place.span} : place.name;
    std::optional<std::vector<Extent>> extents;
    if (place.kind == Place::range) {
      if (auto given = ranges_.range_of(place, frame))
        extents = {{*given}};
    } else {
      extents = ranges_.inferred(name, pack, {&right}, frame);
    }
    failed |= !extents;
    if (extents)
      wanted.emplace_back(name, pack, *extents, &place);
    slot.places.insert(slot.places.end(), extents ? extents->size() : 1, std::nullopt);
  }
  for (auto &[name, pack, extents, place] : wanted) {
    auto binder = ranges_.bind_index(name, pack, extents, frame);
    failed |= !binder || !ranges_.bind_pieces(*place, *binder, frame);
    if (binder)
      binders.push_back(*binder);
  }
  return !failed;
}

void Definitions::define(const Stmt &s, Frame &frame) {
  const Tree &right = *s.exprs[0];
  const syntax::Target &first = s.targets[0];
  for (const syntax::Target &other : s.targets) {
    bool alike = other.places.size() == first.places.size();
    for (size_t i = 0; alike && i < first.places.size(); ++i)
      alike = text(other.places[i].span) == text(first.places[i].span);
    if (!alike) {
      report(Code::E075, other.span,
             {"`" + text(other.span) + "` and `" + text(first.span) + "` are defined at once, but by different indices",
              "give both the same indices, or write one definition for each"});
      for (const syntax::Target &target : s.targets)
        scopes_.put(target.name, {}, frame, false);
      return;
    }
  }
  auto evaluated = std::move(frame.evaluated);
  frame.evaluated.clear();
  Slot slot;
  std::vector<Binder> binders;
  std::vector<int> variables;
  std::vector<const Expr *> values;
  steps_.forget_reduction();
  std::string defining = std::exchange(frame.defining, first.name.text);
  if (slot_of(first, right, frame, slot, binders)) {
    bool outer = std::exchange(frame.per_element, true);
    Entity value = expressions_.eval(right, frame);
    std::vector<Entity> items = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
    if (value.kind == Entity::error) {
      // has been reported
    } else if (items.size() != s.targets.size()) {
      report(Code::E033, s.span, {count_of(s.targets.size(), "name"), count_of(items.size(), "value")});
    } else {
      for (const Entity &item : items)
        values.push_back(expressions_.as_scalar(item, right));
    }
    frame.per_element = outer;
  } else {
    std::set<std::string> bound;
    for (const Place &place : first.places)
      if (place.kind == Place::value)
        mentions(*place.expr, [&](const std::string &name, Span) { bound.insert(name); });
      else
        bind_names(place, bound);
    expressions_.check_names(right, bound, frame);
  }
  frame.defining = defining;
  for (const Binder &binder : binders) {
    ranges_.release(binder, frame);
    variables.insert(variables.end(), binder.variables.begin(), binder.variables.end());
  }
  frame.evaluated = std::move(evaluated);
  for (size_t i = 0; i < s.targets.size(); ++i) {
    const syntax::Target &target = s.targets[i];
    const Expr *value = i < values.size() ? values[i] : nullptr;
    put_defined(target, value ? steps_.stage(frame.path + target.name.text, variables, value, target.span) : nullptr,
                slot, frame);
  }
}

void Definitions::put_defined(const syntax::Target &target, const Tensor *tensor, const Slot &slot, Frame &frame) {
  bool part = slot.loop_axis >= 0;
  for (const auto &place : slot.places)
    part |= place.has_value();
  if (part && !tensor) { // after the loop the name stands for what failed
    bool looping = false;
    for (Scope &scope : frame.scopes)
      if (scope.loop) {
        scope.collected.emplace(target.name.text, Entity{});
        looping = true;
      }
    if (!looping)
      scopes_.put(target.name, {}, frame, false);
    return;
  }
  if (!part)
    return scopes_.put(target.name, tensor ? entity(tensor, steps_.shape_of(tensor)) : Entity{}, frame, false);

  auto refuse = [&](const std::string &why, const char *cure) {
    report(Code::E075, target.span, {"`" + text(target.span) + "` " + why, cure});
    for (Scope &scope : frame.scopes)
      if (scope.loop)
        scope.collected.emplace(target.name.text, Entity{});
  };
  // The loop that gives the place, and what stands between it and the definition.
  Scope *home = slot.slices;
  for (Scope &candidate : frame.scopes)
    if (slot.loop_axis >= 0 && candidate.run_time && candidate.depth == slot.loop_depth)
      home = &candidate;
  bool in_arm = false, in_loop = false;
  for (size_t k = frame.scopes.size(); k-- > 0 && (home ? &frame.scopes[k] != home : !frame.scopes[k].loop);) {
    in_arm |= frame.scopes[k].arm;
    in_loop |= frame.scopes[k].run_time != nullptr;
  }
  if (in_loop)
    return refuse("is one slice of a tensor, in a loop inside of the one that gives its place",
                  "define the slice behind the inner loop, from what that carries");
  if (in_arm)
    return refuse("is one slice of a tensor, in an `if` that is decided at run time",
                  "define the slice once, with `if … then … else …` on the right side");
  std::vector<Extent> shape = steps_.shape_of(tensor);
  if (slot.loop_axis >= 0) {
    if (!home || shape.size() + 1 != slot.places.size())
      return refuse("has several places that loops give", "build one dimension per loop");
    std::vector<Size> whole = tensor->shape;
    whole.insert(whole.begin() + slot.loop_axis, indices_.loops()[slot.loop_depth].extent);
    shape.insert(shape.begin() + slot.loop_axis, Extent{indices_.loops()[slot.loop_depth].extent, ""});
    const Tensor *all =
        steps_.new_tensor(Tensor::stage, frame.path + target.name.text, tensor->type, whole, target.span);
    if (!home->collected.emplace(target.name.text, entity(all, shape)).second) {
      report(Code::E034, target.span, {target.name.text});
      return;
    }
    home->run_time->collected.push_back({all, tensor, slot.loop_axis});
    return;
  }
  if (!slot.slices) {
    scopes_.put(target.name, {}, frame, false);
    return refuse("is one place, and no loop gives the others", "define the tensor over all its places, with `if`");
  }
  auto &list = slot.slices->slices[target.name.text];
  if (!slot.slices->sliced.emplace(target.name.text, slot.places).second)
    report(Code::E034, target.span, {target.name.text});
  else
    list.push_back({slot.places, tensor, shape});
}

} // namespace heddle::checking
