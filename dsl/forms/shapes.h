// Two shapes of the same elements in the same order.
#pragma once

#include "dsl/check/program.h"

#include <optional>
#include <vector>

namespace heddle::forms {

/// Groups of neighbouring axes that count the same places: each is one axis of one shape, or of both.
struct CommonAxes {
  using Group = std::vector<int>;
  std::vector<Group> from, to;
  std::vector<Size> places; // of each group
};
/// Nothing where some group would have several axes in both shapes.
std::optional<CommonAxes> axes_in_common(const std::vector<Size> &from, const std::vector<Size> &to);

/// Whether `read`, of an element of a tensor, takes the elements in their order as `space` counts, but in another
/// shape: x[m // N, m % N].
bool reshapes(const Expr &read, const std::vector<Index> &space);

} // namespace heddle::forms
