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
  std::vector<Term> above, below;
  bool negative = false;
};

/// Factors and conditions of a product that is looked at: x * x of y * y of … would have too many.
constexpr size_t most_factors = 16;

bool are_same(std::vector<Term> a, std::vector<Term> b) { // in any order
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

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
    Product sum{{}, stage.over[0].extent, {}, {}, {}};
    std::vector<Term> positions;
    for (size_t i = 0; i <= stage.space.size(); ++i)
      positions.push_back(terms_.index(int(i)));
    for (const Index &index : stage.space)
      sum.space.push_back(index.extent);
    return collect(terms_.import(stage.value, positions), sum) && sum.above.size() > 1 ? std::optional(sum)
                                                                                       : std::nullopt;
  }

  void know(const Stage &stage) {
    if (auto sum = sum_of(stage))
      known_[stage.result] = *sum, order_.push_back(stage.result);
    else if (stage.reducer == Reducer::none && is_product(stage.value))
      products_[stage.result] = stage.value;
  }

  static bool is_guarded(Term e) { return e->op == Expr::select && (is_zero(e->args[1]) || is_zero(e->args[2])); }
  static bool is_product(Term e) {
    return is_floating(e->type) && !e->stopped &&
           (e->op == Expr::read || e->op == Expr::mul || e->op == Expr::negate || is_guarded(e));
  }

  /// Adds the factors of `e`: for reads of element-wise products, such as of weights behind a dropout, theirs. False
  /// where there are too many.
  bool collect(Term e, Product &to) {
    if (to.above.size() + to.conditions.size() >= most_factors)
      return false;
    if (e->stopped) {
      to.above.push_back(e);
      return true;
    }
    if (e->op == Expr::mul)
      return collect(e->args[0], to) && collect(e->args[1], to);
    if (e->op == Expr::negate) {
      to.negative = !to.negative;
      return collect(e->args[0], to);
    }
    if (e->op == Expr::div) {
      to.below.push_back(e->args[1]);
      return collect(e->args[0], to);
    }
    if (is_guarded(e)) {
      bool not_first = is_zero(e->args[1]);
      to.conditions.push_back(not_first ? terms_.negation(e->args[0]) : e->args[0]);
      return collect(e->args[not_first ? 2 : 1], to);
    }
    if (auto made = products_.find(e->tensor); e->op == Expr::read && e->always_inside && made != products_.end())
      return collect(terms_.import(made->second, e->args), to);
    to.above.push_back(e);
    return true;
  }

  static bool is_shorter(const Size &a, const Size &b) {
    return a.is_constant() && (!b.is_constant() || a.constant() < b.constant());
  }

  bool has(Term e, int variable) { return terms_.variables(e).count(variable) > 0; }

  void swap(Stage &stage, const Product &sum) {
    int n = int(sum.space.size());
    for (size_t i = 0; i < sum.above.size(); ++i) {
      Term g = sum.above[i];
      auto inner = g->op == Expr::read ? known_.find(g->tensor) : known_.end();
      if (inner == known_.end() || !inner->second.conditions.empty() || !inner->second.below.empty() ||
          !is_shorter(inner->second.over, sum.over))
        continue;
      const Product &made_of = inner->second;
      int e = terms_.new_variable(stage.over[0].name, made_of.over);
      while (e <= n) // positions are numbers of variables, too
        e = terms_.new_variable(stage.over[0].name, made_of.over);
      std::map<int, Term> to;
      for (size_t j = 0; j < made_of.space.size(); ++j)
        to[int(j)] = g->args[j];
      to[int(made_of.space.size())] = terms_.index(e);
      Product there = sum; // with what of g depends on n in its place
      there.above.erase(there.above.begin() + long(i));
      there.negative = sum.negative != made_of.negative;
      Term left = nullptr;
      for (Term factor : made_of.above) {
        Term at = terms_.substitute(factor, to);
        if (has(at, n))
          there.above.push_back(at);
        else
          left = left ? terms_.mul(left, at) : at;
      }
      if (!left)
        continue;
      if (Term known = known_sum(there, n, e)) {
        std::map<int, Term> back{{e, terms_.index(n)}};
        stage.value = terms_.mul(terms_.substitute(left, back), terms_.substitute(known, back));
        stage.over = {{"e", made_of.over}};
        return;
      }
    }
  }

  /// `sum`, of which `e` is one more place, as a read of a stage that computes it.
  Term known_sum(const Product &sum, int n, int e) {
    for (const Tensor *t : order_) {
      const Product &o = known_.at(t);
      if (o.over != sum.over || o.negative != sum.negative || o.above.size() != sum.above.size())
        continue;
      std::vector<Term> places(o.space.size() + 1);
      places.back() = terms_.index(n);
      for (Term pattern : o.above)
        for (Term factor : sum.above)
          match(pattern, factor, places);
      bool matches = true;
      for (size_t i = 0; matches && i < o.space.size(); ++i) { // all of o's places, and no others
        Term at = places[i];
        matches = at && at->op == Expr::index && at->position != n &&
                  (at->position == e ? terms_.variable(e).extent : sum.space[at->position]) == o.space[i];
      }
      auto at_places = [&](std::vector<Term> terms) {
        for (Term &one : terms)
          one = terms_.import(one, places);
        return terms;
      };
      if (matches && are_same(at_places(o.above), sum.above) && are_same(at_places(o.below), sum.below) &&
          are_same(at_places(o.conditions), sum.conditions))
        return terms_.read(t, {places.begin(), places.end() - 1}, true);
    }
    return nullptr;
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
};

} // namespace

void swap_sums(Terms &terms, const std::vector<Step> &forward, std::vector<Step> &made) {
  Swap(terms, forward).run(made);
}

} // namespace heddle::differentiating
