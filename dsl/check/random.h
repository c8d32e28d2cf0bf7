// `random(key, ..i)` and `fold(key, n)`.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;

class Random : Services {
public:
  Random(Context &context, Expressions &expressions) : Services(context), expressions_(expressions) {}

  Entity number(const Tree &e, Frame &frame);
  Entity fold(const Tree &e, Frame &frame);

private:
  /// The two words of a key.
  std::optional<std::vector<const Expr *>> key_of(const Tree &e, const char *call, Frame &frame);

  Expressions &expressions_;
};

} // namespace heddle::checking
