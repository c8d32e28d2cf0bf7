// The way back through a loop is a loop over the same iterations, the last one first, that carries the adjoints of what
// the loop carries. What it reads of the iterations the forward loop keeps. The adjoint of what the body reads from
// outside is one sum over all iterations behind the loop, in which a product over the rows of an iteration becomes one
// over all rows.
#include "dsl/differentiate/backward.h"

#include "dsl/differentiate/derivative.h"

#include <algorithm>

namespace heddle::differentiating {

struct Backward::Body {
  Loop &loop;
  std::set<const Tensor *> own;                  // made in the body, or carried
  std::map<const Tensor *, const Tensor *> kept; // by what is kept of each iteration: all iterations
  std::map<const Tensor *, const Tensor *> of;   // the other way round
};

bool Backward::touches(const Loop &loop) const {
  auto has = [&](const Tensor *t) { return is_active(t) && adjoints_.has(t); };
  return std::any_of(loop.carried.begin(), loop.carried.end(), [&](const auto &c) { return has(c.carried); }) ||
         std::any_of(loop.collected.begin(), loop.collected.end(), [&](const auto &c) { return has(c.whole); });
}

bool Backward::may_differentiate(const Loop &loop) {
  std::set<const Tensor *> own;
  for (const Step &step : loop.steps) {
    if (auto *inner = std::get_if<Loop>(&step.what)) {
      refuse(inner->span, "it passes a loop within a loop, both over sizes of the call");
      return false;
    }
    auto *stage = std::get_if<Stage>(&step.what);
    if (!stage)
      continue;
    own.insert(stage->result);
    for (Term node : nodes_of(stage->value))
      for (const Loop::Collected &c : loop.collected)
        if (node->op == Expr::read && node->tensor == c.whole) {
          refuse(stage->span, "an iteration reads what earlier iterations have defined of `" + c.whole->name +
                                  "`; carry it from iteration to iteration");
          return false;
        }
  }
  for (const Loop::Carried &c : loop.carried)
    if (is_active(c.next) && !own.count(c.next) &&
        std::none_of(loop.carried.begin(), loop.carried.end(), [&](const auto &o) { return o.carried == c.next; })) {
      refuse(loop.span, "`" + c.carried->name + "` takes a value from outside of its loop");
      return false;
    }
  return true;
}

const Tensor *Backward::kept(const Tensor *t, Body &body) {
  if (auto known = body.kept.find(t); known != body.kept.end())
    return known->second;
  const Tensor *slice = t;
  if (t->kind == Tensor::carried) { // what it is when the iteration begins
    Stage copy{};
    std::vector<const Expr *> at;
    for (const Size &extent : t->shape) {
      Expr index{};
      index.op = Expr::index;
      index.type = Type::i32;
      index.position = int(copy.space.size());
      at.push_back(&program_.exprs.emplace_back(std::move(index)));
      copy.space.push_back({"i" + std::to_string(copy.space.size()), extent});
    }
    Expr read{};
    read.op = Expr::read;
    read.type = t->type;
    read.tensor = t;
    read.args = std::move(at);
    copy.value = &program_.exprs.emplace_back(std::move(read));
    copy.span = t->span;
    slice = copy.result = adjoints_.new_tensor(Tensor::stage, t->name + ".before", t->type, t->shape, t->span);
    body.loop.steps.insert(body.loop.steps.begin(), Step{std::move(copy)});
  }
  std::vector<Size> shape{body.loop.index.extent};
  shape.insert(shape.end(), t->shape.begin(), t->shape.end());
  const Tensor *whole =
      adjoints_.new_tensor(Tensor::stage, t->name + ".iterations", t->type, std::move(shape), t->span);
  body.loop.collected.push_back({whole, slice, 0});
  if (whole_.nonnegative_tensors.count(t))
    whole_.nonnegative_tensors.insert(whole);
  body.of[whole] = t;
  return body.kept[t] = whole;
}

Term Backward::lifted(Term e, Body &body, Term iteration) {
  return terms_.rewrite(e, [&](Term node) -> Term {
    if (node->op == Expr::loop_index)
      return iteration;
    if (node->op != Expr::read || !body.own.count(node->tensor))
      return nullptr;
    Expr read = *node;
    read.args = {iteration};
    for (Term arg : node->args)
      read.args.push_back(lifted(arg, body, iteration));
    read.tensor = kept(node->tensor, body);
    return terms_.node(std::move(read));
  });
}

void Backward::loop(Loop &loop) {
  if (!touches(loop) || !may_differentiate(loop))
    return;
  const Size iterations = loop.index.extent;
  Body body{loop, {}, {}, {}};
  for (const Step &step : loop.steps)
    if (auto *stage = std::get_if<Stage>(&step.what))
      body.own.insert(stage->result);
  for (const Loop::Carried &c : loop.carried)
    body.own.insert(c.carried);
  for (const Loop::Collected &c : loop.collected)
    if (c.axis == 0 && !body.kept.count(c.slice)) {
      body.kept[c.slice] = c.whole;
      body.of[c.whole] = c.slice;
    }
  const std::vector<Step> steps = loop.steps; // without what `kept` puts in
  Stage by{};
  by.span = loop.span;

  Loop back;
  back.index = {loop.index.name, iterations};
  back.span = loop.span;
  Term iteration = whole_.term(plus(whole_.of(iterations - Size(1)), whole_.of(terms_.iteration(0)), -1));
  struct Carry {
    Loop::Carried forward;
    const Tensor *adjoint, *last;
  };
  std::vector<Carry> carries;
  for (const Loop::Carried &c : loop.carried) {
    if (!is_active(c.carried))
      continue;
    std::vector<int> places;
    Term last = adjoints_.total(c.carried, places);
    const Tensor *start = adjoints_.emit(c.carried->name + ".last.grad", places, Reducer::none, {}, last, by);
    const Tensor *own = adjoints_.new_tensor(Tensor::carried, c.carried->name + ".grad", c.carried->type,
                                             c.carried->shape, c.carried->span);
    carries.push_back({c, own, start});
    adjoints_.forget(c.carried);
  }
  auto add_read = [&](const Tensor *to, const Tensor *from, int axis) {
    std::vector<int> places = adjoints_.indices_for(to);
    std::vector<Term> at = adjoints_.as_terms(places);
    if (axis >= 0)
      at.insert(at.begin() + axis, iteration);
    adjoints_.add(to, places, terms_.read(from, at, true));
  };
  std::vector<std::tuple<const Tensor *, const Tensor *, int>> slices;
  for (const Loop::Collected &c : std::vector<Loop::Collected>(loop.collected))
    if (is_active(c.whole) && adjoints_.has(c.whole))
      slices.emplace_back(c.slice, adjoints_.materialise(c.whole, c.whole->name + ".grad", by), c.axis);
  for (const Carry &carry : carries)
    add_read(carry.forward.next, carry.adjoint, -1);
  for (auto [slice, adjoint, axis] : slices)
    add_read(slice, adjoint, axis);

  // In the loop: what an iteration hands to its own tensors.
  std::vector<std::pair<const Stage *, const Tensor *>> outward; // stages that read what is outside; their adjoints
  auto own_target = [&](const Tensor *t) {
    auto found = body.of.find(t);
    return found != body.of.end() && is_active(found->second) ? Target{found->second, 1} : Target{};
  };
  auto outside_target = [&](const Tensor *t) { return Target{!body.of.count(t) && is_active(t) ? t : nullptr}; };
  std::vector<Step> &outer = *adjoints_.steps;
  adjoints_.enter(back.steps, iterations);
  auto adjoint_stage = [&](const Tensor *t, const std::string &suffix, const Stage &of) {
    const Tensor *made = adjoints_.new_tensor(Tensor::stage, t->name + suffix, t->type, t->shape, t->span);
    adjoints_.materialise(t, "", of, made);
    adjoints_.forget(t);
    return made;
  };
  for (size_t i = steps.size(); i-- > 0;) {
    auto *stage = std::get_if<Stage>(&steps[i].what);
    if (!stage || !is_active(stage->result) || !adjoints_.has(stage->result))
      continue;
    const Tensor *adjoint = adjoint_stage(stage->result, ".grad", *stage);
    Placed own = placed(*stage);
    own.value = lifted(own.value, body, iteration);
    own.result = lifted(own.result, body, iteration);
    own.adjoint = terms_.read(adjoint, adjoints_.as_terms(own.space), true);
    hand_on(own, own_target);
    if (depends(own.value, [&](const Tensor *t) { return outside_target(t).tensor != nullptr; }))
      outward.emplace_back(stage, adjoint);
  }
  for (const Carry &carry : carries)
    back.carried.push_back({carry.adjoint, carry.last, adjoint_stage(carry.forward.carried, ".next.grad", by)});
  adjoints_.leave(outer);

  // Behind it: what all iterations hand to others.
  std::vector<const Tensor *> turned;
  for (auto [stage, adjoint] : outward) {
    std::vector<Size> shape{iterations};
    shape.insert(shape.end(), adjoint->shape.begin(), adjoint->shape.end());
    turned.push_back(adjoints_.new_tensor(Tensor::stage, adjoint->name + ".turned", adjoint->type, shape, stage->span));
    back.collected.push_back({turned.back(), adjoint, 0});
  }
  outer.push_back({std::move(back)});
  for (const Carry &carry : carries)
    add_read(carry.forward.start, carry.adjoint, -1);
  for (size_t i = 0; i < outward.size(); ++i) {
    const Stage &stage = *outward[i].first;
    Placed own = placed(stage);
    int t = terms_.new_variable(loop.index.name, iterations);
    own.space.insert(own.space.begin(), t);
    std::vector<Term> at = adjoints_.as_terms(own.space), from = at;
    from[0] = whole_.term(plus(whole_.of(iterations - Size(1)), whole_.of(at[0]), -1));
    const Tensor *adjoint = adjoints_.emit(outward[i].second->name + ".iterations", own.space, Reducer::none, {},
                                           terms_.read(turned[i], from, true), stage);
    own.value = lifted(own.value, body, at[0]);
    own.result = lifted(own.result, body, at[0]);
    own.adjoint = terms_.read(adjoint, at, true);
    hand_on(own, outside_target);
  }
}

} // namespace heddle::differentiating
