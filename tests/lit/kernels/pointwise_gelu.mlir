// y[m, d] = gelu(x[m, d] + b[d]) * r[m, d]: a gated activation after a product that had no room for it.
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// RUN: heddle-opt --heddle-target=x86-64-v3 --halide %s | FileCheck %s --check-prefix=NARROW
// One pass: 12 blocks of four vectors for each row, and nothing between input and result.
// SCHEDULE: heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = {{[0-9]+}} : i64}, variant = "rows"}]
// CHECK: // k_pointwise_0
// CHECK-NOT: allocate
// CHECK: for (result0.s0.a0.row, 0,
// CHECK: for (result0.s0.a1.block.block, 0, 12) {
// CHECK: strict_add(arg1[ramp({{.*}}, 1, 16) aligned(64, 0)], arg2[ramp(result0.s0.a1.block.block*64, 1, 16) aligned(64, 0)])
// CHECK: result0[ramp({{.*}}, 1, 16) aligned(64, 0)] = {{.*}}x16(0.500000f){{.*}}arg3[ramp(
// CHECK-COUNT-3: result0[ramp({{.*}}, 1, 16) aligned(64, {{16|32|48}})] =
// CHECK: halide_do_par_for((halide_task_t)::k_pointwise_0_par_for_result0_s0_a0_task
// NARROW: for (result0.s0.a1.block.block, 0, 24) {
// NARROW: result0[ramp({{.*}}, 1, 8) aligned(32, 0)] =
// NARROW-NOT: 1, 16)

#md = affine_map<(m, d) -> (m, d)>
func.func private @k_pointwise(
    %M: index, %x: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>},
    %b: tensor<768xf32> {heddle.extents = affine_map<(M) -> (768)>},
    %r: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>})
    -> (tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>}) attributes {heddle.kernel = "pointwise"} {
  %e = tensor.empty(%M) : tensor<?x768xf32>
  %y = linalg.generic {indexing_maps = [#md, affine_map<(m, d) -> (d)>, #md, #md], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b, %r : tensor<?x768xf32>, tensor<768xf32>, tensor<?x768xf32>) outs(%e : tensor<?x768xf32>) {
  ^bb0(%xv: f32, %bv: f32, %rv: f32, %out: f32):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 1.41421354 : f32
    %0 = arith.addf %xv, %bv : f32
    %1 = arith.mulf %0, %half : f32
    %2 = arith.divf %0, %root : f32
    %3 = math.erf %2 : f32
    %4 = arith.addf %3, %one : f32
    %5 = arith.mulf %1, %4 : f32
    %6 = arith.mulf %5, %rv : f32
    linalg.yield %6 : f32
  } -> tensor<?x768xf32>
  return %y : tensor<?x768xf32>
}
