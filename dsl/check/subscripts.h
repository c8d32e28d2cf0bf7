// Subscripts: members of lists, elements and slices of tensors. Each read is proven inside its tensor, or tested.
#pragma once

#include "dsl/check/context.h"

#include <set>
#include <string>
#include <utility>

namespace heddle::checking {

class Expressions;
class Params;

class Subscripts : Services {
public:
  Subscripts(Context &context, Expressions &expressions, Params &params)
      : Services(context), expressions_(expressions), params_(params) {}

  Entity eval(const Tree &e, Frame &frame);
  /// Reports that what `e` stands for has no subscripts.
  void refuse_subscripts(const Entity &base, const Tree &e, const Frame &frame);

private:
  Entity access_list(const Entity &base, const Tree &e, Frame &frame);
  /// The element of `base` at `at`; where that can lie outside, what `e.outside` says.
  const Expr *read(const Entity &base, const std::vector<const Expr *> &at, const Tree &e, Frame &frame);
  void report_outside(const Entity &base, size_t axis, const Expr *at, const Prover::Outcome &outcome, const Tree &e,
                      bool below);

  Expressions &expressions_;
  Params &params_;
  std::set<std::pair<const Tensor *, std::string>> asked_; // inputs, and what they should be declared indices of
};

} // namespace heddle::checking
