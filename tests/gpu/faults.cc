// Faults planted in kernels: each is found, and told with kernel, line of the PTX, block and thread.
#include "tests/gpu/kernel.h"

namespace gpu_test {
namespace {

struct Faults : Gpu {};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != text.npos; }
#define EXPECT_SAYS(message, part) EXPECT_TRUE(contains(message, part)) << message

const char *const shared = ".shared .align 16 .b8 s[1024];\n.shared .align 16 .b8 other[64];\n";

TEST_F(Faults, are_told_with_their_place) {
  // Thread 5 of block 2 writes behind the end.
  Program program(kernel(
      1, "mul.wide.u32 %d1, %at, 4; add.u64 %d1, %d1, %p0; setp.eq.u32 %q1, %at, 69; @%q1 add.u64 %d1, %d1, 4000;\n"
         "st.global.u32 [%d1], %at;"));
  Buffer<uint32_t> out(128);
  EXPECT_EQ(launch_blocks(program.kernel("k"), {4, 1, 1}, {32, 1, 1}, 0, out.address), 700);
  std::string message = heddle_emulator_message();
  EXPECT_SAYS(message, "kernel k, PTX line 12, block (2,0,0), thread (5,0,0): write of 4 bytes at 0x");
  EXPECT_SAYS(message, "(3764 bytes past the end of cuMemAlloc, 512 bytes at 0x");
  EXPECT_SAYS(message, "\n    st.global.u32 [%d1], %at;");
  // The context is lost until it is reset.
  CUdeviceptr p;
  EXPECT_EQ(cuMemAlloc_v2(&p, 4), 700);
  heddle_emulator_reset();
  EXPECT_EQ(cuMemAlloc_v2(&p, 4), 0);
  EXPECT_EQ(cuMemFree_v2(p), 0);
}

TEST_F(Faults, outside_of_allocations) {
  EXPECT_SAYS(fault("ld.global.u32 %r1, [%p0+128];", 32, "", 0, 700), "read of 4 bytes at");
  EXPECT_SAYS(fault("ld.global.u32 %r1, [%p0+-4];", 32, "", 0, 700), "read of 4 bytes at");
  EXPECT_SAYS(fault("mov.u64 %d1, 0; ld.global.u32 %r1, [%d1];", 32, "", 0, 700), "0x0 (not in device memory)");
  EXPECT_SAYS(fault("mov.u64 %d1, 64; st.u32 [%d1], 1;", 32, "", 0, 700), "not in device memory");
  // The last bytes are in, the element is not.
  EXPECT_SAYS(fault("ld.global.v2.u32 {%r1, %r2}, [%p0+128];", 33, "", 0, 700, 33), "read of 8 bytes");
}

TEST_F(Faults, after_free) {
  Program program(kernel(1, "ld.global.u32 %r1, [%p0];"));
  Buffer<uint32_t> out(std::vector<uint32_t>(32));
  CUdeviceptr address = out.address;
  out.free();
  EXPECT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {32, 1, 1}, 0, address), 700);
  EXPECT_SAYS(std::string(heddle_emulator_message()), "(0 bytes into freed cuMemAlloc, 128 bytes at");
}

TEST_F(Faults, of_what_nobody_has_written) {
  Program program(kernel(1, "mul.wide.u32 %d1, %tid0, 4; add.u64 %d1, %d1, %p0; ld.global.u32 %r1, [%d1];"));
  Buffer<uint32_t> out(32);
  EXPECT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {32, 1, 1}, 0, out.address), 719);
  EXPECT_SAYS(std::string(heddle_emulator_message()), "thread (0,0,0): read of 4 bytes at");
  EXPECT_SAYS(std::string(heddle_emulator_message()), "which nobody has written");
  heddle_emulator_reset();
  EXPECT_SAYS(fault("ld.shared.u32 %r1, [s+64];", 32, shared), "read of shared memory at 0x40 that nobody has written");
}

TEST_F(Faults, of_alignment) {
  EXPECT_SAYS(fault("ld.global.u32 %r1, [%p0+2];", 32, "", 0, 716), "misaligned access of 4 bytes at");
  EXPECT_SAYS(fault("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%p0+8];", 32, "", 0, 716),
              "misaligned access of 16 bytes");
  EXPECT_SAYS(fault("st.shared.u64 [s+4], %d1;", 32, shared, 0, 716),
              "misaligned access of 8 bytes of shared memory at 0x4");
}

TEST_F(Faults, outside_of_shared_and_local_memory) {
  EXPECT_SAYS(fault("st.shared.u32 [s+1024], %ntid0;", 32, shared, 0, 700), "between two variables");
  EXPECT_SAYS(fault("mov.u32 %r1, 200000; st.shared.u32 [%r1], %r1;", 32, shared, 0, 700), "bytes of shared memory");
  EXPECT_SAYS(fault("st.shared.u32 [other+64], %tid0;", 32, shared, 0, 700), "shared memory");
  EXPECT_SAYS(fault(".local .align 4 .b8 mine[16]; mov.u64 %d1, mine; st.local.u32 [%d1+16], %tid0;", 32, "", 0, 700),
              "access of 4 bytes at 0x10 of the 16 bytes of local memory");
}

TEST_F(Faults, of_writes_to_constants) {
  EXPECT_SAYS(fault("mov.u64 %d1, c; st.global.u32 [%d1], 1;", 32, ".const .align 4 .u32 c = 5;\n", 0, 700),
              "it is constant");
}

// --- races: 64 threads, two warps
const std::string neighbour =
    "mov.u32 %r1, s; shl.b32 %r2, %tid0, 2; add.u32 %r3, %r1, %r2; xor.b32 %r4, %r2, 252; add.u32 %r4, %r1, %r4;\n";

TEST_F(Faults, of_a_missing_barrier_between_write_and_read) {
  std::string body = neighbour + "st.shared.u32 [%r3], %tid0;\nBARRIER\nld.shared.u32 %r5, [%r4];\n" + result("%r5");
  std::string with = body, without = body;
  with.replace(with.find("BARRIER"), 7, "bar.sync 0;");
  without.replace(without.find("BARRIER"), 7, "");
  EXPECT_EQ(words(with, 64, shared)[0], 63u);
  // Warp 0 runs first: it reads what nobody has written yet, or what warp 1 writes later is a race.
  std::string message = fault(without, 64, shared);
  EXPECT_TRUE(contains(message, "race") || contains(message, "nobody has written")) << message;
}

TEST_F(Faults, of_a_missing_barrier_between_read_and_write) {
  std::string body =
      neighbour +
      "st.shared.u32 [%r3], %tid0; bar.sync 0; ld.shared.u32 %r5, [%r4];\nBARRIER\nst.shared.u32 [%r3], %r5;\n" +
      result("%r5");
  std::string with = body, without = body;
  with.replace(with.find("BARRIER"), 7, "bar.sync 0;");
  without.replace(without.find("BARRIER"), 7, "");
  EXPECT_EQ(words(with, 64, shared)[0], 63u);
  std::string message = fault(without, 64, shared);
  EXPECT_SAYS(message, "race on shared memory");
  EXPECT_SAYS(message, "with no barrier between");
}

TEST_F(Faults, of_two_warps_that_write_one_place) {
  std::string message = fault("st.shared.u32 [s], %tid0;", 64, shared);
  EXPECT_SAYS(message, "race");
  EXPECT_SAYS(fault("mov.u32 %r1, %laneid; setp.eq.u32 %q1, %r1, 0; @%q1 st.shared.u32 [s], 7;", 64, shared),
              "race on shared memory at 0x0: warp 1 writes here what warp 0 wrote at PTX line");
}

TEST_F(Faults, of_lanes_that_write_different_values) {
  EXPECT_SAYS(fault("st.shared.u32 [s], %tid0;", 32, shared), "lanes of one warp store different values");
  EXPECT_SAYS(fault("st.global.u32 [%p0], %tid0;"), "lanes of one warp store different values");
  EXPECT_EQ(words("st.shared.u32 [s], %ntid0; ld.shared.u32 %r1, [s];" + result("%r1"), 32, shared)[3], 32u);
}

TEST_F(Faults, of_races_that_a_named_barrier_of_others_does_not_order) {
  // Warps 0 and 1 meet at barrier 1; warp 2 reads what warp 0 wrote without having met it.
  std::string body = neighbour + R"(
	setp.ge.u32 %q1, %tid0, 64;
	@%q1 bra $THIRD;
	st.shared.u32 [%r3], %tid0;
	bar.sync 1, 64;
	bra $END;
$THIRD:
	bar.sync 2, 32;
	ld.shared.u32 %r5, [s];
$END:
)";
  std::string message = fault(body, 96, shared);
  EXPECT_SAYS(message, "race on shared memory at 0x0: warp 2 reads here what warp 0 wrote at PTX line");
}

TEST_F(Faults, atomics_do_not_race_with_one_another) {
  std::string start =
      "setp.eq.u32 %q1, %tid0, 0; @%q1 st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %r1, [s], 1;\n";
  EXPECT_EQ(words(start + "bar.sync 0; ld.shared.u32 %r2, [s];" + result("%r2"), 64, shared)[0], 64u);
  EXPECT_SAYS(fault(start + "ld.shared.u32 %r2, [s];", 64, shared), "race");
}

// --- barriers
TEST_F(Faults, of_divergent_barriers) {
  EXPECT_SAYS(fault("setp.lt.u32 %q1, %tid0, 16; @%q1 bra $A; bar.sync 0; bra $E;\n$A: bar.sync 1;\n$E:"),
              "divergent synchronisation");
  EXPECT_SAYS(fault("setp.lt.u32 %q1, %tid0, 16; @%q1 bar.sync 0;"),
              "divergent barrier: lanes 0xffff0000 don't take part");
}

TEST_F(Faults, of_barriers_that_are_never_complete) {
  EXPECT_SAYS(fault("setp.lt.u32 %q1, %tid0, 32; @%q1 bra $A; bar.sync 1; bra $E;\n$A: bar.sync 2;\n$E:", 64),
              "deadlock: this barrier is never complete; here wait warps 0, warp 1 at line");
  EXPECT_SAYS(fault("bar.sync 3, 96;", 64), "here wait warps 0 1");
  EXPECT_SAYS(fault("mov.u32 %r1, 20; bar.sync 3, %r1;", 64), "no multiple of 32");
}

TEST_F(Faults, of_shuffles) {
  EXPECT_SAYS(fault("setp.lt.u32 %q1, %tid0, 16; @%q1 shfl.sync.idx.b32 %r1, %tid0, 20, 31, 0xffff;"),
              "shuffle from lane 20, which doesn't take part");
  EXPECT_SAYS(fault("bar.warp.sync 0xfffe;"), "this thread is not in the member mask 0xfffe");
  EXPECT_SAYS(fault("setp.lt.u32 %q1, %tid0, 16; @%q1 shfl.sync.idx.b32 %r1, %tid0, 0, 31, -1;"),
              "its guard keeps it away");
}

TEST_F(Faults, of_kernels_that_hang) {
  heddle_emulator_set("limit", 1 << 18);
  EXPECT_SAYS(fault("$L: ld.volatile.global.u32 %r1, [%p0]; setp.eq.u32 %q1, %r1, 0; @%q1 bra $L;", 32, "", 0, 702),
              "it seems to hang");
  heddle_emulator_set("limit", 1 << 28);
}

TEST_F(Faults, of_the_first_block_are_told) {
  for (int i = 0; i < 5; i++) {
    Program program(kernel(1, "setp.ge.u32 %q1, %cta, 7; @%q1 trap;"));
    Buffer<uint32_t> out(4);
    EXPECT_EQ(launch_blocks(program.kernel("k"), {300, 1, 1}, {64, 1, 1}, 0, out.address), 719);
    EXPECT_SAYS(std::string(heddle_emulator_message()), "block (7,0,0), thread (0,0,0): trap");
    heddle_emulator_reset();
  }
}

} // namespace
} // namespace gpu_test
