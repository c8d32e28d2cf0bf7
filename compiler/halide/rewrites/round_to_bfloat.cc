// Works on the lowered statement, after schedules, which see a plain cast.
#include "compiler/halide/rewrites/rewrites.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class Rounding : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Cast *op) override {
    if (!op->type.is_bfloat())
      return IRMutator::visit(op);
    int lanes = op->type.lanes();
    Halide::Type word = Halide::UInt(32, lanes);
    std::string name = unique_name("bits");
    Expr value = Halide::cast(Halide::Float(32, lanes), mutate(op->value));
    Expr bits = Variable::make(word, name);
    auto number = [&](uint32_t n) { return make_const(word, n); };
    Expr even = (bits >> number(16)) & number(1);
    Expr rounded = bits + number(0x7fff) + even;
    Expr quiet = bits | number(0x400000);
    Expr is_nan = (bits & number(0x7fffffff)) > number(0x7f800000);
    Expr upper = Halide::cast(Halide::UInt(16, lanes), select(is_nan, quiet, rounded) >> number(16));
    return Let::make(name, reinterpret(word, value), reinterpret(op->type, upper));
  }
};

} // namespace

std::shared_ptr<IRMutator> round_to_bfloat() { return std::make_shared<Rounding>(); }

} // namespace heddle
