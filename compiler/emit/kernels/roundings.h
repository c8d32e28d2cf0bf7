// Halide 21 has no word for the instruction that rounds a vector to bf16 (it is switched off there), so the integer
// instructions of halide/rewrites/round_to_bfloat.cc are replaced by it where the target has it. It takes denormal
// numbers for 0, as everything does while an entry runs.
//
//   %e = and (lshr %bits, 16), 1
//   %r = add (add %bits, 0x7fff), %e
//   %v = trunc (lshr (select %nan, (or %bits, 0x400000), %r), 16)   →   %v = llvm.x86.avx512bf16.cvtneps2bf16 %x
#pragma once

#include "llvm/IR/Function.h"

namespace heddle {

/// Replaces the roundings of whole vectors in a function.
void round_by_instruction(llvm::Function &function);

} // namespace heddle
