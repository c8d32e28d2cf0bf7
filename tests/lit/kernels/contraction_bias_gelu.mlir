// y[m, o] = gelu(sum[i](x[m, i] * w[o, i]) + b[o]) with the weight in panels of 48: fc1 of a BERT layer.
// RUN: heddle-opt %s | FileCheck %s
// CHECK: @k_contraction

func.func private @k_contraction(
    %M: index, %x: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>},
    %w: tensor<3072x768xf32> {heddle.extents = affine_map<(M) -> (3072, 768)>, heddle.layout = #heddle.panels<axis = 0, width = 48>},
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
