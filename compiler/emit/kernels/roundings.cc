#include "compiler/emit/kernels/roundings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"

namespace heddle {

/// The bits of what an instruction rounds to bf16; null for all else.
static llvm::Value *rounded_bits(llvm::Instruction &instruction) {
  using namespace llvm::PatternMatch;
  llvm::Value *bits = nullptr;
  auto even = m_And(m_LShr(m_Deferred(bits), m_SpecificInt(16)), m_One());
  auto rounded = m_c_Add(m_Add(m_Deferred(bits), m_SpecificInt(0x7fff)), even);
  auto either = m_Select(m_Value(), m_Or(m_Value(bits), m_SpecificInt(0x400000)), rounded);
  return match(&instruction, m_Trunc(m_LShr(either, m_SpecificInt(16)))) ? bits : nullptr;
}

/// Vectors of numbers rounded to bf16 by the instruction for so many, as vectors of bf16: 8 or 16 of them, or two times
/// 16, the first in `low`.
static llvm::Value *rounded(llvm::IRBuilder<> &at, llvm::Value *low, llvm::Value *high = nullptr) {
  using namespace llvm::Intrinsic;
  if (high)
    return at.CreateIntrinsic(x86_avx512bf16_cvtne2ps2bf16_512, {high, low});
  bool few = llvm::cast<llvm::FixedVectorType>(low->getType())->getNumElements() == 8;
  return at.CreateIntrinsic(few ? x86_avx512bf16_cvtneps2bf16_256 : x86_avx512bf16_cvtneps2bf16_512, {low});
}

void round_by_instruction(llvm::Function &function) {
  constexpr unsigned most = 16; // numbers of f32 in a register
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(instruction.getType());
    unsigned lanes = type ? type->getNumElements() : 0;
    llvm::Value *bits = lanes == 8 || lanes == most || lanes == 2 * most ? rounded_bits(instruction) : nullptr;
    if (!bits)
      continue;
    llvm::IRBuilder<> at(&instruction);
    llvm::Value *number = at.CreateBitCast(bits, llvm::FixedVectorType::get(at.getFloatTy(), lanes));
    auto half = [&](unsigned first) {
      return at.CreateShuffleVector(number, llvm::to_vector(llvm::seq<int>(int(first), int(first + most))));
    };
    llvm::Value *out = lanes > most ? rounded(at, half(0), half(most)) : rounded(at, number);
    instruction.replaceAllUsesWith(at.CreateBitCast(out, type));
    llvm::RecursivelyDeleteTriviallyDeadInstructions(&instruction);
  }
}

} // namespace heddle
