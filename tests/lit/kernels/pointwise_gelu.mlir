// y[m, d] = gelu(x[m, d] + b[d]) * r[m, d]: a gated activation after a product that had no room for it.
// RUN: heddle-opt %s | FileCheck %s
// CHECK: @k_pointwise

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
