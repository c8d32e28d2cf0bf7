#include "dsl/differentiate/swap_sums.h"

#include <algorithm>
#include <optional>

namespace heddle::differentiating {
namespace {

/// A stage that sums the product of two reads over one index.
struct Product {
  const Tensor *result;
  std::vector<Size> space;
  Size over;
  Term left, right; // of positions: the space, then the index that is summed
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
        if (auto product = product_of(*stage))
          swap(*stage, *product);
        know(*stage);
      }
  }

private:
  std::optional<Product> product_of(const Stage &stage) {
    if (stage.reducer != Reducer::sum || stage.over.size() != 1 || stage.value->op != Expr::mul)
      return std::nullopt;
    Product product{stage.result, {}, stage.over[0].extent, nullptr, nullptr};
    std::vector<Term> positions;
    for (size_t i = 0; i <= stage.space.size(); ++i)
      positions.push_back(terms_.index(int(i)));
    for (const Index &index : stage.space)
      product.space.push_back(index.extent);
    product.left = terms_.import(stage.value->args[0], positions);
    product.right = terms_.import(stage.value->args[1], positions);
    bool reads = product.left->op == Expr::read && product.right->op == Expr::read;
    return reads ? std::optional(product) : std::nullopt;
  }

  void know(const Stage &stage) {
    if (auto product = product_of(stage))
      known_[stage.result] = *product, order_.push_back(stage.result);
  }

  static bool is_shorter(const Size &a, const Size &b) {
    return a.is_constant() && (!b.is_constant() || a.constant() < b.constant());
  }

  bool has(Term e, int variable) { return terms_.variables(e).count(variable) > 0; }

  void swap(Stage &stage, const Product &sum) {
    int n = int(sum.space.size());
    for (auto [p, g] : {std::pair(sum.left, sum.right), std::pair(sum.right, sum.left)}) {
      auto inner = known_.find(g->tensor);
      if (inner == known_.end() || !is_shorter(inner->second.over, sum.over))
        continue;
      const Product &made_of = inner->second;
      int e = terms_.new_variable(stage.over[0].name, made_of.over);
      while (e <= n) // positions are numbers of variables, too
        e = terms_.new_variable(stage.over[0].name, made_of.over);
      std::map<int, Term> to;
      for (size_t i = 0; i < made_of.space.size(); ++i)
        to[int(i)] = g->args[i];
      to[int(made_of.space.size())] = terms_.index(e);
      Term left = terms_.substitute(made_of.left, to), right = terms_.substitute(made_of.right, to);
      for (auto [d, v] : {std::pair(left, right), std::pair(right, left)}) {
        if (has(d, n) || !has(v, n))
          continue;
        Term there = known_product(p, v, n, sum, e);
        if (!there)
          continue;
        std::map<int, Term> back{{e, terms_.index(n)}};
        stage.value = terms_.mul(terms_.substitute(d, back), terms_.substitute(there, back));
        stage.over = {{"e", made_of.over}};
        return;
      }
    }
  }

  /// sum[n](p * v), as a read of a stage that computes it.
  Term known_product(Term p, Term v, int n, const Product &sum, int e) {
    for (const Tensor *t : order_) {
      const Product &o = known_.at(t);
      if (o.over != sum.over)
        continue;
      for (auto [first, second] : {std::pair(o.left, o.right), std::pair(o.right, o.left)}) {
        std::vector<Term> places(o.space.size() + 1);
        places.back() = terms_.index(n);
        bool matches = match(first, p, places) && match(second, v, places);
        for (size_t i = 0; matches && i < o.space.size(); ++i) { // all of o's places, and no others
          Term at = places[i];
          matches = at && at->op == Expr::index && at->position != n &&
                    (at->position == e ? terms_.variable(e).extent : sum.space[at->position]) == o.space[i];
        }
        if (matches && terms_.import(first, places) == p && terms_.import(second, places) == v)
          return terms_.read(t, {places.begin(), places.end() - 1}, true);
      }
    }
    return nullptr;
  }

  /// What o's indices must be for `pattern`, a read of positions, to be the read `e`; as far as plain subscripts tell.
  static bool match(Term pattern, Term e, std::vector<Term> &places) {
    if (pattern->tensor != e->tensor)
      return false;
    for (size_t i = 0; i < pattern->args.size(); ++i)
      if (pattern->args[i]->op == Expr::index) {
        Term &place = places[pattern->args[i]->position];
        if (place && place != e->args[i])
          return false;
        place = e->args[i];
      }
    return true;
  }

  Terms &terms_;
  std::map<const Tensor *, Product> known_;
  std::vector<const Tensor *> order_;
};

} // namespace

void swap_sums(Terms &terms, const std::vector<Step> &forward, std::vector<Step> &made) {
  Swap(terms, forward).run(made);
}

} // namespace heddle::differentiating
