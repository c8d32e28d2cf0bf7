// One visit of a node gives its value. Quotients are rounded down, as Halide's are.
#include "compiler/kernels/whole_numbers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {

using namespace mlir;
namespace hi = Halide::Internal;

namespace {

class Numbers : public hi::IRVisitor {
public:
  Numbers(OpBuilder &b, Location loc, const std::map<std::string, Value> &variables)
      : b(b), loc(loc), variables_(variables) {}

  Value of(const Halide::Expr &formula) {
    value_ = {};
    if (!failed_)
      formula.accept(this);
    failed_ |= !value_;
    return failed_ ? Value() : value_;
  }

private:
  using hi::IRVisitor::visit;

  template <class Op> void combine(const Halide::Expr &left, const Halide::Expr &right) {
    Value p = of(left), q = of(right);
    value_ = p && q ? Op::create(b, loc, p, q).getResult() : Value();
  }
  void compare(arith::CmpIPredicate how, const Halide::Expr &left, const Halide::Expr &right) {
    Value p = of(left), q = of(right);
    value_ = p && q ? arith::CmpIOp::create(b, loc, how, p, q).getResult() : Value();
  }
  void constant(int64_t number, Halide::Type type) {
    value_ = type.is_bool() ? arith::ConstantIntOp::create(b, loc, number, 1).getResult()
                            : arith::ConstantIndexOp::create(b, loc, number).getResult();
  }

  void visit(const hi::IntImm *op) override { constant(op->value, op->type); }
  void visit(const hi::UIntImm *op) override { constant(int64_t(op->value), op->type); }
  void visit(const hi::Variable *op) override {
    auto found = variables_.find(op->name);
    value_ = found == variables_.end() ? Value() : found->second;
  }
  void visit(const hi::Cast *op) override {
    of(op->value);
    if (op->type.bits() != op->value.type().bits() || !op->type.is_int())
      value_ = {};
  }
  void visit(const hi::Add *op) override { combine<arith::AddIOp>(op->a, op->b); }
  void visit(const hi::Sub *op) override { combine<arith::SubIOp>(op->a, op->b); }
  void visit(const hi::Mul *op) override { combine<arith::MulIOp>(op->a, op->b); }
  void visit(const hi::Div *op) override { combine<arith::FloorDivSIOp>(op->a, op->b); }
  void visit(const hi::Mod *op) override {
    Value p = of(op->a), q = of(op->b);
    if (!p || !q)
      return;
    Value whole = arith::MulIOp::create(b, loc, arith::FloorDivSIOp::create(b, loc, p, q), q);
    value_ = arith::SubIOp::create(b, loc, p, whole);
  }
  void visit(const hi::Min *op) override { combine<arith::MinSIOp>(op->a, op->b); }
  void visit(const hi::Max *op) override { combine<arith::MaxSIOp>(op->a, op->b); }
  void visit(const hi::And *op) override { combine<arith::AndIOp>(op->a, op->b); }
  void visit(const hi::Or *op) override { combine<arith::OrIOp>(op->a, op->b); }
  void visit(const hi::EQ *op) override { compare(arith::CmpIPredicate::eq, op->a, op->b); }
  void visit(const hi::NE *op) override { compare(arith::CmpIPredicate::ne, op->a, op->b); }
  void visit(const hi::LT *op) override { compare(arith::CmpIPredicate::slt, op->a, op->b); }
  void visit(const hi::LE *op) override { compare(arith::CmpIPredicate::sle, op->a, op->b); }
  void visit(const hi::GT *op) override { compare(arith::CmpIPredicate::sgt, op->a, op->b); }
  void visit(const hi::GE *op) override { compare(arith::CmpIPredicate::sge, op->a, op->b); }
  void visit(const hi::Select *op) override {
    Value condition = of(op->condition), p = of(op->true_value), q = of(op->false_value);
    value_ = condition && p && q ? arith::SelectOp::create(b, loc, condition, p, q).getResult() : Value();
  }
  // Nothing else has a value here.
  void visit(const hi::Not *) override { value_ = {}; }
  void visit(const hi::Call *) override { value_ = {}; }
  void visit(const hi::Let *) override { value_ = {}; }
  void visit(const hi::FloatImm *) override { value_ = {}; }
  void visit(const hi::Load *) override { value_ = {}; }

  OpBuilder &b;
  Location loc;
  const std::map<std::string, Value> &variables_;
  Value value_;
  bool failed_ = false;
};

} // namespace

Value whole_number(OpBuilder &b, Location loc, const Halide::Expr &formula,
                   const std::map<std::string, Value> &variables) {
  return Numbers(b, loc, variables).of(formula);
}

} // namespace heddle
