// The compiler, in order.
#include "compiler/passes/passes.h"

namespace heddle::passes {

void register_passes() {
  mlir::registerPass(form_kernels);
  mlir::registerPass(outline_kernels);
  mlir::registerPass(collapse_dims);
}

} // namespace heddle::passes
