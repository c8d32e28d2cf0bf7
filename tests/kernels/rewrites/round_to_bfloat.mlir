// NaN whose payload a carry would run through.
// NaN first
// sizes: 100
#n = affine_map<(n) -> (n)>
module {
  func.func @k0(%n: index, %x: tensor<?xf32> {heddle.extents = #n}) -> (tensor<?xbf16> {heddle.extents = #n}) attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %e = tensor.empty(%n) : tensor<?xbf16>
    %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%e : tensor<?xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %v = arith.truncf %in : f32 to bf16
      linalg.yield %v : bf16
    } -> tensor<?xbf16>
    return %y : tensor<?xbf16>
  }
}
