// Names of targets: what exists, what `native` becomes, what the messages say.
#include "compiler/targets/target.h"

#include "runtime/cpu_features.h"

#include <gtest/gtest.h>

using namespace heddle;

TEST(Targets, native_is_the_last_row_that_this_machine_can_run) {
  Result<Target> native = find_target("native");
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(native->cpu_features() & ~heddle_host_cpu_features(), 0u);
  bool after = false;
  for (const Target &target : targets()) {
    if (after)
      EXPECT_NE(target.cpu_features() & ~heddle_host_cpu_features(), 0u) << target.name;
    after |= target.name == native->name;
  }
  EXPECT_TRUE(after);
}

TEST(Targets, each_row_has_all_that_the_row_before_it_has) {
  uint32_t before = 0;
  for (const Target &target : targets()) {
    EXPECT_EQ(before & ~target.cpu_features(), 0u) << target.name;
    before = target.cpu_features();
    EXPECT_EQ(find_target(target.name)->name, target.name);
  }
}

TEST(Targets, an_unknown_name_is_answered_with_the_known_ones) {
  EXPECT_EQ(find_target("x86-64-v5").error().message,
            "there is no target `x86-64-v5`; the targets are native, x86-64-v3, x86-64-v4, x86-64-v4+vnni, "
            "x86-64-v4+bf16, x86-64-v4+amx");
  EXPECT_EQ(find_target("cuda:sm_90").error().message,
            "the target `cuda:sm_90` is not built yet; use one of the x86-64 targets");
}
