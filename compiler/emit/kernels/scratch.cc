// Bottom up through the statement: an allocation adds to what its body needs, alternatives and successors share, and of
// a loop's iterations the one with the most counts, by Halide's own interval arithmetic. Conditions are taken to hold.
#include "compiler/emit/kernels/scratch.h"

#include "compiler/halide/threads.h"
#include "runtime/abi.h"

#include <limits>
#include <set>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

/// What a formula depends on beside sizes: scalars that a kernel is given, by name, and what it reads.
class OtherThanSizes : public IRVisitor {
public:
  explicit OtherThanSizes(const std::set<std::string> &sizes) : sizes(sizes) {}
  std::set<std::string> scalars;
  bool reads = false;

protected:
  using IRVisitor::visit;
  void visit(const Variable *op) override {
    if (!sizes.count(op->name) && !bound.contains(op->name))
      scalars.insert(op->name);
  }
  void visit(const Load *) override { reads = true; }
  void visit(const Call *op) override {
    reads |= !op->is_pure();
    IRVisitor::visit(op);
  }
  void visit(const Let *op) override {
    op->value.accept(this);
    ScopedBinding<> here(bound, op->name);
    op->body.accept(this);
  }

private:
  const std::set<std::string> &sizes;
  Scope<> bound;
};

class ScratchBound : public IRVisitor {
public:
  explicit ScratchBound(std::set<std::string> sizes) : sizes(std::move(sizes)) {}

  /// Lines, as Int(64) of the sizes and of what is bound around the statement; undefined: none.
  Expr of(const Stmt &statement) {
    lines = Expr();
    if (statement.defined())
      statement.accept(this);
    return std::exchange(lines, Expr());
  }

  /// The most that a formula can be for these sizes; undefined: there is no bound.
  Expr of_sizes(const Expr &formula) {
    OtherThanSizes others(sizes);
    if (formula.defined())
      formula.accept(&others);
    if (others.reads || others.scalars.empty())
      return others.reads ? Expr() : formula;
    Scope<Interval> scope;
    for (const std::string &name : others.scalars)
      scope.push(name, Interval::everything());
    Interval all = bounds_of_expr_in_scope(formula, scope);
    return all.has_upper_bound() ? simplify(all.max) : Expr();
  }

protected:
  using IRVisitor::visit;

  void visit(const Allocate *op) override {
    Expr inside = of(op->body), own = lines_of(op);
    lines = !own.defined() ? inside : inside.defined() ? own + inside : own;
  }

  void visit(const LetStmt *op) override {
    Expr body = of(op->body);
    if (body.defined() && expr_uses_var(body, op->name))
      body = found_when_running(op->value)
                 ? most_of(body, op->name, bounds_of_expr_in_scope(op->value, Scope<Interval>()))
                 : simplify(Let::make(op->name, op->value, body));
    lines = body;
  }

  void visit(const For *op) override {
    Expr body = of(op->body);
    if (body.defined() && expr_uses_var(body, op->name))
      body = most_of(body, op->name, Interval(op->min, simplify(op->min + max(op->extent, 1) - 1)));
    lines = body;
  }

  void visit(const IfThenElse *op) override {
    Expr then = of(op->then_case);
    lines = most(then, of(op->else_case));
  }

  void visit(const Block *op) override {
    Expr first = of(op->first);
    lines = most(first, of(op->rest));
  }

  void visit(const Fork *op) override {
    Expr first = of(op->first), rest = of(op->rest);
    lines = first.defined() && rest.defined() ? first + rest : most(first, rest);
  }

private:
  /// The most that a formula can be while a variable is in the interval; undefined: there is no bound.
  static Expr most_of(const Expr &formula, const std::string &name, const Interval &interval) {
    Scope<Interval> scope;
    scope.push(name, interval);
    Interval all = bounds_of_expr_in_scope(formula, scope);
    return all.has_upper_bound() ? simplify(all.max) : Expr();
  }

  /// Whether a value depends on what memory holds, or on the threads of a run.
  static bool found_when_running(const Expr &e) {
    class Find : public IRVisitor {
    public:
      bool found = false;

    protected:
      using IRVisitor::visit;
      void visit(const Load *) override { found = true; }
      void visit(const Call *op) override {
        found |= op->name == threads_function;
        IRVisitor::visit(op);
      }
    } find;
    e.accept(&find);
    return find.found;
  }

  static Expr most(const Expr &a, const Expr &b) {
    if (!a.defined() || !b.defined() || equal(a, b))
      return a.defined() ? a : b;
    return simplify(max(a, b));
  }

  /// Of one allocation; undefined where it is on the stack.
  static Expr lines_of(const Allocate *op) {
    if (op->extents.empty() || op->new_expr.defined() || op->memory_type == Halide::MemoryType::Register)
      return Expr();
    const int64_t each = op->type.bytes(), padding = op->padding * each;
    int64_t constant = Allocate::constant_allocation_size(op->extents, op->name);
    if (constant > 0 && op->memory_type != Halide::MemoryType::Heap &&
        can_allocation_fit_on_stack(constant * each + padding))
      return Expr();
    Expr bytes = make_const(Halide::Int(64), each);
    for (const Expr &extent : op->extents)
      bytes = bytes * cast<int64_t>(max(extent, 0));
    const int line = HEDDLE_SCRATCH_LINE;
    return simplify((bytes + make_const(Halide::Int(64), padding + line - 1)) / line) + HEDDLE_SCRATCH_HEADER / line;
  }

  std::set<std::string> sizes;
  Expr lines;
};

} // namespace

std::string scratch_symbol(const std::string &symbol) { return symbol + "_scratch"; }

LoweredFunc scratch_function(mlir::func::FuncOp kernel, const std::string &symbol, const Stmt &statement) {
  std::set<std::string> sizes;
  std::vector<Halide::Argument> arguments;
  for (mlir::BlockArgument argument : kernel.getArguments()) {
    if (!argument.getType().isIndex())
      continue;
    std::string name = "arg" + std::to_string(argument.getArgNumber());
    sizes.insert(name);
    arguments.push_back(Halide::Argument(name, Halide::Argument::InputScalar, Halide::Int(32), 0, {}));
  }
  ScratchBound bound(sizes);
  Expr lines = bound.of_sizes(bound.of(statement));
  Stmt body = Evaluate::make(0);
  if (lines.defined()) { // an assertion that fails returns its code, which is any number
    Expr answer = cast<int32_t>(clamp(lines, 0, std::numeric_limits<int32_t>::max()));
    answer = common_subexpression_elimination(simplify(answer));
    std::string name = unique_name("lines");
    Expr value = Variable::make(Halide::Int(32), name);
    body = LetStmt::make(name, answer, AssertStmt::make(value == 0, value));
  }
  return LoweredFunc(scratch_symbol(symbol), arguments, body, Halide::LinkageType::External, Halide::NameMangling::C);
}

} // namespace heddle
