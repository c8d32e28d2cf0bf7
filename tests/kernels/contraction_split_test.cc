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

} // namespace heddle::test
