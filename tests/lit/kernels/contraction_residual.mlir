// y[m, d] = sum[k](a[m, k] * w[d, k]) + b[d] + x[m, d]: the output projection of attention, bias and residual.
// RUN: heddle-opt %s | FileCheck %s
// CHECK: @k_contraction

func.func private @k_contraction(
    %M: index, %a: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>},
    %w: tensor<768x768xf32> {heddle.extents = affine_map<(M) -> (768, 768)>, heddle.layout = #heddle.panels<axis = 0, width = 48>},
    %b: tensor<768xf32> {heddle.extents = affine_map<(M) -> (768)>},
    %x: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>})
    -> (tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>}) attributes {heddle.kernel = "contraction"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x768xf32>) -> tensor<?x768xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<?x768xf32>, tensor<768x768xf32>) outs(%f : tensor<?x768xf32>) {
  ^bb0(%av: f32, %wv: f32, %acc: f32):
    %0 = arith.mulf %av, %wv : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x768xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, o) -> (m, o)>, affine_map<(m, o) -> (o)>, affine_map<(m, o) -> (m, o)>, affine_map<(m, o) -> (m, o)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%p, %b, %x : tensor<?x768xf32>, tensor<768xf32>, tensor<?x768xf32>) outs(%e : tensor<?x768xf32>) {
  ^bb0(%pv: f32, %bv: f32, %xv: f32, %out: f32):
    %0 = arith.addf %pv, %bv : f32
    %1 = arith.addf %0, %xv : f32
    linalg.yield %1 : f32
  } -> tensor<?x768xf32>
  return %y : tensor<?x768xf32>
}
