// The compiler, in order.
#include "compiler/passes/passes.h"

namespace heddle::passes {

void register_passes() {
  mlir::registerPass(form_kernels);
  mlir::registerPass(outline_kernels);
}

} // namespace heddle::passes
