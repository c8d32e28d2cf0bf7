// The fusion rule, case by case.
// RUN: heddle-opt %s -split-input-file --form_kernels | FileCheck %s

// Attention that is linear in the sequence: k^T v is small, storing it is cheaper than reading q again for each of its rows.
// CHECK-LABEL: @linear_attention
// CHECK-COUNT-2: heddle.kernel(
// CHECK-NOT: heddle.kernel(
#jef = affine_map<(h, e, f, j) -> (h, e, f)>
module @linear_attention attributes {heddle.dims = [{name = "S"}]} {
  func.func @run(%q: tensor<?x4x64xf32> {heddle.extents = affine_map<(S) -> (S, 4, 64)>},
                 %k: tensor<?x4x64xf32> {heddle.extents = affine_map<(S) -> (S, 4, 64)>},
                 %v: tensor<?x4x64xf32> {heddle.extents = affine_map<(S) -> (S, 4, 64)>})
      -> (tensor<?x4x64xf32> {heddle.extents = affine_map<(S) -> (S, 4, 64)>}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %z = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<4x64x64xf32>
    %f0 = linalg.fill ins(%z : f32) outs(%e0 : tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
    %kv = linalg.generic {indexing_maps = [affine_map<(h, e, f, j) -> (j, h, e)>, affine_map<(h, e, f, j) -> (j, h, f)>, #jef],
                          iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%k, %v : tensor<?x4x64xf32>, tensor<?x4x64xf32>) outs(%f0 : tensor<4x64x64xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %0 = arith.mulf %a, %b : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<4x64x64xf32>
    %e1 = tensor.empty(%S) : tensor<?x4x64xf32>
    %f1 = linalg.fill ins(%z : f32) outs(%e1 : tensor<?x4x64xf32>) -> tensor<?x4x64xf32>
    %o = linalg.generic {indexing_maps = [affine_map<(i, h, f, e) -> (i, h, e)>, affine_map<(i, h, f, e) -> (h, e, f)>, affine_map<(i, h, f, e) -> (i, h, f)>],
                         iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%q, %kv : tensor<?x4x64xf32>, tensor<4x64x64xf32>) outs(%f1 : tensor<?x4x64xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %0 = arith.mulf %a, %b : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<?x4x64xf32>
    return %o : tensor<?x4x64xf32>
  }
}

// -----

// A table over columns would be computed again for each row: it is a kernel of its own. The element-wise chain over
// all elements is one kernel, and what the caller wants of its middle is a second result.
// CHECK-LABEL: @broadcast
// CHECK: %[[TABLE:.*]] = heddle.kernel({{.*}}) : (tensor<768xf32>) -> tensor<768xf32>
// CHECK: math.cos
// CHECK: %[[Y:.*]]:2 = heddle.kernel(%{{.*}}, %arg0, %[[TABLE]]) : (index, tensor<?x768xf32>, tensor<768xf32>) -> (tensor<?x768xf32>, tensor<?x768xf32>)
// CHECK: math.exp
// CHECK-NOT: heddle.kernel(
// CHECK: return %[[Y]]#0, %[[Y]]#1
module @broadcast attributes {heddle.dims = [{name = "S"}]} {
  func.func @run(%x: tensor<?x768xf32> {heddle.extents = affine_map<(S) -> (S, 768)>},
                 %t: tensor<768xf32> {heddle.extents = affine_map<(S) -> (768)>})
      -> (tensor<?x768xf32> {heddle.extents = affine_map<(S) -> (S, 768)>}, tensor<?x768xf32> {heddle.extents = affine_map<(S) -> (S, 768)>})
      attributes {heddle.entry} {
    %S = heddle.dim "S"
    %e0 = tensor.empty() : tensor<768xf32>
    %table = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
        ins(%t : tensor<768xf32>) outs(%e0 : tensor<768xf32>) {
    ^bb0(%a: f32, %out: f32):
      %0 = math.cos %a : f32
      linalg.yield %0 : f32
    } -> tensor<768xf32>
    %e1 = tensor.empty(%S) : tensor<?x768xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(s, d) -> (s, d)>, affine_map<(s, d) -> (d)>, affine_map<(s, d) -> (s, d)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%x, %table : tensor<?x768xf32>, tensor<768xf32>) outs(%e1 : tensor<?x768xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32):
      %0 = arith.addf %a, %b : f32
      linalg.yield %0 : f32
    } -> tensor<?x768xf32>
    %z = linalg.generic {indexing_maps = [affine_map<(s, d) -> (s, d)>, affine_map<(s, d) -> (s, d)>], iterator_types = ["parallel", "parallel"]}
        ins(%y : tensor<?x768xf32>) outs(%e1 : tensor<?x768xf32>) {
    ^bb0(%a: f32, %out: f32):
      %0 = math.exp %a : f32
      linalg.yield %0 : f32
    } -> tensor<?x768xf32>
    return %y, %z : tensor<?x768xf32>, tensor<?x768xf32>
  }
}

// -----

// A gate: silu(a) * b of two products. The element-wise work is the epilogue of the later product; the earlier one keeps
// what needs only itself.
// CHECK-LABEL: @gate
// CHECK: %[[A:.*]] = heddle.kernel({{.*}}
// CHECK: linalg.generic
// CHECK: math.tanh
// CHECK: heddle.yield
// CHECK: %[[Y:.*]] = heddle.kernel({{.*}}%[[A]]{{.*}}
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK: heddle.yield
// CHECK-NOT: heddle.kernel(
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn3 = affine_map<(m, n, k) -> (m, n)>
#mn = affine_map<(m, n) -> (m, n)>
module @gate attributes {heddle.dims = [{name = "S"}]} {
  heddle.weight @w0 : tensor<96x64xf32> names ["w0"] stored [96, 64]
  heddle.weight @w1 : tensor<96x64xf32> names ["w1"] stored [96, 64]
  func.func @run(%x: tensor<?x64xf32> {heddle.extents = affine_map<(S) -> (S, 64)>})
      -> (tensor<?x96xf32> {heddle.extents = affine_map<(S) -> (S, 96)>}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %w0 = heddle.get @w0 : tensor<96x64xf32>
    %w1 = heddle.get @w1 : tensor<96x64xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty(%S) : tensor<?x96xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x96xf32>) -> tensor<?x96xf32>
    %a = linalg.generic {indexing_maps = [#mk, #nk, #mn3], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w0 : tensor<?x64xf32>, tensor<96x64xf32>) outs(%f : tensor<?x96xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %0 = arith.mulf %l, %r : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<?x96xf32>
    %t = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<?x96xf32>) outs(%e : tensor<?x96xf32>) {
    ^bb0(%l: f32, %out: f32):
      %0 = math.tanh %l : f32
      linalg.yield %0 : f32
    } -> tensor<?x96xf32>
    %b = linalg.generic {indexing_maps = [#mk, #nk, #mn3], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w1 : tensor<?x64xf32>, tensor<96x64xf32>) outs(%f : tensor<?x96xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %0 = arith.mulf %l, %r : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<?x96xf32>
    %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
        ins(%t, %b : tensor<?x96xf32>, tensor<?x96xf32>) outs(%e : tensor<?x96xf32>) {
    ^bb0(%l: f32, %r: f32, %out: f32):
      %0 = arith.mulf %l, %r : f32
      linalg.yield %0 : f32
    } -> tensor<?x96xf32>
    return %y : tensor<?x96xf32>
  }
}

// -----

// A product whose result is stored anyway is not computed again for what else needs it: x w, and x w + t.
// CHECK-LABEL: @stored_product
// CHECK: %[[P:.*]] = heddle.kernel({{.*}}
// CHECK: heddle.yield
// CHECK: %[[Y:.*]] = heddle.kernel({{.*}}%[[P]]{{.*}}
// CHECK-NOT: "reduction"
// CHECK: return %[[P]], %[[Y]]
#mn = affine_map<(m, n) -> (m, n)>
module @stored_product attributes {heddle.dims = [{name = "S"}]} {
  heddle.weight @w : tensor<96x64xf32> names ["w"] stored [96, 64]
  func.func @run(%x: tensor<?x64xf32> {heddle.extents = affine_map<(S) -> (S, 64)>},
                 %t: tensor<?x96xf32> {heddle.extents = affine_map<(S) -> (S, 96)>})
      -> (tensor<?x96xf32> {heddle.extents = affine_map<(S) -> (S, 96)>},
          tensor<?x96xf32> {heddle.extents = affine_map<(S) -> (S, 96)>}) attributes {heddle.entry} {
    %S = heddle.dim "S"
    %w = heddle.get @w : tensor<96x64xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty(%S) : tensor<?x96xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x96xf32>) -> tensor<?x96xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<?x64xf32>, tensor<96x64xf32>) outs(%f : tensor<?x96xf32>) {
    ^bb0(%l: f32, %r: f32, %acc: f32):
      %0 = arith.mulf %l, %r : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<?x96xf32>
    %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
        ins(%p, %t : tensor<?x96xf32>, tensor<?x96xf32>) outs(%e : tensor<?x96xf32>) {
    ^bb0(%l: f32, %r: f32, %out: f32):
      %0 = arith.addf %l, %r : f32
      linalg.yield %0 : f32
    } -> tensor<?x96xf32>
    return %p, %y : tensor<?x96xf32>, tensor<?x96xf32>
  }
}
