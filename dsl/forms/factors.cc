#include "dsl/forms/factors.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace heddle::forms {

using namespace heddle::differentiating;

namespace {

constexpr size_t most_factors = 8; // of which all groupings are tried

/// Of those that take longer than to read the value again.
bool is_function(Term e) {
  switch (e->op) {
  case Expr::exp:
  case Expr::log:
  case Expr::sin:
  case Expr::cos:
  case Expr::tanh:
  case Expr::erf:
    return is_floating(e->type);
  default:
    return false;
  }
}

bool is_data(Term e) {
  std::vector<Term> nodes = nodes_of(e);
  return std::any_of(nodes.begin(), nodes.end(), [](Term node) { return node->op == Expr::read; });
}

/// The indices that a value depends on, but for those that only choose by data where it is read: of w[e[b], o, i] the
/// last two.
void collect_own(Term e, std::set<int> &out) {
  if (e->op == Expr::index)
    out.insert(e->position);
  for (Term arg : e->args)
    if (e->op != Expr::read || !is_data(arg))
      collect_own(arg, out);
}

/// The indices that a value depends on, as variables.
std::set<int> numbers(const std::vector<Term> &indices, size_t from, size_t to) {
  std::set<int> out;
  for (size_t i = from; i < to; ++i)
    out.insert(indices[i]->position);
  return out;
}

/// A term that counts under conditions only: what it is where they hold, and what else.
struct Counted {
  double neutral;
  std::vector<Term> conditions; // outermost first
  Term value;

  explicit Counted(Term e, double neutral = 0) : neutral(neutral), value(e) {
    while (value->op == Expr::select && is_number(value->args[2], neutral)) {
      conditions.push_back(value->args[0]);
      value = value->args[1];
    }
  }
  /// `e` under the same conditions.
  Term under(Terms &terms, Term e) const {
    for (size_t i = conditions.size(); i-- > 0;)
      e = terms.make(Expr::select, e->type, {conditions[i], e, terms.real(neutral, e->type)});
    return e;
  }
};

bool has_one_outside(const std::set<int> &a, const std::set<int> &b, const std::set<int> &among) {
  return std::any_of(a.begin(), a.end(), [&](int v) { return among.count(v) && !b.count(v); });
}

} // namespace

Term FactorForms::grouped(const Stage &stage, Term value, const std::vector<Term> &indices) {
  std::set<int> space = numbers(indices, 0, stage.space.size());
  auto are_reused = [&](const std::set<int> &a, const std::set<int> &b) {
    return has_one_outside(a, b, space) && has_one_outside(b, a, space);
  };
  if (value->op != Expr::mul && value->op != Expr::div && value->op != Expr::negate)
    return value;
  auto counted = [&](Term factor) -> const std::set<int> & { return terms_.variables(Counted(factor).value); };
  if (value->op == Expr::mul && are_reused(counted(value->args[0]), counted(value->args[1])))
    return value;
  Factors all = factors(value);
  std::vector<Term> list = all.above;
  list.insert(list.end(), all.below.begin(), all.below.end());
  if (list.size() < 2 || list.size() > most_factors)
    return value;
  size_t best = 0, fewest = SIZE_MAX;
  bool best_alone = false;
  for (size_t mask = 1; mask + 1 < size_t(1) << list.size(); mask += 2) { // the first factor is in the first group
    std::set<int> a, b, own_a, own_b;
    // A weight by itself is read as it is packed; what it is multiplied by would be packed with it in every call.
    bool alone = false;
    for (size_t i = 0; i < list.size(); ++i) {
      size_t group = mask >> i & 1 ? mask : ~mask & ((size_t(1) << list.size()) - 1);
      alone |= group == size_t(1) << i && list[i]->op == Expr::read && list[i]->tensor->kind == Tensor::weight;
      const std::set<int> &all = terms_.variables(list[i]);
      (mask >> i & 1 ? a : b).insert(all.begin(), all.end());
      collect_own(list[i], mask >> i & 1 ? own_a : own_b);
    }
    size_t indices_of_both = a.size() + b.size();
    bool better = indices_of_both < fewest || (indices_of_both == fewest && alone && !best_alone);
    if ((are_reused(a, b) || are_reused(own_a, own_b)) && better) {
      best = mask;
      fewest = indices_of_both;
      best_alone = alone;
    }
  }
  if (best == 0)
    return value;
  Factors groups[2];
  for (size_t i = 0; i < list.size(); ++i) {
    Factors &group = groups[best >> i & 1 ? 0 : 1];
    (i < all.above.size() ? group.above : group.below).push_back(list[i]);
  }
  groups[0].negative = all.negative;
  return terms_.make(Expr::mul, value->type,
                     {product(terms_, groups[0], value->type), product(terms_, groups[1], value->type)});
}

bool FactorForms::has_functions(Term e) {
  std::vector<Term> nodes = nodes_of(e);
  return std::any_of(nodes.begin(), nodes.end(), [&](Term node) {
    return is_function(node) || (node->op == Expr::read && functions_.count(node->tensor));
  });
}

/// And what it reads and divides by is there at all places, whatever conditions stand around it.
bool FactorForms::keeps_to_places(Term node) const {
  if (node->op == Expr::read)
    return node->always_inside && places_.count(node->tensor) > 0;
  if (node->op == Expr::floor_div || node->op == Expr::mod) // by what no condition around it keeps from 0
    return node->args[1]->op == Expr::integer || node->args[1]->op == Expr::size;
  return node->op != Expr::loop_index;
}

bool FactorForms::is_of_places(Term e) const {
  std::vector<Term> nodes = nodes_of(e);
  return std::all_of(nodes.begin(), nodes.end(), [&](Term node) { return keeps_to_places(node); });
}

Term FactorForms::tables_of_their_own(const Stage &stage, Term e, std::vector<Stage> &made) {
  std::unordered_set<Term> with_functions, of_places;
  for (Term node : nodes_of(e)) { // operands first, so that each node is looked at once
    auto in = [](const std::unordered_set<Term> &set) { return [&](Term arg) { return set.count(arg) > 0; }; };
    if (is_function(node) || std::any_of(node->args.begin(), node->args.end(), in(with_functions)))
      with_functions.insert(node);
    if (keeps_to_places(node) && std::all_of(node->args.begin(), node->args.end(), in(of_places)))
      of_places.insert(node);
  }
  return terms_.rewrite(e, [&](Term node) -> Term {
    const std::set<int> &own = terms_.variables(node);
    bool is_table = is_floating(node->type) && !own.empty() && own.size() < stage.space.size() &&
                    with_functions.count(node) && of_places.count(node);
    return is_table ? element(stage, node, &made, "table") : nullptr;
  });
}

/// The indices of a read that has one along each axis, all of `own`; none where it is no such read.
static std::vector<int> indices_in_order(Terms &terms, Term node, const std::set<int> &own) {
  std::vector<int> order;
  if (node->op != Expr::read || node->args.size() != own.size())
    return {};
  for (Term arg : node->args)
    if (const std::set<int> &along = terms.variables(arg); along.size() == 1)
      order.push_back(*along.begin());
  return std::set<int>(order.begin(), order.end()) == own ? order : std::vector<int>();
}

/// A read at bare indices, those of `own`, each once.
static bool is_whole_read(Term node, const std::set<int> &own) {
  std::set<int> at;
  for (Term arg : node->args)
    if (arg->op == Expr::index)
      at.insert(arg->position);
  return node->op == Expr::read && at == own && at.size() == node->args.size();
}

Term FactorForms::element(const Stage &stage, Term e, std::vector<Stage> *made, const std::string &name) {
  if (!made && weights_.empty())
    return nullptr;
  const std::set<int> &own = terms_.variables(e);
  std::vector<int> space(own.begin(), own.end());
  for (Term node : nodes_of(e))
    if (std::vector<int> order = indices_in_order(terms_, node, own); !order.empty()) {
      space = order; // of what they are made of, whoever asks
      break;
    }
  std::vector<Term> at, positions;
  for (int v : space) {
    at.push_back(terms_.index(v));
    positions.resize(std::max(positions.size(), size_t(v) + 1));
    positions[v] = terms_.index(int(at.size()) - 1);
  }
  auto key = std::pair(terms_.import(e, positions), extents(terms_, space));
  auto known = weights_.find(key);
  if (known == weights_.end()) {
    if (!made)
      return nullptr;
    // Nothing rounds what has no name, and a table is kept; weights are a product's factor, which it may round.
    const Tensor *tensor = make_(stage, name, is_of_places(e) ? Type::f32 : e->type, key.second);
    made->push_back(stage_of(terms_, stage, tensor, space, e, {}));
    known = weights_.emplace(key, tensor).first;
  }
  return terms_.read(known->second, at, true);
}

Term FactorForms::with_known(const Stage &stage, Term e, std::map<Term, Term> &done) {
  if (auto known = done.find(e); known != done.end())
    return known->second;
  if (is_function(e) || e->op == Expr::div)
    if (Term read = element(stage, e, nullptr))
      return done[e] = read;
  Expr copy = *e;
  for (Term &arg : copy.args)
    arg = with_known(stage, arg, done);
  return done[e] = terms_.node(std::move(copy));
}

Term FactorForms::weights_of_their_own(const Stage &stage, Term e, std::vector<Stage> &made) {
  const std::set<int> &own = terms_.variables(e);
  std::vector<Term> nodes = nodes_of(e);
  // A tensor of them is no larger than what they are computed from.
  bool as_large = std::any_of(nodes.begin(), nodes.end(),
                              [&](Term node) { return node->op == Expr::read && terms_.variables(node) == own; });
  bool statistics = std::any_of(nodes.begin(), nodes.end(), [&](Term node) {
    return node->op == Expr::read && sums_.count(node->tensor) && terms_.variables(node).size() < own.size();
  });
  if (!as_large || !has_functions(e) || !statistics)
    return e;
  if (e->op == Expr::div && terms_.variables(e->args[0]) == own)
    e = terms_.make(Expr::div, e->type, {weights_of_their_own(stage, e->args[0], made), e->args[1]});
  return element(stage, with_scores(stage, e), &made);
}

Term FactorForms::with_scores(const Stage &stage, Term e) {
  Counted masked(e);
  masked.neutral = -INFINITY;
  if (masked.conditions.empty())
    return e;
  const std::set<int> &own = terms_.variables(e);
  return terms_.rewrite(e, [&](Term node) -> Term {
    bool may_be = is_floating(node->type) && terms_.variables(node) == own;
    return may_be ? element(stage, masked.under(terms_, node), nullptr) : nullptr;
  });
}

Term FactorForms::scores_of_their_own(const Stage &stage, Term e, std::vector<Stage> &made) {
  Counted masked(e, -INFINITY);
  const std::set<int> &own = terms_.variables(e);
  std::vector<Term> nodes = nodes_of(masked.value);
  bool computed = std::any_of(nodes.begin(), nodes.end(), [&](Term node) {
    return is_whole_read(node, own) && node->tensor->kind == Tensor::stage;
  });
  return computed && !masked.conditions.empty() ? element(stage, e, &made, "scores") : e;
}

bool FactorForms::is_read_in_steps(Term e) {
  bool steps = false;
  for (Term node : nodes_of(e))
    if (node->op == Expr::read)
      for (Term arg : node->args) {
        const std::set<int> &along = terms_.variables(arg);
        if (along.empty())
          continue;
        auto line = whole_.linear(whole_.of(arg), terms_.index(*along.begin()));
        std::optional<int64_t> step = constant_of(line.factor);
        if (along.size() > 1 || !step || whole_.mentions(line.rest, *along.begin()))
          return false;
        steps |= std::abs(*step) > 1 && node->tensor->kind != Tensor::weight;
      }
  return steps;
}

Term FactorForms::with_weights(const Stage &stage, Term e, const std::vector<Term> &indices, std::vector<Stage> &made) {
  Counted counted(e);
  Term value = grouped(stage, counted.value, indices);
  if (value->op != Expr::mul)
    return weights_of_their_own(stage, counted.conditions.empty() ? value : e, made);
  std::set<int> space = numbers(indices, 0, stage.space.size());
  auto is_weight = [&](Term factor, Term other) { // the other one's elements are used again
    return has_one_outside(terms_.variables(other), terms_.variables(factor), space);
  };
  std::vector<Term> factors = value->args;
  if (counted.conditions.empty()) {
    for (int side : {0, 1})
      if (is_weight(factors[side], factors[1 - side]))
        factors[side] = is_read_in_steps(factors[side]) ? element(stage, factors[side], &made, "samples")
                                                        : weights_of_their_own(stage, factors[side], made);
    return factors == value->args ? value : terms_.make(Expr::mul, value->type, factors);
  }
  for (int side : {0, 1}) {
    Term weight = counted.under(terms_, factors[side]);
    if (terms_.variables(weight) != terms_.variables(factors[side]) || !is_weight(factors[side], factors[1 - side]))
      continue;
    Term own = weights_of_their_own(stage, weight, made);
    if (own == weight)
      continue;
    factors[side] = own;
    factors[1 - side] = counted.under(terms_, factors[1 - side]); // 0 times 0, whatever stands there
    return terms_.make(Expr::mul, value->type, factors);
  }
  return e;
}

std::vector<Stage> FactorForms::divided_before(const Stage &stage) {
  for (Term division : nodes_of(stage.value)) {
    if (division->op != Expr::div || division->args[0]->op != Expr::read)
      continue;
    Term read = division->args[0];
    auto found = sums_.find(read->tensor);
    if (found == sums_.end() || found->second.reducer != Reducer::sum ||
        Counted(found->second.value).value->op != Expr::mul)
      continue;
    const Stage &sum = found->second;
    std::vector<Term> indices = variables_of(terms_, sum), here(stage.space.size());
    bool plain = true;
    for (size_t axis = 0; axis < read->args.size(); ++axis) {
      plain &= read->args[axis]->op == Expr::index;
      if (plain)
        here[read->args[axis]->position] = indices[axis];
    }
    for (Term node : nodes_of(division->args[1])) // of indices that the sum has
      plain &= node->op != Expr::index || here[node->position];
    if (!plain)
      continue;
    Counted counted(terms_.import(sum.value, indices));
    Term value = counted.value, divisor = terms_.import(division->args[1], here);
    for (int side : {0, 1}) {
      Term weight = counted.under(terms_, value->args[side]);
      if (!has_functions(weight))
        continue;
      const std::set<int> &own = terms_.variables(weight), &its = terms_.variables(divisor);
      bool is_sum_of_them = false;
      for (Term node : nodes_of(divisor)) {
        auto total = node->op == Expr::read ? sums_.find(node->tensor) : sums_.end();
        if (total == sums_.end() || total->second.over[0].extent != sum.over[0].extent)
          continue;
        std::vector<Term> at = node->args;
        at.push_back(indices.back());
        is_sum_of_them |= terms_.import(total->second.value, at) == weight;
      }
      if (!is_sum_of_them || !std::includes(own.begin(), own.end(), its.begin(), its.end()))
        continue;
      std::vector<Term> factors = {terms_.make(Expr::div, weight->type, {weight, divisor}),
                                   counted.under(terms_, value->args[1 - side])};
      Stage again = sum, last = stage;
      std::vector<int> space;
      for (size_t i = 0; i < sum.space.size(); ++i)
        space.push_back(indices[i]->position);
      again = stage_of(terms_, sum, make_(sum, "divided", sum.result->type, sum.result->shape), space,
                       terms_.make(Expr::mul, value->type, factors), {indices.back()->position});
      std::vector<Stage> made = of(again);
      std::map<Term, Term> done;
      Term quotient = terms_.read(again.result, read->args, true);
      std::function<Term(Term)> go = [&](Term node) -> Term {
        if (node == division)
          return quotient;
        if (auto known = done.find(node); known != done.end())
          return known->second;
        Expr copy = *node;
        for (Term &arg : copy.args)
          arg = go(arg);
        return done[node] = terms_.node(std::move(copy));
      };
      last.value = go(stage.value);
      made.push_back(last);
      return made;
    }
  }
  return {};
}

std::vector<Stage> FactorForms::of(const Stage &stage) {
  std::vector<Stage> made;
  bool is_real = is_floating(stage.value->type) && !stage.exact, is_sum = stage.reducer == Reducer::sum && is_real;
  if (is_sum || (stage.reducer == Reducer::max && is_real && stage.over.size() == 1)) {
    std::vector<Term> indices = variables_of(terms_, stage);
    Term written = terms_.import(stage.value, indices);
    Term value = is_sum ? with_weights(stage, written, indices, made) : scores_of_their_own(stage, written, made);
    std::vector<int> space, over;
    for (size_t i = 0; i < indices.size(); ++i)
      (i < stage.space.size() ? space : over).push_back(indices[i]->position);
    made.push_back(value == written ? stage : stage_of(terms_, stage, stage.result, space, value, over));
    made.back().reducer = stage.reducer;
    if (stage.over.size() == 1)
      sums_[stage.result] = stage;
    return made;
  }
  if (stage.reducer == Reducer::none && has_functions(stage.value))
    functions_.insert(stage.result);
  if (stage.reducer == Reducer::none && !stage.exact)
    made = divided_before(stage);
  if (!made.empty())
    return made;
  if (stage.reducer != Reducer::none || stage.exact)
    return {stage};
  std::vector<Term> indices = variables_of(terms_, stage);
  std::vector<int> space;
  for (Term index : indices)
    space.push_back(index->position);
  Term written = terms_.import(stage.value, indices);
  if (is_of_places(written))
    places_.insert(stage.result);
  std::map<Term, Term> done;
  Term value = with_known(stage, tables_of_their_own(stage, written, made), done);
  made.push_back(value == written ? stage : stage_of(terms_, stage, stage.result, space, value, {}));
  return made;
}

} // namespace heddle::forms
