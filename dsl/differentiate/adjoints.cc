#include "dsl/differentiate/adjoints.h"

#include "dsl/differentiate/fix.h"

#include <algorithm>

namespace heddle::differentiating {

std::string last_part(const std::string &name) { return name.substr(name.rfind('.') + 1); }

void Adjoints::live(const std::vector<int> &a, const std::vector<int> &b) {
  std::vector<int> all = a;
  all.insert(all.end(), b.begin(), b.end());
  whole_.live(all);
}

const Tensor *Adjoints::new_tensor(Tensor::Kind kind, const std::string &name, Type type, std::vector<Size> shape,
                                   Span span) {
  program_.tensors.push_back({kind, unique_(name), type, std::move(shape), span});
  return &program_.tensors.back();
}

std::vector<int> Adjoints::indices_for(const Tensor *t) {
  std::vector<int> places;
  for (const Size &extent : t->shape)
    places.push_back(terms_.new_variable("q" + std::to_string(places.size()), extent));
  return places;
}

std::vector<Term> Adjoints::as_terms(const std::vector<int> &variables) {
  std::vector<Term> list;
  for (int v : variables)
    list.push_back(terms_.index(v));
  return list;
}

void Adjoints::add(const Tensor *t, std::vector<int> places, Term value) {
  if (!is_zero(value))
    contributions_[t].push_back({std::move(places), terms_.convert(value, t->type)});
}

Term Adjoints::total(const Tensor *t, std::vector<int> &places) {
  places = indices_for(t);
  Term sum = terms_.real(0, t->type);
  auto found = contributions_.find(t);
  for (const Contribution &one : found == contributions_.end() ? std::vector<Contribution>{} : found->second) {
    std::map<int, Term> to;
    for (size_t i = 0; i < places.size(); ++i)
      to[one.places[i]] = terms_.index(places[i]);
    sum = terms_.add(sum, terms_.substitute(one.value, to));
  }
  return sum;
}

bool Adjoints::is_inside(const Tensor *t, const std::vector<Term> &at) {
  for (size_t i = 0; i < at.size(); ++i) {
    Polynomial place = whole_.of(at[i]);
    if (!whole_.nonnegative(place) || !whole_.nonnegative(plus(whole_.of(t->shape[i] - Size(1)), place, -1)))
      return false;
  }
  return true;
}

Term Adjoints::read(const Tensor *t, std::vector<Term> at) {
  bool inside = is_inside(t, at);
  return terms_.read(t, std::move(at), inside);
}

Term Adjoints::reproved(Term e) {
  std::unordered_map<Term, Term> done;
  std::function<Term(Term)> go = [&](Term node) -> Term {
    if (auto known = done.find(node); known != done.end())
      return known->second;
    std::vector<Term> args;
    for (Term arg : node->args)
      args.push_back(go(arg));
    Term result = terms_.with_args(node, args);
    if (node->op == Expr::read && node->always_inside && !is_inside(node->tensor, args)) {
      Expr outside = *node;
      outside.args = args;
      outside.always_inside = false;
      result = terms_.node(std::move(outside));
    }
    return done[node] = result;
  };
  return go(e);
}

// ------------------------------------------------------------------------------ stages

namespace {

std::vector<Size> extents(const Terms &terms, const std::vector<int> &variables) {
  std::vector<Size> list;
  for (int v : variables)
    list.push_back(terms.variable(v).extent);
  return list;
}

} // namespace

void Adjoints::know(const Stage &stage) {
  std::vector<Size> space, over;
  std::vector<Term> indices;
  for (const Index &index : stage.space)
    space.push_back(index.extent);
  for (const Index &index : stage.over)
    over.push_back(index.extent);
  for (size_t i = 0; i < space.size() + over.size(); ++i)
    indices.push_back(terms_.index(int(i)));
  known_.try_emplace({space, stage.reducer, over, terms_.import(stage.value, indices)}, stage.result);
}

const Tensor *Adjoints::emit(const std::string &name, const std::vector<int> &space, Reducer reducer,
                             const std::vector<int> &over, Term value, const Stage &by) {
  live(space, over);
  value = whole_.simplified(value);
  std::map<int, Term> positions;
  for (const auto *list : {&space, &over})
    for (int v : *list)
      positions.emplace(v, terms_.index(int(positions.size())));
  // Positions are numbers of variables, too, with other extents: nothing is proven of them.
  Term placed = terms_.substitute(value, positions);
  Key key{extents(terms_, space), reducer, extents(terms_, over), placed};
  for (const auto *known : {&known_, &known_in_loop_})
    if (auto found = known->find(key); found != known->end() && found->second->type == value->type)
      return found->second;
  Stage stage{};
  bool position = reducer == Reducer::argmax || reducer == Reducer::argmin;
  stage.result = new_tensor(Tensor::stage, name, position ? Type::i32 : value->type, std::get<0>(key), by.span);
  for (int v : space)
    stage.space.push_back({terms_.variable(v).name, terms_.variable(v).extent});
  for (int v : over)
    stage.over.push_back({terms_.variable(v).name, terms_.variable(v).extent});
  stage.reducer = reducer;
  stage.value = placed;
  stage.span = by.span;
  stage.calls = by.calls;
  if (position)
    whole_.nonnegative_tensors.insert(stage.result);
  (in_loop_ ? known_in_loop_ : known_)[key] = stage.result;
  steps->push_back({std::move(stage)});
  return std::get<Stage>(steps->back().what).result;
}

const Tensor *Adjoints::as_tensor(const Tensor *t) {
  std::vector<int> places;
  Term value = total(t, places);
  bool is_copy = value->op == Expr::read && value->args == as_terms(places) && value->tensor->type == t->type &&
                 value->tensor->shape == t->shape && value->tensor->kind == Tensor::stage;
  return is_copy ? value->tensor : nullptr;
}

const Tensor *Adjoints::materialise(const Tensor *t, const std::string &name, const Stage &by, const Tensor *result) {
  std::vector<int> places;
  Term value = total(t, places);
  if (!result) {
    const Tensor *known = as_tensor(t);
    return known ? known : emit(name, places, Reducer::none, {}, value, by);
  }
  live(places, {});
  value = whole_.simplified(value);
  std::map<int, Term> positions;
  Stage stage{};
  for (int v : places) {
    positions.emplace(v, terms_.index(int(positions.size())));
    stage.space.push_back({terms_.variable(v).name, terms_.variable(v).extent});
  }
  stage.result = result;
  stage.value = terms_.substitute(value, positions);
  stage.span = by.span;
  stage.calls = by.calls;
  steps->push_back({std::move(stage)});
  return result;
}

void Adjoints::enter(std::vector<Step> &inner, const Size &iterations) {
  steps = &inner;
  in_loop_ = true;
  whole_.in_loops({iterations});
}

void Adjoints::leave(std::vector<Step> &outer) {
  steps = &outer;
  in_loop_ = false;
  known_in_loop_.clear();
  whole_.in_loops({});
}

// ------------------------------------------------------------------------------ sums

Adjoints::Guarded Adjoints::split(Term e) {
  if (e->op == Expr::select && !e->stopped && is_zero(e->args[2]))
    return {terms_.conjuncts(e->args[0]), e->args[1]};
  return {{}, e};
}

void Adjoints::again(Guarded &term, const std::map<int, Term> &to, const std::vector<int> &over,
                     const std::vector<int> &places) {
  for (Term &guard : term.guards)
    guard = terms_.substitute(guard, to);
  live(over, places);
  Term value = terms_.substitute(term.value, to);
  term = split(whole_.simplified(terms_.select(terms_.all(term.guards), value, terms_.real(0, value->type))));
}

bool Adjoints::fix_by_condition(Guarded &term, std::vector<int> &over, const std::vector<int> &places) {
  for (size_t i = 0; i < term.guards.size(); ++i) {
    auto fixed = fixed_by(terms_, whole_, term.guards[i], over);
    if (!fixed)
      continue;
    term.guards.erase(term.guards.begin() + i);
    term.guards.insert(term.guards.end(), fixed->guards.begin(), fixed->guards.end());
    if (fixed->instead)
      std::replace(over.begin(), over.end(), fixed->variable, *fixed->instead);
    else
      std::erase(over, fixed->variable);
    again(term, {{fixed->variable, fixed->value}}, over, places);
    return true;
  }
  return false;
}

bool Adjoints::shorten(Guarded &term, std::vector<int> &over, const std::vector<int> &places) {
  for (size_t i = 0; i < term.guards.size(); ++i) {
    Term guard = term.guards[i];
    bool less = guard->op == Expr::less || guard->op == Expr::less_equal;
    bool more = guard->op == Expr::greater || guard->op == Expr::greater_equal;
    if ((!less && !more) || guard->args[0]->type != Type::i32)
      continue;
    Polynomial p = plus(whole_.of(guard->args[less ? 1 : 0]), whole_.of(guard->args[less ? 0 : 1]), -1); // p >= 0
    if (guard->op == Expr::less || guard->op == Expr::greater)
      p = plus(p, {{{}, -1}});
    for (const auto &[monomial, k] : Polynomial(p)) { // a // c >= m is a >= c m
      Term quotient = monomial.size() == 1 ? whole_.atom(monomial[0]) : nullptr;
      if (!quotient || quotient->op != Expr::floor_div || (k != 1 && k != -1))
        continue;
      auto c = constant_of(whole_.of(quotient->args[1]));
      if (!c || *c <= 0)
        continue;
      Polynomial rest = times(plus(p, {{monomial, k}}, -1), *c), inner = whole_.of(quotient->args[0]);
      p = k == 1 ? plus(inner, rest) : plus(plus(rest, {{{}, *c - 1}}), inner, -1);
      break;
    }
    for (int v : over) {
      auto line = whole_.linear(p, terms_.index(v));
      auto c = constant_of(line.factor);
      auto rest = whole_.size(line.rest);
      if (!c || *c == 0 || !rest || (std::abs(*c) != 1 && !rest->is_constant()))
        continue;
      Size bound = rest->floor_div(std::abs(*c)); // v + bound >= 0, or bound - v >= 0
      const Size &extent = terms_.variable(v).extent;
      Size low = *c > 0 ? bound * -1 : Size(0), high = *c > 0 ? extent : bound + Size(1);
      whole_.live({}); // for any sizes that a call may have
      bool good = whole_.nonnegative(whole_.of(low)) && whole_.nonnegative(whole_.of(extent - high)) &&
                  whole_.nonnegative(whole_.of(high - low));
      if (!good)
        continue;
      int shorter = terms_.new_variable(terms_.variable(v).name, high - low);
      Term value = whole_.term(plus(whole_.of(terms_.index(shorter)), whole_.of(low)));
      if (high - low == Size(1)) {
        value = terms_.size(low);
        std::erase(over, v);
      } else {
        std::replace(over.begin(), over.end(), v, shorter);
      }
      term.guards.erase(term.guards.begin() + i);
      again(term, {{v, value}}, over, places);
      return true;
    }
  }
  return false;
}

/// Where `ids[s] == q` holds, what is asked of ids[s] is asked of q, which is a place of the result: `0 <= q` always
/// holds.
bool Adjoints::use_equalities(Guarded &term, const std::vector<int> &over, const std::vector<int> &places) {
  live(over, places);
  bool any = false;
  for (Term equality : std::vector<Term>(term.guards)) {
    // One that another has rewritten says nothing of the data any more: of `d == p` and `d == q` the second is `p ==
    // q`.
    bool stands = std::find(term.guards.begin(), term.guards.end(), equality) != term.guards.end();
    if (!stands || equality->op != Expr::equal || equality->args[0]->type != Type::i32)
      continue;
    for (int side : {0, 1}) {
      Term data = equality->args[side], place = equality->args[1 - side];
      if (place->op != Expr::index || !terms_.reads(data))
        continue;
      std::vector<Term> guards;
      for (Term guard : term.guards) {
        if (guard != equality)
          guard = whole_.simplified(terms_.rewrite(guard, [&](Term e) { return e == data ? place : nullptr; }));
        if (!is_true(guard))
          guards.push_back(guard);
      }
      any |= guards != term.guards;
      term.guards = std::move(guards);
    }
  }
  return any;
}

void Adjoints::add_sum(const Tensor *t, const std::vector<Term> &at, Term value, const std::vector<int> &variables,
                       const Stage &by) {
  std::vector<int> places = indices_for(t);
  Solution solution = solve(terms_, whole_, at, variables, places);
  Term zero = terms_.real(0, value->type);
  std::vector<int> over = solution.variables, outer = places;
  for (const auto &[v, place] : solution.kept)
    outer.push_back(v);
  Guarded term{solution.guards, value};
  again(term, solution.values, over, outer);
  do
    while (!is_zero(term.value) && (fix_by_condition(term, over, outer) || shorten(term, over, outer)))
      ;
  while (!is_zero(term.value) && use_equalities(term, over, outer));
  if (is_zero(term.value))
    return;
  live(over, outer);
  if (!term.guards.empty()) {
    term.value = reproved(term.value);
    for (Term &guard : term.guards)
      guard = reproved(guard);
  }
  auto any_of = [&](Term e, const std::vector<int> &list) {
    const std::set<int> &own = terms_.variables(e);
    return std::any_of(list.begin(), list.end(), [&](int v) { return own.count(v) > 0; });
  };
  std::vector<Term> free, bound;
  for (Term guard : term.guards)
    (any_of(guard, over) ? bound : free).push_back(guard);
  // An equality that fixes a place of the result: what is computed needs no index there.
  std::map<int, Term> fixed;
  for (Term guard : free)
    for (int side : {0, 1}) {
      Term q = guard->args.size() == 2 ? guard->args[side] : guard,
           other = guard->args.size() == 2 ? guard->args[1 - side] : guard;
      if (guard->op != Expr::equal || q->op != Expr::index || terms_.variables(other).count(q->position) ||
          fixed.count(q->position) || std::find(places.begin(), places.end(), q->position) == places.end())
        continue;
      std::vector<int> taken;
      for (const auto &[v, e] : fixed)
        taken.push_back(v);
      if (any_of(other, taken))
        continue;
      fixed[q->position] = other;
      break;
    }
  term.value = whole_.simplified(terms_.substitute(term.value, fixed));
  for (Term &guard : bound)
    guard = whole_.simplified(terms_.substitute(guard, fixed));
  if (!fixed.empty()) {
    term.value = reproved(term.value);
    for (Term &guard : bound)
      guard = reproved(guard);
  }
  if (!over.empty()) {
    Factors all = factors(term.value);
    std::vector<int> used;
    for (int v : over) {
      bool in_use = false;
      for (const auto *list : {&all.above, &all.below, &bound})
        for (Term one : *list)
          in_use |= terms_.variables(one).count(v) > 0;
      if (in_use)
        used.push_back(v);
      else
        all.above.push_back(terms_.convert(terms_.size(terms_.variable(v).extent), term.value->type));
    }
    over = used;
    Factors inner, outside;
    outside.negative = all.negative;
    for (Term one : all.above)
      (any_of(one, over) ? inner : outside).above.push_back(one);
    for (Term one : all.below)
      (any_of(one, over) ? inner : outside).below.push_back(one);
    if (!over.empty()) {
      Term core = terms_.select(terms_.all(bound), product(terms_, inner, term.value->type), zero);
      std::vector<int> space;
      std::vector<Term> own;
      const std::set<int> in_core = terms_.variables(core);
      for (int q : places) {
        if (in_core.count(q) || terms_.variable(q).extent == Size(1)) {
          space.push_back(q);
          own.push_back(fixed.count(q) ? fixed.at(q) : terms_.index(q));
        }
        for (const auto &[v, place] : solution.kept) // where the first of the places stands that decide it
          if (in_core.count(v) && terms_.variables(place).count(q) &&
              std::find(space.begin(), space.end(), v) == space.end()) {
            space.push_back(v);
            own.push_back(terms_.index(v));
          }
      }
      const Tensor *sum = emit(t->name + ".grad." + last_part(by.result->name), space, Reducer::sum, over, core, by);
      live(places, {});
      outside.above.insert(outside.above.begin(), read(sum, own));
    }
    term.value = product(terms_, outside, term.value->type);
  }
  Term result = terms_.select(terms_.all(free), term.value, zero);
  if (!solution.kept.empty()) { // of what is computed for all of its indices, the one that is wanted
    result = terms_.substitute(result, solution.kept);
    live(places, {});
    result = reproved(result);
  }
  add(t, places, result);
}

} // namespace heddle::differentiating
