//     x ^ (__user_context >> 63)   →   let context = __user_context in … x ^ (context >> 63)
// Calls of runtime functions name no context here: code generation adds what `__user_context` is where they stand.
#include "compiler/halide/rewrites/bound_once.h"
#include "compiler/halide/rewrites/rewrites.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class KeepTaskContext : public BoundOnce {
  using BoundOnce::visit;

public:
  KeepTaskContext() : BoundOnce("context") {}

private:
  Expr visit(const Variable *op) override { return op->name == "__user_context" ? bound(op) : op; }
};

} // namespace

std::shared_ptr<IRMutator> keep_task_context() { return std::make_shared<KeepTaskContext>(); }

} // namespace heddle
