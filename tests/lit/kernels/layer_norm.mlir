// mean[m] = sum[d](x[m, d]) / 768;  var[m] = sum[d]((x[m, d] - mean[m]) ** 2) / 768
// y[m, d] = (x[m, d] - mean[m]) / sqrt(var[m] + 1e-12) * g[d] + b[d]
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// RUN: heddle-opt --heddle-target=x86-64-v3 --halide %s | FileCheck %s --check-prefix=NARROW
// Three stages over a row while it is in the cache: mean and variance in four vectors of sums each, then the result in blocks.
// SCHEDULE: heddle.kernel = "row_reduction", heddle.schedule = [{params = {grain = {{[0-9]+}} : i64}, variant = "rows"}]
// CHECK: // k_row_reduction_0
// CHECK: for (result0.s0.a0.row, 0,
// CHECK: allocate [[MEAN:[a-z0-9$]+]]_intm[float32 * 1 * 64]
// CHECK: for ([[MEAN]]_intm.s1.outer, 0, 12) {
// CHECK-COUNT-4: [[MEAN]]_intm[ramp({{[0-9]+}}, 1, 16)] = [[MEAN]]_intm[ramp({{[0-9]+}}, 1, 16)] + arg1[ramp(
// CHECK-NEXT: }
// CHECK: vector_reduce_add([[MEAN]]_intm[ramp(0, 1, 64)])
// CHECK: strict_mul([[MEAN]][0], 0.001302f)
// CHECK: allocate [[VAR:[a-z0-9$]+]]_intm[float32 * 1 * 64]
// CHECK: for ([[VAR]]_intm.s1.outer, 0, 12) {
// CHECK: [[OFF:t[0-9]+]] = (float32x16)strict_sub(arg1[
// CHECK: + ([[OFF]]*[[OFF]])
// CHECK: vector_reduce_add([[VAR]]_intm[ramp(0, 1, 64)])
// CHECK: for (result0.s0.a1.block.block, 0, 12) {
// CHECK-COUNT-4: result0[ramp({{.*}}, 1, 16) aligned(64, {{[0-9]+}})] = (float32x16)strict_add(
// CHECK-NOT: result0[
// CHECK: halide_do_par_for((halide_task_t)::k_row_reduction_0_par_for_result0_s0_a0_task
// NARROW: for ({{.*}}_intm.s1.outer, 0, 24) {
// NARROW-COUNT-4: ramp({{[0-9]+}}, 1, 8)] + arg1[ramp(
// NARROW-NOT: 1, 16)

#md = affine_map<(m, d) -> (m, d)>
#m = affine_map<(m, d) -> (m)>
#d = affine_map<(m, d) -> (d)>
func.func private @k_row_reduction(
    %M: index, %x: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>},
    %g: tensor<768xf32> {heddle.extents = affine_map<(M) -> (768)>}, %b: tensor<768xf32> {heddle.extents = affine_map<(M) -> (768)>})
    -> (tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>}) attributes {heddle.kernel = "row_reduction"} {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty(%M) : tensor<?xf32>
  %e = tensor.empty(%M) : tensor<?x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#md, #m], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x768xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%xv: f32, %acc: f32):
    %0 = arith.addf %acc, %xv : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %mean = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]}
      ins(%sum : tensor<?xf32>) outs(%er : tensor<?xf32>) {
  ^bb0(%sv: f32, %out: f32):
    %n = arith.constant 768.0 : f32
    %0 = arith.divf %sv, %n : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %squares = linalg.generic {indexing_maps = [#md, #m, #m], iterator_types = ["parallel", "reduction"]}
      ins(%x, %mean : tensor<?x768xf32>, tensor<?xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%xv: f32, %mv: f32, %acc: f32):
    %0 = arith.subf %xv, %mv : f32
    %1 = arith.mulf %0, %0 : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#md, #m, #m, #d, #d, #md], iterator_types = ["parallel", "parallel"]}
      ins(%x, %mean, %squares, %g, %b : tensor<?x768xf32>, tensor<?xf32>, tensor<?xf32>, tensor<768xf32>, tensor<768xf32>)
      outs(%e : tensor<?x768xf32>) {
  ^bb0(%xv: f32, %mv: f32, %sv: f32, %gv: f32, %bv: f32, %out: f32):
    %n = arith.constant 768.0 : f32
    %eps = arith.constant 1.0e-12 : f32
    %0 = arith.subf %xv, %mv : f32
    %1 = arith.divf %sv, %n : f32
    %2 = arith.addf %1, %eps : f32
    %3 = math.sqrt %2 : f32
    %4 = arith.divf %0, %3 : f32
    %5 = arith.mulf %4, %gv : f32
    %6 = arith.addf %5, %bv : f32
    linalg.yield %6 : f32
  } -> tensor<?x768xf32>
  return %y : tensor<?x768xf32>
}
