// x[b, s, d] = word[ids[b, s], d] + type[types[b, s], d] + position[s, d]
// `position` has 512 rows and S of them are read, so it is no operand of a loop over S: it is read in the body.
// The word embeddings are shared with a decoder, whose product wants them in panels.
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// Rows of three tables are added block by block, at numbers that are clamped to each table; of a panel the row's elements lie 48 apart.
// SCHEDULE: heddle.kernel = "lookup", heddle.schedule = [{params = {grain = {{[0-9]+}} : i64}, variant = "rows"}]
// CHECK: // k_lookup_0
// CHECK: for (result0.s0.a1.rows1.row, 0,
// CHECK: for (result0.s0.a2.block.block, 0, 12) {
// CHECK: max(min({{.*}}, 30521), 0)
// CHECK: result0[ramp({{.*}}, 1, 16) aligned(64, 0)] = (float32x16)strict_add((float32x16)strict_add(arg4[ramp({{.*}}, 48, 16)], arg6[ramp({{.*}}max(min(arg3[{{.*}}, 1), 0){{.*}}, 1, 16){{.*}}arg5[ramp(
// CHECK-COUNT-3: {{^ *}}result0[ramp({{.*}}, 1, 16) aligned(64, {{16|32|48}})] = (float32x16)strict_add((float32x16)strict_add(arg4[
// CHECK-NEXT: }
// CHECK: halide_do_par_for((halide_task_t)::k_lookup_0_par_for_result0_s0_a1_rows1_task

#bsd = affine_map<(b, s, d) -> (b, s, d)>
#bs = affine_map<(b, s, d) -> (b, s)>
func.func private @k_lookup(
    %B: index, %S: index, %ids: tensor<?x?xi32> {heddle.extents = affine_map<(B, S) -> (B, S)>},
    %types: tensor<?x?xi32> {heddle.extents = affine_map<(B, S) -> (B, S)>},
    %word: tensor<30522x768xf32> {heddle.extents = affine_map<(B, S) -> (30522, 768)>, heddle.layout = #heddle.layout<(n, k) -> (n floordiv 48, k, n mod 48)>},
    %position: tensor<512x768xf32> {heddle.extents = affine_map<(B, S) -> (512, 768)>},
    %type: tensor<2x768xf32> {heddle.extents = affine_map<(B, S) -> (2, 768)>})
    -> (tensor<?x?x768xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 768)>}) attributes {heddle.kernel = "lookup"} {
  %e = tensor.empty(%B, %S) : tensor<?x?x768xf32>
  %x = linalg.generic {indexing_maps = [#bs, #bs, #bsd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids, %types : tensor<?x?xi32>, tensor<?x?xi32>) outs(%e : tensor<?x?x768xf32>) {
  ^bb0(%id: i32, %ty: i32, %out: f32):
    %s = linalg.index 1 : index
    %d = linalg.index 2 : index
    %0 = arith.index_cast %id : i32 to index
    %1 = tensor.extract %word[%0, %d] : tensor<30522x768xf32>
    %2 = arith.index_cast %ty : i32 to index
    %3 = tensor.extract %type[%2, %d] : tensor<2x768xf32>
    %4 = arith.addf %1, %3 : f32
    %5 = tensor.extract %position[%s, %d] : tensor<512x768xf32>
    %6 = arith.addf %4, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<?x?x768xf32>
  return %x : tensor<?x?x768xf32>
}
