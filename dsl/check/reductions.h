// `sum[i where c](…)` and its like: a stage of their own.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;
class Ranges;

class Reductions : Services {
public:
  Reductions(Context &context, Expressions &expressions, Ranges &ranges)
      : Services(context), expressions_(expressions), ranges_(ranges) {}

  const Expr *eval(const Tree &e, Frame &frame);

private:
  const Expr *neutral(Reducer reducer, Type type);

  Expressions &expressions_;
  Ranges &ranges_;
};

} // namespace heddle::checking
