// Halide counts names up through the whole process: a kernel's code must not tell what was compiled before it.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/targets/target.h"

#include "llvm/Object/ObjectFile.h"

namespace heddle::test {

/// What is loaded of an object: its code and data, not the names of its own functions.
static std::string loaded(const std::string &object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file)
    return llvm::toString(file.takeError());
  std::string out;
  for (const llvm::object::SectionRef &section : (*file)->sections())
    if (section.isText() || section.isData())
      out += llvm::cantFail(section.getContents()).str();
  return out;
}

TEST(Names, AKernelHasTheSameCodeHoweverManyWereLoweredBefore) {
  for (const char *name : {"contraction_bias_gelu", "attention_mask", "layer_norm", "patch_embedding"})
    for (const char *cpu : {"x86-64-v3", "x86-64-v4"}) {
      Result<Target> target = find_target(cpu);
      ASSERT_TRUE(target);
      KernelText kernel(lit_kernel(name));
      set_schedule(kernel.function(), choose(kernel.function(), *target));
      std::string first;
      for (int turn = 0; turn < 3; ++turn) {
        Result<KernelObject> object = emit_kernel(kernel.function(), 0, *target);
        ASSERT_TRUE(object) << object.error().message;
        std::string code = loaded(object->bytes);
        ASSERT_GT(code.size(), 100u);
        if (turn == 0)
          first = code;
        EXPECT_TRUE(code == first) << name << " for " << cpu << ", turn " << turn;
      }
    }
}

} // namespace heddle::test
