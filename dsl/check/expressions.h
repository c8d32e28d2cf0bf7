// Operators and conditions. One evaluator serves constants, run-time scalars and whole tensors: what an
// expression is follows from what its names stand for.
#pragma once

#include "dsl/check/context.h"

#include <set>
#include <string>

namespace heddle::checking {

class Calls;
class Conversions;
class Reductions;
class Subscripts;

class Expressions : Services {
public:
  Expressions(Context &context, Calls &calls, Conversions &conversions, Reductions &reductions, Subscripts &subscripts)
      : Services(context), calls_(calls), conversions_(conversions), reductions_(reductions), subscripts_(subscripts) {}

  /// What `e` is; an error after a report.
  Entity eval(const Tree &e, Frame &frame);
  /// The same as a number, a condition, a size (`what` names it in messages) or an extent; none after a report.
  const Expr *scalar(const Tree &e, Frame &frame);
  const Expr *condition(const Tree &e, Frame &frame);
  std::optional<Size> size(const Tree &e, Frame &frame, const char *what);
  std::optional<Extent> extent(const Tree &e, Frame &frame);
  const Expr *as_scalar(const Entity &e, const Tree &at);
  bool made_of_numbers(const Entity &e, const Tree &at); // reports where it is not
  /// One value per element: brings tensors and scalars to one shape and applies `f` to their elements.
  Entity lift(const Tree &e, const std::vector<Entity> &args,
              const std::function<const Expr *(std::vector<const Expr *>)> &f);
  /// Reports the names in an expression that mean nothing, where a failure keeps it from being evaluated.
  void check_names(const Tree &e, std::set<std::string> bound, Frame &frame);

private:
  const Expr *arithmetic(const Tree &e, const Expr *a, const Expr *b);
  Entity eval_binary(const Tree &e, Frame &frame);
  Entity eval_condition(const Tree &e, Frame &frame);
  Entity eval_field(const Tree &e, Frame &frame);

  Calls &calls_;
  Conversions &conversions_;
  Reductions &reductions_;
  Subscripts &subscripts_;
  std::set<std::string> refused_sizes_; // names of what is no size
};

} // namespace heddle::checking
