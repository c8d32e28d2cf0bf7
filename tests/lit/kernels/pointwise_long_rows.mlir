// y[b, n] = x[b, n] * s[b]: a picture with a number of its own. Tasks are pieces of rows, so that one picture is work for all threads.
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// SCHEDULE: heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = {{[0-9]+}} : i64}, variant = "rows"}]
// CHECK: // k_scaled_0
// CHECK: for (result0.s0.a1.piece.pieces.row, 0,
// CHECK: % (result0.s0.a1.piece.loop_extent.s + 1)
// CHECK: halide_do_par_for((halide_task_t)::k_scaled_0_par_for_result0_s0_a1_piece_pieces_task

#bn = affine_map<(b, n) -> (b, n)>
func.func private @k_scaled(
    %B: index, %N: index, %x: tensor<?x?xf32> {heddle.extents = #bn}, %s: tensor<?xf32> {heddle.extents = affine_map<(B, N) -> (B)>})
    -> (tensor<?x?xf32> {heddle.extents = #bn}) attributes {heddle.kernel = "pointwise"} {
  %e = tensor.empty(%B, %N) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [#bn, affine_map<(b, n) -> (b)>, #bn], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%xv: f32, %sv: f32, %out: f32):
    %0 = arith.mulf %xv, %sv : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
