// Weights that are read at constant places of an axis only: each place is a weight of its own, and an operand.
// RUN: heddle-opt %s -split-input-file --split_weights --simplify --canonicalize | FileCheck %s

// A fused projection, of which the second matrix is not read, and a filter of one pixel.
// CHECK-LABEL: module @fused
// CHECK-NOT: heddle.weight @w :
// CHECK-DAG: heddle.weight @w.0 : tensor<4x5xf32> names ["w"] stored [4, 15] part [4, 3, 5] at [-1, 0, -1]
// CHECK-DAG: heddle.weight @w.2 : tensor<4x5xf32> names ["w"] stored [4, 15] part [4, 3, 5] at [-1, 2, -1]
// CHECK-DAG: heddle.weight @filter.0.0 : tensor<5x4xf32> names ["filter"] stored [5, 4, 1, 1] part [5, 4, 1, 1] at [-1, -1, 0, 0]
// CHECK: func.func @run
// CHECK-DAG: %[[Q:.*]] = heddle.get @w.0 : tensor<4x5xf32>
// CHECK-DAG: %[[V:.*]] = heddle.get @w.2 : tensor<4x5xf32>
// CHECK-DAG: %[[F:.*]] = heddle.get @filter.0.0 : tensor<5x4xf32>
// CHECK: ins(%[[Q]], %[[V]], %[[F]]
// CHECK-NOT: tensor.extract
module @fused {
  heddle.weight @w : tensor<4x3x5xf32> names ["w"] stored [4, 15]
  heddle.weight @filter : tensor<5x4x1x1xf32> names ["filter"] stored [5, 4, 1, 1]
  func.func @run() -> (tensor<4x5xf32> {heddle.name = "y"}) attributes {heddle.entry} {
    %w = heddle.get @w : tensor<4x3x5xf32>
    %filter = heddle.get @filter : tensor<5x4x1x1xf32>
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %e = tensor.empty() : tensor<4x5xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x5xf32>) {
    ^bb0(%out: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %q = tensor.extract %w[%i, %c0, %j] : tensor<4x3x5xf32>
      %v = tensor.extract %w[%i, %c2, %j] : tensor<4x3x5xf32>
      %f = tensor.extract %filter[%j, %i, %c0, %c0] : tensor<5x4x1x1xf32>
      %0 = arith.addf %q, %v : f32
      %1 = arith.addf %0, %f : f32
      linalg.yield %1 : f32
    } -> tensor<4x5xf32>
    return %y : tensor<4x5xf32>
  }
}

// -----

// A table that is also looked up stays whole.
// CHECK-LABEL: module @table
// CHECK: heddle.weight @w : tensor<7x5xf32>
// CHECK-NOT: part
module @table {
  heddle.weight @w : tensor<7x5xf32> names ["w"] stored [7, 5]
  func.func @run(%n: tensor<3xindex> {heddle.name = "n"}) -> (tensor<3x5xf32> {heddle.name = "y"}) attributes {heddle.entry} {
    %w = heddle.get @w : tensor<7x5xf32>
    %c0 = arith.constant 0 : index
    %e = tensor.empty() : tensor<3x5xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%n : tensor<3xindex>) outs(%e : tensor<3x5xf32>) {
    ^bb0(%row: index, %out: f32):
      %j = linalg.index 1 : index
      %a = tensor.extract %w[%c0, %j] : tensor<7x5xf32>
      %b = tensor.extract %w[%row, %j] : tensor<7x5xf32>
      %0 = arith.addf %a, %b : f32
      linalg.yield %0 : f32
    } -> tensor<3x5xf32>
    return %y : tensor<3x5xf32>
  }
}
