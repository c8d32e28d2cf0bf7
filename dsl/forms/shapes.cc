#include "dsl/forms/shapes.h"

#include "dsl/differentiate/whole.h"

#include <algorithm>

namespace heddle::forms {

using namespace heddle::differentiating;

/// How many axes of `shape` from `first` on count `places` together; 0 where none do.
static size_t axes_of(const std::vector<Size> &shape, size_t first, const Size &places) {
  Size product(1);
  for (size_t at = first; at < shape.size(); ++at) {
    product = product * shape[at];
    if (product == places)
      return at + 1 - first;
  }
  return 0;
}

std::optional<CommonAxes> axes_in_common(const std::vector<Size> &from, const std::vector<Size> &to) {
  CommonAxes out;
  size_t i = 0, k = 0;
  while (i < from.size() && k < to.size()) {
    size_t several = axes_of(from, i, to[k]), parts = several ? 1 : axes_of(to, k, from[i]);
    if (!several && !parts)
      return std::nullopt;
    out.places.push_back(several ? to[k] : from[i]);
    out.from.emplace_back();
    out.to.emplace_back();
    for (size_t end = i + std::max<size_t>(several, 1); i < end; ++i)
      out.from.back().push_back(int(i));
    for (size_t end = k + parts; k < end; ++k)
      out.to.back().push_back(int(k));
  }
  if (i < from.size() || k < to.size()) // axes of one place at the end
    return std::nullopt;
  return out;
}

bool reshapes(const Expr &read, const std::vector<Index> &space) {
  bool plain = std::all_of(read.args.begin(), read.args.end(), [](const Expr *at) { return at->op == Expr::index; });
  if (read.op != Expr::read || !read.always_inside || plain || read.args.empty() || space.empty())
    return false;
  std::vector<Size> shape;
  for (const Index &index : space)
    shape.push_back(index.extent);
  if (shape == read.tensor->shape || !axes_in_common(read.tensor->shape, shape))
    return false;
  Terms terms;
  Whole whole(terms);
  std::vector<int> variables;
  std::vector<Term> indices;
  Polynomial own, place;
  for (const Index &index : space) {
    variables.push_back(terms.new_variable(index.name, index.extent));
    indices.push_back(terms.index(variables.back()));
    own = plus(times(own, whole.of(index.extent)), whole.of(indices.back()));
  }
  for (const Expr *node : nodes_of(&read)) // an index of a sum is none of the space
    if (node->op == Expr::index && size_t(node->position) >= space.size())
      return false;
  whole.live(variables);
  Term at = terms.import(&read, indices);
  for (size_t axis = 0; axis < at->args.size(); ++axis)
    place = plus(times(place, whole.of(read.tensor->shape[axis])), whole.of(whole.simplified(at->args[axis])));
  return is_zero(whole.simplified(whole.term(plus(place, own, -1))));
}

} // namespace heddle::forms
