// Rows of blocks, and tiles at the end of the rows, which multiply no more rows than there are.
#include "compiler/choose/choice.h"
#include "contraction_text.h"
#include "harness.h"

#include "compiler/targets/target.h"

#include <regex>
#include <sstream>

namespace heddle::test {

namespace {

/// Sums that each loop over the terms adds up, in vectors; of the first tile of a statement from `from` on.
std::vector<int> sums_of_loops(const std::string &statement, size_t from = 0) {
  std::vector<int> out;
  std::istringstream lines(statement.substr(statement.find("produce sum", from)));
  const std::regex loop("\\s*for \\(sum\\S*\\.s1\\..*"), store("\\s*sum\\S*\\[ramp\\([^=]*\\] = .*");
  for (std::string line; std::getline(lines, line) && line.find("consume sum") == std::string::npos;)
    if (std::regex_match(line, loop))
      out.push_back(0);
    else if (!out.empty() && std::regex_match(line, store))
      ++out.back();
  return out;
}

TEST(ContractionRows, EachNumberOfRowsHasALoopOverTheSumOfItsOwn) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  for (const ScheduleRow &row :
       {row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}, {"ahead", 1}}),
        row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}, {"ahead", 0}}),
        row_of("contraction", "chunks", {{"rows", 8}, {"width", 48}, {"depth", 64}, {"panels", 2}})}) {
    KernelText kernel(lit_kernel("contraction_bias_gelu"));
    kernel.set_row(row);
    Result<KernelObject> lowered = emit_kernel(kernel.function(), 0, *target, {KernelForm::statement, false});
    ASSERT_TRUE(lowered) << lowered.error().message;
    EXPECT_EQ(sums_of_loops(lowered->bytes), (std::vector<int>{24, 21, 18, 15, 12, 9, 6, 3})) << row.variant;
  }
}

TEST(ContractionRows, TilesThatHaveAllOfThemHaveOneLoopOverTheSum) {
  Result<Target> target = find_target("x86-64-v3"); // with few registers Halide makes two loops over tiles
  ASSERT_TRUE(target);
  for (int ahead : {0, 1}) {
    KernelText kernel(lit_kernel("contraction_bias_gelu"));
    kernel.set_row(row_of("contraction", "tiles", {{"rows", 4}, {"width", 48}, {"ahead", ahead}}));
    Result<KernelObject> lowered = emit_kernel(kernel.function(), 0, *target, {KernelForm::statement, false});
    ASSERT_TRUE(lowered) << lowered.error().message;
    EXPECT_EQ(sums_of_loops(lowered->bytes), (std::vector<int>{24}));
    EXPECT_EQ(sums_of_loops(lowered->bytes, lowered->bytes.find("consume sum")), (std::vector<int>{24, 18, 12, 6}));
  }
}

TEST(ContractionRows, AreRightWhereverTheyEnd) {
  Result<Target> target = find_target("native");
  ASSERT_TRUE(target);
  for (const ScheduleRow &row :
       {row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}, {"ahead", 1}}),
        row_of("contraction", "tiles", {{"rows", 4}, {"width", 48}, {"abreast", 2}}),
        row_of("contraction", "tiles", {{"rows", 4}, {"width", 48}, {"ahead", 1}}),
        row_of("contraction", "chunks", {{"rows", 8}, {"width", 48}, {"depth", 64}, {"panels", 2}})}) {
    KernelText kernel(lit_kernel("contraction_bias_gelu", {{"3072", "192"}, {"768", "72"}}));
    kernel.set_row(row);
    CompiledKernel compiled(kernel.function(), 0, *target, false);
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17}) {
      std::vector<Values> inputs = random_inputs(kernel.function(), {rows}, 7);
      EXPECT_TRUE(close(compiled.run({rows}, inputs), evaluate(kernel.function(), {rows}, inputs), 3e-5))
          << row.variant << ", " << rows << " rows";
    }
  }
}

/// x[M, terms] times weights of 768 columns, in panels of `width` or, 0, as they lie.
ScheduleRow chosen_for(int64_t terms, int64_t width, int64_t rows, const Target &target) {
  KernelText kernel(dense_text(768, terms, width));
  return choose(kernel.function(), target, {{rows}}).rows.front();
}

TEST(ContractionRows, AllPassOverAPanelThatIsPacked) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  for (int64_t terms : {768, 3072}) {
    ScheduleRow packed = chosen_for(terms, 0, 512, *target);
    EXPECT_EQ(packed.variant, "tiles") << terms;
    EXPECT_GE(packed.params.at("block"), 512) << terms;
    EXPECT_LT(chosen_for(terms, 48, 512, *target).params.at("block"), 512) << terms;
  }
  EXPECT_EQ(chosen_for(30000, 0, 512, *target).variant, "chunks"); // of which the second cache holds the panel
}

} // namespace

} // namespace heddle::test
