//     for … min(rows, heddle_sharing_threads() * 4) …
// becomes
//     let threads = max(heddle_sharing_threads(__user_context), 1) in for … min(rows, threads * 4) …
#include "compiler/halide/rewrites/bound_once.h"
#include "compiler/halide/rewrites/rewrites.h"
#include "compiler/halide/threads.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class AskThreadsOnce : public BoundOnce {
  using BoundOnce::visit;

public:
  AskThreadsOnce() : BoundOnce("threads") {}

private:
  Expr visit(const Call *op) override {
    if (op->name != threads_function)
      return IRMutator::visit(op);
    Expr context = Variable::make(Halide::type_of<void *>(), "__user_context");
    return bound(max(Call::make(op->type, threads_function, {context}, Call::Extern), 1));
  }
};

} // namespace

std::shared_ptr<IRMutator> ask_threads_once() { return std::make_shared<AskThreadsOnce>(); }

} // namespace heddle
