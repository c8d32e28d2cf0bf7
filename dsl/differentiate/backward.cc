#include "dsl/differentiate/backward.h"

#include "dsl/differentiate/derivative.h"
#include "dsl/differentiate/swap_sums.h"

#include <algorithm>

namespace heddle::differentiating {

void Backward::refuse(Span span, const std::string &reason) {
  if (!refused_)
    refused_ = {span, reason};
}

/// A tensor varies with what is asked for where a tensor does that its stage reads.
void Backward::mark(const std::vector<Step> &steps) {
  auto active = [this](const Tensor *t) { return is_active(t); };
  for (const Step &step : steps) {
    if (auto *stage = std::get_if<Stage>(&step.what)) {
      if (is_floating(stage->result->type) && depends(stage->value, active))
        active_.insert(stage->result);
    } else if (auto *loop = std::get_if<Loop>(&step.what)) {
      for (size_t before = SIZE_MAX; before != active_.size();) {
        before = active_.size();
        for (const Loop::Carried &c : loop->carried)
          if (is_floating(c.carried->type) && (is_active(c.start) || is_active(c.next)))
            active_.insert(c.carried);
        mark(loop->steps);
        for (const Loop::Collected &c : loop->collected)
          if (is_active(c.slice))
            active_.insert(c.whole);
      }
    }
  }
}

Backward::Placed Backward::placed(const Stage &stage) {
  Placed result{stage, {}, {}, nullptr};
  for (const Index &index : stage.space)
    result.space.push_back(terms_.new_variable(index.name, index.extent));
  for (const Index &index : stage.over)
    result.over.push_back(terms_.new_variable(index.name, index.extent));
  std::vector<Term> indices = adjoints_.as_terms(result.space), more = adjoints_.as_terms(result.over);
  result.result = terms_.read(stage.result, indices, true);
  indices.insert(indices.end(), more.begin(), more.end());
  result.value = terms_.import(stage.value, indices);
  return result;
}

void Backward::stage(const Stage &stage) {
  if (!is_active(stage.result) || !adjoints_.has(stage.result))
    return;
  std::vector<int> places;
  Term adjoint = adjoints_.total(stage.result, places);
  bool is_read = adjoint->op == Expr::read && std::all_of(adjoint->args.begin(), adjoint->args.end(), [](Term arg) {
                   return arg->op == Expr::index || arg->op == Expr::integer;
                 });
  if (adjoint->op != Expr::real && !is_read) {
    const Tensor *sum = adjoints_.emit(stage.result->name + ".grad", places, Reducer::none, {}, adjoint, stage);
    adjoint = terms_.read(sum, adjoints_.as_terms(places), true);
  }
  Placed own = placed(stage);
  std::map<int, Term> to;
  for (size_t i = 0; i < places.size(); ++i)
    to[places[i]] = terms_.index(own.space[i]);
  own.adjoint = terms_.substitute(adjoint, to);
  hand_on(own, [this](const Tensor *t) { return Target{is_active(t) ? t : nullptr}; });
}

void Backward::hand_on(const Placed &placed, const std::function<Target(const Tensor *)> &target) {
  const auto &[stage, space, over, value, result, seed] = placed;
  std::vector<Term> at = adjoints_.as_terms(space);
  Term adjoint = seed;
  Term zero = terms_.real(0, adjoint->type), condition = terms_.boolean(true);
  if (stage.reducer == Reducer::max || stage.reducer == Reducer::min) { // to the first place that attains it
    bool most = stage.reducer == Reducer::max;
    // The best of several indices is the best of one that counts them all: argmax is of one.
    std::vector<int> each = over;
    std::map<int, Term> pieces;
    if (over.size() > 1) {
      Size inner(1);
      for (int v : over)
        inner = inner * terms_.variable(v).extent;
      int all = terms_.new_variable("n", inner);
      for (int v : over) {
        Size outer = inner;
        inner = Size(1);
        for (int w : over)
          if (w > v)
            inner = inner * terms_.variable(w).extent;
        Term piece = terms_.index(all);
        if (v != over.front())
          piece = terms_.make(Expr::mod, Type::i32, {piece, terms_.size(outer)});
        pieces[v] = terms_.make(Expr::floor_div, Type::i32, {piece, terms_.size(inner)});
      }
      each = {all};
    }
    const Tensor *best = adjoints_.emit(stage.result->name + ".at", space, most ? Reducer::argmax : Reducer::argmin,
                                        each, terms_.substitute(value, pieces), stage);
    Polynomial place;
    for (int v : over)
      place = plus(times(place, whole_.of(terms_.variable(v).extent)), whole_.of(terms_.index(v)));
    condition = terms_.make(Expr::equal, Type::boolean, {whole_.term(place), terms_.read(best, at, true)});
  } else if (stage.reducer == Reducer::prod) { // times the product of all others
    std::vector<int> inner, all = space;
    std::map<int, Term> to;
    Term same = terms_.boolean(true);
    for (int v : over) {
      inner.push_back(terms_.new_variable(terms_.variable(v).name, terms_.variable(v).extent));
      to[v] = terms_.index(inner.back());
      same = terms_.both(same, terms_.make(Expr::equal, Type::boolean, {to[v], terms_.index(v)}));
      all.push_back(v);
    }
    Term other =
        terms_.make(Expr::select, value->type, {same, terms_.real(1, value->type), terms_.substitute(value, to)});
    const Tensor *others = adjoints_.emit(stage.result->name + ".others", all, Reducer::prod, inner, other, stage);
    adjoint = terms_.mul(adjoint, terms_.read(others, adjoints_.as_terms(all), true));
  }
  std::vector<int> variables = space;
  variables.insert(variables.end(), over.begin(), over.end());
  for (auto [read, d] :
       derivative(terms_, value, adjoint, [&](const Tensor *t) { return target(t).tensor != nullptr; })) {
    if (stage.reducer == Reducer::none && value->op != Expr::real && value->op != Expr::read) // it is there already
      d = terms_.rewrite(d, [value = value, result = result](Term node) { return node == value ? result : nullptr; });
    Target to = target(read->tensor);
    std::vector<Term> places(read->args.begin() + to.skip, read->args.end());
    adjoints_.add_sum(to.tensor, places, terms_.select(condition, d, zero), variables, stage);
  }
}

std::optional<NoGradient> Backward::run(const Tensor *loss, const std::vector<Gradient> &gradients,
                                        std::vector<const Tensor *> &unrelated) {
  for (const Gradient &one : gradients)
    active_.insert(one.of);
  mark(forward_);
  for (const Entry &entry : program_.entries)
    for (const Input &input : entry.inputs)
      if (input.below)
        whole_.nonnegative_tensors.insert(input.tensor);
  for (const Step &step : forward_)
    if (auto *stage = std::get_if<Stage>(&step.what))
      adjoints_.know(*stage);
  adjoints_.steps = &made_;
  adjoints_.add(loss, {}, terms_.real(1, loss->type));
  for (size_t i = forward_.size(); i-- > 0 && !refused_;)
    if (auto *own = std::get_if<Stage>(&forward_[i].what))
      stage(*own);
    else if (auto *inner = std::get_if<Loop>(&forward_[i].what))
      loop(*inner);
  if (refused_)
    return refused_;
  Stage by{};
  by.span = loss->span;
  for (const Gradient &one : gradients) {
    by.span = one.result->span;
    if (!adjoints_.has(one.of))
      unrelated.push_back(one.of);
    if (const Tensor *sum = adjoints_.as_tensor(one.of); !sum || !take_over(sum, one.result))
      adjoints_.materialise(one.of, "", by, one.result);
  }
  swap_sums(terms_, forward_, made_);
  finish(made_);
  std::move(made_.begin(), made_.end(), std::back_inserter(forward_));
  return std::nullopt;
}

/// `sum`, which a new stage outside of loops computes, becomes `result`: no copy is made of it.
bool Backward::take_over(const Tensor *sum, const Tensor *result) {
  for (Step &step : made_)
    if (auto *stage = std::get_if<Stage>(&step.what); stage && stage->result == sum && !renamed_.count(sum)) {
      stage->result = renamed_[sum] = result;
      return true;
    }
  return false;
}

/// Copies the values of new steps to where the program keeps its own.
void Backward::finish(std::vector<Step> &steps) {
  std::function<const Expr *(Term)> copied = [&](Term e) -> const Expr * {
    if (auto known = finished_.find(e); known != finished_.end())
      return known->second;
    Expr copy = *e;
    for (const Expr *&arg : copy.args)
      arg = copied(arg);
    if (auto other = renamed_.find(e->tensor); other != renamed_.end())
      copy.tensor = other->second;
    program_.exprs.push_back(std::move(copy));
    return finished_[e] = &program_.exprs.back();
  };
  for (Step &step : steps)
    if (auto *stage = std::get_if<Stage>(&step.what))
      stage->value = copied(stage->value);
    else if (auto *inner = std::get_if<Loop>(&step.what)) {
      for (Loop::Carried &c : inner->carried)
        if (auto other = renamed_.find(c.start); other != renamed_.end())
          c.start = other->second;
      finish(inner->steps);
    }
}

} // namespace heddle::differentiating

namespace heddle {

std::optional<NoGradient> differentiate(Program &program, std::vector<Step> &steps, const Tensor *loss,
                                        const std::vector<Gradient> &gradients,
                                        const std::function<std::string(const std::string &)> &unique,
                                        std::vector<const Tensor *> &unrelated) {
  return differentiating::Backward(program, steps, unique).run(loss, gradients, unrelated);
}

} // namespace heddle
