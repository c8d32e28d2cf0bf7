// A few taps along a window whose channels lie last: a formula of each of them, which lanes run along.
//
//   y[b, t, c] = sum[u](x[b, t + u - 1, c] * w[c, u])      u < 2
//
//   y[b, t, c] = x[b, t - 1, c] * w[c, 0] + x[b, t, c] * w[c, 1]
#pragma once

#include "dsl/forms/stages.h"

#include <optional>

namespace heddle::forms {

/// Nothing where the stage is no such sum, or one in which both factors are used again.
std::optional<Stage> with_taps_written_out(differentiating::Terms &terms, const Stage &stage);

} // namespace heddle::forms
