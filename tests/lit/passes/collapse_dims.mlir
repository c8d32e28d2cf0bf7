// Which loops merge, and what callers do about it.
// RUN: heddle-opt %s -split-input-file --collapse_dims | FileCheck %s

// Rows (b, s) and columns (h, e) merge; a head count of one would disappear. The size that the kernel takes is a product.
// CHECK-LABEL: func.func @project
// CHECK-DAG: %[[M:.*]] = arith.muli %{{.*}}, %{{.*}} : index
// CHECK-DAG: %[[X:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
// CHECK-DAG: %[[W:.*]] = heddle.get @w : tensor<6x8xf32>
// CHECK: %[[Y:.*]] = call @k0(%[[M]], %[[X]], %[[W]])
// CHECK: tensor.expand_shape %[[Y]] {{\[\[}}0, 1], [2, 3]] output_shape [%{{.*}}, %{{.*}}, 2, 3] : tensor<?x6xf32> into tensor<?x?x2x3xf32>
// CHECK: func.func private @k0(%[[D:.*]]: index, %{{.*}}: tensor<?x8xf32> {heddle.extents = affine_map<(d0) -> (d0, 8)>}, %{{.*}}: tensor<6x8xf32> {heddle.extents = affine_map<(d0) -> (6, 8)>}) -> (tensor<?x6xf32> {heddle.extents = #{{.*}}})
// CHECK: tensor.empty(%[[D]]) : tensor<?x6xf32>
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]
module attributes {heddle.dims = [{name = "B"}, {name = "S"}]} {
  heddle.weight @w : tensor<2x3x8xf32> names ["w"] stored [6, 8]
  func.func @project(%x: tensor<?x?x8xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 8)>})
      -> (tensor<?x?x2x3xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 2, 3)>}) attributes {heddle.entry} {
    %B = heddle.dim "B"
    %S = heddle.dim "S"
    %w = heddle.get @w : tensor<2x3x8xf32>
    %y = call @k(%B, %S, %x, %w) : (index, index, tensor<?x?x8xf32>, tensor<2x3x8xf32>) -> tensor<?x?x2x3xf32>
    return %y : tensor<?x?x2x3xf32>
  }
  func.func private @k(%B: index, %S: index, %x: tensor<?x?x8xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 8)>},
                       %w: tensor<2x3x8xf32> {heddle.extents = affine_map<(B, S) -> (2, 3, 8)>})
      -> (tensor<?x?x2x3xf32> {heddle.extents = affine_map<(B, S) -> (B, S, 2, 3)>}) attributes {heddle.kernel = "general"} {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty(%B, %S) : tensor<?x?x2x3xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?x2x3xf32>) -> tensor<?x?x2x3xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(b, s, h, e, d) -> (b, s, d)>, affine_map<(b, s, h, e, d) -> (h, e, d)>, affine_map<(b, s, h, e, d) -> (b, s, h, e)>],
                         iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<?x?x8xf32>, tensor<2x3x8xf32>) outs(%f : tensor<?x?x2x3xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %0 = arith.mulf %a, %b : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<?x?x2x3xf32>
    return %y : tensor<?x?x2x3xf32>
  }
}

// -----

// A body that asks for the number of a loop keeps that loop; its neighbours still merge.
// CHECK: #[[$MAP:.*]] = affine_map<(d0, d1) -> (d1, d0, 20)>
// CHECK-LABEL: func.func @numbered
// CHECK: func.func private @k0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: tensor<?x?x20xf32> {heddle.extents = #[[$MAP]]})
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "parallel"]}
// CHECK: linalg.index 1
module attributes {heddle.dims = [{name = "A"}, {name = "B"}, {name = "S"}]} {
  func.func @numbered(%x: tensor<?x?x?x4x5xf32> {heddle.extents = affine_map<(A, B, S) -> (A, B, S, 4, 5)>})
      -> (tensor<?x?x?x4x5xf32> {heddle.extents = affine_map<(A, B, S) -> (A, B, S, 4, 5)>}) attributes {heddle.entry} {
    %A = heddle.dim "A"
    %B = heddle.dim "B"
    %S = heddle.dim "S"
    %y = call @k(%A, %B, %S, %x) : (index, index, index, tensor<?x?x?x4x5xf32>) -> tensor<?x?x?x4x5xf32>
    return %y : tensor<?x?x?x4x5xf32>
  }
  func.func private @k(%A: index, %B: index, %S: index, %x: tensor<?x?x?x4x5xf32> {heddle.extents = affine_map<(A, B, S) -> (A, B, S, 4, 5)>})
      -> (tensor<?x?x?x4x5xf32> {heddle.extents = affine_map<(A, B, S) -> (A, B, S, 4, 5)>}) attributes {heddle.kernel = "general"} {
    %e = tensor.empty(%A, %B, %S) : tensor<?x?x?x4x5xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, b, s, h, e) -> (a, b, s, h, e)>, affine_map<(a, b, s, h, e) -> (a, b, s, h, e)>],
                         iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
        ins(%x : tensor<?x?x?x4x5xf32>) outs(%e : tensor<?x?x?x4x5xf32>) {
    ^bb0(%v: f32, %out: f32):
      %s = linalg.index 2 : index
      %i = arith.index_cast %s : index to i32
      %p = arith.sitofp %i : i32 to f32
      %0 = arith.addf %v, %p : f32
      linalg.yield %0 : f32
    } -> tensor<?x?x?x4x5xf32>
    return %y : tensor<?x?x?x4x5xf32>
  }
}

// -----

// One head: its loop is dropped. A sum over one element stays a sum.
// CHECK-LABEL: func.func @units
// CHECK: %[[X:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]] : tensor<?x1x1xf32> into tensor<?x1xf32>
// CHECK: %[[Y:.*]] = call @k0(%{{.*}}, %[[X]]) : (index, tensor<?x1xf32>) -> tensor<?xf32>
// CHECK: tensor.expand_shape %[[Y]] {{\[\[}}0, 1]] output_shape [%{{.*}}, 1] : tensor<?xf32> into tensor<?x1xf32>
// CHECK: func.func private @k0
// CHECK: linalg.generic {{.*}}["parallel", "reduction"]
module attributes {heddle.dims = [{name = "B"}]} {
  func.func @units(%x: tensor<?x1x1xf32> {heddle.extents = affine_map<(B) -> (B, 1, 1)>})
      -> (tensor<?x1xf32> {heddle.extents = affine_map<(B) -> (B, 1)>}) attributes {heddle.entry} {
    %B = heddle.dim "B"
    %y = call @k(%B, %x) : (index, tensor<?x1x1xf32>) -> tensor<?x1xf32>
    return %y : tensor<?x1xf32>
  }
  func.func private @k(%B: index, %x: tensor<?x1x1xf32> {heddle.extents = affine_map<(B) -> (B, 1, 1)>})
      -> (tensor<?x1xf32> {heddle.extents = affine_map<(B) -> (B, 1)>}) attributes {heddle.kernel = "general"} {
    %z = arith.constant 0.0 : f32
    %e = tensor.empty(%B) : tensor<?x1xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(b, h, e) -> (b, h, e)>, affine_map<(b, h, e) -> (b, h)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x : tensor<?x1x1xf32>) outs(%f : tensor<?x1xf32>) {
    ^bb0(%v: f32, %acc: f32):
      %0 = arith.addf %acc, %v : f32
      linalg.yield %0 : f32
    } -> tensor<?x1xf32>
    return %y : tensor<?x1xf32>
  }
}
