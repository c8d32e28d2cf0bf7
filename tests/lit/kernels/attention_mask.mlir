// s[b, h, i, j] = if mask[b, j] != 0 then sum[e](q[b, i, h, e] * k[b, j, h, e]) / 8 else -inf
// p = softmax(s), 0 where no term is admitted;  o[b, i, h, e] = sum[j](p[b, h, i, j] * v[b, j, h, e])
// Queries, keys and values are [B, S, H, E], as the projections leave them.
// RUN: heddle-opt --heddle-target=x86-64-v4 --choose_schedules %s | FileCheck %s --check-prefix=SCHEDULE
// RUN: heddle-opt --heddle-target=x86-64-v4 --halide %s | FileCheck %s
// Long rows: keys in blocks of 384, whose transposed panels and copied values serve all queries; scores exist for 12 queries and one
// block, the parts of the blocks are joined at the end. Short rows: scores of 32 or 16 queries.
// SCHEDULE: heddle.kernel = "attention", heddle.schedule = [
// SCHEDULE-SAME: {micro_kernel = "fma", params = {at_once = 192 : i64, blocks = {{[0-9]+}} : i64, group = 8 : i64, keys = 384 : i64, rows = 12 : i64}, variant = "key_blocks", when
// SCHEDULE-SAME: {micro_kernel = "fma", params = {at_once = 192 : i64, blocks = {{[0-9]+}} : i64, group = 8 : i64, keys = 0 : i64, rows = 12 : i64}, variant = "key_blocks", when
// SCHEDULE-SAME: {micro_kernel = "fma", params = {rows = 32 : i64}, variant = "row_blocks", when = #{{.*}}}, {micro_kernel = "fma", params = {rows = 16 : i64}, variant = "row_blocks"}]
// CHECK: // k_attention_0
// CHECK: produce panels {
// CHECK: for (keys.s0.lane, 0, 16) {
// CHECK: allocate copied[float32 * 64 *
// CHECK: allocate part[float32 * 80 * 12 *
// CHECK: for (part.s0.c, 0,
// CHECK: allocate scores$1[float32 * 32 * 12 * 12 *
// CHECK: for (sum.s1.{{[a-z0-9$]+}}, 0, 64) {
// CHECK: sum[ramp(0, 1, 16)] = sum[ramp(0, 1, 16)] +
// CHECK: produce statistic {
// CHECK: consume scores$1 {
// CHECK: produce scores {
// CHECK: produce statistic$1 {
// CHECK: produce weighted {
// CHECK: produce result0_tiled {
// CHECK: // k_attention_3
// CHECK: allocate scores{{.*}}[float32 * 16 *

#bhij = affine_map<(b, h, i, j) -> (b, h, i, j)>
#bhi = affine_map<(b, h, i, j) -> (b, h, i)>
func.func private @k_attention(
    %B: index, %S: index,
    %q: tensor<?x?x12x64xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 12, 64)>},
    %k: tensor<?x?x12x64xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 12, 64)>},
    %mask: tensor<?x?xi32> {heddle.extents = affine_map<(B, S) -> (B, S)>},
    %v: tensor<?x?x12x64xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 12, 64)>})
    -> (tensor<?x?x12x64xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 12, 64)>}) attributes {heddle.kernel = "attention"} {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  // the scores
  %es = tensor.empty(%B, %S, %S) : tensor<?x12x?x?xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x12x?x?xf32>) -> tensor<?x12x?x?xf32>
  %qk = linalg.generic {indexing_maps = [affine_map<(b, h, i, j, e) -> (b, i, h, e)>, affine_map<(b, h, i, j, e) -> (b, j, h, e)>,
                                         affine_map<(b, h, i, j, e) -> (b, h, i, j)>],
                        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>) outs(%fs : tensor<?x12x?x?xf32>) {
  ^bb0(%qv: f32, %kv: f32, %acc: f32):
    %0 = arith.mulf %qv, %kv : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x12x?x?xf32>
  %s = linalg.generic {indexing_maps = [#bhij, affine_map<(b, h, i, j) -> (b, j)>, #bhij],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%qk, %mask : tensor<?x12x?x?xf32>, tensor<?x?xi32>) outs(%es : tensor<?x12x?x?xf32>) {
  ^bb0(%qkv: f32, %m: i32, %out: f32):
    %none = arith.constant 0 : i32
    %inf = arith.constant 0xFF800000 : f32
    %root = arith.constant 8.0 : f32
    %0 = arith.cmpi ne, %m, %none : i32
    %1 = arith.divf %qkv, %root : f32
    %2 = arith.select %0, %1, %inf : f32
    linalg.yield %2 : f32
  } -> tensor<?x12x?x?xf32>
  // the softmax
  %er = tensor.empty(%B, %S) : tensor<?x12x?xf32>
  %fm = linalg.fill ins(%lowest : f32) outs(%er : tensor<?x12x?xf32>) -> tensor<?x12x?xf32>
  %max = linalg.generic {indexing_maps = [#bhij, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s : tensor<?x12x?x?xf32>) outs(%fm : tensor<?x12x?xf32>) {
  ^bb0(%sv: f32, %acc: f32):
    %0 = arith.maximumf %acc, %sv : f32
    linalg.yield %0 : f32
  } -> tensor<?x12x?xf32>
  %ex = linalg.generic {indexing_maps = [#bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %max : tensor<?x12x?x?xf32>, tensor<?x12x?xf32>) outs(%es : tensor<?x12x?x?xf32>) {
  ^bb0(%sv: f32, %mv: f32, %out: f32):
    %inf = arith.constant 0xFF800000 : f32
    %none = arith.constant 0.0 : f32
    %0 = arith.subf %sv, %mv : f32
    %1 = math.exp %0 : f32
    %2 = arith.cmpf oeq, %mv, %inf : f32
    %3 = arith.select %2, %none, %1 : f32
    linalg.yield %3 : f32
  } -> tensor<?x12x?x?xf32>
  %fd = linalg.fill ins(%zero : f32) outs(%er : tensor<?x12x?xf32>) -> tensor<?x12x?xf32>
  %sum = linalg.generic {indexing_maps = [#bhij, #bhi], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ex : tensor<?x12x?x?xf32>) outs(%fd : tensor<?x12x?xf32>) {
  ^bb0(%ev: f32, %acc: f32):
    %0 = arith.addf %acc, %ev : f32
    linalg.yield %0 : f32
  } -> tensor<?x12x?xf32>
  %p = linalg.generic {indexing_maps = [#bhij, #bhi, #bhij], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%ex, %sum : tensor<?x12x?x?xf32>, tensor<?x12x?xf32>) outs(%es : tensor<?x12x?x?xf32>) {
  ^bb0(%ev: f32, %dv: f32, %out: f32):
    %none = arith.constant 0.0 : f32
    %0 = arith.divf %ev, %dv : f32
    %1 = arith.cmpf oeq, %dv, %none : f32
    %2 = arith.select %1, %none, %0 : f32
    linalg.yield %2 : f32
  } -> tensor<?x12x?x?xf32>
  // the weighted values
  %eo = tensor.empty(%B, %S) : tensor<?x?x12x64xf32>
  %fo = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x?x12x64xf32>) -> tensor<?x?x12x64xf32>
  %o = linalg.generic {indexing_maps = [affine_map<(b, i, h, e, j) -> (b, h, i, j)>, affine_map<(b, i, h, e, j) -> (b, j, h, e)>,
                                        affine_map<(b, i, h, e, j) -> (b, i, h, e)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<?x12x?x?xf32>, tensor<?x?x12x64xf32>) outs(%fo : tensor<?x?x12x64xf32>) {
  ^bb0(%pv: f32, %vv: f32, %acc: f32):
    %0 = arith.mulf %pv, %vv : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x12x64xf32>
  return %o : tensor<?x?x12x64xf32>
}
