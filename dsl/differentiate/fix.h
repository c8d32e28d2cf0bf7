// Conditions that are equations: what one says of an index that is summed over.
//
//   i == s + 1                gives   i = s + 1                       where 0 <= s + 1 < I
//   2 m + u == s + 1          gives   m = (s + 1 - u) // 2            where (s + 1 - u) % 2 == 0 and 0 <= m < M
//   (s + 1 - u) % 2 == 0      gives   u = 2 w + (s + 1) % 2           where w counts the half of U, rounded up
#pragma once

#include "dsl/differentiate/whole.h"

#include <optional>

namespace heddle::differentiating {

struct Fixed {
  int variable;
  Term value;                      // in terms of others
  std::optional<int> instead = {}; // a new variable that is left to sum over in its place
  std::vector<Term> guards;        // which must hold
};

/// `condition` solved for one of `variables`, that with the longest range; nothing where it is no equation, or none of
/// them can be told. An equation in which data stand that are summed over is solved only where they are known to be
/// indices: it would leave the places that the sum visits.
std::optional<Fixed> fixed_by(Terms &terms, Whole &whole, Term condition, const std::vector<int> &variables);

} // namespace heddle::differentiating
