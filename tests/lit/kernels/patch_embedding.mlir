// e[b, n, d] = sum[c, i, j](img[b, c, n // 14 * 16 + i, n % 14 * 16 + j] * w[d, c, i, j]) + bias[d]
// The image is read in the body at affine places that are proven inside; c, i, j are carried by the weight.
// RUN: heddle-opt %s | FileCheck %s
// CHECK: @k_contraction

func.func private @k_contraction(
    %B: index, %img: tensor<?x3x224x224xf32> {heddle.extents = affine_map<(B) -> (B, 3, 224, 224)>},
    %w: tensor<768x3x16x16xf32> {heddle.extents = affine_map<(B) -> (768, 3, 16, 16)>, heddle.layout = #heddle.panels<axis = 0, width = 48>},
    %bias: tensor<768xf32> {heddle.extents = affine_map<(B) -> (768)>})
    -> (tensor<?x196x768xf32> {heddle.extents = affine_map<(B) -> (B, 196, 768)>}) attributes {heddle.kernel = "contraction"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%B) : tensor<?x196x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x196x768xf32>) -> tensor<?x196x768xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(b, n, d, c, i, j) -> (d, c, i, j)>, affine_map<(b, n, d, c, i, j) -> (b, n, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%w : tensor<768x3x16x16xf32>) outs(%f : tensor<?x196x768xf32>) {
  ^bb0(%wv: f32, %acc: f32):
    %b = linalg.index 0 : index
    %n = linalg.index 1 : index
    %c = linalg.index 3 : index
    %i = linalg.index 4 : index
    %j = linalg.index 5 : index
    %y = affine.apply affine_map<(n, i) -> (n floordiv 14 * 16 + i)>(%n, %i)
    %x = affine.apply affine_map<(n, j) -> (n mod 14 * 16 + j)>(%n, %j)
    %0 = tensor.extract %img[%b, %c, %y, %x] : tensor<?x3x224x224xf32>
    %1 = arith.mulf %0, %wv : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<?x196x768xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, n, d) -> (b, n, d)>, affine_map<(b, n, d) -> (d)>, affine_map<(b, n, d) -> (b, n, d)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %bias : tensor<?x196x768xf32>, tensor<768xf32>) outs(%e : tensor<?x196x768xf32>) {
  ^bb0(%pv: f32, %bv: f32, %out: f32):
    %0 = arith.addf %pv, %bv : f32
    linalg.yield %0 : f32
  } -> tensor<?x196x768xf32>
  return %y : tensor<?x196x768xf32>
}
