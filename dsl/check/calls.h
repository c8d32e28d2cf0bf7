// Calls of functions, modules and built-ins, which are inlined.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Expressions;
class Gradients;
class Random;
class Signatures;
class Statements;

class Calls : Services {
public:
  Calls(Context &context, Expressions &expressions, Gradients &gradients, Random &random, Signatures &signatures,
        Statements &statements)
      : Services(context), expressions_(expressions), gradients_(gradients), random_(random), signatures_(signatures),
        statements_(statements) {}

  /// What the call gives: a scalar, a tensor, or a tuple of several results.
  Entity eval(const Tree &e, Frame &frame);

private:
  Entity call_builtin(const Tree &e, const ScalarFunction &f, Frame &frame);
  const Expr *builtin(const Tree &e, const ScalarFunction &f, std::vector<const Expr *> args);
  Entity call_function(const Tree &e, const Entity &f, Frame &frame);

  Expressions &expressions_;
  Gradients &gradients_;
  Random &random_;
  Signatures &signatures_;
  Statements &statements_;
};

} // namespace heddle::checking
