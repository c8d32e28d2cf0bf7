// Names of targets: what exists, what `native` becomes, what the messages say.
#include "compiler/targets/target.h"

#include "runtime/cpu_features.h"

#include <gtest/gtest.h>

using namespace heddle;

TEST(Targets, native_is_the_last_row_that_this_machine_can_run_and_is_not_slow_at) {
  Result<Target> native = find_target("native");
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(native->cpu_features() & ~heddle_host_cpu_features(), 0u);
  bool after = false;
  for (const Target &target : targets()) {
    bool is_slow = target.name == "x86-64-v4+bf16" && __builtin_cpu_is("intel");
    if (after && !is_slow)
      EXPECT_NE(target.cpu_features() & ~heddle_host_cpu_features(), 0u) << target.name;
    if (is_slow)
      EXPECT_NE(native->name, target.name);
    after |= target.name == native->name;
  }
  EXPECT_TRUE(after);
}

TEST(Targets, each_row_has_all_that_the_rows_before_it_have_but_for_what_avx512_has_otherwise) {
  uint32_t before = 0;
  for (const Target &target : targets()) {
    EXPECT_EQ(before & ~target.cpu_features(), 0u) << target.name;
    before = target.cpu_features() & ~HEDDLE_CPU_AVX_VNNI;
    EXPECT_EQ(find_target(target.name)->name, target.name);
  }
}

TEST(Targets, halide_is_told_of_more_where_it_has_no_words_for_a_dot_product_alone) {
  uint32_t base = HEDDLE_CPU_AVX2 | HEDDLE_CPU_AVX512, bits = HEDDLE_CPU_AVX512_BITS | HEDDLE_CPU_AVX512_BF16;
  EXPECT_FALSE(halide_allows_more(base));
  EXPECT_TRUE(halide_allows_more(base | HEDDLE_CPU_AVX512_VNNI));
  EXPECT_FALSE(halide_allows_more(base | HEDDLE_CPU_AVX512_VNNI | bits));
  EXPECT_TRUE(halide_allows_more(HEDDLE_CPU_AVX2 | HEDDLE_CPU_AVX_VNNI));
  EXPECT_TRUE(llvm_features(HEDDLE_CPU_AVX2 | HEDDLE_CPU_AVX_VNNI).ends_with(",+popcnt,+avxvnni"));
}

TEST(Targets, each_gpu_allows_all_that_the_one_before_it_allows) {
  int before = 0;
  for (const Target &target : gpu_targets()) {
    ASSERT_NE(target.gpu, nullptr) << target.name;
    EXPECT_EQ(target.cpu_features(), 0u) << target.name;
    EXPECT_GT(target.gpu->sm, before) << target.name;
    before = target.gpu->sm;
    EXPECT_EQ(find_target(target.name)->gpu, target.gpu);
  }
}

TEST(Targets, an_unknown_name_is_answered_with_the_known_ones) {
  EXPECT_EQ(find_target("x86-64-v5").error().message,
            "there is no target `x86-64-v5`; the targets are native, x86-64-v3, x86-64-v3+vnni, x86-64-v4, "
            "x86-64-v4+vnni, x86-64-v4+bf16, x86-64-v4+amx, cuda:sm_80, cuda:sm_90");
  EXPECT_EQ(find_target("cuda:nine").error().message.substr(0, 33), "there is no target `cuda:nine`; t");
}

TEST(Targets, a_gpu_that_is_no_target_is_answered_with_the_one_whose_code_runs_there) {
  EXPECT_EQ(find_target("cuda:sm_90a").error().message,
            "there is no target `cuda:sm_90a`; code for `cuda:sm_90` runs on such a GPU, without the "
            "instructions that only sm_90a has");
  EXPECT_EQ(find_target("cuda:sm_120").error().message,
            "there is no target `cuda:sm_120`; code for `cuda:sm_90` runs on such a GPU");
  EXPECT_EQ(find_target("cuda:sm_86").error().message,
            "there is no target `cuda:sm_86`; code for `cuda:sm_80` runs on such a GPU");
  EXPECT_EQ(find_target("cuda:sm_75").error().message,
            "there is no target `cuda:sm_75`; GPUs of compute capability 8.0 and later have one: cuda:sm_80");
}
