//     for … min(rows, heddle_sharing_threads() * 4) …
// becomes
//     let threads = max(heddle_sharing_threads(__user_context), 1) in for … min(rows, threads * 4) …
#include "compiler/halide/rewrites/rewrites.h"
#include "compiler/halide/threads.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class AskThreadsOnce : public IRMutator {
  using IRMutator::mutate;
  using IRMutator::visit;

public:
  Stmt mutate(const Stmt &s) override {
    if (inside_)
      return IRMutator::mutate(s);
    inside_ = true;
    name_ = unique_name("threads");
    found_ = false;
    Stmt all = IRMutator::mutate(s);
    inside_ = false;
    if (!found_)
      return all;
    Expr context = Variable::make(Halide::type_of<void *>(), "__user_context");
    Expr threads = Call::make(Halide::Int(32), threads_function, {context}, Call::Extern);
    return LetStmt::make(name_, max(threads, 1), all);
  }

private:
  Expr visit(const Call *op) override {
    if (op->name != threads_function)
      return IRMutator::visit(op);
    found_ = true;
    return Variable::make(op->type, name_);
  }

  std::string name_;
  bool inside_ = false, found_ = false;
};

} // namespace

std::shared_ptr<IRMutator> ask_threads_once() { return std::make_shared<AskThreadsOnce>(); }

} // namespace heddle
