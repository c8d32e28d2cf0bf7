// Values of another type: by the author (`f32(x)`, `index(N)(x)`), or because what takes them has that type.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;

class Conversions : Services {
public:
  Conversions(Context &context, Expressions &expressions) : Services(context), expressions_(expressions) {}

  /// `f32(x)`, `index(N)(x)`.
  Entity cast(const Tree &e, Frame &frame);
  /// What `name` of that type takes.
  std::optional<Entity> converted(const Entity &e, Type type, const std::string &name, Span span);
  /// The number that an input or a state of that type begins as; nothing where it is none of its numbers.
  std::optional<double> initial(const Tree &e, Type type, Frame &frame);

private:
  /// index(N)(x): x, which is proven to be one of 0 to N - 1, or else tested when it is computed.
  const Expr *indexed(const Tree &e, const Expr *x, const Size &range, Frame &frame);

  Expressions &expressions_;
};

} // namespace heddle::checking
