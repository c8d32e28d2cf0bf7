// The compiler, in order.
#include "compiler/passes/passes.h"

namespace heddle::passes {

void register_passes() {}

} // namespace heddle::passes
