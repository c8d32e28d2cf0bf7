// y[m, o] = gelu(sum[i](x[m, i] * w[o, i]) + b[o]) with the weight in panels of 48: fc1 of a BERT layer.
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// RUN: heddle-opt --heddle-target=x86-64-v3 --halide %s | FileCheck %s --check-prefix=NARROW
// A tile's sums are registers: of 8 rows three vectors each, one iteration of the sum's loop takes a column of the panel. The epilogue is in
// the same tile. Kernels for fewer rows follow.
// SCHEDULE: heddle.kernel = "contraction", heddle.schedule = [
// SCHEDULE-SAME: {micro_kernel = "fma", params = {abreast = {{[124]}} : i64, ahead = 1 : i64, block = {{[0-9]+}} : i64, rows = 8 : i64, tasks = 16 : i64, widened = 0 : i64, width = 48 : i64}, variant = "tiles", when = #{{.*}}}, {{.*}}, {micro_kernel = "fma", params = {abreast = {{[124]}} : i64, ahead = 0 : i64, block = {{[0-9]+}} : i64, rows = 1 : i64, tasks = 16 : i64, widened = 0 : i64, width = 48 : i64}, variant = "tiles"}]
// CHECK: // k_contraction_0
// CHECK: for (result0_tiled.s0.a0.tiles.tile, 0,
// CHECK: allocate sum[float32 * 48 * 8 * 1]
// CHECK: produce sum {
// CHECK-COUNT-24: sum[ramp({{[0-9]+}}, 1, 16)] = x16(0.000000f)
// CHECK: for (sum.s1.{{[a-z0-9$]+}}, 0, 768) {
// CHECK-COUNT-24: {{^ *}}sum[ramp([[AT:[0-9]+]], 1, 16)] = sum[ramp([[AT]], 1, 16)] + (arg2[ramp({{.*}}, 1, 16) aligned(48, {{0|16|32}})]*x16(arg1[
// CHECK-NEXT: {{^ *}}}
// CHECK: consume sum {
// CHECK-NOT: for (
// CHECK: strict_add(sum[ramp(0, 1, 16)], arg3[
// CHECK: x16(0.707107f)
// CHECK: result0_tiled[ramp({{.*}}, 1, 16) aligned(48, 0)] = {{.*}}x16(0.500000f)
// CHECK: halide_do_par_for((halide_task_t)::k_contraction_0_par_for_result0_tiled
// CHECK: // k_contraction_5
// CHECK: allocate sum${{[0-9]+}}[float32 * 48 * 4 * 1]
// CHECK: // k_contraction_6
// CHECK: allocate sum${{[0-9]+}}[float32 * 48 * 1 * 4]
// NARROW: // k_contraction_0
// NARROW: sum[ramp(0, 1, 8)] = sum[ramp(0, 1, 8)] + (arg2[ramp(
// NARROW-NOT: 1, 16)

func.func private @k_contraction(
    %M: index, %x: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>},
    %w: tensor<3072x768xf32> {heddle.extents = affine_map<(M) -> (3072, 768)>, heddle.layout = #heddle.layout<(n, k) -> (n floordiv 48, k, n mod 48)>},
    %b: tensor<3072xf32> {heddle.extents = affine_map<(M) -> (3072)>})
    -> (tensor<?x3072xf32> {heddle.extents = affine_map<(M) -> (M, 3072)>}) attributes {heddle.kernel = "contraction"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x3072xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3072xf32>) -> tensor<?x3072xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x768xf32>, tensor<3072x768xf32>) outs(%f : tensor<?x3072xf32>) {
  ^bb0(%xv: f32, %wv: f32, %acc: f32):
    %0 = arith.mulf %xv, %wv : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x3072xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, o) -> (m, o)>, affine_map<(m, o) -> (o)>, affine_map<(m, o) -> (m, o)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<?x3072xf32>, tensor<3072xf32>) outs(%e : tensor<?x3072xf32>) {
  ^bb0(%pv: f32, %bv: f32, %out: f32):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 1.41421354 : f32
    %0 = arith.addf %pv, %bv : f32
    %1 = arith.mulf %0, %half : f32
    %2 = arith.divf %0, %root : f32
    %3 = math.erf %2 : f32
    %4 = arith.addf %3, %one : f32
    %5 = arith.mulf %1, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<?x3072xf32>
  return %y : tensor<?x3072xf32>
}
