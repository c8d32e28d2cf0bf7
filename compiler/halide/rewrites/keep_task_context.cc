//     x ^ (__user_context >> 63)   →   let context = __user_context in … x ^ (context >> 63)
// Calls of runtime functions name no context here: code generation adds what `__user_context` is where they stand.
#include "compiler/halide/rewrites/rewrites.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class KeepTaskContext : public IRMutator {
  using IRMutator::mutate;
  using IRMutator::visit;

public:
  Stmt mutate(const Stmt &s) override {
    if (inside_)
      return IRMutator::mutate(s);
    inside_ = true;
    name_ = unique_name("context");
    found_ = Expr();
    Stmt all = IRMutator::mutate(s);
    inside_ = false;
    return found_.defined() ? LetStmt::make(name_, found_, all) : all;
  }

private:
  Expr visit(const Variable *op) override {
    if (op->name != "__user_context")
      return op;
    found_ = op;
    return Variable::make(op->type, name_);
  }

  std::string name_;
  Expr found_;
  bool inside_ = false;
};

} // namespace

std::shared_ptr<IRMutator> keep_task_context() { return std::make_shared<KeepTaskContext>(); }

} // namespace heddle
