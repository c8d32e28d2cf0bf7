#include "compiler/halide/rewrites/rewrites.h"

namespace heddle {

static constexpr Rewrite table[] = {
#define HEDDLE_REWRITE(name, limitation) {#name, limitation, name},
#include "compiler/halide/rewrites/rewrites.def"
};

llvm::ArrayRef<Rewrite> rewrites() { return table; }

} // namespace heddle
