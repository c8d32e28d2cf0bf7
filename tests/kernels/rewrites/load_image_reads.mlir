// A stage that a condition on an argument leaves out, and its memory with it.
// sizes: 13
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<()[s0] -> (s0 - 1)>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<()[s0, s1] -> (s0 - s1)>
module {
  func.func @k0(%arg0: index, %arg1: tensor<?xbf16> {heddle.extents = #map}, %arg2: tensor<?xbf16> {heddle.extents = #map}, %arg3: tensor<?xbf16> {heddle.extents = #map}) -> (tensor<?xbf16> {heddle.extents = #map}) attributes {heddle.kernel = "row_reduction", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %cst = arith.constant 1.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %cst_1 = arith.constant -1.000000e+00 : f32
    %cst_2 = arith.constant -5.000000e-01 : f32
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %cst_3 = arith.constant 2.000000e+00 : f32
    %cst_4 = arith.constant 0x7F800000 : f32
    %0 = tensor.empty(%arg0) : tensor<?xf32>
    %1 = linalg.fill ins(%cst_4 : f32) outs(%0 : tensor<?xf32>) -> tensor<?xf32>
    %2 = affine.apply #map1()[%arg0]
    %3 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%arg1, %0 : tensor<?xbf16>, tensor<?xf32>) outs(%1 : tensor<?xf32>) {
    ^bb0(%in: bf16, %in_5: f32, %out: f32):
      %8 = arith.extf %in : bf16 to f32
      %9 = arith.cmpf olt, %8, %cst_3 : f32
      %10 = linalg.index 0 : index
      %11 = linalg.index 1 : index
      %12 = affine.apply #map4()[%10, %11]
      %13 = arith.index_cast %12 : index to i32
      %14 = arith.cmpi sge, %13, %c0_i32 : i32
      %15 = arith.minsi %12, %2 : index
      %16 = arith.maxsi %15, %c0 : index
      %extracted = tensor.extract %arg2[%16] : tensor<?xbf16>
      %17 = arith.extf %extracted : bf16 to f32
      %18 = arith.select %14, %17, %cst_2 : f32
      %19 = arith.select %9, %18, %cst_4 : f32
      %20 = arith.minimumf %out, %19 : f32
      linalg.yield %20 : f32
    } -> tensor<?xf32>
    %4 = tensor.empty(%arg0) : tensor<?xbf16>
    %5 = tensor.empty(%arg0) : tensor<?xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%3 : tensor<?xf32>) outs(%5 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<?xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%6 : tensor<?xf32>) outs(%4 : tensor<?xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %8 = arith.index_cast %arg0 : index to i32
      %9 = arith.cmpi sgt, %8, %c0_i32 : i32
      %10 = arith.minsi %2, %c0 : index
      %11 = arith.maxsi %10, %c0 : index
      %extracted = tensor.extract %arg3[%11] : tensor<?xbf16>
      %12 = arith.extf %extracted : bf16 to f32
      %13 = arith.select %9, %12, %cst_2 : f32
      %14 = arith.cmpf ogt, %13, %cst_1 : f32
      %15 = arith.mulf %in, %cst_0 : f32
      %16 = arith.select %14, %15, %cst : f32
      %17 = arith.truncf %16 fastmath<contract> : f32 to bf16
      linalg.yield %17 : bf16
    } -> tensor<?xbf16>
    return %7 : tensor<?xbf16>
  }
}
