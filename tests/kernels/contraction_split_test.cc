// Contractions of f32 whose factors are split for a matrix unit of bf16.
#include "contraction_check.h"
#include "contraction_text.h"

#include "compiler/targets/target.h"

namespace heddle::test {

TEST(ContractionSplit, IsRightAroundTheEdgesOfTilesChunksAndPanels) {
  std::vector<std::vector<int64_t>> sizes = {{1}, {16}, {31}, {32}, {33}, {62}, {129}};
  for (int64_t width : {32, 48})
    for (int64_t terms : {32, 64, 70, 128, 150})
      check_row(dense_text(101, terms, width), split_tiles(width, 64), sizes, 1e-6, terms == 70);
}

TEST(ContractionSplit, PacksWeightsThatLieRowMajor) {
  for (int64_t width : {32, 48})
    for (int64_t terms : {64, 75})
      check_row(dense_text(101, terms, 0), split_tiles(width, 64), {{1}, {33}, {110}}, 1e-6);
}

TEST(ContractionSplit, TakesARunTimeNumberOfTermsWithWhatRemainsInTheLastChunk) {
  check_row(plain_gradient(61, 101), split_tiles(32, 64), {{1}, {31}, {64}, {130}, {200}}, 1e-6);
}

TEST(ContractionSplit, ManyRowsInSeveralBlocks) {
  check_row(dense_text(70, 96, 32), split_tiles(32, 96, 224), {{500}, {520}}, 1e-6);
  check_row(dense_text(70, 96, 32), split_tiles(32, 64, 224), {{500}, {520}}, 1e-6);
}

TEST(ContractionSplit, IsOfferedForManyRowsOfF32AndChosenByMeasurementsAlone) {
  for (int64_t width : {32, 48}) {
    KernelText kernel(dense_text(768, 768, width));
    Result<Target> target = find_target("x86-64-v4+amx"), without = find_target("x86-64-v4+bf16");
    ASSERT_TRUE(target && without);
    auto offered = [](const Choice &choice) {
      return std::ranges::count(choice.candidates, "split_tiles",
                                [](const Candidate &candidate) { return candidate.row.variant; });
    };
    EXPECT_EQ(offered(choose(kernel.function(), *without)), 0);
    Choice choice = choose(kernel.function(), *target, {{1}, {512}});
    EXPECT_EQ(offered(choice), 1);
    for (const ScheduleRow &row : choice.rows)
      EXPECT_EQ(row.micro_kernel, "fma");
    for (size_t i = 0; i < choice.candidates.size(); ++i)
      if (choice.candidates[i].row.variant == "split_tiles") {
        EXPECT_GT(choice.seconds[0][i], choice.seconds[0][choice.best(0)]);
        EXPECT_LT(choice.seconds[1][i], choice.seconds[1][choice.best(1)]);
      }
    kernel.set_row(split_tiles(width, 768));
    Result<KernelObject> code = emit_kernel(kernel.function(), 0, *target, {KernelForm::assembly, false});
    ASSERT_TRUE(code) << code.error().message;
    // Of two tiles of rows and of one: six products of each pair of tiles. Of two abreast both rows' tiles are at hand,
    // and two of the panel's are not loaded again.
    EXPECT_EQ(count(code->bytes, "tdpbf16ps"), 6 * 3 * width / 16);
    EXPECT_EQ(count(code->bytes, "tileloadd"), width == 32 ? (6 + 8) + (3 + 8) : 3 * (3 + 18));
    EXPECT_EQ(count(code->bytes, "tilerelease"), 1);
  }
}

} // namespace heddle::test
