// A row that is read from its end by vectors which are longer.
// wrong on: x86-64-v4
// sizes: 23
#map2 = affine_map<(d0) -> (8)>
#map6 = affine_map<()[s0] -> (s0 - 1)>
#map7 = affine_map<(d0, d1) -> (d1)>
#map8 = affine_map<(d0, d1) -> (d0)>
#map9 = affine_map<()[s0] -> (s0 mod 5)>
#map10 = affine_map<(d0) -> (d0)>
#map11 = affine_map<()[s0] -> (s0 * 4)>
#map12 = affine_map<()[s0] -> (-s0 + 7)>
module {
  func.func @k1(%arg0: index, %arg1: tensor<5x?xi32> {heddle.extents = affine_map<(d0) -> (5, d0)>}, %arg2: tensor<5x?x8xf32> {heddle.extents = affine_map<(d0) -> (5, d0, 8)>}, %arg3: tensor<8xf32> {heddle.extents = #map2}) -> (tensor<8xf32> {heddle.extents = #map2}) attributes {heddle.kernel = "general", heddle.schedule = [{params = {}, variant = "stages"}]} {
    %c7 = arith.constant 7 : index
    %cst = arith.constant 0.000000e+00 : f32
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c0_i32 = arith.constant 0 : i32
    %c3_i32 = arith.constant 3 : i32
    %cst_0 = arith.constant 0x7F800000 : f32
    %0 = tensor.empty(%arg0) : tensor<?xf32>
    %1 = tensor.empty() : tensor<8xf32>
    %2 = linalg.fill ins(%cst_0 : f32) outs(%1 : tensor<8xf32>) -> tensor<8xf32>
    %3 = affine.apply #map6()[%arg0]
    %4 = linalg.generic {indexing_maps = [#map7, #map8], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<?xf32>) outs(%2 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %6 = linalg.index 1 : index
      %7 = affine.apply #map9()[%6]
      %extracted = tensor.extract %arg1[%7, %6] : tensor<5x?xi32>
      %8 = arith.cmpi eq, %extracted, %c3_i32 : i32
      %9 = arith.index_cast %arg0 : index to i32
      %10 = arith.cmpi sgt, %9, %c0_i32 : i32
      %11 = arith.minsi %7, %c4 : index
      %12 = arith.maxsi %11, %c0 : index
      %13 = arith.minsi %3, %c0 : index
      %14 = arith.maxsi %13, %c0 : index
      %15 = linalg.index 0 : index
      %extracted_1 = tensor.extract %arg2[%12, %14, %15] : tensor<5x?x8xf32>
      %16 = arith.select %10, %extracted_1, %cst : f32
      %17 = arith.select %8, %16, %cst_0 : f32
      %18 = arith.minimumf %out, %17 : f32
      linalg.yield %18 : f32
    } -> tensor<8xf32>
    %5 = linalg.generic {indexing_maps = [#map10, #map10], iterator_types = ["parallel"]} ins(%4 : tensor<8xf32>) outs(%1 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %6 = linalg.index 0 : index
      %7 = affine.apply #map11()[%6]
      %8 = arith.index_cast %7 : index to i32
      %9 = arith.index_cast %arg0 : index to i32
      %10 = arith.cmpi slt, %8, %9 : i32
      %11 = affine.apply #map12()[%6]
      %12 = arith.minsi %11, %c7 : index
      %13 = arith.maxsi %12, %c0 : index
      %extracted = tensor.extract %arg3[%13] : tensor<8xf32>
      %14 = arith.select %10, %extracted, %cst : f32
      %15 = arith.addf %14, %in : f32
      linalg.yield %15 : f32
    } -> tensor<8xf32>
    return %5 : tensor<8xf32>
  }
}
