// e[b, n, d] = sum[c, i, j](img[b, c, n // 14 * 16 + i, n % 14 * 16 + j] * w[d, c, i, j]) + bias[d]
// The image is read in the body at affine places that are proven inside; c, i, j are carried by the weight.
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// Its kind is that of convolutions. A block holds the sums of a plane's places, 9 of them at a time, with 27 vectors in registers, over
// channels, lines and columns of a patch; then the block goes to the result, with the bias.
// SCHEDULE: heddle.kernel = "convolution", heddle.schedule = [{micro_kernel = "fma", params = {panels = 8 : i64, rows = 9 : i64, width = 48 : i64, window = 262144 : i64}, variant = "tiles"}]
// CHECK: // k_contraction_0
// CHECK: allocate block[float32 * 48 * 198 * 1]
// CHECK: for (block.s0.p.tile, 0, 22) {
// CHECK: allocate sum[float32 * 48 * 9 * 1]
// CHECK: for (sum.s1.{{[a-z0-9]+}}$z, 0, 3) {
// CHECK: for (sum.s1.{{[a-z0-9]+}}$y, 0, 16) {
// CHECK: for (sum.s1.{{[a-z0-9]+}}$x, 0, 16) {
// CHECK-COUNT-27: sum[ramp({{[0-9]+}}, 1, 16)] = sum[ramp({{[0-9]+}}, 1, 16)] +
// CHECK: for (result0_tiled.s0.a1, 0, 196) {
// CHECK: result0_tiled[ramp({{.*}}, 1, 16){{.*}}block[ramp(
// CHECK: halide_do_par_for((halide_task_t)::k_contraction_0_par_for_result0_tiled

func.func private @k_contraction(
    %B: index, %img: tensor<?x3x224x224xf32> {heddle.extents = affine_map<(B) -> (B, 3, 224, 224)>},
    %w: tensor<768x3x16x16xf32> {heddle.extents = affine_map<(B) -> (768, 3, 16, 16)>, heddle.layout = #heddle.layout<(n, k, u, v) -> (n floordiv 48, k, u, v, n mod 48)>},
    %bias: tensor<768xf32> {heddle.extents = affine_map<(B) -> (768)>})
    -> (tensor<?x196x768xf32> {heddle.extents = affine_map<(B) -> (B, 196, 768)>}) attributes {heddle.kernel = "contraction"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%B) : tensor<?x196x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x196x768xf32>) -> tensor<?x196x768xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, n, d, c, i, j) -> (d, c, i, j)>, affine_map<(b, n, d, c, i, j) -> (b, n, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%w : tensor<768x3x16x16xf32>) outs(%f : tensor<?x196x768xf32>) {
  ^bb0(%wv: f32, %acc: f32):
    %b = linalg.index 0 : index
    %n = linalg.index 1 : index
    %c = linalg.index 3 : index
    %i = linalg.index 4 : index
    %j = linalg.index 5 : index
    %y = affine.apply affine_map<(n, i) -> (n floordiv 14 * 16 + i)>(%n, %i)
    %x = affine.apply affine_map<(n, j) -> (n mod 14 * 16 + j)>(%n, %j)
    %0 = tensor.extract %img[%b, %c, %y, %x] : tensor<?x3x224x224xf32>
    %1 = arith.mulf %0, %wv : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<?x196x768xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, n, d) -> (b, n, d)>, affine_map<(b, n, d) -> (d)>, affine_map<(b, n, d) -> (b, n, d)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %bias : tensor<?x196x768xf32>, tensor<768xf32>) outs(%e : tensor<?x196x768xf32>) {
  ^bb0(%pv: f32, %bv: f32, %out: f32):
    %0 = arith.addf %pv, %bv : f32
    linalg.yield %0 : f32
  } -> tensor<?x196x768xf32>
  return %y : tensor<?x196x768xf32>
}
