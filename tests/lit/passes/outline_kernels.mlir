// Regions become functions; two that differ only in their operands become one; shapes are written down.
// RUN: heddle-opt %s --outline_kernels | FileCheck %s

// CHECK: func.func @run
// CHECK: %[[S:.*]] = heddle.dim "S"
// CHECK: %[[A:.*]] = call @k0(%[[S]], %arg0) : (index, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK: %[[B:.*]] = call @k0(%[[S]], %[[A]])
// CHECK: %[[C:.*]] = call @k1(%[[S]], %[[B]])
// CHECK: return %[[C]]
// CHECK: func.func private @k0(%{{.*}}: index, %{{.*}}: tensor<?x4xf32> {heddle.extents = #[[MAP:.*]]}) -> (tensor<?x4xf32> {heddle.extents = #[[MAP]]}) attributes {heddle.kernel = "general"}
// CHECK: math.exp
// CHECK: func.func private @k1(
// CHECK: math.cos
// CHECK-NOT: func.func
#map = affine_map<(s, d) -> (s, d)>
#map1 = affine_map<(s) -> (s, 4)>
module attributes {heddle.dims = [{name = "S"}]} {
  func.func @run(%x: tensor<?x4xf32> {heddle.extents = #map1}) -> (tensor<?x4xf32> {heddle.extents = #map1}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %a = heddle.kernel(%S, %x) : (index, tensor<?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%s: index, %in: tensor<?x4xf32>):
      %e = tensor.empty(%s) : tensor<?x4xf32>
      %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
      ^bb0(%v: f32, %out: f32):
        %0 = math.exp %v : f32
        linalg.yield %0 : f32
      } -> tensor<?x4xf32>
      heddle.yield %y : tensor<?x4xf32>
    }
    %b = heddle.kernel(%S, %a) : (index, tensor<?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%s: index, %in: tensor<?x4xf32>):
      %e = tensor.empty(%s) : tensor<?x4xf32>
      %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
      ^bb0(%v: f32, %out: f32):
        %0 = math.exp %v : f32
        linalg.yield %0 : f32
      } -> tensor<?x4xf32>
      heddle.yield %y : tensor<?x4xf32>
    }
    %c = heddle.kernel(%S, %b) : (index, tensor<?x4xf32>) -> tensor<?x4xf32> {
    ^bb0(%s: index, %in: tensor<?x4xf32>):
      %e = tensor.empty(%s) : tensor<?x4xf32>
      %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
      ^bb0(%v: f32, %out: f32):
        %0 = math.cos %v : f32
        linalg.yield %0 : f32
      } -> tensor<?x4xf32>
      heddle.yield %y : tensor<?x4xf32>
    }
    return %c : tensor<?x4xf32>
  }
}
