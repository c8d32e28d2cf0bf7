#include "dsl/forms/product.h"

#include "dsl/differentiate/fix.h"
#include "dsl/forms/stages.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace heddle::forms {

using namespace heddle::differentiating;

Product::Product(Terms &terms, Whole &whole, const Stage &stage) : terms_(terms), whole_(whole), stage_(stage) {
  std::vector<Term> indices;
  for (const Index &index : stage.space) {
    int v = terms_.new_variable(index.name, index.extent);
    axes_.push_back({v, {v}, true});
    inside_[v] = terms_.index(v);
    indices.push_back(terms_.index(v));
  }
  for (const Index &index : stage.over) {
    over_.push_back(terms_.new_variable(index.name, index.extent));
    indices.push_back(terms_.index(over_.back()));
  }
  value_ = terms_.import(stage.value, indices);
  live();
  while (value_->op == Expr::select && is_zero(value_->args[2])) {
    for (Term guard : terms_.conjuncts(whole_.simplified(value_->args[0])))
      guards_.push_back(guard);
    value_ = value_->args[1];
  }
}

void Product::solve() {
  while (fix_one() || split_one())
    changed_ = true;
}

bool Product::has_few_terms() const {
  return std::all_of(over_.begin(), over_.end(), [&](int v) { return terms_.variable(v).extent.is_constant(); });
}

void Product::live() {
  std::vector<int> all = over_;
  for (const Axis &axis : axes_)
    all.insert(all.end(), axis.pieces.begin(), axis.pieces.end());
  whole_.live(all);
}

Term Product::tidied(Term e, const std::map<int, Term> &values, std::map<Term, Term> &done) {
  if (auto known = done.find(e); known != done.end())
    return known->second;
  std::vector<Term> nodes = nodes_of(e);
  bool whole = std::none_of(nodes.begin(), nodes.end(), [](Term node) { return is_floating(node->type); });
  Term result = nullptr;
  if (whole) {
    result = whole_.simplified(terms_.substitute(e, values));
  } else {
    Expr copy = *e;
    for (Term &arg : copy.args)
      arg = tidied(arg, values, done);
    if (e->op == Expr::select && (is_true(copy.args[0]) || is_false(copy.args[0])))
      result = copy.args[is_true(copy.args[0]) ? 1 : 2];
    else
      result = terms_.node(std::move(copy));
  }
  return done[e] = result;
}

void Product::put(const std::map<int, Term> &values) {
  live();
  std::map<Term, Term> done;
  value_ = tidied(value_, values, done);
  std::vector<Term> guards;
  for (Term guard : guards_)
    for (Term one : terms_.conjuncts(tidied(guard, values, done)))
      if (std::find(guards.begin(), guards.end(), one) == guards.end())
        guards.push_back(one);
  guards_ = std::move(guards);
}

bool Product::fix_one() {
  for (size_t i = 0; i < guards_.size(); ++i) {
    auto fixed = fixed_by(terms_, whole_, guards_[i], over_);
    if (!fixed)
      continue;
    guards_.erase(guards_.begin() + i);
    guards_.insert(guards_.end(), fixed->guards.begin(), fixed->guards.end());
    if (fixed->instead)
      std::replace(over_.begin(), over_.end(), fixed->variable, *fixed->instead);
    else
      std::erase(over_, fixed->variable);
    size_t others = guards_.size() - fixed->guards.size();
    put({{fixed->variable, fixed->value}});
    visits_more_ |= guards_.size() > others;
    return true;
  }
  return false;
}

/// The steps in which `v` counts where `node` divides: what is a multiple of them leaves the quotient.
static Polynomial step_of(Whole &whole, Terms &terms, Term node, int v) {
  if (node->op != Expr::floor_div && node->op != Expr::mod)
    return {};
  if (node->type != Type::i32)
    return {};
  Polynomial by = whole.of(node->args[1]);
  auto line = whole.linear(whole.of(node->args[0]), terms.index(v));
  auto a = constant_of(line.factor);
  if (by.size() != 1 || by.begin()->second <= 0 || !a || *a == 0 || whole.mentions(line.rest, v))
    return {};
  auto c = constant_of(by);
  if (!c)
    return *a == 1 || *a == -1 ? by : Polynomial{};
  int64_t step = *c / std::gcd(*a, *c);
  return step > 1 ? Polynomial{{{}, step}} : Polynomial{};
}

/// Whether dividing `v` costs nothing: it is divided only where a subscript is `v // c` as a whole, so that each value
/// of it is a product by itself, as those of query heads that share keys, k[b, j, h // G, e] q[b, i, h, e].
bool Product::only_chooses(int v) {
  if (value_->op != Expr::mul)
    return false;
  for (int side : {0, 1}) { // an index of the result that the other factor lacks: it is used again
    bool reused = false;
    for (const Axis &axis : axes_)
      for (int other : axis.pieces)
        reused |= other != v && depends(value_->args[side], other) && !depends(value_->args[1 - side], other);
    if (!reused)
      return false;
  }
  std::vector<Term> nodes = nodes_of(value_);
  for (Term guard : guards_)
    if (depends(guard, v))
      return false;
  for (Term node : nodes)
    for (Term arg : node->args) {
      bool divides = arg->op == Expr::floor_div || arg->op == Expr::mod;
      if (divides && depends(arg, v) &&
          !(node->op == Expr::read && arg->op == Expr::floor_div && arg->args[0]->op == Expr::index))
        return false;
    }
  return true;
}

bool Product::split_one() {
  std::vector<Term> nodes = nodes_of(value_);
  for (Term guard : guards_)
    for (Term node : nodes_of(guard))
      nodes.push_back(node);
  struct Choice {
    bool rounds; // the index does not divide evenly
    int64_t step;
    int variable;
    Polynomial by;
  };
  std::optional<Choice> best;
  auto look = [&](int v, bool may_round) {
    if (only_chooses(v))
      return;
    const Size &extent = terms_.variable(v).extent;
    for (Term node : nodes) {
      Polynomial by = step_of(whole_, terms_, node, v);
      if (by.empty())
        continue;
      // (i + u) // 2 stays a division by term, whatever i is made of.
      auto summed = [&](int w) { return w != v && depends(node, w); };
      if (std::any_of(over_.begin(), over_.end(), summed))
        return;
      auto step = constant_of(by);
      if (step && extent.is_constant() && extent.constant() <= *step)
        continue;
      Division division = divide(whole_.of(extent), by);
      bool rounds = !division.rest.empty();
      if (rounds && (!may_round || !step || (extent.is_constant() && extent.constant() < 4 * *step)))
        continue;
      Choice choice{rounds, step.value_or(0), v, by};
      if (!best || std::tuple(!rounds, choice.step) > std::tuple(!best->rounds, best->step))
        best = choice;
    }
  };
  for (const Axis &axis : axes_)
    for (int v : axis.pieces)
      look(v, true);
  if (!best)
    for (int v : over_)
      look(v, false);
  return best && split(best->variable, best->by);
}

bool Product::split(int v, const Polynomial &by) {
  const Size extent = terms_.variable(v).extent;
  const std::string name = terms_.variable(v).name;
  auto step = constant_of(by);
  bool exact = divide(whole_.of(extent), by).rest.empty();
  std::optional<Size> inner = whole_.size(by), outer;
  outer = step ? std::optional((extent + Size(*step - 1)).floor_div(*step))
               : whole_.size(divide(whole_.of(extent), by).quotient);
  if (!inner || !outer)
    return false;
  int high = terms_.new_variable(name, *outer), low = terms_.new_variable(name, *inner);
  for (Axis &axis : axes_) {
    auto at = std::find(axis.pieces.begin(), axis.pieces.end(), v);
    if (at == axis.pieces.end())
      continue;
    axis.exact &= exact;
    *at = high;
    axis.pieces.insert(at + 1, low);
    inside_[high] = terms_.make(Expr::floor_div, Type::i32, {inside_[v], whole_.term(by)});
    inside_[low] = terms_.make(Expr::mod, Type::i32, {inside_[v], whole_.term(by)});
  }
  auto at = std::find(over_.begin(), over_.end(), v);
  if (at != over_.end()) {
    *at = high;
    over_.insert(at + 1, low);
  }
  visits_more_ |= !exact;
  put({{v, whole_.term(plus(times(by, whole_.of(terms_.index(high))), whole_.of(terms_.index(low))))}});
  return true;
}

// ------------------------------------------------------------------------------ the stages

bool Product::is_place(const Tensor *tensor, const std::vector<Term> &at) {
  for (size_t i = 0; i < at.size(); ++i) {
    Polynomial place = whole_.of(at[i]);
    if (!whole_.nonnegative(place) || !whole_.nonnegative(plus(whole_.of(tensor->shape[i] - Size(1)), place, -1)))
      return false;
  }
  return true;
}

/// Where there are more places than the stage had, those of its reads are looked at again.
Term Product::proven(Term e) {
  if (!visits_more_)
    return e;
  std::map<Term, Term> done;
  std::function<Term(Term)> go = [&](Term node) -> Term {
    if (auto known = done.find(node); known != done.end())
      return known->second;
    Expr copy = *node;
    for (Term &arg : copy.args)
      arg = go(arg);
    if (copy.op == Expr::read)
      copy.always_inside = copy.always_inside && is_place(copy.tensor, copy.args);
    return done[node] = terms_.node(std::move(copy));
  };
  return go(e);
}

/// What is read of a weight at computed places, which are not many more than it has, is a tensor with an axis for each
/// index: a factor like any other.
Term Product::factor_of_its_own(Term factor, const MakeTensor &make, std::vector<Stage> &made) {
  Term read = factor;
  while (read->op == Expr::select && is_zero(read->args[2]))
    read = read->args[1];
  if (read->op != Expr::read || read->tensor->kind != Tensor::weight)
    return factor;
  bool plain = read == factor &&
               std::all_of(read->args.begin(), read->args.end(), [](Term at) { return at->op == Expr::index; });
  std::vector<int> space;
  const std::set<int> &own = terms_.variables(factor);
  for (const auto &list : {order_of_result(), over_})
    for (int v : list)
      if (own.count(v))
        space.push_back(v);
  Size places(1), elements(1);
  for (int v : space)
    places = places * terms_.variable(v).extent;
  for (const Size &extent : read->tensor->shape)
    elements = elements * extent;
  if (plain || space.empty() || !places.is_constant() || places.constant() > 2 * elements.constant())
    return factor;
  const Tensor *tensor = make(stage_, "w", factor->type, extents(terms_, space));
  made.push_back(stage_of(terms_, stage_, tensor, space, factor, {}));
  std::vector<Term> at;
  for (int v : space)
    at.push_back(terms_.index(v));
  return terms_.read(tensor, at, true);
}

/// The axes of the product: in the order of the result's, but that a piece comes first whose axis has pieces around it
/// that fewer factors depend on: each of its values is a product by itself. A piece of the one factor behind pieces of
/// the other joins the axes that only its factor has:
///   y[b, o, 2 i + p, 2 j + q] = sum[c](x[b, c, i, j] * w[4 o + 2 p + q, c])     is a product over [b, o, p, q, i, j].
std::vector<int> Product::order_of_result() {
  std::vector<int> first, rest, beside;
  auto factors_with = [&](int v) { // a bit for each
    return value_->op == Expr::mul ? int(depends(value_->args[0], v)) + 2 * int(depends(value_->args[1], v)) : 1;
  };
  auto is_phase = [&](int outer, int own) { // of x[b, i + (p + 1) // 2] neighbours lie along i
    return value_->op == Expr::read && std::any_of(value_->args.begin(), value_->args.end(), [&](Term at) {
             return depends(at, own) && constant_of(whole_.linear(whole_.of(at), terms_.index(outer)).factor) == 1;
           });
  };
  auto count = [](int factors) { return std::popcount(unsigned(factors)); };
  for (const Axis &axis : axes_) {
    rest.push_back(axis.pieces[0]);
    for (size_t i = 1; i < axis.pieces.size(); ++i) {
      int own = factors_with(axis.pieces[i]);
      bool by_itself = !axis.exact, is_other = false;
      for (size_t around = 0; around < i; ++around) {
        int outer = factors_with(axis.pieces[around]);
        by_itself |= count(outer) < count(own) || is_phase(axis.pieces[around], axis.pieces[i]);
        is_other |= outer && own && !(outer & own);
      }
      (by_itself ? first : is_other ? beside : rest).push_back(axis.pieces[i]);
    }
  }
  for (int piece : beside) {
    auto like = std::find_if(rest.rbegin(), rest.rend(), [&](int v) { return factors_with(v) == factors_with(piece); });
    if (like == rest.rend())
      first.push_back(piece);
    else
      rest.insert(like.base(), piece);
  }
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

std::vector<Stage> Product::stages(const MakeTensor &make) {
  live();
  auto guarded = [&](Term e) {
    return guards_.empty() ? e : terms_.make(Expr::select, e->type, {terms_.all(guards_), e, terms_.real(0, e->type)});
  };
  std::vector<Stage> made;
  Term value = value_;
  if (value->op == Expr::mul && !over_.empty()) {
    // A term that doesn't count is 0 times 0, whatever stands there.
    std::vector<Term> factors;
    for (Term factor : value->args) {
      for (Term guard : guards_)
        for (int v : terms_.variables(guard))
          if (!depends(factor, v))
            return {};
      factors.push_back(factor_of_its_own(proven(guarded(factor)), make, made));
    }
    value = terms_.make(Expr::mul, value->type, factors);
  } else {
    value = proven(guarded(value));
  }
  std::vector<int> order = order_of_result(), own;
  for (const Axis &axis : axes_)
    own.push_back(axis.index);
  if (order == own) {
    made.push_back(stage_of(terms_, stage_, stage_.result, order, value, over_));
    return made;
  }
  const Tensor *parts = make(stage_, "parts", stage_.result->type, extents(terms_, order));
  made.push_back(stage_of(terms_, stage_, parts, order, value, over_));
  whole_.live(own);
  std::vector<Term> at;
  for (int v : order)
    at.push_back(whole_.simplified(inside_.at(v)));
  made.push_back(stage_of(terms_, stage_, stage_.result, own, terms_.read(parts, at, true), {}));
  return made;
}

} // namespace heddle::forms
