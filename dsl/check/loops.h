// `for`: unrolled over constants and params, a step of its own over sizes of the call.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Updates;
class Conversions;
class Expressions;
class Params;
class Ranges;
class Statements;

class Loops : Services {
public:
  Loops(Context &context, Conversions &conversions, Expressions &expressions, Params &params, Ranges &ranges,
        Statements &statements, Updates &updates)
      : Services(context), conversions_(conversions), expressions_(expressions), params_(params), ranges_(ranges),
        statements_(statements), updates_(updates) {}

  void run(const syntax::Stmt &s, Frame &frame);

private:
  std::vector<Entity> iterations(int64_t first, int64_t count);
  void unroll(const syntax::Stmt &s, const std::vector<Entity> &iterations, Frame &frame);
  void keep_loop(const syntax::Stmt &s, const Size &first, const Size &extent, Frame &frame);

  Conversions &conversions_;
  Expressions &expressions_;
  Params &params_;
  Ranges &ranges_;
  Statements &statements_;
  Updates &updates_;
};

} // namespace heddle::checking
