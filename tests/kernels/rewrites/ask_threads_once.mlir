// Rows that are cut for the threads of the run.
// sizes: 200
// statement: let threads
func.func @k0(%M: index, %x: tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>})
    -> (tensor<?x768xf32> {heddle.extents = affine_map<(M) -> (M, 768)>})
    attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
  %e = tensor.empty(%M) : tensor<?x768xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, d) -> (m, d)>, affine_map<(m, d) -> (m, d)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x768xf32>) outs(%e : tensor<?x768xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %in : f32
    linalg.yield %0 : f32
  } -> tensor<?x768xf32>
  return %y : tensor<?x768xf32>
}
