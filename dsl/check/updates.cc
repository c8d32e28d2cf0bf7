// Updates of state: `k[l, h, seen + t] <- new[h, t]`. Each place is an index, a number, or an index plus a number; it
// is proven inside the state from the entry's requirements; no place is updated twice, by two updates or two
// iterations.
#include "dsl/check/updates.h"
#include "dsl/check/conversions.h"
#include "dsl/check/exact.h"
#include "dsl/check/expressions.h"
#include "dsl/check/mentioned_names.h"
#include "dsl/check/params.h"
#include "dsl/check/ranges.h"

#include <algorithm>
#include <utility>

namespace heddle::checking {

using syntax::Place;

namespace {

bool has_index(const Expr *e, int variable) {
  return (e->op == Expr::index && e->position == variable) ||
         std::any_of(e->args.begin(), e->args.end(), [=](const Expr *arg) { return has_index(arg, variable); });
}

/// Whether `e` reads what differs from iteration to iteration although no index says so.
bool reads_computed(const Expr *e) {
  bool own = e->op == Expr::read && (e->tensor->kind == Tensor::stage || e->tensor->kind == Tensor::carried);
  return own || std::any_of(e->args.begin(), e->args.end(), reads_computed);
}

/// `e` without the index that it adds, or null where it does something else with it.
const Expr *without(const Expr *e, int variable, Builder &build) {
  if (e->op == Expr::index && e->position == variable)
    return build.integer(0);
  if (e->op != Expr::add && e->op != Expr::sub)
    return nullptr;
  bool left = has_index(e->args[0], variable), right = has_index(e->args[1], variable);
  if (left == right || (right && e->op == Expr::sub))
    return nullptr;
  const Expr *inner = without(e->args[left ? 0 : 1], variable, build);
  if (!inner)
    return nullptr;
  return build.apply(e->op, Type::i32, {left ? inner : e->args[0], left ? e->args[1] : inner}, e->span);
}

} // namespace

bool Updates::inside(const Place &place, const Entity &state, size_t axis, const Expr *at, const std::string &index) {
  std::string name = state.read->name, subscript = text(place.kind == Place::range ? place.name.span : place.span);
  const Expr *last = build_.of_size(state.shape[axis].size - Size(1));
  const Expr *room = build_.apply(Expr::sub, Type::i32, {last, at}, place.span);
  for (const Expr *goal : {at, room}) {
    bool below = goal != room;
    Prover::Outcome outcome = goal ? knowledge_.prove_always(goal) : Prover::Outcome{Prover::Outcome::unknown, {}, 0};
    if (outcome.kind == Prover::Outcome::proven)
      continue;
    Miss there = knowledge_.miss(state.shape[axis], outcome, below);
    std::string guard = below ? "0 <= " + subscript : subscript + " < " + there.end;
    bool indexed = !variables_of(at).empty();
    if (outcome.kind == Prover::Outcome::unknown) {
      report(Code::E022, place.span, {subscript, name, ""}).help = "test it before the update, with `require`";
      return false;
    }
    Diagnostic &d = report(Code::E072, place.span, {name, there.row, there.when, there.rows, guard});
    if (indexed) { // `seen + t` with t in T asks for 0 <= seen and seen + T <= P
      std::string from = subscript == index                   ? "0"
                         : subscript.ends_with(" + " + index) ? subscript.substr(0, subscript.size() - index.size() - 3)
                         : subscript.starts_with(index + " + ") ? subscript.substr(index.size() + 3)
                                                                : "";
      std::string end = (from == "0" ? "" : from + " + ") + text(indices_[*variables_of(at).begin()].extent);
      d.help = from.empty() ? "test it before, with `require`"
                            : "test it before: `require " + (from == "0" ? "" : "0 <= " + from + " and ") + end +
                                  " <= " + there.end + "`";
    }
    if (outcome.example.empty())
      d.help = "the state has no such place";
    knowledge_.label_range(d, at, knowledge_.required());
    return false;
  }
  return true;
}

bool Updates::place_of(const syntax::Target &target, const Entity &state, const Tree &right, Frame &frame,
                       std::vector<Update::Along> &place, std::vector<Binder> &binders) {
  struct Plan {
    const Place *place;
    std::string index; // empty: one place
    bool shifted = false;
    std::optional<Extent> range;
    size_t axis;
  };
  std::vector<Plan> plans;
  size_t rank = state.read->shape.size(), axis = 0;
  size_t packs =
      std::count_if(target.places.begin(), target.places.end(), [](const Place &p) { return p.kind == Place::pack; });
  if (packs > 1 || (packs ? target.places.size() > rank + 1 : target.places.size() != rank)) {
    report(Code::E025, target.span, {target.name.text, text(state.shape), count_of(target.places.size(), "subscript")});
    return false;
  }
  // What an index ranges over may depend on the right side only, so nothing is bound before all are known.
  for (const Place &p : target.places) {
    Plan plan{&p, "", false, std::nullopt, axis};
    axis += p.kind == Place::pack ? rank + 1 - target.places.size() : 1;
    if (p.kind == Place::range) {
      plan.index = p.name.text;
      plan.range = ranges_.range_of(p, frame);
      if (!plan.range)
        return false;
    } else if (p.kind == Place::value && p.expr->kind == Tree::name) {
      auto known = find(p.expr->text, frame);
      bool number = known && ((known->kind == Entity::scalar && is_integer(known->value->type)) ||
                              (known->kind == Entity::tensor && known->read->shape.empty()));
      if (!number) {
        plan.index = p.expr->text;
        plan.range = state.shape[plan.axis];
      }
    } else if (p.kind == Place::value) {
      std::vector<syntax::Name> unknown;
      mentions(*p.expr, [&](const std::string &name, Span span) {
        bool seen = std::any_of(unknown.begin(), unknown.end(), [&](const auto &u) { return u.text == name; });
        if (!seen && !find(name, frame))
          unknown.push_back({name, span});
      });
      if (unknown.size() > 1) {
        report(Code::E073, p.span, {text(p.span)});
        return false;
      }
      if (!unknown.empty()) {
        auto range = ranges_.inferred(unknown[0], false, {&right}, frame);
        if (!range)
          return false;
        plan.index = unknown[0].text;
        plan.shifted = true;
        plan.range = (*range)[0];
      }
    }
    plans.push_back(plan);
  }
  for (const Plan &plan : plans) {
    bool pack = plan.place->kind == Place::pack;
    if (plan.index.empty() && !pack)
      continue;
    std::vector<Extent> extents;
    if (pack)
      extents.assign(state.shape.begin() + plan.axis, state.shape.begin() + plan.axis + rank + 1 - plans.size());
    else
      extents = {*plan.range};
    Span span = plan.place->kind == Place::value ? plan.place->span : plan.place->name.span;
    auto binder = ranges_.bind_index({pack ? plan.place->name.text : plan.index, span}, pack, extents, frame);
    if (!binder || !ranges_.bind_pieces(*plan.place, *binder, frame))
      return false;
    binders.push_back(*binder);
  }
  size_t next = 0;
  for (const Plan &plan : plans) {
    bool pack = plan.place->kind == Place::pack;
    if (!plan.index.empty() || pack) {
      const Binder &binder = binders[next++];
      const Expr *offset = build_.integer(0);
      if (plan.shifted) {
        bool outer = std::exchange(frame.per_element, true);
        const Expr *at = expressions_.scalar(*plan.place->expr, frame);
        frame.per_element = outer;
        if (!at || !inside(*plan.place, state, plan.axis, at, plan.index))
          return false;
        offset = without(at, binder.variables[0], build_);
      } else if (!pack && plan.range->size != state.shape[plan.axis].size &&
                 !inside(*plan.place, state, plan.axis, build_.index(binder.variables[0]), plan.index)) {
        return false;
      }
      if (!offset) {
        report(Code::E073, plan.place->span, {text(plan.place->span)});
        return false;
      }
      for (int variable : binder.variables)
        place.push_back({offset, indices_[variable].extent, true});
      continue;
    }
    bool outer = std::exchange(frame.per_element, true);
    const Expr *at = expressions_.scalar(*plan.place->expr, frame);
    frame.per_element = outer;
    if (!at)
      return false;
    if (!is_integer(at->type)) {
      report(Code::E031, plan.place->span, {text(plan.place->span), type_name(at->type), "a whole number"});
      return false;
    }
    if (!inside(*plan.place, state, plan.axis, build_.convert(at, Type::i32), ""))
      return false;
    place.push_back({build_.convert(at, Type::i32), Size(1), false});
  }
  return true;
}

void Updates::run(const syntax::Stmt &s, Frame &frame) {
  const syntax::Target &target = s.targets[0];
  auto found = find(target.name.text, frame);
  bool has_places = target.has_places;
  if (found && found->kind == Entity::family) {
    std::vector<Place> none;
    found = params_.of_param(*found, target.name, has_places ? target.places : none, target.span, frame);
    if (!found)
      return;
    has_places = false;
  }
  if (found && found->kind == Entity::tensor && declared_.weights.count(found->read) &&
      !params_.become_state(target, found->read))
    return;
  if (!found || found->kind != Entity::tensor || found->read->kind != Tensor::state) {
    if (!found || found->kind != Entity::error)
      report(Code::E052, target.name.span, {target.name.text});
    return;
  }
  const Tensor *state = found->read;
  const Tree &right = *s.exprs[0];
  frame.evaluated.clear();
  steps_.forget_reduction();
  std::vector<Update::Along> place;
  std::vector<int> variables;
  Entity value;
  if (has_places) {
    std::vector<Binder> binders;
    const Expr *element = nullptr;
    if (place_of(target, *found, right, frame, place, binders)) {
      bool outer = std::exchange(frame.per_element, true);
      std::string defining = std::exchange(frame.defining, target.name.text);
      element = expressions_.scalar(right, frame);
      frame.defining = defining;
      frame.per_element = outer;
    }
    for (const Binder &binder : binders) {
      ranges_.release(binder, frame);
      variables.insert(variables.end(), binder.variables.begin(), binder.variables.end());
    }
    if (!element)
      return;
    value = entity(element);
  } else {
    value = expressions_.eval(right, frame);
    if (value.kind == Entity::error || (!value.tensor_like() && !expressions_.as_scalar(value, right)))
      return;
    std::vector<Extent> shape = value.kind == Entity::scalar ? std::vector<Extent>{} : value.extents();
    bool fits = shape.size() == state->shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i)
      fits = shape[i].size == state->shape[i];
    if (!fits) {
      report(Code::E053, target.span, {target.name.text, text(found->shape), text(shape)});
      return;
    }
    if (value.kind == Entity::tensor) { // the new value is a stage's own, never an input, a weight or a state
      for (const Extent &extent : shape)
        variables.push_back(indices_.new_variable("i" + std::to_string(variables.size()), extent));
      value = entity(steps_.element(value, variables, target.span));
    } else if (value.kind == Entity::lazy) {
      variables = value.formula->variables;
      value = entity(value.formula->value);
    }
  }
  auto same = conversions_.converted(value, state->type, text(right.span), right.span);
  if (!same || !check_range(*same, state, right.span))
    return;
  bool exact = variables.empty() && is_whole(*same->value) && knowledge_.facts().empty();
  if (auto below = knowledge_.bound_of(state); below && !knowledge_.stays_below(same->value, *below, exact)) {
    const Expr *last = build_.of_size(below->below - Size(1)); // what is proven need not hold in 32 bits
    same->value = build_.apply(Expr::minimum, Type::i32, {same->value, last}, target.span);
    same->value = build_.apply(Expr::maximum, Type::i32, {same->value, build_.integer(0)}, target.span);
  }
  bool all = std::all_of(place.begin(), place.end(), [&](const Update::Along &along) {
    return along.in_value && along.extent == state->shape[&along - place.data()] && whole_constant(along.offset) == 0;
  });
  if (all)
    place.clear();
  // In an arm of an `if` that is decided at run time, what was there stays where the condition does not hold.
  std::vector<Written::Arm> arms = other_arms(state, place, variables);
  arms.push_back({knowledge_.facts(), same->value, variables});
  same->value = chosen(arms, 0, [&] {
    std::vector<const Expr *> at;
    size_t next = 0;
    for (size_t axis = 0; axis < state->shape.size(); ++axis) {
      bool indexed = place.empty() || place[axis].in_value;
      const Expr *offset = place.empty() ? build_.integer(0) : place[axis].offset;
      at.push_back(indexed ? build_.apply(Expr::add, Type::i32, {build_.index(variables[next++]), offset}, s.span)
                           : offset);
    }
    return build_.read(state, at, true, s.span);
  });
  if (const Tensor *tensor = steps_.stage(frame.path + target.name.text + ".new", variables, same->value, target.span))
    write(target, {{state, tensor, std::move(place), s.span}, indices_.loops(), std::move(arms)});
}

// --- arms of one `if`

namespace {

/// Whether two expressions without indices are the same formula.
bool same_formula(const Expr *a, const Expr *b) {
  if (a == b)
    return true;
  bool same = a->op == b->op && a->type == b->type && a->number == b->number && a->whole == b->whole &&
              a->position == b->position && a->tensor == b->tensor && a->extent == b->extent &&
              a->args.size() == b->args.size();
  for (size_t i = 0; same && i < a->args.size(); ++i)
    same = same_formula(a->args[i], b->args[i]);
  return same;
}

bool same_places(const std::vector<Update::Along> &a, const std::vector<Update::Along> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Update::Along &x, const Update::Along &y) {
    return x.in_value == y.in_value && x.extent == y.extent && same_formula(x.offset, y.offset);
  });
}

bool exclude_each_other(const std::vector<Fact> &a, const std::vector<Fact> &b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i].condition == b[i].condition; ++i)
    if (a[i].holds != b[i].holds)
      return true;
  return false;
}

} // namespace

std::vector<Updates::Written::Arm> Updates::other_arms(const Tensor *state, const std::vector<Update::Along> &place,
                                                       const std::vector<int> &variables) {
  auto same_loop = [](const LoopIndex &a, const LoopIndex &b) { return a.id == b.id; };
  for (size_t i = 0; i < written_.size(); ++i) {
    const Written &other = written_[i];
    bool joins =
        other.update.state == state && same_places(other.update.place, place) &&
        std::equal(other.loops.begin(), other.loops.end(), indices_.loops().begin(), indices_.loops().end(), same_loop);
    for (const Written::Arm &arm : other.arms)
      joins &= exclude_each_other(arm.when, knowledge_.facts());
    if (!joins || !steps_.remove_update(other.update.value))
      continue;
    std::vector<Written::Arm> arms = other.arms;
    for (Written::Arm &arm : arms) {
      std::map<int, const Expr *> as;
      for (size_t v = 0; v < variables.size(); ++v)
        as[arm.variables[v]] = build_.index(variables[v]);
      arm.value = indices_.rewrite(arm.value, as);
      arm.variables = variables;
    }
    written_.erase(written_.begin() + i);
    return arms;
  }
  return {};
}

const Expr *Updates::chosen(const std::vector<Written::Arm> &arms, size_t known,
                            const std::function<const Expr *()> &old) {
  if (arms.empty())
    return old();
  if (arms[0].when.size() == known)
    return arms[0].value;
  std::vector<Written::Arm> sides[2];
  for (const Written::Arm &arm : arms)
    sides[arm.when[known].holds].push_back(arm);
  return build_.select(arms[0].when[known].condition, chosen(sides[1], known + 1, old),
                       chosen(sides[0], known + 1, old));
}

bool Updates::check_range(const Entity &value, const Tensor *state, Span span) {
  auto below = knowledge_.bound_of(state);
  if (!below)
    return true;
  const Size &range = below->below;
  if (knowledge_.proven_below(value.value, *below))
    return true;
  report(Code::E060, span, {text(span), text(range), text(range)}).help =
      "bound it (`min`, `max`, `if`), or test it before: `require`";
  return false;
}

// --- no place is written twice

const Expr *Updates::with_loops(const Expr *e, const std::vector<const Expr *> &iterations) {
  return build_.rewritten(e, [&](const Expr *node, const Expr *) {
    return node->op == Expr::loop_index ? iterations[node->position] : nullptr;
  });
}

bool Updates::disjoint(const Written &a, const Written &b) {
  if (a.update.place.empty() || b.update.place.empty())
    return false;
  auto iteration = [&](const LoopIndex &loop) {
    return build_.index(indices_.new_variable(loop.name, {loop.extent, ""}));
  };
  // Whether nothing is written twice when the loops of `a` and `b` stand at these iterations.
  auto apart = [&](const std::vector<const Expr *> &of_a, const std::vector<const Expr *> &of_b,
                   const std::vector<Fact> &order) {
    std::vector<std::pair<const Expr *, const Expr *>> meet; // both not negative: the ranges along an axis meet
    for (size_t axis = 0; axis < a.update.place.size(); ++axis) {
      const Update::Along &x = a.update.place[axis], &y = b.update.place[axis];
      if (reads_computed(x.offset) || reads_computed(y.offset))
        continue;
      const Expr *from = with_loops(x.offset, of_a), *to = with_loops(y.offset, of_b);
      auto room = [&](const Expr *first, const Size &extent, const Expr *second) -> const Expr * {
        const Expr *gap = build_.apply(Expr::sub, Type::i32, {first, second}, {});
        return gap ? build_.apply(Expr::add, Type::i32, {gap, build_.of_size(extent - Size(1))}, {}) : nullptr;
      };
      const Expr *one = room(from, x.extent, to), *two = room(to, y.extent, from);
      if (one && two)
        meet.emplace_back(one, two);
    }
    std::vector<Fact> facts = order;
    const Expr *zero = build_.integer(0);
    for (const auto &[one, two] : meet)
      for (const Expr *side : {one, two})
        if (const Expr *fact = build_.apply(Expr::less_equal, Type::boolean, {zero, side}, {}))
          facts.push_back({fact, true});
    // Under these facts one of them must be false.
    for (const auto &[one, two] : meet)
      for (const Expr *side : {one, two}) {
        const Expr *below = build_.apply(Expr::sub, Type::i32, {build_.integer(-1), side}, {});
        if (below && knowledge_.prove_always(below, facts).kind == Prover::Outcome::proven)
          return true;
      }
    return false;
  };
  std::vector<const Expr *> of_a, of_b;
  if (&a != &b) {
    for (const LoopIndex &loop : a.loops)
      of_a.push_back(iteration(loop));
    for (const LoopIndex &loop : b.loops)
      of_b.push_back(iteration(loop));
    return apart(of_a, of_b, {});
  }
  for (size_t first = 0; first < a.loops.size(); ++first) { // the outermost loop in which the iterations differ
    of_a.clear();
    of_b.clear();
    std::vector<Fact> order;
    for (size_t depth = 0; depth < a.loops.size(); ++depth) {
      of_a.push_back(iteration(a.loops[depth]));
      of_b.push_back(depth < first ? of_a.back() : iteration(a.loops[depth]));
      if (depth == first)
        order.push_back({build_.apply(Expr::less, Type::boolean, {of_a.back(), of_b.back()}, {}), true});
    }
    if (!apart(of_a, of_b, order))
      return false;
  }
  return true;
}

bool Updates::write(const syntax::Target &target, Written own) {
  if (!own.loops.empty() && !disjoint(own, own)) {
    Diagnostic &d = report(Code::E067, target.span, {target.name.text});
    d.help = "each iteration must update another place: use `" + indices_.loops().back().name +
             "` in it, or carry the value and update after";
    d.label = "in every iteration of the loop";
    return false;
  }
  for (const Written &other : written_)
    if (other.update.state == own.update.state && !disjoint(other, own)) {
      Diagnostic &d = report(Code::E067, target.span, {target.name.text});
      if (!knowledge_.facts().empty())
        d.help = "the arms of an `if` update the same places, or places that never meet";
      return false;
    }
  Update out = own.update;
  for (Update::Along &along : out.place) {
    steps_.keep_exact(along.offset, target.name.text + ".", target.span);
    along.offset = steps_.kept(along.offset);
  }
  written_.push_back(std::move(own));
  steps_.add({std::move(out)});
  return true;
}

} // namespace heddle::checking
