// Folding of scalar expressions. Whole numbers stay within 64 bits while folding and are checked for overflow;
// reals are folded in double, as the interpreter would.
#include "dsl/check/builder.h"

#include "dsl/check/round.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace heddle::checking {

bool is_integer(Type type) { return type == Type::i32 || type == Type::i8; }

std::optional<double> constant(const Expr *e) {
  if (e->op == Expr::real)
    return e->number;
  if (e->op == Expr::integer || e->op == Expr::boolean)
    return static_cast<double>(e->whole);
  return std::nullopt;
}

std::optional<int64_t> whole_constant(const Expr *e) {
  return e->op == Expr::integer ? std::optional(e->whole) : std::nullopt;
}

std::optional<bool> truth(const Expr *e) {
  return e->op == Expr::boolean ? std::optional(e->whole != 0) : std::nullopt;
}

std::optional<Size> as_size(const Expr *e) {
  if (e->op == Expr::integer)
    return Size(e->whole);
  if (e->op == Expr::size)
    return e->extent;
  return std::nullopt;
}

Type common_type(Type a, Type b) {
  if (a == b)
    return a;
  if (is_floating(a) && is_floating(b))
    return Type::f32;
  if (is_floating(a))
    return a;
  return is_floating(b) ? b : Type::i32;
}

namespace {

Expr make(Expr::Op op, Type type, std::vector<const Expr *> args = {}) {
  Expr e;
  e.op = op;
  e.type = type;
  e.args = std::move(args);
  return e;
}

} // namespace

const Expr *Builder::keep(Expr e) {
  exprs_.push_back(std::move(e));
  return &exprs_.back();
}

const Expr *Builder::integer(int64_t value) {
  Expr e = make(Expr::integer, Type::i32);
  e.whole = value;
  return keep(std::move(e));
}

const Expr *Builder::real(double value, Type type) {
  Expr e = make(Expr::real, type);
  e.number = value;
  return keep(std::move(e));
}

const Expr *Builder::boolean(bool value) {
  Expr e = make(Expr::boolean, Type::boolean);
  e.whole = value;
  return keep(std::move(e));
}

const Expr *Builder::of_size(const Size &size) {
  if (size.is_constant())
    return integer(size.constant());
  Expr e = make(Expr::size, Type::i32);
  e.extent = size;
  return keep(std::move(e));
}

const Expr *Builder::index(int variable) {
  Expr e = make(Expr::index, Type::i32);
  e.position = variable;
  return keep(std::move(e));
}

const Expr *Builder::loop_index(int depth) {
  Expr e = make(Expr::loop_index, Type::i32);
  e.position = depth;
  return keep(std::move(e));
}

const Expr *Builder::read(const Tensor *tensor, std::vector<const Expr *> at, bool always_inside, Span span) {
  Expr e = make(Expr::read, tensor->type, std::move(at));
  e.tensor = tensor;
  e.always_inside = always_inside;
  e.span = span;
  return keep(std::move(e));
}

const Expr *Builder::select(const Expr *condition, const Expr *yes, const Expr *no) {
  if (auto known = truth(condition))
    return *known ? yes : no;
  return yes == no ? yes : keep(make(Expr::select, yes->type, {condition, yes, no}));
}

const Expr *Builder::convert(const Expr *value, Type type) {
  if (value->type == type)
    return value;
  if (auto number = constant(value)) {
    if (is_floating(type))
      return real(*number, type);
    if (type == Type::boolean)
      return boolean(*number != 0);
    if (std::isfinite(*number) && type == Type::i32)
      return integer(static_cast<int64_t>(std::clamp(*number, double(INT32_MIN), double(INT32_MAX))));
  }
  return keep(make(Expr::cast, type, {value}));
}

const Expr *Builder::cast(const Expr *value, Type type) {
  if (!is_floating(type) || type == Type::f32)
    return convert(value, type);
  if (auto number = constant(value))
    return real(round_to(type, *number), type);
  Expr e = make(Expr::cast, type, {value});
  e.rounds = true;
  return keep(std::move(e));
}

const Expr *Builder::stopped(const Expr *value) {
  if (!is_floating(value->type) || constant(value))
    return value;
  Expr e = *value;
  e.stopped = true;
  return keep(std::move(e));
}

const Expr *Builder::philox(int word, std::vector<const Expr *> key_and_counter) {
  Expr e = make(Expr::philox, Type::i32, std::move(key_and_counter));
  e.whole = word;
  return keep(std::move(e));
}

const Expr *Builder::with_args(const Expr *node, std::vector<const Expr *> args) {
  Expr e = *node;
  e.args = std::move(args);
  return keep(std::move(e));
}

const Expr *Builder::rewritten(const Expr *e, const std::function<const Expr *(const Expr *, const Expr *)> &f) {
  std::unordered_map<const Expr *, const Expr *> done;
  for (const Expr *node : nodes_of(e)) {
    std::vector<const Expr *> args;
    for (const Expr *arg : node->args)
      args.push_back(done.at(arg));
    const Expr *now = args == node->args ? node : with_args(node, std::move(args)), *other = f(node, now);
    done[node] = other ? other : now;
  }
  return done.at(e);
}

const Expr *Builder::apply(Expr::Op op, Type type, std::vector<const Expr *> args, Span span) {
  bool failed = false;
  const Expr *folded = nullptr;
  if (args[0]->type == Type::boolean) {
    auto a = truth(args[0]), b = args.size() > 1 ? truth(args[1]) : std::nullopt;
    if (op == Expr::logical_not && a)
      return boolean(!*a);
    if (op == Expr::logical_and && (a || b))
      return a ? (*a ? args[1] : args[0]) : (*b ? args[0] : args[1]);
    if (op == Expr::logical_or && (a || b))
      return a ? (*a ? args[0] : args[1]) : (*b ? args[1] : args[0]);
    if ((op == Expr::equal || op == Expr::not_equal) && a && b)
      return boolean((*a == *b) == (op == Expr::equal));
  } else if (is_integer(args[0]->type)) {
    folded = fold_whole(op, args, failed);
  } else {
    folded = fold_real(op, type, args);
  }
  if (failed)
    return nullptr;
  if (folded)
    return folded;
  Expr e = make(op, type, std::move(args));
  e.span = span;
  return keep(std::move(e));
}

namespace {

template <class T> std::optional<bool> compare(Expr::Op op, T a, T b) {
  switch (op) {
  case Expr::less:
    return a < b;
  case Expr::less_equal:
    return a <= b;
  case Expr::greater:
    return a > b;
  case Expr::greater_equal:
    return a >= b;
  case Expr::equal:
    return a == b;
  case Expr::not_equal:
    return a != b;
  default:
    return std::nullopt;
  }
}

} // namespace

namespace {

/// Whole numbers of the language are 32 bits wide, and so are the factors of a size. Its value always has 64.
bool fits(const Size &size) {
  bool good = size.constant() <= INT32_MAX && size.constant() >= INT32_MIN && size.magnitude() <= 0x1p62;
  for (const auto &term : size.terms())
    good &= term.factor <= INT32_MAX && term.factor >= INT32_MIN;
  return good;
}

} // namespace

constexpr size_t most_terms = 64; // of a product that is multiplied out

const Expr *Builder::fold_whole(Expr::Op op, const std::vector<const Expr *> &args, bool &failed) {
  auto a = as_size(args[0]);
  auto b = args.size() > 1 ? as_size(args[1]) : std::nullopt;
  bool constants = a && a->is_constant() && (args.size() == 1 || (b && b->is_constant()));
  if (constants && args.size() == 2) {
    int64_t x = a->constant(), y = b->constant(), z = 0;
    if (auto holds = compare(op, x, y))
      return boolean(*holds);
    failed = (op == Expr::add && __builtin_add_overflow(x, y, &z)) ||
             (op == Expr::sub && __builtin_sub_overflow(x, y, &z)) ||
             (op == Expr::mul && __builtin_mul_overflow(x, y, &z));
    bool divides = (op == Expr::floor_div || op == Expr::mod) && y < 0;
    if (divides) { // rounded down, as by a divisor above 0, for which sizes of the call are divided, too
      int64_t quotient = x / y - (x % y != 0 && x > 0);
      z = op == Expr::floor_div ? quotient : x - quotient * y;
    }
    failed |= z > INT32_MAX || z < INT32_MIN; // whole numbers are i32 in the language; sizes fit it too
    if (failed)
      return nullptr;
    if (divides)
      return integer(z);
  }
  if ((op == Expr::floor_div || op == Expr::mod) && b && b->is_constant() && b->constant() == 0) {
    failed = true;
    return nullptr;
  }
  bool zero_a = a && *a == Size(0), zero_b = b && *b == Size(0), one_a = a && *a == Size(1), one_b = b && *b == Size(1);
  auto sized = [&](const Size &size) -> const Expr * {
    failed = !fits(size);
    return failed ? nullptr : of_size(size);
  };
  switch (op) {
  case Expr::add:
    if (a && b)
      return sized(*a + *b);
    return zero_a ? args[1] : zero_b ? args[0] : nullptr;
  case Expr::sub:
    if (a && b)
      return sized(*a - *b);
    return zero_b ? args[0] : nullptr;
  case Expr::mul:
    if (a && b && (a->terms().size() + 1) * (b->terms().size() + 1) <= most_terms)
      return sized(*a * *b);
    if (zero_a || zero_b)
      return integer(0);
    return one_a ? args[1] : one_b ? args[0] : nullptr;
  case Expr::floor_div:
    if (a && b && b->is_constant() && b->constant() > 0)
      return sized(a->floor_div(b->constant()));
    return one_b ? args[0] : nullptr;
  case Expr::mod:
    if (a && b && b->is_constant() && b->constant() > 0)
      return sized(a->mod(b->constant()));
    return one_b ? integer(0) : nullptr;
  case Expr::minimum:
  case Expr::maximum:
    if (a && b && (*a - *b).is_constant())
      return ((*a - *b).constant() < 0) == (op == Expr::minimum) ? args[0] : args[1];
    return nullptr;
  case Expr::negate:
    return a ? sized(*a * -1) : nullptr;
  case Expr::absolute:
    return constants ? sized(Size(std::abs(a->constant()))) : nullptr;
  default:
    if (a && b && (*a - *b).is_constant()) // two run-time sizes at a fixed distance
      if (auto holds = compare(op, (*a - *b).constant(), int64_t(0)))
        return boolean(*holds);
    return nullptr;
  }
}

const Expr *Builder::fold_real(Expr::Op op, Type type, const std::vector<const Expr *> &args) {
  auto a = constant(args[0]), b = args.size() > 1 ? constant(args[1]) : std::nullopt;
  if (op == Expr::add && a && *a == 0)
    return args[1];
  if ((op == Expr::add || op == Expr::sub) && b && *b == 0)
    return args[0];
  if (op == Expr::mul && a && *a == 1)
    return args[1];
  if ((op == Expr::mul || op == Expr::div) && b && *b == 1)
    return args[0];
  if (!a || (args.size() > 1 && !b))
    return nullptr;
  switch (op) {
  case Expr::add:
    return real(*a + *b, type);
  case Expr::sub:
    return real(*a - *b, type);
  case Expr::mul:
    return real(*a * *b, type);
  case Expr::div:
    return real(*a / *b, type);
  case Expr::floor_div:
    return real(std::floor(*a / *b), type);
  case Expr::mod:
    return real(*a - *b * std::floor(*a / *b), type);
  case Expr::power:
    return real(std::pow(*a, *b), type);
  case Expr::minimum:
    return real(std::min(*a, *b), type);
  case Expr::maximum:
    return real(std::max(*a, *b), type);
  case Expr::negate:
    return real(-*a, type);
  case Expr::absolute:
    return real(std::abs(*a), type);
  case Expr::exp:
    return real(std::exp(*a), type);
  case Expr::log:
    return real(std::log(*a), type);
  case Expr::sqrt:
    return real(std::sqrt(*a), type);
  case Expr::sin:
    return real(std::sin(*a), type);
  case Expr::cos:
    return real(std::cos(*a), type);
  case Expr::tanh:
    return real(std::tanh(*a), type);
  case Expr::erf:
    return real(std::erf(*a), type);
  case Expr::floor:
    return real(std::floor(*a), type);
  default:
    if (auto holds = compare(op, *a, *b))
      return boolean(*holds);
    return nullptr;
  }
}

} // namespace heddle::checking
