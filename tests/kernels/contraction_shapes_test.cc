// Contractions of other shapes than a dense layer's: batches, several products in one kernel, rows whose tiles have
// weights of their own, and no rows at all.
#include "contraction_check.h"
#include "contraction_text.h"

namespace heddle::test {

static const char *const batch = R"(
func.func private @k(%B: index, %T: index, %S: index,
    %q: tensor<?x?x3x11xf32> {heddle.extents = affine_map<(B, T, S) -> (B, T, 3, 11)>},
    %k: tensor<?x?x3x11xf32> {heddle.extents = affine_map<(B, T, S) -> (B, S, 3, 11)>})
    -> (tensor<?x3x?x?xf32> {heddle.extents = affine_map<(B, T, S) -> (B, 3, T, S)>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%B, %T, %S) : tensor<?x3x?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3x?x?xf32>) -> tensor<?x3x?x?xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, h, i, j, e) -> (b, i, h, e)>, affine_map<(b, h, i, j, e) -> (b, j, h, e)>,
                                        affine_map<(b, h, i, j, e) -> (b, h, i, j)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x?x3x11xf32>, tensor<?x?x3x11xf32>) outs(%f : tensor<?x3x?x?xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x3x?x?xf32>
  return %p : tensor<?x3x?x?xf32>
})";

TEST(Contraction, ProductsOfTwoInputsInBatches) {
  check_chosen(batch, {{2, 5, 7}, {1, 1, 33}, {3, 19, 50}}, tolerance(11));
  for (int64_t width : {32, 48})
    check_row(batch, split_tiles(width, 32), {{2, 5, 7}, {1, 1, 33}, {3, 19, 50}}, 1e-6);
}

TEST(Contraction, TwoProductsMeetInOneEpilogue) {
  // y[m, o] = sum[i](x[m, i] * u[o, i]) * tanh(sum[i](x[m, i] * v[o, i])): a gated layer
  check_chosen(R"(
#x = affine_map<(m, o, i) -> (m, i)>
#w = affine_map<(m, o, i) -> (o, i)>
#y = affine_map<(m, o, i) -> (m, o)>
#id = affine_map<(m, o) -> (m, o)>
func.func private @k(%M: index, %x: tensor<?x17xf32> {heddle.extents = affine_map<(M) -> (M, 17)>},
    %u: tensor<50x17xf32> {heddle.layout = #heddle.layout<(n, k) -> (n floordiv 16, k, n mod 16)>}, %v: tensor<50x17xf32>)
    -> (tensor<?x50xf32> {heddle.extents = affine_map<(M) -> (M, 50)>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x50xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x50xf32>) -> tensor<?x50xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %u : tensor<?x17xf32>, tensor<50x17xf32>) outs(%f : tensor<?x50xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x50xf32>
  %q = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<?x17xf32>, tensor<50x17xf32>) outs(%f : tensor<?x50xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x50xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %q : tensor<?x50xf32>, tensor<?x50xf32>) outs(%e : tensor<?x50xf32>) {
  ^bb0(%pv: f32, %qv: f32, %out: f32):
    %0 = math.tanh %qv : f32
    %1 = arith.mulf %pv, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x50xf32>
  return %y : tensor<?x50xf32>
})",
               {{1}, {2}, {6}, {19}}, 1e-5);
}

/// y[u, r, n] = relu(sum[i](x[u, r, i] * (0 <= e[u] ? w[e[u], n, i] : 0))) + b[n], where some tiles u have no number.
static const char *const in_tiles = R"(
func.func private @k(%U: index, %x: tensor<?x6x{K}xf32> {heddle.extents = affine_map<(U) -> (U, 6, {K})>},
    %numbers: tensor<?xi32> {heddle.extents = affine_map<(U) -> (U)>, heddle.below = 4 : i64},
    %w: tensor<3x{N}x{K}xf32> {{layout}}, %b: tensor<{N}xf32>)
    -> (tensor<?x6x{N}xf32> {heddle.extents = affine_map<(U) -> (U, 6, {N})>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%U) : tensor<?x6x{N}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6x{N}xf32>) -> tensor<?x6x{N}xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(u, r, n, i) -> (u, r, i)>, affine_map<(u, r, n, i) -> (u)>, affine_map<(u, r, n, i) -> (u, r, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %numbers : tensor<?x6x{K}xf32>, tensor<?xi32>) outs(%f : tensor<?x6x{N}xf32>) {
  ^bb0(%a: f32, %k: i32, %acc: f32):
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %number = arith.subi %k, %c1 : i32
    %some = arith.cmpi sge, %number, %c0 : i32
    %clamped = arith.maxsi %number, %c0 : i32
    %at = arith.index_cast %clamped : i32 to index
    %n = linalg.index 2 : index
    %i = linalg.index 3 : index
    %element = tensor.extract %w[%at, %n, %i] : tensor<3x{N}x{K}xf32>
    %factor = arith.select %some, %element, %zero : f32
    %0 = arith.mulf %a, %factor : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x6x{N}xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(u, r, n) -> (u, r, n)>, affine_map<(u, r, n) -> (n)>, affine_map<(u, r, n) -> (u, r, n)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %b : tensor<?x6x{N}xf32>, tensor<{N}xf32>) outs(%e : tensor<?x6x{N}xf32>) {
  ^bb0(%pv: f32, %bv: f32, %out: f32):
    %0 = arith.maximumf %pv, %zero : f32
    %1 = arith.addf %0, %bv : f32
    linalg.yield %1 : f32
  } -> tensor<?x6x{N}xf32>
  return %y : tensor<?x6x{N}xf32>
})";

TEST(Contraction, TilesOfRowsHaveEachTheirPlaceInTheWeights) {
  for (auto [rows, width] : {std::pair(1, 32), {2, 16}, {6, 16}}) {
    std::string w = std::to_string(width), panels = "(e, n, k) -> (n floordiv " + w + ", e, k, n mod " + w + ")";
    ScheduleRow row = row_of("contraction", "tiles", {{"rows", rows}, {"width", width}, {"ahead", 0}});
    check_row(sized(in_tiles, width + 5, 13, panels), row, {{1}, {2}, {7}, {70}}, 1e-5);
  }
  check_chosen(sized(in_tiles, 37, 40, ""), {{1}, {19}}, 1e-5); // packed on the fly
}

TEST(Contraction, TilesOfRowsAreNotCutAcross) {
  KernelText kernel(sized(in_tiles, 37, 40, ""));
  Result<Target> target = find_target("native");
  ASSERT_TRUE(target);
  kernel.set_row(row_of("contraction", "tiles", {{"rows", 4}, {"width", 16}}));
  Result<KernelObject> object = emit_kernel(kernel.function(), 0, *target, {});
  ASSERT_FALSE(object);
  EXPECT_NE(object.error().message.find("tiles of 6 rows that have a place in common"), std::string::npos);
}

TEST(Contraction, AVectorTimesAMatrixHasNoRows) {
  // y[o] = sum[i](x[i] * w[i, o]), the weight as it lies
  check_chosen(R"(
func.func private @k(%x: tensor<33xf32>, %w: tensor<33x70xf32>) -> tensor<70xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<70xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<70xf32>) -> tensor<70xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(o, i) -> (i)>, affine_map<(o, i) -> (i, o)>, affine_map<(o, i) -> (o)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<33xf32>, tensor<33x70xf32>) outs(%f : tensor<70xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<70xf32>
  return %p : tensor<70xf32>
})",
               {{}}, 1e-5);
}

} // namespace heddle::test
