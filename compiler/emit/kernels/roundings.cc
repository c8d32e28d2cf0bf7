#include "compiler/emit/kernels/roundings.h"

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

void round_by_instruction(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(instruction.getType());
    unsigned lanes = type ? type->getNumElements() : 0;
    llvm::Value *bits = lanes == 8 || lanes == 16 ? rounded_bits(instruction) : nullptr;
    if (!bits)
      continue;
    llvm::IRBuilder<> at(&instruction);
    llvm::Value *number = at.CreateBitCast(bits, llvm::FixedVectorType::get(at.getFloatTy(), lanes));
    llvm::Value *rounded = at.CreateIntrinsic(lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_256
                                                         : llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512,
                                              {number});
    instruction.replaceAllUsesWith(at.CreateBitCast(rounded, type));
    llvm::RecursivelyDeleteTriviallyDeadInstructions(&instruction);
  }
}

} // namespace heddle
