// mean[m] = sum[d](x[m, d]) / 768;  var[m] = sum[d]((x[m, d] - mean[m]) ** 2) / 768
// y[m, d] = (x[m, d] - mean[m]) / sqrt(var[m] + 1e-12) * g[d] + b[d]
// RUN: heddle-opt %s | FileCheck %s
// CHECK: @k_row_reduction

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
