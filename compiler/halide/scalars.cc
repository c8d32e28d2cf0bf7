// One case per scalar op of arith, math, affine, linalg and tensor that a kernel may hold. Floating-point comparisons,
// sums, products and quotients are IEEE's: a maximum of no numbers and a mask of the caller's are infinite, and
// Halide's own operators let LLVM compute as if nothing were. What a reduction adds up may be contracted and
// reassociated.
#include "compiler/halide/scalars.h"

#include "compiler/halide/affine.h"
#include "compiler/halide/infinities.h"
#include "compiler/halide/lower.h"
#include "compiler/halide/math.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <bit>
#include <cmath>
#include <limits>

namespace heddle {

using Halide::Expr;
namespace arith = mlir::arith;

std::optional<Halide::Type> halide_type(mlir::Type type) {
  if (type.isF32())
    return Halide::Float(32);
  if (type.isF64())
    return Halide::Float(64);
  if (type.isF16())
    return Halide::Float(16);
  if (type.isBF16())
    return Halide::BFloat(16);
  if (type.isIndex())
    return Halide::Int(32);
  auto integer = llvm::dyn_cast<mlir::IntegerType>(type);
  if (!integer)
    return std::nullopt;
  unsigned width = integer.getWidth();
  if (width == 1)
    return Halide::Bool();
  if (width != 8 && width != 16 && width != 32 && width != 64)
    return std::nullopt;
  return integer.isUnsigned() ? Halide::UInt(width) : Halide::Int(width);
}

static Halide::Type type_of(mlir::Value value) { return halide_type(value.getType()).value_or(Halide::Int(32)); }

static Expr constant(mlir::TypedAttr attr, Halide::Type type) {
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(attr))
    return Halide::Internal::make_const(type, real.getValueAsDouble());
  auto integer = llvm::dyn_cast<mlir::IntegerAttr>(attr);
  if (!integer)
    return {};
  if (type.is_bool())
    return Halide::Internal::make_bool(!integer.getValue().isZero());
  if (type == Halide::Int(32) && (integer.getValue().isMinSignedValue() || integer.getValue().isMaxSignedValue())) {
    // The greatest or least of no numbers, beside terms such as i + 1 of a condition: Halide would take the 1 out of
    // both and find that it overflows. The bits of a float it does not look into.
    Expr one = Halide::reinterpret(type, Halide::Internal::make_const(Halide::Float(32), 1.0));
    int32_t other = std::bit_cast<int32_t>(1.0f) ^ int32_t(integer.getValue().getSExtValue());
    return one ^ other;
  }
  return Halide::Internal::make_const(type, integer.getValue().getSExtValue());
}

void Scalars::fail(mlir::Operation *op, const std::string &what) {
  if (error_)
    return;
  std::string place;
  llvm::raw_string_ostream stream(place);
  op->getLoc().print(stream);
  error_ = Error{"`" + op->getName().getStringRef().str() + "` " + what + " (" + place + ")"};
}

namespace {

class Selects : public Halide::Internal::IRGraphVisitor {
public:
  bool any = false;

private:
  using IRGraphVisitor::visit;
  void visit(const Halide::Internal::Select *) override { any = true; }
  void visit(const Halide::Internal::Call *call) override {
    IRGraphVisitor::visit(call);
    if (call->call_type == Halide::Internal::Call::Halide)
      for (const Expr &of_stage : Halide::Internal::Function(call->func).values())
        of_stage.accept(this);
  }
};

/// A place that is chosen, one choice of which is data with one limit (`min(15, k[i])`), has a range with one end.
/// Halide 21 writes the other one, which has no type, for a number where the place is a let, and its simplifier stops.
bool lacks_an_end(mlir::Value value, const Expr &expr) {
  auto users = value.getUsers();
  auto is_place = [](mlir::Operation *user) { return llvm::isa<arith::IndexCastOp>(user); };
  if (expr.type() != Halide::Int(32) || llvm::none_of(users, is_place) ||
      !llvm::all_of(users, [&](mlir::Operation *user) { return is_place(user) || llvm::isa<arith::CmpIOp>(user); }) ||
      !reads_tensors(expr))
    return false;
  Selects selects;
  expr.accept(&selects);
  return selects.any;
}

/// The same, of which Halide knows that it is a number of 32 bits.
Expr with_both_ends(const Expr &place) {
  using Halide::Internal::Call;
  Halide::Type type = place.type();
  return Call::make(type, Call::unsafe_promise_clamped, {place, type.min(), type.max()}, Call::PureIntrinsic);
}

} // namespace

Expr Scalars::value(mlir::Value value) {
  if (auto found = known_.find(value); found != known_.end())
    return found->second;
  Expr expr;
  if (mlir::Operation *op = value.getDefiningOp()) {
    if (!halide_type(value.getType()))
      fail(op, "makes a type that kernels don't compute with");
    else if (op->getNumResults() == 2)
      expr = extended(*op)[llvm::cast<mlir::OpResult>(value).getResultNumber()];
    else
      expr = translate(*op);
  }
  if (!expr.defined()) {
    if (mlir::Operation *op = value.getDefiningOp())
      fail(op, "has no form in a kernel");
    else
      error_ = error_ ? error_ : Error{"a kernel reads a value that isn't one of its arguments"};
    expr = Halide::Internal::make_zero(type_of(value));
  }
  if (lacks_an_end(value, expr))
    expr = with_both_ends(expr);
  if (mlir::Operation *op = value.getDefiningOp(); op && depths_ && !error_)
    expr = stored_where_deep(*op, expr);
  known_[value] = expr;
  return expr;
}

void Scalars::begin_body(std::vector<std::string> loops, mlir::ValueRange changing) {
  loop_names_ = std::move(loops);
  depths_.emplace();
  for (mlir::Value value : changing)
    depths_->insert({value, varies});
}

bool Scalars::uses_loops(const Expr &expr) const {
  return llvm::any_of(loop_names_,
                      [&](const std::string &loop) { return Halide::Internal::expr_uses_var(expr, loop); });
}

int Scalars::depth_of(mlir::Value value) {
  if (auto found = depths_->find(value); found != depths_->end())
    return found->second;
  auto known = known_.find(value);
  return (*depths_)[value] = known != known_.end() && uses_loops(known->second) ? varies : 0;
}

/// By an update, of whose values Halide says nothing.
Expr Scalars::stored_where_deep(mlir::Operation &op, Expr expr) {
  constexpr int deepest = 4;
  bool function = llvm::isa<mlir::math::MathDialect>(op.getDialect()), real = expr.type().is_float(),
       read = llvm::isa<mlir::tensor::ExtractOp>(op), constant = Halide::Internal::is_const(expr);
  int depth = op.getNumOperands() == 0 && uses_loops(expr) ? varies : 0;
  for (mlir::Value operand : op.getOperands()) {
    int before = depth_of(operand);
    depth = depth == varies || before == varies ? varies : std::max(depth, before);
  }
  if (depth != varies)
    depth = read ? 0 : depth + (constant || !real ? 0 : function ? 2 : 1);
  if (depth >= deepest && op.getNumResults() == 1 && real) { // whole numbers may be places
    Halide::Func stored("stored");
    stored() = Halide::undef(expr.type());
    stored() = expr;
    stored.compute_root();
    stored.update().unscheduled();
    expr = stored();
    depth = 0;
  }
  for (mlir::Value result : op.getResults())
    (*depths_)[result] = depth;
  return expr;
}

/// a / b: by what is the same for all lanes as a product with its reciprocal.
Expr Scalars::quotient(const Expr &a, const Expr &b) {
  using namespace Halide::Internal;
  if (is_const_zero(b)) // Halide refuses it; infinite, or NaN, all the same
    return math::strict_mul(a, make_const(b.type(), std::numeric_limits<double>::infinity()));
  if (auto *divisor = b.as<FloatImm>(); divisor && std::isnormal(float(1 / divisor->value)))
    return math::strict_mul(a, make_const(b.type(), 1 / divisor->value));
  Expr one = make_one(b.type());
  if (!lane_.empty() && a.type() == Halide::Float(32) && !is_const(a) && expr_uses_var(a, lane_) &&
      !expr_uses_var(b, lane_))
    return math::strict_mul(a, math::strict_div(one, b));
  return math::strict_div(a, b);
}

/// a ∘ b as IEEE has it, or contractible.
Expr Scalars::combine(mlir::Operation &op, Halide::Internal::IRNodeType node) {
  using Node = Halide::Internal::IRNodeType;
  Expr a = operand(op, 0), b = operand(op, 1);
  bool free = &op == combiner_ || (node == Node::Mul && op.hasOneUse() && *op.user_begin() == combiner_ &&
                                   llvm::none_of(op.getOperands(), is_one_more));
  switch (node) {
  case Node::Add:
    return free ? a + b : math::strict_add(a, b);
  case Node::Sub:
    return free ? a - b : math::strict_sub(a, b);
  case Node::Mul:
    return free ? a * b : math::strict_mul(a, b);
  default:
    return quotient(a, b);
  }
}

static Expr compare(arith::CmpIOp op, Expr a, Expr b) {
  using P = arith::CmpIPredicate;
  P predicate = op.getPredicate();
  if (predicate >= P::ult && a.type().is_int()) {
    Halide::Type unsigned_type = a.type().with_code(Halide::Type::UInt);
    a = cast(unsigned_type, a);
    b = cast(unsigned_type, b);
  } else if (a.type() == Halide::Int(32)) {
    cancel_common_terms(a, b);
  }
  switch (predicate) {
  case P::eq:
    return a == b;
  case P::ne:
    return a != b;
  case P::slt:
  case P::ult:
    return a < b;
  case P::sle:
  case P::ule:
    return a <= b;
  case P::sgt:
  case P::ugt:
    return a > b;
  case P::sge:
  case P::uge:
    return a >= b;
  }
  return {};
}

static Expr compare(arith::CmpFOp op, Expr a, Expr b) {
  using namespace math;
  using P = arith::CmpFPredicate;
  auto infinite = [](const Expr &x) {
    auto *number = x.as<Halide::Internal::FloatImm>();
    return number && !std::isfinite(number->value);
  };
  if (op.getLhs() == op.getRhs()) // NaN or not
    a = b = opaque(a);
  else if (infinite(b))
    a = opaque(a);
  else if (infinite(a))
    b = opaque(b);
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return Halide::Internal::const_false();
  case P::AlwaysTrue:
    return Halide::Internal::const_true();
  case P::OEQ:
    return equal(a, b);
  case P::OGT:
    return less(b, a);
  case P::OGE:
    return less_equal(b, a);
  case P::OLT:
    return less(a, b);
  case P::OLE:
    return less_equal(a, b);
  case P::ONE:
    return less(a, b) || less(b, a);
  case P::ORD:
    return equal(a, a) && equal(b, b);
  case P::UEQ:
    return !(less(a, b) || less(b, a));
  case P::UGT:
    return !less_equal(a, b);
  case P::UGE:
    return !less(a, b);
  case P::ULT:
    return !less_equal(b, a);
  case P::ULE:
    return !less(b, a);
  case P::UNE:
    return !equal(a, b);
  case P::UNO:
    return !(equal(a, a) && equal(b, b));
  }
  return {};
}

/// Unsigned division, remainder and shift on the bits of signed values.
template <class F> static Expr as_unsigned(Expr a, Expr b, F f) {
  Halide::Type type = a.type(), unsigned_type = type.with_code(Halide::Type::UInt);
  return cast(type, f(cast(unsigned_type, a), cast(unsigned_type, b)));
}

std::array<Expr, 2> Scalars::extended(mlir::Operation &op) {
  std::array<Expr, 2> results;
  Halide::Type type = type_of(op.getResult(0)), unsigned_type = type.with_code(Halide::Type::UInt);
  auto a = [&] { return cast(unsigned_type, operand(op, 0)); };
  auto b = [&] { return cast(unsigned_type, operand(op, 1)); };
  if (llvm::isa<arith::MulUIExtendedOp>(op) && type.bits() < 64) {
    Halide::Type wide = unsigned_type.widen();
    Expr product = cast(wide, a()) * cast(wide, b());
    results = {cast(type, product), cast(type, product >> type.bits())};
  } else if (llvm::isa<arith::AddUIExtendedOp>(op)) {
    Expr sum = a() + b();
    results = {cast(type, sum), sum < a()};
  }
  if (results[0].defined())
    for (auto [result, expr] : llvm::zip_equal(op.getResults(), results))
      known_[result] = expr;
  return results;
}

namespace {

class Reads : public Halide::Internal::IRGraphVisitor {
public:
  bool found = false;

private:
  using IRGraphVisitor::visit;
  void visit(const Halide::Internal::Call *call) override {
    found |= call->call_type == Halide::Internal::Call::Halide || call->call_type == Halide::Internal::Call::Image;
    IRGraphVisitor::visit(call);
  }
};

/// What of a value Halide decides whether to compute: stages, and whether what a tensor holds chooses among them.
/// A tensor from outside is read through a Func, too.
class Stages : public Halide::Internal::IRGraphVisitor {
public:
  explicit Stages(const Expr &e) { e.accept(this); }
  bool any = false, chosen = false;

private:
  using IRGraphVisitor::visit;
  void visit(const Halide::Internal::Call *call) override {
    if (call->call_type == Halide::Internal::Call::Halide) {
      const std::vector<Expr> &values = Halide::Internal::Function(call->func).values();
      auto *read = values.size() == 1 ? values[0].as<Halide::Internal::Call>() : nullptr;
      any |= !read || read->call_type != Halide::Internal::Call::Image;
    }
    IRGraphVisitor::visit(call);
  }
  void visit(const Halide::Internal::Select *select) override {
    chosen |= reads_tensors(select->condition);
    IRGraphVisitor::visit(select);
  }
};

/// Halide 21 leaves out a stage whose values aren't chosen. Where what a tensor holds decides, and the condition is
/// used twice, so that it is a let, it forms `not` and `and` of an unknown that is no bool (SkipStages.cpp): it is
/// shown a number there. That is no select, which it forms of the unknown, too.
bool needs_number(const Expr &condition, const Expr &a, const Expr &b) {
  if (!reads_tensors(condition))
    return false;
  Stages then(a);
  return (then.any && then.chosen) || Stages(b).any;
}

Expr choose(Expr condition, const Expr &a, const Expr &b) {
  if (needs_number(condition, a, b))
    condition = hidden_value(cast(Halide::Int(32), condition)) == 1;
  return select(condition, a, b);
}

} // namespace

bool reads_tensors(const Expr &value) {
  Reads reads;
  value.accept(&reads);
  return reads.found;
}

Expr Scalars::arithmetic(mlir::Operation &op) {
  using Node = Halide::Internal::IRNodeType;
  auto a = [&] { return operand(op, 0); };
  auto b = [&] { return operand(op, 1); };
  bool relaxed = &op == combiner_;
  bool truth = op.getNumResults() == 1 && op.getResult(0).getType().isInteger(1);
  return llvm::TypeSwitch<mlir::Operation *, Expr>(&op)
      .Case<arith::AddFOp>([&](auto) { return combine(op, Node::Add); })
      .Case<arith::SubFOp>([&](auto) { return combine(op, Node::Sub); })
      .Case<arith::MulFOp>([&](auto) { return combine(op, Node::Mul); })
      .Case<arith::DivFOp>([&](auto) { return combine(op, Node::Div); })
      // Halide's own minus would turn a sum of these into a difference, which it can't rearrange.
      .Case<arith::NegFOp>([&](auto) { return math::strict_mul(a(), Halide::Internal::make_const(a().type(), -1)); })
      // A reduction's maximum is one instruction and skips NaN; anywhere else NaN stays.
      .Case<arith::MaximumFOp>([&](auto) { return relaxed ? max(a(), b()) : math::maximum(a(), b()); })
      .Case<arith::MinimumFOp>([&](auto) { return relaxed ? min(a(), b()) : math::minimum(a(), b()); })
      .Case<arith::MaxNumFOp>([&](auto) {
        return relaxed ? max(a(), b()) : select(math::is_nan(a()), b(), math::less(a(), b()), b(), a());
      })
      .Case<arith::MinNumFOp>([&](auto) {
        return relaxed ? min(a(), b()) : select(math::is_nan(a()), b(), math::less(b(), a()), b(), a());
      })
      .Case<arith::AddIOp>([&](auto) { return truth ? a() != b() : a() + b(); })
      .Case<arith::SubIOp>([&](auto) { return truth ? a() != b() : a() - b(); })
      .Case<arith::MulIOp>([&](auto) { return truth ? a() && b() : a() * b(); })
      .Case<arith::AndIOp>([&](auto) { return truth ? a() && b() : a() & b(); })
      .Case<arith::OrIOp>([&](auto) { return truth ? a() || b() : a() | b(); })
      .Case<arith::XOrIOp>([&](auto) { return truth ? a() != b() : a() ^ b(); })
      .Case<arith::MaxSIOp>([&](auto) { return max(a(), b()); })
      .Case<arith::MinSIOp>([&](auto) { return min(a(), b()); })
      .Case<arith::MaxUIOp>([&](auto) { return as_unsigned(a(), b(), [](Expr x, Expr y) { return max(x, y); }); })
      .Case<arith::MinUIOp>([&](auto) { return as_unsigned(a(), b(), [](Expr x, Expr y) { return min(x, y); }); })
      .Case<arith::DivSIOp>([&](auto) { return Halide::div_round_to_zero(a(), b()); })
      .Case<arith::RemSIOp>([&](auto) { return Halide::mod_round_to_zero(a(), b()); })
      .Case<arith::DivUIOp>([&](auto) { return as_unsigned(a(), b(), [](Expr x, Expr y) { return x / y; }); })
      .Case<arith::RemUIOp>([&](auto) { return as_unsigned(a(), b(), [](Expr x, Expr y) { return x % y; }); })
      // Halide's quotient rounds so that the remainder is not negative: down for positive divisors.
      .Case<arith::FloorDivSIOp>([&](auto) {
        Expr exact = a() / b();
        return Halide::Internal::is_positive_const(b()) ? exact : select(b() > 0 || a() % b() == 0, exact, exact - 1);
      })
      .Case<arith::CeilDivSIOp>([&](auto) {
        Expr quotient = Halide::div_round_to_zero(a(), b());
        return Halide::Internal::is_positive_const(b())
                   ? (a() + b() - 1) / b()
                   : select((a() > 0) == (b() > 0) && quotient * b() != a(), quotient + 1, quotient);
      })
      .Case<arith::ShLIOp>([&](auto) { return a() << b(); })
      .Case<arith::ShRSIOp>([&](auto) { return a() >> b(); })
      .Case<arith::ShRUIOp>([&](auto) { return as_unsigned(a(), b(), [](Expr x, Expr y) { return x >> y; }); })
      .Case<arith::SelectOp>([&](auto) { return choose(a(), b(), operand(op, 2)); })
      .Case<arith::CmpIOp>([&](auto c) { return compare(c, a(), b()); })
      .Case<arith::CmpFOp>([&](auto c) { return compare(c, a(), b()); })
      .Default([](mlir::Operation *) { return Expr(); });
}

Expr Scalars::function(mlir::Operation &op) {
  auto a = [&] { return operand(op, 0); };
  auto one = [&] { return Halide::Internal::make_one(type_of(op.getResult(0))); };
  auto is_rough = [](auto function) {
    return bitEnumContainsAll(function.getFastmath(), arith::FastMathFlags::afn) && function.getType().isF32();
  };
  return llvm::TypeSwitch<mlir::Operation *, Expr>(&op)
      .Case<mlir::math::ExpOp>([&](auto exp) { return is_rough(exp) ? math::rough_exp(a()) : math::exp(a()); })
      .Case<mlir::math::Exp2Op>([&](auto) { return math::exp(a() * 0.693147180559945f); })
      .Case<mlir::math::ExpM1Op>([&](auto) { return math::exp(a()) - one(); })
      .Case<mlir::math::ErfOp>([&](auto erf) { return is_rough(erf) ? math::rough_erf(a()) : math::erf(a()); })
      .Case<mlir::math::TanhOp>([&](auto tanh) { return is_rough(tanh) ? math::rough_tanh(a()) : math::tanh(a()); })
      .Case<mlir::math::SqrtOp>([&](auto) { return sqrt(a()); })
      .Case<mlir::math::RsqrtOp>([&](auto) { return one() / sqrt(a()); })
      .Case<mlir::math::LogOp>([&](auto) { return math::log(a()); })
      .Case<mlir::math::Log2Op>([&](auto) { return math::log(a()) * 1.44269504088896f; })
      .Case<mlir::math::Log1pOp>([&](auto) { return math::log(a() + one()); })
      .Case<mlir::math::SinOp>([&](auto) { return math::sin(a()); })
      .Case<mlir::math::CosOp>([&](auto) { return math::cos(a()); })
      .Case<mlir::math::PowFOp, mlir::math::FPowIOp>([&](auto) { return math::power(a(), operand(op, 1)); })
      .Case<mlir::math::FmaOp>([&](auto) { return a() * operand(op, 1) + operand(op, 2); })
      .Case<mlir::math::AbsFOp, mlir::math::AbsIOp>([&](auto) { return cast(a().type(), abs(a())); })
      .Case<mlir::math::FloorOp>([&](auto) { return floor(a()); })
      .Case<mlir::math::CeilOp>([&](auto) { return ceil(a()); })
      .Case<mlir::math::TruncOp>([&](auto) { return trunc(a()); })
      .Case<mlir::math::RoundEvenOp>([&](auto) { return round(a()); })
      .Case<mlir::math::IsNaNOp>([&](auto) { return math::is_nan(a()); })
      .Case<mlir::math::IsInfOp>(
          [&](auto) { return math::equal(math::opaque(abs(a())), Halide::Internal::make_const(a().type(), HUGE_VAL)); })
      .Case<mlir::math::IsFiniteOp>(
          [&](auto) { return math::less(math::opaque(abs(a())), Halide::Internal::make_const(a().type(), HUGE_VAL)); })
      .Default([](mlir::Operation *) { return Expr(); });
}

/// A real number as an i32: without its fraction, stopped at the ends of the range, NaN as 0. The instruction gives the
/// least number for all that it cannot convert.
static Expr whole(const Expr &x) {
  auto number = [&](double value) { return Halide::Internal::make_const(x.type(), value); };
  Expr inside = select(math::less(x, number(0x1p31)) && math::less(number(-0x1p31), x), x, number(0));
  Expr outside = select(math::less(x, number(0)), Halide::Int(32).min(), Halide::Int(32).max());
  return select(math::equal(inside, x), cast<int32_t>(inside), math::is_nan(x), 0, outside);
}

Expr Scalars::conversion(mlir::Operation &op) {
  auto a = [&] { return operand(op, 0); };
  Halide::Type to = type_of(op.getResult(0));
  return llvm::TypeSwitch<mlir::Operation *, Expr>(&op)
      .Case<arith::FPToSIOp>([&](auto) { return to == Halide::Int(32) ? whole(a()) : cast(to, a()); })
      .Case<arith::IndexCastOp, arith::ExtFOp, arith::TruncFOp, arith::FPToUIOp>([&](auto) { return cast(to, a()); })
      .Case<arith::ExtSIOp, arith::SIToFPOp>(
          [&](auto) { return a().type().is_bool() ? -cast(to, a()) : cast(to, a()); }) // i1 true is -1
      .Case<arith::ExtUIOp, arith::UIToFPOp, arith::IndexCastUIOp>([&](auto) {
        Expr x = a();
        return cast(to, x.type().is_int() ? cast(x.type().with_code(Halide::Type::UInt), x) : x);
      })
      .Case<arith::TruncIOp>([&](auto) { return to.is_bool() ? (a() & 1) != 0 : cast(to, a()); })
      .Case<arith::BitcastOp>([&](auto) { return reinterpret(to, a()); })
      .Default([](mlir::Operation *) { return Expr(); });
}

Expr Scalars::translate(mlir::Operation &op) {
  auto operands = [&](mlir::ValueRange values) {
    std::vector<Expr> exprs;
    for (mlir::Value v : values)
      exprs.push_back(value(v));
    return exprs;
  };
  auto applied = [&](mlir::AffineMap map, mlir::ValueRange values) {
    std::vector<Expr> dims = operands(values.take_front(map.getNumDims())),
                      symbols = operands(values.drop_front(map.getNumDims())), results;
    for (mlir::AffineExpr expr : map.getResults())
      results.push_back(affine(expr, dims, symbols));
    return results;
  };
  Expr expr = llvm::TypeSwitch<mlir::Operation *, Expr>(&op)
                  .Case<arith::ConstantOp>([&](auto c) { return constant(c.getValue(), type_of(c)); })
                  .Case<mlir::linalg::IndexOp>([&](auto index) { return loops_[index.getDim()]; })
                  .Case<mlir::tensor::ExtractOp>(
                      [&](auto read) { return load_(read.getTensor(), operands(read.getIndices())); })
                  .Case<mlir::affine::AffineApplyOp>(
                      [&](auto apply) { return applied(apply.getAffineMap(), apply.getMapOperands())[0]; })
                  .Case<mlir::affine::AffineMinOp, mlir::affine::AffineMaxOp>([&](auto bound) {
                    std::vector<Expr> all = applied(bound.getAffineMap(), bound.getMapOperands());
                    Expr chosen = all[0];
                    for (size_t i = 1; i < all.size(); ++i)
                      chosen = llvm::isa<mlir::affine::AffineMinOp>(op) ? min(chosen, all[i]) : max(chosen, all[i]);
                    return chosen;
                  })
                  .Default([](mlir::Operation *) { return Expr(); });
  if (!expr.defined())
    expr = arithmetic(op);
  if (!expr.defined())
    expr = function(op);
  if (!expr.defined())
    expr = conversion(op);
  return expr;
}

} // namespace heddle
