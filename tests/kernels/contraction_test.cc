// Contractions against the slow evaluation of the same text: every register tile at sizes around its edges, odd
// columns and depths, weights in panels and as they lie, every micro-kernel.
#include "contraction_check.h"
#include "contraction_text.h"

#include "compiler/targets/target.h"

#include <cmath>
#include <map>

namespace heddle::test {

/// Every shape of a tile once, with the other parameters in turn.
static std::vector<ScheduleRow> tiles() {
  std::map<std::string, std::vector<ScheduleRow>> by_shape;
  for (const ScheduleRow &row : all_rows(*find_kind("contraction")))
    if (row.variant != "matrix_tiles" && row.variant != "split_tiles" && row.variant != "copied_rows" &&
        row.variant != "packed_panels") // which have tests of their own
      by_shape[row.variant + " " + std::to_string(row.params.at("rows")) + " " + std::to_string(row.params.at("width"))]
          .push_back(row);
  std::vector<ScheduleRow> out;
  for (const auto &[shape, rows] : by_shape)
    out.push_back(rows[out.size() % rows.size()]);
  return out;
}

/// Compiling is what the tests of every tile spend their time on, and asserts are about bounds.
static bool has_asserts(const ScheduleRow &row) { return row.params.at("rows") == 1 || row.params.at("rows") == 8; }

/// As many panels as a tile of the row takes at a time, two at least, the last of them not full.
static int64_t columns_for(const ScheduleRow &row) {
  auto abreast = row.params.find("abreast");
  int64_t panels = std::max<int64_t>(abreast == row.params.end() ? 1 : abreast->second, 2);
  return (panels - 1) * row.params.at("width") + 5;
}

TEST(Contraction, EveryTileIsRightAroundItsEdgesWithWeightsInPanels) {
  for (const ScheduleRow &row : tiles()) {
    int64_t rows = row.params.at("rows"), width = row.params.at("width");
    check_row(dense_text(columns_for(row), 13, width), row, {{1}, {rows - 1 ? rows - 1 : 2}, {rows}, {rows + 1}, {37}},
              1e-5, has_asserts(row));
  }
}

static ScheduleRow chunks(int64_t rows, int64_t width, int64_t depth, int64_t panels) {
  return row_of("contraction", "chunks", {{"rows", rows}, {"width", width}, {"depth", depth}, {"panels", panels}});
}

TEST(Contraction, SumsInChunksAreRightAroundTheEdgesOfAChunk) {
  for (int64_t terms : {7, 8, 9, 15, 16, 17})
    check_row(dense_text(101, terms, 16), chunks(6, 16, 8, 2), {{1}, {6}, {7}, {23}}, 1e-5);
  for (int64_t terms : {511, 513, 1024})
    check_row(dense_text(35, terms, 32), chunks(8, 32, 512, 2), {{9}}, tolerance(terms));
}

TEST(Contraction, SumsInChunksPackWhatLiesRowMajor) {
  check_row(dense_text(101, 19, 0), chunks(4, 32, 8, 2), {{1}, {9}, {37}}, 1e-5);
}

TEST(Contraction, TasksSumsInChunksHaveTheRoomOfABlockOfRows) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  KernelText text(dense_text(5000, 64, 0));
  ScheduleRow row = row_of("contraction", "chunks",
                           {{"rows", 8}, {"width", 48}, {"depth", 32}, {"panels", 2}, {"block", 225}, {"tasks", 16}});
  text.function()->setAttr("heddle.kernel", mlir::StringAttr::get(text.function().getContext(), "contraction"));
  text.function()->setAttr("heddle.schedule", schedule_attribute(text.function().getContext(), std::vector{row}));
  CompiledKernel kernel(text.function(), 0, *target, false);
  const int64_t line = 16, sums = 2 * 224 * 48, panels = 2 * 32 * 48; // numbers
  for (int32_t rows : {1, 100, 1000, 100000})
    EXPECT_LE(kernel.scratch_lines({rows}), 2 * (sums + panels) / line) << rows;
}

TEST(Contraction, LongSumsAreCutIntoChunks) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  KernelText kernel(dense_text(70, 3072, 48));
  std::vector<ScheduleRow> rows = choose(kernel.function(), *target).rows;
  EXPECT_EQ(rows.front().variant, "chunks");
  EXPECT_EQ(rows.back().variant, "tiles");
  check_chosen(dense_text(3, 3072, 48), {{1}, {9}}, tolerance(3072));
}

/// y[m, o] = sum[i](x[m, i] * w[o, i]) of bf16, added up in f32.
static const char *const narrow = R"(
func.func private @k(%M: index, %x: tensor<?x{K}xbf16> {heddle.extents = affine_map<(M) -> (M, {K})>},
    %w: tensor<{N}x{K}xbf16> {{layout}}) -> (tensor<?x{N}xf32> {heddle.extents = affine_map<(M) -> (M, {N})>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x{N}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x{N}xf32>) -> tensor<?x{N}xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x{K}xbf16>, tensor<{N}x{K}xbf16>) outs(%f : tensor<?x{N}xf32>) {
  ^bb0(%a: bf16, %c: bf16, %acc: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %c : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %acc, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x{N}xf32>
  return %p : tensor<?x{N}xf32>
})";

static std::string pairs(int64_t width) {
  std::string w = std::to_string(width);
  return "(n, k) -> (n floordiv " + w + ", k floordiv 2, n mod " + w + ", k mod 2)";
}

TEST(Contraction, PairsOfBf16AreRightInEveryTileAndWhereTermsAreOdd) {
  for (ScheduleRow row : tiles()) {
    int64_t rows = row.params.at("rows"), width = row.params.at("width");
    row.micro_kernel = "dot_bf16";
    check_row(sized(narrow, columns_for(row), 13, pairs(width)), row, {{1}, {rows}, {rows + 1}, {37}}, 1e-5,
              has_asserts(row));
    if (width == 16)
      check_row(sized(narrow, columns_for(row), 12, pairs(width)), row, {{rows + 1}}, 1e-5);
  }
  for (int64_t terms : {15, 16, 17})
    for (ScheduleRow row : {chunks(6, 16, 8, 2), row_of("contraction", "tiles", {{"rows", 4}, {"width", 32}})}) {
      row.micro_kernel = "dot_bf16";
      check_row(sized(narrow, 41, terms, ""), row, {{1}, {9}}, 1e-5); // packed by every task
    }
}

/// The same of rows in f32: panels are widened.
static std::string widened(int64_t columns, int64_t depth, int64_t width) {
  std::string w = std::to_string(width);
  std::string text = sized(narrow, columns, depth, "(n, k) -> (n floordiv " + w + ", k, n mod " + w + ")");
  text = with(text, "x" + std::to_string(depth) + "xbf16> {heddle.extents",
              "x" + std::to_string(depth) + "xf32> {heddle.extents");
  text = with(text, "%x, %w : tensor<?x" + std::to_string(depth) + "xbf16>",
              "%x, %w : tensor<?x" + std::to_string(depth) + "xf32>");
  text = with(text, "%a: bf16", "%a: f32");
  text = with(text, "%0 = arith.extf %a : bf16 to f32", "");
  return with(text, "arith.mulf %0", "arith.mulf %a");
}

TEST(Contraction, NarrowPanelsAreWidenedByTheFirstTileOfABlock) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  for (ScheduleRow row : {row_of("contraction", "tiles", {{"rows", 6}, {"width", 16}, {"block", 12}, {"widened", 1}}),
                          row_of("contraction", "tiles", {{"rows", 4}, {"width", 48}, {"ahead", 1}, {"widened", 1}}),
                          chunks(6, 16, 8, 2)}) {
    row.params["widened"] = 1;
    check_row(widened(101, 19, row.params.at("width")), row, {{1}, {6}, {7}, {13}, {40}}, 1e-5);
    KernelText kernel(widened(101, 19, row.params.at("width")));
    kernel.set_row(row);
    Result<KernelObject> lowered = emit_kernel(kernel.function(), 0, *target, {KernelForm::statement, false});
    ASSERT_TRUE(lowered) << lowered.error().message;
    const std::string &text = lowered->bytes;
    EXPECT_GT(text.find("= float32x16(arg"), text.find("produce sum")) << text;
    EXPECT_NE(text.find("= float32x16(arg"), std::string::npos) << text;
  }
}

TEST(Contraction, OneRowOfNarrowWeightsIsNoTallTile) {
  // A tile of 6 rows for one row would multiply for longer than half as many bytes take to arrive.
  for (const char *name : {"x86-64-v3", "x86-64-v4"}) {
    Result<Target> target = find_target(name);
    ASSERT_TRUE(target);
    KernelText kernel(widened(768, 768, 3 * target->lanes));
    std::vector<ScheduleRow> rows = choose(kernel.function(), *target).rows;
    EXPECT_LE(rows.back().params.at("rows"), 4) << name;
    EXPECT_EQ(rows.front().params.at("widened"), 1) << name;
    EXPECT_EQ(rows.back().params.at("widened"), 0) << name;
  }
}

/// y[m, o] = sum[i](x[m, i] * w[o, i]) of u8 and s8, added up in i32.
static const char *const bytes = R"(
func.func private @k(%M: index, %x: tensor<?x{K}xi8> {heddle.extents = affine_map<(M) -> (M, {K})>, heddle.below = 128},
    %w: tensor<{N}x{K}xi8> {heddle.below = 128, heddle.extents = affine_map<(M) -> ({N}, {K})>{layout}})
    -> (tensor<?x{N}xi32> {heddle.extents = affine_map<(M) -> (M, {N})>}) {
  %zero = arith.constant 0 : i32
  %e = tensor.empty(%M) : tensor<?x{N}xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<?x{N}xi32>) -> tensor<?x{N}xi32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x{K}xi8>, tensor<{N}x{K}xi8>) outs(%f : tensor<?x{N}xi32>) {
  ^bb0(%a: i8, %c: i8, %acc: i32):
    %0 = arith.extui %a : i8 to i32
    %1 = arith.extsi %c : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<?x{N}xi32>
  return %p : tensor<?x{N}xi32>
})";

static std::string fours(int64_t width) {
  std::string w = std::to_string(width);
  return "(n, k) -> (n floordiv " + w + ", k floordiv 4, n mod " + w + ", k mod 4)";
}

static std::string bytes_text(int64_t columns, int64_t depth, const std::string &layout) {
  return with(with(with(bytes, "{N}", std::to_string(columns)), "{K}", std::to_string(depth)), "{layout}",
              layout.empty() ? "" : ", heddle.layout = #heddle.layout<" + layout + ">");
}

TEST(Contraction, FoursOfBytesAreExactInEveryTileAndWhereTermsAreLeftOver) {
  for (ScheduleRow row : tiles()) {
    int64_t rows = row.params.at("rows"), width = row.params.at("width");
    row.micro_kernel = "dot_u8s8";
    check_row(bytes_text(columns_for(row), 19, fours(width)), row, {{1}, {rows}, {rows + 1}, {37}}, 0,
              has_asserts(row));
    if (width == 16)
      check_row(bytes_text(columns_for(row), 16, fours(width)), row, {{rows + 1}}, 0);
  }
}

/// The same text, whose weights are known to have neighbours that add up to no more than that.
static std::string with_pair_sum(const std::string &text, int64_t most) {
  return with(text, "extsi %c :", "extsi %c {heddle.pair_sum = " + std::to_string(most) + "} :");
}

/// Weights from -127 to 127 of which no two neighbours add up to more than 128 in magnitude, and many to just that.
static void limit_pairs(std::vector<Values> &inputs) {
  Values &weights = inputs.back();
  const int64_t terms = weights.shape.back();
  for (int64_t i = 0; i < weights.count(); ++i) {
    double &value = weights.data[i], before = i % terms ? weights.data[i - 1] : 0;
    value = std::max(value, -127.0);
    if (std::fabs(value + before) > 128)
      value = std::copysign(128, before) - before;
  }
}

TEST(Contraction, PairsOfBytesThatFitInSixteenBitsAreExactInEveryTileAndWhereTermsAreLeftOver) {
  auto check = [](const ScheduleRow &tile, int64_t terms, const std::string &layout) {
    ScheduleRow row = tile;
    row.micro_kernel = "madd_u8s8";
    int64_t rows = row.params.at("rows");
    std::string text = with(bytes_text(columns_for(row), terms, layout), "heddle.below = 128", "heddle.below = 256");
    check_row(with_pair_sum(text, 128), row, {{1}, {rows}, {rows + 1}, {37}}, 0, has_asserts(row), limit_pairs);
  };
  for (const ScheduleRow &row : tiles())
    check(row, 19, fours(row.params.at("width")));
  check(chunks(6, 16, 8, 2), 32, fours(16));
  check(row_of("contraction", "tiles", {{"rows", 6}, {"width", 16}}), 35, "");
}

TEST(Contraction, BytesAreMultipliedInPairsWhereNeighboursAreKnownToFit) {
  for (const char *name : {"x86-64-v3", "x86-64-v4"}) {
    Result<Target> target = find_target(name);
    ASSERT_TRUE(target);
    auto chosen = [&](const std::string &text) {
      KernelText kernel(text);
      return choose(kernel.function(), *target).rows.front().micro_kernel;
    };
    std::string text = bytes_text(96, 96, fours(2 * target->lanes));
    EXPECT_EQ(chosen(text), "madd_i16") << name;
    EXPECT_EQ(chosen(with_pair_sum(text, 129)), "madd_i16") << name;
    EXPECT_EQ(chosen(with_pair_sum(text, 128)), "madd_u8s8") << name;
    KernelText kernel(with_pair_sum(text, 128));
    set_schedule(kernel.function(), choose(kernel.function(), *target));
    for (int row = 0; row < int(schedule_rows(kernel.function())->size()); ++row) {
      Result<KernelObject> object = emit_kernel(kernel.function(), row, *target, {KernelForm::assembly, false});
      ASSERT_TRUE(object) << object.error().message;
      EXPECT_NE(object->bytes.find("vpmaddubsw"), std::string::npos) << name;
      EXPECT_EQ(object->bytes.find("vpmulld"), std::string::npos) << name;
    }
  }
  for (const char *name : {"x86-64-v3+vnni", "x86-64-v4+vnni", "x86-64-v4+bf16"}) {
    KernelText kernel(with_pair_sum(bytes_text(96, 96, fours(16)), 128));
    EXPECT_TRUE(choose(kernel.function(), *find_target(name)).rows.front().micro_kernel.starts_with("dot_u8s8"))
        << name;
  }
}

TEST(Contraction, BytesWithTheirSignInRowsAreNoFoursOfBytes) {
  std::string text = with(with(bytes_text(37, 19, ""), "extui %a", "extsi %a"), "extsi %c", "extui %c");
  for (const char *name : {"native", "x86-64-v4", "x86-64-v4+amx"}) {
    KernelText kernel(text);
    const ScheduleRow row = choose(kernel.function(), *find_target(name)).rows.front();
    EXPECT_EQ(row.micro_kernel, "madd_i16") << name;
    if (name == std::string("native"))
      check_row(text, row, {{1}, {37}}, 0);
  }
}

/// Rows of a matrix unit, which is written out in plain arithmetic where the machine has none.
static ScheduleRow matrix_tiles(const char *micro_kernel, Parameters parameters) {
  ScheduleRow row = row_of("contraction", "matrix_tiles", std::move(parameters));
  row.micro_kernel = micro_kernel;
  return row;
}

TEST(Contraction, TilesOfAMatrixUnitAreRightAroundTheirEdgesInRowsTermsAndColumns) {
  std::vector<std::vector<int64_t>> sizes = {{1}, {15}, {16}, {17}, {32}, {33}, {49}, {62}};
  for (int64_t width : {32, 48}) {
    for (int64_t terms : {32, 70, 128}) {
      Parameters shape = {{"rows", 32}, {"width", width}};
      check_row(sized(narrow, 37, terms, pairs(width)), matrix_tiles("tile_bf16", shape), sizes, tolerance(terms));
      check_row(bytes_text(37, terms, fours(width)), matrix_tiles("tile_u8s8", shape), sizes, 0);
    }
    Parameters many = {{"rows", 96}, {"width", width}};
    check_row(sized(narrow, 96, 64, pairs(width)), matrix_tiles("tile_bf16", many), {{95}, {97}, {129}}, 1e-5);
    check_row(bytes_text(96, 192, fours(width)), matrix_tiles("tile_u8s8", many), {{95}, {97}, {129}}, 0);
  }
}

TEST(Contraction, AllPanelsOfAMatrixUnitPassOverABlockWhereResultsAreWide) {
  for (int64_t width : {32, 48}) {
    Parameters shape = {{"rows", 32}, {"width", width}, {"block", 96}, {"inside", 1}};
    check_row(sized(narrow, 150, 70, pairs(width)), matrix_tiles("tile_bf16", shape), {{1}, {96}, {215}},
              tolerance(70));
    check_row(bytes_text(150, 70, fours(width)), matrix_tiles("tile_u8s8", shape), {{1}, {96}, {215}}, 0);
  }
  Result<Target> target = find_target("x86-64-v4+amx");
  ASSERT_TRUE(target);
  for (auto [columns, terms] : {std::pair(256, 64), {64, 256}}) {
    KernelText kernel(sized(narrow, columns, terms, pairs(32)));
    std::vector<ScheduleRow> rows = choose(kernel.function(), *target).rows;
    EXPECT_EQ(std::ranges::any_of(rows,
                                  [](const ScheduleRow &row) {
                                    auto inside = row.params.find("inside");
                                    return inside != row.params.end() && inside->second != 0;
                                  }),
              columns > terms);
  }
}

TEST(Contraction, TilesOfAMatrixUnitTakeWhatIsPackedByEveryTaskAndOddTerms) {
  for (auto [terms, width] : {std::pair(65, 32), {67, 48}}) {
    Parameters shape = {{"rows", 32}, {"width", width}}, many = {{"rows", 96}, {"width", width}};
    check_row(sized(narrow, 53, terms, ""), matrix_tiles("tile_bf16", shape), {{1}, {33}, {70}}, tolerance(terms));
    check_row(sized(narrow, 53, terms, pairs(width)), matrix_tiles("tile_bf16", many), {{1}, {33}, {110}},
              tolerance(terms));
    check_row(bytes_text(53, terms, ""), matrix_tiles("tile_u8s8", shape), {{1}, {33}, {70}}, 0);
  }
}

TEST(Contraction, TwoProductsOfAMatrixUnitMeetInOneEpilogue) {
  // y[b, m, o] = sum[i](x[b, m, i] * u[o, i]) * tanh(sum[i](x[b, m, i] * v[o, i])) + b[o]
  const char *text = R"(
#x = affine_map<(b, m, o, i) -> (b, m, i)>
#w = affine_map<(b, m, o, i) -> (o, i)>
#y = affine_map<(b, m, o, i) -> (b, m, o)>
#id = affine_map<(b, m, o) -> (b, m, o)>
#o = affine_map<(b, m, o) -> (o)>
func.func private @k(%B: index, %M: index, %x: tensor<?x?x66xbf16> {heddle.extents = affine_map<(B, M) -> (B, M, 66)>},
    %u: tensor<50x66xbf16> {heddle.layout = #heddle.layout<(n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)>},
    %v: tensor<50x66xbf16>, %bias: tensor<50xf32>)
    -> (tensor<?x?x50xf32> {heddle.extents = affine_map<(B, M) -> (B, M, 50)>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%B, %M) : tensor<?x?x50xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x50xf32>) -> tensor<?x?x50xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %u : tensor<?x?x66xbf16>, tensor<50x66xbf16>) outs(%f : tensor<?x?x50xf32>) {
  ^bb0(%a: bf16, %c: bf16, %acc: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %c : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %acc, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?x50xf32>
  %q = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<?x?x66xbf16>, tensor<50x66xbf16>) outs(%f : tensor<?x?x50xf32>) {
  ^bb0(%a: bf16, %c: bf16, %acc: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %c : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %acc, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?x50xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #o, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %q, %bias : tensor<?x?x50xf32>, tensor<?x?x50xf32>, tensor<50xf32>) outs(%e : tensor<?x?x50xf32>) {
  ^bb0(%pv: f32, %qv: f32, %bv: f32, %out: f32):
    %0 = math.tanh %qv : f32
    %1 = arith.mulf %pv, %0 : f32
    %2 = arith.addf %1, %bv : f32
    linalg.yield %2 : f32
  } -> tensor<?x?x50xf32>
  return %y : tensor<?x?x50xf32>
})";
  check_row(text, matrix_tiles("tile_bf16", {{"rows", 32}, {"width", 32}}), {{1, 1}, {2, 17}, {3, 33}}, 1e-5);
}

TEST(Contraction, AMatrixUnitIsChosenForManyRowsAndADotProductForOne) {
  Result<Target> target = find_target("x86-64-v4+amx");
  ASSERT_TRUE(target);
  struct Case {
    std::string text;
    const char *micro_kernel, *instruction;
    int abreast;
  };
  const Case cases[] = {{sized(narrow, 768, 768, pairs(32)), "tile_bf16", "tdpbf16ps", 2},
                        {sized(narrow, 768, 768, pairs(48)), "tile_bf16", "tdpbf16ps", 3},
                        {bytes_text(768, 768, fours(32)), "tile_u8s8", "tdpbusd", 2}};
  for (const auto &[text, micro_kernel, instruction, abreast] : cases) {
    KernelText kernel(text);
    std::vector<ScheduleRow> rows = choose(kernel.function(), *target).rows;
    EXPECT_EQ(rows.front().variant, "matrix_tiles");
    EXPECT_EQ(rows.front().micro_kernel, micro_kernel);
    EXPECT_EQ(rows.back().variant, "tiles");
    rows.front().when.reset();
    kernel.set_row(rows.front());
    Result<KernelObject> code = emit_kernel(kernel.function(), 0, *target, {KernelForm::assembly, false});
    ASSERT_TRUE(code) << code.error().message;
    // Of two tiles abreast, four products for four loads, of three, six for seven; no tile leaves the unit but with its
    // sums.
    const std::string &listing = code->bytes;
    EXPECT_EQ(count(listing, instruction),
              2 * 3 * abreast); // whole steps and the rest, of two tiles of rows and of one
    EXPECT_EQ(count(listing, "tileloadd"), 2 * (abreast == 2 ? 4 + 3 : 7 + 4));
    EXPECT_EQ(count(listing, "tilestored"), 3 * abreast);
    EXPECT_EQ(count(listing, "ldtilecfg"), 3);   // for pieces of 32 rows, and of up to 31 and 16 that are left
    EXPECT_EQ(count(listing, "tilerelease"), 1); // when a task ends
  }
}

TEST(Contraction, TilesRefuseAnInstructionOfRows) {
  Result<Target> target = find_target("native");
  ASSERT_TRUE(target);
  KernelText kernel(sized(narrow, 64, 64, pairs(32)));
  kernel.set_row(matrix_tiles("dot_bf16", {}));
  Result<KernelObject> code = emit_kernel(kernel.function(), 0, *target, {});
  ASSERT_FALSE(code);
  EXPECT_NE(code.error().message.find("`dot_bf16` multiplies no tiles"), std::string::npos) << code.error().message;
}

TEST(Contraction, PairsOfBytesAreExactInSixteenBits) {
  for (ScheduleRow row : {row_of("contraction", "tiles", {{"rows", 8}, {"width", 48}}),
                          row_of("contraction", "tiles", {{"rows", 1}, {"width", 32}}), chunks(6, 16, 8, 2)}) {
    row.micro_kernel = "madd_i16";
    int64_t rows = row.params.at("rows"), width = row.params.at("width");
    for (int64_t terms : {16, 19})
      for (const std::string &layout : {", heddle.layout = #heddle.layout<" + pairs(width) + ">", std::string()})
        check_row(
            with(with(with(bytes, "{N}", std::to_string(width + 5)), "{K}", std::to_string(terms)), "{layout}", layout),
            row, {{1}, {rows}, {rows + 1}, {37}}, 0);
  }
}

TEST(Contraction, CpusWithoutDotProductsMultiplyBytesBySixteenBitInstructions) {
  for (const char *name : {"x86-64-v3", "x86-64-v4"}) {
    Result<Target> target = find_target(name);
    ASSERT_TRUE(target);
    std::string layout = ", heddle.layout = #heddle.layout<" + pairs(2 * target->lanes) + ">";
    KernelText kernel(with(with(with(bytes, "{N}", "96"), "{K}", "96"), "{layout}", layout));
    set_schedule(kernel.function(), choose(kernel.function(), *target));
    Result<std::vector<ScheduleRow>> rows = schedule_rows(kernel.function());
    ASSERT_TRUE(rows);
    for (int row = 0; row < int(rows->size()); ++row) {
      EXPECT_EQ((*rows)[row].micro_kernel, "madd_i16");
      Result<KernelObject> object = emit_kernel(kernel.function(), row, *target, {KernelForm::assembly, false});
      ASSERT_TRUE(object) << object.error().message;
      EXPECT_NE(object->bytes.find("vpmaddwd"), std::string::npos) << name;
      EXPECT_EQ(object->bytes.find("vpmulld"), std::string::npos) << name;
    }
  }
}

TEST(Contraction, ColumnsThatFillNoPanelAreNeitherReadNorWrittenPastTheirEnd) {
  for (int64_t columns : {1, 2, 15, 16, 17, 47, 48, 97})
    check_row(dense_text(columns, 19, columns <= 16 ? 16 : 48),
              row_of("contraction", "tiles", {{"rows", 4}, {"width", columns <= 16 ? 16 : 48}}), {{1}, {4}, {11}},
              1e-5);
}

TEST(Contraction, WeightsThatLieRowMajorArePackedOnTheFly) {
  for (int64_t columns : {1, 31, 48})
    check_chosen(dense_text(columns, 29, 0), {{1}, {7}, {8}, {9}, {40}}, 1e-5);
}

TEST(Contraction, RowsThatLieSideBySideAreCopiedTileByTile) {
  for (int64_t height : {6, 8, 12})
    for (int64_t rows : {1, 8, 24, 61}) {
      ScheduleRow row = row_of("contraction", "copied_rows", {{"rows", height}, {"width", 32}, {"block", 24}});
      check_row(plain_gradient(rows, 69), row, {{1}, {2}, {37}}, 1e-5);
      check_row(sized(gradient, rows, 32, ""), row, {{1}, {37}}, 1e-5);
    }
}

TEST(Contraction, BlocksOfRowsPassOverPanelsThatArePackedWhole) {
  for (int64_t height : {6, 12})
    for (int64_t width : {32, 48}) {
      auto packed = [&](int64_t copied) {
        return row_of("contraction", "packed_panels",
                      {{"rows", height}, {"width", width}, {"block", 24}, {"copied", copied}});
      };
      check_row(dense_text(101, 19, 0), packed(0), {{1}, {height}, {37}, {70}}, 1e-5);
      check_row(dense_text(96, 64, 0), packed(0), {{1}, {61}}, 1e-5); // whole vectors of terms
      check_row(plain_gradient(61, 69), packed(1), {{1}, {2}, {37}}, 1e-5);
    }
}

/// y[k] = sum[m](g[m] * x[m, k]) has terms side by side, and no rows.
TEST(Contraction, OfASingleRowNothingIsCopied) {
  KernelText kernel(R"(
func.func private @k(%g: tensor<1024xf32>, %x: tensor<1024x40xf32>) -> tensor<40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(k, m) -> (m)>, affine_map<(k, m) -> (m, k)>, affine_map<(k, m) -> (k)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%g, %x : tensor<1024xf32>, tensor<1024x40xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<40xf32>
  return %p : tensor<40xf32>
})");
  for (const ScheduleRow &row : choose(kernel.function(), *find_target("x86-64-v4")).rows)
    EXPECT_NE(row.variant, "copied_rows");
}

TEST(Contraction, RowsThatLieSideBySideAreCopiedWhereTermsAreFarApart) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  KernelText kernel(plain_gradient(1024, 96));
  EXPECT_EQ(choose(kernel.function(), *target).rows.front().variant, "copied_rows");
  check_chosen(plain_gradient(1024, 96), {{3}, {70}}, 1e-5);
}

TEST(Contraction, PanelsArePackedWholeWhereTheThirdCacheIsSlow) {
  Result<Target> target = find_target("x86-64-v4+amx");
  ASSERT_TRUE(target);
  KernelText kernel(plain_gradient(1024, 96));
  ScheduleRow chosen = choose(kernel.function(), *target).rows.front();
  EXPECT_EQ(chosen.variant, "packed_panels");
  EXPECT_EQ(chosen.params.at("copied"), 1);
  KernelText wide(plain_gradient(1024, 5000)); // whose panels would take too much room
  EXPECT_EQ(choose(wide.function(), *target).rows.front().variant, "copied_rows");
}

TEST(Contraction, ManyRowsInSeveralBlocksAndDeepSumsStayExact) {
  check_chosen(dense_text(17, 5, 32), {{197}, {431}}, tolerance(5));
  check_chosen(dense_text(3, 3071, 16), {{5}}, tolerance(3071));
}

/// s[b, h, i, j] = sum[e](q[b, i, h, e] * k[b, j, h, e])

} // namespace heddle::test
