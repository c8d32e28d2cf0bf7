// cp.async: what it copies, and what is wrong with waiting too little.
#include "tests/gpu/kernel.h"

#include <numeric>

namespace gpu_test {
namespace {

struct AsyncCopies : Gpu {};

const char *const shared = ".shared .align 16 .b8 s[2048];\n";

/// Each of 32 threads copies 16 bytes, waits, and reads its neighbour's after a barrier.
std::string staged(const std::string &copy, const std::string &wait, const std::string &barrier) {
  return "mul.wide.u32 %d1, %tid0, 16; add.u64 %d1, %d1, %p0; mov.u32 %r1, s; shl.b32 %r2, %tid0, 4; add.u32 %r3, %r1, "
         "%r2;\n" +
         copy + "\ncp.async.commit_group;\n" + wait + barrier +
         "xor.b32 %r4, %r2, 496; add.u32 %r4, %r1, %r4; ld.shared.u32 %r5, [%r4+12];\n";
}

std::vector<uint32_t> run(const std::string &body, CUresult expected = 0) {
  Program program(kernel(2, body + result("%r5", "%p1"), shared));
  std::vector<uint32_t> values(256);
  std::iota(values.begin(), values.end(), 0);
  Buffer<uint32_t> in(values), out(64);
  EXPECT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {64, 1, 1}, 0, in.address, out.address), expected)
      << heddle_emulator_message();
  return expected ? std::vector<uint32_t>() : out.read();
}

TEST_F(AsyncCopies, bring_their_bytes) {
  for (std::string copy :
       {"cp.async.cg.shared.global [%r3], [%d1], 16;", "cp.async.ca.shared.global.L2::128B [%r3], [%d1], 16;",
        "cp.async.ca.shared.global [%r3+12], [%d1+12], 4;", "cp.async.ca.shared.global [%r3+8], [%d1+8], 8;"})
    for (std::string wait : {"cp.async.wait_group 0;", "cp.async.wait_all;"}) {
      std::string body = staged(copy, wait, "bar.sync 0;");
      body.replace(body.find("496"), 3, "1008");
      std::vector<uint32_t> got = run(body);
      for (uint32_t t = 0; t < 64; t++)
        EXPECT_EQ(got[t], 4 * (t ^ 63) + 3) << copy;
    }
}

TEST_F(AsyncCopies, fill_with_zeros_what_they_do_not_read) {
  std::string body =
      staged("and.b32 %r6, %tid0, 1; shl.b32 %r6, %r6, 4; cp.async.cg.shared.global [%r3], [%d1], 16, %r6;",
             "cp.async.wait_group 0;", "bar.sync 0;");
  std::vector<uint32_t> got = run(body);
  for (uint32_t t = 0; t < 32; t++)
    EXPECT_EQ(got[t], (t ^ 31) % 2 ? 4 * (t ^ 31) + 3 : 0);
}

TEST_F(AsyncCopies, are_waited_for_by_group) {
  // Two groups; after waiting for all but one, the first one may be read and the second one may not.
  std::string body = "mul.wide.u32 %d1, %tid0, 16; add.u64 %d1, %d1, %p0; mov.u32 %r1, s; shl.b32 %r2, %tid0, 4; "
                     "add.u32 %r3, %r1, %r2;\n"
                     "cp.async.cg.shared.global [%r3], [%d1], 16; cp.async.commit_group;\n"
                     "cp.async.cg.shared.global [%r3+1024], [%d1], 16; cp.async.commit_group; cp.async.wait_group 1;\n";
  EXPECT_EQ(run(body + "ld.shared.u32 %r5, [%r3];")[5], 20u);
  run(body + "ld.shared.u32 %r5, [%r3+1024];", 719);
  EXPECT_NE(std::string(heddle_emulator_message()).find("is being copied to by the cp.async"), std::string::npos)
      << heddle_emulator_message();
}

TEST_F(AsyncCopies, that_nobody_waits_for_are_a_fault) {
  run(staged("cp.async.cg.shared.global [%r3], [%d1], 16;", "", "bar.sync 0;"), 719);
  EXPECT_NE(std::string(heddle_emulator_message()).find("which was not waited for"), std::string::npos)
      << heddle_emulator_message();
}

TEST_F(AsyncCopies, of_another_warp_need_a_barrier) {
  std::string body = staged("cp.async.cg.shared.global [%r3], [%d1], 16;", "cp.async.wait_group 0;", "");
  body.replace(body.find("496"), 3, "1008");
  run(body, 719);
}

TEST_F(AsyncCopies, must_be_aligned_and_inside) {
  run(staged("cp.async.cg.shared.global [%r3+4], [%d1], 16;", "", ""), 716);
  heddle_emulator_reset();
  run(staged("cp.async.cg.shared.global [%r3], [%d1+1024], 16;", "", ""), 700);
}

/// What another warp still reads must not be overwritten: the hazard of pipelines with too few stages.
TEST_F(AsyncCopies, wait_for_the_readers_of_what_they_overwrite) {
  std::string body = staged("cp.async.cg.shared.global [%r3], [%d1], 16;", "cp.async.wait_group 0;", "bar.sync 0;");
  body.replace(body.find("496"), 3, "1008");
  std::string again = "cp.async.cg.shared.global [%r3], [%d1], 16; cp.async.wait_all;\n";
  EXPECT_EQ(run(body + "bar.sync 0;\n" + again)[0], 255u);
  run(body + again, 719);
  EXPECT_NE(std::string(heddle_emulator_message()).find("race on shared memory"), std::string::npos)
      << heddle_emulator_message();
}

} // namespace
} // namespace gpu_test
