// Two sums in the other order, where a product of them is there already:
//   sum[n](p[x, n] * g[x, n])  with  g[x, n] = sum[e](d[x, e] * v[n, e])  is  sum[e](d[x, e] * o[x, e]),
// where the program has o[x, e] = sum[n](p[x, n] * v[n, e]). In the way back through attention it is the one reduction
// over all scores that is left; n are the keys, e the elements of a head. Factors may lie in element-wise definitions,
// and count under conditions: with a dropout of weights, o is sum[n](y[x, n] * v[n, e]) and y[x, n] = p[x, n] * kept[x,
// n].
#pragma once

#include "dsl/differentiate/terms.h"

namespace heddle::differentiating {

/// Stages of `made`, whose values have positions for indices, that may read results of `forward` or of stages before
/// them. Taken only where the sum becomes shorter.
void swap_sums(Terms &terms, const std::vector<Step> &forward, std::vector<Step> &made);

} // namespace heddle::differentiating
