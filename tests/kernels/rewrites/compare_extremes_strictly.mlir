// The least of numbers that a condition makes constant, in a reduction that begins at infinity.
// sizes: 129
#map = affine_map<(d0) -> (7)>
#map1 = affine_map<()[s0] -> (s0 - 1)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1) -> (d0)>
#map4 = affine_map<()[s0] -> (s0 * 4)>
module {
  func.func @k0(%arg0: index, %arg1: tensor<?x1xf32> {heddle.extents = affine_map<(d0) -> (d0, 1)>}) -> (tensor<7xf32> {heddle.extents = #map}) attributes {heddle.kernel = "row_reduction", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
    %cst = arith.constant 0.000000e+00 : f32
    %c0 = arith.constant 0 : index
    %c1_i32 = arith.constant 1 : i32
    %cst_0 = arith.constant 0x7F800000 : f32
    %0 = tensor.empty() : tensor<2xf32>
    %1 = tensor.empty() : tensor<7xf32>
    %2 = linalg.fill ins(%cst_0 : f32) outs(%1 : tensor<7xf32>) -> tensor<7xf32>
    %3 = affine.apply #map1()[%arg0]
    %4 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<2xf32>) outs(%2 : tensor<7xf32>) {
    ^bb0(%in: f32, %out: f32):
      %5 = linalg.index 1 : index
      %6 = arith.index_cast %5 : index to i32
      %7 = arith.index_cast %arg0 : index to i32
      %8 = arith.cmpi slt, %6, %7 : i32
      %9 = linalg.index 0 : index
      %10 = affine.apply #map4()[%9]
      %11 = arith.index_cast %10 : index to i32
      %12 = arith.cmpi slt, %11, %c1_i32 : i32
      %13 = arith.andi %8, %12 : i1
      %14 = arith.minsi %5, %3 : index
      %15 = arith.maxsi %14, %c0 : index
      %16 = arith.minsi %10, %c0 : index
      %17 = arith.maxsi %16, %c0 : index
      %extracted = tensor.extract %arg1[%15, %17] : tensor<?x1xf32>
      %18 = arith.select %13, %extracted, %cst : f32
      %19 = arith.negf %18 : f32
      %20 = arith.minimumf %out, %19 : f32
      linalg.yield %20 : f32
    } -> tensor<7xf32>
    return %4 : tensor<7xf32>
  }
}
