// Passes over lowered statements that work around limitations of Halide: one table, rewrites.def.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <Halide.h>

#include <memory>
#include <string_view>

namespace heddle {

using MakeRewrite = std::shared_ptr<Halide::Internal::IRMutator>();

#define HEDDLE_REWRITE(name, limitation) MakeRewrite name;
#include "compiler/halide/rewrites/rewrites.def"

struct Rewrite {
  std::string_view name, limitation;
  MakeRewrite *make;
};

/// All of them, in the order in which they run.
llvm::ArrayRef<Rewrite> rewrites();

} // namespace heddle
