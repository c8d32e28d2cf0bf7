// The points of a stage that read one place of a tensor. Of y[x] = f(T[p(x, r)]) the place q of T is read where
// p(x, r) == q: each such equation is solved for one of the stage's indices, which then is no index of the sum over
// them; what is left over stays a condition.
//
//   T[i + u - 1], i < N, u < 3:   q == i + u - 1   gives   i = q - u + 1   where 0 <= q - u + 1 < N, summed over u
#pragma once

#include "dsl/differentiate/whole.h"

namespace heddle::differentiating {

struct Solution {
  std::map<int, Term> values; // of variables that are solved for
  std::vector<int> variables; // those that are left to sum over
  std::vector<Term> guards;   // which must hold
  /// Variables that a stage computes for all of their values, of which only the one given here is read: a convolution
  /// of stride 2 is not summed for the places between, nor a table of which rows are read for the other rows.
  std::map<int, Term> kept;
};

/// places[k] == index(targets[k]) for all k, for `variables`.
Solution solve(Terms &terms, Whole &whole, const std::vector<Term> &places, const std::vector<int> &variables,
               const std::vector<int> &targets);

} // namespace heddle::differentiating
