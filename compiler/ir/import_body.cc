// Scalar expressions as arith and math ops. Index arithmetic is kept as one affine.apply wherever it is affine, for
// that is what later passes read ranges and places from. Both arms of a condition are computed and one is selected:
// a read that is not proven inside is therefore made at a clamped place. Narrow numbers are widened when they are read:
// bodies compute in f32 and i32.
#include "compiler/ir/import_entry.h"

namespace heddle::ir {

using namespace mlir;
using HExpr = heddle::Expr;

const Size &index_extent(const Stage &stage, int position) {
  size_t at = position;
  return at < stage.space.size() ? stage.space[at].extent : stage.over[at - stage.space.size()].extent;
}

bool is_operand(const HExpr &read, const Stage &stage) {
  std::vector<int> seen;
  for (auto [axis, at] : llvm::enumerate(read.args)) {
    if (at->op != HExpr::index || llvm::is_contained(seen, at->position) ||
        index_extent(stage, at->position) != read.tensor->shape[axis])
      return false;
    seen.push_back(at->position);
  }
  return true;
}

bool is_scalar(const HExpr &read) {
  return read.op == HExpr::read && read.tensor->shape.empty() && read.tensor->type == heddle::Type::i32;
}

mlir::Type to_mlir(heddle::Type type, MLIRContext *context) {
  Builder builder(context);
  switch (type) {
  case heddle::Type::f32:
    return builder.getF32Type();
  case heddle::Type::f16:
    return builder.getF16Type();
  case heddle::Type::bf16:
    return builder.getBF16Type();
  case heddle::Type::i32:
    return builder.getI32Type();
  case heddle::Type::i8:
    return builder.getI8Type();
  case heddle::Type::boolean:
    return builder.getI1Type();
  }
  llvm_unreachable("a type is one of these");
}

heddle::Type computed_as(heddle::Type type) {
  if (is_narrow_real(type))
    return heddle::Type::f32;
  return type == heddle::Type::i8 ? heddle::Type::i32 : type;
}

bool is_narrow_real(heddle::Type type) { return type == heddle::Type::f16 || type == heddle::Type::bf16; }

mlir::Value widen(OpBuilder &builder, Location loc, mlir::Value value) {
  mlir::Type type = value.getType();
  if (type.isF16() || type.isBF16())
    return arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
  if (type.isInteger(8))
    return arith::ExtSIOp::create(builder, loc, builder.getI32Type(), value);
  return value;
}

mlir::Value narrow(OpBuilder &builder, Location loc, mlir::Value value, mlir::Type type, bool always) {
  if (value.getType() == type)
    return value;
  if (isa<IntegerType>(type))
    return arith::TruncIOp::create(builder, loc, type, value);
  auto rounded = arith::TruncFOp::create(builder, loc, type, value);
  if (!always)
    rounded.setFastmath(arith::FastMathFlags::contract);
  return rounded;
}

mlir::Value BodyWriter::constant(mlir::Type type, double value, Location loc) {
  TypedAttr attribute;
  if (auto real = dyn_cast<FloatType>(type)) {
    APFloat number(value);
    bool lost = false;
    number.convert(real.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    attribute = FloatAttr::get(type, number);
  } else {
    attribute = IntegerAttr::get(type, int64_t(value));
  }
  return arith::ConstantOp::create(builder_, loc, attribute);
}

AffineExpr BodyWriter::formula(const HExpr &expr) {
  constexpr int64_t largest = 1000; // what works on formulas visits shared parts as often as they are used
  if (auto known = formulas_.find(&expr); known != formulas_.end())
    return known->second.expr;
  Formula made{new_formula(expr), 1};
  for (const HExpr *arg : expr.args)
    if (auto part = formulas_.find(arg); part != formulas_.end())
      made.size += part->second.size;
  if (made.size > largest)
    made.expr = {};
  made.size = std::min(made.size, largest + 1);
  formulas_[&expr] = made;
  return made.expr;
}

AffineExpr BodyWriter::new_formula(const HExpr &expr) {
  MLIRContext *context = builder_.getContext();
  auto constant_of = [](AffineExpr e) { return dyn_cast<AffineConstantExpr>(e); };
  switch (expr.op) {
  case HExpr::integer:
    return getAffineConstantExpr(expr.whole, context);
  case HExpr::index:
    return getAffineDimExpr(expr.position, context);
  case HExpr::size:
    if (expr.extent.is_constant())
      return getAffineConstantExpr(expr.extent.constant(), context);
    return symbol({.size = expr.extent});
  case HExpr::loop_index:
    return symbol({.loop = expr.position});
  case HExpr::read:
    return is_scalar(expr) ? symbol({.scalar = expr.tensor}) : AffineExpr();
  case HExpr::negate: {
    AffineExpr inner = formula(*expr.args[0]);
    return inner ? -inner : inner;
  }
  case HExpr::add:
  case HExpr::sub:
  case HExpr::mul:
  case HExpr::floor_div:
  case HExpr::mod:
    break;
  default:
    return {};
  }
  AffineExpr left = formula(*expr.args[0]), right = formula(*expr.args[1]);
  if (!left || !right)
    return {};
  if (expr.op == HExpr::add)
    return left + right;
  if (expr.op == HExpr::sub)
    return left - right;
  if (expr.op == HExpr::mul)
    return constant_of(left) || constant_of(right) ? left * right : AffineExpr();
  auto divisor = constant_of(right);
  if (!divisor || divisor.getValue() <= 0)
    return {};
  return expr.op == HExpr::floor_div ? left.floorDiv(divisor) : left % divisor;
}

AffineExpr BodyWriter::symbol(const Symbol &symbol) {
  auto found = llvm::find(symbols_, symbol);
  int number = found - symbols_.begin();
  if (found == symbols_.end())
    symbols_.push_back(symbol);
  return getAffineSymbolExpr(number, builder_.getContext());
}

mlir::Value BodyWriter::write_symbol(const Symbol &symbol, Location loc) {
  if (symbol.loop >= 0)
    return around_.loop(symbol.loop);
  if (symbol.scalar)
    return arith::IndexCastOp::create(builder_, loc, builder_.getIndexType(), around_.scalar(*symbol.scalar));
  return around_.size(symbol.size);
}

mlir::Value BodyWriter::write_formula(AffineExpr formula, Location loc) {
  if (auto number = dyn_cast<AffineConstantExpr>(formula))
    return arith::ConstantIndexOp::create(builder_, loc, number.getValue());
  // Only the indices and sizes that occur, renumbered, so that equal formulas are equal ops.
  SmallVector<AffineExpr> dims, symbols;
  SmallVector<mlir::Value> operands;
  int n_dims = 0, n_symbols = 0;
  int n_indices = around_.stage.space.size() + around_.stage.over.size();
  for (int i = 0; i < n_indices; ++i) {
    bool used = formula.isFunctionOfDim(i);
    dims.push_back(used ? getAffineDimExpr(n_dims, builder_.getContext()) : AffineExpr());
    if (used) {
      mlir::Value &index = indices_[i];
      if (!index)
        index = linalg::IndexOp::create(builder_, loc, i);
      operands.push_back(index);
      ++n_dims;
    }
  }
  if (isa<AffineDimExpr>(formula))
    return operands[0];
  for (size_t i = 0; i < symbols_.size(); ++i) {
    bool used = formula.isFunctionOfSymbol(i);
    symbols.push_back(used ? getAffineSymbolExpr(n_symbols, builder_.getContext()) : AffineExpr());
    if (used) {
      operands.push_back(write_symbol(symbols_[i], loc));
      ++n_symbols;
    }
  }
  if (isa<AffineSymbolExpr>(formula))
    return operands[0];
  // unused entries must still be expressions
  for (AffineExpr &e : dims)
    e = e ? e : getAffineConstantExpr(0, builder_.getContext());
  for (AffineExpr &e : symbols)
    e = e ? e : getAffineConstantExpr(0, builder_.getContext());
  AffineMap map = AffineMap::get(n_dims, n_symbols, formula.replaceDimsAndSymbols(dims, symbols));
  return affine::AffineApplyOp::create(builder_, loc, map, operands);
}

mlir::Value BodyWriter::write_place(const HExpr &at, const Size &extent, bool inside, Location loc) {
  AffineExpr affine = formula(at);
  mlir::Value place;
  if (affine)
    place = write_formula(affine, loc);
  else if (around_.on_host)
    place = write_wide(at, loc);
  else
    place = arith::IndexCastOp::create(builder_, loc, builder_.getIndexType(), write(at));
  if (inside)
    return place;
  Size end = extent - Size(1);
  mlir::Value last =
      end.is_constant() ? arith::ConstantIndexOp::create(builder_, loc, end.constant()).getResult() : around_.size(end);
  mlir::Value below = arith::MinSIOp::create(builder_, loc, place, last);
  return arith::MaxSIOp::create(builder_, loc, below, arith::ConstantIndexOp::create(builder_, loc, 0));
}

mlir::Value BodyWriter::write_extract(const HExpr &read, Location loc) {
  SmallVector<mlir::Value> places;
  for (auto [axis, at] : llvm::enumerate(read.args)) {
    const Size &extent = read.tensor->shape[axis];
    bool whole = at->op == HExpr::index && index_extent(around_.stage, at->position) == extent;
    places.push_back(write_place(*at, extent, read.always_inside || whole, loc));
  }
  return tensor::ExtractOp::create(builder_, loc, around_.tensor(*read.tensor), places);
}

mlir::Value BodyWriter::write_power(const HExpr &expr, Location loc) {
  mlir::Value base = write(*expr.args[0]);
  const HExpr &by = *expr.args[1];
  double exponent = by.op == HExpr::integer ? double(by.whole) : by.op == HExpr::real ? by.number : 0;
  if (exponent == 1 || exponent == 2 || exponent == 3 || exponent == 4) { // x ** 2 is a product, exactly
    mlir::Value out = base;
    auto times = [&](mlir::Value a, mlir::Value b) -> mlir::Value {
      if (is_floating(expr.type))
        return arith::MulFOp::create(builder_, loc, a, b);
      return arith::MulIOp::create(builder_, loc, a, b);
    };
    if (exponent >= 2)
      out = times(base, base);
    if (exponent == 3)
      out = times(out, base);
    if (exponent == 4)
      out = times(out, out);
    return out;
  }
  mlir::Value power = write(by);
  if (!is_floating(expr.type))
    return math::IPowIOp::create(builder_, loc, base, power);
  return math::PowFOp::create(builder_, loc, base, power);
}

/// a // b or a % b of whole numbers. By a number of the call it may be 0, which gives 0, or -1, which may leave 32 bits
/// and wraps; arith's own quotient, and the machine's, are undefined there.
mlir::Value BodyWriter::write_whole_quotient(const HExpr &expr, mlir::Value a, mlir::Value b, Location loc) {
  OpBuilder &out = builder_;
  auto number = [&](int64_t n) { return constant(a.getType(), n, loc); };
  auto equals = [&](mlir::Value x, int64_t n) -> mlir::Value {
    return arith::CmpIOp::create(out, loc, arith::CmpIPredicate::eq, x, number(n));
  };
  bool known = expr.args[1]->op == HExpr::integer && expr.args[1]->whole > 0;
  mlir::Value quotient, zero;
  if (known) {
    quotient = arith::FloorDivSIOp::create(out, loc, a, b);
  } else {
    zero = equals(b, 0);
    mlir::Value special = arith::OrIOp::create(out, loc, zero, equals(b, -1));
    mlir::Value divisor = arith::SelectOp::create(out, loc, special, number(1), b);
    mlir::Value ordinary = arith::FloorDivSIOp::create(out, loc, a, divisor);
    mlir::Value product = arith::MulIOp::create(out, loc, a, b); // 0 or -a
    quotient = arith::SelectOp::create(out, loc, special, product, ordinary);
  }
  if (expr.op == HExpr::floor_div)
    return quotient;
  mlir::Value rest = arith::SubIOp::create(out, loc, a, arith::MulIOp::create(out, loc, quotient, b));
  return known ? rest : arith::SelectOp::create(out, loc, zero, number(0), rest);
}

mlir::Value BodyWriter::write_arithmetic(const HExpr &expr, Location loc) {
  if (expr.op == HExpr::power)
    return write_power(expr, loc);
  bool real = is_floating(expr.type);
  mlir::Value a = write(*expr.args[0]);
  mlir::Value b = expr.args.size() > 1 ? write(*expr.args[1]) : mlir::Value();
  OpBuilder &out = builder_;
  if (real)
    switch (expr.op) {
    case HExpr::add:
      return arith::AddFOp::create(out, loc, a, b);
    case HExpr::sub:
      return arith::SubFOp::create(out, loc, a, b);
    case HExpr::mul:
      return arith::MulFOp::create(out, loc, a, b);
    case HExpr::div:
      return arith::DivFOp::create(out, loc, a, b);
    case HExpr::negate:
      return arith::NegFOp::create(out, loc, a);
    case HExpr::minimum:
      return arith::MinimumFOp::create(out, loc, a, b);
    case HExpr::maximum:
      return arith::MaximumFOp::create(out, loc, a, b);
    case HExpr::absolute:
      return math::AbsFOp::create(out, loc, a);
    case HExpr::floor_div:
    case HExpr::mod: {
      mlir::Value quotient = arith::DivFOp::create(out, loc, a, b);
      mlir::Value floored = math::FloorOp::create(out, loc, quotient);
      if (expr.op == HExpr::floor_div)
        return floored;
      mlir::Value whole = arith::MulFOp::create(out, loc, floored, b);
      return arith::SubFOp::create(out, loc, a, whole);
    }
    default:
      break;
    }
  switch (expr.op) {
  case HExpr::add:
    return arith::AddIOp::create(out, loc, a, b);
  case HExpr::sub:
    return arith::SubIOp::create(out, loc, a, b);
  case HExpr::mul:
    return arith::MulIOp::create(out, loc, a, b);
  case HExpr::floor_div:
  case HExpr::mod:
    return write_whole_quotient(expr, a, b, loc);
  case HExpr::negate:
    return arith::SubIOp::create(out, loc, constant(a.getType(), 0, loc), a);
  case HExpr::minimum:
    return arith::MinSIOp::create(out, loc, a, b);
  case HExpr::maximum:
    return arith::MaxSIOp::create(out, loc, a, b);
  case HExpr::absolute:
    return math::AbsIOp::create(out, loc, a);
  default:
    llvm_unreachable("the checker admits no other operator on integers");
  }
}

mlir::Value BodyWriter::write_wide(const HExpr &expr, Location loc) {
  auto [slot, is_new] = wide_.try_emplace(&expr);
  if (is_new) {
    mlir::Value value = write_wide_arithmetic(expr, loc);
    wide_[&expr] = value;
    return value;
  }
  return slot->second;
}

mlir::Value BodyWriter::write_wide_arithmetic(const HExpr &expr, Location loc) {
  mlir::Type wide = around_.on_host ? mlir::Type(builder_.getIndexType()) : builder_.getI64Type();
  if (expr.op == HExpr::integer)
    return arith::ConstantOp::create(builder_, loc, builder_.getIntegerAttr(wide, expr.whole));
  if (AffineExpr affine = formula(expr); affine && (around_.on_host || expr.args.empty())) {
    mlir::Value value = write_formula(affine, loc);
    return around_.on_host ? value : arith::IndexCastOp::create(builder_, loc, wide, value);
  }
  auto arg = [&](unsigned i) { return write_wide(*expr.args[i], loc); };
  switch (expr.op) {
  case HExpr::add:
    return arith::AddIOp::create(builder_, loc, arg(0), arg(1));
  case HExpr::sub:
    return arith::SubIOp::create(builder_, loc, arg(0), arg(1));
  case HExpr::mul:
    return arith::MulIOp::create(builder_, loc, arg(0), arg(1));
  case HExpr::minimum:
    return arith::MinSIOp::create(builder_, loc, arg(0), arg(1));
  case HExpr::maximum:
    return arith::MaxSIOp::create(builder_, loc, arg(0), arg(1));
  case HExpr::negate: {
    mlir::Value zero = arith::ConstantOp::create(builder_, loc, builder_.getIntegerAttr(wide, 0));
    return arith::SubIOp::create(builder_, loc, zero, arg(0));
  }
  case HExpr::select: {
    mlir::Value condition = write(*expr.args[0]), yes = arg(1), no = arg(2);
    return arith::SelectOp::create(builder_, loc, condition, yes, no);
  }
  case HExpr::floor_div:
  case HExpr::mod: { // by 0 they are 0
    mlir::Value a = arg(0), b = arg(1);
    mlir::Value zero = arith::ConstantOp::create(builder_, loc, builder_.getIntegerAttr(wide, 0));
    mlir::Value one = arith::ConstantOp::create(builder_, loc, builder_.getIntegerAttr(wide, 1));
    mlir::Value none = arith::CmpIOp::create(builder_, loc, arith::CmpIPredicate::eq, b, zero);
    mlir::Value by = arith::SelectOp::create(builder_, loc, none, one, b);
    mlir::Value result = arith::FloorDivSIOp::create(builder_, loc, a, by);
    if (expr.op == HExpr::mod)
      result = arith::SubIOp::create(builder_, loc, a, arith::MulIOp::create(builder_, loc, result, by));
    return arith::SelectOp::create(builder_, loc, none, zero, result);
  }
  default: // what proofs know nothing of has 32 bits
    mlir::Value value = widen(builder_, loc, write_narrow(expr, loc));
    if (around_.on_host)
      return arith::IndexCastOp::create(builder_, loc, wide, value);
    return arith::ExtSIOp::create(builder_, loc, wide, value);
  }
}

mlir::Value BodyWriter::write_comparison(const HExpr &expr, Location loc) {
  bool wide = around_.stage.exact && !is_floating(expr.args[0]->type) && expr.args[0]->type != heddle::Type::boolean;
  auto arg = [&](unsigned i) { return wide ? write_wide(*expr.args[i], loc) : write(*expr.args[i]); };
  mlir::Value a = arg(0), b = arg(1);
  int which = expr.op - HExpr::less; // less, less_equal, greater, greater_equal, equal, not_equal
  static constexpr arith::CmpFPredicate real[] = {arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
                                                  arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE,
                                                  arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE};
  static constexpr arith::CmpIPredicate whole[] = {arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
                                                   arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge,
                                                   arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne};
  static_assert(HExpr::not_equal - HExpr::less == 5, "the tables follow the order of Expr::Op");
  if (is_floating(expr.args[0]->type))
    return arith::CmpFOp::create(builder_, loc, real[which], a, b);
  return arith::CmpIOp::create(builder_, loc, whole[which], a, b);
}

mlir::Value BodyWriter::write_function(const HExpr &expr, Location loc) {
  mlir::Value x = write(*expr.args[0]);
  switch (expr.op) {
  case HExpr::exp:
    return math::ExpOp::create(builder_, loc, x);
  case HExpr::log:
    return math::LogOp::create(builder_, loc, x);
  case HExpr::sqrt:
    return math::SqrtOp::create(builder_, loc, x);
  case HExpr::sin:
    return math::SinOp::create(builder_, loc, x);
  case HExpr::cos:
    return math::CosOp::create(builder_, loc, x);
  case HExpr::tanh:
    return math::TanhOp::create(builder_, loc, x);
  case HExpr::erf:
    return math::ErfOp::create(builder_, loc, x);
  default:
    return math::FloorOp::create(builder_, loc, x);
  }
}

mlir::Value BodyWriter::write_cast(const HExpr &expr, Location loc) {
  mlir::Value x = write(*expr.args[0]);
  heddle::Type from = computed_as(expr.args[0]->type), to = computed_as(expr.type);
  mlir::Type type = to_mlir(to, builder_.getContext());
  if (is_narrow_real(expr.type)) { // what the author wrote as a conversion rounds; others have nothing to do
    if (!is_floating(from))
      x = write_number_as_real(x, from, loc);
    if (expr.rounds)
      x = widen(builder_, loc, narrow(builder_, loc, x, to_mlir(expr.type, builder_.getContext()), true));
    return x;
  }
  if (expr.type == heddle::Type::i8 && from != heddle::Type::boolean) {
    if (is_floating(from))
      x = write_whole(x, loc);
    x = arith::MaxSIOp::create(builder_, loc, x, constant(type, -128, loc));
    return arith::MinSIOp::create(builder_, loc, x, constant(type, 127, loc));
  }
  if (from == to)
    return x;
  if (to == heddle::Type::boolean) {
    mlir::Value zero = constant(x.getType(), 0, loc);
    if (is_floating(from))
      return arith::CmpFOp::create(builder_, loc, arith::CmpFPredicate::UNE, x, zero);
    return arith::CmpIOp::create(builder_, loc, arith::CmpIPredicate::ne, x, zero);
  }
  if (is_floating(to))
    return write_number_as_real(x, from, loc);
  if (from == heddle::Type::boolean)
    return arith::ExtUIOp::create(builder_, loc, type, x);
  return write_whole(x, loc);
}

mlir::Value BodyWriter::write_number_as_real(mlir::Value x, heddle::Type from, Location loc) {
  if (from == heddle::Type::boolean)
    return arith::UIToFPOp::create(builder_, loc, builder_.getF32Type(), x);
  return arith::SIToFPOp::create(builder_, loc, builder_.getF32Type(), x);
}

mlir::Value BodyWriter::write_whole(mlir::Value x, Location loc) {
  return arith::FPToSIOp::create(builder_, loc, builder_.getI32Type(), x);
}

mlir::Value BodyWriter::write(const HExpr &expr) {
  auto [slot, is_new] = written_.try_emplace(&expr);
  if (is_new) {
    mlir::Value value = write_new(expr, around_.location(expr.span));
    written_[&expr] = value;
    return value;
  }
  return slot->second;
}

mlir::Value BodyWriter::write_new(const HExpr &expr, Location loc) {
  bool wide = around_.stage.exact && expr.type == heddle::Type::i32 && expr.op != HExpr::read && !formula(expr);
  if (!wide)
    return write_narrow(expr, loc);
  mlir::Type type = builder_.getI32Type();
  if (around_.on_host)
    return arith::IndexCastOp::create(builder_, loc, type, write_wide(expr, loc));
  return arith::TruncIOp::create(builder_, loc, type, write_wide(expr, loc));
}

mlir::Value BodyWriter::write_narrow(const HExpr &expr, Location loc) {
  mlir::Type type = to_mlir(computed_as(expr.type), builder_.getContext());
  if (is_scalar(expr))
    return around_.scalar(*expr.tensor);
  if (expr.type == heddle::Type::i32 && expr.op != HExpr::integer)
    if (AffineExpr affine = formula(expr)) {
      if (auto number = dyn_cast<AffineConstantExpr>(affine))
        return constant(type, number.getValue(), loc);
      return arith::IndexCastOp::create(builder_, loc, type, write_formula(affine, loc));
    }
  switch (expr.op) {
  case HExpr::integer:
  case HExpr::boolean:
    return constant(type, expr.whole, loc);
  case HExpr::real:
    return constant(type, expr.number, loc);
  case HExpr::read:
    return widen(builder_, loc, is_operand(expr, around_.stage) ? around_.operand(expr) : write_extract(expr, loc));
  case HExpr::less:
  case HExpr::less_equal:
  case HExpr::greater:
  case HExpr::greater_equal:
  case HExpr::equal:
  case HExpr::not_equal:
    return write_comparison(expr, loc);
  case HExpr::logical_and: {
    mlir::Value a = write(*expr.args[0]), b = write(*expr.args[1]);
    return arith::AndIOp::create(builder_, loc, a, b);
  }
  case HExpr::logical_or: {
    mlir::Value a = write(*expr.args[0]), b = write(*expr.args[1]);
    return arith::OrIOp::create(builder_, loc, a, b);
  }
  case HExpr::logical_not: {
    mlir::Value a = write(*expr.args[0]);
    return arith::XOrIOp::create(builder_, loc, a, constant(type, 1, loc));
  }
  case HExpr::select: {
    mlir::Value c = write(*expr.args[0]), a = write(*expr.args[1]), b = write(*expr.args[2]);
    return arith::SelectOp::create(builder_, loc, c, a, b);
  }
  case HExpr::cast:
    return write_cast(expr, loc);
  case HExpr::exp:
  case HExpr::log:
  case HExpr::sqrt:
  case HExpr::sin:
  case HExpr::cos:
  case HExpr::tanh:
  case HExpr::erf:
  case HExpr::floor:
    return write_function(expr, loc);
  case HExpr::philox:
    return write_philox(expr, loc);
  default:
    return write_arithmetic(expr, loc);
  }
}

} // namespace heddle::ir
