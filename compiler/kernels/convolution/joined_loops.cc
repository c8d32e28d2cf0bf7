// Loops are joined where every place that is read or written has as many times the inner loop's factor as that has
// steps for a factor of the outer loop, and nothing else depends on either.
#include "compiler/kernels/convolution/joined_loops.h"

#include "compiler/kernels/convolution/windows.h"

#include <map>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

namespace heddle::convolution {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

/// Whether all places within a statement go on from the inner loop to the outer one.
class GoesOn : public IRVisitor {
public:
  GoesOn(const For &outer, const For &inner, int64_t steps) : outer_(outer.name), inner_(inner.name), steps_(steps) {}
  bool everywhere = true;

private:
  using IRVisitor::visit;
  void visit(const LetStmt *op) override { visit_let(op); }
  void visit(const Let *op) override { visit_let(op); }
  template <class Op> void visit_let(const Op *op) {
    lets_[op->name] = substitute(lets_, op->value);
    op->body.accept(this);
    lets_.erase(op->name);
  }
  void visit(const Load *op) override {
    check(op->index);
    op->predicate.accept(this);
  }
  void visit(const Store *op) override {
    check(op->index);
    op->value.accept(this);
    op->predicate.accept(this);
  }
  void visit(const Variable *op) override {
    everywhere &= op->name != outer_ && op->name != inner_;
    if (auto known = lets_.find(op->name); known != lets_.end())
      known->second.accept(this);
  }

  void check(const Expr &index) {
    if (const Ramp *ramp = index.as<Ramp>()) {
      ramp->stride.accept(this);
      return check(ramp->base);
    }
    if (const Broadcast *same = index.as<Broadcast>())
      return check(same->value);
    std::optional<Form> form = form_of(substitute(lets_, index), {outer_, inner_});
    everywhere &= form && (*form)[outer_] == (*form)[inner_] * steps_;
  }

  std::string outer_, inner_;
  int64_t steps_;
  std::map<std::string, Expr> lets_;
};

class JoinLoops : public IRMutator {
public:
  explicit JoinLoops(std::string sum) : begin_(std::move(sum) + ".s1.") {}

private:
  using IRMutator::visit;
  Stmt visit(const For *op) override {
    Stmt result = IRMutator::visit(op);
    const For *outer = result.as<For>();
    if (!is_of_sum(*outer))
      return result;
    Stmt body = outer->body;
    std::vector<std::pair<std::string, Expr>> lets; // between the loops
    for (const LetStmt *let = body.as<LetStmt>(); let; let = body.as<LetStmt>()) {
      lets.emplace_back(let->name, let->value);
      body = let->body;
    }
    const For *inner = body.as<For>();
    std::optional<int64_t> steps = inner && is_of_sum(*inner) ? as_const_int(inner->extent) : std::nullopt;
    if (!steps)
      return result;
    GoesOn goes_on(*outer, *inner, *steps);
    outer->body.accept(&goes_on);
    if (!goes_on.everywhere)
      return result;
    Stmt joined = For::make(inner->name, 0, simplify(outer->extent * inner->extent), inner->for_type,
                            inner->partition_policy, inner->device_api, inner->body);
    for (auto &[name, value] : std::views::reverse(lets))
      joined = LetStmt::make(name, value, joined);
    return substitute(outer->name, 0, joined);
  }

  bool is_of_sum(const For &loop) const {
    return loop.name.starts_with(begin_) && loop.for_type == ForType::Serial && is_const_zero(loop.min);
  }

  const std::string begin_;
};

} // namespace

std::shared_ptr<IRMutator> join_loops(const std::string &sum) { return std::make_shared<JoinLoops>(sum); }

} // namespace heddle::convolution
