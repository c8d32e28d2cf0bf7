// What contractions ask for ahead: the next panel, and the rows that an epilogue reads and writes.
#include "compiler/choose/choice.h"
#include "contraction_text.h"
#include "harness.h"

#include "compiler/targets/target.h"

#include <map>
#include <tuple>

namespace heddle::test {

TEST(Contraction, TallTilesFetchTheNextPanelAndSingleRowsDont) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  KernelText kernel(lit_kernel("contraction_bias_gelu"));
  set_schedule(kernel.function(), choose(kernel.function(), *target));
  EmitOptions options;
  options.form = KernelForm::assembly;
  int rows = int(schedule_rows(kernel.function())->size());
  ASSERT_GT(rows, 1);
  for (int row : {0, rows - 1}) {
    Result<KernelObject> object = emit_kernel(kernel.function(), row, *target, options);
    ASSERT_TRUE(object) << object.error().message;
    std::string text(object->bytes.begin(), object->bytes.end());
    EXPECT_EQ(text.find("prefetcht1") != std::string::npos, row == 0);
  }
}

/// How often a statement asks for lines of each buffer.
static std::map<std::string, int> asked_in(const std::string &statement) {
  std::map<std::string, int> asked;
  const std::string before = "llvm.prefetch.p0(reinterpret<(void *)>(reinterpret<uint64>(";
  for (size_t at = statement.find(before); at != std::string::npos; at = statement.find(before, at + 1)) {
    size_t name = at + before.size();
    ++asked[statement.substr(name, statement.find(')', name) - name)];
  }
  return asked;
}

/// The lowered statement that adds up a tile's sums.
static std::string sum_of(const KernelText &kernel) {
  Result<KernelObject> lowered =
      emit_kernel(kernel.function(), 0, *find_target("x86-64-v4"), {KernelForm::statement, false});
  EXPECT_TRUE(lowered) << lowered.error().message;
  if (!lowered)
    return "";
  const std::string &statement = lowered->bytes;
  size_t produce = statement.find("produce sum"), consume = statement.find("consume sum");
  EXPECT_LT(produce, consume);
  return produce < consume ? statement.substr(produce, consume - produce) : "";
}

TEST(Contraction, RowsThatTheEpilogueTouchesAreAskedForTilesBefore) {
  const std::string one = lit_kernel("contraction_residual");
  const std::string extents = " {heddle.extents = affine_map<(M) -> (M, 768)>}";
  std::string two = with(one, "-> (tensor<?x768xf32>" + extents + ") attributes",
                         "-> (tensor<?x768xf32>" + extents + ", tensor<?x768xbf16>" + extents + ") attributes");
  two = with(two, "  return %y : tensor<?x768xf32>", R"(
  %en = tensor.empty(%M) : tensor<?x768xbf16>
  %n = linalg.generic {indexing_maps = [affine_map<(m, o) -> (m, o)>, affine_map<(m, o) -> (m, o)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x768xf32>) outs(%en : tensor<?x768xbf16>) {
  ^bb0(%yv: f32, %out: bf16):
    %0 = arith.truncf %yv : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<?x768xbf16>
  return %y, %n : tensor<?x768xf32>, tensor<?x768xbf16>)");
  // Where registers are few, the epilogue is a loop over rows, and so is what asks for them.
  for (const auto &[text, buffers, cpu, count_of_each] :
       {std::tuple(one, 2, "x86-64-v4", 8 * 3), std::tuple(two, 3, "x86-64-v4", 8 * 3),
        std::tuple(one, 2, "x86-64-v3", 6), std::tuple(two, 3, "x86-64-v3", 6)}) {
    Result<Target> target = find_target(cpu);
    ASSERT_TRUE(target);
    KernelText kernel(text);
    kernel.set_row(row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}, {"ahead", 1}}));
    Result<KernelObject> lowered = emit_kernel(kernel.function(), 0, *target, {KernelForm::statement, false});
    ASSERT_TRUE(lowered) << lowered.error().message;
    const std::string &statement = lowered->bytes;
    size_t tile = statement.find(".tile,"), produce = statement.find("produce sum");
    ASSERT_LT(tile, produce);
    // Before the sum, each vector of the tile: of the results, and of the residual.
    std::map<std::string, int> asked = asked_in(statement.substr(tile, produce - tile));
    ASSERT_EQ(int(asked.size()), buffers) << statement.substr(tile, produce - tile);
    for (const auto &[buffer, count] : asked)
      EXPECT_EQ(count, count_of_each) << buffer;
  }
}

TEST(Contraction, RowsThatFollowOneAnotherAreAskedForTilesBefore) {
  const ScheduleRow whole = row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}, {"ahead", 1}, {"tasks", 1}});
  const ScheduleRow cut = row_of("contraction", "chunks", {{"rows", 8}, {"width", 48}, {"ahead", 1}, {"depth", 48}});
  for (const ScheduleRow &row : {whole, cut}) { // a chunk's rows lie apart, and are in the cache
    KernelText kernel(dense_text(96, 96, 48));
    kernel.set_row(row);
    std::string sum = sum_of(kernel);
    EXPECT_EQ(asked_in(sum).size(), row.variant == "tiles" ? 2u : 1u) << sum;
  }
}

TEST(Contraction, WhereToAskIsDividedBeforeTheLoopOverTerms) {
  Result<Target> target = find_target("x86-64-v3");
  ASSERT_TRUE(target);
  for (const ScheduleRow &row : {row_of("contraction", "tiles", {{"rows", 6}, {"width", 16}, {"ahead", 1}}),
                                 row_of("contraction", "chunks", {{"rows", 6}, {"width", 16}, {"ahead", 1}})}) {
    KernelText kernel(dense_text(96, 96, 16));
    kernel.set_row(row);
    Result<KernelObject> lowered = emit_kernel(kernel.function(), 0, *target, {KernelForm::statement, false});
    ASSERT_TRUE(lowered) << lowered.error().message;
    const std::string &statement = lowered->bytes;
    size_t asked = statement.find("llvm.prefetch", statement.find("produce sum"));
    ASSERT_NE(asked, std::string::npos) << statement;
    size_t loop = statement.rfind("for (", asked), end = statement.find("}\n", asked);
    std::string terms = statement.substr(loop, end - loop);
    EXPECT_EQ(terms.find('/'), std::string::npos) << terms;
  }
}

TEST(Contraction, ASingleTileAsksForNothingOfTheNextPanel) {
  for (int rows : {8, 16, 64}) {
    std::string text = with(dense_text(96, 96, 48), "tensor<?x", "tensor<" + std::to_string(rows) + "x");
    text = with(text, "tensor.empty(%M)", "tensor.empty()");
    KernelText kernel(with(text, "(M) -> (M, ", "(M) -> (" + std::to_string(rows) + ", "));
    kernel.set_row(row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}, {"ahead", 1}, {"tasks", 1}}));
    std::string sum = sum_of(kernel);
    EXPECT_EQ(sum.find("prefetch") != std::string::npos, rows > 8) << sum;
  }
}

TEST(Contraction, FewTilesAskForEachLineOfTheirPanelWhereTheScheduleSaysSo) {
  for (int width : {32, 48})
    for (int depth : {96, 8192}) { // two panels of the latter are more than the second cache
      KernelText kernel(dense_text(96, depth, width));
      kernel.set_row(row_of("contraction", "tiles", {{"rows", 8}, {"width", width}, {"ahead", 2}}));
      std::string sum = sum_of(kernel);
      std::map<std::string, int> asked = asked_in(sum);
      ASSERT_EQ(asked.size(), 1u) << sum;
      EXPECT_EQ(asked.begin()->second, 8 * width * 4 / 64); // in a loop for each number of rows that a tile may have
    }
}

} // namespace heddle::test
