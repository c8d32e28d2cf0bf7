// Tasks with scratch of their own, and scores whose exponentials read the context.
// sizes: 1 24
#map18 = affine_map<(d0, d1) -> (d0, d1, 2, 64)>
#map20 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map21 = affine_map<(d0, d1) -> (d0, 2, d1, 1001)>
#map22 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
#map24 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
#map25 = affine_map<()[s0] -> (s0 + 1600)>
#map26 = affine_map<()[s0] -> (s0 - 1)>
#map27 = affine_map<()[s0] -> (s0 - 1600)>
#map28 = affine_map<()[s0] -> (-s0 + 1600)>
#map29 = affine_map<()[s0, s1] -> (s0 - s1 + 1600)>
#map30 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map31 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @k15(%arg0: index, %arg1: index, %arg3: tensor<?x?x2x64xf32> {heddle.extents = #map18}, %arg4: tensor<?x2x1600x64xf32> {heddle.extents = affine_map<(d0, d1) -> (d0, 2, 1600, 64)>}, %arg5: tensor<?x?x2x64xf32> {heddle.extents = #map18}, %arg6: tensor<?x2x?x1001xf32> {heddle.extents = #map21}, %arg7: tensor<?x2x1600x64xf32> {heddle.extents = affine_map<(d0, d1) -> (d0, 2, 1600, 64)>}, %arg8: tensor<?x?x2x64xf32> {heddle.extents = #map18}) -> (tensor<?x?x2x64xf32> {heddle.extents = #map18}) attributes {heddle.kernel = "attention", heddle.schedule = [{micro_kernel = "fma", params = {at_once = 192 : i64, blocks = 341 : i64, group = 8 : i64, keys = 384 : i64, rows = 12 : i64}, variant = "key_blocks"}]} {
    %arg2 = arith.constant 16 : i32
    %cst = arith.constant 1.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant 8.000000e+00 : f32
    %c1000 = arith.constant 1000 : index
    %c1001_i32 = arith.constant 1001 : i32
    %c0 = arith.constant 0 : index
    %c1599 = arith.constant 1599 : index
    %c1600_i32 = arith.constant 1600 : i32
    %cst_2 = arith.constant 0.000000e+00 : f32
    %0 = affine.apply #map25()[%arg1]
    %1 = tensor.empty(%arg0, %arg1, %0) : tensor<?x2x?x?xf32>
    %2 = linalg.fill ins(%cst_2 : f32) outs(%1 : tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
    %3 = affine.apply #map26()[%arg1]
    %4 = linalg.generic {indexing_maps = [#map22, #map24], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg3 : tensor<?x?x2x64xf32>) outs(%2 : tensor<?x2x?x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = linalg.index 3 : index
      %18 = arith.index_cast %17 : index to i32
      %19 = arith.cmpi slt, %18, %c1600_i32 : i32
      %20 = linalg.index 0 : index
      %21 = linalg.index 1 : index
      %22 = arith.minsi %17, %c1599 : index
      %23 = arith.maxsi %22, %c0 : index
      %24 = linalg.index 4 : index
      %extracted = tensor.extract %arg4[%20, %21, %23, %24] : tensor<?x2x1600x64xf32>
      %25 = affine.apply #map27()[%17]
      %26 = arith.minsi %25, %3 : index
      %27 = arith.maxsi %26, %c0 : index
      %extracted_3 = tensor.extract %arg5[%20, %27, %21, %24] : tensor<?x?x2x64xf32>
      %28 = arith.select %19, %extracted, %extracted_3 : f32
      %29 = arith.mulf %in, %28 : f32
      %30 = arith.addf %out, %29 : f32
      linalg.yield %30 : f32
    } -> tensor<?x2x?x?xf32>
    %5 = linalg.generic {indexing_maps = [#map20, #map20], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%4 : tensor<?x2x?x?xf32>) outs(%1 : tensor<?x2x?x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = linalg.index 3 : index
      %18 = arith.index_cast %17 : index to i32
      %19 = linalg.index 2 : index
      %20 = affine.apply #map25()[%19]
      %21 = arith.index_cast %20 : index to i32
      %22 = arith.cmpi sle, %18, %21 : i32
      %23 = arith.index_cast %arg2 : i32 to index
      %24 = affine.apply #map28()[%23]
      %25 = arith.index_cast %24 : index to i32
      %26 = arith.cmpi sle, %25, %18 : i32
      %27 = arith.andi %22, %26 : i1
      %28 = arith.index_cast %19 : index to i32
      %29 = arith.cmpi slt, %28, %18 : i32
      %30 = arith.andi %27, %29 : i1
      %31 = affine.apply #map29()[%19, %17]
      %32 = arith.index_cast %31 : index to i32
      %33 = arith.cmpi slt, %32, %c1001_i32 : i32
      %34 = linalg.index 0 : index
      %35 = linalg.index 1 : index
      %36 = arith.minsi %31, %c1000 : index
      %37 = arith.maxsi %36, %c0 : index
      %extracted = tensor.extract %arg6[%34, %35, %19, %37] : tensor<?x2x?x1001xf32>
      %extracted_3 = tensor.extract %arg6[%34, %35, %19, %c1000] : tensor<?x2x?x1001xf32>
      %38 = arith.select %33, %extracted, %extracted_3 : f32
      %39 = arith.addf %in, %38 : f32
      %40 = arith.divf %39, %cst_1 : f32
      %41 = arith.select %30, %40, %cst_0 : f32
      linalg.yield %41 : f32
    } -> tensor<?x2x?x?xf32>
    %6 = tensor.empty(%arg0, %arg1) : tensor<?x2x?xf32>
    %7 = linalg.fill ins(%cst_0 : f32) outs(%6 : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
    %8 = linalg.generic {indexing_maps = [#map20, #map30], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%5 : tensor<?x2x?x?xf32>) outs(%7 : tensor<?x2x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.maximumf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<?x2x?xf32>
    %9 = linalg.generic {indexing_maps = [#map31, #map31], iterator_types = ["parallel", "parallel", "parallel"]} ins(%8 : tensor<?x2x?xf32>) outs(%6 : tensor<?x2x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.cmpf oeq, %in, %cst_0 : f32
      %18 = arith.select %17, %cst_2, %in : f32
      linalg.yield %18 : f32
    } -> tensor<?x2x?xf32>
    %10 = linalg.generic {indexing_maps = [#map20, #map30, #map20], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5, %9 : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%1 : tensor<?x2x?x?xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %17 = arith.subf %in, %in_3 : f32
      %18 = math.exp %17 : f32
      linalg.yield %18 : f32
    } -> tensor<?x2x?x?xf32>
    %11 = linalg.fill ins(%cst_2 : f32) outs(%6 : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
    %12 = linalg.generic {indexing_maps = [#map20, #map30], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%10 : tensor<?x2x?x?xf32>) outs(%11 : tensor<?x2x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.addf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<?x2x?xf32>
    %13 = linalg.generic {indexing_maps = [#map20, #map30, #map20], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10, %12 : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%1 : tensor<?x2x?x?xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %17 = arith.maximumf %in_3, %cst : f32
      %18 = arith.divf %in, %17 : f32
      linalg.yield %18 : f32
    } -> tensor<?x2x?x?xf32>
    %14 = tensor.empty(%arg0, %arg1) : tensor<?x?x2x64xf32>
    %15 = linalg.fill ins(%cst_2 : f32) outs(%14 : tensor<?x?x2x64xf32>) -> tensor<?x?x2x64xf32>
    %16 = linalg.generic {indexing_maps = [#map22, #map24], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%13 : tensor<?x2x?x?xf32>) outs(%15 : tensor<?x?x2x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = linalg.index 4 : index
      %18 = arith.index_cast %17 : index to i32
      %19 = arith.cmpi slt, %18, %c1600_i32 : i32
      %20 = linalg.index 0 : index
      %21 = linalg.index 2 : index
      %22 = arith.minsi %17, %c1599 : index
      %23 = arith.maxsi %22, %c0 : index
      %24 = linalg.index 3 : index
      %extracted = tensor.extract %arg7[%20, %21, %23, %24] : tensor<?x2x1600x64xf32>
      %25 = affine.apply #map27()[%17]
      %26 = arith.minsi %25, %3 : index
      %27 = arith.maxsi %26, %c0 : index
      %extracted_3 = tensor.extract %arg8[%20, %27, %21, %24] : tensor<?x?x2x64xf32>
      %28 = arith.select %19, %extracted, %extracted_3 : f32
      %29 = arith.mulf %in, %28 : f32
      %30 = arith.addf %out, %29 : f32
      linalg.yield %30 : f32
    } -> tensor<?x?x2x64xf32>
    return %16 : tensor<?x?x2x64xf32>
  }
}
