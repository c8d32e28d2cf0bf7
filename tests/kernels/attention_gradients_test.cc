// The kernels of attention's way back, whose scores are computed again: statistics of rows alone, and products over
// keys with weights made of two products and of given statistics, with lanes along rows and along keys. Each against
// the slow evaluation of the same text.
#include "harness.h"

namespace heddle::test {

/// Maps and the function's beginning: %q, %k, %d and %v over (b, place, head, feature), 2 heads of width W; %m over (b,
/// h, place of %q). %p0 is the product of %q and %k, %s0 of them the scores, -inf where {masked} holds of the places %i
/// of the query and %j of the key.
static const char *const scores = R"(
#bhij = affine_map<(b, h, i, j) -> (b, h, i, j)>
#bhi = affine_map<(b, h, i, j) -> (b, h, i)>
#left = affine_map<(b, h, i, j, e) -> (b, i, h, e)>
#right = affine_map<(b, h, i, j, e) -> (b, j, h, e)>
#product = affine_map<(b, h, i, j, e) -> (b, h, i, j)>
func.func private @k(%B: index, %T: index, %S: index,
    %q: tensor<?x?x2xWxf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 2, W)>},
    %k: tensor<?x?x2xWxf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 2, W)>},
    %d: tensor<?x?x2xWxf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 2, W)>},
    %v: tensor<?x?x2xWxf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 2, W)>},
    %m: tensor<?x2x?xf32> {heddle.extents = affine_map<(B, T, S) -> (B, 2, T)>})
    -> ({results}) {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty(%B, %T, %S) : tensor<?x2x?x?xf32>
  %er = tensor.empty(%B, %T) : tensor<?x2x?xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %p0 = linalg.generic {indexing_maps = [#left, #right, #product],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x?x2xWxf32>, tensor<?x?x2xWxf32>) outs(%fs : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %s0 = linalg.generic {indexing_maps = [#bhij, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%p0 : tensor<?x2x?x?xf32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f32, %out: f32):
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %scale = arith.constant 0.5 : f32
    %a = arith.mulf %x, %scale : f32
    %masked = arith.cmpi {masked}, %j, %i : index
    %s = arith.select %masked, %lowest, %a : f32
    linalg.yield %s : f32
  } -> tensor<?x2x?x?xf32>
)";

/// The largest score of each row and the total of exp(score - largest).
static const char *const statistics = R"(
  %fm = linalg.fill ins(%lowest : f32) outs(%er : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %top = linalg.generic {indexing_maps = [#bhij, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s0 : tensor<?x2x?x?xf32>) outs(%fm : tensor<?x2x?xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %0 = arith.maximumf %acc, %x : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?xf32>
  %ex = linalg.generic {indexing_maps = [#bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s0, %top : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %0 = arith.subf %x, %y : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %fd = linalg.fill ins(%zero : f32) outs(%er : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %total = linalg.generic {indexing_maps = [#bhij, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ex : tensor<?x2x?x?xf32>) outs(%fd : tensor<?x2x?xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %0 = arith.addf %acc, %x : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?xf32>
  return %top, %total : tensor<?x2x?xf32>, tensor<?x2x?xf32>
})";

/// With %m instead of the largest score, p = exp(s - m) and ds = p * (d . v - m).
static const char *const way_back = R"(
  %p = linalg.generic {indexing_maps = [#bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s0, %m : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f32, %z: f32, %out: f32):
    %0 = arith.subf %x, %z : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %dp = linalg.generic {indexing_maps = [#left, #right, #product],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%d, %v : tensor<?x?x2xWxf32>, tensor<?x?x2xWxf32>) outs(%fs : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %ds = linalg.generic {indexing_maps = [#bhij, #bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%p, %dp, %m : tensor<?x2x?x?xf32>, tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%es : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %out: f32):
    %2 = arith.subf %y, %z : f32
    %3 = arith.mulf %x, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x2x?x?xf32>
  %eo = tensor.empty(%B, {rows}) : tensor<?x?x2xWxf32>
  %fo = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x?x2xWxf32>) -> tensor<?x?x2xWxf32>
)";

/// The sum {result} of {factor} times {values} over the places that {rows} aren't.
static const char *const weighted = R"(
  {result} = linalg.generic {indexing_maps = [{weights}, affine_map<(b, i, h, e, j) -> (b, j, h, e)>,
                                        affine_map<(b, i, h, e, j) -> (b, i, h, e)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins({factor}, {values} : tensor<?x2x?x?xf32>, tensor<?x?x2xWxf32>) outs(%fo : tensor<?x?x2xWxf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x2xWxf32>
)";

static std::string statistics_text(const char *masked, const char *width) {
  const char *result = "tensor<?x2x?xf32> {heddle.extents = affine_map<(B, T, S) -> (B, 2, T)>}";
  std::string text = with(scores, "{results}", std::string(result) + ", " + result);
  return with_width(with(text, "{masked}", masked) + statistics, width);
}

enum class Of { queries, keys, keys_and_values };

/// The kernel's end: the sum over keys that queries have, or those that keys, and perhaps values, have over queries.
static std::string way_back_text(const char *masked, const char *width, Of of, const char *epilogue = "") {
  bool of_queries = of == Of::queries, two = of == Of::keys_and_values && !*epilogue;
  std::string result = std::string("tensor<?x?x2xWxf32> {heddle.extents = affine_map<(B, T, S) -> (B, ") +
                       (of_queries ? "T" : "S") + ", 2, W)>}";
  auto sum = [&](const char *name, const char *factor, const char *values) {
    std::string text = with(with(with(weighted, "{result}", name), "{factor}", factor), "{values}", values);
    return with(text, "{weights}",
                of_queries ? "affine_map<(b, i, h, e, j) -> (b, h, i, j)>"
                           : "affine_map<(b, i, h, e, j) -> (b, h, j, i)>");
  };
  std::string text = std::string(scores) + way_back + sum("%o", "%ds", of_queries ? "%k" : "%q");
  if (of == Of::keys_and_values)
    text += sum("%w", "%p", "%d") + epilogue;
  text += two         ? "  return %w, %o : tensor<?x?x2xWxf32>, tensor<?x?x2xWxf32>\n}"
          : *epilogue ? "  return %y : tensor<?x?x2xWxf32>\n}"
                      : "  return %o : tensor<?x?x2xWxf32>\n}";
  text = with(text, "{results}", two ? result + ", " + result : result);
  text = with(with(text, "{masked}", masked), "{rows}", of_queries ? "%T" : "%S");
  return with_width(text, width);
}

/// More keys than queries, so that the last key of a row is never one that no row has.
static const char *const later = "sgt", *const none = "slt";

static ScheduleRow blocks_of_16() { return row_of("attention", "row_blocks", {{"rows", 16}}); }
static ScheduleRow copies_of_32() { return row_of("attention", "copied_keys", {{"rows", 32}, {"blocks", 2}}); }
static ScheduleRow all_keys() { return row_of("attention", "key_blocks", {{"rows", 6}, {"keys", 0}, {"blocks", 3}}); }
static ScheduleRow key_blocks() {
  return row_of("attention", "key_blocks", {{"rows", 12}, {"keys", 64}, {"blocks", 9}});
}
static ScheduleRow long_tasks() {
  return row_of("attention", "key_blocks", {{"rows", 6}, {"keys", 64}, {"blocks", 40}});
}

TEST(AttentionGradients, StatisticsOfRowsAlone) {
  std::vector<ScheduleRow> rows = {blocks_of_16(), copies_of_32(), row_of("attention", "row_blocks", {{"rows", 48}})};
  check_rows(statistics_text(later, "16"), "attention", rows, {{1, 1, 1}, {2, 15, 17}, {1, 33, 40}, {2, 70, 70}});
  check_rows(statistics_text(later, "5"), "attention", {blocks_of_16()}, {{1, 49, 60}});
}

TEST(AttentionGradients, OfQueriesByEveryVariant) {
  std::string text = way_back_text(later, "16", Of::queries);
  check_rows(text, "attention", {blocks_of_16(), copies_of_32(), all_keys(), key_blocks(), long_tasks()},
             {{1, 1, 1}, {2, 15, 7}, {1, 33, 40}, {1, 70, 150}});
  check_rows(way_back_text(later, "41", Of::queries), "attention", {blocks_of_16(), key_blocks()}, {{1, 20, 90}});
}

TEST(AttentionGradients, OfKeysByEveryVariant) {
  std::string text = way_back_text(later, "16", Of::keys);
  check_rows(text, "attention", {blocks_of_16(), copies_of_32(), all_keys(), key_blocks(), long_tasks()},
             {{1, 1, 1}, {2, 7, 15}, {1, 40, 33}, {1, 150, 70}});
  check_rows(way_back_text(none, "12", Of::keys), "attention", {copies_of_32(), all_keys()}, {{2, 19, 21}});
}

TEST(AttentionGradients, OfKeysAndValuesFromTheSameScores) {
  std::string text = way_back_text(later, "16", Of::keys_and_values);
  check_rows(text, "attention", {blocks_of_16(), copies_of_32(), all_keys()},
             {{1, 1, 1}, {2, 7, 15}, {1, 40, 33}, {1, 150, 70}});
  check_rows(way_back_text(none, "41", Of::keys_and_values), "attention", {copies_of_32(), all_keys()}, {{2, 19, 21}});
}

TEST(AttentionGradients, SumsOverTheSameScoresAddedUp) {
  const char *epilogue = R"(
  %y = linalg.generic {indexing_maps = [affine_map<(b, i, h, e) -> (b, i, h, e)>, affine_map<(b, i, h, e) -> (b, i, h, e)>,
                                        affine_map<(b, i, h, e) -> (b, i, h, e)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o, %w : tensor<?x?x2xWxf32>, tensor<?x?x2xWxf32>) outs(%eo : tensor<?x?x2xWxf32>) {
  ^bb0(%x: f32, %z: f32, %out: f32):
    %0 = arith.addf %x, %z : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x2xWxf32>
)";
  check_rows(way_back_text(later, "16", Of::keys_and_values, epilogue), "attention",
             {blocks_of_16(), copies_of_32(), all_keys()}, {{2, 7, 15}, {1, 40, 33}});
}

} // namespace heddle::test
