#include "dsl/forms/linked.h"

#include <algorithm>

namespace heddle::forms {

using namespace heddle::differentiating;

std::optional<Linked> product_before_conditions(Terms &terms, const MakeTensor &make, const Stage &stage) {
  const Expr *choice = stage.value;
  if (stage.reducer != Reducer::sum || choice->op != Expr::select || !is_zero(choice->args[2]) ||
      choice->args[1]->op != Expr::mul)
    return std::nullopt;
  std::vector<Term> indices = variables_of(terms, stage);
  Term condition = terms.import(choice->args[0], indices), product = terms.import(choice->args[1], indices);
  const std::set<int> &linked = terms.variables(condition), &own = terms.variables(product);
  std::vector<int> space, places, outer, inner; // of the result; of the product, which are summed after it and before
  bool apart = false;
  for (size_t i = 0; i < indices.size(); ++i) {
    int v = indices[i]->position;
    bool is_summed = i >= stage.space.size();
    if (!is_summed) {
      space.push_back(v);
      apart |= !own.count(v) && linked.count(v);
    } else {
      (linked.count(v) ? outer : inner).push_back(v);
    }
    if (own.count(v) && (!is_summed || linked.count(v)))
      places.push_back(v);
  }
  bool shared = std::any_of(inner.begin(), inner.end(), [&](int v) {
    return terms.variables(product->args[0]).count(v) && terms.variables(product->args[1]).count(v);
  });
  if (!apart || !shared || outer.empty() ||
      !std::all_of(outer.begin(), outer.end(), [&](int v) { return own.count(v) > 0; }))
    return std::nullopt;
  // Taps before places, along which lanes run.
  std::stable_partition(places.begin(), places.end(), [&](int v) {
    bool is_summed = std::find(outer.begin(), outer.end(), v) != outer.end();
    return !is_summed || terms.variable(v).extent.is_constant();
  });
  const Tensor *tensor = make(stage, "products", stage.result->type, extents(terms, places));
  std::vector<Term> at;
  for (int v : places)
    at.push_back(terms.index(v));
  Term read = terms.read(tensor, at, true);
  Term term = terms.make(Expr::select, read->type, {condition, read, terms.real(0, read->type)});
  return Linked{stage_of(terms, stage, tensor, places, product, inner),
                stage_of(terms, stage, stage.result, space, term, outer)};
}

} // namespace heddle::forms
