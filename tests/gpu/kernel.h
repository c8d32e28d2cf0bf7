// Short kernels for tests: a body of PTX over one buffer of 32-bit words per argument.
#pragma once

#include "tests/gpu/device.h"

namespace gpu_test {

/// A kernel `k` with n pointer parameters, which are in %p0, %p1, … as global addresses; %tid and %cta are there, too,
/// %at the thread's number in the grid, and registers %r<40>, %f<20>, %d<20> (64 bits), %h<20> (16 bits), %q<9>
/// (predicates). Before the body stand declarations of the module.
inline std::string kernel(int parameters, const std::string &body, const std::string &declarations = "",
                          const std::string &target = "sm_80") {
  std::string text = declarations + "\n.visible .entry k(";
  for (int i = 0; i < parameters; i++)
    text += (i ? ", " : "") + (".param .u64 a" + std::to_string(i));
  text += ")\n{\n.reg .b64 %p<" + std::to_string(parameters + 1) +
          ">; .reg .b64 %d<20>; .reg .b32 %r<40>; .reg .f32 %f<20>;\n"
          ".reg .b16 %h<20>; .reg .pred %q<9>; .reg .b32 %tid0, %cta, %ntid0, %at;\n";
  for (int i = 0; i < parameters; i++)
    text += "ld.param.u64 %p" + std::to_string(i) + ", [a" + std::to_string(i) + "]; cvta.to.global.u64 %p" +
            std::to_string(i) + ", %p" + std::to_string(i) + ";\n";
  text +=
      "mov.u32 %tid0, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %ntid0, %ntid.x; mad.lo.u32 %at, %cta, %ntid0, %tid0;\n";
  return module_text(text + body + "\nret;\n}\n", target);
}

/// Stores register `r` (32 bits) at element %at of parameter 0, and ends.
inline std::string result(const std::string &r, const std::string &parameter = "%p0") {
  return "mul.wide.u32 %d19, %at, 4; add.u64 %d19, %d19, " + parameter + "; st.global.b32 [%d19], " + r + ";\n";
}

/// Runs such a kernel in one block (or several) and gives the words of its only buffer.
inline std::vector<uint32_t> words(const std::string &body, unsigned threads, const std::string &declarations = "",
                                   unsigned shared = 0, unsigned blocks = 1) {
  Program program(kernel(1, body, declarations));
  Buffer<uint32_t> out(std::vector<uint32_t>(threads * blocks));
  CUresult r = launch_blocks(program.kernel("k"), {blocks, 1, 1}, {threads, 1, 1}, shared, out.address);
  EXPECT_EQ(r, 0) << heddle_emulator_message();
  if (r) {
    heddle_emulator_reset();
    return std::vector<uint32_t>(threads * blocks);
  }
  return out.read();
}

/// The message of the fault that such a kernel ends with; "" where it has none.
inline std::string fault(const std::string &body, unsigned threads = 32, const std::string &declarations = "",
                         unsigned shared = 0, int code = 719, size_t elements = 0) {
  Program program(kernel(1, body, declarations));
  Buffer<uint32_t> out(std::vector<uint32_t>(elements ? elements : threads));
  CUresult r = launch_blocks(program.kernel("k"), {1, 1, 1}, {threads, 1, 1}, shared, out.address);
  std::string message = r ? heddle_emulator_message() : "";
  EXPECT_EQ(r, code) << message;
  heddle_emulator_reset();
  return message;
}

} // namespace gpu_test
