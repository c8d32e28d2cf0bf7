#include "dsl/differentiate/swap_sums.h"

#include <algorithm>
#include <optional>

namespace heddle::differentiating {
namespace {

/// A stage that sums a product over one index. All terms are of positions: the space, then the index that is summed.
struct Product {
  std::vector<Size> space;
  Size over;
  std::vector<Term> conditions; // under which an element counts
  Factors factors;
};

class Swap {
public:
  Swap(Terms &terms, const std::vector<Step> &forward) : terms_(terms) {
    for (const Step &step : forward)
      if (auto *stage = std::get_if<Stage>(&step.what))
        know(*stage);
  }

  void run(std::vector<Step> &made) {
    for (Step &step : made)
      if (auto *stage = std::get_if<Stage>(&step.what)) {
        if (auto sum = sum_of(*stage))
          swap(*stage, *sum);
        know(*stage);
      }
  }

private:
  std::optional<Product> sum_of(const Stage &stage) {
    if (stage.reducer != Reducer::sum || stage.over.size() != 1 || !is_floating(stage.value->type))
      return std::nullopt;
    Product sum{{}, stage.over[0].extent, {}, {}};
    std::vector<Term> positions;
    for (size_t i = 0; i <= stage.space.size(); ++i)
      positions.push_back(terms_.index(int(i)));
    for (const Index &index : stage.space)
      sum.space.push_back(index.extent);
    budget_ = 100;
    bool complete = add_factors(sum, terms_.import(stage.value, positions), false);
    return complete && sum.factors.above.size() > 1 ? std::optional(sum) : std::nullopt;
  }

  void know(const Stage &stage) {
    if (auto sum = sum_of(stage))
      known_[stage.result] = *sum, order_.push_back(stage.result);
    else if (stage.reducer == Reducer::none && is_product(stage.value))
      products_[stage.result] = stage.value;
  }

  static bool is_guarded(Term e) { return e->op == Expr::select && (is_zero(e->args[1]) || is_zero(e->args[2])); }

  /// Whether it is made of factors, which may count under a condition, and is floating-point.
  static bool is_product(Term e) {
    return is_floating(e->type) && !e->stopped && (e->op == Expr::read || e->op == Expr::mul || is_guarded(e));
  }

  static void add_condition(Product &sum, Term condition) {
    if (std::find(sum.conditions.begin(), sum.conditions.end(), condition) == sum.conditions.end())
      sum.conditions.push_back(condition);
  }

  /// Multiplies a sum's terms by `e`, or divides by it. Reads of element-wise products, such as of weights behind a
  /// dropout, are these products. False where there are too many factors, as x * x of y * y of … has.
  bool add_factors(Product &sum, Term e, bool below) {
    Factors &all = sum.factors;
    if (budget_-- <= 0)
      return false;
    if (!e->stopped && e->op == Expr::negate) {
      all.negative = !all.negative;
      return add_factors(sum, e->args[0], below);
    }
    if (!e->stopped && (e->op == Expr::mul || e->op == Expr::div))
      return add_factors(sum, e->args[0], below) && add_factors(sum, e->args[1], below != (e->op == Expr::div));
    if (!e->stopped && !below && is_guarded(e)) {
      bool first = is_zero(e->args[1]);
      for (Term one : terms_.conjuncts(first ? terms_.negation(e->args[0]) : e->args[0]))
        add_condition(sum, one);
      return add_factors(sum, e->args[first ? 2 : 1], below);
    }
    auto made = is_product(e) && e->op == Expr::read && e->always_inside ? products_.find(e->tensor) : products_.end();
    if (made != products_.end())
      return add_factors(sum, terms_.import(made->second, e->args), below);
    (below ? all.below : all.above).push_back(e);
    return true;
  }

  static bool is_shorter(const Size &a, const Size &b) {
    return a.is_constant() && (!b.is_constant() || a.constant() < b.constant());
  }

  bool has(Term e, int variable) { return terms_.variables(e).count(variable) > 0; }

  void swap(Stage &stage, const Product &sum) {
    int n = int(sum.space.size());
    for (size_t i = 0; i < sum.factors.above.size(); ++i) {
      Term g = sum.factors.above[i];
      auto inner = g->op == Expr::read && g->always_inside ? known_.find(g->tensor) : known_.end();
      if (inner == known_.end() || !is_shorter(inner->second.over, sum.over))
        continue;
      const Product &made_of = inner->second;
      int e = terms_.new_variable(stage.over[0].name, made_of.over);
      while (e <= n) // positions are numbers of variables, too
        e = terms_.new_variable(stage.over[0].name, made_of.over);
      std::map<int, Term> to;
      for (size_t j = 0; j < made_of.space.size(); ++j)
        to[int(j)] = g->args[j];
      to[int(made_of.space.size())] = terms_.index(e);
      Product all = sum; // with what g is made of in its place
      all.factors.above.erase(all.factors.above.begin() + long(i));
      all.factors.negative = sum.factors.negative != made_of.factors.negative;
      for (Term factor : made_of.factors.above)
        all.factors.above.push_back(terms_.substitute(factor, to));
      for (Term factor : made_of.factors.below)
        all.factors.below.push_back(terms_.substitute(factor, to));
      for (Term condition : made_of.conditions)
        add_condition(all, terms_.substitute(condition, to));
      if (Term value = by_known_sum(all, n, e, stage.value->type)) {
        stage.value = terms_.substitute(value, {{e, terms_.index(n)}});
        stage.over = {{"e", made_of.over}};
        return;
      }
    }
  }

  /// `sum`, of which `e` is one more place, as a read of a stage that computes it, times factors that are the same for
  /// all n.
  Term by_known_sum(const Product &sum, int n, int e, Type type) {
    for (const Tensor *t : order_) {
      const Product &o = known_.at(t);
      if (o.over != sum.over)
        continue;
      std::vector<Term> places(o.space.size() + 1);
      places.back() = terms_.index(n);
      for (bool of_n : {true, false})
        for (Term pattern : o.factors.above)
          for (Term factor : sum.factors.above)
            if (has(pattern, int(o.space.size())) == of_n && has(factor, n) == of_n)
              match(pattern, factor, places);
      bool matches = true;
      for (size_t i = 0; matches && i < o.space.size(); ++i) { // all of o's places, and no others
        Term at = places[i];
        matches = at && at->op == Expr::index && at->position != n &&
                  (at->position == e ? terms_.variable(e).extent : sum.space[at->position]) == o.space[i];
      }
      if (!matches)
        continue;
      Factors rest{sum.factors.negative != o.factors.negative, sum.factors.above, sum.factors.below};
      std::vector<Term> conditions = sum.conditions;
      if (remove(rest.above, o.factors.above, places, n) && remove(rest.below, o.factors.below, places, n) &&
          remove(conditions, o.conditions, places, n) && counts_anyway(rest, sum.conditions, n)) {
        rest.above.push_back(terms_.read(t, {places.begin(), places.end() - 1}, true));
        return terms_.select(terms_.all(of_no(n, sum.conditions)), product(terms_, rest, type), terms_.real(0, type));
      }
    }
    return nullptr;
  }

  /// Takes `terms`, at `places`, out of `all`. Whether each is there, and what remains is the same for all n.
  bool remove(std::vector<Term> &all, const std::vector<Term> &terms, const std::vector<Term> &places, int n) {
    for (Term one : terms) {
      auto found = std::find(all.begin(), all.end(), terms_.import(one, places));
      if (found == all.end())
        return false;
      all.erase(found);
    }
    return of_no(n, all).size() == all.size();
  }

  /// Whether factors that are the same for all n are inside of their tensors whichever n the conditions exclude.
  bool counts_anyway(const Factors &factors, const std::vector<Term> &conditions, int n) {
    auto is_inside = [](Term factor) {
      std::vector<Term> nodes = nodes_of(factor);
      return std::all_of(nodes.begin(), nodes.end(), [](Term e) { return e->op != Expr::read || e->always_inside; });
    };
    return of_no(n, conditions).size() == conditions.size() ||
           (std::all_of(factors.above.begin(), factors.above.end(), is_inside) &&
            std::all_of(factors.below.begin(), factors.below.end(), is_inside));
  }

  std::vector<Term> of_no(int n, std::vector<Term> terms) {
    std::erase_if(terms, [&](Term one) { return has(one, n); });
    return terms;
  }

  /// What o's indices must be for `pattern`, a read of positions, to be the read `e`; as far as plain subscripts tell.
  static void match(Term pattern, Term e, std::vector<Term> &places) {
    if (pattern->op != Expr::read || e->op != Expr::read || pattern->tensor != e->tensor)
      return;
    std::vector<Term> found = places;
    for (size_t i = 0; i < pattern->args.size(); ++i)
      if (pattern->args[i]->op == Expr::index) {
        Term &place = found[pattern->args[i]->position];
        if (place && place != e->args[i])
          return;
        place = e->args[i];
      }
    places = found;
  }

  Terms &terms_;
  std::map<const Tensor *, Product> known_; // sums
  std::vector<const Tensor *> order_;
  std::map<const Tensor *, Term> products_; // element-wise ones, of the indices of their stages
  int budget_ = 0;                          // terms that may still be looked at for a sum
};

} // namespace

void swap_sums(Terms &terms, const std::vector<Step> &forward, std::vector<Step> &made) {
  Swap(terms, forward).run(made);
}

} // namespace heddle::differentiating
