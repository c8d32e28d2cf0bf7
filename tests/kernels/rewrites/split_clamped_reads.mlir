// Places that a bound holds back: which of the three cases a vector is, is asked before it is read.
// sizes: 40
// statement: if_then_else
#m = affine_map<(m) -> (m, 100)>
#mn = affine_map<(m, n) -> (m, n)>
module {
  func.func @k0(%m: index, %x: tensor<?x100xf32> {heddle.extents = #m}) -> (tensor<?x100xf32> {heddle.extents = #m}) attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %most = arith.constant 70 : index
    %e = tensor.empty(%m) : tensor<?x100xf32>
    %y = linalg.generic {indexing_maps = [#mn], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x100xf32>) {
    ^bb0(%o: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %at = arith.minsi %j, %most : index
      %v = tensor.extract %x[%i, %at] : tensor<?x100xf32>
      linalg.yield %v : f32
    } -> tensor<?x100xf32>
    return %y : tensor<?x100xf32>
  }
}
