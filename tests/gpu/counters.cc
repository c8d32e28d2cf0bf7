// Counters: sectors per global request, passes per request of shared memory, instructions by class.
#include "tests/gpu/kernel.h"

namespace gpu_test {
namespace {

struct Counters : Gpu {};

heddle_emulator_counter counted(const std::string &body, const char *name, unsigned threads = 32) {
  Program program(kernel(1, body, ".shared .align 16 .b8 s[16384];\n"));
  Buffer<uint32_t> out(std::vector<uint32_t>(64 * 1024));
  heddle_emulator_clear_counters();
  EXPECT_EQ(launch_blocks(program.kernel("k"), {1, 1, 1}, {threads, 1, 1}, 0, out.address), 0)
      << heddle_emulator_message();
  heddle_emulator_counter c;
  EXPECT_EQ(heddle_emulator_get_counter("k", name, &c), 1);
  return c;
}

void expect(const heddle_emulator_counter &c, uint64_t requests, uint64_t cost, uint64_t ideal) {
  EXPECT_EQ(c.requests, requests);
  EXPECT_EQ(c.cost, cost);
  EXPECT_EQ(c.ideal, ideal);
}

TEST_F(Counters, of_sectors) {
  auto load = [&](const std::string &stride, const std::string &type, unsigned offset = 0) {
    std::string registers = type[0] == 'v' ? "{%r1, %r2, %r3, %r4}" : "%r1";
    return counted("mul.wide.u32 %d1, %tid0, " + stride + "; add.u64 %d1, %d1, %p0; ld.global." + type + " " +
                       registers + ", [%d1+" + std::to_string(offset) + "];",
                   "load_global");
  };
  expect(load("4", "u32"), 1, 4, 4);       // coalesced
  expect(load("4", "u32", 4), 1, 5, 4);    // across one more sector
  expect(load("8", "u32"), 1, 8, 4);       // every other word
  expect(load("128", "u32"), 1, 32, 4);    // a sector for each lane
  expect(load("0", "u32"), 1, 1, 1);       // all lanes one word
  expect(load("16", "v4.u32"), 1, 16, 16); // 512 bytes
  expect(load("256", "v4.u32"), 1, 32, 16);
}

TEST_F(Counters, of_passes) {
  auto store = [&](const std::string &stride, const std::string &type = "u32") {
    std::string registers = type == "v4.u32" ? "{%r5, %r5, %r5, %r5}" : type == "v2.u32" ? "{%r5, %r5}" : "%r5";
    return counted("mov.u32 %r5, 1; mul.lo.u32 %r1, %tid0, " + stride +
                       "; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; st.shared." + type + " [%r1], " + registers + ";",
                   "store_shared");
  };
  expect(store("4"), 1, 1, 1);
  expect(store("8"), 1, 2, 1);    // two lanes in each bank
  expect(store("128"), 1, 32, 1); // all in one bank
  expect(store("132"), 1, 1, 1);  // padded by one word: none
  expect(store("0"), 1, 1, 1);    // one word
  expect(store("16", "v4.u32"), 1, 4, 4);
  expect(store("8", "v2.u32"), 1, 2, 2);
  expect(store("128", "v4.u32"), 1, 32, 4); // the 8 lanes of a phase in the same 4 banks
}

TEST_F(Counters, of_matrix_rows) {
  auto load = [&](const std::string &stride) {
    return counted("mov.u32 %r2, s; mov.u32 %r9, 0; mul.lo.u32 %r1, %tid0, " + stride +
                       "; add.u32 %r1, %r1, %r2; st.shared.v4.u32 [%r1], {%r9, %r9, %r9, %r9};\n"
                       "bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r1];",
                   "load_shared");
  };
  expect(load("16"), 1, 4, 4);
  expect(load("128"), 1, 32, 4); // rows of 64 halves: eight-fold conflicts
  expect(load("144"), 1, 4, 4);  // padded
}

/// Where cp.async writes, eight lanes at a time.
TEST_F(Counters, of_passes_of_copies) {
  auto copy = [&](const std::string &place) {
    return counted(place + "mul.wide.u32 %d1, %tid0, 16; add.u64 %d1, %d1, %p0; mov.u32 %r2, s; "
                           "add.u32 %r1, %r1, %r2; cp.async.cg.shared.global [%r1], [%d1], 16; cp.async.wait_all;",
                   "async_store");
  };
  expect(copy("mul.lo.u32 %r1, %tid0, 16; "), 1, 4, 4);
  expect(copy("mul.lo.u32 %r1, %tid0, 32; "), 1, 8, 4);
  // Four to a line, lines 80 bytes apart: the second line's last four banks are the first one's.
  expect(copy("shr.u32 %r1, %tid0, 2; mul.lo.u32 %r1, %r1, 80; and.b32 %r3, %tid0, 3; mad.lo.u32 %r1, %r3, 16, %r1; "),
         1, 8, 4);
}

TEST_F(Counters, of_instructions) {
  heddle_emulator_counter c =
      counted("setp.lt.u32 %q1, %tid0, 40; @%q1 fma.rn.f32 %f1, %f1, %f1, %f1; @%q1 fma.rn.f32 %f1, %f1, %f1, %f1;",
              "floating", 64);
  EXPECT_EQ(c.warps, 4u);
  EXPECT_EQ(c.lanes, 80u);
  EXPECT_EQ(heddle_emulator_launches("k"), 1u); // of modules that are gone, too
  EXPECT_EQ(heddle_emulator_get_counter("k", "nonsense", &c), 0);
  heddle_emulator_clear_counters();
  EXPECT_EQ(heddle_emulator_launches(""), 0u);
}

/// Of the blocks only every fourth is measured; all are counted.
TEST_F(Counters, of_a_sample_of_blocks) {
  heddle_emulator_set("sample", 4);
  Program program(kernel(1, "mul.wide.u32 %d1, %at, 4; add.u64 %d1, %d1, %p0; ld.global.u32 %r1, [%d1];"));
  Buffer<uint32_t> out(std::vector<uint32_t>(32 * 16));
  ASSERT_EQ(launch_blocks(program.kernel("k"), {16, 1, 1}, {32, 1, 1}, 0, out.address), 0) << heddle_emulator_message();
  heddle_emulator_counter c;
  ASSERT_EQ(heddle_emulator_get_counter("k", "load_global", &c), 1);
  EXPECT_EQ(c.warps, 16u);
  expect(c, 4, 16, 16);
  heddle_emulator_set("sample", 1);
}

/// Of a launch only some are executed, the first among them, and as far apart as they can be.
TEST_F(Counters, of_some_blocks) {
  heddle_emulator_set("blocks", 4);
  Program program(kernel(1, "mov.u32 %r1, 7; mul.wide.u32 %d1, %at, 4; add.u64 %d1, %d1, %p0; "
                            "st.global.u32 [%d1], %r1;"));
  Buffer<uint32_t> out(std::vector<uint32_t>(32 * 18));
  heddle_emulator_clear_counters();
  ASSERT_EQ(launch_blocks(program.kernel("k"), {18, 1, 1}, {32, 1, 1}, 0, out.address), 0) << heddle_emulator_message();
  uint64_t launched, executed;
  heddle_emulator_get_blocks("k", &launched, &executed);
  EXPECT_EQ(launched, 18u);
  EXPECT_EQ(executed, 4u);
  std::vector<uint32_t> written;
  std::vector<uint32_t> all = out.read();
  for (uint32_t block = 0; block < 18; block++)
    if (all[block * 32] == 7)
      written.push_back(block);
  EXPECT_EQ(written, (std::vector<uint32_t>{0, 4, 9, 13}));
  heddle_emulator_set("blocks", 0);
}

} // namespace
} // namespace gpu_test
