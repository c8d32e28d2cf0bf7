// Before and after:
//
//   produce panel { for k { panel[k] = widen(weights[k]) } }        for tile {
//   consume panel {                                                   if (tile is the first)
//     for tile {                                                        for k { panel[k] = widen(weights[k])
//       for k { sum += row[k] * panel[k] }                                      sum += row[k] * panel[k] }
//     }                                                               else
//   }                                                                   for k { sum += row[k] * panel[k] }
//                                                                   }
#include "compiler/kernels/contraction/widening.h"

#include "compiler/halide/loops.h"

namespace heddle::contraction {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class HasLoop : public IRVisitor {
public:
  explicit HasLoop(const std::string &name) : name_(name) {}
  bool found = false;

private:
  using IRVisitor::visit;
  void visit(const For *op) override {
    found |= op->name == name_;
    IRVisitor::visit(op);
  }
  const std::string &name_;
};

class Pass : public IRMutator {
public:
  explicit Pass(const Widening &widening) : widening_(widening) {}

private:
  using IRMutator::visit;

  /// The copy and what reads it stand side by side. Only where both are as expected does anything change.
  Stmt visit(const Allocate *op) override {
    if (op->name != widening_.copy)
      return IRMutator::visit(op);
    tile_ = copy_ = nullptr;
    widened_ = false;
    Stmt result = IRMutator::visit(op);
    return widened_ ? result : Stmt(op);
  }

  Stmt visit(const LetStmt *op) override {
    lets_[op->name] = substitute(lets_, op->value);
    return IRMutator::visit(op);
  }

  Stmt visit(const For *op) override {
    if (is_loop(op, widening_.copy_loop)) {
      copy_ = op;
      least_ = substitute(lets_, op->min);
      body_ = substitute(lets_, op->body);
      return Evaluate::make(0);
    }
    if (is_loop(op, widening_.tile_loop) && copy_) {
      HasLoop sum(widening_.sum_loop);
      op->body.accept(&sum);
      if (sum.found)
        tile_ = op;
      return IRMutator::visit(op);
    }
    if (op->name != widening_.sum_loop || !copy_ || !tile_)
      return IRMutator::visit(op);
    widened_ = true;
    Expr term = least_ + (Variable::make(Halide::Int(32), op->name) - op->min);
    Stmt widen = substitute(copy_->name, term, body_);
    Stmt first = For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                           Block::make(widen, op->body));
    return IfThenElse::make(Variable::make(Halide::Int(32), tile_->name) == tile_->min, first, op);
  }

  Widening widening_;
  const For *copy_ = nullptr, *tile_ = nullptr;
  Expr least_;
  Stmt body_;
  std::map<std::string, Expr> lets_;
  bool widened_ = false;
};

} // namespace

std::shared_ptr<IRMutator> make_pass(const Widening &widening) { return std::make_shared<Pass>(widening); }

} // namespace heddle::contraction
