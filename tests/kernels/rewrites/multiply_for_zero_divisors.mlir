// A divisor that is 0 wherever it is read.
// sizes: 3
#map1 = affine_map<(d0) -> (d0)>
#map4 = affine_map<(d0, d1) -> (d1)>
#map5 = affine_map<(d0, d1) -> (d0)>
#map6 = affine_map<()[s0] -> (s0 + 1)>
module {
  func.func @k1(%arg0: index, %arg2: tensor<1x1xf32> {heddle.extents = affine_map<(d0) -> (1, 1)>}, %arg3: tensor<?xf32> {heddle.extents = #map1}) -> (tensor<?xf32> {heddle.extents = #map1}) attributes {heddle.kernel = "row_reduction", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %cst = arith.constant 1.000000e+00 : f32
    %c0 = arith.constant 0 : index
    %c1_i32 = arith.constant 1 : i32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<1xf32>
    %1 = tensor.empty(%arg0) : tensor<?xf32>
    %2 = linalg.fill ins(%cst_0 : f32) outs(%1 : tensor<?xf32>) -> tensor<?xf32>
    %3 = linalg.generic {indexing_maps = [#map4, #map5], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<1xf32>) outs(%2 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %5 = linalg.index 0 : index
      %6 = arith.index_cast %5 : index to i32
      %7 = arith.sitofp %6 : i32 to f32
      %8 = affine.apply #map6()[%5]
      %9 = arith.index_cast %8 : index to i32
      %10 = arith.cmpi slt, %9, %c1_i32 : i32
      %11 = arith.minsi %8, %c0 : index
      %12 = arith.maxsi %11, %c0 : index
      %extracted = tensor.extract %arg2[%12, %c0] : tensor<1x1xf32>
      %13 = arith.select %10, %extracted, %cst_0 : f32
      %14 = arith.divf %7, %13 : f32
      %15 = arith.addf %out, %14 : f32
      linalg.yield %15 : f32
    } -> tensor<?xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%arg3, %3 : tensor<?xf32>, tensor<?xf32>) outs(%1 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_1: f32, %out: f32):
      %size = arith.index_cast %arg0 : index to i32
      %5 = arith.cmpi sgt, %size, %c1_i32 : i32
      %6 = arith.maximumf %in_1, %cst : f32
      %7 = arith.select %5, %in, %6 : f32
      linalg.yield %7 : f32
    } -> tensor<?xf32>
    return %4 : tensor<?xf32>
  }
}
