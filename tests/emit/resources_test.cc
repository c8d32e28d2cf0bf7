// What launches take of a multiprocessor, against NVIDIA's own tables, and what is read from PTX.
#include "compiler/emit/device/resources.h"

#include <gtest/gtest.h>

using namespace heddle;

namespace {

const Gpu &gpu(std::string_view name) {
  for (const Target &target : gpu_targets())
    if (target.name == name)
      return *target.gpu;
  throw std::runtime_error("no such target");
}

TEST(Resources, blocks_are_limited_by_what_runs_out_first) {
  struct Case {
    int64_t threads, shared;
    std::optional<int> registers;
    int64_t blocks, warps;
  };
  // NVIDIA's occupancy calculator for 8.0: 64 warps, 32 blocks, 65536 registers, 164 KiB of shared memory.
  for (const Case &c : {Case{256, 0, 32, 8, 64}, Case{256, 0, 33, 6, 48}, Case{256, 0, 64, 4, 32},
                        Case{256, 0, 128, 2, 16}, Case{256, 0, 255, 1, 8}, Case{32, 0, 16, 32, 32},
                        Case{1024, 0, 32, 2, 64}, Case{96, 0, 32, 21, 63}, Case{256, 20480, 32, 7, 56},
                        Case{256, 44288, 80, 3, 24}, Case{128, 166912, 32, 1, 4}, Case{128, 0, std::nullopt, 16, 64}}) {
    Occupancy got = occupancy(gpu("cuda:sm_80"), c.threads, {c.shared, false, c.registers, {}});
    EXPECT_EQ(got.blocks, c.blocks) << c.threads << " threads, " << c.shared << " bytes";
    EXPECT_DOUBLE_EQ(got.warps, double(c.warps) / 64) << c.threads << " threads, " << c.shared << " bytes";
  }
  EXPECT_EQ(occupancy(gpu("cuda:sm_90"), 128, {100 << 10, false, 32, {}}).blocks, 2);
  EXPECT_EQ(occupancy(gpu("cuda:sm_80"), 128, {100 << 10, false, 32, {}}).blocks, 1);
}

TEST(Resources, shared_memory_is_counted_where_it_is_used) {
  auto found = resources_in(".version 7.0\n"
                            ".shared .align 16 .b8 k0_shared[512];\n"
                            ".shared .align 4 .b8 k0_shared1[64];\n"
                            ".visible .entry first(\n.param .u64 a\n)\n{\n"
                            "\tmov.u32 %r1, k0_shared;\n\tmov.u32 %r2, k0_shared1;\n\tret;\n}\n"
                            ".visible .entry second()\n{\n\t// demoted variable\n"
                            "\t.shared .align 4 .b8 own[128];\n\tmov.u32 %r1, k0_shared1;\n"
                            "\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {};\n\tret;\n\n}\n"
                            ".visible .entry third()\n{\n\tret;\n}\n");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found["first"].shared, 576);
  EXPECT_FALSE(found["first"].tensor);
  EXPECT_EQ(found["second"].shared, 192);
  EXPECT_TRUE(found["second"].tensor);
  EXPECT_EQ(found["third"].shared, 0);
}

} // namespace
