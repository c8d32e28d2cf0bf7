#include "compiler/halide/threads.h"

#include <string>

namespace heddle {

using Halide::Expr;

Expr threads_of_run() {
  // Its argument, the context of the run, comes with the rewrite `ask_threads_once`.
  return Halide::Internal::Call::make(Halide::Int(32), threads_function, {}, Halide::Internal::Call::PureExtern);
}

Expr tasks_for_threads(int for_few) { return for_few * max(threads_of_run(), few_threads) / few_threads; }

Expr by_threads(Expr few, Expr many) {
  return select(threads_of_run() <= few_threads, std::move(few), std::move(many));
}

Expr iterations_of_task(Expr for_few, Expr all) {
  return by_threads(for_few, clamp(all / threads_of_run(), max(for_few / 8, 1), max(for_few, 1)));
}

Halide::Var fuse_into_tasks(Halide::Func &func, const std::vector<Halide::Var> &loops) {
  Halide::Var task = loops.front();
  for (size_t i = 1; i < loops.size(); ++i) {
    Halide::Var fused("task" + std::to_string(i));
    func.fuse(task, loops[i], fused);
    task = fused;
  }
  func.parallel(task);
  return task;
}

} // namespace heddle
