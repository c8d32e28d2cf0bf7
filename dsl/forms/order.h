// The order of the axes of a product's result. Where the last one belongs to both factors, there is nothing for lanes
// to run along: indices of both factors come first then, each value of which is a product by itself. So they do in
// factors.
//
//   s[i, j, k, h] = sum[e](q[i, j, h, e] * q[i, k, h, e])     becomes    s[i, h, j, k]
//   z[i, j, d]    = sum[k](a[i, k, d] * c[j, k, d])           becomes    z[d, i, j] of copies a[d, i, k] and c[d, j, k]
//
// What reads it follows, and so do formulas of its elements. Results of the entry keep their order, and so does what
// loops and updates take: of a product they get a copy in that order.
#pragma once

#include "dsl/forms/stages.h"

#include <map>
#include <set>

namespace heddle::forms {

class Order {
public:
  Order(differentiating::Terms &terms, MakeTensor make, const Entry &entry);

  std::vector<Step> ordered(const std::vector<Step> &steps);

private:
  using Term = differentiating::Term;

  struct Permuted {
    const Tensor *tensor;
    std::vector<int> axes; // of the old tensor, in the new order
  };
  void keep(const std::vector<Step> &steps);
  Term followed(Term e, std::map<Term, Term> &done);
  /// The axes of the result in the order that suits the stage.
  std::vector<int> order_of(const Stage &stage);
  Stage permuted(const Stage &stage, const Tensor *result, const std::vector<int> &axes);
  /// A factor whose last axis is an index of both is read across memory: a copy has that axis in front.
  void copy_factors(Stage &product, std::vector<Step> &out);
  /// The result of a permuted stage, as it was.
  Stage in_own_order(const Stage &stage);

  differentiating::Terms &terms_;
  MakeTensor make_;
  std::set<const Tensor *> kept_; // what more than formulas ask for
  std::map<const Tensor *, Permuted> permuted_;
};

} // namespace heddle::forms
