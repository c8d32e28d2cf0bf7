// y[m, o] = gelu(sum[i](x[m, i] * w[o, i]) + b[o]) of bf16, with the weight in panels of 32 in pairs: fc1 of a BERT layer on a CPU with
// a matrix unit. The sums of up to 96 rows are one call, which asks for its share of the next panel, as the rows of the epilogue do, which is in
// the same tile; what it writes is asked for before. A call with few rows takes the vectors' dot
// product, from the same panels.
// RUN: heddle-opt --heddle-target=x86-64-v4+amx --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4+amx --halide %s | FileCheck %s
// RUN: heddle-opt --heddle-target=x86-64-v4+bf16 --choose_schedules %s | FileCheck %s --check-prefix=VECTORS
// SCHEDULE: heddle.schedule = [
// SCHEDULE-SAME: {micro_kernel = "tile_bf16", params = {ahead = 1 : i64, block = {{[0-9]+}} : i64, inside = 0 : i64, rows = {{32|96}} : i64, tasks = 16 : i64, width = 32 : i64}, variant = "matrix_tiles", when = #{{.*}}}, {{.*}}micro_kernel = "dot_bf16", {{.*}}variant = "tiles"}]
// VECTORS-NOT: tile_bf16
// CHECK: // k_product_0
// CHECK: llvm.prefetch.p0({{.*}}result0
// CHECK: allocate sum[float32 * 32 * [[ROWS:32|96]] * 1]
// CHECK: produce sum {
// CHECK-NOT: for (
// CHECK: heddle_tile_bf16_by_32(reinterpret<(void *)>(reinterpret<uint64>(sum){{.*}}), int64(128), {{.*}}(arg1){{.*}}, int64(1536), {{.*}}(arg2){{.*}}, int64(128), int64(64), {{.*}}, 384, {{.*}}(arg2){{.*}})
// CHECK-NEXT: {{^ *}}}
// CHECK: consume sum {
// CHECK: for (result0_tiled.s0.a0.row, 0,
// CHECK-NEXT: for (line{{.*}}, 0, lines_of_row{{.*}}) {
// CHECK-NEXT: llvm.prefetch.p0({{.*}}(arg2)
// CHECK: strict_add(sum[ramp(result0_tiled.s0.a0.row*32, 1, 16) aligned(32, 0)], arg3[

func.func private @k_product(
    %M: index, %x: tensor<?x768xbf16> {heddle.extents = affine_map<(M) -> (M, 768)>},
    %w: tensor<3072x768xbf16> {heddle.extents = affine_map<(M) -> (3072, 768)>, heddle.layout = #heddle.layout<(n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)>},
    %b: tensor<3072xf32> {heddle.extents = affine_map<(M) -> (3072)>})
    -> (tensor<?x3072xf32> {heddle.extents = affine_map<(M) -> (M, 3072)>}) attributes {heddle.kernel = "contraction"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x3072xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3072xf32>) -> tensor<?x3072xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x768xbf16>, tensor<3072x768xbf16>) outs(%f : tensor<?x3072xf32>) {
  ^bb0(%xn: bf16, %wn: bf16, %acc: f32):
    %xv = arith.extf %xn : bf16 to f32
    %wv = arith.extf %wn : bf16 to f32
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
