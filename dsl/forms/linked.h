// Products whose factors only a condition links to the result: they are summed first, over the indices that no
// condition has, so that a term counts or does not as a whole.
//
//   y[b, o, i] = sum[c, m, u where 2 * m + u == i + 1](x[b, c, m] * w[c, o, u])
//
//   t[b, o, u, m] = sum[c](x[b, c, m] * w[c, o, u])
//   y[b, o, i]    = sum[m, u where 2 * m + u == i + 1](t[b, o, u, m])
#pragma once

#include "dsl/forms/stages.h"

#include <optional>

namespace heddle::forms {

struct Linked {
  Stage product, sum;
};

/// Nothing where the conditions are no equations, or the factors have all indices of the result.
std::optional<Linked> product_before_conditions(differentiating::Terms &terms, const MakeTensor &make,
                                                const Stage &stage);

} // namespace heddle::forms
