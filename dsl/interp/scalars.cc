// Each function is one pass over its operands' runs that the compiler vectorises where the machine can.
#include "dsl/interp/scalars.h"

#include "dsl/check/philox.h"
#include "dsl/check/round.h"

namespace heddle::interp {
namespace {

template <class F> void each(F f, const Register &a, double *out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = f(a.at[i]);
}

template <class F> void each(F f, const Register &a, const Register &b, double *out, int64_t n) {
  const double *x = a.at, *y = b.at;
  if (a.run && b.run)
    for (int64_t i = 0; i < n; ++i)
      out[i] = f(x[i], y[i]);
  else if (a.run)
    for (int64_t i = 0; i < n; ++i)
      out[i] = f(x[i], *y);
  else if (b.run)
    for (int64_t i = 0; i < n; ++i)
      out[i] = f(*x, y[i]);
  else
    out[0] = f(*x, *y);
}

} // namespace

void apply(const Instruction &instruction, std::vector<Register> &registers, int64_t index, int64_t length) {
  Register &to = registers[instruction.out];
  int64_t n = to.run ? length : 1;
  double *out = to.own.data();
  const Register &a = registers[std::max(0, instruction.args[0])];
  const Register &b = registers[std::max(0, instruction.args[1])];
  bool whole = !is_floating(instruction.type);
  switch (instruction.op) {
  case Expr::integer:
  case Expr::real:
  case Expr::boolean:
  case Expr::size:
  case Expr::loop_index:
    out[0] = instruction.number;
    break;
  case Expr::index:
    for (int64_t i = 0; i < n; ++i)
      out[i] = double(index + i);
    break;
  case Expr::read:
    break;
  case Expr::add:
    each([](double x, double y) { return x + y; }, a, b, out, n);
    break;
  case Expr::sub:
    each([](double x, double y) { return x - y; }, a, b, out, n);
    break;
  case Expr::mul:
    each([](double x, double y) { return x * y; }, a, b, out, n);
    break;
  case Expr::div:
    each([](double x, double y) { return x / y; }, a, b, out, n);
    break;
  case Expr::floor_div:
    each([=](double x, double y) { return whole && y == 0 ? 0 : std::floor(x / y); }, a, b, out, n);
    break;
  case Expr::mod:
    each([=](double x, double y) { return whole && y == 0 ? 0 : x - std::floor(x / y) * y; }, a, b, out, n);
    break;
  case Expr::power:
    if (!b.run && *b.at == 2)
      each([](double x) { return x * x; }, a, out, n);
    else
      each([=](double x, double y) { return whole ? std::trunc(std::pow(x, y)) : std::pow(x, y); }, a, b, out, n);
    break;
  case Expr::negate:
    each([](double x) { return -x; }, a, out, n);
    break;
  case Expr::minimum:
    each(smaller, a, b, out, n);
    break;
  case Expr::maximum:
    each(larger, a, b, out, n);
    break;
  case Expr::absolute:
    each([](double x) { return std::fabs(x); }, a, out, n);
    break;
  case Expr::less:
    each([](double x, double y) { return double(x < y); }, a, b, out, n);
    break;
  case Expr::less_equal:
    each([](double x, double y) { return double(x <= y); }, a, b, out, n);
    break;
  case Expr::greater:
    each([](double x, double y) { return double(x > y); }, a, b, out, n);
    break;
  case Expr::greater_equal:
    each([](double x, double y) { return double(x >= y); }, a, b, out, n);
    break;
  case Expr::equal:
    each([](double x, double y) { return double(x == y); }, a, b, out, n);
    break;
  case Expr::not_equal:
    each([](double x, double y) { return double(x != y); }, a, b, out, n);
    break;
  case Expr::logical_and:
    each([](double x, double y) { return double(x != 0 && y != 0); }, a, b, out, n);
    break;
  case Expr::logical_or:
    each([](double x, double y) { return double(x != 0 || y != 0); }, a, b, out, n);
    break;
  case Expr::logical_not:
    each([](double x) { return double(x == 0); }, a, out, n);
    break;
  case Expr::select: {
    const Register &c = registers[instruction.args[2]];
    for (int64_t i = 0; i < n; ++i) {
      const Register &taken = a.at[a.run ? i : 0] != 0 ? b : c;
      out[i] = taken.at[taken.run ? i : 0];
    }
    break;
  }
  case Expr::cast:
    each([=](double x) { return cast_to(instruction.type, x); }, a, out, n);
    break;
  case Expr::exp:
    each([](double x) { return std::exp(x); }, a, out, n);
    break;
  case Expr::log:
    each([](double x) { return std::log(x); }, a, out, n);
    break;
  case Expr::sqrt:
    each([](double x) { return std::sqrt(x); }, a, out, n);
    break;
  case Expr::sin:
    each([](double x) { return std::sin(x); }, a, out, n);
    break;
  case Expr::cos:
    each([](double x) { return std::cos(x); }, a, out, n);
    break;
  case Expr::tanh:
    each([](double x) { return std::tanh(x); }, a, out, n);
    break;
  case Expr::erf:
    each([](double x) { return std::erf(x); }, a, out, n);
    break;
  case Expr::floor:
    each([](double x) { return std::floor(x); }, a, out, n);
    break;
  case Expr::philox:
    for (int64_t i = 0; i < n; ++i) {
      uint32_t words[6];
      for (int k = 0; k < 6; ++k) {
        const Register &from = registers[instruction.args[k]];
        words[k] = uint32_t(int64_t(from.at[from.run ? i : 0]));
      }
      out[i] = double(int32_t(philox(words, words + 2)[size_t(instruction.number)]));
    }
    break;
  }
}

} // namespace heddle::interp
