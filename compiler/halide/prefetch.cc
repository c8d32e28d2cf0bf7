#include "compiler/halide/prefetch.h"

namespace heddle {

using namespace Halide::Internal;

Stmt ask(const Halide::Expr &address) {
  Halide::Expr pointer = reinterpret(Halide::Handle(), address);
  return Evaluate::make(
      Call::make(Halide::Int(32), "llvm.prefetch.p0", {pointer, reading, second_cache, data}, Call::Extern));
}

} // namespace heddle
