// Attention against the slow evaluation of the same text: every block height around its edges, head widths that fill
// no vector, masks from data, causal and relative scores, rows that attend to nothing.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/targets/target.h"

#include <cmath>
#include <limits>

namespace heddle::test {

/// o[b, i, h, e] = sum[j](softmax(s)[b, h, i, j] * v[b, j, h, e]) with {score} computing %s from %qk (the product of
/// queries and keys), %m (the mask at b, j), and the loops %i, %j. 2 heads of width {E}.
static const char *const masked = R"(
#bhij = affine_map<(b, h, i, j) -> (b, h, i, j)>
#bhi = affine_map<(b, h, i, j) -> (b, h, i)>
#row = affine_map<(b, h, i) -> (b, h, i)>
func.func private @k(%B: index, %T: index, %S: index,
    %q: tensor<?x?x2x{E}xf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 2, {E})>},
    %k: tensor<?x?x2x{E}xf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 2, {E})>},
    %mask: tensor<?x?xi32> {heddle.extents = affine_map<(B, T, S) -> (B, S)>, heddle.below = 2 : i64},
    %v: tensor<?x?x2x{E}xf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 2, {E})>})
    -> (tensor<?x?x2x{E}xf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 2, {E})>}) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty(%B, %T, %S) : tensor<?x2x?x?xf32>
  %er = tensor.empty(%B, %T) : tensor<?x2x?xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %p0 = linalg.generic {indexing_maps = [affine_map<(b, h, i, j, e) -> (b, i, h, e)>, affine_map<(b, h, i, j, e) -> (b, j, h, e)>,
                                         affine_map<(b, h, i, j, e) -> (b, h, i, j)>],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x?x2x{E}xf32>, tensor<?x?x2x{E}xf32>) outs(%fs : tensor<?x2x?x?xf32>) {
  ^bb0(%qv: f32, %kv: f32, %acc: f32):
    %0 = arith.mulf %qv, %kv : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %s0 = linalg.generic {indexing_maps = [#bhij, affine_map<(b, h, i, j) -> (b, j)>, #bhij],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%p0, %mask : tensor<?x2x?x?xf32>, tensor<?x?xi32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%qk: f32, %m: i32, %out: f32):
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %scale = arith.constant 0.5 : f32
    %none = arith.constant 0 : i32
    %on = arith.cmpi ne, %m, %none : i32
    {score}
    linalg.yield %s : f32
  } -> tensor<?x2x?x?xf32>
  %fm = linalg.fill ins(%lowest : f32) outs(%er : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %top = linalg.generic {indexing_maps = [#bhij, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s0 : tensor<?x2x?x?xf32>) outs(%fm : tensor<?x2x?xf32>) {
  ^bb0(%sv: f32, %acc: f32):
    %0 = arith.maximumf %acc, %sv : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?xf32>
  %max = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%top : tensor<?x2x?xf32>) outs(%er : tensor<?x2x?xf32>) {
  ^bb0(%tv: f32, %out: f32):
    %0 = arith.cmpf oeq, %tv, %lowest : f32
    %1 = arith.select %0, %zero, %tv : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?xf32>
  %ex = linalg.generic {indexing_maps = [#bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s0, %max : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%sv: f32, %mv: f32, %out: f32):
    %0 = arith.subf %sv, %mv : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %fd = linalg.fill ins(%zero : f32) outs(%er : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %total = linalg.generic {indexing_maps = [#bhij, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ex : tensor<?x2x?x?xf32>) outs(%fd : tensor<?x2x?xf32>) {
  ^bb0(%ev: f32, %acc: f32):
    %0 = arith.addf %acc, %ev : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?xf32>
  %p = linalg.generic {indexing_maps = [#bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%ex, %total : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%ev: f32, %dv: f32, %out: f32):
    %0 = arith.maximumf %dv, %one : f32
    %1 = arith.divf %ev, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %eo = tensor.empty(%B, %T) : tensor<?x?x2x{E}xf32>
  %fo = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x?x2x{E}xf32>) -> tensor<?x?x2x{E}xf32>
  %o = linalg.generic {indexing_maps = [affine_map<(b, i, h, e, j) -> (b, h, i, j)>, affine_map<(b, i, h, e, j) -> (b, j, h, e)>,
                                        affine_map<(b, i, h, e, j) -> (b, i, h, e)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<?x2x?x?xf32>, tensor<?x?x2x{E}xf32>) outs(%fo : tensor<?x?x2x{E}xf32>) {
  ^bb0(%pv: f32, %vv: f32, %acc: f32):
    %0 = arith.mulf %pv, %vv : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x2x{E}xf32>
  return %o : tensor<?x?x2x{E}xf32>
})";

static const char *const by_mask = R"(
    %a = arith.mulf %qk, %scale : f32
    %s = arith.select %on, %a, %lowest : f32)";
static const char *const causal = R"(
    %a = arith.mulf %qk, %scale : f32
    %c = arith.cmpi sle, %j, %i : index
    %both = arith.andi %c, %on : i1
    %s = arith.select %both, %a, %lowest : f32)";
static const char *const only_causal = R"(
    %a = arith.mulf %qk, %scale : f32
    %c = arith.cmpi sle, %j, %i : index
    %s = arith.select %c, %a, %lowest : f32)";
/// 30 keys before a row's own and 5 behind it.
static const char *const banded = R"(
    %a = arith.mulf %qk, %scale : f32
    %d = arith.subi %j, %i : index
    %back = arith.constant -30 : index
    %ahead = arith.constant 5 : index
    %c = arith.cmpi sge, %d, %back : index
    %e = arith.cmpi sle, %d, %ahead : index
    %both = arith.andi %c, %e : i1
    %s = arith.select %both, %a, %lowest : f32)";
/// ALiBi: less the further away.
static const char *const distant = R"(
    %d = arith.subi %j, %i : index
    %w = arith.index_cast %d : index to i32
    %f = arith.sitofp %w : i32 to f32
    %a = arith.mulf %qk, %scale : f32
    %s = arith.addf %a, %f : f32)";
static const char *const nothing = R"(
    %s = arith.addf %lowest, %lowest : f32)";

static std::string text(const char *score, int64_t width) {
  return with(with(masked, "{score}", score), "{E}", std::to_string(width));
}

/// Whose sums leave out what `score` does, the products with the values with it: they don't count whatever stands
/// there.
static std::string left_out_text(const char *score, int64_t width) {
  std::string out = with(text(score, width), "^bb0(%pv: f32, %vv: f32, %acc: f32):\n    %0 = arith.mulf %pv, %vv : f32",
                         R"(^bb0(%pv: f32, %vv: f32, %acc: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 4 : index
    %c = arith.cmpi sle, %j, %i : index
    %vc = arith.select %c, %vv, %zero : f32
    %0 = arith.mulf %pv, %vc : f32)");
  return out;
}

/// The same of bf16, with weights rounded to bf16.
static std::string narrow_text(const char *score, int64_t width) {
  std::string out = text(score, width), wide = "tensor<?x?x2x" + std::to_string(width) + "xf32>",
              narrow = "tensor<?x?x2x" + std::to_string(width) + "xbf16>";
  for (const char *name : {"%q: ", "%k: ", "%v: "})
    out = with(out, name + wide, name + narrow);
  out = with(out, "(%q, %k : " + wide + ", " + wide, "(%q, %k : " + narrow + ", " + narrow);
  out = with(out, "^bb0(%qv: f32, %kv: f32, %acc: f32):", R"(^bb0(%qn: bf16, %kn: bf16, %acc: f32):
    %qv = arith.extf %qn : bf16 to f32
    %kv = arith.extf %kn : bf16 to f32)");
  out = with(out, "  %eo = tensor.empty", R"(  %en = tensor.empty(%B, %T, %S) : tensor<?x2x?x?xbf16>
  %pn = linalg.generic {indexing_maps = [#bhij, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%p : tensor<?x2x?x?xf32>) outs(%en : tensor<?x2x?x?xbf16>) {
  ^bb0(%pv: f32, %out: bf16):
    %0 = arith.truncf %pv fastmath<contract> : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<?x2x?x?xbf16>
  %eo = tensor.empty)");
  out = with(out, "(%p, %v : tensor<?x2x?x?xf32>, " + wide, "(%pn, %v : tensor<?x2x?x?xbf16>, " + narrow);
  return with(out, "^bb0(%pv: f32, %vv: f32, %acc: f32):", R"(^bb0(%pb: bf16, %vb: bf16, %acc: f32):
    %pv = arith.extf %pb : bf16 to f32
    %vv = arith.extf %vb : bf16 to f32)");
}

/// One row of each variant: for what doesn't depend on the height of blocks.
static ScheduleRow blocks_of_16() { return row_of("attention", "row_blocks", {{"rows", 16}}); }
static ScheduleRow copies_of_32() { return row_of("attention", "copied_keys", {{"rows", 32}, {"blocks", 2}}); }

TEST(Attention, EveryBlockHeightIsRightAroundItsEdges) {
  check_all_rows(text(by_mask, 16), "attention", {{1, 1, 1}, {2, 15, 7}, {1, 16, 16}, {1, 33, 17}, {1, 49, 50}});
}

TEST(Attention, HeadsThatFillNoVector) {
  check_rows(text(by_mask, 12), "attention", {blocks_of_16()}, {{2, 17, 5}});
  check_rows(text(causal, 41), "attention", {copies_of_32()}, {{1, 20, 20}});
}

TEST(Attention, AnyScoreIsFused) {
  check_rows(text(causal, 16), "attention", {blocks_of_16()}, {{1, 1, 1}, {2, 19, 19}});
  check_rows(text(distant, 16), "attention", {copies_of_32()}, {{1, 1, 1}, {2, 19, 19}});
}

TEST(Attention, ATaskOfSeveralBlocksWhereAConditionIsOfRowsAndKeysAlone) {
  check_rows(text(only_causal, 16), "attention", {blocks_of_16(), copies_of_32()}, {{1, 100, 100}, {2, 70, 33}});
}

TEST(Attention, OneRowAtATimeHasItsLanesAlongTheFeatures) {
  const ScheduleRow one = row_of("attention", "key_blocks", {{"rows", 1}, {"keys", 0}, {"blocks", 1}});
  for (int64_t width : {64, 12, 41}) // whole vectors, parts of one, neither
    check_rows(text(causal, width), "attention", {one}, {{1, 1, 1}, {2, 3, 33}});
  check_rows(text(by_mask, 16), "attention", {one}, {{2, 1, 100}});
  check_rows(left_out_text(only_causal, 16), "attention", {one}, {{1, 40, 40}});
}

TEST(Attention, ValuesCountForSomeRows) {
  const ScheduleRow all_keys = row_of("attention", "key_blocks", {{"rows", 12}, {"keys", 0}, {"blocks", 3}}),
                    joined = row_of("attention", "key_blocks", {{"rows", 6}, {"keys", 64}, {"blocks", 40}});
  check_rows(left_out_text(only_causal, 16), "attention", {blocks_of_16(), copies_of_32(), all_keys, joined},
             {{1, 1, 1}, {1, 100, 100}, {2, 70, 33}, {1, 20, 150}});
  check_rows(left_out_text(by_mask, 12), "attention", {blocks_of_16(), joined}, {{1, 49, 70}});
}

TEST(Attention, WhatDoesNotCountIsLeftOutWhateverItIs) {
  for (const ScheduleRow &row :
       {blocks_of_16(), copies_of_32(), row_of("attention", "key_blocks", {{"rows", 12}, {"keys", 0}, {"blocks", 3}}),
        row_of("attention", "key_blocks", {{"rows", 6}, {"keys", 64}, {"blocks", 40}})}) {
    KernelText text(left_out_text(only_causal, 16));
    text.set_row(row);
    std::vector<int64_t> sizes = {1, 90, 90};
    std::vector<Values> inputs = random_inputs(text.function(), sizes, 3);
    std::vector<double> &values = inputs[3].data; // of keys, heads and features
    for (size_t i = 70 * 32; i < values.size(); ++i)
      values[i] = i % 2 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    std::vector<double> found =
        CompiledKernel(text.function(), 0, *find_target("native"), false).run(sizes, inputs)[0].data;
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::isfinite(found[i]), i < 70 * 32) << i << ", " << row.variant;
  }
}

TEST(Attention, ARowThatAttendsToNothingIsZero) {
  check_rows(text(nothing, 16), "attention", {blocks_of_16()}, {{1, 18, 9}});
}

TEST(Attention, BlocksOfKeysAreJoinedWhereverARowsKeysEnd) {
  const ScheduleRow joined = row_of("attention", "key_blocks", {{"rows", 12}, {"keys", 64}, {"blocks", 9}});
  check_rows(text(causal, 16), "attention", {joined}, {{1, 150, 150}, {2, 20, 200}});
  check_rows(text(by_mask, 40), "attention", {joined}, {{1, 14, 129}});
  check_rows(text(banded, 16), "attention", {joined},
             {{1, 250, 250}, {2, 30, 200}, {1, 150, 40}}); // some rows have none
  check_rows(text(nothing, 16), "attention", {joined}, {{1, 18, 70}});
  // Tasks of more row blocks copy all keys first, not block by block.
  const ScheduleRow long_tasks = row_of("attention", "key_blocks", {{"rows", 6}, {"keys", 64}, {"blocks", 40}});
  check_rows(text(causal, 16), "attention", {long_tasks}, {{1, 150, 150}, {2, 20, 200}});
  check_rows(text(banded, 16), "attention", {long_tasks}, {{1, 250, 250}, {1, 150, 40}});
}

TEST(Attention, PairsOfBf16AreRightWithLanesAlongRowsAndAlongKeys) {
  const ScheduleRow all_keys = row_of("attention", "key_blocks", {{"rows", 12}, {"keys", 0}, {"blocks", 3}}),
                    joined = row_of("attention", "key_blocks", {{"rows", 12}, {"keys", 64}, {"blocks", 9}}),
                    long_tasks = row_of("attention", "key_blocks", {{"rows", 6}, {"keys", 64}, {"blocks", 40}});
  std::vector<ScheduleRow> rows = {blocks_of_16(), copies_of_32(), all_keys, joined, long_tasks};
  for (ScheduleRow &row : rows)
    row.micro_kernel = "dot_bf16";
  check_rows(narrow_text(by_mask, 16), "attention", rows, {{1, 1, 1}, {2, 15, 7}, {1, 33, 18}, {1, 49, 131}}, 5e-3);
  check_rows(narrow_text(only_causal, 12), "attention", rows, {{1, 1, 1}, {1, 70, 70}, {2, 40, 33}}, 5e-3);
  check_rows(narrow_text(causal, 41), "attention", {rows[1], rows[2]}, {{1, 20, 20}}, 5e-3); // odd features
  check_rows(narrow_text(by_mask, 1), "attention", {rows[1], rows[2]}, {{1, 9, 5}}, 5e-3);
}

TEST(Attention, AMatrixUnitMultipliesBlocksOfRowsWithBlocksOfKeys) {
  std::vector<ScheduleRow> rows;
  for (int64_t blocks : {2, 40}) { // keys are copied block by block, and all of them first
    rows.push_back(row_of("attention", "key_blocks", {{"rows", 32}, {"keys", 64}, {"blocks", blocks}}));
    rows.back().micro_kernel = "tile_bf16";
  }
  check_rows(narrow_text(by_mask, 32), "attention", rows, {{1, 1, 1}, {2, 15, 7}, {1, 49, 131}}, 5e-3);
  check_rows(narrow_text(only_causal, 64), "attention", {rows[0]}, {{1, 150, 150}, {2, 40, 33}}, 5e-3);
  check_rows(narrow_text(banded, 32), "attention", rows, {{1, 250, 250}, {1, 150, 40}}, 5e-3); // some rows have none
}

TEST(Attention, AMatrixUnitIsChosenForManyRowsOfWholeTiles) {
  Result<Target> target = find_target("x86-64-v4+amx");
  ASSERT_TRUE(target);
  for (auto [features, expected] : {std::pair(64, true), std::pair(40, false)}) {
    KernelText kernel(narrow_text(by_mask, features));
    std::vector<ScheduleRow> rows = choose(kernel.function(), *target).rows;
    EXPECT_EQ(rows.front().micro_kernel == "tile_bf16", expected) << features;
    EXPECT_EQ(rows.back().micro_kernel, "fma") << "pairs of bf16 take longer there than multiply-adds";
  }
}

/// What becomes of a kernel by a row of `key_blocks`, as text; empty where it can't be emitted, which fails the test.
static std::string by_key_blocks(const std::string &text, const heddle::Parameters &parameters, KernelForm form) {
  Result<Target> target = find_target("x86-64-v4");
  EXPECT_TRUE(target);
  if (!target)
    return {};
  KernelText kernel(text);
  kernel.set_row(row_of("attention", "key_blocks", parameters));
  EmitOptions options;
  options.form = form;
  Result<KernelObject> object = emit_kernel(kernel.function(), 0, *target, options);
  EXPECT_TRUE(object) << object.error().message;
  return object ? std::string(object->bytes.begin(), object->bytes.end()) : std::string();
}

TEST(Attention, KeysOfTheNextBlockAreAskedForWhereATaskCopiesBlockByBlock) {
  for (int blocks : {16, 17}) {
    std::string code =
        by_key_blocks(text(causal, 64), {{"rows", 12}, {"keys", 128}, {"blocks", blocks}}, KernelForm::assembly);
    ASSERT_FALSE(code.empty());
    EXPECT_EQ(code.find("prefetcht1") != std::string::npos, blocks == 16);
  }
}

/// Of keys that are read where they lie nobody asks for the first ones but the task before, and the task itself for its
/// values.
TEST(Attention, FirstKeysOfTheNextTaskAreAskedForWhereTasksReadInPlace) {
  for (int blocks : {1, 2}) {
    std::string code =
        by_key_blocks(text(by_mask, 64), {{"rows", 1}, {"keys", 0}, {"blocks", blocks}}, KernelForm::statement);
    ASSERT_FALSE(code.empty());
    int loops = 0;
    for (size_t at = code.find("for (first"); at != std::string::npos; at = code.find("for (first", at + 1))
      ++loops;
    EXPECT_EQ(loops, blocks == 1 ? 2 : 0) << blocks;
  }
}

/// o[b, i, h, e] = sum[o](softmax[o](s)[b, h, i, o] * v[b, p, h, e | 0]) with p = {A} * i + {C} * o - {L}, o < {R}, and
/// s[b, h, i, o] = if mask[b, p | 0] != 0 then sum[e](q[b, i, h, e] * k[b, p, h, e | 0]) + 0.1 * o else -inf.
/// B pictures of T queries and S keys; 2 heads of width 16.
static const char *const sliding = R"(
#bhio = affine_map<(b, h, i, o) -> (b, h, i, o)>
#bhi = affine_map<(b, h, i, o) -> (b, h, i)>
#row = affine_map<(b, h, i) -> (b, h, i)>
#place = affine_map<(i, o) -> ({A} * i + {C} * o - {L})>
func.func private @k(%B: index, %T: index, %S: index,
    %q: tensor<?x?x2x16xf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 2, 16)>},
    %k: tensor<?x?x2x16xf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 2, 16)>},
    %mask: tensor<?x?xi32> {heddle.extents = affine_map<(B, T, S) -> (B, S)>, heddle.below = 3 : i64},
    %v: tensor<?x?x2x16xf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 2, 16)>})
    -> (tensor<?x?x2x16xf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 2, 16)>}) {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i32
  %first = arith.constant 0 : index
  %lowest = arith.constant 0xFF800000 : f32
  %last = affine.apply affine_map<()[s] -> (s - 1)>()[%S]
  %es = tensor.empty(%B, %T) : tensor<?x2x?x{R}xf32>
  %er = tensor.empty(%B, %T) : tensor<?x2x?xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x2x?x{R}xf32>) -> tensor<?x2x?x{R}xf32>
  %p0 = linalg.generic {indexing_maps = [affine_map<(b, h, i, o, e) -> (b, i, h, e)>, affine_map<(b, h, i, o, e) -> (b, h, i, o)>],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q : tensor<?x?x2x16xf32>) outs(%fs : tensor<?x2x?x{R}xf32>) {
  ^bb0(%qv: f32, %acc: f32):
    %b = linalg.index 0 : index
    %h = linalg.index 1 : index
    %i = linalg.index 2 : index
    %o = linalg.index 3 : index
    %e = linalg.index 4 : index
    %at = affine.apply #place(%i, %o)
    %low = arith.minsi %at, %last : index
    %clamped = arith.maxsi %low, %first : index
    %kv = tensor.extract %k[%b, %clamped, %h, %e] : tensor<?x?x2x16xf32>
    %above = arith.cmpi sge, %at, %first : index
    %below = arith.cmpi slt, %at, %S : index
    %inside = arith.andi %above, %below : i1
    %padded = arith.select %inside, %kv, %zero : f32
    %0 = arith.mulf %qv, %padded : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x{R}xf32>
  %s0 = linalg.generic {indexing_maps = [#bhio, #bhio], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%p0 : tensor<?x2x?x{R}xf32>) outs(%es : tensor<?x2x?x{R}xf32>) {
  ^bb0(%qk: f32, %out: f32):
    %b = linalg.index 0 : index
    %i = linalg.index 2 : index
    %o = linalg.index 3 : index
    %at = affine.apply #place(%i, %o)
    %above = arith.cmpi sge, %at, %first : index
    %below = arith.cmpi slt, %at, %S : index
    %inside = arith.andi %above, %below : i1
    %low = arith.minsi %at, %last : index
    %clamped = arith.maxsi %low, %first : index
    %m = tensor.extract %mask[%b, %clamped] : tensor<?x?xi32>
    %on = arith.cmpi ne, %m, %none : i32
    %both = arith.andi %on, %inside : i1
    %w = arith.index_cast %o : index to i32
    %f = arith.sitofp %w : i32 to f32
    %tenth = arith.constant 0.1 : f32
    %bias = arith.mulf %f, %tenth : f32
    %a = arith.addf %qk, %bias : f32
    %s = arith.select %both, %a, %lowest : f32
    linalg.yield %s : f32
  } -> tensor<?x2x?x{R}xf32>
  %fm = linalg.fill ins(%lowest : f32) outs(%er : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %top = linalg.generic {indexing_maps = [#bhio, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s0 : tensor<?x2x?x{R}xf32>) outs(%fm : tensor<?x2x?xf32>) {
  ^bb0(%sv: f32, %acc: f32):
    %0 = arith.maximumf %acc, %sv : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?xf32>
  %max = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%top : tensor<?x2x?xf32>) outs(%er : tensor<?x2x?xf32>) {
  ^bb0(%tv: f32, %out: f32):
    %0 = arith.cmpf oeq, %tv, %lowest : f32
    %1 = arith.select %0, %zero, %tv : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?xf32>
  %ex = linalg.generic {indexing_maps = [#bhio, #bhi, #bhio], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s0, %max : tensor<?x2x?x{R}xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x{R}xf32>) {
  ^bb0(%sv: f32, %mv: f32, %out: f32):
    %0 = arith.subf %sv, %mv : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x{R}xf32>
  %fd = linalg.fill ins(%zero : f32) outs(%er : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %total = linalg.generic {indexing_maps = [#bhio, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ex : tensor<?x2x?x{R}xf32>) outs(%fd : tensor<?x2x?xf32>) {
  ^bb0(%ev: f32, %acc: f32):
    %0 = arith.addf %acc, %ev : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?xf32>
  %p = linalg.generic {indexing_maps = [#bhio, #bhi, #bhio], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%ex, %total : tensor<?x2x?x{R}xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x{R}xf32>) {
  ^bb0(%ev: f32, %dv: f32, %out: f32):
    %small = arith.constant 0.001 : f32
    %0 = arith.maximumf %dv, %small : f32
    %1 = arith.divf %ev, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x{R}xf32>
  %eo = tensor.empty(%B, %T) : tensor<?x?x2x16xf32>
  %fo = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x?x2x16xf32>) -> tensor<?x?x2x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, h, e, o) -> (b, h, i, o)>, affine_map<(b, i, h, e, o) -> (b, i, h, e)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p : tensor<?x2x?x{R}xf32>) outs(%fo : tensor<?x?x2x16xf32>) {
  ^bb0(%pv: f32, %acc: f32):
    %b = linalg.index 0 : index
    %i = linalg.index 1 : index
    %h = linalg.index 2 : index
    %e = linalg.index 3 : index
    %o = linalg.index 4 : index
    %at = affine.apply #place(%i, %o)
    %low = arith.minsi %at, %last : index
    %clamped = arith.maxsi %low, %first : index
    %vv = tensor.extract %v[%b, %clamped, %h, %e] : tensor<?x?x2x16xf32>
    %above = arith.cmpi sge, %at, %first : index
    %below = arith.cmpi slt, %at, %S : index
    %inside = arith.andi %above, %below : i1
    %padded = arith.select %inside, %vv, %zero : f32
    %0 = arith.mulf %pv, %padded : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x2x16xf32>
  return %r : tensor<?x?x2x16xf32>
})";

/// Query i has the keys row * i + key * o - left, o < window.
static std::string sliding_text(int row, int key, int left, int window) {
  std::string text = with(sliding, "{A}", std::to_string(row));
  for (auto [name, value] : {std::pair("{C}", key), {"{L}", left}, {"{R}", window}})
    text = with(text, name, std::to_string(value));
  return text;
}

TEST(Attention, KeysThatSlideAlongWithTheRowsAreRightAroundTheEdgesOfBlocksAndTexts) {
  check_rows(sliding_text(1, 1, 2, 5), "attention", {blocks_of_16(), copies_of_32()},
             {{1, 1, 1}, {2, 15, 15}, {1, 16, 9}, {1, 49, 49}, {1, 97, 97}});
}

TEST(Attention, WindowsMayBeLongerThanTheText) {
  check_rows(sliding_text(1, 1, 40, 81), "attention", {copies_of_32()}, {{2, 17, 17}, {1, 67, 70}});
}

TEST(Attention, WindowsLookBackInStridesAndWithGaps) {
  check_rows(sliding_text(1, -1, 0, 7), "attention", {copies_of_32()}, {{1, 3, 3}, {1, 67, 67}});
  check_rows(sliding_text(2, -3, -3, 4), "attention", {copies_of_32()}, {{1, 35, 70}});
}

TEST(Attention, RoundedOperandsAreMultipliedInPairsWhereTheTargetHasTheInstruction) {
  for (auto [name, instructions] : {std::pair("x86-64-v4+bf16", true), std::pair("x86-64-v4", false)}) {
    Result<Target> target = find_target(name);
    ASSERT_TRUE(target);
    KernelText kernel(narrow_text(by_mask, 64));
    set_schedule(kernel.function(), choose(kernel.function(), *target));
    std::vector<ScheduleRow> rows = *schedule_rows(kernel.function());
    for (size_t row = 0; row < rows.size(); row += std::max<size_t>(rows.size() - 1, 1)) {
      EmitOptions options;
      options.form = KernelForm::assembly;
      Result<KernelObject> object = emit_kernel(kernel.function(), int(row), *target, options);
      ASSERT_TRUE(object) << object.error().message;
      std::string code(object->bytes.begin(), object->bytes.end());
      EXPECT_EQ(code.find("vdpbf16ps") != std::string::npos, instructions) << name << " " << rows[row].variant;
    }
  }
}

TEST(Attention, ManyRowsShareACopyOfTheKeys) {
  Result<Target> target = find_target("x86-64-v4");
  ASSERT_TRUE(target);
  KernelText kernel(text(by_mask, 64));
  auto best = [&](int64_t rows, int64_t keys) {
    return choose(kernel.function(), *target, {{1, rows, keys}}).rows.front();
  };
  EXPECT_EQ(best(4096, 4096).variant, "key_blocks"); // block by block
  EXPECT_GT(best(4096, 4096).params["keys"], 0);
  EXPECT_EQ(best(1, 4096).variant, "key_blocks"); // where they lie
  EXPECT_EQ(best(1, 4096).params["keys"], 0);
  EXPECT_EQ(best(1, 4096).params["blocks"], 1);
  EXPECT_EQ(best(16, 16).variant, "row_blocks");
  std::vector<ScheduleRow> rows = choose(kernel.function(), *target).rows; // for all sizes
  ASSERT_GE(rows.size(), 3u);
  ASSERT_TRUE(rows.front().when);
  EXPECT_GT(rows.front().params["blocks"], 1) << rows.front().variant;
  EXPECT_EQ(rows.back().variant, "row_blocks");
}

} // namespace heddle::test
