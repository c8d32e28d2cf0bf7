// The dialect's text form is read back as it was written.
// RUN: heddle-opt %s | heddle-opt | FileCheck %s

// CHECK: module @m attributes {heddle.dims = [{most = 64 : i64, name = "B"}, {name = "S"}]}
module @m attributes {heddle.dims = [{name = "B", most = 64 : i64}, {name = "S"}]} {
  // CHECK: heddle.weight @w0 : tensor<4x3xf32> names ["bert.w", "w"] stored [12]
  heddle.weight @w0 : tensor<4x3xf32> names ["bert.w", "w"] stored [12]
  // CHECK: heddle.weight @w1 : tensor<4x3xf32> names ["w1"] stored [4, 3] layout <(d0, d1) -> (d0 floordiv 48, d1, d0 mod 48)>
  heddle.weight @w1 : tensor<4x3xf32> names ["w1"] stored [4, 3] layout <(n, k) -> (n floordiv 48, k, n mod 48)>

  // CHECK: func.func @encode(%{{.*}}: tensor<?x?xi32> {heddle.extents = affine_map<(d0, d1) -> (d0, d1)>, heddle.name = "ids"})
  func.func @encode(%ids: tensor<?x?xi32> {heddle.extents = affine_map<(B, S) -> (B, S)>, heddle.name = "ids"})
      -> tensor<?x4xf32> attributes {heddle.entry} {
    // CHECK: heddle.dim "B"
    %B = heddle.dim "B"
    // CHECK: heddle.get @w0 : tensor<12xf32>
    %flat = heddle.get @w0 : tensor<12xf32>
    // CHECK: heddle.get @w1 : tensor<4x3xf32>
    %w = heddle.get @w1 : tensor<4x3xf32>
    // CHECK: heddle.kernel(%{{.*}}, %{{.*}}) : (index, tensor<12xf32>) -> tensor<?x4xf32> {
    %y = heddle.kernel(%B, %flat) : (index, tensor<12xf32>) -> tensor<?x4xf32> {
    // CHECK: ^bb0(%{{.*}}: index, %{{.*}}: tensor<12xf32>):
    ^bb0(%b: index, %f: tensor<12xf32>):
      %e = tensor.empty(%b) : tensor<?x4xf32>
      // CHECK: heddle.yield %{{.*}} : tensor<?x4xf32>
      heddle.yield %e : tensor<?x4xf32>
    }
    return %y : tensor<?x4xf32>
  }

  // CHECK: func.func private @k0(%{{.*}}: tensor<4x3xf32> {heddle.layout = #heddle.layout<(d0, d1) -> (d0 floordiv 32, d1 floordiv 2, d0 mod 32, d1 mod 2)>})
  func.func private @k0(%w: tensor<4x3xf32> {heddle.layout = #heddle.layout<(n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)>}) -> tensor<4x3xf32>
      attributes {heddle.kernel = "contraction", heddle.schedule = [{variant = "rows", params = {rows = 8 : i64}}]} {
    return %w : tensor<4x3xf32>
  }
}
